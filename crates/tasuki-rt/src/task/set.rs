//! `JoinSet`: many tasks, and their results in the order they end.
//!
//! Every handle is polled once when it is inserted, with a waker of its own, which queues the member's [`Completion`] and sets an event. So a
//! result costs the same however many tasks there are, no lock is held during a wake, and a member that ends allocates nothing.

use super::abort::AbortHandle;
use super::completions::{Completion, Completions};
use super::join::JoinHandle;
use super::{contain_panic, drop_foreign, drop_result};
use crate::context;
use crate::error::JoinError;
use crate::event_loop::WorkerId;
use crate::functions;
use crate::testing::SetAddress;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{Location, RefUnwindSafe, UnwindSafe, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use tasuki::Event;
use tasuki::task::TaskId;

/// Members for which a set keeps its memory when it is empty.
const KEPT_SLOTS: usize = 1024;

/// A set of tasks, whose results are awaited one at a time. Dropping the set aborts them.
///
/// # Examples
///
/// ```
/// use tasuki_rt::JoinSet;
///
/// tasuki_rt::run(async {
///     let mut tasks: JoinSet<u32> = (0..5).map(|n| async move { n }).collect();
///     tasks.spawn_blocking(|| 5);
///     let mut sum = 0;
///     while let Some(result) = tasks.join_next().await {
///         sum += result.unwrap();
///     }
///     assert_eq!(sum, 15);
/// });
/// ```
///
/// # Order
///
/// Results come in the order in which the tasks ended; of two that end at the same time on two workers either may be first. A task that had ended before it was [inserted](Self::insert) counts as one that
/// ended then. [`join_all`](Self::join_all) returns them in that order, too.
///
/// # Cancel
///
/// A dropped [`join_next`](Self::join_next) loses no result. Dropping the set asks every task to end and does not wait for it; [`shutdown`](Self::shutdown) waits.
///
/// # Panic
///
/// A task that panics gives an error, and the others go on. The panic of a task that is not joined, because the set was dropped, [shut down](Self::shutdown) or [detached](Self::detach_all), is reported by the panic hook only; in a
/// [simulation](crate::testing) it fails the test.
#[doc(alias = "FuturesUnordered")]
#[doc(alias = "TaskGroup")]
pub struct JoinSet<T> {
    slots: Vec<Option<SetMember<T>>>,
    free: Vec<usize>,
    completions: Arc<Completions<Event>>,
}

// SAFETY: as its handles: a shared set gives no access to an output, nor does what it looks at.
unsafe impl<T: Send> Sync for JoinSet<T> {}
// As the handles in it: the panic of a task is an error, and results are given out whole.
impl<T> UnwindSafe for JoinSet<T> {}
impl<T> RefUnwindSafe for JoinSet<T> {}

enum SetMember<T> {
    Running(JoinHandle<T>, Arc<Completion<Event>>),
    /// Had ended when it was inserted.
    Ended(TaskId, Result<T, JoinError>),
}

/// Ends the wait for a set: a simulation does not report it any more.
struct LeavesSet(SetAddress);

impl Drop for LeavesSet {
    fn drop(&mut self) {
        context::simulation(|sim| sim.leaves_set(self.0));
    }
}

/// Is this where the wait for a set is written?
pub(crate) fn waits_at(place: &Location<'_>) -> bool {
    place.file() == file!()
}

impl<T> SetMember<T> {
    /// The task, if it has not ended when it was inserted.
    fn running(&self) -> Option<TaskId> {
        match self {
            Self::Running(handle, _) => Some(handle.id()),
            Self::Ended(..) => None,
        }
    }

    /// Drops the result, or the right to it.
    fn discard(self) {
        match self {
            Self::Running(handle, completion) => {
                drop_foreign(handle);
                drop(completion);
            }
            Self::Ended(_, result) => drop_result(result),
        }
    }
}

/// None has ended.
fn no_completions() -> Arc<Completions<Event>> {
    Arc::new(Completions::new(Event::auto()))
}

/// The result of a member, and which it was.
type Joined<T> = (TaskId, Result<T, JoinError>);

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
    /// Creates an empty set.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(tasuki_rt::JoinSet::<()>::new().is_empty());
    /// ```
    pub fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), completions: no_completions() }
    }

    /// Returns the number of tasks that have not been joined.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::JoinSet;
    /// tasuki_rt::run(async {
    ///     let mut tasks = JoinSet::new();
    ///     tasks.spawn(async {});
    ///     assert_eq!(tasks.len(), 1);
    /// });
    /// ```
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns true if all tasks have been joined.
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
    /// use tasuki_rt::JoinSet;
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// let mut tasks = JoinSet::new();
    /// tasks.insert(runtime.spawn(async { 1 }));
    /// assert_eq!(runtime.block_on(tasks.join_next()).unwrap().unwrap(), 1);
    /// ```
    #[track_caller]
    pub fn insert(&mut self, mut handle: JoinHandle<T>) {
        let id = handle.id();
        // Taken below: `register` panics for a handle that has given its result.
        let index = self.free.last().copied().unwrap_or(self.slots.len());
        let completion = Completion::new(index, self.completions.clone());
        let waker = Waker::from(completion.clone());
        let member = match handle.register(&mut Context::from_waker(&waker)) {
            Poll::Pending => SetMember::Running(handle, completion),
            Poll::Ready(result) => {
                completion.wake();
                SetMember::Ended(id, result)
            }
        };
        if self.free.pop().is_none() {
            self.slots.push(None);
            // Room for all of them: a member that is joined does not allocate.
            self.free.reserve(self.slots.len());
        }
        self.slots[index] = Some(member);
    }

    /// The same, with a handle for the caller.
    #[track_caller]
    fn insert_spawned(&mut self, handle: JoinHandle<T>) -> AbortHandle {
        let abort = handle.abort_handle();
        self.insert(handle);
        abort
    }

    /// Spawns a task into the set; see [`spawn`](crate::spawn()). The handle can be ignored.
    ///
    /// # Panics
    ///
    /// Where there is no runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::JoinSet;
    /// tasuki_rt::run(async {
    ///     let mut tasks = JoinSet::new();
    ///     tasks.spawn(async { 3 });
    ///     assert_eq!(tasks.join_next().await.unwrap().unwrap(), 3);
    /// });
    /// ```
    #[track_caller]
    pub fn spawn<F>(&mut self, future: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        self.insert_spawned(functions::spawn(future))
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
    /// use tasuki_rt::{JoinSet, WorkerId};
    /// tasuki_rt::run(async {
    ///     let mut tasks = JoinSet::new();
    ///     tasks.spawn_on(WorkerId::new(0), || async { 3 });
    ///     assert_eq!(tasks.join_next().await.unwrap().unwrap(), 3);
    /// });
    /// ```
    #[track_caller]
    pub fn spawn_on<C, F>(&mut self, worker: WorkerId, make: C) -> AbortHandle
    where
        C: FnOnce() -> F + Send + 'static,
        F: Future<Output = T> + 'static,
        T: Send + 'static,
    {
        self.insert_spawned(functions::spawn_on(worker, make))
    }

    /// Spawns a task on the worker that calls it into the set; see [`spawn_local`](crate::spawn_local()).
    ///
    /// # Panics
    ///
    /// On a thread that is no worker, the one in [`Runtime::block_on`](crate::Runtime::block_on) included; in [`LocalRuntime::block_on`](crate::LocalRuntime::block_on) it is one.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::rc::Rc;
    /// use tasuki_rt::{JoinSet, WorkerId};
    /// tasuki_rt::run(async {
    ///     let task = tasuki_rt::spawn_on(WorkerId::new(0), || async {
    ///         let mut tasks = JoinSet::new();
    ///         tasks.spawn_local(async { Rc::new(3) });
    ///         *tasks.join_next().await.unwrap().unwrap()
    ///     });
    ///     assert_eq!(task.await.unwrap(), 3);
    /// });
    /// ```
    #[track_caller]
    pub fn spawn_local<F>(&mut self, future: F) -> AbortHandle
    where
        F: Future<Output = T> + 'static,
        T: 'static,
    {
        self.insert_spawned(functions::spawn_local(future))
    }

    /// Runs a closure that may block, as a task of the set; see [`spawn_blocking`](crate::spawn_blocking()). Once it runs, an abort has no effect on it.
    ///
    /// # Panics
    ///
    /// Where there is no runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::JoinSet;
    /// tasuki_rt::run(async {
    ///     let mut tasks = JoinSet::new();
    ///     tasks.spawn_blocking(|| 3);
    ///     assert_eq!(tasks.join_next().await.unwrap().unwrap(), 3);
    /// });
    /// ```
    #[track_caller]
    pub fn spawn_blocking(&mut self, work: impl FnOnce() -> T + Send + 'static) -> AbortHandle
    where
        T: Send + 'static,
    {
        self.insert_spawned(functions::spawn_blocking(work))
    }

    /// Waits for the next task to end, and returns its result. `None` if the set is empty.
    ///
    /// # Cancel safety
    ///
    /// A dropped wait loses no result.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::JoinSet;
    /// tasuki_rt::run(async {
    ///     let mut tasks = JoinSet::new();
    ///     tasks.spawn(async { panic!("in the task") });
    ///     let result: Result<(), _> = tasks.join_next().await.unwrap();
    ///     assert!(result.unwrap_err().is_panic());
    ///     assert!(tasks.join_next().await.is_none());
    /// });
    /// ```
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.next().await.map(|(_, result)| result)
    }

    /// As [`join_next`](Self::join_next), and says which task it was. An error knows it as well ([`JoinError::id`]).
    ///
    /// # Cancel safety
    ///
    /// A dropped wait loses no result.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::JoinSet;
    /// tasuki_rt::run(async {
    ///     let mut tasks = JoinSet::new();
    ///     let id = tasks.spawn(async { 4 }).id();
    ///     assert_eq!(tasks.join_next_with_id().await.unwrap().unwrap(), (id, 4));
    /// });
    /// ```
    pub async fn join_next_with_id(&mut self) -> Option<Result<(TaskId, T), JoinError>> {
        let (id, result) = self.next().await?;
        Some(result.map(|output| (id, output)))
    }

    /// Returns the result of a task that has ended, without waiting. `None` if no task has ended, or the set is empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::JoinSet;
    /// tasuki_rt::run(async {
    ///     let mut tasks = JoinSet::new();
    ///     let handle = tasks.spawn(async { 4 });
    ///     let result = loop {
    ///         match tasks.try_join_next() {
    ///             Some(result) => break result.unwrap(),
    ///             None => tasuki_rt::yield_now().await,
    ///         }
    ///     };
    ///     assert!(result == 4 && handle.is_finished());
    /// });
    /// ```
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.ended().map(|(_, result)| result)
    }

    /// As [`try_join_next`](Self::try_join_next), and says which task it was.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(tasuki_rt::JoinSet::<()>::new().try_join_next_with_id().is_none());
    /// ```
    pub fn try_join_next_with_id(&mut self) -> Option<Result<(TaskId, T), JoinError>> {
        let (id, result) = self.ended()?;
        Some(result.map(|output| (id, output)))
    }

    /// Waits for all tasks, and returns their outputs in the order in which they ended.
    ///
    /// # Panics
    ///
    /// If a task panicked, with what it panicked with; if one was aborted or went down with its runtime. The others are aborted then. To have
    /// their results, use [`join_next`](Self::join_next).
    ///
    /// # Cancel safety
    ///
    /// Not safe to drop: the set is inside, so its tasks are aborted, and the outputs that were there are dropped. [`join_next`](Self::join_next) leaves both in the set.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::JoinSet;
    /// tasuki_rt::run(async {
    ///     let tasks: JoinSet<i32> = (1..=3).map(|n| async move { n * n }).collect();
    ///     let squares = tasks.join_all().await;
    ///     assert_eq!(squares.iter().sum::<i32>(), 14);
    /// });
    /// ```
    pub async fn join_all(mut self) -> Vec<T> {
        let mut outputs = Vec::with_capacity(self.len());
        while let Some((_, result)) = self.next().await {
            let error = match result {
                Ok(output) => {
                    outputs.push(output);
                    continue;
                }
                Err(error) => error,
            };
            // Not while the panic unwinds: one of them that panics as well would end the process.
            outputs.drain(..).for_each(drop_foreign);
            match error.into_panic() {
                Ok(payload) => resume_unwind(payload),
                Err(error) => panic!("`JoinSet::join_all`: {error}"),
            }
        }
        outputs
    }

    /// Aborts all tasks and waits until they have ended; their results are dropped, panics included. Blocking work that runs is waited for, and so is the turn of work that is queued for a thread.
    ///
    /// # Cancel safety
    ///
    /// The first poll asks all tasks to end. Of a wait that is dropped, those that have not ended are still in the set.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::JoinSet;
    /// tasuki_rt::run(async {
    ///     let mut tasks = JoinSet::new();
    ///     tasks.spawn(std::future::pending::<()>());
    ///     tasks.shutdown().await;
    ///     assert!(tasks.is_empty());
    /// });
    /// ```
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while let Some((_, result)) = self.next().await {
            // Foreign: a panic of one goes no further, and the others are waited for.
            drop_result(result);
        }
    }

    async fn next(&mut self) -> Option<Joined<T>> {
        context::charge().await;
        while !self.is_empty() {
            if let Some(joined) = self.ended() {
                return Some(joined);
            }
            self.wait().await;
        }
        None
    }

    /// Waits until a member has ended. A simulation is told which they are: it reports them in a deadlock.
    async fn wait(&mut self) {
        let leaves = LeavesSet(Arc::as_ptr(&self.completions).addr());
        let slots = &mut self.slots;
        let mut wait = pin!(self.completions.event.wait());
        poll_fn(|cx| {
            let poll = wait.as_mut().poll(cx);
            if poll.is_pending() {
                context::simulation(|sim| {
                    sim.joins_set(leaves.0, slots.iter().flatten().filter_map(SetMember::running));
                });
            }
            poll
        })
        .await;
    }

    /// The first member that has ended.
    fn ended(&mut self) -> Option<Joined<T>> {
        while let Some(completion) = self.completions.next() {
            if let Some(joined) = self.look(completion.index) {
                return Some(joined);
            }
        }
        None
    }

    /// The result of this member, if it has ended.
    fn look(&mut self, index: usize) -> Option<Joined<T>> {
        let joined = match self.slots.get_mut(index)?.take()? {
            SetMember::Ended(id, result) => {
                if let Err(error) = &result {
                    error.give_out();
                }
                (id, result)
            }
            SetMember::Running(mut handle, completion) => {
                let waker = Waker::from(completion.clone());
                let Poll::Ready(result) = handle.poll_trusted(&mut Context::from_waker(&waker)) else {
                    self.slots[index] = Some(SetMember::Running(handle, completion));
                    return None;
                };
                (handle.id(), result)
            }
        };
        self.free.push(index);
        if self.is_empty() && self.slots.capacity() > KEPT_SLOTS {
            self.slots = Vec::new();
            self.free = Vec::new();
        }
        Some(joined)
    }

    /// Asks all tasks to end; each still has a result.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::JoinSet;
    /// tasuki_rt::run(async {
    ///     let mut tasks = JoinSet::new();
    ///     tasks.spawn(std::future::pending::<()>());
    ///     tasks.abort_all();
    ///     assert!(tasks.join_next().await.unwrap().unwrap_err().is_aborted());
    /// });
    /// ```
    pub fn abort_all(&self) {
        self.slots.iter().flatten().for_each(|member| {
            if let SetMember::Running(handle, _) = member {
                handle.abort();
            }
        });
    }

    /// Removes all tasks from the set without aborting them.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::JoinSet;
    /// tasuki_rt::run(async {
    ///     let mut tasks = JoinSet::new();
    ///     tasks.spawn(async {});
    ///     tasks.detach_all();
    ///     assert!(tasks.is_empty());
    /// });
    /// ```
    pub fn detach_all(&mut self) {
        let slots = std::mem::take(&mut self.slots);
        self.free.clear();
        self.completions.close();
        self.completions = no_completions();
        slots.into_iter().flatten().for_each(SetMember::discard);
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
        // A result that has come is foreign: a panic of one goes no further, and the others are dropped.
        self.slots.drain(..).flatten().for_each(SetMember::discard);
    }
}

/// Spawns every future, on the runtime of this thread; see [`JoinSet::spawn`]. Panics where there is none.
impl<T: Send + 'static, F: Future<Output = T> + Send + 'static> FromIterator<F> for JoinSet<T> {
    #[track_caller]
    fn from_iter<I: IntoIterator<Item = F>>(futures: I) -> Self {
        let mut set = Self::new();
        set.extend(futures);
        set
    }
}

/// As [`FromIterator`], into a set that there is.
impl<T: Send + 'static, F: Future<Output = T> + Send + 'static> Extend<F> for JoinSet<T> {
    #[track_caller]
    fn extend<I: IntoIterator<Item = F>>(&mut self, futures: I) {
        for future in futures {
            self.spawn(future);
        }
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
                            |member| matches!(member, SetMember::Running(handle, _) if !handle.is_finished()),
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
