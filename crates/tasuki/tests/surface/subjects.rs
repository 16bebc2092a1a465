//! Every public awaitable, in a state in which it has to wait: how a wait begins, what grants it, and whether everything is as it was in the end. The
//! rows are compared with the sources (`foreign_panics.rs`).

use crate::kit::driver::FakeDriver;
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::future::pending as never;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tasuki::future::{Awaitable, Wait};
use tasuki::policy::{Bypass, Lifo, Policy, Revocable, SemaphorePolicy};
use tasuki::runtime::{Domain, Key, KeyedMutex, KeyedRawMutex, Timers, keyed_lock, keyed_try_lock};
use tasuki::{
    Barrier, CancellationSource, CancellationToken, Condvar, Event, Latch, Mutex, MutexGuard, OnceCell,
    ReentrantMutex, RwLock, RwLockUpgradableReadGuard, Semaphore, WaitGroup, runtime, task,
};

/// A wait, whatever it waits for. What it gives is dropped at once.
pub(super) trait Waits {
    fn poll_once(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;
    fn is_over(&self) -> bool;
}

impl<A: Awaitable> Waits for A {
    fn poll_once(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx).map(drop)
    }

    fn is_over(&self) -> bool {
        self.has_ended()
    }
}

pub(super) type Waiting = Pin<Box<dyn Waits>>;
pub(super) type Make = Box<dyn Fn() -> Waiting>;
pub(super) type Grant = Arc<dyn Fn() + Send + Sync>;

/// An awaitable, in a state in which it has to wait.
pub(super) struct Subject {
    /// A wait; those that are made later are behind it.
    pub(super) make: Make,
    /// A wait behind it, if there can be one.
    pub(super) behind: Option<Make>,
    /// Gives what is waited for, to one waiter or to all. May be called again.
    pub(super) grant: Grant,
    /// Does every waiter need a grant of its own?
    pub(super) one_each: bool,
    /// All waits are over, so many of them with what they waited for: is everything as it was?
    pub(super) intact: Box<dyn Fn(usize) -> bool>,
    /// Borrowed by all others, so dropped after them.
    pub(super) _kept: Box<dyn Any>,
}

/// A value that lives until its keeper is dropped.
struct Keeper<T>(*mut T);

impl<T> Drop for Keeper<T> {
    fn drop(&mut self) {
        // SAFETY: made by `keep`, dropped once; `Subject` drops whatever borrows it before.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

pub(super) fn keep<T: 'static>(value: T) -> (&'static T, Box<dyn Any>) {
    let kept = Box::into_raw(Box::new(value));
    // SAFETY: valid until the keeper is dropped, which is the last of its subject.
    (unsafe { &*kept }, Box::new(Keeper(kept)))
}

/// What is held until it is granted.
pub(super) struct Held<T>(StdMutex<Option<T>>);

impl<T: Send + 'static> Held<T> {
    pub(super) fn grant(value: T) -> Grant {
        let held = Self(StdMutex::new(Some(value)));
        Arc::new(move || {
            let value = held.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
            drop(value);
        })
    }
}

thread_local! {
    static LIMIT: Cell<Option<&'static CancellationToken>> = const { Cell::new(None) };
}

/// The waits that are made meanwhile end when this token is cancelled.
pub(super) fn limited<R>(limit: Option<&'static CancellationToken>, make: impl FnOnce() -> R) -> R {
    LIMIT.set(limit);
    let made = make();
    LIMIT.set(None);
    made
}

pub(super) fn boxed<A: Awaitable + 'static>(wait: Wait<A>) -> Waiting {
    match LIMIT.get() {
        Some(token) => Box::pin(wait.or_cancelled(token)),
        None => Box::pin(wait),
    }
}

/// Waits of the same kind, one behind the other.
pub(super) fn alike<A: Awaitable + 'static>(
    make: impl Fn() -> Wait<A> + Clone + 'static,
) -> (Make, Option<Make>) {
    let behind = make.clone();
    (Box::new(move || boxed(make())), Some(Box::new(move || boxed(behind()))))
}

/// A mutex of some policy, locked; `wait` is how it is waited for.
fn mutex<P: Policy + Send + Sync + 'static, A: Awaitable + 'static>(
    wait: impl Fn(&'static Arc<Mutex<u32, P>>) -> Wait<A> + Clone + 'static,
) -> Subject {
    let (mutex, kept) = keep(Arc::new(Mutex::<u32, P>::with_policy(0)));
    let grant = Held::grant(mutex.try_lock().unwrap());
    let (make, behind) = alike(move || wait(mutex));
    let intact = Box::new(|_| mutex.try_lock().is_some_and(|_held| mutex.try_lock().is_none()));
    Subject { make, behind, grant, one_each: false, intact, _kept: kept }
}

fn rwlock<A: Awaitable + 'static>(
    wait: impl Fn(&'static Arc<RwLock<u32>>) -> Wait<A> + Clone + 'static,
) -> Subject {
    let (lock, kept) = keep(Arc::new(RwLock::new(0)));
    let grant = Held::grant(lock.try_write().unwrap());
    let (make, behind) = alike(move || wait(lock));
    let intact = Box::new(|_| lock.try_write().is_some_and(|_held| lock.try_read().is_none()));
    Subject { make, behind, grant, one_each: false, intact, _kept: kept }
}

fn upgrade() -> Subject {
    let (lock, kept) = keep(RwLock::new(0));
    let grant = Held::grant(lock.try_read().unwrap());
    let make = || RwLockUpgradableReadGuard::upgrade(lock.try_upgradable_read().unwrap());
    let intact = Box::new(|_| lock.try_write().is_some());
    let behind: Option<Make> = Some(Box::new(|| boxed(lock.write())));
    Subject { make: Box::new(move || boxed(make())), behind, grant, one_each: false, intact, _kept: kept }
}

fn semaphore<P: SemaphorePolicy + Send + Sync + 'static, A: Awaitable + 'static>(
    wait: impl Fn(&'static Arc<Semaphore<P>>) -> Wait<A> + Clone + 'static,
) -> Subject {
    let (semaphore, kept) = keep(Arc::new(Semaphore::<P>::with_policy(2)));
    let grant = Held::grant(semaphore.try_acquire_many(2).unwrap());
    let (make, behind) = alike(move || wait(semaphore));
    let intact = Box::new(|_| semaphore.available_permits() == 2);
    Subject { make, behind, grant, one_each: false, intact, _kept: kept }
}

fn event(auto: bool) -> Subject {
    let (event, kept) = keep(if auto { Event::auto() } else { Event::manual() });
    let (make, behind) = alike(|| event.wait());
    let sets = Arc::new(AtomicUsize::new(0));
    let counted = sets.clone();
    let grant = Arc::new(move || {
        counted.fetch_add(1, SeqCst);
        event.set();
    });
    // Every signal was consumed by one waiter, or is still there.
    let intact = Box::new(move |granted| !auto || sets.load(SeqCst) == granted + usize::from(event.is_set()));
    Subject { make, behind, grant, one_each: auto, intact, _kept: kept }
}

fn latch() -> Subject {
    let (latch, kept) = keep(Latch::new(1));
    let (make, behind) = alike(|| latch.wait());
    let grant = Arc::new(|| {
        if latch.count() > 0 {
            latch.count_down();
        }
    });
    Subject { make, behind, grant, one_each: false, intact: Box::new(|_| latch.count() < 2), _kept: kept }
}

fn wait_group() -> Subject {
    let (group, kept) = keep(WaitGroup::new());
    let (make, behind) = alike(|| group.wait());
    let grant = Held::grant(group.member());
    Subject { make, behind, grant, one_each: false, intact: Box::new(|_| group.count() < 2), _kept: kept }
}

/// Two parties, one of which is the grant: an arrival that is withdrawn does not count.
fn barrier() -> Subject {
    let (barrier, kept) = keep(Barrier::new(2));
    let grant = Arc::new(move || {
        let mut arrival = Box::pin(barrier.arrive_and_wait());
        let _ = arrival.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    });
    // An arrival that is alone waits, so none is left.
    let intact = Box::new(|_| {
        let mut alone = Box::pin(barrier.arrive_and_wait());
        alone.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
    });
    let make = Box::new(|| boxed(barrier.arrive_and_wait()));
    Subject { make, behind: None, grant, one_each: false, intact, _kept: kept }
}

fn value() -> Subject {
    let (cell, kept) = keep(OnceCell::new());
    let (make, behind) = alike(|| cell.wait());
    let grant = Arc::new(|| _ = cell.set(1));
    Subject {
        make,
        behind,
        grant,
        one_each: false,
        intact: Box::new(|_| cell.get() != Some(&2)),
        _kept: kept,
    }
}

/// An initialiser has the turn, and is dropped.
fn turn(fallible: bool) -> Subject {
    let (cell, kept) = keep(OnceCell::<u32>::new());
    let mut first = Box::pin(cell.get_or_init(never::<u32>));
    assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let grant = Held::grant(first);
    let intact = Box::new(|granted| cell.get().is_some() == (granted > 0));
    let (make, behind) = if fallible {
        alike(|| cell.get_or_try_init(async || Ok::<_, ()>(1)))
    } else {
        alike(|| cell.get_or_init(async || 1))
    };
    Subject { make, behind, grant, one_each: false, intact, _kept: kept }
}

fn token<A: Awaitable + 'static>(
    wait: impl Fn(&'static CancellationToken) -> Wait<A> + Clone + 'static,
) -> Subject {
    let source = CancellationSource::new();
    let (token, kept) = keep(source.token());
    let (make, behind) = alike(move || wait(token));
    let grant = Arc::new(move || source.request_cancel());
    Subject { make, behind, grant, one_each: false, intact: Box::new(|_| true), _kept: kept }
}

fn condvar<A: Awaitable + 'static>(
    wait: impl Fn(&'static Condvar, MutexGuard<'static, u32>) -> Wait<A> + Clone + 'static,
) -> Subject {
    let ((mutex, condvar), kept) = keep((Mutex::new(0), Condvar::new()));
    let (make, behind) = alike(move || wait(condvar, mutex.try_lock().unwrap()));
    // For `wait_while`: the condition is false from now on.
    let grant = Arc::new(move || {
        if let Some(mut value) = mutex.try_lock() {
            *value += 1;
        }
        condvar.notify_one();
    });
    let intact = Box::new(|_| mutex.try_lock().is_some_and(|_held| mutex.try_lock().is_none()));
    Subject { make, behind, grant, one_each: true, intact, _kept: kept }
}

/// The deadline is an hour away, on a wheel that stands still.
fn sleep() -> Subject {
    const HOUR: Duration = Duration::from_secs(3_600);
    struct Sleeps {
        timers: Arc<Timers>,
        sleep: runtime::Sleep,
    }
    impl Waits for Sleeps {
        fn poll_once(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            let driver = FakeDriver::with_timers(&self.timers);
            // SAFETY: a projection; nothing is moved out.
            let sleep = unsafe { self.map_unchecked_mut(|this| &mut this.sleep) };
            runtime::enter(&driver, || sleep.poll(cx))
        }

        fn is_over(&self) -> bool {
            self.sleep.has_ended()
        }
    }
    let timers = Arc::new(Timers::new(Waker::noop().clone()));
    let (of_make, of_behind) = (timers.clone(), timers.clone());
    let make = move |timers: &Arc<Timers>| -> Waiting {
        Box::pin(Sleeps { timers: timers.clone(), sleep: runtime::sleep(HOUR) })
    };
    let grant = Arc::new(move || {
        let _ = timers.advance(std::time::Instant::now() + 2 * HOUR);
    });
    Subject {
        make: Box::new(move || make(&of_make)),
        behind: Some(Box::new(move || make(&of_behind))),
        grant,
        one_each: false,
        intact: Box::new(|_| true),
        _kept: Box::new(()),
    }
}

/// Each wait is a task of its own.
fn reentrant<A: Awaitable + 'static>(
    wait: impl Fn(&'static Arc<ReentrantMutex<i32>>) -> Wait<A> + Copy + 'static,
) -> Subject {
    struct AsTask<A> {
        driver: FakeDriver,
        wait: A,
    }
    impl<A: Awaitable> Waits for AsTask<A> {
        fn poll_once(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            // SAFETY: a projection; nothing is moved out.
            let this = unsafe { self.get_unchecked_mut() };
            // SAFETY: as above.
            let wait = unsafe { Pin::new_unchecked(&mut this.wait) };
            runtime::enter(&this.driver, || wait.poll(cx).map(drop))
        }

        fn is_over(&self) -> bool {
            self.wait.has_ended()
        }
    }
    fn driver() -> FakeDriver {
        FakeDriver { task: Some(task::TaskId::fresh()), ..FakeDriver::new() }
    }
    let (mutex, kept) = keep(Arc::new(ReentrantMutex::new(0)));
    let held = runtime::enter(&driver(), || mutex.try_lock().unwrap().unwrap());
    let make = move || -> Waiting {
        match LIMIT.get() {
            Some(token) => Box::pin(AsTask { driver: driver(), wait: wait(mutex).or_cancelled(token) }),
            None => Box::pin(AsTask { driver: driver(), wait: wait(mutex) }),
        }
    };
    let intact = |_| {
        let lock = || mutex.try_lock().unwrap();
        runtime::enter(&driver(), lock).is_some_and(|_held| runtime::enter(&driver(), lock).is_none())
    };
    Subject {
        make: Box::new(make),
        behind: Some(Box::new(make)),
        grant: Held::grant(held),
        one_each: false,
        intact: Box::new(intact),
        _kept: kept,
    }
}

struct Keyed {
    raw: KeyedRawMutex,
    value: UnsafeCell<u32>,
}

struct Somewhere;

impl Domain for Somewhere {
    type Error = ();

    fn here() -> Result<Key, ()> {
        Ok(Key(NonZeroUsize::MIN))
    }

    fn elsewhere() {}

    fn may_release(_: Key) -> bool {
        true
    }
}

// SAFETY: the lock and its value, which only guards reach.
unsafe impl KeyedMutex for Keyed {
    type Value = u32;
    type Domain = Somewhere;

    fn raw(&self) -> &KeyedRawMutex {
        &self.raw
    }

    fn value(&self) -> *mut u32 {
        self.value.get()
    }
}

/// Its guards do not cross threads; here there is one.
struct OneThread<T>(T);
// SAFETY: every test uses it on its own thread.
unsafe impl<T> Send for OneThread<T> {}

fn keyed() -> Subject {
    let (mutex, kept) = keep(Keyed { raw: KeyedRawMutex::new(), value: UnsafeCell::new(0) });
    let grant = Held::grant(OneThread(keyed_try_lock(mutex).unwrap().unwrap()));
    let (make, behind) = alike(move || keyed_lock(mutex));
    let intact = Box::new(move |_| {
        keyed_try_lock(mutex).unwrap().is_some_and(|_held| keyed_try_lock(mutex).unwrap().is_none())
    });
    Subject { make, behind, grant, one_each: false, intact, _kept: kept }
}

pub(super) struct Row {
    /// The public types that it stands for.
    pub(super) covers: &'static [&'static str],
    pub(super) subject: fn() -> Subject,
}

pub(super) const HOUR: Duration = Duration::from_secs(3_600);

pub(super) fn rows() -> Vec<Row> {
    let row = |covers, subject| Row { covers, subject };
    let mut rows = vec![
        row(&["Wait", "Single", "Lock"], || mutex::<tasuki::policy::Fifo, _>(|mutex| mutex.lock())),
        row(&[], || mutex::<Lifo, _>(|mutex| mutex.lock())),
        row(&[], || mutex::<Bypass, _>(|mutex| mutex.lock())),
        row(&[], || mutex::<Revocable, _>(|mutex| mutex.lock())),
        row(&["LockOwned"], || mutex::<tasuki::policy::Fifo, _>(|mutex| mutex.clone().lock_owned())),
        row(&[], || mutex::<Bypass, _>(|mutex| mutex.clone().lock_owned())),
        row(&[], || mutex::<Revocable, _>(|mutex| mutex.clone().lock_owned())),
        row(&["Timeout", "Limited"], || mutex::<tasuki::policy::Fifo, _>(|mutex| mutex.lock().timeout(HOUR))),
        row(&["OrCancelled"], || {
            static SOURCE: std::sync::LazyLock<CancellationToken> =
                std::sync::LazyLock::new(|| CancellationSource::new().token());
            mutex::<tasuki::policy::Fifo, _>(|mutex| mutex.lock().or_cancelled(&SOURCE))
        }),
        row(&["Read"], || rwlock(|lock| lock.read())),
        row(&["Write"], || rwlock(|lock| lock.write())),
        row(&["UpgradableRead"], || rwlock(|lock| lock.upgradable_read())),
        row(&["ReadOwned"], || rwlock(|lock| lock.clone().read_owned())),
        row(&["WriteOwned"], || rwlock(|lock| lock.clone().write_owned())),
        row(&["UpgradableReadOwned"], || rwlock(|lock| lock.clone().upgradable_read_owned())),
        row(&["Upgrade"], upgrade),
        row(&["Acquire"], || semaphore::<tasuki::policy::Fifo, _>(|semaphore| semaphore.acquire())),
        row(&[], || semaphore::<tasuki::policy::Fifo, _>(|semaphore| semaphore.acquire_many(2))),
        row(&[], || semaphore::<Bypass, _>(|semaphore| semaphore.acquire_many(2))),
        row(&["AcquireOwned"], || semaphore::<Bypass, _>(|semaphore| semaphore.clone().acquire_owned())),
        row(&["WaitEvent"], || event(true)),
        row(&[], || event(false)),
        row(&["WaitLatch"], latch),
        row(&["WaitMembers"], wait_group),
        row(&["Arrive"], barrier),
        row(&["WaitValue"], value),
        row(&["GetOrInit", "InfallibleInit", "Init"], || turn(false)),
        row(&["GetOrTryInit"], || turn(true)),
        row(&["OnCancel"], || token(|token| token.on_cancel())),
        row(&["OnCancelOwned"], || token(|token| token.clone().on_cancel_owned())),
        row(&["RunUntilCancelled", "UntilCancelled"], || {
            token(|token| token.run_until_cancelled(never::<()>()))
        }),
        row(&["WaitNotified"], || condvar(|condvar, guard| condvar.wait(guard))),
        row(&["WaitWhile", "Conditional"], || {
            condvar(|condvar, guard| condvar.wait_while(guard, |n| *n == 0))
        }),
        row(&["Sleep"], sleep),
        row(&["LockReentrant"], || reentrant(|mutex| mutex.lock())),
        row(&["LockReentrantOwned"], || reentrant(|mutex| mutex.clone().lock_owned())),
        row(&["KeyedLock"], keyed),
    ];
    rows.extend(super::channel_subjects::rows());
    rows
}
