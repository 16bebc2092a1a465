//! The reader-writer lock: exclusion, order, visibility, upgrades and downgrades, cancelled waits.

use crate::support::{Data, Task, join, model, spawn};
use crate::versus::race;
use std::sync::Arc;
use std::task::Poll;
use tasuki::{
    OwnedRwLockUpgradableReadGuard, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard,
};

/// A lock over a number, and what readers do beside.
struct Site {
    lock: RwLock<Data>,
    notes: [Data; 2],
}

fn site() -> Site {
    Site { lock: RwLock::new(Data::new()), notes: [Data::new(), Data::new()] }
}

impl Site {
    fn write(&self) {
        Task::new(self.lock.write()).run().add(1);
    }

    fn read(&self) -> usize {
        Task::new(self.lock.read()).run().get()
    }

    /// Reads, writes if nothing was written meanwhile.
    fn upgrade(&self) {
        let guard = Task::new(self.lock.upgradable_read()).run();
        let seen = guard.get();
        let guard = Task::new(RwLockUpgradableReadGuard::upgrade(guard)).run();
        assert_eq!(guard.get(), seen, "a writer came in between");
        guard.add(1);
    }

    /// Leaves a note under a read guard, and leaves.
    fn leave(&self, reader: RwLockReadGuard<'_, Data>, note: usize) {
        self.notes[note].add(1);
        drop(reader);
    }

    fn reader(&self) -> RwLockReadGuard<'_, Data> {
        self.lock.try_read().expect("no writer is inside")
    }

    fn writer(&self) -> RwLockWriteGuard<'_, Data> {
        self.lock.try_write().expect("no holder is inside")
    }

    fn upgradable(&self) -> RwLockUpgradableReadGuard<'_, Data> {
        self.lock.try_upgradable_read().expect("there is none")
    }

    /// The lock is free and without waiters; anything else fails. How much was written.
    fn at_rest(&self) -> usize {
        let guard = self.lock.try_write().expect("the lock was lost");
        let written = guard.get();
        let mut hand_off = Task::new(RwLockWriteGuard::hand_off(guard));
        assert!(hand_off.poll().is_ready(), "a waiter is still in the queue");
        written
    }
}

#[test]
fn writers_exclude_each_other() {
    model(site, |site| {
        let other = spawn(|| site.write());
        site.write();
        join([other]);
        assert_eq!(site.at_rest(), 2);
    });
}

#[test]
fn a_writer_excludes_a_reader() {
    race(site, |site, versus| {
        let (read, ()) = versus.run(|| site.read(), || site.write());
        assert!(read <= 1);
        assert_eq!(site.at_rest(), 1);
    });
}

/// Everything that readers did before they left is seen by the writer, who was granted the lock.
#[test]
fn readers_publish_to_a_waiting_writer() {
    race(site, |site, versus| {
        let (first, second) = (site.reader(), site.reader());
        let writer = Task::waiting(site.lock.write());
        let reading = move || {
            let other = spawn(|| site.leave(second, 1));
            site.leave(first, 0);
            join([other]);
        };
        let writing = || {
            let guard = writer.run();
            assert_eq!(site.notes.each_ref().map(Data::get), [1, 1]);
            guard.add(1);
        };
        versus.run(reading, writing);
        assert_eq!(site.at_rest(), 1);
    });
}

/// The same for one that does not wait: readers leave by the word alone. The last to leave sees what the other did, though it has
/// only written the word since.
#[test]
fn readers_publish_to_a_try() {
    race(site, |site, versus| {
        let (first, second) = (site.reader(), site.reader());
        let last = || {
            site.leave(first, 0);
            if let Some(guard) = site.lock.try_write() {
                assert_eq!(site.notes.each_ref().map(Data::get), [1, 1]);
                guard.add(1);
            }
        };
        versus.run(last, || site.leave(second, 1));
        site.at_rest();
    });
}

/// A writer publishes to readers, by a grant and by the word.
#[test]
fn a_writer_publishes_to_readers() {
    race(site, |site, versus| {
        let guard = site.writer();
        let waiting = Task::waiting(site.lock.read());
        let reading = || {
            if let Some(guard) = site.lock.try_read() {
                assert_eq!(guard.get(), 1);
            }
            assert_eq!(waiting.run().get(), 1);
        };
        let writing = move || {
            guard.add(1);
            drop(guard);
        };
        versus.run(reading, writing);
        assert_eq!(site.at_rest(), 1);
    });
}

/// More readers than a batch of wakers (which is two in the model), one of which is cancelled between the batches.
#[test]
fn a_batch_of_readers_with_a_cancel() {
    race(site, |site, versus| {
        let guard = site.writer();
        let [a, b, c] = [(); 3].map(|()| Task::waiting(site.lock.read()));
        let waiting = || {
            drop(c);
            let (a, b) = (a.run(), b.run());
            assert_eq!((a.get(), b.get()), (1, 1));
        };
        let writing = move || {
            guard.add(1);
            drop(guard);
        };
        versus.run(waiting, writing);
        assert_eq!(site.at_rest(), 1);
    });
}

/// B011: a writer is cancelled while the reader before it leaves: the reader behind it enters either way.
#[test]
fn a_cancelled_writer_frees_the_reader_behind() {
    race(site, |site, versus| {
        let reader = site.reader();
        let writer = Task::waiting(site.lock.write());
        let behind = Task::waiting(site.lock.read());
        let cancelling = || {
            drop(writer);
            assert_eq!(behind.run().get(), 0);
        };
        versus.run(cancelling, move || drop(reader));
        assert_eq!(site.at_rest(), 0);
    });
}

/// H2: the waiter that is granted the lock is cancelled at the same moment: the next is granted, once.
#[test]
fn a_cancel_races_the_grant() {
    race(site, |site, versus| {
        let guard = site.writer();
        let first = Task::waiting(site.lock.write());
        let next = Task::waiting(site.lock.write());
        let cancelling = || {
            drop(first);
            next.run().add(1);
        };
        let writing = move || {
            guard.add(1);
            drop(guard);
        };
        versus.run(cancelling, writing);
        assert_eq!(site.at_rest(), 2);
    });
}

/// A poll with another waker races the grant: the new waker is woken, or the poll is ready.
#[test]
fn another_waker_races_the_grant() {
    race(site, |site, versus| {
        let guard = site.writer();
        let mut reader = Task::waiting(site.lock.read());
        let polling = move || {
            reader.change_alarm();
            assert_eq!(reader.run().get(), 1);
        };
        let writing = move || {
            guard.add(1);
            drop(guard);
        };
        versus.run(polling, writing);
        assert_eq!(site.at_rest(), 1);
    });
}

/// Two who would write after they have read: neither loses what the other wrote.
#[test]
fn upgrades_lose_nothing() {
    model(site, |site| {
        let other = spawn(|| site.upgrade());
        site.upgrade();
        join([other]);
        assert_eq!(site.at_rest(), 2);
    });
}

/// An upgrade waits for the readers, sees what they did, and comes before a writer who queued earlier.
#[test]
fn an_upgrade_waits_for_readers_only() {
    race(site, |site, versus| {
        let reader = site.reader();
        let upgradable = site.upgradable();
        let writer = Task::waiting(site.lock.write());
        let upgrading = || {
            let guard = Task::new(RwLockUpgradableReadGuard::upgrade(upgradable)).run();
            assert_eq!((guard.get(), site.notes[0].get()), (0, 1));
            guard.add(1);
            drop(guard);
            let guard = writer.run();
            assert_eq!(guard.get(), 1);
            guard.add(1);
        };
        versus.run(upgrading, move || site.leave(reader, 0));
        assert_eq!(site.at_rest(), 2);
    });
}

/// B057: readers come while an upgrade is under way: before it, or after it.
#[test]
fn readers_come_during_an_upgrade() {
    race(site, |site, versus| {
        let upgradable = site.upgradable();
        let upgrading = || {
            let guard = Task::new(RwLockUpgradableReadGuard::upgrade(upgradable)).run();
            guard.add(1);
        };
        let (read, ()) = versus.run(|| site.read(), upgrading);
        assert!(read <= 1);
        assert_eq!(site.at_rest(), 1);
    });
}

/// B021: a pending upgrade is dropped while the last reader leaves: the lock is free for the writer behind.
#[test]
fn a_dropped_upgrade_releases() {
    race(site, |site, versus| {
        let reader = site.reader();
        let upgrade = Task::waiting(RwLockUpgradableReadGuard::upgrade(site.upgradable()));
        let writer = Task::waiting(site.lock.write());
        let dropping = || {
            drop(upgrade);
            let guard = writer.run();
            assert_eq!(site.notes[0].get(), 1);
            guard.add(1);
        };
        versus.run(dropping, move || site.leave(reader, 0));
        assert_eq!(site.at_rest(), 1);
    });
}

/// `try_upgrade` and `try_read`: one of them may find the other inside, never both inside.
#[test]
fn a_try_upgrade_races_a_try_read() {
    race(site, |site, versus| {
        let upgradable = site.upgradable();
        let upgrading = || {
            let upgraded = RwLockUpgradableReadGuard::try_upgrade(upgradable);
            upgraded.map(|guard| guard.add(1)).is_ok()
        };
        let reading = || site.lock.try_read().map(|guard| guard.get());
        let (upgraded, read) = versus.run(upgrading, reading);
        assert!(read.is_none_or(|read| read <= usize::from(upgraded)));
        assert_eq!(site.at_rest(), usize::from(upgraded));
    });
}

/// A writer becomes a reader: readers enter beside it and see what it wrote; the writer behind waits for all of them.
#[test]
fn a_downgrade_lets_readers_in() {
    race(site, |site, versus| {
        let guard = site.writer();
        let reader = Task::waiting(site.lock.read());
        let writer = Task::waiting(site.lock.write());
        let downgrading = move || {
            guard.add(1);
            let guard = RwLockWriteGuard::downgrade(guard);
            assert_eq!(guard.get(), 1, "the next writer waits for this reader too");
            site.leave(guard, 0);
        };
        let waiting = || {
            assert_eq!(reader.run().get(), 1);
            let guard = writer.run();
            assert_eq!(site.notes[0].get(), 1);
            guard.add(1);
        };
        versus.run(downgrading, waiting);
        assert_eq!(site.at_rest(), 2);
    });
}

/// A downgrade with an empty queue, while a newcomer comes.
#[test]
fn a_downgrade_races_a_newcomer() {
    race(site, |site, versus| {
        let guard = site.writer();
        let downgrading = move || {
            guard.add(1);
            let guard = RwLockWriteGuard::downgrade_to_upgradable(guard);
            let guard = RwLockUpgradableReadGuard::downgrade(guard);
            assert_eq!(guard.get(), 1);
        };
        let (read, ()) = versus.run(|| site.read(), downgrading);
        assert_eq!(read, 1);
        assert_eq!(site.at_rest(), 1);
    });
}

/// The first of a batch asks for more at once: the others of the batch enter all the same.
#[test]
fn an_upgrade_does_not_split_a_batch() {
    race(site, |site, versus| {
        let guard = site.writer();
        let upgradable = Task::waiting(site.lock.upgradable_read());
        let mut readers = [(); 2].map(|()| Task::waiting(site.lock.read()));
        let upgrading = || {
            let guard = upgradable.run();
            Task::new(RwLockUpgradableReadGuard::upgrade(guard)).poll().is_ready()
        };
        let (upgraded, ()) = versus.run(upgrading, move || drop(guard));
        assert!(!upgraded, "they were to enter together");
        for reader in &mut readers {
            assert!(matches!(reader.poll(), Poll::Ready(guard) if guard.get() == 0));
        }
        drop(readers);
        assert_eq!(site.at_rest(), 0);
    });
}

/// The same for a caller that only tries: as long as a reader of the batch has not claimed its grant, though others have claimed and released theirs.
#[test]
fn a_try_upgrade_does_not_split_a_batch() {
    race(site, |site, versus| {
        let guard = site.writer();
        let upgradable = Task::waiting(site.lock.upgradable_read());
        let [quick, slow] = [(); 2].map(|()| Task::waiting(site.lock.read()));
        let upgrading = || {
            let guard = upgradable.run();
            drop(quick.run());
            RwLockUpgradableReadGuard::try_upgrade(guard).is_ok()
        };
        let (upgraded, ()) = versus.run(upgrading, move || drop(guard));
        assert!(!upgraded, "they were to enter together");
        drop(slow);
        assert_eq!(site.at_rest(), 0);
    });
}

/// A writer is cancelled, and frees more readers than a batch of wakers, while a reader asks to upgrade: all of them enter before that, or
/// none.
#[test]
fn an_upgrade_comes_before_a_batch_or_after() {
    race(site, |site, versus| {
        let reader = site.reader();
        let upgradable = site.upgradable();
        let writer = Task::waiting(site.lock.write());
        let mut readers = [(); 3].map(|()| Task::waiting(site.lock.read()));
        let upgrading = || Task::waiting(RwLockUpgradableReadGuard::upgrade(upgradable));
        let (upgrade, ()) = versus.run(upgrading, || drop(writer));
        let entered = readers.each_mut().map(|reader| reader.poll().is_ready());
        assert!(entered == [true; 3] || entered == [false; 3], "{entered:?}");
        drop((upgrade, reader, readers));
        assert_eq!(site.at_rest(), 0);
    });
}

/// Two readers leave, and a writer is cancelled between: no waiter is left in the queue, and the next newcomer enters.
#[test]
fn a_writer_gives_up_while_readers_leave() {
    race(site, |site, versus| {
        let (first, second) = (site.reader(), site.reader());
        let writer = Task::waiting(site.lock.write());
        let giving_up = || {
            site.leave(first, 0);
            drop(writer);
            site.write();
        };
        versus.run(giving_up, || site.leave(second, 1));
        assert_eq!(site.at_rest(), 1);
    });
}

/// The last owner of the lock is a guard, on another thread.
#[test]
fn owned_guards_keep_the_lock() {
    loom::model(|| {
        let lock = Arc::new(RwLock::new(Data::new()));
        let reader = lock.clone().try_read_owned().unwrap();
        let upgradable = lock.try_upgradable_read_owned().unwrap();
        let other = spawn(move || drop(reader));
        let guard = Task::new(OwnedRwLockUpgradableReadGuard::upgrade(upgradable)).run();
        guard.add(1);
        drop(guard);
        join([other]);
    });
}

/// A thread blocks, a task waits, and a third is cancelled: all in one queue.
#[test]
fn a_thread_blocks_in_the_same_queue() {
    race(site, |site, versus| {
        let guard = site.writer();
        let cancelled = Task::waiting(site.lock.write());
        let blocking = || {
            drop(cancelled);
            let read = site.lock.read().block().get();
            assert!(read <= 1);
        };
        let writing = move || {
            guard.add(1);
            drop(guard);
        };
        versus.run(blocking, writing);
        assert_eq!(site.at_rest(), 1);
    });
}
