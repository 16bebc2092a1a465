//! Tests that everything has in common that releases all its waiters at once: wait group, latch, barrier.
//!
//! Each of the three is a [`Gate`] here. The scenarios are written once and called by the tests of each.

use crate::kit::poll::{BoxFuture, panics, pending, poll, ready};
use crate::kit::scaled;
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

pub(crate) mod hostile;

/// Something that holds its waiters back until it is opened.
pub(crate) trait Gate: Debug + Send + Sync + Sized + 'static {
    /// Closed, and made for so many waiters.
    fn closed(waiters: usize) -> Self;

    /// A wait that keeps the gate alive.
    fn wait(gate: &Arc<Self>) -> BoxFuture<()>;

    /// Opens it. The waiters are woken in this call.
    fn open(&self);

    /// Closes an open gate, if there is a way to.
    fn close_again(&self) -> bool;

    /// Calls every method. What is closed stays closed, and what is open open; unless all were there but one.
    fn call_everything(&self);
}

pub(crate) fn queue<G: Gate>(gate: &Arc<G>, spies: &[Spy]) -> Vec<Option<BoxFuture<()>>> {
    let queued = |spy: &Spy| {
        let mut future = G::wait(gate);
        pending(&mut future, spy);
        Some(future)
    };
    spies.iter().map(queued).collect()
}

pub(crate) fn spies(number: usize) -> Vec<Spy> {
    (0..number).map(|_| Spy::new()).collect()
}

/// When a future of the drop matrix goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    NeverPolled,
    Waiting,
    Released,
    Resumed,
}

/// H2: each state x head, middle and tail. No other waiter is disturbed, and no waker is left.
pub(crate) fn drop_matrix<G: Gate>() {
    let _dog = watchdog(10);
    for moment in [Moment::NeverPolled, Moment::Waiting, Moment::Released, Moment::Resumed] {
        for position in 0..3 {
            let context = format!("{moment:?} at {position}");
            let gate = Arc::new(G::closed(3));
            let spies = spies(3);
            let mut futures = Vec::new();
            for (number, spy) in spies.iter().enumerate() {
                let mut future = G::wait(&gate);
                if (number, moment) != (position, Moment::NeverPolled) {
                    pending(&mut future, spy);
                }
                futures.push(Some(future));
            }
            if matches!(moment, Moment::NeverPolled | Moment::Waiting) {
                futures[position] = None;
                assert_eq!(spies[position].alive(), 0, "{context}: it took its waker with it");
            }
            gate.open();
            if moment == Moment::Resumed {
                ready(futures[position].as_mut().unwrap());
            }
            futures[position] = None;
            let released = matches!(moment, Moment::Released | Moment::Resumed);
            for (number, spy) in spies.iter().enumerate() {
                let expected = usize::from(number != position || released);
                assert_eq!((spy.wakes(), spy.alive()), (expected, 0), "{context}: waker {number}");
            }
            futures.iter_mut().flatten().for_each(ready);
            works_again(&gate, &context);
        }
    }
}

/// One more cycle, if there can be one.
pub(crate) fn works_again<G: Gate>(gate: &Arc<G>, context: &str) {
    let spy = Spy::new();
    let mut future = G::wait(gate);
    if !gate.close_again() {
        return ready(&mut future);
    }
    assert!(poll(&mut future, &spy).is_pending(), "{context}: open after it was closed again");
    gate.open();
    assert_eq!((spy.wakes(), spy.alive()), (1, 0), "{context}");
    ready(&mut future);
}

/// H15, B039: a release of several batches. While the first batch is woken, a waiter of a later one is dropped, another is
/// polled (it has been released, though not reached), and a newcomer waits (and is not released).
pub(crate) fn release_in_batches<G: Gate>() {
    let _dog = watchdog(10);
    const WAITERS: usize = 100;
    let gate = Arc::new(G::closed(WAITERS));
    let spies = spies(WAITERS);
    let futures = Arc::new(Mutex::new(queue(&gate, &spies)));
    let order = Arc::new(Mutex::new(Vec::new()));
    let late = Arc::new((Spy::new(), Mutex::new(None)));
    for (number, spy) in spies.iter().enumerate() {
        let (futures, order, late) = (futures.clone(), order.clone(), late.clone());
        let weak = Arc::downgrade(&gate);
        spy.on(Call::Wake, move || {
            order.lock().unwrap().push(number);
            if number != 0 {
                return;
            }
            let gate = weak.upgrade().unwrap();
            let (dropped, mut polled) = {
                let mut futures = futures.lock().unwrap();
                (futures[50].take(), futures[70].take().unwrap())
            };
            drop(dropped);
            ready(&mut polled);
            let mut future = G::wait(&gate);
            if gate.close_again() {
                pending(&mut future, &late.0);
            } else {
                ready(&mut future);
            }
            *late.1.lock().unwrap() = Some(future);
        });
        spy.arm(1);
    }
    gate.open();
    let expected: Vec<usize> = (0..WAITERS).filter(|number| !matches!(number, 50 | 70)).collect();
    assert_eq!(*order.lock().unwrap(), expected, "woken once each, in the order in which they came");
    futures.lock().unwrap().iter_mut().flatten().for_each(ready);
    let mut future = late.1.lock().unwrap().take().unwrap();
    assert_eq!(late.0.wakes(), 0, "who comes during a release is not part of it");
    if late.0.alive() > 0 {
        pending(&mut future, &late.0);
        gate.open();
        assert_eq!(late.0.wakes(), 1);
        ready(&mut future);
    }
    assert!(spies.iter().all(|spy| spy.alive() == 0));
}

/// H15: wakers that panic, in different batches. All are woken, the first panic goes on, the state is complete.
pub(crate) fn release_with_panics<G: Gate>() {
    let _dog = watchdog(10);
    let gate = Arc::new(G::closed(70));
    let spies = spies(70);
    let mut futures = queue(&gate, &spies);
    for number in [0, 10, 31, 32, 69] {
        spies[number].on(Call::Wake, move || panic!("waker {number}"));
        spies[number].arm(1);
    }
    assert_eq!(crate::kit::poll::panic_of(|| gate.open()), "waker 0");
    assert!(spies.iter().all(|spy| (spy.wakes(), spy.alive()) == (1, 0)));
    futures.iter_mut().flatten().for_each(ready);
    works_again(&gate, "after panics");
}

/// H8, H4: a hundred polls for each wake, with wakers that change; no wait queues twice, only the last waker is woken.
pub(crate) fn spurious_polls<G: Gate>() {
    let _dog = watchdog(10);
    let gate = Arc::new(G::closed(3));
    let outer = spies(2);
    let (first, second) = (Spy::new(), Spy::new());
    let mut before = queue(&gate, &outer[..1]);
    let mut future = G::wait(&gate);
    let mut after = Vec::new();
    for round in 0..100 {
        pending(&mut future, if round % 2 == 0 { &first } else { &second });
        if round == 50 {
            after = queue(&gate, &outer[1..]);
        }
    }
    for _ in 0..100 {
        pending(&mut future, &first);
    }
    assert_eq!((first.alive(), second.alive()), (1, 0), "one waker is kept, the last");
    gate.open();
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    ready(&mut future);
    before.iter_mut().chain(&mut after).flatten().for_each(ready);
    assert!(outer.iter().all(|spy| spy.wakes() == 1));
}

/// Futures that are never polled and never dropped. They stay reachable, so that no leak checker minds.
static FORGOTTEN: Mutex<Vec<BoxFuture<()>>> = Mutex::new(Vec::new());

/// H6: futures that are never polled again are no obstacle, and no danger.
pub(crate) fn forgotten_futures<G: Gate>() {
    let _dog = watchdog(10);
    let gate = Arc::new(G::closed(3));
    let spies = spies(3);
    let mut futures = queue(&gate, &spies);
    let forget = |future: Option<BoxFuture<()>>| FORGOTTEN.lock().unwrap().extend(future);
    forget(Some(G::wait(&gate)));
    forget(futures[0].take());
    gate.open();
    forget(futures[1].take());
    ready(futures[2].as_mut().unwrap());
    assert!(spies.iter().all(|spy| (spy.wakes(), spy.alive()) == (1, 0)));
    works_again(&gate, "after futures were forgotten");
}

/// H9: many wait, all are dropped, in three orders and from several threads; then the gate works as before.
pub(crate) fn cancel_storm<G: Gate>() {
    let _dog = watchdog(30);
    let number = scaled(20_000, 60);
    let gate = Arc::new(G::closed(number));
    let spy = Spy::new();
    let crowd = || {
        let waiting = || {
            let mut future = G::wait(&gate);
            pending(&mut future, &spy);
            future
        };
        (0..number).map(|_| waiting()).collect::<Vec<_>>()
    };
    crowd().into_iter().for_each(drop);
    crowd().into_iter().rev().for_each(drop);
    let mut parts: [Vec<_>; 4] = std::array::from_fn(|_| Vec::new());
    crowd().into_iter().enumerate().for_each(|(at, future)| parts[at % 4].push(future));
    std::thread::scope(|scope| {
        for part in parts {
            scope.spawn(move || part.into_iter().for_each(drop));
        }
    });
    assert_eq!((spy.alive(), spy.wakes()), (0, 0));
    let mut future = G::wait(&gate);
    pending(&mut future, &spy);
    gate.open();
    ready(&mut future);
}

/// B063: the waker of a release calls everything.
pub(crate) fn wakers_reenter<G: Gate>() {
    let _dog = watchdog(10);
    let gate = Arc::new(G::closed(40));
    let spies = spies(40);
    let mut futures = queue(&gate, &spies);
    for spy in &spies {
        let weak = Arc::downgrade(&gate);
        spy.on(Call::Wake, move || weak.upgrade().unwrap().call_everything());
        spy.arm(1);
    }
    assert!(!panics(|| gate.open()));
    assert!(spies.iter().all(Spy::fired));
    futures.iter_mut().flatten().for_each(ready);
    works_again(&gate, "after its wakers called everything");
}
