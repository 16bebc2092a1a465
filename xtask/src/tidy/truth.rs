//! What documents name exists: files, types, functions, features, and the numbers of constants. A sentence that names what was
//! renamed fails here; whether it is true otherwise is for readers.

use super::{Breach, Page};
use crate::source::words;
use std::collections::{HashMap, HashSet};

/// Names of others, and words that are no names here.
const FOREIGN: [&str; 14] = [
    "crossbeam-deque",
    "multi_thread",
    "mutant: survives:",
    "mutant: survives [AcqRel->Acquire]:",
    "epoll_pwait2",
    "futex_time64",
    "now_or_never",
    "rt::Read",
    "rt::Write",
    "SO_REUSEADDR",
    "TCP_NODELAY",
    "TCP_USER_TIMEOUT",
    "TIME_WAIT",
    "/",
];

/// Types of the standard library, whose members are known there.
const STANDARD: [&str; 3] = ["Duration", "ErrorKind", "super"];

/// Pages about other libraries, or about what was (decisions, the changelog).
const APART: [&str; 3] = ["docs/guide/migrating.md", "docs/decisions/", "CHANGELOG.md"];

fn documents(pages: &[Page]) -> impl Iterator<Item = &Page> {
    let apart = |page: &&Page| APART.iter().any(|path| page.path.starts_with(path));
    let ours = |page: &&Page| page.path.starts_with("docs/") || !page.path.contains('/');
    pages.iter().filter(|page| page.path.ends_with(".md")).filter(ours).filter(move |page| !apart(page))
}

/// The spans of code in prose, with their lines: `like this`, outside fences.
fn spans(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut spans = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            spans.extend(line.split('`').skip(1).step_by(2).map(|span| (number, span)));
        }
    }
    spans
}

pub(crate) fn names(pages: &[Page]) -> Vec<Breach> {
    let known = known(pages);
    let mut breaches = Vec::new();
    for page in documents(pages) {
        for (line, span) in spans(&page.text) {
            let pattern = span.contains(['*', '{', '…']) || span.starts_with(['-', '<', '"', '|']);
            if pattern || FOREIGN.contains(&span) || span.starts_with("cargo ") {
                continue;
            }
            if let Some(missing) = missing(pages, &known, span) {
                breaches.push(Breach::at(&page.path, line, format!("`{missing}` does not exist")));
            }
        }
    }
    breaches
}

/// A decision tells what was, and may name what is gone; the files that it sends a reader to are there.
pub(crate) fn files_of_decisions(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for page in pages.iter().filter(|page| page.path.starts_with("docs/decisions/")) {
        for (line, span) in spans(&page.text) {
            let is_file = [".rs", ".md", ".toml", ".html"].iter().any(|end| span.ends_with(end));
            if is_file && missing(pages, &HashSet::new(), span).is_some() {
                breaches.push(Breach::at(&page.path, line, format!("there is no file `{span}`")));
            }
        }
    }
    breaches
}

/// What the comments of the libraries and of their models name exists, too; elsewhere (tests, the lab, this tool) at least the files do.
pub(crate) fn names_in_comments(pages: &[Page]) -> Vec<Breach> {
    let known = known(pages);
    let mut breaches = Vec::new();
    let mut seen: HashMap<&str, Option<&str>> = HashMap::new();
    for page in pages.iter().filter(|page| page.rust.is_some()) {
        for (line, span) in comment_spans(&page.text) {
            let pattern = span.contains(['*', '{', '…', ' ', '·', '<']) || !span.is_ascii();
            let has_names = page.in_library() || page.path.contains("/model/");
            let is_checked = has_names || span.ends_with(".rs") || span.ends_with(".md");
            if pattern || !is_checked || FOREIGN.contains(&span) {
                continue;
            }
            if let Some(missing) = *seen.entry(span).or_insert_with(|| missing(pages, &known, span)) {
                breaches.push(Breach::at(&page.path, line, format!("`{missing}` does not exist")));
            }
        }
    }
    breaches
}

/// The last column of the tables of names, which are those of this project: the libraries have them. The others are names of others.
pub(crate) fn migrating(pages: &[Page]) -> Vec<Breach> {
    let libraries = pages.iter().filter(|page| page.in_library());
    let code = libraries.filter_map(|page| page.rust.as_ref()).map(|source| source.code.as_str());
    let known: HashSet<&str> = code.flat_map(|text| words(text).map(|(_, word)| word)).collect();
    let mut breaches = Vec::new();
    let has_tables = |page: &&Page| ["docs/guide/migrating.md", "CHANGELOG.md"].contains(&page.path.as_str());
    for page in pages.iter().filter(has_tables) {
        let rows = page.text.lines().enumerate().filter(|(_, text)| text.starts_with("| "));
        for (line, text) in rows {
            let ours = text.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap_or_default();
            for (_, span) in spans(ours) {
                if let Some(missing) = missing(pages, &known, span) {
                    let what = format!("`{missing}` does not exist in the libraries");
                    breaches.push(Breach::at(&page.path, line, what));
                }
            }
        }
    }
    breaches
}

/// `file.rs:12:34` in what a document shows of a report: there a call begins, as the report said. `src/main.rs` is a program of the reader.
pub(crate) fn places(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for page in documents(pages) {
        for (line, text) in page.text.lines().enumerate() {
            let places = text.split([' ', ',', '(', ')', '`']).filter_map(place);
            for (file, at, column) in places.filter(|(file, ..)| *file != "src/main.rs") {
                let source = pages.iter().find(|page| page.path == file).map(|page| page.text.as_str());
                if !source.is_some_and(|source| is_call(source, at, column)) {
                    let what = format!("no call begins at {file}:{at}:{column}; print the report again");
                    breaches.push(Breach::at(&page.path, line, what));
                }
            }
        }
    }
    breaches
}

/// File, line and column, both from 1.
fn place(text: &str) -> Option<(&str, usize, usize)> {
    let text = text.trim_end_matches([':', '.', ';']);
    let (rest, column) = text.rsplit_once(':')?;
    let (file, line) = rest.rsplit_once(':').filter(|(file, _)| file.ends_with(".rs"))?;
    Some((file, line.parse().ok()?, column.parse().ok()?))
}

/// Does the name of something that is called begin there?
fn is_call(source: &str, line: usize, column: usize) -> bool {
    let Some(text) = source.lines().nth(line.wrapping_sub(1)) else { return false };
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let Some((before, from)) = text.split_at_checked(column.wrapping_sub(1)) else { return false };
    let behind = from.trim_start_matches(|c: char| part(c) || c == ':');
    from.starts_with(part) && !before.ends_with(part) && behind.starts_with(['(', '!'])
}

/// The spans of code in the comments of a Rust file, outside fences.
fn comment_spans(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut spans = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let comment = line.trim_start();
        let Some(comment) = comment.starts_with("//").then(|| comment.trim_start_matches(['/', '!', ' ']))
        else {
            fenced = false;
            continue;
        };
        if comment.starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            spans.extend(comment.split('`').skip(1).step_by(2).map(|span| (number, span)));
        }
    }
    spans
}

/// Every word of the code and of the manifests.
fn known(pages: &[Page]) -> HashSet<&str> {
    let code = pages.iter().filter_map(|page| page.rust.as_ref()).map(|source| source.code.as_str());
    let manifest = |page: &&Page| page.path.ends_with(".toml") || page.path.ends_with(".json");
    let manifests = pages.iter().filter(manifest).map(|page| page.text.as_str());
    code.chain(manifests).flat_map(|text| words(text).map(|(_, word)| word)).collect()
}

/// What a span names and is not there.
fn missing<'s>(pages: &[Page], known: &HashSet<&str>, span: &'s str) -> Option<&'s str> {
    let file =
        span.ends_with(".rs") || span.ends_with(".md") || span.ends_with(".toml") || span.ends_with('/');
    if file {
        let path = span.trim_end_matches('/');
        let (end, inside) = (format!("/{path}"), format!("/{path}/"));
        let is = |page: &Page| {
            page.path == path || page.path.ends_with(&end) || format!("/{}", page.path).contains(&inside)
        };
        return (!pages.iter().any(is)).then_some(span);
    }
    let unknown = words(span).find(|(at, word)| {
        let name = word.starts_with(|c: char| c.is_alphabetic()) && word.len() > 2;
        // Arguments have any name.
        let argument = span[..*at].matches('(').count() > span[..*at].matches(')').count();
        name && !argument && !known.contains(word)
    });
    if let Some((_, word)) = unknown {
        return Some(word);
    }
    // `Type::function`: a file of a library has both, the second with a definition.
    let (owner, member) = span.split_once("::")?;
    let owner = words(owner).last()?.1;
    let member = words(member).next()?.1;
    let crates = ["tasuki", "tasuki_rt", "std", "core", "alloc", "tokio", "futures", "task", "testing"];
    if crates.contains(&owner) || STANDARD.contains(&owner) || span.contains([' ', '(']) {
        return None;
    }
    // The guards are names of one type, which has their members.
    let is_guard = owner.ends_with("Guard");
    let defined = |page: &Page| {
        // A module is where its file is.
        let inside = page.path.contains(&format!("/{owner}/")) || page.path.contains(&format!("/{owner}."));
        let inside = inside || is_guard;
        // The file of a module may export what others define.
        let exports = page.path.ends_with(&format!("/{owner}.rs"));
        page.rust.as_ref().is_some_and(|source| {
            (inside || has_word(&source.bare, owner)) && defines(&source.bare, member)
                || exports && has_word(&source.bare, member)
        })
    };
    (!pages.iter().any(defined)).then_some(span)
}

fn has_word(text: &str, wanted: &str) -> bool {
    text.contains(wanted) && words(text).any(|(_, word)| word == wanted)
}

/// Is it defined there: as a function, constant, type, module, field or variant?
fn defines(bare: &str, name: &str) -> bool {
    let keywords = ["fn", "const", "static", "type", "struct", "enum", "trait", "mod"];
    keywords.iter().any(|keyword| {
        let definition = format!("{keyword} {name}");
        bare.match_indices(&definition).any(|(at, _)| {
            !bare[at + definition.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
        })
    }) || bare.lines().map(str::trim).any(|line| {
        let rest = line
            .trim_start_matches("pub(crate) ")
            .trim_start_matches("pub(super) ")
            .trim_start_matches("pub ")
            .strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with([',', ':', '(', ' ', '=']) || rest.is_empty())
    })
}

/// "at most 32 (`STEP`)": the number is that of the constant.
pub(crate) fn numbers(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for page in documents(pages) {
        for (line, text) in page.text.lines().enumerate() {
            for (at, _) in text.match_indices(" (`") {
                let name = text[at + 3..].split('`').next().unwrap_or_default();
                let constant = name.len() > 2 && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
                let said = text[..at].rsplit([' ', '(']).next().unwrap_or_default().replace(',', "");
                let Some(said) = said.parse::<u64>().ok().filter(|_| constant) else { continue };
                let values: Vec<u64> = pages.iter().filter_map(|page| value(page, name)).collect();
                if !values.contains(&said) {
                    let what = format!("says {said} for {name}; the code has {values:?}");
                    breaches.push(Breach::at(&page.path, line, what));
                }
            }
        }
    }
    breaches
}

/// Pages for users that name a number without its constant: the sentence, and where the number comes from.
const SAID: [(&str, &str, &str); 6] = [
    ("README.md", "more than {} KiB of stack", "NESTING"),
    ("ARCHITECTURE.md", "more than {} KiB of stack", "NESTING"),
    ("crates/tasuki/src/lib.rs", "more than {} KiB of stack", "NESTING"),
    ("crates/tasuki/src/lib.rs", "at least {} operations", "GUEST_OPERATIONS"),
    ("docs/guide/fairness.md", "{} operations", "BUDGET"),
    ("docs/decisions/0009-threads-for-blocking-work.md", "at most {} of them", "DEFAULT_LIMIT"),
];

/// The numbers of [`SAID`] are those of the code.
pub(crate) fn said_numbers(pages: &[Page]) -> Vec<Breach> {
    let told = |(path, sentence, name): &(&str, &str, &str)| {
        let page = pages.iter().find(|page| page.path == *path)?;
        let values = pages.iter().filter_map(|page| value(page, name));
        let mut sentences = values.map(|value| sentence.replace("{}", &value.to_string()));
        let is_told = sentences.any(|sentence| page.text.contains(&sentence));
        (!is_told).then(|| Breach::whole(path, format!("does not say {sentence:?} with the value of {name}")))
    };
    SAID.iter().filter_map(told).collect()
}

/// The status of a decision in the list is that of its page.
pub(crate) fn statuses(pages: &[Page]) -> Vec<Breach> {
    const LIST: &str = "docs/decisions/README.md";
    let Some(list) = pages.iter().find(|page| page.path == LIST) else { return Vec::new() };
    let rows = list.text.lines().enumerate().filter(|(_, row)| row.contains("](0"));
    let differs = |(line, row): (usize, &str)| {
        let file = row.split_once("](")?.1.split(')').next()?;
        let page = pages.iter().find(|page| page.path.ends_with(&format!("decisions/{file}")))?;
        let status = page.text.lines().find_map(|line| line.strip_prefix("*Status:* "))?;
        let cell = row.trim_end_matches([' ', '|']).rsplit('|').next()?;
        let words = cell.split([';', ':']).next()?.trim();
        let mut numbers = cell.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
        let names_newer = numbers.clone().next().is_some();
        let is_whole = !["but for", "in part"].iter().any(|limit| status.contains(limit));
        let is_same = status.contains(words)
            && numbers.all(|number| status.contains(&format!("{number}]")))
            && names_newer != is_whole;
        let what = format!("{file} has another status: {status}");
        (!is_same).then(|| Breach::at(LIST, line, what))
    };
    rows.filter_map(differs).collect()
}

/// The value of a constant that a library defines with a plain number.
fn value(page: &Page, name: &str) -> Option<u64> {
    let source = page.rust.as_ref().filter(|_| page.in_library())?;
    let definition = format!("const {name}:");
    let after = &source.bare[source.bare.find(&definition)? + definition.len()..];
    let value = after.split_once('=')?.1.split(';').next()?.trim().replace('_', "");
    // `if MODEL { 1 } else { 64 }`: what is not for the model checker.
    let value = value.rsplit("else").next()?.trim_matches([' ', '{', '}']);
    match value.split_once("<<") {
        Some((one, by)) => Some(one.trim().parse::<u64>().ok()? << by.trim().parse::<u32>().ok()?),
        None => value.split(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty())?.parse().ok(),
    }
}

/// Every feature of a library is told on the first page of its documentation.
pub(crate) fn features(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for manifest in pages.iter().filter(|page| page.path.ends_with("/Cargo.toml")) {
        let front = manifest.path.replace("Cargo.toml", "src/lib.rs");
        let Some(front) = pages.iter().find(|page| page.path == front && page.in_library()) else { continue };
        let front: String = front.text.lines().filter(|line| line.starts_with("//!")).collect();
        let features = manifest.text.split_once("[features]").map_or("", |(_, rest)| rest);
        let features = features.lines().take_while(|line| !line.starts_with('['));
        let names =
            features.filter_map(|line| Some(line.split_once(" = ")?.0)).filter(|name| !name.starts_with('#'));
        let untold = names.filter(|name| *name != "default" && !front.contains(&format!("`{name}`")));
        breaches.extend(untold.map(|name| {
            Breach::whole(&manifest.path, format!("the feature {name} is not told in src/lib.rs"))
        }));
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code() -> Page {
        let text = "pub struct Lock {\n    word: u8,\n}\nimpl Lock {\n    pub fn try_it(&self) {}\n}\nconst STEP: usize = 32;\nconst WIDE: u64 = 1 << 20;\nconst MANY: usize = if MODEL { 1 } else { 64 };\n";
        Page::new("crates/tasuki/src/lock/raw.rs", text)
    }

    fn checked(rule: fn(&[Page]) -> Vec<Breach>, text: &str) -> usize {
        rule(&[code(), Page::new("docs/page.md", text)]).len()
    }

    #[test]
    fn what_exists_may_be_named() {
        for span in
            ["Lock", "Lock::try_it", "try_it()", "lock/raw.rs", "lock/", "Lock::word", "cargo new", "try_*"]
        {
            assert_eq!(checked(names, &format!("see `{span}`\n")), 0, "{span}");
        }
        assert_eq!(checked(names, "```\n`gone`\n```\n"), 0);
    }

    #[test]
    fn what_does_not_exist_is_seen() {
        for span in ["Gone", "Lock::lost", "gone()", "lock/gone.rs", "gone/", "Gone::try_it"] {
            assert_eq!(checked(names, &format!("see `{span}`\n")), 1, "{span}");
        }
    }

    #[test]
    fn decisions_name_files_that_exist() {
        let count = |text: &str| files_of_decisions(&[code(), Page::new("docs/decisions/1.md", text)]).len();
        assert_eq!(count("see `lock/raw.rs`; `Gone` is gone\n"), 0);
        assert_eq!(count("see `lock/gone.rs`\n"), 1);
    }

    #[test]
    fn names_of_ours_stand_in_the_last_column() {
        let count = |row: &str| migrating(&[code(), Page::new("docs/guide/migrating.md", row)]).len();
        assert_eq!(count("| `foreign`, `Theirs::lost` | `Lock::try_it`, none |\n"), 0);
        assert_eq!((count("| `foreign` | `gone` |\n"), count("| a | b | `Lock::lost` |\n")), (1, 1));
    }

    #[test]
    fn a_place_is_where_a_call_begins() {
        let program = || Page::new("lab/src/a.rs", "fn main() {\n    mutex.lock().await;\n}\n");
        let count = |text: &str| places(&[program(), Page::new("docs/page.md", text)]).len();
        assert_eq!(count("took it at lab/src/a.rs:2:11, and src/main.rs:90:1\n"), 0);
        for place in ["lab/src/a.rs:2:12", "lab/src/a.rs:2:5", "lab/src/a.rs:9:1", "lab/src/gone.rs:2:11"] {
            assert_eq!(count(&format!("waits at {place} for 1.5s\n")), 1, "{place}");
        }
    }

    #[test]
    fn comments_name_what_exists() {
        let page = |comment: &str| {
            Page::new("crates/tasuki/src/lock/mod.rs", &format!("//! See {comment}.\nfn plain() {{}}\n"))
        };
        let count = |comment: &str| names_in_comments(&[code(), page(comment)]).len();
        assert_eq!(count("`raw.rs` and `Lock::try_it`"), 0);
        assert_eq!((count("`gone.rs`"), count("`Lock::gone` of `gone`")), (1, 2));
        let model = Page::new("crates/tasuki/model/a.rs", "// As `Lock::gone`.\n");
        assert_eq!(names_in_comments(&[code(), model]).len(), 1);
        let test = |comment: &str| Page::new("crates/tasuki/tests/a.rs", &format!("// See {comment}.\n"));
        assert_eq!(names_in_comments(&[code(), test("`raw.rs` and `anything`")]).len(), 0);
        assert_eq!(names_in_comments(&[code(), test("`gone.rs`")]).len(), 1);
        let fenced = Page::new("crates/tasuki/src/a.rs", "//! ```\n//! `gone`\n//! ```\n");
        assert_eq!(names_in_comments(&[code(), fenced]).len(), 0);
    }

    #[test]
    fn numbers_agree_with_their_constants() {
        assert_eq!(checked(numbers, "at most 32 (`STEP`), and 1,048,576 (`WIDE`), 64 (`MANY`)\n"), 0);
        assert_eq!(checked(numbers, "at most 64 (`STEP`), and 32 (`GONE`)\n"), 2);
    }

    #[test]
    fn numbers_of_pages_for_users_agree() {
        let constants = SAID.map(|(_, _, name)| format!("const {name}: usize = 32;\n")).concat();
        let code = || Page::new("crates/tasuki/src/all.rs", &constants);
        let page = |(path, sentence, _): (&str, &str, &str)| Page::new(path, &sentence.replace("{}", "32"));
        assert_eq!(said_numbers(&[code(), page(SAID[0])]), []);
        assert_eq!(said_numbers(&[code(), Page::new("README.md", "more than 16 KiB of stack")]).len(), 1);
    }

    #[test]
    fn another_status_is_seen() {
        let of = |status: &str, cell: &str| {
            let decision = Page::new("docs/decisions/0007-a.md", &format!("*Status:* {status}\n"));
            let list = format!("| 7 | [A](0007-a.md) | mutex | {cell} |\n");
            statuses(&[decision, Page::new("docs/decisions/README.md", &list)]).len()
        };
        assert_eq!(of("in force. Measured.", "in force"), 0);
        assert_eq!(of("in force, but for [decision 9](b).", "in force; the rest: see 9"), 0);
        assert_eq!(of("in force, but for [decision 9](b).", "in force"), 1);
        assert_eq!(of("superseded in part by [decision 9](b).", "in force; see 9"), 1);
        assert_eq!(of("in force. Measured.", "in part: see 8"), 1);
    }

    #[test]
    fn a_feature_that_is_not_told_is_seen() {
        let manifest = Page::new(
            "crates/tasuki/Cargo.toml",
            "[features]\ndefault = []\nstd = []\nalloc = []\n\n[dependencies]\n",
        );
        let front = Page::new("crates/tasuki/src/lib.rs", "//! `std` is a feature.\n");
        assert_eq!(features(&[manifest, front]).len(), 1);
    }
}
