//! Which accesses to atomics each operation makes: the table of `docs/locked-operations.md`, exactly.
//!
//! Built with `--cfg tasuki_counts` by `cargo xtask counts`; without it there is nothing to count. Every operation runs on one
//! thread, so the numbers are the same on every machine. `cargo xtask counts --write` writes the table anew.
#![cfg(tasuki_counts)]

use std::fmt::Write as _;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use tasuki::policy::{Bypass, Fifo, Lifo, Policy, Revocable, SemaphorePolicy};
use tasuki::{
    AccessKind, Barrier, CancellationSource, Condvar, Event, Latch, Mutex, OnceCell, Parker, RwLock,
    Semaphore, WaitGroup, trace,
};

/// What an operation may cost at most, whatever the table says.
#[derive(Clone, Copy, PartialEq)]
enum Rule {
    /// The locked operations that it cannot do without, and no other access to a word that it locks.
    Bare(usize),
    /// No locked operation.
    Unlocked,
    /// Nothing but what the table says.
    Table,
}

/// One row of the table.
struct Row {
    name: String,
    rule: Rule,
    locked: usize,
    looks: usize,
    loads: usize,
    stores: usize,
}

impl Row {
    fn check(&self) {
        let bare = match self.rule {
            Rule::Bare(locked) => (self.locked, self.looks) == (locked, 0),
            Rule::Unlocked => self.locked == 0,
            Rule::Table => true,
        };
        assert!(
            bare,
            "{}: {} locked operations, {} looks at a locked word",
            self.name, self.locked, self.looks
        );
    }
}

#[derive(Default)]
struct Table {
    rows: Vec<Row>,
}

impl Table {
    fn row(&mut self, name: impl Into<String>, rule: Rule, operation: impl FnOnce()) {
        let accesses = trace(operation);
        let of = |kind| accesses.iter().filter(move |access| access.kind == kind);
        let is_locked = |address| of(AccessKind::Locked).any(|access| access.address == address);
        let looks = of(AccessKind::Load).filter(|load| is_locked(load.address)).count();
        let row = Row {
            name: name.into(),
            rule,
            locked: of(AccessKind::Locked).count(),
            looks,
            loads: of(AccessKind::Load).count() - looks,
            stores: of(AccessKind::Store).count(),
        };
        row.check();
        self.rows.push(row);
    }

    fn print(&self) -> String {
        let mut text = String::from(
            "| operation | locked operations | looks at a locked word | other loads | stores |\n|---|---|---|---|---|\n",
        );
        for Row { name, locked, looks, loads, stores, .. } in &self.rows {
            writeln!(text, "| {name} | {locked} | {looks} | {loads} | {stores} |")
                .expect("a string takes all");
        }
        text
    }
}

/// One poll with a waker that does nothing.
pub(super) fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// The output of a future that is ready at its first poll.
pub(super) fn now<F: Future>(future: F) -> F::Output {
    match poll(pin!(future)) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it was to be ready"),
    }
}

pub(super) fn wait<F: Future>(future: Pin<&mut F>) {
    assert!(poll(future).is_pending(), "it was to wait");
}

fn mutex<P: Policy>(table: &mut Table, name: &str) {
    let mutex = Mutex::<(), P>::with_policy(());
    table.row(format!("`{name}`: lock and unlock"), Rule::Bare(2), || drop(now(mutex.lock())));
    table.row(format!("`{name}`: try_lock and unlock"), Rule::Bare(2), || drop(mutex.try_lock().unwrap()));
    let holder = mutex.try_lock().unwrap();
    table.row(format!("`{name}`: try_lock in vain"), Rule::Table, || assert!(mutex.try_lock().is_none()));
    let (mut first, mut second) = (pin!(mutex.lock()), pin!(mutex.lock()));
    wait(first.as_mut());
    table.row(format!("`{name}`: try_lock in vain, with a waiter"), Rule::Table, || {
        assert!(mutex.try_lock().is_none());
    });
    table.row(format!("`{name}`: enqueue behind a waiter"), Rule::Table, || wait(second.as_mut()));
    table.row(format!("`{name}`: unlock with two waiters"), Rule::Table, || drop(holder));
    // `Lifo` serves the second.
    let (served, mut other) = match poll(first.as_mut()) {
        Poll::Ready(guard) => (guard, second),
        Poll::Pending => match poll(second.as_mut()) {
            Poll::Ready(guard) => (guard, first),
            Poll::Pending => panic!("one of the two was to be served"),
        },
    };
    let mut last = Poll::Pending;
    table.row(format!("`{name}`: unlock with one waiter, and its poll"), Rule::Table, || {
        drop(served);
        last = poll(other.as_mut());
    });
    assert!(last.is_ready());
    drop(last);
    table.row(format!("`{name}`: lock and unlock, after a queue"), Rule::Bare(2), || drop(now(mutex.lock())));
    let holder = mutex.try_lock().unwrap();
    let mut dropped = Some(Box::pin(mutex.lock()));
    wait(dropped.as_mut().unwrap().as_mut());
    table.row(format!("`{name}`: cancel while waiting"), Rule::Table, || drop(dropped.take()));
    drop(holder);
}

fn semaphore<P: SemaphorePolicy>(table: &mut Table, name: &str) {
    let semaphore = Semaphore::<P>::with_policy(4);
    table.row(format!("`{name}`: acquire and release"), Rule::Table, || {
        drop(now(semaphore.acquire()));
    });
    table.row(format!("`{name}`: try_acquire and release"), Rule::Table, || {
        drop(semaphore.try_acquire().unwrap());
    });
    let mut all = semaphore.try_acquire_many(4).unwrap();
    let one = all.split(1).unwrap();
    table.row(format!("`{name}`: try_acquire in vain"), Rule::Table, || {
        assert!(semaphore.try_acquire().is_err());
    });
    let (mut first, mut second) = (pin!(semaphore.acquire()), pin!(semaphore.acquire()));
    wait(first.as_mut());
    table.row(format!("`{name}`: enqueue behind a waiter"), Rule::Table, || wait(second.as_mut()));
    let mut served = Poll::Pending;
    table.row(format!("`{name}`: release with two waiters, and the poll of the first"), Rule::Table, || {
        drop(one);
        served = poll(first.as_mut());
    });
    assert!(served.is_ready());
}

fn rwlock(table: &mut Table) {
    let lock = RwLock::new(());
    table.row("`RwLock`: read and unlock", Rule::Bare(2), || drop(now(lock.read())));
    table.row("`RwLock`: write and unlock", Rule::Bare(2), || drop(now(lock.write())));
    table.row("`RwLock`: try_read and unlock", Rule::Bare(2), || drop(lock.try_read().unwrap()));
    table.row("`RwLock`: try_write and unlock", Rule::Bare(2), || drop(lock.try_write().unwrap()));
    let reader = lock.try_read().unwrap();
    table.row("`RwLock`: read and unlock, beside a reader", Rule::Table, || drop(now(lock.read())));
    table.row("`RwLock`: the same again", Rule::Table, || drop(now(lock.read())));
    let mut writer = pin!(lock.write());
    table.row("`RwLock`: enqueue a writer", Rule::Table, || wait(writer.as_mut()));
    let mut served = Poll::Pending;
    table.row("`RwLock`: unlock with a waiter, and its poll", Rule::Table, || {
        drop(reader);
        served = poll(writer.as_mut());
    });
    assert!(served.is_ready());
}

fn event(table: &mut Table) {
    let event = Event::auto();
    table.row("`Event`, auto: set and wait", Rule::Bare(2), || {
        event.set();
        now(event.wait());
    });
    event.set();
    event.set();
    table.row("`Event`, auto: set, when it is set", Rule::Table, || event.set());
    now(event.wait());
    let mut first = pin!(event.wait());
    table.row("`Event`, auto: enqueue", Rule::Table, || wait(first.as_mut()));
    table.row("`Event`, auto: set with a waiter, and its poll", Rule::Table, || {
        event.set();
        assert!(poll(first.as_mut()).is_ready());
    });
    let event = Event::manual();
    event.set();
    table.row("`Event`, manual: wait, when it is set", Rule::Unlocked, || now(event.wait()));
    table.row("`Event`, manual: reset and set", Rule::Table, || {
        event.reset();
        event.set();
    });
    event.reset();
    let mut waits: Vec<_> = (0..8).map(|_| Box::pin(event.wait())).collect();
    waits.iter_mut().for_each(|waiter| wait(waiter.as_mut()));
    table.row("`Event`, manual: set with 8 waiters", Rule::Table, || event.set());
}

fn groups(table: &mut Table) {
    let group = WaitGroup::new();
    table.row("`WaitGroup`: add and done", Rule::Bare(2), || {
        group.add(1);
        group.done();
    });
    table.row("`WaitGroup`: wait at zero", Rule::Unlocked, || now(group.wait()));
    group.add(1);
    let mut waiter = pin!(group.wait());
    table.row("`WaitGroup`: enqueue", Rule::Table, || wait(waiter.as_mut()));
    table.row("`WaitGroup`: add and done, with a waiter", Rule::Bare(2), || {
        group.add(1);
        group.done();
    });
    table.row("`WaitGroup`: the last done with a waiter, and its poll", Rule::Table, || {
        group.done();
        assert!(poll(waiter.as_mut()).is_ready());
    });
    let latch = Latch::new(2);
    table.row("`Latch`: count_down", Rule::Bare(1), || latch.count_down());
    let barrier = Barrier::new(2);
    let mut first = pin!(barrier.arrive_and_wait());
    table.row("`Barrier`: arrive and wait", Rule::Table, || wait(first.as_mut()));
    table.row("`Barrier`: the last arrives, with a waiter", Rule::Table, || {
        assert!(now(barrier.arrive_and_wait()).is_leader())
    });
}

fn others(table: &mut Table) {
    let source = CancellationSource::new();
    let token = source.token();
    table.row("`CancellationToken`: stop_requested", Rule::Unlocked, || assert!(!token.stop_requested()));
    table.row("`CancellationToken`: clone and drop", Rule::Table, || drop(token.clone()));
    let mut waiter = pin!(token.on_cancel());
    table.row("`CancellationToken`: enqueue", Rule::Table, || wait(waiter.as_mut()));
    table.row("`CancellationSource`: request_cancel with a waiter", Rule::Table, || source.request_cancel());
    let parker = Parker::new();
    let unparker = parker.unparker();
    table.row("`Parker`: unpark and park", Rule::Bare(2), || {
        unparker.unpark();
        parker.park();
    });
    unparker.unpark();
    table.row("`Parker`: unpark, with a token", Rule::Bare(1), || unparker.unpark());
    let cell = OnceCell::new();
    cell.set(1).unwrap();
    table.row("`OnceCell`: get", Rule::Unlocked, || assert!(cell.get().is_some()));
    let (mutex, condvar) = (Mutex::new(()), Condvar::new());
    table.row("`Condvar`: notify_one without a waiter", Rule::Unlocked, || condvar.notify_one());
    let mut waiter = pin!(condvar.wait(mutex.try_lock().unwrap()));
    table.row("`Condvar`: enqueue, with the unlock", Rule::Table, || wait(waiter.as_mut()));
    let mut served = Poll::Pending;
    table.row("`Condvar`: notify_one with a waiter, and its poll", Rule::Table, || {
        condvar.notify_one();
        served = poll(waiter.as_mut());
    });
    assert!(served.is_ready());
}

fn measured() -> Table {
    let mut table = Table::default();
    mutex::<Fifo>(&mut table, "Mutex");
    mutex::<Lifo>(&mut table, "Mutex<_, Lifo>");
    mutex::<Bypass>(&mut table, "Mutex<_, Bypass>");
    mutex::<Revocable>(&mut table, "Mutex<_, Revocable>");
    semaphore::<Fifo>(&mut table, "Semaphore");
    semaphore::<Bypass>(&mut table, "Semaphore<Bypass>");
    rwlock(&mut table);
    event(&mut table);
    groups(&mut table);
    others(&mut table);
    table
}

/// The document, and where the table is in it.
fn document() -> (PathBuf, String, std::ops::Range<usize>) {
    const BEGIN: &str = "<!-- counts: written by `cargo xtask counts --write` -->\n";
    const END: &str = "<!-- end of counts -->";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/locked-operations.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let begin = text.find(BEGIN).expect("the table has a beginning") + BEGIN.len();
    let end = text.find(END).expect("the table has an end");
    (path, text, begin..end)
}

#[test]
fn the_table_is_what_is_counted() {
    let table = measured().print();
    let (path, mut text, place) = document();
    if std::env::var_os("TASUKI_COUNTS_WRITE").is_some() {
        text.replace_range(place, &table);
        return std::fs::write(path, text).unwrap();
    }
    for (counted, written) in table.lines().zip(text[place.clone()].lines()) {
        assert_eq!(counted, written, "counted, and written in docs/locked-operations.md");
    }
    assert_eq!(table, text[place], "`cargo xtask counts --write` writes the table anew");
}

/// The counting itself: a look at a word that is locked in the same row is told from other loads.
#[test]
fn the_counts_count() {
    let mut table = Table::default();
    let mutex = Mutex::new(());
    table.row("", Rule::Unlocked, || assert!(!mutex.is_locked()));
    assert_eq!((table.rows[0].locked, table.rows[0].looks, table.rows[0].loads), (0, 0, 1));
    table.row("", Rule::Table, || {
        let guard = mutex.try_lock();
        assert!(mutex.is_locked());
        drop(guard);
    });
    assert!(table.rows[1].locked == 2 && table.rows[1].looks > 0);
    let bare = Row { name: String::new(), rule: Rule::Bare(1), locked: 2, looks: 0, loads: 0, stores: 0 };
    assert!(std::panic::catch_unwind(move || bare.check()).is_err());
}

/// How many accesses one call makes that releases so many waiters.
fn release<F: Future>(waiters: usize, wait_for: impl Fn() -> F, release: impl FnOnce()) -> usize {
    let mut waiting: Vec<_> = (0..waiters).map(|_| Box::pin(wait_for())).collect();
    waiting.iter_mut().for_each(|future| wait(future.as_mut()));
    let accesses = trace(release).len();
    assert!(waiting.iter_mut().all(|future| poll(future.as_mut()).is_ready()), "all are released");
    accesses
}

/// S2-44, S2-54, S2-64, S2-76: what one call costs that releases all waiters, for any number of them up to a million: so much a waiter.
#[test]
fn releases_cost_in_proportion_to_the_waiters() {
    let event = |waiters| {
        let event = Event::manual();
        release(waiters, || event.wait(), || event.set())
    };
    let group = |waiters| {
        let group = WaitGroup::new();
        group.add(1);
        release(waiters, || group.wait(), || group.done())
    };
    let token = |waiters| {
        let source = CancellationSource::new();
        let token = source.token();
        release(waiters, || token.on_cancel(), || source.request_cancel())
    };
    let barrier = |waiters| {
        let barrier = Barrier::new(waiters + 1);
        release(waiters, || barrier.arrive_and_wait(), || assert!(now(barrier.arrive_and_wait()).is_leader()))
    };
    let all: [(&str, &dyn Fn(usize) -> usize); 4] =
        [("event", &event), ("wait group", &group), ("token", &token), ("barrier", &barrier)];
    for (name, release) in all {
        let (some, many) = (release(10_000), release(1_000_000));
        println!("{name}: {some} accesses for 10,000 waiters, {many} for 1,000,000");
        assert!(many <= 101 * some, "{name}: {some} accesses for 10,000 waiters, {many} for 1,000,000");
    }
}
