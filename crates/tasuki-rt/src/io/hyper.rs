//! Implements hyper's `rt` traits (feature `hyper`): `Read` and `Write` for the streams of `net`, `Timer` and `Sleep`, `Executor`. No other file uses hyper.

use super::stream_traits::{for_readers, writes};
use crate::net::PollStream;
use hyper::rt::{Executor, Read, ReadBufCursor, Sleep, Timer, Write};
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

macro_rules! reads {
    ([$($generics:tt)*] $of:ty) => {
        impl<$($generics)*> Read for $of {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                mut into: ReadBufCursor<'_>,
            ) -> Poll<io::Result<()>> {
                // SAFETY: the stream writes nothing uninitialised there.
                let count = ready!(self.poll_read_into(cx, unsafe { into.as_mut() }))?;
                // SAFETY: so many bytes were read.
                unsafe { into.advance(count) };
                Poll::Ready(Ok(()))
            }
        }
    };
}

for_readers! { reads }
writes! { Write, poll_shutdown,
    fn is_write_vectored(&self) -> bool {
        true
    }
}

/// The executor for hyper (`hyper::rt::Executor`): spawns what hyper wants to run beside a connection, on the runtime of the thread that asks. Panics where there is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct HyperExecutor;

impl<F> Executor<F> for HyperExecutor
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn execute(&self, future: F) {
        drop(crate::spawn(future));
    }
}

/// The timer for hyper (`hyper::rt::Timer`): its sleeps are those of [`sleep`](crate::sleep()), kept by the worker that polls them.
#[derive(Clone, Copy, Debug, Default)]
pub struct HyperTimer;

impl Timer for HyperTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(HyperSleep(crate::sleep(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(HyperSleep(crate::sleep_until(deadline)))
    }

    fn now(&self) -> Instant {
        crate::now()
    }
}

/// A sleep, under a name of our own for the foreign trait.
struct HyperSleep<F>(F);

impl<F: Future<Output = ()> + Send + Sync> Sleep for HyperSleep<F> {}

impl<F: Future> Future for HyperSleep<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: a projection: the only field is pinned with the whole, which has no destructor of its own.
        unsafe { self.map_unchecked_mut(|sleep| &mut sleep.0) }.poll(cx)
    }
}
