//! The standard library: its blocking mutex and reader-writer lock as floors, and thread parking.

use crate::peer::{AsyncMutex, AsyncRwLock, Kind, Park};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
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

/// `std::sync::RwLock`: blocks the thread.
pub(crate) struct StdRwLock(RwLock<u64>);

impl AsyncRwLock for StdRwLock {
    const NAME: &'static str = "std-rwlock";
    const KIND: Kind = Kind::Floor;
    const BYTES: usize = size_of::<RwLock<()>>();
    type Read<'a> = RwLockReadGuard<'a, u64>;
    type Write<'a> = RwLockWriteGuard<'a, u64>;

    fn new() -> Self {
        StdRwLock(RwLock::new(0))
    }

    #[inline]
    fn read(&self) -> impl Future<Output = Self::Read<'_>> + Send {
        ready(|| self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    #[inline]
    fn write(&self) -> impl Future<Output = Self::Write<'_>> + Send {
        ready(|| self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Ready at the first poll, with what `lock` returns then.
fn ready<G>(lock: impl Fn() -> G) -> impl Future<Output = G> {
    std::future::poll_fn(move |_| Poll::Ready(lock()))
}
