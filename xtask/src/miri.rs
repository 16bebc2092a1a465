//! `cargo xtask miri`: the tests of both libraries under Miri, several schedules, strict provenance, both borrow models, and every
//! freed address reused at once, also by other threads. `--small` runs the unit tests and [`SMALL`], with 64 seeds unless
//! `--seeds` says otherwise; `--lib` the unit tests only; `--stacked` leaves Tree Borrows out, `--by-turns` runs each seed under
//! one of the two models only; `--program NAME` runs those parts
//! whose names have it.
//!
//! Why addresses are reused: a pointer that was compared and not exchanged has the right address and the wrong provenance once
//! another allocation is there, and nothing shows that where addresses are fresh.
//!
//! Each file of tests and each seed is a run of its own, so that two cores are used and every run is timed.

use crate::args::Args;
use crate::model::pool;
use crate::report::{Outcome, Report};
use crate::shell::{self, Capped, Tests, capped, cargo, root, tail, target};
use crate::toolchain::{self, NIGHTLY};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// What every run is given. `--small` runs by Miri's own clock, which steps run forward: a seed is the same run on every machine, however slow.
const FLAGS: &str =
    "-Zmiri-strict-provenance -Zmiri-address-reuse-rate=1 -Zmiri-address-reuse-cross-thread-rate=1";

/// What all tests need beside that: files and variables of the host, and with them its clock.
const HOST: &str = "-Zmiri-disable-isolation";

/// What `--small` has beside the unit tests: tests of the runtime that are over in seconds.
const SMALL: [&str; 1] = ["-p tasuki-rt --test main -- scheduler::small::"];

/// A run that takes longer than this hangs.
const CAP: Duration = Duration::from_secs(3600);

/// The packages with tests.
pub(crate) const PACKAGES: [&str; 2] = ["tasuki", "tasuki-rt"];

/// What Miri cannot run, and why.
const BEYOND: [(&str, &str); 15] = [
    ("-p tasuki-rt --test main -- net::batches::", "sockets"),
    ("-p tasuki-rt --test main -- net::datagrams::", "sockets"),
    ("-p tasuki-rt --test main -- net::faults::", "sockets"),
    ("-p tasuki-rt --test main -- net::hostile::", "sockets"),
    ("-p tasuki-rt --test main -- net::not_running::", "sockets"),
    ("-p tasuki-rt --test main -- net::tcp::", "sockets"),
    ("-p tasuki-rt --test main -- net::tcp_options::", "sockets"),
    ("-p tasuki-rt --test main -- net::traits::", "sockets"),
    ("-p tasuki-rt --test main -- net::tries::", "sockets"),
    ("-p tasuki-rt --test process -- sockets::", "sockets"),
    ("-p tasuki-rt --test main -- programs::http::", "sockets"),
    ("-p tasuki-rt --test main -- programs::examples::", "starts programs"),
    ("-p tasuki-rt --test main -- programs::panic_abort::", "starts programs"),
    ("-p tasuki-rt --test process -- idle::", "asks the system for the time that the process used"),
    ("-p tasuki-rt --test soak", "takes hours"),
];

/// One run: what it is called, and its share of the command.
struct Run {
    name: String,
    flags: String,
    program: String,
    seed: usize,
    /// By Tree Borrows.
    tree: bool,
}

pub(crate) fn run(mut args: Args) -> Result<Report, String> {
    let small = args.flag("--small");
    let seeds: usize = args.value("--seeds", if small { 64 } else { 4 })?;
    let jobs = args.value("--jobs", 2)?;
    let tree = !args.flag("--stacked");
    let by_turns = args.flag("--by-turns");
    let lib = args.flag("--lib");
    let only: String = args.value("--program", String::new())?;
    let filter = args.word().unwrap_or_default();
    args.end()?;

    let mut report = Report::new("miri");
    if let Err(why) = toolchain::components(NIGHTLY, &["miri", "rust-src"]) {
        report.row("all", Outcome::Skipped(why), Duration::ZERO);
        return Ok(report);
    }
    let mut programs: Vec<String> = Vec::new();
    for package in PACKAGES {
        programs.push(format!("-p {package} --lib"));
        if !lib {
            programs.extend(parts(package)?);
        }
    }
    programs.retain(|program| program.contains(&only));
    if small {
        programs.retain(|program| program.ends_with("--lib") || SMALL.contains(&program.as_str()));
    }
    for (program, why) in BEYOND {
        if programs.iter().any(|wanted| wanted == program) {
            programs.retain(|wanted| wanted != program);
            report.note(format!("miri: not run: {program}: {why}"));
        }
    }
    if programs.is_empty() {
        return Err(format!("no test program has {only:?} in its name"));
    }
    if !filter.is_empty() {
        // A part is a filter too, and two filters widen each other.
        programs.iter_mut().for_each(|program| *program = whole(program).to_owned());
        programs.dedup();
    }
    println!("=== miri: build");
    let mut built: Vec<&str> = programs.iter().map(|program| whole(program)).collect();
    built.dedup();
    for program in built {
        shell::run(&mut cargo(&format!("+{NIGHTLY} miri test --no-run {program}")))?;
    }

    let host = if small { "" } else { HOST };
    let mut runs = runs(&programs, seeds, tree);
    runs.retain(|run| !by_turns || run.seed % 2 == usize::from(run.tree));
    let passed = Mutex::new(0);
    let report = Mutex::new(report);
    pool(jobs, runs.len(), |at, worker| {
        let log = target().join(format!("miri-{worker}.log"));
        let mut command = cargo(&format!("+{NIGHTLY} miri test {} {filter}", runs[at].program));
        // A backtrace of an expected panic would take minutes here.
        command.env("MIRIFLAGS", format!("{FLAGS} {host} {}", runs[at].flags)).env("RUST_BACKTRACE", "0");
        let (outcome, tests, time) = counted(capped(&mut command, CAP, &log), &log);
        *passed.lock().expect("no worker panics") += tests;
        println!("  {:>7.1} s  {} ({tests} tests)", time.as_secs_f64(), runs[at].name);
        report.lock().expect("no worker panics").row(&runs[at].name, outcome, time);
    });

    let mut report = report.into_inner().expect("no worker panics");
    match passed.into_inner().expect("no worker panics") {
        0 => report.row("tests", Outcome::Failed("no test ran".to_owned()), Duration::ZERO),
        passed => report.note(format!("miri: {passed} test runs passed")),
    }
    Ok(report)
}

/// The program of a part: what is before the filter.
fn whole(program: &str) -> &str {
    program.split(" -- ").next().unwrap_or(program)
}

/// Every file of tests of a package, as the part of its program that has it.
fn parts(package: &str) -> Result<Vec<String>, String> {
    let tests = root().join("crates").join(package).join("tests");
    let mut parts = Vec::new();
    for (program, file) in [("main", "main.rs"), ("process", "process/main.rs")] {
        let text = std::fs::read_to_string(tests.join(file)).map_err(|why| format!("{file}: {why}"))?;
        let modules = modules(&text);
        parts.extend(modules.iter().map(|module| format!("-p {package} --test {program} -- {module}::")));
    }
    if tests.join("soak").exists() {
        parts.push(format!("-p {package} --test soak"));
    }
    Ok(parts)
}

/// The modules that a root declares, as paths; the kit has no tests.
fn modules(root: &str) -> Vec<String> {
    let mut folder = String::new();
    let mut modules = Vec::new();
    for line in root.lines().map(str::trim) {
        match line.strip_prefix("mod ") {
            Some(name) if name.ends_with('{') => folder = format!("{}::", name.trim_end_matches(" {")),
            Some(name) => modules.push(format!("{folder}{}", name.trim_end_matches(';'))),
            None if line == "}" => folder.clear(),
            None => {}
        }
    }
    modules.retain(|module| module != "kit");
    modules
}

/// The runtime's tests leave threads that wait for blocking work or for a deadline, and so does the shared timer: Miri must not mind,
/// nor then look for leaks.
fn lingering(program: &str) -> &'static str {
    let lingers = program.starts_with("-p tasuki-rt --test") || program.contains(" limits::");
    if lingers { "-Zmiri-ignore-leaks" } else { "" }
}

fn runs(programs: &[String], seeds: usize, tree: bool) -> Vec<Run> {
    let passes: &[(&str, &str)] = &[("stacked borrows", ""), ("tree borrows", "-Zmiri-tree-borrows")];
    let mut runs = Vec::new();
    for (index, (pass, flags)) in passes[..1 + usize::from(tree)].iter().enumerate() {
        for seed in 0..seeds {
            runs.extend(programs.iter().map(|program| Run {
                name: format!("{pass}, seed {seed}, {program}"),
                flags: format!("-Zmiri-seed={seed} {flags} {}", lingering(program)),
                program: program.clone(),
                seed,
                tree: index == 1,
            }));
        }
    }
    runs
}

/// How a run ended, and how many tests passed in it.
fn counted(end: Result<(Capped, Duration), String>, log: &Path) -> (Outcome, usize, Duration) {
    let (how, time) = match end {
        Ok(end) => end,
        Err(why) => return (Outcome::Failed(why), 0, Duration::ZERO),
    };
    let text = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    let tests = Tests::of(&text, how == Capped::Passed);
    let outcome = match how {
        Capped::Passed if tests.failed == 0 => Outcome::Passed,
        Capped::TimedOut => Outcome::Failed(format!("not complete after {} s", CAP.as_secs())),
        _ => Outcome::Failed(format!("\n{}", tail(&text, 80))),
    };
    (outcome, tests.passed, time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_meets_every_seed_in_every_pass() {
        let programs = ["--lib".to_owned(), "--test mutex".to_owned()];
        assert_eq!(runs(&programs, 3, false).len(), 6);
        assert_eq!(runs(&programs, 3, true).len(), 12);
    }

    /// A new file of tests with sockets would fail under Miri, hours later: it is named in [`BEYOND`], or each of its tests is ignored there.
    #[test]
    fn tests_with_sockets_are_left_out() {
        let tests = root().join("crates/tasuki-rt/tests/net");
        for file in std::fs::read_dir(&tests).expect("there are tests of sockets") {
            let path = file.expect("it can be read").path();
            let text = std::fs::read_to_string(&path).expect("it is text");
            let module = format!("net::{}::", path.file_stem().expect("a file").to_string_lossy());
            let is_beyond = BEYOND.iter().any(|(program, _)| program.ends_with(&module));
            let ignored = text.matches("#[cfg_attr(miri, ignore").count();
            assert!(is_beyond || ignored == text.matches("#[test]").count(), "{module} would be run");
        }
    }

    #[test]
    fn every_file_of_tests_is_a_part() {
        let root = "mod kit;\nmod a {\n    mod b;\n    mod c;\n}\n#[cfg(x)]\nmod d;\n";
        assert_eq!(modules(root), ["a::b", "a::c", "d"]);
        assert_eq!(whole("-p tasuki --test main -- a::b::"), "-p tasuki --test main");
        for package in PACKAGES {
            let parts = parts(package).expect("there are tests");
            assert!(parts.len() > 10, "{parts:?}");
            let beyond = |program: &&str| program.starts_with(&format!("-p {package} "));
            let named = BEYOND.iter().map(|(program, _)| *program).chain(SMALL);
            assert!(named.filter(beyond).all(|program| parts.iter().any(|part| part == program)));
        }
    }
}
