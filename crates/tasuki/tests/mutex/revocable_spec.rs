//! `Revocable`: every string of operations of two tasks with several waiters each, against a model of a few lines: what is ready, what is woken and how often, after every
//! step. A waiter may be polled by either task, and dropped in every state. Tasks are told apart by their wakers, or by identities where every waiter has wakers of its own.

use crate::kit::driver::FakeDriver;
use crate::kit::rng::Seed;
use crate::kit::scaled;
use crate::kit::spec::{self, Model, System, enumerate};
use crate::kit::tally;
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::Context;
use tasuki::future::Lock;
use tasuki::policy::{Policy, Revocable};
use tasuki::runtime::{self, TaskId};
use tasuki::{Mutex, MutexGuard};

const MAX_WAITERS: usize = 4;
const TASKS: usize = 2;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// A waiter is polled by a task. The first poll makes it.
    Poll(usize, usize),
    Drop(usize),
    Unlock,
    TryLock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Result {
    Ready,
    Pending,
    Locked,
    Refused,
    Done,
}

#[derive(Debug, PartialEq)]
struct Seen {
    result: Result,
    locked: bool,
    wakes: [u8; tally::WAKERS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Queued,
    Granted,
    Revoked,
    Done,
    Gone,
}

/// Which waker a task polls a waiter with. Not the first of the table: its data is null, which says nothing.
fn waker_of(waiter: usize, task: usize, by_identity: bool) -> usize {
    1 + if by_identity { waiter * TASKS + task } else { task }
}

/// What a mutex with grants that can be revoked is, said with a list.
#[derive(Clone)]
struct Spec {
    by_identity: bool,
    waiters: usize,
    held: bool,
    granted: Option<usize>,
    /// Which grant it is.
    grant: u32,
    queue: Vec<usize>,
    state: [State; MAX_WAITERS],
    /// Which task polled a waiter last.
    task: [usize; MAX_WAITERS],
    /// The grant that a waiter found at its last poll, if that was its sibling's, and at how many polls.
    noted: [Option<(u32, u32)>; MAX_WAITERS],
    was_revoked: [bool; MAX_WAITERS],
    /// How many acquisitions by others a waiter has seen, and how many it may see.
    seen: [usize; MAX_WAITERS],
    allowed: [usize; MAX_WAITERS],
    wakes: [u8; tally::WAKERS],
}

impl Spec {
    fn new(by_identity: bool, waiters: usize) -> Self {
        Self {
            by_identity,
            waiters,
            held: true,
            granted: None,
            grant: 0,
            queue: Vec::with_capacity(MAX_WAITERS),
            state: [State::New; MAX_WAITERS],
            task: [0; MAX_WAITERS],
            noted: [None; MAX_WAITERS],
            was_revoked: [false; MAX_WAITERS],
            seen: [0; MAX_WAITERS],
            allowed: [0; MAX_WAITERS],
            wakes: [0; tally::WAKERS],
        }
    }

    fn is_locked(&self) -> bool {
        self.held || self.granted.is_some()
    }

    fn wake(&mut self, waiter: usize) {
        self.wakes[waker_of(waiter, self.task[waiter], self.by_identity)] += 1;
    }

    fn acquired(&mut self) {
        assert!(!self.held, "two holders at a time");
        self.held = true;
        for waiter in self.queue.clone() {
            self.seen[waiter] += 1;
            assert!(self.seen[waiter] <= self.allowed[waiter], "overtaken too often");
        }
    }

    /// A newcomer, `try_lock`, or a waiter that was revoked.
    fn take(&mut self) -> bool {
        let may = !self.is_locked();
        if may {
            self.acquired();
        }
        may
    }

    /// Each waiter that is ahead, or may come back ahead, costs two acquisitions at most.
    fn enqueue(&mut self, waiter: usize, at: usize) {
        let may_come_back = self.state.iter().filter(|state| **state == State::Revoked).count();
        self.state[waiter] = State::Queued;
        self.seen[waiter] = 0;
        self.allowed[waiter] = 2 * (at + usize::from(self.granted.is_some()) + may_come_back);
        self.queue.insert(at, waiter);
    }

    fn poll(&mut self, waiter: usize, task: usize) -> Result {
        let sibling = self.granted.filter(|granted| *granted != waiter && self.task[*granted] == task);
        let ready = match self.state[waiter] {
            State::New | State::Revoked => self.take(),
            State::Granted => {
                self.granted = None;
                self.acquired();
                true
            }
            State::Queued if sibling.is_some() && self.noted[waiter] == Some((self.grant, 2)) => {
                self.granted = None;
                self.state[sibling.unwrap()] = State::Revoked;
                self.queue.retain(|other| *other != waiter);
                self.acquired();
                true
            }
            _ => false,
        };
        if ready {
            self.state[waiter] = State::Done;
            return Result::Ready;
        }
        match self.state[waiter] {
            State::New => self.enqueue(waiter, self.queue.len()),
            State::Revoked => {
                let again = self.was_revoked[waiter];
                self.was_revoked[waiter] = !again;
                self.enqueue(waiter, if again { self.queue.len() } else { 0 });
            }
            _ => {}
        }
        self.task[waiter] = task;
        let looks =
            self.noted[waiter].filter(|(grant, _)| *grant == self.grant).map_or(0, |(_, looks)| looks);
        self.noted[waiter] = sibling.map(|_| (self.grant, looks + 1));
        if sibling.is_some() {
            self.wake(waiter);
        }
        Result::Pending
    }

    fn drop_waiter(&mut self, waiter: usize) {
        match std::mem::replace(&mut self.state[waiter], State::Gone) {
            State::Granted => {
                self.granted = None;
                self.release();
            }
            State::Queued => self.queue.retain(|other| *other != waiter),
            _ => {}
        }
    }

    fn release(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        let head = self.queue.remove(0);
        self.wake(head);
        self.state[head] = State::Granted;
        self.granted = Some(head);
        self.grant += 1;
    }
}

impl System for Spec {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let result = match op {
            Op::Poll(waiter, task) => self.poll(waiter, task),
            Op::Drop(waiter) => {
                self.drop_waiter(waiter);
                Result::Done
            }
            Op::Unlock => {
                self.held = false;
                self.release();
                Result::Done
            }
            Op::TryLock if self.take() => Result::Locked,
            Op::TryLock => Result::Refused,
        };
        Seen { result, locked: self.is_locked(), wakes: self.wakes }
    }
}

impl Model for Spec {
    fn next(&self, ops: &mut Vec<Op>) {
        for waiter in 0..self.waiters {
            match self.state[waiter] {
                // Waiters are alike, and so are the tasks before the first poll.
                State::New => {
                    let tasks = if waiter == 0 { 1 } else { TASKS };
                    ops.extend((0..tasks).map(|task| Op::Poll(waiter, task)));
                    break;
                }
                State::Queued | State::Granted | State::Revoked => {
                    ops.extend((0..TASKS).map(|task| Op::Poll(waiter, task)));
                    ops.push(Op::Drop(waiter));
                }
                State::Done | State::Gone => {}
            }
        }
        if self.held {
            ops.push(Op::Unlock);
        }
        ops.push(Op::TryLock);
    }
}

/// A runtime whose task it is.
fn task(number: usize) -> FakeDriver {
    static TASK_IDS: OnceLock<[TaskId; TASKS]> = OnceLock::new();
    FakeDriver::of(TASK_IDS.get_or_init(|| std::array::from_fn(|_| TaskId::fresh()))[number])
}

type Slot<'m, P> = Option<Pin<Box<Lock<'m, u32, P>>>>;

struct Real<'m, P: Policy> {
    by_identity: bool,
    mutex: &'m Mutex<u32, P>,
    guard: Option<MutexGuard<'m, u32, P>>,
    futures: [Slot<'m, P>; MAX_WAITERS],
}

impl<'m, P: Policy> Real<'m, P> {
    fn own(&mut self, guard: MutexGuard<'m, u32, P>) {
        assert!(self.guard.is_none(), "two guards at a time");
        self.guard = Some(guard);
    }

    fn poll(&mut self, waiter: usize, by: usize) -> Result {
        let waker = tally::waker(waker_of(waiter, by, self.by_identity));
        let future = self.futures[waiter].get_or_insert_with(|| Box::pin(self.mutex.lock()));
        let mut poll = || future.as_mut().poll(&mut Context::from_waker(&waker));
        let poll = if self.by_identity {
            runtime::enter(&task(by), || {
                runtime::set_budget(100);
                poll()
            })
        } else {
            runtime::set_budget(100);
            poll()
        };
        match poll {
            std::task::Poll::Ready(guard) => {
                self.own(guard);
                Result::Ready
            }
            std::task::Poll::Pending => Result::Pending,
        }
    }
}

impl<P: Policy> System for Real<'_, P> {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let result = match op {
            Op::Poll(waiter, task) => self.poll(waiter, task),
            Op::Drop(waiter) => {
                self.futures[waiter] = None;
                Result::Done
            }
            Op::Unlock => {
                self.guard = None;
                Result::Done
            }
            Op::TryLock => match self.mutex.try_lock() {
                Some(guard) => {
                    self.own(guard);
                    Result::Locked
                }
                None => Result::Refused,
            },
        };
        Seen { result, locked: self.mutex.is_locked(), wakes: tally::wakes() }
    }

    /// All leave: the lock is free, and no waker is left.
    fn finish(&mut self) {
        self.guard = None;
        self.futures = [const { None }; MAX_WAITERS];
        assert!(!self.mutex.is_locked() && self.mutex.try_lock().is_some(), "left locked");
        assert_eq!(tally::alive(), 0, "wakers made and not dropped");
    }
}

fn agree<P: Policy>(by_identity: bool) {
    let (depth, waiters) = spec::size(3, MAX_WAITERS);
    let spec = Spec::new(by_identity, waiters);
    enumerate(std::any::type_name::<P>(), depth, &spec, |body| {
        let mutex = Mutex::<u32, P>::with_policy(0);
        tally::reset();
        let (guard, futures) = (mutex.try_lock(), [const { None }; MAX_WAITERS]);
        body(&mut Real { by_identity, mutex: &mutex, guard, futures });
    });
}

#[test]
fn siblings_with_the_same_waker() {
    agree::<Revocable>(false);
}

#[test]
fn siblings_with_the_same_identity() {
    agree::<Revocable<false>>(true);
}

/// Random strings, longer than all strings can be.
#[test]
fn long_strings() {
    let seed = Seed::pick();
    let mut rng = seed.rng();
    for round in 0..scaled(if cfg!(debug_assertions) { 5_000 } else { 20_000 }, 4) {
        let by_identity = round % 2 == 0;
        let mut spec = Spec::new(by_identity, MAX_WAITERS);
        let mutex = Mutex::<u32, Revocable>::with_policy(0);
        tally::reset();
        let (guard, futures) = (mutex.try_lock(), [const { None }; MAX_WAITERS]);
        let mut real = Real { by_identity, mutex: &mutex, guard, futures };
        let mut path = Vec::new();
        for _ in 0..60 {
            let mut ops = Vec::new();
            spec.next(&mut ops);
            // A waiter that is over may come again.
            for waiter in 0..MAX_WAITERS {
                if matches!(spec.state[waiter], State::Done | State::Gone) {
                    spec.state[waiter] = State::New;
                    (spec.noted[waiter], spec.was_revoked[waiter]) = (None, false);
                    real.futures[waiter] = None;
                }
            }
            let op = ops[rng.below(ops.len())];
            path.push(op);
            let (expected, seen) = (spec.apply(op), real.apply(op));
            assert_eq!(seen, expected, "after {path:?}");
        }
        real.finish();
    }
}
