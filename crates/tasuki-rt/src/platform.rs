//! What the runtime asks of the platform, sockets and signals aside: pinning threads to processors (Linux only), and whether there are threads and a clock. Outside of `io/`, `net/` and `signal/` no other file
//! asks for a `target_os`.

use std::fmt;
use std::io;

#[cfg(target_os = "linux")]
mod system {
    use std::io;

    /// As many processors as a set can name here.
    const MOST: usize = 8192;
    const BITS: usize = usize::BITS as usize;

    /// One bit for each processor, as the system wants it.
    #[repr(C)]
    pub(super) struct ProcessorSet([usize; MOST / BITS]);

    unsafe extern "C" {
        // Of the C library, which `std` links; the first argument 0 is the calling thread.
        fn sched_getaffinity(thread: i32, bytes: usize, set: *mut ProcessorSet) -> i32;
        fn sched_setaffinity(thread: i32, bytes: usize, set: *const ProcessorSet) -> i32;
    }

    fn outcome(result: i32) -> io::Result<()> {
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// All that the calling thread, and so the process, may use. Fails if one of these is not among them.
    pub(super) fn check(processors: &[usize]) -> io::Result<ProcessorSet> {
        let mut set = ProcessorSet([0; MOST / BITS]);
        // SAFETY: writes at most as many bytes as it is told there are.
        outcome(unsafe { sched_getaffinity(0, size_of::<ProcessorSet>(), &raw mut set) })?;
        let may =
            |processor: usize| processor < MOST && set.0[processor / BITS] & (1 << (processor % BITS)) != 0;
        match processors.iter().find(|processor| !may(**processor)) {
            None => Ok(set),
            Some(processor) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("this process may not use processor {processor}: pass others to `pin_workers`"),
            )),
        }
    }

    pub(super) fn pin_thread(processor: usize) -> io::Result<()> {
        let mut set = ProcessorSet([0; MOST / BITS]);
        set.0[processor / BITS] = 1 << (processor % BITS);
        pin_to(&set)
    }

    pub(super) fn pin_to(set: &ProcessorSet) -> io::Result<()> {
        // SAFETY: reads as many bytes as there are.
        outcome(unsafe { sched_setaffinity(0, size_of::<ProcessorSet>(), set) })
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    /// There is none.
    pub(super) enum ProcessorSet {}

    fn unsupported<T>() -> io::Result<T> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "workers can be pinned to processors on Linux only: leave out `pin_workers`",
        ))
    }

    pub(super) fn check(_: &[usize]) -> io::Result<ProcessorSet> {
        unsupported()
    }

    pub(super) fn pin_thread(_: usize) -> io::Result<()> {
        unsupported()
    }

    pub(super) fn pin_to(set: &ProcessorSet) -> io::Result<()> {
        match *set {}
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

/// The processors that a process may use, for its threads that are not pinned: a thread begins where the thread may run that starts it, which may be pinned.
pub(crate) struct AllowedProcessors(system::ProcessorSet);

impl AllowedProcessors {
    /// Lets the calling thread run on all of them. Those that were taken from the process meanwhile are done without.
    pub(crate) fn free_thread(&self) {
        let _ = system::pin_to(&self.0);
    }
}

impl fmt::Debug for AllowedProcessors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AllowedProcessors")
    }
}

/// Can threads of this process be pinned to these processors? Those that it may use.
pub(crate) fn check_processors(processors: &[usize]) -> io::Result<AllowedProcessors> {
    system::check(processors).map(AllowedProcessors)
}

/// Pins the calling thread to a processor that was checked.
pub(crate) fn pin_thread(processor: usize) -> io::Result<()> {
    system::pin_thread(processor)
}
