//! Signals of the operating system, to be awaited.
//!
//! ```no_run
//! # async fn serve() {}
//! tasuki_rt::run(async {
//!     let server = tasuki_rt::spawn(serve());
//!     tasuki_rt::signal::ctrl_c().await.unwrap();
//!     server.abort();
//! });
//! ```
//!
//! The first use of a signal replaces what it does by default, for the rest of the process: a program that awaits `ctrl_c` is not ended by it any more. A handler may do
//! very little, so it counts the signal and writes one byte to a pipe; one thread of the process reads it, and wakes the tasks. It starts with the first use, and no runtime is needed.
//!
//! A process that forks after the first use must not await signals in the child: the thread is not there.

#[cfg(unix)]
mod pipe;
#[cfg(unix)]
pub mod unix;
#[cfg(windows)]
mod windows;

use std::io;

/// Waits until the user interrupts the program from its terminal: Ctrl-C, `SIGINT`.
///
/// It is noticed from the first poll on. For a loop that must miss none, on Unix use [`unix::signal`].
///
/// # Cancel safety
///
/// Nothing is lost but what comes while no future waits.
///
/// # Errors
///
/// If the system refuses the handler; on Unix also the pipe or the thread behind it.
///
/// # Examples
///
/// See the page of [`signal`](self).
pub async fn ctrl_c() -> io::Result<()> {
    #[cfg(unix)]
    {
        unix::signal(unix::SignalKind::interrupt())?.recv().await;
        Ok(())
    }
    #[cfg(windows)]
    {
        windows::ctrl_c().await
    }
    #[cfg(not(any(unix, windows)))]
    {
        Err(io::ErrorKind::Unsupported.into())
    }
}
