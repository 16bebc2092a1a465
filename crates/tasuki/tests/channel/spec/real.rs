//! The real thing, with handles or without, under the operations of the model.

use super::model::{MAX_WAITERS, Op, Result, Seen};
use crate::kit::spec::System;
use crate::kit::tally;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tasuki::channel::rendezvous::{self, HandOver, TakeOver};
use tasuki::channel::{Channel, Permits, Receiver, SendError, Sender, TryRecvError, TrySendError};
use tasuki::future::{InlineRecv, InlineSend, Recv, ReservationMany, SendMessage};

const ARRIVED: u8 = 0;

/// A message that says when it is dropped.
pub(super) struct Parcel(u8, Rc<RefCell<Vec<u8>>>);

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
pub(super) trait Subject<'c>: Copy {
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
    type Send = SendMessage<'c, Parcel>;
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

impl<'c> Subject<'c> for (&'c rendezvous::Sender<Parcel>, &'c rendezvous::Receiver<Parcel>) {
    type Send = HandOver<'c, Parcel>;
    type Recv = TakeOver<'c, Parcel>;

    fn send(self, parcel: Parcel) -> Self::Send {
        self.0.send(parcel)
    }

    fn cancel(send: Pin<&mut Self::Send>) -> Option<Parcel> {
        send.cancel()
    }

    fn recv(self) -> Self::Recv {
        self.1.recv()
    }

    fn reserve(self, _n: usize) -> ReservationMany<'c, Parcel> {
        panic!("it has no permits")
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
        0
    }

    fn is_closed(self) -> bool {
        self.0.is_closed()
    }
}

enum Waiting<'c, S: Subject<'c>> {
    Send(Pin<Box<S::Send>>),
    Recv(Pin<Box<S::Recv>>),
    Reserve(Pin<Box<ReservationMany<'c, Parcel>>>),
    Holding(Permits<'c, Parcel>),
}

/// The real thing.
pub(super) struct Real<'c, S: Subject<'c>> {
    subject: S,
    waiting: [Option<Waiting<'c, S>>; MAX_WAITERS],
    next_id: u8,
    dropped: Rc<RefCell<Vec<u8>>>,
}

impl<'c, S: Subject<'c>> Real<'c, S> {
    /// With so many messages to begin with.
    pub(super) fn new(subject: S, messages: usize) -> Self {
        tally::reset();
        let waiting = [const { None }; MAX_WAITERS];
        let mut real = Self { subject, waiting, next_id: 0, dropped: Rc::default() };
        for _ in 0..messages {
            let parcel = real.parcel();
            assert!(subject.try_send(parcel).is_ok());
        }
        real
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
        // A rendezvous has no length.
        while self.subject.try_recv().is_ok() {}
        assert_eq!((self.subject.len(), tally::alive()), (0, 0));
    }
}
