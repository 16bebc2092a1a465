//! Lists every semaphore that is measured.

use super::super::{async_lock, asyncband, floors, futures_intrusive, maitake, mea, saa, tasuki, tokio};
use super::{list, visitor};
use crate::peer::AsyncSemaphore;

visitor! {
    /// Visits every semaphore with its own type.
    VisitSemaphore: AsyncSemaphore
}
list! {
    /// Names every semaphore the lab knows.
    each_semaphore: VisitSemaphore;
    tasuki::FifoSemaphore,
    tasuki::BypassSemaphore,
    tokio::TokioSemaphore,
    async_lock::AsyncLockSemaphore,
    asyncband::Semaphore,
    mea::Semaphore,
    futures_intrusive::FairSemaphore,
    futures_intrusive::UnfairSemaphore,
    maitake::MaitakeSemaphore,
    saa::SaaSemaphore,
    floors::CasAdd,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// The last permit is refused to others, and wakes the waiter when it is released.
    struct Bound;

    impl VisitSemaphore for Bound {
        fn visit<S: AsyncSemaphore>(&mut self) {
            let semaphore = S::new(2);
            let first = semaphore.try_acquire().expect(S::NAME);
            let second = semaphore.try_acquire().expect(S::NAME);
            assert!(semaphore.try_acquire().is_none(), "{}", S::NAME);
            if !S::NEVER_WAITS {
                let mut third = pin!(semaphore.acquire());
                let mut cx = Context::from_waker(Waker::noop());
                assert!(third.as_mut().poll(&mut cx).is_pending(), "{}", S::NAME);
                drop(first);
                assert!(matches!(third.poll(&mut cx), Poll::Ready(_)), "{}", S::NAME);
            }
            drop(second);
            assert!(semaphore.try_acquire().is_some(), "{}", S::NAME);
        }
    }

    #[test]
    fn every_adapter_keeps_to_its_permits() {
        each_semaphore(&mut Bound);
    }
}
