//! The graph against programs whose deadlocks are known, and against a second detector on random programs.

use super::graph::cycle_of;
use super::{Certainty, Deadlock, Hold, LockKind, deadlocks};
use crate::catch_panic::catch;
use crate::runtime::{Driver, TaskId, Timers, enter, sleep};
use crate::{
    CancellationSource, Condvar, Event, Mutex, MutexGuard, ReentrantMutex, RwLock, RwLockUpgradableReadGuard,
    Semaphore,
};
use alloc::sync::Arc;
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use std::boxed::Box;
use std::string::ToString;
use std::time::Duration;
use std::vec::Vec;

/// A task that the test is whenever it says so.
#[derive(Clone, Copy)]
pub(super) struct Actor(TaskId);

impl Actor {
    pub(super) fn new() -> Self {
        Self(TaskId::fresh())
    }

    pub(super) fn number(self) -> u64 {
        self.0.get()
    }

    /// Runs `f` as this task.
    pub(super) fn run<R>(self, f: impl FnOnce() -> R) -> R {
        enter(&self, f)
    }

    /// Polls a future as this task.
    pub(super) fn poll<F: Future + ?Sized>(self, future: Pin<&mut F>) -> Poll<F::Output> {
        self.run(|| future.poll(&mut Context::from_waker(Waker::noop())))
    }

    fn waits<F: Future + ?Sized>(self, future: Pin<&mut F>) {
        assert!(self.poll(future).is_pending(), "it was to wait");
    }

    /// The deadlock that this task is in or waits for.
    fn deadlock(self) -> Option<Deadlock> {
        cycle_of(self.number()).and_then(|cycle| Deadlock::new(&cycle))
    }
}

impl Driver for Actor {
    fn task(&self) -> Option<TaskId> {
        Some(self.0)
    }

    fn timers(&self) -> Option<Arc<Timers>> {
        None
    }

    fn may_block(&self) -> bool {
        true
    }
}

fn two() -> (Actor, Actor) {
    (Actor::new(), Actor::new())
}

/// The tasks of a deadlock, in order.
fn tasks(deadlock: &Deadlock) -> Vec<TaskId> {
    deadlock.hops.iter().map(|hop| hop.task).collect()
}

#[test]
fn a_task_that_locks_twice() {
    let (me, mutex) = (Actor::new(), Mutex::new(0));
    let _held = me.run(|| mutex.try_lock().unwrap());
    let mut again = Box::pin(mutex.lock());
    me.waits(again.as_mut());
    let found = me.deadlock().expect("it waits for itself");
    assert_eq!((found.certainty, tasks(&found)), (Certainty::Deadlock, std::vec![me.0]));
    assert!(deadlocks().iter().any(|one| tasks(one) == [me.0]));
    drop(again);
    assert!(me.deadlock().is_none(), "a wait that was dropped is over");
}

/// Both locks and all four places are told, and the name where there is one.
#[test]
fn two_locks_in_opposite_order() {
    let (one, two) = two();
    let (a, b) = (Mutex::new(0).named("accounts"), Mutex::new(0));
    let (_held_a, _held_b) = (one.run(|| a.try_lock().unwrap()), two.run(|| b.try_lock().unwrap()));
    let (mut wants_b, mut wants_a) = (Box::pin(b.lock()), Box::pin(a.lock()));
    one.waits(wants_b.as_mut());
    assert!(one.deadlock().is_none());
    two.waits(wants_a.as_mut());
    let found = one.deadlock().expect("they wait for each other");
    assert_eq!(tasks(&found), [one.0, two.0]);
    assert_eq!(found.hops[1].lock.name, Some("accounts"));
    let text = found.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "deadlock: 2 tasks wait for each other");
    assert!(lines.len() == 3 && lines[2].contains("the mutex `accounts`, which task"), "{text}");
    assert!(lines[1].contains("the mutex made at ") && text.matches("tests.rs:").count() == 5, "{text}");
}

/// A cycle over every lock that has a holder, with a tail that waits for it.
#[test]
fn a_cycle_over_every_kind_of_lock() {
    let actors: Vec<Actor> = (0..4).map(|_| Actor::new()).collect();
    let (mutex, lock, reentrant) = (Mutex::new(0), RwLock::new(0), ReentrantMutex::new(0));
    let _mutex = actors[0].run(|| mutex.try_lock().unwrap());
    let _read = actors[1].run(|| lock.try_read().unwrap());
    let _again = actors[1].run(|| lock.try_read().unwrap());
    let _reentrant = actors[2].run(|| reentrant.try_lock().unwrap().unwrap());
    let (mut write, mut relock, mut last) =
        (Box::pin(lock.write()), Box::pin(reentrant.lock()), Box::pin(mutex.lock()));
    actors[0].waits(write.as_mut());
    actors[1].waits(relock.as_mut());
    assert!(actors[1].deadlock().is_none());
    actors[2].waits(last.as_mut());
    let mut tail = Box::pin(mutex.lock());
    actors[3].waits(tail.as_mut());
    for actor in &actors {
        let found = actor.deadlock().expect("all are stuck");
        assert_eq!(tasks(&found), [actors[0].0, actors[1].0, actors[2].0]);
        let kinds: Vec<LockKind> = found.hops.iter().map(|hop| hop.lock.kind).collect();
        assert_eq!(kinds, [LockKind::RwLock, LockKind::ReentrantMutex, LockKind::Mutex]);
    }
}

/// One of many readers is enough for a writer; and a reader waits for the writer before it.
#[test]
fn a_reader_behind_a_writer() {
    let (one, two) = two();
    // Where nothing may be allocated, only four holders are told apart.
    let others = if cfg!(feature = "critical-section") { 2 } else { 6 };
    let others: Vec<Actor> = (0..others).map(|_| Actor::new()).collect();
    let lock = RwLock::new(0);
    let _others: Vec<_> = others.iter().map(|other| other.run(|| lock.try_read().unwrap())).collect();
    let first = one.run(|| lock.try_read().unwrap());
    let (mut write, mut second) = (Box::pin(lock.write()), Box::pin(lock.read()));
    two.waits(write.as_mut());
    one.waits(second.as_mut());
    let found = one.deadlock().expect("the second read waits for the writer, and that for the first");
    assert_eq!(tasks(&found), [one.0, two.0]);
    assert_eq!(found.hops[0].holder.hold, Hold::Queued);
    drop(write);
    assert!(one.deadlock().is_none(), "readers do not wait for each other");
    drop(first);
}

/// An upgrade does not wait for its own read, but for another of the same task.
#[test]
fn an_upgrade() {
    let (one, two) = two();
    let lock = RwLock::new(0);
    let upgradable = one.run(|| lock.try_upgradable_read().unwrap());
    let read = two.run(|| lock.try_read().unwrap());
    let mut upgrade = Box::pin(RwLockUpgradableReadGuard::upgrade(upgradable));
    one.waits(upgrade.as_mut());
    assert!(one.deadlock().is_none());
    let mut second = Box::pin(lock.read());
    two.waits(second.as_mut());
    assert_eq!(tasks(&two.deadlock().expect("a read behind the upgrade")), [one.0, two.0]);
    drop((read, second));
}

/// The program of Oxide's RFD 609: granted to a future that is not polled, while its task waits by another.
#[test]
fn futurelock() {
    let (task, background) = two();
    let mutex = Mutex::new(0);
    let held = background.run(|| mutex.try_lock().unwrap());
    let (mut first, mut second) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
    task.waits(first.as_mut());
    task.waits(second.as_mut());
    assert!(task.deadlock().is_none(), "the background task will release it");
    background.run(|| drop(held));
    let found = task.deadlock().expect("the lock is with the first future");
    assert_eq!((found.certainty, found.hops[0].holder.hold), (Certainty::Futurelock, Hold::Unclaimed));
    assert!(found.to_string().contains("has not been polled since"), "{found}");
    // Another task that waits is in it, too, at the moment at which it begins to wait.
    let mut other = Box::pin(mutex.lock());
    background.waits(other.as_mut());
    assert!(background.deadlock().is_some());
    assert!(task.poll(first.as_mut()).is_ready());
    assert!(task.deadlock().is_none(), "the lock was claimed, used and released");
}

/// A grant that was revoked is its sibling's, and the revoked future waits for nothing until it is polled again.
#[test]
fn a_revoked_grant_is_no_deadlock() {
    let (task, background) = two();
    let mutex = Mutex::<_, crate::policy::Revocable>::with_policy(0);
    let held = background.run(|| mutex.try_lock().unwrap());
    let (mut first, mut second) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
    task.waits(first.as_mut());
    task.waits(second.as_mut());
    background.run(|| drop(held));
    assert!(task.deadlock().is_some(), "until the third poll that finds it");
    task.waits(second.as_mut());
    task.waits(second.as_mut());
    let Poll::Ready(guard) = task.poll(second.as_mut()) else { panic!("the grant was not revoked") };
    assert!(task.deadlock().is_none(), "the first future is in no queue");
    task.waits(first.as_mut());
    assert!(task.deadlock().is_some(), "it waits for what its task holds");
    task.run(|| drop(guard));
    assert!(task.poll(first.as_mut()).is_ready());
    assert!(task.deadlock().is_none());
}

/// Suspected where all permits are in the cycle; nothing where one is not.
#[test]
fn permits() {
    let (one, two) = two();
    let (semaphore, mutex) = (Semaphore::new(2), Mutex::new(0));
    let _one = one.run(|| semaphore.try_acquire().unwrap());
    let permit = two.run(|| semaphore.try_acquire().unwrap());
    let _mutex = one.run(|| mutex.try_lock().unwrap());
    let (mut acquire, mut lock) = (Box::pin(semaphore.acquire_many(2)), Box::pin(mutex.lock()));
    one.waits(acquire.as_mut());
    assert!(one.deadlock().is_none(), "the other may release");
    two.waits(lock.as_mut());
    let found = two.deadlock().expect("both wait");
    assert_eq!(found.certainty, Certainty::Suspected);
    drop(permit);
    assert!(one.deadlock().is_some(), "it waits for what it holds");
    drop(acquire);
    // Held by code without an identity: it may release.
    let _unknown = semaphore.try_acquire().unwrap();
    let mut acquire = Box::pin(semaphore.acquire());
    one.waits(acquire.as_mut());
    assert!(one.deadlock().is_none());
}

/// A wait that ends by itself is in no cycle, nor is a task that has one.
#[test]
fn limits_sleeps_and_signals() {
    let (me, source, mutex, event) = (Actor::new(), CancellationSource::new(), Mutex::new(0), Event::auto());
    let token = source.token();
    let _held = me.run(|| mutex.try_lock().unwrap());
    let mut limited = Box::pin(mutex.lock().or_cancelled(&token));
    me.waits(limited.as_mut());
    assert!(me.deadlock().is_none());
    drop(limited);
    let mut lock = Box::pin(mutex.lock());
    me.waits(lock.as_mut());
    assert!(me.deadlock().is_some());
    let mut time = Box::pin(sleep(Duration::from_secs(3600)));
    me.waits(time.as_mut());
    assert!(me.deadlock().is_none(), "the sleep ends");
    drop(time);
    let mut signal = Box::pin(event.wait());
    me.waits(signal.as_mut());
    assert!(me.deadlock().is_none(), "the signal may come");
    drop(signal);
    assert!(me.deadlock().is_some());
}

/// A guard that is used by another task is that task's; one that is dropped elsewhere is gone; one that is forgotten stays.
#[test]
fn guards_that_are_sent_dropped_elsewhere_and_forgotten() {
    let (one, two) = two();
    let (a, b) = (Arc::new(Mutex::new(0)), Mutex::new(0));
    let _held_b = two.run(|| b.try_lock().unwrap());
    let mut sent = one.run(|| a.clone().try_lock_owned().unwrap());
    let other = Actor::new();
    other.run(|| *sent += 1);
    let (mut wants_b, mut wants_a) = (Box::pin(b.lock()), Box::pin(a.lock()));
    one.waits(wants_b.as_mut());
    two.waits(wants_a.as_mut());
    assert!(one.deadlock().is_none(), "the guard is with another task");
    // Used without an identity: no task is known to have it.
    *sent += 1;
    assert!(one.deadlock().is_none());
    one.run(|| *sent += 1);
    assert!(one.deadlock().is_some());
    drop(sent);
    assert!(one.deadlock().is_none(), "granted to the second task, which has only to be polled");
    let claimed = two.poll(wants_a.as_mut());
    let Poll::Ready(guard) = claimed else { panic!("it was granted") };
    core::mem::forget(guard);
    one.run(|| drop(wants_b));
    let mut again = Box::pin(a.lock());
    two.waits(again.as_mut());
    assert!(two.deadlock().is_some(), "a forgotten guard is never released");
}

/// A guard that code without an identity uses keeps its place: another holder gets another.
#[test]
fn a_holder_without_an_identity_keeps_its_place() {
    let (one, two) = two();
    let lock = RwLock::new(0);
    let first = one.run(|| lock.try_read().unwrap());
    assert_eq!(*first, 0, "used without an identity");
    let _second = two.run(|| lock.try_read().unwrap());
    drop(first);
    let mut write = Box::pin(lock.write());
    two.waits(write.as_mut());
    assert!(two.deadlock().is_some(), "its read was forgotten with that of the other");
    drop(write);
    // Claimed without an identity: the same.
    let semaphore = Semaphore::new(2).named("claimed without an identity");
    let _held = one.run(|| semaphore.try_acquire().unwrap());
    let permit = one.run(|| semaphore.try_acquire().unwrap());
    let mut acquire = Box::pin(semaphore.acquire());
    two.waits(acquire.as_mut());
    drop(permit);
    let claimed = acquire.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(claimed.is_ready(), "polled without an identity");
    let snapshot = super::snapshot();
    let is_it = |lock: &&super::LockSnapshot| lock.label.name == Some("claimed without an identity");
    let found = snapshot.locks.iter().find(is_it).expect("it is used");
    assert_eq!((found.holders.len(), found.unknown_holders), (1, 1));
    let mut again = Box::pin(semaphore.acquire());
    one.waits(again.as_mut());
    assert!(one.deadlock().is_none(), "the other permit may be released");
    drop(claimed);
}

/// In strict mode the wait that closes a cycle panics, and leaves nothing behind. (The switch is one of the process: `tests/process/self_deadlock.rs` has the tests of what other tasks see.)
#[test]
fn a_wait_that_closes_a_cycle_is_found_when_it_begins() {
    let (one, two) = two();
    let (a, b) = (Mutex::new(0), Mutex::new(0));
    let (_held_a, held_b) = (one.run(|| a.try_lock().unwrap()), two.run(|| b.try_lock().unwrap()));
    let check = |actor: Actor| catch(|| super::check_cycle(actor.number())).is_err();
    let (mut wants_b, mut wants_a) = (Box::pin(b.lock()), Box::pin(a.lock()));
    one.waits(wants_b.as_mut());
    assert!(!check(one));
    two.waits(wants_a.as_mut());
    assert!(check(one) && check(two));
    let tail = Actor::new();
    let mut waits = Box::pin(a.lock());
    tail.waits(waits.as_mut());
    assert!(!check(tail), "it closes nothing");
    drop((wants_b, held_b));
    assert!(!check(two));
}

/// A lock at the address of another is another; so is the same lock that was moved.
#[test]
fn a_forgotten_wait_of_a_lock_that_is_gone() {
    let (one, two) = two();
    let mutex = Mutex::new(0);
    one.run(|| core::mem::forget(mutex.try_lock()));
    {
        let mut wait = Box::pin(mutex.lock());
        two.waits(wait.as_mut());
        core::mem::forget(wait);
    }
    let moved = Box::new(mutex);
    let mut again = Box::pin(moved.lock());
    one.waits(again.as_mut());
    assert!(one.deadlock().is_some(), "the holder went with the lock");
    drop(again);
    drop(moved);
    assert!(one.deadlock().is_none() && two.deadlock().is_none());
}

/// A notified wait waits for the mutex.
#[test]
fn a_condvar_that_was_notified() {
    let (one, two) = two();
    let (mutex, other, condvar) = (Mutex::new(0), Mutex::new(0), Condvar::new());
    let guard = one.run(|| mutex.try_lock().unwrap());
    let _other = one.run(|| other.try_lock().unwrap());
    let mut wait = Box::pin(condvar.wait(guard));
    one.waits(wait.as_mut());
    let held = two.run(|| mutex.try_lock().unwrap());
    let mut lock = Box::pin(other.lock());
    two.waits(lock.as_mut());
    assert!(one.deadlock().is_none(), "it waits for a signal");
    two.run(|| condvar.notify_one());
    one.waits(wait.as_mut());
    assert_eq!(tasks(&one.deadlock().expect("now it waits for the mutex")).len(), 2);
    drop(held);
    assert!(one.deadlock().is_none());
    let _: MutexGuard<'_, i32> = match one.poll(wait.as_mut()) {
        Poll::Ready(guard) => guard,
        Poll::Pending => panic!("it was granted"),
    };
}

/// Chains that are longer than the first question follows are judged, too.
#[test]
fn a_long_chain() {
    let length = if cfg!(miri) { 40 } else { 200 };
    let actors: Vec<Actor> = (0..length).map(|_| Actor::new()).collect();
    let locks: Vec<Mutex<()>> = (0..length).map(|_| Mutex::new(())).collect();
    let _guards: Vec<_> =
        actors.iter().zip(&locks).map(|(actor, lock)| actor.run(|| lock.try_lock().unwrap())).collect();
    let mut waits: Vec<_> = (0..length).map(|n| Box::pin(locks[(n + 1) % length].lock())).collect();
    for n in 0..length - 1 {
        actors[n].waits(waits[n].as_mut());
    }
    assert!(actors[0].deadlock().is_none());
    actors[length - 1].waits(waits[length - 1].as_mut());
    assert_eq!(actors[7].deadlock().expect("the chain is closed").hops.len(), length);
    let mut stranger = pin!(locks[0].lock());
    assert!(
        stranger.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(),
        "without an identity, and without a note"
    );
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
    let this = |lock: &&super::LockSnapshot| lock.label.name == Some("snapshot");
    let snapshot = super::snapshot();
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
        super::snapshot().waits.into_iter().find(|wait| wait.task == two.0).expect("not polled yet");
    assert!(
        granted.is_granted && granted.to_string().contains("has not polled the future since"),
        "{granted}"
    );
    drop(two.poll(first.as_mut()));
    drop(one.poll(second.as_mut()));
    let snapshot = super::snapshot();
    let lock = snapshot.locks.iter().find(this).expect("it is used");
    assert_eq!((lock.waiters, lock.contentions, lock.longest_queue), (0, 2, 2));
    assert!(lock.holders.is_empty() && (1..=2).contains(&lock.waited.count()), "the first wait is timed");
    assert!((1..=3).contains(&lock.held.count()), "the first hold is timed, and few others");
    drop((first, second));
    drop(mutex);
    assert!(!super::snapshot().locks.iter().any(|lock| this(&lock)), "a lock that is dropped is forgotten");
}

/// Of very many waits behind very many holders only so many are shown, and all are counted.
#[test]
fn a_limited_snapshot() {
    let semaphore = Semaphore::new(1_000).named("crowd");
    let holders: Vec<_> = (0..1_000).map(|_| Actor::new().run(|| semaphore.try_acquire().unwrap())).collect();
    let mut waits: Vec<_> = (0..1_000).map(|_| (Actor::new(), Box::pin(semaphore.acquire()))).collect();
    waits.iter_mut().for_each(|(actor, wait)| actor.waits(wait.as_mut()));
    let snapshot = super::snapshot_limited(10);
    assert!(snapshot.waits.len() == 10 && snapshot.total_waits >= 1_000 && snapshot.locks.len() <= 10);
    assert!(snapshot.waits.is_sorted_by_key(|wait| core::cmp::Reverse(wait.waited)), "the longest");
    let this = |label: &super::LockLabel| label.name == Some("crowd");
    let lock = snapshot.locks.iter().find(|lock| this(&lock.label)).expect("it has most waiters");
    let holders_found = lock.holders.len() + lock.unknown_holders;
    assert_eq!((lock.waiters, lock.longest_queue, holders_found), (1_000, 1_000, 1_000));
    let site = snapshot.sites.iter().find(|site| site.lock.is_some_and(|(id, _)| id == lock.id));
    assert_eq!(site.map(|site| site.count), Some(1_000));
    assert!(snapshot.waits.iter().all(|wait| wait.behind.len() <= 64));
    assert!(super::snapshot().waits.len() >= 1_000);
    drop((waits, holders));
}

/// What docs/inspect.md says, on a machine of 64 bits.
#[test]
#[cfg(target_pointer_width = "64")]
fn sizes() {
    let records = (size_of::<super::locks::LockRecord>(), size_of::<super::waits::WaitRecord>());
    assert_eq!(records, (480, 112));
    assert_eq!(size_of::<crate::probe::LockProbe>(), if cfg!(feature = "console") { 88 } else { 40 });
    let futures = (size_of::<crate::future::Lock<'_, ()>>(), size_of::<crate::future::WaitEvent<'_>>());
    let spans = if cfg!(feature = "console") { 8 } else { 0 };
    assert!(futures.0.max(futures.1) <= 64 + 32 + spans, "{futures:?}");
}
