//! `Debug` of every lock, and of a future that waits, was notified, granted or refused, or has ended: a holder, where it took the lock, how many wait and for how long; and what the next poll finds.

use super::{Actor, two};
use crate::{Condvar, Mutex, ReentrantMutex, RwLock, Semaphore, channel};
use core::task::Poll;
use std::boxed::Box;
use std::format;
use std::vec::Vec;

/// A row for each lock of this crate: taken by one task, waited for by another, granted to that, free again. (`LoopMutex` has its test with the runtime.)
#[test]
fn a_lock_names_a_holder_and_counts_the_waits() {
    macro_rules! row {
        ($word:literal, $free:literal, $lock:expr, $take:expr, $wait:expr) => {
            let ((one, two), lock) = (two(), $lock);
            assert_eq!(format!("{lock:?}"), $free);
            let held = one.run(|| $take(&lock));
            let mut wait = Box::pin($wait(&lock));
            two.waits(wait.as_mut());
            let (shown, named) = (format!("{lock:?}"), format!("<{} by {} at ", $word, one.0));
            assert!(shown.contains(&named) && shown.contains("debug.rs:"), "{shown}");
            assert!(shown.contains(", 1 waits, for "), "{shown}");
            one.run(|| drop(held));
            let (shown, named) = (format!("{lock:?}"), format!("<{} by {} at ", $word, two.0));
            assert!(
                shown.contains(&named) && shown.contains("debug.rs:") && !shown.contains("waits"),
                "{shown}"
            );
            assert!(format!("{wait:?}").contains("phase: Granted"), "{wait:?}");
            let claimed = two.poll(wait.as_mut());
            assert!(claimed.is_ready() && format!("{lock:?}").contains(&named));
            assert!(format!("{wait:?}").contains("phase: Finished"), "{wait:?}");
            two.run(|| drop(claimed));
            drop(wait);
            assert_eq!(format!("{lock:?}"), $free);
        };
    }
    row!("locked", "Mutex { value: 0 }", Mutex::new(0), Mutex::try_lock, Mutex::lock);
    row!("locked", "RwLock { value: 0 }", RwLock::new(0), RwLock::try_write, RwLock::write);
    row!(
        "locked",
        "ReentrantMutex { owner: 0, depth: 0, .. }",
        ReentrantMutex::new(0),
        ReentrantMutex::try_lock,
        ReentrantMutex::lock
    );
    row!(
        "taken",
        "Semaphore { available_permits: 1, closed: false }",
        Semaphore::new(1),
        Semaphore::try_acquire,
        Semaphore::acquire
    );
}

/// A wait of a condvar has been notified before it has the mutex.
#[test]
fn what_is_notified_is_not_always_granted() {
    let (mutex, condvar) = (Mutex::new(0), Condvar::new());
    let me = Actor::new();
    let mut wait = Box::pin(condvar.wait(me.run(|| mutex.try_lock().unwrap())));
    assert!(format!("{wait:?}").contains("phase: Idle"), "{wait:?}");
    me.waits(wait.as_mut());
    assert!(format!("{wait:?}").contains("phase: Queued"), "{wait:?}");
    let held = mutex.try_lock().unwrap();
    condvar.notify_one();
    assert!(format!("{wait:?}").contains("phase: Notified"), "{wait:?}");
    me.waits(wait.as_mut());
    assert!(format!("{wait:?}").contains("phase: Queued"), "{wait:?}");
    drop(held);
    assert!(format!("{wait:?}").contains("phase: Granted"), "{wait:?}");
}

/// A row for each wait that a close can end, which its next poll says.
#[test]
fn what_a_close_has_ended_is_not_granted() {
    macro_rules! row {
        ($wait:expr, $close:expr) => {
            let (me, mut wait) = (Actor::new(), Box::pin($wait));
            me.waits(wait.as_mut());
            $close;
            assert!(format!("{wait:?}").contains("phase: Refused"), "{wait:?}");
            assert!(matches!(me.poll(wait.as_mut()), Poll::Ready(Err(_))));
        };
    }
    let (semaphore, mut buffer) = (Semaphore::new(0), Vec::new());
    row!(semaphore.acquire(), semaphore.close());
    let [(_sender, one), (full, other), (wanted, third)] = [(); 3].map(|()| channel::bounded(1));
    row!(one.recv(), one.close());
    row!(third.recv_many(&mut buffer, 1), drop(wanted));
    full.try_send(1).unwrap();
    row!(full.send(2), other.close());
    let (full, last) = channel::bounded(1);
    full.try_send(1).unwrap();
    row!(full.reserve(), drop(last));
    let (sender, receiver) = channel::rendezvous();
    row!(sender.send(1), receiver.close());
    let (sender, receiver) = channel::rendezvous::<u8>();
    row!(receiver.recv(), drop(sender));
    let (sender, receiver) = channel::oneshot::<u8>();
    row!(receiver.recv(), drop(sender));
    let (sender, receiver) = channel::oneshot();
    let mut granted = Box::pin(receiver.recv());
    Actor::new().waits(granted.as_mut());
    sender.send(1).unwrap();
    assert!(format!("{granted:?}").contains("phase: Granted"), "{granted:?}");
}
