//! Measures one cell: every subject of one workload, in turns.
//!
//! Every subject is probed to find how much work fills a sample, counted once for allocations, and then all are
//! sampled round-robin, in an order that rotates, so that whatever disturbs the machine disturbs all of them. A
//! subject too slow for its cap is reported as capped; one that no sample could show is reported with the reason.

use super::plan::CHANCES;
use super::{Contender, Group, Journal, Metric, Plan, Sample};
use crate::alloc;
use crate::placement::{Placement, Probe, preemptions};
use crate::report::Record;
use crate::stats::{Summary, median};
use std::time::{Duration, Instant};

/// The measuring of one cell.
pub(super) struct Session {
    plan: Plan,
    journal: Journal,
    probe: Option<Probe>,
}

/// What one subject of a group has shown so far.
struct Track {
    contender: Contender,
    ops: u64,
    capped: bool,
    allocs_per_op: f64,
    spent: Duration,
    samples: Vec<(Placement, Sample)>,
    /// Why the last sample that did not count could not be taken.
    unmeasured: Option<&'static str>,
}

impl Session {
    pub(super) fn new(plan: Plan, journal: Journal) -> Session {
        Session { plan, journal, probe: None }
    }

    /// Measures a group and writes down what each subject has shown.
    pub(super) fn measure(&mut self, mut group: Group) {
        if group.two_threads {
            self.probe = Probe::start();
        }
        let contenders = std::mem::take(&mut group.contenders);
        let mut tracks: Vec<Track> =
            contenders.into_iter().map(|contender| self.prepare(&group, contender)).collect();
        if !matches!(group.metric, Metric::Exact(_)) {
            self.sample(&group, &mut tracks);
        }
        let placement = best_placement(&tracks);
        for track in &tracks {
            match track.record(&group, placement) {
                Some(record) => self.journal.result(&record),
                None => {
                    let why = track.unmeasured.unwrap_or("no sample was taken");
                    self.journal.unmeasured(track.contender.subject, why);
                }
            }
        }
    }

    /// Finds how many operations fill a sample, and counts allocations.
    fn prepare(&self, group: &Group, contender: Contender) -> Track {
        let mut track = Track {
            contender,
            ops: group.probe_ops,
            capped: false,
            allocs_per_op: 0.0,
            spent: Duration::ZERO,
            samples: Vec::new(),
            unmeasured: None,
        };
        self.journal.at(track.contender.subject);
        let probed = match group.metric {
            Metric::Exact(_) => Some((Placement::Alone, (track.contender.run)(1))),
            _ => self.probe_size(group, &mut track),
        };
        if let Some((placement, sample)) = probed {
            track.keep(placement, sample);
        }
        if !matches!(group.metric, Metric::Exact(_)) && track.unmeasured.is_none() {
            self.journal.at(track.contender.subject);
            track.count_allocations();
        }
        track
    }

    /// Finds how many operations fill a sample; the last probe itself if the subject is too slow to be sampled, or
    /// could not be measured in any of its chances.
    fn probe_size(&self, group: &Group, track: &mut Track) -> Option<(Placement, Sample)> {
        let (mut ops, mut chances, mut most) = (group.probe_ops, CHANCES, 0);
        let (target, cap) = (self.plan.target_ns(group), self.plan.cap_ns(group));
        let probed = loop {
            let start = Instant::now();
            let sample = (track.contender.run)(ops);
            let wall = start.elapsed().as_nanos() as f64;
            let least = wall * group.least_ops as f64 / ops as f64;
            // The smallest valid sample counts: a probe of a subject that was quick before may have been too big.
            let slow = least > cap;
            if slow || sample.unmeasured.is_some() {
                chances -= 1;
                if chances == 0 {
                    break Some((slow, sample));
                }
                continue;
            }
            let work = sample.reading.ns.max(1.0);
            // One that does no more, however much it is asked for, would be probed for ever.
            if sample.ops <= most {
                break None;
            }
            most = sample.ops;
            if work >= target / 4.0 || wall >= target {
                ops = (ops as f64 * (target / work).min(4.0)) as u64;
                break None;
            }
            ops = (ops as f64 * (target / work).clamp(1.5, 16.0)) as u64;
        };
        track.capped = probed.is_some_and(|(slow, _)| slow);
        track.ops = ops.max(if track.capped { 1 } else { group.least_ops });
        let placement = if group.two_threads { Placement::Unknown } else { Placement::Alone };
        probed.map(|(_, sample)| (placement, sample))
    }

    /// Samples every subject in turns.
    fn sample(&mut self, group: &Group, tracks: &mut [Track]) {
        let rounds = self.plan.rounds;
        let subjects = tracks.len();
        let mut before = self.bounce(group);
        // A short sample of one thread is easily repeated, until some were not disturbed.
        let patience = if group.two_threads || self.plan.quick { 2 } else { 8 };
        for round in 0..patience * rounds {
            let done = |track: &Track| track.is_spent(&self.plan) || track.is_enough(rounds);
            if round >= rounds && tracks.iter().all(done) {
                break;
            }
            for place in 0..subjects {
                let track = &mut tracks[(place + round) % subjects];
                if track.capped || track.is_spent(&self.plan) || track.is_hopeless() {
                    continue;
                }
                self.journal.at(track.contender.subject);
                let (start, preempted) = (Instant::now(), preemptions());
                let sample = (track.contender.run)(track.ops);
                track.spent += start.elapsed();
                let after = self.bounce(group);
                let placement = match group.two_threads {
                    false if preemptions() != preempted => Placement::Disturbed,
                    false => Placement::Alone,
                    true => Placement::between(before, after),
                };
                track.keep(placement, sample);
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
    /// Keeps a sample that shows something, or the reason why it does not.
    fn keep(&mut self, placement: Placement, sample: Sample) {
        match sample.unmeasured {
            Some(why) => self.unmeasured = Some(why),
            None => self.samples.push((placement, sample)),
        }
    }

    /// One more run, untimed, with the allocator counting.
    fn count_allocations(&mut self) {
        let sample = alloc::counting(|| (self.contender.run)(self.ops));
        self.allocs_per_op = sample.reading.allocations as f64 / sample.ops.max(1) as f64;
    }

    /// Whether its time is used up.
    fn is_spent(&self, plan: &Plan) -> bool {
        plan.is_spent(self.samples.len(), self.spent)
    }

    /// Whether every probe of it came to nothing.
    fn is_hopeless(&self) -> bool {
        self.unmeasured.is_some() && self.samples.is_empty()
    }

    /// Whether some placement has at least half of the samples asked for.
    fn is_enough(&self, rounds: usize) -> bool {
        let half = |&placement: &Placement| 2 * self.under(placement).len() >= rounds;
        self.capped || self.is_hopeless() || Placement::KEPT.iter().any(half)
    }

    fn under(&self, placement: Placement) -> Vec<Sample> {
        let kept = self.samples.iter().filter(|(under, _)| *under == placement);
        kept.map(|(_, sample)| *sample).collect()
    }

    /// Sums the samples of one placement up; `None` when there are none.
    fn record(&self, group: &Group, placement: Placement) -> Option<Record> {
        // Rather a sample of doubtful worth, named as such, than a subject that silently disappears.
        let order = [placement, Placement::Disturbed, Placement::Moved, Placement::Unknown, Placement::Alone];
        let kept = order.into_iter().chain(Placement::KEPT);
        let placement = kept.into_iter().find(|&placement| !self.under(placement).is_empty())?;
        let samples = self.under(placement);
        let values: Vec<f64> = samples.iter().map(|sample| group.metric.value(sample)).collect();
        let shares: Vec<f64> = samples.iter().map(|sample| sample.fairness).collect();
        let summary = Summary::of(&values)?;
        Some(Record {
            workload: group.workload.clone(),
            n: group.n,
            runtime: group.runtime.into(),
            subject: self.contender.subject.into(),
            kind: self.contender.kind,
            p10: summary.p10,
            median: summary.median,
            p90: summary.p90,
            max: values.iter().copied().fold(f64::MIN, f64::max),
            unit: group.metric.unit().into(),
            fairness: median(&shares)?,
            samples: summary.samples,
            placement: placement.name().into(),
            allocs_per_op: self.allocs_per_op,
            capped: self.capped,
        })
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
    use crate::measure::{Line, Meter};
    use crate::peer::Kind;

    /// What the journal says of a subject that does this.
    fn measured(name: &str, run: impl FnMut(u64) -> Sample + 'static) -> Line {
        let path = std::env::temp_dir().join(format!("lab-session-{}-{name}", std::process::id()));
        let contenders = vec![Contender { subject: "subject", kind: Kind::Ours, run: Box::new(run) }];
        let group = Group::on_one_thread("test", 1, "none", 1, contenders);
        let plan = Plan { target: Duration::from_micros(200), cap: Duration::from_millis(20), ..Plan::QUICK };
        Session::new(plan, Journal::append(&path).unwrap()).measure(group);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        Journal::read(&text).pop().unwrap()
    }

    #[test]
    fn a_subject_is_sampled_as_often_as_asked() {
        let run = |ops| {
            let meter = Meter::start();
            (0..ops).for_each(|op| assert!(std::hint::black_box(op) < ops));
            Sample::alone(ops, meter.read())
        };
        let Line::Result(record) = measured("asked", run) else { panic!("a result") };
        assert!(record.samples >= 1 && !record.capped, "{record:?}");
    }

    #[test]
    fn a_slow_subject_is_capped_and_still_reported() {
        let run = |ops| {
            let meter = Meter::start();
            std::thread::sleep(Duration::from_millis(30));
            Sample::alone(ops, meter.read())
        };
        assert!(matches!(measured("slow", run), Line::Result(record) if record.capped));
    }

    /// It was asked for more and more until its thread happened to lose its processor, or the supervisor called it hung.
    #[test]
    fn a_subject_whose_work_does_not_grow_is_reported() {
        let run = |_| {
            let meter = Meter::start();
            (0..10).for_each(|op| assert!(std::hint::black_box(op) < 10));
            Sample::alone(10, meter.read())
        };
        assert!(matches!(measured("fixed", run), Line::Result(record) if !record.capped));
    }

    #[test]
    fn what_cannot_be_measured_is_reported_with_its_reason() {
        let line = measured("never", |_| Sample::unmeasured("the moon is full"));
        assert!(matches!(&line, Line::Unmeasured(_, why) if why == "the moon is full"), "{line:?}");
    }
}
