//! The language of the sources: actors have names, words are those of the field, and the keys of requirements stay in tests.

use super::{Breach, Page};
use crate::source::words;

/// Words that name no actor. Cut in two so that this file does not break its own rule.
const NAMELESS: [&str; 5] = [
    concat!("some", "body"),
    concat!("no", "body"),
    concat!("who", "ever"),
    concat!("every", "body"),
    concat!("any", "body"),
];

/// Words of a private language, and the word of the field that CONTRIBUTING's table has instead. As whole words, in comments and documents.
const PRIVATE: [(&str, &str); 15] = [
    ("an edit", "a locked section: the queue is locked and unlocked"),
    ("the edit", "the locked section"),
    ("one edit", "one locked section"),
    ("the editor", "the holder of the queue lock"),
    ("an editor", "a holder of the queue lock"),
    ("kin", "and the others"),
    ("office", "role"),
    ("ledger", "counts"),
    ("census", "counts"),
    ("those who", "waiters, callers, tasks"),
    ("one who", "a waiter, the holder, a caller"),
    ("whom", "which: waiters are not persons"),
    ("face of", "what it is"),
    ("the door", "say what is accepted or refused"),
    ("the bell", "the condition variable, the waker"),
];

pub(crate) fn actors(pages: &[Page]) -> Vec<Breach> {
    let nameless = |line: &str| {
        let line = line.to_lowercase();
        NAMELESS.iter().any(|word| line.contains(word))
            && line.split(|c: char| !c.is_alphabetic()).any(|word| NAMELESS.contains(&word))
    };
    const WHAT: &str = "names no actor: say waiter, holder, releaser, newcomer, worker, caller";
    breaches(pages.iter(), nameless, WHAT)
}

/// The comments of the libraries, of their tests and models, and of the lab, and the documents use the words of the field.
pub(crate) fn private_words(pages: &[Page]) -> Vec<Breach> {
    let document = |page: &Page| page.path.ends_with(".md") && page.path != "CHANGELOG.md";
    let mut breaches = Vec::new();
    let source = |page: &Page| page.rust.is_some() && !page.path.starts_with("xtask/");
    for page in pages.iter().filter(|page| document(page) || source(page)) {
        for (number, line) in page.text.lines().enumerate() {
            let prose =
                if page.rust.is_some() { line.split_once("//").map_or("", |(_, rest)| rest) } else { line };
            // Documents may speak of files that are changed by hand.
            let applies = |word: &str| page.rust.is_some() || !word.ends_with("edit");
            let found = PRIVATE.iter().find(|(word, _)| applies(word) && has_words(prose, word));
            let Some((word, better)) = found else { continue };
            breaches.push(Breach::at(&page.path, number, format!("{word:?} is our own word: {better}")));
        }
    }
    breaches
}

/// The words stand in the text, in lower case and not as a part of others.
fn has_words(text: &str, wanted: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '`');
    text.match_indices(wanted).any(|(at, _)| {
        !part(text[..at].chars().next_back()) && !part(text[at + wanted.len()..].chars().next())
    })
}

pub(crate) fn keys(pages: &[Page]) -> Vec<Breach> {
    let library = pages.iter().filter(|page| page.in_library());
    breaches(library, has_key, "has the key of a requirement: keys are for tests and docs/seeds.md")
}

/// `S2-60`, `B123`, `H15`, `R11-7`.
fn has_key(line: &str) -> bool {
    words(line).any(|(at, word)| {
        let Some(number) = word.strip_prefix(['S', 'B', 'H', 'R']) else { return false };
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let after = &line[at + word.len()..];
        let row = after.starts_with('-') && after[1..].starts_with(|c: char| c.is_ascii_digit());
        digits
            && (row
                || (number.len() == 3 && word.starts_with('B'))
                || (number.len() < 3 && word.starts_with('H')))
    })
}

/// A breach for each line that is bad.
fn breaches<'p>(
    pages: impl Iterator<Item = &'p Page>,
    bad: impl Fn(&str) -> bool,
    what: &str,
) -> Vec<Breach> {
    let lines = pages.flat_map(|page| page.text.lines().enumerate().map(move |line| (page, line)));
    let bad = lines.filter(|(_, (_, line))| bad(line));
    bad.map(|(page, (number, _))| Breach::at(&page.path, number, what)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_field_are_used() {
        let found = |path: &str, text: &str| private_words(&[Page::new(path, text)]).len();
        assert_eq!(
            found(
                "crates/tasuki/src/a.rs",
                "// in one edit\nlet edit = 1;\n// the `edit` bit, credit, EDIT\n"
            ),
            1
        );
        assert_eq!(found("docs/a.md", "those who wait\nedition\n"), 1);
        assert_eq!(found("xtask/src/a.rs", "// an edit\n"), 0);
    }

    #[test]
    fn keys_are_told_from_other_words() {
        for line in ["// S2-60: a", "(B123)", "H15,", "H3: wakers", "R11-7"] {
            assert!(has_key(line), "{line}");
        }
        for line in ["S2", "B12", "HASH", "x86", "H", "BYTES", "SHA-256", "S0"] {
            assert!(!has_key(line), "{line}");
        }
    }

    #[test]
    fn a_line_without_an_actor_and_a_key_are_seen() {
        let nameless = format!("// {} waits.\n// A waiter.\nfn {}_waits() {{}}\n", NAMELESS[1], NAMELESS[3]);
        assert_eq!(actors(&[Page::new("lab/src/a.rs", &nameless)]).len(), 2);
        let keyed = "// B123\n// a word\n// S2-60\n";
        assert_eq!(keys(&[Page::new("crates/tasuki/src/a.rs", keyed)]).len(), 2);
        assert_eq!(keys(&[Page::new("crates/tasuki/tests/a.rs", keyed)]).len(), 0);
    }
}
