//! The same test for every policy.

use tasuki::policy::{Bypass, Fifo, Lifo, Policy, Revocable};

/// What a policy promises, said by the tests.
pub(crate) trait Known: Policy {
    const NEWEST_FIRST: bool = false;
    /// May a newcomer take a lock that a waiter was woken for?
    const BARGES: bool = false;
    /// Can a grant that was not claimed be revoked for another future of the same task?
    const REVOKES: bool = false;

    /// In which order waiters `0..count`, queued in that order, are served.
    fn service(count: usize) -> Vec<usize> {
        if Self::NEWEST_FIRST { (0..count).rev().collect() } else { (0..count).collect() }
    }
}

impl<const SPIN: bool> Known for Fifo<SPIN> {}

impl Known for Lifo {
    const NEWEST_FIRST: bool = true;
}

impl<const SPIN: bool> Known for Revocable<SPIN> {
    const REVOKES: bool = true;
}

impl<const N: u32> Known for Bypass<N> {
    const BARGES: bool = N > 0;
}

/// Makes a test of each generic function, for each policy: `fifo::name`, `lifo::name` and so on.
macro_rules! for_each_policy {
    ($($test:ident)*) => {
        for_each_policy!(@ fifo, tasuki::policy::Fifo, $($test)*);
        for_each_policy!(@ fifo_without_spin, tasuki::policy::Fifo<false>, $($test)*);
        for_each_policy!(@ lifo, tasuki::policy::Lifo, $($test)*);
        for_each_policy!(@ bypass, tasuki::policy::Bypass, $($test)*);
        for_each_policy!(@ bypass_once, tasuki::policy::Bypass<1>, $($test)*);
        for_each_policy!(@ bypass_never, tasuki::policy::Bypass<0>, $($test)*);
        for_each_policy!(@ revocable, tasuki::policy::Revocable, $($test)*);
        for_each_policy!(@ revocable_without_spin, tasuki::policy::Revocable<false>, $($test)*);
    };
    (@ $name:ident, $policy:ty, $($test:ident)*) => {
        mod $name {
            $(
                #[test]
                fn $test() {
                    let _dog = crate::kit::watchdog::watchdog(20);
                    super::$test::<$policy>();
                }
            )*
        }
    };
}

pub(crate) use for_each_policy;
