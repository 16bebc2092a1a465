//! `cargo xtask sanitize [address] [thread]`: the tests of both libraries on real threads, instrumented.
//!
//! The thread sanitizer needs a standard library built with it, or its locks and joins are invisible and
//! every use of them looks like a race; it does not know fences, so `--cfg tasuki_tsan` turns ours into RMWs.

use crate::args::Args;
use crate::report::{Outcome, Report};
use crate::shell::{cargo, target, tests};
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
    let words = "-p tasuki -p tasuki-rt --no-fail-fast --lib --tests --";
    let skipped = skipped(name);
    let mut command = cargo(&format!("+{NIGHTLY} test {build} --target {host} {words} {skipped}"));
    command.env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", target().join(name)).env(options.0, options.1);
    // Longer strings take the same steps more often.
    command.env("TASUKI_SPEC_DEPTH", "5").env("TASUKI_PATIENCE", "10");
    tests(&mut command).and_then(|tests| tests.verdict()).into()
}

/// What is left out, under which sanitizer, and why.
const BEYOND: [(&str, &str, &str); 7] = [
    ("address", "programs::examples::", "has cargo build something, not with these flags"),
    ("address", "programs::panic_abort::", "has cargo build something, not with these flags"),
    ("address", "system::", "limits the address space, of which the sanitizer takes most"),
    ("thread", "system::", "forks, and the child has threads"),
    ("thread", "programs::examples::", "has cargo build something, not with these flags"),
    ("thread", "programs::panic_abort::", "has cargo build something, not with these flags"),
    ("thread", "idle::", "asks how much time the process used, and the sanitizer has a thread of its own"),
];

/// The words by which the tests that cannot be run with this sanitizer are skipped.
fn skipped(sanitizer: &str) -> String {
    let beyond = BEYOND.iter().filter(|(under, ..)| *under == sanitizer);
    beyond.map(|(_, tests, _)| format!("--skip {tests}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_is_left_out() {
        assert_eq!(
            skipped("address"),
            "--skip programs::examples:: --skip programs::panic_abort:: --skip system::"
        );
        assert!(skipped("thread").contains("idle::") && !skipped("address").contains("idle::"));
    }
}
