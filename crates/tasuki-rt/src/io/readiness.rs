//! What is known of a socket's readiness, and the tasks that wait for more.
//!
//! The operating system reports *changes* (edges): a socket that is readable is reported once, and again only after a read found nothing more. So what was reported
//! is kept here until an operation finds that it is over. Tasks come from one side, the worker that polls the system from the other.
//!
//! # The word
//! For each direction: ready; unbounded (a short count does not show that it is drained: the peer will send or take nothing more, or urgent data is in the
//! way); a waker is in the slot; tasks are enqueued; an operation has yielded. For both: the runtime is gone. The upper bits count the reports (the *tick*).
//!
//! | from | event | to | fn |
//! |---|---|---|---|
//! | any | a report of the system | its directions are ready, next tick, no task waits there | [`Readiness::deliver`] |
//! | not ready | a task stores its waker | a waker is in the slot | [`Readiness::register`] |
//! | a waker is in the slot | the operation that stored it is dropped | no waker is in the slot | [`Readiness::cancel`] |
//! | not ready | a task has enqueued itself beside | tasks are enqueued | [`Readiness::announce`] |
//! | ready or not, same tick as seen | an operation would block | not ready, not unbounded | [`Readiness::clear`] |
//! | ready, same tick as seen | an operation moved fewer bytes than there was room for | not ready, unless unbounded | [`Readiness::clear`] |
//! | any | an operation yields for want of budget; it is polled again | it has yielded; it has not | [`Readiness::set_yielded`] |
//! | any | the runtime shuts down | gone, both directions are ready | [`Readiness::deliver`] |
//!
//! # Invariants
//! 1. A direction that has been reported since an operation last found it drained is ready: `clear` compares the tick, so an older observation cannot erase a newer report.
//!    An operation finds it drained if it would block, or by a *short count*: it moved fewer bytes than there was room for. A short count is evidence only where the
//!    system has no other reason for it, which is not for this file to know. Callers must not give one for a read of a Unix stream, which ends behind a message that
//!    carries descriptors; for a vectored write, of which the system takes so many slices; nor on systems other than Linux, where the mark of urgent data is not reported.
//! 2. A task that was told to wait is woken by the next report of its direction: it stored its waker, or enqueued itself, before it changed the word, and the report
//!    changes the same word: the later of the two sees the other.
//! 3. An unbounded direction stays ready until an operation would block: its end (a read of 0 bytes) is reported once, and so are the bytes behind the mark of urgent data, at which a read
//!    ends short. A direction that would block had no end: it was urgent data, or the report was that of an earlier socket with the same token.
//!
//! # Orderings
//! Release in `register` and `announce` pairs with Acquire in `deliver`: the waker in the slot, or the place in the queue. What the system did is published by nothing here: the
//! operation that follows asks the system itself.

use crate::shim::{AtomicUsize, Mutex, MutexGuard, Ordering};
use std::sync::PoisonError;
use std::task::Waker;

/// One of the two directions of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read = 0,
    Write = 1,
}

/// What the system reports of one socket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Report {
    pub(crate) readable: bool,
    pub(crate) read_closed: bool,
    pub(crate) writable: bool,
    pub(crate) write_closed: bool,
    /// Urgent data: a read ends short at its mark, though more may be there.
    pub(crate) urgent: bool,
    /// Not of the system: the runtime polls no more.
    pub(crate) gone: bool,
}

/// Why a direction is no longer ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drained {
    /// The operation would block.
    WouldBlock,
    /// It moved fewer bytes than there was room for. Only on Linux: elsewhere a read may have ended at the mark of urgent data.
    ShortCount,
}

// The bits of the direction that reads; the other one's are beside each.
const READY: usize = 0b01;
const UNBOUNDED: usize = 0b01 << 2;
const IN_SLOT: usize = 0b01 << 4;
const ENQUEUED: usize = 0b01 << 6;
const YIELDED: usize = 0b01 << 8;
const GONE: usize = 1 << 10;
const TICK: usize = 1 << 11;

impl Direction {
    const BOTH: [Self; 2] = [Self::Read, Self::Write];

    const fn bit(self, bit: usize) -> usize {
        bit << self as usize
    }
}

/// What a look at a socket showed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    word: usize,
}

impl Seen {
    /// The runtime polls no more.
    pub(crate) fn is_gone(self) -> bool {
        self.word & GONE != 0
    }

    /// The operation has yielded for the budget.
    pub(crate) fn has_yielded(self, direction: Direction) -> bool {
        self.word & direction.bit(YIELDED) != 0
    }
}

/// Readiness of one socket.
#[derive(Debug)]
pub(crate) struct Readiness {
    word: AtomicUsize,
    slots: Mutex<[Option<Waker>; 2]>,
}

impl Readiness {
    /// `ready`: nothing is known, so the first operation tries.
    pub(crate) fn new(ready: bool) -> Self {
        let word = if ready { Direction::Read.bit(READY) | Direction::Write.bit(READY) } else { 0 };
        Self { word: AtomicUsize::new(word), slots: Mutex::new([None, None]) }
    }

    fn slots(&self) -> MutexGuard<'_, [Option<Waker>; 2]> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(word: usize, direction: Direction) -> Option<Seen> {
        let ready = direction.bit(READY) | direction.bit(UNBOUNDED) | GONE;
        (word & ready != 0).then_some(Seen { word })
    }

    /// What is known now, ready or not, for an operation that asks the system in any case. A report that comes after this is not erased by what it finds.
    #[inline]
    pub(crate) fn observe(&self) -> Seen {
        // Relaxed: as in `look`.
        Seen { word: self.word.load(Ordering::Relaxed) }
    }

    /// Is it ready, as far as is known?
    #[inline]
    pub(crate) fn look(&self, direction: Direction) -> Option<Seen> {
        // Relaxed: a hint; the operation that follows asks the system.
        Self::seen(self.word.load(Ordering::Relaxed), direction)
    }

    /// Stores the waker for the next report; or it is ready. A task that polled the same direction before is replaced.
    pub(crate) fn register(&self, waker: &Waker, direction: Direction) -> Option<Seen> {
        let at = direction as usize;
        let known = |slot: &Option<Waker>| slot.as_ref().is_some_and(|old| old.will_wake(waker));
        if !known(&self.slots()[at]) {
            // Foreign code: outside the lock.
            let new = waker.clone();
            let old = self.slots()[at].replace(new);
            drop(old);
        }
        // Release: pairs with Acquire in `deliver`: the waker.
        Self::seen(self.word.fetch_or(direction.bit(IN_SLOT), Ordering::Release), direction)
    }

    /// The operation of this direction is dropped: its waker, if it is still in the slot, is for the caller to drop. A report that comes at this moment wakes it, or finds the slot empty.
    #[inline]
    #[must_use]
    pub(crate) fn cancel(&self, direction: Direction) -> Option<Waker> {
        // Relaxed: the caller set the bit itself, if it is its own.
        if self.word.load(Ordering::Relaxed) & direction.bit(IN_SLOT) == 0 {
            None
        } else {
            self.cancel_slow(direction)
        }
    }

    #[cold]
    fn cancel_slow(&self, direction: Direction) -> Option<Waker> {
        // Relaxed: it publishes nothing, and the mutex guards the slot.
        self.word.fetch_and(!direction.bit(IN_SLOT), Ordering::Relaxed);
        self.slots()[direction as usize].take()
    }

    /// The caller has enqueued itself for the next report; or it is ready.
    pub(crate) fn announce(&self, direction: Direction) -> Option<Seen> {
        // Release: pairs with Acquire in `deliver`: its place in the queue.
        Self::seen(self.word.fetch_or(direction.bit(ENQUEUED), Ordering::Release), direction)
    }

    /// A report. Gives out the wakers of the slots, and says in which directions tasks are enqueued.
    pub(crate) fn deliver(&self, report: Report, mut wake: impl FnMut(Waker)) -> [bool; 2] {
        let [read, write] = Direction::BOTH;
        let bits = [
            (report.readable, read.bit(READY)),
            (report.read_closed || report.urgent, read.bit(READY) | read.bit(UNBOUNDED)),
            (report.writable, write.bit(READY)),
            (report.write_closed, write.bit(READY) | write.bit(UNBOUNDED)),
            (report.gone, read.bit(READY) | write.bit(READY) | GONE),
        ];
        let set = bits.into_iter().filter(|(is, _)| *is).fold(0, |set, (_, bits)| set | bits);
        // The waiting bits of the directions that are reported.
        let waiting = (set & (read.bit(READY) | write.bit(READY))) * (IN_SLOT | ENQUEUED);
        // Relaxed: the exchange repeats it.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let next = ((word | set) & !waiting).wrapping_add(TICK);
            // Acquire: pairs with Release in `register` and `announce`.
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        let was = word & waiting;
        if was & (read.bit(IN_SLOT) | write.bit(IN_SLOT)) != 0 {
            let mut slots = self.slots();
            let taken = Direction::BOTH.map(|direction| {
                if was & direction.bit(IN_SLOT) != 0 { slots[direction as usize].take() } else { None }
            });
            drop(slots);
            taken.into_iter().flatten().for_each(&mut wake);
        }
        Direction::BOTH.map(|direction| was & direction.bit(ENQUEUED) != 0)
    }

    /// An operation found that the direction is not ready, or no more. Nothing, if it has been reported since it was seen.
    pub(crate) fn clear(&self, seen: Seen, direction: Direction, why: Drained) {
        // Relaxed: the exchange repeats it.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let unbounded = word & direction.bit(UNBOUNDED) != 0;
            if word / TICK != seen.word / TICK || (unbounded && why == Drained::ShortCount) {
                return;
            }
            let next = word & !(direction.bit(READY) | direction.bit(UNBOUNDED));
            // Relaxed: it publishes nothing.
            match self.word.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// The wakers that are left in the slots, for the end of the socket.
    pub(crate) fn take_wakers(&mut self) -> [Option<Waker>; 2] {
        std::mem::take(self.slots.get_mut().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has an operation yielded for the budget, and not been polled since?
    pub(crate) fn has_yielded(&self, direction: Direction) -> bool {
        // Relaxed: only the task that polls this direction asks.
        Seen { word: self.word.load(Ordering::Relaxed) }.has_yielded(direction)
    }

    /// Notes whether an operation has yielded for the budget.
    #[cold]
    pub(crate) fn set_yielded(&self, direction: Direction, yielded: bool) {
        let bit = direction.bit(YIELDED);
        // Relaxed: only the task that polls this direction asks.
        if yielded {
            self.word.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.word.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}
