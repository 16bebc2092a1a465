//! CancellationSource and CancellationToken: what each call does (S2-55..65, B025, B097).

use crate::kit::alloc::allocations;
use crate::kit::poll::{panic_of, panics, pending, poll, ready};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::borrow::Cow;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use tasuki::future::{OnCancel, OnCancelOwned, RunUntilCancelled};
use tasuki::{CancellationSource, CancellationToken, DropGuard, Semaphore};

type Waits = Vec<Pin<Box<OnCancelOwned>>>;

fn owned(token: &CancellationToken) -> Pin<Box<OnCancelOwned>> {
    Box::pin(token.clone().on_cancel_owned())
}

/// So many waits on one token, all queued.
fn queued(token: &CancellationToken, spies: &[Spy]) -> Waits {
    let mut waits: Waits = spies.iter().map(|_| owned(token)).collect();
    waits.iter_mut().zip(spies).for_each(|(wait, spy)| pending(wait, spy));
    waits
}

#[test]
fn s2_55_56_57_a_token_shows_what_its_source_does() {
    let source = CancellationSource::new();
    let (one, two) = (source.token(), source.clone().token());
    assert!(!one.stop_requested() && !two.stop_requested());
    source.request_cancel();
    assert!(one.stop_requested() && two.stop_requested() && source.token().stop_requested());
    source.request_cancel();
    assert!(one.stop_requested());
}

#[test]
fn s2_58_61_a_cancel_wakes_all_waiters_at_once() {
    let _dog = watchdog(60);
    for count in [33, 1, 2, 31, 32, 64, 100].into_iter().take(crate::kit::scaled(7, 2)) {
        let source = CancellationSource::new();
        let spies: Vec<Spy> = (0..count).map(|_| Spy::new()).collect();
        let mut waits = queued(&source.token(), &spies);
        source.request_cancel();
        assert!(spies.iter().all(|spy| spy.wakes() == 1), "of {count}");
        waits.iter_mut().for_each(ready);
        drop(waits);
        assert!(spies.iter().all(|spy| spy.alive() == 0));
    }
}

#[test]
fn s2_61_waiters_are_woken_in_the_order_in_which_they_came_parents_first() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let spy = |name: usize| {
        let order = order.clone();
        let spy = Spy::hostile(Call::Wake, move || order.lock().unwrap().push(name));
        spy.arm(1);
        spy
    };
    let parent = CancellationSource::new();
    let child = parent.child();
    // The child's waiters came first.
    let late: Vec<Spy> = (100..140).map(spy).collect();
    let early: Vec<Spy> = (0..40).map(spy).collect();
    let _waits = (queued(&child.token(), &late), queued(&parent.token(), &early));
    parent.request_cancel();
    assert_eq!(*order.lock().unwrap(), (0..40).chain(100..140).collect::<Vec<_>>());
}

#[test]
fn s2_59_a_token_is_passed_by_value_and_shared() {
    let _dog = watchdog(60);
    let source = CancellationSource::new();
    let token = source.token();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let token = token.clone();
            std::thread::spawn(move || token.on_cancel().block())
        })
        .collect();
    source.request_cancel();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_cancelled_token_is_ready_at_the_first_poll_and_touches_no_waker() {
    let source = CancellationSource::new();
    source.request_cancel();
    let (token, spy) = (source.token(), Spy::new());
    assert!(poll(&mut Box::pin(token.on_cancel()), &spy).is_ready());
    assert!(poll(&mut owned(&token), &spy).is_ready());
    assert_eq!((spy.calls(Call::Clone), spy.wakes()), (0, 0));
}

#[test]
fn a_wait_is_ready_again_only_by_a_new_future() {
    let source = CancellationSource::new();
    let mut wait = owned(&source.token());
    pending(&mut wait, &Spy::new());
    source.request_cancel();
    ready(&mut wait);
    assert_eq!(panic_of(|| ready(&mut wait)), "`tasuki::future::OnCancel` polled after it was finished");
    ready(&mut owned(&source.token()));
}

#[test]
fn dropping_sources_cancels_nothing_and_tokens_live_on() {
    let source = CancellationSource::new();
    let token = source.token();
    let (spy, mut wait) = (Spy::new(), owned(&token));
    pending(&mut wait, &spy);
    drop(source.clone());
    drop(source);
    assert!(!token.stop_requested());
    assert_eq!(spy.wakes(), 0);
    pending(&mut wait, &spy);
    let child = token.child();
    assert!(!child.token().stop_requested());
    child.request_cancel();
    assert!(child.token().stop_requested() && !token.stop_requested());
}

#[test]
fn the_last_waker_counts() {
    let source = CancellationSource::new();
    let (old, new, mut wait) = (Spy::new(), Spy::new(), owned(&source.token()));
    pending(&mut wait, &old);
    pending(&mut wait, &new);
    assert_eq!(old.alive(), 0);
    source.request_cancel();
    assert_eq!((old.wakes(), new.wakes()), (0, 1));
}

#[test]
fn the_first_reason_wins() {
    let source = CancellationSource::new();
    let token = source.token();
    assert_eq!(token.reason(), None);
    source.cancel_with("first");
    source.cancel_with("second");
    source.request_cancel();
    assert_eq!(token.reason(), Some("first"));

    let silent = CancellationSource::new();
    silent.request_cancel();
    silent.cancel_with("too late");
    assert_eq!(silent.token().reason(), None);

    let made = CancellationSource::new();
    made.cancel_with(Cow::from(format!("{}!", 7)));
    let text = made.token();
    drop(made);
    assert_eq!(text.reason(), Some("7!"));
}

#[test]
fn children_inherit_the_reason_of_the_cancel_that_reached_them() {
    let root = CancellationSource::new();
    let (kept, inherits) = (root.child(), root.child());
    let below = inherits.child().token();
    kept.cancel_with(String::from("mine"));
    assert!(!root.token().stop_requested());
    root.cancel_with(String::from("all"));
    assert_eq!(kept.token().reason(), Some("mine"));
    assert_eq!((inherits.token().reason(), below.reason()), (Some("all"), Some("all")));
    let (root, below) = (root.child(), below.child());
    assert_eq!((root.token().reason(), below.token().reason()), (Some("all"), Some("all")));
    assert_eq!(kept.child().token().reason(), Some("mine"));
}

#[test]
fn a_child_of_a_cancelled_parent_is_born_cancelled() {
    let parent = CancellationSource::new();
    parent.cancel_with("over");
    for child in [parent.child(), parent.token().child()] {
        assert!(child.token().stop_requested());
        let spy = Spy::new();
        assert!(poll(&mut owned(&child.child().token()), &spy).is_ready());
        child.cancel_with("again");
        assert_eq!(child.token().reason(), Some("over"));
    }
}

#[test]
fn a_drop_guard_cancels_unless_disarmed() {
    let source = CancellationSource::new();
    let token = source.token();
    let source = source.drop_guard().disarm();
    assert!(!token.stop_requested());
    let guard = source.drop_guard();
    assert!(panics(move || {
        let _guard = guard;
        panic!("a way out");
    }));
    assert!(token.stop_requested());
}

#[test]
fn defaults_and_debug() {
    let token = CancellationToken::default();
    assert!(!token.stop_requested());
    let source = CancellationSource::default();
    assert_eq!(format!("{source:?}"), "CancellationSource { stop_requested: false, reason: None }");
    source.cancel_with("x");
    let shown = format!("{:?}", source.token());
    assert_eq!(shown, "CancellationToken { stop_requested: true, reason: Some(\"x\") }");
    assert!(format!("{:?}", token.on_cancel()).starts_with("tasuki::future::OnCancel"));
    assert!(format!("{:?}", token.run_until_cancelled(async {})).starts_with("RunUntilCancelled"));
}

/// Pending so many times, then ready.
fn turns(mut left: usize) -> impl FnMut(&mut Context<'_>) -> Poll<()> {
    move |_| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        Poll::Pending
    }
}

/// B025: what is left of a finished wait must not touch the next one of the same task.
#[test]
fn b025_a_cancel_after_a_wait_does_not_reach_the_next_wait() {
    let (first, second) = (CancellationSource::new(), CancellationSource::new());
    let spy = Spy::new();
    let (token, next) = (first.token(), second.token());
    let mut done = Box::pin(token.run_until_cancelled(poll_fn(turns(1))));
    pending(&mut done, &spy);
    assert_eq!(poll(&mut done, &spy), Poll::Ready(Some(())));
    let mut wait = owned(&next);
    pending(&mut wait, &spy);
    // Finished, but still there: it has left the queue of its token.
    first.request_cancel();
    assert_eq!(spy.wakes(), 0);
    pending(&mut wait, &spy);
    second.request_cancel();
    assert_eq!(spy.wakes(), 1);
    ready(&mut wait);
}

/// B097: a token that is cancelled already decides, always in the same way.
#[test]
fn b097_a_cancelled_token_wins_over_a_ready_future_every_time() {
    let source = CancellationSource::new();
    source.request_cancel();
    let token = source.token();
    for _ in 0..crate::kit::scaled(1000, 20) {
        let semaphore = Semaphore::new(1);
        let mut run = Box::pin(token.run_until_cancelled(semaphore.acquire()));
        assert!(ready(&mut run).is_none());
        assert_eq!(semaphore.available_permits(), 1);
    }
}

#[test]
fn s2_65_run_until_cancelled_never_polls_when_cancelled() {
    let source = CancellationSource::new();
    let (token, polls, spy) = (source.token(), Cell::new(0), Spy::new());
    let count = || {
        poll_fn(|_| {
            polls.set(polls.get() + 1);
            Poll::<()>::Pending
        })
    };
    let mut run = Box::pin(token.run_until_cancelled(count()));
    pending(&mut run, &spy);
    pending(&mut run, &spy);
    assert_eq!(polls.get(), 2);
    let mut unpolled = Box::pin(token.run_until_cancelled(count()));
    source.request_cancel();
    assert_eq!(spy.wakes(), 1);
    assert_eq!((ready(&mut run), ready(&mut unpolled)), (None, None));
    assert_eq!(polls.get(), 2);
    assert_eq!(
        panic_of(|| ready(&mut run)),
        "`tasuki::future::RunUntilCancelled` polled after it was finished"
    );
}

struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A future that holds something.
fn holding<T>(hold: CountDrop, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> impl Future<Output = T> {
    poll_fn(move |cx| {
        let _hold = &hold;
        poll(cx)
    })
}

#[test]
fn run_until_cancelled_drops_the_future_when_it_ends_and_keeps_what_was_done() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let hold = || CountDrop(dropped.clone());
    let source = CancellationSource::new();
    let token = source.token();
    let mut run = Box::pin(token.run_until_cancelled(holding(hold(), turns(0))));
    assert_eq!((ready(&mut run), dropped.load(SeqCst)), (Some(()), 1));

    // Cancelled by the very poll in which it is ready.
    let cancel = source.clone();
    let mut run = Box::pin(token.run_until_cancelled(holding(hold(), move |_| {
        cancel.request_cancel();
        Poll::Ready(5)
    })));
    assert_eq!((ready(&mut run), dropped.load(SeqCst)), (Some(5), 2));

    // Cancelled by the very poll in which it is pending: no wake is needed.
    let source = CancellationSource::new();
    let (token, cancel) = (source.token(), source.clone());
    let mut run = Box::pin(token.run_until_cancelled(holding(hold(), move |_| {
        cancel.request_cancel();
        Poll::<()>::Pending
    })));
    assert_eq!((ready(&mut run), dropped.load(SeqCst)), (None, 3));
    drop(run);
    assert_eq!(dropped.load(SeqCst), 3);
}

struct Bomb;

impl Future for Bomb {
    type Output = ();
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("in drop");
    }
}

#[test]
fn run_until_cancelled_survives_panics_of_the_future() {
    let source = CancellationSource::new();
    let token = source.token();
    let mut run = Box::pin(token.run_until_cancelled(poll_fn(|_| -> Poll<()> { panic!("inside") })));
    assert_eq!(panic_of(|| ready(&mut run)), "inside");
    let spy = Spy::new();
    let mut bomb = Box::pin(token.run_until_cancelled(Bomb));
    pending(&mut bomb, &spy);
    source.request_cancel();
    assert_eq!(ready(&mut run), None);
    assert_eq!(panic_of(|| ready(&mut bomb)), "in drop");
    // Dropped once: what is left is finished, and in no queue.
    assert!(panics(|| ready(&mut bomb)));
    assert_eq!((spy.wakes(), spy.alive()), (1, 0));
}

#[test]
fn waiting_allocates_nothing_and_a_cancel_neither() {
    let source = CancellationSource::new();
    let (token, children) = (source.token(), [source.child(), source.child()]);
    let spies: [Spy; 40] = std::array::from_fn(|_| Spy::new());
    let mut waits: [_; 40] = std::array::from_fn(|at| owned(&children[at % 2].token()));
    let cx = &mut Context::from_waker(Waker::noop());
    let (count, ()) = allocations(|| {
        let mut wait = std::pin::pin!(token.on_cancel());
        assert!(wait.as_mut().poll(cx).is_pending());
        for (wait, spy) in waits.iter_mut().zip(&spies) {
            pending(wait, spy);
        }
        let clones = [token.clone(), token.clone()];
        let mut run = std::pin::pin!(clones[0].run_until_cancelled(std::future::pending::<()>()));
        assert!(run.as_mut().poll(cx).is_pending());
        source.cancel_with("static");
        waits.iter_mut().for_each(ready);
        assert!(wait.as_mut().poll(cx).is_ready());
    });
    assert_eq!(count, 0);
}

#[test]
fn a_node_is_one_allocation_and_so_is_a_reason() {
    let (count, source) = allocations(CancellationSource::new);
    assert_eq!(count, 1);
    assert_eq!(allocations(|| source.child()).0, 1);
    let children: Vec<_> = (0..10).map(|_| source.child()).collect();
    let text = String::from("made at run time");
    assert_eq!(allocations(|| source.cancel_with(text)).0, 1);
    assert!(children.iter().all(|child| child.token().reason() == Some("made at run time")));
    assert_eq!(allocations(|| source.child()).0, 1);
}

fn is_send_sync<T: Send + Sync>() {}
fn is_unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}

struct Invalid;

trait AmbiguousIfUnpin<A> {
    fn check() {}
}
impl<T: ?Sized> AmbiguousIfUnpin<()> for T {}
impl<T: ?Sized + Unpin> AmbiguousIfUnpin<Invalid> for T {}

trait AmbiguousIfSend<A> {
    fn check() {}
}
impl<T: ?Sized> AmbiguousIfSend<()> for T {}
impl<T: ?Sized + Send> AmbiguousIfSend<Invalid> for T {}

#[test]
fn auto_traits() {
    is_send_sync::<CancellationSource>();
    is_send_sync::<CancellationToken>();
    is_send_sync::<DropGuard>();
    is_send_sync::<OnCancel<'static>>();
    is_send_sync::<OnCancelOwned>();
    is_send_sync::<RunUntilCancelled<'static, std::future::Ready<()>>>();
    is_unwind_safe::<CancellationSource>();
    is_unwind_safe::<CancellationToken>();
    // Futures with a waiter cannot be moved, whatever they run; what they run decides about threads.
    <OnCancel<'static> as AmbiguousIfUnpin<_>>::check();
    <OnCancelOwned as AmbiguousIfUnpin<_>>::check();
    <RunUntilCancelled<'static, std::future::Ready<()>> as AmbiguousIfUnpin<_>>::check();
    <RunUntilCancelled<'static, std::future::Ready<*mut ()>> as AmbiguousIfSend<_>>::check();
}

#[test]
fn handles_are_one_pointer() {
    assert_eq!(size_of::<CancellationSource>(), size_of::<usize>());
    assert_eq!(size_of::<CancellationToken>(), size_of::<usize>());
    assert_eq!(size_of::<Option<CancellationToken>>(), size_of::<usize>());
}
