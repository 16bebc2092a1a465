//! Receivers as streams and senders as sinks: order, ends, what dropping loses (nothing), and foreign code that panics in a poll.

use crate::kit::poll::{panic_of, panics, pending, ready};
use crate::kit::waker::{Call, Spy};
use futures_core::stream::{FusedStream, Stream};
use futures_sink::Sink;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tasuki::channel::{MessageSink, MessageStream, SendError, TryRecvError, bounded, unbounded};

fn next<T>(stream: &mut Pin<Box<MessageStream<T>>>, waker: &Waker) -> Poll<Option<T>> {
    stream.as_mut().poll_next(&mut Context::from_waker(waker))
}

fn room<T>(sink: &mut Pin<Box<MessageSink<T>>>, waker: &Waker) -> Poll<Result<(), SendError<Option<T>>>> {
    sink.as_mut().poll_ready(&mut Context::from_waker(waker))
}

#[test]
fn a_stream_has_the_messages_and_an_end() {
    let (sender, receiver) = unbounded();
    let mut stream = Box::pin(receiver.into_stream());
    let spy = Spy::new();
    assert_eq!(next(&mut stream, &spy.waker()), Poll::Pending);
    (0..3).for_each(|n| sender.try_send(n).unwrap());
    assert_eq!(spy.wakes(), 1);
    for n in 0..3 {
        assert!(!stream.is_terminated());
        assert_eq!(next(&mut stream, &spy.waker()), Poll::Ready(Some(n)));
    }
    assert_eq!(next(&mut stream, &spy.waker()), Poll::Pending);
    drop(sender);
    assert_eq!((spy.wakes(), stream.is_terminated(), stream.receiver().is_closed()), (2, false, true));
    for _ in 0..2 {
        assert_eq!(next(&mut stream, &spy.waker()), Poll::Ready(None));
        assert!(stream.is_terminated());
    }
}

/// A stream is one receiver among others: it keeps its place between polls, and gives a granted message back when it is dropped.
#[test]
fn a_stream_that_is_dropped_loses_nothing() {
    let (sender, receiver) = bounded(2);
    let mut stream = Box::pin(receiver.clone().into_stream());
    assert!(next(&mut stream, Waker::noop()).is_pending());
    let mut behind = Box::pin(receiver.recv());
    pending(&mut behind, &Spy::new());
    sender.try_send(1).unwrap();
    sender.try_send(2).unwrap();
    assert_eq!(next(&mut stream, Waker::noop()), Poll::Ready(Some(1)), "the first in the queue");
    assert_eq!(ready(&mut behind), Ok(2));
    assert!(next(&mut stream, Waker::noop()).is_pending());
    sender.try_send(3).unwrap();
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty), "granted to the stream");
    drop(stream);
    assert_eq!(receiver.try_recv(), Ok(3));
}

/// The waker of a waiting sender panics in a poll of the stream: the message is the next again, and the stream goes on.
#[test]
fn a_stream_whose_poll_panics_goes_on() {
    let (sender, receiver) = bounded(1);
    let mut stream = Box::pin(receiver.into_stream());
    sender.try_send(1).unwrap();
    let hostile = Spy::hostile(Call::Wake, || panic!("a waker"));
    let mut send = Box::pin(sender.send(2));
    pending(&mut send, &hostile);
    hostile.arm(1);
    assert!(panics(|| next(&mut stream, Waker::noop())) && hostile.fired());
    assert!(!stream.is_terminated());
    for n in 1..=2 {
        assert_eq!(next(&mut stream, Waker::noop()), Poll::Ready(Some(n)));
    }
    ready(&mut send).unwrap();
}

#[test]
fn a_sink_waits_for_room() {
    let (sender, receiver) = bounded(1);
    let mut sink = Box::pin(sender.into_sink());
    let spy = Spy::new();
    assert_eq!(room(&mut sink, &spy.waker()), Poll::Ready(Ok(())));
    assert_eq!(room(&mut sink, &spy.waker()), Poll::Ready(Ok(())), "it has its room already");
    sink.as_mut().start_send(1).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    assert_eq!(sink.as_mut().poll_flush(&mut cx), Poll::Ready(Ok(())));
    assert_eq!(room(&mut sink, &spy.waker()), Poll::Pending);
    assert_eq!((receiver.try_recv(), spy.wakes()), (Ok(1), 1));
    assert_eq!(room(&mut sink, &spy.waker()), Poll::Ready(Ok(())));
    sink.as_mut().start_send(2).unwrap();
    assert_eq!(sink.as_mut().poll_close(&mut cx), Poll::Ready(Ok(())));
    assert_eq!([receiver.try_recv(), receiver.try_recv()], [Ok(2), Err(TryRecvError::Closed)]);
    assert_eq!(room(&mut sink, &spy.waker()), Poll::Ready(Err(SendError(None))), "it is closed");
    assert_eq!(sink.as_mut().start_send(3), Err(SendError(Some(3))));
}

/// Dropped while it waits, or with room that it does not use: the next sender has it.
#[test]
fn a_sink_that_is_dropped_keeps_no_room() {
    for uses in [false, true] {
        let (sender, receiver) = bounded(1);
        let mut sink = Box::pin(sender.clone().into_sink());
        if uses {
            assert!(room(&mut sink, Waker::noop()).is_ready());
        } else {
            sender.try_send(0).unwrap();
            assert!(room(&mut sink, Waker::noop()).is_pending());
        }
        let mut behind = Box::pin(sender.send(1));
        pending(&mut behind, &Spy::new());
        drop(sink);
        if !uses {
            assert_eq!(receiver.try_recv(), Ok(0));
        }
        ready(&mut behind).unwrap();
        assert_eq!(receiver.try_recv(), Ok(1));
    }
}

#[test]
fn a_sink_gives_back_what_it_cannot_send() {
    let (sender, receiver) = bounded(1);
    let mut sink = Box::pin(sender.into_sink());
    assert!(panic_of(|| sink.as_mut().start_send(1)).contains("poll_ready"));
    assert!(room(&mut sink, Waker::noop()).is_ready());
    drop(receiver);
    assert_eq!(sink.as_mut().start_send(1), Err(SendError(Some(1))));
    assert_eq!(room(&mut sink, Waker::noop()), Poll::Ready(Err(SendError(None))));
    assert_eq!(room(&mut sink, Waker::noop()), Poll::Ready(Err(SendError(None))), "as often as it is asked");
}

/// The waker of a receiver panics in `start_send`: the message has been sent, and the sink goes on.
#[test]
fn a_sink_whose_send_panics_goes_on() {
    let (sender, receiver) = bounded(2);
    let mut sink = Box::pin(sender.into_sink());
    let hostile = Arc::new(Spy::hostile(Call::Wake, || panic!("a waker")));
    let mut receive = Box::pin(receiver.recv());
    pending(&mut receive, &hostile);
    hostile.arm(1);
    assert!(room(&mut sink, Waker::noop()).is_ready());
    assert!(panics(|| sink.as_mut().start_send(1)) && hostile.fired());
    assert_eq!(ready(&mut receive), Ok(1));
    assert!(room(&mut sink, Waker::noop()).is_ready());
    sink.as_mut().start_send(2).unwrap();
    assert_eq!(receiver.try_recv(), Ok(2));
}
