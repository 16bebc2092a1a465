//! What the tests share: runtimes, the watchdog, threads that are recognised, wakers that panic.
#![allow(dead_code, unused_imports, unused_macros, reason = "each test program uses a part of the kit")]

pub(crate) mod alloc;
#[path = "../../../tasuki/tests/kit/process.rs"]
pub(crate) mod process;
pub(crate) mod program;
#[path = "../../../tasuki/tests/kit/sources.rs"]
pub(crate) mod sources;
#[path = "../../../tasuki/tests/kit/traits.rs"]
pub(crate) mod traits;
#[path = "../../../tasuki/tests/kit/waker.rs"]
pub(crate) mod waker;
#[path = "../../../tasuki/tests/kit/watchdog.rs"]
mod watchdog_of_tasuki;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};
use tasuki_rt::Runtime;
pub(crate) use watchdog_of_tasuki::watchdog;

pub(crate) fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("a runtime can be made")
}

pub(crate) const MS: Duration = Duration::from_millis(1);

/// `full` outside Miri, where a task is polled some fifty times a second, `small` under it.
pub(crate) const fn scaled(full: usize, small: usize) -> usize {
    if cfg!(miri) { small } else { full }
}

/// Waits with the thread until it is so; the watchdog ends it otherwise.
pub(crate) fn until(mut so: impl FnMut() -> bool) {
    while !so() {
        thread::sleep(MS / 4);
    }
}

/// Counts its drops, and says on which thread the last one was.
#[derive(Clone, Default)]
pub(crate) struct Drops(Arc<(AtomicUsize, std::sync::Mutex<Option<ThreadId>>)>);

impl Drops {
    pub(crate) fn count(&self) -> usize {
        self.0.0.load(Ordering::SeqCst)
    }

    pub(crate) fn thread(&self) -> Option<ThreadId> {
        *self.0.1.lock().unwrap()
    }

    /// Something that is counted when it is dropped.
    pub(crate) fn one(&self) -> Counted {
        Counted(self.clone())
    }
}

pub(crate) struct Counted(Drops);

impl Drop for Counted {
    fn drop(&mut self) {
        *self.0.0.1.lock().unwrap() = Some(thread::current().id());
        self.0.0.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Waits for a future as an executor that is none of ours does: its waker unparks this thread.
pub(crate) fn wait_as_a_foreign_executor<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Polls once with this waker.
pub(crate) fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// A waker that panics when it is called, and counts that.
pub(crate) fn panicking_waker() -> (Waker, Arc<AtomicUsize>) {
    struct Hostile(Arc<AtomicUsize>);
    impl Wake for Hostile {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("a hostile waker");
        }
    }
    let calls = Arc::new(AtomicUsize::new(0));
    (Waker::from(Arc::new(Hostile(calls.clone()))), calls)
}
