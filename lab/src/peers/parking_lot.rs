//! parking_lot's blocking mutex, as a floor.

use crate::peer::{AsyncMutex, Kind};
use parking_lot::{Mutex, MutexGuard};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// `parking_lot::Mutex`: blocks the thread.
pub(crate) struct ParkingLot(Mutex<u64>);

/// Locks at the first poll.
struct Locking<'a>(&'a Mutex<u64>);

impl<'a> Future for Locking<'a> {
    type Output = MutexGuard<'a, u64>;

    #[inline]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<MutexGuard<'a, u64>> {
        Poll::Ready(self.0.lock())
    }
}

impl AsyncMutex for ParkingLot {
    const NAME: &'static str = "parking_lot";
    const KIND: Kind = Kind::Floor;
    const BLOCKS: bool = true;
    const LOCK_BYTES: usize = size_of::<Mutex<()>>();
    type Guard<'a> = MutexGuard<'a, u64>;

    fn new() -> Self {
        ParkingLot(Mutex::new(0))
    }

    #[inline]
    fn lock(&self) -> impl Future<Output = Self::Guard<'_>> + Send {
        Locking(&self.0)
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        self.0.try_lock()
    }
}
