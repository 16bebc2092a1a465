//! How a thread sleeps: the only file that knows the operating system.
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
    use std::time::Instant;

    /// The kernel keeps the sleepers; there is nothing to keep here.
    #[derive(Debug)]
    pub(crate) struct Sleeper;

    impl Sleeper {
        pub(crate) const fn new() -> Self {
            Self
        }

        pub(crate) fn sleep(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
            let timeout = deadline.map(|deadline| {
                let left = deadline.saturating_duration_since(Instant::now());
                libc::timespec {
                    // A time too far for the kernel's clock comes back as a wake-up for no reason.
                    tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
                    tv_nsec: left.subsec_nanos() as libc::c_long,
                }
            });
            let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
            // SAFETY: the word is alive for the call; the timeout is null or points to the local above.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    word.as_ptr(),
                    libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                    expected,
                    timeout,
                )
            };
        }

        pub(crate) fn wake(&self, word: &AtomicU32) {
            // SAFETY: the address is only a key for the kernel.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    word.as_ptr(),
                    libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                    1_i32,
                )
            };
        }
    }
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
        door: Mutex<()>,
        bell: Condvar,
    }

    impl Sleeper {
        pub(crate) const fn new() -> Self {
            Self { door: Mutex::new(()), bell: Condvar::new() }
        }

        pub(crate) fn sleep(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
            let door = self.door.lock().unwrap_or_else(PoisonError::into_inner);
            // Relaxed: the waker changed the word before it took the door, so the door orders them.
            if word.load(Ordering::Relaxed) != expected {
                return;
            }
            match deadline {
                None => drop(self.bell.wait(door)),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    drop(self.bell.wait_timeout(door, left));
                }
            }
        }

        pub(crate) fn wake(&self, _word: &AtomicU32) {
            // Through the door: the sleeper is either before its check, and will see the word, or asleep.
            drop(self.door.lock().unwrap_or_else(PoisonError::into_inner));
            self.bell.notify_one();
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
}
