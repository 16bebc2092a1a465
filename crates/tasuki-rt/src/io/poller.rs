//! The poller of a runtime: one wait of the operating system for all its sockets. It exists from the first registration on.
//!
//! Any thread registers and deregisters. One worker at a time polls, the one that has the *poll slot* (`scheduler/idle.rs`): it waits, writes down what was reported, leaves the slot,
//! and then wakes the tasks. So no waker is called under a lock, and none by a thread that the scheduler takes for a sleeper.
//!
//! # Fork
//! The child of a fork shares the wait of its parent: what it registered, took back or waited for there would be the parent's. So it does neither: a registration and the start of the runtime are
//! errors, and a socket that is dropped or taken out stays registered, in the parent alone once the child has closed it.
//!
//! # Tokens
//! A token is an index of the table of sources. One that was deregistered may be in the events of a wait that has just returned, and may belong to a new source by then: that
//! one is told that it is ready, which costs it one operation that would block.

use super::readiness::Report;
use super::source::{Delivery, Source, gone};
use super::system::{BATCH, Events, INTERRUPT};
use crate::context;
use crate::scheduler::Shared;
use crate::threads::process;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};
use tasuki::Parker;
use tasuki::runtime::park_in;

/// How long a worker sleeps if the system refuses to wait: it never should.
const REFUSED: Duration = Duration::from_millis(1);

/// The sockets of a runtime.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    poller: OnceLock<Arc<Poller>>,
    /// Held while the poller starts.
    starting: Mutex<()>,
}

impl Sockets {
    /// Has a socket been registered?
    #[inline]
    pub(crate) fn are_used(&self) -> bool {
        self.poller.get().is_some()
    }

    /// Was the poller started by the process of which this one is a fork?
    pub(crate) fn are_elsewhere(&self) -> bool {
        self.poller.get().is_some_and(|poller| poller.is_elsewhere())
    }

    /// The poller of a runtime; starts it at the first call.
    fn poller_of(shared: &Shared) -> io::Result<&Arc<Poller>> {
        let sockets = &shared.sockets;
        if let Some(poller) = sockets.poller.get() {
            return Ok(poller);
        }
        let starting = sockets.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.is_closing() {
            return Err(gone());
        }
        if sockets.poller.get().is_none() {
            let started = Poller::new().map_err(|error| {
                let why = format!("the runtime cannot wait for sockets: its poller does not start: {error}");
                io::Error::new(error.kind(), why)
            })?;
            let _ = sockets.poller.set(Arc::new(started));
        }
        drop(starting);
        shared.open_poll_slot();
        Ok(sockets.poller.get().expect("set above"))
    }

    /// Sleeps in the poll, instead of on the parker. For the worker with the poll slot. `asks` is called before the system is asked; not at all if the parker has a token.
    pub(crate) fn sleep(
        &self,
        parker: &Parker,
        deadline: Option<Instant>,
        deliveries: &mut Vec<Delivery>,
        asks: impl FnOnce(),
    ) {
        let Some(poller) = self.poller.get() else { return };
        park_in(parker, &poller.interrupt, || {
            asks();
            let timeout = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if poller.wait(timeout, deliveries).is_err() {
                std::thread::sleep(REFUSED);
            }
        });
    }

    /// Takes what is ready, without waiting. For the worker with the poll slot.
    pub(crate) fn poll(&self, deliveries: &mut Vec<Delivery>) {
        if let Some(poller) = self.poller.get() {
            // What it refuses now it refuses again, in the sleep above.
            let _ = poller.wait(Some(Duration::ZERO), deliveries);
        }
    }

    /// The workers poll no more: every operation on a socket of this runtime is an error from now on.
    pub(crate) fn close(&self) {
        // Behind a poller that starts now: it sees that the runtime closes, or we see it.
        drop(self.starting.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(poller) = self.poller.get() else { return };
        let sources = {
            let mut table = poller.table();
            table.closed = true;
            table.sources.iter().flatten().cloned().collect::<Vec<_>>()
        };
        let mut deliveries = Vec::new();
        let report = Report { gone: true, ..Report::default() };
        sources.iter().for_each(|source| source.deliver(report, &mut deliveries));
        deliveries.into_iter().for_each(Delivery::wake);
    }
}

/// Makes a worker return from its wait.
#[derive(Debug)]
struct Interrupt(mio::Waker);

impl Wake for Interrupt {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // It fails where the descriptor is gone, and that lives as long as we do.
        let _ = self.0.wake();
    }
}

/// One wait for all sockets of a runtime.
pub(crate) struct Poller {
    registry: mio::Registry,
    interrupt: Waker,
    /// Never contended: the poll slot lets one worker in.
    poll_state: Mutex<SystemPoll>,
    table: Mutex<SourceTable>,
    /// The process that started it.
    process: u32,
}

/// What the worker that polls uses.
struct SystemPoll {
    poll: mio::Poll,
    events: Events,
}

/// Which source a token means.
#[derive(Default)]
struct SourceTable {
    sources: Vec<Option<Arc<Source>>>,
    free: Vec<usize>,
    /// The runtime has shut down.
    closed: bool,
}

impl Poller {
    fn new() -> io::Result<Self> {
        let poll = mio::Poll::new()?;
        let registry = poll.registry().try_clone()?;
        let interrupt = Waker::from(Arc::new(Interrupt(mio::Waker::new(&registry, INTERRUPT)?)));
        let poll_state = Mutex::new(SystemPoll { poll, events: Events::new() });
        Ok(Self { registry, interrupt, poll_state, table: Mutex::default(), process: process() })
    }

    /// Is this process a fork of the one that started it?
    pub(super) fn is_elsewhere(&self) -> bool {
        self.process != process()
    }

    fn table(&self) -> MutexGuard<'_, SourceTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits, and notes the wakes that are to follow.
    fn wait(&self, timeout: Option<Duration>, deliveries: &mut Vec<Delivery>) -> io::Result<()> {
        let mut poll_state = self.poll_state.lock().unwrap_or_else(PoisonError::into_inner);
        let SystemPoll { poll, events } = &mut *poll_state;
        // Once for a worker: from then on a wait allocates nothing, whatever it brings.
        deliveries.reserve(4 * BATCH);
        events.wait(poll, timeout)?;
        let table = self.table();
        for (token, report) in events.iter() {
            if let Some(Some(source)) = table.sources.get(token) {
                source.deliver(report, deliveries);
            }
        }
        Ok(())
    }

    /// Registers a socket for both directions. `ready`: the first operation tries, without a report.
    pub(super) fn register(&self, io: &mut impl mio::event::Source, ready: bool) -> io::Result<Arc<Source>> {
        if self.is_elsewhere() {
            let why =
                "the sockets of this runtime are in the process that forked: make a runtime in this one";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let source = {
            let mut table = self.table();
            if table.closed {
                return Err(gone());
            }
            let token = table.free.pop().unwrap_or(table.sources.len());
            let source = Arc::new(Source::new(token, ready));
            if token == table.sources.len() {
                table.sources.push(Some(source.clone()));
                // All are in use: the drop of a socket allocates nothing.
                let room = table.sources.capacity();
                table.free.reserve(room);
            } else {
                table.sources[token] = Some(source.clone());
            }
            source
        };
        let interest = mio::Interest::READABLE | mio::Interest::WRITABLE;
        // Urgent data: a read ends short at its mark (`readiness.rs`, invariant 3).
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let interest = interest | mio::Interest::PRIORITY;
        if let Err(error) = self.registry.register(io, mio::Token(source.token), interest) {
            self.forget(&source);
            return Err(error);
        }
        Ok(source)
    }

    /// Takes a socket back, before it is closed: its descriptor may have been duplicated, and would be reported for ever.
    pub(super) fn deregister(&self, io: &mut impl mio::event::Source, source: &Source) {
        // In the child of a fork: it is the parent's, and the lock of the table may be held by a thread that is not here.
        if self.is_elsewhere() {
            return;
        }
        // It fails for a descriptor that was closed behind our back, and there is nothing to take back then.
        let _ = self.registry.deregister(io);
        self.forget(source);
    }

    fn forget(&self, source: &Source) {
        let forgotten = {
            let mut table = self.table();
            table.free.push(source.token);
            table.sources[source.token].take()
        };
        drop(forgotten);
    }
}

impl std::fmt::Debug for Poller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let table = self.table();
        let registered = table.sources.len() - table.free.len();
        f.debug_struct("Poller").field("registered", &registered).field("closed", &table.closed).finish()
    }
}

/// The poller of the runtime of this thread.
pub(super) fn current() -> io::Result<Arc<Poller>> {
    let Some(shared) = context::current() else {
        return Err(io::Error::other(
            "no runtime on this thread: make sockets inside a task, `block_on` or `Runtime::enter`",
        ));
    };
    if context::simulates(&shared) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "a simulation has no sockets: what the network does could not be repeated",
        ));
    }
    Sockets::poller_of(&shared).cloned()
}
