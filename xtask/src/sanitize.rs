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
    let (flags, programs) = match name {
        "thread" => ("-Zsanitizer=thread --cfg tasuki_tsan".to_owned(), programs(&BUILDS, &ALONE)),
        _ => (format!("-Zsanitizer={name}"), programs(&BUILDS, &[])),
    };
    let words = "-p tasuki -p tasuki-rt --no-fail-fast";
    let mut command = cargo(&format!("+{NIGHTLY} test {build} --target {host} {words} {programs}"));
    command.env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", target().join(name)).env(options.0, options.1);
    // Longer strings take the same steps more often.
    command.env("TASUKI_SPEC_DEPTH", "5").env("TASUKI_PATIENCE", "10");
    tests(&mut command).and_then(|tests| tests.verdict()).into()
}

/// Tests that have cargo build something: not with these flags.
const BUILDS: [&str; 1] = ["examples"];

/// Strings of operations and sizes are tried by one thread alone: there is no race to be seen, and with the thread sanitizer
/// they take ten times as long.
const ALONE: [&str; 2] = ["spec", "scale"];

/// The unit tests, and the test programs without these words in their names.
fn programs(without: &[&str], nor: &[&str]) -> String {
    let unwanted = |name: &str| without.iter().chain(nor).any(|word| name.contains(word));
    let mut words = vec!["--lib".to_owned()];
    for package in PACKAGES {
        let folder = root().join("crates").join(package).join("tests");
        let all = miri::programs(package, Some(&folder));
        let names = all.iter().filter_map(|program| Some(program.split_once("--test ")?.1));
        words.extend(names.filter(|name| !unwanted(name)).map(|name| format!("--test {name}")));
    }
    words.sort();
    words.dedup();
    words.join(" ")
}
