//! Every string of operations on a mutex that starts held, against a model of a few lines: which waits are ready, which are
//! woken and how often, what `try_lock` says, after every step. A first poll may come with its budget exhausted (B123).
//!
//! `TASUKI_SPEC_DEPTH=9 TASUKI_SPEC_WAITERS=4` (in release) is the long form.
//! S0-06..S0-15, S1-13..S1-28, S2-09, S2-16, S3-03..S3-05, S3-09, S3-12; B001, B007, B013, B017, H2, H8, H10.

use crate::kit::spec::{self, Model, System, enumerate};
use crate::kit::tally;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use tasuki::future::Lock;
use tasuki::policy::{Bypass, Fifo, Lifo, Policy, Revocable};
use tasuki::runtime::{self, Driver, TaskId, Timers};
use tasuki::{Mutex, MutexGuard};

const MAX_WAITERS: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Polls a waiter with the first or the second of its two wakers. The first poll makes it.
    Poll(usize, usize),
    /// The first poll of a waiter, with the budget of its task exhausted.
    Exhausted(usize),
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
    Yielded,
    Queued,
    Granted,
    Done,
    Gone,
}

/// What a mutex is, said with a list.
#[derive(Clone)]
struct Spec {
    newest_first: bool,
    /// How often the head may be passed over.
    bound: u32,
    waiters: usize,
    /// First polls may come with the budget exhausted.
    budgets: bool,
    /// A guard exists.
    held: bool,
    /// The lock is on its way to a waiter.
    granted: bool,
    queue: Vec<usize>,
    state: [State; MAX_WAITERS],
    waker: [usize; MAX_WAITERS],
    /// `Bypass`: the head was called and has not looked yet; how often it was passed over.
    called: bool,
    passed: u32,
    /// How many acquisitions by others a waiter has seen, and how many it may see.
    seen: [u32; MAX_WAITERS],
    allowed: [u32; MAX_WAITERS],
    wakes: [u8; tally::WAKERS],
}

impl Spec {
    fn new(newest_first: bool, bound: u32, waiters: usize, budgets: bool) -> Self {
        Self {
            newest_first,
            bound,
            waiters,
            budgets,
            held: true,
            granted: false,
            queue: Vec::with_capacity(MAX_WAITERS),
            state: [State::New; MAX_WAITERS],
            waker: [0; MAX_WAITERS],
            called: false,
            passed: 0,
            seen: [0; MAX_WAITERS],
            allowed: [0; MAX_WAITERS],
            wakes: [0; tally::WAKERS],
        }
    }

    fn is_locked(&self) -> bool {
        self.held || self.granted
    }

    fn wake(&mut self, waiter: usize) {
        self.wakes[2 * waiter + self.waker[waiter]] += 1;
    }

    fn call_head(&mut self) {
        self.called = true;
        self.wake(self.queue[0]);
    }

    /// A newcomer may take a lock that is free and, unless it may barge, that has no waiter.
    fn may_take(&self) -> bool {
        !self.is_locked() && (self.queue.is_empty() || self.bound > 0)
    }

    /// A newcomer, or `try_lock`.
    fn take(&mut self) -> bool {
        let may = self.may_take();
        if may {
            self.acquired();
        }
        may
    }

    fn acquired(&mut self) {
        self.held = true;
        for waiter in self.queue.iter().copied() {
            self.seen[waiter] += 1;
            // The promise of `Bypass`; a newest-first lock promises nothing.
            assert!(self.newest_first || self.seen[waiter] <= self.allowed[waiter], "overtaken too often");
        }
    }

    fn enqueue(&mut self, waiter: usize) {
        self.state[waiter] = State::Queued;
        self.allowed[waiter] = (self.queue.len() as u32 + 1) * (self.bound + 1);
        let at = if self.newest_first { 0 } else { self.queue.len() };
        self.queue.insert(at, waiter);
    }

    /// What is free stays free, and the waiter is woken; what is not gets a waiter.
    fn poll_exhausted(&mut self, waiter: usize) -> Result {
        if !self.may_take() {
            return self.poll(waiter, 0);
        }
        self.state[waiter] = State::Yielded;
        self.waker[waiter] = 0;
        self.wake(waiter);
        Result::Pending
    }

    fn poll(&mut self, waiter: usize, waker: usize) -> Result {
        let is_called = self.called && self.queue.first() == Some(&waiter);
        let ready = match self.state[waiter] {
            State::New | State::Yielded => self.take(),
            State::Granted => {
                self.granted = false;
                self.acquired();
                true
            }
            State::Queued if is_called => {
                self.called = false;
                !self.is_locked() && {
                    self.leave(waiter);
                    self.acquired();
                    true
                }
            }
            _ => false,
        };
        if ready {
            self.state[waiter] = State::Done;
            return Result::Ready;
        }
        if matches!(self.state[waiter], State::New | State::Yielded) {
            self.enqueue(waiter);
        }
        self.waker[waiter] = waker;
        Result::Pending
    }

    /// Out of the queue; the next head has not been passed over yet.
    fn leave(&mut self, waiter: usize) {
        if self.queue[0] == waiter {
            self.called = false;
            self.passed = 0;
        }
        self.queue.retain(|other| *other != waiter);
    }

    fn drop_waiter(&mut self, waiter: usize) {
        match std::mem::replace(&mut self.state[waiter], State::Gone) {
            State::Granted => {
                self.granted = false;
                self.release();
            }
            State::Queued => {
                self.leave(waiter);
                if self.bound > 0 && !self.is_locked() && !self.called && !self.queue.is_empty() {
                    // Open to the new head, which counts as one overtake in advance, as in `release`.
                    self.passed += 1;
                    self.call_head();
                }
            }
            _ => {}
        }
    }

    /// The lock is given up by its holder.
    fn release(&mut self) {
        let Some(head) = self.queue.first().copied() else { return };
        if self.passed < self.bound {
            self.passed += 1;
            if !self.called {
                self.call_head();
            }
            return;
        }
        if !self.called {
            self.wake(head);
        }
        self.leave(head);
        self.state[head] = State::Granted;
        self.granted = true;
    }
}

impl System for Spec {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let result = match op {
            Op::Poll(waiter, waker) => self.poll(waiter, waker),
            Op::Exhausted(waiter) => self.poll_exhausted(waiter),
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
                // Waiters are alike, and so are the two wakers of one that is new.
                State::New => {
                    ops.push(Op::Poll(waiter, 0));
                    ops.extend(self.budgets.then_some(Op::Exhausted(waiter)));
                    break;
                }
                State::Yielded => ops.extend([Op::Poll(waiter, 0), Op::Drop(waiter)]),
                State::Queued | State::Granted => {
                    ops.extend([Op::Poll(waiter, 0), Op::Poll(waiter, 1), Op::Drop(waiter)]);
                }
                State::Done => ops.push(Op::Drop(waiter)),
                State::Gone => {}
            }
        }
        ops.push(Op::TryLock);
        if self.held {
            ops.push(Op::Unlock);
        }
    }
}

/// A runtime that gives a budget.
struct Strict;

impl Driver for Strict {
    fn task(&self) -> Option<TaskId> {
        None
    }

    fn timers(&self) -> Option<Arc<Timers>> {
        None
    }

    fn may_block(&self) -> bool {
        true
    }
}

type Slot<'m, P> = Option<Pin<Box<Lock<'m, u32, P>>>>;

struct Real<'m, P: Policy> {
    mutex: &'m Mutex<u32, P>,
    guard: Option<MutexGuard<'m, u32, P>>,
    futures: [Slot<'m, P>; MAX_WAITERS],
}

impl<'m, P: Policy> Real<'m, P> {
    fn new(mutex: &'m Mutex<u32, P>) -> Self {
        tally::reset();
        Self { mutex, guard: mutex.try_lock(), futures: [const { None }; MAX_WAITERS] }
    }

    fn own(&mut self, guard: MutexGuard<'m, u32, P>) {
        assert!(self.guard.is_none(), "two guards at a time");
        self.guard = Some(guard);
    }

    fn poll(&mut self, waiter: usize, waker: usize) -> Result {
        let waker = tally::waker(2 * waiter + waker);
        let future = self.futures[waiter].get_or_insert_with(|| Box::pin(self.mutex.lock()));
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            std::task::Poll::Ready(guard) => {
                self.own(guard);
                Result::Ready
            }
            std::task::Poll::Pending => Result::Pending,
        }
    }

    fn try_lock(&mut self) -> Result {
        let Some(guard) = self.mutex.try_lock() else { return Result::Refused };
        self.own(guard);
        Result::Locked
    }
}

impl<P: Policy> System for Real<'_, P> {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let result = match op {
            Op::Poll(waiter, waker) => self.poll(waiter, waker),
            Op::Exhausted(waiter) => runtime::enter(&Strict, || {
                runtime::set_budget(0);
                let polled = self.poll(waiter, 0);
                runtime::set_budget(u32::MAX);
                polled
            }),
            Op::Drop(waiter) => {
                self.futures[waiter] = None;
                Result::Done
            }
            Op::Unlock => {
                self.guard = None;
                Result::Done
            }
            Op::TryLock => self.try_lock(),
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

fn agree<P: Policy>(newest_first: bool, bound: u32) {
    let (depth, waiters) = spec::size(4, MAX_WAITERS);
    compare::<P>(depth, Spec::new(newest_first, bound, waiters, false));
}

/// With budgets a step has more choices, so the strings are one step shorter.
fn agree_with_budgets<P: Policy>(newest_first: bool, bound: u32) {
    let (depth, waiters) = spec::size(4, MAX_WAITERS);
    compare::<P>(depth - 1, Spec::new(newest_first, bound, waiters, true));
}

fn compare<P: Policy>(depth: usize, spec: Spec) {
    enumerate(std::any::type_name::<P>(), depth, &spec, |body| {
        let mutex = Mutex::<u32, P>::with_policy(0);
        body(&mut Real::new(&mutex));
    });
}

#[test]
fn an_exhausted_budget_is_its_model() {
    agree_with_budgets::<Fifo>(false, 0);
    agree_with_budgets::<Lifo>(true, 0);
    agree_with_budgets::<Bypass<1>>(false, 1);
    agree_with_budgets::<Revocable>(false, 0);
}

#[test]
fn fifo_is_its_model() {
    agree::<Fifo>(false, 0);
}

#[test]
fn fifo_without_the_spin_is_its_model() {
    agree::<Fifo<false>>(false, 0);
}

/// Where every waiter has a waker of its own, nothing is revoked. (`revocable.rs` has the model of tasks with several waiters.)
#[test]
fn revocable_between_strangers_is_fifo() {
    agree::<Revocable>(false, 0);
}

#[test]
fn lifo_is_its_model() {
    agree::<Lifo>(true, 0);
}

#[test]
fn bypass_never_is_fifo() {
    agree::<Bypass<0>>(false, 0);
}

#[test]
fn bypass_once_is_its_model() {
    agree::<Bypass<1>>(false, 1);
}

#[test]
fn bypass_twice_is_its_model() {
    agree::<Bypass<2>>(false, 2);
}

#[test]
fn bypass_often_is_its_model() {
    agree::<Bypass>(false, 64);
}
