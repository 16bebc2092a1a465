//! Tasks: what is spawned, and how it ends.
//!
//! The cell is `async-task`'s; what it holds is a [`Body`], which keeps the promises that a cell alone does not: a
//! panic in the future, in its destructor or in the destructor of its output stays in the task; an abort is
//! seen by the next poll; the task is registered exactly as long as its future exists.

pub(crate) mod join;
pub(crate) mod registry;
pub(crate) mod set;

use crate::context;
use crate::error::JoinError;
use crate::scheduler::Shared;
use async_task::{Builder, ScheduleInfo, WithInfo};
use join::JoinHandle;
use registry::NO_KEY;
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use tasuki::task::TaskId;

/// A task that is to be polled.
pub(crate) type Runnable = async_task::Runnable<Meta>;

/// What a panic carries.
pub(crate) type Payload = Box<dyn Any + Send + 'static>;

/// Runs foreign code whose panic is nobody's business but the panic hook's.
pub(crate) fn quietly(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        discard(payload);
    }
}

/// Drops what a panic carried, which may panic again, with something else to drop. Whoever goes on like that is given up.
fn discard(mut payload: Payload) {
    for _ in 0..4 {
        match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return,
            Err(next) => payload = next,
        }
    }
    std::mem::forget(payload);
}

/// What the runtime knows of a task; lives in the cell, beside the future.
pub(crate) struct Meta {
    pub(crate) id: TaskId,
    pub(crate) shared: Arc<Shared>,
    home: u32,
    /// Where in its shard it is registered, and the bit [`ABORTED`].
    key: AtomicU32,
}

/// Set in a task's key when it has been asked to end.
const ABORTED: u32 = 1 << 31;

impl Meta {
    const ANYWHERE: u32 = u32::MAX;

    /// The worker that the task is pinned to.
    pub(crate) fn home(&self) -> Option<usize> {
        (self.home != Self::ANYWHERE).then_some(self.home as usize)
    }

    fn shard(&self) -> usize {
        self.shared.registry.shard_of(self.home(), self.id.get())
    }

    /// Asks the task to end; the poll that follows does it.
    pub(crate) fn abort(&self) {
        // Release: pairs with Acquire in `is_aborted`. If the task has ended, its key may be another's: that one is
        // polled for nothing.
        let key = self.key.fetch_or(ABORTED, Ordering::Release) & !ABORTED;
        if let Some(waker) = self.shared.registry.waker(self.shard(), key) {
            waker.wake();
        }
    }

    fn is_aborted(&self) -> bool {
        // Acquire: pairs with Release in `abort`.
        self.key.load(Ordering::Acquire) & ABORTED != 0
    }
}

impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meta").field("id", &self.id).field("home", &self.home()).finish_non_exhaustive()
    }
}

/// Spawns a task.
///
/// # Safety
///
/// The future is `Send`, or `home` is given and the future holds nothing `!Send` before its first poll, or the
/// caller is on the thread of `home`. The output may be dropped by whoever has the handle.
pub(crate) unsafe fn spawn<F>(shared: &Arc<Shared>, home: Option<usize>, future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let meta = Meta {
        id: TaskId::fresh(),
        shared: shared.clone(),
        home: home.map_or(Meta::ANYWHERE, |home| home as u32),
        key: AtomicU32::new(NO_KEY),
    };
    // SAFETY: the future is polled and dropped where its caller allows it: runnables of pinned tasks stay at home
    // (docs/scheduler.md, "Pinned tasks"). `schedule` is `Send`, `Sync` and captures nothing. The metadata outlives
    // the future: both live in the cell, which is freed after the future was dropped.
    let (runnable, task) = unsafe {
        Builder::new().metadata(meta).spawn_unchecked(
            move |meta: &'static Meta| Body { meta, future: Some(future) },
            WithInfo(|runnable: Runnable, info: ScheduleInfo| crate::scheduler::schedule(runnable, info)),
        )
    };
    let meta = runnable.metadata();
    match shared.registry.insert(meta.shard(), runnable.waker(), || context::is_thread_of(shared)) {
        Ok(key) => {
            // Relaxed: whoever runs the task gets it through a queue.
            meta.key.store(key, Ordering::Relaxed);
            let handle = JoinHandle::new(task);
            runnable.schedule();
            handle
        }
        Err(waker) => {
            drop(waker);
            drop(runnable);
            JoinHandle::new(task)
        }
    }
}

/// Why a task has no output. Small, because every task has room for one.
pub(crate) enum Cause {
    Panicked(Box<Payload>),
    Aborted,
}

impl Cause {
    pub(crate) fn of(self, id: TaskId) -> JoinError {
        match self {
            Self::Panicked(payload) => JoinError::panicked(id, *payload),
            Self::Aborted => JoinError::aborted(id),
        }
    }
}

/// How a task ended. Its destructor lets no panic out.
pub(crate) struct Ended<T>(Option<Result<T, Cause>>);

impl<T> Ended<T> {
    pub(crate) fn take(mut self) -> Result<T, Cause> {
        self.0.take().expect("taken once")
    }
}

impl<T> Drop for Ended<T> {
    fn drop(&mut self) {
        if let Some(result) = self.0.take() {
            quietly(|| drop(result));
        }
    }
}

/// The future in the cell.
struct Body<F> {
    meta: &'static Meta,
    /// `None` when it has ended.
    future: Option<F>,
}

impl<F> Body<F> {
    /// Drops the future in its place; what its destructor panicked with, if it did.
    fn end(&mut self) -> Option<Payload> {
        catch_unwind(AssertUnwindSafe(|| self.future = None)).err()
    }
}

impl<F: Future> Future for Body<F> {
    type Output = Ended<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended<F::Output>> {
        // SAFETY: a projection: the future is never moved out of the pinned whole, only dropped in place.
        let this = unsafe { self.get_unchecked_mut() };
        let result = if this.meta.is_aborted() {
            Err(Cause::Aborted)
        } else {
            let future = this.future.as_mut().expect("not polled after its end");
            // SAFETY: as above.
            let future = unsafe { Pin::new_unchecked(future) };
            match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(output)) => Ok(output),
                Err(payload) => Err(Cause::Panicked(Box::new(payload))),
            }
        };
        let ended = Ended(Some(result));
        Poll::Ready(match this.end() {
            Some(payload) => Ended(Some(Err(Cause::Panicked(Box::new(payload))))),
            None => ended,
        })
    }
}

impl<F> Drop for Body<F> {
    fn drop(&mut self) {
        if let Some(payload) = self.end() {
            discard(payload);
        }
        // Relaxed: see `spawn`.
        let key = self.meta.key.load(Ordering::Relaxed) & !ABORTED;
        if key != NO_KEY {
            drop(self.meta.shared.registry.remove(self.meta.shard(), key));
        }
    }
}
