//! The system call that waits for sockets, with a timeout in nanoseconds where the system has it.
//!
//! `mio` knows the systems. Its timeout has milliseconds, and a timer of a worker that polls would be late by half of one on average. On Linux `epoll_pwait2` waits
//! on the same descriptor with nanoseconds; a kernel before 5.11 does not have it, and there the timeout is rounded up to milliseconds.

use super::readiness::Report;
use std::io;
use std::time::Duration;

/// How many events one wait takes; more come with the next.
pub(super) const BATCH: usize = 256;

/// The wake-up of a worker that polls has this token, which no socket has.
pub(super) const INTERRUPT: mio::Token = mio::Token(usize::MAX);

/// What a wait returned.
#[cfg(not(target_os = "linux"))]
pub(super) struct Events(mio::Events);

#[cfg(not(target_os = "linux"))]
impl Events {
    pub(super) fn new() -> Self {
        Self(mio::Events::with_capacity(BATCH))
    }

    /// Waits for events, so long; `None` is for ever. A signal ends it, without events.
    pub(super) fn wait(&mut self, poll: &mut mio::Poll, timeout: Option<Duration>) -> io::Result<()> {
        match poll.poll(&mut self.0, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.0.clear();
                Ok(())
            }
            result => result,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, Report)> {
        self.0.iter().map(|event| {
            let report = Report {
                readable: event.is_readable() || event.is_error(),
                read_closed: event.is_read_closed(),
                urgent: event.is_priority(),
                writable: event.is_writable() || event.is_error(),
                write_closed: event.is_write_closed(),
                gone: false,
            };
            (event.token().0, report)
        })
    }
}

#[cfg(target_os = "linux")]
pub(super) use epoll::Events;

#[cfg(target_os = "linux")]
mod epoll {
    use super::{BATCH, Duration, Report, io};
    use std::os::fd::{AsRawFd, RawFd};
    use std::ptr;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// The kernel has no `epoll_pwait2`.
    static MILLISECONDS: AtomicBool = AtomicBool::new(false);

    /// What a wait returned.
    pub(in crate::io) struct Events(Vec<libc::epoll_event>);

    impl Events {
        pub(in crate::io) fn new() -> Self {
            Self(Vec::with_capacity(BATCH))
        }

        /// Waits for events, so long; `None` is for ever. A signal ends it, without events.
        pub(in crate::io) fn wait(
            &mut self,
            poll: &mut mio::Poll,
            timeout: Option<Duration>,
        ) -> io::Result<()> {
            self.0.clear();
            let (epoll, room) = (poll.as_raw_fd(), self.0.spare_capacity_mut());
            let (events, most) = (room.as_mut_ptr().cast::<libc::epoll_event>(), room.len() as libc::c_int);
            // SAFETY: the buffer has room for so many events.
            let count = unsafe { wait(epoll, events, most, timeout) };
            match usize::try_from(count) {
                // SAFETY: the kernel has written so many.
                Ok(count) => unsafe { self.0.set_len(count) },
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
            Ok(())
        }

        pub(in crate::io) fn iter(&self) -> impl Iterator<Item = (usize, Report)> {
            self.0.iter().map(|event| {
                // Copied: the fields of a packed struct cannot be borrowed.
                let (bits, token) = (event.events as libc::c_int, event.u64);
                let has = |bit: libc::c_int| bits & bit != 0;
                let (error, hangup) = (has(libc::EPOLLERR), has(libc::EPOLLHUP));
                let report = Report {
                    readable: has(libc::EPOLLIN) || error,
                    urgent: has(libc::EPOLLPRI),
                    read_closed: hangup || has(libc::EPOLLRDHUP),
                    writable: has(libc::EPOLLOUT) || error,
                    write_closed: hangup || error,
                    gone: false,
                };
                (token as usize, report)
            })
        }
    }

    /// As the kernel's `__kernel_timespec`.
    #[repr(C)]
    struct Timespec {
        seconds: i64,
        nanoseconds: i64,
    }

    /// # Safety
    /// `events` has room for `most`.
    unsafe fn wait(
        epoll: RawFd,
        events: *mut libc::epoll_event,
        most: libc::c_int,
        timeout: Option<Duration>,
    ) -> libc::c_int {
        let Some(timeout) = timeout else {
            // SAFETY: by contract.
            return unsafe { libc::epoll_wait(epoll, events, most, -1) };
        };
        // Relaxed: each thread may find out for itself.
        if !timeout.is_zero() && !MILLISECONDS.load(Ordering::Relaxed) {
            let time = Timespec {
                seconds: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
                nanoseconds: i64::from(timeout.subsec_nanos()),
            };
            let (time, no_mask) = (ptr::from_ref(&time), ptr::null::<libc::sigset_t>());
            // SAFETY: by contract; the time is alive for the call, and there is no mask, whose size is therefore not read.
            let count =
                unsafe { libc::syscall(libc::SYS_epoll_pwait2, epoll, events, most, time, no_mask, 0) };
            // EPERM: a sandbox that does not know the call.
            let refused = [Some(libc::ENOSYS), Some(libc::EPERM)];
            if count >= 0 || !refused.contains(&io::Error::last_os_error().raw_os_error()) {
                return count as libc::c_int;
            }
            MILLISECONDS.store(true, Ordering::Relaxed);
        }
        // Rounded up: a sleep must not end early.
        let round_up = timeout.saturating_add(Duration::from_nanos(999_999)).as_millis();
        let milliseconds = libc::c_int::try_from(round_up).unwrap_or(libc::c_int::MAX);
        // SAFETY: by contract.
        unsafe { libc::epoll_wait(epoll, events, most, milliseconds) }
    }
}
