//! Work stealing: what a worker takes from the queues of others, and which tasks it leaves to their own worker.
//!
//! A thief, a worker with nothing to do, takes half of a queue at once. A single task in a queue, and the task in the *next* slot, are left to their own worker, which is about to run
//! them. There are two exceptions. If the polls of that worker are long (it is still in the same poll as at an earlier look, or has made few since), both may be taken. If its queue has
//! had a task at each look of a search, the worker has more to do than it can, and a single task in the queue is taken as well. What workers with tasks take of each other is decided in `balance.rs`.

use super::balance::Comparison;
use super::worker::{LOOKS, Local, from_slot};
use super::{Item, Remote, Shared};
use crate::task::Runnable;
use st3::StealError;
use std::time::{Duration, Instant};

/// How far apart two looks must be to judge by.
const APART: Duration = Duration::from_micros(100);
/// Polls that take longer than this on average are long: taking a task over is cheaper than waiting.
const LONG_POLL: Duration = Duration::from_micros(20);
/// A worker that begins no poll for so long is stuck in one.
const STUCK: Duration = Duration::from_millis(1);

/// What a look at a busy worker showed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Observation {
    polls: u64,
    since: Option<Instant>,
    /// At how many looks in a row its queue had something.
    never_empty: u32,
    /// The turns of its tasks beside those of ours.
    pub(super) comparison: Comparison,
}

impl Observation {
    /// Have the polls of the worker been long since an earlier look?
    pub(super) fn shows_long_polls(&self, polls: u64) -> bool {
        let elapsed = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        let begun = polls.wrapping_sub(self.polls).saturating_add(1);
        elapsed >= APART && elapsed / u32::try_from(begun).unwrap_or(u32::MAX) >= LONG_POLL
    }

    /// Is the worker in the same poll as at an earlier look?
    fn shows_stuck_poll(&self, polls: u64) -> bool {
        polls == self.polls && self.since.is_some_and(|since| since.elapsed() >= STUCK)
    }

    /// Remembers this look, unless there is one to judge by soon.
    pub(super) fn remember(&mut self, polls: u64) {
        if self.since.is_none_or(|since| since.elapsed() >= APART) {
            (self.polls, self.since) = (polls, Some(Instant::now()));
        }
    }
}

impl Local {
    /// A task of another worker, and more of its queue into ours.
    pub(super) fn steal(&self, shared: &Shared) -> Option<Runnable> {
        let workers = shared.workers();
        let start = self.next_random() as usize % workers;
        let stolen = (0..workers)
            .map(|step| (start + step) % workers)
            .filter(|victim| *victim != self.index)
            .find_map(|victim| self.steal_from(&shared.remotes[victim], victim));
        if stolen.is_some() {
            shared.remotes[self.index].counters.steals.count();
        }
        stolen
    }

    fn steal_from(&self, remote: &Remote, victim: usize) -> Option<Runnable> {
        let observation = &mut self.observations.borrow_mut()[victim];
        let polls = remote.counters.polls.get();
        let long = observation.shows_long_polls(polls);
        let (mut held, never_empty) = (false, observation.never_empty);
        let share = |len: usize| {
            held = len == 1 && !long && never_empty + 1 < LOOKS;
            if held { 0 } else { len - len / 2 }
        };
        let stolen = remote.stealer.steal_and_pop(&self.queue, share);
        observation.never_empty = if held { never_empty + 1 } else { 0 };
        if let Ok((runnable, _)) = stolen {
            return Some(runnable);
        }
        if !remote.next.is_empty() {
            if long {
                // SAFETY: the slot holds raw runnables only.
                return remote.next.take().map(|raw| unsafe { Runnable::from_raw(raw) });
            }
            held = true;
        }
        if held {
            observation.remember(polls);
            self.saw_held.set(true);
        }
        None
    }

    /// For a worker that has something to do: the task in the *next* slot of another one, if it has been in a long poll since an earlier look. No worker may be idle, and watch it.
    pub(super) fn steal_next(&self, shared: &Shared, victim: usize) -> Option<Runnable> {
        let remote = &shared.remotes[victim];
        if remote.next.is_empty() {
            return None;
        }
        let (observation, polls) = (&mut self.observations.borrow_mut()[victim], remote.counters.polls.get());
        if !observation.shows_long_polls(polls) {
            observation.remember(polls);
            return None;
        }
        // SAFETY: the slot holds raw runnables only.
        let stolen = remote.next.take().map(|raw| unsafe { Runnable::from_raw(raw) });
        if stolen.is_some() {
            shared.remotes[self.index].counters.steals.count();
        }
        stolen
    }

    /// For a worker that does not compare now: half of the queue of another one, if that has been in one poll since an earlier look: one task, and the others into its queue.
    pub(super) fn steal_from_stuck(&self, shared: &Shared, victim: usize) -> Option<Runnable> {
        let (remote, observation) = (&shared.remotes[victim], &mut self.observations.borrow_mut()[victim]);
        let polls = remote.counters.polls.get();
        let is_stuck = observation.shows_stuck_poll(polls);
        let share = |len: usize| if is_stuck { len - len / 2 } else { 0 };
        let Ok((first, more)) = remote.stealer.steal_and_pop(&self.queue, share) else {
            // A poll that goes on is measured from the first look at it.
            if polls != observation.polls {
                observation.remember(polls);
            }
            return None;
        };
        shared.remotes[self.index].counters.steals.count();
        if more > 0 {
            shared.notify();
        }
        Some(first)
    }

    /// For the worker that stays in a shutdown: a task that another one has and does not run, for it may be in a poll that never ends; as many more as there is room for come into its queue.
    pub(super) fn take_of_others(&self, shared: &Shared) -> Option<Item> {
        let others = shared.remotes.iter().enumerate().filter(|(victim, _)| *victim != self.index);
        others.into_iter().find_map(|(_, remote)| {
            let queued = remote.stealer.steal_and_pop(&self.queue, |len| len);
            queued.map_or_else(|_| remote.next.take().map(from_slot), |(first, _)| Some(Item::Task(first)))
        })
    }

    /// A search begins: what was seen at the looks of an earlier one says nothing, nor what was polled before.
    pub(super) fn look_anew(&self) {
        for observation in self.observations.borrow_mut().iter_mut() {
            observation.never_empty = 0;
            observation.comparison = Comparison::default();
        }
    }

    /// The second look before a sleep: is there anything that was notified about? With `alone`, also what only its own worker
    /// has been told of.
    pub(super) fn sees_work(&self, shared: &Shared, alone: bool) -> bool {
        if shared.is_closing() || !shared.global.is_empty() {
            return true;
        }
        let others = shared.remotes.iter().enumerate().filter(|(victim, _)| *victim != self.index);
        others.into_iter().any(|(_, remote)| {
            let mut seen = 0;
            let look = |len: usize| {
                seen = len;
                0
            };
            // Busy: another thief is at it, and what it leaves may be ours.
            remote.stealer.steal(&self.queue, look) == Err(StealError::Busy)
                || seen > usize::from(!alone)
                || (alone && !remote.next.is_empty())
        })
    }

    /// Which worker to look at first: SplitMix64 without its second multiplication.
    pub(super) fn next_random(&self) -> u64 {
        let state = self.rng.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.rng.set(state);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z ^ (z >> 31)
    }
}
