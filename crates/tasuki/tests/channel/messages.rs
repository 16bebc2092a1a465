//! Messages of any kind: of no size and of a megabyte, of one thread, with destructors that panic or use the channel.

use crate::kit::poll::{panic_of, panics, pending, ready};
use crate::kit::waker::{Call, Spy};
use std::cell::Cell;
use std::mem::forget;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tasuki::channel::{Channel, Receiver, Sender, TrySendError, bounded, oneshot, rendezvous, unbounded};

#[test]
fn messages_of_any_size() {
    let (sender, receiver) = bounded::<()>(3);
    (0..3).for_each(|_| sender.try_send(()).unwrap());
    assert_eq!((sender.try_send(()), receiver.try_iter().count()), (Err(TrySendError::Full(())), 3));
    let (sender, receiver) = unbounded::<()>();
    (0..100).for_each(|_| sender.try_send(()).unwrap());
    assert_eq!(receiver.try_iter().count(), 100);
    let channel = Channel::<(), 1>::new();
    assert_eq!((channel.try_send(()), channel.try_send(())), (Ok(()), Err(TrySendError::Full(()))));
    let (sender, receiver) = oneshot();
    assert_eq!((sender.send(()), receiver.recv().block()), (Ok(()), Ok(())));
    let (sender, receiver) = rendezvous();
    let (mut receive, mut handed) = (Box::pin(receiver.recv()), Box::pin(receiver.recv()));
    pending(&mut receive, &Spy::new());
    pending(&mut handed, &Spy::new());
    let mut send = Box::pin(sender.send(()));
    pending(&mut send, &Spy::new());
    assert_eq!(sender.try_send(()), Ok(()));
    assert_eq!((ready(&mut receive), ready(&mut send), ready(&mut handed)), (Ok(()), Ok(()), Ok(())));
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

/// What owns messages is dropped while its thread unwinds, and the drop of each message panics: the first panic goes on, the others do not end the process. A row for every owner, and every state of a send.
#[test]
fn a_message_whose_drop_panics_while_its_thread_unwinds() {
    let drops = Arc::new(AtomicUsize::new(0));
    let hostile = || Hostile { drops: drops.clone(), deed: Some(Box::new(|| panic!("a hostile message"))) };
    let row = |name, owner: &mut dyn FnMut()| {
        drops.store(0, SeqCst);
        owner();
        assert_eq!(drops.load(SeqCst), 1, "{name}");
    };
    fn unwinds<O>(owner: O) {
        let unwinding = move || {
            let _owner = owner;
            panic!("the first")
        };
        assert_eq!(panic_of(unwinding), "the first");
    }
    for state in ["new", "queued", "refused"] {
        let (full, handed, inline) = (bounded(1), rendezvous(), Channel::<_, 1>::new());
        let harmless = || Hostile { drops: Arc::default(), deed: None };
        assert!(full.0.try_send(harmless()).is_ok() && inline.try_send(harmless()).is_ok());
        let (mut send, mut hand) = (Box::pin(full.0.send(hostile())), Box::pin(handed.0.send(hostile())));
        let mut put = Box::pin(inline.send(hostile()));
        if state != "new" {
            pending(&mut send, &Spy::new());
            pending(&mut hand, &Spy::new());
            pending(&mut put, &Spy::new());
        }
        if state == "refused" {
            assert!(full.1.close() && handed.1.close() && inline.close());
        }
        let (mut send, mut hand, mut put) = (Some(send), Some(hand), Some(put));
        row(state, &mut || unwinds(send.take()));
        row(state, &mut || unwinds(hand.take()));
        row(state, &mut || unwinds(put.take()));
    }
    row("a receiver", &mut || {
        let (sender, receiver) = bounded(1);
        assert!(sender.try_send(hostile()).is_ok());
        unwinds(receiver);
    });
    row("a channel", &mut || {
        let channel = Channel::<_, 1>::new();
        assert!(channel.try_send(hostile()).is_ok());
        unwinds(channel);
    });
    row("a receiver of a rendezvous", &mut || {
        let (sender, receiver) = rendezvous();
        let mut receive = Box::pin(receiver.recv());
        pending(&mut receive, &Spy::new());
        assert!(sender.try_send(hostile()).is_ok());
        drop(receive);
        unwinds(receiver);
    });
    row("a receiver of a oneshot", &mut || {
        let (sender, receiver) = oneshot();
        assert!(sender.send(hostile()).is_ok());
        unwinds(receiver);
    });
    row("a receive of a oneshot", &mut || {
        let (sender, receiver) = oneshot();
        let mut receive = Box::pin(receiver.recv());
        pending(&mut receive, &Spy::new());
        assert!(sender.send(hostile()).is_ok());
        unwinds(receive);
    });
    // A permit gives the message back when there is no receiver, and a waker panics before that: of a receive that was forgotten, for there the channel is drained.
    let without_receiver = |sender: &Sender<_>, receiver: Receiver<_>| {
        let spy = Spy::new();
        spy.on(Call::Wake, || panic!("the first"));
        spy.arm(1);
        let mut receive = Box::pin(receiver.recv());
        pending(&mut receive, &spy);
        forget(receive);
        drop(receiver);
        assert!(sender.is_closed());
        spy
    };
    row("a permit", &mut || {
        let (sender, receiver) = bounded(1);
        let permit = sender.try_reserve().unwrap();
        let _spy = without_receiver(&sender, receiver);
        assert_eq!(panic_of(|| permit.send(hostile())), "the first");
    });
    row("a permit with its sender", &mut || {
        let (sender, receiver) = bounded(1);
        let permit = sender.clone().try_reserve_owned().unwrap();
        let _spy = without_receiver(&sender, receiver);
        assert_eq!(panic_of(|| permit.send(hostile())), "the first");
    });
}

/// The drop of a message uses the channel, finds it closed, and even lets go of its last handle.
#[test]
fn a_message_whose_drop_comes_back() {
    let drops = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = bounded(4);
    for _ in 0..4 {
        let (back, drops) = (sender.clone(), drops.clone());
        let deed = move || {
            assert!(back.is_closed() && back.is_empty());
            ready(&mut Box::pin(back.closed()));
            assert!(back.try_send(Hostile { drops: Arc::default(), deed: None }).is_err());
        };
        assert!(sender.try_send(Hostile { drops, deed: Some(Box::new(deed)) }).is_ok());
    }
    drop(sender);
    drop(receiver);
    assert_eq!(drops.load(SeqCst), 4);
    // The same for what was put back in a rendezvous.
    let (sender, receiver) = rendezvous();
    let mut receive = Box::pin(receiver.recv());
    pending(&mut receive, &Spy::new());
    let (back, drops) = (sender.clone(), drops.clone());
    let deed = Box::new(move || ready(&mut Box::pin(back.closed())));
    assert!(sender.try_send(Hostile { drops: drops.clone(), deed: Some(deed) }).is_ok());
    drop(receive);
    drop((sender, receiver));
    assert_eq!(drops.load(SeqCst), 5);
}
