//! Every string of operations on a bounded channel, against a model of a few lines: what is received, who is ready, who is woken and how often, how many
//! messages there are, after every step; and at the end every message was received, given back or dropped, exactly once.
//!
//! `TASUKI_SPEC_DEPTH=8 TASUKI_SPEC_WAITERS=3` (in release) is the long form.

use crate::kit::spec::{self, Model, System, enumerate};
use crate::kit::tally;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tasuki::channel::{
    Channel, InlineRecv, InlineSend, Permits, Receiver, Recv, ReservationMany, Send, SendError, Sender,
    TryRecvError, TryReserveError, TrySendError, bounded,
};

const MAX_WAITERS: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// The first poll of a send of the next message, of a receive, of a reservation of so much.
    Send(usize),
    Recv(usize),
    Reserve(usize, usize),
    /// Polls a waiter with the first or the second of its two wakers.
    Poll(usize, usize),
    /// Drops a future, or the permits that came of it.
    Drop(usize),
    /// Sends with a permit.
    Use(usize),
    /// Ends a send by hand.
    Cancel(usize),
    TrySend,
    TryRecv,
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Result {
    Received(u8),
    Ready,
    Pending,
    Closed,
    Back(u8),
    Full,
    Empty,
    Done,
}

#[derive(Debug, PartialEq)]
struct Seen {
    result: Result,
    len: usize,
    closed: bool,
    wakes: [u8; tally::WAKERS],
    dropped: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Sending(u8),
    Receiving,
    Reserving(usize),
    Sent,
    Granted(Message),
    Reserved(usize),
    Refused(Option<u8>),
    Holding(usize),
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    /// The order in which messages came into the channel.
    ticket: u8,
    id: u8,
    returned: bool,
}

/// What a channel is, said with lists.
#[derive(Clone)]
struct Spec {
    capacity: usize,
    waiters: usize,
    reserves: bool,
    pending: Vec<Message>,
    used: usize,
    permits: usize,
    closed: bool,
    senders: Vec<usize>,
    receivers: Vec<usize>,
    state: [State; MAX_WAITERS],
    waker: [usize; MAX_WAITERS],
    wakes: [u8; tally::WAKERS],
    ticket: u8,
    next_id: u8,
    dropped: Vec<u8>,
}

impl Spec {
    fn new(capacity: usize, waiters: usize, reserves: bool) -> Self {
        Self {
            capacity,
            waiters,
            reserves,
            pending: Vec::new(),
            used: 0,
            permits: 0,
            closed: false,
            senders: Vec::new(),
            receivers: Vec::new(),
            state: [State::New; MAX_WAITERS],
            waker: [0; MAX_WAITERS],
            wakes: [0; tally::WAKERS],
            ticket: 0,
            next_id: 0,
            dropped: Vec::new(),
        }
    }

    fn room(&self, n: usize) -> bool {
        self.senders.is_empty() && self.capacity - self.used >= n
    }

    fn new_message(&mut self) -> u8 {
        self.next_id += 1;
        self.next_id
    }

    fn commit(&mut self, id: u8) {
        self.ticket += 1;
        self.used += 1;
        self.pending.push(Message { ticket: self.ticket, id, returned: false });
    }

    fn notify(&mut self, waiter: usize, state: State) {
        self.wakes[2 * waiter + self.waker[waiter]] += 1;
        self.state[waiter] = state;
    }

    /// Everything that can be done for those who wait.
    fn serve(&mut self) {
        loop {
            if !self.receivers.is_empty() && !self.pending.is_empty() {
                let (waiter, message) = (self.receivers.remove(0), self.pending.remove(0));
                self.notify(waiter, State::Granted(message));
            } else if let Some(waiter) = self.senders.first().copied() {
                let need = if let State::Reserving(n) = self.state[waiter] { n } else { 1 };
                let state = match self.state[waiter] {
                    State::Sending(id) if self.closed => State::Refused(Some(id)),
                    State::Reserving(_) if self.closed => State::Refused(None),
                    _ if self.capacity - self.used < need => return,
                    State::Sending(id) => {
                        self.commit(id);
                        State::Sent
                    }
                    State::Reserving(n) => {
                        self.used += n;
                        self.permits += n;
                        State::Reserved(n)
                    }
                    other => panic!("{other:?} in the queue of senders"),
                };
                self.senders.remove(0);
                self.notify(waiter, state);
            } else if self.closed && self.used == 0 && !self.receivers.is_empty() {
                let waiter = self.receivers.remove(0);
                self.notify(waiter, State::Refused(None));
            } else {
                return;
            }
        }
    }

    fn take(&mut self) -> Option<u8> {
        if self.pending.is_empty() {
            return None;
        }
        let message = self.pending.remove(0);
        self.used -= 1;
        self.serve();
        Some(message.id)
    }

    fn poll(&mut self, waiter: usize, waker: usize) -> Result {
        let (next, result) = match self.state[waiter] {
            State::Sent => (State::Gone, Result::Ready),
            State::Refused(Some(id)) => (State::Gone, Result::Back(id)),
            State::Refused(None) => (State::Gone, Result::Closed),
            State::Reserved(n) => (State::Holding(n), Result::Ready),
            State::Granted(message) => {
                self.used -= 1;
                self.serve();
                (State::Gone, Result::Received(message.id))
            }
            same => {
                self.waker[waiter] = waker;
                (same, Result::Pending)
            }
        };
        self.state[waiter] = next;
        result
    }

    fn put_back(&mut self, mut message: Message) {
        message.returned = true;
        let after = |other: &Message| !other.returned || other.ticket > message.ticket;
        let place = self.pending.iter().position(after).unwrap_or(self.pending.len());
        self.pending.insert(place, message);
        self.serve();
    }

    fn leave(&mut self, waiter: usize, gives_back: bool) -> Result {
        let state = std::mem::replace(&mut self.state[waiter], State::Gone);
        self.senders.retain(|other| *other != waiter);
        self.receivers.retain(|other| *other != waiter);
        match state {
            State::Sending(id) | State::Refused(Some(id)) => {
                self.serve();
                if gives_back {
                    return Result::Back(id);
                }
                self.dropped.push(id);
            }
            State::Reserving(_) => self.serve(),
            State::Granted(message) => self.put_back(message),
            State::Reserved(n) | State::Holding(n) => {
                self.used -= n;
                self.permits -= n;
                self.serve();
            }
            _ => {}
        }
        Result::Done
    }

    fn send(&mut self, waiter: Option<usize>) -> Result {
        let id = self.new_message();
        let (state, result) = if self.closed {
            (State::Gone, Result::Back(id))
        } else if self.room(1) {
            self.commit(id);
            self.serve();
            (State::Gone, Result::Ready)
        } else if let Some(waiter) = waiter {
            self.senders.push(waiter);
            (State::Sending(id), Result::Pending)
        } else {
            return Result::Full;
        };
        if let Some(waiter) = waiter {
            self.state[waiter] = state;
        }
        result
    }
}

impl System for Spec {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let result = match op {
            Op::Send(waiter) => self.send(Some(waiter)),
            Op::TrySend => self.send(None),
            Op::Recv(waiter) => match self.take() {
                Some(id) => {
                    self.state[waiter] = State::Gone;
                    Result::Received(id)
                }
                None if self.closed && self.used == 0 => {
                    self.state[waiter] = State::Gone;
                    Result::Closed
                }
                None => {
                    self.receivers.push(waiter);
                    self.state[waiter] = State::Receiving;
                    Result::Pending
                }
            },
            Op::TryRecv => match self.take() {
                Some(id) => Result::Received(id),
                None if self.closed && self.used == 0 => Result::Closed,
                None => Result::Empty,
            },
            Op::Reserve(waiter, n) => {
                if self.closed {
                    self.state[waiter] = State::Gone;
                    Result::Closed
                } else if self.room(n) {
                    self.used += n;
                    self.permits += n;
                    self.state[waiter] = State::Holding(n);
                    Result::Ready
                } else {
                    self.senders.push(waiter);
                    self.state[waiter] = State::Reserving(n);
                    Result::Pending
                }
            }
            Op::Poll(waiter, waker) => self.poll(waiter, waker),
            Op::Drop(waiter) => self.leave(waiter, false),
            Op::Cancel(waiter) => self.leave(waiter, true),
            Op::Use(waiter) => {
                let State::Holding(n) = self.state[waiter] else { panic!("no permit") };
                self.state[waiter] = if n > 1 { State::Holding(n - 1) } else { State::Gone };
                let id = self.new_message();
                self.used -= 1;
                self.permits -= 1;
                self.commit(id);
                self.serve();
                Result::Done
            }
            Op::Close => {
                self.closed = true;
                self.serve();
                Result::Done
            }
        };
        Seen {
            result,
            len: self.used - self.permits,
            closed: self.closed,
            wakes: self.wakes,
            dropped: self.dropped.clone(),
        }
    }
}

impl Model for Spec {
    fn next(&self, ops: &mut Vec<Op>) {
        // Waiters begin in order: which of them does what is free, so nothing is lost by it.
        if let Some(waiter) = (0..self.waiters).find(|waiter| self.state[*waiter] == State::New) {
            ops.extend([Op::Send(waiter), Op::Recv(waiter)]);
            if self.reserves {
                ops.extend((1..=self.capacity).map(|n| Op::Reserve(waiter, n)));
            }
        }
        for waiter in 0..self.waiters {
            match self.state[waiter] {
                State::New | State::Gone => {}
                State::Holding(_) => ops.extend([Op::Use(waiter), Op::Drop(waiter)]),
                State::Sending(_) | State::Receiving | State::Reserving(_) => {
                    ops.extend([Op::Poll(waiter, 1 - self.waker[waiter]), Op::Drop(waiter)]);
                }
                _ => ops.extend([Op::Poll(waiter, 0), Op::Drop(waiter)]),
            }
            if matches!(self.state[waiter], State::Sending(_) | State::Sent | State::Refused(Some(_))) {
                ops.push(Op::Cancel(waiter));
            }
        }
        ops.extend([Op::TrySend, Op::TryRecv]);
        if !self.closed {
            ops.push(Op::Close);
        }
    }
}

const ARRIVED: u8 = 0;

/// A message that says when it is dropped.
struct Parcel(u8, Rc<RefCell<Vec<u8>>>);

impl Parcel {
    /// It has arrived: its drop is not of interest.
    fn open(mut self) -> u8 {
        let id = self.0;
        self.0 = ARRIVED;
        id
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        if self.0 != ARRIVED {
            self.1.borrow_mut().push(self.0);
        }
    }
}

/// A channel with handles, or one without.
trait Subject<'c>: Copy {
    type Send: Future<Output = std::result::Result<(), SendError<Parcel>>>;
    type Recv: Future<Output = std::result::Result<Parcel, tasuki::Closed>>;

    fn send(self, parcel: Parcel) -> Self::Send;
    fn cancel(send: Pin<&mut Self::Send>) -> Option<Parcel>;
    fn recv(self) -> Self::Recv;
    fn reserve(self, n: usize) -> ReservationMany<'c, Parcel>;
    fn try_send(self, parcel: Parcel) -> std::result::Result<(), TrySendError<Parcel>>;
    fn try_recv(self) -> std::result::Result<Parcel, TryRecvError>;
    fn close(self);
    fn len(self) -> usize;
    fn is_closed(self) -> bool;
}

impl<'c> Subject<'c> for (&'c Sender<Parcel>, &'c Receiver<Parcel>) {
    type Send = Send<'c, Parcel>;
    type Recv = Recv<'c, Parcel>;

    fn send(self, parcel: Parcel) -> Self::Send {
        self.0.send(parcel)
    }

    fn cancel(send: Pin<&mut Self::Send>) -> Option<Parcel> {
        send.cancel()
    }

    fn recv(self) -> Self::Recv {
        self.1.recv()
    }

    fn reserve(self, n: usize) -> ReservationMany<'c, Parcel> {
        self.0.reserve_many(n)
    }

    fn try_send(self, parcel: Parcel) -> std::result::Result<(), TrySendError<Parcel>> {
        self.0.try_send(parcel)
    }

    fn try_recv(self) -> std::result::Result<Parcel, TryRecvError> {
        self.1.try_recv()
    }

    fn close(self) {
        self.1.close();
    }

    fn len(self) -> usize {
        assert_eq!(self.0.len(), self.1.len());
        self.0.len()
    }

    fn is_closed(self) -> bool {
        self.0.is_closed()
    }
}

impl<'c, const N: usize> Subject<'c> for &'c Channel<Parcel, N> {
    type Send = InlineSend<'c, Parcel, N>;
    type Recv = InlineRecv<'c, Parcel, N>;

    fn send(self, parcel: Parcel) -> Self::Send {
        self.send(parcel)
    }

    fn cancel(send: Pin<&mut Self::Send>) -> Option<Parcel> {
        send.cancel()
    }

    fn recv(self) -> Self::Recv {
        self.recv()
    }

    fn reserve(self, _n: usize) -> ReservationMany<'c, Parcel> {
        panic!("it has no permits")
    }

    fn try_send(self, parcel: Parcel) -> std::result::Result<(), TrySendError<Parcel>> {
        self.try_send(parcel)
    }

    fn try_recv(self) -> std::result::Result<Parcel, TryRecvError> {
        self.try_recv()
    }

    fn close(self) {
        self.close();
    }

    fn len(self) -> usize {
        self.len()
    }

    fn is_closed(self) -> bool {
        self.is_closed()
    }
}

enum Waiting<'c, S: Subject<'c>> {
    Send(Pin<Box<S::Send>>),
    Recv(Pin<Box<S::Recv>>),
    Reserve(Pin<Box<ReservationMany<'c, Parcel>>>),
    Holding(Permits<'c, Parcel>),
}

/// The real thing.
struct Real<'c, S: Subject<'c>> {
    subject: S,
    waiting: [Option<Waiting<'c, S>>; MAX_WAITERS],
    next_id: u8,
    dropped: Rc<RefCell<Vec<u8>>>,
}

impl<'c, S: Subject<'c>> Real<'c, S> {
    fn new(subject: S) -> Self {
        tally::reset();
        Self { subject, waiting: [const { None }; MAX_WAITERS], next_id: 0, dropped: Rc::default() }
    }

    fn parcel(&mut self) -> Parcel {
        self.next_id += 1;
        Parcel(self.next_id, self.dropped.clone())
    }

    fn poll(&mut self, waiter: usize, waker: usize) -> Result {
        let waker = tally::waker(2 * waiter + waker);
        let mut cx = Context::from_waker(&waker);
        let (kept, result) = match self.waiting[waiter].take().expect("it waits") {
            Waiting::Send(mut send) => match send.as_mut().poll(&mut cx) {
                Poll::Pending => (Some(Waiting::Send(send)), Result::Pending),
                Poll::Ready(Ok(())) => (None, Result::Ready),
                Poll::Ready(Err(SendError(parcel))) => (None, Result::Back(parcel.open())),
            },
            Waiting::Recv(mut recv) => match recv.as_mut().poll(&mut cx) {
                Poll::Pending => (Some(Waiting::Recv(recv)), Result::Pending),
                Poll::Ready(Ok(parcel)) => (None, Result::Received(parcel.open())),
                Poll::Ready(Err(tasuki::Closed)) => (None, Result::Closed),
            },
            Waiting::Reserve(mut reserve) => match reserve.as_mut().poll(&mut cx) {
                Poll::Pending => (Some(Waiting::Reserve(reserve)), Result::Pending),
                Poll::Ready(Ok(permits)) => (Some(Waiting::Holding(permits)), Result::Ready),
                Poll::Ready(Err(tasuki::Closed)) => (None, Result::Closed),
            },
            Waiting::Holding(_) => panic!("permits are not polled"),
        };
        self.waiting[waiter] = kept;
        result
    }

    fn begin(&mut self, waiter: usize, waiting: Waiting<'c, S>) -> Result {
        self.waiting[waiter] = Some(waiting);
        self.poll(waiter, 0)
    }
}

impl<'c, S: Subject<'c>> System for Real<'c, S> {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let result = match op {
            Op::Send(waiter) => {
                let parcel = self.parcel();
                self.begin(waiter, Waiting::Send(Box::pin(self.subject.send(parcel))))
            }
            Op::Recv(waiter) => self.begin(waiter, Waiting::Recv(Box::pin(self.subject.recv()))),
            Op::Reserve(waiter, n) => self.begin(waiter, Waiting::Reserve(Box::pin(self.subject.reserve(n)))),
            Op::Poll(waiter, waker) => self.poll(waiter, waker),
            Op::Drop(waiter) => {
                self.waiting[waiter] = None;
                Result::Done
            }
            Op::Cancel(waiter) => match self.waiting[waiter].take() {
                Some(Waiting::Send(mut send)) => match S::cancel(send.as_mut()) {
                    Some(parcel) => Result::Back(parcel.open()),
                    None => Result::Done,
                },
                _ => panic!("no send"),
            },
            Op::Use(waiter) => {
                let parcel = self.parcel();
                let Some(Waiting::Holding(permits)) = &mut self.waiting[waiter] else { panic!("no permit") };
                assert!(permits.next().expect("one is left").send(parcel).is_ok());
                if permits.len() == 0 {
                    self.waiting[waiter] = None;
                }
                Result::Done
            }
            Op::TrySend => {
                let parcel = self.parcel();
                match self.subject.try_send(parcel) {
                    Ok(()) => Result::Ready,
                    Err(TrySendError::Full(parcel)) => {
                        parcel.open();
                        Result::Full
                    }
                    Err(TrySendError::Closed(parcel)) => Result::Back(parcel.open()),
                }
            }
            Op::TryRecv => match self.subject.try_recv() {
                Ok(parcel) => Result::Received(parcel.open()),
                Err(TryRecvError::Empty) => Result::Empty,
                Err(TryRecvError::Closed) => Result::Closed,
            },
            Op::Close => {
                self.subject.close();
                Result::Done
            }
        };
        Seen {
            result,
            len: self.subject.len(),
            closed: self.subject.is_closed(),
            wakes: tally::wakes(),
            dropped: self.dropped.borrow().clone(),
        }
    }

    fn finish(&mut self) {
        // No message is lost by dropping everything that waits; what is left can be received.
        let len = self.subject.len();
        let waiting = std::mem::replace(&mut self.waiting, [const { None }; MAX_WAITERS]);
        let granted = waiting.iter().flatten().filter(|waiting| matches!(waiting, Waiting::Recv(_))).count();
        drop(waiting);
        let left = self.subject.len();
        assert!(
            left >= len.min(granted) && left >= len,
            "{len} messages, {left} after the waiters have gone"
        );
        for _ in 0..left {
            assert!(self.subject.try_recv().is_ok());
        }
        assert_eq!((self.subject.len(), tally::alive()), (0, 0));
    }
}

fn compare<const N: usize>(name: &str, reserves: bool, depth_less: usize) {
    let (depth, waiters) = spec::size(4, MAX_WAITERS);
    let depth = depth.saturating_sub(depth_less).max(3);
    enumerate(name, depth, &Spec::new(N, waiters, reserves), |body| {
        let (sender, receiver) = bounded(N);
        body(&mut Real::new((&sender, &receiver)));
    });
}

#[test]
fn capacity_1_agrees_with_its_model() {
    compare::<1>("bounded(1)", false, 0);
}

#[test]
fn capacity_2_agrees_with_its_model() {
    compare::<2>("bounded(2)", false, 0);
}

#[test]
fn permits_agree_with_their_model() {
    compare::<2>("bounded(2) with permits", true, 1);
}

#[test]
fn a_channel_without_allocation_agrees_with_the_same_model() {
    let (depth, waiters) = spec::size(4, MAX_WAITERS);
    enumerate("Channel<_, 1>", depth.saturating_sub(1).max(3), &Spec::new(1, waiters, false), |body| {
        let channel = Channel::<Parcel, 1>::new();
        body(&mut Real::new(&channel));
    });
}

/// Nothing is reserved at once, and never while closed.
#[test]
fn a_reservation_of_nothing() {
    let (sender, receiver) = bounded::<u8>(1);
    sender.try_send(1).unwrap();
    assert_eq!(sender.try_reserve_many(0).unwrap().len(), 0);
    receiver.close();
    assert_eq!(sender.try_reserve_many(0).unwrap_err(), TryReserveError::Closed);
}
