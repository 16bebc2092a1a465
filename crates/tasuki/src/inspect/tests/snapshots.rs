//! Snapshots: locks, holders, waits and figures as values; and the sizes that docs/inspect.md states.

use super::{Actor, tasks, two, work_of};
use crate::inspect::{self, LockLabel, LockSnapshot, graph, waits};
use crate::{Condvar, Mutex, Semaphore};
use std::boxed::Box;
use std::string::ToString;
use std::time::Duration;
use std::vec::Vec;

#[test]
fn counts_have_their_plural() {
    let shown = |total_waits, total_locks| {
        inspect::Snapshot { total_waits, total_locks, ..Default::default() }.to_string()
    };
    assert!(shown(1, 1).starts_with("1 wait, 1 lock in use"));
    assert!(shown(0, 2).starts_with("0 waits, 2 locks in use"));
}

/// Locks with their holders and figures, waits with what they are behind; and `Debug` says the same.
#[test]
fn a_snapshot() {
    let (one, two) = two();
    let mutex = Mutex::new(0).named("snapshot");
    let held = one.run(|| mutex.try_lock().unwrap());
    let (mut first, mut second) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
    two.waits(first.as_mut());
    one.waits(second.as_mut());
    let this = |lock: &&LockSnapshot| lock.label.name == Some("snapshot");
    let snapshot = inspect::snapshot();
    let lock = snapshot.locks.iter().find(this).expect("it is used");
    assert_eq!((lock.waiters, lock.contentions, lock.longest_queue), (2, 0, 2));
    assert_eq!(lock.holders.iter().map(|holder| holder.task).collect::<Vec<_>>(), [one.0]);
    let waits: Vec<_> =
        snapshot.waits.iter().filter(|wait| wait.lock.is_some_and(|(id, _)| id == lock.id)).collect();
    assert_eq!(waits.iter().map(|wait| wait.task).collect::<Vec<_>>(), [two.0, one.0], "the longest first");
    assert!(waits[0].to_string().contains("the mutex `snapshot`, which task") && !waits[0].is_granted);
    assert!(snapshot.deadlocks.iter().any(|deadlock| tasks(deadlock) == [one.0]));
    let shown = std::format!("{mutex:?} {first:?}");
    assert!(shown.contains(", 2 wait, the longest for ") && shown.contains("phase: Queued"), "{shown}");
    one.run(|| drop(held));
    let shown = std::format!("{first:?} {second:?}");
    assert!(shown.contains("phase: Granted") && shown.contains("phase: Queued"), "{shown}");
    let granted =
        inspect::snapshot().waits.into_iter().find(|wait| wait.task == two.0).expect("not polled yet");
    assert!(
        granted.is_granted && granted.to_string().contains("has not polled the future since"),
        "{granted}"
    );
    drop(two.poll(first.as_mut()));
    drop(one.poll(second.as_mut()));
    let snapshot = inspect::snapshot();
    let lock = snapshot.locks.iter().find(this).expect("it is used");
    assert_eq!((lock.waiters, lock.contentions, lock.longest_queue), (0, 2, 2));
    assert!(lock.holders.is_empty() && (1..=2).contains(&lock.waited.count()), "the first wait is timed");
    assert!((1..=3).contains(&lock.held.count()), "the first hold is timed, and few others");
    drop((first, second));
    drop(mutex);
    assert!(!inspect::snapshot().locks.iter().any(|lock| this(&lock)), "a lock that is dropped is forgotten");
}

/// Of very many waits behind very many holders only so many are shown, and all are counted.
#[test]
fn a_limited_snapshot() {
    let semaphore = Semaphore::new(1_000).named("crowd");
    let holders: Vec<_> = (0..1_000).map(|_| Actor::new().run(|| semaphore.try_acquire().unwrap())).collect();
    let mut waits: Vec<_> = (0..1_000).map(|_| (Actor::new(), Box::pin(semaphore.acquire()))).collect();
    waits.iter_mut().for_each(|(actor, wait)| actor.waits(wait.as_mut()));
    let snapshot = inspect::snapshot_limited(10);
    assert!(snapshot.waits.len() == 10 && snapshot.total_waits >= 1_000 && snapshot.locks.len() <= 10);
    assert!(snapshot.waits.is_sorted_by_key(|wait| core::cmp::Reverse(wait.waited)), "the longest");
    let this = |label: &LockLabel| label.name == Some("crowd");
    let lock = snapshot.locks.iter().find(|lock| this(&lock.label)).expect("it has most waiters");
    let holders_found = lock.holders.len() + lock.unknown_holders;
    assert_eq!((lock.waiters, lock.longest_queue, holders_found), (1_000, 1_000, 1_000));
    let site = snapshot.sites.iter().find(|site| site.lock.is_some_and(|(id, _)| id == lock.id));
    assert_eq!(site.map(|site| site.count), Some(1_000));
    assert!(snapshot.waits.iter().all(|wait| wait.behind.len() <= 64));
    assert!(inspect::snapshot().waits.len() >= 1_000);
    drop((waits, holders));
}

/// What very many waits are behind is found in as many steps as there are waits and holders, not as there are pairs of both.
#[test]
fn a_crowd_behind_a_crowd_is_counted_once() {
    const CROWD: usize = 300;
    let (lock, me) = (crate::RwLock::new(0), Actor::new());
    let _readers: Vec<_> = (0..CROWD).map(|_| Actor::new().run(|| lock.try_read().unwrap())).collect();
    let mut write = Box::pin(lock.write());
    me.waits(write.as_mut());
    let mut reads: Vec<_> = (0..CROWD).map(|_| (Actor::new(), Box::pin(lock.read()))).collect();
    reads.iter_mut().for_each(|(actor, wait)| actor.waits(wait.as_mut()));
    let mut id = None;
    waits::each_of(me.number(), |view| id = Some(view.lock));
    let mut views = Vec::new();
    waits::each_waiter(id.expect("it waits"), |view| views.push(view));
    assert_eq!(views.len(), CROWD + 1);
    let mut blockers = graph::Blockers::default();
    let mut behind: Vec<usize> = Vec::new();
    let work = work_of(|| behind.extend(views.iter().map(|view| blockers.of(view, 64).count())));
    assert_eq!(behind.iter().filter(|count| **count == 64).count(), 1, "the writer is behind the readers");
    assert_eq!(behind.iter().filter(|count| **count == 1).count(), CROWD, "and they behind the writer");
    assert!(work <= 2 * CROWD, "{work} steps");
}

/// Names that a program has from outside: none ends its line in a report, or tells a terminal something.
#[test]
fn control_characters_of_names_are_escaped() {
    let (me, hostile) = (Actor::new(), "a\n\u{1b}[2Jb\u{202e}`\"\\\u{e9}\u{301}");
    let mutex = Mutex::new(0).named(hostile);
    let _held = me.run(|| mutex.try_lock().unwrap());
    let mut wait = Box::pin(mutex.lock());
    me.waits(wait.as_mut());
    let text = me.deadlock().expect("it waits for itself").to_string();
    let shown = "`a\\n\\u{1b}[2Jb\\u{202e}`\"\\\u{e9}\u{301}`";
    assert!(text.contains(&std::format!("the mutex {shown}, which this task")), "{text}");
    assert_eq!(text.lines().count(), 2);
    let label = inspect::TaskLabel::new(me.0, Some(hostile.into()), None);
    assert_eq!(label.to_string(), std::format!("{} {shown}", me.0));
}

/// Of very many deadlocks so many are listed, and all are counted, also in the text.
#[test]
fn a_limited_snapshot_of_deadlocks() {
    let locks: Vec<Mutex<()>> = (0..20).map(|_| Mutex::new(())).collect();
    let actors: Vec<Actor> = locks.iter().map(|_| Actor::new()).collect();
    let _held: Vec<_> = actors.iter().zip(&locks).map(|(me, lock)| me.run(|| lock.try_lock())).collect();
    let mut waits: Vec<_> = locks.iter().map(|lock| Box::pin(lock.lock())).collect();
    actors.iter().zip(&mut waits).for_each(|(me, wait)| me.waits(wait.as_mut()));
    let snapshot = inspect::snapshot_limited(5);
    assert!(snapshot.deadlocks.len() == 5 && snapshot.total_deadlocks >= 20);
    let text = snapshot.to_string();
    let more = std::format!("\nand {} more deadlocks", snapshot.total_deadlocks - 5);
    assert!(text.ends_with(&more) && text.matches("waits for itself").count() <= 5, "{text}");
    let all = inspect::snapshot();
    assert!(all.deadlocks.len() >= 20 && !all.to_string().contains(" more deadlock"));
}

/// A wait of a condvar that is moved to the mutex waits for that from then on, not from its beginning on, and is counted there; one that has the mutex at once is not.
#[test]
fn a_wait_that_is_moved_to_a_mutex() {
    let ((one, two), mutex, condvar) = (two(), Mutex::new(0).named("moved to"), Condvar::new());
    let lock = || {
        let is_it = |lock: &LockSnapshot| lock.label.name == Some("moved to");
        inspect::snapshot().locks.into_iter().find(is_it).expect("it is used")
    };
    let mut wait = Box::pin(condvar.wait(one.run(|| mutex.try_lock().unwrap())));
    one.waits(wait.as_mut());
    condvar.notify_one();
    let guard = one.poll(wait.as_mut());
    assert!(guard.is_ready());
    assert_eq!((lock().waiters, lock().contentions, lock().longest_queue), (0, 0, 0));
    one.run(|| drop(guard));
    let mut wait = Box::pin(condvar.wait(one.run(|| mutex.try_lock().unwrap())));
    one.waits(wait.as_mut());
    std::thread::sleep(Duration::from_secs(1));
    let held = two.run(|| mutex.try_lock().unwrap());
    let moved = crate::host_executor::clock();
    condvar.notify_one();
    one.waits(wait.as_mut());
    let waits = inspect::snapshot().waits;
    let waited = waits.iter().find(|wait| wait.task == one.0).expect("it waits").waited;
    // The clock of the waits ticks every few milliseconds, or later on a machine that stands still.
    let since_move = crate::host_executor::clock() - moved;
    assert!(waited <= since_move + Duration::from_millis(800), "for {waited:?}");
    assert_eq!((lock().waiters, lock().contentions, lock().longest_queue), (1, 0, 1));
    two.run(|| drop(held));
    assert!(one.poll(wait.as_mut()).is_ready());
    assert_eq!((lock().waiters, lock().contentions, lock().longest_queue), (0, 1, 1));
}

/// What docs/inspect.md says, on a machine of 64 bits.
#[test]
#[cfg(target_pointer_width = "64")]
fn sizes() {
    let records = (size_of::<inspect::locks::LockRecord>(), size_of::<inspect::waits::WaitRecord>());
    assert_eq!(records, (384, 128));
    assert_eq!(size_of::<crate::probe::LockProbe>(), if cfg!(feature = "console") { 88 } else { 40 });
    let futures = (size_of::<crate::future::Lock<'_, ()>>(), size_of::<crate::future::WaitEvent<'_>>());
    let spans = if cfg!(feature = "console") { 8 } else { 0 };
    assert!(futures.0.max(futures.1) <= 64 + 32 + spans, "{futures:?}");
}
