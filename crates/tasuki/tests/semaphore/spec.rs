//! Every string of operations on a semaphore that starts empty, against a model of a few lines: which waits are ready, which
//! are woken and how often, what is available, after every step.
//!
//! `TASUKI_SPEC_DEPTH=9 TASUKI_SPEC_WAITERS=4` (in release) is the long form.
//! S2-25..S2-30, S3-25; B007, B015, B017, B019, B053, B087, B093, B103, B135, H2, H8, H10.

use crate::kit::spec::{self, Model, System, enumerate};
use crate::kit::tally;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tasuki::future::Acquire;
use tasuki::policy::{Bypass, Fifo, SemaphorePolicy};
use tasuki::{Semaphore, SemaphorePermit, TryAcquireError};

const MAX_WAITERS: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// The first poll of a waiter, which asks for so much.
    Begin(usize, usize),
    /// Polls a waiter with the first or the second of its two wakers.
    Poll(usize, usize),
    /// Drops a future, or the permit that came of it.
    Drop(usize),
    Release(usize),
    Try(usize),
    /// Gives back what was tried for with success.
    GiveBack,
    Forget,
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Result {
    Ready,
    Pending,
    Closed,
    NoPermits,
    Forgot(usize),
    Done,
}

#[derive(Debug, PartialEq)]
struct Seen {
    result: Result,
    available: usize,
    closed: bool,
    wakes: [u8; tally::WAKERS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Queued,
    Granted,
    Refused,
    Holding,
    Gone,
}

/// What a semaphore is, said with a list.
#[derive(Clone)]
struct Spec {
    /// How often the head may be overtaken.
    bound: u32,
    waiters: usize,
    free: usize,
    closed: bool,
    queue: Vec<usize>,
    state: [State; MAX_WAITERS],
    weight: [usize; MAX_WAITERS],
    waker: [usize; MAX_WAITERS],
    tried: usize,
    /// `Bypass`: the head was called and has not looked yet; how often it was overtaken.
    called: bool,
    overtaken: u32,
    /// How many newcomers have passed a waiter, and how many may.
    passed: [u32; MAX_WAITERS],
    allowed: [u32; MAX_WAITERS],
    wakes: [u8; tally::WAKERS],
}

impl Spec {
    fn new(bound: u32, waiters: usize) -> Self {
        Self {
            bound,
            waiters,
            free: 0,
            closed: false,
            queue: Vec::with_capacity(MAX_WAITERS),
            state: [State::New; MAX_WAITERS],
            weight: [0; MAX_WAITERS],
            waker: [0; MAX_WAITERS],
            tried: 0,
            called: false,
            overtaken: 0,
            passed: [0; MAX_WAITERS],
            allowed: [0; MAX_WAITERS],
            wakes: [0; tally::WAKERS],
        }
    }

    fn available(&self) -> usize {
        if self.queue.is_empty() { self.free } else { 0 }
    }

    /// A newcomer, or `try_acquire`.
    fn take(&mut self, n: usize) -> Result {
        if self.closed {
            return Result::Closed;
        }
        if n > self.free || !self.queue.is_empty() && self.overtaken == self.bound {
            return Result::NoPermits;
        }
        self.free -= n;
        for waiter in self.queue.iter().copied() {
            self.passed[waiter] += 1;
            assert!(self.passed[waiter] <= self.allowed[waiter], "passed too often");
        }
        if !self.queue.is_empty() {
            self.overtaken += 1;
        }
        self.serve();
        Result::Ready
    }

    fn begin(&mut self, waiter: usize, weight: usize) -> Result {
        self.weight[waiter] = weight;
        let result = self.take(weight);
        self.state[waiter] = match result {
            Result::Ready => State::Holding,
            Result::NoPermits => State::Queued,
            _ => State::Gone,
        };
        if result != Result::NoPermits {
            return result;
        }
        self.allowed[waiter] = (self.queue.len() as u32 + 1) * self.bound;
        self.queue.push(waiter);
        Result::Pending
    }

    /// All that can be served, from the front; the last one with `Bypass` is only called.
    fn serve(&mut self) {
        while let Some(head) = self.queue.first().copied() {
            let weight = if self.closed { 0 } else { self.weight[head] };
            if weight > self.free {
                return;
            }
            if !self.called {
                self.wakes[2 * head + self.waker[head]] += 1;
            }
            let next = self.queue.get(1).map_or(usize::MAX, |next| self.weight[*next]);
            if !self.closed && self.overtaken < self.bound && self.free - weight < next {
                self.called = true;
                return;
            }
            self.state[head] = if self.closed { State::Refused } else { State::Granted };
            self.free -= weight;
            self.leave(head);
        }
    }

    fn poll(&mut self, waiter: usize, waker: usize) -> Result {
        match self.state[waiter] {
            State::Granted => {
                self.state[waiter] = State::Holding;
                return Result::Ready;
            }
            State::Refused => {
                self.state[waiter] = State::Gone;
                return Result::Closed;
            }
            _ => {}
        }
        self.waker[waiter] = waker;
        if self.queue[0] != waiter {
            return Result::Pending;
        }
        let covered = self.free >= self.weight[waiter];
        assert!(self.called || !covered, "a head that can be served sleeps");
        self.called = false;
        if !covered {
            return Result::Pending;
        }
        self.free -= self.weight[waiter];
        self.state[waiter] = State::Holding;
        self.leave(waiter);
        self.serve();
        Result::Ready
    }

    /// Out of the queue; the next head has not been overtaken yet.
    fn leave(&mut self, waiter: usize) {
        if self.queue[0] == waiter {
            self.called = false;
            self.overtaken = 0;
        }
        self.queue.retain(|other| *other != waiter);
    }

    fn drop_waiter(&mut self, waiter: usize) {
        match std::mem::replace(&mut self.state[waiter], State::Gone) {
            State::Granted | State::Holding => self.release(self.weight[waiter]),
            State::Queued => {
                self.leave(waiter);
                self.serve();
            }
            _ => {}
        }
    }

    fn release(&mut self, n: usize) {
        self.free += n;
        self.serve();
    }

    fn forget(&mut self) -> Result {
        let forgotten = self.available().min(1);
        self.free -= forgotten;
        Result::Forgot(forgotten)
    }
}

impl System for Spec {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let mut result = Result::Done;
        match op {
            Op::Begin(waiter, weight) => result = self.begin(waiter, weight),
            Op::Poll(waiter, waker) => result = self.poll(waiter, waker),
            Op::Drop(waiter) => self.drop_waiter(waiter),
            Op::Release(n) => self.release(n),
            Op::Try(n) => {
                result = self.take(n);
                self.tried += if result == Result::Ready { n } else { 0 };
            }
            Op::GiveBack => {
                let tried = std::mem::take(&mut self.tried);
                self.release(tried);
            }
            Op::Forget => result = self.forget(),
            Op::Close => {
                self.closed = true;
                self.serve();
            }
        }
        Seen { result, available: self.available(), closed: self.closed, wakes: self.wakes }
    }
}

impl Model for Spec {
    fn next(&self, ops: &mut Vec<Op>) {
        for waiter in 0..self.waiters {
            match self.state[waiter] {
                // Waiters are alike, and so are the two wakers of one that is new.
                State::New => {
                    ops.extend([Op::Begin(waiter, 1), Op::Begin(waiter, 2)]);
                    break;
                }
                State::Queued => {
                    ops.extend([Op::Poll(waiter, 0), Op::Poll(waiter, 1), Op::Drop(waiter)]);
                }
                State::Granted | State::Refused => ops.extend([Op::Poll(waiter, 0), Op::Drop(waiter)]),
                State::Holding => ops.push(Op::Drop(waiter)),
                State::Gone => {}
            }
        }
        ops.extend([Op::Release(1), Op::Release(2), Op::Try(1)]);
        if self.tried > 0 {
            ops.push(Op::GiveBack);
        }
        if self.available() > 0 {
            ops.push(Op::Forget);
        }
        if !self.closed {
            ops.push(Op::Close);
        }
    }
}

enum Slot<'s, P: SemaphorePolicy> {
    Empty,
    Future(Pin<Box<Acquire<'s, P>>>),
    Permit { _held: SemaphorePermit<'s, P> },
}

struct Real<'s, P: SemaphorePolicy> {
    semaphore: &'s Semaphore<P>,
    slots: [Slot<'s, P>; MAX_WAITERS],
    tried: Option<SemaphorePermit<'s, P>>,
    /// How many permits there are in all.
    total: usize,
}

impl<'s, P: SemaphorePolicy> Real<'s, P> {
    fn new(semaphore: &'s Semaphore<P>) -> Self {
        tally::reset();
        Self { semaphore, slots: [const { Slot::Empty }; MAX_WAITERS], tried: None, total: 0 }
    }

    fn poll(&mut self, waiter: usize, waker: usize) -> Result {
        let waker = tally::waker(2 * waiter + waker);
        let Slot::Future(future) = &mut self.slots[waiter] else { panic!("{waiter} does not wait") };
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(Ok(permit)) => {
                self.slots[waiter] = Slot::Permit { _held: permit };
                Result::Ready
            }
            Poll::Ready(Err(tasuki::Closed)) => {
                self.slots[waiter] = Slot::Empty;
                Result::Closed
            }
            Poll::Pending => Result::Pending,
        }
    }

    fn try_acquire(&mut self, n: usize) -> Result {
        let permit = match self.semaphore.try_acquire_many(n) {
            Ok(permit) => permit,
            Err(TryAcquireError::Closed) => return Result::Closed,
            Err(TryAcquireError::NoPermits) => return Result::NoPermits,
        };
        match &mut self.tried {
            Some(tried) => tried.merge(permit),
            None => self.tried = Some(permit),
        }
        Result::Ready
    }
}

impl<P: SemaphorePolicy> System for Real<'_, P> {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let mut result = Result::Done;
        match op {
            Op::Begin(waiter, weight) => {
                self.slots[waiter] = Slot::Future(Box::pin(self.semaphore.acquire_many(weight)));
                result = self.poll(waiter, 0);
            }
            Op::Poll(waiter, waker) => result = self.poll(waiter, waker),
            Op::Drop(waiter) => self.slots[waiter] = Slot::Empty,
            Op::Release(n) => {
                self.semaphore.release(n);
                self.total += n;
            }
            Op::Try(n) => result = self.try_acquire(n),
            Op::GiveBack => self.tried = None,
            Op::Forget => {
                let forgotten = self.semaphore.forget_permits(1);
                self.total -= forgotten;
                result = Result::Forgot(forgotten);
            }
            Op::Close => assert!(self.semaphore.close(), "closed once"),
        }
        Seen {
            result,
            available: self.semaphore.available_permits(),
            closed: self.semaphore.is_closed(),
            wakes: tally::wakes(),
        }
    }

    /// All leave: every permit is free, and no waker is left.
    fn finish(&mut self) {
        self.tried = None;
        self.slots = [const { Slot::Empty }; MAX_WAITERS];
        assert_eq!(self.semaphore.available_permits(), self.total, "permits are conserved");
        assert_eq!(tally::alive(), 0, "wakers made and not dropped");
    }
}

fn agree<P: SemaphorePolicy>(bound: u32) {
    let (depth, waiters) = spec::size_of_many(5, 3, MAX_WAITERS);
    let name = std::any::type_name::<Semaphore<P>>();
    enumerate(name, depth, &Spec::new(bound, waiters), |body| {
        let semaphore = Semaphore::<P>::with_policy(0);
        body(&mut Real::new(&semaphore));
    });
}

#[test]
fn fifo_is_its_model() {
    agree::<Fifo>(0);
}

#[test]
fn bypass_never_is_fifo() {
    agree::<Bypass<0>>(0);
}

#[test]
fn bypass_once_is_its_model() {
    agree::<Bypass<1>>(1);
}

#[test]
fn bypass_often_is_its_model() {
    agree::<Bypass>(64);
}
