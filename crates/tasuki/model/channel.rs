//! Channels: what is sent is received once, whatever is cancelled or closed meanwhile.

use crate::support::{Data, Task, join, model, spawn};
use loom::alloc::Track;
use std::sync::Mutex;
use std::task::Poll;
use tasuki::Closed;
use tasuki::channel::{Channel, Receiver, SendError, Sender, TryRecvError, bounded, unbounded};

/// A message whose loss, or second drop, fails the model.
#[derive(Debug)]
pub(crate) struct Message(Track<usize>);

impl Message {
    pub(crate) fn new(number: usize) -> Self {
        Self(Track::new(number))
    }

    pub(crate) fn number(&self) -> usize {
        *self.0.get_ref()
    }
}

/// A channel, what is done before a send and read after the receive, and what was received.
struct Site {
    sender: Sender<Message>,
    receiver: Receiver<Message>,
    data: [Data; 2],
    /// Without ordering anything: loom does not see it.
    received: Mutex<Vec<usize>>,
}

fn site_of((sender, receiver): (Sender<Message>, Receiver<Message>)) -> Site {
    Site { sender, receiver, data: [Data::new(), Data::new()], received: Mutex::new(Vec::new()) }
}

fn site<const N: usize>() -> Site {
    site_of(bounded(N))
}

impl Site {
    fn send(&self, number: usize) {
        self.data[number].add(1);
        assert!(Task::new(self.sender.send(Message::new(number))).run().is_ok());
    }

    fn got(&self, message: Message) {
        assert_eq!(self.data[message.number()].get(), 1, "what was done before the send is seen");
        self.received.lock().unwrap().push(message.number());
    }

    fn recv(&self) {
        self.got(Task::new(self.receiver.recv()).run().expect("it is open"));
    }

    /// All messages up to `count` were received, once each, and none is left.
    fn at_rest(&self, count: usize) {
        let mut received = self.received.lock().unwrap().clone();
        received.sort_unstable();
        assert_eq!(received, (0..count).collect::<Vec<_>>());
        assert_eq!(self.sender.len(), 0);
        assert!(self.sender.try_send(Message::new(0)).is_ok(), "there is room");
        assert_eq!(self.receiver.try_recv().map(|message| message.number()), Ok(0), "and no receiver waits");
    }
}

/// One message at a time: senders wait for room, receivers for messages.
#[test]
fn a_sender_and_a_receiver() {
    model(site::<1>, |site| {
        let sender = spawn(|| {
            site.send(0);
            site.send(1);
        });
        site.recv();
        site.recv();
        join([sender]);
        assert_eq!(*site.received.lock().unwrap(), [0, 1], "in order");
        site.at_rest(2);
    });
}

/// Two senders, one of which finds no room.
#[test]
fn two_senders_and_a_receiver() {
    model(site::<1>, |site| {
        site.data[0].add(1);
        site.data[1].add(1);
        let sender = spawn(|| assert!(Task::new(site.sender.send(Message::new(0))).run().is_ok()));
        let sent = site.sender.try_send(Message::new(1)).is_ok();
        site.recv();
        if sent {
            site.recv();
        } else {
            site.received.lock().unwrap().push(1);
        }
        join([sender]);
        site.at_rest(2);
    });
}

/// Two receivers that wait are granted messages by another thread, and claim them in either order.
#[test]
fn two_receivers_and_a_sender() {
    model(site::<1>, |site| {
        let (first, second) = (Task::waiting(site.receiver.recv()), Task::waiting(site.receiver.recv()));
        let sender = spawn(|| {
            site.send(0);
            site.send(1);
        });
        site.got(first.run().unwrap());
        site.got(second.run().unwrap());
        join([sender]);
        assert_eq!(*site.received.lock().unwrap(), [0, 1], "in order");
        site.at_rest(2);
    });
}

/// Two senders and two receivers; one of each waits before the others come.
#[test]
fn two_senders_and_two_receivers() {
    model(site::<1>, |site| {
        site.data[0].add(1);
        site.data[1].add(1);
        let waiting = Task::waiting(site.receiver.recv());
        let senders = [0, 1].map(|number| {
            spawn(move || site.sender.try_send(Message::new(number)).map_err(|error| error.into_inner()))
        });
        site.got(waiting.run().unwrap());
        for unsent in join(senders).into_iter().filter_map(Result::err) {
            assert!(site.sender.try_send(unsent).is_ok(), "there is room after the claim");
        }
        site.recv();
        site.at_rest(2);
    });
}

/// A receive that is dropped at any moment of the send loses nothing: the message is there, first.
#[test]
fn a_receive_is_dropped_while_a_message_comes() {
    model(site::<1>, |site| {
        let mut task = Task::waiting(site.receiver.recv());
        let sender = spawn(|| site.send(0));
        match task.poll() {
            Poll::Ready(message) => site.got(message.unwrap()),
            Poll::Pending => drop(task),
        }
        join([sender]);
        if let Ok(message) = site.receiver.try_recv() {
            site.got(message);
        }
        site.at_rest(1);
    });
}

/// The same with a second receiver behind it, which gets the message then.
#[test]
fn a_dropped_receive_passes_its_message_on() {
    model(site::<1>, |site| {
        let (first, second) = (Task::waiting(site.receiver.recv()), Task::waiting(site.receiver.recv()));
        let sender = spawn(|| site.send(0));
        drop(first);
        site.got(second.run().unwrap());
        join([sender]);
        site.at_rest(1);
    });
}

/// A message that is put back races with a newcomer that receives.
#[test]
fn a_message_is_put_back_while_a_newcomer_receives() {
    model(site::<2>, |site| {
        let granted = Task::waiting(site.receiver.recv());
        site.send(0);
        site.send(1);
        let other = spawn(|| site.recv());
        drop(granted);
        site.recv();
        join([other]);
        site.at_rest(2);
    });
}

/// A claim frees the slot while senders wait for it: the message is out before another one comes in.
#[test]
fn a_claim_makes_room() {
    model(site::<1>, |site| {
        let granted = Task::waiting(site.receiver.recv());
        site.send(0);
        let sender = spawn(|| site.send(1));
        site.got(granted.run().unwrap());
        site.recv();
        join([sender]);
        assert_eq!(*site.received.lock().unwrap(), [0, 1], "in order");
        site.at_rest(2);
    });
}

/// A send that is cancelled while room comes either went or gives its message back.
#[test]
fn a_send_is_cancelled_while_room_comes() {
    model(site::<1>, |site| {
        site.send(0);
        site.data[1].add(1);
        let mut waiting = Box::pin(site.sender.send(Message::new(1)));
        let waker = std::task::Waker::noop();
        assert!(waiting.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
        let receiver = spawn(|| site.recv());
        match waiting.as_mut().cancel() {
            Some(message) => site.got(message),
            None => site.recv(),
        }
        join([receiver]);
        site.at_rest(2);
    });
}

/// The same by a drop: it went, or it is dropped; nothing else.
#[test]
fn a_send_is_dropped_while_room_comes() {
    model(site::<1>, |site| {
        site.send(0);
        site.data[1].add(1);
        let waiting = Task::waiting(site.sender.send(Message::new(1)));
        let receiver = spawn(|| site.recv());
        drop(waiting);
        join([receiver]);
        if let Ok(message) = site.receiver.try_recv() {
            site.got(message);
        }
        let count = site.received.lock().unwrap().len();
        site.at_rest(count);
    });
}

/// A sender in front of another is cancelled while room comes: the sender behind it is granted the room.
#[test]
fn a_sender_behind_one_that_gives_up() {
    model(site::<1>, |site| {
        site.send(0);
        site.data[1].add(1);
        let first = Task::waiting(site.sender.reserve());
        let second = Task::waiting(site.sender.send(Message::new(1)));
        let receiver = spawn(|| site.recv());
        drop(first);
        assert!(second.run().is_ok());
        join([receiver]);
        site.recv();
        site.at_rest(2);
    });
}

/// A poll with another waker while the grant comes: the newest is woken, or the grant is seen.
#[test]
fn wakers_change_while_messages_come() {
    model(site::<1>, |site| {
        let mut task = Task::waiting(site.receiver.recv());
        let sender = spawn(|| site.send(0));
        task.change_alarm();
        match task.poll() {
            Poll::Ready(message) => site.got(message.unwrap()),
            Poll::Pending => site.got(task.run().unwrap()),
        }
        join([sender]);
        site.at_rest(1);
    });
}

/// A close races with a send that waits and a receive that makes room for it: the message is received or given back.
#[test]
fn a_close_races_with_room_and_a_send_that_waits() {
    model(site::<1>, |site| {
        site.data[0].add(1);
        site.data[1].add(1);
        assert!(site.sender.try_send(Message::new(0)).is_ok());
        let waiting = Task::waiting(site.sender.send(Message::new(1)));
        let receiver = spawn(|| site.got(site.receiver.try_recv().unwrap()));
        let closer = spawn(|| assert!(site.receiver.close()));
        if let Err(SendError(message)) = waiting.run() {
            site.got(message);
        }
        join([receiver, closer]);
        if let Ok(message) = site.receiver.try_recv() {
            site.got(message);
        }
        let mut received = site.received.lock().unwrap().clone();
        received.sort_unstable();
        assert_eq!((received, site.sender.len()), (vec![0, 1], 0));
        assert_eq!(site.receiver.try_recv().unwrap_err(), TryRecvError::Closed);
    });
}

/// A close races with a send to a receive that waits: it gets the message, or the message is given back and it ends.
#[test]
fn a_close_races_with_a_receive_that_waits() {
    model(site::<1>, |site| {
        site.data[0].add(1);
        let waiting = Task::waiting(site.receiver.recv());
        let sender = spawn(|| site.sender.try_send(Message::new(0)).is_ok());
        let closer = spawn(|| assert!(site.receiver.close()));
        let received = waiting.run().is_ok();
        join([closer]);
        assert_eq!(join([sender]).remove(0), received);
    });
}

/// A closed channel is not drained while a message is granted: it may be put back, and then it is received.
#[test]
fn a_closed_channel_waits_for_what_is_granted() {
    model(site::<1>, |site| {
        let granted = Task::waiting(site.receiver.recv());
        site.send(0);
        site.receiver.close();
        let other = spawn(|| match Task::new(site.receiver.recv()).run() {
            Ok(message) => site.got(message),
            Err(Closed) => panic!("the message was lost"),
        });
        drop(granted);
        join([other]);
        assert_eq!(site.receiver.try_recv().unwrap_err(), TryRecvError::Closed);
    });
}

/// The last handles of both sides go at the same time: what is left is dropped once, and the memory freed once.
#[test]
fn the_last_handles_go() {
    model(
        || Mutex::new(Some(bounded::<Message>(2))),
        |pair| {
            let (sender, receiver) = pair.lock().unwrap().take().unwrap();
            let (weak_sender, weak_receiver) = (sender.downgrade(), receiver.downgrade());
            assert!(sender.try_send(Message::new(0)).is_ok());
            let other = spawn(move || {
                let _ = sender.try_send(Message::new(1));
                drop(sender);
                drop(weak_receiver.upgrade());
            });
            drop(receiver);
            drop(weak_sender.upgrade());
            join([other]);
        },
    );
}

/// A receiver hears that the last sender has gone, whenever that is.
#[test]
fn the_last_sender_goes_while_a_receiver_waits() {
    model(
        || Mutex::new(Some(bounded::<Message>(1))),
        |pair| {
            let (sender, receiver) = pair.lock().unwrap().take().unwrap();
            let other = spawn(move || {
                assert!(sender.try_send(Message::new(0)).is_ok());
            });
            assert!(Task::new(receiver.recv()).run().is_ok());
            assert_eq!(Task::new(receiver.recv()).run().unwrap_err(), Closed);
            join([other]);
        },
    );
}

/// A sender hears that the last receiver has gone, whenever that is.
#[test]
fn the_last_receiver_goes_while_a_sender_waits() {
    model(
        || Mutex::new(Some(bounded::<Message>(1))),
        |pair| {
            let (sender, receiver) = pair.lock().unwrap().take().unwrap();
            let other = spawn(move || drop(receiver));
            Task::new(sender.closed()).run();
            assert!(sender.try_send(Message::new(0)).unwrap_err().is_closed());
            join([other]);
        },
    );
}

/// A permit that is dropped makes room for the sender that waits.
#[test]
fn a_permit_is_dropped_while_a_sender_waits() {
    model(site::<1>, |site| {
        let permit = site.sender.try_reserve().unwrap();
        let sender = spawn(|| site.send(0));
        drop(permit);
        site.recv();
        join([sender]);
        site.at_rest(1);
    });
}

/// An unbounded channel grows while another thread sends and receives.
#[test]
fn an_unbounded_channel_grows() {
    model(
        || site_of(unbounded()),
        |site| {
            let fill = || (0..31).for_each(|_| assert!(site.sender.try_send(Message::new(0)).is_ok()));
            fill();
            site.data[0].add(1);
            let other = spawn(|| {
                site.data[1].add(1);
                assert!(site.sender.try_send(Message::new(1)).is_ok());
            });
            assert!(site.sender.try_send(Message::new(0)).is_ok());
            assert!(site.sender.try_send(Message::new(0)).is_ok());
            join([other]);
            assert_eq!(site.sender.len(), 34);
            (0..34).for_each(|_| drop(site.receiver.try_recv().unwrap()));
            assert_eq!(site.receiver.try_recv().unwrap_err(), TryRecvError::Empty);
        },
    );
}

/// A channel without an allocation.
#[test]
fn a_channel_inside() {
    model(Channel::<Message, 1>::new, |channel| {
        let sender = spawn(|| {
            assert!(Task::new(channel.send(Message::new(0))).run().is_ok());
            assert!(Task::new(channel.send(Message::new(1))).run().is_ok());
        });
        assert_eq!(Task::new(channel.recv()).run().unwrap().number(), 0);
        assert_eq!(Task::new(channel.recv()).run().unwrap().number(), 1);
        join([sender]);
    });
}
