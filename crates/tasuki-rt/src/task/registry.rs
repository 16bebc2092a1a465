//! Every task that waits, by a waker: what keeps detached tasks alive, and lets abort and shutdown find them.
//!
//! A task is registered by the first poll that leaves it waiting, and until its future is dropped; before, it is in a
//! queue. A task that ends in its first poll is never registered.
//!
//! Cut into shards, two for each worker: one for the tasks pinned to it, and one for others that were first polled by it.

use crate::shim::{Mutex, MutexGuard};
use std::sync::PoisonError;
use std::task::Waker;

/// No slot.
const NONE: u32 = u32::MAX;

/// The shards.
#[derive(Debug)]
pub(crate) struct Registry {
    shards: Box<[Shard]>,
    homes: usize,
}

/// Where a task is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) shard: u32,
    pub(crate) slot: u32,
}

/// On cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<Books>);

/// What a shard's mutex guards.
#[derive(Debug)]
struct Books {
    slots: Vec<Slot>,
    /// The first free slot; [`NONE`] if there is none.
    free: u32,
}

#[derive(Debug)]
enum Slot {
    /// And the next free one.
    Free(u32),
    Used(Waker),
}

impl Default for Books {
    fn default() -> Self {
        Self { slots: Vec::new(), free: NONE }
    }
}

impl Books {
    fn insert(&mut self, waker: Waker) -> u32 {
        let free = self.free;
        if let Some(slot) = self.slots.get_mut(free as usize) {
            let Slot::Free(next) = std::mem::replace(slot, Slot::Used(waker)) else {
                unreachable!("the free list has free slots only");
            };
            self.free = next;
            return free;
        }
        let slot = u32::try_from(self.slots.len()).ok().filter(|slot| *slot < NONE);
        let slot = slot.expect("fewer than 2^32 tasks in a shard");
        self.slots.push(Slot::Used(waker));
        slot
    }

    fn remove(&mut self, at: u32) -> Option<Waker> {
        let slot = self.slots.get_mut(at as usize)?;
        let Slot::Used(_) = slot else { return None };
        let Slot::Used(waker) = std::mem::replace(slot, Slot::Free(self.free)) else { return None };
        self.free = at;
        Some(waker)
    }
}

impl Registry {
    pub(crate) fn new(workers: usize) -> Self {
        Self { shards: (0..2 * workers).map(|_| Shard::default()).collect(), homes: workers }
    }

    fn books(&self, shard: u32) -> MutexGuard<'_, Books> {
        self.shards[shard as usize].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a task that is being polled by this worker.
    pub(crate) fn insert(&self, worker: usize, pinned: bool, waker: Waker) -> Entry {
        let shard = (if pinned { worker } else { self.homes + worker }) as u32;
        let slot = self.books(shard).insert(waker);
        Entry { shard, slot }
    }

    /// Takes a task out. The waker is dropped after the lock.
    pub(crate) fn remove(&self, entry: Entry) -> Option<Waker> {
        self.books(entry.shard).remove(entry.slot)
    }

    /// The waker of a task that may have ended; another task may have its entry by now.
    pub(crate) fn waker(&self, entry: Entry) -> Option<Waker> {
        match self.books(entry.shard).slots.get(entry.slot as usize) {
            Some(Slot::Used(waker)) => Some(waker.clone()),
            _ => None,
        }
    }

    /// The wakers of all tasks of a shard, to be woken after the lock. The tasks stay registered.
    fn wakers(&self, shard: usize) -> Vec<Waker> {
        let books = self.books(shard as u32);
        let used = |slot: &Slot| if let Slot::Used(waker) = slot { Some(waker.clone()) } else { None };
        books.slots.iter().filter_map(used).collect()
    }

    /// Wakes every task pinned to this worker that waits.
    pub(crate) fn wake_pinned(&self, home: usize) {
        self.wakers(home).into_iter().for_each(Waker::wake);
    }

    /// Wakes every task that is not pinned and waits.
    pub(crate) fn wake_others(&self) {
        (self.homes..self.shards.len())
            .for_each(|shard| self.wakers(shard).into_iter().for_each(Waker::wake));
    }
}
