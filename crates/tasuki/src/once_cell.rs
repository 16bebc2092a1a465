//! The once cell: a value that is made once, by whoever comes first and succeeds.
//!
//! # States of the word
//!
//! | word           | meaning                                             |
//! |----------------|-----------------------------------------------------|
//! | `0`            | empty, nobody is making the value                   |
//! | `RUNNING`      | somebody has the turn to make it                    |
//! | `head·RUNNING` | the same, and others wait                           |
//! | `head`         | empty, and somebody waits for the value without wanting the turn |
//! | `DONE`         | the value is there, for ever                        |
//!
//! Each with `EDIT` while the queue is edited.
//!
//! # Transitions
//!
//! | from        | event                       | to                    | duty | fn |
//! |-------------|-----------------------------|-----------------------|------|----|
//! | `0`, `head` | a turn is wanted            | `+ RUNNING`           | make the value | [`OnceCell::try_turn`], [`OnceCell::try_turn_slow`], [`TurnOp::start`] |
//! | `RUNNING`   | a turn is wanted            | waiter appended       | return `Pending` | [`TurnOp::start`] |
//! | not `DONE`  | the value is wanted         | waiter appended       | return `Pending` | [`TurnOp::start`] |
//! | `RUNNING`   | the value has been made     | `DONE`, round released| wake all | [`Turn::complete`] |
//! | `RUNNING`   | failed, panicked, cancelled | the first who wants it has the turn, else `- RUNNING` | wake it | [`Turn::drop`] |
//! | queued      | drop                        | waiter removed        | none | [`TurnOp::cancel`] |
//! | granted     | drop                        | as a failed turn      | as a failed turn | [`TurnOp::cancel`] |
//!
//! # Orderings
//! The word: Release of the edit in [`Turn::complete`] pairs with Acquire of [`OnceCell::get`]: the value. A turn publishes
//! nothing. Waiters that no batch has reached read the round.

use crate::queue::broadcast::{Broadcast, Withdrawn};
use crate::queue::waiter::{Ask, clone_waker, drop_waker, wake};
use crate::queue::word::{FIRST as RUNNING, SECOND as DONE, Word};
use crate::queue::{Deferred, Pinned, QueueLock as _};
use crate::shim::{Ordering, const_fn};
use crate::wait::{Awaitable, Cancel, Op, Seat, Single, Wait};
use core::cell::UnsafeCell;
use core::convert::Infallible;
use core::fmt;
use core::future::Future;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::pin::Pin;
use core::task::{Context, Poll};

const EMPTY: Word = Word::flags(0);

/// What a waiter asks for, as its weight.
const WANTS_TURN: usize = 1;
const WANTS_VALUE: usize = 0;

/// A value that is made once, perhaps asynchronously, and shared from then on.
///
/// Whoever comes first makes it; the others wait. An initialiser that fails, panics or is dropped passes the turn to the
/// next who brought one. [`get`](Self::get) is one load.
///
/// # Order
///
/// The turn goes first come, first served. When the value is there, everybody who waits is released at once.
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
/// What the initialiser did happens before what everybody does who sees the value.
///
/// # Re-entrancy
///
/// An initialiser that initialises the same cell waits for itself, for ever.
///
/// # Limits
///
/// None on the number of waiters. A turn that fails looks for the first who wants it, past those before it who wait for the value
/// only: with many of these that takes time.
///
/// # Futurelock
///
/// A `get_or_init` that was polled and is then neither polled nor dropped can have the turn, and keeps it.
///
/// # When to use something else
///
/// For a value that is made without `.await`, `std::sync::OnceLock`.
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
pub struct OnceCell<T> {
    waiters: Broadcast,
    /// Initialised exactly while `DONE` is set.
    value: UnsafeCell<MaybeUninit<T>>,
    owns: PhantomData<T>,
}

// SAFETY: the value moves with the cell, and may be made by another thread than the one that drops it.
unsafe impl<T: Send> Send for OnceCell<T> {}
// SAFETY: `&T` is shared once it is there; whoever has the turn may be on another thread than the cell's owner.
unsafe impl<T: Send + Sync> Sync for OnceCell<T> {}
impl<T: RefUnwindSafe + UnwindSafe> RefUnwindSafe for OnceCell<T> {}
impl<T: UnwindSafe> UnwindSafe for OnceCell<T> {}

impl<T> OnceCell<T> {
    const_fn! {
        /// An empty cell.
        ///
        /// # Examples
        ///
        /// ```
        /// static CELL: tasuki::OnceCell<u8> = tasuki::OnceCell::new();
        /// assert!(CELL.get().is_none());
        /// ```
        pub const fn new() -> Self {
            Self {
                waiters: Broadcast::new(EMPTY),
                value: UnsafeCell::new(MaybeUninit::uninit()),
                owns: PhantomData,
            }
        }
    }

    /// The value, if it is there.
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
        // Acquire: pairs with Release in the drop of `Editing` in `Turn::complete`.
        // SAFETY: `DONE`: the value is there, and is not written again.
        self.waiters.queue.load_with(Ordering::Acquire).has(DONE).then(|| unsafe { self.value() })
    }

    /// The value, to change it: the exclusive borrow proves that nobody else looks.
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

    /// The value, if it was there.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tasuki::OnceCell::<u8>::new().into_inner(), None);
    /// ```
    pub fn into_inner(mut self) -> Option<T> {
        self.take()
    }

    /// Takes the value out and leaves the cell empty.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut cell = tasuki::OnceCell::from(1);
    /// assert_eq!(cell.take(), Some(1));
    /// assert!(cell.get().is_none());
    /// ```
    pub fn take(&mut self) -> Option<T> {
        self.get()?;
        // SAFETY: `DONE`: the value is there; the new word below makes sure that it is not used again.
        let value = unsafe { self.value.get_mut().assume_init_read() };
        self.waiters = Broadcast::new(EMPTY);
        Some(value)
    }

    /// Puts a value into an empty cell that nobody is making one for.
    ///
    /// # Errors
    ///
    /// The value itself, if there is one already, or somebody has the turn.
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

    /// Waits for somebody to make the value.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// let cell = tasuki::OnceCell::from(1);
    /// assert_eq!(cell.wait().block(), &1);
    /// ```
    pub fn wait(&self) -> WaitValue<'_, T> {
        Wait::new(ValueOp { op: TurnOp { cell: self, wants: WANTS_VALUE } })
    }

    /// The value; makes it, or waits for whoever is making it.
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
    /// let cell = tasuki::OnceCell::new();
    /// assert_eq!(cell.get_or_init(async || 1).block(), &1);
    /// assert_eq!(cell.get_or_init(async || 2).block(), &1);
    /// ```
    pub fn get_or_init<F, Fut>(&self, init: F) -> GetOrInit<'_, T, F, Fut>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = T>,
    {
        Wait::of(Surely { init: Init::new(self, init, Ok) })
    }

    /// As [`get_or_init`](Self::get_or_init), with an initialiser that may fail.
    ///
    /// # Errors
    ///
    /// What the initialiser of this caller said. Somebody else's failure is not ours: the turn passes on.
    ///
    /// # Examples
    ///
    /// ```
    /// let cell = tasuki::OnceCell::<u8>::new();
    /// assert_eq!(cell.get_or_try_init(async || Err("no")).block(), Err("no"));
    /// assert_eq!(cell.get_or_try_init(async || Ok::<_, ()>(1)).block(), Ok(&1));
    /// ```
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

    /// `0 => RUNNING`; `None` if there is a value, or somebody has the turn, or waits, or edits.
    fn try_turn(&self) -> Option<Turn<'_, T>> {
        // Relaxed: a turn publishes nothing.
        self.waiters.queue.replace(EMPTY, Word::flags(RUNNING), Ordering::Relaxed).ok()?;
        Some(Turn { cell: self })
    }

    /// `0 => RUNNING`, `head => head·RUNNING`; `None` if there is a value, or somebody has the turn.
    #[cold]
    fn try_turn_slow(&self) -> Option<Turn<'_, T>> {
        let mut editing = self.waiters.queue.edit();
        let free = !editing.word().has(RUNNING | DONE);
        if free {
            editing.set(RUNNING);
        }
        drop(editing);
        free.then(|| Turn { cell: self })
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

impl<T: fmt::Debug> fmt::Debug for OnceCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(value) => f.debug_tuple("OnceCell").field(value).finish(),
            None => f.write_str("OnceCell(<empty>)"),
        }
    }
}

/// The right, and the duty, to make the value. Dropping it passes it on.
struct Turn<'a, T> {
    cell: &'a OnceCell<T>,
}

impl<'a, T> Turn<'a, T> {
    /// `RUNNING => DONE`.
    fn complete(self, value: T) -> &'a T {
        let cell = self.cell;
        core::mem::forget(self);
        // SAFETY: the turn is ours alone, and nobody reads before `DONE`.
        unsafe { (*cell.value.get()).write(value) };
        let mut editing = cell.waiters.queue.edit();
        editing.clear(RUNNING);
        editing.set(DONE);
        cell.waiters.release_all(editing);
        // SAFETY: written above, by this thread.
        unsafe { cell.value() }
    }
}

impl<T> Drop for Turn<'_, T> {
    /// `RUNNING =>` the turn of the first who wants it, or nobody's.
    fn drop(&mut self) {
        let mut editing = self.cell.waiters.queue.edit();
        let mut at = editing.first();
        let mut next = None;
        // SAFETY: a place of this list, from `first` on, and nothing else changes it.
        while let Some(waiter) = unsafe { editing.at(at) } {
            if waiter.weight() == WANTS_TURN {
                // SAFETY: there is a waiter at this place.
                next = Some(unsafe { editing.grant_at(&mut at) });
                break;
            }
            // SAFETY: there is a waiter at this place.
            unsafe { editing.pass(&mut at) };
        }
        if next.is_none() {
            editing.clear(RUNNING);
        }
        wake(editing.unlock_with(next.unwrap_or_else(Deferred::none)));
    }
}

/// What a wait for a turn ends with.
enum Outcome<'a, T> {
    /// The value is there.
    Value(&'a T),
    /// It is the waiter's turn.
    Turn(Turn<'a, T>),
}

/// Waits for a turn, or for the value alone.
struct TurnOp<'a, T> {
    cell: &'a OnceCell<T>,
    wants: usize,
}

impl<'a, T> TurnOp<'a, T> {
    fn try_now(&self) -> Option<Outcome<'a, T>> {
        if let Some(value) = self.cell.get() {
            return Some(Outcome::Value(value));
        }
        if self.wants == WANTS_TURN { self.cell.try_turn().map(Outcome::Turn) } else { None }
    }

    fn start(&self, seat: Seat<'_>, cx: &mut Context<'_>) -> Poll<Outcome<'a, T>> {
        let waker = clone_waker(cx.waker());
        let mut editing = self.cell.waiters.queue.edit();
        if editing.word().has(DONE) {
            drop(editing);
            drop_waker(Some(waker));
            // SAFETY: `DONE`, seen under `EDIT`: the value is there.
            return Poll::Ready(Outcome::Value(unsafe { self.cell.value() }));
        }
        if self.wants == WANTS_TURN && !editing.word().has(RUNNING) {
            editing.set(RUNNING);
            drop(editing);
            // Before the foreign code: if that panics, the turn passes on.
            let turn = Turn { cell: self.cell };
            drop_waker(Some(waker));
            return Poll::Ready(Outcome::Turn(turn));
        }
        let ask = Ask { weight: self.wants, ..self.cell.waiters.ask(&editing) };
        editing.push_back(seat.sit(waker, ask));
        Poll::Pending
    }

    /// The wait has ended: with the value, or else by a grant of the turn. The round tells which: a waiter can know of its end
    /// before the word says `DONE`, and nobody but the owner of a turn ends a round.
    fn outcome(&self, waiter: Pinned<'_>) -> Outcome<'a, T> {
        if self.cell.waiters.is_released(waiter.get()) {
            // SAFETY: the round ended after the value was written; the poll or cancel that found the wait ended has seen
            // `Notified` with Acquire, or has edited after the edit that ended the round.
            Outcome::Value(unsafe { self.cell.value() })
        } else {
            Outcome::Turn(Turn { cell: self.cell })
        }
    }

    fn poll_queued(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Outcome<'a, T>> {
        self.cell.waiters.poll_queued(waiter, cx).map(|()| self.outcome(waiter))
    }

    fn cancel(&self, waiter: Pinned<'_>) -> Option<Outcome<'a, T>> {
        match self.cell.waiters.withdraw(waiter, |_| {}) {
            Withdrawn::InTime => None,
            Withdrawn::Given => Some(self.outcome(waiter)),
        }
    }
}

/// The operation of [`OnceCell::wait`].
pub struct ValueOp<'a, T> {
    op: TurnOp<'a, T>,
}

/// The future of [`OnceCell::wait`].
pub type WaitValue<'a, T> = Wait<Single<ValueOp<'a, T>>>;

impl<'a, T> ValueOp<'a, T> {
    fn value(outcome: Outcome<'a, T>) -> &'a T {
        match outcome {
            Outcome::Value(value) => value,
            Outcome::Turn(_) => unreachable!("a turn goes to those who want it"),
        }
    }
}

impl<T> fmt::Debug for ValueOp<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ValueOp")
    }
}

impl<'a, T> Op for ValueOp<'a, T> {
    type Output = &'a T;
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::WaitValue";

    fn try_now(&mut self) -> Option<&'a T> {
        self.op.cell.get()
    }

    fn is_ready(&self) -> bool {
        self.op.cell.get().is_some()
    }

    fn start(&mut self, seat: Seat<'_>, cx: &mut Context<'_>) -> Poll<&'a T> {
        self.op.start(seat, cx).map(Self::value)
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<&'a T> {
        self.op.poll_queued(waiter, cx).map(Self::value)
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<&'a T> {
        self.op.cancel(waiter).map(Self::value)
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }
}

impl<'a, T> Op for TurnOp<'a, T> {
    type Output = Outcome<'a, T>;
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::GetOrInit";

    fn try_now(&mut self) -> Option<Outcome<'a, T>> {
        TurnOp::try_now(self)
    }

    fn is_ready(&self) -> bool {
        // With a value, and also without one if the turn is free.
        !self.cell.waiters.queue.load_settled().has(RUNNING)
    }

    fn start(&mut self, seat: Seat<'_>, cx: &mut Context<'_>) -> Poll<Outcome<'a, T>> {
        TurnOp::start(self, seat, cx)
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Outcome<'a, T>> {
        TurnOp::poll_queued(self, waiter, cx)
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Outcome<'a, T>> {
        TurnOp::cancel(self, waiter)
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }
}

/// The future of [`OnceCell::get_or_try_init`].
pub type GetOrTryInit<'a, T, F, Fut, E> = Wait<Init<'a, T, F, Fut, E>>;

/// Waits for the turn, then runs the initialiser.
#[must_use = "a future does nothing unless it is polled"]
pub struct Init<'a, T, F, Fut: Future, E> {
    /// What to run when it is our turn; gone when it runs.
    init: Option<F>,
    finish: fn(Fut::Output) -> Result<T, E>,
    wait: Single<TurnOp<'a, T>>,
    /// The turn, and the initialiser that has it. Dropped in this order: a turn passes on when its initialiser is gone.
    running: Option<Fut>,
    turn: Option<Turn<'a, T>>,
}

impl<'a, T, F: FnOnce() -> Fut, Fut: Future, E> Init<'a, T, F, Fut, E> {
    fn new(cell: &'a OnceCell<T>, init: F, finish: fn(Fut::Output) -> Result<T, E>) -> Self {
        let wait = Single::new(TurnOp { cell, wants: WANTS_TURN });
        Self { init: Some(init), finish, wait, running: None, turn: None }
    }
}

impl<'a, T, F: FnOnce() -> Fut, Fut: Future, E> Future for Init<'a, T, F, Fut, E> {
    type Output = Result<&'a T, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: nothing that is pinned is moved out: `wait` and `running` are only reached pinned.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: a field of the pinned whole.
        let mut running = unsafe { Pin::new_unchecked(&mut this.running) };
        // On the stack while foreign code runs: if that panics, the turn passes on.
        let turn = match this.turn.take() {
            Some(turn) => turn,
            None => {
                // SAFETY: a field of the pinned whole.
                let wait = unsafe { Pin::new_unchecked(&mut this.wait) };
                let turn = match core::task::ready!(wait.poll(cx)) {
                    Outcome::Value(value) => return Poll::Ready(Ok(value)),
                    Outcome::Turn(turn) => turn,
                };
                let init = this.init.take().expect("the initialiser runs once");
                running.set(Some(init()));
                turn
            }
        };
        let initialiser = running.as_mut().as_pin_mut().expect("it runs while it is our turn");
        let Poll::Ready(output) = initialiser.poll(cx) else {
            this.turn = Some(turn);
            return Poll::Pending;
        };
        running.set(None);
        let made = (this.finish)(output);
        Poll::Ready(made.map(|value| turn.complete(value)))
    }
}

impl<'a, T, F: FnOnce() -> Fut, Fut: Future, E> Awaitable for Init<'a, T, F, Fut, E> {
    type Unfinished<L> = L;

    /// An initialiser that is running is dropped, and the turn passes on.
    fn cancel(self: Pin<&mut Self>, right: Cancel) -> Option<Self::Output> {
        // SAFETY: nothing that is pinned is moved out.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: a field of the pinned whole.
        let mut running = unsafe { Pin::new_unchecked(&mut this.running) };
        running.set(None);
        drop(this.turn.take());
        // SAFETY: a field of the pinned whole.
        let wait = unsafe { Pin::new_unchecked(&mut this.wait) };
        match wait.cancel(right)? {
            Outcome::Value(value) => Some(Ok(value)),
            // Granted at the last moment, and no time left to make the value: the next one has the turn.
            Outcome::Turn(turn) => {
                drop(turn);
                None
            }
        }
    }

    fn unfinished<L>(self: Pin<&mut Self>, limit: L, _right: Cancel) -> L {
        limit
    }

    fn is_terminated(&self) -> bool {
        self.wait.is_terminated() && self.turn.is_none() && self.running.is_none()
    }
}

impl<T, F, Fut: Future, E> fmt::Debug for Init<'_, T, F, Fut, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetOrInit").field("has_turn", &self.turn.is_some()).finish_non_exhaustive()
    }
}

/// The future of [`OnceCell::get_or_init`].
pub type GetOrInit<'a, T, F, Fut> = Wait<Surely<'a, T, F, Fut>>;

/// An initialiser that cannot fail.
#[must_use = "a future does nothing unless it is polled"]
pub struct Surely<'a, T, F, Fut: Future> {
    init: Init<'a, T, F, Fut, Infallible>,
}

impl<'a, T, F: FnOnce() -> Fut, Fut: Future> Future for Surely<'a, T, F, Fut> {
    type Output = &'a T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<&'a T> {
        // SAFETY: a projection to the only field.
        let init = unsafe { self.map_unchecked_mut(|this| &mut this.init) };
        init.poll(cx).map(|Ok(value)| value)
    }
}

impl<'a, T, F: FnOnce() -> Fut, Fut: Future> Awaitable for Surely<'a, T, F, Fut> {
    type Unfinished<L> = L;

    fn cancel(self: Pin<&mut Self>, right: Cancel) -> Option<&'a T> {
        // SAFETY: a projection to the only field.
        let init = unsafe { self.map_unchecked_mut(|this| &mut this.init) };
        init.cancel(right).map(|Ok(value)| value)
    }

    fn unfinished<L>(self: Pin<&mut Self>, limit: L, _right: Cancel) -> L {
        limit
    }

    fn is_terminated(&self) -> bool {
        self.init.is_terminated()
    }
}

impl<T, F, Fut: Future> fmt::Debug for Surely<'_, T, F, Fut> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.init.fmt(f)
    }
}
