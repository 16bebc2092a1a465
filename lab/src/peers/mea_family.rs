//! What the adapters of mea and of its successor asyncband have in common: everything but shutdown and events.

/// The subjects of one of them.
macro_rules! mea_family {
    ($api:ident, $name:literal) => {
        /// Its `mutex::Mutex`.
        pub(crate) struct Mutex(::$api::mutex::Mutex<u64>);

        impl $crate::peer::AsyncMutex for Mutex {
            const NAME: &'static str = $name;
            const LOCK_BYTES: usize = size_of::<::$api::mutex::Mutex<()>>();
            type Guard<'a> = ::$api::mutex::MutexGuard<'a, u64>;

            fn new() -> Self {
                Mutex(::$api::mutex::Mutex::new(0))
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

        /// Its `semaphore::Semaphore`.
        pub(crate) struct Semaphore(::$api::semaphore::Semaphore);

        impl $crate::peer::AsyncSemaphore for Semaphore {
            const NAME: &'static str = $name;
            const BYTES: usize = size_of::<::$api::semaphore::Semaphore>();
            type Permit<'a> = ::$api::semaphore::SemaphorePermit<'a>;

            fn new(permits: usize) -> Self {
                Semaphore(::$api::semaphore::Semaphore::new(permits))
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

        /// Its `barrier::Barrier`.
        pub(crate) struct Barrier(::$api::barrier::Barrier);

        impl $crate::peer::AsyncBarrier for Barrier {
            const NAME: &'static str = $name;
            const BYTES: usize = size_of::<::$api::barrier::Barrier>();
            type WaitResult = ::$api::barrier::BarrierWaitResult;

            fn new(parties: usize) -> Self {
                Barrier(::$api::barrier::Barrier::new(parties as u32))
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

        /// Its `waitgroup::WaitGroup`.
        pub(crate) struct Group(::$api::waitgroup::WaitGroup);

        impl $crate::peer::Membership for Group {
            const NAME: &'static str = $name;
            type Member<'a> = ::$api::waitgroup::WaitGroup;
            type Owned = ::$api::waitgroup::WaitGroup;

            fn new() -> Self {
                Group(::$api::waitgroup::WaitGroup::new())
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
        pub(crate) struct Release {
            last: std::cell::Cell<Option<::$api::waitgroup::WaitGroup>>,
            wait: ::$api::waitgroup::Wait,
        }

        impl $crate::peer::Broadcast for Release {
            const NAME: &'static str = $name;
            const BYTES: usize = size_of::<::$api::waitgroup::WaitGroup>();

            fn new() -> Self {
                let group = ::$api::waitgroup::WaitGroup::new();
                let last = std::cell::Cell::new(Some(group.clone()));
                Release { last, wait: group.into_future() }
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

        /// Its `rwlock::RwLock<u64>`.
        pub(crate) struct RwLock(::$api::rwlock::RwLock<u64>);

        impl $crate::peer::AsyncRwLock for RwLock {
            const NAME: &'static str = $name;
            const BYTES: usize = size_of::<::$api::rwlock::RwLock<()>>();
            type Read<'a> = ::$api::rwlock::RwLockReadGuard<'a, u64>;
            type Write<'a> = ::$api::rwlock::RwLockWriteGuard<'a, u64>;

            fn new() -> Self {
                RwLock(::$api::rwlock::RwLock::new(0))
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

        /// Its `condvar::Condvar` and the mutex of that.
        pub(crate) struct Condvar {
            mutex: ::$api::mutex::Mutex<u64>,
            condvar: ::$api::condvar::Condvar,
        }

        impl $crate::peer::AsyncCondvar for Condvar {
            const NAME: &'static str = $name;
            type Guard<'a> = ::$api::mutex::MutexGuard<'a, u64>;

            fn new() -> Self {
                Condvar { mutex: ::$api::mutex::Mutex::new(0), condvar: ::$api::condvar::Condvar::new() }
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
    };
}
pub(crate) use mea_family;
