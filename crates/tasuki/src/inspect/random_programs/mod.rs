//! The graph and the watcher against a second detector, on random programs of a few tasks and locks.
//!
//! A program is driven by hand, step by step and by a seed. Guards are used by other tasks and by code without an identity, sent through a channel, dropped by other tasks, and forgotten; they are
//! upgraded and downgraded, permits are split and merged; waits are limited, polled by other tasks, and dropped in every state; tasks wait by several futures, some of which they do not poll, and for signals
//! and times; limits are reached; and some of their waits only a poll would end ([`idle`]). After each step the graph is compared with the reference model ([`reference`]):
//!
//! * the tasks that are stuck by locks that have holders are the same, and every set of tasks that wait for each other has one report: there is no miss;
//! * every task of a report is stuck, and every line of it is true: there is no false one. Where permits are in the cycle, that is all that is asked for: a suspicion may be missed.
//!
//! And the watcher tells of a cycle only when its tasks have been stuck for a second, and of every one that stays.

mod compare;
mod guards;
mod idle;
mod reference;

use super::tests::Actor;
use crate::{CancellationSource, Event};
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::Poll;
use guards::{Acquire, AnyGuard, Limit, RealLock};
use reference::{Mode, ModelHolder, ModelLock, ModelLockKind, Queued, Reference, STRANGER, TASKS};
use std::boxed::Box;
use std::format;
use std::string::String;
use std::time::Duration;
use std::vec::Vec;

const KINDS: [ModelLockKind; 6] = [
    ModelLockKind::Mutex,
    ModelLockKind::Mutex,
    ModelLockKind::RwLock,
    ModelLockKind::RwLock,
    ModelLockKind::Semaphore,
    ModelLockKind::Reentrant,
];

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

/// A wait of a task.
struct Waiting {
    number: usize,
    task: usize,
    lock: usize,
    /// A limit ends it, that has not been reached.
    is_limited: bool,
    /// Reaches its limit, if that is a token.
    source: Option<CancellationSource>,
    future: Acquire,
}

/// Something held, and where the program keeps it.
struct Kept {
    number: usize,
    lock: usize,
    guard: AnyGuard,
}

/// A wait for a signal or a time.
type Other = (usize, Pin<Box<dyn Future<Output = ()>>>);

/// A random program.
struct Program {
    /// The tasks are known by their wakers only.
    is_guessed: bool,
    actors: Vec<Actor>,
    locks: Vec<RealLock>,
    reference: Reference,
    waiting: Vec<Waiting>,
    kept: Vec<Kept>,
    others: Vec<Other>,
    idle: Vec<idle::Idle>,
    event: Arc<Event>,
    next: usize,
    reported: Vec<String>,
}

impl Program {
    fn new(seed: u64, is_guessed: bool) -> Self {
        let actor = || if is_guessed { Actor::guessed() } else { Actor::new() };
        let actors: Vec<Actor> = (0..TASKS).map(|_| actor()).collect();
        let locks = KINDS.map(RealLock::new);
        // A lock has a record from its first use by a task: what was taken before is not followed.
        let read = |kind| if kind == ModelLockKind::Semaphore { Mode::Permits(1) } else { Mode::Alone };
        for (lock, kind) in locks.iter().zip(KINDS).take(Self::kinds(is_guessed)) {
            drop(actors[0].poll(lock.acquire(read(kind), Limit::None).as_mut()));
        }
        Self {
            is_guessed,
            actors,
            locks: locks.into(),
            reference: Reference { locks: KINDS.map(ModelLock::new).into(), others: [0; TASKS] },
            waiting: Vec::new(),
            kept: Vec::new(),
            others: Vec::new(),
            idle: Vec::new(),
            event: Arc::new(Event::auto()),
            next: 0,
            reported: std::vec![format!("seed {seed}")],
        }
    }

    /// How many locks it uses: only a task with an identity can lock the last kind.
    fn kinds(is_guessed: bool) -> usize {
        KINDS.len() - usize::from(is_guessed)
    }

    fn any_lock(&self, rng: &mut Rng) -> usize {
        rng.below(Self::kinds(self.is_guessed))
    }

    fn note(&mut self, line: String) {
        self.reported.push(line);
    }

    fn number(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    /// Runs `f` as a task, or without an identity.
    fn as_task<R>(&self, task: usize, f: impl FnOnce() -> R) -> R {
        if task == STRANGER { f() } else { self.actors[task].run(f) }
    }

    fn any_mode(kind: ModelLockKind, rng: &mut Rng) -> Mode {
        match kind {
            ModelLockKind::Mutex | ModelLockKind::Reentrant => Mode::Alone,
            ModelLockKind::RwLock => [Mode::Read, Mode::Alone, Mode::Upgradable][rng.below(3)],
            ModelLockKind::Semaphore => Mode::Permits(1 + rng.below(reference::PERMITS)),
        }
    }

    fn begin(&mut self, rng: &mut Rng) {
        let (task, at) = (rng.below(TASKS), self.any_lock(rng));
        let mode = Self::any_mode(KINDS[at], rng);
        let source = CancellationSource::new();
        let limit = match rng.below(16) {
            0 | 1 => Limit::Token(source.token()),
            2 => Limit::Time,
            3 => Limit::Never,
            _ => Limit::None,
        };
        let is_limited = !matches!(limit, Limit::None | Limit::Never);
        let source = matches!(limit, Limit::Token(_)).then_some(source);
        let future = self.locks[at].acquire(mode, limit);
        self.wait(task, at, mode, is_limited, future);
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.number == self.next) {
            waiting.source = source;
        }
    }

    /// The task begins to wait by this future.
    fn wait(&mut self, task: usize, at: usize, mode: Mode, is_limited: bool, future: Acquire) {
        let number = self.number();
        self.note(format!("{number}: task {task} asks for {mode:?} of lock {at}, limited: {is_limited}"));
        let lock = &mut self.reference.locks[at];
        if mode == Mode::Upgrade {
            let own = lock.holders.iter_mut().find(|hold| hold.mode == Mode::Upgradable);
            let own = own.expect("it is upgraded");
            own.number = number;
            own.used_by(task);
        }
        let enters = lock.owner == Some(task) || lock.admits_newcomer(mode);
        if lock.owner == Some(task) {
            lock.guards.push(number);
        } else if enters {
            lock.enter(number, task, mode, true);
        } else {
            lock.enqueue(Queued { number, task, mode, is_limited });
            self.reference.others[task] += usize::from(is_limited);
        }
        self.waiting.push(Waiting {
            number,
            task,
            lock: at,
            is_limited: is_limited && !enters,
            source: None,
            future,
        });
        let is_ready = self.poll_real(self.waiting.len() - 1, task);
        assert_eq!(is_ready, enters, "the reference is wrong: {:#?}", self.reported);
    }

    /// Polls a wait as this task; true if it has ended.
    fn poll_real(&mut self, at: usize, task: usize) -> bool {
        let future = self.waiting[at].future.as_mut();
        let Poll::Ready(guard) = self.actors[task].poll(future) else { return false };
        let Waiting { number, lock, task: asker, is_limited, .. } = self.waiting.swap_remove(at);
        self.reference.others[asker] -= usize::from(is_limited);
        let Some(guard) = guard else {
            assert!(!is_limited, "its limit is reached: {:#?}", self.reported);
            self.reference.locks[lock].cancel(number);
            return true;
        };
        self.claimed(number, lock, task);
        self.kept.push(Kept { number, lock, guard });
        true
    }

    /// What was granted is claimed by this task.
    fn claimed(&mut self, number: usize, at: usize, task: usize) {
        let lock = &mut self.reference.locks[at];
        if let Some(hold) = lock.hold(number) {
            hold.is_claimed = true;
            hold.used_by(task);
            if lock.kind == ModelLockKind::Reentrant {
                (lock.owner, lock.guards) = (Some(task), std::vec![number]);
            }
        }
    }

    /// A wait is polled, mostly by its own task.
    fn poll(&mut self, rng: &mut Rng) {
        let at = rng.below(self.waiting.len());
        let Waiting { number, task: before, lock, is_limited, .. } = self.waiting[at];
        let is_reached = self.waiting[at].source.is_some() && !is_limited;
        let task = if rng.one_in(4) { rng.below(TASKS) } else { before };
        self.note(format!("{number}: polled by task {task}"));
        let lock = &mut self.reference.locks[lock];
        let place = lock.queue.iter().position(|wait| wait.number == number);
        let is_shared = place.is_some() && lock.owner == Some(task);
        if let Some(place) = place {
            if is_shared {
                lock.queue.remove(place);
                lock.guards.push(number);
            } else {
                lock.queue[place].task = task;
                self.waiting[at].task = task;
                self.reference.others[before] -= usize::from(is_limited);
                self.reference.others[task] += usize::from(is_limited);
                // The guard of an upgrade is in its future.
                if let Some(own) = lock.hold(number) {
                    own.used_by(task);
                }
            }
        }
        let is_ready = self.poll_real(at, task);
        assert_eq!(
            is_ready,
            place.is_none() || is_shared || is_reached,
            "the reference is wrong: {:#?}",
            self.reported
        );
    }

    fn poll_any(&mut self, rng: &mut Rng) {
        if !self.waiting.is_empty() {
            self.poll(rng);
        }
    }

    fn cancel(&mut self, rng: &mut Rng) {
        let at = rng.below(self.waiting.len());
        let Waiting { number, task, lock, is_limited, future, .. } = self.waiting.swap_remove(at);
        let by = rng.below(TASKS + 1);
        self.note(format!("{number}: cancelled by task {by}"));
        self.as_task(by, || drop(future));
        self.reference.others[task] -= usize::from(is_limited);
        self.reference.locks[lock].cancel(number);
    }

    /// Takes what can be had at once, also without an identity.
    fn try_take(&mut self, rng: &mut Rng) {
        let (task, at) = (rng.below(TASKS + 1), rng.below(KINDS.len()));
        let mode = Self::any_mode(KINDS[at], rng);
        if task == STRANGER && KINDS[at] == ModelLockKind::Reentrant {
            return;
        }
        let number = self.number();
        let lock = &mut self.reference.locks[at];
        let shares = lock.owner == Some(task);
        let enters = shares || lock.admits_newcomer(mode);
        if shares {
            lock.guards.push(number);
        } else if enters {
            lock.enter(number, task, mode, true);
            self.claimed(number, at, task);
        }
        self.note(format!("{number}: task {task} tries {mode:?} of lock {at}: {enters}"));
        let guard = self.as_task(task, || self.locks[at].try_acquire(mode));
        assert_eq!(guard.is_some(), enters, "the reference is wrong: {:#?}", self.reported);
        self.kept.extend(guard.map(|guard| Kept { number, lock: at, guard }));
    }

    fn release(&mut self, rng: &mut Rng) {
        let Kept { number, lock, guard } = self.kept.swap_remove(rng.below(self.kept.len()));
        if rng.one_in(8) {
            self.note(format!("{number}: forgotten"));
            core::mem::forget(guard);
            return;
        }
        let task = rng.below(TASKS + 1);
        self.note(format!("{number}: released by task {task}"));
        self.as_task(task, || drop(guard));
        self.reference.locks[lock].release(number);
    }

    /// A guard is sent through a channel and used by another task, which has it from then on.
    fn send(&mut self, rng: &mut Rng) {
        let (at, task) = (rng.below(self.kept.len()), rng.below(TASKS + 1));
        let Kept { number, lock, guard } = self.kept.swap_remove(at);
        let (sender, receiver) = crate::channel::unbounded();
        assert!(sender.try_send(guard).is_ok());
        let Ok(mut guard) = receiver.try_recv() else { panic!("it was sent") };
        self.as_task(task, || guard.used());
        self.note(format!("{number}: used by task {task}"));
        let of = &mut self.reference.locks[lock];
        match of.kind {
            ModelLockKind::Semaphore => {}
            // Which of its guards another task has is not followed.
            ModelLockKind::Reentrant if of.owner == Some(task) => {}
            ModelLockKind::Reentrant => of.holders.iter_mut().for_each(|hold| hold.task = STRANGER),
            _ => of.hold(number).expect("it is held").used_by(task),
        }
        self.kept.push(Kept { number, lock, guard });
    }

    /// A guard becomes another, if it can.
    fn turn(&mut self, rng: &mut Rng) {
        let (at, task) = (rng.below(self.kept.len()), rng.below(TASKS));
        let Kept { number, lock, guard } = self.kept.swap_remove(at);
        let is_counted = self.reference.locks[lock].hold(number).is_some_and(|hold| hold.is_counted);
        match guard {
            AnyGuard::Upgradable(guard) if rng.one_in(2) && !is_counted => {
                let future: Acquire = guards::upgrade(guard);
                self.wait(task, lock, Mode::Upgrade, false, future);
            }
            AnyGuard::Permit(permit) => self.split(rng, task, (number, lock, permit)),
            guard => {
                let (guard, mode) = self.as_task(task, || guard.weaker());
                if let Some(mode) = mode {
                    self.note(format!("{number}: {mode:?} from now on, of task {task}"));
                    let hold = self.reference.locks[lock].hold(number).expect("it is held");
                    hold.mode = mode;
                    hold.used_by(task);
                    self.reference.locks[lock].grant();
                }
                self.kept.push(Kept { number, lock, guard });
            }
        }
    }

    /// A part of a permit becomes a permit of its own, or two become one.
    fn split(&mut self, rng: &mut Rng, task: usize, kept: (usize, usize, crate::OwnedSemaphorePermit)) {
        let (number, lock, mut permit) = kept;
        let of = &self.reference.locks[lock];
        let sibling = self.kept.iter().position(|other| matches!(other.guard, AnyGuard::Permit(_)));
        let Some(ModelHolder { task: holder, .. }) =
            of.holders.iter().find(|hold| hold.number == number).copied()
        else {
            panic!("it is held")
        };
        let whole = permit.num_permits();
        match sibling.filter(|_| rng.one_in(2)) {
            Some(at) => {
                let Kept { number: gone, guard, .. } = self.kept.swap_remove(at);
                let AnyGuard::Permit(other) = guard else { panic!("it is one") };
                self.note(format!("{number}: merged with {gone}"));
                let sum = whole + other.num_permits();
                self.as_task(task, || permit.merge(other));
                self.reference.locks[lock].holders.retain(|hold| hold.number != gone);
                self.reference.locks[lock].hold(number).expect("it is held").mode = Mode::Permits(sum);
            }
            None => {
                let (part, new) = (rng.below(whole + 1), self.number());
                self.note(format!("{number}: {part} of {whole} are {new}, of task {task}"));
                let taken = self.as_task(task, || permit.split(part)).expect("there are so many");
                let of = &mut self.reference.locks[lock];
                // What is empty is held by none.
                of.holders.retain(|hold| hold.number != number);
                let both = [(number, holder, whole - part), (new, task, part)];
                for (number, task, permits) in both.into_iter().filter(|(_, _, permits)| *permits > 0) {
                    let mode = Mode::Permits(permits);
                    of.holders.push(ModelHolder { number, task, mode, is_claimed: true, is_counted: false });
                }
                if part > 0 {
                    self.kept.push(Kept { number: new, lock, guard: AnyGuard::Permit(taken) });
                }
                if part == whole {
                    return;
                }
            }
        }
        self.kept.push(Kept { number, lock, guard: AnyGuard::Permit(permit) });
    }

    /// A wait for a signal or a time begins, or ends.
    fn other(&mut self, rng: &mut Rng) {
        if !self.others.is_empty() {
            self.note("a wait for a signal or a time ends".into());
            let (task, _) = self.others.swap_remove(rng.below(self.others.len()));
            self.reference.others[task] -= 1;
            return;
        }
        let (task, event) = (rng.below(TASKS), self.event.clone());
        self.note(format!("task {task} waits for a signal or a time"));
        let mut wait: Pin<Box<dyn Future<Output = ()>>> = if rng.one_in(2) {
            Box::pin(async move { event.wait().await })
        } else {
            Box::pin(crate::runtime::sleep(Duration::from_secs(3_600)))
        };
        assert!(self.actors[task].poll(wait.as_mut()).is_pending());
        self.others.push((task, wait));
        self.reference.others[task] += 1;
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.below(16) {
            0..6 => self.begin(rng),
            // Outside of a poll it is not known which task of these runs.
            6 | 12..15 if self.is_guessed => self.poll_any(rng),
            6 => self.try_take(rng),
            7 if rng.one_in(2) => self.reach(rng),
            7 | 8 => self.poll_any(rng),
            9 if !self.waiting.is_empty() => self.cancel(rng),
            10 | 11 if !self.kept.is_empty() => self.release(rng),
            12 | 13 if !self.kept.is_empty() => self.send(rng),
            14 if !self.kept.is_empty() => self.turn(rng),
            15 if rng.one_in(2) => self.idle(rng),
            15 => self.other(rng),
            _ => {}
        }
    }
}
