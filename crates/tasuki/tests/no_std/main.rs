//! What the library does without `std`, where it cannot catch a panic: a program that has `std` uses it without. `cargo xtask check` runs it with the feature `alloc` alone.
//!
//! `cargo test -p tasuki --no-default-features --features alloc --test no_std`

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Waker};
use tasuki::channel::{Channel, bounded, rendezvous, unbounded};

const MESSAGES: usize = 8;

/// Counts its drops, and panics in one of them.
struct Message(usize, Arc<AtomicUsize>);

impl Drop for Message {
    fn drop(&mut self) {
        self.1.fetch_add(1, Relaxed);
        assert_ne!(self.0, 2, "a hostile message");
    }
}

/// Sends messages, and drops what holds them: the panic comes through, and every message has been dropped.
fn all_are_dropped<R>(name: &str, send: impl FnOnce(&mut dyn FnMut() -> Message) -> R) {
    let (drops, mut number) = (Arc::new(AtomicUsize::new(0)), 0..);
    let receiver = send(&mut || Message(number.next().unwrap(), drops.clone()));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(receiver))).is_err(), "{name}: the panic is lost");
    assert_eq!(drops.load(Relaxed), MESSAGES, "{name}: so many messages were dropped");
}

/// The destructor of a message panics while all are dropped, with the last receiver or with the channel: the others are dropped all the same.
#[test]
fn a_message_whose_drop_panics_leaves_no_other() {
    all_are_dropped("bounded", |message| {
        let (sender, receiver) = bounded(MESSAGES);
        (0..MESSAGES).for_each(|_| assert!(sender.try_send(message()).is_ok()));
        receiver
    });
    all_are_dropped("unbounded", |message| {
        let (sender, receiver) = unbounded();
        (0..MESSAGES).for_each(|_| assert!(sender.try_send(message()).is_ok()));
        receiver
    });
    all_are_dropped("without an allocation", |message| {
        let channel = Channel::<Message, MESSAGES>::new();
        (0..MESSAGES).for_each(|_| assert!(channel.try_send(message()).is_ok()));
        channel
    });
    all_are_dropped("rendezvous", |message| {
        let (sender, receiver) = rendezvous();
        let mut receives: Vec<_> = (0..MESSAGES).map(|_| Box::pin(receiver.recv())).collect();
        for receive in &mut receives {
            assert!(receive.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert!(sender.try_send(message()).is_ok());
        }
        drop(receives);
        receiver
    });
}
