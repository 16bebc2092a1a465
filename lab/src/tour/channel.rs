//! Tour stop: a channel whose receives and sends are cancelled all the time, and that loses nothing.

use super::{Guide, grouped, rate};
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Instant;
use tasuki::channel::{bounded, oneshot};

/// Sends messages to receives that are dropped when they have been granted one, and gives up sends that wait.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let messages = guide.pick(1_000_000, 20_000);
    let started = Instant::now();
    let (received, cancelled, given_back, in_order) = pass(messages);
    let taken = started.elapsed();
    guide.check(
        received == messages && in_order,
        format_args!("{} messages received, each once and in order", grouped(messages)),
    )?;
    guide.check(
        cancelled > 0,
        format_args!("{} receives dropped with a message granted to them: none was lost", grouped(cancelled)),
    )?;
    guide.check(
        given_back > 0,
        format_args!("{} sends cancelled while they waited: each gave its message back", grouped(given_back)),
    )?;
    let (reply, answer) = oneshot::<()>();
    drop(reply);
    guide.check(answer.recv().block().is_err(), "a reply that never comes is an error, not a hang")?;
    guide.say(format_args!("       {}", rate(messages, taken)));
    Ok(())
}

/// What was received, how many receives and sends were cancelled, and whether the messages were in order.
fn pass(messages: usize) -> (usize, usize, usize, bool) {
    let (sender, receiver) = bounded(4);
    let mut cx = Context::from_waker(Waker::noop());
    let (mut received, mut cancelled, mut given_back, mut in_order, mut next) = (0, 0, 0, true, 0);
    while received < messages {
        {
            let mut dropped: Pin<Box<_>> = Box::pin(receiver.recv());
            let waits = Future::poll(dropped.as_mut(), &mut cx).is_pending();
            while sender.try_send(next).is_ok() {
                next += 1;
            }
            cancelled += usize::from(waits);
        }
        let mut waiting = Box::pin(sender.send(next));
        if Future::poll(waiting.as_mut(), &mut cx).is_pending() && waiting.as_mut().cancel() == Some(next) {
            given_back += 1;
        }
        for message in receiver.try_iter() {
            in_order &= message == received;
            received += 1;
        }
    }
    (received.min(messages), cancelled, given_back, in_order)
}
