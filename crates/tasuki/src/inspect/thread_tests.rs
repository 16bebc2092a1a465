//! Records that several threads write while another looks at them: small, so that Miri runs them too, under both of its borrow models. The loom model (`model/records.rs`) has the orderings of single records; here the
//! statics, the slots of threads and the lists are in it.

use super::holder_slot::{HolderSlot, Look, NewHold};
use super::locks::{Held, NEW_SLOT};
use super::stamp::Stamp;
use super::waits::{self, NewWait, Want};
use crate::task::TaskId;
use crate::{Mutex, RwLock, Semaphore, task};
use alloc::sync::Arc;
use core::future::Future;
use core::panic::Location;
use core::pin::pin;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::task::{Context, Waker};
use std::{sync::Barrier, thread, vec::Vec};

const ROUNDS: u64 = if cfg!(miri) { 10 } else { 10_000 };

/// Runs it as one poll of a task of its own, which does not wait.
fn as_task(task: impl Future<Output = ()>) {
    let poll = pin!(task::identify(task)).poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll.is_ready(), "nothing waits");
}

/// Two threads fill and free a slot under a lock; a look finds nothing, or all of one hold.
#[test]
fn a_slot() {
    static SLOT: HolderSlot = NEW_SLOT;
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let at = Location::caller();
    let holder = move |task: u64| {
        for _ in 0..ROUNDS {
            let _guard = LOCK.lock();
            SLOT.fill(NewHold { task, at, mode: task as u32 });
            SLOT.free();
        }
    };
    let threads = [1, 2].map(|task| thread::spawn(move || holder(task)));
    for _ in 0..ROUNDS {
        if let Look::Held(hold) = SLOT.look() {
            assert_eq!((hold.at, u64::from(hold.mode)), (Some(at), hold.task));
        }
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(SLOT.look(), Look::Free);
}

/// A slot that was never used, or is another lock's now, is not that of a task whose number is not known yet, nor of its last holder: a guard that was taken before the lock had a record would not be noted when it is used.
#[test]
fn a_free_slot_is_of_no_task() {
    let slot = NEW_SLOT;
    assert!(!slot.is_of(0));
    slot.fill(NewHold { task: 7, at: Location::caller(), mode: 0 });
    slot.reset();
    assert!(!slot.is_of(7) && !slot.is_of(0));
    slot.touch(7);
    assert!(matches!(slot.look(), Look::Held(hold) if hold.task == 7));
}

/// A thread takes its record of waits, which another thread frees, again and again; what a look finds is of one wait.
#[test]
fn a_stamp() {
    // Each round hands the record over twice, which takes two turns of the scheduler on a busy machine.
    const ROUNDS: u64 = super::thread_tests::ROUNDS / 10;
    static STAMP: Stamp = Stamp(AtomicU64::new(0));
    static FIELDS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    let owner = thread::spawn(|| {
        for task in 1..=ROUNDS {
            while !STAMP.try_take() {
                thread::yield_now();
            }
            // Relaxed: ordered by the stamp.
            FIELDS.iter().for_each(|field| field.store(task, Ordering::Relaxed));
            STAMP.publish();
        }
    });
    let other = thread::spawn(|| {
        for _ in 0..ROUNDS {
            while !STAMP.is_published() {
                thread::yield_now();
            }
            STAMP.free();
        }
    });
    let threads = [owner, other];
    for _ in 0..ROUNDS {
        // Relaxed: as above.
        if let Some([first, second]) =
            STAMP.look(|_| FIELDS.each_ref().map(|field| field.load(Ordering::Relaxed)))
        {
            assert_eq!(first, second);
        }
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(STAMP.look(|_| ()), None);
}

/// A waiter is moved or revoked, which changes what it wants, while its future is polled inside of a limit on another thread: the limit is noted.
#[test]
fn a_limit_beside_a_move() {
    let task = TaskId::fresh();
    let wait = NewWait {
        task,
        lock: None,
        want: Want::Signal,
        own: Held::NONE,
        permits: 0,
        is_limited: false,
        at: None,
        name: &"a wait",
        has_readers: false,
    };
    let number = waits::prepare(&wait);
    assert_ne!(number, 0, "there are records");
    waits::publish(number);
    let is_limited = || {
        let mut found = None;
        waits::each_of(task.get(), |view| found = Some(view.is_limited));
        found.expect("it goes on")
    };
    let (has_begun, is_over) = (Barrier::new(2), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            has_begun.wait();
            while !is_over.load(Ordering::Relaxed) {
                waits::revoked(number);
            }
        });
        has_begun.wait();
        let lost = (0..10 * ROUNDS).flat_map(|_| [true, false]).find(|limited| {
            waits::polled(number, task.get(), *limited);
            is_limited() != *limited
        });
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(lost, None, "a change of what is wanted has undone that of the limit");
    });
    waits::end(number);
}

/// Tasks on three threads take and release locks of every kind, begin waits and cancel them, and send guards to other threads, while a fourth thread takes snapshots and looks for cycles.
#[test]
fn locks_and_waits() {
    let locks = Arc::new((Mutex::new(0), RwLock::new(0), Semaphore::new(3).named("of threads")));
    let run = |locks: Arc<(Mutex<i32>, RwLock<i32>, Semaphore)>| {
        for _ in 0..ROUNDS.min(500) {
            as_task(async {
                let (mutex, rwlock, semaphore) = &*locks;
                let held = mutex.try_lock();
                // A wait that begins, or not, and is cancelled.
                let _ = pin!(mutex.lock()).poll(&mut Context::from_waker(Waker::noop()));
                let reads = [rwlock.try_read(), rwlock.try_read()];
                let permit = semaphore.try_acquire();
                let _ = pin!(semaphore.acquire()).poll(&mut Context::from_waker(Waker::noop()));
                let _ = pin!(rwlock.write()).poll(&mut Context::from_waker(Waker::noop()));
                // Freed by another thread than the one that has the slots.
                thread::scope(|scope| _ = scope.spawn(move || drop((reads, permit))));
                drop(held);
            });
        }
    };
    let threads: Vec<_> = (0..3)
        .map(|_| {
            thread::spawn({
                let locks = locks.clone();
                move || run(locks)
            })
        })
        .collect();
    let mut looks = 0;
    while looks < 2 || threads.iter().any(|thread| !thread.is_finished()) {
        let snapshot = super::snapshot();
        // Other tests have locks of their own in it.
        let own = snapshot.locks.iter().filter(|lock| lock.label.name == Some("of threads"));
        // Not of one moment: a permit that goes from task to task meanwhile may be seen several times. Each is of one hold.
        let mut sites = own.flat_map(|lock| &lock.holders).filter_map(|holder| holder.at);
        assert!(sites.all(|at| at.file() == file!()));
        looks += 1;
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let snapshot = super::snapshot();
    let found = snapshot.locks.iter().find(|lock| lock.label.name == Some("of threads"));
    let found = found.expect("it has a record");
    assert!(found.holders.is_empty() && found.unknown_holders == 0 && found.waiters == 0, "{found:?}");
    let (mutex, rwlock, semaphore) = &*locks;
    assert!(mutex.try_lock().is_some() && rwlock.try_write().is_some() && semaphore.available_permits() == 3);
}
