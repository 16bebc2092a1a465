//! What a channel is, said with lists: the operations, what each shows, and which make sense next.

use crate::kit::spec::{Model, System};
use crate::kit::tally;

pub(super) const MAX_WAITERS: usize = 4;

#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
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
pub(super) enum Result {
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
pub(super) struct Seen {
    pub(super) result: Result,
    pub(super) len: usize,
    pub(super) closed: bool,
    pub(super) wakes: [u8; tally::WAKERS],
    pub(super) dropped: Vec<u8>,
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
pub(super) struct Spec {
    capacity: usize,
    waiters: usize,
    /// How much may be reserved in one step.
    reserves: Vec<usize>,
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
    /// With so many waiters, that reserve so much, and so many messages to begin with.
    pub(super) fn new(capacity: usize, waiters: usize, reserves: Vec<usize>, messages: usize) -> Self {
        let mut spec = Self {
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
        };
        for _ in 0..messages {
            let id = spec.new_message();
            spec.commit(id);
        }
        spec
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

    /// Everything that can be done for waiters.
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
            ops.extend(self.reserves.iter().map(|n| Op::Reserve(waiter, *n)));
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
