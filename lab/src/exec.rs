//! The lab's own executor: a ring of tasks with reference-counted wakers, and nothing else.
//!
//! It exists so that a primitive's own cost shows: one virtual call a poll, one reference count a
//! wake, no allocation after the tasks are spawned. It runs on the thread that created it; wakes
//! from other threads are taken through a locked inbox, so that the holder of a waker may use it.
//!
//! # Invariants
//! 1. `ring`, `queued` and `future` are touched only by the thread that owns the [`Executor`]
//!    (it is `!Send`), and `ring` and `queued` in a wake only while that thread is inside `run_until_stalled`.
//! 2. A task is at most once in the ring (`queued`), so the ring never outgrows its reserve.
//! 3. When the executor has been dropped, no task holds a future any more.

use std::cell::{Cell, UnsafeCell};
use std::collections::VecDeque;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

thread_local! {
    /// The executor this thread is inside `run_until_stalled` of.
    static CURRENT: Cell<*const Core> = const { Cell::new(std::ptr::null()) };
}

/// A single-threaded executor.
pub(crate) struct Executor {
    core: Arc<Core>,
    tasks: Vec<Arc<Task>>,
    live: usize,
    /// Not `Send`: invariant 1.
    _owner: PhantomData<*const ()>,
}

/// What the wakers reach.
struct Core {
    ring: UnsafeCell<VecDeque<Arc<Task>>>,
    inbox: Mutex<Inbox>,
    mail: AtomicBool,
}

/// Wakes that came from elsewhere.
#[derive(Default)]
struct Inbox {
    tasks: Vec<Arc<Task>>,
    /// The executor is gone: a waker that outlived it wakes no task.
    closed: bool,
}

/// A future with its place in the ring.
struct Task {
    core: Arc<Core>,
    queued: Cell<bool>,
    future: UnsafeCell<Option<Pin<Box<dyn Future<Output = ()>>>>>,
}

// SAFETY: invariant 1 - the fields that are not themselves `Sync` are touched by one thread only,
// and by invariant 3 a task freed elsewhere holds no future.
unsafe impl Send for Task {}
// SAFETY: as above.
unsafe impl Sync for Task {}
// SAFETY: invariant 1 for `ring`; the other fields are `Sync`.
unsafe impl Send for Core {}
// SAFETY: as above.
unsafe impl Sync for Core {}

impl Executor {
    /// An executor with room for `tasks` tasks.
    pub(crate) fn new(tasks: usize) -> Self {
        let core = Core {
            ring: UnsafeCell::new(VecDeque::with_capacity(tasks)),
            inbox: Mutex::new(Inbox { tasks: Vec::with_capacity(tasks), ..Inbox::default() }),
            mail: AtomicBool::new(false),
        };
        Executor { core: Arc::new(core), tasks: Vec::with_capacity(tasks), live: 0, _owner: PhantomData }
    }

    /// Adds a task; it is first polled by the next `run_until_stalled`.
    pub(crate) fn spawn(&mut self, future: impl Future<Output = ()> + 'static) {
        let task = Arc::new(Task {
            core: self.core.clone(),
            queued: Cell::new(true),
            future: UnsafeCell::new(Some(Box::pin(future))),
        });
        self.tasks.push(task.clone());
        self.live += 1;
        // SAFETY: invariant 1 - `&mut self` is held by the owner, outside any wake.
        let ring = unsafe { &mut *self.core.ring.get() };
        ring.push_back(task);
    }

    /// Runs until every task is done or none can go on; returns how many are left.
    pub(crate) fn run_until_stalled(&mut self) -> usize {
        let outer = CURRENT.replace(Arc::as_ptr(&self.core));
        let _restore = Restore(outer);
        loop {
            while let Some(task) = self.core.pop() {
                self.live -= usize::from(task.poll());
            }
            if !self.core.take_mail() {
                return self.live;
            }
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        for task in self.tasks.drain(..) {
            task.clear();
        }
        while self.core.pop().is_some() {}
        let mut inbox = self.core.inbox();
        inbox.closed = true;
        inbox.tasks.clear();
    }
}

/// Puts the previous executor of this thread back, also when a task panics.
struct Restore(*const Core);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl Core {
    /// Takes the next task; called by the owner only.
    #[inline]
    fn pop(&self) -> Option<Arc<Task>> {
        // SAFETY: invariant 1 - only the owner pops, and no reference into the ring outlives this.
        let ring = unsafe { &mut *self.ring.get() };
        ring.pop_front()
    }

    /// The inbox; a panic elsewhere does not make it wrong.
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the inbox to the ring; called by the owner only, inside `run_until_stalled`.
    fn take_mail(&self) -> bool {
        // Acquire: pairs with the Release in `post`. The flag only saves a lock; that lock orders the tasks.
        if !self.mail.load(Ordering::Acquire) {
            return false;
        }
        let mut inbox = self.inbox();
        self.mail.store(false, Ordering::Relaxed);
        for task in inbox.tasks.drain(..) {
            task.enter_ring();
        }
        true
    }

    /// A wake from a thread that is not inside this executor.
    #[cold]
    fn post(&self, task: Arc<Task>) {
        let mut inbox = self.inbox();
        if inbox.closed {
            return;
        }
        inbox.tasks.push(task);
        // Release: pairs with the load in `take_mail`.
        self.mail.store(true, Ordering::Release);
    }
}

impl Task {
    /// Idle => queued; called by the owner inside `run_until_stalled`.
    #[inline]
    fn enter_ring(self: Arc<Self>) {
        if !self.queued.replace(true) {
            let ring = self.core.ring.get();
            // SAFETY: invariant 1 - the caller is the owner, and `pop` holds no reference now.
            let ring = unsafe { &mut *ring };
            ring.push_back(self);
        }
    }

    /// Whether this thread is inside the executor of this task.
    #[inline]
    fn is_home(&self) -> bool {
        std::ptr::eq(CURRENT.get(), Arc::as_ptr(&self.core))
    }

    /// Queued => running => idle or done; true when it is done now. Called by the owner only.
    #[inline]
    fn poll(self: Arc<Self>) -> bool {
        self.queued.set(false);
        let slot = self.future.get();
        let waker = Waker::from(self);
        // SAFETY: invariant 1, and a task is polled from the run loop alone, so not re-entrantly;
        // `waker` keeps the task alive.
        let slot = unsafe { &mut *slot };
        let Some(future) = slot else { return false };
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => false,
            Poll::Ready(()) => {
                *slot = None;
                true
            }
        }
    }

    /// Drops the future: invariant 3. Called by the owner only.
    fn clear(&self) {
        // SAFETY: invariant 1, outside any poll.
        let slot = unsafe { &mut *self.future.get() };
        *slot = None;
    }
}

impl Wake for Task {
    #[inline]
    fn wake(self: Arc<Self>) {
        if self.is_home() {
            self.enter_ring();
        } else {
            let core = self.core.clone();
            core.post(self);
        }
    }

    #[inline]
    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_home() {
            self.core.post(self.clone());
        } else if !self.queued.get() {
            self.clone().enter_ring();
        }
    }
}

/// Lets the other tasks of the executor run once; works under any executor.
pub(crate) fn yield_now() -> Yield {
    Yield { yielded: false }
}

/// The future of [`yield_now`].
#[must_use]
pub(crate) struct Yield {
    yielded: bool,
}

impl Future for Yield {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// For a task that yields until another thread has done something. It keeps its own thread busy, and at real-time priority a busy
/// thread gives its processor to no other of that priority. Not where time is measured.
pub(crate) fn let_other_threads_run() {
    std::thread::yield_now();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn tasks_take_turns_in_the_order_they_yield() {
        let seen = Rc::new(UnsafeCell::new(Vec::new()));
        let mut exec = Executor::new(3);
        for task in 0..3 {
            let seen = seen.clone();
            exec.spawn(async move {
                for _ in 0..2 {
                    // SAFETY: one thread, and the reference ends before the await.
                    unsafe { &mut *seen.get() }.push(task);
                    yield_now().await;
                }
            });
        }
        assert_eq!(exec.run_until_stalled(), 0);
        // SAFETY: no task is left.
        assert_eq!(unsafe { &*seen.get() }, &[0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn a_task_that_is_never_woken_is_reported_and_dropped() {
        let held = Rc::new(());
        let mut exec = Executor::new(1);
        let inside = held.clone();
        exec.spawn(async move {
            let _inside = inside;
            std::future::pending::<()>().await;
        });
        assert_eq!(exec.run_until_stalled(), 1);
        drop(exec);
        assert_eq!(Rc::strong_count(&held), 1);
    }

    #[test]
    fn a_wake_from_another_thread_arrives() {
        let (send, receive) = std::sync::mpsc::channel::<Waker>();
        let done = Arc::new(AtomicBool::new(false));
        let remote = done.clone();
        let thread = std::thread::spawn(move || {
            let waker = receive.recv().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(5));
            remote.store(true, Ordering::Release);
            waker.wake();
        });
        let mut exec = Executor::new(1);
        exec.spawn(std::future::poll_fn(move |cx| {
            if done.load(Ordering::Acquire) {
                return Poll::Ready(());
            }
            send.send(cx.waker().clone()).ok();
            Poll::Pending
        }));
        while exec.run_until_stalled() > 0 {
            std::thread::yield_now();
        }
        thread.join().unwrap();
    }
}
