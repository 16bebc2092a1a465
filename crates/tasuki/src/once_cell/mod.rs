//! The once cell: a value that is made once, by the first initialiser that succeeds.
//!
//! To get a value that is there is one load of the word. Until then at most one initialiser runs (it has the *turn*); others wait for the turn, or for the value only. An initialiser that
//! fails, panics or is dropped passes the turn to the next. No lock is held while an initialiser runs.
//!
//! ```text
//!   a: get_or_init --> RUNNING ......... panics --> turn to b --> b makes it --> DONE: b, c and d get the value
//!   b: get_or_init --> waits for the turn
//!   c: wait ---------> waits for the value
//!   d: get_or_init --> waits for the turn
//! ```
//!
//! # States of the word
//!
//! | word           | meaning                                             |
//! |----------------|-----------------------------------------------------|
//! | `0`            | empty, no initialiser runs                          |
//! | `RUNNING`      | an initialiser has the turn                          |
//! | `head·RUNNING` | the same, and others wait                           |
//! | `head`         | empty, with waiters for the value only |
//! | `DONE`         | the value is there, for ever                        |
//!
//! Each with `EDIT` while the queue is locked.
//!
//! # Transitions
//!
//! | from        | event                       | to                    | duty | fn |
//! |-------------|-----------------------------|-----------------------|------|----|
//! | `0`, `head` | a turn is wanted            | `+ RUNNING`           | make the value | [`OnceCell::try_turn`], [`OnceCell::try_turn_slow`], `TurnOp::enqueue` |
//! | `RUNNING`   | a turn is wanted            | waiter enqueued at the end; the first that wants the turn before all others | return `Pending` | `TurnOp::enqueue` |
//! | not `DONE`  | the value is wanted         | waiter enqueued at the end | return `Pending` | `TurnOp::enqueue` |
//! | `RUNNING`   | the value has been made     | `DONE`, round released| wake all | `Turn::complete` |
//! | `RUNNING`   | failed, panicked, cancelled | the first waiter that wants it has the turn, else `- RUNNING` | wake it | `Turn::drop` |
//! | queued      | drop                        | waiter removed        | none | `TurnOp::cancel` |
//! | granted     | drop                        | as a failed turn      | as a failed turn | `TurnOp::cancel` |
//!
//! # Invariants
//! 1. The note of the queue is the number of waiters in the list that want the turn. While it is not zero an initialiser has the turn.
//! 2. Waiters for the turn are in the list in the order in which they came. Waiters for the value only may be anywhere between.
//!
//! # Orderings
//! The word: Release of the unlock in `Turn::complete` pairs with Acquire of [`OnceCell::get`]: the value. A turn publishes
//! nothing. Waiters that no batch has reached read the round.

mod init;
mod turn;

pub use init::{GetOrInit, GetOrTryInit, InfallibleInit, Init};
pub use turn::{ValueOp, WaitValue};

use crate::queue::LockedQueue;
use crate::queue::broadcast::Broadcast;
use crate::queue::word::{FLAG_A as RUNNING, FLAG_B as DONE, Word};
use crate::shim::{AtomicU32, Ordering, const_fn};
use crate::wait::Wait;
use core::cell::UnsafeCell;
use core::fmt;
use core::future::Future;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::panic::{RefUnwindSafe, UnwindSafe};
use turn::Turn;

const EMPTY: Word = Word::flags(0);

/// A value that is made once, perhaps asynchronously, and shared from then on.
///
/// The first caller makes it; the others wait. An initialiser that fails, panics or is dropped passes the turn to the
/// next caller that brought one. [`get`](Self::get) is one load.
///
/// # Examples
///
/// ```
/// use tasuki::OnceCell;
///
/// static CONFIG: OnceCell<String> = OnceCell::new();
///
/// async fn config() -> &'static String {
///     CONFIG.get_or_init(async || "from somewhere".to_string()).await
/// }
/// # let mut config = std::pin::pin!(config());
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert!(std::future::Future::poll(config.as_mut(), &mut cx).is_ready());
/// assert_eq!(CONFIG.get().unwrap(), "from somewhere");
/// ```
///
/// # Order
///
/// The turn goes first come, first served. When the value is there, all waiters are released at once.
///
/// # Cancel
///
/// Dropping a [`get_or_init`](Self::get_or_init) in the middle drops its initialiser and passes the turn on.
///
/// # Panic
///
/// A panicking initialiser counts as failed: the cell stays empty, the next one has the turn.
///
/// # Memory ordering
///
/// What the initialiser did happens before what any task does that sees the value.
///
/// # Re-entrancy
///
/// An initialiser that initialises the same cell waits for itself, for ever.
///
/// # Interrupts
///
/// An interrupt or signal handler may call what does not wait, but only with the feature `critical-section`: without it the handler may find the
/// queue locked by the code that it interrupted, and wait for ever.
///
/// # Limits
///
/// None on the number of waiters for the value; 2^32 - 1 initialisers may wait. A turn that fails is passed on in constant time if only initialisers wait.
/// Waiters for the value only are skipped one by one, at most 64 in one hold of the queue lock.
///
/// # Futurelock
///
/// A `get_or_init` that was polled and is then neither polled nor dropped can have the turn, and keeps it.
///
/// # When to use something else
///
/// For a value that is made without `.await`, `std::sync::OnceLock`.
#[doc(alias = "Lazy")]
#[doc(alias = "AsyncOnceCell")]
#[doc(alias = "OnceLock")]
#[doc(alias = "SetOnce")]
pub struct OnceCell<T> {
    /// With the number of waiters that want the turn, which is touched only under `EDIT`.
    waiters: Broadcast<AtomicU32>,
    /// Initialised exactly while `DONE` is set.
    value: UnsafeCell<MaybeUninit<T>>,
    owns: PhantomData<T>,
}

// SAFETY: the value moves with the cell, and may be made by another thread than the one that drops it.
unsafe impl<T: Send> Send for OnceCell<T> {}
// SAFETY: `&T` is shared once it is there; the initialiser may be on another thread than the cell's owner.
unsafe impl<T: Send + Sync> Sync for OnceCell<T> {}
impl<T: RefUnwindSafe + UnwindSafe> RefUnwindSafe for OnceCell<T> {}
impl<T: UnwindSafe> UnwindSafe for OnceCell<T> {}

impl<T> OnceCell<T> {
    const_fn! {
        /// Creates an empty cell.
        ///
        /// # Examples
        ///
        /// ```
        /// static CELL: tasuki::OnceCell<u8> = tasuki::OnceCell::new();
        /// assert!(CELL.get().is_none());
        /// ```
        pub const fn new() -> Self {
            Self {
                waiters: Broadcast::with_note(EMPTY, AtomicU32::new(0)),
                value: UnsafeCell::new(MaybeUninit::uninit()),
                owns: PhantomData,
            }
        }
    }

    /// Returns the value, if the cell has one.
    ///
    /// # Examples
    ///
    /// ```
    /// let cell = tasuki::OnceCell::new();
    /// cell.set(1).unwrap();
    /// assert_eq!(cell.get(), Some(&1));
    /// ```
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // Acquire: pairs with Release in the drop of `LockedQueue` in `Turn::complete`.
        // SAFETY: `DONE`: the value is there, and is not written again.
        self.waiters.queue.load_with(Ordering::Acquire).has(DONE).then(|| unsafe { self.value() })
    }

    /// Returns the value, to change it: the exclusive borrow proves that it is not shared.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut cell = tasuki::OnceCell::from(1);
    /// *cell.get_mut().unwrap() = 2;
    /// assert_eq!(cell.into_inner(), Some(2));
    /// ```
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.get()?;
        // SAFETY: `DONE`: the value is there.
        Some(unsafe { self.value.get_mut().assume_init_mut() })
    }

    /// Returns the value, if the cell had one.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tasuki::OnceCell::<u8>::new().into_inner(), None);
    /// ```
    pub fn into_inner(mut self) -> Option<T> {
        self.take()
    }

    /// Takes the value out and leaves the cell empty, also if an initialiser had the turn: the exclusive borrow proves that it was forgotten (`mem::forget`).
    ///
    /// # Examples
    ///
    /// ```
    /// let mut cell = tasuki::OnceCell::from(1);
    /// assert_eq!(cell.take(), Some(1));
    /// assert!(cell.get().is_none());
    /// ```
    pub fn take(&mut self) -> Option<T> {
        let is_done = self.get().is_some();
        // What waits here, or has the turn, was forgotten (`mem::forget`): no other future borrows the cell now.
        self.waiters = Broadcast::with_note(EMPTY, AtomicU32::new(0));
        // SAFETY: it was `DONE`: the value is there; the new word above makes sure that it is not used again.
        is_done.then(|| unsafe { self.value.get_mut().assume_init_read() })
    }

    /// Sets the value; fails, and returns it, if the cell has a value or an initialiser is running.
    ///
    /// # Errors
    ///
    /// The value itself, if there is one already, or an initialiser has the turn.
    ///
    /// # Examples
    ///
    /// ```
    /// let cell = tasuki::OnceCell::new();
    /// assert_eq!(cell.set(1), Ok(()));
    /// assert_eq!(cell.set(2), Err(2));
    /// ```
    pub fn set(&self, value: T) -> Result<(), T> {
        match self.try_turn().or_else(|| self.try_turn_slow()) {
            Some(turn) => {
                turn.complete(value);
                Ok(())
            }
            None => Err(value),
        }
    }

    /// Waits until the cell has a value, without initialising it.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let cell = tasuki::OnceCell::from(1);
    /// assert_eq!(cell.wait().await, &1);
    /// # }
    /// ```
    #[track_caller]
    pub fn wait(&self) -> WaitValue<'_, T> {
        ValueOp::wait(self)
    }

    /// Returns the value. If there is none, runs the initialiser, or waits for the one that is running.
    ///
    /// The closure is called only if it is this caller's turn.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the initialiser, and passes the turn on.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let cell = tasuki::OnceCell::new();
    /// assert_eq!(cell.get_or_init(async || 1).await, &1);
    /// assert_eq!(cell.get_or_init(async || 2).await, &1);
    /// # }
    /// ```
    #[track_caller]
    pub fn get_or_init<F, Fut>(&self, init: F) -> GetOrInit<'_, T, F, Fut>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = T>,
    {
        Wait::of(InfallibleInit { init: Init::new(self, init, Ok) })
    }

    /// As [`get_or_init`](Self::get_or_init), with an initialiser that may fail.
    ///
    /// # Errors
    ///
    /// What the initialiser of this caller said. The failure of another caller's is not reported here: the turn passes on.
    ///
    /// # Cancel safety
    ///
    /// As [`get_or_init`](Self::get_or_init): dropping it drops the initialiser, and passes the turn on.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let cell = tasuki::OnceCell::<u8>::new();
    /// assert_eq!(cell.get_or_try_init(async || Err("no")).await, Err("no"));
    /// assert_eq!(cell.get_or_try_init(async || Ok::<_, ()>(1)).await, Ok(&1));
    /// # }
    /// ```
    #[track_caller]
    pub fn get_or_try_init<F, Fut, E>(&self, init: F) -> GetOrTryInit<'_, T, F, Fut, E>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        Wait::of(Init::new(self, init, |result| result))
    }

    /// SAFETY: the value is there, and `DONE` has been seen with Acquire.
    unsafe fn value(&self) -> &T {
        // SAFETY: the caller's contract.
        unsafe { (*self.value.get()).assume_init_ref() }
    }

    /// How many waiters want the turn.
    fn turns_wanted(&self, _locked: &LockedQueue<'_>) -> u32 {
        // Relaxed: guarded by `EDIT`, which the caller holds.
        self.waiters.note.load(Ordering::Relaxed)
    }

    fn count_turn(&self, locked: &LockedQueue<'_>, count: impl FnOnce(u32) -> u32) {
        // Relaxed, and not one operation: guarded by `EDIT`, which the caller holds.
        self.waiters.note.store(count(self.turns_wanted(locked)), Ordering::Relaxed);
    }

    /// `0 => RUNNING`; `None` if there is a value, or an initialiser has the turn, or a waiter is queued, or the queue is locked.
    fn try_turn(&self) -> Option<Turn<'_, T>> {
        // Relaxed: a turn publishes nothing.
        self.waiters.queue.replace(EMPTY, Word::flags(RUNNING), Ordering::Relaxed).ok()?;
        Some(Turn::new(self))
    }

    /// `0 => RUNNING`, `head => head·RUNNING`; `None` if there is a value, or an initialiser has the turn.
    #[cold]
    fn try_turn_slow(&self) -> Option<Turn<'_, T>> {
        let mut locked = self.waiters.queue.lock();
        let free = !locked.word().has(RUNNING | DONE);
        if free {
            locked.set(RUNNING);
        }
        drop(locked);
        free.then(|| Turn::new(self))
    }
}

impl<T> Drop for OnceCell<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<T> Default for OnceCell<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> From<T> for OnceCell<T> {
    fn from(value: T) -> Self {
        let cell = Self::new();
        let _ = cell.set(value);
        cell
    }
}

/// A cell with a copy of the value, or an empty one.
impl<T: Clone> Clone for OnceCell<T> {
    fn clone(&self) -> Self {
        self.get().cloned().map_or_else(Self::new, Self::from)
    }
}

/// Two cells are equal if their values are, or both have none.
impl<T: PartialEq> PartialEq for OnceCell<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceCell<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(value) => f.debug_tuple("OnceCell").field(value).finish(),
            None => f.write_str("OnceCell(<empty>)"),
        }
    }
}
