//! A task that is woken during its own poll: by a grant it is ready as any other, by a yield it goes behind the others.

use crate::kit::{MS, scaled, watchdog};
use futures_util::join;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use tasuki::policy::Revocable;
use tasuki::{Condvar, Event, Latch, Mutex, RwLock, Semaphore, channel};
use tasuki_rt::testing::{Exhaustive, Simulation};
use tasuki_rt::{JoinSet, checkpoint, now, spawn_local, timeout, yield_now};

type Part = Pin<Box<dyn Future<Output = ()>>>;

/// What grants, and two futures of one task, the second of which grants something to the first.
type Grant = (&'static str, fn() -> [Part; 2]);

/// What yields, and a future that does.
type Yield = (&'static str, fn() -> Part);

const GRANTS: &[Grant] = &[
    ("event", || {
        let (event, other) = shared(Event::auto());
        [Box::pin(async move { event.wait().await }), Box::pin(async move { other.set() })]
    }),
    ("mutex", || {
        let (mutex, other) = shared(Mutex::new(()));
        let guard = other.try_lock_owned().unwrap();
        [Box::pin(async move { drop(mutex.lock().await) }), Box::pin(async move { drop(guard) })]
    }),
    ("revocable mutex", || {
        let (mutex, other) = shared(Mutex::<(), Revocable>::with_policy(()));
        let guard = other.try_lock_owned().unwrap();
        [Box::pin(async move { drop(mutex.lock_owned().await) }), Box::pin(async move { drop(guard) })]
    }),
    ("lock for readers and writers", || {
        let (lock, other) = shared(RwLock::new(()));
        let guard = other.try_write_owned().unwrap();
        [Box::pin(async move { drop(lock.read().await) }), Box::pin(async move { drop(guard) })]
    }),
    ("semaphore", || {
        let (permits, other) = shared(Semaphore::new(0));
        [
            Box::pin(async move { drop(permits.acquire().await.unwrap()) }),
            Box::pin(async move { other.release(1) }),
        ]
    }),
    ("condvar", || {
        let (pair, other) = shared((Mutex::new(false), Condvar::new()));
        let wait = async move {
            let mut set = pair.0.lock().await;
            while !*set {
                set = pair.1.wait(set).await;
            }
        };
        let notify = async move {
            *other.0.lock().await = true;
            other.1.notify_one();
        };
        [Box::pin(wait), Box::pin(notify)]
    }),
    ("latch", || {
        let (latch, other) = shared(Latch::new(1));
        [Box::pin(async move { latch.wait().await }), Box::pin(async move { other.count_down() })]
    }),
    ("bounded channel", || {
        let (sender, receiver) = channel::bounded(1);
        [
            Box::pin(async move { receiver.recv().await.unwrap() }),
            Box::pin(async move { sender.try_send(()).unwrap() }),
        ]
    }),
    ("oneshot", || {
        let (sender, receiver) = channel::oneshot();
        [
            Box::pin(async move { receiver.recv().await.unwrap() }),
            Box::pin(async move { sender.send(()).unwrap() }),
        ]
    }),
    ("a foreign channel", || {
        let (sender, receiver) = futures_channel();
        [Box::pin(receiver), Box::pin(async move { sender() })]
    }),
];

fn shared<T>(value: T) -> (std::sync::Arc<T>, std::sync::Arc<T>) {
    let value = std::sync::Arc::new(value);
    (value.clone(), value)
}

/// As channels of other crates have it: the receiver keeps a clone of its waker.
fn futures_channel() -> (impl FnOnce(), impl Future<Output = ()>) {
    let state = Rc::new(RefCell::new((false, None::<std::task::Waker>)));
    let sent = state.clone();
    let send = move || {
        sent.borrow_mut().0 = true;
        let waker = sent.borrow_mut().1.take();
        waker.into_iter().for_each(std::task::Waker::wake);
    };
    let receive = poll_fn(move |cx| {
        let mut state = state.borrow_mut();
        state.1 = Some(cx.waker().clone());
        if state.0 { Poll::Ready(()) } else { Poll::Pending }
    });
    (send, receive)
}

/// The two as branches of one task.
async fn joined([one, two]: [Part; 2]) {
    join!(one, two);
}

/// The two in a set with wakers of its own, the waiting one first.
async fn in_a_set([one, two]: [Part; 2]) {
    let mut parts: FuturesUnordered<Part> = FuturesUnordered::new();
    parts.push(one);
    parts.push(two);
    while parts.next().await.is_some() {}
}

/// In which orders `first` ends and another task runs, and whether those were all.
fn orders<F: Future<Output = ()> + 'static>(
    switches: u32,
    first: impl Fn() -> F,
) -> (BTreeSet<String>, bool) {
    let seen = Rc::new(RefCell::new(BTreeSet::new()));
    let explored = Exhaustive::new().switches(switches).check(|| {
        let (seen, first) = (seen.clone(), first());
        async move {
            let log = Rc::new(RefCell::new(String::new()));
            let (a, b) = (log.clone(), log.clone());
            let one = spawn_local(async move {
                first.await;
                a.borrow_mut().push('A');
            });
            let two = spawn_local(async move { b.borrow_mut().push('B') });
            one.await.unwrap();
            two.await.unwrap();
            seen.borrow_mut().insert(log.borrow().clone());
        }
    });
    (seen.take(), explored.is_complete())
}

fn both() -> (BTreeSet<String>, bool) {
    (["AB", "BA"].map(String::from).into(), true)
}

/// Whatever grants, to whatever future of the task that runs: the other task may run before or after, and neither order costs a switch.
#[test]
fn a_search_has_both_orders_after_every_grant() {
    let _dog = watchdog(120);
    for (name, parts) in GRANTS.iter().take(scaled(GRANTS.len(), 2)) {
        assert_eq!(orders(0, || joined(parts())), both(), "{name}");
        assert_eq!(orders(1, || joined(parts())), both(), "{name}, with a switch");
        assert_eq!(orders(1, || in_a_set(parts())), both(), "{name}, in a set");
    }
    assert_eq!(
        orders(0, || async {
            spawn_local(async {}).await.unwrap();
        }),
        both(),
        "a join handle"
    );
    assert_eq!(
        orders(0, || async {
            let mut set = JoinSet::new();
            set.spawn_local(async {});
            while set.join_next().await.is_some() {}
        }),
        both(),
        "a set of tasks"
    );
}

/// Grants to and fro between two futures of a task.
async fn ping_pong(rounds: u32) {
    let (ping, pong) = (Event::auto(), Event::auto());
    let one = async {
        for _ in 0..rounds {
            ping.wait().await;
            pong.set();
        }
    };
    let two = async {
        for _ in 0..rounds {
            ping.set();
            pong.wait().await;
        }
    };
    join!(one, two);
}

/// However often it is woken by itself: no strategy takes that for a yield.
#[test]
fn every_strategy_lets_a_task_go_on_that_wakes_itself() {
    let _dog = watchdog(120);
    assert_eq!(orders(0, || ping_pong(3)), both());
    async fn order() -> String {
        let log = Rc::new(RefCell::new(String::new()));
        let (a, b) = (log.clone(), log.clone());
        let one = spawn_local(async move {
            ping_pong(3).await;
            a.borrow_mut().push('A');
        });
        let two = spawn_local(async move { b.borrow_mut().push('B') });
        one.await.unwrap();
        two.await.unwrap();
        log.take()
    }
    let seeds = scaled(200, 20) as u64;
    for depth in [1, 2, 4, 64] {
        let found = (0..seeds).filter(|seed| Simulation::new(*seed).depth(depth).run(order()) == "AB");
        let found = found.count() as u64;
        assert!(found > 0 && found < seeds, "depth {depth}: {found} of {seeds}");
    }
    let found = (0..seeds).filter(|seed| Simulation::new(*seed).run(order()) == "AB").count() as u64;
    assert!(found > 0 && found < seeds, "{found} of {seeds}");
}

/// Two futures of a task that grant to each other until another task has run: neither priorities nor a search starve that task.
#[test]
fn a_task_that_wakes_itself_for_ever_starves_no_other() {
    let _dog = watchdog(120);
    async fn until_another_has_run() {
        let (done, ping, pong) = (Rc::new(Cell::new(false)), Event::auto(), Event::auto());
        let set = done.clone();
        let other = spawn_local(async move { set.set(true) });
        let one = async {
            while !done.get() {
                ping.wait().await;
                pong.set();
            }
            ping.set();
        };
        let two = async {
            while !done.get() {
                ping.set();
                pong.wait().await;
            }
            pong.set();
            ping.set();
        };
        join!(one, two);
        other.await.unwrap();
    }
    for seed in 0..scaled(100, 4) as u64 {
        Simulation::new(seed).polls(10_000).run(until_another_has_run());
        Simulation::new(seed).depth(1).polls(10_000).run(until_another_has_run());
    }
    let limit = scaled(100_000, 3) as u64;
    let explored = Exhaustive::new().switches(0).schedules(limit).check(until_another_has_run);
    assert!(cfg!(miri) || explored.is_complete(), "{explored:?}");
}

/// Tasks that grant to each other until another task has run, two pairs of them: when one of a pair fell below the others, the other pair starved that task with one seed in ten.
#[test]
#[cfg_attr(miri, ignore = "a hundred thousand polls for a seed")]
fn tasks_that_wake_each_other_for_ever_starve_no_other() {
    let _dog = watchdog(120);
    async fn until_another_has_run() {
        let done = Rc::new(Cell::new(false));
        let mut tasks = Vec::new();
        for _ in 0..2 {
            let (ping, pong) = (Rc::new(Event::auto()), Rc::new(Event::auto()));
            let pair = [(ping.clone(), pong.clone()), (pong, ping.clone())];
            ping.set();
            tasks.extend(pair.map(|(from, to)| {
                let done = done.clone();
                spawn_local(async move {
                    while !done.get() {
                        from.wait().await;
                        to.set();
                    }
                    to.set();
                })
            }));
        }
        tasks.push(spawn_local(async move { done.set(true) }));
        for task in tasks {
            task.await.unwrap();
        }
    }
    for seed in 0..100 {
        Simulation::new(seed).polls(100_000).run(until_another_has_run());
        Simulation::new(seed).depth(1).polls(100_000).run(until_another_has_run());
    }
}

/// A future that wakes its task itself and returns `Pending`, as `yield_now` of every crate does.
async fn foreign_yield() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A yield is a yield, of whatever crate and wherever it is: to go on before the others costs a switch.
#[test]
fn a_task_that_yields_goes_behind_the_others() {
    let _dog = watchdog(120);
    let kinds: [Yield; 5] = [
        ("ours", || Box::pin(yield_now())),
        ("foreign", || Box::pin(foreign_yield())),
        ("in a set", || {
            Box::pin(async { FuturesUnordered::from_iter([foreign_yield()]).next().await.unwrap() })
        }),
        ("beside a wait", || Box::pin(async { _ = timeout(MS, yield_now()).await })),
        ("an exhausted budget", || {
            Box::pin(async {
                for _ in 0..129 {
                    checkpoint().await;
                }
            })
        }),
    ];
    for (name, part) in kinds {
        // `AB` would need a task that goes on after it has yielded, before one that has not run.
        let (seen, complete) = orders(0, part);
        assert!(complete && seen.iter().all(|order| order == "BA"), "{name}: {seen:?}");
    }
    assert_eq!(orders(1, foreign_yield), both());
    assert_eq!(orders(1, yield_now), both());
}

/// A loop that yields until another task has done something ends in a search, after few schedules.
#[test]
fn a_search_ends_where_a_task_yields_until_something_happens() {
    let _dog = watchdog(120);
    fn search<F: Future<Output = ()> + 'static>(yields: fn() -> F) -> (u64, bool) {
        let explored = Exhaustive::new().check(|| async move {
            let done = Rc::new(RefCell::new(false));
            let set = done.clone();
            let other = spawn_local(async move { *set.borrow_mut() = true });
            while !*done.borrow() {
                yields().await;
            }
            other.await.unwrap();
        });
        (explored.schedules(), explored.is_complete())
    }
    let (ours, foreign) = (search(yield_now), search(foreign_yield));
    assert!(ours == foreign && ours.1 && ours.0 < 20, "{ours:?} {foreign:?}");
}

/// Nothing sleeps and nothing yields: the clock stands still, also if the tasks that run wake themselves.
#[test]
fn grants_inside_a_task_cost_no_time() {
    let _dog = watchdog(120);
    let messages = scaled(30_000, 300) as u32;
    for seed in 0..scaled(6, 2) as u64 {
        Simulation::new(seed).run(async move {
            let start = now();
            let (sender, receiver) = channel::bounded::<u32>(1);
            let both = async {
                let send = async {
                    for n in 0..messages {
                        sender.send(n).await.unwrap();
                    }
                };
                let receive = async {
                    for n in 0..messages {
                        assert_eq!(receiver.recv().await.unwrap(), n);
                    }
                };
                join!(send, receive)
            };
            timeout(10 * MS, both).await.expect("nothing sleeps");
            assert_eq!(now(), start);
        });
    }
}

/// A task that wakes itself without end, by grants or by a clone of its waker, uses up time at last: what it waits for comes.
#[test]
#[cfg_attr(miri, ignore = "tens of thousands of polls")]
fn a_task_that_wakes_itself_without_end_comes_to_its_deadline() {
    let _dog = watchdog(120);
    Simulation::new(1).run(async {
        let mut yields = std::pin::pin!(std::future::poll_fn(|cx| {
            let kept = cx.waker().clone();
            kept.wake();
            std::task::Poll::<()>::Pending
        }));
        assert!(timeout(10 * MS, yields.as_mut()).await.is_err());
    });
}
