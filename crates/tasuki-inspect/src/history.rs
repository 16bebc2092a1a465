//! The last minutes: rings of figures, contention of locks over time, and blame. All of it bounded, whatever the program does.
//!
//! Time is cut into slots of [`SLOT`]; a figure of a slot is the most, or the sum, of the samples in it. Locks that were made at one place, or have one name, are one row. Blame
//! is by sampling: a wait that is seen adds the time since the sample before to the pair of its place and that of the holder; it fades with the history.

use crate::sample::Sample;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tasuki::inspect::LockLabel;

/// So long is a slot.
pub(crate) const SLOT: Duration = Duration::from_secs(2);
/// So many there are: five minutes.
pub(crate) const SLOTS: usize = 150;
/// So many rows of contention are kept; a new one takes the place of the least contended.
const ROWS: usize = 64;
/// So many pairs of blame are kept.
const PAIRS: usize = 256;

/// Figures of one slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
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
    pub(crate) figures: VecDeque<Figures>,
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
        for _ in 0..steps {
            push(&mut self.figures);
            self.heat.values_mut().for_each(push);
        }
        // A row that was cold for the whole history is gone.
        self.heat.retain(|_, row| row.iter().any(|heat| *heat != Heat::default()));
    }

    fn add_figures(&mut self, sample: &Sample) {
        let now = self.figures.back_mut().expect("`advance` pushed one");
        let longest = sample.locks.waits.first().map_or(0, |wait| wait.waited.as_millis() as u64);
        now.waits = now.waits.max(sample.locks.total_waits as u64);
        now.longest = now.longest.max(longest);
        now.deadlocks = now.deadlocks.max(sample.locks.deadlocks.len() as u64);
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

fn push<T: Default>(ring: &mut VecDeque<T>) {
    if ring.len() == SLOTS {
        ring.pop_front();
    }
    ring.push_back(T::default());
}
