//! `cargo xtask tidy`: house rules that can be checked in the text of files. CONTRIBUTING.md says why each exists.

mod agreement;
mod benchmarks;
mod documents;
mod first_page;
mod forbidden;
mod hazards;
mod headers;
mod language;
mod names;
pub(crate) mod orderings;
mod programs;
mod public_docs;
mod rust;
mod seeds;
mod snippets;
mod truth;

use crate::args::Args;
use crate::report::{Outcome, Report};
use crate::shell::{output, program, root};
use crate::source::Source;
use std::time::Duration;

/// A breach: file, line (from 1; 0 for the whole file), what is wrong and what to do.
#[derive(Debug, PartialEq)]
pub(crate) struct Breach {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) what: String,
}

impl Breach {
    /// `line` counts from 0, as positions do.
    pub(crate) fn at(file: &str, line: usize, what: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: line + 1, what: what.into() }
    }

    pub(crate) fn whole(file: &str, what: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: 0, what: what.into() }
    }
}

/// A file of the project, with its Rust views if it is Rust.
pub(crate) struct Page {
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) rust: Option<Source>,
}

impl Page {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let rust = path.ends_with(".rs").then(|| Source::new(text));
        Self { path: path.to_owned(), text: text.to_owned(), rust }
    }

    /// Part of the library itself.
    pub(crate) fn in_library(&self) -> bool {
        self.path.starts_with("crates/") && self.path.contains("/src/")
    }
}

/// The text of a page; empty if there is none.
fn text<'p>(pages: &'p [Page], path: &str) -> &'p str {
    pages.iter().find(|page| page.path == path).map_or("", |page| page.text.as_str())
}

/// The Rust files of the libraries.
fn library(pages: &[Page]) -> impl Iterator<Item = (&Page, &Source)> {
    pages.iter().filter(|page| page.in_library()).filter_map(|page| Some((page, page.rust.as_ref()?)))
}

/// The same, without what the model checker replaces.
fn library_without_shims(pages: &[Page]) -> impl Iterator<Item = (&Page, &Source)> {
    library(pages).filter(|(page, _)| !page.path.contains("/src/shim"))
}

/// A rule looks at all pages, so that it may also compare them.
type Rule = fn(&[Page]) -> Vec<Breach>;

const RULES: &[(&str, Rule)] = &[
    ("the model's cfg only in shim.rs", rust::model_cfg),
    ("what belongs in one place is there only", forbidden::only_where_it_belongs),
    ("processes are told apart by their numbers", forbidden::no_process_ids),
    ("a test that forks is alone in its process", forbidden::forks_alone),
    ("other ways to wait are methods of the future", forbidden::no_twins),
    ("no macro makes public items", forbidden::no_public_macros),
    ("no licence banners", forbidden::no_banners),
    ("the list knows no wakers", rust::list_without_wakers),
    ("panics are caught in one file", rust::panics_caught_in_one_place),
    ("variables of a thread may be gone", hazards::thread_locals),
    ("a panic carries no value of ours", hazards::own_payloads),
    ("exchanged pointers are looked at", hazards::pointer_exchanges),
    ("no value with a drop is made in vain", hazards::eager_drops),
    ("nothing unfinished", rust::unfinished),
    ("unsafe cites an invariant", rust::unsafe_cites),
    ("every file begins with a sentence", headers::first_lines),
    ("pages of primitives have their sections", headers::sections),
    ("slow paths are out of line", headers::slow_is_out_of_line),
    ("files stay small", rust::file_length),
    ("functions stay small", rust::function_length),
    ("models end by themselves", rust::no_silent_caps),
    ("requirement ids are well formed", rust::requirement_ids),
    ("orderings name their pair", orderings::named),
    ("the orderings that are told are there", orderings::told),
    ("no paths of one machine", documents::foreign_paths),
    ("links lead somewhere, documents are linked", documents::links),
    ("what documents name exists", truth::names),
    ("what comments name exists", truth::names_in_comments),
    ("files that decisions name exist", truth::files_of_decisions),
    ("what others' names become exists", truth::migrating),
    ("places in documents are calls in the code", truth::places),
    ("numbers in documents are those of the code", truth::numbers),
    ("numbers of pages for users are those of the code", truth::said_numbers),
    ("decisions have the status of their pages", truth::statuses),
    ("every feature is told", truth::features),
    ("checks and their options are told", agreement::commands),
    ("what CI runs is told", agreement::steps_of_ci),
    ("packages say what they are", agreement::manifests),
    ("every chapter of the guide is run", agreement::chapters),
    ("the search of the documentation knows the names of others", agreement::search_aliases),
    ("commands that add a package add what their page shows", agreement::additions),
    ("so many models as are told", agreement::model_counts),
    ("the first page has the figures of the results", first_page::figures),
    ("the first page names the versions that are used", first_page::versions),
    ("actors have names", language::actors),
    ("the words are those of the field", language::private_words),
    ("keys of requirements stay in tests", language::keys),
    ("one name is one type", names::one_name_one_type),
    ("the code map names every file, and no other", documents::code_map),
    ("every file of tests is run", programs::every_file_is_run),
    ("what must not compile has a twin that does", programs::refusals_have_twins),
    ("every promise of the seeds names what shows it", seeds::rows),
    ("the figures of the seeds are those of the results", seeds::figures),
    ("what is awaited says what a drop loses", public_docs::cancel_safety),
    ("the guide says what every drop does", public_docs::drops_are_told),
    ("a guard that may be returned is to be used", public_docs::optional_guards),
    ("pages of types begin with their example", public_docs::examples_first),
    ("examples await", public_docs::examples_await),
    ("functions say what they do", public_docs::functions_say_what_they_do),
    ("programs to copy are whole", snippets::whole_programs),
    ("examples import what they use", snippets::imports_are_used),
    ("examples show what they use", snippets::examples_show_what_they_use),
    ("no public name hides one of the prelude", snippets::prelude_is_not_hidden),
    ("what is measured is described", benchmarks::workloads),
    ("the summary of the benchmarks has the ranges of the results", benchmarks::ranges),
    ("the summary of the benchmarks tells what is slower", benchmarks::slower),
    ("no hidden lines on pages", documents::hidden_lines),
    ("the changelog has an Unreleased section", documents::changelog),
];

pub(crate) fn run(args: Args) -> Result<Report, String> {
    args.end()?;
    let pages = pages()?;
    println!("=== tidy: {} files", pages.len());
    let mut report = Report::new("tidy");
    for (name, rule) in RULES {
        let breaches = rule(&pages);
        for Breach { file, line, what } in &breaches {
            println!("{file}:{line}: {what}");
        }
        let outcome = match breaches.len() {
            0 => Outcome::Passed,
            count => Outcome::Failed(format!("{count} breaches")),
        };
        report.row(name, outcome, Duration::ZERO);
    }
    for (file, lines) in rust::large_files(&pages) {
        report.note(format!("large: {file} has {lines} lines of code; the budget is {}", rust::FILE_BUDGET));
    }
    Ok(report)
}

/// Every text file that git tracks or would track.
fn pages() -> Result<Vec<Page>, String> {
    let listed = output(&mut program("git", "ls-files --cached --others --exclude-standard"))?;
    let mut pages = Vec::new();
    for path in listed.lines() {
        // Tracked but just deleted, or not text: nothing to read.
        if let Ok(text) = std::fs::read_to_string(root().join(path)) {
            pages.push(Page::new(path, &text));
        }
    }
    if !pages.iter().any(Page::in_library) {
        return Err("found no library to look at".to_owned());
    }
    Ok(pages)
}
