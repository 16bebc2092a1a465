//! Messages of every layout in memory that is freed, or used again, by the call that takes them: an interpreter sees a reference that is left to it. What is in a cell may be freed under a
//! reference, and padding is in no cell, so it depends on the size and the alignment of the message what is seen.

use crate::kit::poll::{pending, ready};
use crate::kit::waker::Spy;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use tasuki::channel::{Channel, oneshot, rendezvous, unbounded};

/// With its alignment a slot has padding before it, too.
#[derive(Clone, Debug, PartialEq)]
#[repr(align(64))]
struct Aligned(u8);

/// It has a destructor, and padding itself.
#[derive(Clone, Debug, PartialEq)]
struct Boxed(u8, Box<u32>, bool);

/// Calls a function with a maker of messages of each layout: without padding, with padding behind it, before it, inside of it, of no size.
macro_rules! each_layout {
    ($call:ident) => {
        $call(|n| u64::from(n));
        $call(|n| u32::from(n));
        $call(|n| n);
        $call(|n| n % 2 == 1);
        $call(|n| [n; 3]);
        $call(|n| (n, u32::from(n)));
        $call(|_| ());
        $call(Aligned);
        $call(|n| Boxed(n, Box::new(n.into()), true));
    };
}

/// A wait in a box, which its waker polls, if it is told to, and frees.
struct InWake(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>, bool);

impl Wake for InWake {
    fn wake(self: Arc<Self>) {
        let taken = self.0.lock().unwrap().take();
        if let (Some(mut wait), true) = (taken, self.1) {
            assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        }
    }
}

/// Polls the wait once: it waits, and ends inside of its wake.
fn ends_in_its_wake(polled: bool, wait: impl Future<Output = ()> + Send + 'static) {
    let this = Arc::new(InWake(Mutex::new(None), polled));
    let mut wait: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(wait);
    assert!(wait.as_mut().poll(&mut Context::from_waker(&Waker::from(this.clone()))).is_pending());
    *this.0.lock().unwrap() = Some(wait);
}

/// The last message of many frees the slots: taken by every kind of receive.
#[test]
fn slots_that_are_freed() {
    fn slots<T: Send + Clone + Debug + PartialEq + 'static>(message: fn(u8) -> T) {
        // More than are kept.
        const COUNT: usize = 1_025;
        let (sender, receiver) = unbounded();
        let fill = || (0..COUNT).for_each(|n| sender.try_send(message(n as u8)).unwrap());
        let last = Ok(message((COUNT - 1) as u8));
        let all_but_one = || assert_eq!(receiver.try_iter().take(COUNT - 1).count(), COUNT - 1);
        fill();
        all_but_one();
        assert_eq!(receiver.try_recv(), Ok(message((COUNT - 1) as u8)));
        fill();
        all_but_one();
        assert_eq!(ready(&mut Box::pin(receiver.recv())), last);
        let mut buffer = Vec::new();
        fill();
        assert_eq!(ready(&mut Box::pin(receiver.recv_many(&mut buffer, COUNT))), Ok(COUNT));
        // Granted, and claimed last.
        let mut waits = Box::pin(receiver.recv());
        pending(&mut waits, &Spy::new());
        fill();
        all_but_one();
        assert_eq!(ready(&mut waits), Ok(message(0)));
        drop(waits);
        fill();
        drop(receiver);
        assert_eq!(sender.len(), 0);
    }
    // Two with padding in a slot, behind it and before it: each takes long under an interpreter.
    slots(|n| [n; 3]);
    slots(Aligned);
}

/// Slots that are used again, boxes of messages, and the one place of a oneshot, with waits that end inside of their wakes.
#[test]
fn waits_that_end_in_their_wakes() {
    fn waits<T: Send + Clone + Debug + PartialEq + 'static>(message: fn(u8) -> T) {
        for polled in [true, false] {
            let inline = Arc::new(Channel::<T, 1>::new());
            inline.try_send(message(0)).unwrap();
            for n in 1..4 {
                let inline = inline.clone();
                ends_in_its_wake(polled, async move { inline.send(message(n)).await.unwrap() });
            }
            assert_eq!((0..4).map(|n| inline.try_recv() == Ok(message(n))).collect::<Vec<_>>(), [true; 4]);
            let (sender, receiver) = rendezvous();
            for n in 0..2 {
                let sender = sender.clone();
                ends_in_its_wake(polled, async move { sender.send(message(n)).await.unwrap() });
            }
            assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(message(0)), Ok(message(1))));
            // Handed over in boxes; each of the two puts one back if it is only dropped.
            for _ in 0..2 {
                let (receiver, back) = (receiver.clone(), message(2));
                ends_in_its_wake(polled, async move { assert_eq!(receiver.recv().await, Ok(back)) });
            }
            (0..1 + u8::from(polled)).for_each(|_| assert_eq!(sender.try_send(message(2)), Ok(())));
            assert_eq!(receiver.try_recv().is_ok(), !polled);
            drop((sender, receiver));
            let (sender, receiver) = oneshot();
            let sent = message(3);
            ends_in_its_wake(polled, async move { assert_eq!(receiver.await, Ok(sent)) });
            assert_eq!(sender.send(message(3)), Ok(()));
            let (sender, receiver) = oneshot();
            ends_in_its_wake(polled, async move {
                sender.closed().await;
                assert!(sender.send(message(4)).is_err());
            });
            drop(receiver);
        }
    }
    each_layout!(waits);
}
