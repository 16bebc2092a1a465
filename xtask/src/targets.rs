//! `cargo xtask targets`: other processors and operating systems. The tests of `tasuki` run on i686 (32 bits, on this
//! processor) and on aarch64 (under qemu's user mode); Windows, macOS, wasm32 and the GNU variants of the two are
//! compile-checked. What works on wasm32 is also run, under node. `--quick`, for CI, runs fewer tests.
//!
//! The tested targets are those of musl: their programs are static and linked by the compiler's own linker, so that no foreign C
//! toolchain is needed.

use crate::args::Args;
use crate::report::{Outcome, Report};
use crate::shell::{self, cargo, output, program, target, tests};
use crate::toolchain::{self, or_skip};

/// Where the tests run, and what runs them.
const TESTED: [(&str, Option<&str>); 2] =
    [("i686-unknown-linux-musl", None), ("aarch64-unknown-linux-musl", Some("qemu-aarch64"))];

/// What runs under node.
const WASM: &str = "wasm32-unknown-unknown";

/// What is compile-checked, and which packages.
const CHECKED: [(&str, &str); 7] = [
    ("aarch64-unknown-linux-gnu", "-p tasuki -p tasuki-rt -p tasuki-inspect"),
    ("i686-unknown-linux-gnu", "-p tasuki -p tasuki-rt -p tasuki-inspect"),
    ("x86_64-pc-windows-gnu", "-p tasuki -p tasuki-rt -p tasuki-inspect"),
    ("aarch64-apple-darwin", "-p tasuki -p tasuki-rt -p tasuki-inspect"),
    ("wasm32-unknown-unknown", "-p tasuki"),
    // It has no sockets.
    ("wasm32-unknown-unknown", "-p tasuki-rt --no-default-features"),
    ("wasm32-unknown-unknown", "-p tasuki --no-default-features"),
];

pub(crate) fn run(mut args: Args) -> Result<Report, String> {
    let quick = args.flag("--quick");
    args.end()?;
    let mut report = Report::new("targets");
    for (triple, packages) in CHECKED {
        // A release build checks the sizes that the pages promise.
        for profile in ["dev", "release"] {
            report.step(&format!("check {triple} {packages} ({profile})"), || {
                or_skip(toolchain::target(triple), || {
                    let mut command =
                        cargo(&format!("check --profile {profile} --target {triple} {packages}"));
                    shell::run(command.env("CARGO_TARGET_DIR", target().join("targets"))).into()
                })
            });
        }
    }
    let tools = toolchain::target(WASM).and_then(|()| output(&mut program("node", "--version")).map(drop));
    report.step("run wasm32 under node", || or_skip(tools, || under_node().into()));
    for (triple, runner) in TESTED {
        let tools = toolchain::target(triple).and_then(|()| runner.map_or(Ok(()), emulator));
        report.step(&format!("test {triple}"), || or_skip(tools, || tested(triple, runner, quick)));
    }
    Ok(report)
}

/// The list of what works on wasm32, called by a script.
fn under_node() -> Result<(), String> {
    let mut command = cargo(&format!("build -p tasuki-wasm --target {WASM}"));
    shell::run(command.env("CARGO_TARGET_DIR", target().join("targets")))?;
    let module = target().join("targets").join(WASM).join("debug/tasuki_wasm.wasm");
    shell::run(program("node", "crates/tasuki/wasm/run.mjs").arg(module))
}

/// The tests of the primitives, on one target.
fn tested(triple: &str, runner: Option<&str>, quick: bool) -> Outcome {
    let all: &[&str] = match quick {
        true => &["--lib", "--test main -- mutex::api:: parker::api::"],
        false => &["--lib --tests --no-fail-fast"],
    };
    let each = all.iter().try_for_each(|what| some(triple, runner, what));
    each.into()
}

/// Some of them.
fn some(triple: &str, runner: Option<&str>, what: &str) -> Result<(), String> {
    let mut command = cargo(&format!("test -p tasuki --target {triple} {what}"));
    let setting = |what: &str| format!("CARGO_TARGET_{}_{what}", triple.replace('-', "_").to_uppercase());
    command.env(setting("LINKER"), "rust-lld").env("CARGO_TARGET_DIR", target().join("targets"));
    // An emulated processor is slow: shorter strings of operations, more patient watchdogs.
    command.env("TASUKI_SPEC_DEPTH", "5").env("TASUKI_PATIENCE", "10");
    if let Some(runner) = runner {
        command.env(setting("RUNNER"), runner).env("TASUKI_RUNNER", runner);
    }
    tests(&mut command).and_then(|tests| tests.verdict())
}

/// Makes sure of an emulator; installs it where packages can be installed.
fn emulator(name: &str) -> Result<(), String> {
    let works = || output(&mut program(name, "--version")).map(drop);
    if works().is_ok() {
        return Ok(());
    }
    let installed = shell::run(&mut program("apt-get", "install -y -q qemu-user"));
    works().map_err(|_| format!("{name} cannot be had ({})", installed.err().unwrap_or_default()))
}
