//! The lock with an owner's key: the owner is right from the moment of the grant, whatever races it.

use crate::support::{Log, Task, join, model, spawn};
use loom::cell::UnsafeCell;
use std::cell::Cell;
use std::num::NonZeroUsize;
use std::task::Poll;
use tasuki::runtime::{
    Domain, Key, KeyedGuard, KeyedLock, KeyedMutex, KeyedRawMutex, keyed_lock, keyed_try_lock,
};

loom::thread_local! {
    /// Where the thread is; 0 is nowhere.
    static HERE: Cell<usize> = Cell::new(0);
}

fn go_to(place: usize) {
    HERE.with(|here| here.set(place));
}

struct Places;

impl Domain for Places {
    type Error = ();

    fn here() -> Result<Key, ()> {
        NonZeroUsize::new(HERE.with(Cell::get)).map(Key).ok_or(())
    }

    fn elsewhere() {}

    fn may_release(owner: Key) -> bool {
        Self::here() == Ok(owner)
    }
}

struct Mutex {
    raw: KeyedRawMutex,
    log: Log,
    /// Written under the lock, and seen by the model.
    place: UnsafeCell<usize>,
}

// SAFETY: the lock and the log, which is written under the lock.
unsafe impl KeyedMutex for Mutex {
    type Value = Log;
    type Domain = Places;

    fn raw(&self) -> &KeyedRawMutex {
        &self.raw
    }

    fn value(&self) -> *mut Log {
        (&raw const self.log).cast_mut()
    }
}

type Lock = KeyedLock<&'static Mutex>;
type Guard = KeyedGuard<&'static Mutex>;

fn mutex() -> Mutex {
    Mutex { raw: KeyedRawMutex::new(), log: Log::new(), place: UnsafeCell::new(0) }
}

fn lock(mutex: &'static Mutex) -> Lock {
    keyed_lock(mutex)
}

/// A wait that has begun at this place; the thread goes back to where it was.
fn waiting_at(mutex: &'static Mutex, place: usize) -> Task<Lock> {
    let before = HERE.with(Cell::get);
    go_to(place);
    let task = Task::waiting(lock(mutex));
    go_to(before);
    task
}

fn owner(mutex: &Mutex) -> usize {
    mutex.raw.owner().map_or(0, |key| key.0.get())
}

/// With the lock, at this place: the owner is this place, and no other thread writes.
fn sign(mutex: &'static Mutex, guard: Guard, place: usize) {
    assert_eq!((mutex.raw.is_locked(), owner(mutex)), (true, place));
    // SAFETY: under the lock, which the model checks.
    mutex.place.with_mut(|seen| unsafe { *seen = place });
    guard.sign(char::from_digit(place as u32, 10).unwrap());
    drop(guard);
}

fn lock_and_sign(mutex: &'static Mutex, place: usize) {
    go_to(place);
    let guard = Task::new(lock(mutex)).run().unwrap();
    sign(mutex, guard, place);
}

fn at_rest(mutex: &'static Mutex) -> String {
    assert_eq!((mutex.raw.is_locked(), owner(mutex)), (false, 0));
    go_to(9);
    let guard = keyed_try_lock(mutex).unwrap().expect("free");
    guard.read()
}

#[test]
fn two_places() {
    model(mutex, |mutex| {
        let thread = spawn(move || lock_and_sign(mutex, 1));
        lock_and_sign(mutex, 2);
        join([thread]);
        assert_eq!(at_rest(mutex).len(), 2);
    });
}

/// The lock is passed down the queue while one of the waiters cancels: the owner is the waiter that is left, before it runs.
fn cancel_races_unlock(mutex: &'static Mutex, cancelled: usize) {
    go_to(1);
    let held = keyed_try_lock(mutex).unwrap().unwrap();
    let mut tasks = vec![(2, waiting_at(mutex, 2)), (3, waiting_at(mutex, 3))];
    let (_, given_up) = tasks.remove(cancelled);
    let canceller = spawn(move || drop(given_up));
    sign(mutex, held, 1);
    let (place, task) = tasks.remove(0);
    join([canceller]);
    assert_eq!((mutex.raw.is_locked(), owner(mutex)), (true, place), "granted, and has not run");
    go_to(place);
    sign(mutex, task.run().unwrap(), place);
    assert_eq!(at_rest(mutex), format!("1{place}"));
}

#[test]
fn cancel_of_the_head_races_unlock() {
    model(mutex, |mutex| cancel_races_unlock(mutex, 0));
}

#[test]
fn cancel_of_the_tail_races_unlock() {
    model(mutex, |mutex| cancel_races_unlock(mutex, 1));
}

/// A wait that is polled elsewhere ends, whether it was granted meanwhile or not, and the lock goes to the next.
#[test]
fn a_poll_elsewhere_races_unlock() {
    model(mutex, |mutex| {
        go_to(1);
        let held = keyed_try_lock(mutex).unwrap().unwrap();
        let (mut moved, next) = (waiting_at(mutex, 2), waiting_at(mutex, 3));
        let elsewhere = spawn(move || {
            go_to(4);
            assert!(matches!(moved.poll(), Poll::Ready(Err(()))));
        });
        sign(mutex, held, 1);
        join([elsewhere]);
        assert_eq!(owner(mutex), 3);
        go_to(3);
        sign(mutex, next.run().unwrap(), 3);
        assert_eq!(at_rest(mutex), "13");
    });
}

/// Another waker, while the lock is granted.
#[test]
fn a_new_waker_races_unlock() {
    model(mutex, |mutex| {
        go_to(1);
        let held = keyed_try_lock(mutex).unwrap().unwrap();
        let mut task = waiting_at(mutex, 2);
        let waiter = spawn(move || {
            go_to(2);
            task.change_alarm();
            let guard = match task.poll() {
                Poll::Ready(guard) => guard.unwrap(),
                Poll::Pending => task.finish().unwrap(),
            };
            sign(mutex, guard, 2);
        });
        sign(mutex, held, 1);
        join([waiter]);
        assert_eq!(at_rest(mutex), "12");
    });
}

/// Who sees the lock held sees an owner, unless it was released in between.
#[test]
fn a_look_at_the_owner() {
    model(mutex, |mutex| {
        let holder = spawn(move || {
            go_to(1);
            let guard = keyed_try_lock(mutex).unwrap().expect("alone");
            guard.sign('1');
            guard
        });
        let locked = mutex.raw.is_locked();
        assert!(!locked || owner(mutex) == 1);
        let guard = holder.join().unwrap();
        go_to(1);
        drop(guard);
        assert_eq!(at_rest(mutex), "1");
    });
}
