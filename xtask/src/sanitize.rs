//! `cargo xtask sanitize [address] [thread]`: the tests of both libraries on real threads, instrumented.
//!
//! The thread sanitizer needs a standard library built with it, or its locks and joins are invisible and
//! every use of them looks like a race; it does not know fences, so `--cfg tasuki_tsan` turns ours into RMWs.

use crate::args::Args;
use crate::miri::{self, PACKAGES};
use crate::report::{Outcome, Report};
use crate::shell::{cargo, root, target, tests};
use crate::toolchain::{self, NIGHTLY, or_skip};

pub(crate) fn run(mut args: Args) -> Result<Report, String> {
    let mut wanted: Vec<String> = std::iter::from_fn(|| args.word()).collect();
    args.end()?;
    if wanted.is_empty() {
        wanted = vec!["address".to_owned(), "thread".to_owned()];
    }

    let host = toolchain::host()?;
    let mut report = Report::new("sanitize");
    for name in wanted {
        for (_, program, why) in BEYOND.iter().filter(|(under, ..)| *under == name) {
            report.note(format!("sanitize: not run under {name}: {program}: {why}"));
        }
        match name.as_str() {
            "address" => report.step("address", || {
                or_skip(toolchain::toolchain(NIGHTLY), || {
                    instrumented(&host, "address", "", ("ASAN_OPTIONS", "detect_stack_use_after_return=1"))
                })
            }),
            "thread" => report.step("thread", || {
                or_skip(toolchain::components(NIGHTLY, &["rust-src"]), || {
                    instrumented(&host, "thread", "-Zbuild-std", ("TSAN_OPTIONS", "halt_on_error=1"))
                })
            }),
            _ => return Err(format!("{name:?} is no sanitizer here: address, thread")),
        }
    }
    Ok(report)
}

/// The tests with one sanitizer, in a folder of its own.
fn instrumented(host: &str, name: &str, build: &str, options: (&str, &str)) -> Outcome {
    let flags = match name {
        "thread" => "-Zsanitizer=thread --cfg tasuki_tsan".to_owned(),
        _ => format!("-Zsanitizer={name}"),
    };
    let words = "-p tasuki -p tasuki-rt --no-fail-fast";
    let programs = programs(name);
    let mut command = cargo(&format!("+{NIGHTLY} test {build} --target {host} {words} {programs}"));
    command.env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", target().join(name)).env(options.0, options.1);
    // Longer strings take the same steps more often.
    command.env("TASUKI_SPEC_DEPTH", "5").env("TASUKI_PATIENCE", "10");
    tests(&mut command).and_then(|tests| tests.verdict()).into()
}

/// What is left out, under which sanitizer, and why.
const BEYOND: [(&str, &str, &str); 5] = [
    ("address", "examples", "has cargo build something, not with these flags"),
    ("address", "process", "limits the address space, of which the sanitizer takes most"),
    ("thread", "process", "forks, and the child has threads"),
    ("thread", "examples", "has cargo build something, not with these flags"),
    ("thread", "idle", "asks how much time the process used, and the sanitizer has a thread of its own"),
];

/// The unit tests and the test programs that can be run with this sanitizer.
fn programs(sanitizer: &str) -> String {
    let beyond =
        |name: &str| BEYOND.iter().any(|(under, program, _)| (*under, *program) == (sanitizer, name));
    let mut words = vec!["--lib".to_owned()];
    for package in PACKAGES {
        let folder = root().join("crates").join(package).join("tests");
        let all = miri::programs(package, Some(&folder));
        let names = all.iter().filter_map(|program| Some(program.split_once("--test ")?.1));
        words.extend(names.filter(|name| !beyond(name)).map(|name| format!("--test {name}")));
    }
    words.sort();
    words.dedup();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_is_left_out() {
        for (sanitizer, program, _) in BEYOND {
            assert!(!programs(sanitizer).contains(program));
        }
        assert!(
            programs("address").contains("--test idle") && programs("thread").contains("--test spec_mutex")
        );
    }
}
