//! Cheap counting wakers for enumerations that make hundreds of millions of them: the counts are in a table of
//! the thread, the waker is an index.

use std::cell::Cell;
use std::ptr;
use std::task::{RawWaker, RawWakerVTable, Waker};

/// How many wakers the table counts.
pub(crate) const WAKERS: usize = 16;

#[derive(Debug)]
struct Table {
    wakes: [Cell<u8>; WAKERS],
    alive: Cell<isize>,
}

thread_local! {
    static TABLE: Table =
        const { Table { wakes: [const { Cell::new(0) }; WAKERS], alive: Cell::new(0) } };
}

/// A waker that counts under this index, on the thread that wakes it.
pub(crate) fn waker(index: usize) -> Waker {
    assert!(index < WAKERS);
    adjust(1);
    // SAFETY: the data is only a number, so there is nothing that threads could misuse; the functions do
    // not fail.
    unsafe { Waker::from_raw(RawWaker::new(ptr::without_provenance(index), &VTABLE)) }
}

/// The wake counts of this thread since the last [`reset`].
pub(crate) fn wakes() -> [u8; WAKERS] {
    TABLE.with(|table| std::array::from_fn(|index| table.wakes[index].get()))
}

/// How many wakers were made on this thread and have not been dropped on it.
pub(crate) fn alive() -> isize {
    TABLE.with(|table| table.alive.get())
}

pub(crate) fn reset() {
    TABLE.with(|table| table.wakes.iter().for_each(|count| count.set(0)));
}

fn adjust(by: isize) {
    TABLE.with(|table| table.alive.set(table.alive.get() + by));
}

fn count(data: *const ()) {
    TABLE.with(|table| table.wakes[data.addr()].set(table.wakes[data.addr()].get() + 1));
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(
    |data| {
        adjust(1);
        RawWaker::new(data, &VTABLE)
    },
    |data| {
        adjust(-1);
        count(data);
    },
    count,
    |_| adjust(-1),
);
