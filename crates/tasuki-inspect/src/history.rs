//! The last minutes: rings of figures, contention of locks over time, and blame. All of it bounded, whatever the program does.
//!
//! Time is cut into slots of [`SLOT`]; a figure of a slot is the most, or the sum, of the samples in it. Locks that were made at one place, or have one name, are one row. Blame
//! is by sampling: a wait that is seen adds the time since the sample before, or the age of the oldest wait of its place if that is less, in equal parts to the pairs of its place and those of the holders; blame fades with the history.

use crate::sample::Sample;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tasuki::inspect::LockLabel;

/// So long is a slot.
pub(crate) const SLOT: Duration = Duration::from_secs(2);
/// So many there are: five minutes.
pub(crate) const SLOTS: usize = 150;
/// So many rows of contention are kept: if there are more, the least contended are dropped.
const ROWS: usize = 64;
/// So many pairs of blame are kept.
const PAIRS: usize = 256;

/// Figures of one slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlotFigures {
    /// The most waits at a time.
    pub(crate) waits: u64,
    /// The longest wait, in milliseconds.
    pub(crate) longest: u64,
    /// The most tasks at a time.
    pub(crate) tasks: u64,
    /// The most tasks in queues of the runtime at a time.
    pub(crate) queued: u64,
    /// The polls in the slot.
    pub(crate) polls: u64,
    /// The most deadlocks at a time.
    pub(crate) deadlocks: u64,
}

/// How contended a lock was in one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heat {
    /// The waits that ended.
    pub(crate) ended: u32,
    /// The most waiters at a time.
    pub(crate) waiters: u32,
}

impl Heat {
    pub(crate) fn sum(self) -> u64 {
        u64::from(self.ended) + u64::from(self.waiters)
    }
}

/// Where a lock was taken, and where it was waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Pair {
    pub(crate) lock: String,
    pub(crate) holder: String,
    pub(crate) waiter: String,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    /// The number of the newest slot since the start.
    slot: u64,
    pub(crate) figures: VecDeque<SlotFigures>,
    /// By the label of the lock. Each as long as the figures.
    pub(crate) heat: HashMap<String, VecDeque<Heat>>,
    /// In microseconds of waiting.
    pub(crate) blame: HashMap<Pair, f64>,
    /// The waits that had ended when a lock was last seen, by its number.
    ended: HashMap<u64, u64>,
    polls: u64,
}

/// The row of a lock: those that say the same of themselves are one.
pub(crate) fn row(label: &LockLabel) -> String {
    label.to_string()
}

impl History {
    /// Takes a sample, `at` after the start and `since` after the one before.
    pub(crate) fn add(&mut self, sample: &Sample, at: Duration, since: Duration) {
        self.advance(at);
        self.add_figures(sample);
        self.add_heat(sample);
        self.add_blame(sample, since);
    }

    fn advance(&mut self, at: Duration) {
        let slot = (at.as_nanos() / SLOT.as_nanos()) as u64;
        let steps =
            if self.figures.is_empty() { 1 } else { slot.saturating_sub(self.slot).min(SLOTS as u64) };
        self.slot = slot.max(self.slot);
        for step in 1..=steps {
            // A slot without a sample is as the one before, but nothing was counted in it.
            let is_last = step == steps;
            let same = |before: SlotFigures| SlotFigures { polls: 0, ..before };
            push(&mut self.figures, |before| if is_last { SlotFigures::default() } else { same(before) });
            let same = |before: Heat| Heat { ended: 0, ..before };
            let next = |before| if is_last { Heat::default() } else { same(before) };
            self.heat.values_mut().for_each(|row| push(row, next));
        }
        // A row that was cold for the whole history is gone.
        self.heat.retain(|_, row| row.iter().any(|heat| *heat != Heat::default()));
    }

    fn add_figures(&mut self, sample: &Sample) {
        let now = self.figures.back_mut().expect("`advance` pushed one");
        let longest = sample.locks.waits.first().map_or(0, |wait| wait.waited.as_millis() as u64);
        now.waits = now.waits.max(sample.locks.total_waits as u64);
        now.longest = now.longest.max(longest);
        now.deadlocks = now.deadlocks.max(sample.locks.total_deadlocks as u64);
        now.tasks = now.tasks.max(sample.tasks() as u64);
        now.queued = now.queued.max(sample.queued() as u64);
        let polls = sample.polls();
        now.polls += polls.saturating_sub(self.polls);
        self.polls = polls;
    }

    fn add_heat(&mut self, sample: &Sample) {
        let mut ended = HashMap::with_capacity(sample.locks.locks.len());
        let length = self.figures.len();
        let mut waiters: HashMap<String, u32> = HashMap::new();
        for lock in &sample.locks.locks {
            // A lock that is seen for the first time may have been contended long before.
            let new = self.ended.get(&lock.id).map_or(0, |before| lock.contentions.saturating_sub(*before));
            ended.insert(lock.id, lock.contentions);
            if new == 0 && lock.waiters == 0 {
                continue;
            }
            let name = row(&lock.label);
            let now = self
                .heat
                .entry(name.clone())
                .or_insert_with(|| VecDeque::from(vec![Heat::default(); length]));
            let now = now.back_mut().expect("as long as the figures");
            now.ended = now.ended.saturating_add(u32::try_from(new).unwrap_or(u32::MAX));
            let sum = waiters.entry(name).or_default();
            *sum = sum.saturating_add(u32::try_from(lock.waiters).unwrap_or(u32::MAX));
            now.waiters = now.waiters.max(*sum);
        }
        self.ended = ended;
        while self.heat.len() > ROWS {
            let sum = |row: &VecDeque<Heat>| row.iter().map(|heat| heat.sum()).sum::<u64>();
            let coldest = self.heat.iter().min_by_key(|(name, row)| (sum(row), (*name).clone()));
            let Some(coldest) = coldest.map(|(name, _)| name.clone()) else { break };
            self.heat.remove(&coldest);
        }
    }

    fn add_blame(&mut self, sample: &Sample, since: Duration) {
        let faded = 1.0 - (since.as_secs_f64() / (SLOT.as_secs_f64() * SLOTS as f64)).min(1.0);
        self.blame.values_mut().for_each(|time| *time *= faded);
        for site in &sample.locks.sites {
            let Some((id, label)) = site.lock else { continue };
            let Some(lock) = sample.locks.locks.iter().find(|lock| lock.id == id) else { continue };
            let mut holders: Vec<String> =
                lock.holders.iter().filter_map(|one| Some(one.at?.to_string())).collect();
            holders.sort_unstable();
            holders.dedup();
            let Some(waiter) = site.at else { continue };
            // A wait that is younger than the last sample has not lasted for all of the time since.
            let waited = site.longest.min(since).as_micros() as f64 * site.count as f64;
            let share = waited / holders.len().max(1) as f64;
            for holder in holders.into_iter().take(8) {
                let pair = Pair { lock: row(&label), holder, waiter: waiter.to_string() };
                *self.blame.entry(pair).or_default() += share;
            }
        }
        self.blame.retain(|_, time| *time >= 1.0);
        if self.blame.len() > PAIRS {
            let mut all: Vec<(Pair, f64)> = self.blame.drain().collect();
            all.sort_by(|one, other| other.1.total_cmp(&one.1));
            self.blame = all.into_iter().take(PAIRS).collect();
        }
    }
}

/// Pushes what follows the newest, and drops the oldest of a full ring.
fn push<T: Copy + Default>(ring: &mut VecDeque<T>, next: impl FnOnce(T) -> T) {
    let before = ring.back().copied().unwrap_or_default();
    if ring.len() == SLOTS {
        ring.pop_front();
    }
    ring.push_back(next(before));
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Duration = Duration::from_secs(1);

    fn sample() -> Sample {
        crate::sample::Sources::default().look()
    }

    /// However long it goes on, and however few samples there are, the rings have one length and it is bounded.
    #[test]
    fn rings_are_bounded() {
        let mut history = History::default();
        history.heat.insert("cold".into(), VecDeque::new());
        for slot in [0, 1, 1, 3, 200, 10_000_000, 10_000_000, 10_000_001] {
            history.add(&sample(), SLOT * slot + AT, AT);
            assert!(history.figures.len() <= SLOTS);
            assert!(history.heat.values().all(|row| row.len() == history.figures.len()));
        }
        assert_eq!(history.figures.len(), SLOTS);
        // A clock that stands still, or goes back, moves nothing.
        history.add(&sample(), AT, AT);
        assert_eq!(history.figures.len(), SLOTS);
    }

    /// Rows and pairs of very many locks are bounded: the hottest stay.
    #[test]
    fn rows_and_pairs_are_bounded() {
        let mut history = History::default();
        history.advance(AT);
        for n in 0..1_000 {
            history.heat.insert(format!("{n:04}"), VecDeque::from([Heat { ended: n, waiters: 0 }]));
            let pair = Pair { lock: n.to_string(), holder: String::new(), waiter: String::new() };
            history.blame.insert(pair, f64::from(n) * 1_000.0);
        }
        history.add_heat(&sample());
        history.add_blame(&sample(), Duration::ZERO);
        assert_eq!((history.heat.len(), history.blame.len()), (ROWS, PAIRS));
        assert!(history.heat.contains_key("0999") && !history.heat.contains_key("0001"));
    }

    /// Blame fades with the history: after all of it, what is not seen any more is forgotten.
    #[test]
    fn blame_fades() {
        let mut history = History::default();
        let pair = Pair { lock: String::new(), holder: "a".into(), waiter: "b".into() };
        history.blame.insert(pair, 1e6);
        history.add_blame(&sample(), SLOT * SLOTS as u32 / 2);
        assert!(history.blame.values().all(|time| (4e5..6e5).contains(time)) && !history.blame.is_empty());
        history.add_blame(&sample(), SLOT * SLOTS as u32);
        assert!(history.blame.keys().all(|pair| pair.holder != "a"));
    }
}
