//! A program that deadlocks reports it itself, once: to the hook and on standard error.

#![cfg(any(debug_assertions, feature = "inspect"))]

use crate::kit::process::{alone, alone_with};
use crate::kit::watchdog::watchdog;
#[cfg(feature = "critical-section")]
use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex as StdMutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use tasuki::inspect::{self, Certainty};
use tasuki::{Condvar, Mutex, RwLock, Semaphore, task};

static TOLD: StdMutex<Option<mpsc::Sender<(Certainty, String)>>> = StdMutex::new(None);

/// What the hook is told from now on.
fn reports() -> mpsc::Receiver<(Certainty, String)> {
    let (send, receive) = mpsc::channel();
    *TOLD.lock().unwrap() = Some(send);
    inspect::on_deadlock(|deadlock| {
        TOLD.lock().unwrap().as_ref().unwrap().send((deadlock.certainty, deadlock.to_string())).unwrap();
    });
    receive
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
#[cfg_attr(miri, ignore = "there is no thread that looks")]
fn a_deadlock_is_told_by_itself() {
    alone(|| {
        let _dog = watchdog(60);
        let reports = reports();
        let (a, b) = (Mutex::new(0).named("a"), Mutex::new(0).named("b"));
        let mut first = pin!(task::identify(async {
            let _a = a.lock().await;
            std::future::poll_fn(once_pending()).await;
            drop(b.lock().await);
        }));
        let mut second = pin!(task::identify(async {
            let _b = b.lock().await;
            drop(a.lock().await);
        }));
        assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
        assert!(poll(first.as_mut()).is_pending());
        let (certainty, text) = reports.recv().unwrap();
        assert_eq!(certainty, Certainty::Deadlock);
        assert!(
            text.contains("the mutex `a`, which task") && text.contains("the mutex `b`, which task"),
            "{text}"
        );
        // Another one: told after it, and the first not again.
        let c = Mutex::new(0).named("c");
        let mut third = pin!(task::identify(async {
            let _c = c.lock().await;
            drop(c.lock().await);
        }));
        assert!(poll(third.as_mut()).is_pending());
        let (_, text) = reports.recv().unwrap();
        assert!(
            text.contains("a task waits for itself") && text.contains("`c`, which this task took"),
            "{text}"
        );
    });
}

/// The records of waits are used up, and the wait by which a task may go on is not noted: its cycle is only suspected.
#[test]
#[cfg(feature = "critical-section")]
fn a_cycle_beside_a_wait_without_a_record() {
    alone(|| {
        let (mutex, event, waits_for_both) = (Mutex::new(0), tasuki::Event::manual(), Cell::new(false));
        let mut stuck = pin!(task::identify(async {
            let _held = mutex.lock().await;
            let (mut lock, mut signal) = (pin!(mutex.lock()), pin!(event.wait()));
            std::future::poll_fn(|cx| {
                assert!(lock.as_mut().poll(cx).is_pending());
                if waits_for_both.get() {
                    assert!(signal.as_mut().poll(cx).is_pending());
                }
                Poll::<()>::Pending
            })
            .await;
        }));
        let mut certainty = || {
            assert!(poll(stuck.as_mut()).is_pending());
            inspect::deadlocks().pop().map(|deadlock| deadlock.certainty)
        };
        assert_eq!(certainty(), Some(Certainty::Deadlock));
        let mut crowd: Vec<_> = (0..6_000).map(|_| Box::pin(task::identify(event.wait()))).collect();
        assert!(crowd.iter_mut().all(|wait| poll(wait.as_mut()).is_pending()));
        waits_for_both.set(true);
        assert_eq!(certainty(), Some(Certainty::Suspected));
    });
}

/// Without a hook for self-deadlocks, and without strict mode: a task that waits for itself is printed, and once.
#[test]
#[cfg_attr(miri, ignore = "there is no thread that looks")]
fn a_task_that_waits_for_itself_is_printed() {
    let printed = alone_with(&[], || {
        let _dog = watchdog(60);
        let reports = reports();
        // One after the other: what is told of the second comes after the first was printed.
        let locks = ["first", "second"].map(|name| Mutex::new(0).named(name));
        let mut tasks = locks.each_ref().map(|lock| {
            Box::pin(task::identify(async {
                let _guard = lock.lock().await;
                drop(lock.lock().await);
            }))
        });
        for task in &mut tasks {
            assert!(poll(task.as_mut()).is_pending());
            reports.recv().unwrap();
        }
    });
    if let Some(printed) = printed {
        assert!(printed.contains("tasuki: deadlock: a task waits for itself"), "{printed}");
        assert_eq!(printed.matches("the mutex `first`, which this task took").count(), 1, "{printed}");
    }
}

/// Threads and tasks that no runtime tells of are known by their wakers: what is told of them is suspected, and no ground for a panic of strict mode, nor for the hook of self-deadlocks.
#[test]
#[cfg_attr(miri, ignore = "there is no thread that looks")]
fn a_deadlock_of_threads_is_suspected() {
    let printed = alone_with(&[], || {
        let _dog = watchdog(60);
        task::strict(true);
        task::on_self_deadlock(|found| panic!("{found}"));
        let reports = reports();
        let locks: &'static [Mutex<u32>; 2] =
            Box::leak(Box::new(["a", "b"].map(|name| Mutex::new(0).named(name))));
        let both_have_one: &'static Barrier = Box::leak(Box::new(Barrier::new(2)));
        for order in [[0, 1], [1, 0]] {
            std::thread::spawn(move || {
                let [first, second] = order.map(|at: usize| &locks[at]);
                let mut held = first.lock().block();
                both_have_one.wait();
                *held += 1;
                drop(second.lock().block());
            });
        }
        let (certainty, text) = reports.recv().unwrap();
        assert_eq!(certainty, Certainty::Suspected);
        assert!(text.contains("the mutex `a`, which") && text.contains("the mutex `b`, which"), "{text}");
        // A thread that waits for itself.
        std::thread::spawn(|| {
            let twice = Mutex::new(0).named("twice");
            let _held = twice.lock().block();
            drop(twice.lock().block());
        });
        let (certainty, text) = reports.recv().unwrap();
        assert_eq!(certainty, Certainty::Suspected);
        assert!(text.contains("`twice`, which this task took"), "{text}");
    });
    if let Some(printed) = printed {
        // The second is told to the hook before it is printed: the process may have ended by then.
        let first = "tasuki: suspected deadlock: 2 tasks wait for each other";
        assert_eq!(printed.matches(first).count(), 1, "{printed}");
    }
}

/// Threads that take locks of every kind in one order cannot deadlock: strict mode panics in none of them, and no look finds a cycle, though it reads while locks go from thread to thread. (Reports of what it found would come from this test alone.)
#[test]
fn what_cannot_deadlock_is_not_reported() {
    alone(|| {
        let _dog = watchdog(120);
        task::strict(true);
        let locks = (Mutex::new(0), RwLock::new(0), Semaphore::new(1), RwLock::new(0), Mutex::new(0));
        let (rounds, done) = (stress_rounds(), AtomicUsize::new(0));
        let hand_over_hand = async |random: &mut u64| {
            let first = locks.0.lock().await;
            pause(random);
            let second = locks.1.write().await;
            drop(first);
            pause(random);
            let permit = locks.2.acquire().await.unwrap();
            drop(second);
            let read = locks.3.read().await;
            drop(permit);
            let last = locks.4.lock().await;
            pause(random);
            drop((read, last));
        };
        std::thread::scope(|scope| {
            for thread in 1..=4 {
                let (done, hand_over_hand) = (&done, &hand_over_hand);
                scope.spawn(move || {
                    let mut random = thread;
                    block_on(task::identify(async {
                        for _ in 0..rounds {
                            hand_over_hand(&mut random).await;
                        }
                    }));
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
            while done.load(Ordering::SeqCst) < 4 {
                assert!(inspect::deadlocks().is_empty(), "{:?}", inspect::deadlocks());
            }
        });
    });
}

/// How often each thread takes all locks; `TASUKI_STRESS_ROUNDS` says so, if it is more.
fn stress_rounds() -> u64 {
    let least = if cfg!(miri) { 5 } else { 2_000 };
    std::env::var("TASUKI_STRESS_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .map_or(least, |more: u64| more.max(least))
}

fn pause(random: &mut u64) {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (0..*random >> 58).for_each(|_| std::hint::spin_loop());
    if *random >> 50 & 15 == 0 {
        std::thread::yield_now();
    }
}

/// Polls on this thread. (`block` is not for a future of several waits.)
fn block_on<F: Future>(future: F) {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    while future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        std::thread::park();
    }
}

/// No wait for a lock begins: a wait for a notification becomes one, when the condvar moves its waiter to the mutex.
#[test]
#[cfg_attr(miri, ignore = "there is no thread that looks")]
fn a_wait_that_is_moved_to_a_held_mutex_is_told() {
    alone(|| {
        let _dog = watchdog(60);
        let reports = reports();
        let (mutex, condvar) = (Mutex::new(0).named("m"), Condvar::new());
        let mut task = pin!(task::identify(async {
            let mut wait = pin!(condvar.wait(mutex.try_lock().unwrap()));
            assert!(poll(wait.as_mut()).is_pending());
            let _held = mutex.try_lock().unwrap();
            condvar.notify_one();
            drop(wait.await);
        }));
        assert!(poll(task.as_mut()).is_pending());
        let (certainty, text) = reports.recv().unwrap();
        assert_eq!(certainty, Certainty::Deadlock);
        assert!(text.contains("the mutex `m`"), "{text}");
    });
}

/// The thread that looks for deadlocks ends when no task has waited for a lock for a while, and the next wait starts another. (Only where the system can fence all threads: a kernel that refuses it keeps the thread.)
#[test]
#[cfg(target_os = "linux")]
#[cfg_attr(miri, ignore = "there is no thread that looks")]
fn the_watcher_ends_and_starts_again() {
    fn is_there() -> bool {
        let names = std::fs::read_dir("/proc/self/task").unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(entry.ok()?.path().join("comm")).ok()
        };
        names.filter_map(name).any(|name| name.trim() == "tasuki-inspect")
    }
    fn can_fence() -> bool {
        const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
        // SAFETY: a system call without pointers.
        unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0) == 0 }
    }
    alone(|| {
        let _dog = watchdog(120);
        let reports = reports();
        let lock = Mutex::new(0).named("twice");
        for is_first in [true, false] {
            let mut task = Box::pin(task::identify(async {
                let _guard = lock.lock().await;
                drop(lock.lock().await);
            }));
            assert!(poll(task.as_mut()).is_pending());
            assert!(reports.recv().unwrap().1.contains("the mutex `twice`"));
            // The wait and the hold end.
            drop(task);
            while is_first && can_fence() && is_there() {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        }
    });
}

fn once_pending() -> impl FnMut(&mut Context<'_>) -> Poll<()> {
    let mut polled = false;
    move |_| if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }
}
