//! What the command line asks for.

use std::path::PathBuf;

/// How to ask.
pub(crate) const USAGE: &str = "\
usage: lab [tour [--quick]]
       lab bench <primitive|all> [--quick] [--only SUBSTR] [--json FILE] [--svg DIR]

  tour    every primitive on tasuki-rt: 1,000,000 tasks, 1,000,000 cancelled waiters, all checked
  bench   measures Tasuki beside its peers in one process: mutex, parker, semaphore, event,
          wait-group, barrier, token, rwlock, condvar, time, runtime
  --quick smaller numbers: seconds instead of minutes
  --only  keeps to workloads (\"mutex/hand-off n=64 minimal\") or subjects whose name contains SUBSTR
  --json  writes every number to FILE
  --svg   draws bar charts into DIR";

/// A request.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    /// The tour.
    Tour {
        /// Smaller numbers.
        quick: bool,
    },
    /// A benchmark.
    Bench(BenchArgs),
    /// How to ask.
    Help,
}

/// A request to measure.
#[derive(Debug, Default, PartialEq)]
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
}

/// What can be benchmarked.
const BENCHES: [&str; 11] = [
    "mutex",
    "parker",
    "semaphore",
    "event",
    "wait-group",
    "barrier",
    "token",
    "rwlock",
    "condvar",
    "time",
    "runtime",
];

/// Reads the arguments after the program's name.
pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut args = args.peekable();
    match args.next().as_deref() {
        None => Ok(Command::Tour { quick: false }),
        Some("--quick") if args.peek().is_none() => Ok(Command::Tour { quick: true }),
        Some("tour") => match (args.next().as_deref(), args.next()) {
            (None, None) => Ok(Command::Tour { quick: false }),
            (Some("--quick"), None) => Ok(Command::Tour { quick: true }),
            _ => Err("tour takes --quick and nothing else".into()),
        },
        Some("bench") => bench(args).map(Command::Bench),
        Some("help" | "--help" | "-h") => Ok(Command::Help),
        Some(other) => Err(format!("unknown command {other:?}")),
    }
}

fn bench(mut args: impl Iterator<Item = String>) -> Result<BenchArgs, String> {
    let mut bench = BenchArgs::default();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} wants a value"));
        match arg.as_str() {
            "--quick" => bench.quick = true,
            "--only" => bench.only = Some(value()?),
            "--json" => bench.json = Some(value()?.into()),
            "--svg" => bench.svg = Some(value()?.into()),
            "all" => bench.what.extend(BENCHES),
            name => match BENCHES.iter().find(|known| **known == name) {
                Some(known) => bench.what.push(known),
                None => return Err(format!("unknown benchmark or option {name:?}")),
            },
        }
    }
    if bench.what.is_empty() {
        return Err(format!("bench wants one of {}, all", BENCHES.join(", ")));
    }
    Ok(bench)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn requests_are_understood() {
        assert_eq!(read(""), Ok(Command::Tour { quick: false }));
        assert_eq!(read("tour --quick"), Ok(Command::Tour { quick: true }));
        let Ok(Command::Bench(bench)) = read("bench mutex --json out.json --only hand") else {
            panic!("a benchmark");
        };
        assert_eq!((bench.what, bench.json), (vec!["mutex"], Some("out.json".into())));
    }

    #[test]
    fn nonsense_is_refused() {
        for line in
            ["dance", "bench", "bench dance", "bench mutex --json", "tour --slow", "tour --quick more"]
        {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
