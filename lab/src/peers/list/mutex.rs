//! Lists every mutex that is measured.

use super::super::{
    async_lock, asyncband, floors, futures, futures_intrusive, maitake, mea, parking_lot, saa, standard,
    tasuki, tokio,
};
use crate::peer::{AsyncMutex, LocalMutex};

/// Visits every mutex with its own type, so that a workload is compiled for each.
pub(crate) trait VisitMutex {
    /// A mutex that may be shared between threads.
    fn shared<M: AsyncMutex>(&mut self);
    /// A mutex of one thread; most workloads have no use for it.
    fn local<M: LocalMutex>(&mut self) {}
}

/// Names every mutex the lab knows.
pub(crate) fn each_mutex(visit: &mut impl VisitMutex) {
    each_own_mutex(visit);
    visit.shared::<tokio::Tokio>();
    visit.shared::<async_lock::AsyncLock>();
    visit.shared::<asyncband::Mutex>();
    visit.shared::<mea::Mutex>();
    visit.shared::<futures::Futures>();
    visit.shared::<futures_intrusive::Fair>();
    visit.shared::<futures_intrusive::Unfair>();
    visit.shared::<maitake::Maitake>();
    visit.shared::<saa::Saa>();
    visit.shared::<floors::CasSwap>();
    visit.shared::<standard::StdMutex>();
    visit.shared::<parking_lot::ParkingLot>();
    visit.local::<futures_intrusive::Unsynchronised>();
}

/// Names the mutexes of Tasuki alone.
pub(crate) fn each_own_mutex(visit: &mut impl VisitMutex) {
    visit.shared::<tasuki::Fifo>();
    visit.shared::<tasuki::FifoNoSpin>();
    visit.shared::<tasuki::Lifo>();
    visit.shared::<tasuki::Bypass>();
    visit.shared::<tasuki::Revocable>();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    /// Two threads increment without atomics; a second holder shows as a lost increment.
    struct Exclusion;

    impl VisitMutex for Exclusion {
        fn shared<M: AsyncMutex>(&mut self) {
            if M::NEVER_WAITS {
                return;
            }
            const EACH: u64 = 2_000;
            let mutex = Arc::new(<M as AsyncMutex>::new());
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let mutex = mutex.clone();
                    std::thread::spawn(move || {
                        futures_lite::future::block_on(async {
                            for _ in 0..EACH {
                                *AsyncMutex::lock(&*mutex).await += 1;
                            }
                        });
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(*AsyncMutex::try_lock(&*mutex).unwrap(), 2 * EACH, "{}", <M as AsyncMutex>::NAME);
        }
    }

    #[test]
    fn every_adapter_excludes() {
        each_mutex(&mut Exclusion);
    }

    /// The held lock refuses, the released one does not.
    struct Refusal;

    impl VisitMutex for Refusal {
        fn shared<M: AsyncMutex>(&mut self) {
            self.local::<M>();
        }

        fn local<M: LocalMutex>(&mut self) {
            let mutex = M::new();
            let guard = mutex.try_lock().expect(M::NAME);
            // Twice: a refusal that gives back what it did not get would show.
            assert!(mutex.try_lock().is_none() && mutex.try_lock().is_none(), "{}", M::NAME);
            drop(guard);
            let future = pin!(mutex.lock());
            let polled = future.poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Ready(_)), "{}", M::NAME);
        }
    }

    #[test]
    fn every_adapter_refuses_while_held() {
        each_mutex(&mut Refusal);
    }
}
