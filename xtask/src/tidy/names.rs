//! One name, one type: who has met a name in one file of the libraries finds no other type under it in another file.

use super::{Breach, Page, library_without_shims};
use crate::source::{Source, words};
use std::collections::HashMap;

/// Names of two types or more, and why each is wanted.
const SHARED: [(&str, &str); 10] = [
    ("Delivery", "the empty one of a runtime without sockets"),
    ("Permit", "public: of a semaphore and of a channel"),
    ("PanicPayload", "the same type in both libraries"),
    ("Receiver", "public: of each kind of channel"),
    ("Sealed", "seals a trait"),
    ("Sender", "public: of each kind of channel"),
    ("Sockets", "the empty one of a runtime without sockets"),
    ("Timespec", "what the system reads, as each call wants it"),
    ("WeakReceiver", "public: of each kind of channel"),
    ("WeakSender", "public: of each kind of channel"),
];

/// The empty twins of types: the same names on purpose.
const TWINS: &str = "probe/no_notes.rs";

pub(crate) fn one_name_one_type(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut known: HashMap<&str, &str> = HashMap::new();
    let is_told =
        |path: &str| !path.ends_with(TWINS) && !path.contains("tests") && !path.contains("/random_programs/");
    for (page, source) in library_without_shims(pages).filter(|(page, _)| is_told(&page.path)) {
        for (line, name) in types(source) {
            match known.get(name) {
                Some(other) if *other != page.path && !SHARED.iter().any(|(shared, _)| *shared == name) => {
                    let what = format!("`{name}` is a type of {other} too: one name, one type");
                    breaches.push(Breach::at(&page.path, line, what));
                }
                Some(_) => {}
                None => drop(known.insert(name, &page.path)),
            }
        }
    }
    breaches
}

/// The types and traits that a file defines, tests left out: line (from 0) and name. An indented `type` is that of a trait.
fn types(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let tests = source.test_lines();
    source.bare.lines().enumerate().filter(move |(line, _)| !tests[*line]).filter_map(|(line, text)| {
        // Without `pub(in ..)`.
        let item = text
            .trim_start()
            .strip_prefix("pub(")
            .and_then(|rest| rest.split_once(')'))
            .map_or(text, |(_, item)| item);
        let mut words = words(item).map(|(_, word)| word);
        let first = words.find(|word| !matches!(*word, "pub" | "unsafe"))?;
        let defines = matches!(first, "struct" | "enum" | "union" | "trait")
            || first == "type" && !text.starts_with(' ');
        let name = words.next()?;
        // In a macro the name is a parameter.
        (defines && !text.contains(&format!("${name}"))).then_some((line, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_type_of_a_name_is_seen() {
        let found = |second: &str| {
            let first = "struct Node;\nimpl A for B {\n    type Output = C;\n}\n#[cfg(test)]\nmod tests {\n    struct Rng;\n}\n";
            let pages =
                [Page::new("crates/tasuki/src/a.rs", first), Page::new("crates/tasuki-rt/src/b.rs", second)];
            one_name_one_type(&pages).len()
        };
        assert_eq!(
            (found("pub(in crate::b) enum Node {}\n"), found("mod inner {\n    unsafe trait Node {}\n}\n")),
            (1, 1)
        );
        assert_eq!((found("type Node = u8;\n"), found("// struct Node;\nfn node() {}\n")), (1, 0));
        assert_eq!(
            (
                found("struct Rng;\n"),
                found("struct $Node;\n"),
                found("impl A for D {\n    type Output = u8;\n}\n")
            ),
            (0, 0, 0)
        );
    }
}
