//! Where the library can be weakened: one site for each ordering and weaker ordering, one for each fence.

use super::copy::weakened;
use crate::model::Suite;
use crate::source::{Source, balanced, words};
use crate::tidy::orderings::{STRONG, strong};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Names of files that are left out: the atomics of the models themselves, and what holds no protocol, the thin layer over `inspect/` and unit tests.
const LEFT_OUT: [&str; 4] = ["shim.rs", "dependent.rs", "notes.rs", "tests.rs"];

const RELAXED: &str = "core::sync::atomic::Ordering::Relaxed";

/// A remark beside the code that a mutant survives.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mark {
    /// File and first line of the comment.
    place: (String, usize),
    /// It names this very mutation, so this very mutation must survive.
    pub(crate) named: bool,
}

/// One mutant: what is replaced by what, where.
#[derive(Debug, Default)]
pub(crate) struct Site {
    /// From the root of the workspace.
    pub(crate) file: String,
    /// The whole file, unharmed.
    pub(crate) text: Arc<str>,
    /// From 1.
    pub(crate) line: usize,
    pub(crate) span: Range<usize>,
    pub(crate) replacement: String,
    /// As in `AcqRel->Acquire`.
    pub(crate) mutation: String,
    pub(crate) mark: Option<Mark>,
    /// The line without its comment, and which of its equals it is: stays the same when lines move.
    pub(crate) key: u64,
}

impl Site {
    /// The file or folder of `src/` it is in, as a module.
    pub(crate) fn module(&self) -> &str {
        let (_, inside) = self.file.split_once("/src/").unwrap_or_default();
        inside.split(['/', '.']).next().unwrap_or_default()
    }

    pub(crate) fn name(&self) -> String {
        format!("{}:{} {}", self.file, self.line, self.mutation)
    }
}

/// All sites of what a suite's models have, under `root`.
pub(crate) fn find(root: &Path, suite: &Suite) -> Result<Vec<Site>, String> {
    let mut sites = Vec::new();
    for file in weakened(root, suite)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if !name.ends_with(".rs") || LEFT_OUT.contains(&name.as_ref()) {
            continue;
        }
        let text = std::fs::read_to_string(root.join(&file))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        let path = file.to_string_lossy().replace('\\', "/");
        sites.extend(in_file(&path, &Source::new(&text)));
    }
    Ok(sites)
}

fn in_file(path: &str, source: &Source) -> Vec<Site> {
    let fences = fences(source);
    let mut edits: Vec<(Range<usize>, String, String)> = Vec::new();
    for span in &fences {
        edits.push((span.clone(), "()".to_owned(), "fence->nothing".to_owned()));
    }
    for (at, word) in strong(source) {
        if fences.iter().any(|fence| fence.contains(&at)) {
            continue;
        }
        let qualified = source.bare[..at].trim_end().ends_with("::");
        for &weaker in weaker(word) {
            let path = RELAXED.replace("Relaxed", weaker);
            let replacement = if qualified { weaker.to_owned() } else { path };
            edits.push((at..at + word.len(), replacement, format!("{word}->{weaker}")));
        }
    }
    edits.sort_by_key(|(span, ..)| span.start);

    let code: Vec<&str> = source.code.lines().collect();
    let text: Arc<str> = source.text.as_str().into();
    let mut equals = HashMap::new();
    let mut site = |(span, replacement, mutation): (Range<usize>, String, String)| {
        let line = source.line_of(span.start);
        let count = equals.entry((code[line].trim(), mutation.clone())).or_insert(0_usize);
        *count += 1;
        let mut hasher = DefaultHasher::new();
        (path, code[line].trim(), &mutation, *count).hash(&mut hasher);
        let mark = mark(path, source, line, &mutation);
        let key = hasher.finish();
        Site {
            file: path.to_owned(),
            text: text.clone(),
            line: line + 1,
            span,
            replacement,
            mutation,
            mark,
            key,
        }
    };
    edits.into_iter().map(&mut site).collect()
}

/// What is weaker than an ordering, one step or all the way.
fn weaker(word: &str) -> &'static [&'static str] {
    debug_assert!(STRONG.contains(&word));
    if word == "AcqRel" { &["Relaxed", "Acquire", "Release"] } else { &["Relaxed"] }
}

/// The calls of `fence`, with their paths. A fence cannot be Relaxed: it is dropped.
fn fences(source: &Source) -> Vec<Range<usize>> {
    let tests = source.test_lines();
    let path = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':');
    let call = |(at, word): (usize, &str)| {
        let before = source.bare[..at].trim_end();
        let called = source.bare[at + word.len()..].starts_with('(');
        if word != "fence" || !called || before.ends_with("fn") || tests[source.line_of(at)] {
            return None;
        }
        let start = source.bare[..at].trim_end_matches(path).len();
        Some(start..balanced(&source.bare, at)?.end)
    };
    words(&source.bare).filter_map(call).collect()
}

/// The remark that covers a mutation on a line, if there is one.
fn mark(path: &str, source: &Source, line: usize, mutation: &str) -> Option<Mark> {
    const REMARK: &str = "mutant: survives";
    let (first, comment) = source.comment_on(line);
    let place = (path.to_owned(), first);
    for (at, _) in comment.match_indices(REMARK) {
        let rest = comment[at + REMARK.len()..].trim_start();
        match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            None => return Some(Mark { place, named: false }),
            Some((names, _)) if names.split(',').any(|name| name.trim() == mutation) => {
                return Some(Mark { place, named: true });
            }
            Some(_) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "
use crate::shim::atomic::{fence, Ordering::{self, Acquire, AcqRel}};
fn a() {
    word.load(Acquire); // Acquire in prose
    // mutant: survives: the fence does it.
    word.store(1, Ordering::Release);
    // mutant: survives [Acquire->Relaxed]: the failure is retried.
    word.compare_exchange(
        1,
        2,
        AcqRel,
        Acquire,
    );
    atomic::fence(Ordering::SeqCst);
    word.load(Acquire);
}
";

    #[test]
    fn every_ordering_is_weakened_and_every_fence_dropped() {
        let sites = in_file("a.rs", &Source::new(SAMPLE));
        let found: Vec<(usize, &str, bool)> =
            sites.iter().map(|site| (site.line, site.mutation.as_str(), site.mark.is_some())).collect();
        let wanted = [
            (4, "Acquire->Relaxed", false),
            (6, "Release->Relaxed", true),
            (11, "AcqRel->Relaxed", false),
            (11, "AcqRel->Acquire", false),
            (11, "AcqRel->Release", false),
            (12, "Acquire->Relaxed", true),
            (14, "fence->nothing", false),
            (15, "Acquire->Relaxed", false),
        ];
        assert_eq!(found, wanted);
        let mut keys: Vec<u64> = sites.iter().map(|site| site.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), sites.len(), "each mutant has a key of its own");
    }

    #[test]
    fn replacements_are_code() {
        let sites = in_file("a.rs", &Source::new(SAMPLE));
        let mutated = |at: usize| {
            let site: &Site = &sites[at];
            let mut text = SAMPLE.to_owned();
            text.replace_range(site.span.clone(), &site.replacement);
            text.lines().nth(site.line - 1).unwrap().trim().to_owned()
        };
        assert_eq!(mutated(0), format!("word.load({RELAXED}); // Acquire in prose"));
        assert_eq!(mutated(1), "word.store(1, Ordering::Relaxed);");
        assert_eq!(mutated(6), "();");
    }

    #[test]
    fn keys_do_not_depend_on_comments_or_place() {
        let key = |text: &str| in_file("a.rs", &Source::new(text))[0].key;
        let one = "fn a() { w.load(Ordering::Acquire) }";
        assert_eq!(key(one), key("\n// moved\nfn a() { w.load(Ordering::Acquire) } // said\n"));
        assert_ne!(key(one), key("fn a() { v.load(Ordering::Acquire) }"));
    }
}
