//! Wakers that count what is done to them, and that do anything while it is done.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{RawWaker, RawWakerVTable, Waker};

/// What can be done to a waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Clone,
    Wake,
    WakeByRef,
    Drop,
}

impl Call {
    pub(crate) const ALL: [Call; 4] = [Call::Clone, Call::Wake, Call::WakeByRef, Call::Drop];
}

type Hook = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Core {
    calls: [AtomicUsize; 4],
    alive: AtomicIsize,
    hooks: [Mutex<Option<Hook>>; 4],
    /// How often hooks may still run; it keeps re-entrancy from becoming recursion without end.
    charges: AtomicIsize,
    runs: AtomicUsize,
}

impl Core {
    /// Counts a call and runs its hook, without any lock held.
    fn called(&self, call: Call) {
        self.calls[call as usize].fetch_add(1, SeqCst);
        let hook = self.hooks[call as usize].lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(hook) = hook {
            if self.charges.fetch_sub(1, SeqCst) > 0 {
                self.runs.fetch_add(1, SeqCst);
                hook();
            }
        }
    }
}

/// What is polled by hand on this thread does not yield from now on: without a runtime that would depend on the clock. Tests of the budget set it again.
pub(crate) fn never_yields() {
    thread_local! {
        static IS_SET: Cell<bool> = const { Cell::new(false) };
    }
    if !IS_SET.replace(true) {
        tasuki::runtime::set_budget(u32::MAX);
    }
}

/// The test's end of a waker: makes it, counts what happens to it, and may hook foreign code into it.
///
/// Dropping the spy removes the hooks, so that what they hold is freed.
pub(crate) struct Spy {
    core: Arc<Core>,
}

impl Spy {
    /// A waker that only counts.
    pub(crate) fn new() -> Self {
        never_yields();
        Self { core: Arc::new(Core::default()) }
    }

    pub(crate) fn many<const N: usize>() -> [Self; N] {
        std::array::from_fn(|_| Self::new())
    }

    /// A waker that runs `hook` at the first such call after [`arm`](Self::arm).
    pub(crate) fn hostile(call: Call, hook: impl Fn() + Send + Sync + 'static) -> Self {
        let spy = Self::new();
        spy.on(call, hook);
        spy
    }

    /// Sets the hook of a call. It runs before a clone exists, and after a waker that is woken or dropped has
    /// ceased to count as alive; a panic in it leaks nothing.
    pub(crate) fn on(&self, call: Call, hook: impl Fn() + Send + Sync + 'static) {
        *self.core.hooks[call as usize].lock().unwrap() = Some(Arc::new(hook));
    }

    /// Lets hooks run, `times` in all.
    pub(crate) fn arm(&self, times: usize) {
        self.core.charges.store(times as isize, SeqCst);
    }

    /// Did a hook run?
    pub(crate) fn fired(&self) -> bool {
        self.hook_runs() > 0
    }

    /// How often a hook ran.
    pub(crate) fn hook_runs(&self) -> usize {
        self.core.runs.load(SeqCst)
    }

    pub(crate) fn waker(&self) -> Waker {
        self.core.alive.fetch_add(1, SeqCst);
        // SAFETY: the functions of the table take and give the count of the `Arc` that stands behind the
        // pointer, as the contract of `RawWaker` asks; the core is `Send` and `Sync`.
        unsafe { Waker::from_raw(raw(self.core.clone())) }
    }

    /// How often it was woken, by value or by reference.
    pub(crate) fn wakes(&self) -> usize {
        self.calls(Call::Wake) + self.calls(Call::WakeByRef)
    }

    pub(crate) fn calls(&self, call: Call) -> usize {
        self.core.calls[call as usize].load(SeqCst)
    }

    /// How many wakers exist now: zero when every clone was dropped or woken exactly once.
    pub(crate) fn alive(&self) -> isize {
        self.core.alive.load(SeqCst)
    }
}

impl Default for Spy {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Spy {
    fn drop(&mut self) {
        for hook in &self.core.hooks {
            // Out of the lock before it is dropped: what it holds may be foreign too.
            let hook = hook.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(hook);
        }
    }
}

impl fmt::Debug for Spy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spy").field("calls", &self.core.calls).field("alive", &self.core.alive).finish()
    }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

fn raw(core: Arc<Core>) -> RawWaker {
    RawWaker::new(Arc::into_raw(core).cast(), &TABLE)
}

/// SAFETY: `data` is the pointer of a waker made by [`raw`], which the caller gives up.
unsafe fn take(data: *const ()) -> Arc<Core> {
    // SAFETY: the caller's contract.
    let core = unsafe { Arc::from_raw(data.cast::<Core>()) };
    core.alive.fetch_sub(1, SeqCst);
    core
}

/// SAFETY: `data` is the pointer of a waker made by [`raw`] that stays alive for the call.
unsafe fn share(data: *const ()) -> Arc<Core> {
    // SAFETY: the caller's contract.
    unsafe { Arc::increment_strong_count(data.cast::<Core>()) };
    // SAFETY: the count was just raised.
    unsafe { Arc::from_raw(data.cast::<Core>()) }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: the contract of the table.
    let core = unsafe { share(data) };
    core.called(Call::Clone);
    core.alive.fetch_add(1, SeqCst);
    raw(core)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: the contract of the table.
    unsafe { take(data) }.called(Call::Wake);
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the contract of the table.
    unsafe { share(data) }.called(Call::WakeByRef);
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: the contract of the table.
    unsafe { take(data) }.called(Call::Drop);
}
