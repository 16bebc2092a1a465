//! What works on wasm32-unknown-unknown, where there is one thread and no clock, and what says clearly that it does not. Empty elsewhere; `run.mjs` calls it under node
//! (`cargo xtask targets`).
#![cfg(target_family = "wasm")]

use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tasuki::{
    Barrier, CancellationSource, Condvar, Event, Latch, Mutex, OnceCell, RwLock, Semaphore, WaitGroup,
    channel, task,
};

const LONG: Duration = Duration::from_secs(60);

thread_local! {
    /// The last panic, for the script to read after the trap.
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// To be called first.
#[unsafe(no_mangle)]
pub extern "C" fn listen_to_panics() {
    std::panic::set_hook(Box::new(|info| MESSAGE.with_borrow_mut(|message| *message = info.to_string())));
}

/// Where the message of the last panic is.
#[unsafe(no_mangle)]
pub extern "C" fn message_start() -> *const u8 {
    MESSAGE.with_borrow(|message| message.as_ptr())
}

/// How long it is.
#[unsafe(no_mangle)]
pub extern "C" fn message_length() -> usize {
    MESSAGE.with_borrow(String::len)
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn now<F: Future>(future: F) -> F::Output {
    match poll(pin!(future)) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it should be ready"),
    }
}

/// Everything that waits as a task, free and contended.
#[unsafe(no_mangle)]
pub extern "C" fn primitives_work() {
    let mutex = Mutex::new(1);
    let guard = now(mutex.lock());
    let mut waits = pin!(mutex.lock());
    assert!(poll(waits.as_mut()).is_pending() && mutex.try_lock().is_none());
    drop(guard);
    assert!(matches!(poll(waits.as_mut()), Poll::Ready(guard) if *guard == 1));

    let rwlock = RwLock::new(2);
    let (one, two) = (now(rwlock.read()), now(rwlock.read()));
    let mut writes = pin!(rwlock.write());
    assert!(poll(writes.as_mut()).is_pending());
    drop((one, two));
    assert!(poll(writes.as_mut()).is_ready());

    let semaphore = Semaphore::new(1);
    let permit = now(semaphore.acquire()).unwrap();
    let mut waits = pin!(semaphore.acquire());
    assert!(poll(waits.as_mut()).is_pending());
    drop(permit);
    assert!(poll(waits.as_mut()).is_ready());

    let (event, latch, group, barrier) = (Event::auto(), Latch::new(1), WaitGroup::new(), Barrier::new(2));
    let mut waits = pin!(event.wait());
    assert!(poll(waits.as_mut()).is_pending());
    event.set();
    assert!(poll(waits.as_mut()).is_ready());
    latch.count_down();
    now(latch.wait());
    now(group.wait());
    let mut first = pin!(barrier.arrive_and_wait());
    assert!(poll(first.as_mut()).is_pending() && now(barrier.arrive_and_wait()).is_leader());
    assert!(poll(first).is_ready());

    let (ready, condvar, cell) = (Mutex::new(false), Condvar::new(), OnceCell::new());
    let mut waits = pin!(condvar.wait_while(now(ready.lock()), |ready| !*ready));
    assert!(poll(waits.as_mut()).is_pending());
    *now(ready.lock()) = true;
    condvar.notify_one();
    assert!(poll(waits.as_mut()).is_ready());
    assert_eq!(*now(cell.get_or_init(async || 5)), 5);

    let (sender, receiver) = channel::bounded(1);
    now(sender.send(1)).unwrap();
    let mut sends = pin!(sender.send(2));
    assert!(poll(sends.as_mut()).is_pending());
    assert_eq!(now(receiver.recv()), Ok(1));
    assert!(poll(sends.as_mut()).is_ready());

    let source = CancellationSource::new();
    let token = source.token();
    let held = Arc::new(Mutex::new(0));
    let _guard = now(held.clone().lock_owned());
    let mut limited = pin!(held.lock().or_cancelled(&token));
    assert!(poll(limited.as_mut()).is_pending());
    source.request_cancel();
    assert!(matches!(poll(limited.as_mut()), Poll::Ready(Err(_))));
    assert!(now(task::identify(async { task::current().is_some() })));
}

/// What need not wait needs no clock and no thread: a limit, `.block()`, and many operations in a row.
#[unsafe(no_mangle)]
pub extern "C" fn what_need_not_wait_works() {
    let mutex = Mutex::new(0);
    assert!(now(mutex.lock().timeout(LONG)).is_ok());
    assert!(mutex.lock().timeout(LONG).block().is_ok());
    now(async {
        for _ in 0..10_000 {
            *mutex.lock().await += 1;
        }
    });
    assert_eq!(*mutex.lock().block(), 10_000);
}

/// Says `Unsupported`, and does not trap.
#[unsafe(no_mangle)]
pub extern "C" fn runtimes_are_refused() {
    let refused = [tasuki_rt::Runtime::new().map(drop), tasuki_rt::LocalRuntime::new().map(drop)];
    for result in refused {
        let error = result.expect_err("there are no threads and no clock");
        assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("wasm"), "{error}");
    }
    assert!(tasuki_rt::Handle::try_current().is_err());
}

/// Traps, with a message.
#[unsafe(no_mangle)]
pub extern "C" fn contended_timeout() {
    let mutex = Mutex::new(0);
    let _guard = now(mutex.lock());
    let _ = poll(pin!(mutex.lock().timeout(LONG)));
}

/// Traps, with a message.
#[unsafe(no_mangle)]
pub extern "C" fn sleep() {
    let _ = poll(pin!(tasuki_rt::sleep(LONG)));
}
