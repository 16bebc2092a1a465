//! What the runtime asks of the platform, sockets and signals aside: pinning threads to processors (Linux only), and whether there are threads and a clock. Outside of `io/`, `net/` and `signal/` no other file
//! asks for a `target_os`.

use std::io;

#[cfg(target_os = "linux")]
mod system {
    use std::io;

    /// As many processors as a set can name here.
    const MOST: usize = 8192;
    const BITS: usize = usize::BITS as usize;

    /// One bit for each processor, as the system wants it.
    #[repr(C)]
    struct Set([usize; MOST / BITS]);

    unsafe extern "C" {
        // Of the C library, which `std` links; the first argument 0 is the calling thread.
        fn sched_getaffinity(thread: i32, bytes: usize, set: *mut Set) -> i32;
        fn sched_setaffinity(thread: i32, bytes: usize, set: *const Set) -> i32;
    }

    fn outcome(result: i32) -> io::Result<()> {
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Fails for a processor that the calling thread, and so the process, may not use.
    pub(super) fn check(processors: &[usize]) -> io::Result<()> {
        let mut set = Set([0; MOST / BITS]);
        // SAFETY: writes at most as many bytes as it is told there are.
        outcome(unsafe { sched_getaffinity(0, size_of::<Set>(), &raw mut set) })?;
        let may =
            |processor: usize| processor < MOST && set.0[processor / BITS] & (1 << (processor % BITS)) != 0;
        match processors.iter().find(|processor| !may(**processor)) {
            None => Ok(()),
            Some(processor) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("this process may not use processor {processor}: pass others to `pin_workers`"),
            )),
        }
    }

    pub(super) fn pin_thread(processor: usize) -> io::Result<()> {
        let mut set = Set([0; MOST / BITS]);
        set.0[processor / BITS] = 1 << (processor % BITS);
        // SAFETY: reads as many bytes as there are.
        outcome(unsafe { sched_setaffinity(0, size_of::<Set>(), &raw const set) })
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    fn unsupported() -> io::Result<()> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "workers can be pinned to processors on Linux only: leave out `pin_workers`",
        ))
    }

    pub(super) fn check(_: &[usize]) -> io::Result<()> {
        unsupported()
    }

    pub(super) fn pin_thread(_: usize) -> io::Result<()> {
        unsupported()
    }
}

/// Has the system what a runtime needs?
pub(crate) fn check_system() -> io::Result<()> {
    if cfg!(all(target_family = "wasm", target_os = "unknown")) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "wasm32-unknown-unknown has no threads and no clock: use the primitives of `tasuki` under the browser's own executor",
        ));
    }
    Ok(())
}

/// Can threads of this process be pinned to these processors?
pub(crate) fn check_processors(processors: &[usize]) -> io::Result<()> {
    system::check(processors)
}

/// Pins the calling thread to a processor that was checked.
pub(crate) fn pin_thread(processor: usize) -> io::Result<()> {
    system::pin_thread(processor)
}
