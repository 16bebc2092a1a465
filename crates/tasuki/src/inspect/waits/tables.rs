//! Records of waits, a table of them for every thread, into which the number of a task leads.
//!
//! A wait needs a record while it goes on (`mod.rs`). Were the records those of all threads, a wait would have to take one by a compare-exchange, which is a good part of what a short wait costs. A thread that has
//! records of its own takes one by a load and a store. The future knows the record, so that any thread may free it.
//!
//! ```text
//!   thread A: table 1  [free] [task 1] [free] [task 3] ...    with 4 records a table, task 5 leads to the second: it waits on thread B, so to that of table 2
//!   thread B: table 2  [free] [task 5] [free] [free]   ...    a look for the waits of task 5 goes to the second record of every table
//! ```
//!
//! There are [`TABLES`] tables, in static memory: a table has 128 KiB, and a process may have hundreds of threads that block. The table of a thread that ends is the next new thread's, with the waits that
//! are still in it. Where the record is in use, by another wait of the task or by another task, and on a thread without a table, a wait has a record of the pool. Such a thread asks for a table again after [`ASKS_AGAIN`] waits.
//!
//! # Invariant
//! Only the thread that has a table takes its records; with the feature `critical-section` no interrupt handler of the thread does so meanwhile.
//!
//! # Orderings
//! Those of the stamps. A table goes from thread to thread under a lock. `USED` is Relaxed: a look that misses a new table is as one that came before; a watcher that ends has a fence for it (`watch.rs`).

use super::WaitRecord;
use crate::inspect::pool::{Record, first};
use crate::inspect::{locked, try_locked};
use crate::shim::Section;
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread_local;

/// How many records a table has. A power of two. An interpreter would take seconds to walk them all.
const RECORDS: u32 = if cfg!(miri) { 4 } else { 1 << 10 };
/// How many tables there are: at most as many as bits in [`TAKEN`].
const TABLES: usize = first(32);
/// A thread that found no table asks for one again after so many waits.
const ASKS_AGAIN: u32 = 64;

type Records = [WaitRecord; RECORDS as usize];

/// The first has number 1.
static ALL: [Records; TABLES] = [const { [const { WaitRecord::NEW }; RECORDS as usize] }; TABLES];
/// Bit `n` is set while a thread has table `n + 1`.
static TAKEN: Mutex<u32> = Mutex::new(0);
/// How many tables were ever taken: the lowest is taken first.
static USED: AtomicU32 = AtomicU32::new(0);

/// The records of a table.
#[inline]
fn records(table: u32) -> &'static Records {
    &ALL[table as usize - 1]
}

/// The number of a table that no thread has; `None` if there is none, or another thread takes one at this moment.
fn take_table() -> Option<u32> {
    let mut taken = try_locked(&TAKEN)?;
    let table = taken.trailing_ones() + 1;
    if table as usize > TABLES {
        return None;
    }
    *taken |= 1 << (table - 1);
    // Relaxed: see the header.
    USED.fetch_max(table, Ordering::Relaxed);
    Some(table)
}

fn put_table(table: u32) {
    *locked(&TAKEN) &= !(1 << (table - 1));
}

/// What a thread has.
#[derive(Clone, Copy)]
enum Mine {
    /// No table; for so many waits it does not ask for one.
    Nothing(u32),
    /// These records, and the number of the first.
    Table(u32, &'static Records),
}

thread_local! {
    static MINE: Cell<Mine> = const { Cell::new(Mine::Nothing(0)) };
    static OWNED: OwnedTable = const { OwnedTable(Cell::new(0)) };
}

/// The number of a thread's table, 0 if it has none.
struct OwnedTable(Cell<u32>);

impl Drop for OwnedTable {
    fn drop(&mut self) {
        // Before the table can be another thread's: this one has none any more.
        let _ = MINE.try_with(|mine| mine.set(Mine::Nothing(0)));
        if self.0.get() != 0 {
            put_table(self.0.get());
        }
    }
}

/// The record that the number of the task leads to in the table of this thread, and its number, which is never 0. `None` if it is in use, or the thread has no table.
#[inline(always)]
pub(super) fn take(task: u64) -> Option<(u32, &'static WaitRecord)> {
    let _section = Section::enter();
    let (base, records) = match MINE.try_with(Cell::get).ok()? {
        Mine::Table(base, records) => (base, records),
        Mine::Nothing(waits) => own(waits)?,
    };
    let place = task as u32 % RECORDS;
    let record = &records[place as usize];
    record.stamp.try_take().then_some((base + place, record))
}

/// Takes a table for this thread, unless it does not ask for one for so many waits; `None` where the thread ends, or no table was found.
#[cold]
fn own(waits: u32) -> Option<(u32, &'static Records)> {
    let table = |owned: &OwnedTable| {
        let table = if waits == 0 { take_table() } else { None };
        owned.0.set(table.unwrap_or(0));
        table
    };
    // A thread that ends has dropped its table, and takes no other.
    let table = OWNED.try_with(table).ok()?;
    let mine = match table {
        Some(table) => Mine::Table(table * RECORDS, records(table)),
        None => Mine::Nothing(waits.checked_sub(1).unwrap_or(ASKS_AGAIN)),
    };
    let _ = MINE.try_with(|cell| cell.set(mine));
    table.map(|table| (table * RECORDS, records(table)))
}

/// The record of a number that [`take`] gave.
#[inline]
pub(super) fn get(number: u32) -> &'static WaitRecord {
    &records(number / RECORDS)[(number % RECORDS) as usize]
}

/// The tables that were ever used, with their numbers.
fn used() -> impl Iterator<Item = (u32, &'static Records)> {
    // Relaxed: see the header.
    (1..=USED.load(Ordering::Relaxed)).map(|table| (table, records(table)))
}

/// The records to which the number of a task leads, one of each table; with their numbers.
pub(super) fn of(task: u64) -> impl Iterator<Item = (u32, &'static WaitRecord)> {
    let place = task as u32 % RECORDS;
    used().map(move |(table, records)| (table * RECORDS + place, &records[place as usize]))
}

/// All records of the tables that were ever used; with their numbers.
pub(super) fn each() -> impl Iterator<Item = (u32, &'static WaitRecord)> {
    used().flat_map(|(table, records)| (table * RECORDS..).zip(records))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// The first free record of this thread, its number, and that of a task that leads to it; `None` if threads of other tests have all tables. Other tests leave waits behind in the tables of their threads.
    fn take_free() -> Option<(u64, u32, &'static WaitRecord)> {
        let taken = |task| take(task).map(|(number, record)| (task, number, record));
        (0..=2 * u64::from(RECORDS)).find_map(taken)
    }

    /// A record is taken once, freed by another thread, and taken again; it is among those that the task's number leads to.
    #[test]
    fn a_record_of_this_thread() {
        let Some((task, number, record)) = take_free() else { return };
        assert!(take(task).is_none() && take(task + u64::from(RECORDS)).is_none(), "it is in use");
        let (_, other_number, other) = take_free().expect("the thread has a table");
        assert_ne!(number, other_number);
        other.stamp.free();
        let is_it = |(found, of): (u32, &'static WaitRecord)| found == number && core::ptr::eq(of, record);
        assert!(is_it((number, get(number))) && of(task).any(is_it) && each().any(is_it));
        thread::scope(|scope| _ = scope.spawn(|| record.stamp.free()));
        assert_eq!(take(task).map(|(again, _)| again), Some(number));
        record.stamp.free();
    }

    /// More threads at a time than there are tables: no two have the same table, those without one do not ask at every wait, and the next threads have tables again.
    #[test]
    fn many_threads_at_a_time() {
        let threads = 2 * TABLES;
        let all_have_asked = std::sync::Barrier::new(threads);
        let wait = || {
            let free = take_free();
            all_have_asked.wait();
            if let Some((task, number, record)) = free {
                assert!(of(task).any(|(found, of)| found == number && core::ptr::eq(of, record)));
                assert!(core::ptr::eq(get(number), record));
                record.stamp.free();
            } else {
                assert!(matches!(MINE.get(), Mine::Nothing(1..)), "it does not ask at every wait");
            }
            free.map(|(_, number, _)| number / RECORDS)
        };
        let mut tables: std::vec::Vec<u32> = thread::scope(|scope| {
            let waits: std::vec::Vec<_> = (0..threads).map(|_| scope.spawn(wait)).collect();
            waits.into_iter().filter_map(|wait| wait.join().unwrap()).collect()
        });
        let taken = tables.len();
        tables.sort_unstable();
        tables.dedup();
        assert_eq!(tables.len(), taken, "a table is one thread's");
        assert!(taken <= TABLES, "{taken} threads had a table");
        let has_one = || thread::spawn(|| take_free().map(|free| free.2.stamp.free())).join().unwrap();
        // Threads of other tests may have all of them for a while.
        while has_one().is_none() {
            thread::yield_now();
        }
    }

    /// A destructor that waits when its thread has no table any more has a record of the pool.
    #[test]
    fn a_thread_that_ends() {
        struct OnExit;
        impl Drop for OnExit {
            fn drop(&mut self) {
                assert!(take(1).is_none(), "the table may be another thread's");
            }
        }
        thread_local! {
            static ON_EXIT: OnExit = const { OnExit };
        }
        let ended = thread::spawn(|| {
            // Before the table: what was used first is dropped last.
            ON_EXIT.with(|_| ());
            take_free().into_iter().for_each(|free| free.2.stamp.free());
        });
        ended.join().unwrap();
    }
}
