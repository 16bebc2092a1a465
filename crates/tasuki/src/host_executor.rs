//! What the crate asks of its surroundings: the executor under which it is a guest (tokio, with the feature of that name), and the clock and the fence of the operating system.
//!
//! The executor is asked only where no driver is installed (`runtime.rs`): the runtime that knows the primitives knows more. Nothing has to be called for it: tokio says by itself
//! whether the thread is one of its own. Only stable API of tokio is used, and no other file calls tokio.
//!
//! A thread in `.block()` has no host ([`blocking`]): it is not polled by tokio, and the runtime whose context it is in may stand still for as long as the thread
//! waits (one of a single thread, or one with a paused clock), and its timers with it.
//!
//! | question | answer of tokio | without the feature, or on other threads |
//! |---|---|---|
//! | may this operation go on? | its cooperative budget, one unit for each operation, unless the waker has no data | yes; the lax limit of `budget.rs` |
//! | what time is it? | its clock, which a test may pause | the clock of the system |
//! | where is a deadline kept? | in a `tokio::time::Sleep` inside of the future: 96 bytes in tokio 1.54 (112 with its feature `rt-multi-thread`), no allocation; one that never comes is kept nowhere | on the wheel of the shared thread |
//! | which task runs? | its id, also in `.block()` | none |
//!
//! The rest of the file is the same under every executor: [`clock`] and [`nanoseconds`] read the clock of the system ([`HAS_CLOCK`] says whether there is one), and [`fence_all_threads`] makes every running thread of the process pass a fence.
//! `budget.rs` asks for the first, `inspect/` for all three.

use std::time::Instant;

#[cfg(feature = "tokio")]
pub(crate) use with_tokio::{HAS_BUDGET, HostSleep, blocking, now, proceed, task};
#[cfg(not(feature = "tokio"))]
pub(crate) use without::{HAS_BUDGET, HostSleep, blocking, now, proceed, task};

/// The browser has no clock that std knows: to read it panics there.
pub(crate) const HAS_CLOCK: bool = !cfg!(all(target_family = "wasm", target_os = "unknown"));

/// The real time, for what a task has used of it.
pub(crate) fn clock() -> Instant {
    check_clock();
    Instant::now()
}

/// The real time in nanoseconds since a moment that does not change; 0 where there is no clock. A coarse one is some milliseconds late, for a fraction of the instructions, where the system has such a clock.
#[cfg(target_os = "linux")]
#[allow(dead_code, reason = "only `inspect/` asks, where it is active")]
#[inline]
pub(crate) fn nanoseconds(is_coarse: bool) -> u64 {
    let clock = if is_coarse { libc::CLOCK_MONOTONIC_COARSE } else { libc::CLOCK_MONOTONIC };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the time. It does not fail: every Linux has both clocks.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// As above.
#[cfg(not(target_os = "linux"))]
#[allow(dead_code, reason = "only `inspect/` asks, where it is active")]
pub(crate) fn nanoseconds(_is_coarse: bool) -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    if !HAS_CLOCK {
        return 0;
    }
    let now = clock();
    now.duration_since(*START.get_or_init(|| now)).as_nanos() as u64
}

/// Makes every running thread of the process pass a full fence, and passes one itself; false where the system cannot do that. So other threads may order a store before a load by a compiler fence alone: towards the caller it counts as a full one. Takes some milliseconds.
#[allow(dead_code, reason = "only `inspect/` asks, where it is active")]
pub(crate) fn fence_all_threads() -> bool {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
        const NO_FLAGS: libc::c_int = 0;
        // SAFETY: a system call without pointers. Kernels that do not know it, or may not interrupt every processor, refuse it.
        unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, NO_FLAGS) == 0 }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    false
}

/// Panics where there is no clock, and says what to do: std's own panic would name neither the wait nor a way out.
pub(crate) fn check_clock() {
    if !HAS_CLOCK {
        no_clock();
    }
}

#[cold]
fn no_clock() -> ! {
    panic!(
        "a wait with a time limit has to wait, and this target (wasm32-unknown-unknown) has no clock: wait without `timeout` or `deadline`, beside a timer of the browser (`or_cancelled`, or `select!`)"
    );
}

#[cfg(feature = "tokio")]
mod with_tokio {
    use crate::runtime;
    use crate::task::TaskId;
    use core::cell::Cell;
    use core::hash::{Hash, Hasher};
    use core::pin::Pin;
    use core::task::{Context, Poll, Waker};
    use core::time::Duration;
    use std::thread_local;
    use std::time::Instant;
    use tokio::runtime::Handle;
    use tokio::task::coop;
    use tokio::time;

    /// It must be asked at each operation.
    pub(crate) const HAS_BUDGET: bool = true;

    thread_local! {
        /// The thread waits by itself.
        static BLOCKS: Cell<bool> = const { Cell::new(false) };
    }

    /// Runs `f`, in which the thread waits by itself: it has no host.
    pub(crate) fn blocking<R>(f: impl FnOnce() -> R) -> R {
        struct RestoreBlocks(bool);
        impl Drop for RestoreBlocks {
            fn drop(&mut self) {
                let _ = BLOCKS.try_with(|blocks| blocks.set(self.0));
            }
        }
        let _restore = RestoreBlocks(BLOCKS.try_with(|blocks| blocks.replace(true)).unwrap_or(true));
        f()
    }

    /// Are the clock and the timers of tokio those of this thread?
    fn is_guest() -> bool {
        let blocks = BLOCKS.try_with(Cell::get).unwrap_or(true);
        // Asked before the clock and the timers: where a thread ends, and tokio has no variables any more, those panic.
        !blocks && !runtime::is_entered() && Handle::try_current().is_ok()
    }

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
        if is_guest() { time::Instant::now().into_std() } else { super::clock() }
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

    /// A sleep of tokio's; `None` is for ever, which tokio has no sleep for: with a paused clock its thirty years are over at once.
    #[derive(Debug)]
    pub(crate) struct HostSleep(Option<time::Sleep>);

    impl HostSleep {
        /// `None` if this thread is not in the context of a tokio runtime. `deadline`: `None` is for ever.
        ///
        /// # Panics
        /// If that runtime was built without `enable_time`.
        pub(crate) fn until(deadline: impl FnOnce() -> Option<Instant>) -> Option<Self> {
            /// Tokio rounds a deadline up, and panics if no clock can say the result.
            const ROUNDED: Duration = Duration::from_secs(1);
            let can_be_rounded = |deadline: &Instant| deadline.checked_add(ROUNDED).is_some();
            let sleep = |deadline| time::sleep_until(time::Instant::from_std(deadline));
            is_guest().then(|| Self(deadline().filter(can_be_rounded).map(sleep)))
        }

        pub(crate) fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            // SAFETY: a projection to the only field.
            let sleep = unsafe { self.map_unchecked_mut(|this| &mut this.0) };
            let Some(sleep) = sleep.as_pin_mut() else { return Poll::Pending };
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

    /// There is no host.
    pub(crate) fn blocking<R>(f: impl FnOnce() -> R) -> R {
        f()
    }

    pub(crate) const fn proceed(_waker: &Waker) -> bool {
        true
    }

    pub(crate) fn now() -> Instant {
        super::clock()
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
