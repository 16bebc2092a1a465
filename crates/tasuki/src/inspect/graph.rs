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
//! A wait that begins asks first whether it can be in a cycle at all ([`may_close`]), which allocates nothing and mostly ends at the first holder: it runs, and waits
//! for nothing. Only if its own task is reached again is the graph collected and judged ([`cycle_of`]); if there are too many tasks to follow, the thread that watches
//! does that: a crowd must not be collected by each of its members.

use super::gather::label;
use super::locks::{Held, Holder};
use super::nanoseconds;
use super::report::{Certainty, Deadlock, Hold, Hop, LockKind};
use super::snapshot::HolderSnapshot;
use super::waits::{self, WaitView, Want};
use crate::probe::LockMode;
use crate::task::TaskId;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use std::vec::Vec;

/// How many tasks the first question follows; beyond that the task is watched.
const FOLLOWED: usize = 32;
/// A wait behind more than these is taken for one that ends: a crowd of waits behind a crowd of holders is too much to collect.
const BLOCKERS: usize = 64;
/// How many tasks are collected for one that waits.
const COLLECTED: usize = 10_000;

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

/// Everything that keeps a wait from ending. False if the wait has been granted, or can end by itself.
fn each_blocker(wait: &WaitView, mut see: impl FnMut(Blocker)) -> bool {
    if wait.is_limited || matches!(wait.want, Want::Signal | Want::Time) {
        return false;
    }
    let Some(record) = wait.lock.record() else { return false };
    let mut is_granted = false;
    record.each_holder(|holder| {
        is_granted |= holder.wait == wait.id;
        let is_own = wait.own != Held::NONE && holder.held == wait.own;
        if !is_own && keeps_out(wait.want, holder.mode) {
            see(Blocker::Holder(holder));
        }
    });
    if matches!(wait.want, Want::Read | Want::Upgradable) {
        waits::each_writer(wait.lock, |writer| {
            // An upgrade goes before all others.
            let is_before = writer.since < wait.since || writer.want == Want::Upgrade;
            if is_before && writer.id != wait.id && !writer.is_limited {
                see(Blocker::Writer(writer));
            }
        });
    }
    !is_granted
}

/// Has the wait been granted? Its future has not seen it yet.
pub(super) fn is_granted(wait: &WaitView) -> bool {
    let mut is_granted = false;
    if let Some(record) = wait.lock.record() {
        record.each_holder(|holder| is_granted |= holder.wait == wait.id);
    }
    is_granted
}

/// Everything that keeps a wait from ending, as far as it is known.
pub(super) fn blockers(wait: &WaitView) -> Vec<Blocker> {
    let mut blockers = Vec::new();
    // A limit ends the wait; until then it is behind the same tasks.
    each_blocker(&WaitView { is_limited: false, ..*wait }, |blocker| blockers.push(blocker));
    blockers
}

/// Whether what a task waits for can lead back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closes {
    /// Certain, but for what happens meanwhile.
    No,
    Maybe,
    /// There are too many tasks to follow.
    Unknown,
}

/// Can what the task waits for lead back to it? Allocates nothing.
pub(super) fn may_close(task: u64) -> Closes {
    let mut found = [0; FOLLOWED];
    let mut count = 0;
    let mut next = 0;
    let mut closes = Closes::No;
    let mut at = task;
    loop {
        waits::each_of(at, |wait| {
            each_blocker(&wait, |blocker| {
                let other = blocker.task();
                if other == task {
                    closes = Closes::Maybe;
                } else if closes != Closes::No || found[..count].contains(&other) {
                    // Seen, or decided.
                } else if count == FOLLOWED {
                    closes = Closes::Unknown;
                } else {
                    found[count] = other;
                    count += 1;
                }
            });
        });
        if closes != Closes::No || next == count {
            return closes;
        }
        at = found[next];
        next += 1;
    }
}

/// A wait of the collected graph.
struct Edge {
    wait: WaitView,
    blockers: Vec<Blocker>,
    /// It can end in a way that is not known.
    is_open: bool,
}

impl Edge {
    /// What blocks it, if only tasks that are stuck go on waiting.
    fn blocked_by(&self, is_stuck: impl Fn(u64) -> bool) -> Option<Blocker> {
        if self.is_open {
            return None;
        }
        let stuck = |blocker: &&Blocker| is_stuck(blocker.task());
        if self.wait.want == Want::Permits && !self.blockers.iter().all(|blocker| is_stuck(blocker.task())) {
            return None;
        }
        self.blockers.iter().find(stuck).copied()
    }
}

/// A part of the graph: tasks that wait, with their waits.
#[derive(Default)]
struct Graph {
    tasks: HashMap<u64, Vec<Edge>>,
}

impl Graph {
    /// All that can be reached from these tasks.
    fn collect(start: impl IntoIterator<Item = u64>, limit: usize) -> Self {
        let mut graph = Self::default();
        let mut left: Vec<u64> = start.into_iter().collect();
        while let Some(task) = left.pop() {
            if graph.tasks.len() >= limit || graph.tasks.contains_key(&task) {
                continue;
            }
            let mut edges = Vec::new();
            // A task that sleeps, too, is not stuck, whatever else it waits for.
            if !waits::sleeps(task) {
                waits::each_of(task, |wait| edges.extend(Self::edge(wait)));
            }
            left.extend(edges.iter().flat_map(|edge| edge.blockers.iter().map(Blocker::task)));
            graph.tasks.insert(task, edges);
        }
        graph
    }

    /// `None` if the wait has been granted.
    fn edge(wait: WaitView) -> Option<Edge> {
        let mut blockers = Vec::new();
        let mut is_crowd = false;
        let waits = each_blocker(&wait, |blocker| {
            if blockers.len() < BLOCKERS {
                blockers.push(blocker);
            } else {
                is_crowd = true;
            }
        });
        if is_crowd {
            blockers.clear();
        }
        let has_unknown = || wait.lock.record().is_none_or(|record| record.has_unknown());
        let is_open = !waits || is_crowd || (wait.want == Want::Permits && has_unknown());
        (waits || !is_granted(&wait)).then_some(Edge { wait, blockers, is_open })
    }

    /// Leaves only the tasks that are stuck. Each is looked at again only when one that it waits for is not.
    fn reduce(&mut self) {
        let mut waiting_for: HashMap<u64, Vec<u64>> = HashMap::new();
        for (task, edges) in &self.tasks {
            for blocker in edges.iter().flat_map(|edge| &edge.blockers) {
                waiting_for.entry(blocker.task()).or_default().push(*task);
            }
        }
        let mut left: Vec<u64> = self.tasks.keys().copied().collect();
        while let Some(task) = left.pop() {
            let Some(edges) = self.tasks.get(&task) else { continue };
            let is_stuck = !edges.is_empty()
                && edges
                    .iter()
                    .all(|edge| edge.blocked_by(|other| self.tasks.contains_key(&other)).is_some());
            if !is_stuck {
                self.tasks.remove(&task);
                left.extend(waiting_for.remove(&task).into_iter().flatten());
            }
        }
    }

    /// What the task waits for, if it is stuck.
    fn next(&self, task: u64) -> Option<Link> {
        let edge = self.tasks.get(&task)?.first()?;
        let blocker = edge.blocked_by(|other| self.tasks.contains_key(&other))?;
        Some(Link { wait: edge.wait, blocker })
    }

    /// The cycle that a stuck task is in, or leads to.
    fn cycle(&self, task: u64) -> Option<Cycle> {
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
            let link = self.next(at)?;
            at = link.blocker.task();
            links.push(link);
        }
    }
}

/// The tasks that were stuck when it was made, of those that were asked for and all that they wait for.
pub(super) struct Stuck(Graph);

impl Stuck {
    pub(super) fn among(tasks: impl IntoIterator<Item = u64>, limit: usize) -> Self {
        let mut graph = Graph::collect(tasks, limit);
        graph.reduce();
        Self(graph)
    }

    /// The cycle that this task waits in, or for.
    pub(super) fn cycle_of(&self, task: u64) -> Option<Cycle> {
        self.0.cycle(task)
    }
}

/// The cycle that this task waits in, or for.
pub(super) fn cycle_of(task: u64) -> Option<Cycle> {
    Stuck::among([task], COLLECTED).cycle_of(task)
}

/// Every cycle of now, each once.
pub(super) fn cycles() -> Vec<Cycle> {
    let mut tasks = Vec::new();
    waits::each_but_time(|wait| tasks.push(wait.task));
    let graph = Stuck::among(tasks, usize::MAX);
    let mut stuck: Vec<u64> = graph.0.tasks.keys().copied().collect();
    stuck.sort_unstable();
    let mut seen = HashSet::new();
    let mut cycles = Vec::new();
    for task in stuck {
        if let Some(cycle) = graph.cycle_of(task) {
            if seen.insert(cycle.signature()) {
                cycles.push(cycle);
            }
        }
    }
    cycles
}

/// Does the task wait for several locks, or several times for one, without a limit?
pub(super) fn has_several_waits(task: u64) -> bool {
    let mut count = 0;
    waits::each_of(task, |wait| count += usize::from(wait.is_unlimited_lock()));
    count > 1
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
