//! The budget that a runtime gives to a poll: what is ready at once is charged, and yields after it was served (B123).

mod kit;

use kit::poll::{panic_of, panics, pending, poll, ready};
use kit::waker::{Call, Spy};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tasuki::runtime::{self, Driver, TaskId, Timers};
use tasuki::{
    Barrier, CancellationSource, Event, Latch, Mutex, OnceCell, ReentrantMutex, RwLock, Semaphore, WaitGroup,
};

/// A runtime that says only that it is there, and who runs.
struct There(TaskId);

impl Driver for There {
    fn task(&self) -> Option<TaskId> {
        Some(self.0)
    }

    fn timers(&self) -> Option<Arc<Timers>> {
        None
    }

    fn may_block(&self) -> bool {
        true
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// A poll by that runtime, with so much left to it.
fn with_budget<R>(operations: u32, f: impl FnOnce() -> R) -> R {
    runtime::enter(&There(TaskId::fresh()), || {
        runtime::set_budget(operations);
        f()
    })
}

/// The first poll yields, once, and has been served; the second one has the output.
#[track_caller]
fn yields<F: Future>(future: F, is_held: impl Fn() -> bool) -> F::Output {
    let (mut future, spy) = (Box::pin(future), Spy::new());
    with_budget(0, || pending(&mut future, &spy));
    assert_eq!((spy.wakes(), spy.alive()), (1, 0), "woken once, and the waker is not kept");
    assert!(is_held(), "nobody can overtake meanwhile");
    // Also without a budget: whoever was served is not sent away twice.
    let output = with_budget(0, || poll(&mut future, &spy));
    assert!(panic_of(|| poll(&mut future, &spy)).contains("polled after it was finished"));
    assert_eq!(spy.wakes(), 1);
    match output {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("served, and still pending"),
    }
}

#[test]
fn whatever_is_ready_at_once_yields_when_the_budget_is_used_up() {
    let mutex = Arc::new(Mutex::new(1));
    let held = || mutex.try_lock().is_none();
    drop(yields(mutex.lock(), held));
    drop(yields(mutex.clone().lock_owned(), held));
    let rwlock = Arc::new(RwLock::new(1));
    let (read, written) = (|| rwlock.try_write().is_none(), || rwlock.try_read().is_none());
    drop(yields(rwlock.read(), read));
    drop(yields(rwlock.write(), written));
    drop(yields(rwlock.upgradable_read(), || rwlock.try_upgradable_read().is_none()));
    drop(yields(rwlock.clone().write_owned(), written));
    let semaphore = Arc::new(Semaphore::new(3));
    let taken = |left| move |semaphore: &Semaphore| semaphore.available_permits() == left;
    drop(yields(semaphore.acquire(), || taken(2)(&semaphore)));
    drop(yields(semaphore.clone().acquire_many_owned(3), || taken(0)(&semaphore)));
    let event = Event::auto();
    event.set();
    yields(event.wait(), || !event.is_set());
    yields(Latch::new(0).wait(), || true);
    yields(WaitGroup::new().wait(), || true);
    let once = OnceCell::from(7);
    assert_eq!(*yields(once.wait(), || true), 7);
    let nested = ReentrantMutex::new(1);
    let nested_held = || with_budget(1, || matches!(nested.try_lock(), Ok(None)));
    drop(yields(nested.lock(), nested_held).unwrap());
    // All is free again.
    assert!(mutex.try_lock().is_some() && rwlock.try_write().is_some() && !nested_held());
    assert_eq!(semaphore.available_permits(), 3);
}

/// What is refused at once is ready at once too, though not on the fast path: a loop that tries again lets others run.
#[test]
fn a_refusal_yields() {
    let semaphore = Arc::new(Semaphore::new(1));
    semaphore.close();
    assert!(yields(semaphore.acquire(), || true).is_err());
    assert!(yields(semaphore.clone().acquire_owned(), || true).is_err());
    let mut given_up = Box::pin(semaphore.acquire());
    with_budget(0, || pending(&mut given_up, &Spy::new()));
    drop(given_up);
    assert_eq!(semaphore.available_permits(), 1);
}

/// B123: A comes first with its budget used up, B later; A is served first, whether the lock was free or held.
#[test]
fn the_budget_costs_no_place() {
    let mutex = Mutex::new(());
    for was_held in [false, true] {
        let holder = was_held.then(|| mutex.try_lock().unwrap());
        let (mut a, mut b) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
        let (first, second) = (Spy::new(), Spy::new());
        with_budget(0, || pending(&mut a, &first));
        with_budget(128, || pending(&mut b, &second));
        drop(holder);
        assert_eq!((first.wakes(), second.wakes()), (1, 0));
        let guard = ready(&mut a);
        pending(&mut b, &second);
        drop(guard);
        assert_eq!(second.wakes(), 1);
        drop(ready(&mut b));
    }
}

/// Dropped between the service and its second poll: what it stands for goes to the next, or back.
#[test]
fn dropped_while_it_yields() {
    let (mutex, spy) = (Mutex::new(()), Spy::new());
    let mut owed = Box::pin(mutex.lock());
    with_budget(0, || pending(&mut owed, &Spy::new()));
    let mut next = Box::pin(mutex.lock());
    pending(&mut next, &spy);
    drop(owed);
    assert_eq!(spy.wakes(), 1);
    drop(ready(&mut next));

    let event = Event::auto();
    event.set();
    let mut owed = Box::pin(event.wait());
    with_budget(0, || pending(&mut owed, &Spy::new()));
    assert!(!event.is_set());
    drop(owed);
    assert!(event.is_set(), "the signal is not lost");
    let mut owed = Box::pin(event.wait());
    with_budget(0, || pending(&mut owed, &Spy::new()));
    let (mut next, spy) = (Box::pin(event.wait()), Spy::new());
    pending(&mut next, &spy);
    drop(owed);
    assert_eq!(spy.wakes(), 1);
    ready(&mut next);

    let semaphore = Semaphore::new(2);
    let mut owed = Box::pin(semaphore.acquire_many(2));
    with_budget(0, || pending(&mut owed, &Spy::new()));
    drop(owed);
    assert_eq!(semaphore.available_permits(), 2);
}

/// A limit that is reached while it yields takes nothing away.
#[test]
fn given_up_while_it_yields() {
    let mutex = Mutex::new(());
    let mut limited = Box::pin(mutex.lock().timeout(Duration::ZERO));
    let first = with_budget(0, || poll(&mut limited, &Spy::new()));
    assert!(matches!(first, Poll::Ready(Ok(_))), "it was served before its time was over");
    drop(first);
    let source = CancellationSource::new();
    let token = source.token();
    let (mut limited, spy) = (Box::pin(mutex.lock().or_cancelled(&token)), Spy::new());
    with_budget(0, || pending(&mut limited, &spy));
    source.request_cancel();
    assert!(matches!(poll(&mut limited, &spy), Poll::Ready(Ok(_))));
    drop(limited);
    assert!(mutex.try_lock().is_some());
}

#[test]
fn a_budget_is_counted_down_and_stays_used_up() {
    let mutex = Mutex::new(());
    let lock = || poll(&mut Box::pin(mutex.lock()), &Spy::new()).is_ready();
    with_budget(3, || {
        assert_eq!([lock(), lock(), lock(), lock(), lock()], [true, true, true, false, false]);
        assert!(!runtime::charge());
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
        assert!(!runtime::charge() && poll(&mut waiting, &spy).is_ready());
    });
}

/// Without a runtime there is none, however often.
#[test]
fn nobody_is_charged_without_a_runtime() {
    let mutex = Mutex::new(());
    runtime::set_budget(1);
    (0..5).for_each(|_| drop(ready(&mut Box::pin(mutex.lock()))));
}

/// The leader of a barrier learns it in the very poll that completes the phase.
#[test]
fn a_barrier_is_not_charged() {
    let barrier = Barrier::new(1);
    with_budget(0, || assert!(ready(&mut Box::pin(barrier.arrive_and_wait())).is_leader()));
}

/// The waker may panic, or use the lock: the service is complete before it is called.
#[test]
fn a_hostile_waker_loses_nothing() {
    let mutex = Arc::new(Mutex::new(()));
    let panicking = Spy::hostile(Call::WakeByRef, || panic!("a hostile waker"));
    panicking.arm(2);
    let mut owed: Pin<Box<_>> = Box::pin(mutex.lock());
    assert!(panics(|| with_budget(0, || poll(&mut owed, &panicking).is_ready())));
    assert!(mutex.try_lock().is_none());
    drop(ready(&mut owed));
    let mut owed = Box::pin(mutex.lock());
    assert!(panics(|| with_budget(0, || poll(&mut owed, &panicking).is_ready())));
    drop(owed);
    assert!(mutex.try_lock().is_some());
    let inner = mutex.clone();
    let curious = Spy::hostile(Call::WakeByRef, move || assert!(inner.try_lock().is_none()));
    curious.arm(1);
    let mut owed = Box::pin(mutex.lock());
    with_budget(0, || pending(&mut owed, &curious));
    assert!(curious.fired());
    drop(ready(&mut owed));
}
