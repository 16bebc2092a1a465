//! Tasuki's reader-writer lock, condition variable and timers.

use crate::peer::{AsyncCondvar, AsyncRwLock, Kind, Timer};
use std::future::Future;
use std::time::Duration;
use tasuki::{Condvar, Event, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// `tasuki::RwLock`.
pub(crate) struct Readers(RwLock<u64>);

impl AsyncRwLock for Readers {
    const NAME: &'static str = "tasuki";
    const KIND: Kind = Kind::Ours;
    const BYTES: usize = size_of::<RwLock<()>>();
    type Read<'a> = RwLockReadGuard<'a, u64>;
    type Write<'a> = RwLockWriteGuard<'a, u64>;

    fn new() -> Self {
        Readers(RwLock::new(0))
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

/// `tasuki::Condvar` and its mutex.
pub(crate) struct Notified {
    mutex: Mutex<u64>,
    condvar: Condvar,
}

impl AsyncCondvar for Notified {
    const NAME: &'static str = "tasuki";
    const KIND: Kind = Kind::Ours;
    type Guard<'a> = MutexGuard<'a, u64>;

    fn new() -> Self {
        Notified { mutex: Mutex::new(0), condvar: Condvar::new() }
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

/// `.timeout()` of a wait for an event that is never set: the wait is queued, and the time runs.
pub(crate) struct Timeout;

impl Timer for Timeout {
    const NAME: &'static str = "tasuki-timeout";
    const KIND: Kind = Kind::Ours;
    type Home = Event;

    fn home() -> Event {
        Event::manual()
    }

    #[inline]
    fn after(home: &Event, time: Duration) -> impl Future {
        home.wait().timeout(time)
    }
}

/// The time alone.
pub(crate) struct Sleep;

impl Timer for Sleep {
    const NAME: &'static str = "tasuki-sleep";
    const KIND: Kind = Kind::Ours;
    type Home = ();

    fn home() {}

    #[inline]
    fn after((): &(), time: Duration) -> impl Future {
        tasuki::runtime::sleep(time)
    }
}
