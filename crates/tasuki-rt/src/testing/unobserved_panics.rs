//! What tasks of a simulation panicked with that no handle or set has given out yet. What is left at the end of a run is a failure, wherever the handle or the set is: in a static, forgotten, or returned by the test.

use crate::error::panic_message;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The messages of such panics, in their order. Shared, because any thread may take the output of a task.
#[derive(Clone, Debug, Default)]
pub(super) struct UnobservedPanics(Arc<Mutex<PanicMessages>>);

#[derive(Debug, Default)]
struct PanicMessages {
    next: u64,
    unobserved: BTreeMap<u64, String>,
}

impl UnobservedPanics {
    /// A task has panicked with this.
    pub(super) fn note(&self, payload: &(dyn Any + Send)) -> UnobservedPanic {
        let message = panic_message(payload).unwrap_or("a task has panicked").to_owned();
        let mut messages = self.messages();
        let number = messages.next;
        messages.next += 1;
        messages.unobserved.insert(number, message.clone());
        drop(messages);
        UnobservedPanic { number, message, stays: false, of: self.clone() }
    }

    /// The message of the first one that is left.
    pub(super) fn first(&self) -> Option<String> {
        self.messages().unobserved.values().next().cloned()
    }

    fn messages(&self) -> MutexGuard<'_, PanicMessages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of them, until it is given out or dropped.
#[derive(Debug)]
pub(crate) struct UnobservedPanic {
    number: u64,
    message: String,
    stays: bool,
    of: UnobservedPanics,
}

impl UnobservedPanic {
    /// A handle gives it out.
    pub(crate) fn give_out(&self) {
        self.of.messages().unobserved.remove(&self.number);
    }

    /// No handle gives it out any more, on whatever thread that was dropped: it is left for the end of the run.
    pub(crate) fn stay(mut self) {
        self.of.messages().unobserved.insert(self.number, std::mem::take(&mut self.message));
        self.stays = true;
    }
}

impl Drop for UnobservedPanic {
    fn drop(&mut self) {
        if !self.stays {
            self.give_out();
        }
    }
}
