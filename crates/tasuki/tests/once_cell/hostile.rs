//! The once cell with wakers that panic, poll, drop and set: the value is made all the same, and no waiter is forgotten.
//! B061, B063, B133, H3, H15.

use crate::kit::poll::{BoxFuture, panic_of, panics, pending, poll, poll_with, ready};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::future::pending as never;
use std::sync::Arc;
use std::task::{Poll, Waker};
use tasuki::OnceCell;

/// H15: wakers that panic, in different batches: the value is there, all are woken.
#[test]
fn panicking_wakers() {
    let _dog = watchdog(30);
    let cell = OnceCell::new();
    let spies: [Spy; 70] = std::array::from_fn(|_| Spy::new());
    let mut waiting: Vec<_> = spies.iter().map(|_| Box::pin(cell.wait())).collect();
    waiting.iter_mut().zip(&spies).for_each(|(wait, spy)| pending(wait, spy));
    for number in [0, 31, 32, 69] {
        spies[number].on(Call::Wake, move || panic!("waker {number}"));
        spies[number].arm(1);
    }
    assert_eq!(panic_of(|| cell.set(1)), "waker 0");
    assert!(spies.iter().all(|spy| (spy.wakes(), spy.alive()) == (1, 0)));
    assert!(waiting.iter_mut().all(|wait| ready(wait) == &1));
}

/// B133: the clone lets the turn become free, so that the first poll has it after all; the clone is not needed, and its drop panics. The turn
/// goes on.
#[test]
fn b133_a_poll_that_gets_the_turn_and_panics() {
    let _dog = watchdog(30);
    let cell: Arc<OnceCell<u32>> = Arc::default();
    let mut holder: BoxFuture<u32> = Box::pin({
        let cell = cell.clone();
        async move { *cell.get_or_init(never).await }
    });
    pending(&mut holder, &Spy::new());
    let holder = std::sync::Mutex::new(Some(holder));
    let hostile = Spy::hostile(Call::Clone, move || drop(holder.lock().unwrap().take()));
    hostile.on(Call::Drop, || panic!("a hostile waker"));
    let waker = hostile.waker();
    let mut first = Box::pin(cell.get_or_init(async || 1));
    hostile.arm(2);
    assert!(panics(|| poll_with(&mut first, &waker).is_ready()));
    assert_eq!(cell.set(2), Ok(()), "the turn was lost in a panic");
    drop((first, waker));
    assert_eq!(hostile.alive(), 0);
}

/// When the cell calls a waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    FirstPoll,
    AnotherWaker,
    /// The value is there.
    Value,
    /// The turn passes to a waiter that wants it.
    Turn,
    Cancel,
}

const MOMENTS: [Moment; 5] =
    [Moment::FirstPoll, Moment::AnotherWaker, Moment::Value, Moment::Turn, Moment::Cancel];

/// A waiter with a hostile waker waits for the value, or for the turn; a calm one behind it. False if the hook did not run.
fn play(deed: fn(&OnceCell<u32>), call: Call, moment: Moment, wants_turn: bool, panics_there: bool) -> bool {
    let (cell, calm) = (Arc::new(OnceCell::<u32>::new()), Spy::new());
    let weak = Arc::downgrade(&cell);
    let hostile = Spy::hostile(call, move || deed(&weak.upgrade().unwrap()));
    let wait = |wants_turn: bool| -> BoxFuture<u32> {
        let cell = cell.clone();
        Box::pin(
            async move { if wants_turn { *cell.get_or_init(async || 1).await } else { *cell.wait().await } },
        )
    };
    let mut holder = Some(Box::pin(cell.get_or_init(never)));
    pending(holder.as_mut().unwrap(), &calm);
    let (mut victim, mut other) = (Some(wait(wants_turn)), wait(true));
    let waker = hostile.waker();
    if moment != Moment::FirstPoll {
        pending(victim.as_mut().unwrap(), &hostile);
    }
    pending(&mut other, &calm);
    if moment == Moment::Value {
        // No waiter has the turn, so that the value can be set.
        drop(other);
        if wants_turn {
            drop(victim.replace(wait(false)));
            pending(victim.as_mut().unwrap(), &hostile);
        }
        holder = None;
        other = wait(false);
        pending(&mut other, &calm);
    }
    hostile.arm(1);
    let panicked = panics(|| match moment {
        Moment::FirstPoll => drop(poll_with(victim.as_mut().unwrap(), &waker)),
        Moment::AnotherWaker => drop(poll(victim.as_mut().unwrap(), &calm)),
        Moment::Value => assert_eq!(cell.set(5), Ok(())),
        Moment::Turn => holder = None,
        Moment::Cancel => victim = None,
    });
    hostile.arm(0);
    assert_eq!(panicked, panics_there && hostile.fired());
    drop((holder, victim));
    let value = match poll(&mut other, &calm) {
        Poll::Ready(value) => value,
        Poll::Pending => *ready(&mut Box::pin(cell.get_or_init(async || 7))),
    };
    assert_eq!(cell.get(), Some(&value));
    drop((other, waker));
    assert_eq!((hostile.alive(), calm.alive()), (0, 0), "wakers are left");
    hostile.fired()
}

/// H3, B061, B063: whatever a waker does in clone, wake and drop, the cell works and no waiter is forgotten.
#[test]
fn h3_hostile_wakers() {
    let _dog = watchdog(10);
    let deeds: [fn(&OnceCell<u32>); 4] = [
        |cell| _ = cell.set(9),
        |cell| _ = poll_with(&mut Box::pin(cell.get_or_init(async || 9)), Waker::noop()),
        |cell| _ = poll_with(&mut Box::pin(cell.get_or_init(never)), Waker::noop()),
        |_| panic!("a hostile waker"),
    ];
    for (number, deed) in deeds.into_iter().enumerate() {
        for call in [Call::Clone, Call::Wake, Call::Drop] {
            let mut reached = 0;
            for (moment, wants_turn) in
                MOMENTS.into_iter().flat_map(|moment| [(moment, false), (moment, true)])
            {
                reached += usize::from(play(deed, call, moment, wants_turn, number == 3));
            }
            assert!(reached >= 2, "{number} in {call:?} ran {reached} times");
        }
    }
}
