//! `.block()`: any future, waited for by a thread on a parker.

use super::{Inner, Parker};
use crate::{host_executor, runtime, shim, timer};
use alloc::sync::Arc;
use core::cell::Cell;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::thread_local;

thread_local! {
    /// The thread's parker while no wait uses it: blocking allocates only once per thread.
    static SPARE: Cell<Option<ParkerWaker>> = const { Cell::new(None) };
}

/// A parker, and itself as a waker.
struct ParkerWaker {
    inner: Arc<Inner>,
    waker: Waker,
}

impl ParkerWaker {
    /// The spare of this thread; a new one if it is in use further up the stack (its token is not ours to
    /// take), if the thread is ending, or in the model, where all threads share the variable.
    fn take() -> Self {
        let spare = if shim::MODEL { None } else { SPARE.try_with(Cell::take).ok().flatten() };
        spare.unwrap_or_else(|| {
            let inner = Parker::new().inner;
            Self { waker: Waker::from(inner.clone()), inner }
        })
    }

    /// Puts it back. A wake-up that comes late leaves a token, which costs the next user one poll.
    fn put_back(self) {
        if !shim::MODEL {
            let _ = SPARE.try_with(|spare| spare.set(Some(self)));
        }
    }
}

/// Polls on this thread, and sleeps in between.
#[track_caller]
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    assert!(
        runtime::may_block() && !timer::is_timer_thread(),
        "`.block()` on a thread that runs tasks would stop them all: `.await` the wait instead, or call it from a \
         thread for blocking work"
    );
    let mut future = pin!(future);
    let blocker = ParkerWaker::take();
    let mut cx = Context::from_waker(&blocker.waker);
    let wait = || {
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                break output;
            }
            blocker.inner.park(None);
        }
    };
    // A thread that waits by itself keeps no task from running, relies on no timers but those of a thread that goes on meanwhile, and is ended by no limit around a poll that it is in.
    let output = runtime::without_limits(|| runtime::uncharged(|| host_executor::blocking(wait)));
    blocker.put_back();
    output
}
