//! `Signal` and `SignalKind`: Unix signals.

use super::pipe;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;
use tasuki::runtime::Charge;

/// A kind of signal, by which [`signal`] knows what to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SignalKind(i32);

impl SignalKind {
    /// Returns the kind with this number, of any signal.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::signal::unix::{SignalKind, signal};
    ///
    /// assert!(signal(SignalKind::from_raw(9)).is_err(), "it cannot be caught");
    /// ```
    pub const fn from_raw(number: i32) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub const fn as_raw(self) -> i32 {
        self.0
    }

    /// Returns `SIGINT`: Ctrl-C.
    pub const fn interrupt() -> Self {
        Self(libc::SIGINT)
    }

    /// Returns `SIGTERM`: please end.
    pub const fn terminate() -> Self {
        Self(libc::SIGTERM)
    }

    /// Returns `SIGHUP`: the terminal is gone; by custom, read the configuration again.
    pub const fn hangup() -> Self {
        Self(libc::SIGHUP)
    }

    /// Returns `SIGQUIT`.
    pub const fn quit() -> Self {
        Self(libc::SIGQUIT)
    }

    /// Returns `SIGUSR1`.
    pub const fn user_defined1() -> Self {
        Self(libc::SIGUSR1)
    }

    /// Returns `SIGUSR2`.
    pub const fn user_defined2() -> Self {
        Self(libc::SIGUSR2)
    }

    /// Returns `SIGCHLD`: a child has ended.
    pub const fn child() -> Self {
        Self(libc::SIGCHLD)
    }

    /// Returns `SIGWINCH`: the terminal has another size.
    pub const fn window_change() -> Self {
        Self(libc::SIGWINCH)
    }
}

/// Notices a signal from now on; see [`signal`](super).
///
/// # Errors
///
/// If the signal cannot be caught, or the sockets or the thread behind it cannot be had.
///
/// # Examples
///
/// ```
/// use tasuki_rt::signal::unix::{SignalKind, signal};
///
/// let mut signals = signal(SignalKind::user_defined1()).unwrap();
/// tasuki_rt::run(async move {
///     # unsafe extern "C" { fn raise(signal: i32) -> i32; }
///     # unsafe { raise(SignalKind::user_defined1().as_raw()) };
///     signals.recv().await;
/// });
/// ```
pub fn signal(kind: SignalKind) -> io::Result<Signal> {
    let seen = pipe::install(kind.0)?;
    Ok(Signal { kind, seen })
}

/// Notices one kind of signal, from the creation of this value on. Several signals that come between two calls of [`recv`](Self::recv) are one. Made by [`signal`].
///
/// # Examples
///
/// ```no_run
/// use tasuki_rt::signal::unix::{Signal, SignalKind, signal};
/// # async fn read_configuration() {}
///
/// tasuki_rt::run(async {
///     let mut hangup: Signal = signal(SignalKind::hangup()).unwrap();
///     loop {
///         hangup.recv().await;
///         read_configuration().await;
///     }
/// });
/// ```
#[derive(Debug)]
pub struct Signal {
    kind: SignalKind,
    /// How many there had been when one was last noticed.
    seen: u32,
}

impl Signal {
    /// Waits for the signal, or returns at once if it came since the last call, or since this value was made.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: the next call notices a signal that came meanwhile.
    pub async fn recv(&mut self) {
        let mut charge = Charge::default();
        loop {
            let slot = pipe::slot(self.kind.0);
            if let Some(count) = slot.newer_than(self.seen) {
                poll_fn(|cx| charge.poll(cx)).await;
                self.seen = count;
                return;
            }
            charge.waive();
            let mut wait = pin!(slot.arrived.wait());
            poll_fn(|cx| {
                // Enqueued first, then a look: a signal that comes between the two finds the waiter.
                if wait.as_mut().poll(cx).is_ready() || slot.newer_than(self.seen).is_some() {
                    return Poll::Ready(());
                }
                Poll::Pending
            })
            .await;
        }
    }
}
