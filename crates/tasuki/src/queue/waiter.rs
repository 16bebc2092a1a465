//! The waiter: the node of a queue, inside a pinned future.
//!
//! A future that has to wait writes a [`Waiter`] into its own memory, which is pinned, and publishes it in a list. The waiter holds the waker of its task, a state that tells
//! its future whether it was granted, and the [`Payload`] that says what it asks for. It is shared by two parties: its future, and the holder of the queue lock.
//!
//! # States
//!
//! | state      | in the list | waker slot | may be touched by                    |
//! |------------|-------------|------------|--------------------------------------|
//! | `Waiting`  | yes         | full       | the holder of `EDIT`                 |
//! | `Woken`    | yes         | empty      | the holder of `EDIT`                 |
//! | `Notified` | no          | empty, or the ticket of a received message | its future alone |
//!
//! `Notified` comes with a verdict: granted, or refused. Refused means that the primitive was closed; in a `Revocable` mutex, that the grant was revoked.
//!
//! `Finished`, `Claimed` (finished, and there is a waiter: in its slot a receive keeps the ticket of its message) and `Cancelled`, the ends of a wait, are states of the future ([`Phase`]), which keeps them in the memory of
//! its waiter from the beginning: the waiter is then out of the list, its slot has no waker, and no pointer to it is left.
//!
//! | from       | event                          | to         | function          |
//! |------------|--------------------------------|------------|-------------------|
//! | (new)      | first poll, before publication | `Waiting`  | [`Waiter::new`]   |
//! | `Waiting`  | grant, refusal                 | `Notified` | [`notify`], [`notify_waiting`] |
//! | `Waiting`  | woken without a grant (`Bypass`, rendezvous), or with one that can be revoked (`Revocable`) | `Woken` | [`wake_only`] |
//! | `Woken`    | grant, refusal                 | `Notified` | [`notify`]        |
//! | `Woken`    | poll finds what it was woken for taken | `Waiting` | [`Waiter::rearm`] |
//! | `Waiting`  | poll with another waker        | `Waiting`  | [`Waiter::rearm`] |
//! | any in list| cancel, or a poll that takes   | `Notified` | [`notify`], [`notify_waiting`] |
//! | `Notified` | its future goes to another queue, or back after its grant was revoked | `Waiting` | [`Waiter::revive`] |
//!
//! # Orderings
//! `state`: Release in [`notify`] and [`notify_waiting`] pairs with Acquire in [`Waiter::state`]: what the granter did before
//! the grant happens before what the new owner does after it. All other writes happen under `EDIT`.

use super::QueueWaker;
use super::batch::while_unwinding;
use super::list::Links;
use crate::probe::{self, WaitNote};
use crate::shim::{AtomicI8, AtomicU32, Ordering, UnsafeCell};
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr;
use core::task::Waker;

/// See the table of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaiterState {
    Waiting,
    Woken,
    Notified,
}

/// How a wait ends that was not cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It has what it waited for.
    Granted,
    /// The primitive was closed; in a `Revocable` mutex, the grant was revoked.
    Refused,
}

/// Where the future of a waiter stands. Only the future itself looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not polled, or polled and not queued: there is no waiter.
    Idle,
    /// Polled once with the budget exhausted, and not queued: there is no waiter.
    Yielded,
    /// The waiter has been published; only `poll_queued` and `cancel` end that.
    Queued,
    /// The output has been given, or dropped by a panic. What is in the place of the waiter means nothing.
    Finished,
    /// The output has been given, and there is a waiter, in no queue.
    Claimed,
    /// A limit has ended the wait.
    Cancelled,
}

/// What a waiter brings into the queue beside its waker: a number and a word (a number or a pointer). Their meaning is that of its primitive. Each has a constructor here and a reader in
/// [`Waiter`]; no other code knows which of the two holds what. Both may change under `EDIT`; `request` does so only where the table says it.
///
/// | primitive | `counter` | `request` |
/// |---|---|---|
/// | `Mutex` | with `Revocable`: its mark (`mutex/raw/revoke.rs`) | with `Revocable`: the number of its task, which its future may replace |
/// | `Semaphore` | how often the waiter was overtaken | permits |
/// | `RwLock` | kind of access | the other end of its run (`rwlock/segments.rs`), replaced as the run changes |
/// | `KeyedMutex` | | key of the owner to be |
/// | `Condvar` | mark, beside that of a `Revocable` mutex | that of a `Revocable` mutex |
/// | `Broadcast`: `Event`, `Barrier`, `WaitGroup`, `Latch`, tokens | round in which the wait began | |
/// | `OnceCell` | round, as `Broadcast` | wish: the turn, or the value |
/// | timers | upper half of the due tick | lower half |
/// | channel, a send | 0 | pointer to its message |
/// | channel, a reservation | how many slots it asks for | null |
/// | channel, a receive | in a rendezvous: which list it is in | what was granted, written by the granter: the number of a slot, or the pointer of a boxed message |
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload {
    counter: u32,
    request: *mut (),
}

impl Payload {
    /// Nothing to say.
    pub(crate) const NONE: Self = Self { counter: 0, request: ptr::null_mut() };

    pub(crate) const fn permits(permits: usize) -> Self {
        Self::NONE.requesting(permits)
    }

    #[cfg(feature = "std")]
    pub(crate) const fn key(key: usize) -> Self {
        Self::NONE.requesting(key)
    }

    pub(crate) const fn task(mark: u32, task: usize) -> Self {
        Self { counter: mark, ..Self::NONE }.requesting(task)
    }

    pub(crate) const fn round(round: u32) -> Self {
        Self { counter: round, ..Self::NONE }
    }

    /// The same, of a waiter with this wish.
    pub(crate) const fn wishing(self, wish: usize) -> Self {
        self.requesting(wish)
    }

    /// In two halves, because a request may have 32 bits.
    #[cfg(feature = "std")]
    pub(crate) const fn due(tick: u64) -> Self {
        Self { counter: (tick >> 32) as u32, ..Self::NONE }.requesting((tick & 0xFFFF_FFFF) as usize)
    }

    pub(crate) const fn carrying(mark: u32, pointer: *mut ()) -> Self {
        Self { counter: mark, request: pointer }
    }

    const fn requesting(self, number: usize) -> Self {
        Self { request: ptr::without_provenance_mut(number), ..self }
    }
}

const WAITING: i8 = 0;
const WOKEN: i8 = 1;
const NOTIFIED: i8 = 2;
const REFUSED: i8 = 3;

/// A node of the wait queue. The alignment makes room for the tags of the word.
#[derive(Debug)]
#[repr(align(16))]
pub(crate) struct Waiter {
    pub(super) links: Links,
    waker: UnsafeCell<MaybeUninit<QueueWaker>>,
    state: AtomicI8,
    /// Where the future stands; only the future itself touches it. Here, and not beside the waiter, because here there is room for it: the alignment would make it cost 16 bytes.
    pub(crate) phase: Cell<Phase>,
    /// See [`Payload`]. Relaxed: changed only under `EDIT`, or by the future that alone knows the waiter.
    counter: AtomicU32,
    /// See [`Payload`]. Written before publication, so that every thread that can reach the waiter may read it. Only a channel, an `RwLock` and a `Revocable` mutex replace it later: under `EDIT`, or by the waiter's own future
    /// after it has seen `Notified`.
    request: UnsafeCell<*mut ()>,
    /// What `inspect/` knows of the wait.
    note: WaitNote,
}

// SAFETY: a waiter is shared between its future and the holder of `EDIT`, by the rules of the table.
unsafe impl Send for Waiter {}
// SAFETY: as above.
unsafe impl Sync for Waiter {}

impl Waiter {
    /// A complete waiter, ready to be put into a list.
    pub(crate) fn new(waker: QueueWaker, payload: Payload, note: WaitNote) -> Self {
        Self {
            links: Links::new(),
            waker: UnsafeCell::new(MaybeUninit::new(waker)),
            state: AtomicI8::new(WAITING),
            // As its future has it once it is enqueued, see `Single::enqueue`: one store for both.
            phase: Cell::new(Phase::Queued),
            counter: AtomicU32::new(payload.counter),
            request: UnsafeCell::new(payload.request),
            note,
        }
    }

    /// The fixed point of a ring; no task waits in it.
    pub(super) fn sentinel() -> Self {
        Self {
            links: Links::null(),
            waker: UnsafeCell::new(MaybeUninit::uninit()),
            state: AtomicI8::new(NOTIFIED),
            phase: Cell::new(Phase::Finished),
            counter: AtomicU32::new(0),
            request: UnsafeCell::new(ptr::null_mut()),
            note: WaitNote::NONE,
        }
    }

    /// Of a wait that was never enqueued, and has claimed a message with this ticket.
    pub(crate) fn claimed(ticket: i64) -> Self {
        let waiter = Self { phase: Cell::new(Phase::Claimed), ..Self::sentinel() };
        // SAFETY: a new one, `Notified`, which only its future knows.
        unsafe { waiter.set_ticket(ticket) };
        waiter
    }

    /// What `inspect/` knows of the wait.
    #[inline(always)]
    pub(crate) fn note(&self) -> WaitNote {
        self.note
    }

    /// `Queued => Finished`: a panic has dropped what was granted, so there is nothing to claim. Called by its own future, which has seen `Notified`.
    #[cold]
    pub(crate) fn ends_without_output(&self) {
        self.phase.set(Phase::Finished);
        self.note.end();
    }

    /// Keeps the ticket of the message that the wait has claimed, should it have to come back. In the slot of the waker, which is empty: a waiter has no other room for 64 bits.
    ///
    /// SAFETY: the caller is the waiter's own future and has seen `Notified`.
    #[inline(always)]
    pub(crate) unsafe fn set_ticket(&self, ticket: i64) {
        const { assert!(size_of::<QueueWaker>() >= size_of::<i64>()) };
        // SAFETY: `Notified`: no other thread has a pointer to the waiter, and the slot has no waker. It has room for it.
        self.waker.with_mut(|slot| unsafe { slot.cast::<i64>().write_unaligned(ticket) });
    }

    /// The ticket of the message that the wait has claimed.
    ///
    /// SAFETY: as [`set_ticket`](Self::set_ticket), which was called since.
    pub(crate) unsafe fn ticket(&self) -> i64 {
        // SAFETY: the caller's contract.
        self.waker.with(|slot| unsafe { slot.cast::<i64>().read_unaligned() })
    }

    /// The round in which the wait began.
    #[inline(always)]
    pub(crate) fn round(&self) -> u32 {
        // Relaxed: in a primitive with rounds nothing writes it after publication.
        self.counter.load(Ordering::Relaxed)
    }

    /// How many permits the waiter asks for.
    #[inline(always)]
    pub(crate) fn permits(&self) -> usize {
        self.pointer().addr()
    }

    /// The number of the waiter's task, if its mark says that there is one.
    #[inline(always)]
    pub(crate) fn task(&self) -> usize {
        self.pointer().addr()
    }

    /// The key that the waiter will own its lock with.
    #[cfg(feature = "std")]
    #[inline(always)]
    pub(crate) fn key(&self) -> usize {
        self.pointer().addr()
    }

    /// What the waiter wishes of a cell.
    #[inline(always)]
    pub(crate) fn wish(&self) -> usize {
        self.pointer().addr()
    }

    /// The tick at which the waiter is due.
    #[cfg(feature = "std")]
    #[inline(always)]
    pub(crate) fn due(&self) -> u64 {
        // Relaxed: on a wheel nothing writes it after publication.
        u64::from(self.counter.load(Ordering::Relaxed)) << 32 | self.pointer().addr() as u64
    }

    /// The pointer that the waiter carries. Asked under `EDIT`, or by the waiter's own future once it has seen `Notified`; at any time where
    /// [`set_pointer`](Self::set_pointer) is not called.
    #[inline(always)]
    pub(crate) fn pointer(&self) -> *mut () {
        // SAFETY: replaced only under `EDIT` before `Notified`, or by the future that alone knows the waiter.
        self.request.with(|request| unsafe { *request })
    }

    /// Replaces the pointer that the waiter carries.
    ///
    /// SAFETY: the caller holds `EDIT` and the waiter is in the list; or it is the waiter's own future and has seen `Notified`.
    #[inline(always)]
    pub(crate) unsafe fn set_pointer(&self, pointer: *mut ()) {
        // SAFETY: the caller's contract: no other access at this time.
        self.request.with_mut(|request| unsafe { *request = pointer });
    }

    /// How often the waiter has been overtaken. Exact under `EDIT`.
    #[inline]
    pub(super) fn overtaken(&self) -> u32 {
        // Relaxed: written under `EDIT`.
        self.counter.load(Ordering::Relaxed)
    }

    /// The waiter has been overtaken once more. Called under `EDIT`.
    #[inline]
    pub(super) fn count_overtake(&self) {
        // Relaxed, and not one operation: under `EDIT` only.
        self.counter.store(self.counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Which mark the waiter was given last, 0 if it was not. Exact under `EDIT` of the queue that marks; for a primitive
    /// that has no rounds and counts no overtakes here.
    pub(crate) fn mark(&self) -> u32 {
        // Relaxed: written under `EDIT`, or before the state that the future has seen with Acquire.
        self.counter.load(Ordering::Relaxed)
    }

    /// The mark of a waiter that has been notified, which nothing changes any more; `None` while it is in a list. Asked by the
    /// future itself.
    pub(crate) fn last_mark(&self) -> Option<u32> {
        (self.state() == WaiterState::Notified).then(|| self.mark())
    }

    /// Marks the waiter. Called under `EDIT` of the queue that marks.
    pub(crate) fn set_mark(&self, mark: u32) {
        // Relaxed: see `mark`.
        self.counter.store(mark, Ordering::Relaxed);
    }

    /// `Notified => Waiting`, to be put into another queue.
    ///
    /// SAFETY: the caller is the waiter's own future and has seen `Notified`.
    pub(super) unsafe fn revive(&self, waker: QueueWaker, mark: u32) {
        // SAFETY: `Notified`: no other thread has a pointer to the waiter.
        self.waker.with_mut(|slot| unsafe { (*slot).write(waker) });
        self.set_mark(mark);
        // Relaxed: other threads reach the waiter through the queue that it is put into.
        self.state.store(WAITING, Ordering::Relaxed);
    }

    /// How the wait ended. Asked by the future itself, once it has seen `Notified`.
    pub(crate) fn verdict(&self) -> Verdict {
        // Relaxed: the last write of the state, which the future has seen with Acquire in `state`.
        if self.state.load(Ordering::Relaxed) == REFUSED { Verdict::Refused } else { Verdict::Granted }
    }

    /// The state as its own future sees it.
    #[inline(always)]
    pub(crate) fn state(&self) -> WaiterState {
        // Acquire: pairs with Release in `notify`.
        match self.state.load(Ordering::Acquire) {
            WAITING => WaiterState::Waiting,
            WOKEN => WaiterState::Woken,
            _ => WaiterState::Notified,
        }
    }

    /// Would the stored waker wake the same task? Asked by the future itself while `Waiting`, or by the holder of `EDIT` while the waiter is in the list.
    ///
    /// A granter may move the waker out at the same moment. It moves by copying and nothing but the
    /// future writes the slot, so the bits stay readable; comparing them calls no foreign code. The
    /// answer is then about a wake-up that is already under way, which is as good.
    #[inline]
    pub(crate) fn will_wake(&self, waker: &Waker) -> bool {
        // SAFETY: invariant 4: the slot has been written, and is written only by this future.
        self.waker.with(|slot| unsafe { (*slot).assume_init_ref() }.will_wake(waker))
    }

    /// `Waiting => Waiting`, `Woken => Waiting` with another waker; returns the one it replaces.
    ///
    /// SAFETY: the caller is the waiter's own future, holds `EDIT`, and the waiter is in the list.
    #[inline]
    pub(crate) unsafe fn rearm(&self, waker: QueueWaker) -> Option<QueueWaker> {
        // SAFETY: the caller's contract.
        let old = unsafe { self.empty_slot() };
        // SAFETY: under `EDIT`, by the waiter's own future: no other thread looks at the slot.
        self.waker.with_mut(|slot| unsafe { (*slot).write(waker) });
        // Relaxed: read under `EDIT`, or by this future.
        self.state.store(WAITING, Ordering::Relaxed);
        old
    }

    /// Empties the slot of a waiter that leaves the list, or changes its waker.
    ///
    /// SAFETY: the caller holds `EDIT`; the waiter is in the list; the slot is not read again before it
    /// is written.
    #[inline]
    pub(crate) unsafe fn empty_slot(&self) -> Option<QueueWaker> {
        // Relaxed: only the holder of `EDIT` changes the state of a listed waiter.
        if self.state.load(Ordering::Relaxed) == WAITING {
            // SAFETY: invariant 4: a `Waiting` slot is full.
            Some(unsafe { self.take_waker() })
        } else {
            None
        }
    }

    /// SAFETY: the slot is full, the caller holds `EDIT` and moves the state away from `Waiting`.
    #[inline(always)]
    unsafe fn take_waker(&self) -> QueueWaker {
        // A shared access on purpose, see `will_wake`.
        // SAFETY: the caller's contract.
        self.waker.with(|slot| unsafe { (*slot).assume_init_read() })
    }
}

/// `Waiting | Woken => Notified`. The store is the last touch: the future may be gone after it.
///
/// SAFETY: the caller holds `EDIT` and has taken the waiter out of the list, where it was until now.
#[inline(always)]
#[must_use = "the new owner must be woken, after the queue has been unlocked"]
pub(crate) unsafe fn notify(waiter: *mut Waiter, verdict: Verdict) -> Option<QueueWaker> {
    // SAFETY: invariant 2: a listed waiter is alive, and stays so while we hold `EDIT`.
    let waker = unsafe { (*waiter).empty_slot() };
    // SAFETY: as above.
    let state = unsafe { &(*waiter).state };
    // SAFETY: as above.
    let note = unsafe { (*waiter).note };
    let notified = match verdict {
        Verdict::Granted => {
            note.came();
            NOTIFIED
        }
        Verdict::Refused => {
            note.refused();
            REFUSED
        }
    };
    // Release: pairs with Acquire in `Waiter::state`.
    state.store(notified, Ordering::Release);
    waker
}

/// `Waiting => Notified`, as [`notify`], of a waiter that has not been woken.
///
/// SAFETY: as [`notify`], and the state is `Waiting`.
#[inline(always)]
#[must_use = "the new owner must be woken, after the queue has been unlocked"]
pub(crate) unsafe fn notify_waiting(waiter: *mut Waiter) -> QueueWaker {
    // SAFETY: invariant 2, as in `notify`.
    let node = unsafe { &*waiter };
    debug_assert_eq!(node.state(), WaiterState::Waiting);
    // SAFETY: invariant 4: a `Waiting` slot is full.
    let waker = unsafe { node.take_waker() };
    node.note.came();
    // Release: pairs with Acquire in `Waiter::state`.
    node.state.store(NOTIFIED, Ordering::Release);
    waker
}

/// `Waiting => Woken`: the waiter is woken and stays in its list. It competes for a free lock (`Bypass`), or was granted the lock revocably (`Revocable`), or is to take a message (rendezvous).
///
/// SAFETY: the caller holds `EDIT` and the waiter is in the list.
#[inline]
#[must_use = "the waiter must be woken, after the queue has been unlocked"]
pub(crate) unsafe fn wake_only(waiter: *mut Waiter) -> Option<QueueWaker> {
    // SAFETY: invariant 2: a listed waiter is alive.
    let waiter = unsafe { &*waiter };
    // SAFETY: the state moves away from `Waiting` below.
    let waker = unsafe { waiter.empty_slot() };
    // Relaxed: the future re-checks under `EDIT`; nothing is published by being woken.
    waiter.state.store(WOKEN, Ordering::Relaxed);
    waker
}

/// Clones a waker; never under `EDIT`.
#[inline]
pub(crate) fn clone_waker(waker: &Waker) -> QueueWaker {
    probe::foreign_code();
    QueueWaker::new(waker.clone())
}

/// Drops a waker; never under `EDIT`.
#[inline]
pub(crate) fn drop_waker(waker: Option<QueueWaker>) {
    drop(waker);
}

/// Drops a waker that was cloned for a wait that turned out not to be needed. If that panics,
/// its output is not returned to any caller: `give_back` releases it.
#[cold]
pub(crate) fn drop_spare(waker: QueueWaker, give_back: impl FnOnce()) {
    struct GiveBack<F: FnOnce()>(Option<F>);
    impl<F: FnOnce()> Drop for GiveBack<F> {
        fn drop(&mut self) {
            if let Some(give_back) = self.0.take() {
                while_unwinding(give_back);
            }
        }
    }
    let mut on_panic = GiveBack(Some(give_back));
    drop_waker(Some(waker));
    on_panic.0 = None;
}

/// Wakes; never under `EDIT`. While a panic unwinds (a guard is dropped by it), a panic of the waker is dropped.
#[inline]
pub(crate) fn wake(waker: Option<QueueWaker>) {
    if let Some(waker) = waker {
        #[cfg(feature = "std")]
        if crate::runtime::is_baton() {
            return wake_inside_baton(waker);
        }
        wake_as_told(waker);
    }
}

/// Wakes as the kind that the driver of this thread has been told.
#[inline]
fn wake_as_told(waker: QueueWaker) {
    probe::foreign_code();
    while_unwinding(|| {
        #[cfg(feature = "std")]
        super::nested_wakes::wake(waker);
        #[cfg(not(feature = "std"))]
        waker.wake();
    });
}

/// A waker that is woken with a baton wakes another waiter without one: that one must not be taken for the owner of something.
#[cfg(feature = "std")]
#[cold]
#[inline(never)]
fn wake_inside_baton(waker: QueueWaker) {
    crate::runtime::waking_as(crate::runtime::WakeKind::Plain, || wake_as_told(waker));
}

/// Wakes what `next` gives, until it gives nothing; never under `EDIT`.
#[inline(always)]
pub(super) fn wake_each(
    #[cfg_attr(feature = "std", expect(unused_mut))] mut next: impl FnMut() -> Option<QueueWaker>,
) {
    probe::foreign_code();
    #[cfg(feature = "std")]
    crate::runtime::waking_plainly(|| super::nested_wakes::wake_each(next));
    #[cfg(not(feature = "std"))]
    while let Some(waker) = next() {
        waker.wake();
    }
}

/// Wakes a waiter that was made the owner of something, or that is the next to take a lock that is free; never under `EDIT`.
///
/// The wake is called, not inlined: with it a guard's drop would be too big to be inlined itself, and a call of that is five stores ahead of the compare-exchange of the unlock (decision 6).
#[inline(always)]
pub(crate) fn wake_owner(waker: Option<QueueWaker>) {
    if let Some(waker) = waker {
        wake_one_owner(waker);
    }
}

#[inline(never)]
fn wake_one_owner(waker: QueueWaker) {
    // A look at what seldom changes, instead of two stores that the next locked operation would have to wait for.
    #[cfg(feature = "std")]
    if crate::runtime::is_entered() {
        return wake_baton(waker);
    }
    wake_as_told(waker);
}

/// Tells the driver of this thread, which may ask, that the wake passes a baton. Apart, because it saves registers.
#[cfg(feature = "std")]
#[inline(never)]
fn wake_baton(waker: QueueWaker) {
    crate::runtime::waking_as(crate::runtime::WakeKind::Baton, || wake_as_told(waker));
}
