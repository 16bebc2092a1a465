//! The wait-for graph: from a task to what it waits for, from a lock to the tasks that hold it, and which tasks cannot go on.
//!
//! A task is *stuck* if every one of its waits is blocked: the one that ends first would let it go on. A wait is blocked
//!
//! | by | if |
//! |---|---|
//! | a lock | any one of the holders that keep it out is stuck, for it needs them all to release; or a queued writer before it is |
//! | a semaphore | all holders are stuck and each of them is known, for any of them may release enough |
//! | a signal, a time, or a wait with a limit | never: something else may end it |
//!
//! The stuck tasks are the largest set for which this holds. A wait that was granted is none any more, and its task is a holder, whether its future
//! has been polled since or not: so a task that does not poll the future that was granted, and waits for the same lock by another, waits for itself.
//!
//! The graph has two kinds of nodes, tasks and locks, so a crowd of waits behind a crowd of holders is as many edges as there are members, not as many as there are pairs.
//! [`Graph::reduce`] removes the tasks that go on: a lock keeps the number of its holders that are left, and its waits are looked at again only
//! when a number has fallen to where it decides.

use super::gather::label;
use super::locks::{Held, Holder, LockId};
use super::nanoseconds;
use super::report::{Certainty, Deadlock, Hold, Hop, LockKind};
use super::snapshot::HolderSnapshot;
use super::waits::{self, WaitView, Want};
use crate::probe::LockMode;
use crate::task::TaskId;
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;
use std::vec::Vec;

/// What keeps a wait from ending.
#[derive(Clone, Copy, Debug)]
pub(super) enum Blocker {
    /// It holds the lock.
    Holder(Holder),
    /// It is queued for writing, and readers do not pass it.
    Writer(WaitView),
}

impl Blocker {
    pub(super) fn task(&self) -> u64 {
        match self {
            Self::Holder(holder) => holder.task,
            Self::Writer(wait) => wait.task,
        }
    }

    /// Differs from that of every other holder, and of the same one at another time.
    fn turn(&self) -> u64 {
        match self {
            Self::Holder(holder) => u64::from(holder.turn) << 32 | u64::from(holder.held.number()),
            Self::Writer(wait) => wait.id,
        }
    }
}

/// One task of a cycle, what it waits for, and what it waits for there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) wait: WaitView,
    pub(super) blocker: Blocker,
}

/// Tasks each of which waits for the next, and the last for the first; the one with the smallest number is the first.
#[derive(Clone, Debug)]
pub(super) struct Cycle(pub(super) Vec<Link>);

impl Cycle {
    /// A task that waits for permits that it took itself. Permits are often taken by one task and given to others, and nothing tells.
    pub(super) fn is_own_permits(&self) -> bool {
        matches!(&self.0[..], [Link { wait, blocker: Blocker::Holder(holder) }]
            if wait.want == Want::Permits && holder.is_claimed)
    }

    /// Is the task one of the cycle, and does not only wait for it?
    pub(super) fn has(&self, task: u64) -> bool {
        self.0.iter().any(|link| link.wait.task == task)
    }

    /// The same for the same cycle, and no other: if it is found again, nothing in it has changed.
    pub(super) fn signature(&self) -> Vec<u64> {
        self.0.iter().flat_map(|link| [link.wait.id, link.wait.lock.number(), link.blocker.turn()]).collect()
    }
}

/// Must a wait for this be kept out by a holder of this mode?
fn keeps_out(want: Want, mode: LockMode) -> bool {
    match want {
        Want::Signal | Want::Time => false,
        Want::Exclusive | Want::Upgrade => true,
        Want::Read => mode == LockMode::Exclusive,
        Want::Upgradable => matches!(mode, LockMode::Exclusive | LockMode::Upgradable),
        Want::Permits => mode == LockMode::Permits,
    }
}

fn is_behind_writers(want: Want) -> bool {
    matches!(want, Want::Read | Want::Upgradable)
}

/// Is the first, a queued writer, granted before the second? An upgrade goes before all others.
fn is_before(writer: &WaitView, wait: &WaitView) -> bool {
    writer.want == Want::Upgrade || writer.since < wait.since
}

/// Has the wait been granted? Its future has not seen it yet.
pub(super) fn is_granted(wait: &WaitView) -> bool {
    let mut is_granted = false;
    if let Some(record) = wait.lock.record() {
        record.each_holder(|holder| is_granted |= holder.wait == wait.id);
    }
    is_granted
}

/// Everything that keeps a wait from ending, as far as it is known; a limit ends it all the same.
pub(super) fn blockers(wait: &WaitView) -> Vec<Blocker> {
    LockNode::of(wait.lock).blockers(wait).collect()
}

/// A lock of the collected graph.
#[derive(Default)]
struct LockNode {
    holders: Vec<Holder>,
    /// The queued waits without a limit that keep readers out, in the order in which they are granted.
    writers: Vec<WaitView>,
    /// The waits that were granted, and whose futures have not seen it.
    granted: HashSet<u64>,
    /// Code without an identity holds permits.
    has_unknown: bool,
    /// Of the holders, how many are left: all; those that keep an upgradable read out; those that keep readers out.
    left: [usize; 3],
    /// How many of the writers in front have been removed.
    front: usize,
    /// The tasks that wait for it.
    waiters: Vec<u64>,
}

/// The classes of holders by whom they keep out, in the order of [`LockNode::left`].
const CLASSES: [Want; 3] = [Want::Exclusive, Want::Upgradable, Want::Read];

impl LockNode {
    fn of(lock: LockId) -> Self {
        let mut node = Self::default();
        let Some(record) = lock.record() else { return node };
        record.each_holder(|holder| {
            node.granted.extend((holder.wait != 0).then_some(holder.wait));
            node.holders.push(holder);
        });
        node.has_unknown = record.unknown() > 0;
        waits::each_writer(lock, |writer| node.writers.extend((!writer.is_limited).then_some(writer)));
        node.writers.retain(|writer| !node.granted.contains(&writer.id));
        node.writers.sort_unstable_by_key(|writer| (writer.want != Want::Upgrade, writer.since, writer.id));
        node
    }

    /// Everything that keeps this wait out.
    fn blockers(self, wait: &WaitView) -> impl Iterator<Item = Blocker> {
        let wait = *wait;
        let holders = self.holders.into_iter().filter(move |holder| Self::is_blocker(holder, &wait));
        let writers = self.writers.into_iter().filter(move |writer| Self::is_queued_before(writer, &wait));
        holders.map(Blocker::Holder).chain(writers.map(Blocker::Writer))
    }

    fn is_blocker(holder: &Holder, wait: &WaitView) -> bool {
        let is_own = wait.own != Held::NONE && holder.held == wait.own;
        !is_own && keeps_out(wait.want, holder.mode)
    }

    fn is_queued_before(writer: &WaitView, wait: &WaitView) -> bool {
        is_behind_writers(wait.want) && writer.id != wait.id && is_before(writer, wait)
    }

    /// A task that is left and keeps this wait out.
    fn blocker(&self, wait: &WaitView, is_left: impl Fn(u64) -> bool) -> Option<Blocker> {
        let holder = |holder: &&Holder| Self::is_blocker(holder, wait) && is_left(holder.task);
        let writer = |writer: &&WaitView| Self::is_queued_before(writer, wait) && is_left(writer.task);
        let holder = self.holders.iter().find(holder).copied().map(Blocker::Holder);
        holder.or_else(|| self.writers[self.front..].iter().find(writer).copied().map(Blocker::Writer))
    }

    /// Is the wait of a task that is left kept out by one that is left, too?
    fn blocks(&self, wait: &WaitView, is_left: impl Fn(u64) -> bool) -> bool {
        let [all, upgradable, alone] = self.left;
        let is_behind = || {
            let front = self.writers.get(self.front);
            front.is_some_and(|writer| Self::is_queued_before(writer, wait))
        };
        match wait.want {
            Want::Signal | Want::Time => false,
            Want::Exclusive => all > 0,
            // Its own hold does not count; there is one upgrade at a time.
            Want::Upgrade => self.blocker(wait, is_left).is_some(),
            Want::Read => alone > 0 || is_behind(),
            Want::Upgradable => upgradable > 0 || is_behind(),
            Want::Permits => !self.has_unknown && all > 0 && all == self.holders.len(),
        }
    }

    /// The task is not left. True if waits that were blocked may not be any more.
    fn remove(&mut self, task: u64, is_left: impl Fn(u64) -> bool) -> bool {
        let before = (self.left, self.front);
        for holder in self.holders.iter().filter(|holder| holder.task == task) {
            for (left, class) in self.left.iter_mut().zip(CLASSES) {
                *left -= usize::from(keeps_out(class, holder.mode));
            }
        }
        while self.writers.get(self.front).is_some_and(|writer| !is_left(writer.task)) {
            self.front += 1;
        }
        // One is left: it may be the upgrade's own. None: no waiter is blocked. And the first that is gone decides for a semaphore.
        let decides = |(now, before): (&usize, &usize)| now != before && *now <= 1;
        let is_first = before.0[0] == self.holders.len() && self.left[0] < before.0[0];
        self.left.iter().zip(&before.0).any(decides) || self.front != before.1 || is_first
    }
}

/// A part of the graph: tasks that wait with their waits, and the locks.
#[derive(Default)]
struct Graph {
    tasks: HashMap<u64, Vec<WaitView>>,
    locks: HashMap<LockId, LockNode>,
}

impl Graph {
    /// All that can be reached from these tasks.
    fn collect(start: impl IntoIterator<Item = u64>) -> Self {
        let mut graph = Self::default();
        let mut left: Vec<u64> = start.into_iter().collect();
        while let Some(task) = left.pop() {
            if graph.tasks.contains_key(&task) {
                continue;
            }
            let mut waits = Vec::new();
            // A task that sleeps, too, is not stuck, whatever else it waits for.
            if !waits::sleeps(task) {
                waits::each_of(task, |wait| waits.push(wait));
            }
            if waits.iter().any(|wait| !wait.is_unlimited_lock()) {
                waits.clear();
            }
            waits.retain(|wait| graph.wait(wait, &mut left));
            graph.tasks.insert(task, waits);
        }
        graph
    }

    /// Notes a wait for a lock, and the tasks that hold it; false if it has been granted.
    fn wait(&mut self, wait: &WaitView, left: &mut Vec<u64>) -> bool {
        let node = self.locks.entry(wait.lock).or_insert_with(|| {
            let node = LockNode::of(wait.lock);
            left.extend(node.holders.iter().map(|holder| holder.task));
            left.extend(node.writers.iter().map(|writer| writer.task));
            node
        });
        let waits = !node.granted.contains(&wait.id);
        if waits {
            node.waiters.push(wait.task);
        }
        waits
    }

    /// Leaves only the tasks that are stuck.
    fn reduce(&mut self) {
        let mut has: HashMap<u64, Vec<LockId>> = HashMap::new();
        for (id, node) in &mut self.locks {
            node.left = CLASSES
                .map(|class| node.holders.iter().filter(|holder| keeps_out(class, holder.mode)).count());
            let tasks = node.holders.iter().map(|holder| holder.task);
            for task in tasks.chain(node.writers.iter().map(|writer| writer.task)) {
                has.entry(task).or_default().push(*id);
            }
        }
        let mut queue: VecDeque<u64> = self.tasks.keys().copied().collect();
        let mut queued: HashSet<u64> = queue.iter().copied().collect();
        while let Some(task) = queue.pop_front() {
            queued.remove(&task);
            let Some(waits) = self.tasks.get(&task) else { continue };
            let is_left = |task| self.tasks.contains_key(&task);
            if !waits.is_empty() && waits.iter().all(|wait| self.locks[&wait.lock].blocks(wait, is_left)) {
                continue;
            }
            self.tasks.remove(&task);
            let mut locks = has.remove(&task).unwrap_or_default();
            locks.sort_unstable();
            locks.dedup();
            for lock in locks {
                let Some(node) = self.locks.get_mut(&lock) else { continue };
                if node.remove(task, |task| self.tasks.contains_key(&task)) {
                    queue.extend(node.waiters.iter().copied().filter(|waiter| queued.insert(*waiter)));
                }
            }
        }
    }

    /// What the task waits for, if it is stuck.
    fn next(&self, task: u64) -> Option<Link> {
        let wait = *self.tasks.get(&task)?.first()?;
        let blocker = self.locks[&wait.lock].blocker(&wait, |other| self.tasks.contains_key(&other))?;
        Some(Link { wait, blocker })
    }

    /// The cycle that a stuck task is in, or leads to; none if that leads to a task of `known`, which it extends.
    fn cycle(&self, task: u64, known: &mut HashSet<u64>) -> Option<Cycle> {
        let mut links: Vec<Link> = Vec::new();
        let mut places = HashMap::new();
        let mut at = task;
        loop {
            if let Some(place) = places.insert(at, links.len()) {
                links.drain(..place);
                let first = links.iter().enumerate().min_by_key(|(_, link)| link.wait.task)?.0;
                links.rotate_left(first);
                return Some(Cycle(links));
            }
            if !known.insert(at) {
                return None;
            }
            let link = self.next(at)?;
            at = link.blocker.task();
            links.push(link);
        }
    }
}

/// The tasks that were stuck when it was made, of those that were asked for and all that they wait for.
fn stuck_among(tasks: impl IntoIterator<Item = u64>) -> Graph {
    let mut graph = Graph::collect(tasks);
    graph.reduce();
    graph
}

/// The cycle that this task waits in, or for.
pub(super) fn cycle_of(task: u64) -> Option<Cycle> {
    stuck_among([task]).cycle(task, &mut HashSet::new())
}

/// Every cycle that these tasks wait in, or for; each once.
pub(super) fn cycles_of(tasks: impl IntoIterator<Item = u64>) -> Vec<Cycle> {
    let graph = stuck_among(tasks);
    let mut stuck: Vec<u64> = graph.tasks.keys().copied().collect();
    stuck.sort_unstable();
    let mut known = HashSet::new();
    stuck.into_iter().filter_map(|task| graph.cycle(task, &mut known)).collect()
}

/// Every cycle of now, each once.
pub(super) fn cycles() -> Vec<Cycle> {
    let mut tasks = Vec::new();
    waits::each_candidate(u64::MAX, |task| tasks.push(task));
    cycles_of(tasks)
}

impl Deadlock {
    pub(super) fn new(cycle: &Cycle) -> Self {
        let now = nanoseconds();
        let hops: Vec<Hop> = cycle.0.iter().filter_map(|link| Hop::new(link, now)).collect();
        let certainty = if hops.iter().any(|hop| hop.lock.kind == LockKind::Semaphore) {
            Certainty::Suspected
        } else if hops.iter().any(|hop| hop.holder.hold == Hold::Unclaimed) {
            Certainty::Futurelock
        } else {
            Certainty::Deadlock
        };
        Self { certainty, hops }
    }
}

impl Hop {
    fn new(link: &Link, now: u64) -> Option<Self> {
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
