//! Threads for blocking work: one pool for each runtime.
//!
//! A closure of `spawn_blocking` is a task whose first poll is the whole of it, and whose [`Runnable`] goes to this pool instead of a worker. So it is
//! counted, aborted, joined and dropped as every other task. A thread is started for each closure that no idle thread can take, up
//! to a limit; beyond that closures wait in the order they were spawned in. A thread that was idle for some time ends.
//!
//! # States of a closure
//!
//! | from | event | to | fn |
//! |---|---|---|---|
//! | new | spawned | queued, for an idle thread or a new one | [`BlockingPool::push`] |
//! | queued | a thread is free | running, or dropped if it was aborted | [`BlockingPool::next`] |
//! | queued | the system refuses the only thread | refused: its handle says so | [`BlockingPool::push`] |
//! | new | spawned in the child of a fork, after threads were started in the parent | refused: its handle says so | [`BlockingPool::push`] |
//! | queued | shutdown | dropped | [`BlockingPool::close`] |
//! | new | counted before the runtime closed, and here after the pool has | dropped, no task any more | [`BlockingPool::push`] |
//! | running | it returns or panics | ended | `run` |
//!
//! A closure that is running is not interrupted: abort has no effect on it, and shutdown waits for it.
//!
//! # Invariants
//! 1. `idle ≤ threads ≤ limit`, `threads ≤ unended`; `threads` counts those that are being started, and `unended` also those whose hook of the stop has not returned.
//! 2. While closures are queued there is a thread, which looks into the queue before it waits or ends.
//! 3. No closure is run or dropped under the lock.
//! 4. Every thread is joined, which waits for the destructors of its thread-local variables. One that ends before the pool closes moves its handle from `handles` to `last_ended`, and joins the thread whose
//!    handle was there; the others are joined by [`BlockingPool::join`].

use crate::context::{self, Context, ThreadRole};
use crate::metrics::BlockingMetrics;
use crate::scheduler::Shared;
use crate::task::{self, Runnable};
use crate::threads::elsewhere;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tasuki::runtime::uncharged;

/// How many threads there may be, unless the builder says otherwise.
pub(crate) const DEFAULT_LIMIT: usize = 512;
/// How long a thread waits for work before it ends, unless the builder says otherwise.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Closures for which the queue keeps its memory when it is empty.
const KEPT_QUEUE: usize = 1024;

/// The threads of a runtime for blocking work.
#[derive(Debug)]
pub(crate) struct BlockingPool {
    state: Mutex<PoolState>,
    /// There is a closure for an idle thread, or the pool closes.
    work: Condvar,
    /// A thread has ended, or its handle is there, for which it waits; while the pool closes, also: a closure has ended.
    ended: Condvar,
    /// How long a thread waits for work before it ends.
    keep_alive: Duration,
}

#[derive(Debug)]
struct PoolState {
    queue: VecDeque<Runnable>,
    threads: usize,
    unended: usize,
    idle: usize,
    handles: Vec<JoinHandle<()>>,
    last_ended: Option<JoinHandle<()>>,
    limit: usize,
    closed: bool,
    /// The last thread to end says that a worker has ended.
    ends_worker: bool,
    /// Why the system refused the last thread that it refused.
    refusal: Option<io::Error>,
    /// Threads are refused, in tests.
    refuses: bool,
}

/// A closure as a future that is ready at its first poll.
pub(crate) struct Work<W>(pub(crate) Option<W>);

// Nothing is pinned.
impl<W> Unpin for Work<W> {}

impl<T, W: FnOnce() -> T> Future for Work<W> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<T> {
        let work = self.0.take().expect("ready at the first poll");
        Poll::Ready(work())
    }
}

impl BlockingPool {
    pub(crate) fn new(limit: usize, keep_alive: Duration) -> Self {
        let state = PoolState {
            queue: VecDeque::new(),
            threads: 0,
            unended: 0,
            idle: 0,
            handles: Vec::new(),
            last_ended: None,
            limit,
            closed: false,
            ends_worker: false,
            refusal: None,
            refuses: false,
        };
        Self { state: Mutex::new(state), work: Condvar::new(), ended: Condvar::new(), keep_alive }
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a closure, and sees to it that a thread will run it. Closed: drops it. In the child of a fork, if threads were started before it: refuses it.
    pub(crate) fn push(&self, shared: &Arc<Shared>, work: Runnable) {
        // Before the lock: one of the parent's threads may have held it at the fork, and those that count as idle are not here.
        if shared.threads.are_elsewhere() {
            return refuse(shared, work);
        }
        let mut state = self.state();
        if state.closed {
            drop(state);
            return task::drop_late(shared, work);
        }
        state.queue.push_back(work);
        // Each idle thread takes one.
        if state.queue.len() <= state.idle {
            self.work.notify_one();
        } else if state.threads < state.limit {
            state.threads += 1;
            state.unended += 1;
            let refuses = state.refuses;
            drop(state);
            match start(shared.clone(), refuses) {
                Ok(handle) => {
                    self.state().handles.push(handle);
                    // It may have ended, and wait for its handle.
                    self.ended.notify_all();
                }
                Err(error) => self.not_started(shared, error),
            }
        }
    }

    /// The system refused a thread: another one will take the closure, if there is another. If not, the task ends without a call of the closure, and by no unwinding: it ends so in a program
    /// that aborts on a panic, too.
    #[cold]
    fn not_started(&self, shared: &Shared, error: io::Error) {
        let mut state = self.state();
        state.threads -= 1;
        state.refusal = Some(error);
        let queue = if state.threads == 0 { std::mem::take(&mut state.queue) } else { VecDeque::new() };
        drop(state);
        for work in queue {
            refuse(shared, work);
        }
        self.has_ended(shared);
    }

    /// Why closures of this runtime are refused, for each of them.
    pub(crate) fn refusal(&self, shared: &Shared) -> io::Error {
        if shared.threads.are_elsewhere() {
            return elsewhere();
        }
        match &self.state().refusal {
            Some(error) => io::Error::new(error.kind(), error.to_string()),
            None => io::ErrorKind::WouldBlock.into(),
        }
    }

    /// A closure for this thread; `None` when it should end, and no longer counts.
    fn next(&self) -> Option<Runnable> {
        let mut state = self.state();
        if state.closed {
            self.ended.notify_all();
        }
        loop {
            if let Some(work) = state.queue.pop_front() {
                if state.queue.is_empty() && state.queue.capacity() > KEPT_QUEUE {
                    state.queue = VecDeque::new();
                }
                return Some(work);
            }
            let mut late = state.closed;
            if !late {
                state.idle += 1;
                let (again, waited) =
                    self.work.wait_timeout(state, self.keep_alive).unwrap_or_else(PoisonError::into_inner);
                state = again;
                state.idle -= 1;
                late = waited.timed_out() || state.closed;
            }
            if late && state.queue.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }

    /// Takes no more closures, and ends the idle threads. Returns the closures that have not begun, to be dropped.
    pub(crate) fn close(&self) -> VecDeque<Runnable> {
        let mut state = self.state();
        state.closed = true;
        self.work.notify_all();
        std::mem::take(&mut state.queue)
    }

    /// A thread has ended, and its hook has returned; or it was not started.
    fn has_ended(&self, shared: &Shared) {
        let mut state = self.state();
        state.unended -= 1;
        let ends_worker = state.unended == 0 && state.ends_worker;
        drop(state);
        self.ended.notify_all();
        if ends_worker {
            shared.shutdown.has_ended();
        }
    }

    /// The calling thread ends. Gives its handle to the next one that ends, or to the end of the pool, and comes back with that of the one before, to be joined; `None` if the pool has closed, which
    /// joins all.
    fn leave(&self) -> Option<JoinHandle<()>> {
        let this = thread::current().id();
        let mut state = self.state();
        loop {
            if let Some(at) = state.handles.iter().position(|handle| handle.thread().id() == this) {
                if state.closed {
                    return None;
                }
                let own = state.handles.swap_remove(at);
                return state.last_ended.replace(own);
            }
            // The thread that started it has not brought it yet.
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// When all threads have ended: waits for the destructors of their thread-local variables.
    pub(crate) fn join(&self) {
        let mut state = self.state();
        let last = state.last_ended.take();
        let handles = std::mem::take(&mut state.handles);
        drop(state);
        handles.into_iter().chain(last).for_each(|handle| drop(handle.join()));
    }

    /// Leaves it to the last thread to say that a worker has ended, for a caller that does not wait for blocking work. False if the pool is not closed, or there is no thread: then it is for the
    /// caller to say.
    #[must_use]
    pub(crate) fn ends_worker(&self) -> bool {
        let mut state = self.state();
        let ends_worker = state.closed && state.unended > 0 && !state.ends_worker;
        state.ends_worker |= ends_worker;
        ends_worker
    }

    /// Waits until a closure or a thread ends, or this time is over. False if there is no thread.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let state = self.state();
        let busy = state.unended > 0;
        if busy {
            drop(self.ended.wait_timeout(state, timeout));
        }
        busy
    }

    /// Does a thread run a closure?
    pub(crate) fn is_busy(&self) -> bool {
        let state = self.state();
        state.threads > state.idle
    }

    pub(crate) fn metrics(&self) -> BlockingMetrics {
        let state = self.state();
        BlockingMetrics { threads: state.threads, idle: state.idle, queued: state.queue.len() }
    }
}

/// Ends the task without a call of its closure.
#[cold]
fn refuse(shared: &Shared, work: Runnable) {
    work.metadata().refuse();
    // Its poll drops the closure.
    context::run_refused(shared, || _ = work.run());
}

fn start(shared: Arc<Shared>, refuses: bool) -> io::Result<JoinHandle<()>> {
    if refuses {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    shared.threads.start_here();
    let settings = shared.threads.settings.clone();
    let id = shared.id;
    let body = |shared: Arc<Shared>| {
        let ended = ThreadEnds(shared.clone());
        main(&Context::new(shared, ThreadRole::Outside));
        ended
    };
    settings.spawn(id, "block", shared, body).map_err(|(error, _)| error)
}

/// Dropped when a thread has ended, and its hook has returned.
struct ThreadEnds(Arc<Shared>);

impl Drop for ThreadEnds {
    fn drop(&mut self) {
        let earlier = self.0.blocking.leave();
        self.0.blocking.has_ended(&self.0);
        if let Some(earlier) = earlier {
            let _ = earlier.join();
        }
    }
}

/// The life of a thread.
fn main(context: &Context) {
    let shared = &context.shared;
    context.enter(|| {
        while let Some(work) = shared.blocking.next() {
            run(context, work);
        }
    });
}

fn run(context: &Context, work: Runnable) {
    let id = work.metadata().id;
    // Not a poll that others wait for: it may do as much as it likes.
    context.poll(id, || uncharged(|| work.run()));
}

#[cfg(test)]
mod tests {
    use crate::builder::Builder;
    use crate::handle::Handle;
    use crate::runtime::Runtime;
    use std::sync::mpsc;

    fn refuse(runtime: &Runtime, refuses: bool) {
        runtime.shared.blocking.state().refuses = refuses;
    }

    /// Work that was counted before a shutdown began, and that comes when the pool has closed: nothing waits for its destructor, as for that of other work that is refused.
    #[test]
    fn work_that_comes_late_is_no_task() {
        struct Counts(Handle, mpsc::Sender<(usize, usize)>);
        impl Drop for Counts {
            fn drop(&mut self) {
                self.1.send((self.0.tasks(), self.0.dump().total)).unwrap();
            }
        }
        let runtime = Builder::new().workers(1).build().unwrap();
        assert!(runtime.shared.blocking.close().is_empty());
        let (seen, counts) = mpsc::channel();
        let late = Counts(runtime.handle(), seen);
        let handle = runtime.spawn_blocking(move || drop(late));
        assert_eq!(counts.recv().unwrap(), (0, 0));
        assert!(handle.is_finished() && runtime.block_on(handle).unwrap_err().is_shut_down());
        assert_eq!(runtime.tasks(), 0);
    }

    /// The system refuses threads: the work waits for a thread that there is; if there is none, its handle says so.
    #[test]
    fn a_refused_thread() {
        let runtime = Builder::new().workers(1).build().unwrap();
        refuse(&runtime, true);
        let refused = runtime.spawn_blocking(|| ());
        let error = runtime.block_on(refused).unwrap_err();
        assert!(error.is_refused() && !error.is_panic(), "{error}");
        let aborted = runtime.spawn_blocking(|| 1);
        drop(aborted);

        refuse(&runtime, false);
        let (send, go_on) = mpsc::channel();
        let first = runtime.spawn_blocking(move || go_on.recv().unwrap());
        refuse(&runtime, true);
        let second = runtime.spawn_blocking(|| 2);
        send.send(1).unwrap();
        assert_eq!(runtime.block_on(async { (first.await.unwrap(), second.await.unwrap()) }), (1, 2));
        assert_eq!(runtime.tasks(), 0);
    }
}
