//! `Revocable`: a grant that its task does not claim goes to another future of the same task. The programs of the futurelock (Oxide RFD 609), which futures are of one task, and where a
//! revoked waiter comes back. `revocable_end.rs` has the ends of its wait, `revocable_spec.rs` all short strings of operations.

use crate::kit::driver::FakeDriver;
use crate::kit::poll::{pending, poll, poll_with, ready, yield_now};
use crate::kit::rng::Seed;
use crate::kit::waker::Spy;
use crate::kit::watchdog::watchdog;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use tasuki::future::Lock;
use tasuki::policy::{Fifo, Policy, Revocable};
use tasuki::runtime::TaskId;
use tasuki::{Event, Mutex, MutexGuard, runtime, task};

pub(super) type Revoking = Mutex<u32, Revocable>;
pub(super) type Waiting<'m> = Pin<Box<Lock<'m, u32, Revocable>>>;

pub(super) fn lock(mutex: &Revoking) -> Waiting<'_> {
    Box::pin(mutex.lock())
}

/// A mutex, and a future that was granted its lock and is not polled.
pub(super) fn granted<'m>(mutex: &'m Revoking, spy: &Spy) -> Waiting<'m> {
    let held = mutex.try_lock().unwrap();
    let mut snoozed = lock(mutex);
    pending(&mut snoozed, spy);
    drop(held);
    snoozed
}

/// The same, and a sibling that has its grant.
pub(super) fn revoked<'m>(mutex: &'m Revoking, spy: &Spy) -> (Waiting<'m>, MutexGuard<'m, u32, Revocable>) {
    let snoozed = granted(mutex, spy);
    let mut other = lock(mutex);
    let Poll::Ready(guard) = third_look(&mut other, spy) else { panic!("the grant was not revoked") };
    (snoozed, guard)
}

/// Two polls that find a grant unclaimed, and what the next one gives.
pub(super) fn third_look<F: Future>(future: &mut Pin<Box<F>>, spy: &Spy) -> Poll<F::Output> {
    (0..2).for_each(|_| pending(future, spy));
    poll(future, spy)
}

/// async-lock#91: two futures of one task are queued, the second is awaited.
#[test]
fn the_second_of_two_futures_is_awaited() {
    let _dog = watchdog(10);
    let (mutex, spy) = (Revoking::with_policy(0), Spy::new());
    let held = mutex.try_lock().unwrap();
    let (mut first, mut second) = (lock(&mutex), lock(&mutex));
    pending(&mut first, &spy);
    pending(&mut second, &spy);
    drop(held);
    (0..2).for_each(|_| pending(&mut second, &spy));
    assert_eq!(spy.wakes(), 3, "by the grant, and twice to be polled again");
    let Poll::Ready(guard) = poll(&mut second, &spy) else { panic!("pending") };
    pending(&mut first, &spy);
    drop(guard);
    drop(ready(&mut first));
    drop((first, second));
    assert_eq!(spy.alive(), 0);
}

/// tokio#7892: the task keeps a future that was polled once, and waits with its thread the second time. The thread has a waker of its own: the task is known by its identity.
#[test]
fn a_task_blocks_on_the_lock() {
    let _dog = watchdog(10);
    let (mutex, spy) = (Revoking::with_policy(0), Spy::new());
    let mut held = mutex.try_lock();
    let mut kept = lock(&mutex);
    let mut task = Box::pin(task::identify(poll_fn(|cx| {
        if let Some(held) = held.take() {
            assert!(kept.as_mut().poll(cx).is_pending());
            drop(held);
            return Poll::Pending;
        }
        *mutex.lock().block() += 1;
        kept.as_mut().poll(cx).map(|mut guard| *guard += 1)
    })));
    pending(&mut task, &spy);
    assert_eq!(spy.wakes(), 1);
    assert!(poll(&mut task, &spy).is_ready());
    drop(task);
    assert_eq!(*ready(&mut lock(&mutex)), 2);
}

/// In which order a task polls its branches.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// `futures::join!`.
    Same,
    /// `tokio::join!`: each poll begins with the next branch.
    Next,
    /// The worst: what was polled last is polled first.
    Reverse,
    /// A `select!` without `biased`.
    Random,
}

/// A task that polls all of its branches at every poll polls the granted one between the first look of another and its third, whatever the order: nothing is taken from a branch that is polled.
fn branches_of_a_join_take_turns<P: Policy>(count: usize, yields: usize, turn: Turn) {
    let _dog = watchdog(10);
    let mutex = Mutex::<Vec<usize>, P>::with_policy(Vec::new());
    let branch = async |name: usize| {
        for _ in 0..10 {
            let mut log = mutex.lock().await;
            for _ in 0..yields {
                yield_now().await;
            }
            log.push(name);
        }
    };
    let mut branches: Vec<_> = (0..count).map(|name| Some(Box::pin(branch(name)))).collect();
    let (mut polls, mut rng) = (0, Seed::pick().rng());
    let mut task = Box::pin(poll_fn(|cx| {
        let mut order: Vec<_> = (0..count).collect();
        match turn {
            Turn::Same => {}
            Turn::Next => order.rotate_left(polls % count),
            Turn::Reverse if polls % 2 == 0 => {}
            Turn::Reverse => order.reverse(),
            Turn::Random => (1..count).for_each(|last| order.swap(last, rng.below(last + 1))),
        }
        polls += 1;
        for name in order {
            let branch = &mut branches[name];
            if branch.as_mut().is_some_and(|branch| branch.as_mut().poll(cx).is_ready()) {
                *branch = None;
            }
        }
        if branches.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    }));
    let spy = Spy::new();
    while poll(&mut task, &spy).is_pending() {}
    drop(task);
    let log = mutex.try_lock().unwrap();
    let is_in_turn = log.chunks(count).all(|turn| (0..count).all(|name| turn.contains(&name)));
    assert!(is_in_turn, "{count} branches, {yields} yields, {turn:?}: {log:?}");
}

#[test]
fn h11_branches_of_a_join_take_turns() {
    for count in [2, 3, 4] {
        for yields in 1..4 {
            for turn in [Turn::Same, Turn::Next, Turn::Reverse, Turn::Random] {
                branches_of_a_join_take_turns::<Fifo>(count, yields, turn);
                branches_of_a_join_take_turns::<Revocable>(count, yields, turn);
            }
        }
    }
}

/// A task that has no other waiter, and tasks of others: first come, first served, and nothing is taken from them.
#[test]
fn strangers_revoke_nothing() {
    let _dog = watchdog(10);
    let (mutex, [spy, stranger]) = (Revoking::with_policy(0), Spy::many());
    let mut snoozed = granted(&mutex, &spy);
    let mut other = lock(&mutex);
    (0..10).for_each(|_| pending(&mut other, &stranger));
    assert_eq!(stranger.wakes(), 0);
    let guard = ready(&mut snoozed);
    pending(&mut other, &stranger);
    drop(guard);
    assert_eq!(stranger.wakes(), 1);
    drop(ready(&mut other));
}

/// Wakers without data are those of no task in particular.
#[test]
fn a_waker_that_says_nothing_revokes_nothing() {
    let _dog = watchdog(10);
    let mutex = Revoking::with_policy(0);
    let held = mutex.try_lock().unwrap();
    let (mut first, mut second) = (lock(&mutex), lock(&mutex));
    assert!(poll_with(&mut first, Waker::noop()).is_pending());
    assert!(poll_with(&mut second, Waker::noop()).is_pending());
    drop(held);
    (0..10).for_each(|_| assert!(poll_with(&mut second, Waker::noop()).is_pending()));
    drop(ready(&mut first));
    drop(ready(&mut second));
}

/// Two identities inside of one waker are two tasks; and one identity with two wakers is one.
#[test]
fn an_identity_says_more_than_a_waker() {
    let _dog = watchdog(10);
    let (mutex, [spy, child]) = (Revoking::with_policy(0), Spy::many());
    let [mine, other] = [(); 2].map(|()| FakeDriver { task: Some(TaskId::fresh()), ..FakeDriver::new() });
    let held = mutex.try_lock().unwrap();
    let mut snoozed = lock(&mutex);
    runtime::enter(&mine, || pending(&mut snoozed, &child));
    drop(held);
    let mut stranger = lock(&mutex);
    (0..10).for_each(|_| runtime::enter(&other, || pending(&mut stranger, &child)));
    let mut sibling = lock(&mutex);
    assert!(runtime::enter(&mine, || third_look(&mut sibling, &spy)).is_ready());
    // It takes the turn of its sibling; the stranger is next, ahead of a waiter that is not polled.
    drop(sibling);
    assert!(runtime::enter(&other, || poll(&mut stranger, &child)).is_ready());
    drop(snoozed);
    assert!(!mutex.is_locked());
}

/// A future that another task polls is that task's: the siblings are those of the last poll.
#[test]
fn a_future_moves_to_another_task() {
    let _dog = watchdog(10);
    let (mutex, [before, after]) = (Revoking::with_policy(0), Spy::many());
    let held = mutex.try_lock().unwrap();
    let mut moved = lock(&mutex);
    pending(&mut moved, &before);
    pending(&mut moved, &after);
    drop(held);
    assert_eq!((before.wakes(), after.wakes()), (0, 1));
    let (mut stranger, mut sibling) = (lock(&mutex), lock(&mutex));
    (0..10).for_each(|_| pending(&mut stranger, &before));
    assert!(third_look(&mut sibling, &after).is_ready());
    drop((stranger, moved));
    assert!(!mutex.is_locked());
    assert_eq!((before.alive(), after.alive()), (0, 0));
}

/// The same with identities, where the waker stays the same: a set of futures that is moved from task to task.
#[test]
fn a_set_of_futures_moves_to_another_task() {
    let _dog = watchdog(10);
    let (mutex, [child, spy]) = (Revoking::with_policy(0), Spy::many());
    let [before, after] = [(); 2].map(|()| FakeDriver { task: Some(TaskId::fresh()), ..FakeDriver::new() });
    let held = mutex.try_lock().unwrap();
    let mut moved = lock(&mutex);
    runtime::enter(&before, || pending(&mut moved, &child));
    runtime::enter(&after, || pending(&mut moved, &child));
    drop(held);
    let (mut stranger, mut sibling) = (lock(&mutex), lock(&mutex));
    (0..10).for_each(|_| runtime::enter(&before, || pending(&mut stranger, &spy)));
    assert!(runtime::enter(&after, || third_look(&mut sibling, &spy)).is_ready());
}

/// A revoked future is passed over until it is polled: other tasks do not wait for it, and a free lock is free.
#[test]
fn a_revoked_future_is_passed_over() {
    let _dog = watchdog(10);
    let (mutex, [spy, stranger]) = (Revoking::with_policy(0), Spy::many());
    let (mut snoozed, guard) = revoked(&mutex, &spy);
    let mut other = lock(&mutex);
    pending(&mut other, &stranger);
    drop(guard);
    assert_eq!(stranger.wakes(), 1);
    drop(ready(&mut other));
    drop(mutex.try_lock().expect("a lock that no task holds"));
    drop(ready(&mut snoozed));
    assert!(!mutex.is_locked());
}

/// It has its place ahead of all waiters once; the second time it goes to the end.
#[test]
fn a_revoked_future_keeps_its_place_once() {
    let _dog = watchdog(10);
    let (mutex, [spy, stranger]) = (Revoking::with_policy(0), Spy::many());
    let (mut snoozed, guard) = revoked(&mutex, &spy);
    let mut other = lock(&mutex);
    pending(&mut other, &stranger);
    pending(&mut snoozed, &spy);
    drop(guard);
    assert_eq!(stranger.wakes(), 0, "the revoked future is ahead");
    let mut thief = lock(&mutex);
    let Poll::Ready(guard) = third_look(&mut thief, &spy) else { panic!("the grant was not revoked again") };
    pending(&mut snoozed, &spy);
    drop(guard);
    assert_eq!(stranger.wakes(), 1, "the revoked future is behind");
    drop(ready(&mut other));
    drop(ready(&mut snoozed));
}

/// A grant on its way to a stranger is not taken by a revoked future that comes back: it is the next.
#[test]
fn a_revoked_future_comes_back_behind_a_grant() {
    let _dog = watchdog(10);
    let (mutex, [spy, stranger, third]) = (Revoking::with_policy(0), Spy::many());
    let (mut snoozed, guard) = revoked(&mutex, &spy);
    let (mut other, mut last) = (lock(&mutex), lock(&mutex));
    pending(&mut other, &stranger);
    pending(&mut last, &third);
    drop(guard);
    pending(&mut snoozed, &spy);
    let wakes = spy.wakes();
    drop(ready(&mut other));
    assert_eq!((spy.wakes(), third.wakes()), (wakes + 1, 0));
    drop(ready(&mut snoozed));
    assert_eq!(third.wakes(), 1);
    drop(ready(&mut last));
}

/// `try_lock` has no other look: it takes nothing from a waiter, also in the task of the waiter.
#[test]
fn try_lock_revokes_nothing() {
    let _dog = watchdog(10);
    let (mutex, spy) = (Revoking::with_policy(0), Spy::new());
    let driver = FakeDriver { task: Some(TaskId::fresh()), ..FakeDriver::new() };
    runtime::enter(&driver, || {
        let mut snoozed = granted(&mutex, &spy);
        (0..10).for_each(|_| assert!(mutex.try_lock().is_none()));
        assert!(mutex.is_locked());
        drop(ready(&mut snoozed));
        assert!(mutex.try_lock().is_some());
    });
}

/// What `Debug` says of a wait: waiting, granted, revoked.
#[test]
fn debug_tells_the_phase() {
    let (mutex, spy) = (Revoking::with_policy(0), Spy::new());
    let shown = |future: &Waiting<'_>, phase: &str| {
        let text = format!("{future:?}");
        assert!(text.contains(&format!("phase: {phase}")), "{text}");
    };
    let snoozed = granted(&mutex, &spy);
    shown(&snoozed, "Granted");
    drop(snoozed);
    let (mut snoozed, guard) = revoked(&mutex, &spy);
    shown(&snoozed, "Revoked");
    pending(&mut snoozed, &spy);
    shown(&snoozed, "Queued");
    drop(guard);
    shown(&snoozed, "Granted");
}

/// The whole program of the RFD under an executor with one task, with a real waker: it ends.
#[test]
fn rfd_609_ends() {
    let _dog = watchdog(10);
    let (mutex, timer) = (Revoking::with_policy(0), Event::auto());
    let background = mutex.try_lock().unwrap();
    let program = async {
        let mut future1 = pin!(mutex.lock());
        let mut sleep = pin!(timer.wait());
        poll_fn(|cx: &mut Context<'_>| match future1.as_mut().poll(cx) {
            Poll::Ready(_) => panic!("the lock is held"),
            Poll::Pending => sleep.as_mut().poll(cx),
        })
        .await;
        *mutex.lock().await += 1;
    };
    let (mut task, spy) = (Box::pin(program), Spy::new());
    pending(&mut task, &spy);
    timer.set();
    pending(&mut task, &spy);
    drop(background);
    let mut polled = 0;
    while poll(&mut task, &spy).is_pending() {
        polled += 1;
        assert_eq!(spy.wakes(), 2 + polled, "a hang: it is not woken");
    }
    assert_eq!(polled, 2);
    drop(task);
    assert_eq!(mutex.into_inner(), 1);
}
