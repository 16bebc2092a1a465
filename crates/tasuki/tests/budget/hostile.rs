//! A runtime that panics when it is asked which task runs: no lock is lost, whichever way it is taken, granted or cancelled.

use crate::kit::poll::poll;
use crate::kit::waker::Spy;
use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use tasuki::runtime::{self, Driver, TaskId, Timers};
use tasuki::{Condvar, Mutex, ReentrantMutex, RwLock};

/// Answers so many questions, then panics.
struct Busy {
    answers: Cell<usize>,
    id: TaskId,
}

impl Driver for Busy {
    fn task(&self) -> Option<TaskId> {
        let left = self.answers.get();
        assert!(left > 0, "a driver that is busy");
        self.answers.set(left - 1);
        Some(self.id)
    }

    fn timers(&self) -> Option<Arc<Timers>> {
        None
    }

    fn may_block(&self) -> bool {
        true
    }
}

/// Takes a lock while `before` holds it or does not, under a driver that panics at every question in turn, and drops what came of
/// it; `is_free` is then asked of the lock.
fn never_lost<B, F: Future>(
    name: &str,
    before: impl Fn() -> B,
    take: impl Fn() -> F,
    is_free: impl Fn() -> bool,
) {
    for answers in 0..6 {
        for held in [false, true] {
            for polled_again in [false, true] {
                let driver = Busy { answers: Cell::new(answers), id: TaskId::fresh() };
                let before = held.then(&before);
                let _ = catch_unwind(AssertUnwindSafe(|| {
                    runtime::enter(&driver, || {
                        let mut take = Box::pin(take());
                        let spy = Spy::new();
                        let first = poll(&mut take, &spy);
                        drop(before);
                        if polled_again && first.is_pending() {
                            assert!(matches!(poll(&mut take, &spy), Poll::Ready(_)), "granted");
                        }
                    });
                }));
                assert!(is_free(), "{name}: {answers} answers, held {held}, polled again {polled_again}");
            }
        }
    }
}

#[test]
fn a_driver_that_panics_loses_no_lock() {
    let mutex = &Arc::new(Mutex::new(0));
    let free = || !mutex.is_locked();
    let before = || mutex.try_lock().unwrap();
    never_lost("try_lock", || (), || async { mutex.try_lock() }, free);
    never_lost("lock", before, || mutex.lock(), free);
    never_lost("try_lock_owned", || (), || async { mutex.clone().try_lock_owned() }, free);
    never_lost("lock_owned", before, || mutex.clone().lock_owned(), free);

    let lock = &Arc::new(RwLock::new(0));
    let free = || lock.try_write().is_some();
    let before = || lock.try_write().unwrap();
    never_lost("try_read", || (), || async { lock.try_read() }, free);
    never_lost("try_write", || (), || async { lock.try_write() }, free);
    never_lost("try_upgradable_read", || (), || async { lock.try_upgradable_read() }, free);
    never_lost("read", before, || lock.read(), free);
    never_lost("write", before, || lock.write(), free);
    never_lost("upgradable_read", before, || lock.upgradable_read(), free);
    never_lost("read_owned", before, || lock.clone().read_owned(), free);
    never_lost("write_owned", before, || lock.clone().write_owned(), free);
    never_lost("upgradable_read_owned", before, || lock.clone().upgradable_read_owned(), free);
}

#[test]
fn a_driver_that_panics_loses_no_reentrant_lock() {
    let mutex = &ReentrantMutex::new(0);
    let known = || Busy { answers: Cell::new(usize::MAX), id: TaskId::fresh() };
    let free = || runtime::enter(&known(), || mutex.try_lock().unwrap().is_some());
    let before = || runtime::enter(&known(), || mutex.try_lock().unwrap().unwrap());
    never_lost("try_lock", || (), || async { mutex.try_lock() }, free);
    never_lost("lock", before, || mutex.lock(), free);
}

#[test]
fn a_driver_that_panics_loses_no_lock_of_a_condvar() {
    let (mutex, condvar) = (&Mutex::new(0), &Condvar::new());
    let wait = || async {
        let guard = mutex.try_lock().unwrap();
        drop(condvar.wait(guard).await);
    };
    struct Notify<'a>(&'a Condvar);
    impl Drop for Notify<'_> {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    never_lost("condvar", || Notify(condvar), wait, || !mutex.is_locked());
}
