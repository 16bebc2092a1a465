//! The thread-local context: which runtime a thread belongs to, in which role, and which task it polls.
//!
//! A worker, the thread in `block_on`, a thread for blocking work and a simulation enter a [`Context`]; `spawn` and the like find it by [`with`]. It is also the driver through
//! which the primitives of `tasuki` ask for the task, the clock, the timers and the budget.
//!
//! A guard ([`Entered`]) says to which runtime a spawn goes that names none ([`shared`]), and nothing else: the thread polls what it polled before, in the same role
//! and by the same driver.
//!
//! # Invariants
//! 1. While `CURRENT` points to a context, or one entered later remembers it, that context exists: [`Context::enter`] borrows it. The same holds for `ENTERED` and
//!    its runtime, which a context holds or a guard; a guard that is not dropped in the reverse order leaks it.
//! 2. No foreign code runs inside [`with`] and [`shared`]: it could drop the guard of the very runtime that is looked at.

use crate::budget::Budget;
use crate::metrics::PollTimeCounters;
use crate::scheduler::Shared;
use crate::scheduler::worker::Local;
use crate::task_local::outside_of_scopes;
use crate::testing::Sim;
use std::cell::Cell;
use std::future::poll_fn;
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::task::{RawWakerVTable, Waker};
use std::time::Instant;
use tasuki::runtime::{Charge, Driver, TaskId, Timers};

/// A thread's membership in a runtime, for as long as [`Context::enter`] lasts.
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    pub(crate) role: ThreadRole,
    task: Cell<Option<TaskId>>,
    /// The waker that the current poll was given, to compare with.
    waker: Cell<Option<WakerParts>>,
    budget: Budget,
    /// Where the times of polls are counted, if they are.
    times: Option<Arc<PollTimeCounters>>,
}

/// Data and table of a waker. Both make it the one it is: the data alone may be null, or taken over by a foreign table.
type WakerParts = (*const (), *const RawWakerVTable);

/// What a thread is in its runtime.
pub(crate) enum ThreadRole {
    /// A worker, and its event loop.
    Worker(Box<Local>),
    /// The thread in `block_on`, or one for blocking work.
    Outside,
    /// All workers at once, in a test.
    Sim(Box<Sim>),
}

thread_local! {
    /// No destructor, so it can be read for as long as the thread lives.
    static CURRENT: Cell<*const Context> = const { Cell::new(ptr::null()) };
    /// The runtime of the current context, or of a guard made later. As above.
    static ENTERED: Cell<*const Arc<Shared>> = const { Cell::new(ptr::null()) };
    /// The runtime that started this thread, whose end may wait for it; none has the number 0. From the hook of its start to the destructors of its thread-local variables.
    static THREAD_OF: Cell<u32> = const { Cell::new(0) };
    /// The innermost of the refused tasks that this thread drops. As above.
    static DROPS: Cell<*const RefusedDrop> = const { Cell::new(ptr::null()) };
}

/// A refused task is dropped by the call that this is on the stack of; the destructor of one may bring about that of another, also of another runtime.
struct RefusedDrop {
    /// The runtime of the task.
    runtime: u32,
    outer: *const RefusedDrop,
}

/// Looks at the context of this thread. `look` runs no foreign code.
#[inline]
pub(crate) fn with<R>(look: impl FnOnce(Option<&Context>) -> R) -> R {
    let current = CURRENT.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: it exists while the pointer is there (invariant 1) and as long as `look` lasts (invariant 2); this is its thread.
    look(unsafe { current.as_ref() })
}

/// Looks at the context of this thread if it belongs to this runtime. `look` runs no foreign code.
#[inline]
pub(crate) fn with_own<R>(shared: &Shared, look: impl FnOnce(Option<&Context>) -> R) -> R {
    with(|context| look(context.filter(|context| ptr::eq(Arc::as_ptr(&context.shared), shared))))
}

/// Looks at the runtime that was entered last on this thread. `look` runs no foreign code.
#[inline]
fn with_entered<R>(look: impl FnOnce(Option<&Arc<Shared>>) -> R) -> R {
    let entered = ENTERED.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: as in `with`.
    look(unsafe { entered.as_ref() })
}

/// Is a runtime entered on this thread, and which?
pub(crate) fn current() -> Option<Arc<Shared>> {
    with_entered(|shared| shared.cloned())
}

/// Asks the runtime of this thread, or panics and says what to do.
#[inline]
#[track_caller]
pub(crate) fn shared<R>(what: &str, ask: impl FnOnce(&Arc<Shared>) -> R) -> R {
    // Not inside a closure, which would not know its caller.
    match with_entered(|shared| shared.map(ask)) {
        Some(answer) => answer,
        None => panic!(
            "{what}: no runtime on this thread; call it inside a task or `block_on`, or use `Runtime::{what}`"
        ),
    }
}

/// Charges one operation to the budget of the current poll; yields, once, if that is exhausted.
pub(crate) async fn charge() {
    let mut charge = Charge::default();
    poll_fn(|cx| charge.poll(cx)).await;
}

/// Is this the very waker that the runtime gave to the current poll?
pub(crate) fn is_ours(waker: &Waker) -> bool {
    with(|context| context.is_some_and(|context| context.waker.get() == Some(parts(waker))))
}

fn parts(waker: &Waker) -> WakerParts {
    (waker.data(), waker.vtable())
}

/// The current poll was given this waker. On which event loop it is.
#[inline]
pub(crate) fn polled_with(waker: &Waker) -> PolledOn {
    with(|context| {
        let Some(context) = context else { return PolledOn::Nothing };
        context.waker.set(Some(parts(waker)));
        match &context.role {
            ThreadRole::Worker(local) => PolledOn::Loop(local.index),
            ThreadRole::Outside => PolledOn::Nothing,
            ThreadRole::Sim(sim) => PolledOn::Simulated(sim.here()),
        }
    })
}

/// What polls a task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PolledOn {
    /// No event loop.
    Nothing,
    Loop(usize),
    /// The loop of a virtual worker.
    Simulated(usize),
}

impl PolledOn {
    /// The event loop.
    #[inline]
    pub(crate) fn event_loop(self) -> Option<usize> {
        match self {
            Self::Nothing => None,
            Self::Loop(index) | Self::Simulated(index) => Some(index),
        }
    }
}

/// Is this thread a worker, of whatever runtime, or does it simulate workers? Then it must not wait for the end of a runtime.
pub(crate) fn is_worker() -> bool {
    with(|context| context.is_some_and(|context| !matches!(context.role, ThreadRole::Outside)))
}

/// Does this thread simulate this runtime?
pub(crate) fn simulates(shared: &Shared) -> bool {
    with_own(shared, |context| context.is_some_and(|context| matches!(context.role, ThreadRole::Sim(_))))
}

/// The simulation of this thread.
pub(crate) fn simulation<R>(tell: impl FnOnce(&Sim) -> R) -> Option<R> {
    with(|context| match context.map(|context| &context.role) {
        Some(ThreadRole::Sim(sim)) => Some(tell(sim)),
        _ => None,
    })
}

/// Where a task was spawned, and what it is called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpawnSite<'a> {
    pub(crate) at: &'static Location<'static>,
    pub(crate) name: Option<&'a Arc<str>>,
}

impl SpawnSite<'_> {
    /// The caller, without a name.
    #[track_caller]
    #[inline]
    pub(crate) fn here() -> Self {
        Self { at: Location::caller(), name: None }
    }
}

/// This thread is one of the runtime with this number, a worker or one for blocking work, for the rest of its life.
pub(crate) fn becomes_thread_of(id: u32) {
    let _ = THREAD_OF.try_with(|runtime| runtime.set(id));
}

/// Drops a task of this runtime, which was refused, on a thread that may be another's.
pub(crate) fn drop_refused<T>(shared: &Shared, task: T) {
    run_refused(shared, || drop(task));
}

/// The same, where the drop is done by a poll: a closure for which there is no thread. It is counted until it is gone, so its destructor must not wait for the end of the runtime.
pub(crate) fn run_refused(shared: &Shared, drops: impl FnOnce()) {
    struct RestoreDrops(*const RefusedDrop);
    impl Drop for RestoreDrops {
        fn drop(&mut self) {
            let _ = DROPS.try_with(|drops| drops.set(self.0));
        }
    }
    let outer = DROPS.try_with(Cell::get).unwrap_or(ptr::null());
    let this = RefusedDrop { runtime: shared.id, outer };
    let _ = DROPS.try_with(|drops| drops.set(&raw const this));
    let _restore = RestoreDrops(outer);
    outside_of_scopes(drops);
}

/// Must this thread not wait for the end of this runtime? It must not if it is a worker, or if that end waits for what the thread does.
pub(crate) fn is_waited_for(shared: &Shared) -> bool {
    is_worker() || is_thread_of(shared) || drops_refused(shared)
}

/// Does this thread drop a task that this runtime refused, at whatever depth?
fn drops_refused(shared: &Shared) -> bool {
    let mut at = DROPS.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: the list has only what is on the stack of calls that have not returned: each takes its own out again (`RestoreDrops`).
    while let Some(drop) = unsafe { at.as_ref() } {
        if drop.runtime == shared.id {
            return true;
        }
        at = drop.outer;
    }
    false
}

/// Has this runtime started this thread? Then whatever runs on it, a task, blocking work, a hook or a destructor, cannot wait for the end of the runtime.
pub(crate) fn is_thread_of(shared: &Shared) -> bool {
    THREAD_OF.try_with(Cell::get) == Ok(shared.id)
}

impl Context {
    pub(crate) fn new(shared: Arc<Shared>, role: ThreadRole) -> Self {
        let (task, waker, budget) = (Cell::new(None), Cell::new(None), Budget::new());
        let times = match &role {
            ThreadRole::Worker(local) => shared.remotes[local.index].counters.poll_times.clone(),
            _ => None,
        };
        Self { shared, role, task, waker, budget, times }
    }

    /// Runs `f` in this context, on this thread, and restores the context from before afterwards.
    pub(crate) fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        struct RestoreContext(*const Context, *const Arc<Shared>);
        impl Drop for RestoreContext {
            fn drop(&mut self) {
                let _ = CURRENT.try_with(|current| current.set(self.0));
                let _ = ENTERED.try_with(|entered| entered.set(self.1));
            }
        }
        let _restore = RestoreContext(
            CURRENT.try_with(|before| before.replace(self)).unwrap_or(ptr::null()),
            ENTERED.try_with(|before| before.replace(&self.shared)).unwrap_or(ptr::null()),
        );
        tasuki::runtime::enter(self, f)
    }

    /// A poll of this task by `f`, which says with what waker ([`polled_with`]); or the drop of its future.
    #[inline]
    pub(crate) fn poll<R>(&self, task: TaskId, f: impl FnOnce() -> R) -> R {
        self.set_task(Some(task));
        tasuki::runtime::set_budget(match &self.role {
            ThreadRole::Worker(_) | ThreadRole::Outside => self.budget.begin(Instant::now),
            ThreadRole::Sim(_) => self.budget.begin_simulated(),
        });
        let output = if let Some(times) = &self.times { times.measure(f) } else { f() };
        self.set_task(None);
        self.waker.set(None);
        output
    }

    #[inline]
    fn set_task(&self, task: Option<TaskId>) {
        self.task.set(task);
        tasuki::runtime::set_task(task);
    }

    /// No task is polled: for a context that is used again after a panic.
    pub(crate) fn end_poll(&self) {
        self.set_task(None);
        self.waker.set(None);
    }

    /// The event loop that runs now.
    pub(crate) fn event_loop(&self) -> Option<usize> {
        match &self.role {
            ThreadRole::Worker(local) => Some(local.index),
            ThreadRole::Outside => None,
            ThreadRole::Sim(sim) => Some(sim.here()),
        }
    }

    /// The worker whose thread this is.
    #[inline]
    pub(crate) fn worker(&self) -> Option<usize> {
        if let ThreadRole::Worker(local) = &self.role { Some(local.index) } else { None }
    }
}

/// A runtime that is entered until this guard is dropped.
pub(crate) struct Entered {
    /// `None` on an event loop of the same runtime, whose context has entered it: then tasks may drop such guards in any order. The context of a `LocalRuntime` or of a simulation ends with
    /// its call, and a guard that is kept past that has no effect.
    shared: Option<NonNull<Arc<Shared>>>,
    before: *const Arc<Shared>,
}

impl Entered {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let is_loop =
            with_own(shared, |context| context.is_some_and(|context| context.event_loop().is_some()));
        if is_loop && with_entered(|entered| entered.is_some_and(|entered| Arc::ptr_eq(entered, shared))) {
            return Self { shared: None, before: ptr::null() };
        }
        let shared = NonNull::from(Box::leak(Box::new(shared.clone())));
        let before = ENTERED.try_with(|before| before.replace(shared.as_ptr())).unwrap_or(ptr::null());
        Self { shared: Some(shared), before }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let Some(shared) = self.shared else { return };
        let is_last = |entered: &Cell<*const Arc<Shared>>| ptr::eq(entered.get(), shared.as_ptr());
        if ENTERED.try_with(is_last) == Ok(true) {
            let _ = ENTERED.try_with(|entered| entered.set(self.before));
            // SAFETY: leaked by `new`; it is entered no more, and none entered later remembers it, for that would be the last.
            drop(unsafe { Box::from_raw(shared.as_ptr()) });
        } else if !std::thread::panicking() {
            panic!(
                "guards of `enter` must be dropped in the reverse order, and inside of the `block_on` that they were made in: this one is not the last"
            );
        }
    }
}

impl Driver for Context {
    fn task(&self) -> Option<TaskId> {
        self.task.get()
    }

    fn timers(&self) -> Option<Arc<Timers>> {
        match &self.role {
            // A destructor that a shutdown runs, and that waits by another executor, blocks its worker, and there may be no other worker to advance the wheel: it would wait for ever.
            ThreadRole::Worker(local) => (!self.shared.is_closing()).then(|| local.timers.clone()),
            // The wheel of a thread that leaves would stop: the shared one does not.
            ThreadRole::Outside => None,
            ThreadRole::Sim(sim) => Some(sim.timers.clone()),
        }
    }

    fn may_block(&self) -> bool {
        matches!(self.role, ThreadRole::Outside)
    }

    fn now(&self) -> Instant {
        match &self.role {
            ThreadRole::Sim(sim) => sim.now(),
            _ => Instant::now(),
        }
    }

    fn tells_ends_of_polls(&self) -> bool {
        true
    }

    fn deadline_armed(&self, waker: &Waker) {
        if let ThreadRole::Worker(local) = &self.role {
            // Another executor inside of a poll: this worker may be parked there when the deadline comes.
            if self.waker.get() != Some(parts(waker)) {
                local.cover_deadlines(&self.shared);
            }
        }
    }

    fn switches_before_waits(&self, waker: &Waker) -> bool {
        // What is polled with another waker may not be polled again because that one is woken: a set of futures, a test that polls by hand. It is enqueued.
        let ours = self.waker.get() == Some(parts(waker));
        matches!(&self.role, ThreadRole::Sim(sim) if ours && sim.switches_before_wait())
    }

    fn refill(&self) -> u32 {
        match &self.role {
            ThreadRole::Sim(sim) => sim.operation(),
            ThreadRole::Outside => self.budget.next(Instant::now),
            ThreadRole::Worker(local) => {
                let given = self.budget.next(Instant::now);
                if given == 0 {
                    local.used_budget();
                }
                given
            }
        }
    }
}
