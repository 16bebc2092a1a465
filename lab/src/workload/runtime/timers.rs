//! Sleeps that are armed together inside a task, and dropped in a random order.

use super::Work;
use crate::measure::{Meter, Reading, Sample};
use crate::peer::TaskRuntime;
use crate::workload::cancel::Order;
use crate::workload::time::{SHORTEST, limit, poll};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

/// How many are armed together.
const TIMERS: u64 = 100_000;

/// Made, polled once, dropped.
pub(super) struct InsertCancel;

impl Work for InsertCancel {
    const NAME: &'static str = "runtime/timers";
    const N: u64 = TIMERS;
    const LEAST: u64 = TIMERS;

    fn sample<R: TaskRuntime>(ops: u64) -> Sample {
        let rounds = ops.div_ceil(TIMERS);
        let task = async move {
            // One that is shorter than all, so that no thread has to be woken for an earlier one.
            let mut early = pin!(R::sleep(SHORTEST / 2));
            poll_fn(|cx| {
                assert!(early.as_mut().poll(cx).is_pending(), "{}: the time has only begun", R::NAME);
                Poll::Ready(insert_cancel::<R>(rounds, cx))
            })
            .await
        };
        R::output(R::block_on(async { R::spawn(task).await }))
    }
}

/// An operation is one sleep from its making to its drop.
fn insert_cancel<R: TaskRuntime>(rounds: u64, cx: &mut Context<'_>) -> Sample {
    let order = Order::Random.indices(TIMERS as usize);
    let mut slots: Vec<_> = (0..TIMERS).map(|_| None).collect();
    let mut total = Reading::default();
    for _ in 0..rounds {
        let meter = Meter::start();
        for (index, slot) in slots.iter_mut().enumerate() {
            let armed = poll(slot.insert(R::sleep(limit(index as u64))), cx);
            assert!(armed.is_pending(), "{}: too early", R::NAME);
        }
        for &index in &order {
            slots[index as usize] = None;
        }
        total += meter.read();
    }
    Sample::alone(rounds * TIMERS, total)
}
