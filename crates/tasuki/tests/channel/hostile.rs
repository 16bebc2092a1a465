//! Receives that are forgotten, receives that a limit ends while foreign code panics, wakers that panic, and wakers that use the channel: the channel goes on.

use crate::kit::alloc::{forget, leak};
use crate::kit::driver::FakeDriver;
use crate::kit::poll::{catch, panic_of, panics, pending, poll, ready};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tasuki::channel::oneshot::Slot;
use tasuki::channel::{Channel, Receiver, TryRecvError, TrySendError, bounded, oneshot};
use tasuki::{CancellationSource, Closed, runtime};

/// A receive of a oneshot is in its queue for ever. The next one takes its place.
#[test]
fn a_forgotten_receive_of_a_oneshot_is_replaced() {
    let _dog = watchdog(20);
    let (sender, mut receiver) = oneshot();
    let spies = Spy::many::<3>();
    for spy in &spies[..2] {
        let mut forgotten = Box::pin(receiver.recv_mut());
        pending(&mut forgotten, spy);
        forget(forgotten);
    }
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    let mut receive = Box::pin(receiver.recv());
    pending(&mut receive, &spies[2]);
    sender.send(1).unwrap();
    assert_eq!(spies.each_ref().map(Spy::wakes), [0, 0, 1]);
    assert_eq!(ready(&mut receive), Ok(1));
}

/// A receive of a channel is forgotten while it waits: it is granted a message like any other, keeps that and its room, and nothing else. The others go on, also after it, in their order.
#[test]
fn a_forgotten_receive_of_a_channel_keeps_one_message() {
    let _dog = watchdog(20);
    let (sender, receiver) = bounded(2);
    let mut forgotten = Box::pin(receiver.recv());
    pending(&mut forgotten, &Spy::new());
    forget(forgotten);
    let mut receive = Box::pin(receiver.recv());
    pending(&mut receive, &Spy::new());
    sender.try_send(1).unwrap();
    sender.try_send(2).unwrap();
    assert_eq!(ready(&mut receive), Ok(2));
    sender.try_send(3).unwrap();
    assert_eq!(sender.try_send(4), Err(TrySendError::Full(4)), "one of two rooms is kept");
    let mut waits = Box::pin(sender.send(4));
    pending(&mut waits, &Spy::new());
    assert_eq!((receiver.try_recv(), ready(&mut waits)), (Ok(3), Ok(())));
    assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(4), Err(TryRecvError::Empty)));
}

/// A receiver whose receive was forgotten can close, be dropped, and be made again.
#[test]
fn a_forgotten_receive_of_a_oneshot_keeps_no_side_from_ending() {
    let mut slot = Slot::new();
    let (mut closes, mut drops) = (true, false);
    for _ in 0..4 {
        let (sender, mut receiver) = slot.split();
        let mut forgotten = Box::pin(receiver.recv_mut());
        pending(&mut forgotten, &Spy::new());
        forget(forgotten);
        if closes {
            receiver.close();
        }
        let receiver = (!drops).then_some(receiver);
        assert_eq!(sender.is_closed(), closes || drops);
        assert_eq!(sender.send(1).is_err(), closes || drops);
        if let Some(mut receiver) = receiver {
            assert_eq!(receiver.try_recv().ok(), (!closes).then_some(1));
        }
        (closes, drops) = (drops, !closes);
    }
}

/// Polls a receive of a channel for one message, with a limit that is reached in the middle of the poll, behind a grant and before the sender that waits for the room,
/// whose waker panics: nothing is lost, and the room is there again.
fn is_cancelled_while_a_sender_panics<F: Future>(
    receive: impl FnOnce(&'static Channel<u8, 1>, &'static CancellationSource) -> F,
) {
    let channel: &'static Channel<u8, 1> = leak(Default::default());
    let source: &'static CancellationSource = leak(Default::default());
    let (sender, panicking) =
        (Arc::new(Mutex::new(None)), Arc::new(Spy::hostile(Call::Wake, || panic!("a waker"))));
    let mut receive = Box::pin(receive(channel, source));
    pending(&mut receive, &Spy::new());
    let clones = AtomicUsize::new(0);
    let hook = {
        let (sender, panicking) = (sender.clone(), panicking.clone());
        move || {
            // The first is for the receive, the second for its limit.
            if clones.fetch_add(1, SeqCst) == 1 {
                channel.try_send(1).unwrap();
                let mut send = Box::pin(channel.send(2));
                pending(&mut send, &panicking);
                panicking.arm(1);
                *sender.lock().unwrap() = Some(send);
                source.request_cancel();
            }
        }
    };
    let spy = Spy::hostile(Call::Clone, hook);
    spy.arm(2);
    assert!(panics(|| poll(&mut receive, &spy)) && panicking.fired());
    drop(receive);
    ready(sender.lock().unwrap().as_mut().unwrap()).unwrap();
    assert_eq!([channel.try_recv(), channel.try_recv()], [Ok(1), Ok(2)]);
    assert_eq!((channel.len(), channel.try_send(3)), (0, Ok(())));
    channel.close();
    assert_eq!([channel.try_recv(), channel.try_recv()], [Ok(3), Err(TryRecvError::Closed)]);
}

#[test]
fn a_cancelled_receive_whose_claim_panics_gives_its_message_back() {
    is_cancelled_while_a_sender_panics(|channel, source| {
        let token: &'static _ = leak(source.token());
        channel.recv().or_cancelled(token)
    });
}

/// A poll sends the message and then panics; in the next one the send yields, and the limit is reached: it has sent.
#[test]
fn a_limit_does_not_end_a_send_that_has_sent() {
    let (sender, receiver) = bounded(1);
    let source = CancellationSource::new();
    let token = source.token();
    sender.try_send(1).unwrap();
    let (spy, other) = (Spy::hostile(Call::Drop, || panic!("a waker")), receiver.clone());
    spy.on(Call::Clone, move || assert_eq!(other.try_recv(), Ok(1), "makes room"));
    let mut send = Box::pin(sender.send(2).or_cancelled(&token));
    spy.arm(2);
    assert_eq!(panic_of(|| poll(&mut send, &spy)), "a waker");
    source.request_cancel();
    // The send yields, and the limit need not.
    let yields = Spy::hostile(Call::WakeByRef, || runtime::set_budget(1));
    yields.arm(1);
    let sent = runtime::enter(&FakeDriver::new(), || {
        runtime::set_budget(0);
        poll(&mut send, &yields)
    });
    assert!(yields.fired() && matches!(sent, Poll::Ready(Ok(Ok(())))), "{sent:?}");
    assert_eq!(receiver.try_recv(), Ok(2));
}

/// The same for a receive of many: it took messages and then panicked, and the limit does not hide that they are in the buffer.
#[test]
fn a_limit_does_not_end_a_receive_of_many_that_has_received() {
    let (sender, receiver) = bounded(2);
    let source = CancellationSource::new();
    let token = source.token();
    let (spy, other) = (Spy::hostile(Call::Drop, || panic!("a waker")), sender.clone());
    spy.on(Call::Clone, move || assert_eq!(other.try_send(1), Ok(())));
    let mut buffer = Vec::new();
    let mut receive = Box::pin(receiver.recv_many(&mut buffer, 8).or_cancelled(&token));
    spy.arm(2);
    assert_eq!(panic_of(|| poll(&mut receive, &spy)), "a waker");
    source.request_cancel();
    assert_eq!(sender.try_send(2), Ok(()), "what it would be ready for");
    // The receive yields, and the limit need not.
    let yields = Spy::hostile(Call::WakeByRef, || runtime::set_budget(1));
    yields.arm(1);
    let received = runtime::enter(&FakeDriver::new(), || {
        runtime::set_budget(0);
        poll(&mut receive, &yields)
    });
    assert!(yields.fired() && matches!(received, Poll::Ready(Ok(Ok(1)))), "{received:?}");
    drop(receive);
    assert_eq!((buffer, receiver.try_recv()), (vec![1], Ok(2)));
}

/// A cancelled receive of many whose claim panics: its buffer has nothing then.
#[test]
fn a_cancelled_receive_of_many_whose_claim_panics_gives_its_message_back() {
    let (sender, receiver) = bounded(1);
    let source: &'static CancellationSource = leak(Default::default());
    let token = source.token();
    let panicking = Arc::new(Spy::hostile(Call::Wake, || panic!("a waker")));
    let mut buffer = Vec::new();
    let mut receive = Box::pin(receiver.recv_many(&mut buffer, 8).or_cancelled(&token));
    pending(&mut receive, &Spy::new());
    let (clones, waits) = (AtomicUsize::new(0), Arc::new(Mutex::new(None)));
    let hook = {
        let (waits, panicking) = (waits.clone(), panicking.clone());
        move || {
            if clones.fetch_add(1, SeqCst) == 1 {
                sender.try_send(1).unwrap();
                let mut reserve = Box::pin(sender.clone().reserve_owned());
                pending(&mut reserve, &panicking);
                panicking.arm(1);
                *waits.lock().unwrap() = Some(reserve);
                source.request_cancel();
            }
        }
    };
    let spy = Spy::hostile(Call::Clone, hook);
    spy.arm(2);
    assert!(panics(|| poll(&mut receive, &spy)) && panicking.fired());
    drop(receive);
    assert_eq!((buffer.len(), receiver.try_recv()), (0, Ok(1)));
    let permit = ready(waits.lock().unwrap().as_mut().unwrap()).unwrap();
    let sender = permit.send(2).unwrap();
    assert_eq!((receiver.try_recv(), sender.try_send(3)), (Ok(2), Ok(())));
}

/// A waker that sends and receives between two batches of wakers, while a message is pending beside a receiver that waits: neither overtakes.
#[test]
fn newcomers_between_two_batches_wait_their_turn() {
    let (sender, receiver) = bounded(64);
    let permits = sender.try_reserve_many(64).unwrap();
    // With the reservation in front, the first batch of 32 ends with a message that is pending: one wake, then two for each message.
    let mut reservation = Box::pin(sender.reserve());
    pending(&mut reservation, &Spy::new());
    let mut sends: Vec<_> = (0..16).map(|n| Box::pin(sender.send(n))).collect();
    sends.iter_mut().for_each(|send| pending(send, &Spy::new()));
    let seen = Arc::new(Mutex::new(None));
    let hook = {
        let (sender, receiver, seen) = (sender.clone(), receiver.clone(), seen.clone());
        move || *seen.lock().unwrap() = Some((sender.try_send(99), receiver.try_recv()))
    };
    let (first, others) = (Spy::hostile(Call::Wake, hook), Spy::new());
    first.arm(1);
    let mut receives: Vec<_> = (0..17).map(|_| Box::pin(receiver.recv())).collect();
    for (n, receive) in receives.iter_mut().enumerate() {
        pending(receive, if n == 0 { &first } else { &others });
    }
    drop(permits);
    assert_eq!(seen.lock().unwrap().take(), Some((Ok(()), Err(TryRecvError::Empty))));
    let received: Vec<_> = receives.iter_mut().map(|receive| ready(receive).unwrap()).collect();
    assert_eq!(received, (0..16).chain([99]).collect::<Vec<_>>());
    sends.iter_mut().for_each(|send| ready(send).unwrap());
    drop(ready(&mut reservation));
}

/// A close that wakes more receivers than one batch: between two batches the channel can be used, and a receive that has not been reached can be dropped.
#[test]
fn others_get_in_while_a_close_wakes_many() {
    let (sender, receiver) = bounded::<u8>(1);
    let receiver: &'static Receiver<u8> = leak(receiver);
    let (waits, seen) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(None)));
    let hook = {
        let (waits, seen, sender) = (waits.clone(), seen.clone(), sender.clone());
        move || {
            let last = waits.lock().unwrap().pop();
            drop(last);
            *seen.lock().unwrap() = Some((sender.is_closed(), sender.len(), receiver.try_recv()));
        }
    };
    let spies: Vec<_> =
        [Spy::hostile(Call::Wake, hook)].into_iter().chain((1..100).map(|_| Spy::new())).collect();
    spies[0].arm(1);
    for spy in &spies {
        let mut wait = Box::pin(receiver.recv());
        pending(&mut wait, spy);
        waits.lock().unwrap().push(wait);
    }
    assert!(sender.close());
    assert_eq!(seen.lock().unwrap().take(), Some((true, 0, Err(TryRecvError::Closed))));
    let wakes: Vec<_> = spies.iter().map(Spy::wakes).collect();
    assert!(wakes[..99].iter().all(|wakes| *wakes == 1) && wakes[99] == 0, "{wakes:?}");
    let mut waits = waits.lock().unwrap();
    assert!(waits.len() == 99 && waits.iter_mut().all(|wait| ready(wait).is_err()));
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

/// A receive of a channel without an allocation panics because the waker of a sender does, in which another receive has panicked the same way: that one's message has the spare slot, and this one's is
/// dropped with its panic, once, whatever its destructor does.
#[test]
fn a_second_message_without_a_slot_is_dropped_with_its_panic() {
    struct Message(u8, Arc<Mutex<Vec<u8>>>);
    impl Drop for Message {
        fn drop(&mut self) {
            self.1.lock().unwrap().push(self.0);
            assert_ne!(self.0, 1, "a hostile message");
        }
    }
    let drops = Arc::new(Mutex::new(Vec::new()));
    let message = |number| Message(number, drops.clone());
    let channel: &'static Channel<Message, 2> = leak(Default::default());
    let mut outer = Box::pin(channel.recv());
    pending(&mut outer, &Spy::new());
    let inner = Arc::new(Mutex::new(Box::pin(channel.recv())));
    pending(&mut inner.lock().unwrap(), &Spy::new());
    (1..3).for_each(|number| assert!(channel.try_send(message(number)).is_ok()));
    let mut sends = [3, 4].map(|number| Box::pin(channel.send(message(number))));
    let second = Spy::hostile(Call::Wake, || panic!("a hostile waker"));
    let first = Spy::hostile(Call::Wake, {
        let inner = inner.clone();
        move || {
            assert!(panics(|| poll(&mut inner.lock().unwrap(), &Spy::new())));
            panic!("a hostile waker");
        }
    });
    for (send, spy) in sends.iter_mut().zip([&first, &second]) {
        pending(send, spy);
        spy.arm(1);
    }
    assert!(panics(|| poll(&mut outer, &Spy::new())) && first.fired() && second.fired());
    assert_eq!(*drops.lock().unwrap(), [1]);
    assert!(sends.iter_mut().all(|send| ready(send).is_ok()));
    assert!(panic_of(|| poll(&mut outer, &Spy::new())).contains("polled after it was finished"));
    drop(outer);
    assert_eq!(
        ready(&mut inner.lock().unwrap_or_else(PoisonError::into_inner)).map(|message| message.0),
        Ok(2)
    );
    let rest = [channel.try_recv(), channel.try_recv()].map(|received| received.map(|message| message.0));
    assert_eq!((rest, channel.len()), ([Ok(3), Ok(4)], 0));
    assert!(channel.try_send(message(5)).is_ok());
}

/// The waker of a receiver that is refused panics in the claim of the last message, which is then with its receive again; dropped there, it is the next message, though another receiver has been told that none comes.
#[test]
fn a_refused_receiver_whose_waker_panics() {
    let (sender, receiver) = bounded(1);
    let spy = Spy::hostile(Call::Wake, || panic!("a hostile waker"));
    let (mut granted, mut refused) = (Box::pin(receiver.recv()), Box::pin(receiver.recv()));
    pending(&mut granted, &Spy::new());
    pending(&mut refused, &spy);
    sender.try_send(1).unwrap();
    drop(sender);
    spy.arm(1);
    assert!(panics(|| poll(&mut granted, &Spy::new())) && spy.fired());
    assert_eq!(ready(&mut refused), Err(Closed));
    drop(granted);
    assert_eq!([receiver.try_recv(), receiver.try_recv()], [Ok(1), Err(TryRecvError::Closed)]);
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
