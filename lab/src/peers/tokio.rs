//! tokio: mutex, semaphore, reader-writer lock, `Notify`, barrier, sleeps and timeouts.

use crate::peer::{AsyncBarrier, AsyncMutex, AsyncRwLock, AsyncSemaphore, AutoEvent, Broadcast, Timer};
use crate::workload::two_thread_runtime::TwoThreadRuntime;
use std::future::Future;
use std::time::Duration;

/// `::tokio::sync::Mutex`.
pub(crate) struct Tokio(::tokio::sync::Mutex<u64>);

impl AsyncMutex for Tokio {
    const NAME: &'static str = "tokio";
    const LOCK_BYTES: usize = size_of::<::tokio::sync::Mutex<()>>();
    type Guard<'a> = ::tokio::sync::MutexGuard<'a, u64>;

    fn new() -> Self {
        Tokio(::tokio::sync::Mutex::new(0))
    }

    #[inline]
    fn lock(&self) -> impl Future<Output = Self::Guard<'_>> + Send {
        self.0.lock()
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        self.0.try_lock().ok()
    }
}

/// `::tokio::sync::Semaphore`.
pub(crate) struct TokioSemaphore(::tokio::sync::Semaphore);

impl AsyncSemaphore for TokioSemaphore {
    const NAME: &'static str = "tokio";
    const BYTES: usize = size_of::<::tokio::sync::Semaphore>();
    type Permit<'a> = Result<::tokio::sync::SemaphorePermit<'a>, ::tokio::sync::AcquireError>;

    fn new(permits: usize) -> Self {
        TokioSemaphore(::tokio::sync::Semaphore::new(permits))
    }

    #[inline]
    fn acquire(&self) -> impl Future<Output = Self::Permit<'_>> + Send {
        self.0.acquire()
    }

    #[inline]
    fn try_acquire(&self) -> Option<Self::Permit<'_>> {
        self.0.try_acquire().ok().map(Ok)
    }
}

/// `::tokio::sync::Notify`.
pub(crate) struct TokioNotify(::tokio::sync::Notify);

impl AutoEvent for TokioNotify {
    const NAME: &'static str = "tokio";

    fn new() -> Self {
        TokioNotify(::tokio::sync::Notify::new())
    }

    #[inline]
    fn set(&self) {
        self.0.notify_one();
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.0.notified()
    }
}

impl Broadcast for TokioNotify {
    const NAME: &'static str = "tokio";
    const BYTES: usize = size_of::<::tokio::sync::Notify>();

    fn new() -> Self {
        TokioNotify(::tokio::sync::Notify::new())
    }

    fn rearm(&mut self) {
        // Nothing is stored when all are notified.
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.0.notified()
    }

    #[inline]
    fn release(&self) {
        self.0.notify_waiters();
    }
}

/// `::tokio::sync::Barrier`.
pub(crate) struct TokioBarrier(::tokio::sync::Barrier);

impl AsyncBarrier for TokioBarrier {
    const NAME: &'static str = "tokio";
    const BYTES: usize = size_of::<::tokio::sync::Barrier>();
    type WaitResult = ::tokio::sync::BarrierWaitResult;

    fn new(parties: usize) -> Self {
        TokioBarrier(::tokio::sync::Barrier::new(parties))
    }

    #[inline]
    fn arrive(&self) -> impl Future<Output = Self::WaitResult> + Send {
        self.0.wait()
    }

    #[inline]
    fn is_leader(result: &Self::WaitResult) -> bool {
        result.is_leader()
    }
}

/// `::tokio::sync::RwLock<u64>`.
pub(crate) struct TokioRwLock(::tokio::sync::RwLock<u64>);

impl AsyncRwLock for TokioRwLock {
    const NAME: &'static str = "tokio";
    const BYTES: usize = size_of::<::tokio::sync::RwLock<()>>();
    type Read<'a> = ::tokio::sync::RwLockReadGuard<'a, u64>;
    type Write<'a> = ::tokio::sync::RwLockWriteGuard<'a, u64>;

    fn new() -> Self {
        TokioRwLock(::tokio::sync::RwLock::new(0))
    }

    #[inline]
    fn read(&self) -> impl Future<Output = Self::Read<'_>> + Send {
        self.0.read()
    }

    #[inline]
    fn write(&self) -> impl Future<Output = Self::Write<'_>> + Send {
        self.0.write()
    }
}

/// `::tokio::time::sleep`, in a runtime of two workers.
pub(crate) struct TokioSleep;

impl Timer for TokioSleep {
    const NAME: &'static str = "tokio-sleep";
    type Home = ::tokio::runtime::EnterGuard<'static>;

    fn home() -> Self::Home {
        TwoThreadRuntime::enter_tokio()
    }

    #[inline]
    fn after(_: &Self::Home, time: Duration) -> impl Future {
        ::tokio::time::sleep(time)
    }
}

/// `::tokio::time::timeout` of a wait for a notification that is never sent.
pub(crate) struct TokioTimeout;

impl Timer for TokioTimeout {
    const NAME: &'static str = "tokio-timeout";
    type Home = (::tokio::runtime::EnterGuard<'static>, ::tokio::sync::Notify);

    fn home() -> Self::Home {
        (TwoThreadRuntime::enter_tokio(), ::tokio::sync::Notify::new())
    }

    #[inline]
    fn after(home: &Self::Home, time: Duration) -> impl Future {
        ::tokio::time::timeout(time, home.1.notified())
    }
}
