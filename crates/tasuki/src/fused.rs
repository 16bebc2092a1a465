//! `FusedFuture`, with the feature `futures-core`: `is_terminated` says whether another poll would panic.

use crate::future::{HandOff, Wait};
use crate::wait::Awaitable;
use futures_core::future::FusedFuture;

impl<A: Awaitable> FusedFuture for Wait<A> {
    fn is_terminated(&self) -> bool {
        Awaitable::has_ended(self)
    }
}

/// Once ready it stays ready.
impl FusedFuture for HandOff {
    fn is_terminated(&self) -> bool {
        false
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use crate::{CancellationSource, Condvar, Event, Mutex, OnceCell};
    use core::future::Future;
    use core::task::{Context, Poll, Waker};
    use core::time::Duration;
    use futures_core::future::FusedFuture;
    use std::boxed::Box;

    /// Never before it has ended, and always afterwards.
    fn ends<F: FusedFuture>(future: F, before: impl FnOnce()) -> F::Output {
        let (mut future, mut cx) = (Box::pin(future), Context::from_waker(Waker::noop()));
        assert!(!future.is_terminated());
        let mut polled = Future::poll(future.as_mut(), &mut cx);
        if polled.is_pending() {
            assert!(!future.is_terminated());
            before();
            polled = Future::poll(future.as_mut(), &mut cx);
        }
        assert!(future.is_terminated());
        match polled {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("it should have ended"),
        }
    }

    #[test]
    fn a_finished_future_is_terminated() {
        let (mutex, event, source) = (Mutex::new(1), Event::auto(), CancellationSource::new());
        let token = source.token();
        drop(ends(mutex.lock(), || {}));
        ends(event.wait(), || event.set());
        assert!(ends(event.wait().timeout(Duration::ZERO), || {}).is_err());
        let (cell, condvar) = (OnceCell::new(), Condvar::new());
        assert_eq!(ends(cell.get_or_init(async || 1), || {}), &1);
        let waiting = condvar.wait_while(mutex.try_lock().unwrap(), |n| *n == 1);
        drop(ends(waiting, || {
            *mutex.try_lock().unwrap() = 2;
            condvar.notify_one();
        }));
        let waiting = condvar.wait_while(mutex.try_lock().unwrap(), |_| true).or_cancelled(&token);
        assert!(ends(waiting, || source.request_cancel()).is_err());
        assert_eq!(ends(token.run_until_cancelled(async {}), || {}), None);
    }
}
