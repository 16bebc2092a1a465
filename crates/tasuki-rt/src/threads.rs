//! The threads of the workers: how they are started, and how their end is waited for.

use crate::context;
use crate::scheduler::{Shared, UnstartedWorker, shutdown, worker};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The threads of a runtime, before and after their start.
pub(crate) struct Threads {
    /// What the threads are called, each followed by its number.
    name: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    unstarted: Vec<UnstartedWorker>,
    handles: Vec<thread::JoinHandle<()>>,
}

impl Threads {
    pub(crate) fn new(name: String) -> Self {
        Self { name, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The workers whose threads `start` is to start.
    pub(crate) fn keep(&self, unstarted: Vec<UnstartedWorker>) {
        self.state().unstarted = unstarted;
    }
}

impl Shared {
    /// Starts the threads that have not been started. If the system refuses one, the runtime closes.
    pub(crate) fn start(self: &Arc<Self>) -> io::Result<()> {
        let mut state = self.threads.state();
        let mut unstarted = std::mem::take(&mut state.unstarted).into_iter();
        while let Some(first) = unstarted.next() {
            match self.start_worker(first) {
                Ok(handle) => state.handles.push(handle),
                Err((error, failed)) => {
                    // What a task does when it is dropped may ask for the threads.
                    drop(state);
                    self.close();
                    shutdown::leave_unstarted(self, failed.into_iter().chain(unstarted).collect());
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn start_worker(
        self: &Arc<Self>,
        first: UnstartedWorker,
    ) -> Result<thread::JoinHandle<()>, (io::Error, Option<UnstartedWorker>)> {
        let name = format!("{}-{}", self.threads.name, first.index);
        let shared = self.clone();
        // In a box that comes back if the thread does not start.
        let slot = Arc::new(Mutex::new(Some(first)));
        let given = slot.clone();
        let take = |slot: &Mutex<Option<UnstartedWorker>>| {
            slot.lock().unwrap_or_else(PoisonError::into_inner).take()
        };
        let body = move || worker::main(shared, take(&given).expect("given to one thread"));
        thread::Builder::new().name(name).spawn(body).map_err(|error| (error, take(&slot)))
    }

    /// Refuses new tasks and asks the workers to leave; those that were not started leave here.
    pub(crate) fn close_all(self: &Arc<Self>) {
        self.close();
        if (context::is_worker() || context::blocks_for(self)) && self.blocking.has_threads() {
            // Blocking work is waited for, which may be the caller's own: by threads that leave at once, not here.
            drop(self.start());
        }
        let unstarted = std::mem::take(&mut self.threads.state().unstarted);
        shutdown::leave_unstarted(self, unstarted);
    }

    /// After [`close_all`](Self::close_all): waits for the threads; false when the time is over first.
    pub(crate) fn wait_for_threads(&self, timeout: Duration) -> bool {
        if !self.shutdown.wait(timeout) {
            return false;
        }
        let handles = std::mem::take(&mut self.threads.state().handles);
        handles.into_iter().for_each(|handle| drop(handle.join()));
        true
    }
}
