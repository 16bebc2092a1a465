//! Oneshots: the message is received or given back, and the memory freed once, by the side that ends last.

use crate::channel::Message;
use crate::support::{Data, Task, join, model, spawn};
use std::sync::Mutex;
use tasuki::Closed;

use tasuki::channel::oneshot;
use tasuki::channel::oneshot::Slot;

/// A message in memory that is freed once, by the side that ends last; and what was done before the send is seen.
#[test]
fn a_oneshot_is_received() {
    model(Data::new, |data| {
        let (sender, receiver) = oneshot();
        let other = spawn(move || {
            data.add(1);
            assert!(sender.send(Message::new(7)).is_ok());
        });
        assert_eq!(Task::new(receiver.recv()).run().unwrap().number(), 7);
        assert_eq!(data.get(), 1);
        join([other]);
    });
}

/// The sender goes without a message.
#[test]
fn a_oneshot_that_is_not_sent() {
    model(
        || (),
        |()| {
            let (sender, receiver) = oneshot::<Message>();
            let other = spawn(move || drop(sender));
            assert_eq!(Task::new(receiver.recv()).run().unwrap_err(), Closed);
            join([other]);
        },
    );
}

/// The receiver goes, closes or cancels a wait while the message comes: it is received, given back or dropped, once.
#[test]
fn a_oneshot_whose_receiver_goes() {
    model(
        || (),
        |()| {
            let (sender, receiver) = oneshot();
            let other = spawn(move || drop(sender.send(Message::new(7))));
            drop(receiver);
            join([other]);
        },
    );
}

#[test]
fn a_oneshot_whose_receiver_closes() {
    model(
        || (),
        |()| {
            let (sender, mut receiver) = oneshot();
            let other = spawn(move || sender.send(Message::new(7)).is_ok());
            receiver.close();
            let received = Task::new(receiver.recv()).run().is_ok();
            let sent = join([other]).remove(0);
            assert!(sent || !received, "given back and received");
            assert!(received || !sent, "neither given back nor received");
        },
    );
}

#[test]
fn a_oneshot_whose_receive_is_dropped() {
    model(
        || (),
        |()| {
            let (sender, mut receiver) = oneshot();
            let waiting = Task::waiting(receiver.recv_mut());
            let other = spawn(move || assert!(sender.send(Message::new(7)).is_ok()));
            drop(waiting);
            assert_eq!(Task::new(receiver.recv_mut()).run().unwrap().number(), 7);
            join([other]);
        },
    );
}

#[test]
fn a_oneshot_whose_sender_waits_for_the_close() {
    model(
        || (),
        |()| {
            let (sender, receiver) = oneshot::<Message>();
            let other = spawn(move || drop(receiver));
            Task::new(sender.closed()).run();
            assert!(sender.send(Message::new(7)).is_err());
            join([other]);
        },
    );
}

/// A slot is used by two threads, and again.
#[test]
fn a_slot_is_used_again() {
    model(
        || Mutex::new(Slot::new()),
        |slot| {
            // SAFETY: the models' threads end before the object does, and the slot is split by one of them.
            let slot: &'static mut Slot<Message> =
                unsafe { &mut *std::ptr::from_mut(&mut *slot.lock().unwrap()) };
            for number in 0..2 {
                // SAFETY: the sides of the last round have gone.
                let slot: &'static mut Slot<Message> = unsafe { &mut *std::ptr::from_mut(slot) };
                let (sender, receiver) = slot.split();
                let other = spawn(move || assert!(sender.send(Message::new(number)).is_ok()));
                assert_eq!(Task::new(receiver.recv()).run().unwrap().number(), number);
                join([other]);
            }
        },
    );
}
