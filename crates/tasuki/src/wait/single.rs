//! A single wait: one operation, one waiter.
//!
//! This file is the only one that pins a waiter. An operation ([`Op`]) is a few safe functions over a queue; the
//! future keeps its waiter in place and calls them in the right order:
//!
//! | phase      | event                  | calls        | next phase |
//! |------------|------------------------|--------------|------------|
//! | `Idle`     | poll                   | `try_now`    | `Finished` if it gave the output |
//! | `Idle`     | poll, not at once      | `enqueue`, then `enqueued` if queued | `Queued`; or `Finished`, or `Claimed` of a receive, if it has become ready |
//! | `Idle`     | poll, the driver or the host panics when it is asked for more budget | – | `Idle` |
//! | `Idle`, `Yielded` | poll, foreign code panics before there is a place in the queue (the clone of the waker) | `enqueue` | `Idle` |
//! | `Idle`     | poll, budget exhausted | `is_ready`   | `Yielded` and the task is woken, if it would be ready, or if a driver for tests switches here; else as with a budget |
//! | `Yielded`  | poll                   | as `Idle` with a budget; a receive without `try_now` (`Op::TRIES_AFTER_YIELD`) | |
//! | `Queued`   | poll                   | `poll_queued`| `Queued`, or `Claimed` |
//! | `Queued`   | poll, a panic drops the message that was granted | – | `Finished` |
//! | `Queued`   | drop                   | `cancel_dropped`: `cancel`, `discard` | |
//! | `Idle`, `Yielded`, `Queued` | a limit is reached | `cancel` if queued, else `cancel_idle`; `unfinished` without an output | `Cancelled`, or `Claimed` with an output of `cancel` |
//! | `Finished`, `Claimed`, `Cancelled` | poll | panics      |            |
//! | `Finished`, `Claimed` | the limit that is cancelled then panics | `discard`, or `discard_claimed` | the same |
//! | `Finished`, `Claimed` | a stream or a sink goes on | – | `Idle`  |
//!
//! `Claimed` is `Finished` with a waiter, in no queue: a receive keeps the ticket of its message in it.
//!
//! A cancel may find that the grant was faster. It then returns the output: a drop discards it, which
//! passes the baton on; a limit returns it. That is all that limits need (`limited.rs`).
//!
//! # Budget
//!
//! Every operation is charged to the budget of its task ([`budget`](crate::budget)), here and nowhere else. With the budget exhausted the
//! first poll asks `is_ready`, which changes nothing. If the operation would be ready, the task yields, and a free lock stays free meanwhile. If it must wait, its waiter is enqueued at once,
//! so the order of enqueueing does not depend on budgets. (A driver for tests may have it yield all the same: what others do before it is enqueued, such as a notification, is one of the orders that it tries.) The answer of `is_ready` can be outdated when it is used:
//!
//! | `is_ready` said | meanwhile | what happens |
//! |---|---|---|
//! | yes | taken by another | the next poll waits, as it would have if it had come then |
//! | no  | released, perhaps during the spin | it is taken: ready without a budget. That needs another thread each time, and each further operation asks again |
//!
//! A future yields once: `Yielded` is not charged again, so an executor inside a task, which has no new budget to give, makes progress. A limit ends
//! a wait only after the operation was tried: the limit is a wait too, is polled after the operation, and yields as well while the budget is exhausted.

use super::{Awaitable, Cancel};
use crate::budget::{charge, resumes, switches_before_waits, yield_once};
use crate::probe::{Site, Target, WaitBegin, WaitNote};
use crate::queue::batch::UnwindDrop;
use crate::queue::waiter::{Payload, Phase, Verdict, Waiter, WaiterState};
use crate::queue::{NewWaiter, Pinned, QueueWaker};
use crate::trace::WaitSpans;
use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::future::Future;
use core::marker::{PhantomData, PhantomPinned};
use core::mem::{self, MaybeUninit};
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::{Context, Poll};

/// An operation that may have to wait. The primitives implement it; its functions take types that
/// cannot be named elsewhere, so no other crate can.
///
/// From the first call of `enqueue` on it is not moved until it is dropped: it is a part of a pinned future.
pub trait Op {
    /// What the wait gives.
    type Output;

    /// What a limit that ended the wait says: the limit `E` itself, or [`GivenBack`](crate::GivenBack) with what the operation was given.
    type Unfinished<E>;

    /// The name of the future in a panic.
    #[doc(hidden)]
    const NAME: &'static str;

    /// Can a grant be revoked until it is claimed?
    #[doc(hidden)]
    const IS_REVOCABLE: bool = false;

    /// The fast path: the output, if there is no need to wait.
    #[doc(hidden)]
    fn try_now(&mut self) -> Option<Self::Output>;

    /// Would it end without waiting, whether it succeeds or is refused? Changes nothing; a look at one moment.
    #[doc(hidden)]
    fn is_ready(&self) -> bool;

    /// Is the fast path tried in the poll after a yield? If not, `enqueue` is called, which succeeds as well.
    #[doc(hidden)]
    const TRIES_AFTER_YIELD: bool = true;

    /// What the wait is for, as far as it is known: a lock, or a signal that any task may give.
    #[doc(hidden)]
    #[inline(always)]
    fn target(&self) -> Target<'_> {
        Target::SIGNAL
    }

    /// The first poll, after `try_now` has failed: enqueues a waiter in this slot, or succeeds after all. After
    /// `Ready` there is no waiter in any queue.
    #[doc(hidden)]
    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Self::Output>;

    /// The waiter is queued, and a drop of the future would cancel it. What must not happen before that, and may
    /// call foreign code, happens here.
    #[doc(hidden)]
    #[inline(always)]
    fn enqueued(&mut self, _waiter: Pinned<'_>, _cx: &Context<'_>) {}

    /// A later poll. After `Ready` the waiter is in no queue. A poll that panics leaves the future queued: another poll, or `cancel`, comes
    /// after it, and must not release again what this one released.
    #[doc(hidden)]
    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output>;

    /// Ends the wait, whatever the state of the waiter: the output, if it had been granted already.
    #[doc(hidden)]
    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Self::Output>;

    /// Ends a wait that is in no queue: the output, if a poll has come to it and then panicked.
    #[doc(hidden)]
    #[inline(always)]
    fn cancel_idle(&mut self) -> Option<Self::Output> {
        None
    }

    /// A limit has ended the wait, which has no output: lets go of what the operation was given, or gives it back, at once and
    /// not when the future is dropped.
    #[doc(hidden)]
    fn unfinished<E>(&mut self, limit: E) -> Self::Unfinished<E>;

    /// Has a poll that panicked ended the wait, so that the next one panics? Asked of a wait that is not over, as far as its future knows.
    #[doc(hidden)]
    fn ended_by_panic(&self) -> bool {
        false
    }

    /// How `Debug` calls a waiter with this mark that has been notified.
    #[doc(hidden)]
    fn shown_notified(&self, _mark: u32) -> &'static str {
        "Granted"
    }

    /// The output is not returned to any caller: passes on what it stands for. A guard does that in its own drop.
    #[doc(hidden)]
    fn discard(&mut self, output: Self::Output) {
        drop(output);
    }

    /// As [`discard`](Self::discard), of a wait that has a waiter, in no queue: it was queued, or `enqueue` has made it by [`WaiterSlot::claimed`].
    #[doc(hidden)]
    fn discard_claimed(&mut self, output: Self::Output, _waiter: Pinned<'_>) {
        self.discard(output);
    }

    /// The future is dropped while it is queued: leaves the queue, whatever the state, and passes on what had been granted.
    #[doc(hidden)]
    #[inline(always)]
    fn cancel_dropped(&mut self, waiter: Pinned<'_>) {
        if let Some(output) = self.cancel(waiter) {
            discard_output(self, output);
        }
    }
}

#[cold]
#[inline(never)]
fn discard_output<O: Op + ?Sized>(op: &mut O, output: O::Output) {
    op.discard(output);
}

/// The place in a pinned future where a waiter can be made.
#[derive(Debug)]
pub struct WaiterSlot<'f> {
    slot: NonNull<Waiter>,
    note: WaitNote,
    future: PhantomData<&'f mut Waiter>,
}

impl<'f> WaiterSlot<'f> {
    /// Makes the waiter, complete, ready to be published. Called with the queue locked, if it is that of a lock.
    #[inline(always)]
    pub(crate) fn init(self, waker: QueueWaker, payload: Payload) -> NewWaiter<'f> {
        self.note.enqueued();
        // SAFETY: `Single::poll` gives out a slot for its pinned memory, and only while there is no waiter in it.
        unsafe { self.slot.write(Waiter::new(waker, payload, self.note)) };
        // SAFETY: written above; the slot is pinned, and `Single` does not let go of it while it is queued.
        unsafe { NewWaiter::new(self.slot) }
    }
}

impl WaiterSlot<'_> {
    /// Makes a waiter that is in no queue, of an `enqueue` that gives a message: it keeps the ticket.
    #[cold]
    pub(crate) fn claimed(self, ticket: i64) {
        // SAFETY: as in `init`.
        unsafe { self.slot.write(Waiter::claimed(ticket)) };
    }
}

/// The wait of one operation, in one queue.
#[must_use = "a wait does nothing unless it is awaited, polled or blocked on"]
pub struct Single<O: Op> {
    /// Dropped after the wait was cancelled, whose wakers may have panicked: it may own the last `Arc` of a value.
    op: UnwindDrop<O>,
    /// Where the wait was asked for.
    site: Site,
    spans: WaitSpans,
    memory: WaiterMemory,
}

/// Foreign code panicked before there was a place in the queue: the future can be polled again. A guard, and not a store
/// before every call: see decision 6.
struct IdleOnPanic<'p>(&'p WaiterMemory);

impl Drop for IdleOnPanic<'_> {
    fn drop(&mut self) {
        self.0.set_phase(Phase::Idle);
    }
}

/// A cancelled wait is over when its waiter is in no queue: until then a releaser may grant it, and look at its note. Also if foreign code panics.
struct EndNoteOnDrop(WaitNote);

impl Drop for EndNoteOnDrop {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Memory for the waiter, reached only through raw pointers: the queue may hold one to it. The phase in it is there from the beginning.
struct WaiterMemory {
    waiter: UnsafeCell<MaybeUninit<Waiter>>,
    _pin: PhantomPinned,
}

// SAFETY: a shared `Single` gives no access to the slot; the queue's access follows the rules of `Waiter`,
// which is `Send` and `Sync`.
unsafe impl Sync for WaiterMemory {}

impl WaiterMemory {
    fn as_ptr(&self) -> NonNull<Waiter> {
        // SAFETY: the address of a field is not null.
        unsafe { NonNull::new_unchecked(self.waiter.get().cast()) }
    }

    #[inline(always)]
    fn phase_cell(&self) -> &Cell<Phase> {
        // SAFETY: written by `Single::new`, and by `WaiterSlot::init` again; a cell, which only this future touches.
        unsafe { &(*self.as_ptr().as_ptr()).phase }
    }

    #[inline(always)]
    fn phase(&self) -> Phase {
        self.phase_cell().get()
    }

    #[inline(always)]
    fn set_phase(&self, phase: Phase) {
        self.phase_cell().set(phase);
    }
}

impl<O: Op> Single<O> {
    #[inline(always)]
    #[track_caller]
    pub(crate) fn new(op: O) -> Self {
        Self::new_at(op, Site::here())
    }

    /// A wait that was asked for there.
    #[inline(always)]
    pub(crate) fn new_at(op: O, site: Site) -> Self {
        // Field by field: as a literal, inside of another, its slot is filled with zeros (five instructions, three of them stores).
        let mut single = MaybeUninit::<Self>::uninit();
        let place = single.as_mut_ptr();
        // SAFETY: a field of memory that is ours.
        unsafe { (&raw mut (*place).op).write(UnwindDrop::new(op)) };
        // SAFETY: as above.
        let waiter = unsafe { (&raw mut (*place).memory.waiter).cast::<Waiter>() };
        // SAFETY: as above.
        unsafe { (&raw mut (*waiter).phase).write(Cell::new(Phase::Idle)) };
        // SAFETY: as above.
        unsafe { (&raw mut (*place).site).write(site) };
        // SAFETY: as above.
        unsafe { (&raw mut (*place).spans).write(WaitSpans::NONE) };
        // SAFETY: what was written is all there is to initialise: the rest of the waiter may be anything.
        unsafe { single.assume_init() }
    }

    /// The operation, to ask it something.
    pub(crate) fn op(&self) -> &O {
        &self.op
    }

    /// Queued, and granted, refused or revoked since? What the next poll finds.
    fn shown_grant(&self) -> Option<&'static str> {
        if self.memory.phase() != Phase::Queued {
            return None;
        }
        // SAFETY: queued, so the waiter is initialised; it is a part of this future.
        let waiter = unsafe { self.memory.as_ptr().as_ref() };
        match waiter.state() {
            WaiterState::Waiting => None,
            WaiterState::Woken => O::IS_REVOCABLE.then_some("Granted"),
            WaiterState::Notified => Some(match waiter.verdict() {
                Verdict::Refused if O::IS_REVOCABLE => "Revoked",
                Verdict::Refused => "Refused",
                Verdict::Granted => self.op.shown_notified(waiter.mark()),
            }),
        }
    }

    /// The operation, of a wait that is not queued.
    pub(crate) fn op_mut(self: Pin<&mut Self>) -> &mut O {
        // SAFETY: nothing is moved out of the pinned future: an operation moves only what it was given.
        unsafe { &mut self.get_unchecked_mut().op }
    }

    /// `Finished | Claimed => Idle`: the same operation once more. Nothing in any other phase.
    #[cfg(all(feature = "alloc", any(feature = "futures-core", feature = "futures-sink")))]
    pub(crate) fn restart(self: Pin<&mut Self>) {
        if matches!(self.memory.phase(), Phase::Finished | Phase::Claimed) {
            self.memory.set_phase(Phase::Idle);
        }
    }

    /// Not queued yet, and would it be ready?
    #[cfg(feature = "alloc")]
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.memory.phase(), Phase::Idle | Phase::Yielded) && self.op.is_ready()
    }

    /// `Finished => Queued | Finished | Claimed`, or `Idle` after a panic: it was not to be had at once.
    #[inline]
    fn enqueue(&mut self, cx: &mut Context<'_>) -> Poll<O::Output> {
        let still_idle = IdleOnPanic(&self.memory);
        let begin = WaitBegin::new(self.op.target(), &O::NAME, self.site);
        let slot = WaiterSlot { slot: self.memory.as_ptr(), note: begin.note(), future: PhantomData };
        let answer = self.op.enqueue(slot, cx);
        mem::forget(still_idle);
        if answer.is_ready() {
            // There may be a waiter that was made, and is in no queue; if it has to be kept, it says so.
            if self.memory.phase() != Phase::Claimed {
                self.memory.set_phase(Phase::Finished);
            }
        } else {
            debug_assert_eq!(self.memory.phase(), Phase::Queued, "as the waiter was made");
            let begun = begin.enqueued();
            // SAFETY: queued, so the waiter is initialised; the future is pinned until `Drop` has run.
            let waiter = unsafe { Pinned::new(self.memory.as_ptr()) };
            self.op.enqueued(waiter, cx);
            begun.check();
            self.spans.begin(self.op.target(), O::NAME, self.site);
        }
        answer
    }

    /// `Finished => Yielded`, and true, if it would be ready, or a driver for tests switches here: the first poll, with the budget exhausted.
    #[cold]
    #[inline(never)]
    fn yields(&mut self, cx: &Context<'_>) -> bool {
        // Before the foreign code: if that panics, the future can be polled again, and does not yield again.
        self.memory.set_phase(Phase::Yielded);
        if self.op.is_ready() || switches_before_waits(cx.waker()) {
            yield_once(cx);
            return true;
        }
        self.memory.set_phase(Phase::Finished);
        false
    }

    /// The poll after a yield, or the panic of a finished future.
    #[cold]
    #[inline(never)]
    fn poll_yielded(&mut self, cx: &mut Context<'_>) -> Poll<O::Output> {
        assert!(self.memory.phase() == Phase::Yielded, "`{}` polled after it was finished", O::NAME);
        resumes();
        self.memory.set_phase(Phase::Finished);
        match O::TRIES_AFTER_YIELD.then(|| self.op.try_now()).flatten() {
            Some(output) => Poll::Ready(output),
            None => self.enqueue(cx),
        }
    }

    /// A poll of a future that is not `Idle`. `Queued => Queued | Claimed`; if it is not queued it has yielded, or is finished and panics ([`poll_yielded`](Self::poll_yielded)).
    fn poll_again(&mut self, cx: &mut Context<'_>) -> Poll<O::Output> {
        if self.memory.phase() != Phase::Queued {
            return self.poll_yielded(cx);
        }
        // SAFETY: queued, so the waiter is initialised; the future is pinned until `Drop` has run.
        let waiter = unsafe { Pinned::new(self.memory.as_ptr()) };
        let poll = self.spans.poll(|| {
            let poll = self.op.poll_queued(waiter, cx);
            // In here: around this the subscriber of the spans runs, which must find the wait over when its output exists.
            if poll.is_ready() {
                self.memory.set_phase(Phase::Claimed);
                waiter.get().note().end();
            } else {
                waiter.get().note().polled();
            }
            poll
        });
        if poll.is_ready() {
            self.spans.end();
        }
        poll
    }

    /// `Queued => Cancelled | Claimed`, of a future that lives on.
    #[cold]
    fn cancel_queued(&mut self) -> Option<O::Output> {
        // First, so that a panic in foreign code cannot lead here a second time.
        self.memory.set_phase(Phase::Cancelled);
        // SAFETY: it was queued, so the waiter is initialised; the future is pinned until `Drop` has run.
        let waiter = unsafe { Pinned::new(self.memory.as_ptr()) };
        let _end = EndNoteOnDrop(waiter.get().note());
        let output = self.op.cancel(waiter);
        if output.is_some() {
            self.memory.set_phase(Phase::Claimed);
        }
        output
    }

    /// The future is dropped with a place in the queue. Kept out of line, with no rarer case in it: spilled registers would delay the
    /// compare-exchange of the queue lock.
    #[inline(never)]
    fn cancel_on_drop(&mut self) {
        // A drop happens once, whatever panics, so the phase may stay: one store less before the queue is locked.
        // SAFETY: it was queued, so the waiter is initialised; the future is pinned until `Drop` has run.
        let waiter = unsafe { Pinned::new(self.memory.as_ptr()) };
        let _end = EndNoteOnDrop(waiter.get().note());
        self.op.cancel_dropped(waiter);
    }
}

impl<O: Op> Future for Single<O> {
    type Output = O::Output;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<O::Output> {
        // SAFETY: nothing is moved out of the pinned future: `op` stays where it is from here on, as `Op` promises.
        let this = unsafe { self.get_unchecked_mut() };
        if this.memory.phase() != Phase::Idle {
            return this.poll_again(cx);
        }
        // Before the try: a store behind its compare-exchange would have to wait for it.
        this.memory.set_phase(Phase::Finished);
        // Also before the try, for the same reason: an operation that then has to wait is charged for nothing.
        // A charge that finds the budget exhausted calls foreign code: the driver, or the host's waker.
        let still_idle = IdleOnPanic(&this.memory);
        let is_charged = charge(cx);
        mem::forget(still_idle);
        if !is_charged && this.yields(cx) {
            return Poll::Pending;
        }
        if let Some(output) = this.op.try_now() {
            return Poll::Ready(output);
        }
        this.enqueue(cx)
    }
}

impl<O: Op> Awaitable for Single<O> {
    type Unfinished<E> = O::Unfinished<E>;

    fn cancel(self: Pin<&mut Self>, _right: Cancel) -> Option<O::Output> {
        // SAFETY: nothing is moved out of the pinned future.
        let this = unsafe { self.get_unchecked_mut() };
        match this.memory.phase() {
            Phase::Queued => this.cancel_queued(),
            Phase::Idle | Phase::Yielded => {
                this.memory.set_phase(Phase::Cancelled);
                this.op.cancel_idle()
            }
            Phase::Finished | Phase::Claimed | Phase::Cancelled => None,
        }
    }

    fn unfinished<E>(self: Pin<&mut Self>, limit: E, _right: Cancel) -> Self::Unfinished<E> {
        // SAFETY: nothing is moved out of the pinned future.
        unsafe { self.get_unchecked_mut() }.op.unfinished(limit)
    }

    fn discard(self: Pin<&mut Self>, output: O::Output, _right: Cancel) {
        // SAFETY: nothing is moved out of the pinned future.
        let this = unsafe { self.get_unchecked_mut() };
        if this.memory.phase() != Phase::Claimed {
            return this.op.discard(output);
        }
        // SAFETY: claimed, so the waiter is initialised; the future is pinned until `Drop` has run.
        let waiter = unsafe { Pinned::new(this.memory.as_ptr()) };
        this.op.discard_claimed(output, waiter);
    }

    fn has_ended(&self) -> bool {
        match self.memory.phase() {
            Phase::Idle | Phase::Yielded | Phase::Queued => self.op.ended_by_panic(),
            Phase::Finished | Phase::Claimed | Phase::Cancelled => true,
        }
    }

    #[inline(always)]
    fn note(&self) -> WaitNote {
        if self.memory.phase() != Phase::Queued {
            return WaitNote::NONE;
        }
        // SAFETY: queued, so the waiter is initialised; it is a part of this future.
        unsafe { self.memory.as_ptr().as_ref() }.note()
    }
}

impl<O: Op> Drop for Single<O> {
    /// Inlined wherever a wait is dropped, so only the phase is read here; a queued wait is cancelled out of line.
    #[inline(always)]
    fn drop(&mut self) {
        if self.memory.phase() == Phase::Queued {
            self.cancel_on_drop();
        }
    }
}

impl<O: Op> fmt::Debug for Single<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct(O::NAME);
        match (self.memory.phase(), self.shown_grant()) {
            // Its next poll panics, as after an output.
            (Phase::Idle | Phase::Yielded | Phase::Queued, _) if self.op.ended_by_panic() => {
                shown.field("phase", &Phase::Finished)
            }
            (Phase::Claimed, _) => shown.field("phase", &Phase::Finished),
            (_, Some(grant)) => shown.field("phase", &format_args!("{grant}")),
            (phase, None) => shown.field("phase", &phase),
        };
        shown.finish_non_exhaustive()
    }
}
