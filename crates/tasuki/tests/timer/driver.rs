//! The driver of a runtime: the primitives ask it for the running task, the deadlines and the budget, and a wake says whether it hands over a lock or a message. S3-21.

use crate::kit::driver::FakeDriver;
use crate::kit::poll::{BoxFuture, panic_of, panics, pending, poll, poll_with, ready};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::sync::{Arc, Mutex as StdMutex};
use std::task::Waker;
use std::time::Duration;
use tasuki::policy::Bypass;
use tasuki::runtime::{self, TaskId, Timers, WakeKind};
use tasuki::{
    Barrier, CancellationSource, Condvar, Elapsed, Event, Latch, Mutex, OnceCell, Reset, RwLock, Semaphore,
    task,
};

const MS: Duration = Duration::from_millis(1);

/// The wheel of the driver is the one that is used, and stays so when the future goes elsewhere.
#[test]
fn deadlines_are_kept_where_the_driver_says() {
    let _dog = watchdog(30);
    let timers = Arc::new(Timers::new(Waker::noop().clone()));
    let (driver, spy) = (FakeDriver::with_timers(&timers), Spy::new());
    let mutex = Mutex::new(0);
    let guard = mutex.try_lock().unwrap();
    let mut lock = Box::pin(mutex.lock().timeout(5 * MS));
    runtime::enter(&driver, || pending(&mut lock, &spy));
    std::thread::sleep(20 * MS);
    assert_eq!(spy.wakes(), 0, "only the test turns this wheel");
    pending(&mut lock, &Spy::new());
    pending(&mut lock, &spy);
    driver.pass(6 * MS);
    assert_eq!(spy.wakes(), 1);
    assert!(matches!(poll(&mut lock, &spy), std::task::Poll::Ready(Err(Elapsed))));
    drop(guard);
    assert!(!mutex.is_locked());
}

#[test]
fn the_driver_says_which_task_runs() {
    let _dog = watchdog(30);
    let driver = FakeDriver { task: Some(TaskId::fresh()), ..FakeDriver::new() };
    assert_eq!(task::current(), None);
    runtime::enter(&driver, || {
        assert_eq!(task::current(), driver.task);
        // The innermost says it: an identity of its own, another runtime, none.
        let mut named = Box::pin(task::identify(async { task::current() }));
        let id = named.id();
        assert_eq!(ready(&mut named), Some(id));
        let inner = FakeDriver::new();
        runtime::enter(&inner, || assert_eq!(task::current(), None));
        assert_eq!(task::current(), driver.task);
        assert!(panics(|| runtime::enter(&inner, || panic!("in a task"))));
        assert_eq!(task::current(), driver.task, "also after a panic");
    });
    assert_eq!(task::current(), None);
    assert!(panics(|| runtime::enter(&driver, || panic!("in a task"))));
    assert_eq!(task::current(), None);
}

/// On a worker of a runtime `.block()` panics, always, and says what to do.
#[test]
fn the_driver_says_which_threads_may_not_block() {
    let _dog = watchdog(30);
    let driver = FakeDriver { may_block: false, ..FakeDriver::new() };
    let (mutex, event) = (Mutex::new(0), Event::new(Reset::Manual, true));
    let (rwlock, condvar, semaphore) = (RwLock::new(0), Condvar::new(), Semaphore::new(1));
    runtime::enter(&driver, || {
        let message = panic_of(|| drop(mutex.lock().block()));
        assert!(message.contains(".await"), "{message}");
        assert!(panics(|| event.wait().block()), "also where there is nothing to wait for");
        assert!(panics(|| drop(rwlock.read().block())));
        assert!(panics(|| drop(semaphore.acquire().block())));
        assert!(panics(|| event.wait().timeout(MS).block().is_ok()));
        assert!(panics(|| drop(condvar.wait(mutex.try_lock().unwrap()).block())));
    });
    assert!(!mutex.is_locked());
    assert_eq!((*mutex.lock().block(), *rwlock.write().block()), (0, 0));
}

/// A waker can ask why it is called: a grant is a baton, a signal to all is not; also inside another wake.
#[test]
fn wakes_say_their_kind() {
    let _dog = watchdog(30);
    let seen: Arc<StdMutex<Vec<WakeKind>>> = Arc::default();
    static INNER: Mutex<u32> = Mutex::new(0);
    let (held, listener, asleep) = (StdMutex::new(INNER.try_lock()), Spy::new(), seen.clone());
    listener.on(Call::Wake, move || {
        asleep.lock().unwrap().push(runtime::wake_kind());
        // A wake inside the wake.
        drop(held.lock().unwrap().take());
        asleep.lock().unwrap().push(runtime::wake_kind());
    });
    let mut waiter = Box::pin(INNER.lock());
    pending(&mut waiter, &Spy::new());
    let (mutex, event) = (Mutex::new(0), Event::manual());
    let guard = mutex.try_lock().unwrap();
    let (mut lock, mut wait) = (Box::pin(mutex.lock()), Box::pin(event.wait()));
    pending(&mut lock, &listener);
    listener.arm(1);
    // On a thread of a runtime: no other asks.
    runtime::enter(&FakeDriver::new(), || drop(guard));
    assert_eq!(*seen.lock().unwrap(), [WakeKind::Baton, WakeKind::Baton]);
    pending(&mut wait, &listener);
    listener.arm(1);
    runtime::enter(&FakeDriver::new(), || event.set());
    assert_eq!(seen.lock().unwrap()[2..], [WakeKind::Plain, WakeKind::Plain]);
    assert_eq!(runtime::wake_kind(), WakeKind::Plain);
    drop(ready(&mut lock));
    ready(&mut wait);
    assert!(poll_with(&mut waiter, Waker::noop()).is_ready());
}

/// A waker that is woken with a baton wakes others: each is told its own kind, in whatever way it is woken, and the baton is still the waker's own afterwards.
#[test]
fn a_wake_inside_a_baton_has_its_own_kind() {
    use WakeKind::{Baton, Plain};
    type Release = Box<dyn Fn() + Send + Sync>;
    type Woken = (&'static str, WakeKind, BoxFuture<()>, Release);
    let _dog = watchdog(30);
    static AUTO: Event = Event::auto();
    static MANUAL: Event = Event::manual();
    static SEMAPHORE: Semaphore = Semaphore::new(0);
    static CLOSED: Semaphore = Semaphore::new(0);
    static LATCH: Latch = Latch::new(1);
    static BARRIER: Barrier = Barrier::new(2);
    static MUTEX: Mutex<u32> = Mutex::new(0);
    static CONDVAR: Condvar = Condvar::new();
    static CELL: OnceCell<u32> = OnceCell::new();
    static LOCK: Mutex<u32> = Mutex::new(0);
    let cancelled = CancellationSource::new();
    let (token, held) = (cancelled.token(), StdMutex::new(LOCK.try_lock()));
    let rows: [Woken; 10] = [
        ("an event, auto", Plain, Box::pin(AUTO.wait()), Box::new(|| AUTO.set())),
        ("an event, manual", Plain, Box::pin(MANUAL.wait()), Box::new(|| MANUAL.set())),
        (
            "a semaphore",
            Plain,
            Box::pin(async { drop(SEMAPHORE.acquire().await) }),
            Box::new(|| SEMAPHORE.release(1)),
        ),
        (
            "a closed semaphore",
            Plain,
            Box::pin(async { drop(CLOSED.acquire().await) }),
            Box::new(|| assert!(CLOSED.close())),
        ),
        ("a latch", Plain, Box::pin(LATCH.wait()), Box::new(|| LATCH.count_down())),
        (
            "a barrier",
            Plain,
            Box::pin(async { assert!(!BARRIER.arrive_and_wait().await.is_leader()) }),
            Box::new(|| assert!(ready(&mut Box::pin(BARRIER.arrive_and_wait())).is_leader())),
        ),
        (
            "a condvar",
            Plain,
            Box::pin(async { drop(CONDVAR.wait(MUTEX.lock().await).await) }),
            Box::new(|| CONDVAR.notify_one()),
        ),
        (
            "a cell",
            Plain,
            Box::pin(async { assert_eq!(*CELL.wait().await, 1) }),
            Box::new(|| assert!(CELL.set(1).is_ok())),
        ),
        ("a token", Plain, Box::pin(token.on_cancel_owned()), Box::new(move || cancelled.request_cancel())),
        (
            "a mutex",
            Baton,
            Box::pin(async { drop(LOCK.lock().await) }),
            Box::new(move || drop(held.lock().unwrap().take())),
        ),
    ];
    for (name, kind, mut wait, release) in rows {
        let (seen, inner, outer): (Arc<StdMutex<Vec<WakeKind>>>, _, _) =
            (Arc::default(), Spy::new(), Spy::new());
        let (first, second) = (seen.clone(), seen.clone());
        inner.on(Call::Wake, move || first.lock().unwrap().push(runtime::wake_kind()));
        inner.arm(1);
        pending(&mut wait, &inner);
        let around = Mutex::new(0);
        let guard = around.try_lock();
        let mut granted = Box::pin(around.lock());
        outer.on(Call::Wake, move || {
            release();
            second.lock().unwrap().push(runtime::wake_kind());
        });
        outer.arm(1);
        pending(&mut granted, &outer);
        runtime::enter(&FakeDriver::new(), || drop(guard));
        assert_eq!(*seen.lock().unwrap(), [kind, Baton], "{name}");
        ready(&mut wait);
    }
}

/// A poll inside of a wake with a baton yields for want of budget: its task wakes itself, and has no baton.
#[test]
fn a_yield_inside_a_baton_is_none() {
    let _dog = watchdog(30);
    let (seen, yields, outer): (Arc<StdMutex<Vec<WakeKind>>>, _, _) =
        (Arc::default(), Spy::new(), Spy::new());
    let asked = seen.clone();
    yields.on(Call::WakeByRef, move || asked.lock().unwrap().push(runtime::wake_kind()));
    yields.arm(1);
    let (around, free) = (Mutex::new(0), Arc::new(Mutex::new(0)));
    let guard = around.try_lock();
    let mut granted = Box::pin(around.lock());
    let lock = StdMutex::new(Box::pin(free.lock_owned()));
    outer.on(Call::Wake, move || {
        runtime::set_budget(0);
        pending(&mut *lock.lock().unwrap(), &yields);
    });
    outer.arm(1);
    pending(&mut granted, &outer);
    runtime::enter(&FakeDriver::new(), || drop(guard));
    assert_eq!(*seen.lock().unwrap(), [WakeKind::Plain]);
}

/// The first waiter of a free lock is woken as the same kind, whether an unlock or the cancel of the waiter before it wakes it: the queue gets on only
/// when it runs.
#[test]
fn a_called_head_is_woken_as_one_kind() {
    let seen: Arc<StdMutex<Vec<WakeKind>>> = Arc::default();
    let listener = Spy::new();
    listener.on(Call::Wake, {
        let seen = seen.clone();
        move || seen.lock().unwrap().push(runtime::wake_kind())
    });
    let mutex = Mutex::<u32, Bypass>::with_policy(0);
    let guard = mutex.try_lock().unwrap();
    let (mut first, mut second) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
    pending(&mut first, &listener);
    pending(&mut second, &listener);
    listener.arm(2);
    runtime::enter(&FakeDriver::new(), || drop(guard));
    assert!(!mutex.is_locked(), "the first was called, and owns nothing");
    runtime::enter(&FakeDriver::new(), || drop(first));
    assert_eq!(*seen.lock().unwrap(), [WakeKind::Baton, WakeKind::Baton]);
}
