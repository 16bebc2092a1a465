//! A hand-over without room: a send ends when its message was taken; cancelled at every moment on both sides.

use crate::kit::fixture::{Wakes, on_a_small_stack};
use crate::kit::poll::{panics, pending, poll, ready};
use crate::kit::scaled;
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Waker};
use std::time::Duration;
use tasuki::channel::{SendError, TryRecvError, rendezvous};
use tasuki::{Closed, Elapsed, GivenBack};

#[test]
fn a_send_ends_when_its_message_was_taken() {
    let (sender, receiver) = rendezvous();
    let (spy, other) = (Spy::new(), Spy::new());
    let mut send = Box::pin(sender.send(1));
    pending(&mut send, &spy);
    assert_eq!(spy.wakes(), 0);
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!((spy.wakes(), ready(&mut send)), (1, Ok(())));
    // The receiver first: it is woken, and the send ends with its poll.
    let mut receive = Box::pin(receiver.recv());
    pending(&mut receive, &other);
    let mut send = Box::pin(sender.send(2));
    pending(&mut send, &spy);
    assert_eq!(other.wakes(), 1);
    pending(&mut send, &spy);
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty), "it is another's");
    assert_eq!(ready(&mut receive), Ok(2));
    assert_eq!(ready(&mut send), Ok(()));
    assert_eq!((spy.alive(), other.alive()), (0, 0));
}

#[test]
fn both_sides_are_first_in_first_out() {
    let (sender, receiver) = rendezvous();
    let spies = Spy::many::<3>();
    let mut receives: Vec<_> = (0..3).map(|_| Box::pin(receiver.recv())).collect();
    receives.iter_mut().zip(&spies).for_each(|(receive, spy)| pending(receive, spy));
    let mut sends: Vec<_> = (0..4).map(|n| Box::pin(sender.send(n))).collect();
    for (n, send) in sends.iter_mut().enumerate() {
        pending(send, &Spy::new());
        let woken: Vec<_> = spies.iter().map(Spy::wakes).collect();
        assert_eq!(woken, [1, usize::from(n > 0), usize::from(n > 1)]);
    }
    assert_eq!(receiver.try_recv(), Ok(0), "one is for no other receiver: the first message goes first");
    for (n, receive) in receives.iter_mut().enumerate() {
        assert_eq!(ready(receive), Ok(n + 1));
    }
    sends.iter_mut().for_each(|send| assert_eq!(ready(send), Ok(())));
}

/// A woken receive is dropped: the next is woken. A sender is cancelled: its receiver waits on, in front.
#[test]
fn cancelled_on_either_side() {
    let (sender, receiver) = rendezvous();
    let spies = Spy::many::<3>();
    let mut receives: Vec<_> = (0..3).map(|_| Box::pin(receiver.recv())).collect();
    receives.iter_mut().zip(&spies).for_each(|(receive, spy)| pending(receive, spy));
    let mut send = Box::pin(sender.send(1));
    pending(&mut send, &Spy::new());
    drop(receives.remove(0));
    assert_eq!((spies[0].wakes(), spies[1].wakes(), spies[2].wakes()), (1, 1, 0));
    assert_eq!(send.as_mut().cancel(), Some(1));
    pending(&mut receives[0], &spies[1]);
    let mut send = Box::pin(sender.send(2));
    pending(&mut send, &Spy::new());
    assert_eq!((spies[1].wakes(), spies[2].wakes()), (2, 0), "the first is the first again");
    assert_eq!(ready(&mut receives[0]), Ok(2));
    assert_eq!(send.as_mut().cancel(), None, "it was taken");
    drop(receives);
    assert!(spies.iter().all(|spy| spy.alive() == 0));
    let mut send = Box::pin(sender.send(3));
    pending(&mut send, &Spy::new());
    drop(send);
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
}

#[test]
fn limits() {
    let (sender, receiver) = rendezvous();
    let ended = sender.send(1).timeout(Duration::ZERO).block();
    assert_eq!(ended, Err(GivenBack { limit: Elapsed, value: 1 }));
    assert_eq!(receiver.recv().timeout(Duration::ZERO).block(), Err(Elapsed));
    let mut send = Box::pin(sender.send(2));
    pending(&mut send, &Spy::new());
    assert_eq!(receiver.recv().timeout(Duration::ZERO).block(), Ok(Ok(2)));
    assert_eq!(ready(&mut send), Ok(()));
}

#[test]
fn a_close_ends_both_sides() {
    let (sender, receiver) = rendezvous();
    let mut send = Box::pin(sender.send(1));
    pending(&mut send, &Spy::new());
    assert!(receiver.close() && !sender.close());
    assert_eq!(ready(&mut send), Err(SendError(1)));
    assert_eq!((sender.send(2).block(), receiver.recv().block()), (Err(SendError(2)), Err(Closed)));
    let (sender, receiver) = rendezvous::<u8>();
    let (mut waiting, mut woken) = (Box::pin(receiver.recv()), Box::pin(receiver.recv()));
    pending(&mut woken, &Spy::new());
    pending(&mut waiting, &Spy::new());
    let mut send = Box::pin(sender.send(1));
    pending(&mut send, &Spy::new());
    receiver.close();
    assert_eq!((ready(&mut woken), ready(&mut waiting)), (Err(Closed), Err(Closed)));
    assert_eq!(ready(&mut send), Err(SendError(1)), "nothing is taken after a close");
    let (sender, receiver) = rendezvous::<u8>();
    let weak = sender.downgrade();
    drop((sender.clone(), sender));
    assert!(receiver.is_closed() && weak.upgrade().is_none());
}

/// The waker of a receiver panics in the send that wakes it: the send is queued, and goes on.
#[test]
fn a_receiver_whose_waker_panics() {
    let (sender, receiver) = rendezvous();
    let spy = Spy::hostile(Call::Wake, || panic!("a hostile waker"));
    let mut receive = Box::pin(receiver.recv());
    pending(&mut receive, &spy);
    spy.arm(1);
    let mut send = Box::pin(sender.send(1));
    assert!(panics(|| poll(&mut send, &Spy::new())));
    assert_eq!(ready(&mut receive), Ok(1));
    assert_eq!(ready(&mut send), Ok(()));
}

#[test]
fn very_many() {
    let _dog = watchdog(300);
    on_a_small_stack(|| {
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        let (sender, receiver) = rendezvous();
        let count = scaled(200_000, 100);
        let mut sends: Vec<_> = (0..count).map(|n| Box::pin(sender.send(n))).collect();
        sends
            .iter_mut()
            .for_each(|send| assert!(send.as_mut().poll(&mut Context::from_waker(&waker)).is_pending()));
        receiver.close();
        assert_eq!(wakes.0.load(SeqCst), count);
        let given_back = sends.iter_mut().map(ready).enumerate();
        assert!({ given_back }.all(|(n, ended)| ended == Err(SendError(n))));
    });
}

/// Between threads: every message once, in the order of its sender.
#[test]
fn between_threads() {
    let _dog = watchdog(120);
    let (sender, receiver) = rendezvous();
    let count = scaled(5_000, 20);
    let senders: Vec<_> = (0..2)
        .map(|number| {
            let sender = sender.clone();
            std::thread::spawn(move || (0..count).for_each(|n| sender.send((number, n)).block().unwrap()))
        })
        .collect();
    drop(sender);
    let mut next = [0; 2];
    while let Ok((number, n)) = receiver.recv().block() {
        assert_eq!(n, next[number]);
        next[number] += 1;
    }
    assert_eq!(next, [count; 2]);
    senders.into_iter().for_each(|thread| thread.join().unwrap());
}
