//! Polling by hand.

use super::panics::caught;
use super::waker::Spy;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A future that owns what it waits for, so that a hook of a waker can keep it.
pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// One poll with the waker of a spy.
pub(crate) fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>, spy: &Spy) -> Poll<F::Output> {
    let waker = spy.waker();
    poll_with(future, &waker)
}

/// One poll with any waker.
pub(crate) fn poll_with<F: Future + ?Sized>(future: &mut Pin<Box<F>>, waker: &Waker) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(waker))
}

/// The output of a future that must be ready.
#[track_caller]
pub(crate) fn ready<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> F::Output {
    match poll_with(future, Waker::noop()) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("pending, expected ready"),
    }
}

/// A poll that must not be ready.
#[track_caller]
pub(crate) fn pending<F: Future + ?Sized>(future: &mut Pin<Box<F>>, spy: &Spy) {
    assert!(poll(future, spy).is_pending(), "ready, expected pending");
}

/// The message of a panic, which must happen.
#[track_caller]
pub(crate) fn panic_of<R>(call: impl FnOnce() -> R) -> String {
    let Err(panic) = caught(call) else { panic!("no panic, expected one") };
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Calls; none if it panicked.
pub(crate) fn catch<R>(call: impl FnOnce() -> R) -> Option<R> {
    caught(call).ok()
}

/// Calls, and says whether it panicked.
pub(crate) fn panics<R>(call: impl FnOnce() -> R) -> bool {
    catch(call).is_none()
}

/// Pending once, and woken at once.
pub(crate) async fn yield_now() {
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
