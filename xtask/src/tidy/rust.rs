//! Rules on Rust files: sizes, SAFETY comments, the model's `cfg`, reminders, ids of requirements.

use super::{Breach, Page};
use crate::source::{Source, balanced, words};

/// Lines of code a file should not exceed; beyond it the report says so.
pub(crate) const FILE_BUDGET: usize = 400;

/// Lines of any kind a file must not exceed.
const FILE_LIMIT: usize = 700;

/// Lines of code a function of the library must not exceed.
const FUNCTION_LIMIT: usize = 60;

/// Words that say a thing is not done. Cut in two so that this file does not break its own rule.
const UNFINISHED: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX"), concat!("HA", "CK")];
const UNFINISHED_MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// The requirements: how many each document has, by its number.
pub(super) const REQUIREMENTS: [usize; 5] = [23, 31, 79, 29, 17];

fn rust(pages: &[Page]) -> impl Iterator<Item = (&Page, &Source)> {
    pages.iter().filter_map(|page| Some((page, page.rust.as_ref()?)))
}

pub(crate) fn model_cfg(pages: &[Page]) -> Vec<Breach> {
    let allowed =
        |path: &str| path.ends_with("/src/shim.rs") || path.contains("/model/") || path.contains("/tests/");
    let names_model = |condition: &str| {
        words(condition).any(|(_, word)| matches!(word, "loom" | "tasuki_loom" | "shuttle"))
    };
    cfg_breaches(pages, allowed, names_model, "only shim.rs may ask which model runs: give it a name there")
}

/// What a panic carries is foreign code: one file of the library catches it, and drops it with care.
pub(crate) fn panics_caught_in_one_place(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let library = |path: &str| path.starts_with("crates/tasuki/src/") && !path.ends_with("/catch_panic.rs");
    for (page, source) in rust(pages).filter(|(page, _)| library(&page.path)) {
        let tests = source.bare.find("mod tests").unwrap_or(source.bare.len());
        for (at, _) in words(&source.bare[..tests]).filter(|(_, word)| *word == "catch_unwind") {
            breaches.push(Breach::at(
                &page.path,
                source.line_of(at),
                "a payload's drop may panic: catch panics by `catch_panic::catch`",
            ));
        }
    }
    breaches
}

/// Conditions of conditional compilation in files where they do not belong.
fn cfg_breaches(
    pages: &[Page],
    allowed: fn(&str) -> bool,
    wanted: fn(&str) -> bool,
    what: &str,
) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (page, source) in rust(pages).filter(|(page, _)| !allowed(&page.path)) {
        for (at, _) in words(&source.bare).filter(|(_, word)| matches!(*word, "cfg" | "cfg_attr")) {
            let Some(condition) = balanced(&source.bare, at) else { continue };
            if wanted(&source.code[condition]) {
                breaches.push(Breach::at(&page.path, source.line_of(at), what));
            }
        }
    }
    breaches
}

pub(crate) fn list_without_wakers(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (page, source) in rust(pages).filter(|(page, _)| page.path.ends_with("/queue/list.rs")) {
        for (at, _) in words(&source.bare).filter(|(_, word)| word.contains("Waker")) {
            breaches.push(Breach::at(
                &page.path,
                source.line_of(at),
                "the list links nodes; wakers are the waiter's",
            ));
        }
    }
    breaches
}

pub(crate) fn unfinished(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (page, source) in rust(pages) {
        let prose = words(&page.text).filter(|(_, word)| UNFINISHED.contains(word));
        let calls = words(&source.bare).filter(|(at, word)| {
            UNFINISHED_MACROS.contains(word) && source.bare[at + word.len()..].starts_with('!')
        });
        for (at, word) in prose.chain(calls) {
            breaches.push(Breach::at(
                &page.path,
                source.line_of(at),
                format!("{word}: finish it or open an issue"),
            ));
        }
    }
    breaches
}

pub(crate) fn unsafe_cites(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (page, source) in rust(pages) {
        for (at, _) in words(&source.bare).filter(|(_, word)| *word == "unsafe") {
            let rest = source.bare[at + "unsafe".len()..].trim_start();
            if !(rest.starts_with('{') || rest.starts_with("impl")) {
                continue;
            }
            let line = source.line_of(at);
            let (_, comment) = source.comment_on(line);
            let problem = match comment.rsplit_once("SAFETY:") {
                None => "unsafe without a SAFETY comment directly above its statement",
                Some((_, why)) if !is_argument(why) => {
                    "this SAFETY comment argues nothing: cite the invariant"
                }
                Some(_) => continue,
            };
            breaches.push(Breach::at(&page.path, line, problem));
        }
    }
    breaches
}

/// At least two words ("module contract"), and not a postponement.
fn is_argument(why: &str) -> bool {
    let postponed = ["untriaged", "tbd", "later"];
    let first = words(why).next().map(|(_, word)| word.to_lowercase()).unwrap_or_default();
    words(why).count() >= 2 && !postponed.contains(&first.as_str())
}

pub(crate) fn file_length(pages: &[Page]) -> Vec<Breach> {
    let long = |(page, _): (&Page, &Source)| {
        let lines = page.text.lines().count();
        let what = format!("{lines} lines, the limit is {FILE_LIMIT}: it wants to be two files");
        (lines > FILE_LIMIT).then(|| Breach::whole(&page.path, what))
    };
    rust(pages).filter_map(long).collect()
}

/// Files over their budget of code: worth a thought, not a failure.
pub(crate) fn large_files(pages: &[Page]) -> Vec<(String, usize)> {
    let measured = rust(pages).map(|(page, source)| (page.path.clone(), source.code_lines()));
    measured.filter(|(_, lines)| *lines > FILE_BUDGET).collect()
}

pub(crate) fn function_length(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (page, source) in rust(pages).filter(|(page, _)| page.in_library()) {
        let tests = source.test_lines();
        for (name, line, lines) in source.functions() {
            if lines > FUNCTION_LIMIT && !tests[line] {
                let what = format!(
                    "fn {name}: {lines} lines of code, the limit is {FUNCTION_LIMIT}: cut it in phases"
                );
                breaches.push(Breach::at(&page.path, line, what));
            }
        }
    }
    breaches
}

pub(crate) fn no_silent_caps(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (page, source) in rust(pages).filter(|(page, _)| page.path.contains("/model/")) {
        let capped = |word: &str| matches!(word, "max_duration" | "max_permutations");
        for (at, word) in words(&source.bare).filter(|(_, word)| capped(word)) {
            let what = format!("{word} ends a model early and silently: make the model smaller");
            breaches.push(Breach::at(&page.path, source.line_of(at), what));
        }
    }
    breaches
}

pub(crate) fn requirement_ids(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let cites =
        |page: &Page| page.path.contains("/tests/") || page.path.contains("/model/") || page.in_library();
    for (page, source) in rust(pages).filter(|(page, _)| cites(page)) {
        for (at, word) in words(&source.comments) {
            let Some(document) = word.strip_prefix('S').filter(|rest| rest.len() == 1) else { continue };
            let Some(rest) = source.comments[at + word.len()..].strip_prefix('-') else { continue };
            let number = words(rest).next().filter(|(at, _)| *at == 0).map_or("", |(_, number)| number);
            if !is_requirement(document, number) {
                let what = format!("{word}-{number} is no requirement: S0-01 to S4-17, two digits");
                breaches.push(Breach::at(&page.path, source.line_of(at), what));
            }
        }
    }
    breaches
}

fn is_requirement(document: &str, number: &str) -> bool {
    let last = document.parse().ok().and_then(|document: usize| REQUIREMENTS.get(document));
    let number_is = number.parse().ok().filter(|_| number.len() == 2);
    matches!((last, number_is), (Some(last), Some(number)) if (1..=*last).contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rule: fn(&[Page]) -> Vec<Breach>, path: &str, text: &str) -> Vec<usize> {
        rule(&[Page::new(path, text)]).into_iter().map(|breach| breach.line).collect()
    }

    #[test]
    fn cfgs_have_their_one_file() {
        let text = "#[cfg(not(tasuki_loom))]\nfn a() {}\n// cfg(loom) in prose\n#[cfg_attr(\n    shuttle, x)]\nfn b() {}\n";
        assert_eq!(lines(model_cfg, "crates/tasuki/src/mutex.rs", text), [1, 4]);
        assert!(lines(model_cfg, "crates/tasuki/src/shim.rs", text).is_empty());
        assert!(lines(model_cfg, "crates/tasuki/model/main.rs", text).is_empty());
    }

    #[test]
    fn panics_are_caught_in_one_file() {
        let text = "// catch_unwind in prose\nfn a() { catch_unwind(b) }\nmod tests { fn c() { catch_unwind(b) } }\n";
        assert_eq!(lines(panics_caught_in_one_place, "crates/tasuki/src/queue/batch.rs", text), [2]);
        assert!(lines(panics_caught_in_one_place, "crates/tasuki/src/catch_panic.rs", text).is_empty());
        assert!(lines(panics_caught_in_one_place, "crates/tasuki/tests/mutex.rs", text).is_empty());
    }

    #[test]
    fn wakers_and_lists_stay_apart() {
        let text = "// no Waker here\nuse core::task::Waker;\n";
        assert_eq!(lines(list_without_wakers, "crates/tasuki/src/queue/list.rs", text), [2]);
        assert!(lines(list_without_wakers, "crates/tasuki/src/queue/waiter.rs", text).is_empty());
    }

    #[test]
    fn unfinished_work_is_seen_in_code_and_prose() {
        let text =
            format!("// {}: later\nfn a() {{ {}!() }}\nlet todo = 1;", UNFINISHED[0], UNFINISHED_MACROS[1]);
        assert_eq!(lines(unfinished, "lab/src/main.rs", &text), [1, 2]);
    }

    #[test]
    fn unsafe_needs_an_argument() {
        let text = "
// SAFETY: invariant 2, the node is in the list.
unsafe impl Send for A {}
unsafe impl Sync for A {}
fn a() {
    // SAFETY: invariant 1, the lock
    // is held.
    let x = call(
        unsafe { node.as_ref() },
    );
    // SAFETY: untriaged
    unsafe { b() };
    unsafe { c() } // SAFETY: invariant 3, the word is ours.
}
unsafe fn d() {}
";
        assert_eq!(lines(unsafe_cites, "lab/src/main.rs", text), [4, 12]);
    }

    #[test]
    fn lengths_have_limits() {
        let body = "    call();\n    // a comment is free\n".repeat(58);
        let fits = format!("fn fits() {{\n{}}}\n", &body);
        let long = format!("fn long() {{\n    call();\n{}}}\n", &body);
        assert_eq!(lines(function_length, "crates/tasuki/src/a.rs", &fits), [0; 0]);
        assert_eq!(lines(function_length, "crates/tasuki/src/a.rs", &long), [1]);
        assert!(lines(function_length, "lab/src/a.rs", &long).is_empty());
        assert_eq!(lines(file_length, "lab/src/a.rs", &"\n".repeat(FILE_LIMIT + 1)), [0]);
        assert!(lines(file_length, "lab/src/a.rs", &"\n".repeat(FILE_LIMIT)).is_empty());
        let large = [Page::new("a.rs", &"call();\n".repeat(FILE_BUDGET + 1))];
        assert_eq!(large_files(&large), [("a.rs".to_owned(), FILE_BUDGET + 1)]);
    }

    #[test]
    fn models_are_never_cut_short() {
        let text = "let mut b = Builder::new();\nb.max_duration = None;\n";
        assert_eq!(lines(no_silent_caps, "crates/tasuki/model/main.rs", text), [2]);
    }

    #[test]
    fn requirement_ids_exist() {
        let text = "// S0-01 S4-17, S2-79\n// S4-18\n// S5-01\n// S1-1\n// TLS1-3 and S3 alone\n";
        assert_eq!(lines(requirement_ids, "crates/tasuki/tests/mutex.rs", text), [2, 3, 4]);
    }
}
