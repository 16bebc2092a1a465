//! The wait-for graph: from a task to what it waits for, from a lock to the tasks that hold it, and which tasks cannot go on.
//!
//! A task is *stuck* if every one of its waits is blocked: the one that ends first would let it go on. A wait is blocked
//!
//! | by | if |
//! |---|---|
//! | a lock | any one of the holders that keep it out is stuck, for it needs them all to release; or a queued writer before it is |
//! | a semaphore | more permits are wanted than are free, all holders are stuck and each of them is known, for any of them may release enough |
//! | a signal, a time, or a limit that has not come | never: it may come |
//!
//! These waits do not count, and keep no task out of a cycle:
//!
//! * A wait that only the next poll of its future can end ([`WaitView::is_idle`]): what it is for has come, or its grant was revoked. Its task has been woken for that poll, and has not made it.
//! * A wait that was granted. Its task is a holder then, whether its future has been polled since or not. So a task that does not poll the future that was granted, and waits for the same lock by another, waits for itself.
//! * A wait for a re-entrant mutex that its own task owns: the next poll ends it.
//!
//! A limit that has been reached does not count either: its wait is still in the queue, as one without a limit. Strict mode judges in the middle of a poll ([`Judged::InPoll`]), which may still come to such a wait or limit: there
//! it keeps its task out of a cycle.
//!
//! The stuck tasks are the largest set for which the table holds.
//!
//! Any task may release permits. So the tasks that would be stuck if every wait for permits ended are *certain*, the others *suspected* ([`Stuck`]): a task of a cycle of locks that waits
//! for permits beside, by another future, is only suspected.
//!
//! A look begins with the tasks that hold what others wait for ([`holders_waited_for`]): a crowd that waits for one lock is not looked at.
//!
//! The graph has two kinds of nodes, tasks and locks, so a crowd of waits behind a crowd of holders is as many edges as there are members, not as many as there are pairs.
//! [`Graph::reduce`] removes the tasks that go on: a lock keeps the number of its holders that are left, and its waits are looked at again only
//! when a number has fallen to where it decides.

use super::components::Components;
use super::locks::{Held, HolderView, LockId};
use super::report::LockKind;
use super::waits::{self, WaitView, Want};
use crate::probe::LockMode;
use std::collections::{HashMap, HashSet, VecDeque};
use std::vec::Vec;

/// The task of a wait whose future was last polled by code that is not known.
const NO_TASK: u64 = 0;

/// What keeps a wait from ending.
#[derive(Clone, Copy, Debug)]
pub(super) enum Blocker {
    /// It holds the lock.
    Holder(HolderView),
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

    /// Differs from that of every other holder, and of the same one at another time, or before it has claimed the lock.
    fn turn(&self) -> [u64; 2] {
        match self {
            Self::Holder(holder) => {
                let turn = u64::from(holder.turn) << 1 | u64::from(holder.is_claimed);
                [turn, holder.held.address() as u64]
            }
            Self::Writer(wait) => [wait.id, 0],
        }
    }
}

/// One task of a cycle, what it waits for, and what it waits for there.
#[derive(Clone, Copy, Debug)]
pub(super) struct CycleLink {
    pub(super) wait: WaitView,
    pub(super) blocker: Blocker,
}

/// So many words of a signature are those of one link.
const SIGNED: usize = 5;

/// Tasks each of which waits for the next, and the last for the first; the one with the smallest number is the first.
#[derive(Clone, Debug)]
pub(super) struct Cycle {
    pub(super) links: Vec<CycleLink>,
    /// No task of it goes on, whatever permits are released.
    pub(super) is_certain: bool,
}

impl Cycle {
    /// A task that waits for permits that it took itself. Permits are often taken by one task and passed to others, which cannot be seen.
    pub(super) fn is_own_permits(&self) -> bool {
        matches!(&self.links[..], [CycleLink { wait, blocker: Blocker::Holder(holder) }]
            if wait.want == Want::Permits && holder.is_claimed)
    }

    /// Does one of its tasks wait for a permit that may have been sent to another task than the one that took it? Asked of cycles within one semaphore: one with another lock besides is suspected all the same (decision 27).
    pub(super) fn has_owned_permits(&self) -> bool {
        let is_owned = |holder: &HolderView| holder.mode == LockMode::OwnedPermits && holder.is_claimed;
        self.links.iter().any(|link| matches!(&link.blocker, Blocker::Holder(holder) if is_owned(holder)))
    }

    /// Do all waits of the cycle with this signature still go on?
    pub(super) fn has_waits(signature: &[u64]) -> bool {
        signature.chunks_exact(SIGNED).map(|link| &link[0]).all(|wait| waits::is_published(*wait))
    }

    /// Is the task one of the cycle, and does not only wait for it?
    pub(super) fn has(&self, task: u64) -> bool {
        self.links.iter().any(|link| link.wait.task == task)
    }

    /// The same for the same cycle, and no other: if it is found again, nothing in it has changed. Its tasks are in it: a future that another task polls is the same wait, and that task's.
    pub(super) fn signature(&self) -> Vec<u64> {
        let signed = |link: &CycleLink| -> [u64; SIGNED] {
            let [turn, holder] = link.blocker.turn();
            [link.wait.id, link.wait.task, link.wait.lock.number(), turn, holder]
        };
        self.links.iter().flat_map(signed).collect()
    }
}

/// Must a wait for this be kept out by a holder of this mode?
fn keeps_out(want: Want, mode: LockMode) -> bool {
    match want {
        Want::Signal | Want::Time | Want::Nothing => false,
        Want::Exclusive | Want::Upgrade => true,
        Want::Read => mode == LockMode::Exclusive,
        Want::Upgradable => matches!(mode, LockMode::Exclusive | LockMode::Upgradable),
        Want::Permits => mode.is_permits(),
    }
}

fn is_behind_writers(want: Want) -> bool {
    matches!(want, Want::Read | Want::Upgradable)
}

/// Is the first, a queued writer, granted before the second? An upgrade goes before all others.
fn is_before(writer: &WaitView, wait: &WaitView) -> bool {
    writer.want == Want::Upgrade || writer.order < wait.order
}

/// What keeps waits from ending, of many waits: each lock is read once, and of its holders no more are looked at for a wait than are shown.
#[derive(Default)]
pub(super) struct Blockers {
    locks: HashMap<LockId, LockNode>,
    /// The first holders, of those that are known, that keep a wait for this out, one more than are shown: that of an upgrade does not count.
    holders: HashMap<(LockId, Want), Vec<HolderView>>,
}

impl Blockers {
    /// The first `shown` of everything that keeps a wait from ending, as far as it is known; a limit ends it all the same. `shown` is the same in all calls.
    pub(super) fn of(&mut self, wait: &WaitView, shown: usize) -> impl Iterator<Item = Blocker> {
        let node = self.locks.entry(wait.lock).or_insert_with(|| LockNode::of(wait.lock));
        node.find_writers(wait);
        let holders = self.holders.entry((wait.lock, wait.want)).or_insert_with(|| {
            let keeps_out = |holder: &&HolderView| {
                #[cfg(all(test, not(miri)))]
                super::tests::count_work(1);
                holder.task != NO_TASK && keeps_out(wait.want, holder.mode)
            };
            node.holders.iter().filter(keeps_out).take(shown + 1).copied().collect()
        });
        let holders = holders.iter().filter(|holder| LockNode::is_blocker(holder, wait)).copied();
        let writers = node.writers_before(wait).iter().copied();
        holders.map(Blocker::Holder).chain(writers.map(Blocker::Writer)).take(shown)
    }
}

/// A lock of the collected graph.
#[derive(Default)]
pub(super) struct LockNode {
    holders: Vec<HolderView>,
    /// The queued waits without a limit that keep readers out, in the order in which they are granted. Empty until a wait that is behind them is noted.
    writers: Vec<WaitView>,
    has_writers: bool,
    /// The waits that were granted, and whose futures have not seen it.
    granted: HashSet<u64>,
    is_reentrant: bool,
    /// Code that is not known holds permits.
    has_unknown: bool,
    /// How many permits are free.
    free: u32,
    /// Of the holders, how many are left: all; those that keep an upgradable read out; those that keep readers out.
    left: [usize; 3],
    /// How many of the writers in front have been removed.
    front: usize,
    /// The tasks that wait for it.
    waiters: Vec<u64>,
}

/// The classes of holders by what they keep out, in the order of [`LockNode::left`].
pub(super) const CLASSES: [Want; 3] = [Want::Exclusive, Want::Upgradable, Want::Read];

impl LockNode {
    fn of(lock: LockId) -> Self {
        let mut node = Self::default();
        let Some(record) = lock.record() else { return node };
        let unknown = record.each_holder(|holder| {
            node.granted.extend((holder.wait != 0).then_some(holder.wait));
            node.holders.push(holder);
        });
        node.is_reentrant = record.label().kind == LockKind::ReentrantMutex;
        node.has_unknown = unknown > 0;
        node.free = record.holders.free_permits();
        // Dropped meanwhile, it is held by none, and its record may be another lock's.
        if lock.is_current() { node } else { Self::default() }
    }

    /// Finds the writers, for a wait that is behind them. True the first time.
    fn find_writers(&mut self, wait: &WaitView) -> bool {
        if self.has_writers || !is_behind_writers(wait.want) {
            return false;
        }
        self.has_writers = true;
        waits::each_writer(wait.lock, |writer| {
            self.writers.extend((!writer.ends_by_limit).then_some(writer))
        });
        self.writers.retain(|writer| !self.granted.contains(&writer.id));
        self.writers.sort_unstable_by_key(|writer| (writer.want != Want::Upgrade, writer.order, writer.id));
        true
    }

    /// Does the next poll of its future end this wait? It was granted; or its task owns a mutex that it may lock again.
    fn is_over(&self, wait: &WaitView) -> bool {
        let is_own = |holder: &HolderView| holder.task == wait.task && holder.is_claimed;
        self.granted.contains(&wait.id) || self.is_reentrant && self.holders.iter().any(is_own)
    }

    /// Everything that keeps this wait out.
    pub(super) fn blockers(&self, wait: &WaitView) -> impl Iterator<Item = Blocker> {
        let holders = self.holders.iter().filter(|holder| Self::is_blocker(holder, wait)).copied();
        holders.map(Blocker::Holder).chain(self.writers_before(wait).iter().copied().map(Blocker::Writer))
    }

    /// The writers that this wait is behind.
    pub(super) fn writers_before(&self, wait: &WaitView) -> &[WaitView] {
        if !is_behind_writers(wait.want) {
            return &[];
        }
        let count = self.writers.partition_point(|writer| is_before(writer, wait));
        &self.writers[..count]
    }

    /// The tasks that hold permits which borrow the semaphore.
    pub(super) fn borrowers(&self) -> impl Iterator<Item = u64> {
        self.holders.iter().filter(|holder| holder.mode == LockMode::Permits).map(|holder| holder.task)
    }

    /// The tasks of the holders that keep a wait for this out.
    pub(super) fn kept_out(&self, want: Want) -> impl Iterator<Item = u64> {
        self.holders.iter().filter(move |holder| keeps_out(want, holder.mode)).map(|holder| holder.task)
    }

    pub(super) fn writer(&self, place: usize) -> &WaitView {
        &self.writers[place]
    }

    fn is_blocker(holder: &HolderView, wait: &WaitView) -> bool {
        let is_own = wait.want == Want::Upgrade && wait.own != Held::NONE && holder.held == wait.own;
        !is_own && keeps_out(wait.want, holder.mode)
    }

    /// Is the wait of a task that is left kept out by one that is left, too?
    fn blocks(&self, wait: &WaitView, is_left: impl Fn(u64) -> bool) -> bool {
        let [all, upgradable, alone] = self.left;
        let is_behind = || self.front < self.writers_before(wait).len();
        match wait.want {
            Want::Signal | Want::Time | Want::Nothing => false,
            Want::Exclusive => all > 0,
            // Its own hold does not count; there is one upgrade at a time.
            Want::Upgrade => self.blockers(wait).any(|blocker| is_left(blocker.task())),
            Want::Read => alone > 0 || is_behind(),
            Want::Upgradable => upgradable > 0 || is_behind(),
            // If enough are free, it is behind others, which may be gone by themselves.
            Want::Permits => {
                let is_short = wait.permits > self.free;
                is_short && !self.has_unknown && all > 0 && all == self.holders.len()
            }
        }
    }

    /// Counts the holders of tasks that are left.
    fn count(&mut self, is_left: impl Fn(u64) -> bool) {
        let left: Vec<&HolderView> = self.holders.iter().filter(|holder| is_left(holder.task)).collect();
        self.left = CLASSES.map(|class| left.iter().filter(|holder| keeps_out(class, holder.mode)).count());
        self.front = 0;
        self.skip_writers(is_left);
    }

    fn skip_writers(&mut self, is_left: impl Fn(u64) -> bool) {
        while self.writers.get(self.front).is_some_and(|writer| !is_left(writer.task)) {
            self.front += 1;
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
        self.skip_writers(is_left);
        // One is left: it may be the upgrade's own. None: no waiter is blocked. And the first that is gone decides for a semaphore.
        let decides = |(now, before): (&usize, &usize)| now != before && *now <= 1;
        let is_first = before.0[0] == self.holders.len() && self.left[0] < before.0[0];
        self.left.iter().zip(&before.0).any(decides) || self.front != before.1 || is_first
    }
}

/// When the tasks are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judged {
    /// By a look, which finds the same again after a second: what a task has not polled by then, it does not poll.
    ByLook,
    /// By a poll of one of them, before it ends.
    InPoll,
}

/// A part of the graph: tasks that wait with their waits, and the locks.
#[derive(Default)]
pub(super) struct Graph {
    pub(super) tasks: HashMap<u64, Vec<WaitView>>,
    pub(super) locks: HashMap<LockId, LockNode>,
}

impl Graph {
    /// All that can be reached from these tasks.
    fn collect(start: impl IntoIterator<Item = u64>, judged: Judged) -> Self {
        let mut graph = Self::default();
        let mut left: Vec<u64> = start.into_iter().collect();
        while let Some(task) = left.pop() {
            if graph.tasks.contains_key(&task) {
                continue;
            }
            let mut waits = Vec::new();
            // A task that sleeps, too, is not stuck, whatever else it waits for; nor is what is not known.
            if task != NO_TASK && !waits::sleeps(task) {
                waits::each_of(task, |wait| waits.push(wait));
            }
            if judged == Judged::ByLook {
                waits.retain(|wait| !wait.is_idle());
            } else if waits.iter().any(WaitView::may_end_in_poll) {
                waits.clear();
            }
            if waits.iter().any(|wait| !wait.is_unlimited_lock()) {
                waits.clear();
            }
            waits.retain(|wait| graph.wait(wait, &mut left));
            graph.tasks.insert(task, waits);
        }
        graph
    }

    /// Notes a wait for a lock, and the tasks that keep it out; false if it ends with the next poll of its future.
    fn wait(&mut self, wait: &WaitView, left: &mut Vec<u64>) -> bool {
        let node = self.locks.entry(wait.lock).or_insert_with(|| {
            let node = LockNode::of(wait.lock);
            left.extend(node.holders.iter().map(|holder| holder.task));
            node
        });
        if node.find_writers(wait) {
            left.extend(node.writers.iter().map(|writer| writer.task));
        }
        let waits = !node.is_over(wait);
        if waits {
            node.waiters.push(wait.task);
        }
        waits
    }

    /// Leaves only the tasks that are stuck; where any task may release permits, only those that are stuck without them.
    fn reduce(&mut self, permits_block: bool) {
        let mut has: HashMap<u64, Vec<LockId>> = HashMap::new();
        for (id, node) in &mut self.locks {
            node.count(|task| self.tasks.contains_key(&task));
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
            let is_blocked = |wait: &WaitView| {
                (permits_block || wait.want != Want::Permits) && self.locks[&wait.lock].blocks(wait, is_left)
            };
            if !waits.is_empty() && waits.iter().all(is_blocked) {
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
}

/// The tasks that were stuck when it was made, of those that were asked for and all that they wait for: by locks that have holders, and the others, by permits that any task may release.
struct Stuck {
    graph: Graph,
    certain: Vec<u64>,
    suspected: Vec<u64>,
}

impl Stuck {
    fn among(tasks: impl IntoIterator<Item = u64>, judged: Judged) -> Self {
        let mut graph = Graph::collect(tasks, judged);
        graph.reduce(true);
        let stuck = graph.tasks.clone();
        graph.reduce(false);
        let (mut certain, mut suspected): (Vec<u64>, Vec<u64>) =
            stuck.keys().partition(|task| graph.tasks.contains_key(task));
        certain.sort_unstable();
        suspected.sort_unstable();
        graph.tasks = stuck;
        Self { graph, certain, suspected }
    }

    fn components(&self, is_certain: bool) -> Components<'_> {
        Components::new(&self.graph, if is_certain { &self.certain } else { &self.suspected }, is_certain)
    }
}

/// The cycle that this task waits in, or for.
#[cfg(test)]
pub(super) fn cycle_of(task: u64) -> Option<Cycle> {
    judged_cycle_of(task, Judged::ByLook)
}

fn judged_cycle_of(task: u64, judged: Judged) -> Option<Cycle> {
    let stuck = Stuck::among([task], judged);
    // A task that is suspected may wait for a cycle that is certain.
    stuck.components(true).cycle_of(task).or_else(|| {
        let suspected = stuck.components(false).cycle_of(task);
        suspected.or_else(|| {
            stuck.suspected.contains(&task).then(|| stuck.components(true).cycles().pop()).flatten()
        })
    })
}

/// One cycle of every set of tasks that wait for each other, among these tasks and what they wait for.
pub(super) fn cycles_of(tasks: impl IntoIterator<Item = u64>) -> Vec<Cycle> {
    let stuck = Stuck::among(tasks, Judged::ByLook);
    let mut cycles = stuck.components(true).cycles();
    cycles.extend(stuck.components(false).cycles());
    cycles
}

/// The tasks that hold a lock for which another has waited without a limit, since this time or before: one of every cycle is among them. A crowd of waits for one lock is one holder.
pub(super) fn holders_waited_for(before: u64) -> Vec<u64> {
    let mut locks = Vec::new();
    waits::each_candidate(before, |lock| locks.push(lock));
    locks.sort_unstable();
    locks.dedup();
    let mut tasks = Vec::new();
    for record in locks.into_iter().filter_map(LockId::record) {
        record.each_holder(|holder| tasks.push(holder.task));
    }
    tasks.sort_unstable();
    tasks.dedup();
    tasks
}

/// How many tasks a look that begins with these looks at.
#[cfg(test)]
pub(super) fn reached(tasks: Vec<u64>) -> usize {
    Graph::collect(tasks, Judged::ByLook).tasks.len()
}

/// Every cycle of now, each once.
pub(super) fn cycles() -> Vec<Cycle> {
    let found = cycles_of(holders_waited_for(u64::MAX));
    if found.is_empty() { found } else { confirmed(found) }
}

/// The cycle of now that this task, a poll of which runs, is in.
pub(super) fn cycle_with(task: u64) -> Option<Cycle> {
    let look = || judged_cycle_of(task, Judged::InPoll).filter(|cycle| cycle.has(task));
    // As in `confirmed`; by the same look, for of several cycles it finds that of this task.
    let found = look()?;
    look().filter(|again| again.signature() == found.signature())
}

/// Of these cycles, those that are found again. A look is not of one moment: it may have read that a lock is held before it was released, and that its holder waits after that. No two waits and no two holds are the same: what is the same in
/// both looks was so between the first and the second, all of it at once.
pub(super) fn confirmed(mut found: Vec<Cycle>) -> Vec<Cycle> {
    // No fence: a look acquires what it reads, so the second one sees all that a task had done before the wait or the hold that the first has read of it.
    let tasks = found.iter().flat_map(|cycle| cycle.links.iter().map(|link| link.wait.task));
    let again: HashSet<Vec<u64>> = cycles_of(tasks).iter().map(Cycle::signature).collect();
    found.retain(|cycle| again.contains(&cycle.signature()));
    found
}
