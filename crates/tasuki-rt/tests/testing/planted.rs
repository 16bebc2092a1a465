//! A corpus of planted bugs: each must be found within a number of seeds, by random schedules and by priorities, and by a search; the
//! same seed must find it again; and a twin without the bug must pass.

use crate::kit::{MS, scaled, watchdog};
use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;
use tasuki::{Condvar, Event, Mutex, RwLock, Semaphore};
use tasuki_rt::testing::{Exhaustive, Simulation};
use tasuki_rt::{JoinSet, sleep, spawn, timeout, yield_now};

pub(super) type Test = Pin<Box<dyn Future<Output = ()>>>;

/// A program, with a bug or without, and what its failure says.
pub(super) struct Planted {
    pub(super) name: &'static str,
    pub(super) says: &'static str,
    /// Within so many seeds it must have been found.
    seeds: u64,
    pub(super) program: fn(bug: bool) -> Test,
}

pub(super) const CORPUS: &[Planted] = &[
    Planted { name: "two locks in opposite order", says: "deadlock", seeds: 200, program: opposite_order },
    Planted { name: "three philosophers", says: "deadlock", seeds: 500, program: philosophers },
    Planted { name: "permits taken one by one", says: "deadlock", seeds: 200, program: permits_one_by_one },
    Planted { name: "a reader and a writer", says: "deadlock", seeds: 200, program: reader_and_writer },
    Planted { name: "a notification before the wait", says: "deadlock", seeds: 200, program: lost_notify },
    Planted {
        name: "a notification between the look and the wait",
        says: "deadlock",
        seeds: 200,
        program: notify_without_the_lock,
    },
    Planted {
        name: "an event reset after the look",
        says: "deadlock",
        seeds: 500,
        program: reset_after_the_look,
    },
    Planted { name: "an update across an await", says: "lost an update", seeds: 200, program: lost_update },
    Planted { name: "check, then act", says: "made twice", seeds: 200, program: check_then_act },
    Planted {
        name: "a value in a dropped future",
        says: "a message is gone",
        seeds: 200,
        program: dropped_message,
    },
    Planted { name: "two locks inside one task", says: "deadlock", seeds: 200, program: inside_one_task },
    Planted { name: "a panic in a detached task", says: "detached", seeds: 200, program: detached_panic },
    Planted { name: "a panic in an awaited task", says: "too early", seeds: 200, program: awaited_panic },
];

fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).into())).unwrap_or_default()
}

fn failure(run: impl FnOnce()) -> Option<String> {
    catch_unwind(AssertUnwindSafe(run)).err().map(|payload| text(&*payload))
}

/// Without the identity of a task that has panicked: it is another one in each run.
fn without_identity(message: &str) -> String {
    match message.split_once("JoinError(task ") {
        Some((before, after)) => before.to_owned() + after.trim_start_matches(char::is_numeric),
        None => message.to_owned(),
    }
}

fn with_seed(planted: &Planted, depth: Option<usize>, bug: bool, seed: u64) -> Option<String> {
    let simulation = Simulation::new(seed).grace(Duration::ZERO);
    let simulation = depth.into_iter().fold(simulation, Simulation::depth);
    failure(|| simulation.run((planted.program)(bug))).map(|message| without_identity(&message))
}

#[test]
#[cfg_attr(miri, ignore = "thousands of runs")]
fn every_planted_bug_is_found_and_repeated() {
    let _dog = watchdog(120);
    for planted in CORPUS {
        for depth in [None, Some(1), Some(3)] {
            let found =
                (0..planted.seeds).find_map(|seed| Some((seed, with_seed(planted, depth, true, seed)?)));
            let (seed, message) = found.unwrap_or_else(|| panic!("{}: not found, {depth:?}", planted.name));
            assert!(message.contains(planted.says), "{}: {message}", planted.name);
            for _ in 0..3 {
                assert_eq!(
                    with_seed(planted, depth, true, seed).as_ref(),
                    Some(&message),
                    "{}",
                    planted.name
                );
            }
        }
    }
}

#[test]
fn programs_without_a_bug_pass() {
    let _dog = watchdog(120);
    for planted in CORPUS {
        for seed in 0..scaled(200, 2) as u64 {
            for depth in [None, Some(2)] {
                let failed = with_seed(planted, depth, false, seed);
                assert_eq!(failed, None, "{}: seed {seed}, depth {depth:?}", planted.name);
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of runs")]
fn a_search_finds_every_planted_bug() {
    let _dog = watchdog(300);
    for planted in CORPUS {
        let found = failure(|| {
            let explored = Exhaustive::new().grace(Duration::ZERO).check(|| (planted.program)(true));
            panic!("nothing in {explored:?}");
        });
        let message = found.expect("it panics");
        assert!(message.contains(planted.says), "{}: {message}", planted.name);
    }
}

/// The search comes to an end, and finds nothing where nothing is.
#[test]
#[cfg_attr(miri, ignore = "thousands of runs")]
fn a_search_of_a_small_program_is_complete() {
    let _dog = watchdog(300);
    for planted in CORPUS {
        let explored = Exhaustive::new().switches(1).schedules(20_000).check(|| (planted.program)(false));
        println!("{}: {explored:?}", planted.name);
        assert!(explored.schedules() > 1, "{}", planted.name);
    }
    let two = |switches| Exhaustive::new().switches(switches).check(|| opposite_order(false));
    let explored = [two(0), two(1), two(2)];
    assert!(explored.iter().all(|explored| explored.is_complete()), "{explored:?}");
    assert!(explored.windows(2).all(|pair| pair[0].schedules() < pair[1].schedules()), "{explored:?}");
}

fn opposite_order(bug: bool) -> Test {
    Box::pin(async move {
        let (a, b) = (Arc::new(Mutex::new(1)), Arc::new(Mutex::new(2)));
        let (c, d) = if bug { (b.clone(), a.clone()) } else { (a.clone(), b.clone()) };
        let both = |one: Arc<Mutex<i32>>, two: Arc<Mutex<i32>>| async move {
            let first = one.lock().await;
            *first + *two.lock().await
        };
        let (t, u) = (spawn(both(a, b)), spawn(both(c, d)));
        assert_eq!(t.await.unwrap() + u.await.unwrap(), 6);
    })
}

fn philosophers(bug: bool) -> Test {
    Box::pin(async move {
        let forks: Vec<_> = (0..3).map(|_| Arc::new(Mutex::new(()))).collect();
        let mut table = JoinSet::new();
        for seat in 0..3 {
            let (mut left, mut right) = (seat, (seat + 1) % 3);
            if !bug && right < left {
                std::mem::swap(&mut left, &mut right);
            }
            let (left, right) = (forks[left].clone(), forks[right].clone());
            table.spawn(async move {
                let _left = left.lock().await;
                let _right = right.lock().await;
            });
        }
        while let Some(eaten) = table.join_next().await {
            eaten.unwrap();
        }
    })
}

fn permits_one_by_one(bug: bool) -> Test {
    Box::pin(async move {
        let permits = Arc::new(Semaphore::new(2));
        let two = |permits: Arc<Semaphore>| async move {
            if bug {
                let _one = permits.acquire().await.unwrap();
                let _two = permits.acquire().await.unwrap();
            } else {
                let _both = permits.acquire_many(2).await.unwrap();
            }
        };
        let (t, u) = (spawn(two(permits.clone())), spawn(two(permits)));
        t.await.unwrap();
        u.await.unwrap();
    })
}

fn reader_and_writer(bug: bool) -> Test {
    Box::pin(async move {
        let shared = Arc::new((RwLock::new(0), Mutex::new(0)));
        let other = shared.clone();
        let reader = spawn(async move {
            let read = shared.0.read().await;
            let seen = *read;
            if !bug {
                drop(read);
                *shared.1.lock().await = seen;
            } else {
                *shared.1.lock().await = seen;
                drop(read);
            }
        });
        let writer = spawn(async move {
            let guard = other.1.lock().await;
            *other.0.write().await = *guard;
        });
        reader.await.unwrap();
        writer.await.unwrap();
    })
}

fn lost_notify(bug: bool) -> Test {
    Box::pin(async move {
        let shared = Arc::new((AtomicBool::new(false), Mutex::new(()), Condvar::new()));
        let other = shared.clone();
        let task = spawn(async move {
            let guard = if bug { None } else { Some(other.1.lock().await) };
            other.0.store(true, SeqCst);
            drop(guard);
            other.2.notify_one();
        });
        let (flag, mutex, condvar) = &*shared;
        if bug {
            if !flag.load(SeqCst) {
                let guard = mutex.lock().await;
                drop(condvar.wait(guard).await);
            }
        } else {
            let mut guard = mutex.lock().await;
            while !flag.load(SeqCst) {
                guard = condvar.wait(guard).await;
            }
        }
        task.await.unwrap();
    })
}

/// The flag is set without the lock: between the look of the other task, which has the lock, and its wait.
fn notify_without_the_lock(bug: bool) -> Test {
    Box::pin(async move {
        let shared = Arc::new((AtomicBool::new(false), Mutex::new(()), Condvar::new()));
        let other = shared.clone();
        let task = spawn(async move {
            let guard = if bug { None } else { Some(other.1.lock().await) };
            other.0.store(true, SeqCst);
            drop(guard);
            other.2.notify_one();
        });
        let (flag, mutex, condvar) = &*shared;
        let mut guard = mutex.lock().await;
        while !flag.load(SeqCst) {
            guard = condvar.wait(guard).await;
        }
        drop(guard);
        task.await.unwrap();
    })
}

fn reset_after_the_look(bug: bool) -> Test {
    Box::pin(async move {
        let changed = Arc::new(Event::manual());
        let queue = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (tell, fill) = (changed.clone(), queue.clone());
        let filler = spawn(async move {
            for n in 0..2 {
                fill.lock().unwrap().push(n);
                tell.set();
                tasuki_rt::checkpoint().await;
            }
        });
        let mut got = 0;
        while got < 2 {
            changed.wait().await;
            if !bug {
                changed.reset();
            }
            got += queue.lock().unwrap().drain(..).count();
            if bug {
                // Something that may switch, as a lock would.
                tasuki_rt::checkpoint().await;
                changed.reset();
            }
        }
        filler.await.unwrap();
    })
}

fn lost_update(bug: bool) -> Test {
    Box::pin(async move {
        let (count, mutex) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(())));
        let mut tasks = JoinSet::new();
        for _ in 0..2 {
            let (count, mutex) = (count.clone(), mutex.clone());
            tasks.spawn(async move {
                let guard = if bug { None } else { Some(mutex.lock().await) };
                let seen = count.load(SeqCst);
                tasuki_rt::checkpoint().await;
                count.store(seen + 1, SeqCst);
                drop(guard);
            });
        }
        while tasks.join_next().await.is_some() {}
        assert_eq!(count.load(SeqCst), 2, "lost an update");
    })
}

fn check_then_act(bug: bool) -> Test {
    Box::pin(async move {
        let cell = Arc::new(Mutex::new(None));
        let made = Arc::new(AtomicU32::new(0));
        let get = |cell: Arc<Mutex<Option<u32>>>, made: Arc<AtomicU32>| async move {
            let mut guard = cell.lock().await;
            if guard.is_some() {
                return;
            }
            if bug {
                drop(guard);
                let new = made.fetch_add(1, SeqCst);
                guard = cell.lock().await;
                *guard = Some(new);
            } else {
                *guard = Some(made.fetch_add(1, SeqCst));
            }
        };
        let (t, u) = (spawn(get(cell.clone(), made.clone())), spawn(get(cell, made.clone())));
        t.await.unwrap();
        u.await.unwrap();
        assert_eq!(made.load(SeqCst), 1, "made twice");
    })
}

fn dropped_message(bug: bool) -> Test {
    Box::pin(async move {
        let queue = Arc::new(std::sync::Mutex::new(vec![1]));
        let out = Arc::new(Mutex::new(Vec::new()));
        let busy = out.clone();
        let holder = spawn(async move {
            let _guard = busy.lock().await;
            sleep(5 * MS).await;
        });
        let moves = async {
            if bug {
                let message = queue.lock().unwrap().pop();
                out.lock().await.extend(message);
            } else {
                let mut out = out.lock().await;
                out.extend(queue.lock().unwrap().pop());
            }
        };
        tasuki_rt::checkpoint().await;
        let _ = timeout(MS, moves).await;
        holder.await.unwrap();
        let moved = out.lock().await.len();
        let left = queue.lock().unwrap().len() + moved;
        assert_eq!(left, 1, "a message is gone");
    })
}

/// Two futures in one task: what one gives up by a switch, the other may take.
fn inside_one_task(bug: bool) -> Test {
    Box::pin(async move {
        let (a, b) = (Mutex::new(()), Mutex::new(()));
        let both = |one: &'static str| {
            let (a, b) = (&a, &b);
            async move {
                let (first, second) = if one == "a" || !bug { (a, b) } else { (b, a) };
                let _first = first.lock().await;
                let _second = second.lock().await;
            }
        };
        join(both("a"), both("b")).await;
    })
}

async fn join(one: impl Future<Output = ()>, two: impl Future<Output = ()>) {
    let (mut one, mut two) = (pin!(one), pin!(two));
    let mut done = [false; 2];
    let mut step = move |cx: &mut Context<'_>| {
        done[0] = done[0] || one.as_mut().poll(cx).is_ready();
        done[1] = done[1] || two.as_mut().poll(cx).is_ready();
        if done == [true; 2] { Poll::Ready(()) } else { Poll::Pending }
    };
    poll_fn(move |cx| step(cx)).await;
}

fn detached_panic(bug: bool) -> Test {
    Box::pin(async move {
        let ready = Arc::new(AtomicBool::new(false));
        let seen = ready.clone();
        drop(spawn(async move {
            tasuki_rt::checkpoint().await;
            assert!(seen.load(SeqCst) || !bug, "a detached task was too early");
        }));
        tasuki_rt::checkpoint().await;
        ready.store(true, SeqCst);
        for _ in 0..5 {
            yield_now().await;
        }
    })
}

fn awaited_panic(bug: bool) -> Test {
    Box::pin(async move {
        let ready = Arc::new(AtomicBool::new(false));
        let seen = ready.clone();
        let task = spawn(async move {
            tasuki_rt::checkpoint().await;
            assert!(seen.load(SeqCst) || !bug, "an awaited task was too early");
        });
        tasuki_rt::checkpoint().await;
        ready.store(true, SeqCst);
        task.await.unwrap();
    })
}
