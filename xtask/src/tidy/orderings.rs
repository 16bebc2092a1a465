//! Every ordering stronger than Relaxed names the operation it pairs with.

use super::{Breach, Page};
use crate::source::{Source, words};
use std::collections::HashSet;

/// The orderings that promise something.
pub(crate) const STRONG: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];

/// How far above the ordering its comment may stand.
const REACH: usize = 6;

pub(crate) fn named(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for page in pages.iter().filter(|page| page.in_library()) {
        let Some(source) = &page.rust else { continue };
        let comments: Vec<&str> = source.comments.lines().collect();
        for (at, word) in strong(source) {
            let line = source.line_of(at);
            let nearby = comments[line.saturating_sub(REACH)..=line].join(" ");
            let says = |mark: &str| nearby.contains(mark);
            if !(says("pairs") || says("Acquire:") || says("Release:")) {
                let what = format!("{word} without its pair: say what it pairs with and what that publishes");
                breaches.push(Breach::at(&page.path, line, what));
            }
        }
    }
    breaches
}

/// The strong orderings a file uses, tests and imports left out.
pub(crate) fn strong(source: &Source) -> Vec<(usize, &str)> {
    let (uses, tests) = (source.uses(), source.test_lines());
    let imported: HashSet<&str> = uses
        .iter()
        .map(|span| &source.bare[span.clone()])
        .filter(|text| ["Ordering", "atomic", "shim"].iter().any(|origin| text.contains(origin)))
        .flat_map(|text| if text.contains("Ordering::*") { STRONG.to_vec() } else { idents(text) })
        .collect();
    words(&source.bare)
        .filter(|(at, word)| {
            let before = source.bare[..*at].trim_end();
            let qualified = before.ends_with("Ordering::");
            let after = source.bare[at + word.len()..].trim_start();
            // A type or a module may have the same name.
            let plain =
                imported.contains(word) && !before.ends_with("::") && !after.starts_with(['<', ':', '{']);
            STRONG.contains(word)
                && (qualified || plain)
                && !uses.iter().any(|span| span.contains(at))
                && !tests[source.line_of(*at)]
        })
        .collect()
}

fn idents(text: &str) -> Vec<&str> {
    words(text).map(|(_, word)| word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "
use crate::shim::atomic::Ordering::{self, Acquire, Relaxed};
pub type Release<'a> = Wait<ReleaseOp<'a>>;
fn a() {
    // Acquire: pairs with Release in b.
    word.load(Acquire);
    word.load(Relaxed);
    word.store(1, Ordering::Release); // pairs with Acquire in a
    let x = 1;
    let x = 2;
    let x = 3;
    let x = 4;
    let x = 5;
    let x = 6;
    word.store(1, Ordering::Release);
}
#[cfg(test)]
mod tests {
    fn b() { word.load(Acquire); }
}
";

    #[test]
    fn imports_types_and_tests_are_no_uses() {
        let source = Source::new(SAMPLE);
        let found: Vec<&str> = strong(&source).into_iter().map(|(_, word)| word).collect();
        assert_eq!(found, ["Acquire", "Release", "Release"]);
    }

    #[test]
    fn a_bare_ordering_is_a_breach() {
        let breaches = named(&[Page::new("crates/tasuki/src/a.rs", SAMPLE)]);
        assert_eq!(breaches.iter().map(|breach| breach.line).collect::<Vec<_>>(), [15]);
        assert!(named(&[Page::new("lab/src/a.rs", SAMPLE)]).is_empty());
    }
}
