//! Every string of operations on an event, against a model of a few lines.
//!
//! `TASUKI_SPEC_DEPTH=9 TASUKI_SPEC_WAITERS=4` (in release) is the long form.
//! S2-35..S2-41; B003, B005, B007, B013, B023, B029, H2, H8.

use crate::kit::spec::{self, Model, System, enumerate};
use crate::kit::tally;
use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use tasuki::future::WaitEvent;
use tasuki::{Event, Reset};

const MAX_WAITERS: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Polls a waiter with the first or the second of its two wakers. The first poll makes it.
    Poll(usize, usize),
    Drop(usize),
    Set,
    Reset,
}

#[derive(Debug, PartialEq)]
struct Seen {
    ready: Option<bool>,
    is_set: bool,
    wakes: [u8; tally::WAKERS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Queued,
    Given,
    Done,
    Gone,
}

/// What an event is, said with a list.
#[derive(Clone)]
struct Spec {
    reset: Reset,
    waiters: usize,
    is_set: bool,
    queue: Vec<usize>,
    state: [State; MAX_WAITERS],
    waker: [usize; MAX_WAITERS],
    wakes: [u8; tally::WAKERS],
}

impl Spec {
    fn new(reset: Reset, is_set: bool, waiters: usize) -> Self {
        Self {
            reset,
            waiters,
            is_set,
            queue: Vec::with_capacity(MAX_WAITERS),
            state: [State::New; MAX_WAITERS],
            waker: [0; MAX_WAITERS],
            wakes: [0; tally::WAKERS],
        }
    }

    fn poll(&mut self, waiter: usize, waker: usize) -> bool {
        let ready = match self.state[waiter] {
            State::New => self.is_set,
            state => state == State::Given,
        };
        if ready {
            if self.state[waiter] == State::New && self.reset == Reset::Auto {
                self.is_set = false;
            }
            self.state[waiter] = State::Done;
            return true;
        }
        if self.state[waiter] == State::New {
            self.state[waiter] = State::Queued;
            self.queue.push(waiter);
        }
        self.waker[waiter] = waker;
        false
    }

    fn set(&mut self) {
        if self.reset == Reset::Manual || self.queue.is_empty() {
            self.is_set = true;
        }
        let released = if self.reset == Reset::Manual { self.queue.len() } else { 1.min(self.queue.len()) };
        for waiter in self.queue.drain(..released) {
            self.state[waiter] = State::Given;
            self.wakes[2 * waiter + self.waker[waiter]] += 1;
        }
    }

    /// A signal that was given and not seen goes on; that all were released stays true.
    fn drop_waiter(&mut self, waiter: usize) {
        self.queue.retain(|other| *other != waiter);
        let state = std::mem::replace(&mut self.state[waiter], State::Gone);
        if state == State::Given && self.reset == Reset::Auto {
            self.set();
        }
    }
}

impl System for Spec {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let mut ready = None;
        match op {
            Op::Poll(waiter, waker) => ready = Some(self.poll(waiter, waker)),
            Op::Drop(waiter) => self.drop_waiter(waiter),
            Op::Set => self.set(),
            Op::Reset => self.is_set = false,
        }
        Seen { ready, is_set: self.is_set, wakes: self.wakes }
    }
}

impl Model for Spec {
    fn next(&self, ops: &mut Vec<Op>) {
        for waiter in 0..self.waiters {
            match self.state[waiter] {
                // Waiters are alike, and so are the two wakers of one that is new.
                State::New => {
                    ops.push(Op::Poll(waiter, 0));
                    break;
                }
                State::Queued | State::Given => {
                    ops.extend([Op::Poll(waiter, 0), Op::Poll(waiter, 1), Op::Drop(waiter)]);
                }
                State::Done => ops.push(Op::Drop(waiter)),
                State::Gone => {}
            }
        }
        ops.extend([Op::Set, Op::Reset]);
    }
}

struct Real<'e> {
    event: &'e Event,
    futures: [Option<Pin<Box<WaitEvent<'e>>>>; MAX_WAITERS],
}

impl System for Real<'_> {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let mut ready = None;
        match op {
            Op::Poll(waiter, waker) => {
                let waker = tally::waker(2 * waiter + waker);
                let future = self.futures[waiter].get_or_insert_with(|| Box::pin(self.event.wait()));
                ready = Some(future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
            }
            Op::Drop(waiter) => self.futures[waiter] = None,
            Op::Set => self.event.set(),
            Op::Reset => self.event.reset(),
        }
        Seen { ready, is_set: self.event.is_set(), wakes: tally::wakes() }
    }

    /// All leave: no waker is left, and the event still works.
    fn finish(&mut self) {
        self.futures = [const { None }; MAX_WAITERS];
        assert_eq!(tally::alive(), 0, "wakers made and not dropped");
        self.event.set();
        assert!(self.event.is_set());
        self.event.reset();
        assert!(!self.event.is_set());
    }
}

fn agree(name: &str, reset: Reset, set: bool) {
    let (depth, waiters) = spec::size(4, MAX_WAITERS);
    enumerate(name, depth, &Spec::new(reset, set, waiters), |body| {
        tally::reset();
        let event = Event::new(reset, set);
        body(&mut Real { event: &event, futures: [const { None }; MAX_WAITERS] });
    });
}

#[test]
fn auto_is_its_model() {
    agree("auto", Reset::Auto, false);
}

#[test]
fn auto_that_starts_set_is_its_model() {
    agree("auto, set", Reset::Auto, true);
}

#[test]
fn manual_is_its_model() {
    agree("manual", Reset::Manual, false);
}

#[test]
fn manual_that_starts_set_is_its_model() {
    agree("manual, set", Reset::Manual, true);
}
