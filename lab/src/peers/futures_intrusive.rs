//! futures-intrusive: mutex and semaphore, fair and unfair; the mutex of a single thread; and the manual event, which is also measured as an event for one waiter, reset by that waiter.

use crate::peer::{AsyncMutex, AsyncSemaphore, AutoEvent, Broadcast, Kind, LocalMutex};
use futures_intrusive::sync;
use std::future::Future;

/// `Mutex` with `is_fair`.
pub(crate) struct Fair(sync::Mutex<u64>);

impl AsyncMutex for Fair {
    const NAME: &'static str = "futures-intrusive-fair";
    const LOCK_BYTES: usize = size_of::<sync::Mutex<()>>();
    type Guard<'a> = sync::MutexGuard<'a, u64>;

    fn new() -> Self {
        Fair(sync::Mutex::new(0, true))
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

/// `Mutex` without `is_fair`.
pub(crate) struct Unfair(sync::Mutex<u64>);

impl AsyncMutex for Unfair {
    const NAME: &'static str = "futures-intrusive-unfair";
    const LOCK_BYTES: usize = size_of::<sync::Mutex<()>>();
    type Guard<'a> = sync::MutexGuard<'a, u64>;

    fn new() -> Self {
        Unfair(sync::Mutex::new(0, false))
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

/// `LocalMutex`, fair: what the waiting costs without any synchronisation.
pub(crate) struct Unsynchronised(sync::LocalMutex<u64>);

impl LocalMutex for Unsynchronised {
    const NAME: &'static str = "futures-intrusive-local";
    const KIND: Kind = Kind::Floor;
    const LOCK_BYTES: usize = size_of::<sync::LocalMutex<()>>();
    type Guard<'a> = sync::LocalMutexGuard<'a, u64>;

    fn new() -> Self {
        Unsynchronised(sync::LocalMutex::new(0, true))
    }

    #[inline]
    fn lock(&self) -> impl Future<Output = Self::Guard<'_>> {
        self.0.lock()
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        self.0.try_lock()
    }

    fn future_bytes(&self) -> usize {
        size_of_val(&self.0.lock())
    }
}

/// `sync::Semaphore`.
pub(crate) struct FairSemaphore(sync::Semaphore);

impl AsyncSemaphore for FairSemaphore {
    const NAME: &'static str = "futures-intrusive-fair";
    const BYTES: usize = size_of::<sync::Semaphore>();
    type Permit<'a> = sync::SemaphoreReleaser<'a>;

    fn new(permits: usize) -> Self {
        FairSemaphore(sync::Semaphore::new(true, permits))
    }

    #[inline]
    fn acquire(&self) -> impl Future<Output = Self::Permit<'_>> + Send {
        self.0.acquire(1)
    }

    #[inline]
    fn try_acquire(&self) -> Option<Self::Permit<'_>> {
        self.0.try_acquire(1)
    }
}

/// `sync::Semaphore`.
pub(crate) struct UnfairSemaphore(sync::Semaphore);

impl AsyncSemaphore for UnfairSemaphore {
    const NAME: &'static str = "futures-intrusive-unfair";
    const BYTES: usize = size_of::<sync::Semaphore>();
    type Permit<'a> = sync::SemaphoreReleaser<'a>;

    fn new(permits: usize) -> Self {
        UnfairSemaphore(sync::Semaphore::new(false, permits))
    }

    #[inline]
    fn acquire(&self) -> impl Future<Output = Self::Permit<'_>> + Send {
        self.0.acquire(1)
    }

    #[inline]
    fn try_acquire(&self) -> Option<Self::Permit<'_>> {
        self.0.try_acquire(1)
    }
}

/// `sync::ManualResetEvent`.
pub(crate) struct IntrusiveEvent(sync::ManualResetEvent);

impl AutoEvent for IntrusiveEvent {
    const NAME: &'static str = "futures-intrusive";

    fn new() -> Self {
        IntrusiveEvent(sync::ManualResetEvent::new(false))
    }

    #[inline]
    fn set(&self) {
        self.0.set();
    }

    #[inline]
    fn wait(&self) -> impl Future {
        async {
            self.0.wait().await;
            self.0.reset();
        }
    }
}

impl Broadcast for IntrusiveEvent {
    const NAME: &'static str = "futures-intrusive";
    const BYTES: usize = size_of::<sync::ManualResetEvent>();

    fn new() -> Self {
        IntrusiveEvent(sync::ManualResetEvent::new(false))
    }

    fn rearm(&mut self) {
        self.0.reset();
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.0.wait()
    }

    #[inline]
    fn release(&self) {
        self.0.set();
    }
}
