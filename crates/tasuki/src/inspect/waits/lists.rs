//! Two kinds of lists of waits, by which a look finds what no table leads to: further waits of one task, and waits for one lock that keep readers out.
//!
//! A wait in the table of its thread is found by the number of its task, without a list (`tables.rs`). Waits with a record of the pool, and those whose future another task has polled, are in one of 65,536 buckets by the number of their task, each under a lock of its own. Waits for a time have buckets of their own: a task may have thousands of them, and a
//! look wants one. The list of a lock's writers is under the lock of its record.
//!
//! Links are numbers of records, Relaxed: they are read and written under the lock of their list. A thread that holds the lock of a list takes no other.

use super::{WaitRecord, Want, get, load, store};
use crate::inspect::locked;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// A power of two: a million waiting tasks are sixteen in a bucket.
const BUCKETS: usize = if cfg!(miri) { 16 } else { 1 << 16 };

static HEADS: [Mutex<u32>; BUCKETS] = [const { Mutex::new(0) }; BUCKETS];
/// Of waits for a time: a task may have thousands of them, and one is enough to keep it out of every cycle.
static TIME_HEADS: [Mutex<u32>; BUCKETS] = [const { Mutex::new(0) }; BUCKETS];

pub(super) fn bucket(task: u64) -> &'static Mutex<u32> {
    &HEADS[task as usize % BUCKETS]
}

pub(super) fn time_bucket(task: u64) -> &'static Mutex<u32> {
    &TIME_HEADS[task as usize % BUCKETS]
}

/// Into the bucket of its task.
#[cold]
pub(super) fn link(number: u32, record: &WaitRecord) {
    let mut head = locked(record.head());
    store(&record.prev, 0);
    store(&record.next, *head);
    if *head != 0 {
        store(&get(*head).prev, number);
    }
    *head = number;
    record.is_linked.store(true, Ordering::Relaxed);
}

/// Out of the bucket of its task.
#[cold]
pub(super) fn unlink(record: &WaitRecord) {
    let mut head = locked(record.head());
    let (prev, next) = (load(&record.prev), load(&record.next));
    if prev == 0 {
        *head = next;
    } else {
        store(&get(prev).next, next);
    }
    if next != 0 {
        store(&get(next).prev, prev);
    }
    record.is_linked.store(false, Ordering::Relaxed);
}

/// Lists the wait with the writers of its lock.
pub(super) fn list(number: u32, record: &WaitRecord) {
    let Some(of) = record.counted() else { return };
    let mut head = locked(&of.writers);
    store(&record.prev_writer, 0);
    store(&record.next_writer, *head);
    if *head != 0 {
        store(&get(*head).prev_writer, number);
    }
    *head = number;
}

pub(super) fn unlist(number: u32, record: &WaitRecord) {
    let Some(of) = record.counted() else { return };
    let mut head = locked(&of.writers);
    let (prev, next) = (load(&record.prev_writer), load(&record.next_writer));
    if prev != 0 {
        store(&get(prev).next_writer, next);
    } else if *head == number {
        *head = next;
    }
    if next != 0 {
        store(&get(next).prev_writer, prev);
    }
}

/// The records of a bucket, which is locked.
pub(super) fn chain(head: u32) -> impl Iterator<Item = (u32, &'static WaitRecord)> {
    along(head, |record| &record.next)
}

/// The writers of a lock whose list is locked.
pub(super) fn writers(head: u32) -> impl Iterator<Item = (u32, &'static WaitRecord)> {
    along(head, |record| &record.next_writer)
}

fn along(head: u32, next: fn(&WaitRecord) -> &AtomicU32) -> impl Iterator<Item = (u32, &'static WaitRecord)> {
    let mut at = head;
    std::iter::from_fn(move || {
        let (number, record) = (at, (at != 0).then(|| get(at))?);
        at = load(next(record));
        Some((number, record))
    })
}

impl WaitRecord {
    /// The list that it is in, if it is linked. A wait for a time stays one.
    fn head(&self) -> &'static Mutex<u32> {
        let task = self.task.load(Ordering::Relaxed);
        if self.request().want() == Want::Time { time_bucket(task) } else { bucket(task) }
    }
}
