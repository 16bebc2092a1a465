//! The awaitables of channels among the subjects (`subjects.rs`): sends to a full channel, receives from an empty one, meetings of both.

use super::subjects::{Grant, Held, Make, Row, Subject, alike, boxed, keep};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context, Waker};
use tasuki::channel::{Channel, Receiver, Sender, bounded, oneshot, rendezvous};
use tasuki::future::{Awaitable, Wait};

/// A channel, full; `wait` is how it is sent to. Each receive makes room for one.
fn sends<C: 'static, A: Awaitable + 'static>(
    channel: C,
    wait: impl Fn(&'static C) -> Wait<A> + Clone + 'static,
    receive: fn(&C) -> bool,
    refill: fn(&C) -> bool,
) -> Subject
where
    &'static C: Send + Sync,
{
    assert!(refill(&channel));
    let (channel, kept) = keep(channel);
    let received = Arc::new(AtomicUsize::new(0));
    let (make, behind) = alike(move || wait(channel));
    let counted = received.clone();
    let grant: Grant = Arc::new(move || {
        // Counted first: a waker that panics loses no message, but the count of it.
        if receive(channel) {
            counted.fetch_add(1, SeqCst);
        }
    });
    let intact = Box::new(move |granted| {
        while receive(channel) {
            received.fetch_add(1, SeqCst);
        }
        // A send that was dropped may have gone.
        received.load(SeqCst) > granted && refill(channel) && !refill(channel) && receive(channel)
    });
    Subject { make, behind, grant, one_each: true, intact, _kept: kept }
}

/// A channel, empty; `wait` is how it is received from. Each message is counted.
fn receives<C: 'static, A: Awaitable + 'static>(
    channel: C,
    wait: impl Fn(&'static C) -> Wait<A> + Clone + 'static,
    send: fn(&C) -> bool,
    receive: fn(&C) -> bool,
    taken: impl Fn(usize) -> usize + 'static,
) -> Subject
where
    &'static C: Send + Sync,
{
    let (channel, kept) = keep(channel);
    let sent = Arc::new(AtomicUsize::new(0));
    let (make, behind) = alike(move || wait(channel));
    let counted = sent.clone();
    let grant: Grant = Arc::new(move || {
        // Counted before: a waker that panics does so when the message has been sent.
        counted.fetch_add(1, SeqCst);
        if !send(channel) {
            counted.fetch_sub(1, SeqCst);
        }
    });
    let intact = Box::new(move |granted| {
        let mut left = 0;
        while receive(channel) {
            left += 1;
        }
        sent.load(SeqCst) == taken(granted) + left && send(channel) && receive(channel)
    });
    Subject { make, behind, grant, one_each: true, intact, _kept: kept }
}

type Pair = (Sender<u32>, Receiver<u32>);

fn receives_of_handles<A: Awaitable + 'static>(
    wait: impl Fn(&'static Pair) -> Wait<A> + Clone + 'static,
) -> Subject {
    receives(
        bounded(64),
        wait,
        |pair| pair.0.try_send(1).is_ok(),
        |pair| pair.1.try_recv().is_ok(),
        |granted| granted,
    )
}

/// What is received is in the buffers, also if a poll panicked.
fn receives_many() -> Subject {
    type Buffers = Arc<StdMutex<Vec<*mut Vec<u32>>>>;
    struct Freed(Buffers);
    impl Freed {
        fn len(&self) -> usize {
            // SAFETY: no wait is left when it is asked.
            self.0.lock().unwrap().iter().map(|buffer| unsafe { &**buffer }.len()).sum()
        }
    }
    impl Drop for Freed {
        fn drop(&mut self) {
            // SAFETY: made by `Box::into_raw` below; all waits are gone.
            self.0.lock().unwrap().drain(..).for_each(|buffer| drop(unsafe { Box::from_raw(buffer) }));
        }
    }
    let buffers = Buffers::default();
    let freed = Freed(buffers.clone());
    let wait = move |pair: &'static Pair| {
        let buffer = Box::into_raw(Box::new(Vec::new()));
        buffers.lock().unwrap().push(buffer);
        // SAFETY: freed when the subject is dropped, after its waits.
        pair.1.recv_many(unsafe { &mut *buffer }, 1)
    };
    let send: fn(&Pair) -> bool = |pair| pair.0.try_send(1).is_ok();
    let receive: fn(&Pair) -> bool = |pair| pair.1.try_recv().is_ok();
    receives(bounded(64), wait, send, receive, move |_| freed.len())
}

fn reservations<A: Awaitable + 'static>(
    wait: impl Fn(&'static Sender<u32>) -> Wait<A> + Clone + 'static,
) -> Subject {
    let (pair, kept) = keep(bounded::<u32>(2));
    let grant = Held::grant(pair.0.try_reserve_many(2).unwrap());
    let (make, behind) = alike(move || wait(&pair.0));
    let intact = Box::new(|_| pair.0.try_reserve_many(2).is_ok());
    Subject { make, behind, grant, one_each: false, intact, _kept: kept }
}

type Rendezvous = (rendezvous::Sender<u32>, rendezvous::Receiver<u32>);

/// Can a message be handed over, and is none left?
fn hands_over(pair: &Rendezvous) -> bool {
    while pair.1.try_recv().is_ok() {}
    let mut send = pin!(pair.0.send(7));
    let waits = send.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
    waits && pair.1.try_recv() == Ok(7) && pair.1.try_recv().is_err()
}

/// Sends that wait for a receiver.
fn hand_over() -> Subject {
    let (pair, kept): (&Rendezvous, _) = keep(rendezvous());
    let (make, behind) = alike(|| pair.0.send(1));
    let grant: Grant = Arc::new(|| _ = pair.1.try_recv());
    Subject { make, behind, grant, one_each: true, intact: Box::new(|_| hands_over(pair)), _kept: kept }
}

/// Receives that wait for a sender; the senders wait beside them.
fn take_over() -> Subject {
    let (pair, kept): (&Rendezvous, _) = keep(rendezvous());
    let (make, behind) = alike(|| pair.1.recv());
    let senders = Arc::new(StdMutex::new(Vec::new()));
    let waiting = senders.clone();
    let grant: Grant = Arc::new(move || {
        // Kept also if the waker of a receiver panics in its poll.
        let mut senders = waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        senders.push(Box::pin(pair.0.send(1)));
        let send = senders.last_mut().expect("it was pushed").as_mut();
        let _ = send.poll(&mut Context::from_waker(Waker::noop()));
    });
    let intact = Box::new(move |_| {
        senders.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clear();
        hands_over(pair)
    });
    Subject { make, behind, grant, one_each: true, intact, _kept: kept }
}

/// A receive of a oneshot, of which there is one.
fn oneshot_recv() -> Subject {
    let (sender, receiver) = oneshot::<u32>();
    let receiver = StdMutex::new(Some(receiver));
    let make: Make = Box::new(move || {
        let receiver = receiver.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        boxed(receiver.expect("one wait").recv())
    });
    let sender = StdMutex::new(Some(sender));
    let grant: Grant = Arc::new(move || {
        let sender = sender.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(sender) = sender {
            let _ = sender.send(1);
        }
    });
    Subject { make, behind: None, grant, one_each: true, intact: Box::new(|_| true), _kept: Box::new(()) }
}

pub(super) fn rows() -> Vec<Row> {
    let row = |covers, subject| Row { covers, subject };
    vec![
        row(&["SendMessage"], || {
            let refill: fn(&Pair) -> bool = |pair| pair.0.try_send(1).is_ok();
            sends(bounded(1), |pair| pair.0.send(1), |pair| pair.1.try_recv().is_ok(), refill)
        }),
        row(&["InlineSend"], || {
            let refill: fn(&Channel<u32, 1>) -> bool = |channel| channel.try_send(1).is_ok();
            sends(Channel::new(), |channel| channel.send(1), |channel| channel.try_recv().is_ok(), refill)
        }),
        row(&["Recv"], || receives_of_handles(|pair| pair.1.recv())),
        row(&["RecvOwned"], || receives_of_handles(|pair| pair.1.clone().recv_owned())),
        row(&["InlineRecv"], || {
            let send: fn(&Channel<u32, 64>) -> bool = |channel| channel.try_send(1).is_ok();
            receives(
                Channel::new(),
                |channel| channel.recv(),
                send,
                |channel| channel.try_recv().is_ok(),
                |granted| granted,
            )
        }),
        row(&["RecvMany"], receives_many),
        row(&["Reservation"], || reservations(|sender| sender.reserve())),
        row(&["ReservationMany"], || reservations(|sender| sender.reserve_many(2))),
        row(&["ReservationOwned"], || reservations(|sender| sender.clone().reserve_owned())),
        row(&["HandOver"], hand_over),
        row(&["TakeOver"], take_over),
        row(&["OneshotRecv"], oneshot_recv),
    ]
}
