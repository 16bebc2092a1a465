//! Parses the command line: which command, with which options.

use crate::workload::{FAMILIES, hostile};
use std::path::PathBuf;
use std::time::Duration;

/// How to ask.
pub(crate) const USAGE: &str = "\
usage: lab [tour] [--quick] [--workers N]
       lab bench <primitive|all> [--quick] [--only SUBSTR] [--json FILE] [--svg DIR] [--patience SECONDS]
       lab stuck
       lab serve SUBJECT echo|bytes|kv|hyper
       lab verify FILE
       lab report FILE...

  tour    every primitive on tasuki-rt: 1,000,000 tasks, 1,000,000 cancelled waiters, all checked
  bench   measures Tasuki beside its peers: mutex, parker, semaphore, event, wait-group, barrier,
          token, rwlock, condvar, channel, time, runtime, net, inspect. One process a cell; a subject that panics or
          hangs there is reported, and the run goes on. Fails at the end if one of ours did
  stuck   plants the five classic hangs one after another, and shows what each says while it hangs
  serve   one server of bench net by itself, until stdin ends; says where it listens: for strace, perf and valgrind
  verify  whether FILE, written by bench all --json, has every cell
  report  writes the results of docs/benchmarks.md, and the charts, from FILEs written by bench --json
  --quick smaller numbers: seconds instead of minutes
  --only  keeps to workloads (\"mutex/hand-off n=64 minimal\") or subjects whose name contains SUBSTR
  --json  writes every number to FILE, anew after each cell
  --svg   draws bar charts into DIR
  --patience  a subject that is silent for so long (60 s) hangs";

/// A request.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    /// The tour.
    Tour(TourArgs),
    /// A benchmark.
    Bench(BenchArgs),
    /// The five classic hangs.
    Stuck,
    /// One cell of a benchmark, in a process that a benchmark started.
    Cell(CellArgs),
    /// A server of the lab in a process of its own: which runtime, and what it does.
    Serve(String, String),
    /// Whether a file has every cell.
    Verify(PathBuf),
    /// The documents, from files of results.
    Report(Vec<PathBuf>),
    /// How to ask.
    Help,
}

/// A request for the tour.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TourArgs {
    /// Smaller numbers.
    pub(crate) quick: bool,
    /// How many workers, if not one a processor.
    pub(crate) workers: Option<usize>,
}

/// A request to measure.
#[derive(Debug, PartialEq)]
pub(crate) struct BenchArgs {
    /// Which primitive.
    pub(crate) what: Vec<&'static str>,
    /// Smaller numbers.
    pub(crate) quick: bool,
    /// Filter by name.
    pub(crate) only: Option<String>,
    /// Where every number goes.
    pub(crate) json: Option<PathBuf>,
    /// Where charts go.
    pub(crate) svg: Option<PathBuf>,
    /// After how much silence a subject hangs.
    pub(crate) patience: Duration,
}

/// A request to measure one cell.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct CellArgs {
    /// Which family.
    pub(crate) what: String,
    /// Which cell.
    pub(crate) key: String,
    /// Which subjects of it.
    pub(crate) subjects: Vec<String>,
    /// Where everything is written.
    pub(crate) journal: PathBuf,
    /// Smaller numbers.
    pub(crate) quick: bool,
}

/// Longer than any sample takes, also on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads the arguments after the program's name.
pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut args = args.peekable();
    // Without a command it is the tour.
    if args.peek().is_none_or(|first| ["--quick", "--workers"].contains(&first.as_str())) {
        return tour(args).map(Command::Tour);
    }
    match args.next().as_deref() {
        Some("tour") => tour(args).map(Command::Tour),
        Some("bench") => bench(args).map(Command::Bench),
        Some("stuck") => match args.next() {
            None => Ok(Command::Stuck),
            Some(_) => Err("stuck takes nothing".into()),
        },
        Some("cell") => cell(args).map(Command::Cell),
        Some("serve") => match (args.next(), args.next(), args.next()) {
            (Some(subject), Some(work), None) => Ok(Command::Serve(subject, work)),
            _ => Err("serve takes a subject of bench net, and echo, bytes, kv or hyper".into()),
        },
        Some("verify") => match (args.next(), args.next()) {
            (Some(file), None) => Ok(Command::Verify(file.into())),
            _ => Err("verify takes one file".into()),
        },
        Some("report") if args.peek().is_some() => Ok(Command::Report(args.map(PathBuf::from).collect())),
        Some("report") => Err("report wants files that bench wrote with --json".into()),
        Some("help" | "--help" | "-h") => Ok(Command::Help),
        other => Err(format!("unknown command {:?}", other.unwrap_or_default())),
    }
}

fn tour(mut args: impl Iterator<Item = String>) -> Result<TourArgs, String> {
    let mut tour = TourArgs::default();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => tour.quick = true,
            "--workers" => {
                let workers = args.next().and_then(|text| text.parse().ok()).filter(|&workers| workers > 0);
                tour.workers = Some(workers.ok_or("--workers wants a number above zero")?);
            }
            _ => return Err(format!("the tour takes --quick and --workers N, not {arg:?}")),
        }
    }
    Ok(tour)
}

fn bench(mut args: impl Iterator<Item = String>) -> Result<BenchArgs, String> {
    let mut bench =
        BenchArgs { what: Vec::new(), quick: false, only: None, json: None, svg: None, patience: PATIENCE };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} wants a value"));
        match arg.as_str() {
            "--quick" => bench.quick = true,
            "--only" => bench.only = Some(value()?),
            "--json" => bench.json = Some(value()?.into()),
            "--svg" => bench.svg = Some(value()?.into()),
            "--patience" => bench.patience = seconds(&value()?)?,
            "all" => bench.what.extend(FAMILIES.map(|(name, _)| name)),
            name => match FAMILIES.iter().chain([&hostile::FAMILY]).find(|(known, _)| *known == name) {
                Some((known, _)) => bench.what.push(known),
                None => return Err(format!("unknown benchmark or option {name:?}")),
            },
        }
    }
    if bench.what.is_empty() {
        return Err(format!("bench wants one of {}, all", FAMILIES.map(|(name, _)| name).join(", ")));
    }
    Ok(bench)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or(format!("{text:?} is no number of seconds"))
}

fn cell(mut args: impl Iterator<Item = String>) -> Result<CellArgs, String> {
    let mut next = || args.next().ok_or("cell wants a family, a name, and what follows them");
    let mut cell = CellArgs { what: next()?, key: next()?, ..CellArgs::default() };
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} wants a value"));
        match arg.as_str() {
            "--quick" => cell.quick = true,
            "--subjects" => cell.subjects = value()?.split(',').map(String::from).collect(),
            "--journal" => cell.journal = value()?.into(),
            _ => return Err(format!("unknown option {arg:?}")),
        }
    }
    Ok(cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn requests_are_understood() {
        assert_eq!(read(""), Ok(Command::Tour(TourArgs::default())));
        assert_eq!(read("--quick"), read("tour --quick"));
        let asked = TourArgs { quick: true, workers: Some(64) };
        assert_eq!(read("tour --workers 64 --quick"), Ok(Command::Tour(asked)));
        let Ok(Command::Bench(bench)) = read("bench mutex --json out.json --only hand") else {
            panic!("a benchmark");
        };
        assert_eq!((bench.what, bench.json), (vec!["mutex"], Some("out.json".into())));
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "dance",
            "bench",
            "bench dance",
            "bench mutex --json",
            "tour --slow",
            "tour --quick more",
            "tour --workers 0",
            "verify",
            "stuck now",
            "bench mutex --patience long",
            "cell mutex",
            "serve tokio-1",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
