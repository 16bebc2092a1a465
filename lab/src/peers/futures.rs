//! futures-util: its mutex, which is unfair, and `AtomicWaker` as an event with one waiter.

use crate::peer::{AsyncMutex, AutoEvent, Kind};
use futures_util::task::AtomicWaker;
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

/// `::futures_util::lock::Mutex`.
pub(crate) struct Futures(::futures_util::lock::Mutex<u64>);

impl AsyncMutex for Futures {
    const NAME: &'static str = "futures";
    const LOCK_BYTES: usize = size_of::<::futures_util::lock::Mutex<()>>();
    type Guard<'a> = ::futures_util::lock::MutexGuard<'a, u64>;

    fn new() -> Self {
        Futures(::futures_util::lock::Mutex::new(0))
    }

    #[inline]
    fn lock(&self) -> impl Future<Output = Self::Guard<'_>> + Send {
        self.0.lock()
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        self.0.try_lock()
    }
}

/// A flag and `AtomicWaker`: one waiter, no queue.
#[derive(Default)]
pub(crate) struct OneWaiter {
    flag: AtomicBool,
    waker: AtomicWaker,
}

impl AutoEvent for OneWaiter {
    const NAME: &'static str = "atomic-waker";
    const KIND: Kind = Kind::Floor;

    fn new() -> Self {
        Self::default()
    }

    #[inline]
    fn set(&self) {
        // Release: pairs with the Acquire in `wait`.
        self.flag.store(true, Ordering::Release);
        self.waker.wake();
    }

    #[inline]
    fn wait(&self) -> impl Future {
        poll_fn(|cx| {
            // Acquire: pairs with the Release in `set`; again below.
            if self.flag.swap(false, Ordering::Acquire) {
                return Poll::Ready(());
            }
            self.waker.register(cx.waker());
            match self.flag.swap(false, Ordering::Acquire) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
    }
}
