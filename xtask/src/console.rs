//! `cargo xtask console`: a real tokio-console subscriber is asked, over its protocol, what it sees of a program of ours. Needs the packages of the console, and some minutes for them the first time.

use crate::args::Args;
use crate::report::Report;
use crate::shell::{cargo, target, tests};

pub(crate) fn run(args: Args) -> Result<Report, String> {
    args.end()?;
    let mut report = Report::new("console");
    report.step("lab/tests/console.rs", || {
        let mut command = cargo("test -p lab --features console --test console");
        // The subscriber refuses to run without it, or `tokio_unstable`.
        command
            .env("RUSTFLAGS", "--cfg console_without_tokio_unstable")
            .env("CARGO_TARGET_DIR", target().join("console"));
        tests(&mut command).and_then(|tests| tests.verdict()).into()
    });
    Ok(report)
}
