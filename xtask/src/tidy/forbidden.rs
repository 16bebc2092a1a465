//! Checks what ARCHITECTURE.md forbids ("What must never be there") and text can show: code that only some files may have, twins of methods, macros that make public items, licence banners.

use super::{Breach, Page, library};
use crate::source::{balanced, words};

/// What is looked for in the code of `tasuki`, tests left out; where it may be; what the sentence is.
struct Never {
    text: &'static str,
    allowed: &'static [&'static str],
    why: &'static str,
}

const NEVERS: [Never; 16] = [
    Never {
        text: "NonNull<Waiter",
        allowed: &["queue/", "wait/single.rs"],
        why: "only the queue and the one wait have pointers to nodes",
    },
    Never {
        text: "PhantomPinned",
        allowed: &["wait/single.rs", "channel/parcel.rs"],
        why: "only one file pins a waiter, and one the message beside it",
    },
    Never {
        text: "target_os",
        allowed: &["parker/sleep.rs", "process_id.rs", "host_executor.rs"],
        why: "only parker/sleep.rs, process_id.rs and host_executor.rs know the operating system",
    },
    Never {
        text: "thread::Builder",
        allowed: &["timer/shared.rs", "inspect/watch.rs"],
        why: "the library starts no thread but those of the timer and of `inspect`",
    },
    Never {
        text: "thread::spawn",
        allowed: &["inspect/thread_tests.rs"],
        why: "the library starts no thread but those of the timer and of `inspect`",
    },
    Never {
        text: "Instant::now",
        allowed: &["timer/", "parker/", "spin_pause.rs", "runtime.rs", "host_executor.rs"],
        why: "a clock is read by timer/, parker/, spin_pause.rs, host_executor.rs and the driver's default only",
    },
    Never {
        text: ".elapsed()",
        allowed: &["timer/", "parker/", "spin_pause.rs", "host_executor.rs", "inspect/watch.rs"],
        why: "`elapsed` reads a clock, which only timer/, parker/, spin_pause.rs, host_executor.rs and the watcher of `inspect` do",
    },
    Never { text: "SystemTime", allowed: &[], why: "a clock that is set by hand is read nowhere" },
    Never {
        text: "P::OVERTAKES",
        allowed: &["mutex/", "semaphore/"],
        why: "a policy is read where a lock or a semaphore decides",
    },
    Never {
        text: "P::REVOCABLE",
        allowed: &["mutex/"],
        why: "a policy is read where a lock or a semaphore decides",
    },
    Never {
        text: "P::SPIN",
        allowed: &["mutex/"],
        why: "a policy is read where a lock or a semaphore decides",
    },
    Never { text: "SeqCst", allowed: &["inspect/"], why: "only the records of `inspect/` have fences" },
    Never {
        text: "fence(",
        allowed: &["inspect/", "shim"],
        why: "only the records of `inspect/` have fences",
    },
    Never {
        text: "P::ORDER",
        allowed: &["mutex/raw/enqueue.rs"],
        why: "the order of service is read in one file",
    },
    Never {
        text: "tracing::",
        allowed: &["trace.rs"],
        why: "a subscriber of `tracing` may panic: only trace.rs calls it, and contains its panics",
    },
    Never {
        text: "debug_assertions",
        allowed: &[
            "probe/",
            "inspect/mod.rs",
            "lib.rs",
            "runtime.rs",
            "task.rs",
            "task/notes.rs",
            "trace.rs",
        ],
        why: "what exists with debug assertions only is in probe/ and inspect/, and at their edges to runtimes and tasks",
    },
];

/// Public functions whose names say how they wait. The first is asked for by the seeds; a parker is no future; an option of sockets has the name that the system gives it.
const TWINS: [&str; 6] =
    ["lock_for", "park_timeout", "park_deadline", "shutdown_timeout", "set_user_timeout", "user_timeout"];

pub(crate) fn only_where_it_belongs(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (page, source) in library(pages) {
        let Some(file) = page.path.strip_prefix("crates/tasuki/src/") else { continue };
        let tests = source.test_lines();
        for never in
            NEVERS.iter().filter(|never| !never.allowed.iter().any(|allowed| file.starts_with(allowed)))
        {
            for (at, _) in source.bare.match_indices(never.text) {
                let line = source.line_of(at);
                if !tests[line] {
                    breaches.push(Breach::at(&page.path, line, never.why));
                }
            }
        }
    }
    breaches
}

/// A child of a fork may have the process id of its parent: what tells them apart is `runtime::process_number`. The page of `tasuki-inspect` shows the id.
pub(crate) fn no_process_ids(pages: &[Page]) -> Vec<Breach> {
    const ALLOWED: [&str; 2] = ["crates/tasuki/src/process_id.rs", "crates/tasuki-inspect/src/sampler.rs"];
    let mut breaches = Vec::new();
    for (page, source) in library(pages).filter(|(page, _)| !ALLOWED.contains(&page.path.as_str())) {
        let tests = source.test_lines();
        for (at, _) in source.bare.match_indices("process::id()") {
            let line = source.line_of(at);
            if !tests[line] {
                breaches.push(Breach::at(
                    &page.path,
                    line,
                    "a child may have this id: `process_number` tells",
                ));
            }
        }
    }
    breaches
}

/// The child of a fork finds every lock as the other threads of its parent left it: those of other tests, too. So a test that forks is alone in its process.
pub(crate) fn forks_alone(pages: &[Page]) -> Vec<Breach> {
    const ALLOWED: [&str; 4] = [
        "crates/tasuki/src/fork_child.rs",
        "crates/tasuki/tests/process/",
        "crates/tasuki-rt/tests/process/",
        // What its child does takes no lock: the test is of that.
        "crates/tasuki-inspect/tests/fork.rs",
    ];
    let mut breaches = Vec::new();
    for page in pages.iter().filter(|page| !ALLOWED.iter().any(|allowed| page.path.starts_with(allowed))) {
        let Some(source) = &page.rust else { continue };
        for (at, _) in source.bare.match_indices("libc::fork(") {
            let what = "a test that forks runs in a process of its own: `fork_child`, or in tests/process/";
            breaches.push(Breach::at(&page.path, source.line_of(at), what));
        }
    }
    breaches
}

/// Other ways to wait are methods of the future.
pub(crate) fn no_twins(pages: &[Page]) -> Vec<Breach> {
    let twin = |name: &str| {
        let ends = ["_timeout", "_deadline", "_for", "_cancellable"];
        (name.starts_with("blocking_") || ends.iter().any(|end| name.ends_with(end)))
            && !TWINS.contains(&name)
    };
    let mut breaches = Vec::new();
    for (page, source) in library(pages) {
        for (at, _) in source.bare.match_indices("pub fn ") {
            let name = words(&source.bare[at + 7..]).next().map_or("", |(_, name)| name);
            if twin(name) {
                let what = format!("{name}: other ways to wait are methods of the future");
                breaches.push(Breach::at(&page.path, source.line_of(at), what));
            }
        }
    }
    breaches
}

/// What users see is written out: a reader finds it by searching for its name.
pub(crate) fn no_public_macros(pages: &[Page]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (page, source) in library(pages).filter(|(page, _)| !page.path.contains("/shim")) {
        for (at, _) in source.bare.match_indices("macro_rules!") {
            let Some(body) = balanced(&source.bare, at) else { continue };
            let makes = ["pub fn", "pub struct", "pub enum", "pub type", "pub const", "pub trait"];
            if makes.iter().any(|item| source.bare[body.clone()].contains(item)) {
                breaches.push(Breach::at(&page.path, source.line_of(at), "a macro makes public items"));
            }
        }
    }
    breaches
}

/// The licences are at the root, and in each package.
pub(crate) fn no_banners(pages: &[Page]) -> Vec<Breach> {
    let banners =
        [concat!("SPDX-License", "-Identifier"), concat!("Licensed", " under"), concat!("Copyright", " (c)")];
    let has = |page: &&Page| {
        let top = page.text.lines().take(10);
        page.rust.is_some() && top.into_iter().any(|line| banners.iter().any(|banner| line.contains(banner)))
    };
    pages.iter().filter(has).map(|page| Breach::whole(&page.path, "a licence banner: leave it out")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_elsewhere_is_seen() {
        let page =
            |file: &str| Page::new(&format!("crates/tasuki/src/{file}"), "fn f() { Instant::now(); }\n");
        assert_eq!(only_where_it_belongs(&[page("timer/mod.rs")]), []);
        assert_eq!(only_where_it_belongs(&[page("mutex/mod.rs")]).len(), 1);
        let tests = "#[cfg(test)]\nmod tests {\n    fn f() { Instant::now(); }\n}\n";
        assert_eq!(only_where_it_belongs(&[Page::new("crates/tasuki/src/mutex/mod.rs", tests)]), []);
    }

    #[test]
    fn process_ids_are_seen() {
        let page = |path: &str| Page::new(path, "fn f() -> u32 { std::process::id() }\n");
        assert_eq!(no_process_ids(&[page("crates/tasuki/src/process_id.rs")]), []);
        assert_eq!(no_process_ids(&[page("crates/tasuki-rt/src/threads.rs")]).len(), 1);
    }

    #[test]
    fn forks_are_seen() {
        let page = |path: &str| Page::new(path, "fn f() { unsafe { libc::fork() }; }\n");
        assert_eq!(forks_alone(&[page("crates/tasuki/src/fork_child.rs")]), []);
        assert_eq!(forks_alone(&[page("crates/tasuki/tests/process/system.rs")]), []);
        assert_eq!(forks_alone(&[page("crates/tasuki/src/timer/shared.rs")]).len(), 1);
    }

    #[test]
    fn twins_macros_and_banners_are_seen() {
        let page = |text: &str| [Page::new("crates/tasuki/src/a.rs", text)];
        assert_eq!(no_twins(&page("pub fn lock_for() {}\npub fn lock() {}\n")), []);
        assert_eq!(no_twins(&page("pub fn blocking_lock() {}\npub fn lock_timeout() {}\n")).len(), 2);
        assert_eq!(no_public_macros(&page("macro_rules! a { () => { pub(crate) fn b() {} } }\n")), []);
        assert_eq!(no_public_macros(&page("macro_rules! a { () => { pub fn b() {} } }\n")).len(), 1);
        assert_eq!(no_banners(&page("// a\n")), []);
        let banner = format!("// {}: MIT\n", concat!("SPDX-License", "-Identifier"));
        assert_eq!(no_banners(&page(&banner)).len(), 1);
    }
}
