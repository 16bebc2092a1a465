//! Tasks that a `WaitGroup` counts: spawned with a member, which is dropped after the future.

use crate::event_loop::WorkerId;
use crate::functions;
use crate::task::join::JoinHandle;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tasuki::{OwnedWaitGroupMember, WaitGroup};

/// Spawns tasks that a [`WaitGroup`] counts, so that their end can be waited for without keeping their handles.
///
/// ```
/// use std::sync::Arc;
/// use tasuki::WaitGroup;
/// use tasuki_rt::WaitGroupExt;
///
/// tasuki_rt::run(async {
///     let group = Arc::new(WaitGroup::new());
///     for n in 0..3 {
///         // The handle can be ignored.
///         group.spawn(async move { println!("{n}") });
///     }
///     group.wait().await;
/// });
/// ```
///
/// A task is counted before the call returns, and until its future is gone, whether it has ended, panicked, was aborted or was refused. What it held has been dropped
/// when [`wait`](WaitGroup::wait) ends, and what it did is seen. Its output belongs to its handle. A group keeps nothing of its tasks: it is the
/// way to wait for tasks that come and go for as long as a service runs. To have their results, use a [`JoinSet`](crate::JoinSet).
#[doc(alias = "TaskTracker")]
pub trait WaitGroupExt: sealed::Sealed {
    /// Spawns a task; see [`spawn`](crate::spawn()).
    ///
    /// # Panics
    ///
    /// Where there is no runtime, and if the group has too many members.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tasuki::WaitGroup;
    /// use tasuki_rt::WaitGroupExt;
    /// tasuki_rt::run(async {
    ///     let group = Arc::new(WaitGroup::new());
    ///     let task = group.spawn(async { 1 });
    ///     group.wait().await;
    ///     assert_eq!(task.await.unwrap(), 1);
    /// });
    /// ```
    #[track_caller]
    fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static;

    /// Spawns a task on one worker; see [`spawn_on`](crate::spawn_on()).
    ///
    /// # Panics
    ///
    /// As [`spawn`](Self::spawn), and if there is no such worker.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tasuki::WaitGroup;
    /// use tasuki_rt::{WaitGroupExt, WorkerId};
    /// tasuki_rt::run(async {
    ///     let group = Arc::new(WaitGroup::new());
    ///     group.spawn_on(WorkerId::new(0), || async {});
    ///     group.wait().await;
    /// });
    /// ```
    #[track_caller]
    fn spawn_on<C, F>(&self, worker: WorkerId, make: C) -> JoinHandle<F::Output>
    where
        C: FnOnce() -> F + Send + 'static,
        F: Future<Output: Send + 'static> + 'static;

    /// Spawns a task on the worker that calls it; see [`spawn_local`](crate::spawn_local()).
    ///
    /// # Panics
    ///
    /// As [`spawn`](Self::spawn), and on a thread that is no worker.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tasuki::WaitGroup;
    /// use tasuki_rt::{WaitGroupExt, WorkerId};
    /// tasuki_rt::run(async {
    ///     let task = tasuki_rt::spawn_on(WorkerId::new(0), || async {
    ///         let group = Arc::new(WaitGroup::new());
    ///         group.spawn_local(async { std::rc::Rc::new(1) });
    ///         group.wait().await;
    ///     });
    ///     task.await.unwrap();
    /// });
    /// ```
    #[track_caller]
    fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: 'static> + 'static;

    /// Runs a closure that may block; see [`spawn_blocking`](crate::spawn_blocking()).
    ///
    /// # Panics
    ///
    /// As [`spawn`](Self::spawn).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tasuki::WaitGroup;
    /// use tasuki_rt::WaitGroupExt;
    /// tasuki_rt::run(async {
    ///     let group = Arc::new(WaitGroup::new());
    ///     group.spawn_blocking(|| ());
    ///     group.wait().await;
    /// });
    /// ```
    #[track_caller]
    fn spawn_blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T>;
}

mod sealed {
    /// Only for groups that a member can keep alive.
    pub trait Sealed {}
    impl Sealed for std::sync::Arc<tasuki::WaitGroup> {}
}

/// A future, and the member that is dropped after it. In this order: an abort drops the fields, too.
struct MemberFuture<F> {
    future: F,
    _member: OwnedWaitGroupMember,
}

impl<F: Future> Future for MemberFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: a projection: the future is never moved out of the pinned whole.
        unsafe { self.map_unchecked_mut(|this| &mut this.future) }.poll(cx)
    }
}

#[track_caller]
fn track<F>(group: &Arc<WaitGroup>, future: F) -> MemberFuture<F> {
    MemberFuture { future, _member: group.clone().member_owned() }
}

impl WaitGroupExt for Arc<WaitGroup> {
    #[track_caller]
    fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        functions::spawn(track(self, future))
    }

    #[track_caller]
    fn spawn_on<C, F>(&self, worker: WorkerId, make: C) -> JoinHandle<F::Output>
    where
        C: FnOnce() -> F + Send + 'static,
        F: Future<Output: Send + 'static> + 'static,
    {
        let make = MemberClosure { make, member: self.clone().member_owned() };
        functions::spawn_on(worker, move || make.call())
    }

    #[track_caller]
    fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: 'static> + 'static,
    {
        functions::spawn_local(track(self, future))
    }

    #[track_caller]
    fn spawn_blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let make = MemberClosure { make: work, member: self.clone().member_owned() };
        functions::spawn_blocking(move || make.call_blocking())
    }
}

/// A closure, and the member that is dropped after it.
struct MemberClosure<C> {
    make: C,
    member: OwnedWaitGroupMember,
}

impl<F, C: FnOnce() -> F> MemberClosure<C> {
    fn call(self) -> MemberFuture<F> {
        let Self { make, member } = self;
        MemberFuture { future: make(), _member: member }
    }

    fn call_blocking(self) -> F {
        let Self { make, member } = self;
        let output = make();
        drop(member);
        output
    }
}
