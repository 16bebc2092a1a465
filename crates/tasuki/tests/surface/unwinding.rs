//! Wakers that panic whenever they are woken or dropped, all of them, and values whose drop panics: the first panic of a call goes on, and no second one ends the process, in no
//! state of any public awaitable, and in no drop of ours while a panic unwinds. What can be granted is granted all the same.

use super::subjects::{Subject, Waiting, rows};
use crate::kit::driver::FakeDriver;
use crate::kit::poll::{catch, panic_of, panics, ready};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::future::{Future, pending as never};
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;
use tasuki::policy::Bypass;
use tasuki::runtime::{self, Timers};
use tasuki::{
    Barrier, CancellationSource, Condvar, Mutex, OnceCell, RwLock, RwLockUpgradableReadGuard, Semaphore,
    WaitGroup, channel,
};

/// A waker that panics whenever it is woken or dropped. Leaked: its hooks are gone with it.
fn hostile() -> &'static Spy {
    let spy = Box::leak(Box::new(Spy::new()));
    for call in [Call::Wake, Call::WakeByRef, Call::Drop] {
        spy.on(call, || panic!("a hostile waker"));
    }
    spy.arm(usize::MAX >> 1);
    spy
}

/// The same, and what is waited for is granted when it is cloned.
fn granting(subject: &Subject) -> &'static Spy {
    let (spy, grant) = (hostile(), subject.grant.clone());
    spy.on(Call::Clone, move || _ = panics(|| grant()));
    spy
}

/// One poll with a waker that is not dropped: the test's own is not the matter.
fn poll_by(wait: &mut Waiting, spy: &Spy) {
    let waker = ManuallyDrop::new(spy.waker());
    if !wait.is_over() {
        let _ = catch(|| wait.as_mut().poll_once(&mut Context::from_waker(&waker)));
    }
}

fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) {
    let waker = ManuallyDrop::new(hostile().waker());
    let _ = catch(|| future.as_mut().poll(&mut Context::from_waker(&waker)).map(drop));
}

/// What is done to a wait and one behind it.
#[derive(Clone, Copy, Debug)]
enum Act {
    First,
    Behind,
    Grant,
    FirstGranting,
    BehindGranting,
    DropFirst,
    DropBehind,
}

const PLAYS: [&[Act]; 9] = {
    use Act::*;
    // The first is polled first: an upgrade is not begun behind a writer.
    [
        &[First, Behind, DropFirst, Grant, DropBehind],
        &[First, Behind, Grant, DropFirst, DropBehind],
        &[First, Behind, Grant, First, Behind, Grant, First, Behind],
        &[First, Behind, First, Behind, DropBehind, DropFirst],
        &[FirstGranting, Behind, DropFirst],
        &[First, Behind, FirstGranting, DropFirst],
        &[First, BehindGranting, DropFirst],
        &[First, Behind, BehindGranting, DropBehind],
        &[First, Behind, Grant, DropBehind, DropFirst],
    ]
};

/// Every public awaitable, in every order of polls, grants and drops: the process goes on, and who is left gets what it waits for.
#[test]
#[cfg_attr(miri, ignore = "leaks its wakers")]
fn no_second_panic_ends_the_process() {
    let _dog = watchdog(120);
    for row in rows() {
        for play in PLAYS {
            eprintln!("-- {:?}, {play:?}", row.covers);
            let subject = (row.subject)();
            // Made when they are first polled: the wait of a condvar is given the lock.
            let (mut first, mut behind) = (None, None);
            let make = || (subject.make)();
            let make_behind = || subject.behind.as_ref().expect("there is one")();
            for act in play {
                match act {
                    Act::First => poll_by(first.get_or_insert_with(make), hostile()),
                    Act::FirstGranting => poll_by(first.get_or_insert_with(make), granting(&subject)),
                    Act::Behind | Act::BehindGranting if subject.behind.is_none() => {}
                    Act::Behind => poll_by(behind.get_or_insert_with(make_behind), hostile()),
                    Act::BehindGranting => {
                        poll_by(behind.get_or_insert_with(make_behind), granting(&subject));
                    }
                    Act::Grant => _ = panics(|| (subject.grant)()),
                    Act::DropFirst => _ = panics(|| drop(first.take())),
                    Act::DropBehind => _ = panics(|| drop(behind.take())),
                }
            }
            let mut left: Vec<_> = first.into_iter().chain(behind).collect();
            for _ in 0..4 {
                let _ = panics(|| (subject.grant)());
                for wait in left.iter_mut().filter(|wait| !wait.is_over()) {
                    let _ = catch(|| wait.as_mut().poll_once(&mut Context::from_waker(Waker::noop())));
                }
            }
            assert!(left.iter().all(|wait| wait.is_over()), "{:?}, {play:?}: a wait is lost", row.covers);
        }
    }
}

/// A wait that stood in the way of another is dropped: the other is granted, its waker panics, and that of the first as well.
#[test]
#[cfg_attr(miri, ignore = "leaks its wakers")]
fn a_cancel_that_grants() {
    let _dog = watchdog(60);
    let semaphore = Semaphore::new(1);
    let (mut big, mut small) = (Box::pin(semaphore.acquire_many(2)), Box::pin(semaphore.acquire()));
    poll(&mut big);
    poll(&mut small);
    assert!(panics(|| drop(big)));
    assert!(ready(&mut small).is_ok());

    let lock = RwLock::new(0);
    let reader = lock.try_read().unwrap();
    let (mut writer, mut second, mut third) =
        (Box::pin(lock.write()), Box::pin(lock.read()), Box::pin(lock.read()));
    poll(&mut writer);
    poll(&mut second);
    poll(&mut third);
    assert!(panics(|| drop(writer)));
    drop((ready(&mut second), ready(&mut third), reader));

    let (reader, upgradable) = (lock.try_read().unwrap(), lock.try_upgradable_read().unwrap());
    let (mut upgrade, mut second) =
        (Box::pin(RwLockUpgradableReadGuard::upgrade(upgradable)), Box::pin(lock.read()));
    poll(&mut upgrade);
    poll(&mut second);
    assert!(panics(|| drop(upgrade)));
    drop((ready(&mut second), reader));

    let mutex = Mutex::<u32, Bypass>::with_policy(0);
    let held = mutex.try_lock();
    let (mut head, mut next) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
    poll(&mut head);
    poll(&mut next);
    assert!(panics(|| drop(held)));
    assert!(panics(|| drop(head)));
    drop(ready(&mut next));

    let (mutex, condvar) = (Mutex::new(0), Condvar::new());
    let mut waits: Vec<_> = (0..80)
        .map(|_| {
            let mut wait = Box::pin(condvar.wait(mutex.try_lock().unwrap()));
            poll(&mut wait);
            wait
        })
        .collect();
    assert!(panics(|| condvar.notify_one()) && panics(|| condvar.notify_all()));
    waits[..40].iter_mut().for_each(poll);
    while let Some(wait) = waits.pop() {
        let _ = panics(|| drop(wait));
    }
    assert!(mutex.try_lock().is_some());

    let (sender, receiver) = channel::bounded(2);
    sender.try_send(1).unwrap();
    let (mut two, mut one) = (Box::pin(sender.reserve_many(2)), Box::pin(sender.send(2)));
    poll(&mut two);
    poll(&mut one);
    assert!(panics(|| drop(two)));
    assert!(ready(&mut one).is_ok() && receiver.len() == 2);
}

/// The clone of a waker that is not needed after all, while the call that makes it needless wakes others.
#[test]
#[cfg_attr(miri, ignore = "leaks its wakers")]
fn a_spare_waker_while_others_are_woken() {
    let _dog = watchdog(60);
    let barrier = Arc::new(Barrier::new(2));
    let mut last = Box::pin(barrier.arrive_and_wait());
    let (spy, of_clone) = (hostile(), barrier.clone());
    spy.on(Call::Clone, move || {
        let barrier = of_clone.clone();
        let mut first = Box::pin(async move { barrier.arrive_and_wait().await });
        poll(&mut first);
        std::mem::forget(first);
    });
    let waker = ManuallyDrop::new(spy.waker());
    let mut arrive = || last.as_mut().poll(&mut Context::from_waker(&waker));
    assert_eq!(panic_of(&mut arrive), "a hostile waker", "the phase is complete");
    assert!(panic_of(&mut arrive).contains("after it was finished"));
}

/// Panics in its drop.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a bomb");
    }
}

/// What users put into waits, and what waits hold of theirs, both with drops that panic.
#[test]
#[cfg_attr(miri, ignore = "leaks its wakers")]
fn values_and_wakers_that_panic() {
    let _dog = watchdog(60);
    let source = CancellationSource::new();
    let token = source.token();
    let (sender, receiver) = channel::bounded::<Bomb>(1);
    assert!(sender.try_send(Bomb).is_ok());
    let mut limited = Box::pin(sender.send(Bomb).or_cancelled(&token));
    poll(&mut limited);
    assert!(panics(|| drop(limited)));
    let (mut send, mut closed) = (Box::pin(sender.send(Bomb)), Box::pin(sender.closed()));
    poll(&mut send);
    poll(&mut closed);
    assert!(panics(|| drop(receiver)), "drops a message, and wakes");
    let _ = panics(|| drop(send));
    ready(&mut closed);

    let (sender, receiver) = channel::rendezvous::<Bomb>();
    let mut receives: Vec<_> = (0..3).map(|_| Box::pin(receiver.recv().or_cancelled(&token))).collect();
    receives.iter_mut().for_each(poll);
    assert!((0..2).all(|_| panics(|| sender.try_send(Bomb).is_ok())));
    let mut send = Box::pin(sender.send(Bomb).or_cancelled(&token));
    poll(&mut send);
    receives.drain(..).for_each(|wait| _ = panics(|| drop(wait)));
    assert!(panics(|| drop(send)));
    drop(receives);
    assert!(panics(|| drop(receiver)));

    let bomb = Bomb;
    let held = move || async move {
        let _bomb = bomb;
        never::<u32>().await
    };
    let mut run = Box::pin(token.run_until_cancelled(held()));
    poll(&mut run);
    assert_eq!(panic_of(|| drop(run)), "a bomb");

    let (cell, bomb) = (OnceCell::<u32>::new(), Bomb);
    let mut turn = Box::pin(cell.get_or_init(|| async move {
        let _bomb = bomb;
        never().await
    }));
    poll(&mut turn);
    let (bomb, mut next) = (Bomb, Box::pin(cell.get_or_init(async || 1)));
    let mut waits = Box::pin(cell.get_or_init(|| async move {
        let _bomb = bomb;
        2
    }));
    poll(&mut waits);
    poll(&mut next);
    assert_eq!(panic_of(|| drop(turn)), "a bomb");
    assert_eq!(panic_of(|| drop(waits)), "a bomb");
    assert_eq!(ready(&mut next), &1);

    let (mutex, condvar, bomb) = (Mutex::new(0), Condvar::new(), Bomb);
    let guard = mutex.try_lock().unwrap();
    let judged = Box::pin(condvar.wait_while(guard, move |_| {
        let _bomb = &bomb;
        true
    }));
    let mut next = Box::pin(mutex.lock());
    poll(&mut next);
    assert_eq!(panic_of(|| drop(judged)), "a bomb");
    drop(ready(&mut next));
}

/// Something of ours is dropped by a panic, and wakes a waiter whose waker panics.
#[track_caller]
fn dropped_by_a_panic<F: Future>(mut wait: Pin<Box<F>>, held: impl Sized) {
    poll(&mut wait);
    let message = panic_of(|| {
        let _held = held;
        panic!("mine");
    });
    assert_eq!(message, "mine");
    drop(ready(&mut wait));
}

#[test]
#[cfg_attr(miri, ignore = "leaks its wakers")]
fn what_a_panic_drops_wakes() {
    let _dog = watchdog(60);
    let mutex = Mutex::new(0);
    dropped_by_a_panic(Box::pin(mutex.lock()), mutex.try_lock());
    let lock = RwLock::new(0);
    dropped_by_a_panic(Box::pin(lock.write()), lock.try_read());
    dropped_by_a_panic(Box::pin(lock.read()), lock.try_write());
    let semaphore = Semaphore::new(1);
    dropped_by_a_panic(Box::pin(semaphore.acquire()), semaphore.try_acquire().ok());
    let group = WaitGroup::new();
    let member = group.member();
    dropped_by_a_panic(Box::pin(group.wait()), member);
    let source = CancellationSource::new();
    let token = source.token();
    dropped_by_a_panic(Box::pin(token.on_cancel()), source.drop_guard());
    let (sender, receiver) = channel::bounded::<u32>(1);
    dropped_by_a_panic(Box::pin(receiver.recv()), sender);
    let (sender, receiver) = channel::bounded::<u32>(1);
    dropped_by_a_panic(Box::pin(sender.closed()), receiver);
    let (sender, receiver) = channel::rendezvous::<u32>();
    dropped_by_a_panic(Box::pin(receiver.recv()), sender);
    let (sender, receiver) = channel::oneshot::<u32>();
    dropped_by_a_panic(Box::pin(receiver.recv()), sender);
    let (sender, receiver) = channel::oneshot::<u32>();
    dropped_by_a_panic(Box::pin(sender.closed()), receiver);
    let held = mutex.try_lock();
    let (mut queued, mut granted) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
    poll(&mut granted);
    poll(&mut queued);
    let _ = panics(|| drop(held));
    dropped_by_a_panic(Box::pin(mutex.lock()), (granted, queued));
    assert!(mutex.try_lock().is_some());
    let cell = OnceCell::<u32>::new();
    let mut turn = Box::pin(cell.get_or_init(never));
    poll(&mut turn);
    dropped_by_a_panic(Box::pin(cell.get_or_init(async || 1)), turn);
}

/// Something of ours is dropped by a panic, and what it does then panics too: the call of another was one too many, or a message is a bomb.
#[track_caller]
fn refused_while_a_panic_unwinds(held: impl Sized) {
    let message = panic_of(|| {
        let _held = held;
        panic!("mine");
    });
    assert_eq!(message, "mine");
}

#[test]
fn what_a_panic_drops_is_refused() {
    let group = Arc::new(WaitGroup::new());
    let members = (group.member(), group.clone().member_owned());
    group.done();
    group.done();
    refused_while_a_panic_unwinds(members);
    assert_eq!(group.count(), 0);
    let member = group.member();
    group.done();
    assert!(panics(|| drop(member)), "not while a panic unwinds");

    const MANY: usize = Semaphore::MAX_PERMITS;
    let semaphore = Arc::new(Semaphore::new(2));
    let permits = (semaphore.try_acquire().unwrap(), semaphore.clone().try_acquire_owned().unwrap());
    semaphore.release(MANY);
    refused_while_a_panic_unwinds(permits);
    assert_eq!(semaphore.available_permits(), MANY);
    // With a waiter, for which all that is free is kept.
    let semaphore = Semaphore::new(3);
    let permits = semaphore.try_acquire_many(2).unwrap();
    let mut big = Box::pin(semaphore.acquire_many(MANY));
    assert!(big.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    semaphore.release(MANY - 2);
    refused_while_a_panic_unwinds(permits);
    drop(big);
    assert_eq!(semaphore.available_permits(), MANY - 1);
    let permit = semaphore.try_acquire().unwrap();
    semaphore.release(2);
    assert!(panics(|| drop(permit)), "not while a panic unwinds");
}

#[test]
fn messages_that_a_panic_drops() {
    fn oneshot() -> channel::OneshotReceiver<Bomb> {
        let (sender, receiver) = channel::oneshot();
        assert!(sender.send(Bomb).is_ok());
        receiver
    }
    refused_while_a_panic_unwinds(oneshot());
    refused_while_a_panic_unwinds(oneshot().recv());
    assert!(panics(|| drop(oneshot())), "not while a panic unwinds");
    let mut slot = channel::oneshot::Slot::new();
    let (sender, receiver) = slot.split();
    assert!(sender.send(Bomb).is_ok());
    refused_while_a_panic_unwinds(receiver);
    for (sender, receiver) in [channel::bounded(2), channel::unbounded()] {
        assert!(sender.try_send(Bomb).is_ok() && sender.try_send(Bomb).is_ok());
        refused_while_a_panic_unwinds(receiver);
    }
    let inline = channel::Channel::<Bomb, 2>::new();
    assert!(inline.try_send(Bomb).is_ok() && inline.try_send(Bomb).is_ok());
    refused_while_a_panic_unwinds(inline);
}

/// A panic cancels the last sleep of a wheel, whose alarm panics.
#[test]
fn an_alarm_that_panics() {
    let alarm = Spy::hostile(Call::WakeByRef, || panic!("a hostile waker"));
    let timers = Arc::new(Timers::new(alarm.waker()));
    timers.ring_when_empty();
    let sleep = || {
        let mut sleep = Box::pin(runtime::sleep(Duration::from_secs(3_600)));
        let driver = FakeDriver::with_timers(&timers);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(runtime::enter(&driver, || sleep.as_mut().poll(&mut cx)).is_pending());
        alarm.arm(1);
        sleep
    };
    refused_while_a_panic_unwinds(sleep());
    let last = sleep();
    assert_eq!(panic_of(|| drop(last)), "a hostile waker", "not while a panic unwinds");
    assert_eq!((alarm.hook_runs(), timers.len()), (2, 0));
}
