//! A fake driver: a runtime that answers what the test has set, with a clock that is moved by hand.

use super::poll::pending;
use super::waker::Spy;
use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};
use tasuki::runtime::{self, Driver, Sleep, TaskId, Timers};
use tasuki::{CancellationSource, CancellationToken};

/// Answers what its fields say.
pub(crate) struct FakeDriver {
    pub(crate) timers: Option<Arc<Timers>>,
    pub(crate) task: Option<TaskId>,
    pub(crate) may_block: bool,
    pub(crate) now: Cell<Instant>,
}

impl FakeDriver {
    pub(crate) fn new() -> Self {
        Self { timers: None, task: None, may_block: true, now: Cell::new(Instant::now()) }
    }

    /// The task that runs has this identity.
    pub(crate) fn of(task: TaskId) -> Self {
        Self { task: Some(task), ..Self::new() }
    }

    pub(crate) fn with_timers(timers: &Arc<Timers>) -> Self {
        Self { timers: Some(timers.clone()), ..Self::new() }
    }

    /// Turns the wheel to the present.
    pub(crate) fn advance(&self) -> Option<Instant> {
        self.timers.as_ref().expect("there is a wheel").advance(self.now.get())
    }

    /// The clock goes on and the wheel is turned.
    pub(crate) fn pass(&self, time: Duration) -> Option<Instant> {
        self.now.set(self.now.get() + time);
        self.advance()
    }

    pub(crate) fn sleep(&self, time: Duration, spy: &Spy) -> Pin<Box<Sleep>> {
        let mut sleep = Box::pin(runtime::sleep(time));
        runtime::enter(self, || pending(&mut sleep, spy));
        sleep
    }
}

impl Driver for FakeDriver {
    fn task(&self) -> Option<TaskId> {
        self.task
    }

    fn timers(&self) -> Option<Arc<Timers>> {
        self.timers.clone()
    }

    fn may_block(&self) -> bool {
        self.may_block
    }

    fn now(&self) -> Instant {
        self.now.get()
    }
}

/// A wheel that stands still until the end, and a token.
pub(crate) struct Limits {
    pub(crate) driver: FakeDriver,
    pub(crate) source: CancellationSource,
    pub(crate) token: CancellationToken,
}

impl Limits {
    const TIME: Duration = Duration::from_secs(100);

    pub(crate) fn new() -> Self {
        let source = CancellationSource::new();
        let driver = FakeDriver::with_timers(&Arc::new(Timers::new(Waker::noop().clone())));
        Self { driver, token: source.token(), source }
    }

    /// Before the end.
    pub(crate) fn deadline(&self) -> Instant {
        self.driver.now.get() + Self::TIME
    }

    /// The time is over, and the token is cancelled.
    pub(crate) fn end(&self) {
        self.driver.pass(2 * Self::TIME);
        self.source.request_cancel();
    }
}
