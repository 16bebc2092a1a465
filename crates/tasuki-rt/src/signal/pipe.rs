//! From the handler of a signal to the tasks: a pair of sockets used as a pipe, and a thread that reads it.
//!
//! A signal handler may call almost nothing. Ours counts the signal and writes a byte to the non-blocking end of the pair. The byte only wakes the thread, which looks at the counts of all signals after each
//! read; so it does not matter if the socket is full and a byte is lost: there is something to read then. Signals whose handlers run before the thread looks are one release of the waiters.
//!
//! The handler counts, not the thread: so the count at the creation of a `Signal` has every signal whose handler has returned, and those that differ from it came later.
//!
//! # Orderings
//! `count`: SeqCst on both sides. The write and the read of the socket are between the handler and the thread: a count that the thread does not see has a byte that is still to be read.
//!
//! A task enqueues its wait before it looks at the count, and the thread looks at the count, as the handler left it, before it releases the waiters: either the thread finds the wait, or the task finds the new count.
//! Both also exchange the word of the event in between. (No model includes this file: the two sides meet at a system call.)

use crate::io::source::release_waiters;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use tasuki::Event;

/// Signals have smaller numbers.
const SIGNALS: usize = 128;

/// One signal.
pub(super) struct SignalState {
    /// How often its handler has run.
    count: AtomicU32,
    /// Set for a moment only, to release those that wait.
    pub(super) arrived: Event,
}

impl SignalState {
    const fn new() -> Self {
        Self { count: AtomicU32::new(0), arrived: Event::manual() }
    }

    /// How many there have been, if that is not what was seen.
    pub(super) fn newer_than(&self, seen: u32) -> Option<u32> {
        // SeqCst: pairs with SeqCst in `handler`, see the header.
        let count = self.count.load(Ordering::SeqCst);
        (count != seen).then_some(count)
    }
}

static SLOTS: [SignalState; SIGNALS] = [const { SignalState::new() }; SIGNALS];
/// What the handler writes to; -1 before the first use.
static WRITE_END: AtomicI32 = AtomicI32::new(-1);
/// Which signals have our handler. Held while one is installed.
static INSTALLED: Mutex<[bool; SIGNALS]> = Mutex::new([false; SIGNALS]);

pub(super) fn slot(signal: i32) -> &'static SignalState {
    &SLOTS[signal as usize]
}

/// Installs the handler of a signal, if it is not; how many there have been.
pub(super) fn install(signal: i32) -> io::Result<u32> {
    let invalid =
        || io::Error::new(io::ErrorKind::InvalidInput, format!("{signal} is no signal to wait for"));
    let at = usize::try_from(signal).ok().filter(|at| (1..SIGNALS).contains(at)).ok_or_else(invalid)?;
    // These report a fault of the program where it happens: a handler that returns would meet it again.
    if [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL].contains(&signal) {
        return Err(invalid());
    }
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if !installed[at] {
        start()?;
        handle(signal)?;
        installed[at] = true;
    }
    // SeqCst: pairs with SeqCst in `handler`.
    Ok(SLOTS[at].count.load(Ordering::SeqCst))
}

/// Starts the pair of sockets and the thread that reads them, once. Under the mutex.
fn start() -> io::Result<()> {
    // Relaxed: written under the mutex.
    if WRITE_END.load(Ordering::Relaxed) >= 0 {
        return Ok(());
    }
    let (mut read, write) = UnixStream::pair()?;
    write.set_nonblocking(true)?;
    let wake = move || {
        let (mut bytes, mut seen) = ([0; 64], [0; SIGNALS]);
        loop {
            match read.read(&mut bytes) {
                Ok(1..) => {
                    for (slot, seen) in SLOTS.iter().zip(&mut seen) {
                        if let Some(count) = slot.newer_than(*seen) {
                            *seen = count;
                            release_waiters(&slot.arrived);
                        }
                    }
                }
                // By the handler of another signal, which does not restart it.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The other end is never closed.
                Ok(0) | Err(_) => return,
            }
        }
    };
    thread::Builder::new().name("tasuki-rt-signals".into()).spawn(wake)?;
    // Release: pairs with Acquire in `handler`.
    WRITE_END.store(write.as_raw_fd(), Ordering::Release);
    // For the rest of the process.
    let _ = write.into_raw_fd();
    Ok(())
}

fn handle(signal: i32) -> io::Result<()> {
    // SAFETY: zeroes are a valid `sigaction`: no flags, an empty mask, and the handler is set below.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as extern "C" fn(libc::c_int) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the action is initialised, and its handler counts, and calls nothing but `write`.
    if unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

extern "C" fn handler(signal: libc::c_int) {
    // SAFETY: the place of this thread's error number; the interrupted code may be about to read it.
    let error = unsafe { errno() };
    // SAFETY: as above.
    let before = unsafe { *error };
    // SeqCst: pairs with SeqCst in `newer_than` and `install`, see the header. Never a lock: `AtomicU32` is the machine's.
    slot(signal).count.fetch_add(1, Ordering::SeqCst);
    let byte = 0_u8;
    // Acquire: pairs with Release in `start`.
    let write_end = WRITE_END.load(Ordering::Acquire);
    // SAFETY: a descriptor that is never closed, and one byte. If it is full, the thread has yet to read, and looks at the count then.
    unsafe { libc::write(write_end, std::ptr::from_ref(&byte).cast(), 1) };
    // SAFETY: as above.
    unsafe { *error = before };
}

/// # Safety
/// The pointer is of this thread.
unsafe fn errno() -> *mut libc::c_int {
    #[cfg(any(target_os = "linux", target_os = "emscripten", target_os = "redox"))]
    // SAFETY: no condition.
    unsafe {
        libc::__errno_location()
    }
    #[cfg(any(target_os = "macos", target_os = "ios", target_os = "freebsd"))]
    // SAFETY: no condition.
    unsafe {
        libc::__error()
    }
    #[cfg(any(target_os = "android", target_os = "netbsd", target_os = "openbsd"))]
    // SAFETY: no condition.
    unsafe {
        libc::__errno()
    }
    #[cfg(any(target_os = "solaris", target_os = "illumos"))]
    // SAFETY: no condition.
    unsafe {
        libc::___errno()
    }
}
