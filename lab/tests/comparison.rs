//! What the README says of peers, as far as a program can show it. What they do not have, no program can show: those cells are from their documentation.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Whether a newcomer gets a lock that is released while a task waits for it. `$held` holds it, `$lock` waits, `$try` is true if the newcomer has it.
macro_rules! newcomer_passes {
    ($mutex:ident, $held:expr, $try:expr) => {{
        let held = $held;
        let mut waits = pin!($mutex.lock());
        assert!(poll(waits.as_mut()).is_pending());
        drop(held);
        let passes: bool = $try;
        assert!(passes || poll(waits.as_mut()).is_ready(), "the waiter has it, or the newcomer");
        passes
    }};
}

#[test]
fn which_mutexes_serve_their_waiters_in_order() {
    let mutex = tasuki::Mutex::new(());
    assert!(!newcomer_passes!(mutex, mutex.try_lock().unwrap(), mutex.try_lock().is_some()));
    let mutex = tokio::sync::Mutex::new(());
    assert!(!newcomer_passes!(mutex, mutex.try_lock().unwrap(), mutex.try_lock().is_ok()));
    let mutex = asyncband::mutex::Mutex::new(());
    assert!(!newcomer_passes!(mutex, mutex.try_lock().unwrap(), mutex.try_lock().is_some()));
    let mutex = async_lock::Mutex::new(());
    assert!(newcomer_passes!(mutex, mutex.try_lock().unwrap(), mutex.try_lock().is_some()));
    // As an option: the second argument.
    let mutex = futures_intrusive::sync::Mutex::new((), true);
    assert!(!newcomer_passes!(mutex, mutex.try_lock().unwrap(), mutex.try_lock().is_some()));
    let mutex = futures_intrusive::sync::Mutex::new((), false);
    assert!(newcomer_passes!(mutex, mutex.try_lock().unwrap(), mutex.try_lock().is_some()));
}

#[test]
fn which_reader_writer_locks_can_be_upgraded() {
    let lock = tasuki::RwLock::new(1);
    let reader = lock.try_upgradable_read().unwrap();
    *tasuki::RwLockUpgradableReadGuard::try_upgrade(reader).unwrap() = 2;
    let lock = async_lock::RwLock::new(1);
    let reader = lock.try_upgradable_read().unwrap();
    *async_lock::RwLockUpgradableReadGuard::try_upgrade(reader).unwrap() = 2;
    // The others have readers and writers.
    let lock = tokio::sync::RwLock::new(1);
    assert_eq!(*lock.try_read().unwrap() + *lock.try_read().unwrap(), 2);
    assert!(lock.try_write().is_ok());
    let lock = asyncband::rwlock::RwLock::new(1);
    assert_eq!(*lock.try_read().unwrap() + *lock.try_read().unwrap(), 2);
    assert!(lock.try_write().is_some());
}

#[test]
fn which_events_reset_themselves() {
    let event = asyncband::event::AutoResetEvent::new();
    event.set();
    assert!(poll(pin!(event.wait())).is_ready() && poll(pin!(event.wait())).is_pending());
    let event = asyncband::event::ManualResetEvent::new();
    event.set();
    assert!(poll(pin!(event.wait())).is_ready() && poll(pin!(event.wait())).is_ready());
    let event = futures_intrusive::sync::ManualResetEvent::new(false);
    event.set();
    assert!(poll(pin!(event.wait())).is_ready() && poll(pin!(event.wait())).is_ready());
    // `Notify` keeps one signal, however many were given, and a signal to all only for those that wait.
    let notify = tokio::sync::Notify::new();
    notify.notify_one();
    notify.notify_one();
    assert!(poll(pin!(notify.notified())).is_ready() && poll(pin!(notify.notified())).is_pending());
    notify.notify_waiters();
    assert!(poll(pin!(notify.notified())).is_pending());
}

#[test]
fn asyncband_has_a_condition_variable_and_a_wait_group() {
    let (mutex, condvar) = (asyncband::mutex::Mutex::new(false), asyncband::condvar::Condvar::new());
    let mut waits = pin!(condvar.wait(mutex.try_lock().unwrap()));
    assert!(poll(waits.as_mut()).is_pending());
    condvar.notify_one();
    assert!(poll(waits.as_mut()).is_ready());
    let group = asyncband::waitgroup::WaitGroup::new();
    let member = group.clone();
    let mut waits = pin!(std::future::IntoFuture::into_future(group));
    assert!(poll(waits.as_mut()).is_pending());
    drop(member);
    assert!(poll(waits.as_mut()).is_ready());
}

/// A limit of ours gives back what the wait was given. Those of peers drop the future, and what is in it.
#[test]
fn what_a_timeout_gives_back() {
    let lock = tasuki::RwLock::new(1);
    let (reader, upgradable) = (lock.try_read(), lock.try_upgradable_read().unwrap());
    let upgrade = tasuki::RwLockUpgradableReadGuard::upgrade(upgradable);
    let ended = upgrade.deadline(std::time::Instant::now()).block();
    let Err(tasuki::GivenBack { value, .. }) = ended else { panic!("a reader is inside") };
    assert_eq!(*value, 1);
    drop(reader);
}

#[test]
fn futures_intrusive_has_a_channel_without_room_and_none_that_broadcasts_a_sequence() {
    use futures_intrusive::channel::{StateBroadcastChannel, StateId, UnbufferedChannel};
    let channel = UnbufferedChannel::<i32>::new();
    let mut sends = pin!(channel.send(1));
    assert!(poll(sends.as_mut()).is_pending());
    assert_eq!(poll(pin!(channel.receive())), Poll::Ready(Some(1)));
    // Its broadcast of a state is a watch: only the newest is seen.
    let state = StateBroadcastChannel::<i32>::new();
    state.send(1).unwrap();
    state.send(2).unwrap();
    let Poll::Ready(Some((_, seen))) = poll(pin!(state.receive(StateId::new()))) else {
        panic!("there is a state")
    };
    assert_eq!(seen, 2);
}
