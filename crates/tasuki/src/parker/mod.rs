//! The parker: a thread's own sleep, with a token that cannot be lost.
//!
//! # States
//!
//! | from       | event                        | to         | duty                | fn |
//! |------------|------------------------------|------------|---------------------|----|
//! | `EMPTY`    | unpark                       | `NOTIFIED` | none, user space only | [`State::notify`] |
//! | `NOTIFIED` | unpark                       | `NOTIFIED` | none: tokens coalesce | [`State::notify`] |
//! | `PARKED`   | unpark                       | `NOTIFIED` | wake the sleeper    | [`State::notify`] |
//! | `NOTIFIED` | park                         | `EMPTY`    | return at once      | [`State::empty`] |
//! | `EMPTY`    | park                         | `PARKED`   | sleep               | [`State::announce`] |
//! | `PARKED`   | spurious wake-up             | `PARKED`   | sleep on            | |
//! | `NOTIFIED` | wake-up                      | `EMPTY`    | return              | [`State::take_token`] |
//! | `PARKED`   | the time is over             | `EMPTY`    | return `false`      | [`State::empty`] |
//!
//! `NOTIFIED` is what makes the race "check the queue; another thread pushes and unparks; go to sleep"
//! harmless: the unpark leaves a token, and the park that comes too late takes it instead of sleeping. A
//! binary semaphore would need a second mechanism to return to `EMPTY` and to override a sleep that is being begun.
//!
//! # The token is taken by a read-modify-write
//!
//! A plain `store(EMPTY)` at the end of `park` could sit in the store buffer while an unpark finds the
//! old `NOTIFIED`, decides that there is nothing to do, and is then erased by the late store. The next park would sleep
//! on a token that was given. A swap or compare-exchange cannot overtake or erase: it acts on the newest value. The models
//! keep the plain store as a variant that fails.
//!
//! # Orderings
//! `state`: Release in [`State::notify`] pairs with Acquire in [`State::take_token`] and
//! [`State::empty`]: what was done before the unpark happens before what follows the park. Tokens that coalesced
//! count too, because swaps continue a release sequence.

mod block;
#[allow(dead_code, unused_imports, reason = "the model checker sleeps by its own means")]
pub(crate) mod sleep;

pub(crate) use block::block_on;

use crate::shim::{AtomicU32, Ordering, Sleeper};
use alloc::sync::Arc;
use alloc::task::Wake;
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::task::Waker;
use core::time::Duration;
use std::time::Instant;

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
const NOTIFIED: u32 = 2;

/// Puts a thread to sleep until its [`Unparker`] says otherwise.
///
/// A parker holds at most one token. [`unpark`](Unparker::unpark) leaves it, [`park`](Self::park) takes it,
/// sleeping until there is one. Whatever was done before the unpark is visible after the park.
///
/// On Linux it is one word and a futex: the kernel is entered only to sleep, and to wake a thread that does. On other
/// systems it sleeps on a condition variable.
///
/// # Order
///
/// One thread parks: a parker can be sent to another thread, not shared. Any number may unpark; their tokens coalesce.
///
/// # When to use something else
///
/// To wait for a *condition* with a thread, use `.block()` on a primitive's future: it is a parker with a queue.
///
/// # Examples
///
/// ```
/// use tasuki::Parker;
///
/// let parker = Parker::new();
/// let unparker = parker.unparker();
/// let worker = std::thread::spawn(move || {
///     parker.park();
///     "awake"
/// });
/// unparker.unpark();
/// assert_eq!(worker.join().unwrap(), "awake");
/// ```
pub struct Parker {
    inner: Arc<Inner>,
    /// `Send`, not `Sync`: two threads must not sleep on one word.
    _not_sync: PhantomData<Cell<()>>,
}

/// Wakes the thread that sleeps on a [`Parker`], or is about to.
#[derive(Clone)]
pub struct Unparker {
    inner: Arc<Inner>,
}

impl Parker {
    /// A parker without a token.
    ///
    /// # Examples
    ///
    /// ```
    /// let parker = tasuki::Parker::new();
    /// # parker.unparker().unpark();
    /// # parker.park();
    /// ```
    pub fn new() -> Self {
        Self { inner: Arc::new(Inner::new()), _not_sync: PhantomData }
    }

    /// Sleeps until there is a token, and takes it. Returns at once if there is one.
    ///
    /// Spurious wake-ups of the system are absorbed: it returns only with a token.
    ///
    /// # Examples
    ///
    /// ```
    /// let parker = tasuki::Parker::new();
    /// parker.unparker().unpark();
    /// parker.park();
    /// ```
    #[inline]
    pub fn park(&self) {
        self.inner.park(None);
    }

    /// Sleeps until there is a token, or the time is over; true with a token.
    ///
    /// A token that comes at the last moment is taken, not left behind. `Duration::MAX` and other
    /// durations that no clock can reach mean for ever.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let parker = tasuki::Parker::new();
    /// assert!(!parker.park_timeout(Duration::from_millis(1)));
    /// ```
    pub fn park_timeout(&self, timeout: Duration) -> bool {
        if self.inner.state.empty() {
            return true;
        }
        self.inner.park(Instant::now().checked_add(timeout))
    }

    /// Sleeps until there is a token, or `deadline` is past; true with a token.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Instant;
    ///
    /// let parker = tasuki::Parker::new();
    /// assert!(!parker.park_deadline(Instant::now()));
    /// ```
    pub fn park_deadline(&self, deadline: Instant) -> bool {
        self.inner.park(Some(deadline))
    }

    /// What wakes this parker; as many as needed, for any thread.
    ///
    /// # Examples
    ///
    /// ```
    /// let parker = tasuki::Parker::new();
    /// let unparker = parker.unparker();
    /// # unparker.unpark();
    /// # parker.park();
    /// ```
    pub fn unparker(&self) -> Unparker {
        Unparker { inner: self.inner.clone() }
    }
}

impl Unparker {
    /// Leaves a token, and wakes the thread if it sleeps. A token that is there already stays one.
    ///
    /// # Examples
    ///
    /// ```
    /// let parker = tasuki::Parker::new();
    /// parker.unparker().unpark();
    /// parker.unparker().unpark();
    /// parker.park();
    /// assert!(!parker.park_timeout(std::time::Duration::ZERO));
    /// ```
    #[inline]
    pub fn unpark(&self) {
        self.inner.unpark();
    }
}

impl From<Unparker> for Waker {
    /// A waker that unparks: a thread can poll a future and park until it is woken.
    fn from(unparker: Unparker) -> Self {
        Self::from(unparker.inner)
    }
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Parker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parker").finish_non_exhaustive()
    }
}

impl fmt::Debug for Unparker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unparker").finish_non_exhaustive()
    }
}

/// What parker and unparkers share. The woken side may drop the parker while an unpark is still under
/// way; the unparker's `Arc` keeps this alive until it is done.
struct Inner {
    state: State,
    sleeper: Sleeper,
}

impl Inner {
    fn new() -> Self {
        Self { state: State { word: AtomicU32::new(EMPTY) }, sleeper: Sleeper::new() }
    }

    /// True with a token, false when the deadline came first.
    #[inline]
    fn park(&self, deadline: Option<Instant>) -> bool {
        self.state.empty() || self.park_slow(deadline)
    }

    #[cold]
    fn park_slow(&self, deadline: Option<Instant>) -> bool {
        crate::queue::nested::wake_deferred();
        self.state.sleep_for_token(deadline, |word| self.sleeper.sleep(word, PARKED, deadline))
    }

    #[inline]
    fn unpark(&self) {
        if self.state.notify() {
            self.sleeper.wake(&self.state.word);
        }
    }
}

impl Wake for Inner {
    fn wake(self: Arc<Self>) {
        self.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.unpark();
    }
}

/// The word, private to its transitions.
struct State {
    word: AtomicU32,
}

impl State {
    /// `EMPTY => PARKED => EMPTY`, with any number of sleeps between; true with a token, false when the deadline came first. A sleep may return for no
    /// reason.
    fn sleep_for_token(&self, deadline: Option<Instant>, sleep: impl Fn(&AtomicU32)) -> bool {
        if !self.announce() {
            return self.empty();
        }
        loop {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return self.empty();
            }
            sleep(&self.word);
            if self.take_token() {
                return true;
            }
        }
    }

    /// Any => `NOTIFIED`; true if a sleeper must be woken.
    #[inline]
    fn notify(&self) -> bool {
        // Release: pairs with Acquire in `take_token` and `empty`.
        self.word.swap(NOTIFIED, Ordering::Release) == PARKED
    }

    /// `NOTIFIED => EMPTY`; false if there is no token, and a sleeper stays `PARKED`.
    fn take_token(&self) -> bool {
        // Acquire: pairs with Release in `notify`. Relaxed on failure: nothing was given.
        self.word.compare_exchange(NOTIFIED, EMPTY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// `EMPTY => PARKED`; false if a token came first.
    fn announce(&self) -> bool {
        // Relaxed: a sleeper publishes nothing, and learns nothing before it takes the token.
        self.word.compare_exchange(EMPTY, PARKED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Any => `EMPTY`; true if there was a token. By the thread that parks, before it sleeps or when it will sleep no
    /// longer. A swap, because it is a little quicker than a compare-exchange.
    #[inline]
    fn empty(&self) -> bool {
        // Acquire: pairs with Release in `notify`.
        self.word.swap(EMPTY, Ordering::Acquire) == NOTIFIED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sleeper that returns for no reason, again and again: the park sleeps on until there is a token, and takes it.
    #[test]
    fn spurious_wake_ups_are_absorbed() {
        for spurious in 0..5 {
            let (state, sleeps) = (State { word: AtomicU32::new(EMPTY) }, Cell::new(0));
            let token = state.sleep_for_token(None, |_| {
                sleeps.set(sleeps.get() + 1);
                if sleeps.get() > spurious {
                    assert!(state.notify(), "a sleeping thread is to be woken");
                }
            });
            assert!(token && sleeps.get() == spurious + 1);
            assert!(!state.empty(), "the token was taken");
        }
    }

    /// Sleeps that return for no reason until the deadline has passed: no token, and none is left behind. A deadline that has passed before the first
    /// sleep, on a slow machine, is tried again with a later one.
    #[test]
    fn a_deadline_ends_spurious_wake_ups() {
        let (state, sleeps) = (State { word: AtomicU32::new(EMPTY) }, Cell::new(0));
        let mut time = Duration::from_millis(2);
        while sleeps.get() == 0 {
            let deadline = Instant::now() + time;
            assert!(!state.sleep_for_token(Some(deadline), |_| sleeps.set(sleeps.get() + 1)));
            assert!(Instant::now() >= deadline);
            assert!(!state.notify() && state.empty(), "no thread sleeps");
            time *= 2;
        }
    }

    /// The system is asked to wake in one of the three states only, and to sleep only without a token.
    #[test]
    fn the_system_is_entered_only_for_a_sleeping_thread() {
        let state = State { word: AtomicU32::new(EMPTY) };
        assert!(!state.notify(), "no thread sleeps");
        assert!(!state.notify(), "the token is there");
        assert!(state.sleep_for_token(None, |_| panic!("there is a token")));
        assert!(state.announce());
        assert!(state.notify(), "the thread sleeps");
        assert!(!state.notify(), "it has been woken");
    }
}
