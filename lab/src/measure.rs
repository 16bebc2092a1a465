//! The harness: groups of subjects doing the same work, sampled in turns inside one process.
//!
//! Every subject of a group is probed once to find how much work fills a sample, counted once for
//! allocations, and then sampled round-robin, in an order that rotates, so that whatever disturbs
//! the machine disturbs all of them. A subject too slow for its cap is reported as capped.

use crate::alloc;
use crate::peer::Kind;
use crate::placement::{Placement, Probe};
use crate::report::Record;
use crate::screen::Screen;
use crate::stats::{Summary, median};
use std::time::{Duration, Instant};

/// A running clock, and the allocation counter at its start.
#[derive(Clone, Copy)]
pub(crate) struct Meter {
    start: Instant,
    allocations: u64,
}

/// What a [`Meter`] read.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reading {
    /// Nanoseconds that went by.
    pub(crate) ns: f64,
    /// Allocations that were made, if they were counted.
    pub(crate) allocations: u64,
}

impl Meter {
    /// Starts the clock.
    #[inline]
    pub(crate) fn start() -> Meter {
        let allocations = alloc::allocations();
        Meter { start: Instant::now(), allocations }
    }

    /// Reads the clock.
    #[inline]
    pub(crate) fn read(&self) -> Reading {
        let ns = self.start.elapsed().as_nanos() as f64;
        Reading { ns, allocations: alloc::allocations() - self.allocations }
    }
}

/// One measured stretch of work.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    /// Operations done, checked by the workload.
    pub(crate) ops: u64,
    /// What they took.
    pub(crate) reading: Reading,
    /// Least-served task / most-served task.
    pub(crate) fairness: f64,
    /// The longest wait, in acquisitions by others, where the workload measures it.
    pub(crate) longest_wait: u64,
}

impl Sample {
    /// A sample of work that nobody competed for.
    pub(crate) fn alone(ops: u64, reading: Reading) -> Sample {
        Sample { ops, reading, fairness: 1.0, longest_wait: 0 }
    }
}

/// Least-served / most-served of the competitors of a sample.
pub(crate) fn fairness(served: &[u64]) -> f64 {
    let (least, most) = (served.iter().min(), served.iter().max());
    match (least, most) {
        (Some(&least), Some(&most)) if most > 0 => least as f64 / most as f64,
        _ => 1.0,
    }
}

/// One subject of a group.
pub(crate) struct Contender {
    /// Its name in reports.
    pub(crate) subject: &'static str,
    /// Whose it is.
    pub(crate) kind: Kind,
    /// Does about that many operations and checks that they were done.
    pub(crate) run: Box<dyn FnMut(u64) -> Sample>,
}

/// What is read off a sample.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metric {
    /// Nanoseconds per operation.
    Time,
    /// The longest wait in acquisitions by others.
    LongestWait,
}

/// Subjects that do the same work.
pub(crate) struct Group {
    /// Name of the workload.
    pub(crate) workload: String,
    /// Tasks or waiters.
    pub(crate) n: u64,
    /// The executor.
    pub(crate) runtime: &'static str,
    /// Operations of the first, smallest probe.
    pub(crate) probe_ops: u64,
    /// Fewest operations of a valid sample.
    pub(crate) least_ops: u64,
    /// Whether samples run on two threads.
    pub(crate) two_threads: bool,
    /// What is read off a sample.
    pub(crate) metric: Metric,
    /// The subjects.
    pub(crate) contenders: Vec<Contender>,
}

/// How much to measure.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// Samples per subject.
    pub(crate) rounds: usize,
    /// Time one sample should fill.
    pub(crate) target: Duration,
    /// A sample that would take longer is not taken.
    pub(crate) cap: Duration,
}

impl Plan {
    /// A few seconds per workload.
    pub(crate) const QUICK: Plan =
        Plan { rounds: 3, target: Duration::from_millis(2), cap: Duration::from_millis(40) };
    /// Enough for a median worth quoting.
    pub(crate) const FULL: Plan =
        Plan { rounds: 15, target: Duration::from_millis(12), cap: Duration::from_millis(250) };
}

/// A session of measuring.
pub(crate) struct Bench {
    plan: Plan,
    only: Option<String>,
    probe: Option<Probe>,
    screen: Screen,
    /// Everything measured so far.
    pub(crate) records: Vec<Record>,
}

/// What one subject of a group has shown so far.
struct Track {
    contender: Contender,
    ops: u64,
    capped: bool,
    allocs_per_op: f64,
    samples: Vec<(Placement, Sample)>,
}

impl Bench {
    /// A session that keeps to groups or subjects whose name contains `only`.
    pub(crate) fn new(plan: Plan, only: Option<String>) -> Bench {
        Bench { plan, only, probe: None, screen: Screen::stderr(), records: Vec::new() }
    }

    /// Records a number that needs no sampling, such as a size.
    pub(crate) fn note(&mut self, record: Record) {
        if self.wants(&record.workload) || self.wants(record.subject) {
            self.records.push(record);
        }
    }

    /// Measures a group and records it.
    pub(crate) fn group(&mut self, mut group: Group) {
        let key = format!("{} n={} {}", group.workload, group.n, group.runtime);
        if !self.wants(&key) {
            let only = self.only.clone().unwrap_or_default();
            group.contenders.retain(|contender| contender.subject.contains(&only));
        }
        if group.contenders.is_empty() {
            return;
        }
        if group.two_threads && self.probe.is_none() {
            self.probe = Probe::start();
        }
        let contenders = std::mem::take(&mut group.contenders);
        let mut tracks = Vec::with_capacity(contenders.len());
        for contender in contenders {
            self.screen.live(format_args!("{key}: probing {}", contender.subject));
            tracks.push(self.prepare(&group, contender));
        }
        self.sample(&group, &key, &mut tracks);
        self.screen.line(&format!("measured {key}"));
        let placement = best_placement(&tracks);
        let records = tracks.iter().filter_map(|track| track.record(&group, placement));
        self.records.extend(records);
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// Finds how many operations fill a sample, and counts allocations.
    fn prepare(&self, group: &Group, mut contender: Contender) -> Track {
        let mut ops = group.probe_ops;
        let target = self.plan.target.as_nanos() as f64;
        let cap = self.plan.cap.as_nanos() as f64;
        let (capped, probed) = loop {
            let start = Instant::now();
            let sample = (contender.run)(ops);
            let wall = start.elapsed().as_nanos() as f64;
            let least = wall * group.least_ops as f64 / ops as f64;
            if wall.max(least) > cap {
                break (true, sample);
            }
            let work = sample.reading.ns.max(1.0);
            if work >= target / 4.0 || wall >= target {
                ops = (ops as f64 * target / work).min(ops as f64 * 4.0) as u64;
                break (false, sample);
            }
            ops = (ops as f64 * (target / work).clamp(1.5, 16.0)) as u64;
        };
        let mut track = Track {
            contender,
            ops: ops.max(if capped { 1 } else { group.least_ops }),
            capped,
            allocs_per_op: 0.0,
            samples: Vec::new(),
        };
        if capped {
            let placement = if group.two_threads { Placement::Unknown } else { Placement::Alone };
            track.samples.push((placement, probed));
        }
        track.count_allocations();
        track
    }

    /// Samples every subject in turns.
    fn sample(&mut self, group: &Group, key: &str, tracks: &mut [Track]) {
        let rounds = self.plan.rounds;
        let subjects = tracks.len();
        let mut before = self.bounce(group);
        for round in 0..2 * rounds {
            if round >= rounds && tracks.iter().all(|track| track.is_enough(rounds)) {
                break;
            }
            self.screen.live(format_args!("{key}: round {} of {rounds}", round + 1));
            for place in 0..subjects {
                let track = &mut tracks[(place + round) % subjects];
                if track.capped {
                    continue;
                }
                let sample = (track.contender.run)(track.ops);
                let after = self.bounce(group);
                let placement = match group.two_threads {
                    false => Placement::Alone,
                    true => Placement::between(before, after),
                };
                track.samples.push((placement, sample));
                before = after;
            }
        }
    }

    fn bounce(&self, group: &Group) -> Option<f64> {
        let probe = self.probe.as_ref().filter(|_| group.two_threads)?;
        Some(probe.bounce())
    }
}

impl Track {
    /// One more run, untimed, with the allocator counting.
    fn count_allocations(&mut self) {
        let sample = alloc::counting(|| (self.contender.run)(self.ops));
        self.allocs_per_op = sample.reading.allocations as f64 / sample.ops.max(1) as f64;
    }

    /// Whether some placement has at least half of the samples asked for.
    fn is_enough(&self, rounds: usize) -> bool {
        self.capped || Placement::KEPT.iter().any(|&placement| 2 * self.under(placement).len() >= rounds)
    }

    fn under(&self, placement: Placement) -> Vec<Sample> {
        let kept = self.samples.iter().filter(|(under, _)| *under == placement);
        kept.map(|(_, sample)| *sample).collect()
    }

    /// Sums the samples of one placement up; `None` when there are none.
    fn record(&self, group: &Group, placement: Placement) -> Option<Record> {
        let placement = if self.capped { self.samples.first()?.0 } else { placement };
        let samples = self.under(placement);
        let values: Vec<f64> = samples.iter().map(|sample| value(group.metric, sample)).collect();
        let shares: Vec<f64> = samples.iter().map(|sample| sample.fairness).collect();
        let summary = Summary::of(&values)?;
        Some(Record {
            workload: group.workload.clone(),
            n: group.n,
            runtime: group.runtime,
            subject: self.contender.subject,
            kind: self.contender.kind,
            p10: summary.p10,
            median: summary.median,
            p90: summary.p90,
            max: values.iter().copied().fold(f64::MIN, f64::max),
            unit: match group.metric {
                Metric::Time => "ns/op",
                Metric::LongestWait => "acquisitions",
            },
            fairness: median(&shares)?,
            samples: summary.samples,
            placement: placement.name(),
            allocs_per_op: self.allocs_per_op,
            capped: self.capped,
        })
    }
}

/// What the metric reads off a sample.
fn value(metric: Metric, sample: &Sample) -> f64 {
    match metric {
        Metric::Time => sample.reading.ns / sample.ops.max(1) as f64,
        Metric::LongestWait => sample.longest_wait as f64,
    }
}

/// The placement under which most samples were taken.
fn best_placement(tracks: &[Track]) -> Placement {
    let count = |placement| tracks.iter().map(|track| track.under(placement).len()).sum::<usize>();
    Placement::KEPT.into_iter().max_by_key(|&placement| count(placement)).unwrap_or(Placement::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(work: fn(u64)) -> Group {
        let run = move |ops| {
            let meter = Meter::start();
            work(ops);
            Sample::alone(ops, meter.read())
        };
        Group {
            workload: "test".into(),
            n: 1,
            runtime: "none",
            probe_ops: 1,
            least_ops: 1,
            two_threads: false,
            metric: Metric::Time,
            contenders: vec![Contender { subject: "subject", kind: Kind::Ours, run: Box::new(run) }],
        }
    }

    fn plan() -> Plan {
        Plan { rounds: 3, target: Duration::from_micros(200), cap: Duration::from_millis(20) }
    }

    #[test]
    fn a_subject_is_sampled_as_often_as_asked() {
        let mut bench = Bench::new(plan(), None);
        bench.group(group(|ops| (0..ops).for_each(|op| drop(std::hint::black_box(op)))));
        assert_eq!(bench.records.len(), 1);
        assert_eq!((bench.records[0].samples, bench.records[0].capped), (3, false));
    }

    #[test]
    fn a_slow_subject_is_capped_and_still_reported() {
        let mut bench = Bench::new(plan(), None);
        bench.group(group(|_| std::thread::sleep(Duration::from_millis(30))));
        assert!(bench.records[0].capped);
    }

    #[test]
    fn a_filter_keeps_groups_and_subjects() {
        let mut bench = Bench::new(plan(), Some("other".into()));
        bench.group(group(|_| ()));
        assert!(bench.records.is_empty());
        assert_eq!(fairness(&[1, 2, 4]), 0.25);
    }
}
