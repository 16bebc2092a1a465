//! `cargo xtask check`: formatting, lints, documentation, every set of features, release builds of the tests,
//! a machine without an operating system, the oldest compiler; and the tests that need other features than the default ones.

use crate::args::Args;
use crate::report::Report;
use crate::shell::{self, cargo, target};
use crate::toolchain::{self, OLDEST, or_skip};
use std::process::Command;

/// Every set of features of the library that differs.
const FEATURES: [&str; 5] = [
    "--no-default-features",
    "--no-default-features --features alloc",
    "--no-default-features --features std",
    "--no-default-features --features critical-section",
    "--all-features",
];

/// A machine with atomics and without an operating system.
const BARE_METAL: &str = "thumbv7em-none-eabi";

/// One without compare-and-swap.
const NO_EXCHANGE: &str = "thumbv6m-none-eabi";

pub(crate) fn run(args: Args) -> Result<Report, String> {
    args.end()?;
    let mut report = Report::new("check");
    compile(&mut report);
    Ok(report)
}

fn compile(report: &mut Report) {
    report.step("rustfmt", || shell::run(&mut cargo("fmt --all -- --check")).into());
    report
        .step("clippy", || shell::run(&mut cargo("clippy --workspace --all-targets -- -D warnings")).into());
    report.step("clippy of the models", || {
        let mut command = cargo("clippy -p tasuki-model -p tasuki-rt-model --tests -- -D warnings");
        shell::run(
            command.env("RUSTFLAGS", "--cfg tasuki_loom").env("CARGO_TARGET_DIR", target().join("loom")),
        )
        .into()
    });
    // With their tests: a user may run them with any features, and in a release build, where other parts are left out.
    for features in &FEATURES[..4] {
        report.step(&format!("clippy {features}"), || {
            shell::run(&mut cargo(&format!("clippy -p tasuki --all-targets {features} -- -D warnings")))
                .into()
        });
    }
    report.step("release builds of tests", || {
        shell::run(&mut cargo("check --release --workspace --all-targets")).into()
    });
    for features in ["--no-default-features", "--all-features"] {
        report.step(&format!("clippy of the runtime {features}"), || {
            shell::run(&mut cargo(&format!("clippy -p tasuki-rt --lib {features} -- -D warnings"))).into()
        });
    }
    report.step("clippy of the page without the runtime", || {
        shell::run(&mut cargo("clippy -p tasuki-inspect --lib --no-default-features -- -D warnings")).into()
    });
    report.step("docs", || {
        let packages = "-p tasuki -p tasuki-rt -p tasuki-rt-macros -p tasuki-inspect";
        shell::run(documented(&mut cargo(&format!("doc {packages} --no-deps --all-features")))).into()
    });
    report.step("docs of private items", || {
        let mut command =
            cargo("doc -p tasuki -p tasuki-rt --no-deps --all-features --document-private-items");
        shell::run(documented(&mut command).env("CARGO_TARGET_DIR", target().join("private"))).into()
    });
    for features in &FEATURES[..2] {
        report.step(&format!("bare metal {features}"), || {
            or_skip(toolchain::target(BARE_METAL), || {
                let build = format!("build --release -p tasuki --target {BARE_METAL} {features}");
                shell::run(&mut cargo(&build)).into()
            })
        });
    }
    report.step("no compare-and-swap", || or_skip(toolchain::target(NO_EXCHANGE), || no_exchange().into()));
    report.step("interrupts", || {
        let mut command = cargo("test -p tasuki --features critical-section --test process interrupt::");
        command
            .env("RUSTFLAGS", "--cfg tasuki_interrupts")
            .env("CARGO_TARGET_DIR", target().join("interrupts"));
        shell::tests(&mut command).and_then(|tests| tests.verdict()).into()
    });
    report.step("tests without std", || {
        let mut command = cargo("test -p tasuki --no-default-features --features alloc --test no_std");
        shell::tests(&mut command).and_then(|tests| tests.verdict()).into()
    });
    report.step("tests link with all features", || {
        shell::run(&mut cargo("test -p tasuki --all-features --no-run")).into()
    });
    // Unit tests one at a time: with `critical-section` the records of `inspect` are few, and one test that uses them up takes those that another one counts.
    for tests in ["--lib -- --test-threads=1", "--doc", "--test tokio", "--test main surface::"] {
        report.step(&format!("tests with all features {tests}"), || {
            let mut command = cargo(&format!("test -p tasuki --all-features {tests}"));
            shell::tests(&mut command).and_then(|tests| tests.verdict()).into()
        });
    }
    for tests in ["--test main surface::", "--doc"] {
        report.step(&format!("attributes {tests}"), || {
            let mut command = cargo(&format!("test -p tasuki-rt --features macros {tests}"));
            shell::tests(&mut command).and_then(|tests| tests.verdict()).into()
        });
    }
    let runtime = ["", "--no-default-features", "--all-features"];
    for words in FEATURES
        .map(|features| format!("-p tasuki {features}"))
        .into_iter()
        .chain(runtime.map(|features| format!("-p tasuki-rt {features}")))
        .chain(["-p tasuki-inspect".into()])
    {
        report.step(&format!("Rust {OLDEST} {words}"), || {
            or_skip(toolchain::toolchain(OLDEST), || {
                let mut command = cargo(&format!("+{OLDEST} check {words}"));
                shell::run(command.env("CARGO_TARGET_DIR", target().join("oldest"))).into()
            })
        });
    }
}

/// With the feature it is built; without it the compiler says which feature is missing.
fn no_exchange() -> Result<(), String> {
    let build = format!("build -p tasuki --target {NO_EXCHANGE} --no-default-features");
    shell::run(&mut cargo(&format!("{build} --features critical-section")))?;
    match cargo(&build).output() {
        Ok(output)
            if String::from_utf8_lossy(&output.stderr).contains("enable the feature `critical-section`") =>
        {
            Ok(())
        }
        Ok(_) => Err(format!("{build} does not say which feature is missing")),
        Err(why) => Err(why.to_string()),
    }
}

fn documented(command: &mut Command) -> &mut Command {
    command.env("RUSTDOCFLAGS", "-D warnings")
}
