//! `TaskBuilder`: a task with a name.
//!
//! The name is kept beside the future, not in the cell: a task without one pays nothing. A simulation is told of it by the spawn; a panic
//! leaves it, while it unwinds, for the one that catches it ([`name_of_panic`]).

use super::join::JoinHandle;
use crate::context::{self, SpawnSite};
use crate::event_loop::WorkerId;
use crate::handle::Handle;
use crate::runtime::{spawn_blocking_in, spawn_in, spawn_local_in, spawn_on_in};
use crate::scheduler::Shared;
use std::cell::Cell;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Spawns tasks with names.
///
/// ```
/// use tasuki_rt::TaskBuilder;
///
/// tasuki_rt::run(async {
///     let reader = TaskBuilder::new().name("reader").spawn(async { panic!("no more input") });
///     let error: String = reader.await.map(|()| unreachable!()).unwrap_err().to_string();
///     assert!(error.contains("`reader` panicked: no more input"));
/// });
/// ```
///
/// The name is in the error of a task that panicked, in dumps ([`Runtime::dump`](crate::Runtime::dump)) and in the reports of deadlocks ([`tasuki::inspect`]), in the reports of [`testing`](crate::testing), and with the feature
/// `tracing` in the span of the task. It need not be unique.
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing before it spawns"]
pub struct TaskBuilder {
    name: Option<Arc<str>>,
    handle: Option<Handle>,
}

impl TaskBuilder {
    /// Creates a builder of tasks without a name, on the runtime of the thread that spawns them.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = tasuki_rt::TaskBuilder::new();
    /// # drop(builder);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name of the task.
    ///
    /// # Examples
    ///
    /// ```
    /// let builder = tasuki_rt::TaskBuilder::new().name("reader");
    /// # drop(builder);
    /// ```
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the runtime of the task, which runs once that [has started](crate::Runtime#start).
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// let task = tasuki_rt::TaskBuilder::new().name("five").on(&runtime.handle()).spawn(async { 5 });
    /// assert_eq!(runtime.block_on(task).unwrap(), 5);
    /// ```
    pub fn on(mut self, runtime: &Handle) -> Self {
        self.handle = Some(runtime.clone());
        self
    }

    #[track_caller]
    fn shared(&self) -> Arc<Shared> {
        match &self.handle {
            Some(handle) => handle.shared.clone(),
            None => context::shared("spawn", Arc::clone),
        }
    }

    #[track_caller]
    fn site(&self) -> SpawnSite<'_> {
        SpawnSite { name: self.name.as_ref(), ..SpawnSite::here() }
    }

    /// Spawns it; see [`spawn`](crate::spawn()).
    ///
    /// # Panics
    ///
    /// Where there is no runtime, unless one was given.
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::run(async {
    ///     assert_eq!(tasuki_rt::TaskBuilder::new().name("three").spawn(async { 3 }).await.unwrap(), 3);
    /// });
    /// ```
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let named = Named::new(self.name.clone(), future);
        let site = self.site();
        spawn_in(&self.shared(), named, site).handle()
    }

    /// Spawns it on one worker; see [`spawn_on`](crate::spawn_on()).
    ///
    /// # Panics
    ///
    /// As [`spawn`](Self::spawn), and if there is no such worker.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::{TaskBuilder, WorkerId};
    /// tasuki_rt::run(async {
    ///     let task = TaskBuilder::new().name("there").spawn_on(WorkerId::new(0), || async { 3 });
    ///     assert_eq!(task.await.unwrap(), 3);
    /// });
    /// ```
    #[track_caller]
    pub fn spawn_on<C, F>(&self, worker: WorkerId, make: C) -> JoinHandle<F::Output>
    where
        C: FnOnce() -> F + Send + 'static,
        F: Future<Output: Send + 'static> + 'static,
    {
        let make = NamedClosure::new(self.name.clone(), make);
        let make = move || {
            let name = make.name.clone();
            Named::new(name, make.call())
        };
        let site = self.site();
        spawn_on_in(&self.shared(), worker, make, site)
    }

    /// Spawns it on the worker that calls; see [`spawn_local`](crate::spawn_local()).
    ///
    /// # Panics
    ///
    /// On a thread that is not a worker of the runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::{LocalRuntime, TaskBuilder};
    /// LocalRuntime::new().unwrap().block_on(async {
    ///     let task = TaskBuilder::new().name("here").spawn_local(async { std::rc::Rc::new(3) });
    ///     assert_eq!(*task.await.unwrap(), 3);
    /// });
    /// ```
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: 'static> + 'static,
    {
        let named = Named::new(self.name.clone(), future);
        let site = self.site();
        spawn_local_in(&self.shared(), named, site)
    }

    /// Runs a closure that may block, under this name; see [`spawn_blocking`](crate::spawn_blocking()).
    ///
    /// # Panics
    ///
    /// As [`spawn`](Self::spawn).
    ///
    /// # Examples
    ///
    /// ```
    /// tasuki_rt::run(async {
    ///     let work = tasuki_rt::TaskBuilder::new().name("sum").spawn_blocking(|| 1 + 2);
    ///     assert_eq!(work.await.unwrap(), 3);
    /// });
    /// ```
    #[track_caller]
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let work = NamedClosure::new(self.name.clone(), work);
        let work = move || work.call();
        let site = self.site();
        spawn_blocking_in(&self.shared(), work, site)
    }
}

thread_local! {
    /// The name of the task whose panic is unwinding, or was just caught.
    static PANICKED: Cell<Option<Arc<str>>> = const { Cell::new(None) };
}

/// The name of the task whose panic was just caught on this thread, if it has one.
pub(super) fn name_of_panic() -> Option<Arc<str>> {
    PANICKED.try_with(Cell::take).ok().flatten()
}

/// Leaves a name for the one that catches the panic which is unwinding.
pub(super) fn leave_name(name: Option<Arc<str>>) {
    let _ = PANICKED.try_with(|place| place.set(name));
}

/// Calls foreign code under this name.
fn named<R>(name: Option<&Arc<str>>, f: impl FnOnce() -> R) -> R {
    /// Dropped only if the code panics: whether the thread does says nothing, for the task may be polled by a destructor.
    struct LeavesName<'a>(Option<&'a Arc<str>>);
    impl Drop for LeavesName<'_> {
        fn drop(&mut self) {
            leave_name(self.0.cloned());
        }
    }
    let unless_returned = LeavesName(name);
    let output = f();
    std::mem::forget(unless_returned);
    output
}

/// A closure with the name of its task, under which it is called, or dropped: an abort may come before the call.
struct NamedClosure<C> {
    name: Option<Arc<str>>,
    /// `None` when it is called.
    closure: Option<C>,
}

impl<C> NamedClosure<C> {
    fn new(name: Option<Arc<str>>, closure: C) -> Self {
        Self { name, closure: Some(closure) }
    }

    fn call<R>(mut self) -> R
    where
        C: FnOnce() -> R,
    {
        let closure = self.closure.take().expect("called once");
        named(self.name.as_ref(), closure)
    }
}

impl<C> Drop for NamedClosure<C> {
    fn drop(&mut self) {
        if let Some(closure) = self.closure.take() {
            named(self.name.as_ref(), || drop(closure));
        }
    }
}

/// A future with the name of its task, under which it is polled and dropped.
struct Named<F> {
    name: Option<Arc<str>>,
    future: ManuallyDrop<F>,
}

impl<F> Named<F> {
    fn new(name: Option<Arc<str>>, future: F) -> Self {
        Self { name, future: ManuallyDrop::new(future) }
    }
}

impl<F> Drop for Named<F> {
    fn drop(&mut self) {
        let Self { name, future } = self;
        // SAFETY: dropped here, once, in its place, and not used afterwards.
        named(name.as_ref(), || unsafe { ManuallyDrop::drop(future) });
    }
}

impl<F: Future> Future for Named<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: a projection: the future is never moved out of the pinned whole.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut *this.future) };
        named(this.name.as_ref(), || future.poll(cx))
    }
}
