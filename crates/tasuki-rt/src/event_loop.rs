//! `EventLoop` and `WorkerId`: workers as event loops, to which tasks are pinned and closures posted.

use crate::context::{self, ThreadRole};
use crate::error::LoopEnded;
use crate::scheduler::{Item, Job, Shared};
use std::cmp;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Identifies a worker of a runtime by its number.
///
/// One that a runtime gave ([`EventLoop::id`], `for_each_worker`) is refused by other runtimes; one made by [`new`](Self::new) is the worker with that number
/// of whatever runtime it is given to. Only the numbers are compared.
///
/// # Examples
///
/// ```
/// use tasuki_rt::WorkerId;
///
/// assert_eq!(WorkerId::new(2).index(), 2);
/// ```
#[derive(Clone, Copy)]
pub struct WorkerId {
    index: usize,
    /// The number of its runtime, or 0.
    runtime: u32,
}

impl WorkerId {
    /// Names the worker with this number. Whether a runtime has such a worker is checked where it is used.
    ///
    /// # Examples
    ///
    /// ```
    /// let first = tasuki_rt::WorkerId::new(0);
    /// assert_eq!(first, first);
    /// ```
    pub const fn new(index: usize) -> Self {
        Self { index, runtime: 0 }
    }

    /// Returns the number of the worker, from 0.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tasuki_rt::WorkerId::new(1).index(), 1);
    /// ```
    pub const fn index(self) -> usize {
        self.index
    }

    /// A worker of the runtime with this number.
    pub(crate) const fn of(runtime: u32, index: usize) -> Self {
        Self { index, runtime }
    }

    /// May the runtime with this number have it?
    pub(crate) fn may_be_of(self, runtime: u32) -> bool {
        self.runtime == 0 || self.runtime == runtime
    }
}

impl PartialEq for WorkerId {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index
    }
}

impl Eq for WorkerId {}

impl Hash for WorkerId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.index.hash(state);
    }
}

impl PartialOrd for WorkerId {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for WorkerId {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.index.cmp(&other.index)
    }
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkerId({})", self.index)
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}", self.index)
    }
}

/// A worker as an event loop: a closure that is posted to it runs on its thread.
///
/// A handle, cheap to clone, for any thread. It does not keep the runtime running.
///
/// # Examples
///
/// ```
/// use tasuki::Event;
/// use tasuki_rt::{EventLoop, Runtime};
///
/// static DONE: Event = Event::auto();
///
/// let runtime = Runtime::new().unwrap();
/// runtime.block_on(async {
///     let there = tasuki_rt::spawn(async { EventLoop::current().unwrap() }).await.unwrap();
///     assert!(!there.is_current());
///     let same = there.clone();
///     there.post(move || { assert!(same.is_current()); DONE.set() }).unwrap();
///     DONE.wait().await;
/// });
/// ```
///
/// # Order
///
/// Closures posted by one thread run in the order they were posted in.
///
/// # Panic
///
/// A closure that panics is reported by the panic hook; the loop runs the next one.
///
/// # Memory ordering
///
/// What was done before a post happens before the closure runs.
#[derive(Clone)]
pub struct EventLoop {
    shared: Arc<Shared>,
    index: usize,
}

impl EventLoop {
    /// Returns the event loop of this thread. `None` on a thread that is no event loop, such as the one in [`Runtime::block_on`](crate::Runtime::block_on); the one in
    /// [`LocalRuntime::block_on`](crate::LocalRuntime::block_on) is one.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::EventLoop;
    ///
    /// assert!(EventLoop::current().is_none());
    /// tasuki_rt::run(async {
    ///     assert!(EventLoop::current().is_none());
    ///     tasuki_rt::spawn(async { assert!(EventLoop::current().is_some()) }).await.unwrap();
    /// });
    /// ```
    #[doc(alias = "current_or_null")]
    pub fn current() -> Option<Self> {
        context::with(|context| {
            let context = context?;
            Some(Self { shared: context.shared.clone(), index: context.event_loop()? })
        })
    }

    /// Returns the worker that this event loop is.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::{EventLoop, Runtime, WorkerId};
    /// let runtime = Runtime::builder().workers(2).build().unwrap();
    /// let task = runtime.spawn_on(WorkerId::new(1), || async { EventLoop::current().unwrap().id() });
    /// assert_eq!(runtime.block_on(task).unwrap(), WorkerId::new(1));
    /// ```
    pub fn id(&self) -> WorkerId {
        WorkerId::of(self.shared.id, self.index)
    }

    /// Returns true if this is the event loop of the calling thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::EventLoop;
    /// tasuki_rt::run(async {
    ///     tasuki_rt::spawn(async { assert!(EventLoop::current().unwrap().is_current()) }).await.unwrap();
    /// });
    /// ```
    pub fn is_current(&self) -> bool {
        Self::current().is_some_and(|current| current == *self)
    }

    /// Queues a closure to run on this loop; it never runs inside the call.
    ///
    /// # Errors
    ///
    /// [`LoopEnded`] if the runtime has shut down. A closure that was taken and not yet run when that happens is dropped on the loop.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::EventLoop;
    /// tasuki_rt::run(async {
    ///     let task = tasuki_rt::spawn(async {
    ///         EventLoop::current().unwrap().post(|| println!("later")).unwrap();
    ///     });
    ///     task.await.unwrap();
    /// });
    /// ```
    pub fn post(&self, job: impl FnOnce() + Send + 'static) -> Result<(), LoopEnded> {
        if self.shared.is_closing() {
            return Err(LoopEnded);
        }
        let item = Item::Job(Job::new(job));
        // A closure that is refused is dropped afterwards: it is foreign code.
        let refused = context::with_own(&self.shared, |context| {
            match context.map(|here| &here.role) {
                Some(ThreadRole::Worker(local)) if local.index == self.index => {
                    // Behind what this thread has posted from elsewhere, before it was on this loop or while it is on another one.
                    local.take_inbox(&self.shared);
                    local.post(item);
                }
                Some(ThreadRole::Sim(sim)) => sim.put(Some(self.index), item),
                _ => return self.shared.send(self.index, item),
            }
            Ok(())
        });
        refused.map_err(|_| LoopEnded)
    }
}

impl PartialEq for EventLoop {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared) && self.index == other.index
    }
}

impl Eq for EventLoop {}

impl fmt::Debug for EventLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLoop").field("id", &self.id()).finish_non_exhaustive()
    }
}
