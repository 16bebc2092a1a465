//! Every string of operations on a wait group, a latch and a barrier, against models of a few lines.
//!
//! `TASUKI_SPEC_DEPTH=9 TASUKI_SPEC_WAITERS=4` (in release) is the long form.
//! S2-45..S2-50, S2-66..S2-70; B007, B027, B033, B077, B091, H2, H4, H8.

use crate::kit::panics::panics_silently;
use crate::kit::spec::{self, Model, System, enumerate};
use crate::kit::tally;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tasuki::{Barrier, Latch, WaitGroup};

const MAX_WAITERS: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Polls a waiter with the first or the second of its two wakers. The first poll makes it.
    Poll(usize, usize),
    Drop(usize),
    /// One more member; group only.
    Add,
    /// One less; group and latch.
    Done,
}

/// What a poll shows: pending, ready, or ready as the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Pending,
    Ready,
    Leader,
}

#[derive(Debug, PartialEq)]
struct Seen {
    poll: Option<Shown>,
    panicked: bool,
    /// Members or counts to go; in a barrier, the waiting parties.
    count: usize,
    wakes: [u8; tally::WAKERS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Group,
    Latch,
    Barrier { parties: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Queued,
    Released,
    Done,
    Gone,
}

/// All three, said with a number and a list.
#[derive(Clone)]
struct Spec {
    kind: Kind,
    waiters: usize,
    count: usize,
    queue: Vec<usize>,
    state: [State; MAX_WAITERS],
    waker: [usize; MAX_WAITERS],
    wakes: [u8; tally::WAKERS],
}

impl Spec {
    fn new(kind: Kind, waiters: usize) -> Self {
        Self {
            kind,
            waiters,
            count: initial(kind),
            queue: Vec::with_capacity(MAX_WAITERS),
            state: [State::New; MAX_WAITERS],
            waker: [0; MAX_WAITERS],
            wakes: [0; tally::WAKERS],
        }
    }

    fn release(&mut self) {
        for waiter in self.queue.drain(..) {
            self.state[waiter] = State::Released;
            self.wakes[2 * waiter + self.waker[waiter]] += 1;
        }
    }

    fn poll(&mut self, waiter: usize, waker: usize) -> Shown {
        let shown = match (self.state[waiter], self.kind) {
            (State::Released, _) => Shown::Ready,
            (State::New, Kind::Barrier { parties }) if self.count == parties - 1 => Shown::Leader,
            (State::New, Kind::Group | Kind::Latch) if self.count == 0 => Shown::Ready,
            _ => Shown::Pending,
        };
        if shown == Shown::Leader {
            self.count = 0;
            self.release();
        }
        if shown != Shown::Pending {
            self.state[waiter] = State::Done;
            return shown;
        }
        if self.state[waiter] == State::New {
            self.state[waiter] = State::Queued;
            self.queue.push(waiter);
            self.count += usize::from(matches!(self.kind, Kind::Barrier { .. }));
        }
        self.waker[waiter] = waker;
        shown
    }

    fn drop_waiter(&mut self, waiter: usize) {
        self.queue.retain(|other| *other != waiter);
        let state = std::mem::replace(&mut self.state[waiter], State::Gone);
        self.count -= usize::from(state == State::Queued && matches!(self.kind, Kind::Barrier { .. }));
    }

    /// False if there is nothing to take.
    fn done(&mut self) -> bool {
        if self.count == 0 {
            return false;
        }
        self.count -= 1;
        if self.count == 0 {
            self.release();
        }
        true
    }
}

fn initial(kind: Kind) -> usize {
    match kind {
        Kind::Group => 1,
        Kind::Latch => 2,
        Kind::Barrier { .. } => 0,
    }
}

impl System for Spec {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let (mut poll, mut panicked) = (None, false);
        match op {
            Op::Poll(waiter, waker) => poll = Some(self.poll(waiter, waker)),
            Op::Drop(waiter) => self.drop_waiter(waiter),
            Op::Add => self.count += 1,
            Op::Done => panicked = !self.done(),
        }
        Seen { poll, panicked, count: self.count, wakes: self.wakes }
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
                State::Queued | State::Released => {
                    ops.extend([Op::Poll(waiter, 0), Op::Poll(waiter, 1), Op::Drop(waiter)]);
                }
                State::Done => ops.push(Op::Drop(waiter)),
                State::Gone => {}
            }
        }
        match self.kind {
            Kind::Group => ops.extend([Op::Add, Op::Done]),
            Kind::Latch => ops.push(Op::Done),
            Kind::Barrier { .. } => {}
        }
    }
}

/// The real thing, under the names of the model.
enum Object {
    Group(WaitGroup),
    Latch(Latch),
    Barrier(Barrier),
}

type Future_<'o> = Pin<Box<dyn Future<Output = Shown> + 'o>>;

impl Object {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Group => {
                let group = WaitGroup::new();
                group.add(initial(kind));
                Self::Group(group)
            }
            Kind::Latch => Self::Latch(Latch::new(initial(kind))),
            Kind::Barrier { parties } => Self::Barrier(Barrier::new(parties)),
        }
    }

    fn wait(&self) -> Future_<'_> {
        match self {
            Self::Group(group) => Box::pin(async {
                group.wait().await;
                Shown::Ready
            }),
            Self::Latch(latch) => Box::pin(async {
                latch.wait().await;
                Shown::Ready
            }),
            Self::Barrier(barrier) => Box::pin(async {
                if barrier.arrive_and_wait().await.is_leader() { Shown::Leader } else { Shown::Ready }
            }),
        }
    }

    fn add(&self) {
        if let Self::Group(group) = self {
            group.add(1);
        }
    }

    fn done(&self) {
        match self {
            Self::Group(group) => group.done(),
            Self::Latch(latch) => latch.count_down(),
            Self::Barrier(_) => unreachable!("the model has no such operation"),
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Group(group) => group.count(),
            Self::Latch(latch) => {
                assert_eq!(latch.try_wait(), latch.count() == 0);
                latch.count()
            }
            Self::Barrier(barrier) => {
                let text = format!("{barrier:?}");
                let (_, arrived) = text.rsplit_once("arrived: ").expect("it shows how many have arrived");
                arrived.trim_end_matches(" }").parse().expect("a number")
            }
        }
    }
}

struct Real<'o> {
    object: &'o Object,
    futures: [Option<Future_<'o>>; MAX_WAITERS],
}

impl System for Real<'_> {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let (mut poll, mut panicked) = (None, false);
        match op {
            Op::Poll(waiter, waker) => {
                let waker = tally::waker(2 * waiter + waker);
                let future = self.futures[waiter].get_or_insert_with(|| self.object.wait());
                poll = Some(match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    Poll::Ready(shown) => shown,
                    Poll::Pending => Shown::Pending,
                });
            }
            Op::Drop(waiter) => self.futures[waiter] = None,
            Op::Add => self.object.add(),
            // A panic is expensive, so only where the count says that there must be one.
            Op::Done if self.object.count() > 0 => self.object.done(),
            Op::Done => panicked = panics_silently(|| self.object.done()),
        }
        Seen { poll, panicked, count: self.object.count(), wakes: tally::wakes() }
    }

    /// All leave: no waker is left, and no arrival.
    fn finish(&mut self) {
        let members = self.object.count();
        self.futures = [const { None }; MAX_WAITERS];
        assert_eq!(tally::alive(), 0, "wakers made and not dropped");
        let expected = if matches!(self.object, Object::Barrier(_)) { 0 } else { members };
        assert_eq!(self.object.count(), expected);
    }
}

fn agree(name: &str, kind: Kind) {
    let (depth, waiters) = spec::size(4, MAX_WAITERS);
    enumerate(name, depth, &Spec::new(kind, waiters), |body| {
        tally::reset();
        let object = Object::new(kind);
        body(&mut Real { object: &object, futures: [const { None }; MAX_WAITERS] });
    });
}

#[test]
fn wait_group() {
    agree("wait group", Kind::Group);
}

#[test]
fn latch() {
    agree("latch", Kind::Latch);
}

#[test]
fn barrier_of_two() {
    agree("barrier of two", Kind::Barrier { parties: 2 });
}

#[test]
fn barrier_of_three() {
    agree("barrier of three", Kind::Barrier { parties: 3 });
}
