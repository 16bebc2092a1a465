//! async-io: its timers.

use crate::peer::Timer;
use std::future::Future;
use std::time::Duration;

/// `::async_io::Timer`.
pub(crate) struct AsyncIoTimer;

impl Timer for AsyncIoTimer {
    const NAME: &'static str = "async-io";
    type Home = ();

    fn home() {}

    #[inline]
    fn after((): &(), time: Duration) -> impl Future {
        ::async_io::Timer::after(time)
    }
}
