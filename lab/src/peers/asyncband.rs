//! asyncband's mutex: fair.

use crate::peer::{
    AsyncBarrier, AsyncCondvar, AsyncMutex, AsyncRwLock, AsyncSemaphore, AutoEvent, Broadcast, Membership,
    StopCheck,
};
use std::cell::Cell;
use std::future::{Future, IntoFuture};

/// `::asyncband::mutex::Mutex`.
pub(crate) struct Asyncband(::asyncband::mutex::Mutex<u64>);

impl AsyncMutex for Asyncband {
    const NAME: &'static str = "asyncband";
    const LOCK_BYTES: usize = size_of::<::asyncband::mutex::Mutex<()>>();
    type Guard<'a> = ::asyncband::mutex::MutexGuard<'a, u64>;

    fn new() -> Self {
        Asyncband(::asyncband::mutex::Mutex::new(0))
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

/// `::asyncband::semaphore::Semaphore`.
pub(crate) struct AsyncbandSemaphore(::asyncband::semaphore::Semaphore);

impl AsyncSemaphore for AsyncbandSemaphore {
    const NAME: &'static str = "asyncband";
    const BYTES: usize = size_of::<::asyncband::semaphore::Semaphore>();
    type Permit<'a> = ::asyncband::semaphore::SemaphorePermit<'a>;

    fn new(permits: usize) -> Self {
        AsyncbandSemaphore(::asyncband::semaphore::Semaphore::new(permits))
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

/// `::asyncband::event::AutoResetEvent`.
pub(crate) struct AsyncbandAuto(::asyncband::event::AutoResetEvent);

impl AutoEvent for AsyncbandAuto {
    const NAME: &'static str = "asyncband";

    fn new() -> Self {
        AsyncbandAuto(::asyncband::event::AutoResetEvent::new())
    }

    #[inline]
    fn set(&self) {
        self.0.set();
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.0.wait()
    }
}

/// `::asyncband::event::ManualResetEvent`.
pub(crate) struct AsyncbandManual(::asyncband::event::ManualResetEvent);

impl Broadcast for AsyncbandManual {
    const NAME: &'static str = "asyncband";
    const BYTES: usize = size_of::<::asyncband::event::ManualResetEvent>();

    fn new() -> Self {
        AsyncbandManual(::asyncband::event::ManualResetEvent::new())
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

/// `::asyncband::barrier::Barrier`.
pub(crate) struct AsyncbandBarrier(::asyncband::barrier::Barrier);

impl AsyncBarrier for AsyncbandBarrier {
    const NAME: &'static str = "asyncband";
    const BYTES: usize = size_of::<::asyncband::barrier::Barrier>();
    type Told = ::asyncband::barrier::BarrierWaitResult;

    fn new(parties: usize) -> Self {
        AsyncbandBarrier(::asyncband::barrier::Barrier::new(parties as u32))
    }

    #[inline]
    fn arrive(&self) -> impl Future<Output = Self::Told> + Send {
        self.0.wait()
    }

    #[inline]
    fn is_leader(told: &Self::Told) -> bool {
        told.is_leader()
    }
}

/// `::asyncband::waitgroup::WaitGroup`.
pub(crate) struct AsyncbandGroup(::asyncband::waitgroup::WaitGroup);

impl Membership for AsyncbandGroup {
    const NAME: &'static str = "asyncband";
    type Member<'a> = ::asyncband::waitgroup::WaitGroup;
    type Owned = ::asyncband::waitgroup::WaitGroup;

    fn new() -> Self {
        AsyncbandGroup(::asyncband::waitgroup::WaitGroup::new())
    }

    #[inline]
    fn member(&self) -> Self::Member<'_> {
        self.0.clone()
    }

    #[inline]
    fn owned(&self) -> Self::Owned {
        self.0.clone()
    }

    fn wait(self) -> impl Future<Output = ()> + 'static {
        self.0.into_future()
    }
}

/// A group with one member left, and the wait for it that others are cloned from.
pub(crate) struct AsyncbandRelease {
    last: Cell<Option<::asyncband::waitgroup::WaitGroup>>,
    wait: ::asyncband::waitgroup::Wait,
}

impl Broadcast for AsyncbandRelease {
    const NAME: &'static str = "asyncband";
    const BYTES: usize = size_of::<::asyncband::waitgroup::WaitGroup>();

    fn new() -> Self {
        let group = ::asyncband::waitgroup::WaitGroup::new();
        let last = Cell::new(Some(group.clone()));
        AsyncbandRelease { last, wait: group.into_future() }
    }

    fn rearm(&mut self) {
        *self = Self::new();
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.wait.clone()
    }

    #[inline]
    fn release(&self) {
        self.last.set(None);
    }
}

/// `::asyncband::shutdown::Shutdown` and the guard that sees it.
pub(crate) struct AsyncbandShutdown(::asyncband::shutdown::Shutdown, ::asyncband::shutdown::ShutdownGuard);

impl AsyncbandShutdown {
    fn running() -> Self {
        let (shutdown, guard) = ::asyncband::shutdown::new();
        AsyncbandShutdown(shutdown, guard)
    }
}

impl Broadcast for AsyncbandShutdown {
    const NAME: &'static str = "asyncband";
    const BYTES: usize = size_of::<::asyncband::shutdown::Shutdown>();

    fn new() -> Self {
        Self::running()
    }

    fn rearm(&mut self) {
        *self = Self::running();
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.1.shutdown_requested()
    }

    #[inline]
    fn release(&self) {
        self.0.request_shutdown();
    }
}

impl StopCheck for AsyncbandShutdown {
    const NAME: &'static str = "asyncband";

    fn new() -> Self {
        Self::running()
    }

    #[inline]
    fn is_requested(&self) -> bool {
        self.1.is_shutdown_requested()
    }

    fn request(&self) {
        self.0.request_shutdown();
    }
}

/// `::asyncband::rwlock::RwLock<u64>`.
pub(crate) struct AsyncbandRwLock(::asyncband::rwlock::RwLock<u64>);

impl AsyncRwLock for AsyncbandRwLock {
    const NAME: &'static str = "asyncband";
    const BYTES: usize = size_of::<::asyncband::rwlock::RwLock<()>>();
    type Read<'a> = ::asyncband::rwlock::RwLockReadGuard<'a, u64>;
    type Write<'a> = ::asyncband::rwlock::RwLockWriteGuard<'a, u64>;

    fn new() -> Self {
        AsyncbandRwLock(::asyncband::rwlock::RwLock::new(0))
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

/// `::asyncband::condvar::Condvar` and its mutex.
pub(crate) struct AsyncbandCondvar {
    mutex: ::asyncband::mutex::Mutex<u64>,
    condvar: ::asyncband::condvar::Condvar,
}

impl AsyncCondvar for AsyncbandCondvar {
    const NAME: &'static str = "asyncband";
    type Guard<'a> = ::asyncband::mutex::MutexGuard<'a, u64>;

    fn new() -> Self {
        AsyncbandCondvar {
            mutex: ::asyncband::mutex::Mutex::new(0),
            condvar: ::asyncband::condvar::Condvar::new(),
        }
    }

    #[inline]
    fn lock(&self) -> impl Future<Output = Self::Guard<'_>> {
        self.mutex.lock()
    }

    #[inline]
    fn wait<'a>(&'a self, guard: Self::Guard<'a>) -> impl Future<Output = Self::Guard<'a>> {
        self.condvar.wait(guard)
    }

    #[inline]
    fn notify_one(&self) {
        self.condvar.notify_one();
    }
}
