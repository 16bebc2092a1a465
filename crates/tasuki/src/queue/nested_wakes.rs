//! A wake inside a wake: nested while the stack is shallow, deferred when it is deep.
//!
//! A waker is foreign code. It may drop the granted wait at once (an executor that has shut down), or poll it at once. Then
//! the lock is released inside the wake, which wakes the next waiter, and so on: 100,000 waiters would be 100,000
//! nested calls, more than a stack can hold. So a wake that is called [`NESTING`] bytes of stack below the shallowest wake of its thread becomes the
//! *root* of a chain: wakes inside it are kept in a list, and the root calls them one by one, each after the one before has
//! returned.
//!
//! | where                                   | `ACTIVE` | what                                        |
//! |-----------------------------------------|----------|---------------------------------------------|
//! | at most [`NESTING`] bytes below the shallowest wake | any | woken at once                        |
//! | shallower than every wake of this thread before | any | this is the shallowest now; woken at once |
//! | deeper                                  | null     | root: woken at once, then all that are kept |
//! | deeper                                  | a root's | kept                                        |
//! | deeper, in an interrupt handler (feature `critical-section`) that interrupts a change of the list | a root's | woken at once |
//!
//! The depth is measured by the address of a local variable, which costs a load and a comparison. A counter would need two stores around
//! every wake, and the next locked operation would wait for them (decision 6). A thread that has once woken from a shallow place, and since then only from deeper ones, is a root each time, which is slower by some
//! instructions. Why wakes are not always kept: decision 14.
//!
//! # Invariants
//! 1. `ACTIVE` is null, or leads to the list of a root that is on this stack.
//! 2. A kept waker is woken before its root returns, whatever panics; and before this thread parks on a
//!    [`Parker`](crate::Parker), so `.block()` inside a waker does not wait for what it keeps itself. (A waker that blocks on anything else, deep inside
//!    another wake, keeps the rest until it goes on: decision 14.)
//!
//! Only for one thread, so there are no orderings. Without `std` there are no variables of a thread, and wakes nest as
//! deep as the wakers make them.

use super::QueueWaker;
use super::batch::Panics;
use crate::runtime::{self, WakeKind};
use crate::shim::MODEL;
use alloc::collections::VecDeque;
use core::cell::{Cell, RefCell};
use core::ptr;
use std::thread_local;

/// Wakes that are at most so many bytes of stack below the shallowest wake of their thread are nested.
const NESTING: usize = 32 * 1024;

thread_local! {
    /// Where the stack was in the shallowest wake of this thread.
    static SHALLOWEST: Cell<usize> = const { Cell::new(0) };
    static ACTIVE: Cell<*const RefCell<VecDeque<DeferredWake>>> = const { Cell::new(ptr::null()) };
}

/// A waker to be called later, with the kind of wake that it would have had now.
struct DeferredWake {
    waker: QueueWaker,
    kind: WakeKind,
}

impl DeferredWake {
    fn wake(self) {
        runtime::waking_as(self.kind, || self.waker.wake());
    }
}

/// Wakes, now or after the wake that this one is in.
#[inline]
pub(super) fn wake(waker: QueueWaker) {
    let local = 0_u8;
    let here = (&raw const local).addr();
    if is_shallow(here) { waker.wake() } else { wake_at(here, waker) }
}

/// Wakes what `next` gives, until it gives nothing. The depth is the same for all of them, so it is asked for once.
#[inline(always)]
pub(super) fn wake_each(mut next: impl FnMut() -> Option<QueueWaker>) {
    let local = 0_u8;
    if is_shallow((&raw const local).addr()) {
        while let Some(waker) = next() {
            waker.wake();
        }
    } else {
        while let Some(waker) = next() {
            wake(waker);
        }
    }
}

/// Is a wake at this place of the stack woken at once, and not the shallowest of its thread?
#[inline(always)]
fn is_shallow(here: usize) -> bool {
    // The stack grows downwards. Where it has been shallower, the difference wraps.
    let below = SHALLOWEST.try_with(Cell::get).unwrap_or(0).wrapping_sub(here);
    // Loom's threads share the variables of one thread; its chains are short.
    MODEL || below <= NESTING
}

/// Not where this thread's wakes usually are: shallower, or deeper.
#[cold]
#[inline(never)]
fn wake_at(here: usize, waker: QueueWaker) {
    // The variables may be gone at the end of a thread: nothing is kept then.
    let shallower = SHALLOWEST.try_with(|shallowest| {
        let is_shallower = here > shallowest.get();
        shallowest.set(here.max(shallowest.get()));
        is_shallower
    });
    if shallower.unwrap_or(true) {
        return waker.wake();
    }
    match active() {
        Some(kept) => keep(kept, DeferredWake { waker, kind: runtime::wake_kind() }),
        None => wake_as_root(waker),
    }
}

/// Keeps a wake for the root. An interrupt handler may find that the code which it interrupted is changing the list; then it wakes at once.
fn keep(kept: &RefCell<VecDeque<DeferredWake>>, wake: DeferredWake) {
    match kept.try_borrow_mut() {
        Ok(mut kept) => kept.push_back(wake),
        Err(_) => wake.wake(),
    }
}

/// Wakes, and then whatever was kept meanwhile. The first panic goes on at the end.
fn wake_as_root(waker: QueueWaker) {
    struct ClearActive;
    impl Drop for ClearActive {
        fn drop(&mut self) {
            set_active(ptr::null());
        }
    }
    let mut panics = Panics::default();
    let kept = RefCell::new(VecDeque::new());
    {
        set_active(&raw const kept);
        let _reset = ClearActive;
        panics.catch(|| waker.wake());
        while let Some(next) = next(&kept) {
            panics.catch(|| next.wake());
        }
    }
    panics.resume();
}

/// Wakes what this thread keeps: it is about to sleep. A [`Parker`](crate::Parker) calls it; a runtime calls it earlier, where foreign code may run. The first panic goes on when
/// all are woken.
#[inline]
pub fn wake_deferred() {
    if let Some(kept) = active() {
        wake_all(kept);
    }
}

#[cold]
fn wake_all(kept: &RefCell<VecDeque<DeferredWake>>) {
    let mut panics = Panics::default();
    while let Some(next) = next(kept) {
        panics.catch(|| next.wake());
    }
    panics.resume();
}

/// The list of this thread's root.
fn active<'r>() -> Option<&'r RefCell<VecDeque<DeferredWake>>> {
    // SAFETY: invariant 1; no caller keeps the reference for longer than its own call, which the root is above.
    unsafe { ACTIVE.try_with(Cell::get).unwrap_or(ptr::null()).as_ref() }
}

fn set_active(kept: *const RefCell<VecDeque<DeferredWake>>) {
    let _ = ACTIVE.try_with(|active| active.set(kept));
}

/// The oldest that is kept; a function of its own, so that the list is not borrowed while it is woken.
fn next(kept: &RefCell<VecDeque<DeferredWake>>) -> Option<DeferredWake> {
    kept.borrow_mut().pop_front()
}
