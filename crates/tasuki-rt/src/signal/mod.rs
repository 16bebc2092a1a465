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
//! On Unix, `unix::signal` is for every other signal, and for loops that must miss none.
//!
//! The first use of a signal replaces what it does by default, for the rest of the process: a program that has awaited `ctrl_c` once is not ended by Ctrl-C any more.
//!
//! On Unix the handler counts the signal and writes one byte to a pair of sockets; one thread of the process reads it and wakes the tasks. The thread starts with the first use, and no runtime is needed. A process that forks
//! after the first use must not await signals in the child: the thread is not there.

#[cfg(unix)]
mod pipe;
#[cfg(unix)]
pub mod unix;
#[cfg(windows)]
mod windows;

use std::io;

/// Waits until the user interrupts the program from its terminal: Ctrl-C, `SIGINT`.
///
/// It is noticed from the first poll on. On Unix, for a loop that must miss none, use [`unix::signal`].
///
/// # Cancel safety
///
/// A Ctrl-C that comes after the last poll of a dropped future, or while no future waits, is not noticed by the next call. In a loop, on Unix, keep one [`unix::Signal`] instead.
///
/// # Errors
///
/// If the system refuses the handler; on Unix also the sockets or the thread behind it.
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
