//! A shutdown while a worker is in a long poll: what belongs to no worker does not wait for the end of that poll.

use crate::kit::{Drops, MS, runtime, until, wait_as_a_foreign_executor, watchdog};
use std::future::{Future, pending};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use tasuki::{Event, Mutex};
use tasuki_rt::{Handle, Runtime, sleep, spawn_blocking};

/// Spawns a task that waits for ever and owns this, and waits until it does.
fn spawn_owner(runtime: &Runtime, owned: impl Send + 'static) {
    let polled = Arc::new(AtomicBool::new(false));
    let tell = polled.clone();
    drop(runtime.spawn(async move {
        tell.store(true, Ordering::Relaxed);
        pending::<()>().await;
        drop(owned);
    }));
    runtime.start().unwrap();
    until(|| polled.load(Ordering::Relaxed));
}

/// Waits for a lock when it is dropped.
struct Locks(Arc<std::sync::Mutex<()>>);

impl Drop for Locks {
    fn drop(&mut self) {
        drop(self.0.lock().unwrap());
    }
}

#[test]
fn tasks_are_dropped_while_a_poll_goes_on() {
    const TASKS: usize = 20;
    let _dog = watchdog(60);
    for workers in [2, 4] {
        let (runtime, drops) = (runtime(workers), Drops::default());
        (0..TASKS).for_each(|_| spawn_owner(&runtime, drops.one()));
        let ((begin, begun), (tell, told)) = (mpsc::channel(), mpsc::channel::<()>());
        drop(runtime.spawn(async move {
            begin.send(()).unwrap();
            told.recv().unwrap();
        }));
        begun.recv().unwrap();
        assert!(runtime.shutdown_timeout(MS).is_err());
        until(|| drops.count() == TASKS);
        assert!(runtime.shutdown_timeout(MS).is_err());
        tell.send(()).unwrap();
    }
}

/// The poll goes on, and has woken tasks that only its worker would run.
#[test]
fn tasks_that_a_long_poll_has_woken_are_dropped() {
    const TASKS: usize = 20;
    let _dog = watchdog(60);
    for workers in [2, 4] {
        let (runtime, drops) = (runtime(workers), Drops::default());
        let (lock, event) = (Arc::new(Mutex::new(())), Arc::new(Event::manual()));
        let held = lock.clone().try_lock_owned().unwrap();
        let begun = Arc::new(AtomicUsize::new(0));
        for nth in 0..TASKS {
            let (owned, begun, lock, event) = (drops.one(), begun.clone(), lock.clone(), event.clone());
            drop(runtime.spawn(async move {
                begun.fetch_add(1, Ordering::Relaxed);
                if nth == 0 {
                    drop(lock.lock().await)
                } else {
                    event.wait().await
                }
                drop(owned);
            }));
        }
        runtime.start().unwrap();
        until(|| begun.load(Ordering::Relaxed) == TASKS);
        let (begin, in_poll) = mpsc::channel();
        let counted = drops.clone();
        let waits = runtime.spawn(async move {
            begin.send(()).unwrap();
            let here = Handle::current();
            until(|| here.is_shut_down());
            // Into the *next* slot, and the queue.
            drop(held);
            event.set();
            until(|| counted.count() == TASKS);
        });
        in_poll.recv().unwrap();
        drop(runtime);
        self::runtime(1).block_on(waits).unwrap();
    }
}

/// The poll waits for what another task owns, which the shutdown drops.
#[test]
fn a_poll_that_waits_for_the_end_of_a_task_ends() {
    let _dog = watchdog(60);
    for workers in [2, 4] {
        let (runtime, (owned, ends)) = (runtime(workers), mpsc::channel::<()>());
        spawn_owner(&runtime, owned);
        let (begin, begun) = mpsc::channel();
        let waits = runtime.spawn(async move {
            begin.send(()).unwrap();
            ends.recv().is_err()
        });
        begun.recv().unwrap();
        drop(runtime);
        assert!(self::runtime(1).block_on(waits).unwrap());
    }
}

/// The poll waits for a sleep by another executor, and the destructors of tasks that the shutdown drops, one that waits and one in the queue, wait for the poll.
#[test]
fn a_destructor_that_waits_for_a_poll_does_not_stop_its_sleep() {
    let _dog = watchdog(60);
    for workers in [2, 4] {
        let (runtime, lock) = (runtime(workers), Arc::<std::sync::Mutex<()>>::default());
        spawn_owner(&runtime, Locks(lock.clone()));
        let queued = Locks(lock.clone());
        let (begin, begun) = mpsc::channel();
        let begin_other = begin.clone();
        let waits = runtime.spawn(async move {
            let held = lock.lock().unwrap();
            begin.send(()).unwrap();
            wait_as_a_foreign_executor(sleep(100 * MS));
            drop(held);
        });
        // Of two workers it is the one that stays.
        drop(runtime.spawn(async move {
            begin_other.send(()).unwrap();
            let here = Handle::current();
            until(|| here.is_shut_down());
        }));
        (0..2).for_each(|_| begun.recv().unwrap());
        drop(runtime.spawn(async move {
            pending::<()>().await;
            drop(queued);
        }));
        drop(runtime);
        self::runtime(1).block_on(waits).unwrap();
    }
}

/// Blocking work waits for a sleep that a task has begun, and the destructor of a task for that work: the last worker runs it.
#[test]
fn a_destructor_that_waits_for_blocking_work_does_not_stop_its_sleep() {
    let _dog = watchdog(60);
    for workers in [1, 2] {
        let (runtime, lock) = (runtime(workers), Arc::<std::sync::Mutex<()>>::default());
        spawn_owner(&runtime, Locks(lock.clone()));
        let (begin, begun) = mpsc::channel();
        drop(runtime.spawn(async move {
            let mut carried = Box::pin(sleep(100 * MS));
            std::future::poll_fn(|cx| std::task::Poll::Ready(carried.as_mut().poll(cx).is_pending())).await;
            let here = Handle::current();
            drop(spawn_blocking(move || {
                let held = lock.lock().unwrap();
                begin.send(()).unwrap();
                here.block_on(carried);
                drop(held);
            }));
        }));
        begun.recv().unwrap();
        drop(runtime);
    }
}

/// The poll waits for blocking work, and that for a socket.
#[test]
#[cfg(all(feature = "net", unix))]
#[cfg_attr(miri, ignore = "sockets")]
fn a_poll_that_waits_for_a_socket_ends() {
    use tasuki_rt::net::UnixStream;
    let _dog = watchdog(60);
    for workers in [2, 4] {
        let (runtime, (begin, begun)) = (runtime(workers), mpsc::channel());
        let waits = runtime.spawn(async move {
            let (mut one, _other) = UnixStream::pair().unwrap();
            let (here, (tell, told)) = (Handle::current(), mpsc::channel());
            drop(spawn_blocking(move || {
                begin.send(()).unwrap();
                tell.send(here.block_on(one.read(&mut [0])).is_err()).unwrap();
            }));
            told.recv().unwrap()
        });
        runtime.start().unwrap();
        begun.recv().unwrap();
        drop(runtime);
        assert!(self::runtime(1).block_on(waits).unwrap());
    }
}

/// The poll waits for what blocking work owns that has not begun: the only thread for it waits for the poll.
#[test]
fn a_poll_that_waits_for_queued_work_ends() {
    let _dog = watchdog(60);
    for workers in [2, 4] {
        let runtime = Runtime::builder().workers(workers).max_blocking_threads(1).build().unwrap();
        let ((begin, begun), (owned, ends)) = (mpsc::channel(), mpsc::channel::<()>());
        let waits = runtime.spawn(async move {
            let (tell, told) = mpsc::channel::<()>();
            drop(spawn_blocking(move || told.recv().is_err()));
            drop(spawn_blocking(move || drop(owned)));
            begin.send(()).unwrap();
            let has_ended = ends.recv().is_err();
            drop(tell);
            has_ended
        });
        runtime.start().unwrap();
        begun.recv().unwrap();
        drop(runtime);
        assert!(self::runtime(1).block_on(waits).unwrap());
    }
}
