//! Tasuki's semaphore under each policy.

use crate::peer::{AsyncSemaphore, Kind};
use std::future::Future;
use tasuki::{Closed, Semaphore, SemaphorePermit};

/// One subject per policy: the policy is a type parameter, so each is its own type.
macro_rules! subject {
    ($(#[$doc:meta])* $subject:ident, $name:literal, $policy:ty) => {
        $(#[$doc])*
        pub(crate) struct $subject(Semaphore<$policy>);

        impl AsyncSemaphore for $subject {
            const NAME: &'static str = $name;
            const KIND: Kind = Kind::Ours;
            const BYTES: usize = size_of::<Semaphore<$policy>>();
            type Permit<'a> = Result<SemaphorePermit<'a, $policy>, Closed>;

            fn new(permits: usize) -> Self {
                $subject(Semaphore::with_policy(permits))
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
    };
}

subject!(
    /// Strict FIFO, the default.
    FifoSemaphore, "tasuki-fifo", tasuki::policy::Fifo
);
subject!(
    /// Bounded bypass, N = 64.
    BypassSemaphore, "tasuki-bypass", tasuki::policy::Bypass<64>
);
