//! Balance between two busy workers: the one whose tasks have had more turns takes some tasks of the other.
//!
//! A worker that always has something to do never searches. With nothing else it would run its one task again and again, while another worker runs hundreds by turns. And of two workers with
//! equally many tasks one may be faster, or the system may take the processor away from the other. So now and then a worker compares itself with another one: how many turns has each of its own tasks had, and each of the other's? (A
//! turn of all tasks is as many polls as there are tasks.) If its own tasks are ahead by a turn, it takes so many tasks of the other that both would be equally far from now on.
//!
//! A task that was given a baton is in no local queue but in a *next* slot. If the other worker has been in a long poll since an earlier look, that task is taken first (`steal_next`). A worker that has too
//! many tasks to compare, or whose tasks have not all had a turn since the last comparison, takes half of the queue of one that is stuck in a poll (`steal_from_stuck`).
//!
//! | from | event | to | takes |
//! |---|---|---|---|
//! | not known | a look | counting | half of what the other has more, if that is as much as ours |
//! | counting | a look, ours not ahead by a turn | counting; after [`MEMORY`] turns, what was counts half | none |
//! | counting | a look, ours ahead by a turn | counting from zero | the share |
//! | any | the worker searches: it had nothing to do | not known | |
//!
//! All numbers are estimates: the polls of the other worker are read Relaxed, and include those of its *next* slot and its home queue; and it is assumed to have one task more than wait, the one that it polls.

use super::worker::Local;
use super::{LOCAL_CAPACITY, Shared};
use crate::task::Runnable;

/// A worker with this many tasks or more does not compare. It takes only what another one cannot run.
const FEW: usize = 256;
/// After this many turns the counts from before are halved.
const MEMORY: f32 = 32.0;
/// So many turns behind are remembered: how far the others were ahead long ago, or while one of both had nothing to do, is no debt.
const MOST_BEHIND: f32 = 2.0;

/// How many turns the tasks of two workers have had: of the worker that looks, and of another one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Comparison {
    /// What both had polled at the last look.
    polls: Option<(u64, u64)>,
    /// How many turns each task of both has had since then, from zero or lately.
    turns: (f32, f32),
}

impl Comparison {
    /// Has each of so many tasks of the worker that looks had a turn since the last look?
    fn is_over(&self, polls: u64, tasks: usize) -> bool {
        self.polls.is_none_or(|(then, _)| polls.wrapping_sub(then) >= tasks as u64)
    }

    /// A look at the polls of both, and at the tasks of ours and those that wait for the other. What is known now, and how many tasks to take.
    fn look(self, polls: (u64, u64), (tasks, waiting): (usize, usize)) -> (Self, usize) {
        // The one that it polls does not wait.
        let tasks = (tasks.max(1) as f32, waiting as f32 + 1.0);
        let passed = match self.polls {
            Some(then) => (polls.0.wrapping_sub(then.0) as f32, polls.1.wrapping_sub(then.1) as f32),
            // As if both had polled equally often, two turns of ours.
            None => (2.0 * tasks.0, 2.0 * tasks.0),
        };
        let ours = self.turns.0 + passed.0 / tasks.0;
        let theirs = (self.turns.1 + passed.1 / tasks.1).min(ours + MOST_BEHIND);
        let polls = Some(polls);
        if ours - theirs < 1.0 {
            let part = if ours > MEMORY { 0.5 } else { 1.0 };
            return (Self { polls, turns: (ours * part, theirs * part) }, 0);
        }
        // So many that polls / tasks is the same on both, if they go on polling as they did.
        let share = tasks.0 * tasks.1 * (ours - theirs) / (ours * tasks.0 + theirs * tasks.1);
        (Self { polls, turns: (0.0, 0.0) }, waiting.min(share.ceil() as usize))
    }
}

impl Local {
    /// Compares itself with another worker, and takes tasks of it if its own have had more turns: one to be run at once, the others into its queue. Or the task in its *next* slot, if it is in a long poll.
    pub(super) fn balance(&self, shared: &Shared) -> Option<Runnable> {
        let (own, others) = (LOCAL_CAPACITY - self.queue.spare_capacity(), shared.workers() - 1);
        if others == 0 {
            return None;
        }
        let victim = (self.index + 1 + self.next_random() as usize % others) % shared.workers();
        let remote = &shared.remotes[victim];
        if let Some(runnable) = self.steal_next(shared, victim) {
            return Some(runnable);
        }
        let before = self.observations.borrow()[victim].comparison;
        let (polls, tasks) =
            (shared.remotes[self.index].counters.polls.get(), own + self.home.borrow().len());
        if own >= FEW || !before.is_over(polls, tasks) {
            return self.steal_from_stuck(shared, victim);
        }
        let mut after = before;
        let share = |waiting: usize| {
            let (comparison, share) = before.look((polls, remote.counters.polls.get()), (tasks, waiting));
            after = comparison;
            share
        };
        let taken = remote.stealer.steal_and_pop(&self.queue, share);
        self.observations.borrow_mut()[victim].comparison = after;
        let (first, more) = taken.ok()?;
        shared.remotes[self.index].counters.steals.count();
        if more > 0 {
            // They were seen at the victim by a worker that goes to sleep, or are seen here.
            shared.notify();
        }
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two workers poll so often between two looks, which they have by turns. How many tasks both have in the end, and how many turns each task has had on both.
    fn run(mut tasks: (usize, usize), speeds: (u64, u64), looks: u32) -> ((usize, usize), (f32, f32)) {
        let mut comparisons = (Comparison::default(), Comparison::default());
        let (mut polls, mut turns) = ((0, 0), (0.0, 0.0));
        for look in 0..looks {
            polls = (polls.0 + speeds.0, polls.1 + speeds.1);
            turns.0 += speeds.0 as f32 / tasks.0 as f32;
            turns.1 += speeds.1 as f32 / tasks.1 as f32;
            let taken;
            // One of the tasks of the other is polled.
            if look % 2 == 0 {
                (comparisons.0, taken) = comparisons.0.look(polls, (tasks.0, tasks.1 - 1));
                tasks = (tasks.0 + taken, tasks.1 - taken);
            } else {
                (comparisons.1, taken) = comparisons.1.look((polls.1, polls.0), (tasks.1, tasks.0 - 1));
                tasks = (tasks.0 - taken, tasks.1 + taken);
            }
        }
        (tasks, turns)
    }

    #[test]
    fn a_task_alone_is_soon_not_alone() {
        let (look, share) = Comparison::default().look((8, 8), (1, 14));
        assert_eq!(share, 7, "half of what the other has more");
        let (_, again) = look.look((16, 16), (8, 7));
        assert_eq!(again, 0);
    }

    #[test]
    fn equal_workers_take_nothing() {
        for tasks in [1, 8, 128] {
            let (after, _) = run((tasks, tasks), (64, 64), 1_000);
            assert_eq!(after, (tasks, tasks));
        }
    }

    #[test]
    fn the_slower_worker_has_fewer_tasks() {
        // One task more or less is a third of those of the slowest.
        for (speeds, most, least_fair) in [((64, 32), 11, 0.9), ((64, 8), 15, 0.7), ((40, 30), 10, 0.9)] {
            let ((fast, slow), turns) = run((8, 8), speeds, 400);
            assert_eq!(fast + slow, 16);
            assert!((most - 1..=most).contains(&fast), "{fast} of 16 tasks at speeds {speeds:?}");
            let fairness = turns.0.min(turns.1) / turns.0.max(turns.1);
            assert!(fairness > least_fair, "{turns:?} turns at speeds {speeds:?}");
        }
    }

    #[test]
    fn an_odd_task_changes_sides() {
        // Where each task is moves on: a worker with one task is ahead soon, and takes one of the two.
        let (_, turns) = run((1, 2), (8, 8), 1_000);
        let fairness = turns.0.min(turns.1) / turns.0.max(turns.1);
        assert!(fairness > 0.95, "{turns:?}");
    }

    #[test]
    fn what_a_worker_did_long_ago_is_no_debt() {
        let mut comparison = Comparison::default().look((0, 0), (1, 0)).0;
        // The other has polled a million times since.
        comparison = comparison.look((8, 1_000_000), (1, 14)).0;
        let shares: Vec<usize> = (1..4)
            .map(|nth| {
                let (next, share) = comparison.look((8 + 8 * nth, 1_000_000 + 8 * nth), (1, 14));
                comparison = next;
                share
            })
            .collect();
        assert!(shares[0] > 0, "{shares:?}");
    }
}
