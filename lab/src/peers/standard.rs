//! The standard library: its blocking mutex as a floor, and the parking of its threads.

use crate::peer::{AsyncMutex, Kind, Park};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::Thread;

/// `std::sync::Mutex`: blocks the thread.
pub(crate) struct StdMutex(Mutex<u64>);

/// Locks at the first poll.
struct Locking<'a>(&'a Mutex<u64>);

impl<'a> Future for Locking<'a> {
    type Output = MutexGuard<'a, u64>;

    #[inline]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<MutexGuard<'a, u64>> {
        Poll::Ready(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AsyncMutex for StdMutex {
    const NAME: &'static str = "std-mutex";
    const KIND: Kind = Kind::Floor;
    const BLOCKS: bool = true;
    const LOCK_BYTES: usize = size_of::<Mutex<()>>();
    type Guard<'a> = MutexGuard<'a, u64>;

    fn new() -> Self {
        StdMutex(Mutex::new(0))
    }

    #[inline]
    fn lock(&self) -> impl Future<Output = Self::Guard<'_>> + Send {
        Locking(&self.0)
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        self.0.try_lock().ok()
    }
}

/// `std::thread::park`.
pub(crate) struct StdThread;

impl Park for StdThread {
    const NAME: &'static str = "std-thread";
    type Unparker = Thread;

    fn new() -> Self {
        StdThread
    }

    fn unparker(&self) -> Thread {
        std::thread::current()
    }

    #[inline]
    fn park(&self) {
        std::thread::park();
    }

    #[inline]
    fn unpark(unparker: &Thread) {
        unparker.unpark();
    }
}
