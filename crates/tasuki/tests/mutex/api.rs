//! What the mutex does, poll by poll, for every policy.
//! S0-05..S0-15, S1-14..S1-18, S1-24, S2-06..S2-20, S3-03..S3-05, S3-08, S3-09, S3-12, S3-18, S3-26, S3-28;
//! B033, B037, B141, H4, H5, H8, H10.

use crate::kit::policy::{Known, for_each_policy};
use crate::kit::poll::{panic_of, pending, poll, poll_with, ready};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context, Poll, Waker};
use tasuki::policy::Bypass;
use tasuki::{Guard, Mutex, MutexGuard, OwnedMutexGuard};

/// S3-26, S0-06: a free lock is taken at the first poll; the waker is not even looked at.
fn free_lock_is_ready_at_once<P: Known>() {
    let (mutex, spy) = (Mutex::<u32, P>::with_policy(1), Spy::new());
    for round in 1..5 {
        let mut future = Box::pin(mutex.lock());
        let Poll::Ready(mut guard) = poll(&mut future, &spy) else { panic!("free, and not ready") };
        assert_eq!(*guard, round);
        *guard += 1;
        assert!(mutex.is_locked() && mutex.try_lock().is_none());
        drop(guard);
        assert!(!mutex.is_locked());
    }
    assert_eq!(spy.calls(Call::Clone), 0);
    assert_eq!(*mutex.try_lock().unwrap(), 5);
}

/// S0-08, S0-11, S0-12, S0-15, S1-17, S3-28: every waiter is served once, in order, each by one wake; a woken one is ready at
/// its first poll.
fn every_waiter_in_order<P: Known>() {
    const COUNT: usize = 50;
    let mutex = Mutex::<Vec<usize>, P>::with_policy(Vec::new());
    let mut guard = Some(mutex.try_lock().unwrap());
    let spies: Vec<Spy> = (0..COUNT).map(|_| Spy::new()).collect();
    let mut futures: Vec<_> = spies.iter().map(|_| Box::pin(mutex.lock())).collect();
    for (future, spy) in futures.iter_mut().zip(&spies) {
        pending(future, spy);
        assert_eq!(spy.calls(Call::Clone), 1, "one clone to queue");
    }
    for turn in P::service(COUNT) {
        assert_eq!(spies[turn].wakes(), 0);
        let woken = || spies.iter().map(Spy::wakes).sum::<usize>();
        let before = woken();
        drop(guard.take());
        assert_eq!((woken() - before, spies[turn].wakes()), (1, 1), "one unlock, one wake");
        let mut next = ready(&mut futures[turn]);
        next.push(turn);
        guard = Some(next);
    }
    drop(guard);
    assert_eq!(*mutex.try_lock().unwrap(), P::service(COUNT));
    assert!(spies.iter().all(|spy| spy.alive() == 0 && spy.calls(Call::Clone) == 1));
}

/// A place is taken at the first poll, not at the call.
fn the_place_is_taken_at_the_first_poll<P: Known>() {
    let (mutex, spies) = (Mutex::<u32, P>::with_policy(0), [Spy::new(), Spy::new()]);
    let guard = mutex.try_lock().unwrap();
    let mut made_first = Box::pin(mutex.lock());
    let mut made_second = Box::pin(mutex.lock());
    pending(&mut made_second, &spies[1]);
    pending(&mut made_first, &spies[0]);
    drop(guard);
    assert_eq!(spies[1].wakes(), usize::from(!P::NEWEST_FIRST));
    assert_eq!(spies[0].wakes(), usize::from(P::NEWEST_FIRST));
}

/// H10, S0-13: no newcomer passes while a grant is on its way; `Bypass` lets `try_lock` pass, and the woken one stays first.
fn h10_try_lock_while_a_grant_is_in_flight<P: Known>() {
    let (mutex, spy, late) = (Mutex::<u32, P>::with_policy(0), Spy::new(), Spy::new());
    let guard = mutex.try_lock().unwrap();
    let mut waiter = Box::pin(mutex.lock());
    pending(&mut waiter, &spy);
    drop(guard);
    assert_eq!(spy.wakes(), 1);
    assert_eq!(mutex.is_locked(), !P::BARGES);
    if P::BARGES {
        let barger = mutex.try_lock().expect("a free lock");
        pending(&mut waiter, &spy);
        let mut newcomer = Box::pin(mutex.lock());
        pending(&mut newcomer, &late);
        drop(barger);
        assert_eq!((spy.wakes(), late.wakes()), (2, 0));
    } else {
        assert!(mutex.try_lock().is_none());
        let mut newcomer = Box::pin(mutex.lock());
        pending(&mut newcomer, &late);
        drop(newcomer);
    }
    drop(ready(&mut waiter));
    assert!(mutex.try_lock().is_some());
}

/// B033, H4: the last waker is the one that is woken; changing back and forth leaks none.
fn h4_changing_wakers<P: Known>() {
    let (mutex, w1, w2) = (Mutex::<u32, P>::with_policy(0), Spy::new(), Spy::new());
    for (sequence, last) in [(vec![&w1, &w2], &w2), (vec![&w1, &w2, &w1], &w1), (vec![&w2, &w2, &w1], &w1)] {
        let guard = mutex.try_lock().unwrap();
        let mut future = Box::pin(mutex.lock());
        assert!(poll_with(&mut future, Waker::noop()).is_pending());
        sequence.iter().for_each(|spy| pending(&mut future, spy));
        let before = (w1.wakes() + w2.wakes(), last.wakes());
        drop(guard);
        assert_eq!((w1.wakes() + w2.wakes(), last.wakes()), (before.0 + 1, before.1 + 1));
        drop(ready(&mut future));
    }
    assert_eq!((w1.alive(), w2.alive()), (0, 0));
}

/// H4: a waker whose clones never compare equal is replaced at every poll, and the newest is woken.
fn h4_wakers_that_never_compare_equal<P: Known>() {
    let mutex = Mutex::<u32, P>::with_policy(0);
    let guard = mutex.try_lock().unwrap();
    let mut future = Box::pin(mutex.lock());
    let spies: Vec<Spy> = (0..20).map(|_| Spy::new()).collect();
    spies.iter().for_each(|spy| pending(&mut future, spy));
    drop(guard);
    let (last, others) = spies.split_last().unwrap();
    assert!(last.wakes() == 1 && others.iter().all(|spy| spy.wakes() == 0));
    assert!(spies.iter().all(|spy| spy.alive() == 0));
    drop(ready(&mut future));
}

/// H8: a hundred polls for nothing do not queue again, do not clone again, and change no order.
fn h8_spurious_polls<P: Known>() {
    let (mutex, spies) = (Mutex::<u32, P>::with_policy(0), [Spy::new(), Spy::new(), Spy::new()]);
    let guard = mutex.try_lock().unwrap();
    let mut futures = [(); 3].map(|()| Box::pin(mutex.lock()));
    let wakers = spies.each_ref().map(Spy::waker);
    for _ in 0..100 {
        for (future, waker) in futures.iter_mut().zip(&wakers) {
            assert!(poll_with(future, waker).is_pending());
        }
    }
    assert!(spies.iter().all(|spy| spy.calls(Call::Clone) == 1 && spy.wakes() == 0));
    drop(guard);
    for turn in P::service(3) {
        assert_eq!(spies[turn].wakes(), 1);
        drop(ready(&mut futures[turn]));
    }
    assert!(!mutex.is_locked());
}

/// B037: one poll to queue, one to get it; no wait wakes itself meanwhile. Owned and borrowed.
fn b037_two_polls<P: Known>() {
    let (mutex, spy) = (Arc::new(Mutex::<u32, P>::with_policy(0)), Spy::new());
    let guard = mutex.clone().try_lock_owned().unwrap();
    let mut owned = Box::pin(mutex.clone().lock_owned());
    pending(&mut owned, &spy);
    assert_eq!(spy.wakes(), 0);
    drop(guard);
    assert_eq!(spy.wakes(), 1);
    drop(ready(&mut owned));
    assert_eq!((spy.wakes(), spy.alive()), (1, 0));
    drop(owned);
    assert_eq!(Arc::strong_count(&mutex), 1);
}

/// H5: polling a finished future panics with its name, and takes nothing.
fn h5_poll_after_ready<P: Known>() {
    let mutex = Arc::new(Mutex::<u32, P>::with_policy(0));
    let mut borrowed = Box::pin(mutex.lock());
    drop(ready(&mut borrowed));
    assert!(panic_of(|| ready(&mut borrowed)).contains("tasuki::future::Lock"));
    assert!(!mutex.is_locked());
    let mut owned = Box::pin(mutex.clone().lock_owned());
    drop(ready(&mut owned));
    assert!(panic_of(|| ready(&mut owned)).contains("tasuki::future::LockOwned"));
    drop((borrowed, owned));
    assert!(!mutex.is_locked() && Arc::strong_count(&mutex) == 1);
}

/// S3-18: locking again in the same task waits for the first guard, as documented.
fn locking_twice_waits<P: Known>() {
    let (mutex, spy) = (Mutex::<u32, P>::with_policy(0), Spy::new());
    let mut task = Box::pin(async {
        let _first = mutex.lock().await;
        let _second = mutex.lock().await;
    });
    for _ in 0..3 {
        assert!(poll(&mut task, &spy).is_pending());
    }
    assert_eq!(spy.wakes(), 0);
    drop(task);
    assert!(!mutex.is_locked(), "dropping the task ends it");
}

/// B141: a lock future made anew in every poll gives up its place at the end of the poll; one that is kept is woken.
fn b141_future_made_anew<P: Known>() {
    let (mutex, spy) = (Mutex::<u32, P>::with_policy(0), Spy::new());
    let guard = mutex.try_lock().unwrap();
    let mut anew = Box::pin(poll_fn(|cx| pin!(mutex.lock()).poll(cx).map(drop)));
    pending(&mut anew, &spy);
    assert_eq!(spy.alive(), 0, "it has left the queue");
    let mut lock = Box::pin(mutex.lock());
    let mut kept = Box::pin(poll_fn(move |cx| lock.as_mut().poll(cx).map(drop)));
    pending(&mut kept, &spy);
    drop(guard);
    assert_eq!(spy.wakes(), 1);
    ready(&mut kept);
    ready(&mut anew);
}

/// `hand_off` unlocks at the call, yields once if there was a waiter, and is ready at once otherwise.
fn hand_off<P: Known>() {
    let (mutex, spy, yielded) = (Arc::new(Mutex::<u32, P>::with_policy(0)), Spy::new(), Spy::new());
    let mut alone = Box::pin(Guard::hand_off(mutex.try_lock().unwrap()));
    assert!(!mutex.is_locked());
    ready(&mut alone);
    let guard = mutex.clone().try_lock_owned().unwrap();
    let mut waiter = Box::pin(mutex.lock());
    pending(&mut waiter, &spy);
    let mut after = Box::pin(OwnedMutexGuard::hand_off(guard));
    assert_eq!(spy.wakes(), 1, "given away by the call");
    pending(&mut after, &yielded);
    assert_eq!((yielded.wakes(), yielded.alive()), (1, 0));
    ready(&mut after);
    // Dropping the future unpolled changes nothing.
    let guard = ready(&mut waiter);
    drop(MutexGuard::hand_off(guard));
    assert!(!mutex.is_locked());
    let mapped = MutexGuard::map(mutex.try_lock().unwrap(), |value| value);
    ready(&mut Box::pin(Guard::hand_off(mapped)));
    assert!(!mutex.is_locked() && Arc::strong_count(&mutex) == 1);
}

for_each_policy! {
    free_lock_is_ready_at_once
    every_waiter_in_order
    the_place_is_taken_at_the_first_poll
    h10_try_lock_while_a_grant_is_in_flight
    h4_changing_wakers
    h4_wakers_that_never_compare_equal
    h8_spurious_polls
    b037_two_polls
    h5_poll_after_ready
    locking_twice_waits
    b141_future_made_anew
    hand_off
}

/// The bound of `Bypass<N>`: the head, woken and kept from running, is overtaken exactly `N` times, then it owns the
/// lock; and so is the next head.
#[test]
fn bypass_overtakes_at_most_n_times() {
    fn overtakes<const N: u32>() {
        let mutex = Mutex::<u32, Bypass<N>>::with_policy(0);
        let spies = [Spy::new(), Spy::new()];
        let mut futures = [(); 2].map(|()| Box::pin(mutex.lock()));
        let guard = mutex.try_lock().unwrap();
        for (future, spy) in futures.iter_mut().zip(&spies) {
            pending(future, spy);
        }
        drop(guard);
        for (future, spy) in futures.iter_mut().zip(&spies) {
            let mut overtaken = 0;
            while let Some(barger) = mutex.try_lock() {
                overtaken += 1;
                assert!(overtaken <= N, "more than {N}");
                drop(barger);
            }
            assert_eq!(overtaken, N);
            assert_eq!(spy.wakes(), 1, "woken once, however often it was overtaken");
            drop(ready(future));
        }
        assert!(!mutex.is_locked());
    }
    let _dog = watchdog(10);
    overtakes::<0>();
    overtakes::<1>();
    overtakes::<5>();
    overtakes::<64>();
}

/// The same when the head does run each time, and finds the lock taken: it keeps its place and its count.
#[test]
fn bypass_counts_across_polls_of_the_head() {
    let _dog = watchdog(10);
    let (mutex, spy) = (Mutex::<u32, Bypass<3>>::with_policy(0), Spy::new());
    let mut guard = mutex.try_lock();
    let mut head = Box::pin(mutex.lock());
    pending(&mut head, &spy);
    for overtaken in 0..3 {
        drop(guard.take());
        guard = mutex.try_lock();
        assert!(guard.is_some(), "overtaken {overtaken} times so far");
        pending(&mut head, &spy);
    }
    drop(guard);
    assert!(mutex.try_lock().is_none(), "the bound is reached: the baton was passed");
    drop(ready(&mut head));
}

/// A queued waiter of `Bypass` that was not called stays pending even if the lock is free: only the head competes.
#[test]
fn bypass_only_the_head_competes() {
    let _dog = watchdog(10);
    let (mutex, spies) = (Mutex::<u32, Bypass>::with_policy(0), [Spy::new(), Spy::new(), Spy::new()]);
    let guard = mutex.try_lock().unwrap();
    let mut futures = [(); 2].map(|()| Box::pin(mutex.lock()));
    for (future, spy) in futures.iter_mut().zip(&spies) {
        pending(future, spy);
    }
    drop(guard);
    pending(&mut futures[1], &spies[2]);
    // The head leaves without looking: the next is called instead, through its newest waker.
    let [head, mut next] = futures;
    drop(head);
    assert_eq!((spies[1].wakes(), spies[2].wakes()), (0, 1));
    drop(ready(&mut next));
}

/// B083, H14: wakers that poll inline, a chain of a hundred, take at most 10 KiB of stack for each level, with the kit's
/// frames in a debug build; a batch of wakers on the stack of each unlock would show.
#[test]
fn b083_inline_polling_chain() {
    let _dog = watchdog(10);
    let chain = std::thread::Builder::new().stack_size(if cfg!(miri) { 1 << 23 } else { 1 << 20 });
    chain.spawn(|| inline_chain(100)).unwrap().join().unwrap();
}

fn inline_chain(depth: usize) {
    let mutex = Arc::new(Mutex::<usize>::new(0));
    let guard = mutex.clone().try_lock_owned().unwrap();
    let mut spies = Vec::new();
    for _ in 0..depth {
        let spy = Spy::new();
        let mut future = Box::pin(mutex.clone().lock_owned());
        pending(&mut future, &spy);
        let future = StdMutex::new(Some(future));
        spy.on(Call::Wake, move || {
            let mut future = future.lock().unwrap().take().unwrap();
            let Poll::Ready(mut guard) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
                panic!("granted, and not ready")
            };
            *guard += 1;
        });
        spy.arm(1);
        spies.push(spy);
    }
    drop(guard);
    assert_eq!(*mutex.try_lock().unwrap(), depth);
}
