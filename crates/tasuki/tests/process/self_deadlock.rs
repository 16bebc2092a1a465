//! A task that waits for a lock that it holds is found, with both places (S3-29); a panic only in strict mode.
//!
//! One test function: the hook and the strict mode belong to the process.

#![cfg(any(debug_assertions, feature = "inspect"))]

use crate::kit::poll::panics;
use crate::kit::process::alone;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex as StdMutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tasuki::task::{self, SelfDeadlock};
use tasuki::{CancellationSource, Mutex, RwLock, Semaphore};

static FOUND: StdMutex<Vec<SelfDeadlock>> = StdMutex::new(Vec::new());

fn take() -> Vec<SelfDeadlock> {
    std::mem::take(&mut *FOUND.lock().unwrap())
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_task_that_waits_for_itself_is_found() {
    alone(|| {
        task::on_self_deadlock(|found| FOUND.lock().unwrap().push(*found));
        a_second_lock_of_the_same_task();
        a_recursive_read_behind_a_writer();
        nothing_is_found_where_nothing_is_wrong();
        a_forgotten_guard_says_nothing_of_another_lock();
        a_guard_that_was_sent_is_in_the_name_of_its_taker();
        many_locks_are_held_and_none_is_confused();
        branches_of_a_join_may_wait_for_each_other();
        a_limited_wait_is_no_deadlock();
        strict_mode_panics();
        strict_mode_panics_where_a_cycle_closes();
    });
}

fn a_second_lock_of_the_same_task() {
    let mutex = Mutex::new(0);
    let mut job = pin!(task::identify(async {
        let _guard = mutex.lock().await;
        let held = format!("{mutex:?}");
        assert!(held.contains("self_deadlock.rs"), "Debug tells where: {held}");
        drop(mutex.lock().await);
    }));
    let id = job.id();
    assert!(poll(job.as_mut()).is_pending());
    let found = take();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].task(), id);
    assert!(found[0].held_at().file().ends_with("self_deadlock.rs"));
    assert_eq!(found[0].wanted_at().line(), found[0].held_at().line() + 3);
    assert!(found[0].to_string().contains("waits at"));
}

/// A limit ends the wait: it is told as such, and strict mode does not panic.
fn a_limited_wait_is_no_deadlock() {
    let (mutex, lock, source) = (Mutex::new(0), RwLock::new(0), CancellationSource::new());
    let token = source.token();
    task::strict(true);
    let mut job = pin!(task::identify(async {
        let (_guard, _writer) = (mutex.lock().await, lock.write().await);
        assert!(mutex.lock().timeout(Duration::ZERO).await.is_err());
        assert!(lock.read().deadline(Instant::now()).await.is_err());
        let both = mutex.lock().or_cancelled(&token).timeout(Duration::ZERO);
        assert!(both.await.is_err());
        let run = token.run_until_cancelled(async { drop(mutex.lock().await) });
        assert!(run.timeout(Duration::ZERO).await.is_err());
    }));
    assert!(poll(job.as_mut()).is_ready());
    let found = take();
    assert_eq!(found.len(), 4);
    assert!(found.iter().all(|found| found.is_limited() && found.to_string().contains("until its limit")));
    let mut job = pin!(task::identify(async {
        let _guard = mutex.lock().await;
        drop(mutex.lock().await);
    }));
    assert!(panics(|| poll(job.as_mut())), "without a limit it panics");
    assert!(take().iter().all(|found| !found.is_limited()));
    task::strict(false);
}

/// Two tasks, then a futurelock: the wait that closes the cycle panics, and both locks are free afterwards. Permits may be released by any task, so they do not panic.
fn strict_mode_panics_where_a_cycle_closes() {
    let (a, b, permits) = (Mutex::new(0), Mutex::new(0), Semaphore::new(1));
    task::strict(true);
    let mut first = Box::pin(task::identify(async {
        let _a = a.lock().await;
        std::future::poll_fn(once_pending()).await;
        drop(b.lock().await);
    }));
    let mut second = Box::pin(task::identify(async {
        let _b = b.lock().await;
        drop(a.lock().await);
    }));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    assert!(panics(|| poll(first.as_mut())), "it closes the cycle");
    drop(first);
    assert!(poll(second.as_mut()).is_ready(), "nothing was lost");
    let outside = a.try_lock().unwrap();
    let (mut granted, mut other) = (Box::pin(a.lock()), Box::pin(a.lock()));
    let mut futurelock = Box::pin(task::identify(async {
        assert!(poll(granted.as_mut()).is_pending());
        drop(outside);
        drop(other.as_mut().await);
    }));
    assert!(panics(|| poll(futurelock.as_mut())), "the lock is with the future that is not polled");
    drop(futurelock);
    drop((granted, other));
    assert!(a.try_lock().is_some());
    let mut job = pin!(task::identify(async {
        let _permit = permits.acquire().await;
        drop(permits.acquire().await);
    }));
    assert!(poll(job.as_mut()).is_pending(), "another task may release a permit");
    task::strict(false);
    take();
}

fn a_recursive_read_behind_a_writer() {
    let lock = RwLock::new(0);
    let mut writer = pin!(task::identify(async {
        let _writer = lock.write().await;
    }));
    let mut reader = pin!(task::identify(async {
        let _first = lock.read().await;
        let second = lock.read().await;
        drop(second);
        assert!(take().is_empty(), "legal as long as no writer waits");
        assert!(poll(writer.as_mut()).is_pending());
        drop(lock.read().await);
    }));
    assert!(poll(reader.as_mut()).is_pending());
    assert_eq!(take().len(), 1);
}

fn nothing_is_found_where_nothing_is_wrong() {
    let mutex = Mutex::new(0);
    // Another task waits; a task that has given the lock up takes it again; no task has an identity.
    let mut holder = pin!(task::identify(async {
        drop(mutex.lock().await);
        let _guard = mutex.lock().await;
        let mut other = pin!(task::identify(async { drop(mutex.lock().await) }));
        assert!(poll(other.as_mut()).is_pending());
    }));
    assert!(poll(holder.as_mut()).is_ready());
    let guard = mutex.try_lock().unwrap();
    assert!(poll(pin!(mutex.lock())).is_pending());
    drop(guard);
    assert!(take().is_empty());
}

/// The note of a lock goes with the lock: another one at the same address is another lock.
fn a_forgotten_guard_says_nothing_of_another_lock() {
    macro_rules! forgets {
        ($lock:expr, $try_lock:ident, $lock_future:ident) => {
            let mut lock = $lock;
            let mut job = pin!(task::identify(async {
                std::mem::forget(lock.$try_lock().unwrap());
                lock = $lock;
                let outside = std::thread::scope(|s| s.spawn(|| lock.$try_lock().unwrap()).join().unwrap());
                assert!(poll(pin!(lock.$lock_future())).is_pending());
                drop(outside);
            }));
            assert!(poll(job.as_mut()).is_ready());
            assert!(take().is_empty());
        };
    }
    forgets!(Mutex::new(0), try_lock, lock);
    forgets!(RwLock::new(0), try_write, write);
    forgets!(RwLock::new(0), try_write, read);
}

/// A reads, B reads and drops the guard that A has sent: A holds nothing then, and B does.
fn a_guard_that_was_sent_is_in_the_name_of_its_taker() {
    let lock = Arc::new(RwLock::new(0));
    let (send, receive) = mpsc::channel();
    let mut a = pin!(task::identify(async {
        send.send(lock.clone().read_owned().await).unwrap();
        std::future::poll_fn(once_pending()).await;
        drop(lock.write().await);
    }));
    let mut b = pin!(task::identify(async {
        let _own = lock.read().await;
        drop(receive.recv().unwrap());
        std::future::poll_fn(once_pending()).await;
        drop(lock.write().await);
    }));
    let b_id = b.id();
    assert!(poll(a.as_mut()).is_pending() && poll(b.as_mut()).is_pending());
    assert!(poll(a.as_mut()).is_pending());
    assert!(take().is_empty(), "the holder is another task");
    assert!(poll(b.as_mut()).is_pending());
    assert_eq!(take().iter().map(SelfDeadlock::task).collect::<Vec<_>>(), [b_id]);
}

fn once_pending() -> impl FnMut(&mut Context<'_>) -> Poll<()> {
    let mut polled = false;
    move |_| if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }
}

/// Released oldest first, by two tasks with readers of the same locks.
fn many_locks_are_held_and_none_is_confused() {
    let locks: Vec<_> = (0..1_000).map(|_| (Mutex::new(()), RwLock::new(()))).collect();
    let mut jobs: Vec<_> = (0..2)
        .map(|_| {
            Box::pin(task::identify(async {
                let mut guards = std::collections::VecDeque::new();
                for (mutex, lock) in &locks {
                    guards.push_back((mutex.try_lock(), lock.read().await, lock.read().await));
                }
                std::future::poll_fn(once_pending()).await;
                for (mutex, lock) in &locks {
                    guards.pop_front();
                    // The other task may hold it, this one does not.
                    let _ = poll(pin!(mutex.lock()));
                    let _ = poll(pin!(lock.write()));
                }
            }))
        })
        .collect();
    for _ in 0..2 {
        jobs.retain_mut(|job| poll(job.as_mut()).is_pending());
    }
    assert!(jobs.is_empty() && take().is_empty());
}

/// Legal: reported, because it may be a mistake, and it goes on.
fn branches_of_a_join_may_wait_for_each_other() {
    let mutex = Mutex::new(0);
    let mut job = pin!(task::identify(async {
        let guard = mutex.lock().await;
        let mut second = pin!(mutex.lock());
        let mut guard = Some(guard);
        std::future::poll_fn(|cx| {
            let poll = second.as_mut().poll(cx);
            guard = None;
            poll.map(drop)
        })
        .await;
    }));
    assert!(poll(job.as_mut()).is_pending());
    assert!(poll(job.as_mut()).is_ready());
    assert_eq!(take().len(), 1);
}

fn strict_mode_panics() {
    task::strict(true);
    let mutex = Mutex::new(0);
    let mut job = Box::pin(task::identify(async {
        let _guard = mutex.lock().await;
        drop(mutex.lock().await);
    }));
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| poll(job.as_mut())));
    task::strict(false);
    let message = *panic.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("self_deadlock.rs"), "{message}");
    drop(job);
    assert!(mutex.try_lock().is_some(), "nothing was lost");
    assert_eq!(take().len(), 1);
}
