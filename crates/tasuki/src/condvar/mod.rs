//! The condition variable: notified waiters move to the queue of their mutex together, and each is granted the mutex in turn.
//!
//! A notification does not wake its waiter to compete for the mutex. It wakes the first waiter in the list, the *mover*: its poll moves itself and all notified waiters to the
//! mutex's queue, where they are granted the mutex one after the other. So a `notify_all` of a thousand waiters wakes one. If a mover does not run for a while, only the waiters that
//! were notified together with it are delayed, and only until another mover runs.
//!
//! ```text
//!   condvar's list:  [a] [b] [c] [d]      notify_all: a is woken, as the mover
//!   mutex's queue:   (empty)              a's poll:   [a] [b] [c] [d] move; a owns the mutex, b is next
//! ```
//!
//! The notifier itself cannot move them: it has no borrow of the mutex, and a wait that was forgotten
//! (`mem::forget`) has none either, though it is still in the list. Only a poll or a drop of a wait is sure that its mutex
//! is there.
//!
//! # States of a waiter
//!
//! | is in              | mark              | leaves by |
//! |--------------------|-------------------|--------------|
//! | the list           | none              | being woken as the mover, being moved, or a cancel |
//! | the list, notified by `notify_one` | `BY_ONE` | the same; a cancel passes the notification on |
//! | no list, the mover | `MOVER`           | its poll, which moves the notified; or a cancel, which wakes another mover |
//! | the mutex's queue  | `MOVED`           | a grant; or a cancel, which passes a `notify_one` on |
//! | no list, granted   | `MOVED`           | its poll; or a cancel, which unlocks and passes a `notify_one` on |
//!
//! `BY_ONE` stays with `MOVER` and `MOVED`. A waiter in the list that was polled while a `Revocable` mutex was granted and not claimed is marked `MOVES_ITSELF`: the grant may be that of another future of its task, which only a poll behind
//! it in the mutex's queue takes over. So it is not moved, but woken as one more mover. The bits above are those of a `Revocable` mutex (`mutex/raw/revoke.rs`), to which the waiter brings the number of its task. The notified waiters are the first in the list: those before `notified_until`.
//!
//! A waiter is moved under the `EDIT` bits of both queues, the condvar's taken first, and for good. So a future that
//! must touch its place locks the condvar's queue and looks at its mark.
//!
//! # Transitions
//!
//! | event                  | what happens | fn |
//! |------------------------|--------------|----|
//! | first poll             | queued here, then the mutex is unlocked | `CondvarOp::enqueue`, `CondvarOp::enqueued` |
//! | `notify_one`           | one more is notified, if there is one; the first in the list becomes the mover, or one more mover | [`Condvar::notify_one`] |
//! | `notify_all`           | all are notified; the first in the list becomes the mover, or one more mover | [`Condvar::notify_all`] |
//! | poll of the mover      | moves to the mutex's queue, with all notified waiters; those that move themselves become movers | `CondvarOp::move_notified` |
//! | poll                   | `Ready` once the mutex is owned | `CondvarOp::poll_queued` |
//! | drop, or a limit       | leaves its place | `CondvarOp::cancel`, `CondvarOp::discard` |
//!
//! # Invariants
//! 1. While a waiter in the list is notified, there is a mover that has neither been polled nor cancelled since, or a poll of one is on its way between two steps: a poll moves
//!    all notified waiters, or makes movers of them, a cancel makes another of them the mover.
//! 2. `notified_until` and `mutex` are touched only by the holder of the queue lock. The first is the place of a waiter in the list, or the end.
//! 3. All in the list wait with the same mutex. Its address is in `mutex` while the list is not empty, to be compared and nothing else.
//!
//! # Orderings
//! None of its own: both queues are locked with Acquire and unlocked with Release, and the grant is the mutex's. The looks of
//! [`Condvar::notify_one`] and [`Condvar::notify_all`] before the lock are Relaxed: a notifier that must not miss a waiter has the mutex's word between the two.

mod wait;
mod wait_while;

pub use wait::{CondvarOp, WaitNotified};
pub use wait_while::{Conditional, WaitWhile};

use crate::guard::Guard;
use crate::mutex::Relock;
use crate::probe::Site;
use crate::queue::batch::WakeBatch;
use crate::queue::waiter::wake;
use crate::queue::word::{EDIT, WAITERS, Word};
use crate::queue::{Cursor, Deferred, Detached, LockedQueue, QueueGuard as _, QueueWaker, WaitQueue};
use crate::shim::{UnsafeCell, const_fn};
use crate::wait::Wait;
use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};

/// Notified by `notify_one`: the notification is passed on if the wait is cancelled.
const BY_ONE: u32 = 1;
/// Out of the list, woken to move the others.
const MOVER: u32 = 2;
/// In the mutex's queue, or granted by it.
const MOVED: u32 = 4;
/// `Revocable`: in the list, and polled while the mutex had a grant that was not claimed. It may have to revoke that grant, so it is to be polled behind it.
const MOVES_ITSELF: u32 = 8;

/// Waits for a condition that a [`Mutex`](crate::Mutex) protects.
///
/// [`wait`](Self::wait) releases the mutex and waits for a notification in one step, and returns with the mutex locked again. There are no spurious wake-ups, and no
/// notification is kept for later: without waiters it does nothing.
///
/// A condvar is three words; waiting allocates nothing; `Condvar::new` is `const`.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use tasuki::{Condvar, Mutex};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
///
/// let shared = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
/// let producer = shared.clone();
/// std::thread::spawn(move || {
///     producer.0.lock().block().push(1);
///     producer.1.notify_one();
/// });
/// let (mutex, condvar) = &*shared;
/// let items = mutex.lock().await;
/// let items = condvar.wait_while(items, |items| items.is_empty()).await;
/// assert_eq!(*items, [1]);
/// # }
/// ```
///
/// # Order
///
/// First come, first served: the waiter that was enqueued first is notified first. Each notification wakes one task only. That task moves itself, and all waiters that are notified and not woken, to the queue of the
/// mutex, in their order; so a `notify_all` wakes no crowd that competes for the mutex. Tasks that were woken by several notifications enqueue there in the order in which they run. (With
/// [`Revocable`](crate::policy::Revocable) a task that polled its wait while the mutex was granted and not claimed is woken as well, and enqueues when it runs: that grant may be to another of its futures.)
///
/// # Cancel
///
/// Dropping a wait that was notified by `notify_one` and has not returned passes the notification to the next waiter. A
/// wait that ends by a limit gives no guard back.
///
/// # Panic
///
/// Using one condvar with two mutexes at a time panics, and changes nothing: the guard stays in the future, whose drop releases it. A condition of [`wait_while`](Self::wait_while) that panics releases the mutex, and a `notify_one` goes to the next waiter.
///
/// # Memory ordering
///
/// That of the mutex.
///
/// # Re-entrancy
///
/// Wakers may call anything on the condvar and the mutex.
///
/// # Interrupts
///
/// An interrupt or signal handler may call what does not wait, but only with the feature `critical-section`: without it the handler may find the
/// queue locked by the code that it interrupted, and wait for ever.
///
/// # Limits
///
/// None on the number of waiters. To notify costs the same for any number; the first waiter that runs after a `notify_all` moves all
/// others.
///
/// # Futurelock
///
/// A wait that was notified and is then neither polled nor dropped can own the mutex, and keeps it. (If the mutex is [`Revocable`](crate::policy::Revocable): until its task locks by another future.) Waiters
/// that were notified by the same `notify_all` wait until it is polled or dropped, or until another notification.
///
/// # When to use something else
///
/// To wait for a flag, an [`Event`](crate::Event); for a count, a [`Semaphore`](crate::Semaphore).
#[doc(alias = "Monitor")]
#[doc(alias = "ConditionVariable")]
pub struct Condvar {
    queue: WaitQueue,
    /// The first waiter that is not notified; see invariant 2.
    notified_until: UnsafeCell<Cursor>,
    /// The address of the mutex with which all in the list wait; see invariant 3.
    mutex: UnsafeCell<usize>,
}

// SAFETY: the cells are touched only by the holder of the queue lock; a waiter may be touched from any thread.
unsafe impl Send for Condvar {}
// SAFETY: as above.
unsafe impl Sync for Condvar {}
impl UnwindSafe for Condvar {}
impl RefUnwindSafe for Condvar {}

impl Condvar {
    const_fn! {
        /// Creates a condvar without waiters.
        ///
        /// # Examples
        ///
        /// ```
        /// static CHANGED: tasuki::Condvar = tasuki::Condvar::new();
        /// CHANGED.notify_all();
        /// ```
        pub const fn new() -> Self {
            Self {
                queue: WaitQueue::new(Word::flags(0)),
                notified_until: UnsafeCell::new(Cursor::END),
                mutex: UnsafeCell::new(0),
            }
        }
    }

    /// Releases the mutex, waits for a notification, and returns with the mutex locked again.
    ///
    /// The mutex is released at the first poll. No notification after that is missed.
    ///
    /// # Cancel safety
    ///
    /// A wait that is dropped passes its notification on to the next waiter. The guard that it was given is not returned: lock the mutex again.
    ///
    /// # Panics
    ///
    /// At the first poll, if there is a waiter with another mutex. The guard stays in the future, whose drop releases it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tasuki::{Condvar, Mutex};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    ///
    /// let (mutex, condvar) = (Mutex::new(()), Condvar::new());
    /// let guard = mutex.try_lock().unwrap();
    /// assert!(condvar.wait(guard).timeout(Duration::from_millis(1)).await.is_err());
    /// assert!(!mutex.is_locked());
    /// # }
    /// ```
    #[track_caller]
    pub fn wait<H: Relock>(&self, guard: Guard<H>) -> WaitNotified<'_, H> {
        self.wait_at(guard, Site::here())
    }

    fn wait_at<H: Relock>(&self, guard: Guard<H>, site: Site) -> WaitNotified<'_, H> {
        Wait::new_at(CondvarOp::new(self, guard, site), site)
    }

    /// Waits while the condition is true, and returns with the mutex locked and the condition false.
    ///
    /// # Cancel safety
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait), at the first poll or at a later one: whenever it begins to wait. And if the condition panics: that releases the mutex.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki::{Condvar, Mutex};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    ///
    /// let (mutex, condvar) = (Mutex::new(3), Condvar::new());
    /// let guard = mutex.try_lock().unwrap();
    /// let guard = condvar.wait_while(guard, |n| *n < 3).await;
    /// assert_eq!(*guard, 3);
    /// # }
    /// ```
    #[track_caller]
    pub fn wait_while<H: Relock, F: FnMut(&mut H::Target) -> bool>(
        &self,
        guard: Guard<H>,
        condition: F,
    ) -> WaitWhile<'_, H, F> {
        Conditional::wait(self, guard, condition, Site::here())
    }

    /// Notifies the first waiter that is not notified yet. If all are notified and still wait for a woken task to move them to the mutex, it wakes one more of them to do that. Without waiters it does nothing.
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
        let mut locked = self.queue.lock();
        let mover = self.notify_next(&mut locked);
        wake(locked.unlock_with(mover));
    }

    /// Notifies all waiters that are queued now. One of them is woken, also if all were notified before.
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
        let mut locked = self.queue.lock();
        self.set_notified_until(&locked, Cursor::END);
        let mover = self.wake_mover(&mut locked);
        wake(locked.unlock_with(mover));
    }

    fn notified_until(&self, _locked: &LockedQueue<'_>) -> Cursor {
        // SAFETY: the evidence: we hold the queue lock.
        self.notified_until.with(|place| unsafe { *place })
    }

    fn set_notified_until(&self, _locked: &LockedQueue<'_>, first_not: Cursor) {
        // SAFETY: the evidence: we hold the queue lock.
        self.notified_until.with_mut(|place| unsafe { *place = first_not });
    }

    /// The mutex with which those in the list wait, of which there is one at least.
    fn mutex(&self, _locked: &LockedQueue<'_>) -> usize {
        // SAFETY: the evidence: we hold the queue lock.
        self.mutex.with(|address| unsafe { *address })
    }

    fn set_mutex(&self, _locked: &LockedQueue<'_>, mutex: usize) {
        // SAFETY: the evidence: we hold the queue lock.
        self.mutex.with_mut(|address| unsafe { *address = mutex });
    }

    /// One more is notified, if there is one; the first in the list becomes the mover, also if all were notified before: the mover that they wait for may not be polled.
    fn notify_next(&self, locked: &mut LockedQueue<'_>) -> Deferred<Option<QueueWaker>> {
        let mut place = self.notified_until(locked);
        // SAFETY: invariant 2.
        if let Some(waiter) = unsafe { locked.get(place) } {
            waiter.set_mark(waiter.mark() | BY_ONE);
            // SAFETY: there is a waiter at this place.
            unsafe { locked.advance(&mut place) };
            self.set_notified_until(locked, place);
        }
        self.wake_mover(locked)
    }

    /// Makes the first in the list, if there is one, the mover. It is notified.
    fn wake_mover(&self, locked: &mut LockedQueue<'_>) -> Deferred<Option<QueueWaker>> {
        let Some(front) = locked.front() else { return Deferred::none() };
        front.set_mark(front.mark() | MOVER);
        // SAFETY: there is a front.
        unsafe { locked.grant_front() }
    }

    /// The mover is cancelled: another becomes the mover, if any is notified.
    fn replace_mover(&self, locked: &mut LockedQueue<'_>) -> Deferred<Option<QueueWaker>> {
        if locked.cursor_front() == self.notified_until(locked) {
            return Deferred::none();
        }
        self.wake_mover(locked)
    }

    /// Takes the first in the list out, if it is notified and waits with this mutex; those before it that move themselves are to be woken. At most `left` waiters in all.
    fn take_notified(
        &self,
        locked: &mut LockedQueue<'_>,
        mutex: usize,
        left: &mut usize,
        batch: &mut WakeBatch,
    ) -> Option<Detached> {
        loop {
            *left = left.checked_sub(1)?;
            if !self.has_notified(locked, mutex) {
                return None;
            }
            let mark = locked.front()?.mark();
            if mark & MOVES_ITSELF == 0 {
                return locked.detach_front(mark | MOVED);
            }
            batch.push(self.wake_mover(locked));
        }
    }

    /// Is there a waiter to move to this mutex?
    fn has_notified(&self, locked: &LockedQueue<'_>, mutex: usize) -> bool {
        locked.cursor_front() != self.notified_until(locked) && self.mutex(locked) == mutex
    }
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
