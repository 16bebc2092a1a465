//! Every string of operations on a condvar and its mutex, against a model of a few lines: which waits are ready, which are woken and
//! how often, and whether the mutex is locked, after every step.
//!
//! `TASUKI_SPEC_DEPTH=9 TASUKI_SPEC_WAITERS=4` (in release) is the long form.
//! B003, B007, B023, B025, B029, B035, H2, H4, H15.

use crate::kit::spec::{self, Model, System, enumerate};
use crate::kit::tally;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tasuki::future::{OrCancelled, WaitNotified};
use tasuki::policy::{Bypass, Fifo, Lifo, Policy, Revocable};
use tasuki::{CancellationSource, CancellationToken, Cancelled, Condvar, Mutex, MutexGuard};

const MAX_WAITERS: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// A task that waits for nothing takes the free mutex, or gives it up.
    Lock,
    Unlock,
    /// Locks the free mutex and waits: the first poll.
    Begin(usize),
    /// Waits again, with the guard that it came back with.
    Again(usize),
    /// Polls a waiter with the first or the second of its two wakers.
    Poll(usize, usize),
    /// The token of a waiter is cancelled, and the waiter polled.
    Expire(usize),
    /// Drops a future, or the guard that came of it.
    Drop(usize),
    NotifyOne,
    NotifyAll,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Result {
    Ready,
    Pending,
    Cancelled,
    Done,
}

#[derive(Debug, PartialEq)]
struct Seen {
    result: Result,
    locked: bool,
    wakes: [u8; tally::WAKERS],
}

/// How a waiter was notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    None,
    One,
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    /// In the list of the condvar.
    Here(By),
    /// Woken, to bring the others.
    Called(By),
    /// In the queue of the mutex.
    Moved(By),
    Granted(By),
    Holding,
    Gone,
}

/// What a condvar and a mutex are, said with two lists.
#[derive(Clone)]
struct Spec {
    newest_first: bool,
    waiters: usize,
    locked: bool,
    /// A task that waits for nothing has the lock.
    outside: bool,
    list: Vec<usize>,
    mutex: Vec<usize>,
    state: [State; MAX_WAITERS],
    waker: [usize; MAX_WAITERS],
    expired: [bool; MAX_WAITERS],
    wakes: [u8; tally::WAKERS],
}

impl Spec {
    fn new(newest_first: bool, waiters: usize) -> Self {
        Self {
            newest_first,
            waiters,
            locked: false,
            outside: false,
            list: Vec::with_capacity(MAX_WAITERS),
            mutex: Vec::with_capacity(MAX_WAITERS),
            state: [State::New; MAX_WAITERS],
            waker: [0; MAX_WAITERS],
            expired: [false; MAX_WAITERS],
            wakes: [0; tally::WAKERS],
        }
    }

    fn wake(&mut self, slot: usize) {
        self.wakes[2 * slot + self.waker[slot]] += 1;
    }

    fn unlock(&mut self) {
        if self.mutex.is_empty() {
            self.locked = false;
            return;
        }
        let next = self.mutex.remove(0);
        let State::Moved(by) = self.state[next] else { panic!("{next} is in the mutex's queue") };
        self.state[next] = State::Granted(by);
        self.wake(next);
    }

    /// Who is next to be notified.
    fn next(&self) -> Option<usize> {
        self.list.iter().copied().find(|slot| self.state[*slot] == State::Here(By::None))
    }

    fn notify_one(&mut self) {
        if let Some(next) = self.next() {
            self.state[next] = State::Here(By::One);
        }
        self.call();
    }

    fn notify_all(&mut self) {
        while let Some(next) = self.next() {
            self.state[next] = State::Here(By::All);
        }
        self.call();
    }

    /// The first in the list is called, if it is notified.
    fn call(&mut self) {
        let Some(first) = self.list.first().copied() else { return };
        match self.state[first] {
            State::Here(by) if by != By::None => {
                self.state[first] = State::Called(by);
                self.list.remove(0);
                self.wake(first);
            }
            _ => {}
        }
    }

    fn begin(&mut self, slot: usize) -> Result {
        self.state[slot] = State::Here(By::None);
        self.waker[slot] = 0;
        self.list.push(slot);
        self.unlock();
        Result::Pending
    }

    /// Into the mutex's queue.
    fn queue(&mut self, slot: usize, by: By) {
        self.state[slot] = State::Moved(by);
        let at = if self.newest_first { 0 } else { self.mutex.len() };
        self.mutex.insert(at, slot);
    }

    fn poll(&mut self, slot: usize, waker: usize) -> Result {
        match self.state[slot] {
            State::Granted(_) => {
                self.state[slot] = State::Holding;
                return Result::Ready;
            }
            State::Called(by) => {
                self.waker[slot] = waker;
                if self.locked {
                    self.queue(slot, by);
                } else {
                    self.locked = true;
                    self.state[slot] = State::Holding;
                }
                while let Some(first) = self.list.first().copied() {
                    let State::Here(by) = self.state[first] else { panic!("{first} is in the list") };
                    if by == By::None {
                        break;
                    }
                    self.list.remove(0);
                    self.queue(first, by);
                }
            }
            _ => self.waker[slot] = waker,
        }
        if self.state[slot] == State::Holding { Result::Ready } else { Result::Pending }
    }

    fn drop_slot(&mut self, slot: usize) {
        let state = std::mem::replace(&mut self.state[slot], State::Gone);
        self.list.retain(|other| *other != slot);
        self.mutex.retain(|other| *other != slot);
        if matches!(state, State::Granted(_) | State::Holding) {
            self.unlock();
        }
        match state {
            State::Here(By::One)
            | State::Called(By::One)
            | State::Moved(By::One)
            | State::Granted(By::One)
                if self.next().is_some() =>
            {
                self.notify_one();
            }
            State::Called(_) => self.call(),
            _ => {}
        }
    }

    fn expire(&mut self, slot: usize) -> Result {
        self.expired[slot] = true;
        self.wake(slot);
        if self.poll(slot, self.waker[slot]) == Result::Ready {
            return Result::Ready;
        }
        self.drop_slot(slot);
        Result::Cancelled
    }

    fn check(&self) {
        let notified = |slot: &usize| self.state[*slot] != State::Here(By::None);
        let called = self.state.iter().any(|state| matches!(state, State::Called(_)));
        assert!(called || !self.list.iter().any(notified), "no waiter will bring them");
        assert!(self.locked || self.mutex.is_empty(), "no holder will unlock for them");
    }
}

impl System for Spec {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let mut result = Result::Done;
        match op {
            Op::Lock => (self.locked, self.outside) = (true, true),
            Op::Unlock => {
                self.outside = false;
                self.unlock();
            }
            Op::Begin(slot) | Op::Again(slot) => result = self.begin(slot),
            Op::Poll(slot, waker) => result = self.poll(slot, waker),
            Op::Expire(slot) => result = self.expire(slot),
            Op::Drop(slot) => self.drop_slot(slot),
            Op::NotifyOne => self.notify_one(),
            Op::NotifyAll => self.notify_all(),
        }
        self.check();
        Seen { result, locked: self.locked, wakes: self.wakes }
    }
}

impl Model for Spec {
    fn next(&self, ops: &mut Vec<Op>) {
        let mut begins = !self.locked;
        for slot in 0..self.waiters {
            match self.state[slot] {
                State::New if begins => {
                    ops.push(Op::Begin(slot));
                    begins = false;
                }
                State::New | State::Gone => {}
                State::Here(_) | State::Moved(_) => {
                    ops.extend([Op::Poll(slot, 1 - self.waker[slot]), Op::Drop(slot), Op::Expire(slot)]);
                }
                State::Called(_) => {
                    ops.extend([Op::Poll(slot, 0), Op::Poll(slot, 1), Op::Drop(slot), Op::Expire(slot)]);
                }
                State::Granted(_) => ops.extend([Op::Poll(slot, 0), Op::Drop(slot), Op::Expire(slot)]),
                State::Holding if !self.expired[slot] => ops.extend([Op::Drop(slot), Op::Again(slot)]),
                State::Holding => ops.push(Op::Drop(slot)),
            }
        }
        ops.extend([Op::NotifyOne, Op::NotifyAll]);
        if self.outside {
            ops.push(Op::Unlock);
        } else if !self.locked {
            ops.push(Op::Lock);
        }
    }
}

type Waiting<'s, P> = OrCancelled<'s, WaitNotified<'s, &'s Mutex<u32, P>>>;

enum Slot<'s, P: Policy> {
    Empty,
    Future(Pin<Box<Waiting<'s, P>>>),
    Guard(MutexGuard<'s, u32, P>),
}

/// What lasts for a string.
struct World<P: Policy> {
    mutex: Mutex<u32, P>,
    condvar: Condvar,
    sources: [CancellationSource; MAX_WAITERS],
    tokens: [CancellationToken; MAX_WAITERS],
}

impl<P: Policy> World<P> {
    fn new() -> Self {
        let sources: [_; MAX_WAITERS] = std::array::from_fn(|_| CancellationSource::new());
        let tokens = sources.each_ref().map(CancellationSource::token);
        Self { mutex: Mutex::with_policy(0), condvar: Condvar::new(), sources, tokens }
    }
}

struct Real<'s, P: Policy> {
    world: &'s World<P>,
    outside: Option<MutexGuard<'s, u32, P>>,
    slots: [Slot<'s, P>; MAX_WAITERS],
}

impl<'s, P: Policy> Real<'s, P> {
    fn new(world: &'s World<P>) -> Self {
        tally::reset();
        Self { world, outside: None, slots: [const { Slot::Empty }; MAX_WAITERS] }
    }

    fn wait(&mut self, slot: usize, guard: MutexGuard<'s, u32, P>) -> Result {
        let wait = self.world.condvar.wait(guard).or_cancelled(&self.world.tokens[slot]);
        self.slots[slot] = Slot::Future(Box::pin(wait));
        self.poll(slot, 0)
    }

    fn again(&mut self, slot: usize) -> Result {
        let held = std::mem::replace(&mut self.slots[slot], Slot::Empty);
        let Slot::Guard(guard) = held else { panic!("{slot} holds nothing") };
        self.wait(slot, guard)
    }

    fn poll(&mut self, slot: usize, waker: usize) -> Result {
        let waker = tally::waker(2 * slot + waker);
        let Slot::Future(future) = &mut self.slots[slot] else { panic!("{slot} does not wait") };
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(Ok(mut guard)) => {
                *guard += 1;
                self.slots[slot] = Slot::Guard(guard);
                Result::Ready
            }
            Poll::Ready(Err(Cancelled)) => {
                self.slots[slot] = Slot::Empty;
                Result::Cancelled
            }
            Poll::Pending => Result::Pending,
        }
    }
}

impl<P: Policy> System for Real<'_, P> {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let mut result = Result::Done;
        match op {
            Op::Lock => self.outside = Some(self.world.mutex.try_lock().expect("free")),
            Op::Unlock => self.outside = None,
            Op::Begin(slot) => result = self.wait(slot, self.world.mutex.try_lock().expect("free")),
            Op::Again(slot) => result = self.again(slot),
            Op::Poll(slot, waker) => result = self.poll(slot, waker),
            Op::Expire(slot) => {
                self.world.sources[slot].request_cancel();
                // With the waker that it was polled with last: any will do.
                result = self.poll(slot, 0);
            }
            Op::Drop(slot) => self.slots[slot] = Slot::Empty,
            Op::NotifyOne => self.world.condvar.notify_one(),
            Op::NotifyAll => self.world.condvar.notify_all(),
        }
        Seen { result, locked: self.world.mutex.is_locked(), wakes: tally::wakes() }
    }

    /// All leave: the mutex is free, and no waker is left.
    fn finish(&mut self) {
        self.outside = None;
        self.slots = [const { Slot::Empty }; MAX_WAITERS];
        assert!(!self.world.mutex.is_locked(), "left locked");
        assert_eq!(tally::alive(), 0, "wakers made and not dropped");
    }
}

fn agree<P: Policy>(newest_first: bool) {
    let (depth, waiters) = spec::size(3, MAX_WAITERS);
    let name = std::any::type_name::<P>();
    enumerate(name, depth, &Spec::new(newest_first, waiters), |body| {
        let world = World::<P>::new();
        body(&mut Real::new(&world));
    });
}

#[test]
fn with_a_fifo_mutex() {
    agree::<Fifo>(false);
}

#[test]
fn with_a_lifo_mutex() {
    agree::<Lifo>(true);
}

#[test]
fn with_a_bypass_mutex_that_never_is_bypassed() {
    agree::<Bypass<0>>(false);
}

#[test]
fn with_a_revocable_mutex() {
    agree::<Revocable>(false);
}
