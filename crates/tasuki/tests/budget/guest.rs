//! Without a driver the executor is a stranger. A task that never waits gives its thread back all the same, and what has no other task to run never yields.

use crate::kit::poll::poll;
use crate::kit::waker::Spy;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use tasuki::{Event, Latch, Mutex, OnceCell, RwLock, Semaphore, runtime};

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
        let spy = Spy::new();
        for polls in 1..=3 {
            assert!(poll(&mut task, &spy).is_pending(), "{name}");
            assert_eq!(spy.wakes(), polls, "{name}: woken once a poll");
        }
    }
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
