//! The re-entrant mutex (S3-18, S3-22): owned by a task, counted, in order between tasks.

use crate::kit::waker::Spy;
use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tasuki::task::{self, Identified};
use tasuki::{Event, NoTaskIdentity, OwnedReentrantMutexGuard, ReentrantMutex, ReentrantMutexGuard};

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn boxed<F: Future>(future: F) -> Pin<Box<Identified<F>>> {
    Box::pin(task::identify(future))
}

/// A future that is pending once.
async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(
        |_| {
            if std::mem::replace(&mut yielded, true) { Poll::Ready(()) } else { Poll::Pending }
        },
    )
    .await;
}

#[test]
fn without_an_identity_there_is_an_error_not_a_hang() {
    let mutex = ReentrantMutex::new(1);
    assert_eq!(mutex.try_lock().unwrap_err(), NoTaskIdentity);
    assert_eq!(mutex.lock().block().unwrap_err(), NoTaskIdentity);
    assert!(NoTaskIdentity.to_string().contains("identify"));
}

/// S3-18 lifted: the same task locks again, and gives back in any order.
#[test]
fn a_task_locks_again() {
    let mutex = ReentrantMutex::new(1);
    let mut job = boxed(async {
        let first = mutex.lock().await.unwrap();
        let second = mutex.lock().await.unwrap();
        let third = mutex.try_lock().unwrap().unwrap();
        assert_eq!(ReentrantMutexGuard::depth(&third), 3);
        drop(first);
        assert_eq!(ReentrantMutexGuard::depth(&third), 2);
        drop(third);
        *second
    });
    assert_eq!(poll(job.as_mut()), Poll::Ready(1));
    let mut another = boxed(async { mutex.try_lock().unwrap().is_some() });
    assert_eq!(poll(another.as_mut()), Poll::Ready(true), "free again");
}

/// Owned guards are guards of the same task as borrowed ones, keep the mutex, and borrow nothing.
#[test]
fn owned_guards_count_and_keep_the_mutex() {
    let mutex = Arc::new(ReentrantMutex::new(1));
    assert_eq!(mutex.clone().try_lock_owned().unwrap_err(), NoTaskIdentity);
    let mut job = boxed(async {
        let borrowed = mutex.lock().await.unwrap();
        let first = mutex.clone().lock_owned().await.unwrap();
        let second = mutex.clone().try_lock_owned().unwrap().unwrap();
        assert_eq!(OwnedReentrantMutexGuard::depth(&second), 3);
        drop((borrowed, first));
        second
    });
    let Poll::Ready(kept) = poll(job.as_mut()) else { panic!("the lock is free") };
    drop(job);
    assert!(mutex.is_locked());
    let mut another = boxed(mutex.clone().lock_owned());
    assert!(poll(another.as_mut()).is_pending(), "another task waits");
    let weak = Arc::downgrade(&mutex);
    drop(mutex);
    drop(kept);
    let Poll::Ready(Ok(granted)) = poll(another.as_mut()) else { panic!("it was granted") };
    drop(another);
    assert_eq!(*granted, 1);
    drop(granted);
    assert!(weak.upgrade().is_none(), "nothing keeps the mutex any more");
}

/// Held, granted to a waiter that has not been polled since, free: asked without an identity.
#[test]
fn is_locked_needs_no_identity() {
    let mutex = ReentrantMutex::new(());
    assert!(!mutex.is_locked());
    let mut holder = boxed(async { mutex.lock().await.unwrap() });
    let Poll::Ready(guard) = poll(holder.as_mut()) else { panic!("it is free") };
    assert!(mutex.is_locked());
    let mut waiter = boxed(mutex.lock());
    assert!(poll(waiter.as_mut()).is_pending());
    drop(guard);
    assert!(mutex.is_locked(), "granted");
    drop(waiter);
    assert!(!mutex.is_locked());
}

/// Polls the first, then the second, until both have ended.
async fn both(first: impl Future<Output = ()>, second: impl Future<Output = ()>) {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let mut ended = [false; 2];
    std::future::poll_fn(|cx| {
        ended[0] = ended[0] || first.as_mut().poll(cx).is_ready();
        ended[1] = ended[1] || second.as_mut().poll(cx).is_ready();
        if ended == [true; 2] { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// A branch is granted the lock, and another one of the same task, which it then waits for, is polled before it: a newcomer, or one that is queued behind it.
#[test]
fn a_branch_that_is_polled_before_the_one_that_was_granted() {
    for is_queued in [false, true] {
        let (mutex, spy) = (ReentrantMutex::new(()), Spy::new());
        let (queued, go_on, done) = (Event::manual(), Event::manual(), Event::manual());
        let mut holder = boxed(mutex.lock());
        let Poll::Ready(held) = poll(holder.as_mut()) else { panic!("it is free") };
        let early = async {
            queued.wait().await;
            if !is_queued {
                go_on.wait().await;
            }
            let _guard = mutex.lock().await.unwrap();
            done.set();
        };
        let granted = async {
            let mut lock = pin!(mutex.lock());
            // Enqueued first.
            let first = std::future::poll_fn(|cx| Poll::Ready(lock.as_mut().poll(cx).is_ready())).await;
            assert!(!first, "it is held");
            queued.set();
            let _guard = lock.await.unwrap();
            done.wait().await;
        };
        let mut job = boxed(both(early, granted));
        let waker = spy.waker();
        // As an executor: polls again as long as it is woken.
        let mut run = |ends: bool| loop {
            let heard = spy.wakes();
            let polled = job.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_ready() || spy.wakes() == heard {
                break assert_eq!(polled.is_ready(), ends, "queued: {is_queued}");
            }
        };
        run(false);
        go_on.set();
        drop(held);
        run(true);
    }
}

#[test]
fn others_wait_for_the_last_guard_in_order() {
    let (mutex, order) = (ReentrantMutex::new(()), std::cell::RefCell::new(Vec::new()));
    let mut holder = boxed(async {
        let outer = mutex.lock().await.unwrap();
        let inner = mutex.lock().await.unwrap();
        yield_once().await;
        drop(outer);
        yield_once().await;
        drop(inner);
    });
    assert!(poll(holder.as_mut()).is_pending());
    let mut others: Vec<_> = (0..3)
        .map(|i| {
            let (mutex, order) = (&mutex, &order);
            boxed(async move {
                let _guard = mutex.lock().await.unwrap();
                order.borrow_mut().push(i);
            })
        })
        .collect();
    others.iter_mut().for_each(|other| assert!(poll(other.as_mut()).is_pending()));
    assert!(poll(holder.as_mut()).is_pending());
    others.iter_mut().for_each(|other| assert!(poll(other.as_mut()).is_pending(), "one guard is left"));
    assert!(poll(holder.as_mut()).is_ready());
    others.iter_mut().for_each(|other| assert!(poll(other.as_mut()).is_ready()));
    assert_eq!(*order.borrow(), [0, 1, 2]);
}

/// The branches of one task's `join!` are one owner, also when both had to queue.
#[test]
fn branches_of_one_task_share_it() {
    let mutex = ReentrantMutex::new(());
    let mut holder = boxed(async {
        let guard = mutex.lock().await.unwrap();
        yield_once().await;
        drop(guard);
    });
    assert!(poll(holder.as_mut()).is_pending());
    let meeting = Cell::new(0);
    let branch = || async {
        let guard = mutex.lock().await.unwrap();
        meeting.set(meeting.get() + 1);
        // Neither leaves before both are inside.
        std::future::poll_fn(|_| if meeting.get() == 2 { Poll::Ready(()) } else { Poll::Pending }).await;
        drop(guard);
    };
    let mut both = boxed(async {
        let (mut a, mut b) = (pin!(branch()), pin!(branch()));
        let (mut a_done, mut b_done) = (false, false);
        std::future::poll_fn(|cx| {
            a_done = a_done || a.as_mut().poll(cx).is_ready();
            b_done = b_done || b.as_mut().poll(cx).is_ready();
            if a_done && b_done { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    });
    assert!(poll(both.as_mut()).is_pending());
    assert!(poll(holder.as_mut()).is_ready());
    assert!((0..3).any(|_| poll(both.as_mut()).is_ready()), "they meet inside");
    let mut another = boxed(async { mutex.try_lock().unwrap().is_some() });
    assert_eq!(poll(another.as_mut()), Poll::Ready(true), "both have left");
}

/// H2: granted, then dropped: to the next, on a thread without an identity too.
#[test]
fn a_granted_future_that_is_dropped_passes_the_lock_on() {
    let mutex = ReentrantMutex::new(());
    let mut holder = boxed(async {
        let guard = mutex.lock().await.unwrap();
        yield_once().await;
        drop(guard);
    });
    assert!(poll(holder.as_mut()).is_pending());
    let mut gone = boxed(async { mutex.lock().await.map(drop) });
    let mut next = boxed(async { mutex.lock().await.map(drop) });
    assert!(poll(gone.as_mut()).is_pending());
    assert!(poll(next.as_mut()).is_pending());
    assert!(poll(holder.as_mut()).is_ready());
    drop(gone);
    assert_eq!(poll(next.as_mut()), Poll::Ready(Ok(())));
}

/// Guards may be dropped by any thread; the last one unlocks.
#[test]
fn the_last_guard_unlocks_wherever_it_is_dropped() {
    for _ in 0..if cfg!(miri) { 3 } else { 2_000 } {
        let mutex = ReentrantMutex::new(());
        std::thread::scope(|scope| {
            let mut job = boxed(async {
                let sent = mutex.lock().await.unwrap();
                let kept = mutex.lock().await.unwrap();
                scope.spawn(move || drop(sent));
                drop(kept);
                // Whether the other guard is gone already or not, the lock is this task's or free.
                drop(mutex.lock().await.unwrap());
            });
            // The other thread may hold the lock for a moment on behalf of this task.
            while poll(job.as_mut()).is_pending() {
                std::thread::yield_now();
            }
        });
        let mut another = boxed(async { mutex.try_lock().unwrap().is_some() });
        assert_eq!(poll(another.as_mut()), Poll::Ready(true));
    }
}

/// B101: mutual exclusion between tasks on real threads, with re-entry.
#[test]
fn tasks_on_threads_exclude_each_other() {
    struct Racy(std::cell::UnsafeCell<u64>);
    // SAFETY: only touched under the lock, which is what the test is about.
    unsafe impl Sync for Racy {}
    let (threads, rounds) = if cfg!(miri) { (2, 20) } else { (4, 5_000) };
    let shared = Arc::new(ReentrantMutex::new(Racy(std::cell::UnsafeCell::new(0))));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut job = boxed(async {
                    for _ in 0..rounds {
                        let outer = shared.lock().await.unwrap();
                        let inner = shared.lock().await.unwrap();
                        // SAFETY: this task owns the lock; no other reference exists.
                        unsafe { *inner.0.get() += 1 };
                        drop(outer);
                    }
                });
                let parker = tasuki::Parker::new();
                let waker = Waker::from(parker.unparker());
                while job.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                    parker.park();
                }
            });
        }
    });
    let mut shared = Arc::into_inner(shared).unwrap();
    assert_eq!(*shared.get_mut().0.get_mut(), threads * rounds);
}

#[test]
fn the_innermost_identity_counts() {
    let mutex = ReentrantMutex::new(());
    let mut outer = boxed(async {
        let outside = task::current();
        let inside = task::identify(async { task::current() }).await;
        assert_ne!(outside, inside);
        assert_eq!(task::current(), outside);
        let guard = mutex.lock().await.unwrap();
        let other = task::identify(async { mutex.try_lock().unwrap().is_none() }).await;
        drop(guard);
        other
    });
    assert_eq!(poll(outer.as_mut()), Poll::Ready(true), "another identity is another task");
}
