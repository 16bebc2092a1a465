//! Tasuki itself: the mutex under each policy, the spin compiled out for comparison, the parker.

use crate::peer::{AsyncMutex, Kind, Park};
use std::future::Future;
use tasuki::{Mutex, MutexGuard, Parker, Unparker};

/// One subject per policy: the policy is a type parameter, so each is its own type.
macro_rules! subject {
    ($(#[$doc:meta])* $subject:ident, $name:literal, $policy:ty) => {
        $(#[$doc])*
        pub(crate) struct $subject(Mutex<u64, $policy>);

        impl AsyncMutex for $subject {
            const NAME: &'static str = $name;
            const KIND: Kind = Kind::Ours;
            const LOCK_BYTES: usize = size_of::<Mutex<(), $policy>>();
            type Guard<'a> = MutexGuard<'a, u64, $policy>;

            fn new() -> Self {
                $subject(Mutex::with_policy(0))
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
    };
}

subject!(
    /// Strict FIFO, the default.
    Fifo, "tasuki-fifo", tasuki::policy::Fifo
);
subject!(
    /// Strict FIFO with the spin compiled out.
    FifoNoSpin, "tasuki-fifo-no-spin", tasuki::policy::Fifo<false>
);
subject!(
    /// Newest first.
    Lifo, "tasuki-lifo", tasuki::policy::Lifo
);
subject!(
    /// Bounded bypass, N = 64.
    Bypass, "tasuki-bypass", tasuki::policy::Bypass<64>
);

subject!(
    /// Strict FIFO between tasks, with grants that can be revoked until they are claimed.
    Revocable, "tasuki-revocable", tasuki::policy::Revocable
);

/// `tasuki::Parker`.
pub(crate) struct TasukiParker(Parker);

impl Park for TasukiParker {
    const NAME: &'static str = "tasuki-parker";
    const KIND: Kind = Kind::Ours;
    type Unparker = Unparker;

    fn new() -> Self {
        TasukiParker(Parker::new())
    }

    fn unparker(&self) -> Unparker {
        self.0.unparker()
    }

    #[inline]
    fn park(&self) {
        self.0.park();
    }

    #[inline]
    fn unpark(unparker: &Unparker) {
        unparker.unpark();
    }
}
