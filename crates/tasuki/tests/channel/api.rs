//! Channels: order, closing, cancelling in every state, limits that give messages back, permits, bad input, channels without handles, iterators.

use crate::kit::poll::{panic_of, pending, poll, ready};
use crate::kit::scaled;
use crate::kit::waker::Spy;
use crate::kit::watchdog::watchdog;
use std::time::Duration;
use tasuki::channel::{
    Channel, OwnedPermit, Receiver, SendError, Sender, TryRecvError, TryReserveError, TrySendError, bounded,
    unbounded,
};
use tasuki::{CancellationSource, Cancelled, Closed, Elapsed, GivenBack};

/// Both kinds with handles.
fn each(test: impl Fn(Sender<u32>, Receiver<u32>)) {
    for (sender, receiver) in [bounded(8), unbounded()] {
        test(sender, receiver);
    }
}

#[test]
fn first_in_first_out() {
    each(|sender, receiver| {
        for round in 0..100 {
            (0..round % 8).for_each(|n| sender.try_send(n).unwrap());
            assert_eq!(receiver.try_iter().collect::<Vec<_>>(), (0..round % 8).collect::<Vec<_>>());
        }
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    });
}

#[test]
fn what_was_sent_is_there_after_a_close() {
    each(|sender, receiver| {
        sender.try_send(1).unwrap();
        sender.try_send(2).unwrap();
        assert!(receiver.close() && !sender.close());
        assert_eq!(sender.try_send(3), Err(TrySendError::Closed(3)));
        assert_eq!(sender.send(3).block(), Err(SendError(3)));
        assert_eq!(receiver.recv().block(), Ok(1));
        assert_eq!(receiver.try_recv(), Ok(2));
        assert_eq!(receiver.recv().block(), Err(Closed));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    });
}

#[test]
fn the_last_handle_of_a_side_closes() {
    each(|sender, receiver| {
        let (other, weak) = (sender.clone(), sender.downgrade());
        drop(sender);
        assert!(!receiver.is_closed() && weak.upgrade().is_some());
        drop(other);
        assert!(receiver.is_closed() && weak.upgrade().is_none());
        assert_eq!(receiver.recv().block(), Err(Closed));
    });
    each(|sender, receiver| {
        let weak = receiver.downgrade();
        let mut closed = Box::pin(sender.closed());
        let spy = Spy::new();
        pending(&mut closed, &spy);
        let other = weak.upgrade().unwrap();
        drop((receiver, other));
        assert_eq!(spy.wakes(), 1);
        ready(&mut closed);
        assert!(weak.upgrade().is_none());
        assert_eq!(sender.try_send(1), Err(TrySendError::Closed(1)));
    });
}

#[test]
fn a_channel_is_itself_and_no_other() {
    let (one, other) = (bounded::<u8>(1), bounded::<u8>(1));
    assert!(one.0.same_channel(&one.0.clone()) && !one.0.same_channel(&other.0));
    assert!(one.1.same_channel(&one.1.clone()) && !one.1.same_channel(&other.1));
    assert_eq!((one.0.capacity(), unbounded::<u8>().0.capacity()), (Some(1), None));
}

/// Senders are served in order, and no newcomer overtakes them, though there is room for a moment.
#[test]
fn waiting_senders_go_in_order() {
    let (sender, receiver) = bounded(1);
    sender.try_send(0).unwrap();
    let spies = Spy::many::<3>();
    let mut sends: Vec<_> = (1..4).map(|n| Box::pin(sender.send(n))).collect();
    sends.iter_mut().zip(&spies).for_each(|(send, spy)| pending(send, spy));
    for expected in 0..4 {
        assert_eq!(sender.try_send(9), Err(TrySendError::Full(9)));
        assert_eq!(receiver.try_recv(), Ok(expected));
    }
    assert!(spies.iter().all(|spy| spy.wakes() == 1 && spy.alive() == 0));
    sends.iter_mut().for_each(|send| assert_eq!(ready(send), Ok(())));
}

/// Receivers are served in order, and no newcomer overtakes them.
#[test]
fn waiting_receivers_go_in_order() {
    each(|sender, receiver| {
        let spies = Spy::many::<3>();
        let mut receives: Vec<_> = (0..3).map(|_| Box::pin(receiver.recv())).collect();
        receives.iter_mut().zip(&spies).for_each(|(receive, spy)| pending(receive, spy));
        for n in 0..3 {
            sender.try_send(n).unwrap();
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        }
        for (n, receive) in receives.iter_mut().enumerate().rev() {
            assert_eq!(ready(receive), Ok(n as u32));
        }
        assert!(spies.iter().all(|spy| spy.wakes() == 1 && spy.alive() == 0));
    });
}

/// A granted message counts against the capacity until it is claimed; a dropped receive gives it to the next, or it is the first again.
#[test]
fn a_granted_message_is_never_lost() {
    let (sender, receiver) = bounded(2);
    let spy = Spy::new();
    let mut receives: Vec<_> = (0..3).map(|_| Box::pin(receiver.recv())).collect();
    receives.iter_mut().for_each(|receive| pending(receive, &spy));
    sender.try_send(1).unwrap();
    sender.try_send(2).unwrap();
    assert_eq!((sender.len(), sender.try_send(3)), (2, Err(TrySendError::Full(3))));
    drop(receives.remove(0));
    assert_eq!(ready(&mut receives[1]), Ok(1), "passed on");
    sender.try_send(3).unwrap();
    drop(receives);
    assert_eq!(sender.len(), 2);
    assert_eq!([receiver.try_recv(), receiver.try_recv()], [Ok(2), Ok(3)], "put back, in front");
}

/// Whatever the order of the drops, those that were put back are in order, before all others.
#[test]
fn messages_are_put_back_in_order() {
    for order in 0..24 {
        let (sender, receiver) = bounded(8);
        let spy = Spy::new();
        let mut receives: Vec<_> = (0..4).map(|_| Box::pin(receiver.recv())).collect();
        receives.iter_mut().for_each(|receive| pending(receive, &spy));
        (0..6).for_each(|n| sender.try_send(n).unwrap());
        let mut left = order;
        for count in (1..=4).rev() {
            drop(receives.remove(left % count));
            left /= count;
        }
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5], "order {order}");
    }
}

#[test]
fn a_closed_channel_waits_for_what_is_granted_or_reserved() {
    let (sender, receiver) = bounded(2);
    let (spy, other) = (Spy::new(), Spy::new());
    let mut granted = Box::pin(receiver.recv());
    pending(&mut granted, &spy);
    sender.try_send(1).unwrap();
    let permit = sender.try_reserve().unwrap();
    sender.close();
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    let mut waits = Box::pin(receiver.recv());
    pending(&mut waits, &other);
    drop(granted);
    assert_eq!(ready(&mut waits), Ok(1));
    let mut waits = Box::pin(receiver.recv());
    pending(&mut waits, &other);
    permit.send(2).unwrap();
    assert_eq!(ready(&mut waits), Ok(2));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
}

#[test]
#[cfg_attr(miri, ignore = "the timer thread never ends")]
fn limits_give_the_message_back() {
    let (sender, receiver) = bounded(1);
    sender.try_send(1).unwrap();
    let ended = sender.send(2).timeout(Duration::ZERO).block();
    assert_eq!(ended, Err(GivenBack { limit: Elapsed, value: 2 }));
    let source = CancellationSource::new();
    let token = source.token();
    let mut send = Box::pin(sender.send(3).timeout(Duration::MAX).or_cancelled(&token));
    pending(&mut send, &Spy::new());
    source.request_cancel();
    assert_eq!(ready(&mut send), Err(GivenBack { limit: Cancelled, value: 3 }));
    // What was granted before the limit is not lost by it.
    let mut send = Box::pin(sender.send(4).timeout(Duration::MAX));
    pending(&mut send, &Spy::new());
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(ready(&mut send), Ok(Ok(())));
    assert_eq!(receiver.recv().timeout(Duration::ZERO).block(), Ok(Ok(4)));
    assert_eq!(receiver.recv().timeout(Duration::ZERO).block(), Err(Elapsed));
    let mut receive = Box::pin(receiver.recv().or_cancelled(&token));
    assert_eq!(ready(&mut receive), Err(Cancelled));
}

#[test]
fn cancel_says_whether_it_went() {
    let (sender, receiver) = bounded(1);
    let new = Box::pin(sender.send(0));
    assert_eq!({ new }.as_mut().cancel(), Some(0), "never polled");
    let mut sent = Box::pin(sender.send(1));
    assert_eq!((ready(&mut sent), sent.as_mut().cancel()), (Ok(()), None));
    let (mut granted, mut waiting) = (Box::pin(sender.send(2)), Box::pin(sender.send(3)));
    pending(&mut granted, &Spy::new());
    pending(&mut waiting, &Spy::new());
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!((granted.as_mut().cancel(), waiting.as_mut().cancel()), (None, Some(3)));
    assert_eq!(waiting.as_mut().cancel(), None, "once");
    assert_eq!(receiver.try_recv(), Ok(2));
    assert!(panic_of(|| poll(&mut waiting, &Spy::new())).contains("tasuki::future::SendMessage"));
}

#[test]
fn many_at_once() {
    let (sender, receiver) = bounded(100);
    let mut buffer = Vec::new();
    assert_eq!(receiver.recv_many(&mut buffer, 0).block(), Ok(0));
    (0..100).for_each(|n| sender.try_send(n).unwrap());
    let mut late = Box::pin(sender.send(100));
    pending(&mut late, &Spy::new());
    assert_eq!(receiver.recv_many(&mut buffer, 70).block(), Ok(70));
    assert_eq!(receiver.recv_many(&mut buffer, 70).block(), Ok(31));
    assert_eq!(buffer, (0..101).collect::<Vec<_>>());
    let (spy, mut more) = (Spy::new(), Vec::new());
    let mut many = Box::pin(receiver.recv_many(&mut more, 10));
    pending(&mut many, &spy);
    sender.try_send(1).unwrap();
    sender.try_send(2).unwrap();
    assert_eq!((spy.wakes(), ready(&mut many)), (1, Ok(2)));
    drop(many);
    assert_eq!(more, [1, 2]);
    let mut many = Box::pin(receiver.recv_many(&mut more, 10));
    pending(&mut many, &spy);
    sender.try_send(3).unwrap();
    drop(many);
    assert_eq!((receiver.try_recv(), more.len()), (Ok(3), 2), "dropped, and nothing is lost");
    sender.close();
    assert_eq!(receiver.recv_many(&mut more, 1).block(), Err(Closed));
}

#[test]
fn permits() {
    let (sender, receiver) = bounded(2);
    let permits = sender.try_reserve_many(2).unwrap();
    assert_eq!((sender.try_reserve().unwrap_err(), sender.len()), (TryReserveError::Full, 0));
    let mut send = Box::pin(sender.send(9));
    let spy = Spy::new();
    pending(&mut send, &spy);
    let mut permits = permits;
    permits.next().unwrap().send(1).unwrap();
    drop(permits);
    assert_eq!((spy.wakes(), ready(&mut send)), (1, Ok(())));
    assert_eq!([receiver.try_recv(), receiver.try_recv()], [Ok(1), Ok(9)]);
    // A big request is not overtaken by a small one behind it, and lets it through when it is dropped.
    sender.try_send(1).unwrap();
    let (mut big, mut small) = (Box::pin(sender.reserve_many(2)), Box::pin(sender.send(2)));
    pending(&mut big, &spy);
    pending(&mut small, &spy);
    drop(big);
    assert_eq!(ready(&mut small), Ok(()));
    assert_eq!([receiver.try_recv(), receiver.try_recv()], [Ok(1), Ok(2)]);
    let owned: OwnedPermit<u32> = sender.clone().try_reserve_owned().unwrap();
    assert!(owned.release().same_channel(&sender));
    let owned = sender.clone().reserve_owned().block().unwrap();
    let permit = sender.try_reserve().unwrap();
    drop(receiver);
    assert_eq!(permit.send(1), Err(SendError(1)), "no receiver is left");
    assert_eq!(owned.send(2).unwrap_err(), SendError(2));
    assert_eq!(sender.reserve().block().unwrap_err(), Closed);
}

/// A permit that is forgotten keeps its room, and nothing else.
#[test]
fn a_forgotten_permit() {
    let (sender, receiver) = bounded(2);
    std::mem::forget(sender.try_reserve().unwrap());
    sender.try_send(1).unwrap();
    assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
    assert_eq!(receiver.try_recv(), Ok(1));
}

#[test]
fn bad_input_says_what_to_do() {
    assert!(panic_of(|| bounded::<u8>(0)).contains("rendezvous"));
    assert!(panic_of(|| bounded::<u8>(usize::MAX)).contains("smaller capacity"));
    let (sender, _receiver) = bounded::<u8>(3);
    assert!(panic_of(|| sender.reserve_many(4)).contains("room for 3"));
    assert!(panic_of(|| sender.try_reserve_many(usize::MAX)).contains("room for 3"));
    assert_eq!(sender.try_reserve_many(3).unwrap().len(), 3);
    let (sender, receiver) = unbounded::<u8>();
    assert!(panic_of(|| sender.reserve_many(usize::MAX)).contains("room for"));
    let no_room = usize::try_from(1u64 << 32).unwrap_or(usize::MAX);
    assert!(panic_of(|| sender.try_reserve_many(no_room)).contains("room for"));
    sender.try_send(1).unwrap();
    assert_eq!(receiver.try_recv(), Ok(1));
}

/// A channel inside a static, used by threads.
#[test]
fn a_static_channel() {
    static CHANNEL: Channel<u32, 2> = Channel::new();
    let _dog = watchdog(60);
    let sender = std::thread::spawn(|| {
        (0..scaled(10_000, 50) as u32).for_each(|n| CHANNEL.send(n).block().unwrap());
        CHANNEL.close();
    });
    let mut expected = 0;
    while let Ok(n) = CHANNEL.recv().block() {
        assert_eq!(n, expected);
        expected += 1;
    }
    sender.join().unwrap();
    assert_eq!(expected as usize, scaled(10_000, 50));
}

/// A channel without handles may be moved with its messages.
#[test]
fn a_channel_is_moved() {
    let channel = Channel::<String, 4>::new();
    channel.try_send("a".to_owned()).unwrap();
    channel.try_send("b".to_owned()).unwrap();
    let boxed = Box::new(channel);
    assert_eq!(boxed.try_recv().unwrap(), "a");
    let back = *boxed;
    back.try_send("c".to_owned()).unwrap();
    assert_eq!((back.try_recv().unwrap(), back.try_recv().unwrap(), back.len()), ("b".into(), "c".into(), 0));
    back.try_send("dropped with it".to_owned()).unwrap();
}

/// What the iterators of threads give.
#[test]
fn iterators() {
    let (sender, receiver) = bounded(4);
    (0..4).for_each(|n| sender.try_send(n).unwrap());
    assert_eq!(receiver.try_iter().take(1).collect::<Vec<_>>(), [0]);
    drop(sender);
    assert_eq!((&receiver).into_iter().take(2).collect::<Vec<_>>(), [1, 2]);
    let mut rest = receiver.into_iter();
    assert_eq!((rest.next(), rest.next(), rest.next()), (Some(3), None, None));
}

/// `try_iter` receives also what is sent while it runs, and ends where no message is pending. Of a closed channel a receive of many is an error, unless nothing is asked for.
#[test]
fn what_is_sent_during_an_iteration() {
    let (sender, receiver) = bounded(2);
    sender.try_send(0).unwrap();
    let mut received = Vec::new();
    for n in receiver.try_iter() {
        received.push(n);
        if n < 4 {
            sender.try_send(n + 1).unwrap();
        }
    }
    assert_eq!(received, [0, 1, 2, 3, 4]);
    sender.close();
    assert_eq!(receiver.recv_many(&mut received, 2).block(), Err(Closed), "not 0");
    assert_eq!(receiver.recv_many(&mut received, 0).block(), Ok(0));
}
