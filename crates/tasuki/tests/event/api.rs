//! What the event does, poll by poll and between threads.
//! S2-35..S2-41, S2-44; B003, B023, B029, B031, B033, B035, B039, B043, H4, H5, H8, H15.

use crate::kit::poll::{panic_of, pending, poll_with, ready};
use crate::kit::scaled;
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Waker;
use std::thread;
use tasuki::{Event, Reset};

/// S2-35: how it is made.
#[test]
fn made_set_or_not() {
    let _dog = watchdog(10);
    for set in [false, true] {
        for reset in [Reset::Auto, Reset::Manual] {
            assert_eq!(Event::new(reset, set).is_set(), set);
        }
    }
    let event = Event::default();
    assert!(!event.is_set());
    event.set();
    ready(&mut Box::pin(event.wait()));
    assert!(!event.is_set(), "the default is auto");
    assert_eq!(Reset::default(), Reset::Auto);
}

/// A try consumes what a wait would: of an auto event the signal, of a manual one nothing.
#[test]
fn a_try_does_what_a_wait_does_without_waiting() {
    let _dog = watchdog(10);
    for reset in [Reset::Auto, Reset::Manual] {
        let event = Event::new(reset, false);
        assert!(!event.try_wait());
        event.set();
        assert!(event.try_wait());
        assert_eq!(event.try_wait(), reset == Reset::Manual);
        event.reset();
        let mut waiter = Box::pin(event.wait());
        pending(&mut waiter, &Spy::new());
        event.set();
        assert_eq!(event.try_wait(), reset == Reset::Manual, "the signal of an auto event is the waiter's");
        ready(&mut waiter);
    }
}

/// S2-39: without waiters the signal stays for the next wait, and sets coalesce; a wait that is ready looks at no waker.
#[test]
fn auto_keeps_one_signal() {
    let _dog = watchdog(10);
    let (event, spy) = (Event::auto(), Spy::new());
    event.set();
    event.set();
    let waker = spy.waker();
    assert!(poll_with(&mut Box::pin(event.wait()), &waker).is_ready());
    assert_eq!(spy.calls(Call::Clone), 0);
    // B023: the second wait stays pending, however often it is polled.
    let mut second = Box::pin(event.wait());
    (0..100).for_each(|_| assert!(poll_with(&mut second, &waker).is_pending()));
    assert_eq!((spy.calls(Call::Clone), spy.wakes()), (1, 0));
    event.set();
    assert!(!event.is_set(), "given to the waiter, not kept");
    assert_eq!(spy.wakes(), 1);
    ready(&mut second);
}

/// S2-39, B029: two sets before any poll release two waiters, in order.
#[test]
fn auto_releases_one_for_each_set() {
    let _dog = watchdog(10);
    let event = Event::auto();
    let spies: Vec<Spy> = (0..10).map(|_| Spy::new()).collect();
    let mut futures: Vec<_> = spies.iter().map(|_| Box::pin(event.wait())).collect();
    for (future, spy) in futures.iter_mut().zip(&spies) {
        pending(future, spy);
    }
    for sets in 0..10 {
        assert!(spies.iter().enumerate().all(|(turn, spy)| spy.wakes() == usize::from(turn < sets)));
        event.set();
    }
    event.reset();
    futures.iter_mut().for_each(ready);
    assert!(!event.is_set(), "a reset takes back nothing that was given");
}

/// S2-40, H15: all that are present, none later; across several batches of wakers.
#[test]
fn manual_releases_all_present() {
    let _dog = watchdog(10);
    for count in if cfg!(miri) { vec![1, 33] } else { vec![1, 2, 31, 32, 33, 64, 65, 200] } {
        let event = Event::manual();
        let spies: Vec<Spy> = (0..count).map(|_| Spy::new()).collect();
        let mut futures: Vec<_> = spies.iter().map(|_| Box::pin(event.wait())).collect();
        for (future, spy) in futures.iter_mut().zip(&spies) {
            pending(future, spy);
        }
        event.set();
        assert!(spies.iter().all(|spy| spy.wakes() == 1 && spy.alive() == 0));
        assert!(event.is_set());
        ready(&mut Box::pin(event.wait()));
        event.reset();
        let mut late = Box::pin(event.wait());
        pending(&mut late, &spies[0]);
        futures.iter_mut().for_each(ready);
        pending(&mut late, &spies[0]);
    }
}

/// The waiters are woken in the order in which they came.
#[test]
fn manual_wakes_in_order() {
    let _dog = watchdog(10);
    let (event, order) = (Event::manual(), Arc::new(AtomicUsize::new(0)));
    let mut waiters = Vec::new();
    for turn in 0..100 {
        let (spy, order) = (Spy::new(), order.clone());
        spy.on(Call::Wake, move || assert_eq!(order.fetch_add(1, Relaxed), turn));
        spy.arm(1);
        let mut future = Box::pin(event.wait());
        pending(&mut future, &spy);
        waiters.push((future, spy));
    }
    event.set();
    assert_eq!(order.load(Relaxed), 100);
}

/// B039: in the middle of a set that takes several batches, all waiters that were queued are ready and no other is; a waiter
/// that was not reached yet can be dropped.
#[test]
fn b039_a_set_happens_at_one_moment() {
    let _dog = watchdog(10);
    let event = Arc::new(Event::manual());
    let owned = |event: &Arc<Event>| {
        let event = event.clone();
        Box::pin(async move { event.wait().await })
    };
    let spies: Vec<Spy> = (0..100).map(|_| Spy::new()).collect();
    let mut futures: Vec<_> = spies.iter().map(|_| owned(&event)).collect();
    for (future, spy) in futures.iter_mut().zip(&spies) {
        pending(future, spy);
    }
    let first = futures.remove(0);
    let (weak, futures) = (Arc::downgrade(&event), std::sync::Mutex::new(futures));
    spies[0].on(Call::Wake, move || {
        let (event, calm) = (weak.upgrade().unwrap(), Spy::new());
        let mut futures = std::mem::take(&mut *futures.lock().unwrap());
        assert!(event.is_set());
        event.reset();
        let mut late = owned(&event);
        pending(&mut late, &calm);
        // From the end: those whose batch is far off; some are dropped, some polled.
        while let Some(mut future) = futures.pop() {
            if futures.len() % 3 > 0 {
                ready(&mut future);
            }
        }
        pending(&mut late, &calm);
        event.set();
        ready(&mut late);
        assert_eq!(calm.alive(), 0);
        event.reset();
    });
    spies[0].arm(1);
    event.set();
    assert!(spies[0].fired());
    assert!(!event.is_set(), "the reset came after the set");
    assert!(spies.iter().all(|spy| spy.alive() == 0));
    // Waiters that have left the snapshot by themselves are not woken any more.
    assert!(spies.iter().filter(|spy| spy.wakes() == 0).count() >= 60);
    drop(first);
}

/// H4, B033: the newest waker is woken.
#[test]
fn h4_changing_wakers() {
    let _dog = watchdog(10);
    for reset in [Reset::Auto, Reset::Manual] {
        let (event, w1, w2) = (Event::new(reset, false), Spy::new(), Spy::new());
        let mut future = Box::pin(event.wait());
        assert!(poll_with(&mut future, Waker::noop()).is_pending());
        for spy in [&w1, &w2, &w1, &w2] {
            pending(&mut future, spy);
        }
        event.set();
        assert_eq!((w1.wakes(), w2.wakes(), w1.alive(), w2.alive()), (0, 1, 0, 0));
        ready(&mut future);
    }
}

#[test]
fn h5_poll_after_ready() {
    let _dog = watchdog(10);
    let event = Event::new(Reset::Auto, true);
    let mut future = Box::pin(event.wait());
    ready(&mut future);
    event.set();
    assert!(panic_of(|| ready(&mut future)).contains("tasuki::future::WaitEvent"));
    assert!(event.is_set(), "it takes no second signal");
}

/// B031, B043: what was done before the set is seen after the wait, and no set is lost, however they meet.
#[test]
fn sets_meet_waits_between_threads() {
    let _dog = watchdog(60);
    let rounds = scaled(50_000, 30);
    let (ping, pong, data) = (Event::auto(), Event::auto(), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=rounds {
                ping.wait().block();
                assert_eq!(data.load(Relaxed), round);
                pong.set();
            }
        });
        for round in 1..=rounds {
            data.store(round, Relaxed);
            ping.set();
            pong.wait().block();
        }
    });
    assert!(!ping.is_set() && !pong.is_set());
}

/// A manual event opens a gate for many threads at once, again and again.
#[test]
fn a_gate_for_many_threads() {
    let _dog = watchdog(60);
    for _ in 0..scaled(200, 2) {
        let (gate, passed) = (Event::manual(), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    gate.wait().block();
                    passed.fetch_add(1, Relaxed);
                });
            }
            gate.set();
        });
        assert_eq!(passed.load(Relaxed), 4);
    }
}
