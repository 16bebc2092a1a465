//! tokio-util: its cancellation token (a tree behind a mutex) and its task tracker.

use crate::peer::{Broadcast, Membership, StopCheck};
use std::cell::Cell;
use std::future::Future;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// `tokio_util::sync::CancellationToken`.
pub(crate) struct UtilToken(CancellationToken);

impl Broadcast for UtilToken {
    const NAME: &'static str = "tokio-util";
    const BYTES: usize = size_of::<CancellationToken>();

    fn new() -> Self {
        UtilToken(CancellationToken::new())
    }

    fn rearm(&mut self) {
        self.0 = CancellationToken::new();
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.0.cancelled()
    }

    #[inline]
    fn release(&self) {
        self.0.cancel();
    }
}

impl StopCheck for UtilToken {
    const NAME: &'static str = "tokio-util";

    fn new() -> Self {
        UtilToken(CancellationToken::new())
    }

    #[inline]
    fn is_requested(&self) -> bool {
        self.0.is_cancelled()
    }

    fn request(&self) {
        self.0.cancel();
    }
}

/// `tokio_util::task::TaskTracker`.
pub(crate) struct UtilTracker(TaskTracker);

impl Membership for UtilTracker {
    const NAME: &'static str = "tokio-util";
    type Member<'a> = TaskTrackerToken;
    type Owned = TaskTrackerToken;

    fn new() -> Self {
        UtilTracker(TaskTracker::new())
    }

    #[inline]
    fn member(&self) -> Self::Member<'_> {
        self.0.token()
    }

    #[inline]
    fn owned(&self) -> Self::Owned {
        self.0.token()
    }

    fn wait(self) -> impl Future<Output = ()> + 'static {
        self.0.close();
        async move { self.0.wait().await }
    }
}

/// A closed tracker with one task left.
pub(crate) struct UtilRelease {
    tracker: TaskTracker,
    last: Cell<Option<TaskTrackerToken>>,
}

impl Broadcast for UtilRelease {
    const NAME: &'static str = "tokio-util";
    const BYTES: usize = size_of::<TaskTracker>();

    fn new() -> Self {
        let tracker = TaskTracker::new();
        tracker.close();
        UtilRelease { tracker, last: Cell::new(None) }
    }

    fn rearm(&mut self) {
        self.last.set(Some(self.tracker.token()));
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.tracker.wait()
    }

    #[inline]
    fn release(&self) {
        self.last.set(None);
    }
}
