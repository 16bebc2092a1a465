//! A hand-over without room: a send ends when its message was taken; cancelled at every moment on both sides.

use crate::kit::fixture::{Wakes, on_a_small_stack};
use crate::kit::poll::{panics, pending, poll, ready};
use crate::kit::process::alone;
use crate::kit::scaled;
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Waker};
use std::time::Duration;
use tasuki::channel::{SendError, TryRecvError, TrySendError, bounded, rendezvous, unbounded};
use tasuki::{CancellationSource, Closed, Elapsed, GivenBack};

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

/// Receivers were woken for sends that were cancelled, and are polled again in any order, or not yet: they are served in the order of their first polls, by sends and by tries, and each is woken once for each poll.
#[test]
fn receivers_keep_the_order_of_their_first_polls() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for (polled, tries) in (0..4).flat_map(|polled| [(polled, false), (polled, true)]) {
            let (sender, receiver) = rendezvous();
            let spies = Spy::many::<3>();
            let mut receives: Vec<_> = (0..3).map(|_| Box::pin(receiver.recv())).collect();
            receives.iter_mut().zip(&spies).for_each(|(receive, spy)| pending(receive, spy));
            let mut sends: Vec<_> = (0..3).map(|n| Some(Box::pin(sender.send(n)))).collect();
            sends.iter_mut().flatten().for_each(|send| pending(send, &Spy::new()));
            order.into_iter().for_each(|at| sends[at] = None);
            order[..polled].iter().for_each(|at| pending(&mut receives[*at], &spies[*at]));
            for (n, spy) in spies.iter().enumerate() {
                let mut send = Box::pin(sender.send(10 + n));
                match tries {
                    true => assert_eq!(sender.try_send(10 + n), Ok(())),
                    false => pending(&mut send, &Spy::new()),
                }
                let wakes = 1 + usize::from(n > 0 || order[..polled].contains(&0));
                assert_eq!(spy.wakes(), wakes, "{order:?}, {polled} polled, receiver {n}");
                for later in (n + 1..3).rev() {
                    pending(&mut receives[later], &spies[later]);
                }
                assert_eq!(ready(&mut receives[n]), Ok(10 + n), "{order:?}, {polled} polled");
                assert!(tries || ready(&mut send).is_ok());
            }
        }
    }
}

/// A sender is cancelled while messages that were put back wait behind its receiver: that one has the first of them.
#[test]
fn a_receiver_that_loses_its_message_has_one_that_was_put_back() {
    let (sender, receiver) = rendezvous();
    let spies = Spy::many::<2>();
    let mut receives: Vec<_> = (0..2).map(|_| Box::pin(receiver.recv())).collect();
    receives.iter_mut().zip(&spies).for_each(|(receive, spy)| pending(receive, spy));
    sender.try_send(1).unwrap();
    let mut send = Box::pin(sender.send(2));
    pending(&mut send, &Spy::new());
    drop(receives.remove(0));
    assert_eq!(send.as_mut().cancel(), Some(2));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty), "it is another's");
    assert_eq!((spies[1].wakes(), ready(&mut receives[0])), (1, Ok(1)));
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

/// A weak handle says again and again that its side has gone, as often as it is asked: an upgrade that fails gives no count back.
#[test]
fn an_upgrade_that_fails_changes_nothing() {
    macro_rules! fails {
        ($pair:expr) => {{
            let (sender, receiver) = $pair;
            let weak = sender.downgrade();
            drop(sender);
            assert!((0..3).all(|_| weak.upgrade().is_none()) && receiver.is_closed());
            let (sender, receiver) = $pair;
            let weak = receiver.downgrade();
            drop(receiver);
            assert!((0..3).all(|_| weak.upgrade().is_none()) && sender.is_closed());
        }};
    }
    fails!(rendezvous::<u8>());
    fails!(bounded::<u8>(1));
    fails!(unbounded::<u8>());
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
    alone(|| {
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
            // Receivers, each woken for a sender that is cancelled, are not woken again by the close.
            let (sender, receiver) = rendezvous();
            let mut receives: Vec<_> = (0..count).map(|_| Box::pin(receiver.recv())).collect();
            let mut sends: Vec<_> = (0..count).map(|n| Box::pin(sender.send(n))).collect();
            let mut cx = Context::from_waker(&waker);
            receives.iter_mut().for_each(|receive| assert!(receive.as_mut().poll(&mut cx).is_pending()));
            sends.iter_mut().for_each(|send| assert!(send.as_mut().poll(&mut cx).is_pending()));
            drop(sends);
            assert!(sender.close());
            assert_eq!(wakes.0.load(SeqCst), 2 * count);
            assert!(receives.iter_mut().all(|receive| ready(receive) == Err(Closed)));
        });
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

/// A message is handed to a receiver that waits, and to no other; what a dropped receive had goes to the next, also after a close.
#[test]
fn a_try_send_needs_a_receiver_that_waits() {
    let (sender, receiver) = rendezvous();
    assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)));
    let spies = Spy::many::<3>();
    let mut receives: Vec<_> = (0..3).map(|_| Box::pin(receiver.recv())).collect();
    receives.iter_mut().zip(&spies).for_each(|(receive, spy)| pending(receive, spy));
    assert_eq!((sender.try_send(1), sender.try_send(2)), (Ok(()), Ok(())));
    assert_eq!(spies.each_ref().map(Spy::wakes), [1, 1, 0]);
    // The first two have theirs; a receive that is dropped passes its message on.
    drop(receives.remove(0));
    assert_eq!(spies[2].wakes(), 1);
    assert_eq!(sender.try_send(3), Err(TrySendError::Full(3)));
    assert_eq!(ready(&mut receives[0]), Ok(2));
    // It is kept for a receive that comes after the close, and Closed means that there is none.
    assert!(sender.close());
    assert_eq!(sender.try_send(4), Err(TrySendError::Closed(4)));
    let mut last = Box::pin(receiver.recv());
    pending(&mut last, &Spy::new());
    drop(receives);
    assert_eq!(ready(&mut last), Ok(1));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    assert!(spies.iter().all(|spy| spy.alive() == 0));
}

/// What was handed over and put back precedes the messages of senders, and is dropped with the last receiver.
#[test]
fn what_was_put_back_is_the_first() {
    let (sender, receiver) = rendezvous();
    let mut receive = Box::pin(receiver.recv());
    pending(&mut receive, &Spy::new());
    let message = Arc::new(1);
    sender.try_send(message.clone()).unwrap();
    let mut send = Box::pin(sender.send(Arc::new(2)));
    pending(&mut send, &Spy::new());
    drop(receive);
    assert_eq!(receiver.recv().block().as_deref(), Ok(&1));
    assert_eq!(receiver.recv().block().as_deref(), Ok(&2));
    assert_eq!(ready(&mut send), Ok(()));
    let mut receive = Box::pin(receiver.recv());
    pending(&mut receive, &Spy::new());
    sender.try_send(message.clone()).unwrap();
    drop(receive);
    assert_eq!(Arc::strong_count(&message), 2);
    drop(receiver);
    assert_eq!(Arc::strong_count(&message), 1, "dropped at once, and not with the last sender");
}

/// Receives that were handed a message are dropped in any order, also one that was handed a message which was put back before: the messages keep theirs.
#[test]
fn what_was_put_back_keeps_its_order() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        // Receives that wait behind them take over what is dropped first, and are dropped last.
        for behind in 0..3 {
            let (sender, receiver) = rendezvous();
            let mut receives: Vec<_> = (0..3 + behind).map(|_| Some(Box::pin(receiver.recv()))).collect();
            receives.iter_mut().flatten().for_each(|receive| pending(receive, &Spy::new()));
            (0..3).for_each(|n| sender.try_send(n).unwrap());
            order.into_iter().for_each(|at| receives[at] = None);
            drop(receives);
            let messages = [(); 3].map(|()| receiver.try_recv());
            assert_eq!(messages, [Ok(0), Ok(1), Ok(2)], "{order:?}, {behind} behind");
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        }
    }
}

/// The waker of a sender panics in the receive that takes its message: the receive has it when it is polled again; else it is the first again.
#[test]
fn a_sender_whose_waker_panics() {
    for case in 0..4 {
        let (sender, receiver) = rendezvous();
        let (spy, calm) = (Spy::hostile(Call::Wake, || panic!("a hostile waker")), Spy::new());
        let mut receive = Box::pin(receiver.recv());
        if case >= 2 {
            pending(&mut receive, &calm);
        }
        let mut sends: Vec<_> = (1..3).map(|n| Box::pin(sender.send(n))).collect();
        sends.iter_mut().for_each(|send| pending(send, &spy));
        spy.arm(1);
        match case {
            0 => assert!(panics(|| receiver.try_recv())),
            _ => assert!(panics(|| poll(&mut receive, &calm))),
        }
        assert_eq!(ready(&mut sends[0]), Ok(()), "it was taken");
        if case == 2 {
            assert_eq!(ready(&mut receive), Ok(1), "polled again");
        } else {
            drop(receive);
            assert_eq!(receiver.try_recv(), Ok(1), "case {case}: the first again");
        }
        assert_eq!((receiver.try_recv(), ready(&mut sends[1])), (Ok(2), Ok(())));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    }
}

/// The limit of a receive panics when it is cancelled: the message that was received is the first again.
#[test]
fn an_output_that_comes_back() {
    let (sender, receiver) = rendezvous();
    let (source, spy) = (CancellationSource::new(), Spy::hostile(Call::Drop, || panic!("a waker")));
    let token = source.token();
    let mut receive = Box::pin(receiver.recv().or_cancelled(&token));
    pending(&mut receive, &spy);
    let mut send = Box::pin(sender.send(1));
    pending(&mut send, &Spy::new());
    spy.arm(1);
    assert!(panics(|| poll(&mut receive, &Spy::new())) && spy.fired());
    assert_eq!((ready(&mut send), receiver.try_recv()), (Ok(()), Ok(1)));
}

/// It does not precede a message that was handed over before it, and is put back after it.
#[test]
fn an_output_that_comes_back_has_its_place() {
    let (sender, receiver) = rendezvous();
    let mut handed = Box::pin(receiver.recv());
    pending(&mut handed, &Spy::new());
    sender.try_send(1).unwrap();
    let (source, spy) = (CancellationSource::new(), Spy::hostile(Call::Drop, || panic!("a waker")));
    let token = source.token();
    let mut receive = Box::pin(receiver.recv().or_cancelled(&token));
    pending(&mut receive, &spy);
    let mut send = Box::pin(sender.send(2));
    pending(&mut send, &Spy::new());
    spy.arm(1);
    assert!(panics(|| poll(&mut receive, &Spy::new())) && spy.fired());
    drop(handed);
    assert_eq!([receiver.try_recv(), receiver.try_recv()], [Ok(1), Ok(2)]);
    // The same for two messages that were handed over, and for a receive that a limit ends.
    for cancelled in [false, true] {
        let (mut first, spy) = (Box::pin(receiver.recv()), Spy::hostile(Call::Drop, || panic!("a waker")));
        pending(&mut first, &Spy::new());
        let (outer, inner) = (CancellationSource::new(), CancellationSource::new());
        let tokens = [outer.token(), inner.token()];
        let mut second = Box::pin(receiver.recv().or_cancelled(&tokens[1]).or_cancelled(&tokens[0]));
        pending(&mut second, &spy);
        (1..3).for_each(|n| sender.try_send(n).unwrap());
        spy.arm(1);
        if cancelled {
            outer.request_cancel();
        }
        assert!(panics(|| poll(&mut second, &Spy::new())) && spy.fired());
        drop(first);
        drop(second);
        assert_eq!([receiver.try_recv(), receiver.try_recv()], [Ok(1), Ok(2)], "cancelled: {cancelled}");
    }
}
