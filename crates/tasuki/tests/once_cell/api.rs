//! The once cell: one value, made by the first initialiser that succeeds; a turn that fails goes to the next.
//! B007, H2, H4, H5, H6, H9, H14.

use crate::kit::alloc::allocations;
use crate::kit::fixture::on_a_small_stack;
use crate::kit::poll::{BoxFuture, panic_of, panics, pending, poll, poll_with, ready};
use crate::kit::process::alone;
use crate::kit::rng::{Rng, Seed};
use crate::kit::waker::Spy;
use crate::kit::watchdog::{watchdog, watchdog_with};
use crate::kit::{VERY_MANY, scaled};
use std::future::{pending as never, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use tasuki::{CancellationSource, OnceCell};

#[test]
fn the_value_is_made_once() {
    let _dog = watchdog(30);
    let cell = OnceCell::new();
    assert_eq!((cell.get(), format!("{cell:?}").as_str()), (None, "OnceCell(<empty>)"));
    assert_eq!(ready(&mut Box::pin(cell.get_or_init(async || 1))), &1);
    let unused = || -> std::future::Ready<i32> { panic!("it is there already") };
    assert_eq!(ready(&mut Box::pin(cell.get_or_init(unused))), &1);
    assert_eq!(ready(&mut Box::pin(cell.get_or_try_init(async || Err("no")))), Ok(&1));
    assert_eq!(ready(&mut Box::pin(cell.wait())), &1);
    assert_eq!((cell.set(2), cell.get(), format!("{cell:?}").as_str()), (Err(2), Some(&1), "OnceCell(1)"));
}

#[test]
fn exclusive_access() {
    let _dog = watchdog(30);
    let mut cell = OnceCell::from(1);
    *cell.get_mut().unwrap() += 1;
    assert_eq!((cell.take(), cell.take(), cell.get_mut()), (Some(2), None, None));
    assert_eq!(cell.set(3), Ok(()));
    assert_eq!((cell.into_inner(), OnceCell::<u8>::default().into_inner()), (Some(3), None));
}

/// H6: an initialiser with the turn, one that waits for it and a wait for the value are forgotten. The exclusive borrow of `take` proves that none of them comes back: the cell is empty, and works.
#[test]
fn h6_take_ends_the_turn_of_a_forgotten_initialiser() {
    let _dog = watchdog(30);
    /// Leak checkers do not mind what a static points to.
    static FORGOTTEN: [AtomicPtr<()>; 3] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 3];
    let (mut cell, spy) = (OnceCell::new(), Spy::new());
    for place in &FORGOTTEN[..2] {
        let mut init = Box::pin(cell.get_or_init(never::<u32>));
        pending(&mut init, &spy);
        // SAFETY: it is not moved: it is never touched again.
        place.store(Box::into_raw(unsafe { Pin::into_inner_unchecked(init) }).cast(), SeqCst);
    }
    let mut wait = Box::pin(cell.wait());
    pending(&mut wait, &spy);
    // SAFETY: as above.
    FORGOTTEN[2].store(Box::into_raw(unsafe { Pin::into_inner_unchecked(wait) }).cast(), SeqCst);
    assert_eq!(cell.set(1), Err(1), "an initialiser has the turn");
    assert_eq!((cell.take(), cell.set(2)), (None, Ok(())));
    assert_eq!((ready(&mut Box::pin(cell.wait())), spy.wakes()), (&2, 0));
    assert_eq!(cell.take(), Some(2));
    assert_eq!(ready(&mut Box::pin(cell.get_or_init(async || 3))), &3);
}

/// A value is dropped once: with the cell, by `take`, or when it came too late.
#[test]
fn values_are_dropped_once() {
    let _dog = watchdog(30);
    let value = Arc::new(());
    let count = || Arc::strong_count(&value) - 1;
    let mut cell = OnceCell::new();
    assert!(cell.set(value.clone()).is_ok());
    assert!(cell.set(value.clone()).is_err());
    assert_eq!(count(), 1);
    drop(cell.take());
    assert_eq!(count(), 0);
    assert!(cell.set(value.clone()).is_ok());
    drop(cell);
    assert_eq!(count(), 0);
    drop(OnceCell::<Arc<()>>::new());
}

/// A waiter gets the value from any caller: `set` works with waiters.
#[test]
fn set_releases_the_waiters() {
    let _dog = watchdog(30);
    let cell = OnceCell::new();
    let spies: [Spy; 70] = std::array::from_fn(|_| Spy::new());
    let mut waiting: Vec<_> = spies.iter().map(|_| Box::pin(cell.wait())).collect();
    waiting.iter_mut().zip(&spies).for_each(|(wait, spy)| pending(wait, spy));
    // H4, H8: other wakers, many polls.
    for _ in 0..100 {
        pending(&mut waiting[3], &spies[0]);
        pending(&mut waiting[3], &spies[3]);
    }
    drop(waiting.remove(50));
    assert_eq!(cell.set(7), Ok(()));
    for (number, spy) in spies.iter().enumerate() {
        assert_eq!((spy.wakes(), spy.alive()), (usize::from(number != 50), 0), "{number}");
    }
    assert!(waiting.iter_mut().all(|wait| ready(wait) == &7));
    assert!(panic_of(|| poll(&mut waiting[0], &spies[0]).is_ready()).contains("WaitValue"), "H5");
}

/// Which waiter has the turn, when the turn passes on, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Fails,
    PanicsAtOnce,
    PanicsLater,
    IsDropped,
    IsDroppedUnpolled,
    RunsOutOfTime,
}

const ENDS: [End; 6] = [
    End::Fails,
    End::PanicsAtOnce,
    End::PanicsLater,
    End::IsDropped,
    End::IsDroppedUnpolled,
    End::RunsOutOfTime,
];

/// H2: a turn that makes no value passes to the first waiter for the turn, past the waiters for the value; no other waiter is woken.
#[test]
fn a_turn_that_comes_to_nothing_goes_on() {
    let _dog = watchdog(10);
    for end in ENDS {
        let (cell, spy, source) = (OnceCell::<u32>::new(), Spy::new(), CancellationSource::new());
        let token = source.token();
        let step = AtomicUsize::new(usize::from(matches!(end, End::Fails | End::PanicsAtOnce)));
        let initialise = || {
            poll_fn(|_| match (end, step.fetch_add(1, SeqCst)) {
                (End::Fails, _) => Poll::Ready(Err("no")),
                (End::PanicsAtOnce, _) | (End::PanicsLater, 1) => panic!("an initialiser"),
                _ => Poll::Pending,
            })
        };
        // One waiter has the turn first, so that all others queue; it is given up before the story begins.
        let mut holder = Box::pin(cell.get_or_init(never));
        pending(&mut holder, &spy);
        let mut first = Box::pin(cell.get_or_try_init(initialise).or_cancelled(&token));
        pending(&mut first, &spy);
        let others = [Spy::new(), Spy::new(), Spy::new()];
        let mut value = Box::pin(cell.wait());
        pending(&mut value, &others[0]);
        let mut second = Box::pin(cell.get_or_init(async || 2));
        pending(&mut second, &others[1]);
        let mut third = Box::pin(cell.get_or_init(async || 3));
        pending(&mut third, &others[2]);
        drop(holder);
        assert_eq!(spy.wakes(), 1, "{end:?}: the turn is the first's");
        match end {
            End::Fails => assert_eq!(ready(&mut first), Ok(Err("no"))),
            End::PanicsAtOnce => assert!(panics(|| poll(&mut first, &spy).is_ready())),
            End::PanicsLater => {
                pending(&mut first, &spy);
                assert!(panics(|| poll(&mut first, &spy).is_ready()));
            }
            End::IsDropped => {
                pending(&mut first, &spy);
                drop(first);
            }
            End::IsDroppedUnpolled => drop(first),
            End::RunsOutOfTime => {
                pending(&mut first, &spy);
                source.request_cancel();
                assert!(ready(&mut first).is_err());
            }
        }
        assert_eq!(others.each_ref().map(Spy::wakes), [0, 1, 0], "{end:?}");
        assert_eq!(cell.set(9), Err(9), "{end:?}: the turn is taken");
        assert_eq!(ready(&mut second), &2);
        assert_eq!(others.each_ref().map(Spy::wakes), [1, 1, 1], "{end:?}");
        assert_eq!((ready(&mut value), ready(&mut third)), (&2, &2));
    }
}

/// Without a waiter for the turn the cell is empty again, and the waiters for the value go on waiting.
#[test]
fn a_turn_that_no_waiter_wants() {
    let _dog = watchdog(30);
    let (cell, spy) = (OnceCell::<u32>::new(), Spy::new());
    let mut value = Box::pin(cell.wait());
    pending(&mut value, &spy);
    for _ in 0..3 {
        let mut turn = Box::pin(cell.get_or_init(never));
        pending(&mut turn, &Spy::new());
        assert_eq!(cell.set(1), Err(1));
    }
    assert_eq!(spy.wakes(), 0);
    assert_eq!(cell.set(2), Ok(()));
    assert_eq!(ready(&mut value), &2);
}

/// The closure itself panics, before there is a future.
#[test]
fn a_closure_that_panics() {
    let _dog = watchdog(30);
    let (cell, spy) = (OnceCell::<u32>::new(), Spy::new());
    let mut first = Box::pin(cell.get_or_init(|| -> std::future::Ready<u32> { panic!("a closure") }));
    assert_eq!(panic_of(|| poll(&mut first, &spy).is_ready()), "a closure");
    assert_eq!(cell.set(1), Ok(()), "also while the future is still there");
    assert!(panics(|| poll(&mut first, &spy).is_ready()));
}

/// The initialiser is gone before the turn passes on, and before the value is there for others.
#[test]
fn an_initialiser_is_dropped_before_its_turn() {
    let _dog = watchdog(30);
    struct Resource<'s>(&'s AtomicUsize);
    impl Drop for Resource<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, SeqCst);
        }
    }
    let (cell, in_use) = (OnceCell::<u32>::new(), AtomicUsize::new(0));
    let exclusive = || {
        assert_eq!(in_use.fetch_add(1, SeqCst), 0, "two initialisers at once");
        Resource(&in_use)
    };
    let mut first = Box::pin(cell.get_or_init(async || {
        let _resource = exclusive();
        never().await
    }));
    let mut second = Box::pin(cell.get_or_init(async || {
        let _resource = exclusive();
        2
    }));
    pending(&mut first, &Spy::new());
    pending(&mut second, &Spy::new());
    drop(first);
    assert_eq!(ready(&mut second), &2);
    assert_eq!(in_use.load(SeqCst), 0);
}

/// An initialiser that wants the same cell waits for itself, as documented; to drop it ends that.
#[test]
fn a_recursive_initialiser_waits() {
    let _dog = watchdog(30);
    let cell: Arc<OnceCell<u32>> = Arc::default();
    let inner = cell.clone();
    let mut outer: BoxFuture<u32> = Box::pin({
        let cell = cell.clone();
        async move { *cell.get_or_init(async || *inner.get_or_init(async || 1).await + 1).await }
    });
    pending(&mut outer, &Spy::new());
    drop(outer);
    assert_eq!(ready(&mut Box::pin(cell.get_or_init(async || 3))), &3);
}

/// H9, H14: very many wait, a chain of as many turns is dropped.
#[test]
fn very_many() {
    alone(|| {
        let _dog = watchdog(120);
        on_a_small_stack(|| {
            let cell = OnceCell::<usize>::new();
            let mut turns: Vec<_> = (0..VERY_MANY).map(|_| Box::pin(cell.get_or_init(never))).collect();
            turns.iter_mut().for_each(|turn| assert!(poll_with(turn, Waker::noop()).is_pending()));
            drop(turns);
            let mut waiting: Vec<_> = (0..VERY_MANY).map(|_| Box::pin(cell.wait())).collect();
            waiting.iter_mut().for_each(|wait| assert!(poll_with(wait, Waker::noop()).is_pending()));
            assert_eq!(cell.set(1), Ok(()));
            assert!(waiting.iter_mut().all(|wait| ready(wait) == &1));
        });
    });
}

#[test]
fn no_allocation() {
    let _dog = watchdog(30);
    let cell = OnceCell::new();
    let mut cx = Context::from_waker(Waker::noop());
    let (count, ()) = allocations(|| {
        let mut value = pin!(cell.wait());
        assert!(value.as_mut().poll(&mut cx).is_pending());
        {
            let mut turn = pin!(cell.get_or_init(never));
            assert!(turn.as_mut().poll(&mut cx).is_pending());
        }
        let mut made = pin!(cell.get_or_try_init(async || Ok::<_, ()>(1)));
        assert!(made.as_mut().poll(&mut cx).is_ready());
        assert!(value.as_mut().poll(&mut cx).is_ready());
    });
    assert_eq!(count, 0, "{count} allocations");
}

/// Threads that make the value, fail, cancel and wait: it is made once, by the first thread that succeeds, and all see the same value.
#[test]
fn stress() {
    let seed = Seed::pick();
    let _dog = watchdog_with(60, format!("TASUKI_SEED={}", seed.0));
    let mut rng = seed.rng();
    for _ in 0..scaled(300, 3) {
        let (cell, made) = (OnceCell::<usize>::new(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (cell, made, mut rng) = (&cell, &made, Rng::new(rng.next()));
                scope.spawn(move || {
                    for _ in 0..rng.below(4) {
                        match rng.below(3) {
                            0 => drop(cell.get_or_try_init(async || Err::<usize, ()>(())).block()),
                            1 => drop(poll_with(&mut Box::pin(cell.get_or_init(never)), Waker::noop())),
                            _ => drop(poll_with(&mut Box::pin(cell.wait()), Waker::noop())),
                        }
                    }
                    let value = *cell
                        .get_or_init(async || {
                            made.fetch_add(1, SeqCst);
                            thread
                        })
                        .block();
                    assert_eq!((cell.get(), cell.wait().block()), (Some(&value), &value));
                });
            }
        });
        assert_eq!(made.load(SeqCst), 1);
    }
}

/// A clone has the value of now, and two cells are compared by their values.
#[test]
fn cells_are_cloned_and_compared_by_their_values() {
    let (empty, full) = (OnceCell::new(), OnceCell::from(vec![1]));
    assert_eq!((empty.clone(), full.clone()), (OnceCell::new(), OnceCell::from(vec![1])));
    assert_ne!(empty, full);
    let later = empty.clone();
    empty.set(vec![1]).unwrap();
    assert_eq!((later.get(), &empty), (None, &full));
}
