//! What channels cost: the sizes of handles and futures, allocations, and very many waiters or messages.

use crate::kit::alloc::{allocations, bytes_here};
use crate::kit::fixture::{Wakes, on_a_small_stack};
use crate::kit::poll::{pending, poll, ready};
use crate::kit::process::alone;
use crate::kit::traits::{Both, Neither, SendOnly, SyncOnly, traits};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use crate::kit::{VERY_MANY, scaled, spans};
use std::future::Future as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Waker};
use tasuki::Closed;
use tasuki::channel::oneshot::{self, OneshotRecv};
use tasuki::channel::rendezvous::{HandOver, TakeOver, rendezvous};
use tasuki::channel::{
    self, Channel, OwnedPermit, Permit, Receiver, SendError, Sender, WeakSender, bounded, unbounded,
};
use tasuki::future::{
    InlineRecv, InlineSend, Recv, RecvMany, RecvOwned, Reservation, ReservationMany, ReservationOwned,
    SendMessage,
};

#[test]
fn auto_traits_and_sizes() {
    assert_eq!(traits!(Sender<Both>), "SYU");
    assert_eq!(traits!(Sender<SendOnly>), "SYU");
    assert_eq!(traits!(Receiver<SendOnly>), "SYU");
    assert_eq!(traits!(Sender<SyncOnly>), "--U");
    assert_eq!(traits!(Receiver<Neither>), "--U");
    assert_eq!(traits!(WeakSender<SendOnly>), "SYU");
    assert_eq!(traits!(WeakSender<Neither>), "--U");
    assert_eq!(traits!(SendMessage<'static, SendOnly>), "SY-");
    assert_eq!(traits!(SendMessage<'static, Neither>), "---");
    assert_eq!(traits!(Recv<'static, SendOnly>), "SY-");
    assert_eq!(traits!(Recv<'static, SyncOnly>), "---");
    assert_eq!(traits!(RecvOwned<SendOnly>), "SY-");
    assert_eq!(traits!(RecvMany<'static, SendOnly>)[..1], *"S");
    assert_eq!(traits!(Permit<'static, SendOnly>), "SYU");
    assert_eq!(traits!(OwnedPermit<Neither>), "--U");
    assert_eq!(traits!(Channel<SendOnly, 1>)[..2], *"SY");
    assert_eq!(traits!(Channel<SyncOnly, 1>)[..2], *"--");
    assert!(
        size_of::<Sender<u64>>() == size_of::<usize>() && size_of::<Receiver<u64>>() == size_of::<usize>()
    );
    let inspected = if tasuki::inspect::is_active() { 32 } else { 0 } + spans();
    // What is waited for has 16 bytes beside the waiter's 48. A receive of many has its channel, its buffer and two numbers of 32 bits: 24 bytes, which the alignment of the waiter rounds up to 32.
    macro_rules! fits {
        ($($limit:literal: $($future:ty),*;)*) => {
            $($(assert!(size_of::<$future>() <= $limit + inspected, "{}: {}", stringify!($future), size_of::<$future>());)*)*
        };
    }
    fits! {
        64: SendMessage<'static, u64>, Recv<'static, u64>, Recv<'static, [u64; 100]>, RecvOwned<u64>, Reservation<'static, u64>, ReservationMany<'static, u64>, ReservationOwned<u64>,
            InlineSend<'static, u64, 4>, InlineRecv<'static, u64, 4>, HandOver<'static, u64>, TakeOver<'static, u64>, OneshotRecv<oneshot::Receiver<oneshot::Boxed<u64>>>;
        80: RecvMany<'static, u64>;
    }
}

/// One allocation a channel; none to send, wait, be granted, claim or cancel.
#[test]
fn waiting_allocates_nothing() {
    assert_eq!(allocations(unbounded::<u64>).0, 1);
    assert_eq!(allocations(rendezvous::<u64>).0, 1);
    assert_eq!(allocations(channel::oneshot::<u64>).0, 1);
    assert_eq!(allocations(Channel::<u64, 8>::new).0, 0);
    let (count, (sender, receiver)) = allocations(|| bounded::<u64>(2));
    assert_eq!(count, 1);
    let (spy, other) = (Spy::new(), Spy::new());
    let mut receives: Vec<_> = (0..4).map(|_| Some(Box::pin(receiver.recv()))).collect();
    let mut sends: Vec<_> = (0..4).map(|n| Some(Box::pin(sender.send(n)))).collect();
    let (count, ()) = allocations(|| {
        receives.iter_mut().flatten().for_each(|receive| pending(receive, &spy));
        receives.iter_mut().flatten().for_each(|receive| pending(receive, &other));
        assert!(poll(sends[0].as_mut().unwrap(), &spy).is_ready());
        assert!(poll(sends[1].as_mut().unwrap(), &spy).is_ready());
        pending(sends[2].as_mut().unwrap(), &spy);
        pending(sends[3].as_mut().unwrap(), &spy);
        receives[0] = None;
        assert_eq!(ready(receives[1].as_mut().unwrap()), Ok(1));
        sends[3] = None;
        receives.iter_mut().for_each(|receive| *receive = None);
        assert_eq!([receiver.try_recv(), receiver.try_recv()], [Ok(0), Ok(2)]);
    });
    assert_eq!(count, 0);
}

/// Oneshots and hand-overs wait without an allocation, too; only a hand-over without waiting has a box.
#[test]
fn other_waits_allocate_nothing() {
    let (spy, other) = (Spy::new(), Spy::new());
    let (sender, receiver) = channel::oneshot();
    let mut receive = Box::pin(receiver.recv());
    let (count, ()) = allocations(|| {
        pending(&mut receive, &spy);
        pending(&mut receive, &other);
        sender.send(1).unwrap();
        assert_eq!(ready(&mut receive), Ok(1));
    });
    assert_eq!(count, 0);
    let (sender, receiver) = rendezvous();
    let mut receives: Vec<_> = (0..2).map(|_| Some(Box::pin(receiver.recv()))).collect();
    let mut send = Box::pin(sender.send(1));
    let (count, ()) = allocations(|| {
        receives.iter_mut().flatten().for_each(|receive| pending(receive, &spy));
        pending(&mut send, &spy);
        receives[0] = None;
        assert_eq!(ready(receives[1].as_mut().unwrap()), Ok(1));
        assert_eq!(ready(&mut send), Ok(()));
        assert!(sender.try_send(2).is_err());
    });
    assert_eq!(count, 0);
}

/// An unbounded channel grows with its messages, and gives the memory back when it is empty.
#[test]
fn an_unbounded_channel_grows_and_shrinks() {
    grows_and_shrinks(|n| n);
}

/// The same with messages behind which a slot has padding: bytes that are in no cell, so that no reference may lead to them while the memory is given back, as an interpreter sees.
#[test]
fn slots_with_padding_come_and_go() {
    grows_and_shrinks(|n| n as u32);
}

fn grows_and_shrinks<T: Copy + PartialEq + std::fmt::Debug + Send + 'static>(message: fn(usize) -> T) {
    let (sender, receiver) = unbounded();
    let count = scaled(100_000, 1_100);
    let fill = || {
        let (allocated, ()) = allocations(|| (0..count).for_each(|n| sender.try_send(message(n)).unwrap()));
        assert!((1..64).contains(&allocated), "{allocated} allocations for {count} messages");
    };
    for _ in 0..2 {
        fill();
        assert!(receiver.try_iter().eq((0..count).map(message)));
    }
    // Also if it is emptied by receives of many, or by polls.
    for _ in 0..2 {
        fill();
        let mut all = Vec::new();
        assert_eq!(receiver.recv_many(&mut all, usize::MAX).block(), Ok(count));
    }
    fill();
    (0..count).for_each(|n| assert_eq!(receiver.recv().block(), Ok(message(n))));
    // What is kept is enough for the usual.
    let (allocated, ()) = allocations(|| {
        (0..1000).for_each(|n| sender.try_send(message(n)).unwrap());
        assert_eq!(receiver.try_iter().count(), 1000);
    });
    assert_eq!(allocated, 0);
}

/// The memory of many messages is given back when the last of them has gone, not with the last handle: also if no receiver is left, and beside a permit, whose room has no slot.
#[test]
fn memory_goes_with_the_messages() {
    let start = bytes_here();
    let (sender, receiver) = unbounded();
    let (permit, mut receiver) = (sender.try_reserve().unwrap(), Some(receiver));
    let count = scaled(100_000, 4_000);
    for no_receiver_is_left in [false, true] {
        (0..count).for_each(|n| sender.try_send(n).unwrap());
        let full = bytes_here() - start;
        match &receiver {
            Some(receiver) if !no_receiver_is_left => assert_eq!(receiver.try_iter().count(), count),
            _ => drop(receiver.take()),
        }
        let left = bytes_here() - start;
        assert!(left < full / 2, "{left} of {full} bytes are left without a message");
    }
    assert_eq!(permit.send(1), Err(SendError(1)));
}

/// The same if the last message is claimed while others wait: a receiver, which a closed channel refuses then, or a reservation of all the room there is.
#[test]
fn memory_goes_with_a_message_that_was_waited_for() {
    let count = scaled(100_000, 2_100);
    for case in 0..scaled(8, 4) {
        let [closes, second_waits, many] = [1, 2, 4].map(|bit| case & bit != 0);
        let start = bytes_here();
        let (sender, receiver) = unbounded();
        let (mut first, mut second) = (Box::pin(receiver.recv()), Box::pin(receiver.recv()));
        let mut buffer = Vec::with_capacity(4);
        let mut first_of_many = Box::pin(receiver.recv_many(&mut buffer, 4));
        match many {
            true => pending(&mut first_of_many, &Spy::new()),
            false => pending(&mut first, &Spy::new()),
        }
        // Slots of this message have padding, see above.
        (0..count as u32).for_each(|n| sender.try_send(n).unwrap());
        let full = bytes_here() - start;
        assert_eq!(receiver.try_iter().count(), count - 1);
        let mut reservation = Box::pin(sender.reserve_many(1 << 31));
        if second_waits {
            pending(&mut second, &Spy::new());
        } else {
            pending(&mut reservation, &Spy::new());
        }
        if closes {
            sender.close();
        }
        match many {
            true => assert_eq!(ready(&mut first_of_many), Ok(1)),
            false => assert_eq!(ready(&mut first), Ok(0)),
        }
        let left = bytes_here() - start;
        assert!(left < full / 2, "case {case}: {left} of {full} bytes are left without a message");
        assert_eq!(second_waits && closes, second_waits && poll(&mut second, &Spy::new()).is_ready());
        assert!(second_waits || ready(&mut reservation).is_ok() != closes);
    }
}

/// The same if a receive finds the last message, and need not wait, after it has cloned its waker; and if a receive of many takes all, for which a reservation waits.
#[test]
fn memory_goes_with_a_message_that_comes_in_between() {
    let count = scaled(100_000, 4_000);
    let (sender, receiver) = unbounded();
    let start = bytes_here();
    let spy = Spy::hostile(Call::Clone, {
        let (sender, receiver) = (sender.clone(), receiver.clone());
        move || {
            (0..count).for_each(|n| sender.try_send(n).unwrap());
            assert_eq!(receiver.try_iter().take(count - 1).count(), count - 1);
        }
    });
    spy.arm(1);
    let mut receive = Box::pin(receiver.recv());
    assert_eq!(poll(&mut receive, &spy), Poll::Ready(Ok(count - 1)));
    let left = bytes_here() - start;
    assert!(spy.fired() && left < 1 << 16, "{left} bytes are left without a message");
    (0..count).for_each(|n| sender.try_send(n).unwrap());
    let mut reservation = Box::pin(sender.reserve_many(1 << 31));
    pending(&mut reservation, &Spy::new());
    let mut buffer = Vec::new();
    assert_eq!(receiver.recv_many(&mut buffer, count).block(), Ok(count));
    drop(buffer);
    let left = bytes_here() - start;
    assert!(left < 1 << 16, "{left} bytes are left without a message");
    assert_eq!(ready(&mut reservation).unwrap().len(), 1 << 31);
}

/// A close of a channel with very many waiters or messages: neither recursion nor a lock that is held throughout.
#[test]
fn very_many() {
    alone(|| {
        let _dog = watchdog(300);
        on_a_small_stack(|| {
            let count = VERY_MANY;
            let wakes = Arc::new(Wakes::default());
            let waker = Waker::from(wakes.clone());
            let mut cx = Context::from_waker(&waker);
            // Receivers.
            let (sender, receiver) = bounded::<usize>(1);
            let mut receives: Vec<_> = (0..count).map(|_| receiver.recv()).collect::<Box<[_]>>().into();
            let pinned = |receive: &mut Recv<'_, usize>, cx: &mut Context<'_>| {
                // SAFETY: the boxed slice is not moved before it is dropped.
                std::future::Future::poll(unsafe { std::pin::Pin::new_unchecked(receive) }, cx)
            };
            receives
                .iter_mut()
                .for_each(|receive: &mut Recv<'_, _>| assert!(pinned(receive, &mut cx).is_pending()));
            sender.close();
            assert_eq!(wakes.0.load(SeqCst), count);
            assert!(receives.iter_mut().all(|receive| pinned(receive, &mut cx) == Poll::Ready(Err(Closed))));
            drop(receives);
            drop(receiver);
            // Senders, which have their messages again; a quarter of them is dropped before, from anywhere in the queue.
            let (sender, receiver) = bounded::<usize>(1);
            sender.try_send(0).unwrap();
            let mut sends: Vec<_> = (0..count).map(|n| Some(Box::pin(sender.send(n)))).collect();
            sends.iter_mut().flatten().for_each(|send| assert!(send.as_mut().poll(&mut cx).is_pending()));
            sends.iter_mut().step_by(4).for_each(|send| *send = None);
            let woken = wakes.0.load(SeqCst);
            receiver.close();
            assert_eq!(wakes.0.load(SeqCst) - woken, count - count / 4);
            let given_back =
                sends.iter_mut().enumerate().filter_map(|(n, send)| Some((n, ready(send.as_mut()?))));
            assert!({ given_back }.all(|(n, ended)| ended == Err(SendError(n))));
            drop(sends);
            // Messages.
            let (sender, receiver) = unbounded();
            (0..count).for_each(|n| sender.try_send(n).unwrap());
            drop(receiver);
            assert_eq!(sender.len(), 0);
        });
    });
}
