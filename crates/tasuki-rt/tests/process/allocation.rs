//! Waiting, waking, yielding and cancelling allocate nothing, the first wait of a task included. Creating a task, a posted closure or a member of a set may allocate.
//!
//! The workers are held by a closure while everything is created. Then what they allocate is counted from the first poll to the end of the last task, and so is what the foreign threads allocate that
//! wake. `cargo xtask ci` runs this without debug assertions too: with them `inspect/` keeps records of locks, holders and waits.

use super::held_workers::{CROWD, HeldRuntime, Work, assert_none, crowd, never_allocates};
use crate::kit::alloc::observe;
use crate::kit::{MS, scaled, watchdog};
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread;
use tasuki::{
    Barrier, CancellationSource, Condvar, Event, Latch, Mutex, OnceCell, ReentrantMutex, RwLock,
    RwLockUpgradableReadGuard, Semaphore, WaitGroup,
};
use tasuki_rt::{JoinSet, LoopMutex, WorkerId, interval, sleep, timeout, yield_now};

/// How often each does it.
const ROUNDS: usize = scaled(20, 2);

/// A waker of a combinator: it wakes the task that polls it.
#[derive(Default)]
struct Combinator(std::sync::Mutex<Option<Waker>>);

impl Wake for Combinator {
    fn wake(self: Arc<Self>) {
        let task = self.0.lock().expect("nothing panics here").take();
        task.into_iter().for_each(Waker::wake);
    }
}

#[test]
fn handles_polled_by_a_combinator() {
    let _dog = watchdog(120);
    never_allocates("handles", |runtime| {
        let work = |_| {
            let mut handle = runtime.spawn(async {
                for _ in 0..ROUNDS {
                    yield_now().await;
                }
            });
            let combinator = Arc::new(Combinator::default());
            let waker = Waker::from(combinator.clone());
            let wait = poll_fn(move |cx| {
                *combinator.0.lock().expect("nothing panics here") = Some(cx.waker().clone());
                Pin::new(&mut handle).poll(&mut Context::from_waker(&waker))
            });
            Box::pin(async move { wait.await.expect("no panic") }) as Work
        };
        (0..CROWD).map(work).collect()
    });
}

#[test]
fn locks() {
    let _dog = watchdog(120);
    never_allocates("mutex", |_| {
        crowd(Mutex::new(0), |mutex, n| async move {
            for _ in 0..ROUNDS {
                *mutex.lock().await += 1;
                let guard = mutex.lock().await;
                yield_now().await;
                drop(guard);
                // Some of these waits are cut short.
                drop(mutex.lock().timeout(MS * (n as u32 % 2)).await);
            }
        })
    });
    never_allocates("reentrant mutex", |_| {
        crowd(ReentrantMutex::new(()), |mutex, _| async move {
            for _ in 0..ROUNDS {
                let _outer = mutex.lock().await.expect("a task has an identity");
                yield_now().await;
                drop(mutex.lock().await);
            }
        })
    });
    never_allocates("rwlock", |_| {
        crowd(RwLock::new(0), |lock, n| async move {
            for round in 0..ROUNDS {
                match (n + round) % 4 {
                    0 => *lock.write().await += 1,
                    1 => {
                        let read = lock.upgradable_read().await;
                        yield_now().await;
                        *RwLockUpgradableReadGuard::upgrade(read).await += 1;
                    }
                    _ => {
                        let _read = lock.read().await;
                        yield_now().await;
                    }
                }
            }
        })
    });
    never_allocates("semaphore", |_| {
        crowd(Semaphore::new(4), |semaphore, n| async move {
            for _ in 0..ROUNDS {
                let _permits = semaphore.acquire_many(1 + n % 4).await.expect("open");
                yield_now().await;
            }
        })
    });
}

#[test]
fn events() {
    let _dog = watchdog(120);
    never_allocates("event", |_| {
        crowd((Event::auto(), Event::manual()), |events, n| async move {
            if n > 0 {
                events.0.wait().await;
                return events.1.wait().await;
            }
            for _ in 1..CROWD {
                events.0.set();
                // An event that is set is set once.
                while events.0.is_set() {
                    yield_now().await;
                }
            }
            events.1.set();
        })
    });
    never_allocates("condvar", |_| {
        crowd((Mutex::new(0), Condvar::new()), |shared, n| async move {
            let (mutex, condvar) = &*shared;
            if n > 0 {
                let mut turn = condvar.wait_while(mutex.lock().await, |turn| *turn != n).await;
                *turn += 1;
                return condvar.notify_all();
            }
            *mutex.lock().await = 1;
            condvar.notify_all();
        })
    });
    never_allocates("latch, wait group and barrier", |_| {
        let group = WaitGroup::new();
        group.add(CROWD);
        crowd((Latch::new(CROWD), group, Barrier::new(CROWD)), |shared, _| async move {
            let (latch, group, barrier) = &*shared;
            latch.count_down();
            latch.wait().await;
            group.done();
            group.wait().await;
            for _ in 0..ROUNDS {
                barrier.arrive_and_wait().await;
                yield_now().await;
            }
        })
    });
    never_allocates("cell", |_| {
        crowd(OnceCell::new(), |cell, n| async move {
            let init = || async move {
                yield_now().await;
                if n % 2 == 0 { Ok(n) } else { Err(()) }
            };
            let _ = cell.get_or_try_init(init).await;
            cell.wait().await;
        })
    });
    never_allocates("cancellation", |_| {
        let source = CancellationSource::new();
        let token = source.token();
        crowd((source, token, Mutex::new(())), |shared, n| async move {
            let (source, token, mutex) = &*shared;
            match n % 3 {
                _ if n == 0 => {
                    let _held = mutex.lock().await;
                    (0..3).for_each(|_| source.request_cancel());
                    token.on_cancel().await;
                }
                0 => token.on_cancel().await,
                1 => drop(mutex.lock().or_cancelled(token).await),
                _ => drop(token.run_until_cancelled(pending::<()>()).await),
            }
        })
    });
}

#[test]
fn time() {
    let _dog = watchdog(120);
    never_allocates("sleeps, timeouts and intervals", |_| {
        let held = Arc::new(Semaphore::new(0));
        crowd(held, |held, n| async move {
            sleep(MS * (n as u32 % 4)).await;
            assert!(timeout(MS, pending::<()>()).await.is_err());
            assert!(held.acquire().timeout(MS).await.is_err());
            let mut ticks = interval(MS);
            ticks.tick().await;
            ticks.tick().await;
        })
    });
}

#[test]
fn loop_mutexes() {
    let _dog = watchdog(120);
    for workers in [1, 2] {
        let lab = HeldRuntime::new(workers);
        let asked = lab.allocations(|runtime| {
            let mutex = Arc::new(LoopMutex::new(0));
            let spawn = |n: usize| {
                let mutex = mutex.clone();
                let work = move || async move {
                    for _ in 0..ROUNDS {
                        let mut guard = mutex.lock().await.expect("on a loop");
                        yield_now().await;
                        *guard += 1;
                    }
                };
                runtime.spawn_on(WorkerId::new(n % workers), work)
            };
            (0..CROWD).map(spawn).collect()
        });
        assert_none(asked, &format!("{workers} workers"));
    }
}

#[test]
fn tasks() {
    let _dog = watchdog(120);
    never_allocates("handles", |runtime| {
        let end = |n: usize| async move {
            (0..n % 3).for_each(|_| ());
            yield_now().await;
        };
        let join = |n: usize| {
            let (ends, waits) = (runtime.spawn(end(n)), runtime.spawn(pending::<()>()));
            Box::pin(async move {
                ends.await.expect("no panic");
                waits.abort();
                assert!(waits.await.expect_err("aborted").is_aborted());
            }) as Work
        };
        (0..CROWD).map(join).collect()
    });
    never_allocates("sets", |runtime| {
        let join = |n: usize| {
            let mut set = JoinSet::new();
            for _ in 0..4 {
                set.insert(runtime.spawn(async move {
                    for _ in 0..n % 3 {
                        yield_now().await;
                    }
                }));
            }
            set.insert(runtime.spawn(pending()));
            Box::pin(async move {
                for _ in 0..4 {
                    set.join_next().await.expect("five members").expect("no panic");
                }
                set.abort_all();
                let last = set.join_next().await.expect("one is left");
                assert!(last.expect_err("aborted").is_aborted() && set.join_next().await.is_none());
            }) as Work
        };
        (0..CROWD).map(join).collect()
    });
    // More than a local queue holds: the rest goes to the global one, and comes back.
    const YIELDING: usize = scaled(3_000, 8);
    never_allocates("yields", |_| {
        let yields = |_| {
            Box::pin(async {
                for _ in 0..3 {
                    yield_now().await;
                }
            }) as Work
        };
        (0..YIELDING).map(yields).collect()
    });
    // All woken at once.
    never_allocates("overflow", |_| {
        let shared = Arc::new((Event::manual(), AtomicUsize::new(0)));
        let waits = |_| {
            let shared = shared.clone();
            Box::pin(async move {
                if shared.1.fetch_add(1, Ordering::SeqCst) + 1 == YIELDING {
                    shared.0.set();
                }
                shared.0.wait().await;
            }) as Work
        };
        (0..YIELDING).map(waits).collect()
    });
}

/// The wakes come from threads that are no workers.
#[test]
fn foreign_threads() {
    let _dog = watchdog(120);
    never_allocates("foreign wakes", |_| {
        let shared = Arc::new((Event::manual(), Semaphore::new(0), AtomicUsize::new(0)));
        let wakes = shared.clone();
        thread::spawn(move || {
            observe(true);
            while wakes.2.load(Ordering::SeqCst) < CROWD {
                thread::yield_now();
            }
            wakes.0.set();
            (0..CROWD).for_each(|_| wakes.1.release(1));
            observe(false);
        });
        let waits = |_| {
            let shared = shared.clone();
            Box::pin(async move {
                shared.2.fetch_add(1, Ordering::SeqCst);
                shared.0.wait().await;
                shared.1.acquire().await.expect("open").forget();
            }) as Work
        };
        (0..CROWD).map(waits).collect()
    });
}

/// To read, to write, to wait for a socket and to be woken for it; the first wait of a worker is before that.
#[cfg(feature = "net")]
#[test]
fn sockets() {
    use tasuki_rt::net::{TcpListener, TcpStream};

    async fn answer(mut stream: TcpStream) {
        let mut bytes = [0; 64];
        while let count @ 1.. = stream.read(&mut bytes).await.unwrap() {
            stream.write_all(&bytes[..count]).await.unwrap();
        }
    }

    async fn ask(mut stream: TcpStream) {
        let mut bytes = [0; 16];
        for _ in 0..ROUNDS {
            stream.write_all(b"sixteen bytes...").await.unwrap();
            stream.readable().await.unwrap();
            stream.peek(&mut bytes).await.unwrap();
            stream.read_exact(&mut bytes).await.unwrap();
        }
    }

    let _dog = watchdog(120);
    let lab = HeldRuntime::new(1);
    let pair = async || {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    };
    let (client, server) = lab.runtime.block_on(pair());
    let tasks = [lab.runtime.spawn(ask(client)), lab.runtime.spawn(answer(server))];
    tasks.into_iter().for_each(|task| lab.runtime.block_on(task).unwrap());
    let pairs: Vec<_> = (0..CROWD / 4).map(|_| lab.runtime.block_on(pair())).collect();
    let asked = lab.allocations(|runtime| {
        let spawn = |(client, server)| [runtime.spawn(ask(client)), runtime.spawn(answer(server))];
        pairs.into_iter().flat_map(spawn).collect()
    });
    assert_eq!(asked, 0);
}
