//! The wheel of the process: where no runtime keeps the deadlines, one thread does, started by the first wait that needs it.
//!
//! The thread never ends by itself, but a fork leaves it behind: the child has the wheel and no thread, and perhaps the lock of
//! the wheel in the hands of a thread that is not there. So a wheel belongs to a process, and one that a child inherited is left
//! alone: the first wait of the child makes another. A wait that began before the fork stays on the old wheel, and
//! its deadline does not come in the child. If it is dropped there its waiter stays linked, to a wheel that nothing reads any more, and its waker is leaked.
//!
//! # States of `STARTING`
//!
//! | value | means |
//! |---|---|
//! | 0 | no thread makes a wheel |
//! | the number of this process | one does; others wait for it |
//! | that of another process | one did when the fork happened: it is not here, the wheel is to be made |
//!
//! # Orderings
//! `CURRENT`: Release in [`start`] pairs with Acquire in [`current`]: publishes the wheel. `STARTING`: Release in [`Starting::drop`] pairs
//! with Acquire in [`start`]: the wheel that was made meanwhile is seen.

use super::Timers;
use crate::catch_panic::caught;
use crate::host_executor;
use crate::parker::Parker;
use crate::process_id;
use alloc::boxed::Box;
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use core::task::Waker;
use std::time::Instant;
use std::{io, thread, thread_local};

/// A wheel, and whose thread turns it.
struct SharedWheel {
    process: u32,
    timers: Timers,
}

/// The wheel that was made last; null before the first.
static CURRENT: AtomicPtr<SharedWheel> = AtomicPtr::new(ptr::null_mut());
/// See the table of the module.
static STARTING: AtomicU32 = AtomicU32::new(0);

/// The wheel of this process.
///
/// Panics if the system refuses its thread. Nothing has changed then, and the next wait tries again.
pub(super) fn timers() -> &'static Timers {
    host_executor::check_clock();
    let process = process_id::id();
    current(process).unwrap_or_else(|| {
        start(process).unwrap_or_else(|error| {
            panic!("the timer thread did not start ({error}): deadlines need it, or a runtime with timers")
        })
    })
}

/// The wheel, if it is of this process.
fn current(process: u32) -> Option<&'static Timers> {
    // Acquire: pairs with Release in `start`. mutant: survives: no model starts the thread of the process.
    let shared = CURRENT.load(Ordering::Acquire);
    // SAFETY: null, or leaked by `start`.
    let shared = unsafe { shared.as_ref() }?;
    (shared.process == process).then_some(&shared.timers)
}

/// Was this wheel, one of a process, inherited by a fork? Its lock may never be released.
pub(super) fn is_inherited(timers: &Timers) -> bool {
    !current(process_id::id()).is_some_and(|current| ptr::eq(current, timers))
}

/// Makes the wheel of this process and starts its thread, or waits until another thread has done so.
#[cold]
fn start(process: u32) -> io::Result<&'static Timers> {
    loop {
        // Relaxed: acted upon by the compare-exchange.
        let starting = STARTING.load(Ordering::Relaxed);
        if starting == process {
            thread::yield_now();
            continue;
        }
        // Acquire: pairs with Release in `Starting::drop`. Relaxed on failure: it looks again. mutant: survives: as in `current`.
        if STARTING.compare_exchange(starting, process, Ordering::Acquire, Ordering::Relaxed).is_err() {
            continue;
        }
        let _starting = Starting;
        if let Some(timers) = current(process) {
            return Ok(timers);
        }
        let parker = Parker::new();
        let shared = SharedWheel { process, timers: Timers::new(Waker::from(parker.unparker())) };
        let shared = Box::into_raw(Box::new(shared));
        // SAFETY: just made, and given back only where no thread was started.
        let timers = unsafe { &(*shared).timers };
        let started = thread::Builder::new().name("tasuki-timer".into()).spawn(move || turn(timers, &parker));
        if let Err(error) = started {
            // SAFETY: made above; no thread knows it.
            drop(unsafe { Box::from_raw(shared) });
            return Err(error);
        }
        // Release: pairs with Acquire in `current`. mutant: survives: as there.
        CURRENT.store(shared, Ordering::Release);
        return Ok(timers);
    }
}

/// The right to make the wheel.
struct Starting;

impl Drop for Starting {
    fn drop(&mut self) {
        // Release: pairs with Acquire in `start`. mutant: survives: as in `current`.
        STARTING.store(0, Ordering::Release);
    }
}

thread_local! {
    static KEEPS_DEADLINES: Cell<bool> = const { Cell::new(false) };
}

/// Is this the thread that keeps the deadlines? A wait of its own would stop them all, and its limit with them.
pub(crate) fn is_timer_thread() -> bool {
    KEEPS_DEADLINES.try_with(Cell::get).unwrap_or(false)
}

/// What the thread does, for ever.
fn turn(timers: &Timers, parker: &Parker) {
    let _ = KEEPS_DEADLINES.try_with(|keeps| keeps.set(true));
    loop {
        // A waker that panics is its owner's mistake; the deadlines of all others go on.
        match caught(|| timers.advance(Instant::now())).unwrap_or_else(|| Some(Instant::now())) {
            Some(next) => drop(parker.park_deadline(next)),
            None => parker.park(),
        }
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::super::sleep;
    use super::timers;
    use crate::fork_child::{alone, in_child};
    use core::future::Future as _;
    use core::task::{Context, Waker};
    use core::time::Duration;
    use std::boxed::Box;
    use std::sync::mpsc;
    use std::thread;

    /// A fork while another thread holds the lock of the wheel: the child polls and drops a sleep that began before, without that lock.
    #[test]
    fn a_child_does_not_wait_for_the_lock_of_its_parent() {
        alone(|| {
            let [mut polled, mut dropped] = [(), ()].map(|()| Box::pin(sleep(Duration::from_secs(3600))));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(
                polled.as_mut().poll(&mut cx).is_pending() && dropped.as_mut().poll(&mut cx).is_pending()
            );
            let mut dropped = Some(dropped);
            let other = Waker::from(crate::Parker::new().unparker());
            let (is_locked, until_locked) = mpsc::channel();
            let (forked, until_forked) = mpsc::channel();
            let holder = thread::spawn(move || {
                let locked = timers().wheel.lock();
                is_locked.send(()).unwrap();
                until_forked.recv().unwrap();
                drop(locked);
            });
            until_locked.recv().unwrap();
            let is_right = in_child(|| {
                let is_pending = polled.as_mut().poll(&mut Context::from_waker(&other)).is_pending();
                drop(dropped.take());
                is_pending
            });
            forked.send(()).unwrap();
            holder.join().unwrap();
            assert!(is_right, "the child hung, or its sleep has ended");
        });
    }
}
