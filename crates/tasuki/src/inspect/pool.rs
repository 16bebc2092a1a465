//! Memory for records that is never given back: a record is taken, used and put back, and then used again.
//!
//! What a look at the graph reads is of other tasks, which run on. A record that is never freed can be read at any time: it is the
//! right one, or one that has been used again, which its stamp or its generation tells. So nothing here is unsafe, and nothing is allocated until more
//! than `N` records are in use at a time.
//!
//! Records that are free are in lists, one for every few threads, each under a lock of its own; the lists are linked through the records. A thread
//! whose list is empty takes from another before it takes a record that was never used: the number of records is that of the most that were in use.

use super::{SectionGuard, locked, try_locked};
use crate::process_id;
use std::boxed::Box;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread_local;

/// How many records need no allocation. An interpreter looks at all of them whenever the pool is borrowed.
pub(super) const fn first(records: usize) -> usize {
    if cfg!(miri) { 8 } else { records }
}

/// How many lists of free records there are.
const LISTS: usize = 16;
/// How often the memory may double. Not at all where a critical section may have interrupted the allocator: an interrupt handler takes records too.
const DOUBLINGS: usize = if cfg!(feature = "critical-section") { 0 } else { 18 };

/// How many records are made at a time, at most.
const CHUNK: usize = 256;

type Chunk<T> = OnceLock<Box<[T]>>;

/// What can be in a pool.
pub(super) trait Record: Sized + Sync + 'static {
    /// One that was never used.
    const NEW: Self;

    /// The number of the next free record, guarded by the lock of its list.
    fn next_free(&self) -> &AtomicU32;
}

/// All records of a kind. A record has a number, from 1 on.
pub(super) struct Pool<T: 'static, const N: usize> {
    first: [T; N],
    /// Each has as many as all before it together, in chunks that are made when the first of their records is taken: that may be with a queue locked, so it must not take long.
    more: [OnceLock<Box<[Chunk<T>]>>; DOUBLINGS],
    free: [Mutex<u32>; LISTS],
    /// How many records were ever used.
    used: AtomicU32,
}

impl<T: Record, const N: usize> Pool<T, N> {
    pub(super) const fn new() -> Self {
        Self {
            first: [const { T::NEW }; N],
            more: [const { OnceLock::new() }; DOUBLINGS],
            free: [const { Mutex::new(0) }; LISTS],
            used: AtomicU32::new(0),
        }
    }

    /// The record of a number that [`take`](Self::take) gave.
    #[inline]
    pub(super) fn get(&self, number: u32) -> &T {
        let at = number as usize - 1;
        self.first.get(at).unwrap_or_else(|| self.get_more(at))
    }

    #[cold]
    fn get_more(&self, at: usize) -> &T {
        let doubling = (at / N).ilog2() as usize;
        let before = N << doubling;
        let (chunk, records) = ((at - before) / CHUNK, CHUNK.min(before));
        let empty = || (0..before.div_ceil(CHUNK)).map(|_| Chunk::new()).collect();
        let fresh = || (0..records).map(|_| T::NEW).collect();
        &self.more[doubling].get_or_init(empty)[chunk].get_or_init(fresh)[(at - before) % CHUNK]
    }

    /// A record that is in use from now on; `None` if there is memory for no more.
    pub(super) fn take(&self) -> Option<u32> {
        let mine = this_list();
        let lists = || (mine..LISTS).chain(0..mine).map(|list| &self.free[list]);
        // A list that is locked may have records; to wait for each would make threads that take meet where there are enough.
        let free = lists().find_map(|list| self.pop(try_locked(list)?));
        free.or_else(|| lists().find_map(|list| self.pop(locked_in_parent(list)?))).or_else(|| self.fresh())
    }

    /// A record that was never used.
    fn fresh(&self) -> Option<u32> {
        let next = |used| (used < (N as u32) << DOUBLINGS).then_some(used + 1);
        // Relaxed: a look that misses a new record is as one that came before; a watcher that ends has a fence for it (`watch.rs`).
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok().map(|used| used + 1)
    }

    fn pop(&self, mut head: SectionGuard<'_, u32>) -> Option<u32> {
        let number = *head;
        if number == 0 {
            return None;
        }
        // Relaxed: guarded by the lock.
        *head = self.get(number).next_free().load(Ordering::Relaxed);
        Some(number)
    }

    /// The record is not in use any more.
    pub(super) fn put(&self, number: u32) {
        let mut head = locked(&self.free[this_list()]);
        // Relaxed: guarded by the lock.
        self.get(number).next_free().store(*head, Ordering::Relaxed);
        *head = number;
    }

    /// How many records were ever used: the most that were in use at a time, or a few more.
    pub(super) fn used(&self) -> u32 {
        // Relaxed: as in `fresh`.
        self.used.load(Ordering::Relaxed)
    }
}

/// Locks the list. In the child of a fork only if it is free: a thread that the child does not have may have locked it.
fn locked_in_parent(list: &Mutex<u32>) -> Option<SectionGuard<'_, u32>> {
    static FIRST: AtomicU32 = AtomicU32::new(0);
    let here = process_id::id();
    // Relaxed: a number that the first to take a record has written.
    let first = FIRST.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed);
    if first.is_err_and(|first| first != here) { try_locked(list) } else { Some(locked(list)) }
}

/// The list of this thread.
fn this_list() -> usize {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        static LIST: Cell<usize> = const { Cell::new(LISTS) };
    }
    let list = LIST.try_with(|list| {
        if list.get() == LISTS {
            // Relaxed: a number that spreads the threads.
            list.set(NEXT.fetch_add(1, Ordering::Relaxed) as usize % LISTS);
        }
        list.get()
    });
    list.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    struct Number(AtomicU32);

    impl Record for Number {
        const NEW: Self = Self(AtomicU32::new(0));

        fn next_free(&self) -> &AtomicU32 {
            &self.0
        }
    }

    /// Every record is another one, also beyond the first memory; and what is put back is used again.
    #[test]
    fn records_are_used_again() {
        static POOL: Pool<Number, { if DOUBLINGS == 0 { 100 } else { 4 } }> = Pool::new();
        for _ in 0..3 {
            let numbers: Vec<u32> = (0..100).filter_map(|_| POOL.take()).collect();
            let mut places: Vec<*const Number> =
                numbers.iter().map(|number| &raw const *POOL.get(*number)).collect();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), 100);
            numbers.into_iter().for_each(|number| POOL.put(number));
        }
        assert_eq!(POOL.used(), 100);
    }

    /// Where nothing may be allocated, a pool that is empty says so.
    #[test]
    fn a_pool_without_memory() {
        static POOL: Pool<Number, 2> = Pool::new();
        let taken = (0..4).filter_map(|_| POOL.take()).count();
        assert_eq!(taken, if DOUBLINGS == 0 { 2 } else { 4 });
    }

    /// One thread takes and another puts back at the same time: a list that is locked at that moment is not taken for an empty one.
    #[test]
    fn records_go_to_and_fro() {
        static POOL: Pool<Number, 16> = Pool::new();
        let (send, receive) = std::sync::mpsc::sync_channel(10);
        let puts = std::thread::spawn(move || receive.iter().for_each(|number| POOL.put(number)));
        for _ in 0..if cfg!(miri) { 100 } else { 100_000 } {
            send.send(POOL.take().expect("few are in use")).unwrap();
        }
        drop(send);
        puts.join().unwrap();
        // Ten in the channel, and one on either side.
        assert!(POOL.used() <= 12, "{} records", POOL.used());
    }

    /// Taken by one thread and put back by others: the memory does not grow.
    #[test]
    fn records_go_from_thread_to_thread() {
        static POOL: Pool<Number, 16> = Pool::new();
        for _ in 0..50 {
            let numbers: Vec<u32> = (0..10).filter_map(|_| POOL.take()).collect();
            std::thread::spawn(move || numbers.into_iter().for_each(|number| POOL.put(number)))
                .join()
                .unwrap();
        }
        assert_eq!(POOL.used(), 10);
    }
}
