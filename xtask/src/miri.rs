//! `cargo xtask miri`: the tests under Miri, several schedules, strict provenance; `--tree` adds a pass
//! with Tree Borrows. The models are not among them: their target is empty without `--cfg loom`.

use crate::args::Args;
use crate::report::Report;
use crate::shell::{cargo, tests};
use crate::toolchain::{self, NIGHTLY, or_skip};

/// What every pass is run with. Wall clocks and host threads are needed by timeouts and the stress tests.
const FLAGS: &str = "-Zmiri-strict-provenance -Zmiri-disable-isolation";

pub(crate) fn run(mut args: Args) -> Result<Report, String> {
    let seeds: usize = args.value("--seeds", 4)?;
    let tree = args.flag("--tree");
    let targets = if args.flag("--lib") { "--lib" } else { "--lib --tests" };
    let filter = args.word().unwrap_or_default();
    args.end()?;
    if seeds == 0 {
        return Err("--seeds 0 would check nothing".to_owned());
    }

    let mut passes = vec![("stacked borrows", "")];
    if tree {
        passes.push(("tree borrows", "-Zmiri-tree-borrows"));
    }
    let mut report = Report::new("miri");
    for (name, flags) in passes {
        report.step(&format!("{name}, {seeds} seeds"), || {
            or_skip(toolchain::components(NIGHTLY, &["miri", "rust-src"]), || {
                let mut command = cargo(&format!("+{NIGHTLY} miri test -p tasuki {targets} {filter}"));
                command.env("MIRIFLAGS", format!("{FLAGS} -Zmiri-many-seeds=0..{seeds} {flags}"));
                tests(&mut command).and_then(|tests| tests.verdict()).into()
            })
        });
    }
    Ok(report)
}
