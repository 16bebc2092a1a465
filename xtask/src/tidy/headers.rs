//! What a reader relies on before the code: every file begins with a sentence, the page of every primitive has the same sections, and a function that is called slow is out of line.

use super::{Breach, Page, library, text};
use crate::source::words;

/// Every Rust file says what it is for, in its first line, and not by a key alone.
pub(crate) fn first_lines(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for page in pages.iter().filter(|page| page.rust.is_some()) {
        let first = page.text.lines().next().unwrap_or_default();
        let problem = match first.strip_prefix("//! ") {
            None => "begins without a sentence on what it is for (`//! ..`)",
            Some(sentence) if is_key(sentence) => {
                "begins with a key: begin with a sentence, the key may end it"
            }
            Some(_) => continue,
        };
        breaches.push(Breach::at(&page.path, 0, problem));
    }
    breaches
}

/// "S3-29: ..", "H3 on ..", "B127, ..": a capital letter and a number.
fn is_key(sentence: &str) -> bool {
    let word = sentence.split([' ', ':', ',']).next().unwrap_or_default();
    let number = word.strip_prefix(['S', 'H', 'B']).unwrap_or_default();
    !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '-')
}

/// The primitives, each with the file of its page: what tasks wait for, and what a user has to know of it.
const PRIMITIVES: [(&str, &str); 13] = [
    ("Barrier", "crates/tasuki/src/barrier.rs"),
    ("CancellationSource", "crates/tasuki/src/cancellation/source.rs"),
    ("CancellationToken", "crates/tasuki/src/cancellation/token.rs"),
    ("Condvar", "crates/tasuki/src/condvar/mod.rs"),
    ("Event", "crates/tasuki/src/event.rs"),
    ("Latch", "crates/tasuki/src/latch.rs"),
    ("LoopMutex", "crates/tasuki-rt/src/loop_mutex.rs"),
    ("Mutex", "crates/tasuki/src/mutex/mod.rs"),
    ("OnceCell", "crates/tasuki/src/once_cell/mod.rs"),
    ("ReentrantMutex", "crates/tasuki/src/reentrant.rs"),
    ("RwLock", "crates/tasuki/src/rwlock/mod.rs"),
    ("Semaphore", "crates/tasuki/src/semaphore/mod.rs"),
    ("WaitGroup", "crates/tasuki/src/wait_group.rs"),
];

/// Channels have their sections on the page of the module.
const CHANNELS: &str = "crates/tasuki/src/channel/mod.rs";

/// What every such page says, whatever else it does.
const SECTIONS: [&str; 8] = [
    "Order",
    "Cancel",
    "Panic",
    "Memory ordering",
    "Re-entrancy",
    "Interrupts",
    "Limits",
    "When to use something else",
];

pub(crate) fn sections(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let missing = |documentation: &[&str]| {
        SECTIONS
            .into_iter()
            .filter(|section| !documentation.contains(&format!("# {section}").as_str()))
            .collect::<Vec<_>>()
    };
    for (name, path) in PRIMITIVES {
        let lines: Vec<&str> = text(pages, path).lines().collect();
        let is_it = |line: &&str| {
            let rest = line.strip_prefix("pub struct ").unwrap_or_default();
            words(rest).next().is_some_and(|(at, word)| at == 0 && word == name)
        };
        let Some(at) = lines.iter().position(is_it) else {
            breaches.push(Breach::whole(path, format!("does not define {name}")));
            continue;
        };
        let above =
            lines[..at].iter().rev().take_while(|line| line.starts_with("///") || line.starts_with("#["));
        let documentation: Vec<&str> = above.map(|line| line.trim_start_matches('/').trim()).collect();
        breaches.extend(
            missing(&documentation).into_iter().map(|section| {
                Breach::at(path, at, format!("the page of {name} has no section \"{section}\""))
            }),
        );
    }
    let channels: Vec<&str> =
        text(pages, CHANNELS).lines().filter_map(|line| line.strip_prefix("//! ")).collect();
    breaches.extend(missing(&channels).into_iter().map(|section| {
        Breach::whole(CHANNELS, format!("the page of channels has no section \"{section}\""))
    }));
    breaches
}

/// `*_slow`: the compiler must not put it into the fast path, whose registers it would take.
pub(crate) fn slow_is_out_of_line(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (page, source) in library(pages) {
        let lines: Vec<&str> = source.bare.lines().map(str::trim).collect();
        for (number, line) in lines.iter().enumerate() {
            let Some((_, name)) = line.split_once("fn ") else { continue };
            if !words(name).next().is_some_and(|(at, word)| at == 0 && word.ends_with("_slow")) {
                continue;
            }
            let above =
                lines[..number].iter().rev().take_while(|line| line.is_empty() || line.starts_with("#["));
            if !above.into_iter().any(|line| matches!(*line, "#[cold]" | "#[inline(never)]")) {
                breaches.push(Breach::at(&page.path, number, "`*_slow` is cold, or never inlined"));
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_begin_with_a_sentence() {
        let found = |text: &str| first_lines(&[Page::new("crates/tasuki/tests/a.rs", text)]).len();
        assert_eq!(
            (found("//! The lock.\n"), found("//! Hostile wakers (H3).\n"), found("//! Booleans.\n")),
            (0, 0, 0)
        );
        assert_eq!(
            (found("use a;\n"), found("//! H3 on the lock.\n"), found("//! S3-29: found.\n")),
            (1, 1, 1)
        );
        assert_eq!((found("//! B127, as seen.\n"), found("// The lock.\n")), (1, 1));
    }

    #[test]
    fn a_page_without_a_section_is_seen() {
        let page = |leave: &str| {
            let of = |marks: &str| {
                let told = SECTIONS.iter().filter(|section| **section != leave);
                told.map(|section| format!("{marks} # {section}\n{marks}\n")).collect::<String>()
            };
            let types = PRIMITIVES.map(|(name, path)| {
                Page::new(path, &format!("/// It.\n{}#[derive(Debug)]\npub struct {name}<T> {{\n", of("///")))
            });
            sections(&types.into_iter().chain([Page::new(CHANNELS, &of("//!"))]).collect::<Vec<_>>()).len()
        };
        assert_eq!((page(""), page("Order")), (0, PRIMITIVES.len() + 1));
    }

    #[test]
    fn a_slow_path_that_is_inlined_is_seen() {
        let found = |text: &str| slow_is_out_of_line(&[Page::new("crates/tasuki/src/a.rs", text)]).len();
        assert_eq!(
            found(
                "#[cold]\n#[track_caller]\nfn lock_slow() {}\n/// It.\n#[inline(never)]\npub fn b_slow<P>() {}\n"
            ),
            0
        );
        assert_eq!(found("#[inline]\nfn lock_slow() {}\nfn slow_lock() {}\n"), 1);
    }
}
