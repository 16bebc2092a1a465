//! How a thread sleeps: by a futex on Linux, elsewhere by a mutex and a condition variable. One of the three files that know the operating system; the others are `process_id.rs` and `host_executor.rs`.
//!
//! A sleeper has the contract of a futex. `sleep` returns when the word is not `expected`, when it was
//! woken after it began to sleep, when the deadline is past, or for no reason. The check of the word and the falling asleep
//! are one step against `wake`.

#[cfg(target_os = "linux")]
pub(crate) use futex::Sleeper;
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::Sleeper;

#[cfg(target_os = "linux")]
mod futex {
    use core::ptr;
    use core::sync::atomic::AtomicU32;
    use core::time::Duration;
    use std::time::Instant;

    /// The call whose timeout has 64 bits each for seconds and nanoseconds, whatever the C library's `timespec` has. Systems of 32 bits
    /// have a second one for that.
    #[cfg(any(target_pointer_width = "64", target_arch = "x86_64"))]
    const FUTEX: libc::c_long = libc::SYS_futex;
    #[cfg(not(any(target_pointer_width = "64", target_arch = "x86_64")))]
    const FUTEX: libc::c_long = 422 + if cfg!(target_arch = "mips") { 4000 } else { 0 };

    /// A time as the kernel reads it.
    #[repr(C)]
    struct Timespec<T> {
        seconds: T,
        nanoseconds: T,
    }

    impl<T: TryFrom<u64> + TryFrom<u32>> Timespec<T> {
        /// `longest` for what does not fit; it comes back as a wake-up for no reason.
        fn new(time: Duration, longest: T) -> Self {
            let nanoseconds = T::try_from(time.subsec_nanos()).ok().expect("less than 2^30");
            Self { seconds: T::try_from(time.as_secs()).unwrap_or(longest), nanoseconds }
        }
    }

    /// The kernel keeps the sleepers; there is nothing to keep here.
    #[derive(Debug)]
    pub(crate) struct Sleeper;

    impl Sleeper {
        pub(crate) const fn new() -> Self {
            Self
        }

        pub(crate) fn sleep(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let timeout = left.map(|left| Timespec::<i64>::new(left, i64::MAX));
            if !wait(FUTEX, word, expected, timeout.as_ref()) {
                sleep_old(word, expected, left);
            }
        }

        pub(crate) fn wake(&self, word: &AtomicU32) {
            if !wake(FUTEX, word) {
                wake_old(word);
            }
        }
    }

    /// False if the kernel does not have this call.
    fn wait<T>(call: libc::c_long, word: &AtomicU32, expected: u32, timeout: Option<&Timespec<T>>) -> bool {
        let timeout = timeout.map_or(ptr::null(), ptr::from_ref);
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word is alive for the call; the timeout is null or points to what the call reads.
        let result = unsafe { libc::syscall(call, word.as_ptr(), operation, expected, timeout) };
        is_known(result)
    }

    /// False if the kernel does not have this call.
    fn wake(call: libc::c_long, word: &AtomicU32) -> bool {
        // SAFETY: the address is only a key for the kernel.
        let result =
            unsafe { libc::syscall(call, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1_i32) };
        is_known(result)
    }

    /// Every kernel of 64 bits has the call.
    #[cfg(any(target_pointer_width = "64", target_arch = "x86_64"))]
    fn is_known(_result: libc::c_long) -> bool {
        true
    }

    #[cfg(not(any(target_pointer_width = "64", target_arch = "x86_64")))]
    fn is_known(result: libc::c_long) -> bool {
        result != -1 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
    }

    /// A kernel of 32 bits before 5.1 knows times of 32 bits only. A longer sleep ends early, for no reason.
    #[cfg(not(any(target_pointer_width = "64", target_arch = "riscv32")))]
    pub(super) fn sleep_old(word: &AtomicU32, expected: u32, left: Option<Duration>) {
        let timeout = left.map(|left| Timespec::<i32>::new(left, i32::MAX));
        wait(libc::SYS_futex, word, expected, timeout.as_ref());
    }

    #[cfg(not(any(target_pointer_width = "64", target_arch = "riscv32")))]
    pub(super) fn wake_old(word: &AtomicU32) {
        wake(libc::SYS_futex, word);
    }

    /// There is no such kernel.
    #[cfg(any(target_pointer_width = "64", target_arch = "riscv32"))]
    fn sleep_old(_word: &AtomicU32, _expected: u32, _left: Option<Duration>) {}

    #[cfg(any(target_pointer_width = "64", target_arch = "riscv32"))]
    fn wake_old(_word: &AtomicU32) {}
}

/// For systems without a futex; also compiled where its tests run.
#[cfg(any(test, not(target_os = "linux")))]
mod portable {
    use core::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Condvar, Mutex, PoisonError};
    use std::time::Instant;

    #[derive(Debug)]
    pub(crate) struct Sleeper {
        /// Held to check the word and fall asleep in one step.
        checking: Mutex<()>,
        woken: Condvar,
    }

    impl Sleeper {
        pub(crate) const fn new() -> Self {
            Self { checking: Mutex::new(()), woken: Condvar::new() }
        }

        pub(crate) fn sleep(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
            let checking = self.checking.lock().unwrap_or_else(PoisonError::into_inner);
            // Relaxed: `wake` takes this mutex after the word was changed, so the mutex orders them.
            if word.load(Ordering::Relaxed) != expected {
                return;
            }
            match deadline {
                None => drop(self.woken.wait(checking)),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    drop(self.woken.wait_timeout(checking, left));
                }
            }
        }

        pub(crate) fn wake(&self, _word: &AtomicU32) {
            // Locked once: the sleeper is then either before its check, and will see the word, or asleep.
            drop(self.checking.lock().unwrap_or_else(PoisonError::into_inner));
            self.woken.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU32, Ordering};
    use core::time::Duration;
    use std::thread;
    use std::time::Instant;

    /// The contract of the header, for one implementation.
    macro_rules! contract {
        ($name:ident, $sleeper:ty) => {
            mod $name {
                use super::*;

                #[test]
                fn another_value_does_not_sleep() {
                    let word = AtomicU32::new(1);
                    <$sleeper>::new().sleep(&word, 2, None);
                }

                #[test]
                fn a_deadline_ends_the_sleep() {
                    let word = AtomicU32::new(1);
                    let deadline = Instant::now() + Duration::from_millis(5);
                    while Instant::now() < deadline {
                        <$sleeper>::new().sleep(&word, 1, Some(deadline));
                    }
                }

                #[test]
                fn a_wake_after_the_change_is_never_lost() {
                    for _ in 0..if cfg!(miri) { 3 } else { 1_000 } {
                        let sleeper = <$sleeper>::new();
                        let word = AtomicU32::new(1);
                        thread::scope(|scope| {
                            scope.spawn(|| {
                                while word.load(Ordering::Relaxed) == 1 {
                                    sleeper.sleep(&word, 1, None);
                                }
                            });
                            word.store(2, Ordering::Relaxed);
                            sleeper.wake(&word);
                        });
                    }
                }
            }
        };
    }

    #[cfg(target_os = "linux")]
    contract!(futex, super::super::futex::Sleeper);
    contract!(portable, super::super::portable::Sleeper);

    /// What a kernel that is older than `futex_time64` has.
    #[cfg(all(target_os = "linux", target_pointer_width = "32", not(target_arch = "riscv32")))]
    struct Old;

    #[cfg(all(target_os = "linux", target_pointer_width = "32", not(target_arch = "riscv32")))]
    impl Old {
        fn new() -> Self {
            Self
        }

        fn sleep(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            super::futex::sleep_old(word, expected, left);
        }

        fn wake(&self, word: &AtomicU32) {
            super::futex::wake_old(word);
        }
    }

    #[cfg(all(target_os = "linux", target_pointer_width = "32", not(target_arch = "riscv32")))]
    contract!(old_futex, super::Old);
}
