//! `JoinSet`: many tasks, and their results in the order they end.
//!
//! Every handle is polled once when it is inserted, with a waker of its own, which queues the member's [`Completion`] and sets an event. So a
//! result costs the same however many tasks there are, no lock is held during a wake, and a member that ends allocates nothing.

use super::completions::{Completion, Completions};
use super::contain_panic;
use super::join::JoinHandle;
use crate::context;
use crate::error::JoinError;
use crate::event_loop::WorkerId;
use crate::functions;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use tasuki::Event;

/// Tasks that belong together. Dropping the set aborts them.
///
/// # Order
///
/// Results come in the order in which the tasks ended, or nearly.
///
/// # Cancel
///
/// A dropped [`join_next`](Self::join_next) loses no result. Dropping the set asks every task to end and does not wait for it.
///
/// # Panic
///
/// A task that panics gives an error, and the others go on.
///
/// # Examples
///
/// ```
/// use tasuki_rt::JoinSet;
///
/// tasuki_rt::run(async {
///     let mut tasks = JoinSet::new();
///     (0..5).for_each(|n| tasks.spawn(async move { n }));
///     let mut sum = 0;
///     while let Some(result) = tasks.join_next().await {
///         sum += result.unwrap();
///     }
///     assert_eq!(sum, 10);
/// });
/// ```
pub struct JoinSet<T> {
    slots: Vec<Option<Member<T>>>,
    free: Vec<usize>,
    completions: Arc<Completions<Event>>,
}

enum Member<T> {
    Running(JoinHandle<T>, Arc<Completion<Event>>),
    /// Had ended when it was inserted.
    Ended(Result<T, JoinError>),
}

impl Wake for Completion<Event> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.announce() {
            // The waker of the task that waits for the set is foreign code.
            contain_panic(|| self.set.event.set());
        }
    }
}

impl<T> JoinSet<T> {
    /// An empty set.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(tasuki_rt::JoinSet::<()>::new().is_empty());
    /// ```
    pub fn new() -> Self {
        let completions = Arc::new(Completions::new(Event::auto()));
        Self { slots: Vec::new(), free: Vec::new(), completions }
    }

    /// How many tasks have not been joined.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tasuki_rt::JoinSet;
    /// tasuki_rt::run(async {
    ///     let mut tasks = JoinSet::new();
    ///     tasks.spawn(async {});
    ///     assert_eq!(tasks.len(), 1);
    /// });
    /// ```
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Have all tasks been joined?
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(tasuki_rt::JoinSet::<()>::new().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes a task into the set.
    ///
    /// # Panics
    ///
    /// If the handle has given its result.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tasuki_rt::JoinSet;
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// let mut tasks = JoinSet::new();
    /// tasks.insert(runtime.spawn(async { 1 }));
    /// assert_eq!(runtime.block_on(tasks.join_next()).unwrap().unwrap(), 1);
    /// ```
    #[track_caller]
    pub fn insert(&mut self, mut handle: JoinHandle<T>) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            // Room for all of them: a member that is joined does not allocate.
            self.free.reserve(self.slots.len());
            self.slots.len() - 1
        });
        let completion = Completion::new(index, self.completions.clone());
        let waker = Waker::from(completion.clone());
        let member = match handle.register(&mut Context::from_waker(&waker)) {
            Poll::Pending => Member::Running(handle, completion),
            Poll::Ready(result) => {
                completion.wake();
                Member::Ended(result)
            }
        };
        self.slots[index] = Some(member);
    }

    /// Spawns a task into the set; see [`spawn`](crate::spawn()).
    ///
    /// # Panics
    ///
    /// Where there is no runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tasuki_rt::JoinSet;
    /// tasuki_rt::run(async {
    ///     let mut tasks = JoinSet::new();
    ///     tasks.spawn(async { 3 });
    ///     assert_eq!(tasks.join_next().await.unwrap().unwrap(), 3);
    /// });
    /// ```
    #[track_caller]
    pub fn spawn<F>(&mut self, future: F)
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        self.insert(functions::spawn(future));
    }

    /// Spawns a task on one worker into the set; see [`spawn_on`](crate::spawn_on()).
    ///
    /// # Panics
    ///
    /// Where there is no runtime, and if it has no such worker.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tasuki_rt::{JoinSet, WorkerId};
    /// tasuki_rt::run(async {
    ///     let mut tasks = JoinSet::new();
    ///     tasks.spawn_on(WorkerId::new(0), || async { 3 });
    ///     assert_eq!(tasks.join_next().await.unwrap().unwrap(), 3);
    /// });
    /// ```
    #[track_caller]
    pub fn spawn_on<C, F>(&mut self, worker: WorkerId, make: C)
    where
        C: FnOnce() -> F + Send + 'static,
        F: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        self.insert(functions::spawn_on(worker, make));
    }

    /// Waits for the next task to end. `None` when there is none left.
    ///
    /// # Cancel safety
    ///
    /// A dropped wait loses no result.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tasuki_rt::JoinSet;
    /// tasuki_rt::run(async {
    ///     let mut tasks = JoinSet::new();
    ///     tasks.spawn(async { panic!("in the task") });
    ///     let result: Result<(), _> = tasks.join_next().await.unwrap();
    ///     assert!(result.unwrap_err().is_panic());
    ///     assert!(tasks.join_next().await.is_none());
    /// });
    /// ```
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        context::charge().await;
        while !self.is_empty() {
            while let Some(completion) = self.completions.next() {
                if let Some(result) = self.look(completion.index) {
                    return Some(result);
                }
            }
            self.completions.event.wait().await;
        }
        None
    }

    /// The result of this member, if it has ended.
    fn look(&mut self, index: usize) -> Option<Result<T, JoinError>> {
        let result = match self.slots[index].take()? {
            Member::Ended(result) => result,
            Member::Running(mut handle, completion) => {
                let waker = Waker::from(completion.clone());
                let Poll::Ready(result) = handle.poll_trusted(&mut Context::from_waker(&waker)) else {
                    self.slots[index] = Some(Member::Running(handle, completion));
                    return None;
                };
                result
            }
        };
        self.free.push(index);
        Some(result)
    }

    /// Asks all tasks to end; each still has a result.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tasuki_rt::JoinSet;
    /// tasuki_rt::run(async {
    ///     let mut tasks = JoinSet::new();
    ///     tasks.spawn(std::future::pending::<()>());
    ///     tasks.abort_all();
    ///     assert!(tasks.join_next().await.unwrap().unwrap_err().is_aborted());
    /// });
    /// ```
    pub fn abort_all(&self) {
        self.slots.iter().flatten().for_each(|member| {
            if let Member::Running(handle, _) = member {
                handle.abort();
            }
        });
    }

    /// Lets all tasks go: they run on by themselves.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tasuki_rt::JoinSet;
    /// tasuki_rt::run(async {
    ///     let mut tasks = JoinSet::new();
    ///     tasks.spawn(async {});
    ///     tasks.detach_all();
    ///     assert!(tasks.is_empty());
    /// });
    /// ```
    pub fn detach_all(&mut self) {
        self.slots.clear();
        self.free.clear();
        self.completions.close();
        self.completions = Self::new().completions.clone();
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.abort_all();
        self.completions.close();
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::Builder;

    /// Nothing is left to look at but what has ended: a `join_next` looks at one task, however many there are.
    #[test]
    fn a_task_is_registered_when_it_is_inserted() {
        let runtime = Builder::new().workers(1).build().unwrap();
        runtime.block_on(async {
            let (mut set, gate) = (JoinSet::new(), Arc::new(Event::manual()));
            for _ in 0..100 {
                let gate = gate.clone();
                set.spawn(async move { gate.wait().await });
            }
            assert!(set.completions.looks_empty());
            gate.set();
            for left in (0..100).rev() {
                set.join_next().await.unwrap().unwrap();
                assert_eq!(set.len(), left);
            }
            assert!(set.completions.looks_empty());
            let ended = functions::spawn(async {});
            while !ended.is_finished() {
                functions::yield_now().await;
            }
            set.insert(ended);
            assert!(!set.completions.looks_empty());
            set.join_next().await.unwrap().unwrap();
        });
    }

    /// The queue and the completions in it hold each other: a set that goes, before its members end or after, lets go of them.
    #[test]
    fn a_set_that_is_gone_holds_nothing() {
        let runtime = Builder::new().workers(1).build().unwrap();
        for ended in [false, true] {
            for detached in [false, true] {
                let completions = runtime.block_on(async {
                    let (mut set, gate) = (JoinSet::new(), Arc::new(Event::manual()));
                    for _ in 0..3 {
                        let gate = gate.clone();
                        set.spawn(async move { gate.wait().await });
                    }
                    let completions = Arc::downgrade(&set.completions);
                    if ended {
                        gate.set();
                        while set.slots.iter().flatten().any(
                            |member| matches!(member, Member::Running(handle, _) if !handle.is_finished()),
                        ) {
                            functions::yield_now().await;
                        }
                    }
                    if detached {
                        set.detach_all();
                    }
                    completions
                });
                // Those that were aborted end with the runtime's next steps.
                runtime.block_on(async {
                    while completions.strong_count() > 0 && runtime.tasks() > 0 {
                        if detached && !ended {
                            break;
                        }
                        functions::yield_now().await;
                    }
                });
                assert!(completions.strong_count() == 0 || runtime.tasks() > 0, "{ended} {detached}");
            }
        }
    }
}
