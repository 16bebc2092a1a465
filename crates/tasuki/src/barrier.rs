//! The barrier: a fixed number of tasks meet, again and again.
//!
//! For work in phases: no party begins the next phase before all have ended this one. A party that is cancelled while it waits takes its arrival back,
//! so the others are not released without it. It must never wake a party while the queue is locked.
//!
//! ```text
//!   arrive (waits)   arrive (waits)   arrive: the last, leader
//!        |                |                  |
//!        +----------------+------- released -+---> the next phase, count 0
//! ```
//!
//! # States
//!
//! The word of the queue has no flags: it is the list of the parties that have arrived and wait. `arrived` is their number,
//! read and written under `EDIT`; waiters of a completed phase that have not been reached by its batches are in a
//! snapshot and not counted.
//!
//! | arrived      | list          | meaning                     |
//! |--------------|---------------|-----------------------------|
//! | `0`          | empty         | a phase that no party has reached |
//! | `k < parties`| `k` waiters   | `parties - k` are missing   |
//!
//! # Transitions
//!
//! | from                   | event             | to                          | duty             | fn |
//! |------------------------|-------------------|-----------------------------|------------------|----|
//! | `k`, `k + 1 < parties` | arrive            | `k + 1`, waiter enqueued    | return `Pending` | [`Barrier::enqueue`] |
//! | `parties - 1`          | arrive            | `0`, round released         | wake all, return `Ready` as leader | [`Barrier::complete`] |
//! | released               | poll              | the same                    | return `Ready`   | [`Broadcast::poll_queued`] |
//! | `k`, not released      | drop              | `k - 1`, waiter removed     | none             | [`Barrier::cancel`] |
//! | released               | drop              | the same                    | none             | [`Barrier::cancel`] |
//! | any                    | waker panics on clone | the same                | panic goes on    | [`ArriveOp::enqueue`] |
//! | `parties - 1`          | waker panics on wake  | `0`, round released     | panic goes on    | [`Barrier::complete`] |
//!
//! # Invariants
//! 1. `arrived` is the length of the list, and less than `parties`, whenever the queue is unlocked.
//! 2. Arriving, cancelling and completing lock the queue, so they happen in one order: a drop comes before the last
//!    arrival and takes its own back, or after it and finds its round released.
//! 3. Each completed phase has one leader, the arrival that completed it, and `parties - 1` others.
//!
//! # Orderings
//! Each arrival locks the queue: Acquire of `WaitQueue::try_lock` and Release in the drop of `LockedQueue` hand what the earlier
//! ones did on to the later ones, and the last passes all of it to the waiters through their states; one that no batch has reached finds its round over and locks the queue.
//! `arrived` itself is guarded, so Relaxed.

use crate::queue::broadcast::{Broadcast, CancelOutcome};
use crate::queue::waiter::{clone_waker, drop_waker};
use crate::queue::word::Word;
use crate::queue::{LockedQueue, Pinned, QueueWaker};
use crate::shim::{AtomicUsize, Ordering, const_fn};
use crate::wait::{Op, Single, Wait, WaiterSlot};
use core::fmt;
use core::task::{Context, Poll};

/// A meeting point: no party passes until a fixed number of them has arrived.
///
/// The last arrival completes the phase: it is the leader, does not wait, and releases the others. The barrier is then ready
/// for the next phase; a released party may arrive again while others of the last phase have not been polled yet.
///
/// # Examples
///
/// ```
/// use tasuki::Barrier;
///
/// static START: Barrier = Barrier::new(4);
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let workers = [(); 4].map(|()| tokio::spawn(async { START.arrive_and_wait().await }));
/// let mut leaders = 0;
/// for worker in workers {
///     leaders += u32::from(worker.await.unwrap().is_leader());
/// }
/// assert_eq!(leaders, 1);
/// # }
/// ```
///
/// # Order
///
/// All parties of a phase are released together, and woken in the order in which they arrived. The leader is the
/// one that arrived last, and learns it in the very poll that completes the phase.
///
/// # Cancel
///
/// An arrival is taken back when its future is dropped before the phase is complete: the barrier then waits for
/// another in its place, so no party passes early and no phase has two leaders. Dropping it after the phase was
/// completed changes nothing. A drop and the last arrival that race happen in one order or the other, never half of each. With
/// barriers that do not take an arrival back, a timeout around an arrival leaves a party counted that does not come.
///
/// # Panic
///
/// `new(0)` panics. A waker that panics does so in the arrival that completed the phase, after all others have been
/// woken ([Wakers](crate#wakers)); the phase is complete then, and only its leader was not told.
///
/// # Memory ordering
///
/// What any party did before it arrived happens before what every party of the phase does after it was released.
///
/// # Re-entrancy
///
/// Wakers may call anything on the barrier. The new phase has begun before the first of them runs.
///
/// # Interrupts
///
/// An interrupt or signal handler may call what does not wait, but only with the feature `critical-section`: without it the handler may find the
/// queue locked by the code that it interrupted, and wait for ever.
///
/// # Limits
///
/// `usize::MAX` parties, any number of phases. More tasks than parties may use one barrier: they are then released in
/// groups, in the order in which they arrive.
///
/// # Futurelock
///
/// A future that was polled and is then neither polled nor dropped counts as arrived.
///
/// # When to use something else
///
/// If the tasks that wait are not those that arrive, a [`Latch`](crate::Latch) or a [`WaitGroup`](crate::WaitGroup).
#[doc(alias = "AsyncBarrier")]
#[doc(alias = "Rendezvous")]
pub struct Barrier {
    waiters: Broadcast,
    parties: usize,
    /// How many wait in the present phase; written under `EDIT`.
    arrived: AtomicUsize,
}

/// The future of [`Barrier::arrive_and_wait`].
pub type Arrive<'a> = Wait<Single<ArriveOp<'a>>>;

/// What an arrival learns when its phase is complete.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let barrier = tasuki::Barrier::new(1);
/// assert!(barrier.arrive_and_wait().await.is_leader());
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult {
    leader: bool,
}

impl BarrierWaitResult {
    const LEADER: Self = Self { leader: true };
    const OTHER: Self = Self { leader: false };

    /// Returns true for the arrival that completed the phase: exactly one of each phase.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let alone = tasuki::Barrier::new(1);
    /// assert!(alone.arrive_and_wait().await.is_leader());
    /// # }
    /// ```
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.leader
    }
}

impl Barrier {
    const_fn! {
        /// Creates a barrier for `parties` parties. With one party, every arrival completes a phase.
        ///
        /// # Panics
        ///
        /// If `parties` is zero.
        ///
        /// # Examples
        ///
        /// ```
        /// static MEETING: tasuki::Barrier = tasuki::Barrier::new(2);
        /// # let _ = &MEETING;
        /// ```
        #[track_caller]
        pub const fn new(parties: usize) -> Self {
            assert!(parties > 0, "a barrier needs at least one party");
            Self { waiters: Broadcast::new(Word::flags(0)), parties, arrived: AtomicUsize::new(0) }
        }
    }

    /// Arrives, and waits until all parties have arrived.
    ///
    /// The arrival counts from the first poll on, not from the call.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before the phase is complete takes the arrival back; afterwards it changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// static BOTH: tasuki::Barrier = tasuki::Barrier::new(2);
    /// let other = tokio::spawn(async { BOTH.arrive_and_wait().await });
    /// let here = BOTH.arrive_and_wait().await;
    /// assert_ne!(here.is_leader(), other.await.unwrap().is_leader());
    /// # }
    /// ```
    #[doc(alias = "wait")]
    #[inline]
    #[track_caller]
    pub fn arrive_and_wait(&self) -> Arrive<'_> {
        Wait::new(ArriveOp { barrier: Some(self) })
    }

    /// Would an arrival complete the phase? Exact under `EDIT`, a guess otherwise.
    #[inline]
    fn is_last(&self) -> bool {
        // Relaxed: written under `EDIT`; without it the answer is checked again.
        self.arrived.load(Ordering::Relaxed) == self.parties - 1
    }

    /// `parties - 1 => 0`: completes the phase. The caller has checked [`Self::is_last`] in this locked section.
    fn complete(&self, locked: LockedQueue<'_>) -> BarrierWaitResult {
        // Relaxed: guarded by `EDIT`.
        self.arrived.store(0, Ordering::Relaxed);
        if locked.has_waiters() {
            self.waiters.release_all(locked);
        }
        BarrierWaitResult::LEADER
    }

    /// `k => k + 1`: one more, which has to wait.
    #[inline(always)]
    fn enqueue(&self, mut locked: LockedQueue<'_>, slot: WaiterSlot<'_>, waker: QueueWaker) {
        // Relaxed: guarded by `EDIT`.
        let arrived = self.arrived.load(Ordering::Relaxed) + 1;
        debug_assert!(
            arrived < self.parties,
            "{arrived} of {} wait, and no party completes the phase",
            self.parties
        );
        // Relaxed: as above.
        self.arrived.store(arrived, Ordering::Relaxed);
        locked.push_back(slot.init(waker, self.waiters.payload(&locked)));
    }

    /// `k => k - 1`, unless the phase is complete.
    fn cancel(&self, waiter: Pinned<'_>) -> CancelOutcome {
        self.waiters.cancel(waiter, |_locked| {
            // Relaxed: guarded by `EDIT`.
            let arrived = self.arrived.load(Ordering::Relaxed);
            debug_assert!(arrived > 0, "a party that waits has arrived");
            // Relaxed: as above.
            self.arrived.store(arrived - 1, Ordering::Relaxed);
        })
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: a look at one moment.
        let arrived = self.arrived.load(Ordering::Relaxed);
        f.debug_struct("Barrier").field("parties", &self.parties).field("arrived", &arrived).finish()
    }
}

/// The operation of [`Barrier::arrive_and_wait`].
#[derive(Debug)]
pub struct ArriveOp<'a> {
    /// None once it has completed a phase: if a waker panics then, the next poll must not arrive again.
    barrier: Option<&'a Barrier>,
}

impl<'a> ArriveOp<'a> {
    fn barrier(&self) -> &'a Barrier {
        let Some(barrier) = self.barrier else { panic!("`{}` polled after it was finished", Self::NAME) };
        barrier
    }

    /// One more arrival. Kept out of line: spilled registers would delay the compare-exchange that locks the queue.
    #[inline(never)]
    fn arrive(
        &mut self,
        barrier: &Barrier,
        slot: WaiterSlot<'_>,
        waker: QueueWaker,
    ) -> Poll<BarrierWaitResult> {
        let queue = &barrier.waiters.queue;
        match queue.try_lock(queue.load()) {
            Some(locked) if !barrier.is_last() => {
                barrier.enqueue(locked, slot, waker);
                Poll::Pending
            }
            Some(locked) => self.complete(barrier, locked, waker),
            None => self.arrive_busy(barrier, slot, waker),
        }
    }

    /// Others are arriving.
    #[cold]
    #[inline(never)]
    fn arrive_busy(
        &mut self,
        barrier: &Barrier,
        slot: WaiterSlot<'_>,
        waker: QueueWaker,
    ) -> Poll<BarrierWaitResult> {
        let locked = barrier.waiters.queue.lock();
        if barrier.is_last() {
            return self.complete(barrier, locked, waker);
        }
        barrier.enqueue(locked, slot, waker);
        Poll::Pending
    }

    /// It has become the last while it cloned its waker.
    #[cold]
    #[inline(never)]
    fn complete(
        &mut self,
        barrier: &Barrier,
        locked: LockedQueue<'_>,
        waker: QueueWaker,
    ) -> Poll<BarrierWaitResult> {
        self.barrier = None;
        let result = barrier.complete(locked);
        drop_waker(Some(waker));
        Poll::Ready(result)
    }
}

impl Op for ArriveOp<'_> {
    type Output = BarrierWaitResult;
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::future::Arrive";

    /// The last arrival needs no waker, so it is tried without.
    #[inline]
    fn try_now(&mut self) -> Option<BarrierWaitResult> {
        let barrier = self.barrier.filter(|barrier| barrier.is_last())?;
        let locked = barrier.waiters.queue.lock();
        if barrier.is_last() {
            return Some(barrier.complete(locked));
        }
        None
    }

    /// The arrival that would complete the phase is not made before the yield.
    fn is_ready(&self) -> bool {
        self.barrier.is_some_and(Barrier::is_last)
    }

    #[inline]
    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<BarrierWaitResult> {
        let barrier = self.barrier();
        self.arrive(barrier, slot, clone_waker(cx.waker()))
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<BarrierWaitResult> {
        self.barrier().waiters.poll_queued(waiter, cx).map(|()| BarrierWaitResult::OTHER)
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<BarrierWaitResult> {
        match self.barrier().cancel(waiter) {
            CancelOutcome::Cancelled => None,
            CancelOutcome::AlreadyGranted => Some(BarrierWaitResult::OTHER),
        }
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }

    fn ended_by_panic(&self) -> bool {
        self.barrier.is_none()
    }
}
