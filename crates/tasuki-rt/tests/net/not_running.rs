//! Sockets of a runtime that does not run: what waits for them waits until it does, or shuts down.

use crate::kit::{MS, runtime, until, watchdog};
use std::future::Future;
use std::io::Write;
use std::os::unix::net;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use tasuki_rt::net::UnixStream;
use tasuki_rt::{LocalRuntime, Runtime, sleep};

/// The waker of an executor that is not ours.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A stream of the runtime of this thread, and its peer.
fn stream() -> (UnixStream, net::UnixStream) {
    let (stream, peer) = net::UnixStream::pair().unwrap();
    (UnixStream::from_std(stream).unwrap(), peer)
}

/// Reads from outside; a byte comes, and nothing wakes the read. Then the runtime runs, or shuts down, which wakes it: what it gives.
fn read_until((mut stream, mut peer): (UnixStream, net::UnixStream), then: impl FnOnce(&AtomicBool)) -> bool {
    assert_eq!(stream.try_write(b"y").unwrap(), 1, "what need not wait");
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let (mut cx, mut byte) = (Context::from_waker(&waker), [0]);
    let mut read = pin!(stream.read(&mut byte));
    assert!(read.as_mut().poll(&mut cx).is_pending());
    peer.write_all(b"x").unwrap();
    std::thread::sleep(20 * MS);
    assert!(!woken.0.load(Ordering::SeqCst), "no worker is there");
    then(&woken.0);
    until(|| woken.0.load(Ordering::SeqCst));
    match read.poll(&mut cx) {
        Poll::Ready(result) => result.is_ok_and(|count| count == 1),
        Poll::Pending => panic!("woken for nothing"),
    }
}

#[test]
fn a_runtime_that_was_not_started() {
    let _dog = watchdog(60);
    let made_in = |runtime: &Runtime| {
        let _inside = runtime.enter();
        stream()
    };
    let (starts, ends) = (runtime(1), runtime(1));
    assert!(read_until(made_in(&starts), |_| starts.start().unwrap()), "the byte");
    let made = made_in(&ends);
    assert!(!read_until(made, |_| drop(ends)), "an error");
}

#[test]
fn a_local_runtime_outside_of_its_block_on() {
    let _dog = watchdog(60);
    let local = || LocalRuntime::new().unwrap();
    let made_in = |local: &LocalRuntime| local.block_on(async { stream() });
    let (again, ends) = (local(), local());
    let run = |woken: &AtomicBool| {
        again.block_on(async {
            while !woken.load(Ordering::SeqCst) {
                sleep(MS).await;
            }
        });
    };
    assert!(read_until(made_in(&again), run), "the byte");
    let made = made_in(&ends);
    assert!(!read_until(made, |_| drop(ends)), "an error");
}
