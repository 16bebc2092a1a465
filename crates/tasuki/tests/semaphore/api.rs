//! What a semaphore promises, one test for each promise. S2-24..S2-34, S3-25.

use crate::kit::alloc::allocations;
use crate::kit::fixture::{queue, wakes};
use crate::kit::poll::{panic_of, panics, pending, poll, ready};
use crate::kit::scaled;
use crate::kit::waker::Spy;
use crate::kit::watchdog::watchdog;
use std::future::Future as _;
use std::sync::Arc;
use std::task::Poll;
use tasuki::future::{Acquire, AcquireOwned};
use tasuki::policy::{Bypass, Fifo, SemaphorePolicy};
use tasuki::{Closed, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError};

const MAX: usize = Semaphore::MAX_PERMITS;

#[test]
fn s2_24_it_can_be_a_static() {
    static SEMAPHORE: Semaphore = Semaphore::new(2);
    static BOUNDED: Semaphore<Bypass<3>> = Semaphore::with_policy(1);
    assert_eq!((SEMAPHORE.available_permits(), BOUNDED.available_permits()), (2, 1));
}

#[test]
fn s2_25_at_most_n_hold_it() {
    let _dog = watchdog(5);
    let semaphore = Semaphore::new(2);
    let (a, b) = (ready(&mut Box::pin(semaphore.acquire())), ready(&mut Box::pin(semaphore.acquire())));
    let mut waiters = queue(&semaphore, &[1, 1]);
    drop(a);
    assert_eq!(wakes(&waiters), [1, 0]);
    let c = ready(&mut waiters[0].0).unwrap();
    assert!(poll(&mut waiters[1].0, &Spy::new()).is_pending());
    drop((b, c));
    drop(ready(&mut waiters[1].0).unwrap());
    assert_eq!(semaphore.available_permits(), 2);
}

#[test]
fn s2_27_a_try_never_waits_and_never_passes_the_queue() {
    let semaphore = Semaphore::new(1);
    let mut big = queue(&semaphore, &[2]);
    // One permit is there, but it is kept for the big one.
    assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::NoPermits);
    assert_eq!(semaphore.available_permits(), 0);
    semaphore.release(1);
    // A grant is in flight.
    assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::NoPermits);
    assert_eq!(ready(&mut big[0].0).unwrap().num_permits(), 2);
    assert_eq!(semaphore.available_permits(), 2);
}

#[test]
fn s2_28_a_release_grants_every_waiter_it_can_in_order() {
    let semaphore = Semaphore::new(0);
    let mut waiters = queue(&semaphore, &[1, 2, 3, 1]);
    semaphore.release(5);
    assert_eq!(
        wakes(&waiters),
        [1, 1, 0, 0],
        "2 are left: too few for the third, and the fourth may not pass"
    );
    semaphore.release(2);
    assert_eq!(wakes(&waiters), [1, 1, 1, 1]);
    let permits: Vec<_> = waiters.iter_mut().map(|(future, _)| ready(future).unwrap()).collect();
    assert_eq!(permits.iter().map(SemaphorePermit::num_permits).collect::<Vec<_>>(), [1, 2, 3, 1]);
    drop(permits);
    assert_eq!(semaphore.available_permits(), 7);
}

/// A release to more waiters than a batch of wakers holds; with every policy all are woken.
#[test]
fn s2_28_a_release_serves_more_than_a_batch() {
    fn check<P: SemaphorePolicy>() {
        for count in [33, 31, 32, 64, 65, 100].into_iter().take(scaled(6, 1)) {
            let semaphore = Semaphore::<P>::with_policy(0);
            let mut waiters = queue(&semaphore, &vec![1; count]);
            semaphore.release(count + 3);
            assert_eq!(wakes(&waiters), vec![1; count]);
            let permits: Vec<_> = waiters.iter_mut().map(|(future, _)| ready(future).unwrap()).collect();
            assert_eq!(semaphore.available_permits(), 3);
            drop(permits);
            assert_eq!(semaphore.available_permits(), count + 3);
        }
    }
    let _dog = watchdog(20);
    check::<Fifo>();
    check::<Bypass>();
}

#[test]
fn s2_29_no_wait_allocates() {
    let semaphore = Arc::new(Semaphore::new(1));
    let (spy, held) = (Spy::new(), semaphore.try_acquire().unwrap());
    let mut borrowed = Box::pin(semaphore.acquire());
    let mut owned = Box::pin(semaphore.clone().acquire_many_owned(2));
    let waker = spy.waker();
    let (count, ()) = allocations(|| {
        let mut cx = std::task::Context::from_waker(&waker);
        assert!(borrowed.as_mut().poll(&mut cx).is_pending());
        assert!(owned.as_mut().poll(&mut cx).is_pending());
        semaphore.release(2);
        drop(held);
        assert!(matches!(borrowed.as_mut().poll(&mut cx), Poll::Ready(Ok(_))));
        assert!(matches!(owned.as_mut().poll(&mut cx), Poll::Ready(Ok(_))));
        drop(semaphore.try_acquire_many(3));
        semaphore.close();
    });
    assert_eq!(count, 0);
}

#[test]
fn s2_30_small_and_named() {
    const WORD: usize = size_of::<usize>();
    // Where `inspect` is active a semaphore has a name and a record, a permit knows which place it has there, and a future where it was asked for; with `console` there are
    // spans too. With 32 bits the hint of the count has no room beside the other numbers.
    let (semaphore, permit, future) = match (tasuki::inspect::is_active(), size_of::<usize>()) {
        (true, 4) => (8, 3, 16),
        (false, 4) => (3, 2, 12),
        (true, _) if cfg!(feature = "console") => (13, 3, 15),
        (true, _) => (7, 3, 14),
        (false, _) => (2, 2, 10),
    };
    assert_eq!(size_of::<Semaphore>(), semaphore * WORD);
    assert_eq!(size_of::<Semaphore<Bypass>>(), semaphore * WORD);
    assert_eq!(size_of::<SemaphorePermit<'_>>(), permit * WORD);
    assert_eq!(size_of::<OwnedSemaphorePermit>(), permit * WORD);
    assert!(size_of::<Acquire<'_>>() <= future * WORD, "{}", size_of::<Acquire<'_>>());
    assert!(size_of::<AcquireOwned>() <= future * WORD);
}

#[test]
fn auto_traits_do_not_depend_on_the_policy() {
    fn shared<T: Send + Sync>() {}
    fn movable<T: Unpin>() {}
    fn all<P: SemaphorePolicy>() {
        shared::<Semaphore<P>>();
        shared::<SemaphorePermit<'_, P>>();
        shared::<OwnedSemaphorePermit<P>>();
        shared::<Acquire<'_, P>>();
        shared::<AcquireOwned<P>>();
        movable::<Semaphore<P>>();
        movable::<SemaphorePermit<'_, P>>();
    }
    all::<Fifo>();
    all::<Bypass>();
    // `!Unpin`: the only candidate that can be inferred is the one without `Unpin`.
    trait Ambiguous<A> {
        fn item() {}
    }
    impl<T: ?Sized> Ambiguous<()> for T {}
    impl<T: ?Sized + Unpin> Ambiguous<u8> for T {}
    let _ = <Acquire<'_> as Ambiguous<_>>::item;
    let _ = <AcquireOwned as Ambiguous<_>>::item;
    fn error<T: std::error::Error + Send + Sync + Copy + 'static>() {}
    error::<Closed>();
    error::<TryAcquireError>();
}

#[test]
fn none_at_all_are_had_at_once_unless_closed() {
    let semaphore = Semaphore::new(0);
    let mut waiters = queue(&semaphore, &[1]);
    assert_eq!(ready(&mut Box::pin(semaphore.acquire_many(0))).unwrap().num_permits(), 0);
    assert_eq!(semaphore.try_acquire_many(0).unwrap().num_permits(), 0);
    semaphore.release(0);
    assert_eq!(wakes(&waiters), [0]);
    semaphore.close();
    assert!(ready(&mut Box::pin(semaphore.acquire_many(0))).is_err());
    assert_eq!(semaphore.try_acquire_many(0).unwrap_err(), TryAcquireError::Closed);
    assert!(ready(&mut waiters[0].0).is_err());
}

#[test]
fn close_fails_waiters_and_newcomers_and_leaves_what_was_given() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut waiters = queue(&semaphore, &[1, 1, 2]);
    semaphore.release(1);
    assert!(semaphore.close());
    assert!(!semaphore.close(), "closed already");
    assert!(semaphore.is_closed());
    assert_eq!(wakes(&waiters), [1, 1, 1]);
    let granted = ready(&mut waiters[0].0).expect("granted before the close");
    assert_eq!(ready(&mut waiters[1].0).unwrap_err(), Closed);
    // A refused future that is dropped unpolled gives nothing back: it had nothing.
    waiters.pop();
    assert_eq!(semaphore.available_permits(), 0);
    drop((held, granted));
    assert_eq!(semaphore.available_permits(), 2, "permits go back to a closed semaphore");
    assert_eq!(ready(&mut Box::pin(semaphore.acquire())).unwrap_err(), Closed);
    semaphore.release(1);
    assert!(semaphore.is_closed());
}

#[test]
fn close_of_many_reaches_all() {
    let _dog = watchdog(10);
    let semaphore = Semaphore::new(1);
    let mut waiters = queue(&semaphore, &[2; 100]);
    semaphore.close();
    assert_eq!(wakes(&waiters), [1; 100]);
    for (future, _) in &mut waiters {
        assert_eq!(ready(future).unwrap_err(), Closed);
    }
    assert_eq!(semaphore.available_permits(), 1, "what was kept for the queue is free again");
}

/// Waiters beyond the first batch are closed too before their batch comes: seen from the first wake.
#[test]
fn close_happens_at_one_moment() {
    let _dog = watchdog(10);
    let semaphore = Arc::new(Semaphore::new(0));
    let mut last = Box::pin(semaphore.clone().acquire_owned());
    let outcome = Arc::new(std::sync::Mutex::new(None));
    let spies: Vec<_> = (0..40).map(|_| Spy::new()).collect();
    let mut waiters: Vec<_> = spies.iter().map(|_| Box::pin(semaphore.acquire())).collect();
    for (future, spy) in waiters.iter_mut().zip(&spies) {
        pending(future, spy);
    }
    pending(&mut last, &Spy::new());
    let (seen, last) = (outcome.clone(), std::sync::Mutex::new(last));
    let watched = semaphore.clone();
    spies[0].on(crate::kit::waker::Call::Wake, move || {
        let refused = matches!(poll(&mut last.lock().unwrap(), &Spy::new()), Poll::Ready(Err(Closed)));
        *seen.lock().unwrap() = Some((watched.is_closed(), refused));
    });
    spies[0].arm(1);
    semaphore.close();
    assert_eq!(*outcome.lock().unwrap(), Some((true, true)));
    assert!(waiters.iter_mut().all(|future| ready(future).is_err()));
}

/// With `Bypass` what is free beside a queue is neither counted nor forgotten, and a newcomer may take it.
#[test]
fn what_a_newcomer_may_take_ahead_of_a_queue_is_not_counted() {
    let semaphore = Semaphore::<Bypass<1>>::with_policy(1);
    let held = semaphore.try_acquire().unwrap();
    let waiters = queue(&semaphore, &[1]);
    drop(held);
    assert_eq!((semaphore.available_permits(), semaphore.forget_permits(1)), (0, 0));
    drop(semaphore.try_acquire().unwrap());
    assert!(semaphore.try_acquire().is_err(), "the first waiter was overtaken once");
    drop(waiters);
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn forget_removes_what_is_free_and_says_how_many() {
    let semaphore = Semaphore::new(3);
    let held = semaphore.try_acquire().unwrap();
    assert_eq!(semaphore.forget_permits(1), 1);
    assert_eq!(semaphore.forget_permits(5), 1);
    assert_eq!(semaphore.forget_permits(MAX), 0);
    drop(held);
    assert_eq!(semaphore.available_permits(), 1);
    let waiters = queue(&semaphore, &[2]);
    assert_eq!(semaphore.forget_permits(1), 0, "what is there is kept for the waiter");
    drop(waiters);
    assert_eq!(semaphore.forget_permits(0), 0);
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn permits_split_merge_and_forget() {
    let semaphore = Semaphore::new(6);
    let mut permit = semaphore.try_acquire_many(4).unwrap();
    let part = permit.split(3).unwrap();
    assert!(permit.split(2).is_none());
    assert_eq!((permit.num_permits(), part.num_permits()), (1, 3));
    assert_eq!(permit.split(0).unwrap().num_permits(), 0);
    permit.merge(semaphore.try_acquire().unwrap());
    assert_eq!((permit.num_permits(), semaphore.available_permits()), (2, 1));
    part.forget();
    drop(permit);
    assert_eq!(semaphore.available_permits(), 3);
}

#[test]
fn owned_permits_split_and_merge_and_keep_it_alive() {
    let semaphore = Arc::new(Semaphore::new(4));
    let mut permit = ready(&mut Box::pin(semaphore.clone().acquire_many_owned(3))).unwrap();
    let part = permit.split(1).unwrap();
    permit.merge(part);
    permit.split(1).unwrap().forget();
    assert_eq!(Arc::strong_count(&semaphore), 2, "each part, and only that, holds an `Arc`");
    let watch = Arc::downgrade(&semaphore);
    drop(semaphore);
    assert_eq!(watch.upgrade().unwrap().available_permits(), 1);
    drop(permit);
    assert!(watch.upgrade().is_none());
}

#[test]
fn merging_two_semaphores_panics_and_loses_nothing() {
    let (one, two) = (Semaphore::new(2), Semaphore::new(2));
    let mut permit = one.try_acquire().unwrap();
    let other = two.try_acquire().unwrap();
    assert!(panic_of(|| permit.merge(other)).contains("one semaphore"));
    assert_eq!((permit.num_permits(), two.available_permits()), (1, 2));
    drop(permit);
    assert_eq!(one.available_permits(), 2);
    let [one, two] = [one, two].map(Arc::new);
    let mut permit = one.clone().try_acquire_owned().unwrap();
    let other = two.clone().try_acquire_owned().unwrap();
    assert!(panics(|| permit.merge(other)));
    assert_eq!((one.available_permits(), two.available_permits()), (1, 2));
}

/// H13: the limits are looked at before anything is changed.
#[test]
fn h13_limits() {
    assert!(panic_of(|| Semaphore::new(MAX + 1)).contains("MAX_PERMITS"));
    assert!(panics(|| Semaphore::<Bypass>::with_policy(usize::MAX)));
    let semaphore = Semaphore::new(MAX);
    assert_eq!(semaphore.available_permits(), MAX);
    assert!(panics(|| semaphore.acquire_many(MAX + 1)));
    assert!(panics(|| Arc::new(Semaphore::new(1)).acquire_many_owned(usize::MAX)));
    for too_many in [MAX + 1, usize::MAX] {
        assert_eq!(semaphore.try_acquire_many(too_many).unwrap_err(), TryAcquireError::NoPermits);
    }
    let all = semaphore.try_acquire_many(MAX).unwrap();
    let mut waiters = queue(&semaphore, &[MAX]);
    assert_eq!(wakes(&waiters), [0]);
    drop(all);
    assert_eq!(ready(&mut waiters[0].0).unwrap().num_permits(), MAX);
    assert_eq!(semaphore.available_permits(), MAX);
    let mut most = semaphore.try_acquire_many(MAX).unwrap();
    semaphore.release(1);
    let one = semaphore.try_acquire().unwrap();
    assert!(panic_of(|| most.merge(one)).contains("MAX_PERMITS"));
    assert_eq!((most.num_permits(), semaphore.available_permits()), (MAX, 1));
    most.forget();
}

#[test]
fn threads_wait_in_the_same_queue() {
    let _dog = watchdog(20);
    let semaphore = Semaphore::new(0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| semaphore.acquire().block().map(drop))).collect();
        semaphore.release(1);
        assert!(threads.into_iter().all(|thread| thread.join().unwrap().is_ok()));
    });
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn errors_say_what_to_do() {
    assert_eq!(Closed.to_string(), TryAcquireError::Closed.to_string());
    assert!(TryAcquireError::NoPermits.to_string().contains("try again"));
    assert_eq!(TryAcquireError::from(Closed), TryAcquireError::Closed);
    let semaphore = Semaphore::new(3);
    assert_eq!(format!("{semaphore:?}"), "Semaphore { available_permits: 3, closed: false }");
}
