//! Admission to the reader-writer lock, with the queue locked: the holders, what is known of the queue, and which waiter or newcomer may enter.
//!
//! Called by `raw.rs` wherever waiters are involved. An [`Admission`] reads the counts when the queue is locked and stores them when it is dropped, which unlocks the queue. It must never
//! run foreign code: what it takes out of the queue is woken and dropped after the unlock.
//!
//! ```text
//!   writer leaves:   queue [R] [R] [R] [U] [U] [W] [R]
//!                           ^   ^   ^   ^               granted together, from the front
//!                                           ^           stops all behind it: there is an upgradable reader inside
//! ```
//!
//! The table of which kind may enter is that of [`raw`](super::raw), the order of the queue that of [`segments`]: what is behind a waiter that must
//! wait must wait too, so a grant looks at the waiters that it grants, and at one more.

use super::segments;
use crate::probe::{GrantProbe, LockMode, WaitNote};
use crate::queue::batch::WakeBatch;
use crate::queue::grant_loop::Granter;
use crate::queue::waiter::{Payload, Waiter};
use crate::queue::word::{FLAG_A as WRITER, FLAG_B as UPGRADABLE, MAX_COUNT};
use crate::queue::{Deferred, LockedQueue, QueueGuard, QueueWaker};
use crate::shim::UnsafeCell;
use core::ptr;

/// How many may read at a time, the upgradable reader among them. Newcomers are let in while there are fewer plain readers than
/// this less one: the upgradable reader, which entered under the same rule, can then always become a plain one.
pub(super) const MAX_READERS: usize =
    if MAX_COUNT < u32::MAX as usize { MAX_COUNT } else { u32::MAX as usize };

/// A way to hold the lock, or to want it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Upgradable,
    Write,
    /// Wanted only: from `Upgradable` to `Write`.
    Upgrade,
}

impl Kind {
    pub(super) fn of(waiter: &Waiter) -> Self {
        #[cfg(all(test, feature = "std"))]
        super::segments::tests::count_look();
        match waiter.mark() {
            0 => Self::Read,
            1 => Self::Upgradable,
            2 => Self::Write,
            _ => Self::Upgrade,
        }
    }

    pub(super) fn payload(self) -> Payload {
        Payload::carrying(self as u32, ptr::null_mut())
    }

    /// As `inspect/` knows it.
    pub(super) fn mode(self) -> LockMode {
        match self {
            Self::Read => LockMode::Read,
            Self::Upgradable => LockMode::Upgradable,
            Self::Write => LockMode::Exclusive,
            Self::Upgrade => LockMode::Upgrade,
        }
    }

    /// Does it keep readers from entering while it is queued?
    pub(super) fn stops_readers(self) -> bool {
        matches!(self, Self::Write | Self::Upgrade)
    }
}

/// What has no room in the word while there are waiters. Bytes, so that there is room for the hint behind them.
#[derive(Clone, Copy, Debug)]
pub(super) struct SideState {
    readers: [u8; 4],
    stoppers: [u8; 3],
}

impl SideState {
    pub(super) const EMPTY: Self = Self::new(0, Stoppers::NONE);
    const fn new(readers: u32, stoppers: Stoppers) -> Self {
        let [a, b, c, _] = stoppers.0.to_le_bytes();
        Self { readers: readers.to_le_bytes(), stoppers: [a, b, c] }
    }

    /// As if so many writers waited that there is no room for another.
    #[cfg(all(test, feature = "std"))]
    pub(super) fn crowded(self) -> Self {
        Self::new(self.readers(), Stoppers(Stoppers::LIMIT - 2))
    }

    /// As if one more that stops readers waited.
    #[cfg(all(test, feature = "std"))]
    pub(super) fn with_another_stopper(self) -> Self {
        Self::new(self.readers(), Stoppers(self.stoppers().0 + 1))
    }

    fn readers(self) -> u32 {
        u32::from_le_bytes(self.readers)
    }

    fn stoppers(self) -> Stoppers {
        let [a, b, c] = self.stoppers;
        Stoppers(u32::from_le_bytes([a, b, c, 0]))
    }
}

/// How many of the queue stop readers. Three bytes are stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stoppers(u32);

impl Stoppers {
    const NONE: Self = Self(0);
    const LIMIT: u32 = 1 << 24;

    fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Is there room for a writer? An upgrade, of which there is one at a time, always has room.
    pub(super) fn has_room(self) -> bool {
        self.0 < Self::LIMIT - 2
    }

    pub(super) fn enqueued(&mut self, kind: Kind) {
        self.0 += u32::from(kind.stops_readers());
    }

    pub(super) fn removed(&mut self, kind: Kind) {
        self.0 -= u32::from(kind.stops_readers());
    }
}

/// What became of the first waiter.
#[must_use = "a granted waiter must be woken after the queue is unlocked, and others granted"]
pub(super) enum FirstGrant {
    /// It must wait, and so must all.
    None,
    /// It was granted, and no other can be.
    Alone(Deferred<QueueWaker>),
    /// It was granted, and so can be another.
    Among(Deferred<Option<QueueWaker>>),
}

/// The locked queue, with the counts of the holders.
pub(super) struct Admission<'l> {
    beside: &'l UnsafeCell<SideState>,
    pub(super) locked: LockedQueue<'l>,
    readers: u32,
    pub(super) stoppers: Stoppers,
    probe: GrantProbe<'l>,
}

impl<'l> Admission<'l> {
    /// Both are of the same lock.
    pub(super) fn new(
        beside: &'l UnsafeCell<SideState>,
        locked: LockedQueue<'l>,
        probe: GrantProbe<'l>,
    ) -> Self {
        if locked.has_waiters() {
            // SAFETY: invariant 3 of the lock: the queue is locked.
            let kept = beside.with(|beside| unsafe { *beside });
            Self { beside, locked, readers: kept.readers(), stoppers: kept.stoppers(), probe }
        } else {
            let readers = locked.word().count() as u32;
            Self { beside, locked, readers, stoppers: Stoppers::NONE, probe }
        }
    }

    fn has(&self, flag: usize) -> bool {
        self.locked.word().has(flag)
    }

    /// May a newcomer enter, or an upgrade pass the queue?
    pub(super) fn may_enter(&self, kind: Kind) -> bool {
        self.is_next(kind) && self.is_open_to(kind)
    }

    /// A newcomer enters if it may.
    pub(super) fn try_admit(&mut self, kind: Kind) -> bool {
        let enters = self.may_enter(kind);
        if enters {
            self.add_holder(kind);
        }
        enters
    }

    /// Is it only the number of readers that keeps a newcomer out?
    pub(super) fn is_over_limit(&self, kind: Kind) -> bool {
        is_full(self.readers as usize) && self.is_next(kind) && self.holders_admit(kind)
    }

    /// A newcomer may not pass the queue, but for a reader while neither a writer nor an upgrade is queued. An upgrade goes before all others.
    fn is_next(&self, kind: Kind) -> bool {
        match kind {
            Kind::Read => self.stoppers.is_none(),
            Kind::Upgradable | Kind::Write => !self.locked.has_waiters(),
            Kind::Upgrade => true,
        }
    }

    /// The table of the module.
    fn is_open_to(&self, kind: Kind) -> bool {
        match kind {
            Kind::Read | Kind::Upgradable => self.holders_admit(kind) && !is_full(self.readers as usize),
            Kind::Write => !self.has(WRITER | UPGRADABLE) && self.readers == 0,
            Kind::Upgrade => self.readers == 0,
        }
    }

    /// Is there no holder that excludes this way of reading, the number of readers aside? False for what is no reading.
    fn holders_admit(&self, kind: Kind) -> bool {
        match kind {
            Kind::Read => !self.has(WRITER),
            Kind::Upgradable => !self.has(WRITER | UPGRADABLE),
            Kind::Write | Kind::Upgrade => false,
        }
    }

    pub(super) fn add_holder(&mut self, kind: Kind) {
        match kind {
            Kind::Read => self.readers += 1,
            Kind::Upgradable => self.locked.set(UPGRADABLE),
            Kind::Write => self.locked.set(WRITER),
            Kind::Upgrade => {
                self.locked.clear(UPGRADABLE);
                self.locked.set(WRITER);
            }
        }
    }

    pub(super) fn remove_holder(&mut self, kind: Kind) {
        match kind {
            Kind::Read => self.readers -= 1,
            Kind::Upgradable => self.locked.clear(UPGRADABLE),
            Kind::Write | Kind::Upgrade => self.locked.clear(WRITER),
        }
    }

    pub(super) fn try_upgrade(&mut self) -> bool {
        let upgrades = self.is_open_to(Kind::Upgrade);
        if upgrades {
            self.add_holder(Kind::Upgrade);
        }
        upgrades
    }

    /// Could any waiter be granted? If the first cannot, none can.
    #[inline(always)]
    pub(super) fn can_grant(&self) -> bool {
        self.locked.front().is_some_and(|front| self.is_open_to(Kind::of(front)))
    }

    /// Grants the first waiter, if the lock is open to it.
    #[inline(always)]
    fn try_grant_front(&mut self) -> Option<Deferred<QueueWaker>> {
        let kind = self.locked.front().map(Kind::of).filter(|kind| self.is_open_to(*kind))?;
        self.add_holder(kind);
        self.stoppers.removed(kind);
        self.note_grant(kind, self.locked.front_note());
        // SAFETY: there is a front, of this kind.
        unsafe { segments::leaves_front(&self.locked, kind) };
        // SAFETY: there is a front; a lock never wakes a waiter without a grant.
        Some(unsafe { self.locked.grant_sleeping_front() })
    }

    /// Grants the first in the queue if that can be done, which in most cases is all there is to do.
    pub(super) fn grant_first(&mut self) -> FirstGrant {
        let Some(waker) = self.try_grant_front() else { return FirstGrant::None };
        if self.can_grant() { FirstGrant::Among(waker.some()) } else { FirstGrant::Alone(waker) }
    }

    /// An upgrade keeps the place that it has among the holders.
    #[inline(always)]
    fn note_grant(&self, kind: Kind, note: WaitNote) {
        if kind == Kind::Upgrade {
            self.probe.grant_upgrade(note);
        } else {
            self.probe.grant(kind.mode(), note);
        }
    }
}

impl Granter for Admission<'_> {
    fn grant_some(&mut self, batch: &mut WakeBatch) -> bool {
        while !batch.is_full() {
            let Some(waker) = self.try_grant_front() else { return false };
            batch.push(waker.some());
        }
        true
    }
}

impl QueueGuard for Admission<'_> {}

impl Drop for Admission<'_> {
    /// Writes the counts back; the queue is unlocked behind it.
    fn drop(&mut self) {
        if self.locked.has_waiters() {
            let beside = SideState::new(self.readers, self.stoppers);
            // SAFETY: invariant 3 of the lock: the queue is locked.
            self.beside.with_mut(|place| unsafe { *place = beside });
        } else {
            self.locked.set_count(self.readers as usize);
        }
    }
}

/// Are there so many plain readers that no other may read?
#[inline(always)]
pub(super) fn is_full(readers: usize) -> bool {
    readers >= MAX_READERS - 1
}

#[cold]
#[inline(never)]
pub(super) fn too_many_writers() -> ! {
    panic!("too many writers wait for one lock");
}

#[cold]
#[inline(never)]
#[track_caller]
pub(super) fn too_many_readers() -> ! {
    panic!("a lock has at most {MAX_READERS} readers at a time: some guards must have been forgotten");
}
