//! A waker drops the future that it wakes, and with it the last other handle: the memory that the handles share is freed inside the wake, or right after it. Under Miri the tests show that the
//! thread which wakes has no reference to that memory then, by both borrow models. A row for everything whose memory is kept by handles of the library.

use crate::kit::poll::{BoxFuture, pending, poll_with, ready};
use crate::kit::waker::{Call, Spy};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use tasuki::channel::{Receiver, Sender, bounded, oneshot, rendezvous, unbounded};
use tasuki::{CancellationSource, Parker, RwLock, Semaphore, WaitGroup};

/// Enqueues a future that its wake drops; if `polled`, after another poll.
fn ends_in_its_wake(future: impl Future<Output = ()> + Send + 'static, polled: bool) -> Spy {
    let mut future: BoxFuture<()> = Box::pin(future);
    let slot = Arc::new(Mutex::new(None));
    let spy = Spy::hostile(Call::Wake, {
        let slot = slot.clone();
        move || {
            let future: Option<BoxFuture<()>> = slot.lock().unwrap().take();
            future.into_iter().for_each(|mut future| {
                if polled {
                    let _ = poll_with(&mut future, Waker::noop());
                }
            });
        }
    });
    spy.arm(1);
    pending(&mut future, &spy);
    *slot.lock().unwrap() = Some(future);
    spy
}

#[test]
fn of_a_oneshot() {
    for polled in [false, true] {
        for sent in [false, true] {
            let (sender, receiver) = oneshot::<Box<u32>>();
            let spy = ends_in_its_wake(async move { drop(receiver.recv().await) }, polled);
            match sent {
                true => assert!(sender.send(Box::new(1)).is_ok()),
                false => drop(sender),
            }
            assert!(spy.fired());
        }
        // The sender ends in the wake of a receiver that is dropped, or closes.
        for closed in [false, true] {
            let (sender, mut receiver) = oneshot::<Box<u32>>();
            let spy = ends_in_its_wake(async move { sender.closed().await }, polled);
            if closed {
                assert!(receiver.close());
            }
            drop(receiver);
            assert!(spy.fired());
        }
    }
}

/// The last receiver goes in the wake of a send, of the drop of the last sender, of a close; the last sender in that of a receive, of the drop of the last receiver, of a close.
fn of_a_channel(channel: impl Fn() -> (Sender<Box<u32>>, Receiver<Box<u32>>), is_bounded: bool) {
    for polled in [false, true] {
        for event in 0..3 {
            let (sender, receiver) = channel();
            let spy = ends_in_its_wake(async move { drop(receiver.recv().await) }, polled);
            match event {
                0 => assert!(sender.try_send(Box::new(1)).is_ok()),
                1 => assert!(sender.close()),
                _ => {}
            }
            drop(sender);
            assert!(spy.fired(), "event {event}");
            let (sender, receiver) = channel();
            let spy = ends_in_its_wake(async move { sender.closed().await }, polled);
            if event == 0 {
                receiver.close();
            }
            drop(receiver);
            assert!(spy.fired(), "event {event}");
        }
        for event in 0..if is_bounded { 3 } else { 0 } {
            let (sender, receiver) = channel();
            sender.try_send(Box::new(1)).unwrap();
            let send = async move { drop(sender.send(Box::new(2)).await) };
            let spy = ends_in_its_wake(send, polled);
            match event {
                0 => assert_eq!(receiver.try_recv().as_deref(), Ok(&1)),
                1 => assert!(receiver.close()),
                _ => {}
            }
            drop(receiver);
            assert!(spy.fired(), "event {event}");
        }
    }
}

#[test]
fn of_a_bounded_channel() {
    of_a_channel(|| bounded(1), true);
}

#[test]
fn of_an_unbounded_channel() {
    of_a_channel(unbounded, false);
}

#[test]
fn of_a_rendezvous() {
    for polled in [false, true] {
        for event in 0..4 {
            let (sender, receiver) = rendezvous::<Box<u32>>();
            let spy = ends_in_its_wake(async move { drop(receiver.recv().await) }, polled);
            match event {
                0 => assert!(sender.try_send(Box::new(1)).is_ok()),
                1 => assert!(sender.close()),
                // The send is queued when its receiver ends in the wake.
                2 => {
                    let mut send = Box::pin(sender.send(Box::new(2)));
                    pending(&mut send, &Spy::new());
                    assert_eq!(ready(&mut send).is_ok(), polled);
                }
                _ => {}
            }
            drop(sender);
            assert!(spy.fired(), "event {event}");
            let (sender, receiver) = rendezvous::<Box<u32>>();
            let send = async move { drop(sender.send(Box::new(1)).await) };
            let spy = ends_in_its_wake(send, polled);
            match event {
                0 => assert_eq!(receiver.try_recv().as_deref(), Ok(&1)),
                1 => assert!(receiver.close()),
                _ => {}
            }
            drop(receiver);
            assert!(spy.fired(), "event {event}");
        }
        let (sender, receiver) = rendezvous::<Box<u32>>();
        let spy = ends_in_its_wake(async move { sender.closed().await }, polled);
        drop(receiver);
        assert!(spy.fired());
    }
}

/// A source is cancelled by its guard; its last token goes in the wake, and so does the last token of a child, whose source has gone before.
#[test]
fn of_a_cancellation() {
    for polled in [false, true] {
        let source = CancellationSource::new();
        let (token, child) = (source.token(), source.child());
        let spies = [
            ends_in_its_wake(async move { token.on_cancel().await }, polled),
            ends_in_its_wake(child.token().on_cancel_owned(), polled),
        ];
        drop(child);
        drop(source.drop_guard());
        assert!(spies.iter().all(Spy::fired));
    }
}

/// The guard, the permit or the member is the last that keeps the primitive, once the wake has ended the wait.
#[test]
fn of_what_is_owned() {
    for polled in [false, true] {
        let mutex = Arc::new(tasuki::Mutex::new(Box::new(1)));
        let guard = mutex.clone().try_lock_owned().unwrap();
        let mutex = ends_in_its_wake(async move { drop(mutex.lock_owned().await) }, polled);
        drop(guard);
        let lock = Arc::new(RwLock::new(Box::new(1)));
        let guard = lock.clone().try_write_owned().unwrap();
        let lock = ends_in_its_wake(async move { drop(lock.read_owned().await) }, polled);
        drop(guard);
        let semaphore = Arc::new(Semaphore::new(1));
        let permit = semaphore.clone().try_acquire_owned().unwrap();
        let semaphore = ends_in_its_wake(async move { drop(semaphore.acquire_owned().await) }, polled);
        drop(permit);
        let group = Arc::new(WaitGroup::new());
        let member = group.clone().member_owned();
        let group = ends_in_its_wake(async move { group.wait().await }, polled);
        drop(member);
        assert!([mutex, lock, semaphore, group].iter().all(Spy::fired));
    }
}

/// An unparker goes in the wake that interrupts the foreign wait of its parker; and a waker is the last handle of a parker that was dropped.
#[test]
fn of_a_parker() {
    let (parker, unparker) = (Parker::new(), Arc::new(Mutex::new(None)));
    *unparker.lock().unwrap() = Some(parker.unparker());
    let interrupt = Spy::hostile(Call::WakeByRef, {
        let unparker = unparker.clone();
        move || *unparker.lock().unwrap() = None
    });
    interrupt.arm(1);
    let waker = Waker::from(parker.unparker());
    assert!(tasuki::runtime::park_in(&parker, &interrupt.waker(), || waker.wake()));
    assert!(interrupt.fired() && unparker.lock().unwrap().is_none());
    let waker = Waker::from(parker.unparker());
    drop(parker);
    waker.wake();
}
