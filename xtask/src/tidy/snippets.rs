//! The programs that documents and examples show: a page to copy from has whole programs and the commands that add their packages, and an example
//! imports nothing that it does not use. And names that a glob import must not bring.

use super::{Breach, Page, library};
use crate::source::words;

/// Pages that a reader copies whole programs from, besides those of the packages.
const WHOLE: [&str; 3] = ["README.md", "docs/guide/README.md", "docs/guide/cookbook.md"];

/// The packages that programs of these pages may use, as the code names them.
const PACKAGES: [&str; 6] = ["futures_util", "smol", "tasuki", "tasuki_inspect", "tasuki_rt", "tokio"];

/// Traits: imported for their methods, so that their names need not appear again.
const TRAITS: [&str; 10] = [
    "Future",
    "FutureExt",
    "StreamExt",
    "Sink",
    "SinkExt",
    "Stream",
    "Read",
    "Write",
    "WaitGroupExt",
    "ToString",
];

/// What every module of a user has without an import: types and traits of the prelude. A public item of the same name would hide it from a module that imports all of ours.
const PRELUDE: [&str; 33] = [
    "AsMut",
    "AsRef",
    "Box",
    "Clone",
    "Copy",
    "Default",
    "DoubleEndedIterator",
    "Drop",
    "Eq",
    "Err",
    "ExactSizeIterator",
    "Extend",
    "Fn",
    "FnMut",
    "FnOnce",
    "From",
    "FromIterator",
    "Into",
    "IntoIterator",
    "Iterator",
    "None",
    "Ok",
    "Option",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Result",
    "Send",
    "Some",
    "String",
    "Sync",
    "Unpin",
    "Vec",
];

/// A fenced program: its line, its text, and the lines of the text that the page does not show.
struct Snippet {
    line: usize,
    text: String,
    hidden: Vec<String>,
}

/// The Rust programs of a text; `comment` is what each line begins with, if it is the documentation of code.
fn snippets(text: &str, comments: &[&str]) -> Vec<Snippet> {
    let mut found = Vec::new();
    let mut open: Option<Option<Snippet>> = None;
    for (line, text) in text.lines().enumerate() {
        let trimmed = text.trim_start();
        let content = match comments {
            [] => Some(text),
            _ => comments.iter().find_map(|comment| trimmed.strip_prefix(comment)).map(str::trim_start),
        };
        let Some(content) = content else {
            open = None;
            continue;
        };
        if let Some(language) = content.trim_start().strip_prefix("```") {
            open = match open.take() {
                Some(snippet) => {
                    found.extend(snippet);
                    None
                }
                None => {
                    let is_rust = match language.split(',').next().unwrap_or_default().trim() {
                        "rust" | "no_run" | "should_panic" => true,
                        other => other.is_empty() && !comments.is_empty(),
                    };
                    Some(is_rust.then(|| Snippet { line, text: String::new(), hidden: Vec::new() }))
                }
            };
        } else if let Some(Some(snippet)) = &mut open {
            // A hidden line of an example counts.
            let shown = content;
            let content = if comments.is_empty() { content } else { content.trim_start_matches("# ") };
            if content.len() < shown.len() {
                snippet.hidden.push(content.to_owned());
            }
            snippet.text.push_str(content);
            snippet.text.push('\n');
        }
    }
    found
}

/// The programs of a page to copy from have their `fn main`; and the page, or for a chapter the first page of the guide, adds the packages that they use (but for the pages of the packages).
pub(crate) fn whole_programs(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let guide = super::text(pages, "docs/guide/README.md");
    let is_package = |page: &Page| page.path.starts_with("crates/") && page.path.ends_with("/README.md");
    let shows =
        |page: &&Page| page.path == "README.md" || page.path.starts_with("docs/guide/") || is_package(page);
    for page in pages.iter().filter(shows).filter(|page| page.path.ends_with(".md")) {
        let added = if page.path == "README.md" { "" } else { guide };
        for Snippet { line, text, .. } in snippets(&page.text, &[]) {
            let is_whole = is_package(page) || WHOLE.contains(&page.path.as_str());
            if is_whole && !text.contains("fn main()") {
                breaches.push(Breach::at(&page.path, line, "a program to copy needs its `fn main`"));
            }
            let used = PACKAGES.iter().filter(|package| text.contains(&format!("{package}::")));
            for package in used.filter(|_| !is_package(page)) {
                let command = format!("cargo add {}", package.replace('_', "-"));
                if !page.text.contains(&command) && !added.contains(&command) {
                    let what = format!("uses {package}, and no page has `{command}`");
                    breaches.push(Breach::at(&page.path, line, what));
                }
            }
        }
    }
    breaches
}

/// What an example imports by name it uses.
pub(crate) fn imports_are_used(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for page in pages {
        let comments: &[&str] = match (page.path.ends_with(".md"), page.in_library()) {
            (true, _) => &[],
            (false, true) => &["///", "//!"],
            (false, false) => continue,
        };
        for Snippet { line, text, .. } in snippets(&page.text, comments) {
            for name in imported(&text) {
                let is_used = words(&text).filter(|(_, word)| *word == name).count() > 1;
                if !is_used && !TRAITS.contains(&name) {
                    breaches.push(Breach::at(
                        &page.path,
                        line,
                        format!("imports {name} and does not use it"),
                    ));
                }
            }
        }
    }
    breaches
}

/// An example that is copied from a page compiles: the page shows the imports and the variables of what it shows.
pub(crate) fn examples_show_what_they_use(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for page in pages.iter().filter(|page| page.in_library()) {
        for Snippet { line, text, hidden } in snippets(&page.text, &["///", "//!"]) {
            let is_shown = |line: &&str| !hidden.iter().any(|hidden| hidden == line);
            let code = text.lines().filter(is_shown).filter_map(|line| line.split("// ").next());
            let shown = code.collect::<Vec<_>>().join("\n");
            let defines = |name: &str| {
                ["let ", "let mut ", "fn ", "static "]
                    .iter()
                    .any(|kind| shown.contains(&format!("{kind}{name}")))
            };
            for hidden in &hidden {
                let variable = hidden
                    .trim_start()
                    .strip_prefix("let ")
                    .map(|rest| rest.strip_prefix("mut ").unwrap_or(rest));
                let variable =
                    variable.and_then(|rest| rest.split([':', ' ']).next()).filter(|name| *name != "_");
                for name in imported(hidden).into_iter().chain(variable) {
                    if words(&shown).any(|(_, word)| word == name) && !defines(name) {
                        let what = format!("the example shows {name} and hides where it comes from");
                        breaches.push(Breach::at(&page.path, line, what));
                    }
                }
            }
        }
    }
    breaches
}

/// The last names of the paths in `use` lines.
fn imported(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for statement in text.split(';').filter_map(|part| part.trim_start().strip_prefix("use ")) {
        let leaves = statement.split([',', '{', '}']).map(str::trim).filter(|leaf| !leaf.ends_with("::"));
        let leaves = leaves
            .filter_map(|leaf| leaf.rsplit("::").next())
            .map(|leaf| leaf.rsplit(" as ").next().unwrap_or(leaf));
        names.extend(leaves.filter(|leaf| {
            leaf.chars().all(|c| c.is_alphanumeric() || c == '_') && !matches!(*leaf, "" | "_" | "self")
        }));
    }
    names
}

/// No public item has the name of something that every module has already.
pub(crate) fn prelude_is_not_hidden(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (page, source) in library(pages) {
        let tests = source.test_lines();
        for kind in ["struct", "enum", "trait", "type", "union"] {
            let definition = format!("pub {kind} ");
            for (at, _) in source.bare.match_indices(&definition) {
                let name = words(&source.bare[at + definition.len()..]).next().map_or("", |(_, name)| name);
                let line = source.line_of(at);
                if PRELUDE.contains(&name) && !tests[line] {
                    let what =
                        format!("`{name}` hides that of the prelude from `use ..::*`: give it another name");
                    breaches.push(Breach::at(&page.path, line, what));
                }
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_to_copy_are_whole() {
        let count = |text: &str| whole_programs(&[Page::new("README.md", text)]).len();
        assert_eq!(count("`cargo add tokio`\n```rust\nfn main() { tokio::run() }\n```\n"), 0);
        assert_eq!(count("```rust\ntokio::run()\n```\n"), 2);
        assert_eq!(count("```text\ntokio::run()\n```\n"), 0);
        let package = |text: &str| whole_programs(&[Page::new("crates/a/README.md", text)]).len();
        assert_eq!(package("```rust\ntokio::run()\n```\n"), 1);
        assert_eq!(package("```rust,no_run\nfn main() { tokio::run() }\n```\n"), 0);
        let chapter = |text: &str| Page::new("docs/guide/why.md", text);
        assert_eq!(whole_programs(&[chapter("```rust\n1\n```\n")]), []);
        assert_eq!(whole_programs(&[chapter("```rust\nsmol::run()\n```\n")]).len(), 1);
        let first = Page::new("docs/guide/README.md", "`cargo add smol`\n");
        assert_eq!(whole_programs(&[chapter("```rust\nsmol::run()\n```\n"), first]), []);
    }

    #[test]
    fn imports_that_are_not_used_are_seen() {
        let count = |text: &str| imports_are_used(&[Page::new("docs/a.md", text)]).len();
        assert_eq!(
            count("```rust\nuse std::sync::{Arc, atomic::AtomicU32};\nArc::new(AtomicU32::new(1));\n```\n"),
            0
        );
        assert_eq!(count("```rust\nuse std::sync::Arc;\nuse a::B as C;\nB;\n```\n"), 2);
        let page = |text: &str| Page::new("crates/tasuki/src/a.rs", text);
        assert_eq!(imports_are_used(&[page("/// ```\n/// use a::B;\n/// # B;\n/// ```\nfn f() {}\n")]), []);
        assert_eq!(imports_are_used(&[page("/// ```\n/// use a::B;\n/// ```\nfn f() {}\n")]).len(), 1);
    }

    #[test]
    fn names_that_an_example_hides_are_seen() {
        let page = |text: &str| Page::new("crates/tasuki/src/a.rs", text);
        let count = |text: &str| examples_show_what_they_use(&[page(text)]).len();
        assert_eq!(count("/// ```\n/// # use a::B;\n/// B;\n/// ```\nfn f() {}\n"), 1);
        assert_eq!(count("/// ```\n/// # let mut b = 1;\n/// b += 1;\n/// ```\nfn f() {}\n"), 1);
        // What only hidden lines use may be hidden, and so may a second variable of one name.
        assert_eq!(
            count("/// ```\n/// use a::B;\n/// # use a::C;\n/// B;\n/// # C;\n/// ```\nfn f() {}\n"),
            0
        );
        assert_eq!(count("/// ```\n/// fn b() {}\n/// # let b = b();\n/// ```\nfn f() {}\n"), 0);
    }

    #[test]
    fn names_of_the_prelude_are_seen() {
        let count = |text: &str| prelude_is_not_hidden(&[Page::new("crates/tasuki/src/a.rs", text)]).len();
        assert_eq!(count("pub struct Sender;\nstruct Send;\npub(crate) type Box = u8;\n"), 0);
        assert_eq!(count("pub struct Send<'a>(&'a u8);\npub type Result = u8;\n"), 2);
    }
}
