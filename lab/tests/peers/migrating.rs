//! What `docs/guide/migrating.md` says of other libraries: each test runs theirs beside ours.

use async_executor::LocalExecutor;
use futures_lite::future::{block_on, yield_now};
use std::cell::RefCell;
use std::future::Future;
use std::panic::catch_unwind;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_semaphore_that_is_closed_after_a_grant() {
    let theirs = tokio::sync::Semaphore::new(0);
    let mut waits = pin!(theirs.acquire());
    assert!(poll(waits.as_mut()).is_pending());
    theirs.add_permits(1);
    theirs.close();
    assert!(matches!(poll(waits), Poll::Ready(Err(_))));

    let ours = tasuki::Semaphore::new(0);
    let mut waits = pin!(ours.acquire());
    assert!(poll(waits.as_mut()).is_pending());
    ours.release(1);
    ours.close();
    assert!(matches!(poll(waits), Poll::Ready(Ok(_))));
}

#[test]
fn a_token_that_is_cancelled_when_the_future_is_ready() {
    let done = tasuki::Event::manual();
    let theirs = tokio_util::sync::CancellationToken::new();
    let mut runs = pin!(theirs.run_until_cancelled(done.wait()));
    assert!(poll(runs.as_mut()).is_pending());
    let source = tasuki::CancellationSource::new();
    let ours = source.token();
    let mut ours = pin!(ours.run_until_cancelled(done.wait()));
    assert!(poll(ours.as_mut()).is_pending());
    done.set();
    theirs.cancel();
    source.request_cancel();
    assert_eq!(poll(runs), Poll::Ready(Some(())), "the future is polled first");
    assert_eq!(poll(ours), Poll::Ready(None), "the token is looked at first");
    let mut late = pin!(theirs.run_until_cancelled(async {}));
    assert_eq!(poll(late.as_mut()), Poll::Ready(None), "in the first poll the token is looked at first");
}

#[test]
fn a_signal_between_the_call_and_the_first_poll() {
    let theirs = tokio::sync::Notify::new();
    let notified = theirs.notified();
    theirs.notify_waiters();
    assert!(poll(pin!(notified)).is_ready());

    let theirs = event_listener::Event::new();
    let listener = theirs.listen();
    theirs.notify(1);
    assert!(poll(pin!(listener)).is_ready());

    let ours = tasuki::Event::manual();
    let waits = ours.wait();
    ours.set();
    ours.reset();
    assert!(poll(pin!(waits)).is_pending());
}

#[test]
fn two_signals_before_a_poll() {
    let theirs = event_listener::Event::new();
    let (first, second) = (theirs.listen(), theirs.listen());
    assert_eq!(theirs.notify(1) + theirs.notify(1), 1);
    assert!(poll(pin!(first)).is_ready() && poll(pin!(second)).is_pending());

    let ours = tasuki::Event::auto();
    let (mut first, mut second) = (pin!(ours.wait()), pin!(ours.wait()));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    ours.set();
    ours.set();
    assert!(poll(first).is_ready() && poll(second).is_ready());
}

#[test]
fn a_count_of_nothing() {
    let tracker = tokio_util::task::TaskTracker::new();
    let mut waits = pin!(tracker.wait());
    assert!(poll(waits.as_mut()).is_pending(), "empty, and not closed");
    tracker.close();
    assert!(poll(waits).is_ready());
    assert!(poll(pin!(tasuki::WaitGroup::new().wait())).is_ready());

    assert!(poll(pin!(tokio::sync::Barrier::new(0).wait())).is_ready());
    assert!(poll(pin!(async_lock::Barrier::new(0).wait())).is_ready());
    assert!(std::sync::Barrier::new(0).wait().is_leader());
    assert!(catch_unwind(|| tasuki::Barrier::new(0)).is_err());
}

/// The order in which three readers and a writer, which queue behind a writer in this order, enter.
macro_rules! order_behind_a_writer {
    ($lock:ty) => {{
        let (lock, order) = (<$lock>::new(()), RefCell::new(String::new()));
        let executor = LocalExecutor::new();
        let held = lock.try_write().unwrap();
        let reads = |name| {
            let (lock, order) = (&lock, &order);
            async move {
                let _held = lock.read().await;
                order.borrow_mut().push(name);
                yield_now().await;
            }
        };
        let readers = ['1', '2', '3'].map(|name| executor.spawn(reads(name)));
        let writer = executor.spawn(async {
            let _held = lock.write().await;
            order.borrow_mut().push('w');
        });
        while executor.try_tick() {}
        drop(held);
        block_on(executor.run(async {
            writer.await;
            for reader in readers {
                reader.await;
            }
        }));
        order.take()
    }};
}

#[test]
fn a_writer_that_queues_behind_readers() {
    let theirs = order_behind_a_writer!(async_lock::RwLock<()>);
    assert!(theirs.starts_with("1w"), "one reader enters, then the writer: {theirs}");
    assert_eq!(order_behind_a_writer!(tasuki::RwLock<()>), "123w");
}

#[test]
fn what_a_closed_channel_returns() {
    let (sender, mut theirs) = tokio::sync::mpsc::channel::<u8>(1);
    assert_eq!((sender.capacity(), sender.max_capacity()), (1, 1));
    drop(sender);
    assert_eq!(poll(pin!(theirs.recv_many(&mut Vec::new(), 2))), Poll::Ready(0));

    let (sender, ours) = tasuki::channel::bounded::<u8>(1);
    drop(sender);
    assert_eq!(poll(pin!(ours.recv_many(&mut Vec::new(), 2))), Poll::Ready(Err(tasuki::Closed)));
    assert_eq!(poll(pin!(ours.recv_many(&mut Vec::new(), 0))), Poll::Ready(Ok(0)));
}

#[test]
fn what_is_sent_while_a_channel_is_drained() {
    let (sender, theirs) = flume::bounded(4);
    sender.try_send(1).unwrap();
    let drained = theirs.drain();
    sender.try_send(2).unwrap();
    assert_eq!(drained.count(), 1);

    let (sender, ours) = tasuki::channel::bounded(4);
    sender.try_send(1).unwrap();
    let received = ours.try_iter();
    sender.try_send(2).unwrap();
    assert_eq!(received.count(), 2);
}

#[test]
fn which_bounded_channels_have_no_room() {
    assert!(flume::bounded::<u8>(0).0.try_send(1).is_err());
    assert!(kanal::bounded::<u8>(0).0.try_send(1).is_ok_and(|sent| !sent));
    assert!(catch_unwind(|| tasuki::channel::bounded::<u8>(0)).is_err());
}
