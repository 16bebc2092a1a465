//! Oneshots, on the heap and in a slot: the message is received or given back, and each side learns that the other has ended.

use crate::kit::alloc::allocations;
use crate::kit::poll::{panics, pending, poll, ready};
use crate::kit::scaled;
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tasuki::channel::oneshot::Slot;
use tasuki::channel::{TryRecvError, oneshot};
use tasuki::{Closed, Elapsed};

struct Message(Arc<AtomicUsize>);

impl Drop for Message {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_message_is_received_or_given_back() {
    let (sender, mut receiver) = oneshot();
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(sender.send(1), Ok(()));
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed), "once");
    let (sender, receiver) = oneshot();
    drop(receiver);
    assert!(sender.is_closed());
    assert_eq!(sender.send(2), Err(2));
    let (sender, mut receiver) = oneshot();
    assert!(receiver.close());
    assert!(!receiver.close(), "told before");
    assert_eq!((sender.send(3), receiver.try_recv()), (Err(3), Err(TryRecvError::Closed)));
    let (sender, mut receiver) = oneshot();
    assert_eq!(sender.send(4), Ok(()));
    assert!(!receiver.close(), "it has sent");
    assert_eq!(receiver.recv().block(), Ok(4), "sent before the close");
}

#[test]
fn a_reply_that_never_comes_is_an_error() {
    let (sender, receiver) = oneshot::<u8>();
    let spy = Spy::new();
    let mut receive = Box::pin(receiver.into_future());
    pending(&mut receive, &spy);
    drop(sender);
    assert_eq!((spy.wakes(), ready(&mut receive)), (1, Err(Closed)));
}

#[test]
fn a_sender_is_told_that_it_may_stop() {
    for close in [false, true] {
        let (sender, mut receiver) = oneshot::<u8>();
        let spy = Spy::new();
        let mut closed = Box::pin(sender.closed());
        pending(&mut closed, &spy);
        if close {
            receiver.close();
        } else {
            drop(receiver);
        }
        assert_eq!(spy.wakes(), 1);
        ready(&mut closed);
        drop(closed);
        assert_eq!(sender.send(1), Err(1));
    }
}

/// In every state: before the message, with it granted and not claimed, after it.
#[test]
fn a_dropped_receive_loses_nothing() {
    let (sender, mut receiver) = oneshot();
    let spy = Spy::new();
    let mut receive = Box::pin(receiver.recv_mut());
    pending(&mut receive, &spy);
    drop(receive);
    let mut receive = Box::pin(receiver.recv_mut());
    pending(&mut receive, &spy);
    sender.send(1).unwrap();
    drop(receive);
    assert_eq!(receiver.recv_mut().timeout(Duration::ZERO).block(), Ok(Ok(1)));
    assert_eq!(receiver.recv_mut().block(), Err(Closed));
    assert_eq!(spy.alive(), 0);
    let (_sender, mut receiver) = oneshot::<u8>();
    assert_eq!(receiver.recv_mut().timeout(Duration::ZERO).block(), Err(Elapsed));
}

/// Every order of ends: each message is dropped once, and what is allocated is one block.
#[test]
fn every_order_of_ends() {
    let drops = Arc::new(AtomicUsize::new(0));
    let message = || Message(drops.clone());
    let (count, ()) = allocations(|| {
        let (sender, receiver) = oneshot();
        assert!(sender.send(message()).is_ok());
        drop(receiver);
        let (sender, receiver) = oneshot();
        drop(receiver);
        drop(sender.send(message()));
        let (sender, receiver) = oneshot::<Message>();
        drop(sender);
        drop(receiver);
        let (sender, receiver) = oneshot::<Message>();
        drop(receiver);
        drop(sender);
        let (sender, receiver) = oneshot();
        assert!(sender.send(message()).is_ok());
        drop(receiver.recv());
        let (sender, mut receiver) = oneshot();
        receiver.close();
        drop(receiver);
        drop(sender.send(message()));
    });
    assert_eq!((drops.load(SeqCst), count), (4, 6));
}

#[test]
fn a_slot_is_used_again_without_an_allocation() {
    let mut slot = Slot::new();
    let drops = Arc::new(AtomicUsize::new(0));
    let (count, ()) = allocations(|| {
        for round in 0..6 {
            let (sender, mut receiver) = slot.split();
            match round % 3 {
                0 => assert!(sender.send(Message(drops.clone())).is_ok() && receiver.try_recv().is_ok()),
                1 => assert!(sender.send(Message(drops.clone())).is_ok()),
                _ => {
                    drop(receiver);
                    drop(sender.send(Message(drops.clone())));
                }
            }
        }
    });
    assert_eq!((count, drops.load(SeqCst)), (0, 6));
    // Sides that are forgotten leave a message, which the next round drops.
    let (sender, receiver) = slot.split();
    assert!(sender.send(Message(drops.clone())).is_ok());
    std::mem::forget(receiver);
    drop(slot.split());
    assert_eq!(drops.load(SeqCst), 7);
}

/// Wakers that panic: the message has arrived, or the memory is freed all the same.
#[test]
fn wakers_that_panic() {
    let hostile = || Spy::hostile(Call::Wake, || panic!("a hostile waker"));
    let (sender, receiver) = oneshot();
    let spy = hostile();
    let mut receive = Box::pin(receiver.recv());
    pending(&mut receive, &spy);
    spy.arm(1);
    assert!(panics(|| sender.send(1)));
    assert_eq!(ready(&mut receive), Ok(1));
    let (sender, receiver) = oneshot::<u8>();
    let spy = hostile();
    let mut closed = Box::pin(sender.closed());
    pending(&mut closed, &spy);
    spy.arm(1);
    assert!(panics(|| drop(receiver)));
    drop(closed);
    assert_eq!(sender.send(1), Err(1));
}

#[test]
fn a_waker_is_replaced() {
    let (sender, receiver) = oneshot();
    let (first, second) = (Spy::new(), Spy::new());
    let mut receive = Box::pin(receiver.recv());
    pending(&mut receive, &first);
    pending(&mut receive, &second);
    sender.send(1).unwrap();
    assert_eq!((first.wakes(), second.wakes()), (0, 1));
    assert!(poll(&mut receive, &second).is_ready());
    assert_eq!((first.alive(), second.alive()), (0, 0));
}

/// Between threads, with receivers that go at any time.
#[test]
fn between_threads() {
    let _dog = watchdog(120);
    let drops = Arc::new(AtomicUsize::new(0));
    let rounds = scaled(2_000, 20);
    for round in 0..rounds {
        let (sender, receiver) = oneshot();
        let message = Message(drops.clone());
        let other = std::thread::spawn(move || drop(sender.send(message)));
        match round % 3 {
            0 => assert!(receiver.recv().block().is_ok()),
            1 => drop(receiver),
            _ => drop(receiver.recv().timeout(Duration::from_micros(10)).block()),
        }
        other.join().unwrap();
    }
    assert_eq!(drops.load(SeqCst), rounds);
}
