//! The budget that a runtime gives to a poll. Exhausted, what is ready is not touched and its task is woken; what must wait enqueues at
//! once, so the order of enqueueing does not depend on budgets (B123).

use crate::kit::driver::FakeDriver;
use crate::kit::poll::{panic_of, panics, pending, poll, ready};
use crate::kit::waker::{Call, Spy, never_yields};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tasuki::policy::Bypass;
use tasuki::runtime::{self, TaskId};
use tasuki::{
    Barrier, CancellationSource, Condvar, Event, Latch, Mutex, MutexGuard, OnceCell, ReentrantMutex, RwLock,
    RwLockUpgradableReadGuard, Semaphore, WaitGroup,
};

/// A poll by a runtime that says only which task runs, with so much left to it.
fn with_budget<R>(operations: u32, f: impl FnOnce() -> R) -> R {
    never_yields();
    runtime::enter(&FakeDriver::of(TaskId::fresh()), || {
        runtime::set_budget(operations);
        f()
    })
}

/// The first poll yields, once, and has touched nothing; the second one is ready, also without a new budget.
#[track_caller]
fn yields<F: Future>(future: F, is_untouched: impl Fn() -> bool) -> F::Output {
    let (mut future, spy) = (Box::pin(future), Spy::new());
    with_budget(0, || pending(&mut future, &spy));
    assert_eq!((spy.wakes(), spy.alive()), (1, 0), "woken once, and the waker is not kept");
    assert!(is_untouched(), "changed by a future that yields");
    let output = with_budget(0, || poll(&mut future, &spy));
    assert!(panic_of(|| poll(&mut future, &spy)).contains("polled after it was finished"));
    assert_eq!(spy.wakes(), 1);
    match output {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("yields twice"),
    }
}

#[test]
fn what_is_ready_yields_and_is_not_touched() {
    let mutex = Arc::new(Mutex::new(1));
    let free = || !mutex.is_locked();
    drop(yields(mutex.lock(), free));
    drop(yields(mutex.clone().lock_owned(), free));
    let rwlock = Arc::new(RwLock::new(1));
    let free = || rwlock.try_write().is_some();
    drop(yields(rwlock.read(), free));
    drop(yields(rwlock.write(), free));
    drop(yields(rwlock.upgradable_read(), free));
    drop(yields(rwlock.clone().write_owned(), free));
    let upgradable = rwlock.try_upgradable_read().unwrap();
    let upgrade = RwLockUpgradableReadGuard::upgrade(upgradable);
    drop(yields(upgrade, || rwlock.try_read().is_some() && rwlock.try_write().is_none()));
    let reader = rwlock.try_read().unwrap();
    drop(yields(rwlock.read(), || rwlock.try_upgradable_read().is_some()));
    drop(reader);
    let semaphore = Arc::new(Semaphore::new(3));
    let all = || semaphore.available_permits() == 3;
    drop(yields(semaphore.acquire(), all));
    drop(yields(semaphore.clone().acquire_many_owned(3), all));
    let event = Event::auto();
    event.set();
    yields(event.wait(), || event.is_set());
    yields(Latch::new(0).wait(), || true);
    yields(WaitGroup::new().wait(), || true);
    let nested = ReentrantMutex::new(1);
    drop(yields(nested.lock(), || with_budget(1, || matches!(nested.try_lock(), Ok(Some(_))))).unwrap());
    yields(runtime::sleep(Duration::ZERO), || true);
    yields(runtime::sleep_until(Instant::now()), || true);
    // All is free again.
    assert!(free() && all() && !mutex.is_locked());
}

/// The turn to make a value is not taken before the yield: another can have it meanwhile.
#[test]
fn a_once_cell_yields() {
    let full = OnceCell::from(7);
    assert_eq!(*yields(full.wait(), || true), 7);
    let spy = Spy::new();
    let mut value = Box::pin(full.get_or_init(async || 8));
    with_budget(0, || pending(&mut value, &spy));
    assert_eq!((*ready(&mut value), spy.wakes()), (7, 1));
    let empty = OnceCell::new();
    let mut made = Box::pin(empty.get_or_init(async || 1));
    with_budget(0, || pending(&mut made, &spy));
    assert_eq!(empty.set(2), Ok(()), "the turn is free");
    assert_eq!(*ready(&mut made), 2);
}

/// A barrier yields before it arrives: a dropped yield is no arrival, and no party is woken by it.
#[test]
fn a_barrier_yields_before_it_arrives() {
    let alone = Barrier::new(1);
    assert!(yields(alone.arrive_and_wait(), || true).is_leader());
    let (barrier, spy) = (Barrier::new(2), Spy::new());
    let mut first = Box::pin(barrier.arrive_and_wait());
    with_budget(0, || pending(&mut first, &spy));
    let mut last = Box::pin(barrier.arrive_and_wait());
    with_budget(0, || pending(&mut last, &Spy::new()));
    drop(last);
    assert_eq!(spy.wakes(), 0, "the first waits still");
    let mut last = Box::pin(barrier.arrive_and_wait());
    with_budget(0, || pending(&mut last, &Spy::new()));
    assert!(ready(&mut last).is_leader());
    assert!(spy.wakes() == 1 && !ready(&mut first).is_leader());
}

/// What is refused at once is ready at once too: a loop that tries again lets others run.
#[test]
fn a_refusal_yields() {
    let semaphore = Arc::new(Semaphore::new(1));
    semaphore.close();
    assert!(yields(semaphore.acquire(), || true).is_err());
    assert!(yields(semaphore.clone().acquire_owned(), || true).is_err());
    assert!(yields(semaphore.acquire_many(0), || true).is_err());
    let (nested, spy) = (ReentrantMutex::new(1), Spy::new());
    runtime::enter(&FakeDriver::new(), || {
        runtime::set_budget(0);
        let mut refused = Box::pin(nested.lock());
        pending(&mut refused, &spy);
        assert!(matches!(poll(&mut refused, &spy), Poll::Ready(Err(_))));
    });
    assert_eq!(semaphore.available_permits(), 1);
}

/// Permits that a newcomer may take ahead of the queue are ready; those that are kept for the front are not.
#[test]
fn the_bound_of_a_bypass_counts() {
    let semaphore = Semaphore::<Bypass<1>>::with_policy(1);
    let held = semaphore.try_acquire().unwrap();
    let mut front = Box::pin(semaphore.acquire());
    pending(&mut front, &Spy::new());
    drop(held);
    // The front has been woken, and may be overtaken once.
    drop(yields(semaphore.acquire(), || true));
    let (mut behind, spy) = (Box::pin(semaphore.acquire()), Spy::new());
    with_budget(0, || pending(&mut behind, &spy));
    assert_eq!((spy.wakes(), spy.alive()), (0, 1), "queued, not yielding");
    drop(ready(&mut front));
    drop(ready(&mut behind));
}

/// B123: A comes first with its budget exhausted, B later; while the lock is held A is served first. A free lock belongs to
/// B, which took it.
#[test]
fn a_waiter_loses_no_place() {
    let mutex = Mutex::new(());
    let holder = mutex.try_lock().unwrap();
    let (mut a, mut b) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
    let (first, second) = (Spy::new(), Spy::new());
    with_budget(0, || pending(&mut a, &first));
    assert_eq!((first.wakes(), first.alive()), (0, 1), "queued, not yielding");
    with_budget(128, || pending(&mut b, &second));
    drop(holder);
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    drop(ready(&mut a));
    drop(ready(&mut b));

    let mut a = Box::pin(mutex.lock());
    with_budget(0, || pending(&mut a, &first));
    let taken = with_budget(1, || ready(&mut Box::pin(mutex.lock())));
    with_budget(1, || pending(&mut a, &first));
    drop(taken);
    drop(ready(&mut a));
}

/// Dropped while it yields: there is nothing to give back.
#[test]
fn dropped_while_it_yields() {
    let (mutex, event, semaphore) = (Mutex::new(()), Event::auto(), Semaphore::new(2));
    event.set();
    with_budget(0, || {
        pending(&mut Box::pin(mutex.lock()), &Spy::new());
        pending(&mut Box::pin(event.wait()), &Spy::new());
        pending(&mut Box::pin(semaphore.acquire_many(2)), &Spy::new());
    });
    assert!(!mutex.is_locked() && event.is_set() && semaphore.available_permits() == 2);
}

/// A yield is no wait: a limit that is over takes nothing away that is ready.
#[test]
fn a_limit_is_judged_after_the_wait_was_tried() {
    let (mutex, source) = (Mutex::new(()), CancellationSource::new());
    let token = source.token();
    let past = Instant::now();
    let (mut limited, spy) = (Box::pin(mutex.lock().timeout(Duration::ZERO)), Spy::new());
    with_budget(0, || pending(&mut limited, &spy));
    assert!(!mutex.is_locked() && spy.wakes() > 0);
    assert!(matches!(with_budget(0, || poll(&mut limited, &spy)), Poll::Ready(Ok(_))));
    for _ in 0..2 {
        let (mut limited, spy) = (Box::pin(mutex.lock().deadline(past).timeout(Duration::ZERO)), Spy::new());
        with_budget(0, || pending(&mut limited, &spy));
        assert!(matches!(with_budget(0, || poll(&mut limited, &spy)), Poll::Ready(Ok(Ok(_)))));
    }
    // A token that is cancelled during the yield: the lock is looked at first.
    let (mut limited, spy) = (Box::pin(mutex.lock().or_cancelled(&token)), Spy::new());
    with_budget(0, || pending(&mut limited, &spy));
    source.request_cancel();
    assert!(matches!(poll(&mut limited, &spy), Poll::Ready(Ok(_))));
    drop(limited);
    // Cancelled before: an error, also after a yield, and the lock is not touched.
    let (mut limited, spy) = (Box::pin(mutex.lock().or_cancelled(&token)), Spy::new());
    with_budget(0, || pending(&mut limited, &spy));
    assert!(spy.wakes() == 1 && matches!(with_budget(0, || poll(&mut limited, &spy)), Poll::Ready(Err(_))));
    // The time is over and the lock is held: the place in the queue is taken, then given up.
    let held = mutex.try_lock().unwrap();
    let (mut limited, spy) = (Box::pin(mutex.lock().timeout(Duration::ZERO)), Spy::new());
    with_budget(0, || pending(&mut limited, &spy));
    assert!(matches!(with_budget(0, || poll(&mut limited, &spy)), Poll::Ready(Err(_))));
    assert_eq!(spy.alive(), 0);
    drop(held);
    assert!(mutex.try_lock().is_some());
}

/// A condition is asked once, though its wait yields: it may have effects.
#[test]
fn a_condition_is_asked_once() {
    let (mutex, condvar, spy) = (Mutex::new(vec![1, 2]), Condvar::new(), Spy::new());
    let mut popped = Vec::new();
    let mut wait = Box::pin(condvar.wait_while(mutex.try_lock().unwrap(), |items| {
        popped.extend(items.pop());
        false
    }));
    with_budget(0, || pending(&mut wait, &spy));
    assert!(spy.wakes() == 1 && mutex.is_locked());
    assert_eq!(*with_budget(0, || ready(&mut wait)), [1]);
    drop(wait);
    assert_eq!(popped, [2]);
    // A limit that is reached during the yield gives the guard, as it would have without.
    let mut wait = Box::pin(condvar.wait_while(mutex.try_lock().unwrap(), |_| false).timeout(Duration::ZERO));
    with_budget(0, || pending(&mut wait, &spy));
    assert!(with_budget(0, || ready(&mut wait)).is_ok());
    // True: it waits, whatever the budget is, and does not yield in the end.
    let mut wait = Box::pin(condvar.wait_while(mutex.try_lock().unwrap(), |items| !items.is_empty()));
    with_budget(0, || pending(&mut wait, &Spy::new()));
    mutex.try_lock().expect("given up").clear();
    condvar.notify_one();
    assert!(with_budget(0, || ready(&mut wait)).is_empty());
}

/// A future of the user is not polled before the yield.
#[test]
fn wrappers_yield_before_they_poll() {
    let source = CancellationSource::new();
    let token = source.token();
    let polls = std::cell::Cell::new(0);
    let counted = || async { polls.set(polls.get() + 1) };
    assert_eq!(yields(token.run_until_cancelled(counted()), || polls.get() == 0), Some(()));
    source.request_cancel();
    assert_eq!(yields(token.run_until_cancelled(counted()), || true), None);
    assert_eq!(polls.get(), 1);
    yields(token.on_cancel(), || true);
    yields(token.on_cancel_owned(), || true);
    let (mutex, spy) = (Mutex::new(()), Spy::new());
    let mut identified = Box::pin(tasuki::task::identify(counted()));
    let mut handed_off = Box::pin(MutexGuard::hand_off(mutex.try_lock().unwrap()));
    with_budget(0, || {
        pending(&mut identified, &spy);
        pending(&mut handed_off, &spy);
        ready(&mut identified);
        ready(&mut handed_off);
    });
    assert_eq!((spy.wakes(), polls.get()), (2, 2));
}

/// Other tasks may want the lock without being queued for it: a hand-off does not ask the driver for more, and yields with the last operation that it has.
#[test]
fn a_hand_off_yields_with_the_last_operation() {
    let (mutex, spy) = (Mutex::new(()), Spy::new());
    let turn = || {
        drop(ready(&mut Box::pin(mutex.lock())));
        Box::pin(MutexGuard::hand_off(mutex.try_lock().unwrap()))
    };
    with_budget(6, || {
        ready(&mut turn());
        ready(&mut turn());
        let mut last = turn();
        pending(&mut last, &spy);
        assert_eq!(spy.wakes(), 1);
        ready(&mut last);
    });
    // No driver gives anything here, so there is no last.
    assert!((0..100).all(|_| poll(&mut turn(), &spy).is_ready()));
}

#[test]
fn a_budget_is_counted_down_and_stays_used_up() {
    let mutex = Mutex::new(());
    let lock = || poll(&mut Box::pin(mutex.lock()), &Spy::new()).is_ready();
    with_budget(3, || {
        assert_eq!([lock(), lock(), lock(), lock(), lock()], [true, true, true, false, false]);
        assert!(!runtime::charge(&Context::from_waker(Waker::noop())));
        runtime::set_budget(1);
        assert_eq!([lock(), lock()], [true, false]);
        runtime::set_budget(1);
        runtime::uncharged(|| assert_eq!([lock(), lock()], [true, true]));
        assert_eq!([lock(), lock()], [true, false]);
        // One inside the other has its own, and gives the outer one back.
        with_budget(1, || assert_eq!([lock(), lock()], [true, false]));
        assert!(!lock());
    });
    // A wait that is not served at once is charged for its first poll, and does not yield in the end: it has waited.
    let guard = mutex.try_lock().unwrap();
    let (mut waiting, spy) = (Box::pin(mutex.lock()), Spy::new());
    with_budget(1, || {
        pending(&mut waiting, &spy);
        drop(guard);
        assert!(!runtime::charge(&Context::from_waker(Waker::noop())) && poll(&mut waiting, &spy).is_ready());
    });
}

/// Without a runtime there is none, however often.
#[test]
fn no_operation_is_charged_without_a_runtime() {
    let mutex = Mutex::new(());
    runtime::set_budget(1);
    (0..5).for_each(|_| drop(ready(&mut Box::pin(mutex.lock()))));
}

/// The waker may panic, or use the lock: nothing has changed when it is called, and the future can be polled again.
#[test]
fn a_hostile_waker_loses_nothing() {
    let mutex = Arc::new(Mutex::new(()));
    let panicking = Spy::hostile(Call::WakeByRef, || panic!("a hostile waker"));
    panicking.arm(1);
    let mut wait: Pin<Box<_>> = Box::pin(mutex.lock());
    assert!(panics(|| with_budget(0, || poll(&mut wait, &panicking).is_ready())));
    assert!(mutex.try_lock().is_some());
    drop(with_budget(0, || ready(&mut wait)));
    let inner = mutex.clone();
    let curious = Spy::hostile(Call::WakeByRef, move || assert!(inner.try_lock().is_some()));
    curious.arm(1);
    let mut wait = Box::pin(mutex.lock());
    with_budget(0, || pending(&mut wait, &curious));
    assert!(curious.fired());
    drop(ready(&mut wait));
    // A condition that was asked keeps its guard.
    let condvar = Condvar::new();
    panicking.arm(1);
    let mut wait = Box::pin(condvar.wait_while(mutex.try_lock().unwrap(), |()| false));
    assert!(panics(|| with_budget(0, || poll(&mut wait, &panicking).is_ready())));
    drop(ready(&mut wait));
    assert!(!mutex.is_locked());
}
