//! `Registered`: a socket and its registration with the poller of its runtime, of which every public type of `net`, and `io::Async`, is made.
//!
//! An operation tries, and waits for readiness where the system would block (`source.rs`). The drop takes the registration back before it closes the socket.

use super::poller::{self, Poller};
use super::readiness::{Direction, Drained, Seen};
use super::source::Source;
use crate::task::contain_panic;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A socket that is registered with the poller of a runtime, until it is dropped.
pub(crate) struct Registered<S: mio::event::Source> {
    /// There until the drop.
    io: Option<S>,
    source: Arc<Source>,
    poller: Arc<Poller>,
}

impl<S: mio::event::Source> Registered<S> {
    /// Registers a socket that is non-blocking, with the runtime of this thread. The first operation tries without waiting.
    pub(crate) fn new(io: S) -> io::Result<Self> {
        Self::with(io, true)
    }

    /// As [`new`](Self::new), for a socket that is known not to be ready.
    pub(crate) fn not_ready(io: S) -> io::Result<Self> {
        Self::with(io, false)
    }

    fn with(mut io: S, ready: bool) -> io::Result<Self> {
        let poller = poller::current()?;
        let source = poller.register(&mut io, ready)?;
        Ok(Self { io: Some(io), source, poller })
    }

    /// Is this process a fork of the one that registered it? Then the drop leaves it to the parent.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.poller.is_elsewhere()
    }

    /// Another kind of socket, with the runtime of this one.
    pub(crate) fn register_beside<O: mio::event::Source>(&self, mut io: O) -> io::Result<Registered<O>> {
        let source = self.poller.register(&mut io, true)?;
        Ok(Registered { io: Some(io), source, poller: self.poller.clone() })
    }

    #[inline]
    pub(crate) fn io(&self) -> &S {
        self.io.as_ref().expect("taken by the drop only")
    }

    #[cfg_attr(not(unix), allow(dead_code, reason = "for `Async`"))]
    pub(crate) fn io_mut(&mut self) -> &mut S {
        self.io.as_mut().expect("taken by the drop only")
    }

    /// Takes the socket back from the poller.
    pub(crate) fn into_inner(mut self) -> S {
        self.take().expect("taken by the drop only")
    }

    fn take(&mut self) -> Option<S> {
        let mut io = self.io.take()?;
        self.poller.deregister(&mut io, &self.source);
        Some(io)
    }

    /// Waits until the socket is ready in this direction, or was not asked yet.
    pub(crate) async fn ready(&self, direction: Direction) -> io::Result<()> {
        self.source.ready(direction).await.map(drop)
    }

    #[cfg_attr(not(unix), allow(dead_code, reason = "for `Async`"))]
    pub(crate) fn poll_ready(&self, cx: &Context<'_>, direction: Direction) -> Poll<io::Result<()>> {
        self.source.poll_readiness(cx, direction)
    }

    /// The operation of the one task that polls this direction is dropped: its waker is kept no longer.
    #[inline]
    pub(crate) fn cancel(&self, direction: Direction) {
        if let Some(waker) = self.source.readiness.cancel(direction) {
            // Dropped by a panic, a second one would end the process.
            if std::thread::panicking() { contain_panic(|| drop(waker)) } else { drop(waker) }
        }
    }

    /// Charges an operation that asks nothing of the poller.
    pub(crate) fn poll_charge(&self, cx: &Context<'_>, direction: Direction) -> Poll<()> {
        self.source.poll_charge(cx, direction)
    }

    /// A read without room, or a write of nothing to a stream: 0 bytes. The system is not asked: while there is nothing to read it would refuse, and some systems do while there is no room.
    pub(crate) fn move_nothing(&self) -> io::Result<usize> {
        self.check_open().map(|()| 0)
    }

    /// An error after the runtime has shut down, for what asks the system nothing.
    pub(crate) fn check_open(&self) -> io::Result<()> {
        self.source.observe().map(drop)
    }

    /// The same, charged to the task that reads or writes.
    #[cold]
    pub(crate) fn poll_move_nothing(
        &self,
        cx: &Context<'_>,
        direction: Direction,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_charge(cx, direction));
        Poll::Ready(self.move_nothing())
    }

    /// One operation now. The system is asked in any case: what is known of readiness may be older than what is there.
    pub(crate) fn try_io<R>(
        &self,
        direction: Direction,
        mut operation: impl FnMut(&S) -> io::Result<R>,
    ) -> io::Result<R> {
        let seen = self.source.observe()?;
        let result = uninterrupted(|| operation(self.io()));
        if would_block(&result) {
            self.source.readiness.clear(seen, direction, Drained::WouldBlock);
        }
        result
    }

    /// One operation now, which neither asks for readiness nor changes it: a send to a named receiver. If that one is full it would block, whether this socket is ready or not.
    #[cfg_attr(not(unix), allow(dead_code, reason = "for `UnixDatagram`"))]
    pub(crate) fn try_apart<R>(&self, mut operation: impl FnMut(&S) -> io::Result<R>) -> io::Result<R> {
        self.source.observe()?;
        uninterrupted(|| operation(self.io()))
    }

    /// The operation, as soon as the socket is ready, for the one task that polls this direction.
    #[cfg_attr(not(unix), allow(dead_code, reason = "for `Async`"))]
    #[inline]
    pub(crate) fn poll_io<R>(
        &self,
        cx: &Context<'_>,
        direction: Direction,
        mut operation: impl FnMut(&S) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_io_seen(cx, direction, |io, _| operation(io))
    }

    /// The same for bytes: a stream that moved fewer than `room` has no more for now.
    #[inline]
    pub(crate) fn poll_bytes(
        &self,
        cx: &Context<'_>,
        direction: Direction,
        room: usize,
        mut operation: impl FnMut(&S) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.poll_io_seen(cx, direction, |io, seen| {
            let result = operation(io);
            // Elsewhere urgent data is not reported, at whose mark a read ends short; and on Windows readiness is armed again by an operation that would block.
            #[cfg(any(target_os = "linux", target_os = "android"))]
            if let Ok(count) = result {
                if 0 < count && count < room {
                    self.source.readiness.clear(seen, direction, Drained::ShortCount);
                }
            }
            #[cfg(not(any(target_os = "linux", target_os = "android")))]
            let _ = (seen, room);
            result
        })
    }

    #[inline]
    fn poll_io_seen<R>(
        &self,
        cx: &Context<'_>,
        direction: Direction,
        mut operation: impl FnMut(&S, Seen) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        loop {
            let seen = ready!(self.source.poll_ready(cx, direction))?;
            let result = uninterrupted(|| operation(self.io(), seen));
            if !would_block(&result) {
                return Poll::Ready(result);
            }
            self.source.readiness.clear(seen, direction, Drained::WouldBlock);
        }
    }

    /// The operation, as soon as the socket is ready, beside other tasks that do the same.
    pub(crate) async fn async_io<R>(
        &self,
        direction: Direction,
        mut operation: impl FnMut(&S) -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            let seen = self.source.ready(direction).await?;
            let result = uninterrupted(|| operation(self.io()));
            if !would_block(&result) {
                return result;
            }
            self.source.readiness.clear(seen, direction, Drained::WouldBlock);
        }
    }
}

impl<S: mio::event::Source> Drop for Registered<S> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<S: mio::event::Source + fmt::Debug> fmt::Debug for Registered<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io().fmt(f)
    }
}

pub(crate) fn would_block<R>(result: &io::Result<R>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// A signal that interrupts a system call is nothing to the caller.
#[inline]
fn uninterrupted<R>(mut operation: impl FnMut() -> io::Result<R>) -> io::Result<R> {
    loop {
        match operation() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
