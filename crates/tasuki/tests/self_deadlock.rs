//! S3-29: a task that waits for a lock that it holds is found, with both places; a panic only in strict mode.
//!
//! One test function: the hook and the strict mode belong to the process.

#![cfg(debug_assertions)]

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Mutex as StdMutex;
use std::task::{Context, Poll, Waker};
use tasuki::task::{self, SelfDeadlock};
use tasuki::{Mutex, RwLock};

static FOUND: StdMutex<Vec<SelfDeadlock>> = StdMutex::new(Vec::new());

fn take() -> Vec<SelfDeadlock> {
    std::mem::take(&mut *FOUND.lock().unwrap())
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_task_that_waits_for_itself_is_found() {
    task::on_self_deadlock(|found| FOUND.lock().unwrap().push(*found));
    a_second_lock_of_the_same_task();
    a_recursive_read_behind_a_writer();
    nothing_is_found_where_nothing_is_wrong();
    branches_of_a_join_may_wait_for_each_other();
    strict_mode_panics();
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
    // Another task waits; a task that has given the lock up takes it again; nobody has an identity.
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
