//! The reader-writer lock: which callers enter, in which order, and upgrades and downgrades of guards.
//! S3-18, S3-20, S3-24; B011, B021, B055, B057, B089, H5, H8, H10, H12.

use crate::kit::fixture::open;
use crate::kit::poll::{BoxFuture, panic_of, panics, pending, poll, ready};
use crate::kit::scaled;
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::sync::{Arc, Barrier as Meeting, Mutex as StdMutex};
use tasuki::{
    OwnedRwLockUpgradableReadGuard, OwnedRwLockWriteGuard, RwLock, RwLockUpgradableReadGuard,
    RwLockWriteGuard,
};

#[test]
fn who_excludes_whom() {
    let _dog = watchdog(30);
    let lock = RwLock::new(0);
    assert_eq!(open(&lock), "ruw");
    let reader = lock.try_read().unwrap();
    assert_eq!(open(&lock), "ru");
    let upgradable = lock.try_upgradable_read().unwrap();
    assert_eq!(open(&lock), "r");
    drop(reader);
    assert_eq!(open(&lock), "r");
    drop(upgradable);
    let writer = lock.try_write().unwrap();
    assert_eq!(open(&lock), "");
    drop(writer);
    assert_eq!(open(&lock), "ruw");
}

/// First come, first served, between the kinds: none starves.
#[test]
fn the_order_is_that_of_the_first_polls() {
    let _dog = watchdog(30);
    let lock = RwLock::new(String::new());
    let spies: [Spy; 6] = std::array::from_fn(|_| Spy::new());
    let writer = lock.try_write().unwrap();
    let (mut r1, mut r2, mut r3) = (Box::pin(lock.read()), Box::pin(lock.read()), Box::pin(lock.read()));
    let (mut w1, mut w2) = (Box::pin(lock.write()), Box::pin(lock.write()));
    let mut u1 = Box::pin(lock.upgradable_read());
    pending(&mut r1, &spies[0]);
    pending(&mut r2, &spies[1]);
    pending(&mut w1, &spies[2]);
    pending(&mut u1, &spies[3]);
    pending(&mut r3, &spies[4]);
    pending(&mut w2, &spies[5]);
    let woken = || spies.each_ref().map(Spy::wakes);
    drop(writer);
    assert_eq!(woken(), [1, 1, 0, 0, 0, 0], "both readers, together");
    assert_eq!(open(&lock), "", "a writer waits: none passes it");
    drop((ready(&mut r1), ready(&mut r2)));
    assert_eq!(woken(), [1, 1, 1, 0, 0, 0]);
    drop(ready(&mut w1));
    assert_eq!(woken(), [1, 1, 1, 1, 1, 0], "an upgradable and a plain reader go together");
    drop(ready(&mut r3));
    assert_eq!(woken()[5], 0);
    drop(ready(&mut u1));
    assert_eq!(woken()[5], 1);
    drop(ready(&mut w2));
    assert_eq!(open(&lock), "ruw");
    assert!(spies.iter().all(|spy| spy.alive() == 0));
}

/// H8: a poll for no reason changes nothing, a hundred times.
#[test]
fn spurious_polls_change_nothing() {
    let _dog = watchdog(30);
    let lock = RwLock::new(0);
    let (a, b) = (Spy::new(), Spy::new());
    let reader = lock.try_read().unwrap();
    let (mut w, mut r) = (Box::pin(lock.write()), Box::pin(lock.read()));
    for _ in 0..100 {
        pending(&mut w, &a);
        pending(&mut r, &b);
    }
    assert_eq!((a.alive(), b.alive()), (1, 1));
    drop(reader);
    assert_eq!((a.wakes(), b.wakes()), (1, 0));
    drop(ready(&mut w));
    assert_eq!((a.wakes(), b.wakes()), (1, 1));
    drop(ready(&mut r));
}

/// B011: a writer that is cancelled frees the readers behind it, but not past another writer.
#[test]
fn b011_a_cancelled_writer_frees_the_readers() {
    let _dog = watchdog(30);
    for another in [false, true] {
        let lock = RwLock::new(0);
        let reader = lock.try_read().unwrap();
        let (spy, writers) = (Spy::new(), Spy::new());
        let mut w = Box::pin(lock.write());
        pending(&mut w, &writers);
        let mut w2 = Box::pin(lock.write());
        if another {
            pending(&mut w2, &writers);
        }
        let mut r = Box::pin(lock.read());
        pending(&mut r, &spy);
        drop(w);
        assert_eq!(spy.wakes(), usize::from(!another));
        assert_eq!(poll(&mut r, &spy).is_ready(), !another);
        drop(reader);
        assert_eq!(writers.wakes(), usize::from(another));
    }
}

/// B021: a pending upgrade that is dropped releases the guard that it consumed.
#[test]
fn b021_a_dropped_upgrade_releases() {
    let _dog = watchdog(30);
    let lock = RwLock::new(0);
    let spy = Spy::new();
    let reader = lock.try_read().unwrap();
    let upgradable = lock.try_upgradable_read().unwrap();
    let mut upgrade = Box::pin(RwLockUpgradableReadGuard::upgrade(upgradable));
    pending(&mut upgrade, &spy);
    assert_eq!(open(&lock), "", "none passes an upgrade");
    drop(upgrade);
    assert_eq!(open(&lock), "ru");
    drop(reader);
    drop(ready(&mut Box::pin(lock.write())));
    // The same before its first poll, and after it was granted.
    drop(RwLockUpgradableReadGuard::upgrade(lock.try_upgradable_read().unwrap()));
    assert_eq!(open(&lock), "ruw");
    let reader = lock.try_read().unwrap();
    let mut upgrade = Box::pin(RwLockUpgradableReadGuard::upgrade(lock.try_upgradable_read().unwrap()));
    pending(&mut upgrade, &spy);
    drop(reader);
    assert_eq!((spy.wakes(), open(&lock).as_str()), (1, ""));
    drop(upgrade);
    assert_eq!(open(&lock), "ruw");
}

/// B055: all of a batch enter, whatever they do inside: here they wait for each other.
#[test]
fn b055_all_readers_of_a_batch_meet_inside() {
    let _dog = watchdog(60);
    for _ in 0..scaled(50, 2) {
        let (lock, meeting) = (RwLock::new(0), Meeting::new(5));
        std::thread::scope(|scope| {
            let writer = lock.try_write().unwrap();
            for _ in 0..5 {
                scope.spawn(|| {
                    let inside = lock.read().block();
                    meeting.wait();
                    assert_eq!(*inside, 1);
                });
            }
            let mut writer = writer;
            *writer = 1;
            drop(writer);
        });
    }
}

/// More than a batch of wakers, with a writer behind them: all of them, and only they.
#[test]
fn a_batch_of_a_hundred_enters_together() {
    let _dog = watchdog(30);
    let lock = RwLock::new(0);
    let (spy, late) = (Spy::new(), Spy::new());
    let writer = lock.try_write().unwrap();
    let mut readers: Vec<_> = (0..100).map(|_| Box::pin(lock.read())).collect();
    readers.iter_mut().for_each(|reader| pending(reader, &spy));
    let mut w = Box::pin(lock.write());
    pending(&mut w, &late);
    let mut more: Vec<_> = (0..100).map(|_| Box::pin(lock.read())).collect();
    more.iter_mut().for_each(|reader| pending(reader, &spy));
    drop(writer);
    assert_eq!((spy.wakes(), late.wakes()), (100, 0));
    let mut guards: Vec<_> = readers.iter_mut().map(ready).collect();
    assert!(more.iter_mut().all(|reader| poll(reader, &spy).is_pending()));
    let last = guards.pop();
    drop(guards);
    assert_eq!(late.wakes(), 0);
    drop(last);
    assert_eq!((spy.wakes(), late.wakes()), (100, 1));
    drop(w);
    assert_eq!(spy.wakes(), 200);
}

/// An upgradable reader that is woken first asks to be the writer at once: the readers that were to enter with it do so all the same, also
/// those of a later batch of wakers.
#[test]
fn an_upgrade_does_not_split_a_batch() {
    let _dog = watchdog(10);
    for try_first in [false, true] {
        let lock = Arc::new(RwLock::new(0));
        let writer = lock.try_write().unwrap();
        let (spy, quick) = (Spy::new(), Spy::new());
        let mut u = Box::pin(lock.clone().upgradable_read_owned());
        pending(&mut u, &quick);
        let mut readers: Vec<_> = (0..70).map(|_| Box::pin(lock.read())).collect();
        readers.iter_mut().for_each(|reader| pending(reader, &spy));
        type Place<T> = Arc<StdMutex<Option<T>>>;
        let upgrade: Place<BoxFuture<OwnedRwLockWriteGuard<i32>>> = Arc::default();
        let (u, place) = (StdMutex::new(Some(u)), upgrade.clone());
        quick.on(Call::Wake, move || {
            let mut guard = ready(&mut u.lock().unwrap().take().unwrap());
            if try_first {
                guard = OwnedRwLockUpgradableReadGuard::try_upgrade(guard).unwrap_err();
            }
            let mut future: BoxFuture<_> = Box::pin(OwnedRwLockUpgradableReadGuard::upgrade(guard));
            pending(&mut future, &Spy::new());
            *place.lock().unwrap() = Some(future);
        });
        quick.arm(1);
        drop(writer);
        assert_eq!(spy.wakes(), 70);
        let guards: Vec<_> = readers.iter_mut().map(ready).collect();
        assert_eq!(open(&lock), "", "the upgrade waits, and none passes it");
        drop(guards);
        drop(ready(upgrade.lock().unwrap().as_mut().unwrap()));
        drop(upgrade);
        assert_eq!(open(&lock), "ruw");
    }
}

/// B057: a reader passes a queued upgradable reader, but neither a writer nor a pending upgrade.
#[test]
fn b057_readers_and_upgradable_readers() {
    let _dog = watchdog(30);
    let lock = RwLock::new(0);
    let (spy, other) = (Spy::new(), Spy::new());
    let u1 = lock.try_upgradable_read().unwrap();
    let mut u2 = Box::pin(lock.upgradable_read());
    pending(&mut u2, &other);
    let passing = ready(&mut Box::pin(lock.read()));
    assert_eq!(open(&lock), "r");
    let mut upgrade = Box::pin(RwLockUpgradableReadGuard::upgrade(u1));
    pending(&mut upgrade, &spy);
    let mut queued = Box::pin(lock.read());
    pending(&mut queued, &other);
    assert_eq!(open(&lock), "");
    drop(passing);
    assert_eq!((spy.wakes(), other.wakes()), (1, 0), "the upgrade is the first");
    let writer = ready(&mut upgrade);
    assert!(poll(&mut u2, &other).is_pending());
    drop(writer);
    assert_eq!(other.wakes(), 2);
    drop((ready(&mut u2), ready(&mut queued)));
    // A writer behind a queued upgradable reader stops the readers behind it.
    let u1 = lock.try_upgradable_read().unwrap();
    let (mut u2, mut w, mut r) =
        (Box::pin(lock.upgradable_read()), Box::pin(lock.write()), Box::pin(lock.read()));
    pending(&mut u2, &other);
    pending(&mut w, &other);
    pending(&mut r, &other);
    drop(w);
    drop(ready(&mut r));
    assert!(poll(&mut u2, &other).is_pending());
    drop(u1);
    drop(ready(&mut u2));
}

/// No writer comes between the read and the write of an upgrade, though it was queued long before.
#[test]
fn no_writer_slips_into_an_upgrade() {
    let _dog = watchdog(30);
    let lock = RwLock::new(0);
    let spy = Spy::new();
    let reader = lock.try_read().unwrap();
    let upgradable = lock.try_upgradable_read().unwrap();
    let mut w = Box::pin(lock.write());
    pending(&mut w, &spy);
    let seen = *upgradable;
    let mut upgrade = Box::pin(RwLockUpgradableReadGuard::upgrade(upgradable));
    pending(&mut upgrade, &Spy::new());
    drop(reader);
    let mut writer = ready(&mut upgrade);
    assert_eq!((*writer, spy.wakes()), (seen, 0));
    *writer += 1;
    drop(writer);
    assert_eq!(*ready(&mut w), seen + 1);
}

/// Without other readers an upgrade is immediate; also past queued writers.
#[test]
fn an_upgrade_of_the_only_reader_does_not_wait() {
    let _dog = watchdog(30);
    let lock = RwLock::new(0);
    let spy = Spy::new();
    let upgradable = lock.try_upgradable_read().unwrap();
    let mut w = Box::pin(lock.write());
    pending(&mut w, &spy);
    let writer = ready(&mut Box::pin(RwLockUpgradableReadGuard::upgrade(upgradable)));
    let upgradable = RwLockWriteGuard::downgrade_to_upgradable(writer);
    let writer = RwLockUpgradableReadGuard::try_upgrade(upgradable).unwrap();
    assert_eq!(spy.wakes(), 0);
    drop(writer);
    drop(ready(&mut w));
}

#[test]
fn a_downgrade_lets_readers_in_and_no_writer() {
    let _dog = watchdog(30);
    let lock = RwLock::new(0);
    let (readers, others) = (Spy::new(), Spy::new());
    let mut writer = lock.try_write().unwrap();
    let (mut r1, mut r2) = (Box::pin(lock.read()), Box::pin(lock.read()));
    let mut w = Box::pin(lock.write());
    pending(&mut r1, &readers);
    pending(&mut w, &others);
    pending(&mut r2, &readers);
    *writer = 1;
    let reader = RwLockWriteGuard::downgrade(writer);
    assert_eq!((readers.wakes(), others.wakes()), (1, 0));
    assert_eq!((*reader, *ready(&mut r1)), (1, 1));
    drop(reader);
    assert_eq!(others.wakes(), 1);
    drop(ready(&mut w));
    assert_eq!(*ready(&mut r2), 1);
    drop(r2);
    // An upgradable reader that becomes a plain one makes room for another.
    let upgradable = lock.try_upgradable_read().unwrap();
    let mut u = Box::pin(lock.upgradable_read());
    pending(&mut u, &others);
    let reader = RwLockUpgradableReadGuard::downgrade(upgradable);
    let upgradable = ready(&mut u);
    assert_eq!(*reader, *upgradable);
    assert!(RwLockUpgradableReadGuard::try_upgrade(upgradable).is_err());
}

/// A waker that panics in a downgrade locks no waiter out.
#[test]
fn a_panic_in_a_downgrade_releases() {
    let _dog = watchdog(30);
    let lock = RwLock::new(0);
    let hostile = Spy::hostile(Call::Wake, || panic!("a hostile waker"));
    let mut r = Box::pin(lock.read());
    let writer = lock.try_write().unwrap();
    pending(&mut r, &hostile);
    hostile.arm(1);
    assert!(panics(|| RwLockWriteGuard::downgrade(writer)));
    assert_eq!(open(&lock), "ru", "the reader that was let in holds it");
    drop(ready(&mut r));
    assert_eq!(open(&lock), "ruw");
}

/// H10: what is on its way to a waiter cannot be taken by another.
#[test]
fn h10_a_grant_in_flight_is_held() {
    let _dog = watchdog(30);
    let lock = RwLock::new(0);
    let reader = lock.try_read().unwrap();
    let mut w = Box::pin(lock.write());
    pending(&mut w, &Spy::new());
    drop(reader);
    assert_eq!(open(&lock), "");
    drop(w);
    assert_eq!(open(&lock), "ruw");
}

/// B089: readers are many.
#[test]
fn b089_ten_thousand_readers() {
    let _dog = watchdog(30);
    let lock = RwLock::new(7);
    let guards: Vec<_> = (0..scaled(10_000, 100)).map(|_| ready(&mut Box::pin(lock.read()))).collect();
    assert_eq!(guards.iter().map(|guard| usize::from(**guard == 7)).sum::<usize>(), guards.len());
    let mut w = Box::pin(lock.write());
    let spy = Spy::new();
    pending(&mut w, &spy);
    drop(guards);
    assert_eq!(spy.wakes(), 1);
    *ready(&mut w) = 8;
}

/// H12: a second read by the same task, behind a writer that queued in between, waits for ever: as documented.
#[test]
fn h12_recursive_read_behind_a_writer_waits() {
    let _dog = watchdog(30);
    let lock = RwLock::new(0);
    let first = lock.try_read().unwrap();
    let (mut w, mut second) = (Box::pin(lock.write()), Box::pin(lock.read()));
    pending(&mut w, &Spy::new());
    pending(&mut second, &Spy::new());
    // The way out is to cancel the writer, or the first read.
    drop(w);
    drop((ready(&mut second), first));
}

/// H5: polled after the end.
#[test]
fn h5_polled_after_the_end() {
    let _dog = watchdog(30);
    let lock = RwLock::new(0);
    let spy = Spy::new();
    let mut read = Box::pin(lock.read());
    drop(ready(&mut read));
    assert!(panic_of(|| poll(&mut read, &spy).is_ready()).contains("tasuki::future::Read"));
    let mut write = Box::pin(lock.write());
    drop(ready(&mut write));
    assert!(panic_of(|| poll(&mut write, &spy).is_ready()).contains("tasuki::future::Write"));
    let mut upgradable = Box::pin(lock.upgradable_read());
    let mut upgrade = Box::pin(RwLockUpgradableReadGuard::upgrade(ready(&mut upgradable)));
    drop(ready(&mut upgrade));
    assert!(panic_of(|| poll(&mut upgradable, &spy).is_ready()).contains("tasuki::future::UpgradableRead"));
    assert!(panic_of(|| poll(&mut upgrade, &spy).is_ready()).contains("tasuki::future::Upgrade"));
    assert_eq!(open(&lock), "ruw");
}
