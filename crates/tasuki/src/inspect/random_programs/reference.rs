//! The reference model of a random program: every lock with its holders and its queue, and which tasks can go on.
//!
//! The reference detector ([`Reference::stuck`]) does not know the definition of `graph.rs`. It plays the program on: every task that does not wait releases what it holds and cancels
//! its waits, every limit is reached, the queues grant by the rules of the primitives, and each task that is granted something does the same. The tasks that are left are stuck.

use std::collections::VecDeque;
use std::vec::Vec;

pub(super) const TASKS: usize = 5;
/// Code without an identity: it never waits, and never is stuck.
pub(super) const STRANGER: usize = TASKS;
pub(super) const PERMITS: usize = 4;

/// How a lock is wanted, or held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Alone,
    Read,
    Upgradable,
    /// Wanted only.
    Upgrade,
    Permits(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelLockKind {
    Mutex,
    RwLock,
    Semaphore,
    Reentrant,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ModelHolder {
    pub(super) number: usize,
    pub(super) task: usize,
    pub(super) mode: Mode,
    pub(super) is_claimed: bool,
    /// One of several holders that was taken without an identity is only counted, whatever becomes of it.
    pub(super) is_counted: bool,
}

impl ModelHolder {
    /// The task uses the guard: it has it from then on.
    pub(super) fn used_by(&mut self, task: usize) {
        if !self.is_counted {
            self.task = task;
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    pub(super) number: usize,
    pub(super) task: usize,
    pub(super) mode: Mode,
    pub(super) is_limited: bool,
}

#[derive(Clone, Debug)]
pub(super) struct ModelLock {
    pub(super) kind: ModelLockKind,
    pub(super) holders: Vec<ModelHolder>,
    pub(super) queue: VecDeque<Queued>,
    /// Free permits.
    pub(super) free: usize,
    /// Of a re-entrant mutex: which task may lock it again, and the numbers of its guards.
    pub(super) owner: Option<usize>,
    pub(super) guards: Vec<usize>,
}

impl ModelLock {
    pub(super) fn new(kind: ModelLockKind) -> Self {
        let (holders, queue) = (Vec::new(), VecDeque::new());
        Self { kind, holders, queue, free: PERMITS, owner: None, guards: Vec::new() }
    }

    fn stops_readers(mode: Mode) -> bool {
        matches!(mode, Mode::Alone | Mode::Upgrade)
    }

    fn admits(&self, mode: Mode) -> bool {
        let no = |excluded: &[Mode]| self.holders.iter().all(|hold| !excluded.contains(&hold.mode));
        match mode {
            Mode::Alone => self.holders.is_empty(),
            Mode::Read => no(&[Mode::Alone]),
            Mode::Upgradable => no(&[Mode::Alone, Mode::Upgradable]),
            Mode::Upgrade => no(&[Mode::Alone, Mode::Read]),
            Mode::Permits(permits) => permits <= self.free,
        }
    }

    /// A newcomer passes no waiter, but for a reader that no writer waits before; and an upgrade passes all.
    pub(super) fn admits_newcomer(&self, mode: Mode) -> bool {
        let passes = match mode {
            Mode::Read => self.queue.iter().all(|queued| !Self::stops_readers(queued.mode)),
            Mode::Upgrade => true,
            _ => self.queue.is_empty(),
        };
        passes && self.admits(mode)
    }

    pub(super) fn enqueue(&mut self, wait: Queued) {
        let last = |is: fn(Mode) -> bool| self.queue.iter().rposition(|queued| is(queued.mode));
        let place = match wait.mode {
            Mode::Upgrade => 0,
            // Before the upgradable readers that are last.
            Mode::Read => last(|mode| mode != Mode::Upgradable).map_or(0, |last| last + 1),
            _ => self.queue.len(),
        };
        self.queue.insert(place, wait);
    }

    pub(super) fn enter(&mut self, number: usize, task: usize, mode: Mode, is_claimed: bool) {
        if mode == Mode::Upgrade {
            let own = self.holders.iter_mut().find(|hold| hold.mode == Mode::Upgradable);
            let own = own.expect("an upgrade has an upgradable read");
            (own.number, own.mode, own.is_claimed) = (number, Mode::Alone, is_claimed);
            own.used_by(task);
            return;
        }
        if let Mode::Permits(permits) = mode {
            self.free -= permits;
        }
        let is_counted = task == STRANGER && self.kind == ModelLockKind::RwLock;
        self.holders.push(ModelHolder { number, task, mode, is_claimed, is_counted });
    }

    /// Grants from the front; the tasks whose waits were granted.
    pub(super) fn grant(&mut self) -> Vec<usize> {
        let mut tasks = Vec::new();
        while let Some(first) = self.queue.front().copied().filter(|first| self.admits(first.mode)) {
            self.queue.pop_front();
            self.enter(first.number, first.task, first.mode, false);
            tasks.push(first.task);
        }
        tasks
    }

    /// The readers of a segment that becomes one with the segment before it go before its upgradable readers.
    fn sort_segments(&mut self) {
        let waits: Vec<Queued> = self.queue.drain(..).collect();
        for segment in waits.chunk_by(|a, b| !Self::stops_readers(a.mode) && !Self::stops_readers(b.mode)) {
            let (readers, others): (Vec<Queued>, Vec<Queued>) =
                segment.iter().copied().partition(|wait| wait.mode == Mode::Read);
            self.queue.extend(readers.into_iter().chain(others));
        }
    }

    fn remove_queued(&mut self, leaves: impl Fn(&Queued) -> bool) {
        self.queue.retain(|queued| !leaves(queued));
        self.sort_segments();
    }

    fn remove_holders(&mut self, leaves: impl Fn(&ModelHolder) -> bool) {
        for hold in self.holders.iter().filter(|hold| leaves(hold)) {
            if let Mode::Permits(permits) = hold.mode {
                self.free += permits;
            }
        }
        self.holders.retain(|hold| !leaves(hold));
    }

    pub(super) fn release(&mut self, number: usize) {
        if self.owner.is_some() {
            self.guards.retain(|guard| *guard != number);
            if !self.guards.is_empty() {
                return;
            }
            self.owner = None;
            self.holders.clear();
        }
        self.remove_holders(|hold| hold.number == number);
        self.grant();
    }

    /// A wait is dropped, in whatever state it is.
    pub(super) fn cancel(&mut self, number: usize) {
        self.remove_queued(|queued| queued.number == number);
        self.remove_holders(|hold| hold.number == number);
        self.grant();
    }

    pub(super) fn hold(&mut self, number: usize) -> Option<&mut ModelHolder> {
        self.holders.iter_mut().find(|hold| hold.number == number)
    }

    /// Does its next poll end this wait, though it has not been granted? The owner of a re-entrant mutex may lock it again.
    fn is_shared(&self, wait: &Queued) -> bool {
        self.owner == Some(wait.task)
    }
}

/// A set of tasks.
pub(super) type Tasks = u32;

pub(super) fn has(tasks: Tasks, task: usize) -> bool {
    tasks >> task & 1 == 1
}

#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub(super) locks: Vec<ModelLock>,
    /// Tasks that wait for something that comes by itself, or from any task: a signal, a sleep, a limit. How many such waits each has.
    pub(super) others: [usize; TASKS],
}

impl Reference {
    /// The tasks that never go on. With permits: a task that waits for them is stuck if no other gives its own back; without: any task may release some.
    pub(super) fn stuck(&self, with_permits: bool) -> Tasks {
        let mut reference = self.clone();
        let mut free: Tasks = 1 << STRANGER;
        for task in 0..TASKS {
            let waits =
                |lock: &ModelLock| lock.queue.iter().any(|wait| wait.task == task && !lock.is_shared(wait));
            if self.others[task] > 0 || !self.locks.iter().any(waits) {
                free |= 1 << task;
            }
        }
        for lock in &mut reference.locks {
            // It is none: its future ends when it is polled.
            let owner = lock.owner;
            lock.remove_queued(|wait| owner == Some(wait.task));
        }
        loop {
            let before = free;
            for lock in &mut reference.locks {
                lock.remove_queued(|wait| wait.is_limited || has(free, wait.task));
                lock.remove_holders(|hold| has(free, hold.task));
                if lock.kind == ModelLockKind::Semaphore && !with_permits {
                    free |= lock.queue.iter().fold(0, |tasks, wait| tasks | 1 << wait.task);
                }
                free |= lock.grant().iter().fold(0, |tasks, task| tasks | 1 << task);
            }
            if free == before {
                return !free & ((1 << TASKS) - 1);
            }
        }
    }

    /// For which tasks of this set each task of it waits: those that hold what it waits for, and the writers before it.
    fn edges(&self, stuck: Tasks) -> [Tasks; TASKS] {
        let mut edges = [0; TASKS];
        for lock in &self.locks {
            for (place, wait) in lock.queue.iter().enumerate() {
                if !has(stuck, wait.task) || lock.is_shared(wait) {
                    continue;
                }
                let mut alone = ModelLock { holders: Vec::new(), free: 0, ..ModelLock::new(lock.kind) };
                for hold in &lock.holders {
                    let is_own = wait.mode == Mode::Upgrade && hold.mode == Mode::Upgradable;
                    alone.holders = std::vec![*hold];
                    edges[wait.task] |= u32::from(!is_own && !alone.admits(wait.mode)) << hold.task;
                }
                if matches!(wait.mode, Mode::Read | Mode::Upgradable) {
                    let before = lock.queue.iter().take(place);
                    let writers =
                        before.filter(|other| ModelLock::stops_readers(other.mode) && !other.is_limited);
                    edges[wait.task] |= writers.fold(0, |tasks, writer| tasks | 1 << writer.task);
                }
            }
        }
        edges.map(|tasks| tasks & stuck)
    }

    /// The sets of tasks of these that wait for each other: each task of a set for all of it, over others.
    pub(super) fn components(&self, stuck: Tasks) -> Vec<Tasks> {
        let mut reach = self.edges(stuck);
        for over in 0..TASKS {
            for task in 0..TASKS {
                if has(reach[task], over) {
                    reach[task] |= reach[over];
                }
            }
        }
        let in_cycle = |task: &usize| has(reach[*task], *task);
        let component = |task: usize| {
            (0..TASKS).filter(move |other| has(reach[task], *other) && has(reach[*other], task))
        };
        let mut components: Vec<Tasks> = (0..TASKS)
            .filter(in_cycle)
            .map(|task| component(task).fold(0, |tasks, other| tasks | 1 << other))
            .collect();
        components.sort_unstable();
        components.dedup();
        components
    }
}
