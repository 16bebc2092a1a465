//! Rules on code that compiles and passes its tests, and can fail on another system, in another build or in a case that is seldom: variables of a thread, exchanged pointers, unwinding, values that are made
//! and dropped unseen.

use super::{Breach, Page, library_without_shims as library};
use crate::source::{Source, balanced, words};

/// Files of the libraries that exchange pointers. Each was read with one question: is the pointer that the exchange *returned* used,
/// and not the one that was seen before? At the same address there may be another object by then.
const EXCHANGE_POINTERS: [&str; 6] = [
    "crates/tasuki/src/inspect/mod.rs",
    // Exchanges a number beside its pointer.
    "crates/tasuki/src/inspect/holder_slot.rs",
    // Exchanges null for a page, and uses the page that comes back.
    "crates/tasuki/src/process_id.rs",
    "crates/tasuki/src/queue/mod.rs",
    // Exchanges a number beside its pointer.
    "crates/tasuki/src/timer/shared.rs",
    "crates/tasuki-rt/src/scheduler/next_slot.rs",
];

/// A variable of a thread is reached by `try_with`: everything else panics in a destructor that runs after the variable is gone,
/// which on some systems is every variable.
pub(crate) fn thread_locals(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (page, source) in library(pages) {
        let names = declared(source);
        let tests = source.test_lines();
        for (at, word) in words(&source.bare).filter(|(_, word)| names.contains(word)) {
            let line = source.line_of(at);
            let rest = source.bare[at + word.len()..].trim_start();
            if rest.starts_with('.') && !rest[1..].trim_start().starts_with("try_with") && !tests[line] {
                let what = format!("{word} may be gone when a thread ends: `try_with`");
                breaches.push(Breach::at(&page.path, line, what));
            }
        }
    }
    breaches
}

/// The names that `thread_local!` declares in a file.
fn declared(source: &Source) -> Vec<&str> {
    let mut names = Vec::new();
    for (at, _) in words(&source.bare).filter(|(_, word)| *word == "thread_local") {
        let Some(body) = balanced(&source.bare, at) else { continue };
        let mut inside = words(&source.bare[body]);
        while let Some((_, word)) = inside.next() {
            if word == "static" {
                names.extend(inside.next().map(|(_, name)| name));
            }
        }
    }
    names
}

pub(crate) fn pointer_exchanges(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (page, source) in library(pages).filter(|(page, _)| !EXCHANGE_POINTERS.contains(&page.path.as_str()))
    {
        if !words(&source.bare).any(|(_, word)| word == "AtomicPtr") {
            continue;
        }
        let exchanges = ["compare_exchange", "compare_exchange_weak", "fetch_update"];
        for (at, _) in words(&source.bare).filter(|(_, word)| exchanges.contains(word)) {
            let what =
                "if this exchanges a pointer: use the one that comes back, and put the file on the list";
            breaches.push(Breach::at(&page.path, source.line_of(at), what));
        }
    }
    breaches
}

/// Only a payload that was caught is thrown on. A value of ours is returned: carried by an unwinding, it aborts a program that is built with `panic = "abort"`.
pub(crate) fn own_payloads(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    // Files of tests panic with what they like.
    for (page, source) in library(pages).filter(|(page, _)| !page.path.contains("tests")) {
        let tests = source.test_lines();
        for (at, word) in words(&source.bare) {
            let rest = &source.bare[at + word.len()..];
            let made = match word {
                "panic_any" => rest.starts_with('('),
                "resume_unwind" => rest.starts_with("(Box::new"),
                _ => false,
            };
            let line = source.line_of(at);
            if made && !tests[line] {
                breaches.push(Breach::at(
                    &page.path,
                    line,
                    "return the value: a panic may abort the process",
                ));
            }
        }
    }
    breaches
}

/// A value whose drop does something is made where it is needed only. An argument is made in any case: where a try fails, `then_some(Handle { .. })` drops a handle that was never counted.
pub(crate) fn eager_drops(pages: &[Page]) -> Vec<Breach> {
    let with_drop: Vec<&str> = library(pages).flat_map(|(_, source)| drops_of(source)).collect();
    let mut breaches = Vec::new();
    for (page, source) in library(pages) {
        let eager = ["then_some", "ok_or", "unwrap_or", "map_or", "and", "or"];
        for (at, word) in words(&source.bare).filter(|(_, word)| eager.contains(word)) {
            let Some(argument) = source.bare[at + word.len()..].strip_prefix('(') else { continue };
            let made = words(argument).next().filter(|(at, _)| *at == 0).map(|(_, name)| name);
            if made.is_some_and(|name| with_drop.contains(&name)) {
                let what = format!("{word} makes a value with a drop in any case: make it in a closure");
                breaches.push(Breach::at(&page.path, source.line_of(at), what));
            }
        }
    }
    breaches
}

/// The types of a file that have a drop of their own.
fn drops_of(source: &Source) -> impl Iterator<Item = &str> {
    let mut before = ["", ""];
    words(&source.bare).filter_map(move |(_, word)| {
        let is_name = before == ["Drop", "for"];
        before = [before[1], word];
        is_name.then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rule: fn(&[Page]) -> Vec<Breach>, path: &str, text: &str) -> Vec<usize> {
        rule(&[Page::new(path, text)]).into_iter().map(|breach| breach.line).collect()
    }

    #[test]
    fn thread_locals_are_tried() {
        let text = "thread_local! {\n    static A: Cell<u8> = x;\n    pub static B: Cell<u8> = x;\n}
fn a() {\n    A.with(f);\n    B\n        .set(1);\n    let _ = A.try_with(f);\n    C.with(f);\n}
#[cfg(test)]\nmod tests {\n    fn b() { A.set(1) }\n}\n";
        assert_eq!(lines(thread_locals, "crates/tasuki/src/a.rs", text), [6, 7]);
        assert!(lines(thread_locals, "crates/tasuki/src/shim.rs", text).is_empty());
        assert!(lines(thread_locals, "lab/src/a.rs", text).is_empty());
    }

    #[test]
    fn payloads_of_our_own_are_seen() {
        let text = "use std::panic::resume_unwind;\nfn a() {\n    resume_unwind(payload);\n    resume_unwind(Box::new(Mine));\n    panic_any(Mine);\n}
#[cfg(test)]\nmod tests {\n    fn b() { resume_unwind(Box::new(1)) }\n}\n";
        assert_eq!(lines(own_payloads, "crates/tasuki/src/a.rs", text), [4, 5]);
    }

    #[test]
    fn values_with_a_drop_are_not_made_in_vain() {
        let text = "impl<T> Drop for Handle<T> {}\nfn a() {\n    b.then_some(Handle { c });\n    b.then(|| Handle { c });\n    b.then_some(Plain { c });
    b.ok_or(Handle(c));\n    b.then_some(handle);\n}\n";
        assert_eq!(lines(eager_drops, "crates/tasuki/src/a.rs", text), [3, 6]);
        assert!(lines(eager_drops, "lab/src/a.rs", text).is_empty());
    }

    #[test]
    fn pointers_are_exchanged_in_files_that_were_read() {
        let text = "use AtomicPtr;\nfn a() {\n    b.compare_exchange(c, d);\n}\n";
        assert_eq!(lines(pointer_exchanges, "crates/tasuki/src/a.rs", text), [3]);
        assert!(lines(pointer_exchanges, EXCHANGE_POINTERS[0], text).is_empty());
        assert!(lines(pointer_exchanges, "crates/tasuki/src/a.rs", &text.replace("Ptr", "U8")).is_empty());
    }
}
