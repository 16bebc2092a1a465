//! `Condvar::wait_while`: waits on a condvar, one wait after another, until a condition no longer holds; it is checked with the mutex locked.
//!
//! | state                      | poll finds                        | does                              | to |
//! |----------------------------|-----------------------------------|-----------------------------------|----|
//! | locked                     | the condition holds               | begins a wait, which releases the lock | waiting |
//! | locked                     | it does not                       | remembers that; charges the budget | over, locked |
//! | locked                     | it panics                         | releases the lock; a `notify_one` goes to the next waiter | finished |
//! | over, locked               |                                   | `Ready` with the lock             | finished |
//! | waiting                    | notified, and the lock is granted | asks again                        | locked |
//! | finished                   |                                   | panics                            | |

use super::wait::PassOn;
use super::{Condvar, WaitNotified};
use crate::budget::Charge;
use crate::guard::Guard;
use crate::mutex::Relock;
use crate::probe::Site;
use crate::queue::batch::while_unwinding;
use crate::wait::{Awaitable, Cancel, Wait};
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

/// The future of [`Condvar::wait_while`].
pub type WaitWhile<'a, H, F> = Wait<Conditional<'a, H, F>>;

/// Waits on a condvar until a condition is no longer true.
#[must_use = "a wait does nothing unless it is awaited, polled or blocked on"]
pub struct Conditional<'a, H: Relock, F> {
    condvar: &'a Condvar,
    condition: F,
    /// The lock, between two waits.
    guard: Option<Guard<H>>,
    wait: Option<WaitNotified<'a, H>>,
    /// The lock was granted by a `notify_one`, which another waiter needs if this one does not come back.
    by_one: bool,
    /// The condition was found false. It is not asked again: it may have effects.
    is_over: bool,
    charge: Charge,
    site: Site,
}

/// A [`Conditional`], taken apart.
struct ConditionalParts<'p, 'a, H: Relock, F> {
    condvar: &'a Condvar,
    condition: &'p mut F,
    guard: &'p mut Option<Guard<H>>,
    wait: Pin<&'p mut Option<WaitNotified<'a, H>>>,
    by_one: &'p mut bool,
    is_over: &'p mut bool,
    charge: &'p mut Charge,
    site: Site,
}

impl<'a, H: Relock, F> Conditional<'a, H, F> {
    pub(super) fn wait(condvar: &'a Condvar, guard: Guard<H>, condition: F, site: Site) -> WaitWhile<'a, H, F>
    where
        F: FnMut(&mut H::Target) -> bool,
    {
        Wait::of(Self {
            condvar,
            condition,
            guard: Some(guard),
            wait: None,
            by_one: false,
            is_over: false,
            charge: Charge::default(),
            site,
        })
    }

    /// The wait, pinned, and the rest. The only projection.
    fn project(self: Pin<&mut Self>) -> ConditionalParts<'_, 'a, H, F> {
        // SAFETY: nothing is moved out; the wait is only ever reached pinned.
        let Self { condvar, condition, guard, wait, by_one, is_over, charge, site } =
            unsafe { self.get_unchecked_mut() };
        // SAFETY: a field of the pinned whole.
        let wait = unsafe { Pin::new_unchecked(wait) };
        ConditionalParts { condvar, condition, guard, wait, by_one, is_over, charge, site: *site }
    }
}

/// A lock that is released when this is dropped, by the panic of a condition; then the notification is passed on.
struct CheckedGuard<'a, H: Relock>(Option<Guard<H>>, PassOn<'a>);

impl<'a, H: Relock> CheckedGuard<'a, H> {
    /// Asks the condition; the lock, and what it said.
    fn ask(
        guard: Guard<H>,
        pass_on: PassOn<'a>,
        condition: &mut impl FnMut(&mut H::Target) -> bool,
    ) -> (Guard<H>, bool) {
        let mut checked = Self(Some(guard), pass_on);
        let holds = checked.0.as_mut().is_some_and(|guard| condition(guard));
        checked.1.0 = None;
        (checked.0.take().expect("it was put there"), holds)
    }
}

impl<H: Relock> Drop for CheckedGuard<'_, H> {
    fn drop(&mut self) {
        if let Some(guard) = self.0.take() {
            while_unwinding(|| drop(guard));
        }
    }
}

impl<H: Relock, F: FnMut(&mut H::Target) -> bool> Future for Conditional<'_, H, F> {
    type Output = Guard<H>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Guard<H>> {
        let mut parts = self.project();
        loop {
            if let Some(mut guard) = parts.guard.take() {
                if !*parts.is_over {
                    let pass_on = PassOn(parts.by_one.then_some(parts.condvar));
                    let holds;
                    (guard, holds) = CheckedGuard::ask(guard, pass_on, parts.condition);
                    *parts.is_over = !holds;
                }
                if *parts.is_over {
                    // Kept if it yields, or if the waker panics. The caller has it locked, and goes on with it locked.
                    *parts.guard = Some(guard);
                    ready!(parts.charge.poll(cx));
                    return Poll::Ready(parts.guard.take().expect("it was put there"));
                }
                parts.charge.waive();
                parts.wait.set(Some(parts.condvar.wait_at(guard, parts.site)));
            }
            let Some(mut waiting) = parts.wait.as_mut().as_pin_mut() else {
                panic!("`tasuki::future::WaitWhile` polled after it was finished")
            };
            *parts.guard = Some(ready!(waiting.as_mut().poll(cx)));
            *parts.by_one = waiting.op().was_notified_by_one();
            parts.wait.set(None);
        }
    }
}

impl<H: Relock, F: FnMut(&mut H::Target) -> bool> Awaitable for Conditional<'_, H, F> {
    type Unfinished<E> = E;

    fn cancel(self: Pin<&mut Self>, right: Cancel) -> Option<Guard<H>> {
        let mut parts = self.project();
        let Some(mut waiting) = parts.wait.as_mut().as_pin_mut() else {
            return parts.guard.take().filter(|_| *parts.is_over);
        };
        let guard = waiting.as_mut().cancel(right)?;
        *parts.by_one = waiting.op().was_notified_by_one();
        parts.wait.set(None);
        let pass_on = PassOn(parts.by_one.then_some(parts.condvar));
        let (guard, holds) = CheckedGuard::ask(guard, pass_on, parts.condition);
        (!holds).then_some(guard)
    }

    /// As for a wait without a condition.
    fn unfinished<E>(self: Pin<&mut Self>, limit: E, _right: Cancel) -> E {
        self.project().wait.set(None);
        limit
    }

    /// The lock goes to the next, and so does the notification.
    fn discard(self: Pin<&mut Self>, guard: Guard<H>, _right: Cancel) {
        let parts = self.project();
        let _pass_on = PassOn(parts.by_one.then_some(parts.condvar));
        drop(guard);
    }

    fn has_ended(&self) -> bool {
        // A wait that has ended is still there if its cancel panicked.
        self.guard.is_none() && self.wait.as_ref().is_none_or(Awaitable::has_ended)
    }
}

impl<H: Relock, F> fmt::Debug for Conditional<'_, H, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitWhile").field("wait", &self.wait).finish_non_exhaustive()
    }
}
