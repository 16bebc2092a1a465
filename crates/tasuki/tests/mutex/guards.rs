//! Guards: borrowed, owned, mapped; what a mutex can hold, and where it can live.
//! S0-21, S0-22, S2-10, S2-11, S2-13, S2-16, S2-21; B081, B105, B107.

use crate::kit::poll::{pending, poll, ready};
use crate::kit::waker::Spy;
use std::fmt::Debug;
use std::sync::{Arc, Weak};
use std::task::Poll;
use tasuki::future::{HandOff, Lock, WaitEvent};
use tasuki::policy::{Bypass, Fifo, Lifo, Policy, Revocable};
use tasuki::{Event, MappedMutexGuard, Mutex, MutexGuard, OwnedMappedMutexGuard, OwnedMutexGuard};

/// S2-21: a static of every policy, and of an event.
#[test]
fn statics() {
    static FIFO: Mutex<u32> = Mutex::new(1);
    static LIFO: Mutex<u32, Lifo> = Mutex::with_policy(2);
    static BYPASS: Mutex<u32, Bypass<9>> = Mutex::with_policy(3);
    static REVOCABLE: Mutex<u32, Revocable> = Mutex::with_policy(4);
    static EVENT: Event = Event::auto();
    let sum = *FIFO.try_lock().unwrap()
        + *LIFO.try_lock().unwrap()
        + *BYPASS.try_lock().unwrap()
        + *REVOCABLE.try_lock().unwrap();
    assert_eq!(sum, 10);
    let spy = Spy::new();
    let guard = FIFO.try_lock().unwrap();
    let mut future: std::pin::Pin<Box<Lock<'static, u32>>> = Box::pin(FIFO.lock());
    pending(&mut future, &spy);
    drop(guard);
    drop(ready(&mut future));
    EVENT.set();
    assert!(EVENT.is_set());
}

trait Animal: Send {
    fn legs(&mut self) -> u32;
}

impl Animal for u32 {
    fn legs(&mut self) -> u32 {
        *self += 1;
        *self
    }
}

/// Values without a size, borrowed and owned, with waiting.
#[test]
fn values_without_a_size() {
    let (bytes, spy): (&Mutex<[u8]>, _) = (&Mutex::new([1, 2, 3]), Spy::new());
    let mut guard = bytes.try_lock().unwrap();
    guard[2] = 9;
    let mut future = Box::pin(bytes.lock());
    pending(&mut future, &spy);
    drop(guard);
    assert_eq!(*ready(&mut future), [1, 2, 9]);

    let animal: Arc<Mutex<dyn Animal, Lifo>> = Arc::new(Mutex::with_policy(3_u32));
    let guard = animal.clone().try_lock_owned().unwrap();
    let mut future = Box::pin(animal.clone().lock_owned());
    pending(&mut future, &spy);
    drop(guard);
    let mut guard = ready(&mut future);
    assert_eq!(guard.legs(), 4);
    let mapped = OwnedMutexGuard::map(guard, |animal| animal);
    drop(mapped);
    assert!(!animal.is_locked());
    let debug: Box<Mutex<dyn Debug, Bypass>> = Box::new(Mutex::with_policy("abc"));
    assert_eq!(format!("{:?}", debug.try_lock().unwrap()), "\"abc\"");
}

/// Whatever the guard, dropping it unlocks and grants the lock to the next.
fn unlocks<P: Policy>(mutex: &Arc<Mutex<(u32, Vec<u8>), P>>, guard: impl Sized) {
    unlocks_by(mutex, || drop(guard));
}

fn unlocks_by<P: Policy>(mutex: &Arc<Mutex<(u32, Vec<u8>), P>>, release: impl FnOnce()) {
    let spy = Spy::new();
    let mut next = Box::pin(mutex.lock());
    pending(&mut next, &spy);
    release();
    assert_eq!(spy.wakes(), 1);
    drop(ready(&mut next));
    assert!(!mutex.is_locked());
    assert_eq!(spy.alive(), 0);
}

fn every_guard<P: Policy>() {
    let mutex = Arc::new(Mutex::<_, P>::with_policy((1, vec![1, 2, 3])));
    let lock = || mutex.try_lock().unwrap();
    let lock_owned = || mutex.clone().try_lock_owned().unwrap();
    unlocks(&mutex, lock());
    unlocks(&mutex, lock_owned());
    unlocks(&mutex, MutexGuard::map(lock(), |pair| &mut pair.0));
    unlocks(&mutex, OwnedMutexGuard::map(lock_owned(), |pair| &mut pair.0));
    let twice = MutexGuard::map(lock(), |pair| &mut pair.1);
    unlocks(&mutex, MappedMutexGuard::map(twice, |bytes| &mut bytes[1]));
    let twice = OwnedMutexGuard::map(lock_owned(), |pair| &mut pair.1);
    unlocks(&mutex, OwnedMappedMutexGuard::map(twice, |bytes| &mut bytes[1..]));
    unlocks(&mutex, MutexGuard::filter_map(lock(), |pair| pair.1.get_mut(2)).unwrap());
    unlocks(&mutex, OwnedMutexGuard::filter_map(lock_owned(), |pair| pair.1.first_mut()).unwrap());
    // S0-09, S2-13: without a drop.
    let guard = lock();
    unlocks_by(&mutex, || MutexGuard::unlock(guard));
    let guard = lock_owned();
    unlocks_by(&mutex, || OwnedMutexGuard::unlock(guard));
    let guard = MutexGuard::map(lock(), |pair| &mut pair.0);
    unlocks_by(&mutex, || MappedMutexGuard::unlock(guard));
    let guard = OwnedMutexGuard::map(lock_owned(), |pair| &mut pair.0);
    unlocks_by(&mutex, || OwnedMappedMutexGuard::unlock(guard));
    // In `Err` the guard comes back, locked.
    let Err(guard) = MutexGuard::filter_map(lock(), |pair| pair.1.get_mut(7)) else { panic!("no such part") };
    assert!(mutex.is_locked());
    unlocks(&mutex, guard);
    let Err(guard) = OwnedMutexGuard::filter_map(lock_owned(), |pair| pair.1.get_mut(7)) else {
        panic!("no such part")
    };
    unlocks(&mutex, guard);
    assert_eq!(Arc::strong_count(&mutex), 1);
}

#[test]
fn every_guard_unlocks() {
    every_guard::<Fifo>();
    every_guard::<Lifo>();
    every_guard::<Bypass>();
    every_guard::<Revocable>();
}

#[test]
fn mapped_guards_write_through() {
    let mutex = Arc::new(Mutex::new((1, vec![1, 2, 3])));
    let mut number = MutexGuard::map(mutex.try_lock().unwrap(), |pair| &mut pair.0);
    *number += 1;
    MappedMutexGuard::unlock(MappedMutexGuard::map(number, |number| number));
    let bytes = OwnedMutexGuard::map(mutex.clone().try_lock_owned().unwrap(), |pair| &mut pair.1);
    let mut byte: OwnedMappedMutexGuard<_, i32> = OwnedMappedMutexGuard::map(bytes, |bytes| &mut bytes[0]);
    *byte = 7;
    drop(byte);
    let mutex = Arc::into_inner(mutex).expect("it is not kept");
    assert_eq!(mutex.into_inner(), (2, vec![7, 2, 3]));
}

/// B081: mapping an owned guard a hundred times leaks no `Arc`; the guard keeps the mutex alive until the end.
#[test]
fn b081_mapping_leaks_nothing() {
    let mutex = Arc::new(Mutex::new([0_u32; 4]));
    let weak: Weak<_> = Arc::downgrade(&mutex);
    let mut guard = OwnedMutexGuard::map(mutex.try_lock_owned().unwrap(), |array| array);
    for _ in 0..100 {
        guard = OwnedMappedMutexGuard::map(guard, |array| array);
        guard = OwnedMappedMutexGuard::filter_map(guard, |array| Some(array)).unwrap();
        guard = OwnedMappedMutexGuard::filter_map(guard, |_| None::<&mut ()>).unwrap_err();
        assert_eq!(weak.strong_count(), 1);
    }
    guard[3] = 1;
    drop(guard);
    assert!(weak.upgrade().is_none());
}

/// An owned lock future keeps the mutex alive in every state, and lets go of it when it is dropped.
#[test]
fn owned_futures_keep_the_mutex() {
    let (mutex, spy) = (Arc::new(Mutex::new(5)), Spy::new());
    let weak = Arc::downgrade(&mutex);
    let guard = mutex.clone().try_lock_owned().unwrap();
    let mut future = Box::pin(mutex.lock_owned());
    pending(&mut future, &spy);
    assert_eq!(weak.strong_count(), 2);
    drop(guard);
    assert_eq!(weak.strong_count(), 1);
    let guard = ready(&mut future);
    drop(future);
    assert_eq!((weak.strong_count(), *guard), (1, 5));
    drop(guard);
    assert!(weak.upgrade().is_none());
    // The last owner is a granted future that is not polled.
    let mutex = Arc::new(Mutex::new(5));
    let weak = Arc::downgrade(&mutex);
    let guard = mutex.clone().try_lock_owned().unwrap();
    let mut future = Box::pin(mutex.lock_owned());
    pending(&mut future, &spy);
    drop(guard);
    drop(future);
    assert!(weak.upgrade().is_none());
}

#[test]
fn values_move_in_and_out() {
    let mut mutex: Mutex<String> = Mutex::from("a".to_owned());
    mutex.get_mut().push('b');
    assert_eq!(mutex.try_lock().unwrap().as_str(), "ab");
    assert_eq!(mutex.into_inner(), "ab");
    assert_eq!(Mutex::<u32, Lifo>::default().into_inner(), 0);
    // The value is dropped with the mutex, once.
    let value = Arc::new(());
    drop(Mutex::new(value.clone()));
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn what_they_print() {
    let mutex = Arc::new(Mutex::new(7));
    let shows = |thing: &dyn Debug, text: &str| {
        assert!(format!("{thing:?}").contains(text), "{thing:?} does not show {text}");
    };
    shows(&mutex, "7");
    let guard = mutex.try_lock().unwrap();
    shows(&mutex, "locked");
    shows(&guard, "7");
    assert_eq!(format!("{guard}"), "7");
    let mapped = MutexGuard::map(guard, |value| value);
    assert_eq!(format!("{mapped} {mapped:?}"), "7 7");
    let spy = Spy::new();
    let mut future = Box::pin(mutex.lock());
    shows(&future, "Idle");
    pending(&mut future, &spy);
    shows(&future, "Queued");
    drop(mapped);
    let Poll::Ready(guard) = poll(&mut future, &spy) else { panic!("granted") };
    shows(&future, "Finished");
    let hand_off: HandOff = MutexGuard::hand_off(guard);
    shows(&hand_off, "HandOff");
    let event = Event::manual();
    let wait: WaitEvent<'_> = event.wait();
    shows(&event, "Manual");
    shows(&wait, "tasuki::future::WaitEvent");
    assert!(!format!("{mutex:?}").contains("locked"), "showing it leaves it free");
}
