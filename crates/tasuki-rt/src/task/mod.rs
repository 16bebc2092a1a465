//! Tasks: the cell in which a spawned future lives, and how it ends.
//!
//! The cell is `async-task`'s; what it holds is a [`Body`], which keeps the promises that a cell alone does not: a
//! panic in the future, in its destructor or in the destructor of its output stays in the task; an abort is
//! seen by the next poll; the task is counted exactly as long as its future exists. (A future that the runtime refuses is no task: it is not counted, and is dropped at once by the thread that spawned it.)

pub(crate) mod abort;
pub(crate) mod builder;
mod completions;
mod contained_waker;
pub(crate) mod dump;
pub(crate) mod join;
pub(crate) mod notes;
mod output;
pub(crate) mod registry;
pub(crate) mod set;
pub(crate) mod task_counts;
mod trace;

use crate::blocking::Work;
use crate::context::{self, Context, PolledOn, SpawnSite, ThreadRole};
use crate::scheduler::Shared;
use crate::scheduler::chain::Link;
use crate::testing::PollWaker;
use async_task::{Builder, ScheduleInfo, WithInfo};
use join::JoinHandle;
use notes::TaskNotes;
use output::{Cause, TaskOutput, unobserved};
use registry::{Entry, EntryWord, RegisteredCell};
use std::fmt;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Once};
use std::task::{Poll, Waker};
use task_counts::Row;
use tasuki::task::TaskId;
use trace::traced;

pub(crate) use output::{Panic, PanicPayload, contain_panic, drop_foreign, drop_result};

/// A task that is to be polled.
pub(crate) type Runnable = async_task::Runnable<Meta>;

/// What the runtime knows of a task; lives in the cell, beside the future. In this order: what a queue, a wake and a poll need is on the
/// cell's first cache line.
#[repr(C)]
pub(crate) struct Meta {
    /// For the queue that the task is in.
    pub(crate) link: Link,
    pub(crate) id: TaskId,
    /// The runtime. It outlives the future, not the cell: the workers hold it until no task is counted, and the thread that drops a refused future holds it meanwhile.
    shared: NonNull<Shared>,
    entry: Entry,
    pub(crate) notes: TaskNotes,
}

// SAFETY: `Shared` is `Send` and `Sync`.
unsafe impl Send for Meta {}
// SAFETY: as above.
unsafe impl Sync for Meta {}

impl Meta {
    /// The worker that the task is pinned to.
    #[inline]
    pub(crate) fn home(&self) -> Option<usize> {
        self.entry.home()
    }

    /// There is no thread for this blocking work: its poll, which the caller does next, ends the task without a call of the closure.
    pub(crate) fn refuse(&self) {
        self.entry.refuse();
    }

    /// Why a task whose word says so ends without a poll of its future.
    #[cold]
    fn cause(&self, look: EntryWord) -> Cause {
        if look.is_aborted() {
            return Cause::Aborted;
        }
        // SAFETY: called by the poll of the future.
        let shared = unsafe { self.shared() };
        Cause::Refused(shared.blocking.refusal(shared))
    }

    /// Does the task belong to this runtime?
    #[inline]
    pub(crate) fn is_of(&self, shared: &Arc<Shared>) -> bool {
        ptr::eq(self.shared.as_ptr(), Arc::as_ptr(shared))
    }

    /// The runtime.
    ///
    /// # Safety
    ///
    /// The future exists, and will until the caller has let go of the reference.
    #[inline]
    pub(crate) unsafe fn shared(&self) -> &Shared {
        // SAFETY: promised by the caller; see the field.
        unsafe { self.shared.as_ref() }
    }

    /// A hold on the runtime.
    ///
    /// # Safety
    ///
    /// The future exists.
    pub(crate) unsafe fn clone_shared(&self) -> Arc<Shared> {
        // SAFETY: the pointer was made of an `Arc`, one of which is held while the future exists.
        unsafe {
            Arc::increment_strong_count(self.shared.as_ptr());
            Arc::from_raw(self.shared.as_ptr())
        }
    }

    /// The first poll leaves the task waiting: from now on the registry keeps it.
    #[cold]
    fn register(&self, waker: &Waker) {
        // SAFETY: called by the poll of the future.
        let shared = unsafe { self.shared() };
        // Tasks are polled by event loops.
        let here = context::with_own(shared, |context| context.and_then(Context::event_loop)).unwrap_or(0);
        // SAFETY: the waker of the task's own cell; once, because the word says so afterwards; removed by `forget`.
        if unsafe { shared.registry.insert(here, &self.entry, waker.clone()) } {
            waker.wake_by_ref();
        }
    }

    /// The future is gone: forgets the task.
    fn forget(&self) {
        // SAFETY: the task counts have the task until the last line, so the workers hold the runtime; after that line nothing of it is touched. A future that was refused, and is not counted, is dropped by a thread that holds the runtime.
        let shared = unsafe { self.shared() };
        let is_counted = !self.entry.look().is_uncounted();
        shared.registry.remove(&self.entry);
        shared.noted.remove(&self.notes);
        self.entry.end();
        if !is_counted {
            return;
        }
        let here = context::with_own(shared, |context| {
            let context = context?;
            if let ThreadRole::Sim(sim) = &context.role {
                sim.ended(self.id);
            }
            context.worker()
        });
        let row = if self.entry.is_blocking_work() { Row::Blocking } else { row(self.home(), here) };
        shared.task_counts.end(row);
    }
}

/// Where a task is counted, on this worker, if it is one.
fn row(home: Option<usize>, here: Option<usize>) -> Row {
    match (home, here) {
        (Some(home), _) => Row::Pinned(home),
        (None, Some(here)) => Row::Worker(here),
        (None, None) => Row::Outside,
    }
}

/// A cell of `async-task`, by the pointer of its runnable: what can be reached by it while no runnable exists.
pub(crate) enum TaskCell {}

impl TaskCell {
    /// The identity of the task.
    ///
    /// # Safety
    ///
    /// As for `look`.
    #[inline]
    unsafe fn id(cell: NonNull<()>) -> TaskId {
        // SAFETY: promised by the caller.
        unsafe { Self::look(cell, |runnable| runnable.metadata().id) }
    }

    /// Gives the metadata and a waker of a cell.
    ///
    /// # Safety
    ///
    /// The pointer is that of a cell, to which a reference exists.
    #[inline]
    unsafe fn look<R>(cell: NonNull<()>, look: impl FnOnce(&Runnable) -> R) -> R {
        // SAFETY: promised by the caller; only looked at: what is read is there for as long as the cell.
        look(&ManuallyDrop::new(unsafe { Runnable::from_raw(cell) }))
    }

    /// Panics if `async-task` does not do what is relied upon: the data of a waker is the pointer of its runnable.
    pub(crate) fn check() {
        static CHECKED: Once = Once::new();
        CHECKED.call_once(|| {
            let (runnable, task) = async_task::spawn(async {}, drop);
            let waker = runnable.waker();
            let cell = runnable.into_raw();
            // SAFETY: just given away.
            drop((unsafe { async_task::Runnable::<()>::from_raw(cell) }, task));
            assert!(ptr::eq(waker.data(), cell.as_ptr()), "an `async-task` of another shape");
        });
    }
}

// SAFETY: `check` has seen that wakers and runnables have the pointer of the cell; the metadata is in the cell, and so is its table.
unsafe impl RegisteredCell for TaskCell {
    unsafe fn entry<'a>(cell: NonNull<()>) -> &'a Entry {
        // SAFETY: promised by the caller.
        let entry = unsafe { Self::look(cell, |runnable| NonNull::from(&runnable.metadata().entry)) };
        // SAFETY: it is in the cell, which outlives its use.
        unsafe { entry.as_ref() }
    }

    unsafe fn waker(cell: NonNull<()>) -> Waker {
        // SAFETY: promised by the caller.
        unsafe { Self::look(cell, Runnable::waker) }
    }
}

impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meta").field("id", &self.id).field("home", &self.home()).finish_non_exhaustive()
    }
}

/// A task that has been spawned, or refused.
#[must_use = "a refused future is dropped by `handle`"]
pub(crate) struct Spawned<T> {
    handle: JoinHandle<T>,
    /// With a hold on the runtime, dropped after it: no worker holds the runtime for a task that is not counted, and the destructor of its future may end the
    /// caller's.
    refused: Option<(Runnable, Arc<Shared>)>,
}

impl<T> Spawned<T> {
    /// The handle. Drops the future if it was refused, which is foreign code: not inside [`context::with`].
    #[inline]
    pub(crate) fn handle(self) -> JoinHandle<T> {
        if let Some((runnable, shared)) = self.refused {
            context::drop_refused(&shared, runnable);
        }
        self.handle
    }
}

/// Spawns a task.
///
/// # Safety
///
/// The future is `Send`, or `home` is given and the future holds nothing `!Send` before its first poll, or the
/// caller is on the thread of `home`. The output may be dropped by any thread that has the handle.
#[inline]
pub(crate) unsafe fn spawn<F>(
    shared: &Arc<Shared>,
    home: Option<usize>,
    future: F,
    site: SpawnSite<'_>,
) -> Spawned<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let kind = if home.is_some() { "local" } else { "task" };
    // SAFETY: promised by the caller.
    let (runnable, handle) = unsafe { make(shared, Entry::new(home), future, kind, site) };
    Spawned { handle, refused: start(shared, home, runnable, site) }
}

/// Spawns a task that is ready at its first poll, which is done by a thread for blocking work.
pub(crate) fn spawn_blocking<T, W>(shared: &Arc<Shared>, work: W, site: SpawnSite<'_>) -> JoinHandle<T>
where
    T: Send + 'static,
    W: FnOnce() -> T + Send + 'static,
{
    // SAFETY: the future and its output are `Send`.
    let (runnable, handle) =
        unsafe { make(shared, Entry::of_blocking_work(), Work(Some(work)), "blocking", site) };
    if context::with_own(shared, |context| count_new_task(context, shared, Row::Blocking, &runnable)) {
        shared.blocking.push(shared, runnable);
    } else {
        context::drop_refused(shared, runnable);
    }
    handle
}

/// Drops blocking work that was counted before the runtime closed, and finds its threads closed: it is no task any more, and no end of the runtime waits for its destructor.
#[cold]
pub(crate) fn drop_late(shared: &Shared, work: Runnable) {
    let meta = work.metadata();
    meta.entry.mark_uncounted();
    shared.noted.remove(&meta.notes);
    shared.task_counts.end(Row::Blocking);
    context::drop_refused(shared, work);
}

/// A new task, and its handle.
///
/// # Safety
///
/// As for [`spawn`].
#[inline]
unsafe fn make<F>(
    shared: &Arc<Shared>,
    entry: Entry,
    future: F,
    kind: &'static str,
    site: SpawnSite<'_>,
) -> (Runnable, JoinHandle<F::Output>)
where
    F: Future + 'static,
    F::Output: 'static,
{
    let id = TaskId::fresh();
    let future = traced(future, id, kind, site);
    let meta = Meta {
        link: Link::new(),
        id,
        // The pointer of the `Arc`, not of a reference: holds are made of it.
        shared: NonNull::new(Arc::as_ptr(shared).cast_mut()).expect("an `Arc` points somewhere"),
        entry,
        notes: TaskNotes::new(site, kind),
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
    let cell = runnable.into_raw();
    // SAFETY: just given away.
    let runnable = unsafe { Runnable::from_raw(cell) };
    (runnable, JoinHandle::new(task, cell))
}

/// Counts the task, and pushes it where it will be run; or gives it back, to be dropped.
fn start(
    shared: &Arc<Shared>,
    home: Option<usize>,
    runnable: Runnable,
    site: SpawnSite<'_>,
) -> Option<(Runnable, Arc<Shared>)> {
    context::with_own(shared, |context| {
        if !count_new_task(context, shared, row(home, context.and_then(Context::worker)), &runnable) {
            return Some((runnable, shared.clone()));
        }
        match context.map(|context| &context.role) {
            Some(ThreadRole::Sim(sim)) => sim.spawn(home, runnable, site),
            _ => crate::scheduler::put(context, shared, runnable),
        }
        None
    })
}

/// Counts a task, and lists it for dumps; false if it is refused, and neither. `context` is that of the thread, if it belongs to this runtime.
#[inline]
fn count_new_task(context: Option<&Context>, shared: &Shared, row: Row, task: &Runnable) -> bool {
    // Blocking work is a task, too.
    let inside =
        context.is_some_and(|context| context.event_loop().is_some()) || context::is_thread_of(shared);
    let is_counted = shared.task_counts.begin(row, inside);
    if is_counted {
        shared.noted.insert(task);
    } else {
        task.metadata().entry.mark_uncounted();
    }
    is_counted
}

/// A poll of the task has ended, and the task has not: what it was granted and does not claim is revoked, which wakes other tasks.
#[inline]
pub(crate) fn poll_ended(id: TaskId, waker: &Waker) {
    contain_panic(|| tasuki::runtime::poll_ended(id, waker));
}

/// The task has ended, and its future is dropped: what it was granted and has not claimed is revoked, which wakes other tasks.
#[inline]
fn task_ended(id: TaskId) {
    contain_panic(|| tasuki::runtime::task_ended(id));
}

/// A task that is not in a cell, as that of a `block_on`; it ends when this is dropped. Declared before its future, which is dropped first.
pub(crate) struct EndsTask(pub(crate) TaskId);

impl Drop for EndsTask {
    fn drop(&mut self) {
        task_ended(self.0);
    }
}

/// The future in the cell.
struct Body<F> {
    meta: &'static Meta,
    /// `None` when it has ended.
    future: Option<F>,
}

impl<F> Body<F> {
    /// Drops the future in its place; the panic of its destructor, if it did.
    fn end(&mut self) -> Option<Box<Panic>> {
        catch_unwind(AssertUnwindSafe(|| self.future = None)).err().map(Panic::new)
    }
}

/// Polls the future, which is pinned; a panic drops it in its place while it unwinds, so that its destructors know
/// (`std::thread::panicking`).
fn poll_or_drop<F: Future>(future: &mut Option<F>, cx: &mut std::task::Context<'_>) -> Poll<F::Output> {
    struct DropWhenUnwound<'a, F>(&'a mut Option<F>);
    impl<F> Drop for DropWhenUnwound<'_, F> {
        fn drop(&mut self) {
            // Destructors may poll tasks, which may panic: the name that is on its way is not theirs.
            let name = builder::name_of_panic();
            // A second panic must not leave a destructor.
            contain_panic(|| *self.0 = None);
            builder::leave_name(name);
        }
    }
    let guard = DropWhenUnwound(future);
    let future = guard.0.as_mut().expect("not polled after its end");
    // SAFETY: pinned by its body, which never moves it.
    let poll = unsafe { Pin::new_unchecked(future) }.poll(cx);
    std::mem::forget(guard);
    poll
}

impl<F: Future> Future for Body<F> {
    type Output = TaskOutput<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<TaskOutput<F::Output>> {
        // SAFETY: a projection: the future is never moved out of the pinned whole, only dropped in place.
        let this = unsafe { self.get_unchecked_mut() };
        let look = this.meta.entry.look();
        let result = if look.ends_unpolled() {
            Err(this.meta.cause(look))
        } else {
            let polled_on = context::polled_with(cx.waker());
            this.meta.notes.begin_poll(polled_on.event_loop());
            let simulated;
            let waker = if let PolledOn::Simulated(_) = polled_on {
                simulated = PollWaker::new(cx.waker());
                context::polled_with(simulated.get());
                simulated.get()
            } else {
                cx.waker()
            };
            let polled = &mut std::task::Context::from_waker(waker);
            match catch_unwind(AssertUnwindSafe(|| poll_or_drop(&mut this.future, polled))) {
                Ok(Poll::Pending) => {
                    if !look.is_registered() {
                        this.meta.register(cx.waker());
                    }
                    this.meta.notes.end_poll();
                    poll_ended(this.meta.id, cx.waker());
                    return Poll::Pending;
                }
                Ok(Poll::Ready(output)) => Ok(output),
                Err(payload) => Err(Cause::Panicked(Panic::new(payload))),
            }
        };
        let ended = TaskOutput(Some(result));
        Poll::Ready(match this.end() {
            Some(panic) => TaskOutput(Some(Err(Cause::Panicked(panic)))),
            None => ended,
        })
    }
}

impl<F> Drop for Body<F> {
    fn drop(&mut self) {
        if let Some(panic) = self.end() {
            unobserved(panic.into_payload());
        }
        task_ended(self.meta.id);
        self.meta.forget();
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    /// A result goes through several hands: three words, the error included.
    #[test]
    fn a_result_is_small() {
        assert!(size_of::<Poll<Result<u64, crate::JoinError>>>() <= 24);
        assert!(size_of::<JoinHandle<u64>>() <= 24);
    }

    fn body<F: Future>(_: &F) -> usize {
        size_of::<Body<F>>()
    }

    /// A task that returns a number fits, with `async-task`'s own 40 bytes, into 120: the common allocators serve that much from a list of
    /// free blocks, and much more with a search.
    #[test]
    fn a_small_task_is_small() {
        let number = 5_u64;
        let future = async move { number };
        let union = body(&future).max(size_of::<Result<TaskOutput<u64>, PanicPayload>>());
        // Without what is noted for dumps, which is nothing in release builds.
        let size = 40 + size_of::<Meta>() - size_of::<TaskNotes>() + union;
        assert!(size <= 120, "{size}");
        // What docs/inspect.md says, on a machine of 64 bits.
        let noted = if notes::NotedTasks::ARE_NOTED { 80 } else { 0 };
        assert!(size_of::<usize>() != 8 || size_of::<TaskNotes>() == noted);
    }
}
