//! `Revocable`: a grant that its task has not claimed in a whole poll goes to the next waiter, or frees the lock. The task is known by `task::identify`, which says when a poll has ended; a future
//! that is to be revoked in this way is one of `lock_owned`.

use crate::kit::poll::{panics, pending, poll, ready};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use tasuki::policy::{Fifo, Policy, Revocable};
use tasuki::runtime::{TaskId, poll_ended};
use tasuki::task::{self, Identified};
use tasuki::{Condvar, Mutex};

type Shared<P = Revocable> = Arc<Mutex<u32, P>>;
type Kept<P = Revocable> = Pin<Box<tasuki::future::LockOwned<u32, P>>>;

fn mutex<P: Policy>() -> Shared<P> {
    Arc::new(Mutex::with_policy(0))
}

fn lock<P: Policy>(mutex: &Shared<P>) -> Kept<P> {
    Box::pin(mutex.clone().lock_owned())
}

/// A task that never ends.
type Script<'s> = Pin<Box<Identified<Pin<Box<dyn Future<Output = ()> + 's>>>>>;

fn task<'s>(mut step: impl FnMut(&mut Context<'_>) + 's) -> Script<'s> {
    let forever = poll_fn(move |cx| -> Poll<()> {
        step(cx);
        Poll::Pending
    });
    Box::pin(task::identify(Box::pin(forever) as Pin<Box<dyn Future<Output = ()> + 's>>))
}

/// A task that polls these futures once, and then keeps them.
fn keeps<P: Policy>(kept: &mut [Kept<P>], spy: &Spy) -> TaskId {
    let mut task = task(|cx| kept.iter_mut().for_each(|kept| assert!(kept.as_mut().poll(cx).is_pending())));
    pending(&mut task, spy);
    task.id()
}

/// A task that keeps one future, to which the lock is granted.
fn granted(mutex: &Shared, spy: &Spy) -> (TaskId, [Kept; 1]) {
    let held = mutex.try_lock().unwrap();
    let mut kept = [lock(mutex)];
    let task = keeps(&mut kept, spy);
    drop(held);
    (task, kept)
}

/// The task ends a poll in which it has polled nothing.
fn poll_of(task: TaskId, spy: &Spy) {
    poll_ended(task, &spy.waker());
}

/// The lock is granted to a future that its task keeps: after a whole poll without a claim it goes to the next, which is of another task. The task is woken once, to be polled that often.
#[test]
fn the_next_task_has_the_lock() {
    let _dog = watchdog(10);
    let (mutex, spy, other) = (mutex::<Revocable>(), Spy::new(), Spy::new());
    let held = mutex.try_lock().unwrap();
    let mut kept = [lock(&mutex)];
    let task = keeps(&mut kept, &spy);
    let mut next = lock(&mutex);
    pending(&mut next, &other);
    poll_of(task, &spy);
    drop(held);
    assert_eq!((spy.wakes(), other.wakes()), (1, 0));
    poll_of(task, &spy);
    assert_eq!((spy.wakes(), other.wakes()), (2, 0), "it may have been granted in the middle of that poll");
    poll_of(task, &spy);
    assert_eq!((spy.wakes(), other.wakes()), (2, 1));
    let guard = ready(&mut next);
    assert!(format!("{:?}", kept[0]).contains("Revoked"));
    pending(&mut kept[0], &spy);
    drop(guard);
    *ready(&mut kept[0]) += 1;
    drop((kept, next));
    assert!(!mutex.is_locked() && spy.alive() == 0 && other.alive() == 0);
}

/// Without others the lock is free afterwards, and the kept future takes it when it is polled.
#[test]
fn without_others_the_lock_is_free() {
    let _dog = watchdog(10);
    let (mutex, spy) = (mutex::<Revocable>(), Spy::new());
    let (task, mut kept) = granted(&mutex, &spy);
    poll_of(task, &spy);
    assert!(mutex.is_locked());
    poll_of(task, &spy);
    assert!(!mutex.is_locked());
    *mutex.try_lock().unwrap() += 1;
    assert_eq!(*ready(&mut kept[0]), 1);
}

/// Other policies, and futures that borrow their mutex, are as they were: such a future may be forgotten, and the mutex moved or dropped then.
#[test]
fn what_is_not_revoked() {
    fn check<P: Policy>(is_revoked: bool, is_owned: bool) {
        let (mutex, spy) = (mutex::<P>(), Spy::new());
        let held = mutex.try_lock().unwrap();
        let (mut owned, mut borrowed) = (lock(&mutex), Box::pin(mutex.lock()));
        let mut script = task(|cx| {
            let poll = if is_owned {
                owned.as_mut().poll(cx).is_ready()
            } else {
                borrowed.as_mut().poll(cx).is_ready()
            };
            assert!(!poll);
        });
        let id = script.id();
        pending(&mut script, &spy);
        drop((script, held));
        (0..4).for_each(|_| poll_of(id, &spy));
        assert_eq!(mutex.is_locked(), !is_revoked);
    }
    let _dog = watchdog(10);
    check::<Revocable>(true, true);
    check::<Revocable<false>>(true, true);
    check::<Revocable>(false, false);
    check::<Fifo>(false, true);
    check::<Fifo>(false, false);
}

/// What a task claims, in whichever poll, is not revoked; nor is what another task was granted, whose number is in the same bucket.
#[test]
fn a_claim_is_final() {
    let _dog = watchdog(10);
    let (mutex, spy) = (mutex::<Revocable>(), Spy::new());
    let (task, mut kept) = granted(&mutex, &spy);
    // More than there are buckets.
    let others: Vec<_> = (0..if cfg!(miri) { 257 } else { 1024 }).map(|_| TaskId::fresh()).collect();
    for _ in 0..4 {
        others.iter().for_each(|other| poll_of(*other, &spy));
    }
    assert_eq!(spy.wakes(), 1);
    poll_of(task, &spy);
    let guard = ready(&mut kept[0]);
    (0..4).for_each(|_| poll_of(task, &spy));
    assert!(mutex.is_locked() && spy.wakes() == 2);
    drop(guard);
    assert!(!mutex.is_locked());
}

/// A task keeps the futures of many locks, and is granted them in any order: each is revoked, and the records are unlinked from the middle and from both ends.
#[test]
fn many_locks_of_one_task() {
    let _dog = watchdog(20);
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0], [0, 2, 1], [2, 0, 1]] {
        for dropped in 0..4 {
            let (spy, other) = (Spy::new(), Spy::new());
            let mutexes = [(); 3].map(|()| mutex::<Revocable>());
            let mut held = mutexes.each_ref().map(|mutex| mutex.try_lock());
            let mut kept: Vec<_> = mutexes.iter().map(lock).collect();
            let task = keeps(&mut kept, &spy);
            let mut waits: Vec<_> = mutexes.iter().map(lock).collect();
            waits.iter_mut().for_each(|wait| pending(wait, &other));
            order.iter().for_each(|granted| held[*granted] = None);
            poll_of(task, &spy);
            let mut kept: Vec<_> = kept.into_iter().map(Some).collect();
            if let Some(kept) = kept.get_mut(dropped) {
                *kept = None;
            }
            poll_of(task, &spy);
            waits.iter_mut().for_each(|wait| *ready(wait) += 1);
            assert_eq!(other.wakes(), 3);
            drop(kept);
            assert!(mutexes.iter().all(|mutex| !mutex.is_locked() && *mutex.try_lock().unwrap() == 1));
        }
    }
}

/// The next waiter may be kept as well, by the same task or by another: each costs its task two polls.
#[test]
fn one_after_the_other() {
    let _dog = watchdog(10);
    let (mutex, spies) = (mutex::<Revocable>(), Spy::many::<2>());
    let held = mutex.try_lock().unwrap();
    let mut kept = [[lock(&mutex), lock(&mutex)], [lock(&mutex), lock(&mutex)]];
    let tasks = [keeps(&mut kept[0], &spies[0]), keeps(&mut kept[1], &spies[1])];
    drop(held);
    for (task, spy) in [(0, &spies[0]), (0, &spies[0]), (1, &spies[1]), (1, &spies[1])] {
        assert!(mutex.is_locked());
        (0..2).for_each(|_| poll_of(tasks[task], spy));
    }
    assert!(!mutex.is_locked());
    kept.iter_mut().flatten().for_each(|kept| *ready(kept) += 1);
    assert_eq!(*mutex.try_lock().unwrap(), 4);
}

/// A sibling that has seen the grant takes it over; the end of a poll finds nothing then.
#[test]
fn a_sibling_is_faster() {
    let _dog = watchdog(10);
    let (mutex, spy) = (mutex::<Revocable>(), Spy::new());
    let held = mutex.try_lock().unwrap();
    let (mut kept, mut polled, mut got) = (lock(&mutex), lock(&mutex), None);
    let mut first = true;
    let mut script = task(|cx| {
        if mem::take(&mut first) {
            assert!(kept.as_mut().poll(cx).is_pending());
        }
        if got.is_some() {
            return;
        }
        if let Poll::Ready(guard) = polled.as_mut().poll(cx) {
            got = Some(guard);
        }
    });
    pending(&mut script, &spy);
    drop(held);
    (0..4).for_each(|_| pending(&mut script, &spy));
    let task = script.id();
    drop(script);
    assert!(got.is_some() && mutex.is_locked());
    (0..2).for_each(|_| poll_of(task, &spy));
    drop(got);
    assert!(!mutex.is_locked());
    drop(ready(&mut kept));
}

/// A future that was forgotten holds its mutex: the grant is revoked in it, and in no other memory.
#[test]
#[cfg_attr(miri, ignore = "it leaks")]
fn a_forgotten_future() {
    let _dog = watchdog(10);
    let (mutex, spy) = (mutex::<Revocable>(), Spy::new());
    let held = mutex.clone().try_lock_owned().unwrap();
    let mut kept = [lock(&mutex)];
    let task = keeps(&mut kept, &spy);
    mem::forget(kept);
    let weak = Arc::downgrade(&mutex);
    drop((held, mutex));
    (0..2).for_each(|_| poll_of(task, &spy));
    let mutex = weak.upgrade().expect("the forgotten future has forgotten an `Arc`");
    assert!(!mutex.is_locked());
}

/// Wakers that panic: all locks are their next waiters', and the task is woken for a grant that came since the poll before; else no poll might come that revokes it.
#[test]
fn wakers_that_panic() {
    let _dog = watchdog(10);
    let (spy, hostile) = (Spy::new(), Spy::hostile(Call::Wake, || panic!("a hostile waker")));
    let mutexes = [(); 3].map(|()| mutex::<Revocable>());
    let mut held = mutexes.each_ref().map(|mutex| mutex.try_lock());
    let mut kept: Vec<_> = mutexes.iter().map(lock).collect();
    let task = keeps(&mut kept, &spy);
    let mut waits: Vec<_> = mutexes.iter().map(lock).collect();
    waits.iter_mut().for_each(|wait| pending(wait, &hostile));
    held[..2].fill_with(|| None);
    poll_of(task, &spy);
    held[2] = None;
    hostile.arm(2);
    let wakes = spy.wakes();
    assert!(panics(|| poll_of(task, &spy)));
    assert_eq!((hostile.hook_runs(), spy.wakes() - wakes), (2, 1));
    waits[..2].iter_mut().for_each(|wait| drop(ready(wait)));
    poll_of(task, &spy);
    drop(ready(&mut waits[2]));
    let once = Spy::hostile(Call::WakeByRef, || panic!("a hostile waker"));
    let held = mutexes[0].try_lock().unwrap();
    let mut kept = [lock(&mutexes[0])];
    let task = keeps(&mut kept, &spy);
    drop(held);
    once.arm(1);
    assert!(panics(|| poll_of(task, &once)));
    poll_of(task, &once);
    assert!(!mutexes[0].is_locked());
}

/// A wait of a condvar that keeps an `Arc` of its mutex is granted the mutex, and not polled.
#[test]
fn a_wait_of_a_condvar() {
    let _dog = watchdog(10);
    let (mutex, condvar, spy) = (mutex::<Revocable>(), Condvar::new(), Spy::new());
    let mut wait = Box::pin(condvar.wait(mutex.clone().try_lock_owned().unwrap()));
    let mut held = None;
    let mut script = task(|cx| {
        if held.is_none() {
            assert!(wait.as_mut().poll(cx).is_pending());
            held = mutex.try_lock();
            condvar.notify_one();
            assert!(wait.as_mut().poll(cx).is_pending());
        }
    });
    pending(&mut script, &spy);
    let task = script.id();
    drop(script);
    drop(held);
    (0..2).for_each(|_| poll_of(task, &spy));
    assert!(!mutex.is_locked());
    drop(ready(&mut wait));
}

/// The claim, the drop, and the last reference of the mutex race the ends of polls.
#[test]
fn threads() {
    let _dog = watchdog(60);
    for round in 0..if cfg!(miri) { 12 } else { 3000 } {
        let (mutex, spy) = (mutex::<Revocable>(), Spy::new());
        let held = mutex.clone().try_lock_owned().unwrap();
        let mut kept = [lock(&mutex)];
        let task = keeps(&mut kept, &spy);
        let mut next = (round % 2 == 0).then(|| lock(&mutex));
        next.iter_mut().for_each(|next| pending(next, &spy));
        drop((held, mutex));
        poll_of(task, &spy);
        let other = thread::spawn(move || {
            let [mut kept] = kept;
            if round % 3 == 0 { drop(kept) } else { drop(poll(&mut kept, &Spy::new())) }
        });
        poll_of(task, &spy);
        other.join().unwrap();
        next.iter_mut().for_each(|next| drop(ready(next)));
    }
}

/// How a task ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Ready,
    Panic,
    Dropped,
    /// By the destructor of its future, which holds the lock until then.
    DroppedWithGuard,
}

/// A task ends with a grant that it has not claimed, to a future that lives on elsewhere: the lock is the next waiter's at once, or free. The future competes again if another task polls it.
#[test]
fn a_task_that_ends() {
    let _dog = watchdog(10);
    for end in [End::Ready, End::Panic, End::Dropped, End::DroppedWithGuard] {
        for has_next in [true, false] {
            let (mutex, spy, other) = (mutex::<Revocable>(), Spy::new(), Spy::new());
            let mut held = Some(mutex.clone().try_lock_owned().unwrap());
            let (mut kept, mut polls) = (lock(&mutex), 0);
            let own = if end == End::DroppedWithGuard { held.take() } else { None };
            let left = &mut kept;
            let mut ends = Some(Box::pin(task::identify(poll_fn(move |cx| {
                let _held = &own;
                polls += 1;
                match end {
                    _ if polls == 1 => assert!(left.as_mut().poll(cx).is_pending()),
                    End::Ready => return Poll::Ready(()),
                    End::Panic => panic!("mine"),
                    End::Dropped | End::DroppedWithGuard => {}
                }
                Poll::Pending
            }))));
            pending(ends.as_mut().unwrap(), &spy);
            let mut next = has_next.then(|| lock(&mutex));
            next.iter_mut().for_each(|next| pending(next, &other));
            drop(held);
            assert!(mutex.is_locked() && other.wakes() == 0);
            match end {
                // The future is kept.
                End::Ready => ready(ends.as_mut().unwrap()),
                End::Panic => assert!(panics(|| poll(ends.as_mut().unwrap(), &spy))),
                End::Dropped | End::DroppedWithGuard => ends = None,
            }
            assert_eq!(other.wakes(), usize::from(has_next), "{end:?}");
            assert_eq!(mutex.is_locked(), has_next, "{end:?}");
            drop(ends);
            let guard = next.as_mut().map(ready);
            if has_next {
                pending(&mut kept, &spy);
            }
            drop(guard);
            *ready(&mut kept) += 1;
            drop((kept, next));
            assert!(!mutex.is_locked());
        }
    }
}

/// All futures that the task has left behind, of one lock and of several; the wakers of others panic, and the output is not lost.
#[test]
fn a_task_that_ends_with_several_grants() {
    let _dog = watchdog(10);
    let (spy, hostile) = (Spy::new(), Spy::hostile(Call::Wake, || panic!("a hostile waker")));
    let mutexes = [(); 2].map(|()| mutex::<Revocable>());
    let held = mutexes.each_ref().map(|mutex| mutex.try_lock().unwrap());
    let mut kept: Vec<_> = mutexes.iter().chain(&mutexes).map(lock).collect();
    let mut is_first = true;
    let mut ends = Box::pin(task::identify(poll_fn(|cx| {
        if !mem::take(&mut is_first) {
            return Poll::Ready(7);
        }
        kept.iter_mut().for_each(|kept| assert!(kept.as_mut().poll(cx).is_pending()));
        Poll::Pending
    })));
    pending(&mut ends, &spy);
    let mut waits: Vec<_> = mutexes.iter().map(lock).collect();
    waits.iter_mut().for_each(|wait| pending(wait, &hostile));
    drop(held);
    hostile.arm(2);
    assert_eq!(ready(&mut ends), 7);
    assert_eq!(hostile.hook_runs(), 2);
    waits.iter_mut().for_each(|wait| *ready(wait) += 1);
    drop(ends);
    kept.iter_mut().for_each(|kept| *ready(kept) += 1);
    assert!(mutexes.iter().all(|mutex| *mutex.try_lock().unwrap() == 3));
}

/// A future whose grant was revoked is dropped, which locks the queue of a lock that is free: a try on another thread gets it all the same.
#[test]
fn a_try_beside_the_drop_of_a_revoked_future() {
    let _dog = watchdog(60);
    for _ in 0..if cfg!(miri) { 5 } else { 500 } {
        let mutex = mutex::<Revocable>();
        let (task, kept) = granted(&mutex, &Spy::new());
        (0..2).for_each(|_| poll_of(task, &Spy::new()));
        let dropper = thread::spawn(move || drop(kept));
        while !dropper.is_finished() {
            assert!(mutex.try_lock().is_some(), "it is free");
        }
        dropper.join().unwrap();
    }
}
