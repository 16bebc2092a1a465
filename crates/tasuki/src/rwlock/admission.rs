//! Admission to the reader-writer lock, with the queue locked: the holders, what is known of the queue, and which waiter or newcomer may enter.
//!
//! Called by `raw.rs` wherever waiters are involved. An [`Admission`] reads the counts when the queue is locked and stores them when it is dropped, which unlocks the queue. It must never
//! run foreign code: what it takes out of the queue is woken and dropped after the unlock.
//!
//! ```text
//!   writer leaves:   queue [R] [R] [U] [R] [W] [R]
//!                           ^   ^   ^   ^           granted together
//!                                           ^       stops: readers are inside, and no reader behind it passes it
//! ```
//!
//! The table of which kind may enter is that of [`raw`](super::raw).

use crate::probe::{GrantProbe, LockMode, WaitNote};
use crate::queue::batch::WakeBatch;
use crate::queue::grant_loop::Granter;
use crate::queue::waiter::{Payload, Waiter};
use crate::queue::word::{FLAG_A as WRITER, FLAG_B as UPGRADABLE, MAX_COUNT};
use crate::queue::{Deferred, LockedQueue, QueueGuard};
use crate::shim::UnsafeCell;
use core::task::Waker;

/// The most who may read at a time, the upgradable reader among them. Newcomers are let in while there are fewer plain readers than
/// this less one: the upgradable reader, who entered under the same rule, can then always become a plain one.
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
    const ALL: [Self; 4] = [Self::Read, Self::Upgradable, Self::Write, Self::Upgrade];

    pub(super) fn of(waiter: &Waiter) -> Self {
        Self::ALL[waiter.access()]
    }

    pub(super) fn payload(self) -> Payload {
        Payload::access(self as usize)
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
    fn stops_readers(self) -> bool {
        matches!(self, Self::Write | Self::Upgrade)
    }
}

/// What has no room in the word while there are waiters. Bytes, so that there is room for the hint behind them.
#[derive(Clone, Copy, Debug)]
pub(super) struct SideState {
    readers: [u8; 4],
    queued: [u8; 3],
}

impl SideState {
    pub(super) const EMPTY: Self = Self::new(0, Queued::EMPTY);
    /// As if so many writers waited that there is no room for another.
    #[cfg(test)]
    pub(super) const CROWD: Self = Self::new(0, Queued(Queued::LIMIT - Queued::STOPPER));

    const fn new(readers: u32, queued: Queued) -> Self {
        let [a, b, c, _] = queued.0.to_le_bytes();
        Self { readers: readers.to_le_bytes(), queued: [a, b, c] }
    }

    fn readers(self) -> u32 {
        u32::from_le_bytes(self.readers)
    }

    fn queued(self) -> Queued {
        let [a, b, c] = self.queued;
        Queued(u32::from_le_bytes([a, b, c, 0]))
    }
}

/// What is known of the queue without looking: how many of it stop readers, and where plain readers may be.
///
/// Upgradable readers that must wait are passed in the search for plain readers. So that they are not passed again and again,
/// it is known when there is none to find.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued(u32);

impl Queued {
    const EMPTY: Self = Self(0);
    /// There may be plain readers before the first waiter that stops them.
    const READERS_NEAR: u32 = 1;
    /// There may be plain readers behind it.
    const READERS_FAR: u32 = 2;
    /// A waiter that stops readers.
    const STOPPER: u32 = 4;

    fn has_stoppers(self) -> bool {
        self.0 >= Self::STOPPER
    }

    fn may_have_readers_near(self) -> bool {
        self.0 & Self::READERS_NEAR != 0
    }

    /// Three bytes are stored.
    const LIMIT: u32 = 1 << 24;

    /// Is there room for a writer? An upgrade, of which there is one at a time, always has room.
    pub(super) fn has_room(self) -> bool {
        self.0 < Self::LIMIT - 2 * Self::STOPPER
    }

    pub(super) fn enqueued(&mut self, kind: Kind) {
        if kind.stops_readers() {
            self.0 += Self::STOPPER;
            if kind == Kind::Upgrade {
                // It goes before all others.
                self.0 |= (self.0 & Self::READERS_NEAR) * Self::READERS_FAR;
            }
        } else if kind == Kind::Read {
            self.0 |= if self.has_stoppers() { Self::READERS_FAR } else { Self::READERS_NEAR };
        }
    }

    pub(super) fn removed(&mut self, kind: Kind) {
        if kind.stops_readers() {
            self.0 -= Self::STOPPER;
            // Those behind it may be before the first now.
            self.0 |= (self.0 / Self::READERS_FAR) & Self::READERS_NEAR;
        }
    }

    /// All before the first that stops readers have been looked at, and every plain reader among them granted.
    fn has_no_readers_near(&mut self) {
        self.0 &= !Self::READERS_NEAR;
    }

    /// The same for the whole queue.
    fn has_no_readers(&mut self) {
        self.0 &= !(Self::READERS_NEAR | Self::READERS_FAR);
    }
}

/// What becomes of a waiter that the grant loop looks at.
enum Decision {
    Grant,
    /// It goes on waiting, and those behind it are looked at.
    Pass,
    /// It goes on waiting, and so do all behind it.
    Stop,
}

/// What became of the first waiter.
#[must_use = "a granted waiter must be woken after the queue is unlocked, and others granted"]
pub(super) enum FirstGrant {
    /// It must wait, and so must all.
    None,
    /// It was granted, and no other can be.
    Alone(Deferred<Waker>),
    /// It was granted, or passed; there may be others to grant.
    Among(Deferred<Option<Waker>>),
}

/// The locked queue, with the counts of the holders.
pub(super) struct Admission<'l> {
    beside: &'l UnsafeCell<SideState>,
    pub(super) locked: LockedQueue<'l>,
    readers: u32,
    pub(super) queued: Queued,
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
            Self { beside, locked, readers: kept.readers(), queued: kept.queued(), probe }
        } else {
            let readers = locked.word().count() as u32;
            Self { beside, locked, readers, queued: Queued::EMPTY, probe }
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
        is_full(self.readers as usize) && self.is_next(kind) && self.has_room(kind)
    }

    /// A newcomer may not pass the queue, but for a reader that no writer waits behind. An upgrade goes before all others.
    fn is_next(&self, kind: Kind) -> bool {
        match kind {
            Kind::Read => !self.queued.has_stoppers(),
            Kind::Upgradable | Kind::Write => !self.locked.has_waiters(),
            Kind::Upgrade => true,
        }
    }

    /// The table of the module.
    fn is_open_to(&self, kind: Kind) -> bool {
        match kind {
            Kind::Read | Kind::Upgradable => self.has_room(kind) && !is_full(self.readers as usize),
            Kind::Write => !self.has(WRITER | UPGRADABLE) && self.readers == 0,
            Kind::Upgrade => self.readers == 0,
        }
    }

    /// Is there no holder that excludes this kind of reading?
    fn has_room(&self, kind: Kind) -> bool {
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

    /// What becomes of a queued waiter if all before it were granted, or passed.
    fn choose(&self, kind: Kind) -> Decision {
        if self.is_open_to(kind) {
            Decision::Grant
        } else if kind == Kind::Upgradable && !self.has(WRITER) && self.queued.may_have_readers_near() {
            Decision::Pass
        } else {
            Decision::Stop
        }
    }

    /// Grants the first in the queue if that can be done, which in most cases is all there is to do.
    pub(super) fn grant_first(&mut self) -> FirstGrant {
        let Some(kind) = self.locked.front().map(Kind::of) else { return FirstGrant::None };
        match self.choose(kind) {
            Decision::Stop => return FirstGrant::None,
            Decision::Pass => return FirstGrant::Among(Deferred::none()),
            Decision::Grant => {}
        }
        self.add_holder(kind);
        self.queued.removed(kind);
        self.note_grant(kind, self.locked.front_note());
        // SAFETY: there is a front; a lock never wakes a waiter without a grant.
        let waker = unsafe { self.locked.grant_sleeping_front() };
        match self.locked.front().map(|next| self.choose(Kind::of(next))) {
            None | Some(Decision::Stop) => FirstGrant::Alone(waker),
            Some(Decision::Grant | Decision::Pass) => FirstGrant::Among(waker.some()),
        }
    }

    /// An upgrade keeps what it holds; its own future says what becomes of it.
    #[inline(always)]
    fn note_grant(&self, kind: Kind, note: WaitNote) {
        if kind != Kind::Upgrade {
            self.probe.grant(kind.mode(), note);
        }
    }

    /// Could any waiter be granted?
    pub(super) fn can_grant(&self) -> bool {
        let mut at = self.locked.cursor_front();
        // SAFETY: a waiter of this list, from the first on, and nothing changes it.
        while let Some(waiter) = unsafe { self.locked.get(at) } {
            match self.choose(Kind::of(waiter)) {
                Decision::Grant => return true,
                // SAFETY: there is a waiter at this place.
                Decision::Pass => unsafe { self.locked.advance(&mut at) },
                Decision::Stop => return false,
            }
        }
        false
    }
}

impl Granter for Admission<'_> {
    fn grant_some(&mut self, batch: &mut WakeBatch) -> bool {
        let mut at = self.locked.cursor_front();
        while !batch.is_full() {
            // SAFETY: a waiter of this list, from the first on, and only `grant_at` changes it.
            let Some(waiter) = (unsafe { self.locked.get(at) }) else {
                self.queued.has_no_readers();
                return false;
            };
            let kind = Kind::of(waiter);
            match self.choose(kind) {
                Decision::Grant => {
                    let note = waiter.note();
                    self.add_holder(kind);
                    self.queued.removed(kind);
                    self.note_grant(kind, note);
                    // SAFETY: there is a waiter at this place.
                    batch.push(unsafe { self.locked.grant_at(&mut at) });
                }
                // SAFETY: there is a waiter at this place.
                Decision::Pass => unsafe { self.locked.advance(&mut at) },
                Decision::Stop => {
                    if kind.stops_readers() {
                        self.queued.has_no_readers_near();
                    }
                    return false;
                }
            }
        }
        true
    }
}

impl QueueGuard for Admission<'_> {}

impl Drop for Admission<'_> {
    /// Writes the counts back; the queue is unlocked behind it.
    fn drop(&mut self) {
        if self.locked.has_waiters() {
            let beside = SideState::new(self.readers, self.queued);
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
