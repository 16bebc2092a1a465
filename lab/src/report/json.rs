//! Writes the results as JSON.

use super::{Failure, Outcome, Record, parse};
use crate::machine::Machine;
use crate::measure::Cell;
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

/// A run: all that was measured so far, and all that was not.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Document {
    /// Smaller numbers: not for quoting.
    pub(crate) quick: bool,
    /// Where it was measured.
    pub(crate) machine: Machine,
    /// Whether every cell that was asked for has been tried.
    pub(crate) complete: bool,
    /// What was measured.
    pub(crate) records: Vec<Record>,
    /// What was not.
    pub(crate) failures: Vec<Failure>,
}

impl Document {
    /// The document as JSON.
    pub(crate) fn text(&self) -> String {
        let Document { quick, complete, .. } = self;
        let about = machine(&self.machine);
        let list =
            |items: Vec<String>| items.iter().map(|item| format!("\n  {item}")).collect::<Vec<_>>().join(",");
        let results = list(self.records.iter().map(record).collect());
        let failures = list(self.failures.iter().map(failure).collect());
        format!(
            "{{\"machine\": {about},\n\"quick\": {quick}, \"complete\": {complete},\n\"failures\": [{failures}],\n\"results\": [{results}\n]}}\n"
        )
    }

    /// Writes the document so that a reader of the file finds the old one or the new one, and never a part.
    pub(crate) fn write(&self, file: &Path) -> io::Result<()> {
        let mut partial = file.as_os_str().to_owned();
        partial.push(".partial");
        fs::write(&partial, self.text())?;
        fs::rename(&partial, file)
    }

    /// Reads a document.
    pub(crate) fn read(text: &str) -> Result<Document, String> {
        let value = parse::value(text)?;
        let all = |name| value.get(name).map(parse::Value::list).unwrap_or_default();
        let records: Option<Vec<Record>> = all("results").iter().map(parse::record).collect();
        let failures: Option<Vec<Failure>> = all("failures").iter().map(parse::failure).collect();
        let is = |name| value.get(name).is_some_and(parse::Value::is_true);
        Ok(Document {
            machine: value.get("machine").and_then(parse::machine).unwrap_or_default(),
            quick: is("quick"),
            complete: is("complete"),
            records: records.ok_or("a result lacks a field")?,
            failures: failures.ok_or("a failure lacks a field")?,
        })
    }

    /// What is wrong with it beside the cells it should have: a line each.
    pub(crate) fn complaints(&self, cells: &[Cell]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut expected = 0;
        for cell in cells {
            for (subject, _) in &cell.subjects {
                expected += 1;
                let key = (&cell.workload, cell.n, &cell.runtime, subject);
                let results =
                    self.records.iter().filter(|at| (&at.workload, at.n, &at.runtime, &at.subject) == key);
                let gaps =
                    self.failures.iter().filter(|at| (&at.workload, at.n, &at.runtime, &at.subject) == key);
                match results.count() + gaps.count() {
                    0 => lines.push(format!("missing: {} {subject}", cell.key())),
                    1 => {}
                    more => lines.push(format!("{more} times: {} {subject}", cell.key())),
                }
            }
        }
        let found = self.records.len() + self.failures.len();
        if lines.is_empty() && found != expected {
            lines.push(format!("{found} results and failures, {expected} expected"));
        }
        if !self.complete {
            lines.push("the run did not come to its end".into());
        }
        lines.extend(self.failures.iter().filter(|failure| failure.is_defect_of_ours()).map(|failure| {
            format!(
                "ours failed: {} n={} {} {}: {}",
                failure.workload, failure.n, failure.runtime, failure.subject, failure.why
            )
        }));
        lines
    }
}

/// Where it was measured.
fn machine(machine: &Machine) -> String {
    let Machine { processor, processors, locked_pair_ns, bounce_ns, kernel, compiler, commit, date, note } =
        machine;
    format!(
        "{{\"processor\": {}, \"processors\": {processors}, \"locked_pair_ns\": {}, \"bounce_ns\": {}, \
         \"kernel\": {}, \"compiler\": {}, \"commit\": {}, \"date\": {}, \"note\": {}}}",
        quoted(processor),
        number(*locked_pair_ns),
        number(*bounce_ns),
        quoted(kernel),
        quoted(compiler),
        quoted(commit),
        quoted(date),
        quoted(note)
    )
}

/// One measured number.
pub(crate) fn record(record: &Record) -> String {
    let text = [
        ("workload", &record.workload),
        ("runtime", &record.runtime),
        ("subject", &record.subject),
        ("unit", &record.unit),
        ("placement", &record.placement),
    ];
    let numbers = [
        ("median", record.median),
        ("p10", record.p10),
        ("p90", record.p90),
        ("max", record.max),
        ("fairness", record.fairness),
        ("allocs_per_op", record.allocs_per_op),
    ];
    let mut out = format!("{{\"kind\": {}, ", quoted(record.kind.name()));
    for (name, value) in text {
        out.push_str(&format!("\"{name}\": {}, ", quoted(value)));
    }
    for (name, value) in numbers {
        out.push_str(&format!("\"{name}\": {}, ", number(value)));
    }
    let Record { n, samples, capped, .. } = record;
    out.push_str(&format!("\"n\": {n}, \"samples\": {samples}, \"capped\": {capped}}}"));
    out
}

/// One missing number.
fn failure(failure: &Failure) -> String {
    let Failure { workload, n, runtime, subject, kind, outcome, why } = failure;
    format!(
        "{{\"workload\": {}, \"n\": {n}, \"runtime\": {}, \"subject\": {}, \"kind\": {}, \"outcome\": {}, \"why\": {}}}",
        quoted(workload),
        quoted(runtime),
        quoted(subject),
        quoted(kind.name()),
        quoted(Outcome::name(*outcome)),
        quoted(why)
    )
}

/// A number as JSON has it: never an infinity, four decimals at most.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return "null".into();
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// A string as JSON has it.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("a string takes everything");
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Kind;
    use crate::report::tests::record;

    fn document() -> Document {
        let mut odd = record("mutex/\"odd\"\n", 1, "x", Kind::Peer, f64::INFINITY);
        odd.capped = true;
        let records = vec![record("mutex/uncontended", 1, "tasuki-fifo", Kind::Ours, 4.6), odd];
        let failures = vec![Failure {
            workload: "mutex/uncontended".into(),
            n: 1,
            runtime: "none".into(),
            subject: "tokio".into(),
            kind: Kind::Peer,
            outcome: Outcome::Hung,
            why: "did not end".into(),
        }];
        let machine = Machine { bounce_ns: 31.5, processors: 2, ..Machine::default() };
        Document { machine, quick: true, complete: true, records, failures }
    }

    #[test]
    fn a_document_is_read_as_it_was_written() {
        assert_eq!(Document::read(&document().text()), Ok(document()));
        assert_eq!(Document::read(&Document::default().text()), Ok(Document::default()));
        assert!(Document::read("{\"results\": [{}]}").is_err());
    }

    #[test]
    fn what_is_missing_is_told() {
        let cell = |workload: &str, subjects: &[&str]| Cell {
            workload: workload.into(),
            n: 1,
            runtime: "none".into(),
            subjects: subjects.iter().map(|subject| ((*subject).into(), Kind::Ours)).collect(),
        };
        let all = [cell("mutex/uncontended", &["tasuki-fifo", "tokio"]), cell("mutex/\"odd\"\n", &["x"])];
        assert!(document().complaints(&all).is_empty());
        assert_eq!(document().complaints(&all[..1]).len(), 1);
        let more = [&all[..], &[cell("mutex/hand-off", &["tokio"])]].concat();
        assert_eq!(document().complaints(&more), ["missing: mutex/hand-off n=1 none tokio"]);
        let mut ours = document();
        ours.failures[0].kind = Kind::Ours;
        ours.complete = false;
        assert_eq!(ours.complaints(&all).len(), 2);
        ours.failures[0].outcome = Outcome::Unmeasured;
        assert_eq!(ours.complaints(&all).len(), 1);
    }
}
