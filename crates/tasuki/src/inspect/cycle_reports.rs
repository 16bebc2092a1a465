//! Makes the reports of cycles: values that print, with the labels of their tasks.
//!
//! The graph knows tasks and locks by numbers. Here they get their names and places, for the watcher, for [`deadlocks`](super::deadlocks()) and for snapshots. Runtimes are asked once for the labels of all cycles, for each question is a walk
//! over all their tasks; and a label is found by a binary search. So the work is in proportion to the tasks of the cycles.

use super::gather::{label, labels_of};
use super::graph::{Cycle, CycleLink};
use super::labels::{self, PollState};
use super::nanoseconds;
use super::report::{Certainty, Deadlock, Hold, Hop};
use super::snapshot::HolderSnapshot;
use super::waits::unrecorded;
use crate::task::TaskId;
use std::time::Duration;
use std::vec::Vec;

impl Deadlock {
    /// `None` if the cycle has opened meanwhile. Asked by strict mode in the middle of a poll, which is no doubt.
    pub(super) fn new(cycle: &Cycle) -> Option<Self> {
        Self::labelled(core::slice::from_ref(cycle)).pop()
    }

    /// Of many at once, but for those that have opened meanwhile; the suspected ones last.
    pub(super) fn all(cycles: &[Cycle]) -> Vec<Self> {
        let mut all = Self::labelled(cycles);
        all.iter_mut().for_each(Self::doubt_running);
        all.sort_by_key(|deadlock| deadlock.certainty == Certainty::Suspected);
        all
    }

    fn labelled(cycles: &[Cycle]) -> Vec<Self> {
        let mut all: Vec<Self> = cycles.iter().filter_map(Self::unlabelled).collect();
        let labels = labels_of(all.iter().flat_map(|deadlock| deadlock.hops.iter().map(|hop| hop.task)));
        for deadlock in &mut all {
            let mut tasks: Vec<TaskId> = deadlock.hops.iter().map(|hop| hop.task).collect();
            tasks.sort_unstable();
            tasks.dedup();
            let known = tasks.into_iter().filter_map(|task| labels::find(&labels, task));
            deadlock.tasks = known.cloned().collect();
        }
        all
    }

    /// A task that is being polled may compute, and go on; or it waits inside of that poll.
    fn doubt_running(&mut self) {
        if self.tasks.iter().any(|label| label.state == Some(PollState::Running)) {
            self.certainty = Certainty::Suspected;
        }
    }

    fn unlabelled(cycle: &Cycle) -> Option<Self> {
        let now = nanoseconds();
        // A lock that is gone has no label: a part of a cycle is none.
        let hops: Vec<Hop> = cycle.links.iter().map(|link| Hop::new(link, now)).collect::<Option<_>>()?;
        let is_doubtful = |hop: &Hop| hop.task.is_guessed() || unrecorded::is_noted(hop.task.get());
        let certainty = if !cycle.is_certain || hops.iter().any(is_doubtful) {
            Certainty::Suspected
        } else if hops.iter().any(|hop| hop.holder.hold == Hold::Unclaimed) {
            Certainty::Futurelock
        } else {
            Certainty::Deadlock
        };
        Some(Self { certainty, hops, tasks: Vec::new() })
    }
}

impl Hop {
    fn new(link: &CycleLink, now: u64) -> Option<Self> {
        let holder = HolderSnapshot::of(&link.blocker)?;
        Some(Self {
            task: TaskId::from_number(link.wait.task)?,
            waits_at: link.wait.at,
            waited: Duration::from_nanos(now.saturating_sub(link.wait.since)),
            future: link.wait.name,
            lock: label(link.wait.lock)?,
            holder,
        })
    }
}
