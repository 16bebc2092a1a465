//! What users read and call. What can be awaited says what a drop of it loses: every public function that is a future, or returns one of ours, has a section
//! `# Cancel safety`. The page of a type shows how it is used before it says what it promises.
//! A guard that may be returned is to be used.

use super::{Breach, Page, library_without_shims as library, text};
use crate::source::words;
use std::collections::HashSet;

const SECTION: &str = "# Cancel safety";

/// Futures that a function returns besides what it does: to drop them cancels nothing, as the page of the type says.
const HANDLES: [&str; 1] = ["JoinHandle"];

pub(crate) fn cancel_safety(pages: &[Page]) -> Vec<Breach> {
    let futures = futures(pages);
    let mut breaches = Vec::new();
    for (page, source) in library(pages) {
        let tests = source.test_lines();
        for (at, _) in words(&source.bare).filter(|(_, word)| *word == "pub") {
            let line = source.line_of(at);
            let item = item(&source.bare[at..]);
            let Some(name) = awaitable(item, &futures).filter(|_| !tests[line]) else { continue };
            let documentation = documentation(&source.text, line);
            if !documentation.contains(SECTION) && !documentation.contains("doc(hidden)") {
                breaches.push(Breach::at(&page.path, line, format!("{name} can be awaited: `{SECTION}`")));
            }
        }
    }
    breaches
}

/// The guide says of everything that can be awaited what a drop of it does; of forms that differ in what they own or how many they ask for, once.
pub(crate) fn drops_are_told(pages: &[Page]) -> Vec<Breach> {
    const CHAPTER: &str = "docs/guide/cancellation.md";
    let told: HashSet<&str> = words(text(pages, CHAPTER)).map(|(_, word)| word).collect();
    let futures = futures(pages);
    let mut breaches = Vec::new();
    for (page, source) in library(pages) {
        let tests = source.test_lines();
        for (at, _) in words(&source.bare).filter(|(_, word)| *word == "pub") {
            let line = source.line_of(at);
            let Some(name) = awaitable(item(&source.bare[at..]), &futures).filter(|_| !tests[line]) else {
                continue;
            };
            let forms = ["_owned", "_many", "_mut", "_for", "_until", "_from", "_with_id"];
            let plain = forms.iter().fold(name, |name, form| name.strip_suffix(form).unwrap_or(name));
            let for_runtimes = page.path.ends_with("/keyed.rs");
            let hidden = documentation(&source.text, line).contains("doc(hidden)");
            if !told.contains(plain) && !for_runtimes && !hidden {
                breaches.push(Breach::at(&page.path, line, format!("{CHAPTER} does not tell of {plain}")));
            }
        }
    }
    breaches
}

/// The example of a type comes before the sections of its contract.
pub(crate) fn examples_first(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (page, source) in library(pages) {
        for (line, text) in page.text.lines().enumerate() {
            let kinds = ["pub struct ", "pub enum ", "pub trait "];
            let Some(name) = kinds.iter().find_map(|kind| text.strip_prefix(kind)) else { continue };
            let documentation = documentation(&source.text, line);
            // It is read upwards: the first example is the last one.
            let Some((_, before)) = documentation.rsplit_once("\n/// ```") else { continue };
            let contract = |line: &&str| line.starts_with("/// # ") && !line.ends_with("# Examples");
            if let Some(section) = before.lines().find(contract) {
                let name = words(name).next().map_or("", |(_, name)| name);
                let what =
                    format!("the example of {name} comes before {:?}", section.trim_start_matches("/// "));
                breaches.push(Breach::at(&page.path, line, what));
            }
        }
    }
    breaches
}

/// The first sentence of a public function begins with what it does: returns, creates, locks; or with the function that it is like.
pub(crate) fn functions_say_what_they_do(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (page, source) in library(pages) {
        let tests = source.test_lines();
        for (at, _) in words(&source.bare).filter(|(_, word)| *word == "pub") {
            let line = source.line_of(at);
            let Some(Signature { name, .. }) = signature(item(&source.bare[at..])).filter(|_| !tests[line])
            else {
                continue;
            };
            let documentation = documentation(&source.text, line);
            // It is read upwards: the first line is the last one.
            let first = documentation.lines().rev().find_map(|line| line.strip_prefix("/// "));
            let says = |first: &str| {
                let word = words(first).next().map_or("", |(_, word)| word);
                ["As", "See"].contains(&word)
                    || word.ends_with('s') && !["Is", "Its", "This", "Has", "Was"].contains(&word)
            };
            if first.is_some_and(|first| !says(first)) {
                let what = format!(
                    "the first sentence of {name} begins with what it does (a verb: returns, sets), or with `As`"
                );
                breaches.push(Breach::at(&page.path, line, what));
            }
        }
    }
    breaches
}

/// Where the examples are of threads that wait.
const OF_THREADS: [&str; 2] = ["src/wait/mod.rs", "src/channel/iter.rs"];

/// Examples show what most users write: a task that awaits.
pub(crate) fn examples_await(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let of_threads = |page: &Page| OF_THREADS.iter().any(|file| page.path.ends_with(file));
    for (page, _) in library(pages).filter(|(page, _)| !of_threads(page)) {
        let mut example = None;
        for (line, text) in page.text.lines().enumerate() {
            let text = text.trim_start();
            if text.starts_with("/// ```") || text.starts_with("//! ```") {
                example = match example {
                    None => Some((false, false)),
                    Some((true, false)) => {
                        breaches.push(Breach::at(&page.path, line, "an example blocks and does not await"));
                        None
                    }
                    Some(_) => None,
                };
            }
            if let Some((blocks, awaits)) = &mut example {
                *blocks |= text.contains(".block()");
                *awaits |= text.contains(".await");
            }
        }
    }
    breaches
}

/// The types that are futures: those for which `Future` is implemented, and other names of these.
fn futures(pages: &[Page]) -> HashSet<&str> {
    let mut futures = HashSet::new();
    let mut aliases = Vec::new();
    for (_, source) in library(pages) {
        let bare = source.bare.as_str();
        for (at, word) in words(bare) {
            let rest = &bare[at + word.len()..];
            if word == "Future" && rest.starts_with(" for ") {
                futures.extend(words(rest).nth(1).map(|(_, name)| name));
            }
            if word == "type" {
                let alias = rest.split_once(';').and_then(|(alias, _)| alias.rsplit_once(" = "));
                let name = words(rest).next();
                aliases.extend(name.zip(alias).map(|((_, name), (_, of))| (name, returned(of))));
            }
        }
    }
    futures.retain(|name| !HANDLES.contains(name));
    loop {
        let known = futures.len();
        futures.extend(
            aliases.iter().filter(|(_, of)| futures.contains(of)).map(|(name, _)| *name).collect::<Vec<_>>(),
        );
        if futures.len() == known {
            return futures;
        }
    }
}

/// The last name of the path that a type begins with.
fn returned(of: &str) -> &str {
    let path = of.split(['<', ' ', '\n']).next().unwrap_or_default();
    path.rsplit("::").next().unwrap_or_default()
}

/// An item up to its body.
fn item(bare: &str) -> &str {
    &bare[..bare.find(['{', ';']).unwrap_or(bare.len())]
}

/// A guard that a function may return is one that the caller has to keep: the compiler says so of a guard, but not of an `Option` of one.
pub(crate) fn optional_guards(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (page, source) in library(pages) {
        for (at, _) in words(&source.bare).filter(|(_, word)| *word == "pub") {
            let line = source.line_of(at);
            let Some(Signature { name, output, .. }) = signature(item(&source.bare[at..])) else { continue };
            let gives_guard =
                output.starts_with("Option<") && words(output).any(|(_, word)| word.ends_with("Guard"));
            if gives_guard && !documentation(&source.text, line).contains("#[must_use") {
                let what = format!("{name} may return a guard: `#[must_use]`");
                breaches.push(Breach::at(&page.path, line, what));
            }
        }
    }
    breaches
}

/// A public function.
struct Signature<'s> {
    name: &'s str,
    output: &'s str,
    is_async: bool,
}

/// Of an item that is a public function.
fn signature(item: &str) -> Option<Signature<'_>> {
    let before: Vec<&str> = words(item).map(|(_, word)| word).take_while(|word| *word != "fn").collect();
    let modifiers = ["pub", "const", "unsafe", "async"];
    if item.starts_with("pub(") || !before.iter().all(|word| modifiers.contains(word)) {
        return None;
    }
    let name = words(item).nth(before.len() + 1)?.1;
    let bounds = words(item).find(|(_, word)| *word == "where").map_or(item.len(), |(at, _)| at);
    let output = item[..bounds].rsplit_once(") -> ").map_or("", |(_, output)| output);
    Some(Signature { name, output, is_async: before.contains(&"async") })
}

/// The name of a public function that can be awaited.
fn awaitable<'s>(item: &'s str, futures: &HashSet<&str>) -> Option<&'s str> {
    let Signature { name, output, is_async } = signature(item)?;
    let opaque = output.starts_with("impl ") && words(output).any(|(_, word)| word == "Future");
    (is_async || futures.contains(returned(output)) || opaque).then_some(name)
}

/// The comments and attributes above a line.
fn documentation(text: &str, line: usize) -> String {
    let lines: Vec<&str> = text.lines().take(line).map(str::trim).collect();
    let above = lines.iter().rev().take_while(|line| line.starts_with("//") || line.starts_with("#["));
    above.copied().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optional_guard_is_to_be_used() {
        let text = "pub fn try_a(&self) -> Option<MutexGuard<'_, T>> {}\n#[must_use = \"b\"]\n#[inline]\npub fn try_b(&self) -> Option<MutexGuard<'_, T>> {}\n\
                    pub fn guard(&self) -> MutexGuard<'_, T> {}\npub fn get(&self) -> Option<&T> {}\n";
        let breaches = optional_guards(&[Page::new("crates/tasuki/src/lock.rs", text)]);
        assert_eq!(
            breaches,
            [Breach::at("crates/tasuki/src/lock.rs", 0, "try_a may return a guard: `#[must_use]`")]
        );
    }

    #[test]
    fn a_function_that_does_not_say_what_it_does_is_seen() {
        let found = |first: &str| {
            let text = format!("/// {first}\n///\n/// More.\n#[inline]\npub const fn a() {{}}\n");
            functions_say_what_they_do(&[Page::new("crates/tasuki/src/a.rs", &text)]).len()
        };
        assert_eq!(
            (found("Yields: b."), found("As `b`, and more."), found("Is it held?"), found("A free lock.")),
            (0, 0, 1, 1)
        );
    }

    #[test]
    fn a_drop_that_is_not_told_is_seen() {
        let source = "pub async fn acquire_many_owned() {}\npub async fn told() {}\npub fn other() {}\n";
        let found = |chapter: &str| {
            let chapter = Page::new("docs/guide/cancellation.md", chapter);
            drops_are_told(&[chapter, Page::new("crates/tasuki/src/a.rs", source)]).len()
        };
        assert_eq!((found("| `acquire`, `told` |\n"), found("| `told` |\n"), found("")), (0, 1, 2));
    }

    #[test]
    fn an_example_that_only_blocks_is_seen() {
        let found = |example: &str| {
            let text = format!(
                "/// ```text\n/// x.block()\n/// .await\n/// ```\n/// ```\n/// {example}\n/// ```\npub struct A;\n"
            );
            examples_await(&[Page::new("crates/tasuki/src/a.rs", &text)]).len()
        };
        assert_eq!(
            (found("a.lock().block();"), found("a.lock().await;"), found("f(|| b.block(), c.await)")),
            (1, 0, 0)
        );
    }

    #[test]
    fn the_example_comes_first() {
        let (example, contract) =
            ("/// # Examples\n///\n/// ```\n/// # hidden();\n/// ```\n", "/// # Order\n///\n/// In order.\n");
        let text = format!(
            "/// A.\n{example}{contract}pub struct A;\n/// B.\n{contract}{example}#[derive(Debug)]\npub struct B;\n"
        );
        let breaches = examples_first(&[Page::new("crates/tasuki/src/lock.rs", &text)]);
        assert_eq!(
            breaches,
            [Breach::at("crates/tasuki/src/lock.rs", 20, "the example of B comes before \"# Order\"")]
        );
    }

    #[test]
    fn a_function_that_can_be_awaited_has_its_section() {
        let told = "/// Waits.\n///\n/// # Cancel safety\n///\n/// Nothing is lost.\n#[cfg(x)]\npub fn told(&self) -> future::Lock<'_> {}\n";
        let text = format!(
            "pub type Lock<'a, P = Fifo> = Wait<Single<LockOp<'a, P>>>;\n{told}\
             /// Waits.\npub fn untold(&self) -> Lock<'_, T> {{}}\n/// Waits.\npub async fn parallel() {{}}\n\
             pub(crate) async fn ours() {{}}\npub fn plain(wait: Lock<'_>) -> bool {{}}\n#[doc(hidden)]\npub async fn hidden() {{}}\n\
             pub fn spawn() -> JoinHandle<u8> {{}}\npub type Held = crate::Lock<'static>;\npub fn held<F>() -> Held\nwhere\n    F: FnOnce() -> u8,\n{{}}\nimpl<A> Future for Wait<A> {{}}\npub fn opaque() -> impl Future<Output = ()> {{}}\n\
             impl<T> Future for JoinHandle<T> {{}}\nimpl Future for Sleep {{}}\npub fn sleep() -> Sleep {{}}\n"
        );
        let breaches = cancel_safety(&[Page::new("crates/tasuki/src/lock.rs", &text)]);
        let found: Vec<&str> = breaches.iter().filter_map(|breach| breach.what.split(' ').next()).collect();
        assert_eq!(found, ["untold", "parallel", "held", "opaque", "sleep"]);
    }
}
