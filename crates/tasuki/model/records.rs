//! The records of `inspect`, which tasks write without a lock and a look reads at any time: what a look finds is of one hold, of one wait, and of the lock that it asked for.
//!
//! The files of the protocol are built here with the atomics of the model, for the library has its records in statics, which those cannot be in.

use crate::support::{join, model, spawn};
use holder_slot::{HoldView, HolderSlot, Look, NewHold, UNKNOWN, UNUSED};
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use stamp::{Generation, Stamp};
use std::panic::Location;

mod sync {
    pub(super) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
    pub(super) use loom::thread::yield_now as spin_hint;

    /// Few, or a look that finds a change each time would have too many branches.
    pub(super) const TRIES: usize = 2;
}

#[path = "../src/inspect/holder_slot.rs"]
#[expect(dead_code, reason = "the slots of a thread ask more of it than these models play")]
mod holder_slot;
#[path = "../src/inspect/stamp.rs"]
mod stamp;

fn new_slot() -> HolderSlot {
    HolderSlot {
        state: AtomicU64::new(UNUSED),
        task: AtomicU64::new(UNKNOWN),
        at: sync::AtomicPtr::new(std::ptr::null_mut()),
        wait: AtomicU64::new(0),
        lock: AtomicU64::new(0),
        since: AtomicU64::new(0),
    }
}

/// Where each of three tasks takes the lock.
fn site(task: u64) -> &'static Location<'static> {
    match task {
        1 => Location::caller(),
        2 => there(),
        _ => elsewhere(),
    }
}

fn there() -> &'static Location<'static> {
    Location::caller()
}

fn elsewhere() -> &'static Location<'static> {
    Location::caller()
}

fn hold(task: u64) -> NewHold {
    NewHold { task, at: site(task), mode: (task % 4) as u32 }
}

/// What is held, if the look has found something: then the task, the site and the mode are of one hold.
fn looked(slot: &HolderSlot) -> Option<HoldView> {
    let Look::Held(found) = slot.look() else { return None };
    assert_eq!((found.at, u64::from(found.mode)), (Some(site(found.task)), found.task % 4), "of one hold");
    Some(found)
}

/// The hold of a task, by a lock that has one holder.
fn take(lock: &Mutex<()>, slot: &HolderSlot, task: u64) {
    let _guard = lock.lock().unwrap();
    slot.fill(hold(task));
    slot.free();
}

/// Two tasks take a lock one after the other while two looks come.
#[test]
fn a_look_at_a_lock_that_is_taken_and_released() {
    model(
        || (Mutex::new(()), new_slot()),
        |(lock, slot)| {
            let threads = [1, 2].map(|task| spawn(move || take(lock, slot, task)));
            let looks = [looked(slot), looked(slot)].map(|found| found.map(|found| (found.turn, found)));
            if let [Some((before, first)), Some((after, second))] = looks {
                assert!(
                    before <= after && (before != after || first == second),
                    "the same turn, the same hold"
                );
            }
            join(threads);
            assert_eq!(slot.look(), Look::Free);
        },
    );
}

/// A releaser grants to a waiter, which claims: unclaimed or claimed, the wait is told; and never another's.
#[test]
fn a_look_at_a_grant() {
    const WAIT: u64 = 7;
    model(
        || (Mutex::new(false), new_slot()),
        |(lock, slot)| {
            slot.fill(hold(1));
            let releaser = spawn(move || {
                let mut granted = lock.lock().unwrap();
                slot.free();
                slot.grant(hold(2), WAIT);
                *granted = true;
            });
            let waiter = spawn(move || {
                if *lock.lock().unwrap() {
                    slot.fill(hold(2));
                    slot.free();
                }
            });
            let looker = spawn(move || {
                if let Some(found) = looked(slot) {
                    assert_eq!(found.wait, if found.task == 2 { WAIT } else { 0 });
                    assert!(found.is_claimed || found.task == 2);
                }
            });
            join([releaser, waiter, looker]);
        },
    );
}

/// An upgrade is granted to the holder, which claims it and releases.
#[test]
fn a_look_at_an_upgrade() {
    const WAIT: u64 = 7;
    const ALONE: u32 = 3;
    model(
        || (Mutex::new(false), new_slot()),
        |(lock, slot)| {
            slot.fill(hold(1));
            let releaser = spawn(move || {
                let mut granted = lock.lock().unwrap();
                slot.grant_upgrade(ALONE, WAIT);
                *granted = true;
            });
            let upgrader = spawn(move || {
                if *lock.lock().unwrap() {
                    slot.change(ALONE);
                    slot.free();
                }
            });
            let looker = spawn(move || {
                if let Look::Held(found) = slot.look() {
                    let is_upgraded = found.mode == ALONE;
                    assert_eq!((found.task, found.wait), (1, if is_upgraded { WAIT } else { 0 }));
                    assert!(found.is_claimed || is_upgraded);
                }
            });
            join([releaser, upgrader, looker]);
        },
    );
}

/// A guard is sent to another thread, whose task uses it and releases the lock.
#[test]
fn a_look_at_a_guard_that_is_sent() {
    model(
        || (AtomicU32::new(0), new_slot()),
        |(sent, slot)| {
            slot.fill(hold(1));
            let user = spawn(move || {
                // Acquire: pairs with Release below, as that of a channel.
                if sent.load(Ordering::Acquire) == 1 {
                    slot.touch(2);
                    slot.free();
                }
            });
            // Release: as above.
            sent.store(1, Ordering::Release);
            let looker = spawn(move || {
                if let Look::Held(found) = slot.look() {
                    assert!(found.at == Some(site(1)) && matches!(found.task, 1 | 2) && found.is_claimed);
                    assert_eq!(found.turn % 64, (found.task - 1) as u32, "another holder, another turn");
                }
            });
            join([user, looker]);
        },
    );
}

/// Two tasks share a guard, and use it at the same time: the hold stays what it is, whichever of them has it then. One lost how the lock is held, and where it was taken.
#[test]
fn a_look_at_a_guard_that_two_tasks_use() {
    model(new_slot, |slot| {
        slot.fill(hold(1));
        let users = [2, 3].map(|task| spawn(move || slot.touch(task)));
        let of_one = |found: HoldView| {
            assert_eq!((found.mode, found.at, found.is_claimed), (1, Some(site(1)), true));
            found.task
        };
        let looker = spawn(move || {
            if let Look::Held(found) = slot.look() {
                assert!((1..=3).contains(&of_one(found)));
            }
        });
        join(users);
        join([looker]);
        let Look::Held(found) = slot.look() else { panic!("it is held") };
        assert!((2..=3).contains(&of_one(found)));
    });
}

/// A thread notes holders of two locks in its one slot, one after the other, which another thread frees: it takes the slot only when that has, and what a look finds is of one lock.
#[test]
fn a_look_at_the_slot_of_a_thread() {
    model(new_slot, |slot| {
        assert!(slot.try_fill(hold(1), 11).is_some());
        // The guard is with another thread.
        let releaser = spawn(move || slot.free());
        let looker = spawn(move || {
            if let Some(found) = looked(slot) {
                assert_eq!(found.lock, found.task + 10, "of one lock");
            }
        });
        let owner = spawn(move || {
            if slot.try_fill(hold(2), 12).is_some() {
                assert!(slot.is_of(2), "no other thread fills it");
            }
        });
        join([releaser, looker, owner]);
        let held = looked(slot);
        assert!(held.is_none_or(|held| held.task == 2), "what was freed is not there any more");
    });
}

/// The same, where the second holder is granted the lock: its wait is that of the second.
#[test]
fn a_look_at_a_grant_in_the_slot_of_a_thread() {
    const WAIT: u64 = 7;
    model(new_slot, |slot| {
        assert!(slot.try_fill(hold(1), 11).is_some());
        let releaser = spawn(move || slot.free());
        let looker = spawn(move || {
            if let Some(found) = looked(slot) {
                assert_eq!(
                    (found.lock, found.wait),
                    (found.task + 10, if found.task == 2 { WAIT } else { 0 })
                );
            }
        });
        let owner = spawn(move || {
            let _ = slot.try_grant(hold(2), 12, WAIT);
        });
        join([releaser, looker, owner]);
    });
}

/// A lock is dropped, and its record is another's, while a look has the number of the first: it finds holders of that, or that it is gone.
#[test]
fn a_look_at_a_lock_that_is_dropped() {
    model(
        || (Generation(AtomicU32::new(0)), new_slot()),
        |(generation, slot)| {
            let owner = spawn(move || {
                slot.fill(hold(1));
                slot.free();
                generation.next();
                slot.reset();
                slot.fill(hold(2));
            });
            let looker = spawn(move || {
                if generation.get() == 0 {
                    let found = looked(slot);
                    if generation.is_still(0) {
                        assert!(found.is_none_or(|found| found.task == 1), "the holder of another lock");
                    }
                }
            });
            join([owner, looker]);
        },
    );
}

/// A record of waits: its stamp, and two fields.
struct Wait {
    stamp: Stamp,
    fields: [AtomicU64; 2],
}

impl Wait {
    fn new() -> Self {
        Self { stamp: Stamp(AtomicU64::new(0)), fields: [0, 0].map(AtomicU64::new) }
    }

    fn begin(&self, task: u64) -> bool {
        let is_taken = self.stamp.try_take();
        if is_taken {
            // Relaxed: ordered by the stamp.
            self.fields.iter().for_each(|field| field.store(task, Ordering::Relaxed));
            self.stamp.publish();
        }
        is_taken
    }

    /// Which use, and of what task.
    fn look(&self) -> Option<(u64, u64)> {
        // Relaxed: as above.
        let read = |uses| (uses, self.fields.each_ref().map(|field| field.load(Ordering::Relaxed)));
        let (uses, [first, second]) = self.stamp.look(read)?;
        assert_eq!(first, second, "of one wait");
        Some((uses, first))
    }
}

/// Two tasks whose numbers lead to the same record of a thread wait there, one after the other, and another thread ends the first wait: the second takes the record only then, and what a look finds is of one of them.
#[test]
fn a_look_at_a_record_of_waits_that_is_used_again() {
    model(Wait::new, |wait| {
        assert!(wait.begin(1));
        // The future is with another thread.
        let other = spawn(move || wait.stamp.free());
        let owner = spawn(move || {
            let is_taken = wait.begin(2);
            if is_taken {
                assert_eq!(wait.look(), Some((2, 2)), "it has the record alone");
                wait.stamp.free();
            }
            is_taken
        });
        let looker = spawn(move || {
            if let Some((uses, task)) = wait.look() {
                assert!(uses == task && (1..=2).contains(&uses));
            }
        });
        join([other]);
        let is_used_again = join([owner])[0];
        join([looker]);
        assert_eq!((wait.look(), wait.stamp.count()), (None, 1 + u64::from(is_used_again)));
        assert!(!wait.stamp.is_published() && !wait.stamp.is_taken(|| true), "it is free");
    });
}

/// A wait begins while the watcher ends: it finds no watcher, and starts one, or the last look finds its record, or that it is over. The orderings of the watcher are those of `watch.rs`.
#[test]
fn a_wait_that_begins_while_the_watcher_ends() {
    model(
        || (AtomicU32::new(1), Wait::new()),
        |(watcher, wait)| {
            let waiter = spawn(move || {
                assert!(wait.begin(1));
                // SeqCst: `need` has one for the compiler, which is as strong beside a watcher that fences all threads.
                sync::fence(Ordering::SeqCst);
                // Relaxed: as in `need`.
                watcher.load(Ordering::Relaxed) == 0
            });
            // Relaxed: as in `Watcher::ends`.
            watcher.store(0, Ordering::Relaxed);
            // SeqCst: that of all threads.
            sync::fence(Ordering::SeqCst);
            // Relaxed: ordered by the stamp.
            let is_seen = wait.stamp.is_taken(|| {
                assert_eq!(wait.fields[0].load(Ordering::Relaxed), 1, "what a published wait is for");
                true
            });
            assert!(join([waiter])[0] || is_seen, "a wait that no watcher sees");
        },
    );
}
