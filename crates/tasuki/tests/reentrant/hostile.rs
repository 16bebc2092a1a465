//! A queued wait that its own poll refuses, because it is polled where it may not own the lock, and a waker that panics on the way: what was
//! given back is not given back a second time when the future is dropped, and what was never owned is not released.

use crate::kit::driver::FakeDriver;
use crate::kit::poll::{panic_of, panics, pending, poll, poll_with, ready};
use crate::kit::waker::{Call, Spy};
use std::cell::{Cell, UnsafeCell};
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tasuki::ReentrantMutex;
use tasuki::future::{Awaitable, LockReentrant};
use tasuki::runtime::{
    self, Domain, Key, KeyedLock, KeyedMutex, KeyedRawMutex, TaskId, keyed_lock, keyed_try_lock,
};
use tasuki::task::{self, Identified};

thread_local! {
    /// Where the test is; 0 is nowhere.
    static HERE: Cell<usize> = const { Cell::new(1) };
}

struct Places;

impl Domain for Places {
    type Error = &'static str;

    fn here() -> Result<Key, &'static str> {
        NonZeroUsize::new(HERE.get()).map(Key).ok_or("nowhere")
    }

    fn elsewhere() -> &'static str {
        "elsewhere"
    }

    fn may_release(owner: Key) -> bool {
        Self::here() == Ok(owner)
    }
}

struct Keyed {
    raw: KeyedRawMutex,
    value: UnsafeCell<u32>,
}

// SAFETY: the lock and its value, which only guards reach.
unsafe impl KeyedMutex for Keyed {
    type Value = u32;
    type Domain = Places;

    fn raw(&self) -> &KeyedRawMutex {
        &self.raw
    }

    fn value(&self) -> *mut u32 {
        self.value.get()
    }
}

type Lock<'a> = Pin<Box<KeyedLock<&'a Keyed>>>;

fn keyed() -> Keyed {
    Keyed { raw: KeyedRawMutex::new(), value: UnsafeCell::new(0) }
}

/// A wait that has begun here.
fn waiting<'a>(mutex: &'a Keyed, spy: &Spy) -> Lock<'a> {
    let mut lock = Box::pin(keyed_lock(mutex));
    pending(&mut lock, spy);
    lock
}

/// Polled at this place, with a panic on the way.
fn refused_at(place: usize, lock: &mut Lock<'_>) {
    let before = HERE.replace(place);
    assert!(panics(|| poll_with(lock, Waker::noop()).is_ready()));
    HERE.set(before);
}

/// Not granted: its own waker panics when it leaves the queue. The lock, which another holds, must not be released by it.
#[test]
fn a_refused_wait_does_not_release_what_it_never_owned() {
    for place in [0, 2] {
        let (mutex, spy) = (keyed(), Spy::new());
        let hostile = Spy::hostile(Call::Drop, || panic!("a hostile waker"));
        let guard = keyed_try_lock(&mutex).unwrap().unwrap();
        let mut refused = waiting(&mutex, &hostile);
        let mut next = waiting(&mutex, &spy);
        hostile.arm(1);
        refused_at(place, &mut refused);
        drop(refused);
        assert_eq!(spy.wakes(), 0, "the lock is held");
        pending(&mut next, &spy);
        drop(guard);
        drop(ready(&mut next).unwrap());
        assert!(!mutex.raw.is_locked());
    }
}

/// Granted: it passes the lock on, and the waker of the next one panics. The lock is the next one's then, and no longer its own.
#[test]
fn a_refused_wait_passes_on_once() {
    for (place, polls_again) in [(0, false), (2, false), (0, true)] {
        let (mutex, spy, last) = (keyed(), Spy::new(), Spy::new());
        let hostile = Spy::hostile(Call::Wake, || panic!("a hostile waker"));
        let guard = keyed_try_lock(&mutex).unwrap().unwrap();
        let mut refused = waiting(&mutex, &spy);
        let mut next = waiting(&mutex, &hostile);
        let mut after_next = waiting(&mutex, &last);
        drop(guard);
        hostile.arm(1);
        refused_at(place, &mut refused);
        if polls_again {
            assert_eq!(ready(&mut refused).unwrap_err(), "elsewhere", "its wait is over");
        }
        drop(refused);
        assert_eq!(last.wakes(), 0, "the lock was given back twice");
        let owner = ready(&mut next).unwrap();
        pending(&mut after_next, &last);
        drop(owner);
        drop(ready(&mut after_next).unwrap());
        assert!(!mutex.raw.is_locked());
    }
}

/// A guard that is dropped elsewhere panics, and the lock stays locked; but not if a panic drops it, for a second one would end the process.
#[test]
fn a_guard_that_a_panic_drops_elsewhere() {
    for unwinds in [false, true] {
        let mutex = keyed();
        let guard = keyed_try_lock(&mutex).unwrap().unwrap();
        HERE.set(2);
        let message = panic_of(|| {
            let _guard = guard;
            assert!(!unwinds, "mine");
        });
        HERE.set(1);
        assert_eq!(message.starts_with("mine"), unwinds, "{message}");
        assert!(mutex.raw.is_locked(), "it was not unlocked elsewhere");
    }
}

type Reentrant<'a> = Pin<Box<Identified<LockReentrant<'a, ()>>>>;

/// A lock that is asked for with an identity and later polled without one.
#[test]
fn a_reentrant_lock_without_identity_passes_on_once() {
    fn begin<'a>(mutex: &'a ReentrantMutex<()>, spy: &Spy) -> Reentrant<'a> {
        let mut lock = Box::pin(task::identify(mutex.lock()));
        pending(&mut lock, spy);
        lock
    }
    let (mutex, spy, last) = (ReentrantMutex::new(()), Spy::new(), Spy::new());
    let hostile = Spy::hostile(Call::Wake, || panic!("a hostile waker"));
    let mut holder = Box::pin(task::identify(async { mutex.lock().await.unwrap() }));
    let guard = ready(&mut holder);
    let mut refused = Box::pin(mutex.lock());
    {
        // The identity is that of the poll, so the same wait can be polled with one and without.
        let mut asked = Box::pin(task::identify(std::future::poll_fn(|cx| refused.as_mut().poll(cx))));
        pending(&mut asked, &spy);
    }
    let (mut next, mut after_next) = (begin(&mutex, &hostile), begin(&mutex, &last));
    drop(guard);
    hostile.arm(1);
    assert!(!refused.has_ended() && panics(|| poll_with(&mut refused, Waker::noop()).is_ready()));
    assert!(refused.has_ended(), "its wait is over");
    assert!(format!("{refused:?}").contains("Finished"), "{refused:?}");
    assert!(panic_of(|| poll_with(&mut refused, Waker::noop())).contains("after it was finished"));
    drop(refused);
    assert_eq!(last.wakes(), 0, "the lock was given back twice");
    let owner = ready(&mut next).unwrap();
    pending(&mut after_next, &last);
    drop(owner);
    drop(ready(&mut after_next).unwrap());
}

/// Another branch of its task has the lock, so it shares it and leaves the queue, and its own waker panics: a later poll must not take the place
/// that it left for a grant.
#[test]
fn a_reentrant_lock_that_left_the_queue_is_not_granted() {
    let (mutex, spy) = (ReentrantMutex::new(()), Spy::new());
    let hostile = Spy::hostile(Call::Drop, || panic!("a hostile waker"));
    let mut other = Box::pin(task::identify(async { mutex.lock().await.unwrap() }));
    let others = ready(&mut other);
    let (mut first, mut second) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
    let shared = Cell::new(None);
    let mut both = Box::pin(task::identify(std::future::poll_fn(|cx| {
        let waker = hostile.waker();
        if shared.take().is_none() {
            if let Poll::Ready(guard) = first.as_mut().poll(cx) {
                shared.set(Some(guard.unwrap()));
                hostile.arm(1);
            }
        }
        let again = second.as_mut().poll(&mut Context::from_waker(&waker));
        std::mem::forget(waker);
        again.map(|guard| drop(guard.unwrap()))
    })));
    pending(&mut both, &spy);
    drop(others);
    assert!(panics(|| poll_with(&mut both, Waker::noop()).is_ready()), "its waker panics");
    drop(both);
    drop(first);
    drop(shared.take());
    let mut owner = Box::pin(task::identify(async { mutex.lock().await.unwrap() }));
    let guard = ready(&mut owner);
    assert!(second.has_ended(), "its wait is over");
    assert!(format!("{second:?}").contains("Finished"), "{second:?}");
    let mut late = Box::pin(task::identify(std::future::poll_fn(|cx| second.as_mut().poll(cx))));
    assert!(panics(|| poll_with(&mut late, Waker::noop()).is_ready()), "it says so");
    assert_eq!(tasuki::ReentrantMutexGuard::depth(&guard), 1);
}

/// A branch was polled before the one that was granted the lock, whose waker panics when it is to poll the branches again: the claim that succeeds wakes them.
#[test]
fn a_claim_whose_waker_panics_wakes_the_branches_later() {
    let (mutex, spy) = (ReentrantMutex::new(()), Spy::new());
    let hostile = Spy::hostile(Call::WakeByRef, || panic!("a hostile waker"));
    let mut other = Box::pin(task::identify(async { mutex.lock().await.unwrap() }));
    let others = ready(&mut other);
    runtime::enter(&FakeDriver::of(TaskId::fresh()), || {
        let (mut first, mut second) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
        pending(&mut first, &Spy::new());
        pending(&mut second, &Spy::new());
        drop(others);
        pending(&mut second, &Spy::new());
        hostile.arm(1);
        assert!(panics(|| poll(&mut first, &hostile).is_ready()));
        let guard = poll(&mut first, &spy).map(Result::unwrap);
        assert!(guard.is_ready() && spy.wakes() == 1, "the branches are polled again");
        drop(ready(&mut second).unwrap());
    });
    assert!(!mutex.is_locked());
}
