//! How tasks end with their runtime: spawns, wakes and aborts against a shutdown. Every task is dropped once, by a thread that may, and
//! no worker leaves while one is on its way.
//!
//! The counts of tasks, the registry, the task's entry in it, the global queue and the countdown of the workers are the runtime's own. The task cell is a stand-in for that of `async-task`, of which it is assumed that
//! a task is in at most one place, and that a wake of a task that has ended does nothing. The worker takes the steps of
//! `scheduler/shutdown/mod.rs`.

mod several_workers;

use crate::parts::chain::{Link, Linked};
use crate::parts::progress::ShutdownProgress;
use crate::parts::registry::{self, Entry, RegisteredCell, Registry};
use crate::parts::shared_queue::SharedQueue;
use crate::parts::task_counts::{Row, TaskCounts};
use loom::cell::UnsafeCell;
use loom::sync::Notify;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

/// In a queue.
const SCHEDULED: usize = 1;
/// Its future is gone.
const CLOSED: usize = 2;

/// A runtime.
struct House {
    task_counts: TaskCounts,
    registry: Registry<Cell>,
    queue: SharedQueue<Arc<Cell>>,
    shutdown: ShutdownProgress,
    workers: usize,
    /// Wakes worker 0, which runs the tasks, or the worker that stays.
    bell: Notify,
    /// A task has been dropped.
    dropped: Notify,
    /// What was done before the shutdown.
    said: UnsafeCell<usize>,
    /// What the workers did before they left.
    left: [UnsafeCell<usize>; 3],
}

// SAFETY: the model checker looks at every access of the cell.
unsafe impl Send for House {}
// SAFETY: as above.
unsafe impl Sync for House {}

impl House {
    fn new(workers: usize) -> &'static Self {
        Box::leak(Box::new(Self {
            task_counts: TaskCounts::new(1),
            registry: Registry::new(1),
            queue: SharedQueue::new(),
            shutdown: ShutdownProgress::new(workers),
            workers,
            bell: Notify::new(),
            dropped: Notify::new(),
            said: UnsafeCell::new(0),
            left: [UnsafeCell::new(0), UnsafeCell::new(0), UnsafeCell::new(0)],
        }))
    }

    fn push(&self, cell: Arc<Cell>) {
        assert!(self.queue.push(cell).is_ok());
        self.bell.notify();
    }

    fn pop(&self) -> Option<Arc<Cell>> {
        self.queue.take(1, 0, |_| ())
    }

    /// As `task::start`, from a thread that is not a worker; false if refused.
    fn spawn(&'static self, cell: &Arc<Cell>) -> bool {
        let taken = self.task_counts.begin(Row::Outside, false);
        if taken {
            self.push(cell.clone())
        } else {
            cell.entry.mark_uncounted();
            cell.drop_future(Row::Outside)
        }
        taken
    }

    fn close(&self) {
        // SAFETY: the model checker has checked that no other thread accesses it now.
        self.said.with_mut(|said| unsafe { *said = 1 });
        self.task_counts.close();
        self.shutdown.close();
        self.bell.notify();
    }

    /// The worker: polls until the runtime closes, then drops what is left.
    fn work(&self) {
        while !self.shutdown.is_closing() {
            match self.pop() {
                Some(cell) => cell.poll(),
                None => self.bell.wait(),
            }
        }
        // SAFETY: as above.
        self.said.with(|said| assert_eq!(unsafe { *said }, 1));
        self.leave(0);
    }

    /// As `shutdown::leave`.
    fn leave(&self, worker: usize) {
        // SAFETY: as above.
        self.left[worker].with_mut(|left| unsafe { *left = 1 });
        let is_last = self.shutdown.left_home();
        self.bell.notify();
        if is_last {
            for left in &self.left[..self.workers] {
                // SAFETY: as above.
                left.with(|left| assert_eq!(unsafe { *left }, 1));
            }
            self.drop_others();
        } else if self.shutdown.stays() {
            self.wait_for_others();
        }
        self.shutdown.has_ended();
    }

    /// As `shutdown::drop_beside_polls`, when it has waited for long.
    fn wait_for_others(&self) {
        let mut woken_with = None;
        loop {
            let at_home = self.shutdown.at_home();
            if at_home == 0 {
                return;
            }
            if woken_with.replace(at_home) != Some(at_home) {
                self.registry.wake_others_early();
            }
            while let Some(cell) = self.pop() {
                cell.drop_future(Row::Worker(0));
            }
            // It looks again and again; here, when there is something to see.
            self.bell.wait();
        }
    }

    /// As `shutdown::drop_others`.
    fn drop_others(&self) {
        self.registry.wake_others();
        loop {
            while let Some(cell) = self.pop() {
                cell.drop_future(Row::Worker(0));
            }
            if self.task_counts.others() == 0 {
                return;
            }
            thread::yield_now();
        }
    }

    fn at_rest(&self) {
        assert!(self.shutdown.wait(Duration::MAX));
        assert_eq!(self.task_counts.len(), 0);
        assert!(self.queue.take_all().is_empty(), "a task was left");
    }
}

/// A task that waits for ever.
struct Cell {
    house: &'static House,
    state: AtomicUsize,
    /// How often it was polled and dropped. Touched by the thread that popped the task.
    future: UnsafeCell<(usize, usize)>,
    entry: Entry,
    link: Link,
    /// What an aborter did before.
    why: UnsafeCell<usize>,
}

// SAFETY: the model checker looks at every access of the cell.
unsafe impl Send for Cell {}
// SAFETY: as above.
unsafe impl Sync for Cell {}

impl Cell {
    fn new(house: &'static House) -> Arc<Self> {
        Arc::new(Self {
            house,
            state: AtomicUsize::new(SCHEDULED),
            future: UnsafeCell::new((0, 0)),
            entry: Entry::new(None),
            link: Link::new(),
            why: UnsafeCell::new(0),
        })
    }

    /// A task that has been polled once, and waits.
    fn waiting(house: &'static House) -> Arc<Self> {
        let cell = Self::new(house);
        assert!(house.spawn(&cell));
        house.pop().expect("just pushed").poll();
        cell
    }

    /// As `Body::poll`: an aborted task ends, another waits, and is registered.
    fn poll(self: Arc<Self>) {
        self.state.fetch_and(!SCHEDULED, Ordering::AcqRel);
        let look = self.entry.look();
        if look.is_aborted() {
            // SAFETY: the model checker has checked that no other thread accesses it now.
            self.why.with(|why| assert_eq!(unsafe { *why }, 1));
            return self.drop_future(Row::Worker(0));
        }
        // SAFETY: as above.
        self.future.with_mut(|future| unsafe { (*future).0 += 1 });
        if !look.is_registered() {
            let waker = Waker::from(self.clone());
            // SAFETY: the waker holds this cell; removed when the future is dropped.
            if unsafe { self.house.registry.insert(0, &self.entry, waker.clone()) } {
                waker.wake();
            }
        }
    }

    /// As `AbortHandle::abort`.
    fn abort(self: &Arc<Self>) {
        // SAFETY: as above.
        self.why.with_mut(|why| unsafe { *why = 1 });
        // SAFETY: the caller's own `Arc` keeps the cell.
        unsafe {
            registry::abort::<Cell>(
                NonNull::new(Arc::as_ptr(self).cast_mut().cast()).expect("an `Arc` points somewhere"),
            )
        };
    }

    /// As the destructor of a `Runnable`, and `Meta::forget`.
    fn drop_future(&self, row: Row) {
        self.state.fetch_or(CLOSED, Ordering::AcqRel);
        // SAFETY: as above.
        self.future.with_mut(|future| unsafe { (*future).1 += 1 });
        let is_counted = !self.entry.look().is_uncounted();
        self.house.registry.remove(&self.entry);
        self.entry.end();
        if is_counted {
            self.house.task_counts.end(row);
        }
        self.house.dropped.notify();
    }

    fn drops(&self) -> usize {
        // SAFETY: as above.
        self.future.with(|future| unsafe { (*future).1 })
    }
}

// SAFETY: the `Arc` that is given away keeps the cell, which is in one queue at most.
unsafe impl Linked for Arc<Cell> {
    fn into_raw(self) -> NonNull<()> {
        NonNull::new(Self::into_raw(self).cast_mut().cast()).expect("an `Arc` points somewhere")
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: made by `into_raw`, and given back once.
        unsafe { Self::from_raw(raw.cast().as_ptr()) }
    }

    unsafe fn link<'a>(raw: NonNull<()>) -> &'a Link {
        // SAFETY: made by `into_raw`, and not given back.
        unsafe { &raw.cast::<Cell>().as_ref().link }
    }
}

// SAFETY: the data of an `Arc`'s waker is what the `Arc` points to.
unsafe impl RegisteredCell for Cell {
    unsafe fn entry<'a>(cell: NonNull<()>) -> &'a Entry {
        // SAFETY: promised by the caller.
        unsafe { &cell.cast::<Self>().as_ref().entry }
    }

    unsafe fn waker(cell: NonNull<()>) -> Waker {
        let cell = cell.as_ptr().cast::<Self>().cast_const();
        // SAFETY: a reference exists, so it can be counted.
        unsafe { Arc::increment_strong_count(cell) };
        // SAFETY: just counted.
        Waker::from(unsafe { Arc::from_raw(cell) })
    }
}

impl Wake for Cell {
    fn wake(self: Arc<Self>) {
        let before = self.state.fetch_or(SCHEDULED, Ordering::AcqRel);
        if before & (SCHEDULED | CLOSED) == 0 {
            self.house.push(self.clone());
        }
    }
}

/// A spawn from outside is refused, and its future dropped there; or the task is dropped by the worker, which waits for it.
#[test]
fn spawn_against_shutdown() {
    loom::model(|| {
        let house = House::new(1);
        let cell = Cell::new(house);
        let worker = thread::spawn(|| house.work());
        let spawner = {
            let cell = cell.clone();
            thread::spawn(move || house.spawn(&cell))
        };
        house.close();
        spawner.join().unwrap();
        worker.join().unwrap();
        assert_eq!(cell.drops(), 1);
        house.at_rest();
    });
}

/// A task that waits is woken by a foreign thread while the runtime ends: one of the two wakes brings it, and it is dropped.
#[test]
fn wake_against_shutdown() {
    loom::model(|| {
        let house = House::new(1);
        let cell = Cell::waiting(house);
        let worker = thread::spawn(|| house.work());
        let waker = Waker::from(cell.clone());
        let foreign = thread::spawn(move || waker.wake());
        house.close();
        foreign.join().unwrap();
        worker.join().unwrap();
        assert_eq!(cell.drops(), 1);
        house.at_rest();
    });
}

/// The same, while another wake of the same task is on its way, and with the shutdown already decided: a wake that is late finds nothing
/// to do.
#[test]
fn two_wakes_against_the_drop() {
    loom::model(|| {
        let house = House::new(1);
        let cell = Cell::waiting(house);
        house.close();
        let wakes: Vec<_> = (0..2)
            .map(|_| {
                let waker = Waker::from(cell.clone());
                thread::spawn(move || waker.wake())
            })
            .collect();
        house.work();
        wakes.into_iter().for_each(|wake| wake.join().unwrap());
        assert_eq!(cell.drops(), 1);
        house.at_rest();
    });
}

/// A task is asked to end while it is polled for the first time: the poll sees it, or the registration does, or the aborter finds the
/// entry. It ends without a shutdown.
#[test]
fn abort_against_the_first_poll() {
    loom::model(|| {
        let house = House::new(1);
        let cell = Cell::new(house);
        assert!(house.spawn(&cell));
        let aborter = {
            let cell = cell.clone();
            thread::spawn(move || cell.abort())
        };
        while house.task_counts.len() > 0 {
            match house.pop() {
                Some(cell) => cell.poll(),
                None => house.bell.wait(),
            }
        }
        aborter.join().unwrap();
        assert_eq!(cell.drops(), 1);
    });
}

/// A thread that is told that a task has ended sees what the task did; also while another asks the task to end.
#[test]
fn an_end_that_is_seen_brings_what_the_task_did() {
    loom::model(|| {
        let house = House::new(1);
        let cell = Cell::new(house);
        assert!(house.spawn(&cell));
        let aborter = {
            let cell = cell.clone();
            thread::spawn(move || cell.abort())
        };
        let asker = {
            let cell = cell.clone();
            thread::spawn(move || {
                let raw = NonNull::new(Arc::as_ptr(&cell).cast_mut().cast()).unwrap();
                // SAFETY: the `Arc` keeps the cell.
                let is_ended = unsafe { registry::is_ended::<Cell>(raw) };
                if is_ended {
                    assert_eq!(cell.drops(), 1);
                }
            })
        };
        while house.task_counts.len() > 0 {
            match house.pop() {
                Some(cell) => cell.poll(),
                None => house.bell.wait(),
            }
        }
        aborter.join().unwrap();
        asker.join().unwrap();
        assert!(cell.entry.look().is_ended());
    });
}

/// A task that waits is asked to end while its future is dropped by a shutdown: the aborter's wake finds a task that has ended,
/// whose reference in the registry is gone.
#[test]
fn abort_against_shutdown() {
    loom::model(|| {
        let house = House::new(1);
        let cell = Cell::waiting(house);
        let aborter = {
            let cell = cell.clone();
            thread::spawn(move || cell.abort())
        };
        let worker = thread::spawn(|| house.work());
        house.close();
        aborter.join().unwrap();
        worker.join().unwrap();
        assert_eq!(cell.drops(), 1);
        house.at_rest();
        assert_eq!(Arc::strong_count(&cell), 1, "every reference was given back");
    });
}

/// Two tasks of one shard are dropped by two threads while a shutdown takes entries out of it: each entry leaves once, and the list is
/// whole.
#[test]
fn two_drops_against_the_registry_of_a_shutdown() {
    loom::model(|| {
        let house = House::new(1);
        let cells = [Cell::waiting(house), Cell::waiting(house)];
        let dropping: Vec<_> = cells
            .iter()
            .map(|cell| {
                let cell = cell.clone();
                // As a wake that is popped and dropped there.
                thread::spawn(move || {
                    if cell.state.fetch_or(SCHEDULED, Ordering::AcqRel) & SCHEDULED == 0 {
                        cell.drop_future(Row::Outside);
                    }
                })
            })
            .collect();
        house.drop_others();
        dropping.into_iter().for_each(|thread| thread.join().unwrap());
        for cell in &cells {
            assert_eq!(cell.drops(), 1);
            assert_eq!(Arc::strong_count(cell), 1, "every reference was given back");
        }
        assert!(house.queue.take_all().is_empty(), "a task was left");
    });
}

/// A dump looks at the registry while one task is dropped and another is registered: it sees each at most once, always the one that stays, and none that is freed.
#[test]
fn a_look_among_tasks_that_come_and_go() {
    loom::model(|| {
        let house = House::new(1);
        let (goes, stays, comes) = (Cell::waiting(house), Cell::waiting(house), Cell::new(house));
        assert!(house.spawn(&comes));
        let all = [&stays, &goes, &comes].map(|cell| Arc::as_ptr(cell).cast::<()>());
        // The last references outside of the registry and the queue go along: the cell is freed by the drop of its future.
        let going = thread::spawn(move || goes.drop_future(Row::Outside));
        let coming = thread::spawn(move || house.pop().expect("just pushed").poll());
        let mut seen = [0; 3];
        house.registry.each(|cell| {
            // SAFETY: it is in the list, whose lock is held.
            let drops = unsafe { cell.cast::<Cell>().as_ref() }.entry.look().is_ended();
            assert!(!drops, "ended only after it was removed");
            seen[all.iter().position(|one| std::ptr::eq(*one, cell.as_ptr())).expect("one of them")] += 1;
        });
        assert!(seen[0] == 1 && seen[1] <= 1 && seen[2] <= 1, "{seen:?}");
        going.join().unwrap();
        coming.join().unwrap();
        [stays, comes].into_iter().for_each(|cell| cell.drop_future(Row::Outside));
        let mut left = 0;
        house.registry.each(|_| left += 1);
        assert_eq!((left, house.task_counts.len()), (0, 0));
    });
}
