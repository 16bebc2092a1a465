//! The guards of the reader-writer lock: ways out, parts, owned forms. S3-20, S3-24; B081, B107.

use crate::kit::fixture::open;
use crate::kit::poll::{panics, pending, poll, ready};
use crate::kit::waker::Spy;
use crate::kit::watchdog::watchdog;
use std::sync::Arc;
use std::task::Poll;
use tasuki::{
    MappedRwLockReadGuard, MappedRwLockWriteGuard, OwnedMappedRwLockReadGuard, OwnedMappedRwLockWriteGuard,
    OwnedRwLockReadGuard, OwnedRwLockUpgradableReadGuard, OwnedRwLockWriteGuard, RwLock, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard,
};

#[test]
fn guards_are_released_on_every_way_out() {
    let _dog = watchdog(30);
    let lock = RwLock::new(0);
    assert!(panics(|| {
        let _guard = lock.try_write().unwrap();
        panic!("inside");
    }));
    assert!(panics(|| {
        let _guards = (lock.try_read().unwrap(), lock.try_upgradable_read().unwrap());
        panic!("inside");
    }));
    RwLockWriteGuard::unlock(lock.try_write().unwrap());
    RwLockReadGuard::unlock(lock.try_read().unwrap());
    RwLockUpgradableReadGuard::unlock(lock.try_upgradable_read().unwrap());
    drop(RwLockWriteGuard::hand_off(lock.try_write().unwrap()));
    assert_eq!(open(&lock), "ruw");
}

#[test]
fn mapped_guards_show_a_part_and_hold_all() {
    let _dog = watchdog(30);
    let lock = RwLock::new((1, String::from("one")));
    let name = RwLockReadGuard::map(lock.try_read().unwrap(), |pair| &*pair.1);
    let again = RwLockReadGuard::filter_map(lock.try_read().unwrap(), |pair| pair.1.get(1..)).unwrap();
    assert_eq!((&*name, &*again, open(&lock).as_str()), ("one", "ne", "ru"));
    let back = RwLockReadGuard::filter_map(lock.try_read().unwrap(), |pair| pair.1.get(9..)).unwrap_err();
    assert_eq!(back.0, 1);
    drop((name, again, back));
    let mut number = RwLockWriteGuard::map(lock.try_write().unwrap(), |pair| &mut pair.0);
    *number += 1;
    assert_eq!(open(&lock), "");
    let part: MappedRwLockWriteGuard<'_, i32> = MappedRwLockWriteGuard::map(number, |number| number);
    let part = MappedRwLockWriteGuard::filter_map(part, |_| None::<&mut i32>).unwrap_err();
    drop(part);
    let whole = RwLockWriteGuard::filter_map(lock.try_write().unwrap(), |_| None::<&mut i32>).unwrap_err();
    assert_eq!(whole.0, 2);
    drop(whole);
    // A panic in the closure releases.
    let map = |guard| RwLockReadGuard::map(guard, |_| -> &i32 { panic!("in the closure") });
    assert!(panics(|| MappedRwLockReadGuard::unlock(map(lock.try_read().unwrap()))));
    assert_eq!(open(&lock), "ruw");
}

/// B081: owned guards keep the lock, mapped or not, and give it up.
#[test]
fn b081_owned_guards_keep_the_lock_and_leak_nothing() {
    let _dog = watchdog(30);
    let lock = Arc::new(RwLock::new((1, 2)));
    for _ in 0..100 {
        let read = lock.clone().try_read_owned().unwrap();
        let part: OwnedMappedRwLockReadGuard<_, i32> = OwnedRwLockReadGuard::map(read, |pair| &pair.0);
        assert_eq!(*part, 1);
        drop(part);
        let write = lock.clone().try_write_owned().unwrap();
        let part: OwnedMappedRwLockWriteGuard<_, i32> = OwnedRwLockWriteGuard::map(write, |pair| &mut pair.1);
        assert_eq!(*part, 2);
        drop(part);
        let upgradable = lock.clone().try_upgradable_read_owned().unwrap();
        let writer = ready(&mut Box::pin(OwnedRwLockUpgradableReadGuard::upgrade(upgradable)));
        drop(OwnedRwLockWriteGuard::downgrade(writer));
    }
    assert_eq!(Arc::strong_count(&lock), 1);
    let weak = Arc::downgrade(&lock);
    let spy = Spy::new();
    let writer = lock.clone().try_write_owned().unwrap();
    let (mut read, mut write) = (Box::pin(lock.clone().read_owned()), Box::pin(lock.write_owned()));
    pending(&mut read, &spy);
    pending(&mut write, &spy);
    drop(writer);
    let reader = ready(&mut read);
    assert_eq!(reader.0, 1);
    drop((write, reader, read));
    assert!(weak.upgrade().is_none());
}

#[test]
fn the_rest_of_the_surface() {
    let _dog = watchdog(30);
    let mut lock = RwLock::new(1);
    assert_eq!(format!("{lock:?}"), "RwLock { value: 1 }");
    *lock.get_mut() += 1;
    let writer = lock.try_write().unwrap();
    assert_eq!(
        (format!("{lock:?}"), format!("{writer} {writer:?}")),
        ("RwLock { value: <locked> }".into(), "2 2".into())
    );
    drop(writer);
    assert_eq!(RwLock::from(3).into_inner() + RwLock::<i32>::default().into_inner(), 3);
    let unsized_lock: Box<RwLock<[i32]>> = Box::new(RwLock::new([1, 2, 3]));
    unsized_lock.try_write().unwrap()[0] = 7;
    assert_eq!(unsized_lock.try_read().unwrap().iter().sum::<i32>(), 12);
    let shared: Arc<RwLock<dyn Fn() -> i32 + Send + Sync>> = Arc::new(RwLock::new(|| 5));
    assert_eq!(shared.read_owned().block()(), 5);
    assert!(matches!(poll(&mut Box::pin(lock.read()), &Spy::new()), Poll::Ready(guard) if *guard == 2));
}
