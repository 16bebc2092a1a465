//! Waits of channels that are cancelled: 1,000 of them, and 1,000,000.
//!
//! The futures lie in one array, are polled once, and are dropped in place in a shuffled order, which alone is timed: what is measured is how a wait leaves its channel, and not how
//! memory is freed.

use super::cancel::{MANY, Order, enqueue, waiting};
use super::unlink;
use crate::measure::{Bench, Contender, Meter, Reading, Sample};
use crate::peer::AsyncChannel;
use crate::peers::{VisitChannel, each_channel, each_own_channel};
use std::mem::{ManuallyDrop, MaybeUninit};

/// How many waiters all subjects get.
const FEW: usize = 1_000;

/// Which side waits.
#[derive(Clone, Copy)]
enum Side {
    Receives,
    Sends,
}

/// Measures both sides.
pub(crate) fn run(bench: &mut Bench) {
    let many = if bench.is_quick() { each_own_channel } else { each_channel };
    for (workload, side) in [("channel/cancel-recv", Side::Receives), ("channel/cancel-send", Side::Sends)] {
        group(bench, workload, side, FEW, each_channel);
        group(bench, workload, side, MANY, many);
    }
}

fn group(bench: &mut Bench, workload: &str, side: Side, waiters: usize, each: fn(&mut Build)) {
    let mut build = Build { side, waiters, contenders: Vec::new() };
    each(&mut build);
    build.contenders.push(unlink::floor(Order::Random, waiters));
    bench.group(waiting(workload, waiters, build.contenders));
}

struct Build {
    side: Side,
    waiters: usize,
    contenders: Vec<Contender>,
}

impl VisitChannel for Build {
    fn visit<C: AsyncChannel>(&mut self) {
        let (side, waiters) = (self.side, self.waiters);
        let can_wait = match side {
            Side::Receives => C::second(&C::new(1).1).is_some(),
            // A send of a new sender would not wait.
            Side::Sends => !C::ROOM_OF_EACH_SENDER,
        };
        if can_wait {
            let run = Box::new(move |ops| match side {
                Side::Receives => receives::<C>(waiters, ops),
                Side::Sends => sends::<C>(waiters, ops),
            });
            self.contenders.push(Contender { subject: C::NAME, kind: C::KIND, run });
        }
    }
}

/// Receives that wait are dropped. What is sent after that is there.
fn receives<C: AsyncChannel>(waiters: usize, ops: u64) -> Sample {
    let width = waiters.min(ops as usize);
    let (mut sender, mut receiver) = C::new(1);
    let another = |_| C::second(&receiver).expect("it has many receivers");
    let mut receivers: Vec<_> = (0..width).map(another).collect();
    let sample = storm(width, ops, &mut receivers, |receiver| C::recv(receiver));
    assert!(C::try_send(&mut sender, 1), "{}: none waits", C::NAME);
    assert_eq!(C::try_recv(&mut receiver), Some(1), "{}: a receive that was dropped took it", C::NAME);
    sample
}

/// Sends that wait are dropped. What they did not send is not there.
fn sends<C: AsyncChannel>(waiters: usize, ops: u64) -> Sample {
    let width = waiters.min(ops as usize);
    let (mut sender, mut receiver) = C::new(1);
    assert!(C::try_send(&mut sender, 1), "{}", C::NAME);
    let mut senders: Vec<_> = (0..width).map(|_| sender.clone()).collect();
    let sample = storm(width, ops, &mut senders, |sender| C::send(sender, 2));
    assert_eq!(C::try_recv(&mut receiver), Some(1), "{}", C::NAME);
    assert_eq!(C::try_recv(&mut receiver), None, "{}: a send that was dropped was made", C::NAME);
    sample
}

/// Queues and cancels `ops` waits, one for each handle at a time, and times the cancels.
fn storm<'h, H, F: Future>(
    width: usize,
    ops: u64,
    handles: &'h mut [H],
    wait: impl Fn(&'h mut H) -> F,
) -> Sample {
    let rounds = ops / width as u64;
    let order = Order::Random.indices(width);
    let handles = handles.as_mut_ptr();
    // Not freed in a panic: futures that have not been dropped must keep their place.
    let mut slots = ManuallyDrop::new((0..width).map(|_| MaybeUninit::uninit()).collect::<Vec<_>>());
    // So that the system gives the pages now, and not while they are timed. Not zeros: those it would give later.
    // SAFETY: the slots are there, and may hold anything.
    unsafe { slots.as_mut_ptr().write_bytes(0xa5, width) };
    let mut total = Reading::default();
    for _ in 0..rounds {
        for (index, slot) in slots.iter_mut().enumerate() {
            // SAFETY: there are so many handles, borrowed for `'h`; the future that borrowed this one in the last round has been dropped.
            enqueue(slot, wait(unsafe { &mut *handles.add(index) }));
        }
        let meter = Meter::start();
        for &index in &order {
            // SAFETY: all have been written, and the order names each of them once.
            unsafe { slots[index as usize].assume_init_drop() };
        }
        total += meter.read();
    }
    drop(ManuallyDrop::into_inner(slots));
    Sample::alone(rounds * width as u64, total)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each subject does as much as it is asked: a subject that does less is probed for ever.
    #[test]
    fn the_work_is_what_was_asked_for() {
        for side in [Side::Receives, Side::Sends] {
            let mut build = Build { side, waiters: 10, contenders: Vec::new() };
            each_channel(&mut build);
            for contender in &mut build.contenders {
                assert_eq!((contender.run)(30).ops, 30, "{}", contender.subject);
                assert_eq!((contender.run)(5).ops, 5, "{}", contender.subject);
            }
        }
    }
}
