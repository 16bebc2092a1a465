//! A limit that is reached in the first poll, in which an operation of another task yields: the limited task is woken, and its next poll says that the limit is reached.

use crate::kit::poll::poll;
use crate::kit::waker::Spy;
use crate::kit::watchdog::watchdog;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tasuki::{CancellationSource, Condvar, Mutex, OnceCell};

/// An executor inside of a poll: one of its tasks takes a free lock again and again, until it yields.
fn poll_others() {
    let (mutex, other) = (Mutex::new(0_u64), Spy::new());
    tasuki::runtime::set_budget(0);
    while pin!(mutex.lock()).poll(&mut Context::from_waker(&other.waker())).is_ready() {}
    assert_eq!(other.wakes(), 1, "it has yielded");
}

/// Polls it whenever it is woken, until it is ready.
fn ends<T>(name: &str, wait: impl Future<Output = T>) -> T {
    let (mut wait, spy) = (Box::pin(wait), Spy::new());
    for polls in 1.. {
        if let Poll::Ready(output) = poll(&mut wait, &spy) {
            return output;
        }
        assert!(spy.wakes() >= polls, "{name}: it waits, is not woken, and its limit is reached");
    }
    unreachable!("it is ready at last")
}

#[test]
fn a_limit_is_not_lost_to_the_yield_of_another_task() {
    let _dog = watchdog(60);
    let never = CancellationSource::new();
    let token = never.token();
    let runs = || {
        poll_fn(|_| {
            poll_others();
            Poll::<u8>::Pending
        })
    };
    let until = token.run_until_cancelled(runs()).timeout(Duration::ZERO);
    assert!(ends("run_until_cancelled", until).is_err());
    let cell = OnceCell::new();
    assert!(ends("get_or_init", cell.get_or_init(runs).timeout(Duration::ZERO)).is_err());
    let (mutex, condvar) = (Mutex::new(0), Condvar::new());
    let condition = |_: &mut i32| {
        poll_others();
        true
    };
    let wait = condvar.wait_while(mutex.try_lock().unwrap(), condition).timeout(Duration::ZERO);
    assert!(ends("wait_while", wait).is_err());
    let source = CancellationSource::new();
    let cancelled = source.token();
    let cancels = poll_fn(|_| {
        poll_others();
        source.request_cancel();
        Poll::<u8>::Pending
    });
    let until = token.run_until_cancelled(cancels).or_cancelled(&cancelled);
    assert!(ends("or_cancelled", until).is_err());
}
