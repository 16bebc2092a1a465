//! Every ordering stronger than Relaxed names the operation it pairs with.

use super::{Breach, Page};
use crate::source::{Source, balanced, words};
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

/// "Release in `Slot::put`", in a document or a comment of a library: the function is there and has such an ordering, or a fence.
pub(crate) fn told(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for page in pages {
        let is_document = page.path.starts_with("docs/") && page.path.ends_with(".md");
        let is_apart = page.path.starts_with("docs/decisions/");
        for (line, text) in page.text.lines().enumerate().filter(|_| !is_apart) {
            if is_document || page.in_library() && text.trim_start().starts_with("//") {
                for (ordering, function) in claims(text) {
                    if !performs(pages, page, ordering, function) {
                        let what = format!("there is no {ordering} in a function `{function}`");
                        breaches.push(Breach::at(&page.path, line, what));
                    }
                }
            }
        }
    }
    breaches
}

/// The orderings that a line tells of, each with the name of its function: `Acquire in [`Entry::look`]`, `fence A in `cover``, `Release of [`Event::set`]`.
fn claims(text: &str) -> Vec<(&str, &str)> {
    let mut claims = Vec::new();
    for (at, _) in text.match_indices(" in ").chain(text.match_indices(" of [")) {
        let before = text[..at].trim_end();
        let mut words = before.rsplit(' ').map(|word| word.trim_start_matches(['(', '`', '|']));
        let last = words.next().unwrap_or_default();
        let is_letter = last.len() == 1 && last.starts_with(|c: char| c.is_ascii_uppercase());
        let ordering = match words.next() {
            _ if STRONG.contains(&last) => last,
            Some("fence" | "Fence") if is_letter => "fence",
            _ => continue,
        };
        let after = text[at + 4..].trim_start_matches("its ").trim_start_matches("both ");
        let Some(path) = after.trim_start_matches('[').strip_prefix('`') else { continue };
        let path = path.split('`').next().unwrap_or_default();
        claims.push((ordering, path.rsplit("::").next().unwrap_or(path)));
    }
    claims
}

/// Has a function of that name such an ordering? One of the same file, if there is one.
fn performs(pages: &[Page], page: &Page, ordering: &str, function: &str) -> bool {
    let stronger: &[&str] = if ordering == "fence" { &["fence("] } else { &[ordering, "AcqRel", "SeqCst"] };
    let own = page.rust.as_ref().map_or_else(Vec::new, |source| bodies(source, function));
    let has = |body: &&str| stronger.iter().any(|word| body.contains(word));
    if !own.is_empty() {
        return own.iter().any(has);
    }
    let sources = pages.iter().filter(|page| page.in_library()).filter_map(|page| page.rust.as_ref());
    sources.flat_map(|source| bodies(source, function)).any(|body| has(&body))
}

/// The bodies of the functions of that name, without comments.
fn bodies<'s>(source: &'s Source, function: &str) -> Vec<&'s str> {
    let definition = format!("fn {function}");
    let ends = |at: usize| {
        !source.bare[at + definition.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
    };
    let starts = source.bare.match_indices(&definition).map(|(at, _)| at).filter(|at| ends(*at));
    let body = |at: usize| {
        let brace = at + source.bare[at..].find('{')?;
        Some(&source.bare[balanced(&source.bare, brace)?])
    };
    starts.filter_map(body).collect()
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

    #[test]
    fn what_is_told_of_an_ordering_is_so() {
        let code = "//! Release in [`Slot::put`] pairs with Acquire in `take`; fence A in `cover`.\nfn put() { store(Release); }\nfn take() { swap(AcqRel); }\nfn cover() { fence(SeqCst); }\n";
        assert_eq!(told(&[Page::new("crates/tasuki/src/a.rs", code)]), []);
        let weak = code.replace("store(Release)", "store(Relaxed)").replace("fence(SeqCst)", "look()");
        assert_eq!(told(&[Page::new("crates/tasuki/src/a.rs", &weak)]).len(), 2);
        let page = |text: &str| [Page::new("crates/tasuki/src/a.rs", code), Page::new("docs/a.md", text)];
        assert_eq!(told(&page("| Release in `Slot::put` | Acquire in its `Slot::take` |\n")), []);
        assert_eq!(told(&page("Release of [`Slot::put`] pairs with Acquire of [`Slot::put`](x)\n")).len(), 1);
        assert_eq!(told(&page("| Release in `Slot::take_all` | Acquire in `Slot::put` |\n")).len(), 2);
    }
}
