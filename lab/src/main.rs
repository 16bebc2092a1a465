//! The lab: a tour of Tasuki, and its benchmarks beside the peers.
//!
//! | module | is for |
//! |---|---|
//! | `tour/` | `cargo run --release`: one file for each stop, all checked |
//! | `peer/`, `peers/` | one trait for each primitive, and its implementations: ours and those of other crates |
//! | `workload/` | what is measured of a primitive |
//! | `measure/`, `supervise` | how often it is measured, and in which process |
//! | `placement`, `machine`, `stats`, `alloc` | where the threads are, what the machine is like, medians, counted allocations |
//! | `report/`, `screen` | the results as tables, JSON and charts; the progress of a run |
//! | `exec` | the smallest executor, under the benchmarks of one thread |
//! | `loss`, `stuck` | what a cancel loses, for each channel; five programs that hang, and what each prints |
//! | `cli` | the command line |
//!
//! Results go to stdout, progress to stderr.

mod alloc;
mod cli;
mod exec;
#[cfg(test)]
mod loss;
mod machine;
mod measure;
mod peer;
mod peers;
mod placement;
#[cfg(test)]
#[path = "../../crates/tasuki/tests/kit/process.rs"]
#[allow(dead_code, reason = "a part of the kit is used")]
mod process;
mod report;
mod screen;
mod stats;
mod stuck;
mod supervise;
mod tour;
mod workload;

use cli::{BenchArgs, Command, USAGE};
use machine::Machine;
use measure::{Bench, Plan};
use report::json::Document;
use report::{benchmarks_page, figures, svg, table};
use screen::Screen;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use supervise::{Measured, Supervisor};

/// Counts allocations when a check or a sample asks for it.
#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

fn main() -> ExitCode {
    match cli::parse(std::env::args().skip(1)) {
        Ok(Command::Tour(args)) => tour::run(args),
        Ok(Command::Bench(args)) => bench(&args),
        Ok(Command::Stuck) => stuck::run(),
        Ok(Command::Cell(args)) => supervise::child(args),
        Ok(Command::Serve(subject, work)) => finish(workload::net::serve(&subject, &work)),
        Ok(Command::Verify(file)) => verify(&file),
        Ok(Command::Report(files)) => finish(benchmarks_page::publish(&files)),
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

/// Measures cell by cell, reports and judges. A missed figure is a result, not an error of the program; a subject of
/// ours that panics, hangs or crashes is one, and told at the end.
fn bench(args: &BenchArgs) -> ExitCode {
    let plan = Plan::of(args.quick);
    let mut cells = Vec::new();
    for &what in &args.what {
        let listed = Bench::list(plan, |bench| workload::run(what, bench));
        cells
            .extend(listed.into_iter().filter_map(|cell| Some((what, cell.filtered(args.only.as_deref())?))));
    }
    if cells.is_empty() {
        eprintln!("error: no workload or subject matches --only");
        return ExitCode::from(2);
    }
    let supervisor = Supervisor { quick: args.quick, patience: args.patience };
    if cells.iter().any(|(what, _)| *what == workload::inspect::NAME) {
        workload::inspect::build();
    }
    let (screen, count) = (Screen::stderr(), cells.len());
    let mut document = Document { machine: Machine::here(), quick: args.quick, ..Document::default() };
    show(&benchmarks_page::origin(&document));
    let mut written = Ok(());
    for (index, (what, cell)) in cells.iter().enumerate() {
        screen.live(format_args!("{} of {count}: {}", index + 1, cell.key()));
        let Measured { records, failures } = supervisor.measure(what, cell);
        screen.line(&format!("measured {} ({} of {count})", cell.key(), index + 1));
        show(&table::tables(&records, &failures));
        document.records.extend(records);
        document.failures.extend(failures);
        document.complete = index + 1 == count;
        if let Some(file) = &args.json {
            written =
                document.write(file).map_err(|error| format!("cannot write {}: {error}", file.display()));
        }
    }
    conclude(args, &document, written)
}

/// The judgement, the charts, and the exit code.
fn conclude(args: &BenchArgs, document: &Document, mut written: Result<(), String>) -> ExitCode {
    let mut text = String::from(
        "\n* ours   _ floor   ! no number   fair = least-served / most-served task   capped = too slow, one short probe\n\
         \nFigures to reach (ratios inside this run)\n",
    );
    for verdict in figures::judge(&document.records) {
        text.push_str(&format!("{}\n", verdict.line()));
    }
    let missing = &document.failures;
    text.push_str(&format!("\n{} numbers, {} without\n", document.records.len(), missing.len()));
    text.push_str(&table::tables(&[], missing));
    show(&text);
    if let Some(dir) = &args.svg {
        let drawn = svg::write(document, dir);
        let drawn = drawn.map_err(|error| format!("cannot draw into {}: {error}", dir.display()));
        written = written.and(drawn);
    }
    let defects = missing.iter().filter(|failure| failure.is_defect_of_ours()).count();
    if defects > 0 {
        written = written.and(Err(format!("{defects} of ours failed")));
    }
    finish(written)
}

/// Whether a file has every cell of `bench all`.
fn verify(file: &Path) -> ExitCode {
    let read = std::fs::read_to_string(file).map_err(|error| error.to_string());
    let verified = read.and_then(|text| Document::read(&text)).and_then(|document| {
        let all = |bench: &mut Bench| workload::FAMILIES.iter().for_each(|(_, describe)| describe(bench));
        let cells = Bench::list(Plan::of(document.quick), all);
        let complaints = document.complaints(&cells);
        let (numbers, missing) = (document.records.len(), document.failures.len());
        println!("{} cells, {numbers} numbers, {missing} without", cells.len());
        print!("{}", table::tables(&[], &document.failures));
        if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
    });
    finish(verified.map_err(|why| format!("{}: {why}", file.display())))
}

/// Success, or the error and failure.
fn finish(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes to stdout; a reader that has gone is no reason to stop measuring.
fn show(text: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).ok();
}
