//! mea's mutex: fair, over a semaphore.

use crate::peer::{
    AsyncBarrier, AsyncCondvar, AsyncMutex, AsyncRwLock, AsyncSemaphore, Broadcast, Membership, StopCheck,
};
use std::cell::Cell;
use std::future::{Future, IntoFuture};

/// `::mea::mutex::Mutex`.
pub(crate) struct Mea(::mea::mutex::Mutex<u64>);

impl AsyncMutex for Mea {
    const NAME: &'static str = "mea";
    const LOCK_BYTES: usize = size_of::<::mea::mutex::Mutex<()>>();
    type Guard<'a> = ::mea::mutex::MutexGuard<'a, u64>;

    fn new() -> Self {
        Mea(::mea::mutex::Mutex::new(0))
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

/// `::mea::semaphore::Semaphore`.
pub(crate) struct MeaSemaphore(::mea::semaphore::Semaphore);

impl AsyncSemaphore for MeaSemaphore {
    const NAME: &'static str = "mea";
    const BYTES: usize = size_of::<::mea::semaphore::Semaphore>();
    type Permit<'a> = ::mea::semaphore::SemaphorePermit<'a>;

    fn new(permits: usize) -> Self {
        MeaSemaphore(::mea::semaphore::Semaphore::new(permits))
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

/// `::mea::barrier::Barrier`.
pub(crate) struct MeaBarrier(::mea::barrier::Barrier);

impl AsyncBarrier for MeaBarrier {
    const NAME: &'static str = "mea";
    const BYTES: usize = size_of::<::mea::barrier::Barrier>();
    type Told = ::mea::barrier::BarrierWaitResult;

    fn new(parties: usize) -> Self {
        MeaBarrier(::mea::barrier::Barrier::new(parties as u32))
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

/// `::mea::waitgroup::WaitGroup`.
pub(crate) struct MeaGroup(::mea::waitgroup::WaitGroup);

impl Membership for MeaGroup {
    const NAME: &'static str = "mea";
    type Member<'a> = ::mea::waitgroup::WaitGroup;
    type Owned = ::mea::waitgroup::WaitGroup;

    fn new() -> Self {
        MeaGroup(::mea::waitgroup::WaitGroup::new())
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
pub(crate) struct MeaRelease {
    last: Cell<Option<::mea::waitgroup::WaitGroup>>,
    wait: ::mea::waitgroup::Wait,
}

impl Broadcast for MeaRelease {
    const NAME: &'static str = "mea";
    const BYTES: usize = size_of::<::mea::waitgroup::WaitGroup>();

    fn new() -> Self {
        let group = ::mea::waitgroup::WaitGroup::new();
        let last = Cell::new(Some(group.clone()));
        MeaRelease { last, wait: group.into_future() }
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

/// `::mea::shutdown::ShutdownSend` and the other end.
pub(crate) struct MeaShutdown(::mea::shutdown::ShutdownSend, ::mea::shutdown::ShutdownRecv);

impl MeaShutdown {
    fn running() -> Self {
        let (send, receive) = ::mea::shutdown::new_pair();
        MeaShutdown(send, receive)
    }
}

impl Broadcast for MeaShutdown {
    const NAME: &'static str = "mea";
    const BYTES: usize = size_of::<::mea::shutdown::ShutdownSend>();

    fn new() -> Self {
        Self::running()
    }

    fn rearm(&mut self) {
        *self = Self::running();
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.1.is_shutdown()
    }

    #[inline]
    fn release(&self) {
        self.0.shutdown();
    }
}

impl StopCheck for MeaShutdown {
    const NAME: &'static str = "mea";

    fn new() -> Self {
        Self::running()
    }

    #[inline]
    fn is_requested(&self) -> bool {
        self.1.is_shutdown_now()
    }

    fn request(&self) {
        self.0.shutdown();
    }
}

/// `::mea::rwlock::RwLock<u64>`.
pub(crate) struct MeaRwLock(::mea::rwlock::RwLock<u64>);

impl AsyncRwLock for MeaRwLock {
    const NAME: &'static str = "mea";
    const BYTES: usize = size_of::<::mea::rwlock::RwLock<()>>();
    type Read<'a> = ::mea::rwlock::RwLockReadGuard<'a, u64>;
    type Write<'a> = ::mea::rwlock::RwLockWriteGuard<'a, u64>;

    fn new() -> Self {
        MeaRwLock(::mea::rwlock::RwLock::new(0))
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

/// `::mea::condvar::Condvar` and its mutex.
pub(crate) struct MeaCondvar {
    mutex: ::mea::mutex::Mutex<u64>,
    condvar: ::mea::condvar::Condvar,
}

impl AsyncCondvar for MeaCondvar {
    const NAME: &'static str = "mea";
    type Guard<'a> = ::mea::mutex::MutexGuard<'a, u64>;

    fn new() -> Self {
        MeaCondvar { mutex: ::mea::mutex::Mutex::new(0), condvar: ::mea::condvar::Condvar::new() }
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
