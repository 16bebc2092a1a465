//! What a check found: rows, each passed, failed or skipped, and one summary line.
//!
//! A report without a single passed row is no success, also if its rows were skipped: no check passes by doing nothing.

use std::time::{Duration, Instant};

/// How one row ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Passed,
    Failed(String),
    /// Something it needs cannot be had here. Never silent.
    Skipped(String),
}

impl From<Result<(), String>> for Outcome {
    fn from(result: Result<(), String>) -> Self {
        result.map_or_else(Outcome::Failed, |()| Outcome::Passed)
    }
}

struct Row {
    name: String,
    outcome: Outcome,
    time: Duration,
}

/// The rows of one check.
pub(crate) struct Report {
    title: &'static str,
    rows: Vec<Row>,
    notes: Vec<String>,
    started: Instant,
}

impl Report {
    pub(crate) fn new(title: &'static str) -> Self {
        Self { title, rows: Vec::new(), notes: Vec::new(), started: Instant::now() }
    }

    /// Runs one step under a header and notes how it ended and how long it took.
    pub(crate) fn step(&mut self, name: &str, work: impl FnOnce() -> Outcome) {
        println!("\n=== {}: {name}", self.title);
        let started = Instant::now();
        let outcome = work();
        println!("=== {}: {name} took {:.1} s", self.title, started.elapsed().as_secs_f64());
        self.row(name, outcome, started.elapsed());
    }

    /// Notes a row that was run elsewhere.
    pub(crate) fn row(&mut self, name: &str, outcome: Outcome, time: Duration) {
        match &outcome {
            Outcome::Passed => {}
            Outcome::Failed(why) => println!("--- {}: {name} FAILED: {why}", self.title),
            Outcome::Skipped(why) => shout(&format!("{}: {name}: {why}", self.title)),
        }
        self.rows.push(Row { name: name.to_owned(), outcome, time });
    }

    /// A line to print last, after the summary.
    pub(crate) fn note(&mut self, line: String) {
        self.notes.push(line);
    }

    /// The outcome of the whole, as a row of a larger report.
    pub(crate) fn outcome(&self) -> Outcome {
        let (passed, failed, skipped) = self.counts();
        let named = |want: fn(&Outcome) -> bool| -> String {
            let names: Vec<&str> =
                self.rows.iter().filter(|row| want(&row.outcome)).map(|row| row.name.as_str()).collect();
            names.join(", ")
        };
        if failed > 0 {
            Outcome::Failed(named(|outcome| matches!(outcome, Outcome::Failed(_))))
        } else if skipped > 0 {
            Outcome::Skipped(named(|outcome| matches!(outcome, Outcome::Skipped(_))))
        } else if passed == 0 {
            Outcome::Failed("did nothing".to_owned())
        } else {
            Outcome::Passed
        }
    }

    /// Prints the summary; true if a row passed and none failed.
    pub(crate) fn finish(self) -> bool {
        let (passed, failed, skipped) = self.counts();
        println!();
        for row in &self.rows {
            let mark = match row.outcome {
                Outcome::Passed => "ok     ",
                Outcome::Failed(_) => "FAILED ",
                Outcome::Skipped(_) => "SKIPPED",
            };
            println!("  {mark} {:>7.1} s  {}", row.time.as_secs_f64(), row.name);
        }
        let time = self.started.elapsed().as_secs_f64();
        println!("{}: {passed} ok, {failed} failed, {skipped} SKIPPED in {time:.1} s", self.title);
        for line in &self.notes {
            println!("{line}");
        }
        passed > 0 && failed == 0
    }

    fn counts(&self) -> (usize, usize, usize) {
        self.rows.iter().fold((0, 0, 0), |(passed, failed, skipped), row| match row.outcome {
            Outcome::Passed => (passed + 1, failed, skipped),
            Outcome::Failed(_) => (passed, failed + 1, skipped),
            Outcome::Skipped(_) => (passed, failed, skipped + 1),
        })
    }
}

/// Says loudly that something was not checked.
fn shout(what: &str) {
    let line = format!("!!! SKIPPED {what} !!!");
    let bar = "!".repeat(line.chars().count());
    println!("\n{bar}\n{line}\n{bar}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doing_nothing_is_a_failure() {
        assert!(!Report::new("empty").finish());
    }

    #[test]
    fn a_check_without_its_tool_does_not_pass() {
        let mut report = Report::new("skipped");
        report.row("a", Outcome::Skipped("no tool".to_owned()), Duration::ZERO);
        assert_eq!(report.outcome(), Outcome::Skipped("a".to_owned()));
        assert!(!report.finish());
    }

    #[test]
    fn one_failure_outweighs_all() {
        let mut report = Report::new("mixed");
        report.row("a", Outcome::Passed, Duration::ZERO);
        report.row("b", Outcome::Skipped("no tool".to_owned()), Duration::ZERO);
        assert_eq!(report.outcome(), Outcome::Skipped("b".to_owned()));
        report.row("c", Outcome::Failed("broken".to_owned()), Duration::ZERO);
        assert_eq!(report.outcome(), Outcome::Failed("c".to_owned()));
        assert!(!report.finish());
    }
}
