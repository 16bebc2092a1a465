//! The executor under which the crate is a guest: tokio, with the feature of that name.
//!
//! Asked only where no driver is installed (`runtime.rs`): the runtime that knows the primitives knows more. Nothing has to be called: tokio says by itself
//! whether the thread runs one of its tasks. All of it is stable API of tokio, and this is the only file that names it.
//!
//! | question | answer of tokio | without the feature, or on other threads |
//! |---|---|---|
//! | may this operation go on? | its cooperative budget, one unit for each operation | yes; the lax limit of `budget.rs` |
//! | what time is it? | its clock, which a test may pause | the clock of the system |
//! | where is a deadline kept? | in a `tokio::time::Sleep` inside of the future: 96 bytes, no allocation | on the wheel of the shared thread |
//! | which task runs? | its id | none |

use std::time::Instant;

#[cfg(feature = "tokio")]
pub(crate) use with_tokio::{HAS_BUDGET, HostSleep, now, proceed, task};
#[cfg(not(feature = "tokio"))]
pub(crate) use without::{HAS_BUDGET, HostSleep, now, proceed, task};

/// The browser has no clock that std knows: to read it panics there.
pub(crate) const HAS_CLOCK: bool = !cfg!(all(target_family = "wasm", target_os = "unknown"));

/// The real time, for what a task has used of it.
pub(crate) fn clock() -> Instant {
    Instant::now()
}

#[cfg(feature = "tokio")]
mod with_tokio {
    use crate::task::TaskId;
    use core::hash::{Hash, Hasher};
    use core::pin::Pin;
    use core::task::{Context, Poll, Waker};
    use std::time::Instant;
    use tokio::runtime::Handle;
    use tokio::task::coop;
    use tokio::time;

    /// It must be asked at each operation.
    pub(crate) const HAS_BUDGET: bool = true;

    /// Takes one unit of the budget. False if there is none: tokio has seen to it that the task runs again.
    pub(crate) fn proceed(waker: &Waker) -> bool {
        match coop::poll_proceed(&mut Context::from_waker(waker)) {
            Poll::Ready(unit) => {
                unit.made_progress();
                true
            }
            Poll::Pending => false,
        }
    }

    pub(crate) fn now() -> Instant {
        time::Instant::now().into_std()
    }

    pub(crate) fn task() -> Option<TaskId> {
        /// Keeps the number that is hashed: an id tells it in no other way, but by formatting it.
        #[derive(Default)]
        struct Number(u64);
        impl Hasher for Number {
            fn write(&mut self, bytes: &[u8]) {
                for byte in bytes {
                    self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
                }
            }

            fn write_u64(&mut self, number: u64) {
                self.0 = number;
            }

            fn finish(&self) -> u64 {
                self.0
            }
        }
        let mut number = Number::default();
        tokio::task::try_id()?.hash(&mut number);
        TaskId::of_host(number.finish())
    }

    /// A sleep of tokio's.
    #[derive(Debug)]
    pub(crate) struct HostSleep(time::Sleep);

    impl HostSleep {
        /// `None` if this thread is not in the context of a tokio runtime. `deadline`: `None` is for ever.
        ///
        /// # Panics
        /// If that runtime was built without `enable_time`.
        pub(crate) fn until(deadline: impl FnOnce() -> Option<Instant>) -> Option<Self> {
            Handle::try_current().ok()?;
            let far = || time::Instant::now() + time::Duration::from_secs(86_400 * 365 * 30);
            Some(Self(time::sleep_until(deadline().map_or_else(far, time::Instant::from_std))))
        }

        pub(crate) fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            // SAFETY: a projection to the only field.
            let sleep = unsafe { self.map_unchecked_mut(|this| &mut this.0) };
            // The operation that it limits was charged, and a limit that has come must be told: without a budget of its own.
            core::pin::pin!(coop::unconstrained(sleep)).poll(cx)
        }
    }
}

#[cfg(not(feature = "tokio"))]
mod without {
    use crate::task::TaskId;
    use core::convert::Infallible;
    use core::pin::Pin;
    use core::task::{Context, Poll, Waker};
    use std::time::Instant;

    pub(crate) const HAS_BUDGET: bool = false;

    pub(crate) const fn proceed(_waker: &Waker) -> bool {
        true
    }

    pub(crate) fn now() -> Instant {
        Instant::now()
    }

    pub(crate) const fn task() -> Option<TaskId> {
        None
    }

    /// There is none.
    #[derive(Debug)]
    pub(crate) struct HostSleep(Infallible);

    impl HostSleep {
        pub(crate) fn until(_deadline: impl FnOnce() -> Option<Instant>) -> Option<Self> {
            None
        }

        pub(crate) fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
            match self.0 {}
        }
    }
}
