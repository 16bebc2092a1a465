//! Every task that has not ended, by a waker: what keeps detached tasks alive, and lets abort and shutdown find them.
//!
//! Cut into shards: one for each worker, for the tasks pinned to it, and a few for all others. A task
//! is in its shard from its spawn until its future is dropped.
//!
//! The shards have doors, which are all shut when the runtime ends: first for those who come from outside, so that the tasks can end
//! with what they still need to spawn, then for everybody.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

/// The key of a task that was refused. Keys have 31 bits.
pub(crate) const NO_KEY: u32 = u32::MAX >> 1;

/// Shards for tasks that are not pinned, per worker: enough for spawning threads not to meet.
const SHARDS_PER_WORKER: usize = 4;

/// The shards.
#[derive(Debug)]
pub(crate) struct Registry {
    shards: Box<[Shard]>,
    homes: usize,
    /// Taken by whoever has emptied a shard, before the bell: so a look at the shards is not followed by a sleep that misses it.
    look: Mutex<()>,
    bell: Condvar,
}

/// On cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<Books>);

/// What a shard's mutex guards.
#[derive(Debug)]
struct Books {
    slots: Vec<Slot>,
    /// The first free slot; [`NO_KEY`] if there is none.
    free: u32,
    len: usize,
    door: Door,
}

/// Who may spawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Open,
    /// The threads of the runtime only.
    Draining,
    Closed,
}

#[derive(Debug)]
enum Slot {
    /// And the next free one.
    Free(u32),
    Used(Waker),
}

impl Default for Books {
    fn default() -> Self {
        Self { slots: Vec::new(), free: NO_KEY, len: 0, door: Door::Open }
    }
}

impl Books {
    fn insert(&mut self, waker: Waker) -> u32 {
        self.len += 1;
        let key = self.free;
        if let Some(slot) = self.slots.get_mut(key as usize) {
            let Slot::Free(next) = std::mem::replace(slot, Slot::Used(waker)) else {
                unreachable!("the free list has free slots only");
            };
            self.free = next;
            return key;
        }
        let key = u32::try_from(self.slots.len()).ok().filter(|key| *key < NO_KEY);
        let key = key.expect("fewer than 2^31 tasks in a shard");
        self.slots.push(Slot::Used(waker));
        key
    }

    fn remove(&mut self, key: u32) -> Option<Waker> {
        let slot = self.slots.get_mut(key as usize)?;
        let Slot::Used(_) = slot else { return None };
        let Slot::Used(waker) = std::mem::replace(slot, Slot::Free(self.free)) else { return None };
        self.free = key;
        self.len -= 1;
        Some(waker)
    }
}

impl Registry {
    pub(crate) fn new(workers: usize) -> Self {
        let others = (workers * SHARDS_PER_WORKER).next_power_of_two();
        let shards = (0..workers + others).map(|_| Shard::default()).collect();
        Self { shards, homes: workers, look: Mutex::new(()), bell: Condvar::new() }
    }

    /// The shard of a task: its home's, or one of the others by its number.
    pub(crate) fn shard_of(&self, home: Option<usize>, number: u64) -> usize {
        let others = self.shards.len() - self.homes;
        home.unwrap_or_else(|| self.homes + number as usize % others)
    }

    fn books(&self, shard: usize) -> MutexGuard<'_, Books> {
        self.shards[shard].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a task; gives the waker back when the door is shut. `inside` says whether a thread of the runtime spawns.
    pub(crate) fn insert(
        &self,
        shard: usize,
        waker: Waker,
        inside: impl FnOnce() -> bool,
    ) -> Result<u32, Waker> {
        let mut books = self.books(shard);
        let enters = match books.door {
            Door::Open => true,
            Door::Draining => inside(),
            Door::Closed => false,
        };
        if enters { Ok(books.insert(waker)) } else { Err(waker) }
    }

    /// Takes a task out. The waker is dropped after the lock.
    pub(crate) fn remove(&self, shard: usize, key: u32) -> Option<Waker> {
        let mut books = self.books(shard);
        let waker = books.remove(key);
        let awaited = books.len == 0 && books.door != Door::Open;
        drop(books);
        if awaited {
            drop(self.look());
            self.bell.notify_all();
        }
        waker
    }

    fn look(&self) -> MutexGuard<'_, ()> {
        self.look.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The waker of a task that may have ended; another task may have its key by now.
    pub(crate) fn waker(&self, shard: usize, key: u32) -> Option<Waker> {
        match self.books(shard).slots.get(key as usize) {
            Some(Slot::Used(waker)) => Some(waker.clone()),
            _ => None,
        }
    }

    /// Open => Draining: from now on who comes from outside is refused.
    pub(crate) fn begin_drain(&self) {
        for shard in 0..self.shards.len() {
            let mut books = self.books(shard);
            if books.door == Door::Open {
                books.door = Door::Draining;
            }
        }
    }

    /// Any => Closed: from now on every spawn is refused.
    pub(crate) fn close(&self) {
        (0..self.shards.len()).for_each(|shard| self.books(shard).door = Door::Closed);
    }

    /// Draining => Closed, if there is no task. With all locks at once: a task that spawns another and ends would else be passed by.
    fn close_if_empty(&self) -> bool {
        let mut all: Vec<_> = (0..self.shards.len()).map(|shard| self.books(shard)).collect();
        let empty = all.iter().all(|books| books.len == 0);
        if empty {
            all.iter_mut().for_each(|books| books.door = Door::Closed);
        }
        empty
    }

    /// After `begin_drain`: waits until there is no task, and closes; false when the time is over first.
    pub(crate) fn drain(&self, deadline: Option<Instant>) -> bool {
        let mut look = self.look();
        while !self.close_if_empty() {
            let Some(deadline) = deadline else {
                look = self.bell.wait(look).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            look = self.bell.wait_timeout(look, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// The wakers of all tasks of a shard, to be woken after the lock. The tasks stay registered.
    fn wakers(&self, shard: usize) -> Vec<Waker> {
        let books = self.books(shard);
        let used = |slot: &Slot| if let Slot::Used(waker) = slot { Some(waker.clone()) } else { None };
        books.slots.iter().filter_map(used).collect()
    }

    /// Wakes every task pinned to this worker.
    pub(crate) fn wake_pinned(&self, home: usize) {
        self.wakers(home).into_iter().for_each(Waker::wake);
    }

    /// Wakes every task that is not pinned.
    pub(crate) fn wake_others(&self) {
        (self.homes..self.shards.len())
            .for_each(|shard| self.wakers(shard).into_iter().for_each(Waker::wake));
    }

    /// How many tasks pinned to this worker have not ended.
    pub(crate) fn pinned(&self, home: usize) -> usize {
        self.books(home).len
    }

    /// How many tasks that are not pinned have not ended.
    pub(crate) fn others(&self) -> usize {
        (self.homes..self.shards.len()).map(|shard| self.books(shard).len).sum()
    }

    /// How many tasks have not ended.
    pub(crate) fn len(&self) -> usize {
        (0..self.shards.len()).map(|shard| self.books(shard).len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_used_again_and_a_closed_registry_refuses() {
        let registry = Registry::new(2);
        let shard = registry.shard_of(None, 9);
        let waker = || Waker::noop().clone();
        let first = registry.insert(shard, waker(), || false).unwrap();
        let second = registry.insert(shard, waker(), || false).unwrap();
        assert_ne!(first, second);
        assert!(registry.remove(shard, first).is_some() && registry.remove(shard, first).is_none());
        assert!(registry.waker(shard, first).is_none() && registry.waker(shard, second).is_some());
        assert_eq!(registry.insert(shard, waker(), || false).unwrap(), first);
        assert_eq!((registry.others(), registry.pinned(0), registry.len()), (2, 0, 2));
        registry.close();
        assert!(
            registry.insert(shard, waker(), || false).is_err()
                && registry.insert(1, waker(), || true).is_err()
        );
    }
    #[test]
    fn a_draining_registry_takes_what_comes_from_inside_and_closes_when_empty() {
        let registry = Registry::new(2);
        let waker = || Waker::noop().clone();
        let first = registry.insert(0, waker(), || false).unwrap();
        registry.begin_drain();
        assert!(registry.insert(1, waker(), || false).is_err());
        let second = registry.insert(1, waker(), || true).unwrap();
        assert!(registry.remove(0, first).is_some());
        assert!(!registry.drain(Some(Instant::now())));
        std::thread::scope(|scope| {
            let drained = scope.spawn(|| registry.drain(None));
            assert!(registry.remove(1, second).is_some());
            assert!(drained.join().unwrap());
        });
        assert!(registry.insert(1, waker(), || true).is_err());
        registry.begin_drain();
        assert!(registry.insert(1, waker(), || true).is_err(), "closed for good");
    }
}
