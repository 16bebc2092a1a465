//! A first poll with the budget exhausted calls foreign code: the driver is asked for more, tokio clones the waker, the yield wakes the task. Every public awaitable, with a panic
//! at each of these calls: afterwards the future is polled or dropped again, and nothing is lost.

use super::foreign_panics::{Played, hostile};
use super::subjects::{Row, rows};
use crate::kit::driver::FakeDriver;
use crate::kit::poll::panics;
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::cell::Cell;
use std::sync::Arc;
use std::task::Waker;
use tasuki::runtime::{self, Driver, TaskId, Timers};

/// Panics when it is asked for more budget, this many questions from now; gives one operation before.
struct Miser {
    answers: Cell<usize>,
    id: TaskId,
}

impl Driver for Miser {
    fn task(&self) -> Option<TaskId> {
        Some(self.id)
    }

    fn timers(&self) -> Option<Arc<Timers>> {
        None
    }

    fn may_block(&self) -> bool {
        true
    }

    fn refill(&self) -> u32 {
        let left = self.answers.get();
        assert!(left > 0, "a hostile driver");
        self.answers.set(left - 1);
        1
    }
}

/// One first poll of every awaitable, of one that has to wait and of one that does not, by `poll`, which says whether foreign code panicked; then it is polled to its end, or dropped. How often there was a panic.
fn first_polls(name: &str, mut poll: impl FnMut(&mut Played, usize) -> bool) -> usize {
    let mut happened = 0;
    for Row { covers, subject } in rows() {
        for is_granted in [false, true] {
            for drops in [false, true] {
                let context = format!("{name}: {covers:?}, granted: {is_granted}, dropped: {drops}");
                let mut played = Played::new(subject());
                let wait = played.first();
                if is_granted {
                    (played.subject.grant)();
                }
                let panicked = poll(&mut played, wait);
                assert!(!panicked || !played.waits[wait].is_over(), "{context}: can be polled again");
                happened += usize::from(panicked);
                if drops {
                    drop(played.waits.remove(wait));
                }
                played.settle(&context);
            }
        }
    }
    happened
}

/// One poll with nothing left of the budget of this driver.
fn exhausted(driver: &dyn Driver, played: &mut Played, wait: usize, waker: &Waker) -> bool {
    runtime::enter(driver, || {
        runtime::set_budget(0);
        panics(|| _ = played.poll(wait, waker))
    })
}

#[test]
fn a_driver_that_panics_when_it_is_asked_for_more() {
    let _dog = watchdog(120);
    for answers in 0..2 {
        let happened = first_polls("a driver", |played, wait| {
            let driver = Miser { answers: Cell::new(answers), id: TaskId::fresh() };
            exhausted(&driver, played, wait, &Spy::new().waker())
        });
        // The second question is that of a limit.
        assert!(happened > if answers == 0 { 30 * 4 } else { 0 }, "{happened} panics");
    }
}

#[test]
fn a_waker_that_panics_while_the_budget_is_exhausted() {
    let _dog = watchdog(120);
    for call in [Call::Clone, Call::WakeByRef] {
        let happened = first_polls("a waker", |played, wait| {
            let hostile = hostile(call);
            let waker = hostile.waker();
            hostile.arm(1);
            exhausted(&FakeDriver::of(TaskId::fresh()), played, wait, &waker)
        });
        assert!(happened > 30 * 2, "{call:?}: {happened} panics");
    }
}

/// Tokio keeps a clone of the waker of a task whose budget is exhausted.
#[test]
#[cfg(feature = "tokio")]
fn a_waker_that_panics_while_the_budget_of_tokio_is_exhausted() {
    let _dog = watchdog(120);
    let play = || {
        let happened = first_polls("tokio", |played, wait| {
            crate::kit::waker::never_yields();
            runtime::set_budget(0);
            while tokio::task::coop::has_budget_remaining() {
                assert!(runtime::charge(&std::task::Context::from_waker(&Spy::new().waker())));
            }
            let hostile = hostile(Call::Clone);
            let waker = hostile.waker();
            hostile.arm(1);
            panics(|| _ = played.poll(wait, &waker))
        });
        assert!(happened > 30 * 4, "{happened} panics");
    };
    let host = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    host.block_on(async { tokio::spawn(async move { play() }).await.unwrap() });
}
