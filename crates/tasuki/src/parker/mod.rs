//! The parker: a thread's own sleep, with a token that cannot be lost.
//!
//! `.block()`, the workers of a runtime and the thread of the timers sleep here. A thread that is about to sleep may be told not to at any moment; an `unpark` that comes
//! before the `park` leaves a token, and the `park` returns at once. It must never miss an `unpark`: a sleeper that nothing else wakes would sleep for ever.
//!
//! # States
//!
//! | from       | event                        | to         | duty                | fn |
//! |------------|------------------------------|------------|---------------------|----|
//! | `EMPTY`    | unpark                       | `NOTIFIED` | none, user space only | [`ParkerState::notify`] |
//! | `NOTIFIED` | unpark                       | `NOTIFIED` | none: tokens coalesce | [`ParkerState::notify`] |
//! | `PARKED`   | unpark                       | `NOTIFIED` | wake the sleeper    | [`ParkerState::notify`] |
//! | `NOTIFIED` | park                         | `EMPTY`    | return at once      | [`ParkerState::empty`] |
//! | `EMPTY`    | park                         | `PARKED`   | sleep               | [`ParkerState::announce`] |
//! | `PARKED`   | spurious wake-up             | `PARKED`   | sleep on            | |
//! | `NOTIFIED` | wake-up                      | `EMPTY`    | return              | [`ParkerState::take_token`] |
//! | `PARKED`   | the time is over             | `EMPTY`    | return `false`      | [`ParkerState::empty`] |
//! | `EMPTY`    | park in a foreign wait       | `ELSEWHERE`| wait there          | [`ParkerState::announce`] |
//! | `ELSEWHERE`| unpark                       | `NOTIFIED` | interrupt that wait | [`ParkerState::notify`] |
//! | `ELSEWHERE`, `NOTIFIED` | the foreign wait returns | `EMPTY` | return       | [`ParkerState::empty`] |
//!
//! A thread that parks in a *foreign wait* sleeps by another call than this file's: the worker of a runtime waits for sockets. It has left a waker that
//! interrupts the wait, and only in this state is that called: a thread that never waits elsewhere pays nothing for it.
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
//! `state`: Release in [`ParkerState::notify`] pairs with Acquire in [`ParkerState::take_token`] and
//! [`ParkerState::empty`]: what was done before the unpark happens before what follows the park. Tokens that coalesced
//! count too, because swaps continue a release sequence. Release in [`ParkerState::announce`] pairs with Acquire in [`Inner::interrupt`]: the waker that
//! interrupts a foreign wait was stored before it began.

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
use core::panic::RefUnwindSafe;
use core::task::Waker;
use core::time::Duration;
use std::sync::OnceLock;
use std::time::Instant;

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
const NOTIFIED: u32 = 2;
const ELSEWHERE: u32 = 3;

/// Puts its thread to sleep until an [`Unparker`] wakes it.
///
/// A parker holds at most one token. [`unpark`](Unparker::unpark) leaves it, [`park`](Self::park) takes it,
/// sleeping until there is one. Whatever was done before the unpark is visible after the park.
///
/// On Linux it is one word and a futex: the kernel is entered only to sleep, and to wake a thread that does. On other
/// systems it sleeps on a condition variable.
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
///
/// # Order
///
/// One thread parks: a parker can be sent to another thread, not shared. Any number may unpark; their tokens coalesce.
///
/// # When to use something else
///
/// To wait for a *condition* with a thread, use `.block()` on a primitive's future: it is a parker with a queue.
pub struct Parker {
    inner: Arc<Inner>,
    /// `Send`, not `Sync`: two threads must not sleep on one word.
    _not_sync: PhantomData<Cell<()>>,
}

// There is no cell: the marker only says that the type is not `Sync`.
impl RefUnwindSafe for Parker {}

/// Wakes the thread that sleeps on a [`Parker`], or is about to.
///
/// # Examples
///
/// ```
/// let parker = tasuki::Parker::new();
/// let unparker = parker.unparker();
/// std::thread::spawn(move || unparker.unpark());
/// parker.park();
/// ```
#[derive(Clone)]
pub struct Unparker {
    inner: Arc<Inner>,
}

impl Parker {
    /// Creates a parker without a token.
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

    /// Returns an [`Unparker`] of this parker, for any thread; there can be any number of them.
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
    state: ParkerState,
    sleeper: Sleeper,
    /// Interrupts the foreign waits of the thread.
    interrupt: OnceLock<Waker>,
}

impl Inner {
    fn new() -> Self {
        Self {
            state: ParkerState { word: AtomicU32::new(EMPTY) },
            sleeper: Sleeper::new(),
            interrupt: OnceLock::new(),
        }
    }

    /// True with a token, false when the deadline came first.
    #[inline]
    fn park(&self, deadline: Option<Instant>) -> bool {
        self.state.empty() || self.park_slow(deadline)
    }

    #[cold]
    fn park_slow(&self, deadline: Option<Instant>) -> bool {
        crate::queue::nested_wakes::wake_deferred();
        self.state.sleep_for_token(deadline, |word| self.sleeper.sleep(word, PARKED, deadline))
    }

    /// Any => `EMPTY`, after a foreign wait if there was no token; true with a token.
    fn park_in(&self, interrupt: &Waker, wait: impl FnOnce()) -> bool {
        if self.state.empty() {
            return true;
        }
        crate::queue::nested_wakes::wake_deferred();
        self.interrupt.get_or_init(|| interrupt.clone());
        if self.state.announce(ELSEWHERE) {
            wait();
        }
        self.state.empty()
    }

    #[inline]
    fn unpark(&self) {
        match self.state.notify() {
            PARKED => self.sleeper.wake(&self.state.word),
            ELSEWHERE => self.interrupt(),
            _ => {}
        }
    }

    #[cold]
    fn interrupt(&self) {
        // Acquire: pairs with Release in `announce`: the waker. Reads our own swap, or a later one: each continues that release sequence.
        self.state.word.load(Ordering::Acquire);
        if let Some(interrupt) = self.interrupt.get() {
            interrupt.wake_by_ref();
        }
    }
}

/// Parks in `wait`, which is not called if there is a token, until that returns; true with a token. While it lasts an unpark calls `interrupt`, which
/// must make it return, also if it comes before the wait has begun. One parker has one interrupt: that of its first call.
pub fn park_in(parker: &Parker, interrupt: &Waker, wait: impl FnOnce()) -> bool {
    parker.inner.park_in(interrupt, wait)
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
struct ParkerState {
    word: AtomicU32,
}

impl ParkerState {
    /// `EMPTY => PARKED => EMPTY`, with any number of sleeps between; true with a token, false when the deadline came first. A sleep may return for no
    /// reason.
    fn sleep_for_token(&self, deadline: Option<Instant>, sleep: impl Fn(&AtomicU32)) -> bool {
        if !self.announce(PARKED) {
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

    /// Any => `NOTIFIED`; the state before: a thread that is `PARKED` must be woken, one that is `ELSEWHERE` interrupted.
    #[inline]
    fn notify(&self) -> u32 {
        // Release: pairs with Acquire in `take_token` and `empty`.
        self.word.swap(NOTIFIED, Ordering::Release)
    }

    /// `NOTIFIED => EMPTY`; false if there is no token, and a sleeper stays `PARKED`.
    fn take_token(&self) -> bool {
        // Acquire: pairs with Release in `notify`. Relaxed on failure: nothing was given.
        self.word.compare_exchange(NOTIFIED, EMPTY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// `EMPTY => PARKED | ELSEWHERE`; false if a token came first.
    fn announce(&self, sleep: u32) -> bool {
        // Release: pairs with Acquire in `Inner::interrupt`: the waker. Relaxed on failure: it learns nothing before it takes the token.
        self.word.compare_exchange(EMPTY, sleep, Ordering::Release, Ordering::Relaxed).is_ok()
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
            let (state, sleeps) = (ParkerState { word: AtomicU32::new(EMPTY) }, Cell::new(0));
            let token = state.sleep_for_token(None, |_| {
                sleeps.set(sleeps.get() + 1);
                if sleeps.get() > spurious {
                    assert_eq!(state.notify(), PARKED, "a sleeping thread is to be woken");
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
        let (state, sleeps) = (ParkerState { word: AtomicU32::new(EMPTY) }, Cell::new(0));
        let mut time = Duration::from_millis(2);
        while sleeps.get() == 0 {
            let deadline = Instant::now() + time;
            assert!(!state.sleep_for_token(Some(deadline), |_| sleeps.set(sleeps.get() + 1)));
            assert!(Instant::now() >= deadline);
            assert!(state.notify() == EMPTY && state.empty(), "no thread sleeps");
            time *= 2;
        }
    }

    /// The system is asked to wake in one of the three states only, and to sleep only without a token.
    #[test]
    fn the_system_is_entered_only_for_a_sleeping_thread() {
        let state = ParkerState { word: AtomicU32::new(EMPTY) };
        assert_eq!(state.notify(), EMPTY, "no thread sleeps");
        assert_eq!(state.notify(), NOTIFIED, "the token is there");
        assert!(state.sleep_for_token(None, |_| panic!("there is a token")));
        assert!(state.announce(PARKED));
        assert_eq!(state.notify(), PARKED, "the thread sleeps");
        assert_eq!(state.notify(), NOTIFIED, "it has been woken");
    }

    /// A foreign wait is interrupted once, by the unpark that finds it, and is not begun with a token.
    #[test]
    fn a_foreign_wait_is_interrupted_only_while_it_lasts() {
        struct Count(std::sync::atomic::AtomicU32);
        impl Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let count = Arc::new(Count(std::sync::atomic::AtomicU32::new(0)));
        let interrupts = || count.0.load(Ordering::Relaxed);
        let (parker, interrupt) = (Parker::new(), Waker::from(count.clone()));
        let unparker = parker.unparker();
        unparker.unpark();
        assert!(park_in(&parker, &interrupt, || panic!("there is a token")));
        assert!(!park_in(&parker, &interrupt, || ()), "no token came");
        unparker.unpark();
        assert!(park_in(&parker, &interrupt, || panic!("there is a token")));
        assert_eq!(interrupts(), 0);
        let token = park_in(&parker, &interrupt, || (0..3).for_each(|_| unparker.unpark()));
        assert!(token && interrupts() == 1);
        assert!(!parker.park_timeout(Duration::ZERO), "the tokens were one, and it was taken");
    }
}
