//! Threads and tasks in one queue: `.block()`, guards that cross threads, what one owner leaves to the next.
//! S0-01, S1-03, S2-02, S3-10, S3-11, S3-17, S3-27; B043, B073, H7.

use crate::kit::policy::{Known, for_each_policy};
use crate::kit::poll::{pending, ready};
use crate::kit::process::{this_thread, until_asleep};
use crate::kit::scaled;
use crate::kit::waker::Spy;
use crate::kit::watchdog::watchdog;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use tasuki::policy::Fifo;
use tasuki::{Event, Mutex};

/// S3-27, S3-11: a plain counter, many threads: every increment is seen by the next owner.
fn every_increment_counts<P: Known>() {
    let rounds = scaled(5_000, 20);
    let mutex = Mutex::<usize, P>::with_policy(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    *mutex.lock().block() += 1;
                }
            });
        }
    });
    assert_eq!(mutex.into_inner(), 4 * rounds);
}

/// A mutex may be freed by the thread that unlocked it last, right after the hand-over (B073).
fn b073_the_last_owner_frees_it<P: Known>() {
    for _ in 0..scaled(500, 10) {
        let mutex = Arc::new(Mutex::<u32, P>::with_policy(0));
        let guard = mutex.clone().try_lock_owned().unwrap();
        let waiter = thread::spawn(move || {
            let mut guard = mutex.lock_owned().block();
            *guard += 1;
        });
        drop(guard);
        waiter.join().unwrap();
    }
}

for_each_policy! {
    every_increment_counts
    b073_the_last_owner_frees_it
}

fn settle() {
    thread::sleep(Duration::from_millis(20));
}

/// A thread that blocks stands in the same queue as tasks, in its place.
#[test]
fn threads_and_tasks_in_one_order() {
    let _dog = watchdog(20);
    let mutex = Arc::new(Mutex::<Vec<&str>>::new(Vec::new()));
    let guard = mutex.clone().try_lock_owned().unwrap();
    let (first, last) = (Spy::new(), Spy::new());
    let mut task = Box::pin(mutex.lock());
    pending(&mut task, &first);
    let (started, start) = mpsc::channel();
    let thread = thread::spawn({
        let mutex = mutex.clone();
        move || {
            started.send(this_thread()).unwrap();
            mutex.lock().block().push("thread");
        }
    });
    // A place in the queue cannot be seen from outside, a sleeping thread can.
    let blocked = start.recv().unwrap();
    until_asleep(|| vec![blocked]);
    let mut late = Box::pin(mutex.lock());
    pending(&mut late, &last);
    drop(guard);
    assert_eq!((first.wakes(), last.wakes()), (1, 0));
    ready(&mut task).push("task");
    thread.join().unwrap();
    ready(&mut late).push("late");
    assert_eq!(*mutex.try_lock().unwrap(), ["task", "thread", "late"]);
}

/// S0-01, S2-02: waiting tasks do not hold their thread: one thread runs the holder and all waiters.
#[test]
fn one_thread_runs_them_all() {
    let _dog = watchdog(20);
    let (mutex, gate) = (Mutex::<u32>::new(0), Event::manual());
    let spy = Spy::new();
    let mut tasks: Vec<_> = (0..100)
        .map(|_| {
            Box::pin(async {
                let mut guard = mutex.lock().await;
                gate.wait().await;
                *guard += 1;
            })
        })
        .collect();
    tasks.iter_mut().for_each(|task| pending(task, &spy));
    gate.set();
    let mut rounds = 0;
    while !tasks.is_empty() {
        rounds += 1;
        assert!(rounds <= 100);
        tasks.retain_mut(|task| crate::kit::poll::poll(task, &spy).is_pending());
    }
    assert_eq!(*mutex.try_lock().unwrap(), 100);
}

/// S4-03 for `.block()`: a blocked thread sleeps.
#[cfg_attr(any(miri, not(target_os = "linux")), ignore = "the system does not tell")]
#[test]
fn a_blocked_thread_uses_no_processor() {
    let _dog = watchdog(60);
    let event = Arc::new(Event::auto());
    let (send, receive) = mpsc::channel();
    let thread = thread::spawn({
        let event = event.clone();
        move || {
            send.send(this_thread()).unwrap();
            event.wait().block();
        }
    });
    let blocked = receive.recv().unwrap();
    until_asleep(|| vec![blocked]);
    event.set();
    thread.join().unwrap();
}

/// `.block()` inside `.block()`, as a waker or a destructor may do it: each has its own token.
#[test]
fn block_inside_block() {
    let _dog = watchdog(20);
    let (inner, outer) = (Arc::new(Event::auto()), Arc::new(Event::auto()));
    // Before the thread begins: it may have set both events before this one goes on.
    let began = Instant::now();
    let setter = thread::spawn({
        let (inner, outer) = (inner.clone(), outer.clone());
        move || {
            settle();
            inner.set();
            settle();
            outer.set();
        }
    });
    struct BlocksInDrop(Arc<Event>);
    impl Drop for BlocksInDrop {
        fn drop(&mut self) {
            self.0.wait().block();
        }
    }
    let nested = BlocksInDrop(inner);
    drop(nested);
    outer.wait().block();
    assert!(began.elapsed() >= Duration::from_millis(1));
    setter.join().unwrap();
}

/// H7: a future polled on one thread, polled and finished on another; a guard sent on.
#[test]
fn h7_futures_and_guards_travel() {
    let _dog = watchdog(20);
    let (mutex, done) = (Arc::new(Mutex::<u32, Fifo>::new(0)), AtomicUsize::new(0));
    let guard = mutex.clone().try_lock_owned().unwrap();
    let (here, there) = (Spy::new(), Arc::new(Spy::new()));
    let mut future = Box::pin(mutex.clone().lock_owned());
    pending(&mut future, &here);
    let spy = there.clone();
    let mut future = thread::spawn(move || {
        pending(&mut future, &spy);
        future
    })
    .join()
    .unwrap();
    drop(guard);
    assert_eq!((here.wakes(), there.wakes()), (0, 1));
    let guard = ready(&mut future);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut guard = guard;
            *guard += 1;
            done.fetch_add(1, SeqCst);
        });
    });
    assert_eq!((done.load(SeqCst), *mutex.try_lock().unwrap()), (1, 1));
    assert_eq!((here.alive(), there.alive()), (0, 0));
}
