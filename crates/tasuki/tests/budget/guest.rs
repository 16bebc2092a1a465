//! The budget under a foreign executor, where no driver is installed: a task that never waits yields all the same now and then, and a thread that has no other task to run (`.block()`, a no-op waker) never does.

use crate::kit::poll::poll;
use crate::kit::waker::Spy;
use crate::kit::watchdog::watchdog;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::future::{Future, poll_fn, ready};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tasuki::{CancellationSource, Event, Latch, Mutex, OnceCell, RwLock, Semaphore, runtime};

/// Loops over something that is always ready.
type Endless = Pin<Box<dyn Future<Output = ()>>>;

macro_rules! endless {
    ($($new:expr => |$it:ident| $operation:expr),* $(,)?) => {
        vec![$((stringify!($operation), Box::pin(async {
            let $it = $new;
            while std::hint::black_box(true) {
                let _ready = $operation.await;
            }
        }) as Endless)),*]
    };
}

/// A waker, on a thread whose operations count.
fn charged() -> Spy {
    let spy = Spy::new();
    runtime::set_budget(0);
    spy
}

/// The one poll ends, or the test does not: the task was woken, so it runs again after the others.
#[test]
fn a_task_that_is_always_ready_gives_its_thread_back() {
    let loops = endless![
        Mutex::new(()) => |mutex| mutex.lock(),
        RwLock::new(()) => |lock| lock.read(),
        RwLock::new(()) => |lock| lock.write(),
        Semaphore::new(1) => |semaphore| semaphore.acquire(),
        { let event = Event::manual(); event.set(); event } => |event| event.wait(),
        Latch::new(0) => |latch| latch.wait(),
        OnceCell::from(1) => |cell| cell.get_or_init(async || 1),
    ];
    for (name, mut task) in loops {
        let spy = charged();
        for polls in 1..=3 {
            assert!(poll(&mut task, &spy).is_pending(), "{name}");
            assert_eq!(spy.wakes(), polls, "{name}: woken once a poll");
        }
    }
}

/// The one poll of a task ends, woken, three times.
fn gives_its_thread_back(name: &str, task: impl Future<Output = ()> + 'static) {
    let (mut task, spy) = (Box::pin(task), charged());
    for polls in 1..=3 {
        assert!(poll(&mut task, &spy).is_pending(), "{name}");
        assert!(spy.wakes() >= polls, "{name}: woken by each poll");
    }
}

/// The children of a set have wakers of their own, which change from operation to operation; and one that yields is not the only one that is ready.
#[test]
fn a_set_of_futures_that_are_always_ready_gives_its_thread_back() {
    let _dog = watchdog(60);
    for children in [1, 2, 3, 7] {
        gives_its_thread_back(&format!("{children} children"), async move {
            let mutex = Mutex::new(0_u64);
            let lock = || async { *mutex.lock().await += 1 };
            let mut set: FuturesUnordered<_> = (0..children).map(|_| lock()).collect();
            while set.next().await.is_some() {
                set.push(lock());
            }
        });
        gives_its_thread_back(&format!("{children} children, buffered"), async move {
            let mutex = Mutex::new(0_u64);
            let locks = futures_util::stream::repeat(()).map(|()| async { *mutex.lock().await += 1 });
            locks.buffer_unordered(children).for_each(|()| ready(())).await;
        });
    }
    gives_its_thread_back("sets in a set", async {
        let mutex = Mutex::new(0_u64);
        let set = || async {
            let set: FuturesUnordered<_> = (0..3).map(|_| async { *mutex.lock().await += 1 }).collect();
            set.collect::<()>().await;
        };
        let mut sets: FuturesUnordered<_> = (0..3).map(|_| set()).collect();
        while sets.next().await.is_some() {
            sets.push(set());
        }
    });
}

/// Whichever of several locks is had first: another branch is no way around the limit. New futures in each round, as in a `select!`.
#[test]
fn a_choice_between_free_locks_gives_its_thread_back() {
    let _dog = watchdog(60);
    gives_its_thread_back("a choice", async {
        let locks: [_; 8] = std::array::from_fn(|_| Mutex::new(()));
        loop {
            let mut waits: Vec<_> = locks.iter().map(|lock| Box::pin(lock.lock())).collect();
            poll_fn(|cx| {
                let is_ready = waits.iter_mut().any(|wait| wait.as_mut().poll(cx).is_ready());
                if is_ready { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
    });
}

/// What is ready beside a wait that goes on, a branch of a `select!`: that a wait begins, or is polled again, does not say that the task has returned.
#[test]
fn waits_beside_what_is_ready_do_not_keep_the_thread() {
    let _dog = watchdog(60);
    async fn first_or_second(first: Pin<&mut impl Future>, second: impl Future) {
        let (mut first, mut second) = (first, pin!(second));
        poll_fn(|cx| {
            let is_ready = first.as_mut().poll(cx).is_ready() || second.as_mut().poll(cx).is_ready();
            if is_ready { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
    gives_its_thread_back("a new wait for a cancel in each round", async {
        let (source, mutex) = (CancellationSource::new(), Mutex::new(()));
        let token = source.token();
        loop {
            first_or_second(pin!(token.on_cancel()), mutex.lock()).await;
        }
    });
    gives_its_thread_back("one wait for all rounds", async {
        let (event, mutex) = (Event::manual(), Mutex::new(()));
        let mut wait = pin!(event.wait());
        loop {
            first_or_second(wait.as_mut(), mutex.lock()).await;
        }
    });
    gives_its_thread_back("a held lock, and no time to wait", async {
        let mutex = Mutex::new(());
        let _guard = mutex.try_lock().unwrap();
        while mutex.lock().timeout(Duration::ZERO).await.is_err() {}
    });
    gives_its_thread_back("a deadline that is past", async {
        let (event, past) = (Event::auto(), Instant::now());
        while event.wait().deadline(past).await.is_err() {}
    });
}

/// So many polls of new waits for a free lock, with these wakers in turn; which of them yielded.
fn yields_of(wakers: &[Waker], polls: usize) -> Vec<usize> {
    let mutex = Mutex::new(0_u64);
    (0..polls)
        .filter(|at| {
            let mut cx = Context::from_waker(&wakers[at % wakers.len()]);
            pin!(mutex.lock()).poll(&mut cx).is_pending()
        })
        .collect()
}

/// Until a wait of this thread yields, however long that takes: what was had until then.
fn polls_until_a_yield(wakers: &[Waker]) -> usize {
    let (mutex, mut polls) = (Mutex::new(0_u64), 0);
    loop {
        let mut wait = pin!(mutex.lock());
        let mut cx = Context::from_waker(&wakers[polls % wakers.len()]);
        if wait.as_mut().poll(&mut cx).is_pending() {
            assert!(wait.poll(&mut cx).is_ready(), "yields once");
            return polls;
        }
        polls += 1;
    }
}

/// Tasks that take turns on a thread, and wakers that change from poll to poll, also if some have no data: operations are counted all the same.
#[test]
fn wakers_that_take_turns_are_counted_together() {
    let _dog = watchdog(60);
    for tasks in [1, 2, 3, 7, 251, 256] {
        let spies: Vec<_> = (0..tasks).map(|_| charged()).collect();
        let wakers: Vec<_> = spies.iter().map(Spy::waker).collect();
        polls_until_a_yield(&wakers);
        let polls = polls_until_a_yield(&wakers);
        assert!(polls >= 256, "{tasks} tasks: {polls} operations");
    }
    for period in [2, 3, 5, 17, 256] {
        let spy = charged();
        let mut wakers = vec![Waker::noop().clone(); period];
        wakers[period - 1] = spy.waker();
        polls_until_a_yield(&wakers);
        assert_eq!(spy.wakes(), 1, "the one that has a task, of {period}");
    }
}

/// What is polled once and dropped is refused now and then, not from then on.
#[test]
fn what_is_polled_once_is_had_again() {
    let _dog = watchdog(60);
    let spy = charged();
    let wakers = [spy.waker()];
    let refused = loop {
        let refused = yields_of(&wakers, 1_000);
        // All refusals of one overrun: not the rest of one that the calls before it met.
        if refused.first().is_some_and(|first| (1..900).contains(first)) {
            break refused;
        }
    };
    let in_a_row = refused.iter().zip(refused[0]..).take_while(|(refused, at)| *refused == at).count();
    assert_eq!(in_a_row, 32, "{refused:?}");
}

/// `now_or_never` and its like poll once, with a waker that does nothing: what is free is had.
#[test]
fn a_waker_that_does_nothing_never_waits_for_what_is_free() {
    let mutex = Mutex::new(0_u32);
    let rounds = if cfg!(miri) { 2_000 } else { 100_000 };
    for _ in 0..rounds {
        let Poll::Ready(mut guard) = pin!(mutex.lock()).poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("a free lock is had at once");
        };
        *guard += 1;
    }
    assert_eq!(mutex.into_inner(), rounds);
}

/// A thread that waits by itself has no other task to run.
#[test]
fn a_blocking_thread_does_not_yield() {
    let mutex = Mutex::new(0_u32);
    let (before, rounds) = (runtime::yields(), if cfg!(miri) { 2_000 } else { 100_000 });
    for _ in 0..rounds {
        *mutex.lock().block() += 1;
    }
    assert_eq!((mutex.into_inner(), runtime::yields()), (rounds, before));
}
