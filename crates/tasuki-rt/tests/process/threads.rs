//! What the builder says about threads: hooks, names, stacks, how long they stay, where they run.

use crate::kit::process::alone;
use crate::kit::{MS, until, watchdog};
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock, Weak, mpsc};
use std::thread;
use std::time::Duration;
use tasuki_rt::{Runtime, ShutdownError, spawn_blocking};

#[derive(Clone, Default)]
struct Counts(Arc<[AtomicUsize; 4]>);

impl Counts {
    fn add(&self, at: usize) -> impl Fn() + Send + Sync + 'static {
        let counts = self.clone();
        move || _ = counts.0[at].fetch_add(1, Ordering::SeqCst)
    }

    fn get(&self, at: usize) -> usize {
        self.0[at].load(Ordering::SeqCst)
    }
}

/// One start and one stop for each thread; a park for each unpark, all of them before the stops.
#[test]
fn hooks_are_called_on_every_thread() {
    let _dog = watchdog(60);
    let counts = Counts::default();
    let runtime = Runtime::builder()
        .workers(2)
        .on_thread_start(counts.add(0))
        .on_thread_stop(counts.add(1))
        .on_thread_park(counts.add(2))
        .on_thread_unpark(counts.add(3))
        .build()
        .unwrap();
    assert_eq!(counts.get(0), 0);
    runtime.block_on(async {
        tasuki_rt::sleep(2 * MS).await;
        tasuki_rt::spawn(tasuki_rt::sleep(2 * MS)).await.unwrap();
    });
    until(|| counts.get(2) >= 2);
    assert_eq!(counts.get(1), 0);
    runtime.block_on(async { spawn_blocking(|| ()).await.unwrap() });
    until(|| counts.get(0) == 3);
    drop(runtime);
    assert_eq!((counts.get(0), counts.get(1)), (3, 3), "the hooks of all threads were waited for");
    assert!(counts.get(2) >= 2 && counts.get(2) == counts.get(3), "{} {}", counts.get(2), counts.get(3));
}

/// The end of a runtime waits for the hooks of its threads for as long as it waits for anything: it waited without a limit for those of workers, and not at all for the others.
#[test]
fn a_shutdown_waits_for_hooks_no_longer_than_it_may() {
    for blocking in [false, true] {
        let _dog = watchdog(60);
        let (go_on, held) = mpsc::channel::<()>();
        let held = Mutex::new(held);
        let (counts, results) = (Counts::default(), Arc::new(Mutex::new(Vec::new())));
        let stopped = counts.add(0);
        let (own, told) = (Arc::new(OnceLock::<Arc<Runtime>>::new()), results.clone());
        let ours = own.clone();
        let runtime = Runtime::builder().workers(1).on_thread_stop(move || {
            // Inside of a hook that is waited for: an error, and no deadlock.
            let inside = ours.get().map(|runtime| runtime.shutdown_timeout(MS));
            told.lock().unwrap().push(inside);
            let _ = held.lock().unwrap().recv();
            stopped();
        });
        let runtime = Arc::new(runtime.build().unwrap());
        own.set(runtime.clone()).unwrap();
        if blocking {
            runtime.block_on(runtime.spawn_blocking(|| ())).unwrap();
        } else {
            runtime.start().unwrap();
        }
        assert_eq!(runtime.shutdown_timeout(20 * MS), Err(ShutdownError::TimedOut));
        assert_eq!(counts.get(0), 0);
        drop(go_on);
        assert_eq!(runtime.shutdown_timeout(Duration::MAX), Ok(()));
        assert_eq!(counts.get(0), 1 + usize::from(blocking));
        assert!(results.lock().unwrap().iter().all(|result| *result == Some(Err(ShutdownError::InsideTask))));
    }
}

/// The destructors of thread-local variables are waited for, also those of threads for blocking work: of one that is idle, and of two that have ended by themselves. Those were not waited for.
#[test]
fn destructors_of_thread_local_variables_are_waited_for() {
    struct Late(Arc<AtomicUsize>);
    impl Drop for Late {
        fn drop(&mut self) {
            thread::sleep(50 * MS);
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    thread_local!(static LATE: RefCell<Option<Late>> = const { RefCell::new(None) });

    alone(|| {
        let _dog = watchdog(60);
        for keep_alive in [Duration::ZERO, Duration::from_secs(3600)] {
            for local in [false, true] {
                let (dropped, counts) = (Arc::new(AtomicUsize::new(0)), Counts::default());
                let builder = Runtime::builder().thread_keep_alive(keep_alive).on_thread_stop(counts.add(0));
                let keeps = || {
                    let late = Late(dropped.clone());
                    move || LATE.set(Some(late))
                };
                let ends = |n| until(|| !keep_alive.is_zero() || counts.get(0) == n);
                if local {
                    let runtime = builder.build_local().unwrap();
                    for n in 1..=2 {
                        runtime.block_on(runtime.spawn_blocking(keeps())).unwrap();
                        ends(n);
                    }
                } else {
                    let runtime = builder.workers(1).build().unwrap();
                    for n in 1..=2 {
                        runtime.block_on(runtime.spawn_blocking(keeps())).unwrap();
                        ends(n);
                    }
                    let keeps = keeps();
                    runtime.block_on(runtime.spawn(async { keeps() })).unwrap();
                    runtime.shutdown_timeout(Duration::from_secs(60)).unwrap();
                }
                // An idle thread has replaced its first by its second.
                assert_eq!(dropped.load(Ordering::SeqCst), 2 + usize::from(!local));
            }
        }
    });
}

/// Wherever a thread of the runtime is, it cannot wait for its own end: shutting down is an error there, also in the hook of its start and in the destructor of a thread-local variable.
#[test]
fn no_thread_waits_for_its_own_end() {
    /// The last handle of a runtime, in a thread-local variable of one of its threads.
    struct Last(Arc<Runtime>, mpsc::Sender<Result<(), ShutdownError>>);
    impl Drop for Last {
        fn drop(&mut self) {
            let _ = self.1.send(self.0.shutdown_timeout(MS));
        }
    }
    thread_local!(static LAST: RefCell<Option<Last>> = const { RefCell::new(None) });

    alone(|| {
        for blocking in [false, true] {
            let _dog = watchdog(60);
            let (tell, told) = mpsc::channel();
            let own = Arc::new(OnceLock::<Weak<Runtime>>::new());
            let (ours, telling) = (own.clone(), Mutex::new(tell.clone()));
            let hook = move || {
                if let Some(runtime) = ours.get().and_then(Weak::upgrade) {
                    telling.lock().unwrap().send(runtime.drain(MS)).unwrap();
                    telling.lock().unwrap().send(runtime.shutdown_timeout(MS)).unwrap();
                }
            };
            let runtime = Arc::new(Runtime::builder().workers(1).on_thread_start(hook).build().unwrap());
            own.set(Arc::downgrade(&runtime)).unwrap();
            let last = Last(runtime.clone(), tell);
            let ((begins, begun), (go_on, held)) = (mpsc::channel(), mpsc::channel::<()>());
            let keeps = move || {
                LAST.set(Some(last));
                begins.send(()).unwrap();
                let _ = held.recv();
            };
            let work =
                if blocking { runtime.spawn_blocking(keeps) } else { runtime.spawn(async { keeps() }) };
            if !blocking {
                runtime.start().unwrap();
            }
            for _ in 0..2 {
                assert_eq!(told.recv().unwrap(), Err(ShutdownError::InsideTask), "in the hook of its start");
            }
            begun.recv().unwrap();
            assert_eq!(runtime.shutdown_timeout(MS), Err(ShutdownError::TimedOut));
            drop((runtime, work, go_on));
            // The thread ends, and drops the last handle. The channel ends with the hook, and that with the runtime.
            let rest: Vec<_> = told.iter().collect();
            assert!(
                !rest.is_empty() && rest.iter().all(|told| *told == Err(ShutdownError::InsideTask)),
                "{rest:?}"
            );
        }
    });
}

/// A hook that panics, or that uses the runtime, stops nothing.
#[test]
fn hostile_hooks() {
    alone(|| {
        let _dog = watchdog(60);
        let bomb = || panic!("a hook");
        let builder = Runtime::builder().workers(1).on_thread_start(bomb).on_thread_stop(bomb);
        let runtime = builder.on_thread_park(bomb).on_thread_unpark(bomb).build().unwrap();
        for _ in 0..10 {
            runtime.block_on(async { tasuki_rt::spawn(tasuki_rt::sleep(MS)).await.unwrap() });
        }
        assert_eq!(runtime.block_on(runtime.spawn_blocking(|| 1)).unwrap(), 1);
        drop(runtime);

        // What a hook spawns before a sleep runs.
        let (spawned, ran) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (begin, end) = (spawned.clone(), ran.clone());
        let hook = move || {
            if begin.fetch_add(1, Ordering::SeqCst) < 100 {
                let end = end.clone();
                drop(tasuki_rt::spawn(async move { _ = end.fetch_add(1, Ordering::SeqCst) }));
            }
        };
        let runtime = Runtime::builder().workers(2).on_thread_park(hook).build().unwrap();
        runtime.start().unwrap();
        until(|| ran.load(Ordering::SeqCst) == 100);
    });
}

#[test]
fn names_and_stacks() {
    let _dog = watchdog(60);
    let runtime =
        Runtime::builder().workers(2).thread_name("crew").thread_stack_size(16 << 20).build().unwrap();
    runtime.start().unwrap();
    fn deep(n: usize) -> usize {
        let block = std::hint::black_box([n; 1024]);
        if n == 0 { 0 } else { deep(n - 1) + usize::from(block[n % 1024] == n) }
    }
    let name = || thread::current().name().map(str::to_owned).unwrap();
    // At least 2.4 MB of frames, more than the 2 MiB of a thread by default.
    for task in [
        runtime.spawn(async move { (deep(300), name()) }),
        runtime.spawn_blocking(move || (deep(300), name())),
    ] {
        let (depth, name) = runtime.block_on(task).unwrap();
        assert!(depth == 300 && (name.starts_with("crew-") || name == "crew-block"), "{name}");
    }
}

/// A thread for blocking work that is not to be kept ends by itself, and another is started when it is needed.
#[test]
fn threads_for_blocking_work_end() {
    let _dog = watchdog(60);
    let counts = Counts::default();
    let runtime = Runtime::builder()
        .workers(1)
        .thread_keep_alive(Duration::ZERO)
        .on_thread_stop(counts.add(1))
        .build()
        .unwrap();
    for n in 1..=3 {
        // No worker was started: those that stop are for blocking work.
        let work = runtime.spawn_blocking(move || n);
        until(|| counts.get(1) == n && work.is_finished());
    }
}

#[cfg(target_os = "linux")]
#[test]
#[cfg_attr(miri, ignore = "asks the system for its processors")]
fn workers_are_pinned() {
    let _dog = watchdog(60);
    fn processors() -> Vec<usize> {
        // SAFETY: all zeros is a set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set is as large as it is said to be.
        assert_eq!(unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) }, 0);
        // SAFETY: the numbers are in the set.
        (0..libc::CPU_SETSIZE as usize).filter(|at| unsafe { libc::CPU_ISSET(*at, &set) }).collect()
    }
    let all = processors();
    let (first, last) = (all[0], *all.last().unwrap());
    let runtime = Runtime::builder().workers(3).pin_workers([first, last]).build().unwrap();
    runtime.start().unwrap();
    let mut tasks = Vec::new();
    runtime.for_each_worker(|id| tasks.push(runtime.spawn_on(id, || async { processors() })));
    let seen: Vec<_> = runtime.block_on(async {
        let mut seen = Vec::new();
        for task in tasks {
            seen.push(task.await.unwrap());
        }
        seen
    });
    assert_eq!(seen, [[first], [last], [first]]);
    // Not the thread that built it, nor those for blocking work.
    assert_eq!(processors(), all);
    assert_eq!(runtime.block_on(runtime.spawn_blocking(processors)).unwrap(), all);
    // Also if a worker starts them, whose processors a thread inherits.
    let mut tasks = Vec::new();
    runtime.for_each_worker(|id| {
        tasks.push(runtime.spawn_on(id, || async {
            let busy = Arc::new(Barrier::new(4));
            let work = (0..4).map(|_| busy.clone()).map(|busy| {
                spawn_blocking(move || {
                    busy.wait();
                    processors()
                })
            });
            work.collect::<Vec<_>>()
        }));
    });
    for task in tasks {
        for work in runtime.block_on(task).unwrap() {
            assert_eq!(runtime.block_on(work).unwrap(), all);
        }
    }
    for none in [8_191, usize::MAX] {
        let error = Runtime::builder().workers(1).pin_workers([first, none]).build().unwrap_err();
        assert!(
            error.kind() == std::io::ErrorKind::InvalidInput && error.to_string().contains("may not use")
        );
    }
}
