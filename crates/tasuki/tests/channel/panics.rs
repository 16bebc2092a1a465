//! Channels whose messages and wakers are hostile: they panic, and they use the channel from inside its calls.

use crate::kit::poll::{catch, panics, pending, poll, ready};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tasuki::channel::{Channel, TryRecvError, TrySendError, bounded};

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
