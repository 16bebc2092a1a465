//! Small set-ups that tests of several primitives begin with: a mutex with a condvar, waiters that are queued.

use super::poll::pending;
use super::waker::Spy;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Wake;
use tasuki::future::{Acquire, WaitNotified};
use tasuki::policy::{Policy, SemaphorePolicy};
use tasuki::{Condvar, Mutex, RwLock, Semaphore};

/// The waiters on the condvar of a [`Site`].
pub(crate) type Waiting<'s, P> = Pin<Box<WaitNotified<'s, &'s Mutex<u32, P>>>>;

/// A mutex and a condvar.
pub(crate) struct Site<P: Policy> {
    pub(crate) mutex: Mutex<u32, P>,
    pub(crate) condvar: Condvar,
}

impl<P: Policy> Site<P> {
    pub(crate) fn new() -> Self {
        Self { mutex: Mutex::with_policy(0), condvar: Condvar::new() }
    }

    /// A waiter.
    pub(crate) fn wait(&self, spy: &Spy) -> Waiting<'_, P> {
        let mut wait = Box::pin(self.condvar.wait(self.mutex.try_lock().expect("no task holds it")));
        pending(&mut wait, spy);
        wait
    }
}

/// A queue of waiters of these weights, each with a spy.
pub(crate) fn queue<'s, P: SemaphorePolicy>(
    semaphore: &'s Semaphore<P>,
    weights: &[usize],
) -> Vec<(Pin<Box<Acquire<'s, P>>>, Spy)> {
    let waiter = |weight: &usize| {
        let (mut future, spy) = (Box::pin(semaphore.acquire_many(*weight)), Spy::new());
        pending(&mut future, &spy);
        (future, spy)
    };
    weights.iter().map(waiter).collect()
}

/// How often each was woken.
pub(crate) fn wakes<F>(waiters: &[(F, Spy)]) -> Vec<usize> {
    waiters.iter().map(|(_, spy)| spy.wakes()).collect()
}

/// Which of the three kinds could enter now.
pub(crate) fn open<T>(lock: &RwLock<T>) -> String {
    let read = lock.try_read().is_some();
    let upgradable = lock.try_upgradable_read().is_some();
    let write = lock.try_write().is_some();
    [(read, 'r'), (upgradable, 'u'), (write, 'w')].into_iter().filter(|(is, _)| *is).map(|(_, c)| c).collect()
}

/// Counts wakes; a million wakers share it.
#[derive(Default)]
pub(crate) struct Wakes(pub(crate) AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Runs on a thread with a small stack: recursion over a queue would overflow it.
pub(crate) fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    let size = if cfg!(miri) { 1 << 22 } else { 256 << 10 };
    std::thread::Builder::new().stack_size(size).spawn(test).unwrap().join().unwrap();
}
