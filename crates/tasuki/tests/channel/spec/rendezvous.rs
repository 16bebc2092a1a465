//! What a rendezvous is, said with lists: messages in the order of their sends, receivers in that of their first polls, whatever was cancelled and polled since. The first receivers, as many as there are senders, have a
//! message; a receiver is woken when it has one, unless it was woken and not polled since.

use super::model::{MAX_WAITERS, Op, Result, Seen};
use crate::kit::spec::{Model, System};
use crate::kit::tally;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Sending(u8),
    Taken,
    GivenBack(u8),
    Receiving,
    /// Has this message.
    Granted(u8),
    Refused,
    Gone,
}

#[derive(Clone)]
pub(super) struct Spec {
    waiters: usize,
    closed: bool,
    senders: Vec<usize>,
    /// In the order of their first polls.
    receivers: Vec<usize>,
    /// Sent by `try_send`, and put back: in the order of the sends.
    kept: Vec<u8>,
    state: [State; MAX_WAITERS],
    waker: [usize; MAX_WAITERS],
    /// Woken, and not polled since.
    is_told: [bool; MAX_WAITERS],
    wakes: [u8; tally::WAKERS],
    next_id: u8,
    dropped: Vec<u8>,
}

impl Spec {
    pub(super) fn new(waiters: usize) -> Self {
        Self {
            waiters,
            closed: false,
            senders: Vec::new(),
            receivers: Vec::new(),
            kept: Vec::new(),
            state: [State::New; MAX_WAITERS],
            waker: [0; MAX_WAITERS],
            is_told: [false; MAX_WAITERS],
            wakes: [0; tally::WAKERS],
            next_id: 0,
            dropped: Vec::new(),
        }
    }

    fn new_message(&mut self) -> u8 {
        self.next_id += 1;
        self.next_id
    }

    fn count(&self, is: impl Fn(State) -> bool) -> usize {
        self.state.iter().filter(|state| is(**state)).count()
    }

    /// No message is there, and none can be put back.
    fn is_drained(&self) -> bool {
        self.closed && self.kept.is_empty() && self.count(|state| matches!(state, State::Granted(_))) == 0
    }

    /// Is there a message that no receiver has?
    fn has_message(&self) -> bool {
        !self.kept.is_empty() || self.senders.len() > self.receivers.len()
    }

    /// So many of the receivers have the message of a sender.
    fn supplied(&self) -> usize {
        self.senders.len().min(self.receivers.len())
    }

    fn wake(&mut self, waiter: usize) {
        if !std::mem::replace(&mut self.is_told[waiter], true) {
            self.wakes[2 * waiter + self.waker[waiter]] += 1;
        }
    }

    fn notify(&mut self, waiter: usize, state: State) {
        self.wake(waiter);
        self.state[waiter] = state;
    }

    fn serve(&mut self) {
        if self.closed {
            for waiter in std::mem::take(&mut self.senders) {
                let State::Sending(id) = self.state[waiter] else { panic!("no sender") };
                self.notify(waiter, State::GivenBack(id));
            }
        }
        (0..self.supplied()).for_each(|at| self.wake(self.receivers[at]));
        while self.receivers.len() > self.supplied() {
            let state = match () {
                () if !self.kept.is_empty() => State::Granted(self.kept.remove(0)),
                () if self.is_drained() => State::Refused,
                () => return,
            };
            let waiter = self.receivers.remove(self.supplied());
            self.notify(waiter, state);
        }
    }

    /// The first message.
    fn take(&mut self) -> u8 {
        let id = if self.kept.is_empty() {
            let sender = self.senders.remove(0);
            let State::Sending(id) = self.state[sender] else { panic!("no sender") };
            self.notify(sender, State::Taken);
            id
        } else {
            self.kept.remove(0)
        };
        self.serve();
        id
    }

    fn recv(&mut self, waiter: usize) -> Result {
        let (state, result) = if self.has_message() {
            (State::Gone, Result::Received(self.take()))
        } else if self.is_drained() {
            (State::Gone, Result::Closed)
        } else {
            self.receivers.push(waiter);
            (State::Receiving, Result::Pending)
        };
        self.state[waiter] = state;
        result
    }

    fn poll(&mut self, waiter: usize, waker: usize) -> Result {
        match self.state[waiter] {
            State::Taken => self.end(waiter, Result::Ready),
            State::GivenBack(id) => self.end(waiter, Result::Back(id)),
            State::Refused => self.end(waiter, Result::Closed),
            State::Granted(id) => {
                self.state[waiter] = State::Gone;
                self.serve();
                Result::Received(id)
            }
            State::Receiving if self.receivers[..self.supplied()].contains(&waiter) => {
                self.receivers.retain(|other| *other != waiter);
                self.state[waiter] = State::Gone;
                Result::Received(self.take())
            }
            _ => {
                (self.waker[waiter], self.is_told[waiter]) = (waker, false);
                Result::Pending
            }
        }
    }

    fn end(&mut self, waiter: usize, result: Result) -> Result {
        self.state[waiter] = State::Gone;
        result
    }

    fn leave(&mut self, waiter: usize, gives_back: bool) -> Result {
        let state = std::mem::replace(&mut self.state[waiter], State::Gone);
        self.senders.retain(|other| *other != waiter);
        self.receivers.retain(|other| *other != waiter);
        let mut result = Result::Done;
        match state {
            State::Sending(id) | State::GivenBack(id) if gives_back => result = Result::Back(id),
            State::Sending(id) | State::GivenBack(id) => self.dropped.push(id),
            State::Granted(id) => {
                self.kept.push(id);
                self.kept.sort_unstable();
            }
            _ => {}
        }
        self.serve();
        result
    }

    fn try_send(&mut self) -> Result {
        let id = self.new_message();
        if self.closed {
            return Result::Back(id);
        }
        if self.receivers.len() == self.supplied() {
            return Result::Full;
        }
        let waiter = self.receivers.remove(self.supplied());
        self.notify(waiter, State::Granted(id));
        Result::Ready
    }
}

impl System for Spec {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let result = match op {
            Op::Send(waiter) => {
                let id = self.new_message();
                if self.closed {
                    self.end(waiter, Result::Back(id))
                } else {
                    self.state[waiter] = State::Sending(id);
                    self.senders.push(waiter);
                    self.serve();
                    Result::Pending
                }
            }
            Op::Recv(waiter) => self.recv(waiter),
            Op::Poll(waiter, waker) => self.poll(waiter, waker),
            Op::Drop(waiter) => self.leave(waiter, false),
            Op::Cancel(waiter) => self.leave(waiter, true),
            Op::TrySend => self.try_send(),
            Op::TryRecv if self.has_message() => Result::Received(self.take()),
            Op::TryRecv if self.is_drained() => Result::Closed,
            Op::TryRecv => Result::Empty,
            Op::Close => {
                self.closed = true;
                self.serve();
                Result::Done
            }
            Op::Reserve(..) | Op::Use(_) => panic!("it has no permits"),
        };
        let (wakes, dropped) = (self.wakes, self.dropped.clone());
        Seen { result, len: 0, closed: self.closed, wakes, dropped }
    }
}

impl Model for Spec {
    fn next(&self, ops: &mut Vec<Op>) {
        if let Some(waiter) = (0..self.waiters).find(|waiter| self.state[*waiter] == State::New) {
            ops.extend([Op::Send(waiter), Op::Recv(waiter)]);
        }
        for waiter in 0..self.waiters {
            match self.state[waiter] {
                State::New | State::Gone => {}
                State::Sending(_) | State::Receiving => {
                    ops.extend([Op::Poll(waiter, 1 - self.waker[waiter]), Op::Drop(waiter)]);
                }
                _ => ops.extend([Op::Poll(waiter, 0), Op::Drop(waiter)]),
            }
            if matches!(self.state[waiter], State::Sending(_) | State::Taken | State::GivenBack(_)) {
                ops.push(Op::Cancel(waiter));
            }
        }
        ops.extend([Op::TrySend, Op::TryRecv]);
        if !self.closed {
            ops.push(Op::Close);
        }
    }
}
