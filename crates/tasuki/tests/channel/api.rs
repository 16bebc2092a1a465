//! Channels: order, closing, cancelling in every state, limits that give messages back, permits, bad input, hostile wakers and messages, memory.

use crate::kit::alloc::allocations;
use crate::kit::fixture::{Wakes, on_a_small_stack};
use crate::kit::poll::{catch, panic_of, panics, pending, poll, ready};
use crate::kit::scaled;
use crate::kit::traits::{Both, Neither, SendOnly, SyncOnly, traits};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tasuki::channel::oneshot::{self, OneshotRecv};
use tasuki::channel::rendezvous::{HandOver, TakeOver};
use tasuki::channel::{
    Channel, InlineRecv, InlineSend, OwnedPermit, Permit, Receiver, Recv, RecvMany, RecvOwned, Reservation,
    ReservationMany, ReservationOwned, Send, SendError, Sender, TryRecvError, TryReserveError, TrySendError,
    WeakSender, bounded, unbounded,
};
use tasuki::{CancellationSource, Cancelled, Closed, Elapsed, GivenBack};

/// Both kinds with handles.
fn each(test: impl Fn(Sender<u32>, Receiver<u32>)) {
    for (sender, receiver) in [bounded(8), unbounded()] {
        test(sender, receiver);
    }
}

#[test]
fn first_in_first_out() {
    each(|sender, receiver| {
        for round in 0..100 {
            (0..round % 8).for_each(|n| sender.try_send(n).unwrap());
            assert_eq!(receiver.try_iter().collect::<Vec<_>>(), (0..round % 8).collect::<Vec<_>>());
        }
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    });
}

#[test]
fn what_was_sent_is_there_after_a_close() {
    each(|sender, receiver| {
        sender.try_send(1).unwrap();
        sender.try_send(2).unwrap();
        assert!(receiver.close() && !sender.close());
        assert_eq!(sender.try_send(3), Err(TrySendError::Closed(3)));
        assert_eq!(sender.send(3).block(), Err(SendError(3)));
        assert_eq!(receiver.recv().block(), Ok(1));
        assert_eq!(receiver.try_recv(), Ok(2));
        assert_eq!(receiver.recv().block(), Err(Closed));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    });
}

#[test]
fn the_last_handle_of_a_side_closes() {
    each(|sender, receiver| {
        let (other, weak) = (sender.clone(), sender.downgrade());
        drop(sender);
        assert!(!receiver.is_closed() && weak.upgrade().is_some());
        drop(other);
        assert!(receiver.is_closed() && weak.upgrade().is_none());
        assert_eq!(receiver.recv().block(), Err(Closed));
    });
    each(|sender, receiver| {
        let weak = receiver.downgrade();
        let mut closed = Box::pin(sender.closed());
        let spy = Spy::new();
        pending(&mut closed, &spy);
        let other = weak.upgrade().unwrap();
        drop((receiver, other));
        assert_eq!(spy.wakes(), 1);
        ready(&mut closed);
        assert!(weak.upgrade().is_none());
        assert_eq!(sender.try_send(1), Err(TrySendError::Closed(1)));
    });
}

#[test]
fn a_channel_is_itself_and_no_other() {
    let (one, other) = (bounded::<u8>(1), bounded::<u8>(1));
    assert!(one.0.same_channel(&one.0.clone()) && !one.0.same_channel(&other.0));
    assert!(one.1.same_channel(&one.1.clone()) && !one.1.same_channel(&other.1));
    assert_eq!((one.0.capacity(), unbounded::<u8>().0.capacity()), (Some(1), None));
}

/// Senders are served in order, and no newcomer overtakes them, though there is room for a moment.
#[test]
fn waiting_senders_go_in_order() {
    let (sender, receiver) = bounded(1);
    sender.try_send(0).unwrap();
    let spies = Spy::many::<3>();
    let mut sends: Vec<_> = (1..4).map(|n| Box::pin(sender.send(n))).collect();
    sends.iter_mut().zip(&spies).for_each(|(send, spy)| pending(send, spy));
    for expected in 0..4 {
        assert_eq!(sender.try_send(9), Err(TrySendError::Full(9)));
        assert_eq!(receiver.try_recv(), Ok(expected));
    }
    assert!(spies.iter().all(|spy| spy.wakes() == 1 && spy.alive() == 0));
    sends.iter_mut().for_each(|send| assert_eq!(ready(send), Ok(())));
}

/// Receivers are served in order, and no newcomer overtakes them.
#[test]
fn waiting_receivers_go_in_order() {
    each(|sender, receiver| {
        let spies = Spy::many::<3>();
        let mut receives: Vec<_> = (0..3).map(|_| Box::pin(receiver.recv())).collect();
        receives.iter_mut().zip(&spies).for_each(|(receive, spy)| pending(receive, spy));
        for n in 0..3 {
            sender.try_send(n).unwrap();
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        }
        for (n, receive) in receives.iter_mut().enumerate().rev() {
            assert_eq!(ready(receive), Ok(n as u32));
        }
        assert!(spies.iter().all(|spy| spy.wakes() == 1 && spy.alive() == 0));
    });
}

/// A granted message counts against the capacity until it is claimed; a dropped receive gives it to the next, or it is the first again.
#[test]
fn a_granted_message_is_never_lost() {
    let (sender, receiver) = bounded(2);
    let spy = Spy::new();
    let mut receives: Vec<_> = (0..3).map(|_| Box::pin(receiver.recv())).collect();
    receives.iter_mut().for_each(|receive| pending(receive, &spy));
    sender.try_send(1).unwrap();
    sender.try_send(2).unwrap();
    assert_eq!((sender.len(), sender.try_send(3)), (2, Err(TrySendError::Full(3))));
    drop(receives.remove(0));
    assert_eq!(ready(&mut receives[1]), Ok(1), "passed on");
    sender.try_send(3).unwrap();
    drop(receives);
    assert_eq!(sender.len(), 2);
    assert_eq!([receiver.try_recv(), receiver.try_recv()], [Ok(2), Ok(3)], "put back, in front");
}

/// Whatever the order of the drops, those that were put back are in order, before all others.
#[test]
fn messages_are_put_back_in_order() {
    for order in 0..24 {
        let (sender, receiver) = bounded(8);
        let spy = Spy::new();
        let mut receives: Vec<_> = (0..4).map(|_| Box::pin(receiver.recv())).collect();
        receives.iter_mut().for_each(|receive| pending(receive, &spy));
        (0..6).for_each(|n| sender.try_send(n).unwrap());
        let mut left = order;
        for count in (1..=4).rev() {
            drop(receives.remove(left % count));
            left /= count;
        }
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5], "order {order}");
    }
}

#[test]
fn a_closed_channel_waits_for_what_is_granted_or_reserved() {
    let (sender, receiver) = bounded(2);
    let (spy, other) = (Spy::new(), Spy::new());
    let mut granted = Box::pin(receiver.recv());
    pending(&mut granted, &spy);
    sender.try_send(1).unwrap();
    let permit = sender.try_reserve().unwrap();
    sender.close();
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    let mut waits = Box::pin(receiver.recv());
    pending(&mut waits, &other);
    drop(granted);
    assert_eq!(ready(&mut waits), Ok(1));
    let mut waits = Box::pin(receiver.recv());
    pending(&mut waits, &other);
    permit.send(2).unwrap();
    assert_eq!(ready(&mut waits), Ok(2));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
}

#[test]
fn limits_give_the_message_back() {
    let (sender, receiver) = bounded(1);
    sender.try_send(1).unwrap();
    let ended = sender.send(2).timeout(Duration::ZERO).block();
    assert_eq!(ended, Err(GivenBack { limit: Elapsed, value: 2 }));
    let source = CancellationSource::new();
    let token = source.token();
    let mut send = Box::pin(sender.send(3).timeout(Duration::MAX).or_cancelled(&token));
    pending(&mut send, &Spy::new());
    source.request_cancel();
    assert_eq!(ready(&mut send), Err(GivenBack { limit: Cancelled, value: 3 }));
    // What was granted before the limit is not lost by it.
    let mut send = Box::pin(sender.send(4).timeout(Duration::MAX));
    pending(&mut send, &Spy::new());
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(ready(&mut send), Ok(Ok(())));
    assert_eq!(receiver.recv().timeout(Duration::ZERO).block(), Ok(Ok(4)));
    assert_eq!(receiver.recv().timeout(Duration::ZERO).block(), Err(Elapsed));
    let mut receive = Box::pin(receiver.recv().or_cancelled(&token));
    assert_eq!(ready(&mut receive), Err(Cancelled));
}

#[test]
fn cancel_says_whether_it_went() {
    let (sender, receiver) = bounded(1);
    let new = Box::pin(sender.send(0));
    assert_eq!({ new }.as_mut().cancel(), Some(0), "never polled");
    let mut sent = Box::pin(sender.send(1));
    assert_eq!((ready(&mut sent), sent.as_mut().cancel()), (Ok(()), None));
    let (mut granted, mut waiting) = (Box::pin(sender.send(2)), Box::pin(sender.send(3)));
    pending(&mut granted, &Spy::new());
    pending(&mut waiting, &Spy::new());
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!((granted.as_mut().cancel(), waiting.as_mut().cancel()), (None, Some(3)));
    assert_eq!(waiting.as_mut().cancel(), None, "once");
    assert_eq!(receiver.try_recv(), Ok(2));
    assert!(panic_of(|| poll(&mut waiting, &Spy::new())).contains("Send"));
}

#[test]
fn many_at_once() {
    let (sender, receiver) = bounded(100);
    let mut buffer = Vec::new();
    assert_eq!(receiver.recv_many(&mut buffer, 0).block(), Ok(0));
    (0..100).for_each(|n| sender.try_send(n).unwrap());
    let mut late = Box::pin(sender.send(100));
    pending(&mut late, &Spy::new());
    assert_eq!(receiver.recv_many(&mut buffer, 70).block(), Ok(70));
    assert_eq!(receiver.recv_many(&mut buffer, 70).block(), Ok(31));
    assert_eq!(buffer, (0..101).collect::<Vec<_>>());
    let (spy, mut more) = (Spy::new(), Vec::new());
    let mut many = Box::pin(receiver.recv_many(&mut more, 10));
    pending(&mut many, &spy);
    sender.try_send(1).unwrap();
    sender.try_send(2).unwrap();
    assert_eq!((spy.wakes(), ready(&mut many)), (1, Ok(2)));
    drop(many);
    assert_eq!(more, [1, 2]);
    let mut many = Box::pin(receiver.recv_many(&mut more, 10));
    pending(&mut many, &spy);
    sender.try_send(3).unwrap();
    drop(many);
    assert_eq!((receiver.try_recv(), more.len()), (Ok(3), 2), "dropped, and nothing is lost");
    sender.close();
    assert_eq!(receiver.recv_many(&mut more, 1).block(), Err(Closed));
}

#[test]
fn permits() {
    let (sender, receiver) = bounded(2);
    let permits = sender.try_reserve_many(2).unwrap();
    assert_eq!((sender.try_reserve().unwrap_err(), sender.len()), (TryReserveError::Full, 0));
    let mut send = Box::pin(sender.send(9));
    let spy = Spy::new();
    pending(&mut send, &spy);
    let mut permits = permits;
    permits.next().unwrap().send(1).unwrap();
    drop(permits);
    assert_eq!((spy.wakes(), ready(&mut send)), (1, Ok(())));
    assert_eq!([receiver.try_recv(), receiver.try_recv()], [Ok(1), Ok(9)]);
    // A big request is not overtaken by a small one behind it, and lets it through when it is dropped.
    sender.try_send(1).unwrap();
    let (mut big, mut small) = (Box::pin(sender.reserve_many(2)), Box::pin(sender.send(2)));
    pending(&mut big, &spy);
    pending(&mut small, &spy);
    drop(big);
    assert_eq!(ready(&mut small), Ok(()));
    assert_eq!([receiver.try_recv(), receiver.try_recv()], [Ok(1), Ok(2)]);
    let owned: OwnedPermit<u32> = sender.clone().try_reserve_owned().unwrap();
    assert!(owned.release().same_channel(&sender));
    let owned = sender.clone().reserve_owned().block().unwrap();
    let permit = sender.try_reserve().unwrap();
    drop(receiver);
    assert_eq!(permit.send(1), Err(SendError(1)), "no receiver is left");
    assert_eq!(owned.send(2).unwrap_err(), SendError(2));
    assert_eq!(sender.reserve().block().unwrap_err(), Closed);
}

/// A permit that is forgotten keeps its room, and nothing else.
#[test]
fn a_forgotten_permit() {
    let (sender, receiver) = bounded(2);
    std::mem::forget(sender.try_reserve().unwrap());
    sender.try_send(1).unwrap();
    assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
    assert_eq!(receiver.try_recv(), Ok(1));
}

#[test]
fn bad_input_says_what_to_do() {
    assert!(panic_of(|| bounded::<u8>(0)).contains("rendezvous"));
    assert!(panic_of(|| bounded::<u8>(usize::MAX)).contains("smaller capacity"));
    let (sender, _receiver) = bounded::<u8>(3);
    assert!(panic_of(|| sender.reserve_many(4)).contains("room for 3"));
    assert!(panic_of(|| sender.try_reserve_many(usize::MAX)).contains("room for 3"));
    assert_eq!(sender.try_reserve_many(3).unwrap().len(), 3);
}

#[test]
fn messages_of_any_size() {
    let (sender, receiver) = bounded::<()>(3);
    (0..3).for_each(|_| sender.try_send(()).unwrap());
    assert_eq!((sender.try_send(()), receiver.try_iter().count()), (Err(TrySendError::Full(())), 3));
    let big = std::thread::Builder::new().stack_size(64 << 20);
    let test = || {
        const SIZE: usize = if cfg!(miri) { 1 << 12 } else { 1 << 20 };
        let (sender, receiver) = bounded(2);
        sender.try_send([1u8; SIZE]).unwrap();
        assert!(sender.send([2u8; SIZE]).block().is_ok());
        let mut third = Box::pin(sender.send([3u8; SIZE]));
        pending(&mut third, &Spy::new());
        for n in 1..4 {
            assert!(receiver.try_recv().unwrap().iter().all(|byte| *byte == n));
        }
    };
    big.spawn(test).unwrap().join().unwrap();
}

/// Messages that must not leave their thread are sent on it.
#[test]
fn messages_of_one_thread() {
    let (sender, receiver) = bounded(1);
    let message = Rc::new(Cell::new(1));
    let mut receive = Box::pin(receiver.recv());
    pending(&mut receive, &Spy::new());
    sender.try_send(message.clone()).unwrap();
    ready(&mut receive).unwrap().set(2);
    assert_eq!((message.get(), Rc::strong_count(&message)), (2, 1));
}

#[test]
fn auto_traits_and_sizes() {
    assert_eq!(traits!(Sender<Both>), "SYU");
    assert_eq!(traits!(Sender<SendOnly>), "SYU");
    assert_eq!(traits!(Receiver<SendOnly>), "SYU");
    assert_eq!(traits!(Sender<SyncOnly>), "--U");
    assert_eq!(traits!(Receiver<Neither>), "--U");
    assert_eq!(traits!(WeakSender<SendOnly>), "SYU");
    assert_eq!(traits!(WeakSender<Neither>), "--U");
    assert_eq!(traits!(Send<'static, SendOnly>), "SY-");
    assert_eq!(traits!(Send<'static, Neither>), "---");
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
    let inspected = if tasuki::inspect::is_active() { 32 } else { 0 };
    // What is waited for has 16 bytes beside the waiter. A receive of many has its buffer and two numbers.
    macro_rules! fits {
        ($($limit:literal: $($future:ty),*;)*) => {
            $($(assert!(size_of::<$future>() <= $limit + inspected, "{}: {}", stringify!($future), size_of::<$future>());)*)*
        };
    }
    fits! {
        64: Send<'static, u64>, Recv<'static, u64>, Recv<'static, [u64; 100]>, RecvOwned<u64>, Reservation<'static, u64>, ReservationMany<'static, u64>, ReservationOwned<u64>,
            InlineSend<'static, u64, 4>, InlineRecv<'static, u64, 4>, HandOver<'static, u64>, TakeOver<'static, u64>, OneshotRecv<oneshot::Receiver<oneshot::Boxed<u64>>>;
        80: RecvMany<'static, u64>;
    }
}

/// One allocation a channel; none to send, wait, be granted, claim or cancel.
#[test]
fn waiting_allocates_nothing() {
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

/// An unbounded channel grows with its messages, and gives the memory back when it is empty.
#[test]
fn an_unbounded_channel_grows_and_shrinks() {
    let (sender, receiver) = unbounded();
    let count = scaled(100_000, 2_000);
    for _ in 0..2 {
        let (allocated, ()) = allocations(|| (0..count).for_each(|n| sender.try_send(n).unwrap()));
        assert!((1..64).contains(&allocated), "{allocated} allocations for {count} messages");
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), (0..count).collect::<Vec<_>>());
    }
    // What is kept is enough for the usual.
    let (allocated, ()) = allocations(|| {
        (0..1000).for_each(|n| sender.try_send(n).unwrap());
        assert_eq!(receiver.try_iter().count(), 1000);
    });
    assert_eq!(allocated, 0);
}

/// A message that counts its drops, panics in them, or does something else.
struct Hostile {
    drops: Arc<AtomicUsize>,
    deed: Option<Box<dyn Fn() + std::marker::Send>>,
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.drops.fetch_add(1, SeqCst);
        if let Some(deed) = &self.deed {
            deed();
        }
    }
}

/// The drop of a message panics: all others are dropped, and the panic goes on.
#[test]
fn a_message_whose_drop_panics() {
    let drops = Arc::new(AtomicUsize::new(0));
    fn misbehave() {
        panic!("a hostile message");
    }
    let hostile =
        |number| Hostile { drops: drops.clone(), deed: (number % 3 == 1).then(|| Box::new(misbehave) as _) };
    let (sender, receiver) = bounded(10);
    (0..10).for_each(|n| assert!(sender.try_send(hostile(n)).is_ok()));
    assert!(panics(|| drop(receiver)));
    assert_eq!(drops.load(SeqCst), 10);
    assert!(sender.is_closed());
    // With the channel itself.
    let channel = Channel::<Hostile, 10>::new();
    (0..10).for_each(|n| assert!(channel.try_send(hostile(n)).is_ok()));
    assert!(panics(|| drop(channel)));
    assert_eq!(drops.load(SeqCst), 20);
    // In a send that waits and is dropped: it is out of the queue.
    let (sender, receiver) = bounded(1);
    assert!(sender.try_send(hostile(0)).is_ok());
    let mut send = Box::pin(sender.send(hostile(1)));
    pending(&mut send, &Spy::new());
    assert!(panics(|| drop(send)));
    assert_eq!(drops.load(SeqCst), 21);
    drop(receiver.try_recv().ok().unwrap());
    assert!(sender.try_send(hostile(0)).is_ok(), "no sender waits");
}

/// The drop of a message uses the channel, and even lets go of its last handle.
#[test]
fn a_message_whose_drop_comes_back() {
    let drops = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = bounded(4);
    for _ in 0..4 {
        let (back, drops) = (sender.clone(), drops.clone());
        let deed = move || {
            assert!(back.is_closed() && back.is_empty());
            assert!(back.try_send(Hostile { drops: Arc::default(), deed: None }).is_err());
        };
        assert!(sender.try_send(Hostile { drops, deed: Some(Box::new(deed)) }).is_ok());
    }
    drop(sender);
    drop(receiver);
    assert_eq!(drops.load(SeqCst), 4);
}

/// The waker of a receiver panics in the send that wakes it: the message has been sent.
#[test]
fn a_receiver_whose_waker_panics() {
    let (sender, receiver) = bounded(1);
    let spy = Spy::hostile(Call::Wake, || panic!("a hostile waker"));
    let mut receive = Box::pin(receiver.recv());
    pending(&mut receive, &spy);
    spy.arm(1);
    assert!(panics(|| sender.try_send(1)));
    assert_eq!(ready(&mut receive), Ok(1));
    let mut receive = Box::pin(receiver.recv());
    pending(&mut receive, &spy);
    spy.arm(1);
    let mut send = Box::pin(sender.send(2));
    assert!(panics(|| poll(&mut send, &Spy::new())));
    assert_eq!(send.as_mut().cancel(), None, "it was sent");
    assert_eq!(ready(&mut receive), Ok(2));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
}

/// The waker of a sender panics in the receive that wakes it: the message is not lost with the panic.
#[test]
fn a_sender_whose_waker_panics() {
    let hostile = || Spy::hostile(Call::Wake, || panic!("a hostile waker"));
    // In a try, in a receive that need not wait, and in a claim that is polled again or dropped.
    for case in 0..4 {
        let (sender, receiver) = bounded(1);
        let (spy, calm) = (hostile(), Spy::new());
        let mut receive = Box::pin(receiver.recv());
        if case >= 2 {
            pending(&mut receive, &calm);
        }
        sender.try_send(1).unwrap();
        let mut send = Box::pin(sender.send(2));
        pending(&mut send, &spy);
        spy.arm(1);
        match case {
            0 => assert!(panics(|| receiver.try_recv())),
            _ => assert!(panics(|| poll(&mut receive, &calm))),
        }
        assert_eq!(ready(&mut send), Ok(()));
        if case == 2 {
            assert_eq!(ready(&mut receive), Ok(1), "polled again");
        } else {
            drop(receive);
            assert_eq!((receiver.len(), receiver.try_recv()), (2, Ok(1)), "in front again");
        }
        assert_eq!(sender.try_send(3), Err(TrySendError::Full(3)));
        assert_eq!(receiver.try_recv(), Ok(2));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        sender.try_send(4).unwrap();
        assert_eq!(sender.try_send(5), Err(TrySendError::Full(5)), "the capacity is what it was");
    }
}

/// Wakers that call everything, from inside every call.
#[test]
fn wakers_that_come_back() {
    let _dog = watchdog(60);
    for call in Call::ALL {
        let (sender, receiver) = bounded::<u32>(1);
        let spy = Spy::hostile(call, {
            let (sender, receiver) = (sender.clone(), receiver.clone());
            move || {
                let _ = (sender.try_send(7), receiver.try_recv(), sender.try_reserve(), sender.len());
                let _ = receiver.recv().timeout(Duration::ZERO).block();
                let _ = sender.send(8).timeout(Duration::ZERO).block();
            }
        });
        for _ in 0..3 {
            let (mut receive, mut again) = (Box::pin(receiver.recv()), Box::pin(receiver.recv()));
            spy.arm(1);
            let polled = poll(&mut receive, &spy);
            spy.arm(1);
            let _ = catch(|| poll(&mut again, &spy));
            spy.arm(1);
            let _ = sender.try_send(1);
            spy.arm(1);
            let mut send = Box::pin(sender.send(2));
            let _ = poll(&mut send, &spy);
            spy.arm(1);
            drop(again);
            spy.arm(1);
            if polled.is_pending() {
                let _ = poll(&mut receive, &spy);
            }
            drop((receive, send));
            receiver.try_iter().for_each(drop);
            assert_eq!((sender.len(), spy.alive()), (0, 0), "{call:?}");
            assert!(sender.try_send(3).is_ok() && receiver.try_recv() == Ok(3), "{call:?}");
        }
        spy.arm(1);
        receiver.close();
    }
}

/// A close of a channel with very many waiters or messages: neither recursion nor a lock that is held throughout.
#[test]
fn very_many() {
    let _dog = watchdog(300);
    on_a_small_stack(|| {
        let count = scaled(1_000_000, 200);
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
        // Messages.
        let (sender, receiver) = unbounded();
        (0..count).for_each(|n| sender.try_send(n).unwrap());
        drop(receiver);
        assert_eq!(sender.len(), 0);
    });
}

/// A channel inside a static, used by threads.
#[test]
fn a_static_channel() {
    static CHANNEL: Channel<u32, 2> = Channel::new();
    let _dog = watchdog(60);
    let sender = std::thread::spawn(|| {
        (0..scaled(10_000, 50) as u32).for_each(|n| CHANNEL.send(n).block().unwrap());
        CHANNEL.close();
    });
    let mut expected = 0;
    while let Ok(n) = CHANNEL.recv().block() {
        assert_eq!(n, expected);
        expected += 1;
    }
    sender.join().unwrap();
    assert_eq!(expected as usize, scaled(10_000, 50));
}

/// A channel without handles may be moved with its messages.
#[test]
fn a_channel_is_moved() {
    let channel = Channel::<String, 4>::new();
    channel.try_send("a".to_owned()).unwrap();
    channel.try_send("b".to_owned()).unwrap();
    let boxed = Box::new(channel);
    assert_eq!(boxed.try_recv().unwrap(), "a");
    let back = *boxed;
    back.try_send("c".to_owned()).unwrap();
    assert_eq!((back.try_recv().unwrap(), back.try_recv().unwrap(), back.len()), ("b".into(), "c".into(), 0));
    back.try_send("dropped with it".to_owned()).unwrap();
}

/// What the iterators of threads give.
#[test]
fn iterators() {
    let (sender, receiver) = bounded(4);
    (0..4).for_each(|n| sender.try_send(n).unwrap());
    assert_eq!(receiver.try_iter().take(1).collect::<Vec<_>>(), [0]);
    drop(sender);
    assert_eq!((&receiver).into_iter().take(2).collect::<Vec<_>>(), [1, 2]);
    let mut rest = receiver.into_iter();
    assert_eq!((rest.next(), rest.next(), rest.next()), (Some(3), None, None));
}
