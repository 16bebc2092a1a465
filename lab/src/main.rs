//! The lab: a tour of Tasuki, and its benchmarks beside the peers.
//!
//! `peer` says what is measured, `peers/` who, `workload/` how, `measure` how often, `report/` in
//! which form; `exec` is the least executor, under the benchmarks of one thread. Results go to stdout,
//! progress to stderr.

mod alloc;
mod cli;
mod exec;
mod measure;
mod peer;
mod peers;
mod placement;
mod report;
mod screen;
mod stats;
mod tour;
mod workload;

use cli::{BenchArgs, Command, USAGE};
use measure::{Bench, Plan};
use report::{figures, json, svg};
use std::process::ExitCode;

/// Counts allocations when a check or a sample asks for it.
#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

fn main() -> ExitCode {
    match cli::parse(std::env::args().skip(1)) {
        Ok(Command::Tour { quick }) => tour::run(quick),
        Ok(Command::Bench(args)) => bench(&args),
        Ok(Command::Help) => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Measures, reports and judges; a missed figure is a result, not an error of the program.
fn bench(args: &BenchArgs) -> ExitCode {
    let plan = if args.quick { Plan::QUICK } else { Plan::FULL };
    let mut bench = Bench::new(plan, args.only.clone());
    for what in &args.what {
        workload::run(what, &mut bench);
    }
    bench.show();
    let records = bench.records;
    if records.is_empty() {
        eprintln!("error: no workload or subject matches --only");
        return ExitCode::from(2);
    }
    println!(
        "\n* ours   _ floor   fair = least-served / most-served task   capped = too slow, one short probe"
    );
    println!("\nFigures to reach (ratios inside this run)");
    for verdict in figures::judge(&records) {
        println!("{}", verdict.line());
    }
    write_files(args, &records)
}

/// Writes what `--json` and `--svg` ask for.
fn write_files(args: &BenchArgs, records: &[report::Record]) -> ExitCode {
    if let Some(file) = &args.json
        && let Err(error) = std::fs::write(file, json::document(records))
    {
        eprintln!("error: cannot write {}: {error}", file.display());
        return ExitCode::FAILURE;
    }
    if let Some(dir) = &args.svg
        && let Err(error) = svg::write(records, dir)
    {
        eprintln!("error: cannot draw into {}: {error}", dir.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
