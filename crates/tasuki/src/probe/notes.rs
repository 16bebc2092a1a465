//! The notes of locks and waits, where `inspect/` is active: which task has a lock, and what a wait is for.
//!
//! A thin layer: it knows the running task and the primitives' own types, and keeps its records in `inspect/`. Without a task that is known it does next to
//! nothing. `no_notes.rs` is the same surface, empty.

use super::LockMode;
pub(crate) use super::limits::limited;
use super::limits::{has_limit, is_limited};
pub use super::limits::{with_limit, without_limits};
use super::shown_lock::ShownLock;
pub(crate) use super::wait_note::{WaitNote, WaitSlot};
use crate::catch_panic::caught;
use crate::inspect::LockKind;
#[cfg(feature = "console")]
use crate::inspect::LockLabel;
pub(crate) use crate::inspect::locks::Held;
use crate::inspect::locks::{self, LockRecord};
use crate::inspect::waits::{self, NewWait, Want};
use crate::inspect::{AtomicStatic, begin_wait, check_cycle, queue};
use crate::shim::MODEL;
pub(crate) use crate::task::running::Polling;
use crate::task::{self, SelfDeadlock, TaskId};
use core::fmt;
use core::panic::Location;
use core::time::Duration;

/// Where in the user's code something was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site(&'static Location<'static>);

impl Site {
    #[track_caller]
    pub(crate) const fn here() -> Self {
        Self(Location::caller())
    }

    #[cfg(feature = "console")]
    pub(crate) const fn location(self) -> &'static Location<'static> {
        self.0
    }
}

/// The running task, 0 if it is not known.
#[inline(always)]
pub(super) fn my_number() -> u64 {
    if MODEL {
        return 0;
    }
    match task::running::get() {
        0 => ask_number(),
        number => number,
    }
}

/// It was not said in advance. If no runtime says it, it is the task whose waker polls a wait of ours at this moment.
#[cold]
#[inline(never)]
fn ask_number() -> u64 {
    task::current_or(|| caught(task::asked).flatten()).map_or_else(task::running::guessed, TaskId::get)
}

pub(super) fn me() -> Option<TaskId> {
    TaskId::from_number(my_number())
}

/// What a lock tells: which tasks have it, and its name.
pub(crate) struct LockProbe {
    /// Its record, null before the first use. Acquire and Release: the label of the record is written before.
    record: AtomicStatic<LockRecord>,
    kind: LockKind,
    made_at: Site,
    name: Option<&'static str>,
    #[cfg(feature = "console")]
    span: crate::trace::ResourceSpan,
}

impl LockProbe {
    #[track_caller]
    const fn new(kind: LockKind) -> Self {
        Self {
            record: AtomicStatic::new(),
            kind,
            made_at: Site::here(),
            name: None,
            #[cfg(feature = "console")]
            span: crate::trace::ResourceSpan::new(),
        }
    }

    #[track_caller]
    pub(crate) const fn mutex() -> Self {
        Self::new(LockKind::Mutex)
    }

    #[track_caller]
    pub(crate) const fn rwlock() -> Self {
        Self::new(LockKind::RwLock)
    }

    #[track_caller]
    pub(crate) const fn loop_mutex() -> Self {
        Self::new(LockKind::LoopMutex)
    }

    #[track_caller]
    pub(crate) const fn semaphore() -> Self {
        Self::new(LockKind::Semaphore)
    }

    /// The same lock, under a name. Before it is used.
    pub(crate) const fn rename(&mut self, name: &'static str) {
        self.name = Some(name);
    }

    /// It is the lock of a re-entrant mutex. Before it is used.
    pub(crate) const fn is_reentrant(&mut self) {
        self.kind = LockKind::ReentrantMutex;
    }

    /// The record, if there is one of this lock.
    #[inline(always)]
    fn record(&self) -> Option<&'static LockRecord> {
        self.record.get_published().filter(|record| !record.is_of_none())
    }

    /// The record, made if there is none; `None` if there is memory for no more.
    #[inline(always)]
    fn used_record(&self) -> Option<&'static LockRecord> {
        let record = match self.record.get_published() {
            Some(record) => record,
            None => self.make_record(),
        };
        (!record.is_of_none()).then_some(record)
    }

    /// Without memory the record of no lock: what was not noted from the beginning would be taken for free.
    #[cold]
    fn make_record(&self) -> &'static LockRecord {
        let record = locks::register(self.kind, self.name, self.made_at.0);
        self.record
            .publish_first(record)
            .inspect_err(|_| locks::unregister(record))
            .map_or_else(|first| first, |()| record)
    }

    /// The running task has the lock, alone.
    #[inline(always)]
    pub(crate) fn set(&self, at: Site) {
        let me = my_number();
        // Here, in `clear` and in `touch` that of no lock is not told from the others: it is seldom, and no look reads it.
        let record = match self.record.get_published() {
            None if me == 0 => return,
            None => self.make_record(),
            Some(record) => record,
        };
        record.holders.set(me, at.0);
    }

    /// The lock is about to be released, by its one holder.
    #[inline(always)]
    pub(crate) fn clear(&self) {
        if let Some(record) = self.record.get_published() {
            record.clear_holder();
        }
    }

    /// The lock is about to be granted to this waiter, alone. Called with the queue locked.
    pub(crate) fn grant(&self, note: WaitNote) {
        let Some(record) = self.record().filter(|_| note.0 != 0) else { return };
        if let (task, wait, Some(at)) = waits::granted(note.0) {
            record.holders.grant(task, at, wait);
        }
    }

    /// The grant of this waiter has been revoked. Called with the queue locked.
    pub(crate) fn revoke(&self, note: WaitNote) {
        self.clear();
        if note.0 != 0 {
            waits::revoked(note.0);
        }
    }

    /// The waiter is about to be moved to the queue of this lock, or back to it after its grant was revoked. Called with the queue locked.
    pub(crate) fn adopt(&self, note: WaitNote) {
        if note.0 != 0 {
            waits::moved(note.0, self.used_record(), true);
        }
    }

    /// The waiter, of another queue, is about to be granted this lock, which is free. Called with the queue locked.
    pub(crate) fn grant_moved(&self, note: WaitNote) {
        if note.0 != 0 {
            waits::moved(note.0, self.used_record(), false);
        }
        self.grant(note);
    }

    /// The guard of the one holder is used.
    #[inline(always)]
    pub(crate) fn touch(&self) {
        if let Some(record) = self.record.get_published() {
            if MODEL || !record.holders.is_first(task::running::get()) {
                record.holders.touch(my_number());
            }
        }
    }

    /// The guard of one of several holders is used.
    #[inline(always)]
    pub(crate) fn touch_held(&self, held: Held) {
        if !MODEL && !held.is_by(task::running::get()) {
            held.touch(my_number());
        }
    }

    /// The running task has the lock, perhaps beside others.
    #[inline(always)]
    pub(crate) fn add(&self, mode: LockMode, at: Site) -> Held {
        if MODEL {
            return Held::NONE;
        }
        let me = my_number();
        // Permits are counted from the beginning: one holder that is not known is enough to go on.
        let is_noted = me != 0 || mode.is_permits();
        // That of no lock is not told from the others here, either.
        match self.record.get_published() {
            None if !is_noted => Held::NONE,
            None => self.make_record().add_holder(me, mode, at.0, 0),
            Some(record) => record.add_holder(me, mode, at.0, 0),
        }
    }

    /// For those that grant the lock.
    #[inline]
    pub(crate) fn grants(&self) -> GrantProbe<'_> {
        GrantProbe(self)
    }

    /// The lock was taken at once, or the waiter has been polled, and found the grant.
    #[inline(always)]
    pub(crate) fn claim(&self, mode: LockMode, note: WaitNote, at: Site) -> Held {
        if note.0 == 0 { self.add(mode, at) } else { self.claim_grant(mode, note, at) }
    }

    fn claim_grant(&self, mode: LockMode, note: WaitNote, at: Site) -> Held {
        let held = waits::held(note.0);
        if held == Held::NONE {
            return self.add(mode, at);
        }
        held.claim(my_number(), mode, at.0);
        held
    }

    /// What is held is held in another way, by the running task.
    pub(crate) fn change(&self, held: Held, mode: LockMode) {
        self.touch_held(held);
        held.change(mode);
    }

    /// So many permits are free while there are waiters. Called with the queue locked.
    pub(crate) fn set_free_permits(&self, permits: usize) {
        if let Some(record) = self.record() {
            record.holders.set_free_permits(u32::try_from(permits).unwrap_or(u32::MAX));
        }
    }

    /// A guard of this re-entrant mutex is used: if not by its owner, it is not known which tasks have which guards.
    #[inline(always)]
    pub(crate) fn touch_shared(&self, owner: u64) {
        if self.record().is_some() && my_number() != owner {
            self.record().into_iter().for_each(|record| record.holders.touch(0));
        }
    }

    /// One of several holders is about to release the lock.
    #[inline(always)]
    pub(crate) fn remove(&self, held: Held) {
        LockRecord::remove_holder(|| self.record.get_published(), held);
    }

    /// Shows which tasks hold the lock, and how many wait for it.
    pub(crate) fn shown(&self) -> impl fmt::Debug + use<> {
        self.shown_as("locked")
    }

    /// The same of permits, if a task is known to have some or to wait.
    pub(crate) fn shown_permits(&self) -> Option<impl fmt::Debug + use<>> {
        Some(self.shown_as("taken")).filter(|shown| shown.holder.is_some() || shown.waiters.0 > 0)
    }

    fn shown_as(&self, word: &'static str) -> ShownLock {
        let record = self.record();
        let waiters = record.map_or((0, Duration::ZERO), |record| queue(record.id()));
        ShownLock { word, holder: record.and_then(|record| record.first_holder()), waiters }
    }
}

/// Notes the grants of a lock that several may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantProbe<'a>(&'a LockProbe);

impl GrantProbe<'_> {
    /// The lock is about to be granted to this waiter, perhaps beside others. Called with the queue locked.
    pub(crate) fn grant(self, mode: LockMode, note: WaitNote) {
        let Some(record) = self.0.record().filter(|_| note.0 != 0) else { return };
        if let (task, wait, Some(at)) = waits::granted(note.0) {
            waits::set_held(note.0, record.add_holder(task, mode, at, wait));
        }
    }

    /// The upgrade of this waiter, which holds the lock already, is about to be granted. Called with the queue locked.
    pub(crate) fn grant_upgrade(self, note: WaitNote) {
        if note.0 != 0 {
            let (wait, own) = waits::upgraded(note.0);
            own.grant_upgrade(wait);
        }
    }
}

impl Drop for LockProbe {
    fn drop(&mut self) {
        if let Some(record) = self.record.get_published() {
            locks::unregister(record);
        }
    }
}

impl fmt::Debug for LockProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown().fmt(f)
    }
}

/// What a wait is for.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    lock: Option<&'a LockProbe>,
    want: Want,
    /// Of an upgrade: what is held already.
    own: Held,
    permits: u32,
}

impl<'a> Target<'a> {
    /// A signal that any task may give.
    pub(crate) const SIGNAL: Self = Self { lock: None, want: Want::Signal, own: Held::NONE, permits: 0 };
    /// A time.
    pub(crate) const TIME: Self = Self { want: Want::Time, ..Self::SIGNAL };
    /// A time or a cancel that never comes.
    pub(crate) const NEVER: Self = Self { want: Want::Nothing, ..Self::SIGNAL };

    pub(crate) const fn lock(lock: &'a LockProbe, mode: LockMode) -> Self {
        Self { lock: Some(lock), want: Want::of(mode), ..Self::SIGNAL }
    }

    /// The lock is held in a weaker way, which does not keep this wait from its end.
    pub(crate) const fn upgrade(lock: &'a LockProbe, own: Held) -> Self {
        Self { lock: Some(lock), want: Want::Upgrade, own, permits: 0 }
    }

    pub(crate) fn permits(lock: &'a LockProbe, permits: usize) -> Self {
        let permits = u32::try_from(permits).unwrap_or(u32::MAX);
        Self { lock: Some(lock), want: Want::Permits, permits, ..Self::SIGNAL }
    }

    /// The span of the lock.
    #[cfg(feature = "console")]
    pub(crate) fn resource(&self) -> Option<crate::trace::ContainedSpan> {
        let lock = self.lock?;
        let label = LockLabel { kind: lock.kind, name: lock.name, made_at: Some(lock.made_at.0) };
        Some(lock.span.of(&label, lock.made_at.0))
    }

    #[cfg(feature = "console")]
    pub(crate) fn is_time(&self) -> bool {
        matches!(self.want, Want::Time | Want::Nothing)
    }

    /// The running task is about to wait for a lock that it holds: reports it, and panics in strict mode.
    #[cold]
    fn check(&self, me: TaskId, at: Site) {
        let is_own = matches!(self.want, Want::Permits | Want::Upgrade);
        let held_at = self
            .lock
            .filter(|_| !is_own)
            .and_then(LockProbe::record)
            .and_then(|record| record.held_by(me.get()));
        if let Some(held_at) = held_at {
            task::report(&SelfDeadlock::new(me, held_at, at.0, has_limit()));
        }
    }
}

/// Waits for a signal may have become waits for a lock ([`LockProbe::adopt`]). Called with no queue locked: it may start a thread.
pub(crate) fn waits_have_moved() {
    if !MODEL {
        crate::inspect::waits_have_moved();
    }
}

/// A wait that is about to begin. Dropped, it has not begun.
#[derive(Debug)]
pub(crate) struct WaitBegin {
    number: u32,
    task: u64,
}

impl WaitBegin {
    /// # Panics
    /// In strict mode, if the running task holds what it is about to wait for.
    pub(crate) fn new(target: Target<'_>, name: &'static &'static str, at: Site) -> Self {
        let Some(me) = me() else { return Self { number: 0, task: 0 } };
        if task::wants_reports() && !me.is_guessed() {
            target.check(me, at);
        }
        Self::of(me, target, name, Some(at.0))
    }

    #[inline]
    pub(super) fn of(
        me: TaskId,
        target: Target<'_>,
        name: &'static &'static str,
        at: Option<&'static Location<'static>>,
    ) -> Self {
        let lock = target.lock.and_then(LockProbe::used_record);
        let Target { want, own, permits, .. } = target;
        let has_readers = target.lock.is_some_and(|lock| lock.kind == LockKind::RwLock);
        let number = waits::prepare(&NewWait {
            task: me,
            lock,
            want,
            own,
            permits,
            is_limited: is_limited(),
            at,
            name,
            has_readers,
        });
        Self { number, task: me.get() }
    }

    pub(crate) fn note(&self) -> WaitNote {
        WaitNote(self.number)
    }

    /// The waiter has been enqueued.
    pub(crate) fn enqueued(self) -> BegunWait {
        let Self { number, task } = self;
        core::mem::forget(self);
        BegunWait { may_close: number != 0 && begin_wait(number), task }
    }
}

/// A wait that goes on.
#[derive(Clone, Copy, Debug)]
#[must_use = "in strict mode it panics if it closes a cycle"]
pub(crate) struct BegunWait {
    may_close: bool,
    task: u64,
}

impl BegunWait {
    /// # Panics
    /// In strict mode, if the wait closes a cycle of locks.
    #[inline]
    pub(crate) fn check(self) {
        if self.may_close && task::is_strict() && !has_limit() {
            check_cycle(self.task);
        }
    }
}

impl Drop for WaitBegin {
    fn drop(&mut self) {
        if self.number != 0 {
            waits::discard(self.number);
        }
    }
}
