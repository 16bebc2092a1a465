//! Time limits that are never reached: armed, polled once, dropped.

use super::cancel::Order;
use super::counting_waker::WakeCount;
use crate::measure::{Bench, Contender, Group, Meter, Reading, Sample};
use crate::peer::Timer;
use crate::peers::{VisitTimer, each_timer};
use std::future::Future;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

/// How many are armed together.
const TIMERS: [usize; 2] = [1, 10_000];
/// The shortest limit; one that is shorter still is armed all the while, so that no thread has to be woken
/// for an earlier one.
pub(crate) const SHORTEST: Duration = Duration::from_secs(30);
/// Limits differ by up to so many milliseconds.
const SPREAD: u64 = 5_000;

/// Measures every timer.
pub(crate) fn run(bench: &mut Bench) {
    for timers in TIMERS {
        let mut build = Build { timers, contenders: Vec::new() };
        each_timer(&mut build);
        let unit = timers.max(1_000) as u64;
        bench.group(Group::on_one_thread("time/arm-drop", timers, "none", unit, build.contenders));
    }
}

struct Build {
    timers: usize,
    contenders: Vec<Contender>,
}

impl VisitTimer for Build {
    fn visit<T: Timer>(&mut self) {
        let (timers, tally) = (self.timers, WakeCount::new());
        let run = Box::new(move |ops| sample::<T>(timers, tally, ops));
        self.contenders.push(Contender { subject: T::NAME, kind: T::KIND, run });
    }
}

/// One sample; an operation is a limit from its making to its drop.
fn sample<T: Timer>(timers: usize, tally: WakeCount, ops: u64) -> Sample {
    let home = T::home();
    let waker = tally.waker();
    let mut cx = Context::from_waker(&waker);
    let mut early = pin!(T::after(&home, SHORTEST / 2));
    assert!(early.as_mut().poll(&mut cx).is_pending(), "{}: the time has only begun", T::NAME);
    let before = tally.count();
    let sample = if timers == 1 {
        one_by_one::<T>(&home, &mut cx, ops)
    } else {
        together::<T>(timers, &home, &mut cx, ops)
    };
    if early.poll(&mut cx).is_ready() {
        return Sample::unmeasured("the sample took longer than the shortest limit, 15 s");
    }
    assert_eq!(tally.count(), before, "{}: a limit ran out before its time", T::NAME);
    sample
}

/// The limit of the `index`-th.
pub(crate) fn limit(index: u64) -> Duration {
    SHORTEST + Duration::from_millis(index.wrapping_mul(2_654_435_761) % SPREAD)
}

/// Never two at a time.
fn one_by_one<T: Timer>(home: &T::Home, cx: &mut Context<'_>, ops: u64) -> Sample {
    let meter = Meter::start();
    for index in 0..ops {
        assert!(pin!(T::after(home, limit(index))).poll(cx).is_pending(), "{}: too early", T::NAME);
    }
    Sample::alone(ops, meter.read())
}

/// Many together, dropped in a random order.
fn together<T: Timer>(timers: usize, home: &T::Home, cx: &mut Context<'_>, ops: u64) -> Sample {
    let rounds = ops.div_ceil(timers as u64);
    let order = Order::Random.indices(timers);
    // Not freed in a panic: limits that have not been dropped must keep their place.
    let mut slots = ManuallyDrop::new((0..timers).map(|_| MaybeUninit::uninit()).collect::<Vec<_>>());
    let mut total = Reading::default();
    for _ in 0..rounds {
        let meter = Meter::start();
        for (index, slot) in slots.iter_mut().enumerate() {
            let armed = poll(slot.write(T::after(home, limit(index as u64))), cx);
            assert!(armed.is_pending(), "{}: too early", T::NAME);
        }
        for &index in &order {
            // In place: to write over it would cost each subject the more the bigger its future is.
            // SAFETY: written above, and each index is in the order once.
            unsafe { slots[index as usize].assume_init_drop() };
        }
        total += meter.read();
    }
    // All limits have been dropped.
    drop(ManuallyDrop::into_inner(slots));
    Sample::alone(rounds * timers as u64, total)
}

/// Polls a limit where it lies.
#[inline]
pub(crate) fn poll<F: Future>(limit: &mut F, cx: &mut Context<'_>) -> Poll<F::Output> {
    // SAFETY: the slots are in a vector that is never moved nor grown, and what is in them is dropped in place.
    unsafe { Pin::new_unchecked(limit) }.poll(cx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// Runs briefly, and sees that a short limit does run out.
    struct Short;

    impl VisitTimer for Short {
        fn visit<T: Timer>(&mut self) {
            let tally = WakeCount::new();
            assert_eq!(sample::<T>(1, tally, 10).ops, 10);
            assert_eq!(sample::<T>(100, tally, 200).ops, 200);
            let (home, start) = (T::home(), Instant::now());
            futures_lite::future::block_on(async { drop(T::after(&home, Duration::from_millis(20)).await) });
            assert!(start.elapsed() >= Duration::from_millis(20), "{}", T::NAME);
        }
    }

    #[test]
    fn every_timer_counts_the_time() {
        each_timer(&mut Short);
    }
}
