//! Foreign code that panics inside a wrapper, and twice in one call of ours: the first panic goes on, the second does not end the process, nothing is lost.

use super::foreign_panics::hostile;
use super::subjects::HOUR;
use crate::kit::poll::{panic_of, panics, pending, poll_with, ready};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context, Poll, Waker};
use tasuki::future::Awaitable;
use tasuki::{CancellationSource, Condvar, Mutex, OnceCell, RwLock, Semaphore};

/// A wrapper is not over when what it wraps panics: that is asked again, and a cancelled token still ends it.
#[test]
fn a_wrapped_future_that_panics() {
    let source = CancellationSource::new();
    let token = source.token();
    let mut run =
        Box::pin(token.run_until_cancelled(std::future::poll_fn(|_| -> Poll<()> { panic!("mine") })));
    for _ in 0..2 {
        assert_eq!(panic_of(|| poll_with(&mut run, Waker::noop())), "mine");
        assert!(!run.has_ended());
    }
    source.request_cancel();
    assert_eq!(ready(&mut run), None);
    assert!(run.has_ended() && panics(|| poll_with(&mut run, Waker::noop())));
}

/// Panics of two strangers in one call of ours: the first goes on, the second must not end the process, and nothing is lost.
#[test]
pub(super) fn two_panics_in_one_call() {
    let _dog = watchdog(60);
    let two = || (hostile(Call::Wake), hostile(Call::Drop));
    // A granted wait whose limit lets go of its waker: the lock passes on to the next.
    let (mutex, (wakes, drops)) = (Mutex::new(0), two());
    let held = mutex.try_lock().unwrap();
    let (mut limited, mut next) = (Box::pin(mutex.lock().timeout(HOUR)), Box::pin(mutex.lock()));
    pending(&mut limited, &drops);
    pending(&mut next, &wakes);
    drop(held);
    wakes.arm(1);
    drops.arm(1);
    assert!(panics(|| poll_with(&mut limited, Waker::noop()).map(drop)));
    assert_eq!((wakes.hook_runs(), drops.hook_runs()), (1, 1), "both have panicked");
    drop(limited);
    drop(ready(&mut next));
    assert!(!mutex.is_locked());

    // The same, of a condvar: the lock and the notification go on to others.
    let (condvar, (wakes, drops)) = (Condvar::new(), two());
    let mut limited = Box::pin(condvar.wait(mutex.try_lock().unwrap()).timeout(HOUR));
    pending(&mut limited, &drops);
    let mut notified = Box::pin(condvar.wait(mutex.try_lock().unwrap()));
    pending(&mut notified, &wakes);
    condvar.notify_one();
    let held = mutex.try_lock().unwrap();
    pending(&mut limited, &drops);
    let mut next = Box::pin(mutex.lock());
    pending(&mut next, &wakes);
    drop(held);
    wakes.arm(2);
    drops.arm(1);
    assert!(panics(|| poll_with(&mut limited, Waker::noop()).map(drop)));
    assert_eq!((wakes.hook_runs(), drops.hook_runs()), (2, 1), "all have panicked");
    drop(limited);
    drop(ready(&mut next));
    drop(ready(&mut notified));

    // A condition panics, and the lock passes on.
    let (wakes, _) = two();
    let mut judged = Box::pin(condvar.wait_while(mutex.try_lock().unwrap(), |_| panic!("mine")));
    let mut next = Box::pin(mutex.lock());
    pending(&mut next, &wakes);
    wakes.arm(1);
    assert_eq!(panic_of(|| poll_with(&mut judged, Waker::noop()).map(drop)), "mine");
    assert_eq!(wakes.hook_runs(), 1);
    drop(ready(&mut next));

    // An initialiser panics, and the turn passes on.
    let (cell, (wakes, _)) = (OnceCell::new(), two());
    let mut polls = 0;
    let first = std::future::poll_fn(move |_| {
        polls += 1;
        if polls > 1 { panic!("mine") } else { Poll::<u32>::Pending }
    });
    let mut first = Box::pin(cell.get_or_init(move || first));
    pending(&mut first, &Spy::new());
    let mut next = Box::pin(cell.get_or_init(async || 1));
    pending(&mut next, &wakes);
    wakes.arm(1);
    assert_eq!(panic_of(|| poll_with(&mut first, Waker::noop()).map(drop)), "mine");
    assert_eq!(wakes.hook_runs(), 1);
    assert_eq!(ready(&mut next), &1);
}

/// A first poll that is granted after all, whose clone panics when it is dropped, after another has been enqueued: what was taken passes on, and the other's
/// waker panics too.
#[test]
pub(super) fn two_panics_of_a_spare() {
    fn play<F: Future + Send + 'static>(make: impl Fn() -> F, held: impl Send + 'static) {
        let next: Arc<StdMutex<(Pin<Box<F>>, Spy)>> =
            Arc::new(StdMutex::new((Box::pin(make()), hostile(Call::Wake))));
        let (held, late) = (StdMutex::new(Some(held)), next.clone());
        let spare = Spy::hostile(Call::Clone, move || drop(held.lock().unwrap().take()));
        spare.on(Call::Drop, move || {
            {
                let (next, spy) = &mut *late.lock().unwrap();
                pending(next, spy);
                spy.arm(1);
            }
            panic!("a hostile waker")
        });
        let mut first = Box::pin(make());
        let waker = spare.waker();
        spare.arm(2);
        assert_eq!(panic_of(|| poll_with(&mut first, &waker).map(drop)), "a hostile waker");
        drop((first, waker));
        let (next, spy) = &mut *next.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        assert_eq!(spy.hook_runs(), 1, "the other has panicked too");
        drop(ready(next));
    }
    let mutex = Arc::new(Mutex::new(0));
    play(|| mutex.clone().lock_owned(), mutex.clone().try_lock_owned().unwrap());
    let lock = Arc::new(RwLock::new(0));
    play(|| lock.clone().write_owned(), lock.clone().try_write_owned().unwrap());
    let semaphore = Arc::new(Semaphore::new(1));
    play(|| semaphore.clone().acquire_owned(), semaphore.clone().try_acquire_owned().unwrap());
}

/// Never ready, and hard to get rid of.
pub(super) struct PanicsInDrop;

impl Future for PanicsInDrop {
    type Output = u32;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u32> {
        Poll::Pending
    }
}

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("mine");
    }
}

/// Panics when it is dropped.
#[derive(Debug)]
struct Bomb(&'static str);

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("{}", self.0);
    }
}

/// Ready at once, and panics when it is dropped.
struct ReadyBomb<T> {
    output: Option<T>,
    _bomb: Bomb,
}

impl<T: Unpin> Future for ReadyBomb<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<T> {
        Poll::Ready(self.output.take().expect("it is polled once"))
    }
}

/// A future, condition or initialiser of the user's that panics when it is dropped, after the waker of its limit did.
#[test]
fn a_value_that_panics_after_the_waker_of_its_limit() {
    let _dog = watchdog(60);
    let waits_for_ever = || async {
        let _bomb = Bomb("value");
        std::future::pending::<()>().await;
    };
    let (source, cell) = (CancellationSource::new(), OnceCell::new());
    let (mutex, condvar, token) = (Mutex::new(0), Condvar::new(), source.token());
    let bomb = Bomb("value");
    // All of it: a closure captures the fields that it uses.
    let condition = move |_: &mut i32| std::mem::size_of_val(&bomb) > 0;
    let mut waits: [Pin<Box<dyn Future<Output = ()>>>; 3] = [
        Box::pin(async { _ = token.run_until_cancelled(waits_for_ever()).timeout(HOUR).await }),
        Box::pin(async { _ = cell.get_or_init(waits_for_ever).timeout(HOUR).await }),
        Box::pin(async {
            drop(condvar.wait_while(mutex.try_lock().unwrap(), condition).timeout(HOUR).await);
        }),
    ];
    for wait in &mut waits {
        let drops = hostile(Call::Drop);
        pending(wait, &drops);
        drops.arm(1);
        let dropped = std::mem::replace(wait, Box::pin(async {}));
        assert!(panics(|| drop(dropped)));
        assert_eq!(drops.hook_runs(), 1, "the waker has panicked first");
    }
    assert!(!mutex.is_locked() && cell.get().is_none());
}

/// An output that panics when it is dropped, because the future that made it did.
#[test]
fn an_output_that_panics_after_its_future() {
    let (source, cell) = (CancellationSource::new(), OnceCell::<Bomb>::new());
    let token = source.token();
    let bombs = || ReadyBomb { output: Some(Bomb("output")), _bomb: Bomb("future") };
    let mut run = Box::pin(token.run_until_cancelled(bombs()));
    assert_eq!(panic_of(|| poll_with(&mut run, Waker::noop()).map(std::mem::forget)), "future");
    let mut init = Box::pin(cell.get_or_init(bombs));
    assert_eq!(panic_of(|| poll_with(&mut init, Waker::noop()).map(|_| ())), "future");
    let fails = || ReadyBomb { output: Some(Err::<Bomb, Bomb>(Bomb("output"))), _bomb: Bomb("future") };
    let mut init = Box::pin(cell.get_or_try_init(fails));
    assert_eq!(panic_of(|| poll_with(&mut init, Waker::noop()).map(std::mem::forget)), "future");
    assert!(cell.get().is_none());
}
