//! Waiters that enqueue on a held lock, and waiters that are cancelled.
//!
//! The futures live in place in one array; polling them once queues them, dropping them in place cancels
//! the wait, and nothing is written over them: that would cost big futures more than small ones. The waker does
//! nothing, so that only the queue is measured.

use super::unlink;
use crate::measure::{Bench, Contender, Group, Meter, Metric, Reading, Sample};
use crate::peer::{AsyncMutex, LocalMutex};
use crate::peers::{VisitMutex, each_mutex, each_own_mutex};
use std::future::Future;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::pin::Pin;
use std::task::{Context, Waker};

/// How many waiters all subjects get.
const WAITERS: [usize; 2] = [1_000, 10_000];
/// How many waiters show whether the cost is flat; the peers get them where time allows.
pub(super) const MANY: usize = 1_000_000;

/// Measures queueing and cancelling.
pub(crate) fn run(bench: &mut Bench) {
    for waiters in WAITERS {
        phases(bench, waiters, each_mutex);
    }
    let many = if bench.is_quick() { each_own_mutex } else { each_mutex };
    phases(bench, MANY, many);
}

fn phases(bench: &mut Bench, waiters: usize, each: fn(&mut Build)) {
    let all = [
        Phase::Enqueue,
        Phase::Cancel(Order::Fifo),
        Phase::Cancel(Order::Lifo),
        Phase::Cancel(Order::Random),
    ];
    for phase in all {
        let mut build = Build { phase, waiters, contenders: Vec::new() };
        each(&mut build);
        if let Phase::Cancel(order) = phase {
            build.contenders.push(unlink::floor(order, waiters));
        }
        bench.group(waiting(phase.name(), waiters, build.contenders));
    }
}

/// A cell with so many waiters.
pub(super) fn waiting(workload: &str, waiters: usize, contenders: Vec<Contender>) -> Group {
    Group {
        workload: workload.into(),
        n: waiters as u64,
        runtime: "none",
        probe_ops: 500,
        least_ops: waiters as u64,
        two_threads: false,
        patient: waiters == MANY,
        metric: Metric::Time,
        contenders,
    }
}

/// What is timed.
#[derive(Clone, Copy)]
enum Phase {
    Enqueue,
    Cancel(Order),
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::Enqueue => "mutex/enqueue",
            Phase::Cancel(Order::Fifo) => "mutex/cancel/fifo",
            Phase::Cancel(Order::Lifo) => "mutex/cancel/lifo",
            Phase::Cancel(Order::Random) => "mutex/cancel/random",
        }
    }
}

/// In which order waiters give up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// Longest waiting first.
    Fifo,
    /// Newest first.
    Lifo,
    /// Shuffled, the same way every time.
    Random,
}

impl Order {
    /// The indices below `count` in this order.
    pub(crate) fn indices(self, count: usize) -> Vec<u32> {
        let mut all: Vec<u32> = (0..count as u32).collect();
        match self {
            Order::Fifo => {}
            Order::Lifo => all.reverse(),
            Order::Random => shuffle(&mut all),
        }
        all
    }
}

/// Fisher-Yates with a fixed xorshift: reruns cancel in the same order.
fn shuffle(items: &mut [u32]) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for last in (1..items.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        items.swap(last, (state % (last as u64 + 1)) as usize);
    }
}

/// Queues and cancels `ops` waiters, `waiters` at a time, and times one phase.
fn storm<M: LocalMutex>(phase: Phase, waiters: usize, ops: u64) -> Sample {
    let width = waiters.min(ops as usize);
    let rounds = ops / width as u64;
    let order = match phase {
        Phase::Enqueue => Order::Fifo,
        Phase::Cancel(order) => order,
    };
    let order = order.indices(width);
    let mutex = M::new();
    // Not freed in a panic: futures that have not been dropped must keep their place.
    let mut slots = ManuallyDrop::new((0..width).map(|_| MaybeUninit::uninit()).collect::<Vec<_>>());
    // So that the system gives the pages now, and not while they are timed. Not zeros: those it would give later.
    // SAFETY: the slots are there, and may hold anything.
    unsafe { slots.as_mut_ptr().write_bytes(0xa5, width) };
    let mut total = Reading::default();
    for _ in 0..rounds {
        let mut held = mutex.try_lock().expect("free between rounds");
        *held += 1;
        let meter = Meter::start();
        for slot in slots.iter_mut() {
            enqueue(slot, mutex.lock());
        }
        let enqueued = meter.read();
        let meter = Meter::start();
        for &index in &order {
            // SAFETY: all have been written, and the order names each of them once.
            unsafe { slots[index as usize].assume_init_drop() };
        }
        let cancelled = meter.read();
        let timed = if matches!(phase, Phase::Enqueue) { enqueued } else { cancelled };
        total.ns += timed.ns;
        total.allocations += timed.allocations;
    }
    drop(ManuallyDrop::into_inner(slots));
    let count = *mutex.try_lock().expect("cancelled waiters leave a free lock");
    assert_eq!(count, rounds, "{}: one increment a round", M::NAME);
    Sample::alone(rounds * width as u64, total)
}

/// Places a future in its slot and polls it once, so that it queues.
#[inline]
pub(super) fn enqueue<F: Future>(slot: &mut MaybeUninit<F>, future: F) {
    let future = slot.write(future);
    // SAFETY: the slot is in a vector that is never moved nor grown, and its future is dropped in place.
    let future = unsafe { Pin::new_unchecked(future) };
    let polled = future.poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "it has to wait");
}

struct Build {
    phase: Phase,
    waiters: usize,
    contenders: Vec<Contender>,
}

impl VisitMutex for Build {
    fn shared<M: AsyncMutex>(&mut self) {
        self.local::<M>();
    }

    fn local<M: LocalMutex>(&mut self) {
        if M::BLOCKS {
            return;
        }
        let (phase, waiters) = (self.phase, self.waiters);
        let run = Box::new(move |ops| storm::<M>(phase, waiters, ops));
        self.contenders.push(Contender { subject: M::NAME, kind: M::KIND, run });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_order_names_every_waiter_once() {
        let mut order = Order::Random.indices(1_000);
        assert_ne!(order, Order::Fifo.indices(1_000));
        order.sort_unstable();
        assert_eq!(order, Order::Fifo.indices(1_000));
    }
}
