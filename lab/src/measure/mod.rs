//! The harness: groups of subjects doing the same work, sampled in turns inside one process.
//!
//! Every subject of a group is probed once to find how much work fills a sample, counted once for
//! allocations, and then sampled round-robin, in an order that rotates, so that whatever disturbs
//! the machine disturbs all of them. A subject too slow for its cap is reported as capped.

mod group;
mod plan;
mod sample;

pub(crate) use group::{Contender, Group, Metric};
pub(crate) use plan::Plan;
pub(crate) use sample::{Meter, Reading, Sample, fairness};

use crate::alloc;
use crate::placement::{Placement, Probe, preemptions};
use crate::report::{Record, table};
use crate::screen::Screen;
use crate::stats::{Summary, median};
use plan::CHANCES;
use std::time::{Duration, Instant};

/// A session of measuring.
pub(crate) struct Bench {
    plan: Plan,
    only: Option<String>,
    probe: Option<Probe>,
    screen: Screen,
    shown: usize,
    /// Everything measured so far.
    pub(crate) records: Vec<Record>,
}

/// What one subject of a group has shown so far.
struct Track {
    contender: Contender,
    ops: u64,
    capped: bool,
    allocs_per_op: f64,
    spent: Duration,
    samples: Vec<(Placement, Sample)>,
}

impl Bench {
    /// A session that keeps to groups or subjects whose name contains `only`.
    pub(crate) fn new(plan: Plan, only: Option<String>) -> Bench {
        Bench { plan, only, probe: None, screen: Screen::stderr(), shown: 0, records: Vec::new() }
    }

    /// Whether only the essential is asked for.
    pub(crate) fn is_quick(&self) -> bool {
        self.plan.quick
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
        self.show();
    }

    /// Prints the tables that were not printed yet, so that a run cut short is not lost.
    pub(crate) fn show(&mut self) {
        print!("{}", table::tables(&self.records[self.shown..]));
        self.shown = self.records.len();
    }

    /// Whether the filter lets this name pass.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }

    /// Finds how many operations fill a sample, and counts allocations.
    fn prepare(&self, group: &Group, mut contender: Contender) -> Track {
        let (mut ops, mut chances) = (group.probe_ops, CHANCES);
        let (target, cap) = (self.plan.target_ns(group), self.plan.cap_ns(group));
        let (capped, probed) = loop {
            let start = Instant::now();
            let sample = (contender.run)(ops);
            let wall = start.elapsed().as_nanos() as f64;
            let least = wall * group.least_ops as f64 / ops as f64;
            // The smallest valid sample counts: a probe of a subject that was quick before may have been too big.
            if least > cap {
                chances -= 1;
                if chances == 0 {
                    break (true, sample);
                }
                continue;
            }
            let work = sample.reading.ns.max(1.0);
            if work >= target / 4.0 || wall >= target {
                ops = (ops as f64 * (target / work).min(4.0)) as u64;
                break (false, sample);
            }
            ops = (ops as f64 * (target / work).clamp(1.5, 16.0)) as u64;
        };
        let mut track = Track {
            contender,
            ops: ops.max(if capped { 1 } else { group.least_ops }),
            capped,
            allocs_per_op: 0.0,
            spent: Duration::ZERO,
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
        // A short sample of one thread is easily repeated, until some were not disturbed.
        let patience = if group.two_threads { 2 } else { 8 };
        for round in 0..patience * rounds {
            let done = |track: &Track| track.is_spent(&self.plan) || track.is_enough(rounds);
            if round >= rounds && tracks.iter().all(done) {
                break;
            }
            self.screen.live(format_args!("{key}: round {} of {rounds}", round + 1));
            for place in 0..subjects {
                let track = &mut tracks[(place + round) % subjects];
                if track.capped || track.is_spent(&self.plan) {
                    continue;
                }
                let (start, preempted) = (Instant::now(), preemptions());
                let sample = (track.contender.run)(track.ops);
                track.spent += start.elapsed();
                let after = self.bounce(group);
                let placement = match group.two_threads {
                    false if preemptions() != preempted => Placement::Disturbed,
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

    /// Whether its time is used up.
    fn is_spent(&self, plan: &Plan) -> bool {
        plan.is_spent(self.samples.len(), self.spent)
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
        // Rather a sample of doubtful worth, named as such, than a subject that silently disappears.
        let order = [placement, Placement::Disturbed, Placement::Moved, Placement::Unknown, Placement::Alone];
        let placement = order.into_iter().find(|&placement| !self.under(placement).is_empty())?;
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
    use crate::peer::Kind;

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
            patient: false,
            metric: Metric::Time,
            contenders: vec![Contender { subject: "subject", kind: Kind::Ours, run: Box::new(run) }],
        }
    }

    fn plan() -> Plan {
        Plan { target: Duration::from_micros(200), cap: Duration::from_millis(20), ..Plan::QUICK }
    }

    #[test]
    fn a_subject_is_sampled_as_often_as_asked() {
        let mut bench = Bench::new(plan(), None);
        bench.group(group(|ops| (0..ops).for_each(|op| assert!(std::hint::black_box(op) < ops))));
        assert_eq!(bench.records.len(), 1);
        // Three, or up to six when some were disturbed and taken again.
        assert!((1..=6).contains(&bench.records[0].samples), "{:?}", bench.records[0]);
        assert!(!bench.records[0].capped);
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
