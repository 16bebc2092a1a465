//! Messages that come back into the channel, and room that does: before the others, in order, whatever the order of the drops, and every waiter is served.

use crate::kit::driver::FakeDriver;
use crate::kit::poll::{panics, pending, poll, ready};
use crate::kit::process::alone;
use crate::kit::rng::Rng;
use crate::kit::scaled;
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use tasuki::CancellationSource;
use tasuki::channel::{bounded, unbounded};
use tasuki::runtime::{self, TaskId};

/// Room for more messages than there is memory for comes back at once: the memory grows, and every sender that waits is served.
#[test]
fn a_dropped_reservation_lets_all_waiting_senders_in() {
    let (sender, receiver) = unbounded();
    let permits = sender.try_reserve_many(1 << 31).unwrap();
    let mut sends: Vec<_> = (0..1_000).map(|n| Box::pin(sender.send(n))).collect();
    sends.iter_mut().for_each(|send| pending(send, &Spy::new()));
    // A reservation among them needs no memory.
    let mut reservation = Box::pin(sender.reserve());
    pending(&mut reservation, &Spy::new());
    drop(permits);
    sends.iter_mut().for_each(|send| assert_eq!(ready(send), Ok(())));
    ready(&mut reservation).unwrap().send(1_000).unwrap();
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), (0..=1_000).collect::<Vec<_>>());
}

/// The same when the reservation only waited, in front of the senders; and while a waker panics.
#[test]
fn a_cancelled_reservation_lets_all_waiting_senders_in() {
    let (sender, receiver) = unbounded();
    sender.try_send(0).unwrap();
    let mut reservation = Box::pin(sender.reserve_many(1 << 31));
    pending(&mut reservation, &Spy::new());
    let spy = Spy::hostile(Call::Wake, || panic!("a waker"));
    let mut sends: Vec<_> = (1..200).map(|n| Box::pin(sender.send(n))).collect();
    sends.iter_mut().for_each(|send| pending(send, &spy));
    spy.arm(200);
    assert!(panics(|| drop(reservation)));
    assert_eq!(spy.hook_runs(), 199);
    sends.iter_mut().for_each(|send| assert_eq!(ready(send), Ok(())));
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), (0..200).collect::<Vec<_>>());
}

/// A message that was received comes back, because the limit of its receive panics when it is cancelled: it is older than what is granted to others.
#[test]
fn an_output_that_comes_back_precedes_what_is_granted() {
    for order in 0..6 {
        let (sender, receiver) = bounded(8);
        let (source, spy) = (CancellationSource::new(), Spy::hostile(Call::Drop, || panic!("a waker")));
        let token = source.token();
        let mut limited: Vec<_> = (0..2).map(|_| Box::pin(receiver.recv().or_cancelled(&token))).collect();
        let mut plain: Vec<_> = (0..2).map(|_| Box::pin(receiver.recv())).collect();
        limited.iter_mut().for_each(|receive| pending(receive, &spy));
        plain.iter_mut().for_each(|receive| pending(receive, &Spy::new()));
        (0..5).for_each(|n| sender.try_send(n).unwrap());
        // The two outputs come back in their order; the others between them, before or behind.
        let mut comes_back = |n: usize| {
            spy.arm(1);
            assert!(panics(|| poll(&mut limited[n], &Spy::new())) && spy.fired());
        };
        match order % 3 {
            0 => {
                comes_back(0);
                comes_back(1);
                drop(plain);
            }
            1 => {
                drop(plain);
                comes_back(0);
                comes_back(1);
            }
            _ => {
                drop(plain.remove(order / 3));
                comes_back(0);
                drop(plain);
                comes_back(1);
            }
        }
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4], "order {order}");
    }
}

/// An output that comes back does not precede a message that was granted before it, and is put back after it: neither when a poll has claimed it, nor when a limit around has cancelled the receive.
#[test]
fn an_output_that_comes_back_has_its_place() {
    for cancelled in [false, true] {
        let (sender, receiver) = bounded(8);
        let (outer, inner) = (CancellationSource::new(), CancellationSource::new());
        let (tokens, spy) = ([outer.token(), inner.token()], Spy::hostile(Call::Drop, || panic!("a waker")));
        let mut first = Box::pin(receiver.recv());
        let mut second = Box::pin(receiver.recv().or_cancelled(&tokens[1]).or_cancelled(&tokens[0]));
        pending(&mut first, &Spy::new());
        pending(&mut second, &spy);
        (1..4).for_each(|n| sender.try_send(n).unwrap());
        spy.arm(1);
        if cancelled {
            outer.request_cancel();
        }
        assert!(panics(|| poll(&mut second, &Spy::new())) && spy.fired());
        drop(first);
        drop(second);
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2, 3], "cancelled: {cancelled}");
    }
}

/// The same for a receive that has yielded, and is ready without having waited; the message may have been put back before.
#[test]
fn an_output_that_comes_back_after_a_yield_has_its_place() {
    for put_back in [false, true] {
        let (sender, receiver) = bounded(8);
        let (source, spy) = (CancellationSource::new(), Spy::hostile(Call::Drop, || panic!("a waker")));
        let token = source.token();
        let mut receives: Vec<_> = (0..3).map(|_| Box::pin(receiver.recv())).collect();
        receives.iter_mut().for_each(|receive| pending(receive, &Spy::new()));
        (1..5).for_each(|n| sender.try_send(n).unwrap());
        if put_back {
            receives.truncate(1);
        }
        let mut yields = Box::pin(receiver.recv().or_cancelled(&token));
        runtime::enter(&FakeDriver::of(TaskId::fresh()), || {
            runtime::set_budget(0);
            pending(&mut yields, &spy);
        });
        spy.arm(1);
        assert!(panics(|| poll(&mut yields, &Spy::new())) && spy.fired());
        drop(receives);
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2, 3, 4], "put back: {put_back}");
    }
}

/// A message that a panic gave back has a slot beyond the capacity, whatever that is: also if it is as many as the first slots of a channel that grows.
#[test]
fn a_slot_beyond_any_capacity() {
    for capacity in [1, 2, 31, 32, 33, 64, 100] {
        let (sender, receiver) = bounded(capacity);
        (0..capacity).for_each(|n| sender.try_send(n).unwrap());
        for round in 0..3 {
            let spy = Spy::hostile(Call::Wake, || panic!("a waker"));
            let mut send = Box::pin(sender.send(capacity));
            pending(&mut send, &spy);
            spy.arm(1);
            assert!(panics(|| receiver.try_recv()) && spy.fired(), "{capacity}, round {round}");
            assert_eq!((ready(&mut send), receiver.len()), (Ok(()), capacity + 1));
            assert_eq!(receiver.try_iter().collect::<Vec<_>>(), (0..=capacity).collect::<Vec<_>>());
            (0..capacity).for_each(|n| sender.try_send(n).unwrap());
        }
    }
}

/// Very many granted receives are dropped in any order: each costs some steps for each doubling of their number (`channel/ticket_heap.rs` counts them), and messages that are put back among those
/// that are received meanwhile are in order.
#[test]
fn very_many_are_put_back_in_any_order() {
    alone(|| {
        let _dog = watchdog(300);
        let count = scaled(200_000, 100);
        let (sender, receiver) = unbounded();
        let spy = Spy::new();
        let mut receives: Vec<_> = (0..count).map(|_| Box::pin(receiver.recv())).collect();
        receives.iter_mut().for_each(|receive| pending(receive, &spy));
        (0..count + 10).for_each(|n| sender.try_send(n).unwrap());
        Rng::new(7).shuffle(&mut receives);
        let rest = receives.split_off(count / 2);
        drop(receives);
        let first: Vec<_> = (0..count / 4).map(|_| receiver.try_recv().unwrap()).collect();
        assert!(first.is_sorted());
        drop(rest);
        let then: Vec<_> = receiver.try_iter().collect();
        assert!(then.is_sorted());
        let mut all = [first, then].concat();
        all.sort_unstable();
        assert_eq!(all, (0..count + 10).collect::<Vec<_>>());
    });
}
