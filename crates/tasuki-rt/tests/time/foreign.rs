//! Deadlines that another executor waits for inside of a task: it parks the worker whose wheel has them.

use crate::kit::{MS, runtime, wait_as_a_foreign_executor, watchdog};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;
use tasuki::Event;
use tasuki_rt::{Runtime, sleep};

/// Another worker wakes for it, though it slept when the deadline was armed.
#[test]
fn a_deadline_in_a_poll_that_waits_for_it_is_kept() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    let waits = || runtime.spawn(async { wait_as_a_foreign_executor(sleep(5 * MS)) });
    runtime.block_on(waits()).unwrap();
    let limited = || async { wait_as_a_foreign_executor(Event::auto().wait().timeout(5 * MS)).is_err() };
    assert!(runtime.block_on(runtime.spawn(limited())).unwrap());
    // An earlier deadline, of the poll's own waker, has rung the alarm already.
    let behind_another = runtime.spawn(async {
        let mut first = pin!(sleep(2 * MS));
        let is_pending = poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending())).await;
        wait_as_a_foreign_executor(sleep(5 * MS));
        is_pending
    });
    assert!(runtime.block_on(behind_another).unwrap());
}

/// In a task that this thread wakes: a worker that had slept until a deadline would have told the others of the next one.
fn in_a_task_that_is_woken(runtime: &Runtime, wait: impl Future<Output = ()> + Send + 'static) {
    let begin = Arc::new(Event::auto());
    let begun = begin.clone();
    let task = runtime.spawn(async move {
        begun.wait().await;
        let mut wait = pin!(wait);
        let is_pending = poll_fn(|cx| Poll::Ready(wait.as_mut().poll(cx).is_pending())).await;
        wait_as_a_foreign_executor(wait);
        assert!(is_pending);
    });
    runtime.start().unwrap();
    thread::sleep(20 * MS);
    begin.set();
    runtime.block_on(task).unwrap();
}

/// The poll itself has armed the deadline, with its own waker, before the other executor polls the same wait.
#[test]
fn a_deadline_that_was_armed_by_the_poll_is_kept() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    in_a_task_that_is_woken(&runtime, sleep(5 * MS));
    in_a_task_that_is_woken(&runtime, async { assert!(Event::auto().wait().timeout(5 * MS).await.is_err()) });
}

/// The destructor of a task that a shutdown drops, when no worker minds the wheels any more: with every number of workers.
#[test]
fn a_deadline_in_a_destructor_at_the_end_is_kept() {
    struct Waits {
        tell: mpsc::Sender<()>,
        /// Its task was polled before the shutdown: a wait by another executor would be in a poll of the only worker, and no other one wakes it.
        is_polled: bool,
    }
    impl Drop for Waits {
        fn drop(&mut self) {
            if !self.is_polled {
                assert!(wait_as_a_foreign_executor(Event::auto().wait().timeout(5 * MS)).is_err());
                wait_as_a_foreign_executor(sleep(5 * MS));
            }
            self.tell.send(()).unwrap();
        }
    }
    let _dog = watchdog(60);
    let (tell, told) = mpsc::channel();
    let waits = || Waits { tell: tell.clone(), is_polled: false };
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let [unpinned, blocking, unpolled] = [(); 3].map(|()| waits());
        drop(runtime.spawn(async move {
            let _waits = unpinned;
            Event::auto().wait().await;
        }));
        runtime.for_each_worker(|worker| {
            let waits = waits();
            drop(runtime.spawn_on(worker, || async move {
                let _waits = waits;
                Event::auto().wait().await;
            }));
        });
        runtime.start().unwrap();
        thread::sleep(20 * MS);
        drop(runtime.spawn_blocking(|| drop(blocking)));
        drop(runtime.spawn(async {
            let mut waits = unpolled;
            waits.is_polled = true;
        }));
        drop(runtime);
        assert_eq!(told.try_iter().count(), 3 + workers);
        // One that was never started: the caller drops its tasks.
        let unstarted = Runtime::builder().workers(workers).build().unwrap();
        let waits = waits();
        drop(unstarted.spawn(async { drop(waits) }));
        drop(unstarted);
        assert_eq!(told.try_iter().count(), 1);
    }
}
