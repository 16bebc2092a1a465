//! What the scenarios share.
//!
//! * [`model`]: runs a scenario over an object until every execution has been seen.
//! * [`Task`]: a future that is polled only when it was woken. As with every executor, a wake-up happens before the
//!   poll that it causes; a poll without a wake is ordered by nothing. A finished future is overwritten before
//!   it goes, so that a thread that touches its waiter too late trips over it.
//! * [`Data`]: memory without any synchronisation of its own. Two accesses that are not ordered by the
//!   primitive under test fail the model.

use loom::alloc::Track;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::alloc::{Layout, dealloc};
use std::cell::RefCell;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use tasuki::MutexGuard;
use tasuki::policy::Policy;

/// Runs `scenario` over a new object in every way. The scenario joins its threads before it returns.
pub(crate) fn model<T: 'static>(
    object: impl Fn() -> T + Send + Sync + 'static,
    scenario: impl Fn(&'static T) + Send + Sync + 'static,
) {
    loom::model(move || {
        let object = Box::into_raw(Box::new(object()));
        // SAFETY: it is freed below, when all threads of the scenario have ended.
        scenario(unsafe { &*object });
        // SAFETY: made by `into_raw` above; it is not used any more.
        drop(unsafe { Box::from_raw(object) });
        GRAVES.take().into_iter().for_each(|Grave(place, layout)| {
            // SAFETY: the drop of a `Task` left it allocated, with this layout.
            unsafe { dealloc(place, layout) };
        });
    });
}

/// A thread of the model.
pub(crate) fn spawn<T: 'static>(body: impl FnOnce() -> T + 'static) -> thread::JoinHandle<T> {
    thread::spawn(body)
}

/// Waits for threads.
pub(crate) fn join<T>(threads: impl IntoIterator<Item = thread::JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(|thread| thread.join().expect("a thread of the model panicked")).collect()
}

/// Counts wake-ups, and gets the thread that waits for them out of its sleep. A waker that is never dropped
/// fails the model.
#[derive(Debug)]
struct Alarm {
    rings: AtomicUsize,
    /// The threads that sleep until it rings. Loom need not see it: it is written and read in one step with `rings`.
    sleepers: Mutex<Vec<thread::Thread>>,
    _leak: Track<()>,
}

impl Alarm {
    fn new() -> Arc<Self> {
        Arc::new(Self { rings: AtomicUsize::new(0), sleepers: Mutex::new(Vec::new()), _leak: Track::new(()) })
    }

    /// How often it rang. A read-modify-write, because only that is sure to see the newest value.
    fn rings(&self) -> usize {
        // Acquire: pairs with Release in `wake`.
        self.rings.fetch_add(0, Ordering::Acquire)
    }

    /// Orders nothing, and makes loom try what follows before and after a ring.
    fn pass_by(&self) {
        self.rings.fetch_add(0, Ordering::Relaxed);
    }

    /// Sleeps until it has rung more often than `heard`; how often, then.
    fn sleep(&self, heard: usize) -> usize {
        loop {
            let rings = self.rings();
            if rings > heard {
                return rings;
            }
            self.sleepers.lock().unwrap().push(thread::current());
            thread::park();
        }
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        // Release: pairs with Acquire in `rings`.
        self.rings.fetch_add(1, Ordering::Release);
        let sleepers = std::mem::take(&mut *self.sleepers.lock().unwrap());
        sleepers.into_iter().for_each(|sleeper| sleeper.unpark());
    }
}

/// Memory of a finished future, overwritten and not yet freed.
struct Grave(*mut u8, Layout);

thread_local! {
    /// All threads of a model run on one thread of the system, so this is theirs together.
    static GRAVES: RefCell<Vec<Grave>> = const { RefCell::new(Vec::new()) };
}

/// A future and the alarm that it was last polled with.
pub(crate) struct Task<F: Future> {
    future: ManuallyDrop<Pin<Box<F>>>,
    alarm: Arc<Alarm>,
    /// How many rings had been heard at the last poll with this alarm, if there was one.
    heard: Option<usize>,
}

impl<F: Future> Task<F> {
    pub(crate) fn new(future: F) -> Self {
        Self { future: ManuallyDrop::new(Box::pin(future)), alarm: Alarm::new(), heard: None }
    }

    /// Another future of the same task: what wakes one wakes both.
    pub(crate) fn sibling<G: Future>(future: F, of: &Task<G>) -> Self {
        Self { future: ManuallyDrop::new(Box::pin(future)), alarm: of.alarm.clone(), heard: None }
    }

    /// A task that has been polled once, and waits.
    pub(crate) fn waiting(future: F) -> Self {
        let mut task = Self::new(future);
        assert!(task.poll().is_pending(), "it should have to wait");
        task
    }

    /// One poll without a wake: it may be ahead of the wake-up, and learns nothing from it.
    pub(crate) fn poll(&mut self) -> Poll<F::Output> {
        match self.heard {
            Some(_) => self.alarm.pass_by(),
            None => self.heard = Some(0),
        }
        self.poll_now()
    }

    fn poll_now(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(self.alarm.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// From the next poll on only this alarm counts: what the old one hears is lost.
    pub(crate) fn change_alarm(&mut self) {
        self.alarm = Alarm::new();
        self.heard = None;
    }

    /// How often it was woken.
    pub(crate) fn rings(&self) -> usize {
        self.alarm.rings()
    }

    /// Polls once if never polled, then only when woken, until it is ready.
    pub(crate) fn run(mut self) -> F::Output {
        self.finish()
    }

    /// As [`run`](Self::run), and the future stays.
    pub(crate) fn finish(&mut self) -> F::Output {
        loop {
            self.heard = Some(self.heard.map_or(0, |heard| self.alarm.sleep(heard)));
            if let Poll::Ready(output) = self.poll_now() {
                self.heard = None;
                return output;
            }
        }
    }
}

impl<F: Future> Drop for Task<F> {
    fn drop(&mut self) {
        if self.heard.is_some() {
            self.alarm.pass_by();
        }
        // SAFETY: not used again; only the memory is, as bytes.
        let future = unsafe { ManuallyDrop::take(&mut self.future) };
        // SAFETY: the future is dropped in its place before the memory is reused.
        let future = Box::into_raw(unsafe { Pin::into_inner_unchecked(future) });
        // SAFETY: a live value, from the box.
        unsafe { future.drop_in_place() };
        // SAFETY: the box's memory, without a value now. The pattern is no object of the model checker.
        unsafe { future.cast::<u8>().write_bytes(0xA5, size_of::<F>()) };
        GRAVES.with_borrow_mut(|graves| graves.push(Grave(future.cast(), Layout::new::<F>())));
    }
}

/// A number that nothing but the primitive under test protects.
#[derive(Debug)]
pub(crate) struct Data(UnsafeCell<usize>);

// SAFETY: not sound by itself: the model checker looks at every access, and fails if two race.
unsafe impl Sync for Data {}

impl Data {
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    pub(crate) fn add(&self, n: usize) {
        // SAFETY: the model checker has checked that no other thread accesses it now.
        self.0.with_mut(|value| unsafe { *value += n });
    }

    pub(crate) fn get(&self) -> usize {
        // SAFETY: as above.
        self.0.with(|value| unsafe { *value })
    }
}

/// Who held a lock, in order: the value of most mutexes here.
#[derive(Debug)]
pub(crate) struct Log(UnsafeCell<Vec<char>>);

impl Log {
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new(Vec::new()))
    }

    pub(crate) fn sign(&self, name: char) {
        // SAFETY: the model checker has checked that no other thread accesses it now.
        self.0.with_mut(|names| unsafe { (*names).push(name) });
    }

    pub(crate) fn read(&self) -> String {
        // SAFETY: as above.
        self.0.with(|names| unsafe { (*names).iter().collect() })
    }
}

/// A mutex over a log.
pub(crate) type LogMutex<P> = tasuki::Mutex<Log, P>;

pub(crate) fn log_mutex<P: Policy>() -> LogMutex<P> {
    LogMutex::with_policy(Log::new())
}

/// Waits for the lock, signs, unlocks.
pub(crate) fn lock_and_sign<P: Policy>(mutex: &LogMutex<P>, name: char) {
    Task::new(mutex.lock()).run().sign(name);
}

/// The end of a section: signs and unlocks.
pub(crate) fn sign_and_unlock(guard: impl Deref<Target = Log>, name: char) {
    guard.sign(name);
}

/// Signs if the lock is to be had.
pub(crate) fn try_and_sign<P: Policy>(mutex: &LogMutex<P>, name: char) -> bool {
    mutex.try_lock().inspect(|log| log.sign(name)).is_some()
}

/// The log of a mutex without holder and waiters; anything else fails.
pub(crate) fn at_rest<P: Policy>(mutex: &LogMutex<P>) -> String {
    assert!(!mutex.is_locked(), "the lock was lost");
    let log = mutex.try_lock().expect("a free lock can be had");
    let names = log.read();
    let mut hand_off = Task::new(MutexGuard::hand_off(log));
    assert!(hand_off.poll().is_ready(), "a waiter is still in the queue");
    names
}
