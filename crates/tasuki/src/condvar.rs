//! The condition variable: waiters that a notification moves to the queue of their mutex.
//!
//! A notified waiter is not woken to fight for the mutex: it is put into the mutex's queue, and woken as
//! its owner. So one wake-up is one acquisition, and a `notify_all` of a thousand wakes one.
//!
//! # Places of a waiter
//!
//! | place                | mark         | leaves it by |
//! |----------------------|--------------|--------------|
//! | the condvar's list   | 0            | a notification, or a cancel |
//! | a ring of `notify_all` | 0          | its move, or a cancel |
//! | the mutex's queue    | `BY_ONE`, `BY_ALL` | a grant, or a cancel: a notification by one is passed on |
//! | none, granted        | the same     | a poll, or a cancel: unlocks, and passes on |
//!
//! A move happens under the `EDIT` bits of both queues, the condvar's taken first, and is final. So a future that
//! must touch its place edits the condvar's queue and looks at its mark: if it is 0 the waiter is here, and
//! stays here for as long as the edit lasts; otherwise it belongs to the mutex for good.
//!
//! # Transitions
//!
//! | event                  | what happens | fn |
//! |------------------------|--------------|----|
//! | first poll             | queued here, then the mutex is unlocked | [`CondvarOp::start`], [`CondvarOp::queued`] |
//! | `notify_one`           | the first is moved | [`Condvar::notify_one`] |
//! | `notify_all`           | all present are moved, in bounded steps | [`Condvar::notify_all`] |
//! | poll                   | `Ready` once the mutex is owned | [`CondvarOp::poll_queued`] |
//! | drop, or a limit       | leaves its place | [`CondvarOp::cancel`], [`CondvarOp::discard`] |
//!
//! # Orderings
//! None of its own: both words are edited with Acquire and Release, and the grant is the mutex's. The look of
//! [`Condvar::notify_one`] before the edit is Relaxed: a notifier that must not miss a waiter has the mutex's word between the two.

use crate::guard::{Guard, Holder};
use crate::mutex::Relock;
use crate::queue::batch::WakeBatch;
use crate::queue::ring::Ring;
use crate::queue::sweep::{Ledger, sweep};
use crate::queue::waiter::{Ask, State, clone_waker, drop_waker, wake_owner};
use crate::queue::word::{EDIT, WAITERS, Word};
use crate::queue::{Editing, Moving, Pinned, Removed, WaitQueue};
use crate::shim::{self, UnsafeCell, const_fn};
use crate::wait::{Compound, Op, Seat, Wait, Waiting, Withdraw};
use core::fmt;
use core::future::Future;
use core::panic::RefUnwindSafe;
use core::pin::{Pin, pin};
use core::ptr;
use core::task::{Context, Poll, Waker};

const BY_ONE: u32 = 1;
const BY_ALL: u32 = 2;

/// How many waiters one hold of both `EDIT` bits may move.
const STEP: usize = if shim::MODEL { 2 } else { 32 };

/// Waits for a condition that a [`Mutex`](crate::Mutex) protects.
///
/// [`wait`](Self::wait) gives the mutex up and waits for a notification in one step, and comes back as the owner. There are no spurious wake-ups, and no
/// notification is kept for later: with nobody waiting it does nothing.
///
/// # Order
///
/// First come, first served; a notified waiter joins the queue of the mutex, behind those who wait for it
/// already.
///
/// # Cancel
///
/// Dropping a wait that was notified by `notify_one` and has not come back passes the notification to the next waiter. A
/// wait that ends by a limit gives no guard back.
///
/// # Panic
///
/// Using one condvar with two mutexes at a time panics, and changes nothing.
///
/// # Memory ordering
///
/// That of the mutex.
///
/// # Re-entrancy
///
/// Wakers may call anything on the condvar and the mutex.
///
/// # Limits
///
/// None on the number of waiters.
///
/// # Futurelock
///
/// A wait that was notified and is then neither polled nor dropped can own the mutex, and keeps it.
///
/// # When to use something else
///
/// To wait for a flag, an [`Event`](crate::Event); for a count, a [`Semaphore`](crate::Semaphore).
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use tasuki::{Condvar, Mutex};
///
/// let shared = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
/// let producer = shared.clone();
/// std::thread::spawn(move || {
///     producer.0.lock().block().push(1);
///     producer.1.notify_one();
/// });
/// let (mutex, condvar) = &*shared;
/// let items = mutex.lock().block();
/// let items = condvar.wait_while(items, |items| items.is_empty()).block();
/// assert_eq!(*items, [1]);
/// ```
pub struct Condvar {
    queue: WaitQueue,
    /// The mutex of those who wait; touched only by the editor, means something only while somebody waits.
    in_use: UnsafeCell<InUse>,
}

/// A mutex without its type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InUse {
    pub(crate) mutex: *const (),
    /// SAFETY of the call: `mutex` is what it was made for, and alive.
    pub(crate) adopt: unsafe fn(*const (), &mut dyn FnMut() -> Option<Moving>) -> Option<Waker>,
}

// SAFETY: `in_use` is touched only by the editor; the mutexes it names are `Sync` or used by one thread, see `Relock`.
unsafe impl Send for Condvar {}
// SAFETY: as above.
unsafe impl Sync for Condvar {}
impl RefUnwindSafe for Condvar {}

/// The future of [`Condvar::wait`].
pub type WaitNotified<'a, H> = Wait<CondvarOp<'a, H>>;

impl Condvar {
    const_fn! {
        /// A condvar that nobody waits on.
        ///
        /// # Examples
        ///
        /// ```
        /// static CHANGED: tasuki::Condvar = tasuki::Condvar::new();
        /// CHANGED.notify_all();
        /// ```
        pub const fn new() -> Self {
            let in_use = InUse { mutex: ptr::null(), adopt: adopt_nobody };
            Self { queue: WaitQueue::new(Word::flags(0)), in_use: UnsafeCell::new(in_use) }
        }
    }

    /// Gives the mutex up, waits for a notification, and comes back as the owner of the mutex.
    ///
    /// The mutex is given up at the first poll. Nothing that is notified after that is missed.
    ///
    /// # Cancel safety
    ///
    /// A dropped wait passes its notification on; the guard is gone.
    ///
    /// # Panics
    ///
    /// At the first poll, if somebody waits on this condvar with another mutex.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tasuki::{Condvar, Mutex};
    ///
    /// let (mutex, condvar) = (Mutex::new(()), Condvar::new());
    /// let guard = mutex.try_lock().unwrap();
    /// assert!(condvar.wait(guard).timeout(Duration::from_millis(1)).block().is_err());
    /// assert!(!mutex.is_locked());
    /// ```
    pub fn wait<H: Relock>(&self, guard: Guard<H>) -> WaitNotified<'_, H> {
        Wait::new(CondvarOp { condvar: self, hold: Hold::Guard(guard), by_one: false })
    }

    /// Waits as long as the condition is true, and comes back as the owner of the mutex.
    ///
    /// # Cancel safety
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki::{Condvar, Mutex};
    ///
    /// let (mutex, condvar) = (Mutex::new(3), Condvar::new());
    /// let guard = mutex.try_lock().unwrap();
    /// let guard = condvar.wait_while(guard, |n| *n < 3).block();
    /// assert_eq!(*guard, 3);
    /// ```
    pub fn wait_while<H: Relock, F: FnMut(&mut H::Target) -> bool>(
        &self,
        guard: Guard<H>,
        condition: F,
    ) -> WaitWhile<'_, H, F> {
        Compound::new(Conditional { condvar: self, condition, guard: Some(guard), wait: None })
    }

    /// Moves the first waiter to the queue of its mutex. Does nothing if nobody waits.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki::Condvar::new().notify_one();
    /// ```
    pub fn notify_one(&self) {
        if !self.queue.load().has(WAITERS | EDIT) {
            return;
        }
        let mut editing = self.queue.edit();
        let mut owner = None;
        if editing.has_waiters() {
            let in_use = self.in_use(&editing);
            let mut once = Some(());
            // SAFETY: the first waiter keeps the mutex alive while it is in the list, and its future cannot leave during the edit.
            owner = unsafe {
                (in_use.adopt)(in_use.mutex, &mut || once.take().and_then(|()| editing.take_front(BY_ONE)))
            };
        }
        editing.finish();
        wake_owner(owner);
    }

    /// Moves everybody who waits now to the queue of their mutex, in order.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki::Condvar::new().notify_all();
    /// ```
    pub fn notify_all(&self) {
        if !self.queue.load().has(WAITERS | EDIT) {
            return;
        }
        let mut editing = self.queue.edit();
        if !editing.has_waiters() {
            return editing.finish();
        }
        let in_use = self.in_use(&editing);
        let ring = pin!(Ring::new());
        // SAFETY: the ring stays on this stack until the sweep has emptied it, which it does also when a waker panics.
        unsafe { ring.take_list(&mut editing) };
        let ring = &*ring;
        sweep(Moves { editing, in_use, ring }, || Moves { editing: self.queue.edit(), in_use, ring });
    }

    fn in_use(&self, _editing: &Editing<'_>) -> InUse {
        // SAFETY: the evidence: we are the editor.
        self.in_use.with(|in_use| unsafe { *in_use })
    }

    fn set_in_use(&self, _editing: &Editing<'_>, mutex: InUse) {
        // SAFETY: the evidence: we are the editor.
        self.in_use.with_mut(|in_use| unsafe { *in_use = mutex });
    }
}

/// For a condvar that has never had a waiter.
///
/// SAFETY: none needed.
unsafe fn adopt_nobody(_mutex: *const (), _next: &mut dyn FnMut() -> Option<Moving>) -> Option<Waker> {
    None
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}

/// One step of a `notify_all`: the edit, and the ring of those who are to be moved.
struct Moves<'e> {
    editing: Editing<'e>,
    in_use: InUse,
    ring: &'e Ring,
}

impl Ledger for Moves<'_> {
    fn serve(&mut self, batch: &mut WakeBatch) -> bool {
        if self.ring.is_empty(&self.editing) {
            return false;
        }
        let mut left = STEP;
        let (ring, editing) = (self.ring, &mut self.editing);
        let mut next = || {
            left = left.checked_sub(1)?;
            ring.take(editing, BY_ALL)
        };
        // SAFETY: somebody is in the ring: it keeps the mutex alive, and its future cannot leave during the edit.
        batch.push(unsafe { (self.in_use.adopt)(self.in_use.mutex, &mut next) });
        !self.ring.is_empty(&self.editing)
    }

    fn close(self) {
        self.editing.finish();
    }
}

/// The operation of [`Condvar::wait`].
pub struct CondvarOp<'a, H: Relock> {
    condvar: &'a Condvar,
    hold: Hold<H>,
    /// A cancel found that a `notify_one` had been given to this wait.
    by_one: bool,
}

/// What the wait has of the mutex.
enum Hold<H: Holder> {
    /// The lock: not polled yet.
    Guard(Guard<H>),
    /// Only the reference, while it waits.
    Reference(H),
    /// Nothing: it has been given back.
    Nothing,
}

impl<H: Relock> CondvarOp<'_, H> {
    fn holder(&self) -> &H {
        match &self.hold {
            Hold::Guard(guard) => guard.holder(),
            Hold::Reference(holder) => holder,
            Hold::Nothing => unreachable!("the wait is over"),
        }
    }

    /// The lock has been granted again.
    fn guard(&mut self) -> Guard<H> {
        match core::mem::replace(&mut self.hold, Hold::Nothing) {
            Hold::Reference(holder) => Guard::new(holder),
            Hold::Guard(guard) => guard,
            Hold::Nothing => unreachable!("the wait is over"),
        }
    }
}

impl<H: Relock> fmt::Debug for CondvarOp<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CondvarOp")
    }
}

impl<H: Relock> Op for CondvarOp<'_, H> {
    type Output = Guard<H>;
    const NAME: &'static str = "tasuki::WaitNotified";

    fn try_now(&mut self) -> Option<Guard<H>> {
        None
    }

    fn start(&mut self, seat: Seat<'_>, cx: &mut Context<'_>) -> Poll<Guard<H>> {
        let waker = clone_waker(cx.waker());
        let mine = self.holder().in_use();
        let mut editing = self.condvar.queue.edit();
        if editing.has_waiters() && self.condvar.in_use(&editing).mutex != mine.mutex {
            editing.finish();
            panic!("a condvar can be used with one mutex at a time: somebody waits on this one with another");
        }
        self.condvar.set_in_use(&editing, mine);
        editing.push_back(seat.sit(waker, Ask::default()));
        editing.finish();
        Poll::Pending
    }

    fn queued(&mut self) {
        if let Hold::Guard(guard) = core::mem::replace(&mut self.hold, Hold::Nothing) {
            self.hold = Hold::Reference(guard.into_holder());
            self.holder().release();
        }
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Guard<H>> {
        match waiter.get().state() {
            State::Notified => return self.holder().poll_moved(waiter, cx).map(|()| self.guard()),
            State::Waiting if waiter.get().will_wake(cx.waker()) => return Poll::Pending,
            State::Waiting | State::Woken => {}
        }
        let waker = clone_waker(cx.waker());
        let mut editing = self.condvar.queue.edit();
        if editing.mark(waiter) == 0 {
            let old = editing.rearm(waiter, waker);
            editing.finish();
            drop_waker(old);
            return Poll::Pending;
        }
        editing.finish();
        drop_waker(Some(waker));
        self.holder().poll_moved(waiter, cx).map(|()| self.guard())
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Guard<H>> {
        let mut editing = self.condvar.queue.edit();
        let mark = editing.mark(waiter);
        if mark == 0 {
            let removed = editing.remove(waiter);
            editing.finish();
            if let Removed::Waker(waker) = removed {
                drop_waker(waker);
            }
            return None;
        }
        editing.finish();
        self.by_one = mark == BY_ONE;
        if self.holder().cancel_moved(waiter) {
            return Some(self.guard());
        }
        if self.by_one {
            self.condvar.notify_one();
        }
        None
    }

    fn discard(&mut self, guard: Guard<H>) {
        if self.by_one {
            // First, so that the next one is queued when the mutex is given up.
            self.condvar.notify_one();
        }
        drop(guard);
    }
}

/// The future of [`Condvar::wait_while`].
pub type WaitWhile<'a, H, F> = Compound<Conditional<'a, H, F>>;

/// Waits on a condvar until a condition is no longer true.
#[must_use = "a wait does nothing unless it is awaited, polled or blocked on"]
pub struct Conditional<'a, H: Relock, F> {
    condvar: &'a Condvar,
    condition: F,
    /// The lock, between two waits.
    guard: Option<Guard<H>>,
    wait: Option<WaitNotified<'a, H>>,
}

impl<'a, H: Relock, F> Conditional<'a, H, F> {
    /// The wait, pinned, and the rest. The only projection.
    #[allow(clippy::type_complexity)]
    fn project(
        self: Pin<&mut Self>,
    ) -> (&'a Condvar, &mut F, &mut Option<Guard<H>>, Pin<&mut Option<WaitNotified<'a, H>>>) {
        // SAFETY: nothing is moved out; the wait is only ever reached pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: a field of the pinned whole.
        let wait = unsafe { Pin::new_unchecked(&mut this.wait) };
        (this.condvar, &mut this.condition, &mut this.guard, wait)
    }
}

impl<H: Relock, F: FnMut(&mut H::Target) -> bool> Future for Conditional<'_, H, F> {
    type Output = Guard<H>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Guard<H>> {
        let (condvar, condition, held, mut wait) = self.project();
        loop {
            if let Some(mut guard) = held.take() {
                if !condition(&mut guard) {
                    return Poll::Ready(guard);
                }
                wait.set(Some(condvar.wait(guard)));
            }
            let Some(waiting) = wait.as_mut().as_pin_mut() else {
                panic!("`tasuki::WaitWhile` polled after it was finished")
            };
            match waiting.poll(cx) {
                Poll::Ready(guard) => *held = Some(guard),
                Poll::Pending => return Poll::Pending,
            }
            wait.set(None);
        }
    }
}

impl<H: Relock, F: FnMut(&mut H::Target) -> bool> Waiting for Conditional<'_, H, F> {
    fn withdraw(self: Pin<&mut Self>, right: Withdraw) -> Option<Guard<H>> {
        let (_, condition, held, mut wait) = self.project();
        let mut guard = match wait.as_mut().as_pin_mut() {
            Some(waiting) => waiting.withdraw(right)?,
            None => held.take()?,
        };
        wait.set(None);
        (!condition(&mut guard)).then_some(guard)
    }
}

impl<H: Relock, F> fmt::Debug for Conditional<'_, H, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitWhile").field("wait", &self.wait).finish_non_exhaustive()
    }
}
