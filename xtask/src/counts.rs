//! `cargo xtask counts [--write]`: which accesses to atomics each operation of the primitives makes. They are the same on every
//! processor, so this stands for the processors that one does not have. The rows and the rules are in `crates/tasuki/tests/process/counts.rs`. And how long a queue
//! stays locked beside many waiters: `holds.rs` beside it.

use crate::args::Args;
use crate::report::Report;
use crate::shell::{cargo, target, tests};

pub(crate) fn run(mut args: Args) -> Result<Report, String> {
    let write = args.flag("--write");
    args.end()?;
    let mut report = Report::new("counts");
    report.step("docs/locked-operations.md", || {
        // Without debug assertions, which look at atomics too.
        let mut command = cargo("test --release -p tasuki --test process -- counts:: holds::");
        command
            .env("RUSTFLAGS", "--cfg tasuki_counts")
            .env("CARGO_TARGET_DIR", target().join("counts"))
            .env("CARGO_PROFILE_RELEASE_LTO", "off");
        if write {
            command.env("TASUKI_COUNTS_WRITE", "1");
        }
        tests(&mut command).and_then(|tests| tests.verdict()).into()
    });
    Ok(report)
}
