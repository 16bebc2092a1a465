//! The semaphore when futures are dropped, forgotten or overtaken, in every state and at every place. H2, H5, H6, H9,
//! H10; S2-25, S2-28.

use crate::kit::fixture::{queue, wakes};
use crate::kit::poll::{panic_of, panics, pending, ready};
use crate::kit::scaled;
use crate::kit::waker::Spy;
use crate::kit::watchdog::watchdog;
use std::pin::Pin;
use std::sync::Mutex;
use tasuki::Semaphore;
use tasuki::future::Acquire;
use tasuki::policy::{Bypass, Fifo, SemaphorePolicy};

/// Every state of a wait x every place in the queue: dropping it loses no permit and no place.
#[test]
fn h2_drop_matrix() {
    fn check<P: SemaphorePolicy>(weights: [usize; 3], granted: usize) {
        for dropped in 0..3 {
            let semaphore = Semaphore::<P>::with_policy(0);
            let mut waiters: Vec<_> = queue(&semaphore, &weights).into_iter().map(Some).collect();
            semaphore.release(granted);
            waiters[dropped] = None;
            let context = format!("{weights:?}, {granted} given, {dropped} dropped");
            semaphore.release(weights.iter().sum::<usize>() - granted);
            let mut order = Vec::new();
            for (number, waiter) in waiters.iter_mut().enumerate().filter(|(number, _)| *number != dropped) {
                let (future, spy) = waiter.as_mut().unwrap();
                assert_eq!(spy.wakes(), 1, "{context}");
                drop(ready(future).unwrap());
                order.push(number);
            }
            assert_eq!(order.len(), 2, "{context}");
            drop(waiters);
            assert_eq!(semaphore.available_permits(), weights.iter().sum::<usize>(), "{context}");
        }
    }
    let _dog = watchdog(20);
    let all = [[3, 2, 1], [1, 1, 1], [2, 1, 1], [1, 2, 1], [1, 1, 2]];
    for weights in all.into_iter().take(scaled(5, 1)) {
        for granted in 0..=weights.iter().sum() {
            check::<Fifo>(weights, granted);
            check::<Bypass<1>>(weights, granted);
            check::<Bypass>(weights, granted);
        }
    }
}

#[test]
fn h5_a_finished_future_panics_and_takes_no_second_permit() {
    let semaphore = Semaphore::new(2);
    let mut future = Box::pin(semaphore.acquire());
    let permit = ready(&mut future).unwrap();
    assert!(panic_of(|| ready(&mut future).is_ok()).contains("tasuki::future::Acquire"));
    assert_eq!(semaphore.available_permits(), 1);
    drop(permit);
}

#[test]
fn h6_what_is_forgotten_stays_as_it_was() {
    static SEMAPHORE: Semaphore = Semaphore::new(1);
    let semaphore = &SEMAPHORE;
    std::mem::forget(semaphore.acquire());
    std::mem::forget(semaphore.try_acquire().unwrap());
    assert_eq!(semaphore.available_permits(), 0);
    // A forgotten head keeps its place, and what it was granted. It is kept where leak checkers look.
    static FORGOTTEN: Mutex<Vec<Pin<Box<Acquire<'static>>>>> = Mutex::new(Vec::new());
    let mut head = Box::pin(semaphore.acquire());
    pending(&mut head, &Spy::new());
    FORGOTTEN.lock().unwrap().push(head);
    let mut next = queue(semaphore, &[1]);
    semaphore.release(1);
    assert_eq!(wakes(&next), [0]);
    semaphore.release(1);
    drop(ready(&mut next[0].0).unwrap());
}

/// H9: giving up is O(1) in any order, and leaves nothing behind.
#[test]
fn h9_a_storm_of_cancels() {
    let _dog = watchdog(60);
    let semaphore = Semaphore::new(0);
    let (count, spy) = (scaled(100_000, 100), Spy::new());
    let new = || {
        let mut future = Box::pin(semaphore.acquire());
        pending(&mut future, &spy);
        future
    };
    for order in 0..3 {
        let mut waiters: Vec<_> = (0..count).map(|_| new()).collect();
        match order {
            0 => {}
            1 => waiters.reverse(),
            _ => crate::kit::rng::Seed::pick().rng().shuffle(&mut waiters),
        }
        drop(waiters);
        assert_eq!(spy.alive(), 0);
    }
    semaphore.release(1);
    drop(ready(&mut Box::pin(semaphore.acquire())).unwrap());
}

/// Bypass: the first waiter is overtaken exactly as often as the bound says, then everything is kept for it.
#[test]
fn h10_bypass_is_bounded() {
    fn check<const N: u32>() {
        let semaphore = Semaphore::<Bypass<N>>::with_policy(1);
        let held = semaphore.try_acquire().unwrap();
        let mut waiters = queue(&semaphore, &[1, 1]);
        drop(held);
        assert_eq!(wakes(&waiters), [1, 0]);
        for first_or_second in 0..2 {
            for overtake in 0..N {
                let permit = semaphore.try_acquire();
                assert!(permit.is_ok(), "overtake {overtake} of {N} of the waiter {first_or_second}");
            }
            assert!(semaphore.try_acquire().is_err(), "the waiter {first_or_second} was overtaken {N} times");
            drop(ready(&mut waiters[first_or_second].0).unwrap());
            assert_eq!(wakes(&waiters), [1, 1]);
        }
        assert_eq!(semaphore.available_permits(), 1);
    }
    check::<0>();
    check::<1>();
    check::<2>();
    check::<64>();
}

/// Bypass: small requests pass a big one as often as the bound says; then the big one collects.
#[test]
fn bypass_serves_a_big_request_in_the_end() {
    let semaphore = Semaphore::<Bypass<2>>::with_policy(1);
    let mut big = queue(&semaphore, &[3]);
    let small = [semaphore.try_acquire().unwrap(), {
        semaphore.release(1);
        semaphore.try_acquire().unwrap()
    }];
    let mut late = Box::pin(semaphore.acquire());
    semaphore.release(1);
    pending(&mut late, &Spy::new());
    drop(small);
    assert_eq!(ready(&mut big[0].0).unwrap().num_permits(), 3);
    drop(ready(&mut late).unwrap());
    assert_eq!(semaphore.available_permits(), 3);
}

#[test]
fn a_panic_gives_the_permit_back() {
    let semaphore = Semaphore::new(1);
    assert!(panics(|| {
        let _permit = semaphore.try_acquire().unwrap();
        panic!("in the section");
    }));
    assert_eq!(semaphore.available_permits(), 1);
}
