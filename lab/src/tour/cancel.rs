//! Tour stop: waiters that are cancelled in every order, while the others stay in the queue.

use super::{Guide, counted, grouped, rate, resident};
use crate::workload::cancel::Order;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tasuki::Mutex;
use tasuki::future::Lock;

/// One waiter in so many stays.
const STAYS: usize = 1_000;
/// Cancels between two looks at the clock.
const STRIDE: usize = 65_536;

/// A waiter in its place; empty once it has left.
type Slot<'a> = Option<Lock<'a, usize>>;

/// Queues a million waiters and cancels all but a few, in three orders.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let waiters = guide.pick(1_000_000, 20_000);
    for order in [Order::Fifo, Order::Lifo, Order::Random] {
        leave(guide, waiters, order)?;
    }
    Ok(())
}

fn leave(guide: &Guide, waiters: usize, order: Order) -> Result<(), String> {
    let mutex = Mutex::new(0);
    let held = mutex.try_lock().ok_or("a new mutex is free")?;
    let mut leaving = order.indices(waiters);
    leaving.retain(|&waiter| waiter as usize % STAYS != 0);
    let mut slots: Vec<Slot<'_>> = (0..waiters).map(|_| None).collect();
    guide.live(format_args!("   {waiters} waiters queue"));
    let (pending, queued, queueing) = counted(|| enqueue(&mutex, &mut slots));
    if !pending {
        return Err("a task got a lock that is held".into());
    }
    let memory = resident();
    let ((), cancelled, cancelling) = counted(|| {
        for chunk in leaving.chunks(STRIDE) {
            for &waiter in chunk {
                slots[waiter as usize] = None;
            }
            guide.live(format_args!("   cancelling in {order:?} order"));
        }
    });
    let count = grouped(leaving.len());
    guide.check(
        queueing + cancelling == 0,
        format_args!("{count} waiters cancelled, {order:?} order, no allocation"),
    )?;
    guide.say(format_args!("       queued: {}", rate(waiters, queued)));
    guide.say(format_args!("       cancelled: {}; {memory}", rate(leaving.len(), cancelled)));
    drop(held);
    let stayed = slots.iter().flatten().count();
    let served = serve(&mut slots)?;
    guide.check(served == stayed, format_args!("the {} who stayed were served in order", grouped(stayed)))?;
    drop(slots);
    match mutex.try_lock() {
        Some(value) if *value == stayed => Ok(()),
        Some(value) => Err(format!("{} increments for {stayed} grants", *value)),
        None => Err("the lock was not given back".into()),
    }
}

/// Polls every waiter once; true when all are queued.
fn enqueue<'a>(mutex: &'a Mutex<usize>, slots: &mut [Slot<'a>]) -> bool {
    let mut all = true;
    for slot in slots {
        all &= poll(slot.insert(mutex.lock())).is_pending();
    }
    all
}

/// Grants the lock to the waiters that stayed: each must have it when its predecessor has released it, not sooner.
fn serve(slots: &mut [Slot<'_>]) -> Result<usize, String> {
    let mut served = 0;
    let mut early = 0;
    let mut stayed = slots.iter_mut().filter(|slot| slot.is_some()).peekable();
    while let Some(slot) = stayed.next() {
        let Some(waiter) = slot else { continue };
        let Poll::Ready(mut guard) = poll(waiter) else {
            return Err(format!("waiter {served} of those that stayed was passed over"));
        };
        *guard += 1;
        if let Some(Some(next)) = stayed.peek_mut() {
            early += usize::from(poll(next).is_ready());
        }
        served += 1;
    }
    if early > 0 {
        return Err(format!("{early} waiters got a lock that was held"));
    }
    Ok(served)
}

/// Polls a waiter where it lies.
fn poll<F: Future>(waiter: &mut F) -> Poll<F::Output> {
    // SAFETY: the slots are in a vector that is never moved nor grown, and are emptied in place.
    let waiter = unsafe { Pin::new_unchecked(waiter) };
    waiter.poll(&mut Context::from_waker(Waker::noop()))
}
