//! What hyper wants of a runtime beside tasks: a socket to read and write, and a clock.

use async_io::Async;
use hyper::rt::{Read, ReadBufCursor, Sleep, Timer, Write};
use std::future::Future;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// A socket of `async-io`, whose reactor wakes the task when it is ready.
pub(crate) struct Socket(pub(crate) Async<TcpStream>);

impl Read for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [0; 4096];
        let room = into.remaining().min(bytes.len());
        loop {
            match self.0.get_ref().read(&mut bytes[..room]) {
                Ok(count) => {
                    into.put_slice(&bytes[..count]);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => ready!(self.0.poll_readable(cx))?,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl Write for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.0.get_ref().write(bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => ready!(self.0.poll_writable(cx))?,
                result => return Poll::Ready(result),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.get_ref().shutdown(Shutdown::Write))
    }
}

/// The timers of the worker that waits.
#[derive(Clone, Copy)]
pub(crate) struct Clock;

impl Timer for Clock {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Nap(tasuki_rt::sleep(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Nap(tasuki_rt::sleep_until(deadline)))
    }

    fn now(&self) -> Instant {
        tasuki_rt::now()
    }
}

/// A sleep, under a name of our own for the foreign trait.
struct Nap<F>(F);

impl<F: Future<Output = ()> + Send + Sync> Sleep for Nap<F> {}

impl<F: Future> Future for Nap<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: a projection: the only field is pinned with the whole, which has no destructor of its own.
        unsafe { self.map_unchecked_mut(|nap| &mut nap.0) }.poll(cx)
    }
}
