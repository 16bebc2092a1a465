//! The operation of `Mutex::lock` and `Mutex::lock_owned`: what their futures do at each step of a wait.

use super::raw::RawMutex;
use crate::guard::Guard;
use crate::policy::Policy;
use crate::primitive_ref::{LockRef, RefSlot};
use crate::probe::{LockMode, Site, Target};
use crate::queue::Pinned;
use crate::wait::{Op, Single, Wait, WaiterSlot};
use core::fmt;
use core::task::{Context, Poll};

/// The operation of [`Mutex::lock`](crate::Mutex::lock) and `Mutex::lock_owned`: `R` is the reference to the mutex.
pub struct LockOp<R> {
    mutex: RefSlot<R>,
    site: Site,
}

impl<R> fmt::Debug for LockOp<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockOp")
    }
}

/// Tries to lock, without waiting.
#[inline(always)]
#[track_caller]
pub(super) fn try_lock<P: Policy, R: LockRef<Raw = RawMutex<P>>>(mutex: R) -> Option<Guard<R>> {
    let site = Site::here();
    mutex.raw().try_lock().then(|| guard(mutex, site))
}

/// The lock has been acquired.
#[inline(always)]
fn guard<P: Policy, R: LockRef<Raw = RawMutex<P>>>(mutex: R, site: Site) -> Guard<R> {
    mutex.raw().probe.set(site);
    Guard::new(mutex)
}

impl<P: Policy, R: LockRef<Raw = RawMutex<P>>> LockOp<R> {
    #[inline(always)]
    #[track_caller]
    pub(super) fn wait(mutex: R) -> Wait<Single<Self>> {
        Wait::new(Self { mutex: RefSlot::new(mutex), site: Site::here() })
    }

    #[inline(always)]
    fn raw(&self) -> &RawMutex<P> {
        self.mutex.get().raw()
    }

    #[inline(always)]
    fn guard(&mut self) -> Guard<R> {
        guard(self.mutex.take(), self.site)
    }
}

impl<P: Policy, R: LockRef<Raw = RawMutex<P>>> Op for LockOp<R> {
    type Output = Guard<R>;
    type Unfinished<E> = E;
    const NAME: &'static str =
        if R::IS_COPIED { "tasuki::future::Lock" } else { "tasuki::future::LockOwned" };
    const IS_REVOCABLE: bool = P::REVOCABLE;

    #[inline(always)]
    fn try_now(&mut self) -> Option<Self::Output> {
        // Copied first, as the reference: after the compare-exchange it would be read from memory again.
        let site = self.site;
        self.mutex.take_if(|mutex| mutex.raw().try_lock()).map(|mutex| guard(mutex, site))
    }

    fn is_ready(&self) -> bool {
        self.raw().is_ready()
    }

    fn target(&self) -> Target<'_> {
        Target::lock(&self.raw().probe, LockMode::Exclusive)
    }

    #[inline(always)]
    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.raw().enqueue_or_lock(slot, cx, !R::IS_COPIED).map(|()| self.guard())
    }

    #[inline(always)]
    fn enqueued(&mut self, waiter: Pinned<'_>, cx: &Context<'_>) {
        if P::REVOCABLE {
            self.raw().enqueued(waiter, cx);
        }
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.raw().poll_queued(waiter, cx, !R::IS_COPIED).map(|()| self.guard())
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Self::Output> {
        self.raw().cancel(waiter).then(|| self.guard())
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }
}
