//! Every string of operations on a reader-writer lock, against a model of a few lines: which waits are ready, which are woken and how often,
//! and which kinds of access could enter at once, after every step.
//!
//! `TASUKI_SPEC_DEPTH=9 TASUKI_SPEC_WAITERS=4` (in release) is the long form.
//! S3-20, S3-24; B011, B021, B055, B057, H2, H4, H8, H10.

use crate::kit::spec::{self, Model, System, enumerate};
use crate::kit::tally;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tasuki::future::{Read, UpgradableRead, Upgrade, Write};
use tasuki::{RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};

const MAX_WAITERS: usize = 4;
/// The slot of the holder of the lock from the beginning.
const HOLDER: usize = MAX_WAITERS;
const SLOTS: usize = MAX_WAITERS + 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Upgradable,
    Write,
    Upgrade,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    /// The first poll of a newcomer.
    Begin(usize, Kind),
    /// Polls a waiter with the first or the second of its two wakers.
    Poll(usize, usize),
    /// Drops a future, or the guard that came of it.
    Drop(usize),
    /// The first poll of an upgrade by an upgradable reader.
    Upgrade(usize),
    TryUpgrade(usize),
    /// A writer or an upgradable reader becomes a reader.
    Downgrade(usize),
    /// A writer becomes the upgradable reader.
    Relax(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Result {
    Ready,
    Pending,
    Refused,
    Done,
}

#[derive(Debug, PartialEq)]
struct Seen {
    result: Result,
    /// Could a newcomer read, read upgradably, write?
    open: [bool; 3],
    wakes: [u8; tally::WAKERS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Queued(Kind),
    Granted(Kind),
    /// An upgrade that was granted holds as a writer.
    Holding(Kind),
    Gone,
}

/// What the lock is, said with a list.
#[derive(Clone)]
struct Spec {
    waiters: usize,
    readers: usize,
    upgradable: bool,
    writer: bool,
    queue: Vec<usize>,
    state: [State; SLOTS],
    waker: [usize; SLOTS],
    wakes: [u8; tally::WAKERS],
}

impl Spec {
    fn new(waiters: usize, held: Kind) -> Self {
        let mut spec = Self {
            waiters,
            readers: 0,
            upgradable: false,
            writer: false,
            queue: Vec::with_capacity(SLOTS),
            state: [State::New; SLOTS],
            waker: [0; SLOTS],
            wakes: [0; tally::WAKERS],
        };
        spec.take(held);
        spec.state[HOLDER] = State::Holding(held);
        spec
    }

    fn may(&self, kind: Kind) -> bool {
        match kind {
            Kind::Read => !self.writer,
            Kind::Upgradable => !self.writer && !self.upgradable,
            Kind::Write => !self.writer && !self.upgradable && self.readers == 0,
            Kind::Upgrade => self.readers == 0,
        }
    }

    fn take(&mut self, kind: Kind) {
        match kind {
            Kind::Read => self.readers += 1,
            Kind::Upgradable => self.upgradable = true,
            Kind::Write => self.writer = true,
            Kind::Upgrade => (self.upgradable, self.writer) = (false, true),
        }
    }

    fn leave(&mut self, kind: Kind) {
        match kind {
            Kind::Read => self.readers -= 1,
            Kind::Upgradable => self.upgradable = false,
            Kind::Write | Kind::Upgrade => self.writer = false,
        }
    }

    fn kind(&self, slot: usize) -> Kind {
        match self.state[slot] {
            State::Queued(kind) | State::Granted(kind) | State::Holding(kind) => kind,
            state => panic!("{slot} is {state:?}"),
        }
    }

    /// A newcomer queues behind others; but a reader that no writer waits before need not.
    fn enters(&self, kind: Kind) -> bool {
        let stops = |slot: &usize| matches!(self.kind(*slot), Kind::Write | Kind::Upgrade);
        let stopped = if kind == Kind::Read { self.queue.iter().any(stops) } else { !self.queue.is_empty() };
        !stopped && self.may(kind)
    }

    fn serve(&mut self) {
        let mut at = 0;
        while let Some(slot) = self.queue.get(at).copied() {
            let kind = self.kind(slot);
            if self.may(kind) {
                self.queue.remove(at);
                self.take(kind);
                self.state[slot] = State::Granted(kind);
                self.wakes[2 * slot + self.waker[slot]] += 1;
            } else if kind == Kind::Upgradable && !self.writer {
                at += 1;
            } else {
                return;
            }
        }
    }

    fn begin(&mut self, slot: usize, kind: Kind) -> Result {
        if self.enters(kind) {
            self.take(kind);
            self.state[slot] = State::Holding(kind);
            return Result::Ready;
        }
        self.state[slot] = State::Queued(kind);
        self.queue.push(slot);
        Result::Pending
    }

    fn poll(&mut self, slot: usize, waker: usize) -> Result {
        let State::Granted(kind) = self.state[slot] else {
            self.waker[slot] = waker;
            return Result::Pending;
        };
        self.state[slot] = State::Holding(kind);
        Result::Ready
    }

    fn drop_slot(&mut self, slot: usize) {
        match std::mem::replace(&mut self.state[slot], State::Gone) {
            State::Queued(kind) => {
                self.queue.retain(|other| *other != slot);
                self.serve();
                if kind == Kind::Upgrade {
                    // With the future goes the guard that it consumed.
                    self.leave(Kind::Upgradable);
                }
            }
            State::Granted(kind) | State::Holding(kind) => self.leave(kind),
            State::New | State::Gone => {}
        }
        self.serve();
    }

    fn upgrade(&mut self, slot: usize, waits: bool) -> Result {
        if self.may(Kind::Upgrade) {
            self.take(Kind::Upgrade);
            self.state[slot] = State::Holding(Kind::Write);
            return Result::Ready;
        }
        if !waits {
            return Result::Refused;
        }
        self.state[slot] = State::Queued(Kind::Upgrade);
        self.waker[slot] = 0;
        self.queue.insert(0, slot);
        Result::Pending
    }

    fn weaken(&mut self, slot: usize, to: Kind) {
        self.leave(self.kind(slot));
        self.take(to);
        self.state[slot] = State::Holding(to);
        self.serve();
    }

    fn check(&self) {
        assert!(!self.writer || self.readers == 0 && !self.upgradable, "a writer is alone");
        let served = |slot: &usize| self.may(self.kind(*slot));
        assert!(!self.queue.first().is_some_and(served), "the first could be served");
    }
}

impl System for Spec {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let mut result = Result::Done;
        match op {
            Op::Begin(slot, kind) => result = self.begin(slot, kind),
            Op::Poll(slot, waker) => result = self.poll(slot, waker),
            Op::Drop(slot) => self.drop_slot(slot),
            Op::Upgrade(slot) => result = self.upgrade(slot, true),
            Op::TryUpgrade(slot) => result = self.upgrade(slot, false),
            Op::Downgrade(slot) => self.weaken(slot, Kind::Read),
            Op::Relax(slot) => self.weaken(slot, Kind::Upgradable),
        }
        self.check();
        let open = [Kind::Read, Kind::Upgradable, Kind::Write].map(|kind| self.enters(kind));
        Seen { result, open, wakes: self.wakes }
    }
}

impl Model for Spec {
    fn next(&self, ops: &mut Vec<Op>) {
        let mut begins = true;
        for slot in (0..self.waiters).chain([HOLDER]) {
            match self.state[slot] {
                // Newcomers are alike, and so are the two wakers of one that is new.
                State::New if begins => {
                    ops.extend([Kind::Read, Kind::Upgradable, Kind::Write].map(|kind| Op::Begin(slot, kind)));
                    begins = false;
                }
                State::New | State::Gone => {}
                // A poll with the waker that is there already changes nothing: `rwlock.rs` sees to that.
                State::Queued(_) => ops.extend([Op::Poll(slot, 1 - self.waker[slot]), Op::Drop(slot)]),
                State::Granted(_) => ops.extend([Op::Poll(slot, 0), Op::Drop(slot)]),
                State::Holding(Kind::Read) => ops.push(Op::Drop(slot)),
                State::Holding(Kind::Upgradable) => {
                    ops.extend([
                        Op::Drop(slot),
                        Op::Upgrade(slot),
                        Op::TryUpgrade(slot),
                        Op::Downgrade(slot),
                    ]);
                }
                State::Holding(_) => ops.extend([Op::Drop(slot), Op::Downgrade(slot), Op::Relax(slot)]),
            }
        }
    }
}

/// A future of the lock, or what came of it.
enum Slot<'l> {
    Empty,
    Read(Pin<Box<Read<'l, u32>>>),
    Upgradable(Pin<Box<UpgradableRead<'l, u32>>>),
    Write(Pin<Box<Write<'l, u32>>>),
    Upgrade(Pin<Box<Upgrade<&'l RwLock<u32>>>>),
    Reader { _held: RwLockReadGuard<'l, u32> },
    UpgradableReader(RwLockUpgradableReadGuard<'l, u32>),
    Writer(RwLockWriteGuard<'l, u32>),
}

struct Real<'l> {
    lock: &'l RwLock<u32>,
    slots: [Slot<'l>; SLOTS],
}

fn poll<F: Future>(future: &mut Pin<Box<F>>, waker: usize) -> Poll<F::Output> {
    let waker = tally::waker(waker);
    future.as_mut().poll(&mut Context::from_waker(&waker))
}

impl<'l> Real<'l> {
    fn new(lock: &'l RwLock<u32>, held: Kind) -> Self {
        tally::reset();
        let mut real = Self { lock, slots: [const { Slot::Empty }; SLOTS] };
        assert_eq!(real.begin(HOLDER, held), Result::Ready);
        real
    }

    fn begin(&mut self, slot: usize, kind: Kind) -> Result {
        self.slots[slot] = match kind {
            Kind::Read => Slot::Read(Box::pin(self.lock.read())),
            Kind::Upgradable => Slot::Upgradable(Box::pin(self.lock.upgradable_read())),
            Kind::Write => Slot::Write(Box::pin(self.lock.write())),
            Kind::Upgrade => panic!("no access begins with an upgrade"),
        };
        self.poll(slot, 0)
    }

    fn poll(&mut self, slot: usize, waker: usize) -> Result {
        let waker = 2 * slot + waker;
        let held = match &mut self.slots[slot] {
            Slot::Read(future) => poll(future, waker).map(|held| Slot::Reader { _held: held }),
            Slot::Upgradable(future) => poll(future, waker).map(Slot::UpgradableReader),
            Slot::Write(future) => poll(future, waker).map(Slot::Writer),
            Slot::Upgrade(future) => poll(future, waker).map(Slot::Writer),
            _ => panic!("{slot} does not wait"),
        };
        let Poll::Ready(held) = held else { return Result::Pending };
        self.slots[slot] = held;
        Result::Ready
    }

    fn take(&mut self, slot: usize) -> Slot<'l> {
        std::mem::replace(&mut self.slots[slot], Slot::Empty)
    }

    fn take_upgradable(&mut self, slot: usize) -> RwLockUpgradableReadGuard<'l, u32> {
        let Slot::UpgradableReader(guard) = self.take(slot) else { panic!("{slot} is no upgradable reader") };
        guard
    }

    fn try_upgrade(&mut self, slot: usize) -> Result {
        match RwLockUpgradableReadGuard::try_upgrade(self.take_upgradable(slot)) {
            Ok(guard) => {
                self.slots[slot] = Slot::Writer(guard);
                Result::Ready
            }
            Err(guard) => {
                self.slots[slot] = Slot::UpgradableReader(guard);
                Result::Refused
            }
        }
    }

    fn downgrade(&mut self, slot: usize) {
        let held = match self.take(slot) {
            Slot::Writer(guard) => RwLockWriteGuard::downgrade(guard),
            Slot::UpgradableReader(guard) => RwLockUpgradableReadGuard::downgrade(guard),
            _ => panic!("{slot} cannot be downgraded"),
        };
        self.slots[slot] = Slot::Reader { _held: held };
    }

    fn relax(&mut self, slot: usize) {
        let Slot::Writer(guard) = self.take(slot) else { panic!("{slot} is no writer") };
        self.slots[slot] = Slot::UpgradableReader(RwLockWriteGuard::downgrade_to_upgradable(guard));
    }
}

impl System for Real<'_> {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let mut result = Result::Done;
        match op {
            Op::Begin(slot, kind) => result = self.begin(slot, kind),
            Op::Poll(slot, waker) => result = self.poll(slot, waker),
            Op::Drop(slot) => self.slots[slot] = Slot::Empty,
            Op::Upgrade(slot) => {
                let guard = self.take_upgradable(slot);
                self.slots[slot] = Slot::Upgrade(Box::pin(RwLockUpgradableReadGuard::upgrade(guard)));
                result = self.poll(slot, 0);
            }
            Op::TryUpgrade(slot) => result = self.try_upgrade(slot),
            Op::Downgrade(slot) => self.downgrade(slot),
            Op::Relax(slot) => self.relax(slot),
        }
        // One at a time: each lets go of the lock before the next tries.
        let read = self.lock.try_read().is_some();
        let upgradable = self.lock.try_upgradable_read().is_some();
        let write = self.lock.try_write().is_some();
        let open = [read, upgradable, write];
        Seen { result, open, wakes: tally::wakes() }
    }

    /// All leave: the lock is free, and no waker is left.
    fn finish(&mut self) {
        self.slots = [const { Slot::Empty }; SLOTS];
        assert!(self.lock.try_write().is_some(), "left locked");
        assert_eq!(tally::alive(), 0, "wakers made and not dropped");
    }
}

fn agree(held: Kind) {
    let (depth, waiters) = spec::size_of_many(5, 3, MAX_WAITERS);
    let name = format!("RwLock, {held:?} held");
    enumerate(&name, depth, &Spec::new(waiters, held), |body| {
        let lock = RwLock::new(0);
        body(&mut Real::new(&lock, held));
    });
}

#[test]
fn with_a_writer() {
    agree(Kind::Write);
}

#[test]
fn with_a_reader() {
    agree(Kind::Read);
}

#[test]
fn with_an_upgradable_reader() {
    agree(Kind::Upgradable);
}
