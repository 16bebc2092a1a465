//! How a task ends: its output, or why there is none; and where panics go that no handle reports. The whole runtime calls foreign code through [`contain_panic`], which is here.

use super::builder;
use crate::context;
use crate::error::JoinError;
use crate::testing::UnobservedPanic;
use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use tasuki::task::TaskId;

/// What a panic carries.
pub(crate) type PanicPayload = Box<dyn Any + Send + 'static>;

/// Runs foreign code whose panic goes no further than the panic hook.
pub(crate) fn contain_panic(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        discard(payload);
    }
}

/// Drops what a panic carried, which may panic again, with something else to drop. After four such panics the payload is leaked.
pub(super) fn discard(mut payload: PanicPayload) {
    for _ in 0..4 {
        match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return,
            Err(next) => payload = next,
        }
    }
    std::mem::forget(payload);
}

/// Why a task has no output. Small, because every task has room for one.
pub(crate) enum Cause {
    Panicked(Box<Panic>),
    Aborted,
    /// Blocking work, for which the system gave no thread.
    Refused(io::Error),
}

/// A panic, to be reported.
pub(crate) struct Panic {
    /// In a mutex because it is not `Sync`.
    pub(crate) payload: Mutex<PanicPayload>,
    /// What the task is called.
    pub(crate) name: Option<Arc<str>>,
    /// Of a task of a simulation.
    unobserved: Option<UnobservedPanic>,
}

impl Panic {
    pub(super) fn new(payload: PanicPayload) -> Box<Self> {
        let unobserved = context::simulation(|sim| sim.panics(&payload));
        Box::new(Self { payload: Mutex::new(payload), name: builder::name_of_panic(), unobserved })
    }

    /// A caller has asked for it.
    pub(crate) fn give_out(&self) {
        self.unobserved.iter().for_each(UnobservedPanic::give_out);
    }

    pub(crate) fn into_payload(self) -> PanicPayload {
        self.payload.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cause {
    #[cold]
    pub(crate) fn of(self, id: TaskId) -> JoinError {
        match self {
            Self::Panicked(panic) => JoinError::panicked(id, panic),
            Self::Aborted => JoinError::aborted(id),
            Self::Refused(error) => JoinError::refused(id, error),
        }
    }
}

/// How a task ended. Its destructor lets no panic out.
pub(crate) struct TaskOutput<T>(pub(super) Option<Result<T, Cause>>);

impl<T> TaskOutput<T> {
    pub(crate) fn take(mut self) -> Result<T, Cause> {
        self.0.take().expect("taken once")
    }
}

impl<T> Drop for TaskOutput<T> {
    fn drop(&mut self) {
        match self.0.take() {
            Some(Err(Cause::Panicked(panic))) => drop_panic(*panic),
            Some(result) => drop_foreign(result),
            None => (),
        }
    }
}

/// Drops what a task or a posted closure leaves behind. A panic of it goes no further than the panic hook; in a simulation it is a failure.
pub(crate) fn drop_foreign<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        unobserved(payload);
    }
}

/// Drops the result of a task that no caller has asked for. A panic in it is no more observed than if its handle had been dropped.
pub(crate) fn drop_result<T>(result: Result<T, JoinError>) {
    match result.map_err(JoinError::into_panic_of_task) {
        Err(Ok(panic)) => drop_panic(*panic),
        other => drop_foreign(other),
    }
}

/// Drops the panic of a task that no caller has asked for.
#[cold]
fn drop_panic(mut panic: Panic) {
    // The thread may be a foreign one, to which the handle was moved: then the simulation fails at its end.
    panic.unobserved.take().into_iter().for_each(UnobservedPanic::stay);
    unobserved(panic.into_payload());
}

/// A panic that no handle reports. In a simulation it is a failure.
#[cold]
pub(super) fn unobserved(payload: PanicPayload) {
    let mut payload = Some(payload);
    context::simulation(|sim| payload.take().map(|payload| sim.panicked(payload)));
    if let Some(payload) = payload {
        discard(payload);
    }
}
