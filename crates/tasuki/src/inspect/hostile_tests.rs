//! Programs by which a wait-for graph is deceived: guards, futures and permits that move between tasks, tasks that wait by several futures, and sets of tasks with several cycles.

use super::graph::{Cycle, confirmed, cycle_of, cycle_with, cycles_of, holders_waited_for, reached};
use super::tests::Actor;
use super::watch::tests::Looks;
use super::{Certainty, Deadlock, Hold};
use crate::rwlock::OwnedRwLockUpgradableReadGuard;
use crate::{CancellationSource, Event, Mutex, ReentrantMutex, RwLock, RwLockUpgradableReadGuard, Semaphore};
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use std::boxed::Box;
use std::string::ToString;
use std::time::Duration;
use std::vec::Vec;

fn actors<const N: usize>() -> [Actor; N] {
    core::array::from_fn(|_| Actor::new())
}

fn waits<F: Future + ?Sized>(actor: Actor, future: Pin<&mut F>) {
    assert!(actor.poll(future).is_pending(), "it was to wait");
}

fn deadlock(actor: Actor) -> Option<Deadlock> {
    cycle_of(actor.number()).and_then(|cycle| Deadlock::new(&cycle))
}

fn tasks(cycle: &Cycle) -> Vec<u64> {
    cycle.links.iter().map(|link| link.wait.task).collect()
}

/// A cycle that opens, and whose lock goes, after a look has found it: nothing is told, not a deadlock of none.
#[test]
fn a_cycle_whose_lock_has_gone() {
    let ([me], lock) = (actors(), Mutex::new(0));
    let guard = me.run(|| lock.try_lock().unwrap());
    let mut again = Box::pin(lock.lock());
    waits(me, again.as_mut());
    let cycle = cycle_of(me.number()).expect("it waits for itself");
    assert!(Deadlock::new(&cycle).is_some());
    drop((again, guard));
    drop(lock);
    assert!(Deadlock::new(&cycle).is_none());
}

/// A granted upgrade whose future is not polled holds the lock for itself alone, and its task waits for it by another future.
#[test]
fn an_upgrade_that_was_granted_and_not_polled() {
    let ([me, other], lock) = (actors(), RwLock::new(0));
    let upgradable = me.run(|| lock.try_upgradable_read().unwrap());
    let read = other.run(|| lock.try_read().unwrap());
    let mut upgrade = Box::pin(RwLockUpgradableReadGuard::upgrade(upgradable));
    waits(me, upgrade.as_mut());
    let mut again = Box::pin(lock.read());
    waits(me, again.as_mut());
    assert!(deadlock(me).is_none(), "the other will release it");
    other.run(|| drop(read));
    let found = deadlock(me).expect("the lock is with the upgrade");
    assert_eq!((found.certainty, found.hops[0].holder.hold), (Certainty::Futurelock, Hold::Unclaimed));
    assert!(me.poll(upgrade.as_mut()).is_ready());
    assert!(deadlock(me).is_none());
}

/// A guard that is upgraded or downgraded by another task is that task's.
#[test]
fn a_guard_that_another_task_turns_into_another() {
    let ([taker, user, other, reader], lock, mutex) = (actors(), Arc::new(RwLock::new(0)), Mutex::new(0));
    let _held = other.run(|| mutex.try_lock().unwrap());
    let guard = taker.run(|| lock.clone().try_upgradable_read_owned().unwrap());
    let read = reader.run(|| lock.clone().try_read_owned().unwrap());
    let (mut lock_mutex, mut write) = (Box::pin(mutex.lock()), Box::pin(lock.write()));
    waits(taker, lock_mutex.as_mut());
    waits(other, write.as_mut());
    assert!(deadlock(taker).is_some(), "it took the guard, and no other is known to have it");
    let mut upgrade = Box::pin(OwnedRwLockUpgradableReadGuard::upgrade(guard));
    waits(user, upgrade.as_mut());
    assert!(deadlock(taker).is_none(), "the guard is in a future of the other task");
    drop(read);
    let core::task::Poll::Ready(guard) = user.poll(upgrade.as_mut()) else { panic!("it was granted") };
    assert!(deadlock(taker).is_none());
    let guard = taker.run(|| crate::rwlock::OwnedRwLockWriteGuard::downgrade(guard));
    assert!(deadlock(taker).is_some(), "it has it again");
    drop(guard);
}

/// A future that another task polls is that task's wait.
#[test]
fn a_future_that_another_task_polls() {
    let ([asker, poller, other], mutex, back) = (actors(), Mutex::new(0), Mutex::new(0));
    let _held = other.run(|| mutex.try_lock().unwrap());
    let _back = asker.run(|| back.try_lock().unwrap());
    let (mut sent, mut wait) = (Box::pin(mutex.lock()), Box::pin(back.lock()));
    waits(asker, sent.as_mut());
    waits(other, wait.as_mut());
    assert!(deadlock(asker).is_some());
    waits(poller, sent.as_mut());
    assert!(deadlock(other).is_none(), "the first task does not wait any more");
    let unknown = sent.as_mut().poll(&mut core::task::Context::from_waker(core::task::Waker::noop()));
    assert!(unknown.is_pending() && deadlock(poller).is_none(), "polled without an identity");
    waits(asker, sent.as_mut());
    assert!(deadlock(asker).is_some());
}

/// Enough permits are free, and those before it in the queue go by themselves.
#[test]
fn permits_behind_a_wait_with_a_limit() {
    let ([me, other], semaphore, source) = (actors(), Semaphore::new(2), CancellationSource::new());
    let (token, mutex) = (source.token(), Mutex::new(0));
    let _permit = me.run(|| semaphore.try_acquire().unwrap());
    let _held = other.run(|| mutex.try_lock().unwrap());
    let mut many = Box::pin(semaphore.acquire_many(2).or_cancelled(&token));
    waits(Actor::new(), many.as_mut());
    let (mut one, mut lock) = (Box::pin(semaphore.acquire()), Box::pin(mutex.lock()));
    waits(other, one.as_mut());
    waits(me, lock.as_mut());
    assert!(deadlock(me).is_none(), "there is a permit for the second when the first is gone");
    drop((many, one));
    let mut two = Box::pin(semaphore.acquire_many(2));
    waits(other, two.as_mut());
    assert_eq!(deadlock(me).map(|found| found.certainty), Some(Certainty::Suspected));
}

/// Permits that an empty permit took in are held; and none are by one whose permits were all taken out.
#[test]
fn permits_that_are_merged_and_split() {
    let ([me, other], semaphore, mutex) = (actors(), Semaphore::new(2), Mutex::new(0));
    let mut empty = other.run(|| semaphore.try_acquire_many(0).unwrap());
    let one = me.run(|| semaphore.try_acquire().unwrap());
    other.run(|| empty.merge(semaphore.try_acquire().unwrap()));
    let _held = other.run(|| mutex.try_lock().unwrap());
    let mut wait = Box::pin(semaphore.acquire());
    waits(me, wait.as_mut());
    assert!(deadlock(me).is_none(), "the other has a permit, and goes on");
    let part = me.run(|| empty.split(1).unwrap());
    assert!(deadlock(me).is_some(), "it has them all");
    drop((part, one, empty));
}

/// The owner of a re-entrant mutex may lock it again: its own wait from before it owned it ends when it is polled.
#[test]
fn a_wait_for_a_mutex_that_its_task_may_lock_again() {
    let ([me, other], mutex, back) = (actors(), ReentrantMutex::new(0), Mutex::new(0));
    let held = other.run(|| mutex.try_lock().unwrap().unwrap());
    let (mut first, mut second) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
    waits(me, first.as_mut());
    waits(me, second.as_mut());
    other.run(|| drop(held));
    assert_eq!(deadlock(me).map(|found| found.certainty), Some(Certainty::Futurelock));
    let first = me.poll(first.as_mut());
    assert!(deadlock(me).is_none(), "the second need only be polled");
    // A guard that another task uses: which guard is where is not followed.
    let core::task::Poll::Ready(Ok(first)) = first else { panic!("it was granted") };
    let _back = other.run(|| back.try_lock().unwrap());
    let (mut lock, mut wait) = (Box::pin(back.lock()), Box::pin(mutex.lock()));
    waits(me, lock.as_mut());
    waits(other, wait.as_mut());
    assert!(deadlock(me).is_some());
    Actor::new().run(|| assert_eq!(*first, 0));
    assert!(deadlock(me).is_none(), "another task has the guard");
}

/// A task goes on when any of its waits ends, and any task may release permits: so it is only suspected.
#[test]
fn a_task_that_waits_for_permits_beside() {
    let ([me, other], semaphore) = (actors(), Semaphore::new(1));
    let (a, b) = (Mutex::new(0), Mutex::new(0));
    let _held = (me.run(|| a.try_lock()), other.run(|| b.try_lock()), other.run(|| semaphore.try_acquire()));
    let (mut for_b, mut for_a) = (Box::pin(b.lock()), Box::pin(a.lock()));
    waits(me, for_b.as_mut());
    waits(other, for_a.as_mut());
    assert_eq!(deadlock(me).map(|found| found.certainty), Some(Certainty::Deadlock));
    let mut permit = Box::pin(semaphore.acquire());
    waits(me, permit.as_mut());
    for actor in [me, other] {
        assert_eq!(deadlock(actor).map(|found| found.certainty), Some(Certainty::Suspected));
    }
}

/// A set of tasks that wait for each other, one of which waits for another such set, too: both are told, and the tasks behind them are not.
#[test]
fn a_deadlock_that_waits_for_another() {
    let ([own, reader, writer, tail], lock, mutex, mine) =
        (actors(), RwLock::new(0), Mutex::new(0), Mutex::new(0));
    let _reads = (own.run(|| lock.try_read()), reader.run(|| lock.try_read()));
    let _held = (own.run(|| mine.try_lock()), writer.run(|| mutex.try_lock()));
    let (mut again, mut write) = (Box::pin(mine.lock()), Box::pin(lock.write()));
    let (mut back, mut behind) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
    waits(own, again.as_mut());
    waits(writer, write.as_mut());
    waits(reader, back.as_mut());
    waits(tail, behind.as_mut());
    let mut found: Vec<_> = cycles_of([tail.number()]).iter().map(tasks).collect();
    found.sort_unstable();
    assert_eq!(found, [std::vec![own.number()], std::vec![reader.number(), writer.number()]]);
    assert!(cycle_of(tail.number()).is_some());
}

/// A guard that was taken without an identity, and before anything was noted of its lock, is no grant.
#[test]
fn a_guard_of_unknown_origin() {
    let ([me], mutex) = (actors(), Mutex::new(0));
    let mut guard = mutex.try_lock().unwrap();
    let mut wait = Box::pin(mutex.lock());
    waits(me, wait.as_mut());
    me.run(|| *guard += 1);
    let found = deadlock(me).expect("it has used the guard");
    assert_eq!(found.certainty, Certainty::Deadlock);
    assert!(found.to_string().contains("which this task took at an unknown place"), "{found}");
}

/// A cycle that is open for a while, because another wait of one of its tasks goes on, is told once.
#[test]
fn a_cycle_that_opens_and_closes_is_told_once() {
    let ([me], mutex, event) = (actors(), Mutex::new(0), Event::auto());
    let _held = me.run(|| mutex.try_lock().unwrap());
    let mut wait = Box::pin(mutex.lock());
    waits(me, wait.as_mut());
    let mut looks = Looks::new();
    let mut told = || looks.after(Duration::from_millis(600), std::vec![me.number()]).len();
    assert_eq!((told(), told(), told()), (0, 0, 1));
    let mut signal = Box::pin(event.wait());
    waits(me, signal.as_mut());
    assert_eq!((told(), told()), (0, 0));
    drop(signal);
    assert_eq!((told(), told(), told(), told()), (0, 0, 0, 0));
}

/// A wait that closes two cycles: strict mode confirms the one that it found, of the task that waits, and not the one of the task with the smallest number.
#[test]
fn a_wait_that_closes_two_cycles() {
    let [first, second, writer] = actors();
    let (mutex, rwlock) = (Mutex::new(0), RwLock::new(0));
    let _reads = (second.run(|| rwlock.try_read().unwrap()), first.run(|| rwlock.try_read().unwrap()));
    let _held = writer.run(|| mutex.try_lock().unwrap());
    let (mut one, mut two, mut write) =
        (Box::pin(mutex.lock()), Box::pin(mutex.lock()), Box::pin(rwlock.write()));
    waits(first, one.as_mut());
    waits(second, two.as_mut());
    assert!(cycle_with(writer.number()).is_none());
    waits(writer, write.as_mut());
    for actor in [first, second, writer] {
        assert!(cycle_with(actor.number()).is_some(), "each is in one of the two");
    }
}

/// A look is not of one moment: what it has found counts only if a second look finds the same waits and holds, and not others in their place.
#[test]
fn a_cycle_that_a_second_look_does_not_find() {
    let [one, two] = actors();
    let (a, b) = (Mutex::new(0), Mutex::new(0));
    let held_a = one.run(|| a.try_lock().unwrap());
    let _held_b = two.run(|| b.try_lock().unwrap());
    let (mut wants_b, mut wants_a) = (Box::pin(b.lock()), Box::pin(a.lock()));
    waits(one, wants_b.as_mut());
    waits(two, wants_a.as_mut());
    let found = cycles_of([one.number()]);
    assert_eq!(confirmed(found.clone()).len(), 1);
    drop((wants_a, held_a));
    assert!(confirmed(found.clone()).is_empty());
    // The same tasks and locks, and another hold and another wait.
    let _held_a = one.run(|| a.try_lock().unwrap());
    let mut wants_a = Box::pin(a.lock());
    waits(two, wants_a.as_mut());
    let now = cycles_of([one.number()]);
    assert!(now.len() == 1 && confirmed(found).is_empty() && confirmed(now).len() == 1);
}

/// More waits of one task, and more writers of one lock, than are read while a list is locked: all of them count.
#[test]
fn lists_that_are_too_long_to_be_read_locked() {
    // With critical sections there are 4,096 records of waits for all tests.
    const MANY: usize = 700;
    let _slots = super::tests::SLOTS.read();
    let [holder, me, reader] = actors();
    let locks: Vec<Mutex<u32>> = (0..8).map(|_| Mutex::new(0)).collect();
    let _held: Vec<_> = holder.run(|| locks.iter().map(|lock| lock.try_lock().unwrap()).collect());
    let own = Mutex::new(0);
    let _own = me.run(|| own.try_lock().unwrap());
    let mut all: Vec<_> = locks.iter().cycle().take(MANY).map(|lock| Box::pin(lock.lock())).collect();
    all.iter_mut().for_each(|wait| waits(me, wait.as_mut()));
    let mut wants_own = Box::pin(own.lock());
    waits(holder, wants_own.as_mut());
    assert!(deadlock(me).is_some() && deadlock(holder).is_some());
    // One of them, which is not the holder's, may let the task go on.
    let free = Mutex::new(0);
    let _free = free.try_lock();
    let mut beside = Box::pin(free.lock());
    waits(me, beside.as_mut());
    assert!(deadlock(me).is_none() && deadlock(holder).is_none());
    drop(beside);
    let rwlock = RwLock::new(0);
    let _read = holder.run(|| rwlock.try_read().unwrap());
    let mut writers: Vec<_> = (0..MANY).map(|_| Box::pin(rwlock.write())).collect();
    let others: Vec<Actor> = writers.iter().map(|_| Actor::new()).collect();
    writers.iter_mut().zip(&others).for_each(|(wait, actor)| waits(*actor, wait.as_mut()));
    let mut behind = Box::pin(rwlock.read());
    waits(reader, behind.as_mut());
    let found = deadlock(reader).expect("the writers before it wait for the holder");
    assert_eq!(found.certainty, Certainty::Deadlock);
}

/// A crowd that waits for one lock is not looked at: only the tasks that hold what is waited for, and what they wait for.
#[test]
fn a_look_passes_a_crowd() {
    let ([one, two], gate, a, b) = (actors(), Mutex::new(0), Mutex::new(0), Mutex::new(0));
    let [holder, reader] = actors();
    let (table, permits) = (RwLock::new(0), Semaphore::new(1));
    let _held = (
        holder.run(|| gate.try_lock()),
        reader.run(|| table.try_read()),
        holder.run(|| permits.try_acquire()),
    );
    let crowd: Vec<Actor> = (0..500).map(|_| Actor::new()).collect();
    let mut gates: Vec<_> = crowd.iter().map(|_| Box::pin(gate.lock())).collect();
    let mut writes: Vec<_> = crowd.iter().map(|_| Box::pin(table.write())).collect();
    let mut acquires: Vec<_> = crowd.iter().map(|_| Box::pin(permits.acquire())).collect();
    for (n, actor) in crowd.iter().enumerate() {
        match n % 3 {
            0 => waits(*actor, gates[n].as_mut()),
            1 => waits(*actor, writes[n].as_mut()),
            _ => waits(*actor, acquires[n].as_mut()),
        }
    }
    let _both = (one.run(|| a.try_lock()), two.run(|| b.try_lock()));
    let (mut for_b, mut for_a) = (Box::pin(b.lock()), Box::pin(a.lock()));
    waits(one, for_b.as_mut());
    waits(two, for_a.as_mut());
    let members: Vec<u64> = crowd.iter().map(|actor| actor.number()).collect();
    let begun = holders_waited_for(u64::MAX);
    assert!(begun.contains(&one.number()) && begun.contains(&holder.number()));
    assert!(begun.iter().all(|task| !members.contains(task)), "none of the crowd holds anything");
    let mine: Vec<u64> = [one, two, holder, reader].iter().map(|actor| actor.number()).collect();
    let seen = reached(mine.clone());
    assert!(seen <= mine.len(), "{seen} tasks were looked at");
    let found: Vec<_> = cycles_of(mine).iter().map(tasks).collect();
    assert_eq!(found, [std::vec![one.number(), two.number()]]);
}

/// Reports have the names that a runtime says; the tests of `tasuki-rt` ask for its own.
#[test]
fn labels_are_in_the_report() {
    let ([me], mutex) = (actors(), Mutex::new(0).named("labelled"));
    let _held = me.run(|| mutex.try_lock().unwrap());
    let mut wait = Box::pin(mutex.lock());
    waits(me, wait.as_mut());
    let mut found = deadlock(me).expect("it waits for itself");
    let task = found.hops[0].task;
    let at = core::panic::Location::caller();
    found.tasks = std::vec![super::TaskLabel::new(task, None, Some(at))];
    assert!(found.to_string().contains(&std::format!("  {task} (spawned at {at}) waits at ")), "{found}");
    found.tasks = std::vec![super::TaskLabel::new(task, Some("worker".into()), Some(at))];
    assert!(found.to_string().contains(&std::format!("  {task} `worker` waits at ")), "{found}");
}
