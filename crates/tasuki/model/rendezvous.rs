//! Hand-overs without room: what is taken was sent, whatever is cancelled or closed meanwhile.

use crate::channel::Message;
use crate::support::{Data, Task, join, model, spawn};
use std::task::Poll;
use tasuki::channel::rendezvous;

/// A message goes from hand to hand: what was done before the send is seen, and the send ends after the receive.
#[test]
fn a_rendezvous() {
    model(
        || [Data::new(), Data::new()],
        |data| {
            let (sender, receiver) = rendezvous();
            let other = spawn(move || {
                data[0].add(1);
                assert!(Task::new(sender.send(Message::new(7))).run().is_ok());
                assert!(Task::new(sender.send(Message::new(8))).run().is_ok());
            });
            assert_eq!(Task::new(receiver.recv()).run().unwrap().number(), 7);
            assert_eq!(data[0].get(), 1);
            assert_eq!(Task::new(receiver.recv()).run().unwrap().number(), 8);
            join([other]);
        },
    );
}

/// A sender that is cancelled while a receiver is woken for it: its message is taken or given back, and the receiver is not forgotten.
#[test]
fn a_rendezvous_whose_sender_is_cancelled() {
    model(
        || (),
        |()| {
            let (sender, receiver) = rendezvous();
            let waiting = Task::waiting(sender.send(Message::new(1)));
            let other = spawn(move || Task::new(receiver.recv()).run().unwrap().number());
            drop(waiting);
            let mut last = Task::new(sender.send(Message::new(2)));
            let sent = last.poll();
            let number = join([other]).remove(0);
            assert!(number == 1 || number == 2);
            if number == 2 {
                assert!(sent.is_ready() || last.run().is_ok());
            }
        },
    );
}

/// A receiver that was woken for a message is dropped: the next one is woken for it.
#[test]
fn a_rendezvous_whose_receive_is_dropped() {
    model(
        || (),
        |()| {
            let (sender, receiver) = rendezvous();
            let receiver: &'static _ = &*Box::leak(Box::new(receiver));
            let (first, second) = (Task::waiting(receiver.recv()), Task::waiting(receiver.recv()));
            let other = spawn(move || assert!(Task::new(sender.send(Message::new(1))).run().is_ok()));
            drop(first);
            assert_eq!(second.run().unwrap().number(), 1);
            join([other]);
            // SAFETY: leaked above, and not borrowed any more.
            drop(unsafe { Box::from_raw(std::ptr::from_ref(receiver).cast_mut()) });
        },
    );
}

/// A close while a sender waits and a receiver comes.
#[test]
fn a_rendezvous_that_is_closed() {
    model(
        || (),
        |()| {
            let (sender, receiver) = rendezvous();
            let closer = receiver.clone();
            let other = spawn(move || assert!(closer.close()));
            let mut send = Task::new(sender.send(Message::new(1)));
            let first = send.poll();
            let received = receiver.try_recv().is_ok();
            let sent = match first {
                Poll::Ready(ended) => ended.is_ok(),
                Poll::Pending => send.run().is_ok(),
            };
            assert_eq!(sent, received);
            join([other]);
        },
    );
}

type Pair = (rendezvous::Sender<Message>, rendezvous::Receiver<Message>);

fn pair() -> Pair {
    rendezvous()
}

/// A message is handed to a receive that is dropped at the same time: it is given back, or the next receive has it.
#[test]
fn a_try_send_races_with_a_dropped_receive() {
    model(pair, |(sender, receiver)| {
        let waits = Task::waiting(receiver.recv());
        let other = spawn(|| sender.try_send(Message::new(1)).is_ok());
        drop(waits);
        let sent = join([other]).remove(0);
        assert_eq!(receiver.try_recv().map(|message| message.number()).ok(), sent.then_some(1));
    });
}

/// A message that was handed over is put back while another receive comes: that has it, and is not forgotten.
#[test]
fn a_handed_message_is_put_back_while_a_receive_comes() {
    model(pair, |(sender, receiver)| {
        let waits = Task::waiting(receiver.recv());
        assert!(sender.try_send(Message::new(1)).is_ok());
        let other = spawn(|| assert_eq!(Task::new(receiver.recv()).run().unwrap().number(), 1));
        drop(waits);
        join([other]);
    });
}

/// A close while a message is handed over: what was handed over is received, and after it there is nothing.
#[test]
fn a_close_races_with_a_try_send() {
    model(pair, |(sender, receiver)| {
        let waits = Task::waiting(receiver.recv());
        let closer = spawn(|| assert!(receiver.close()));
        let sent = sender.try_send(Message::new(1)).is_ok();
        assert_eq!(waits.run().map(|message| message.number()).ok(), sent.then_some(1));
        join([closer]);
        assert!(receiver.try_recv().is_err());
    });
}

/// A close while a message that was handed over is put back: the next receive has it, and is not refused before.
#[test]
fn a_close_races_with_a_handed_message_that_is_put_back() {
    model(pair, |(sender, receiver)| {
        let (waits, next) = (Task::waiting(receiver.recv()), Task::waiting(receiver.recv()));
        assert!(sender.try_send(Message::new(1)).is_ok());
        let closer = spawn(|| assert!(sender.close()));
        drop(waits);
        assert_eq!(next.run().map(|message| message.number()).ok(), Some(1));
        join([closer]);
        assert!(receiver.try_recv().is_err());
    });
}

/// A hand-over without waiting and one that waits, and one receiver that takes both.
#[test]
fn a_try_send_beside_a_send() {
    model(pair, |(sender, receiver)| {
        let waits = Task::waiting(receiver.recv());
        let other = spawn(|| assert!(Task::new(sender.send(Message::new(2))).run().is_ok()));
        let sent = sender.try_send(Message::new(1)).is_ok();
        let first = waits.run().unwrap().number();
        if sent {
            assert_eq!(first, 1);
            assert_eq!(Task::new(receiver.recv()).run().unwrap().number(), 2);
        } else {
            assert_eq!(first, 2);
        }
        join([other]);
    });
}
