//! Foreign code that panics in a poll or a drop. Every public awaitable, with a waker that panics when it is cloned, woken or dropped, at
//! every place where that can happen: afterwards the future is polled or dropped again, nothing is granted twice, nothing released twice, nothing lost,
//! and the future knows whether another poll would panic. The rows are compared with the sources. B065, B133, H15.

use super::subjects::{Grant, HOUR, Subject, Waiting, keep, limited, rows};
use super::two_panics::PanicsInDrop;
use crate::kit::poll::{panic_of, panics, pending, poll_with, ready};
use crate::kit::sources;
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::future::pending as never;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tasuki::future::Awaitable;
use tasuki::{
    CancellationSource, Condvar, Mutex, MutexGuard, OnceCell, ReentrantMutex, RwLock,
    RwLockUpgradableReadGuard, Semaphore, task,
};

/// Not waits in a queue: what they do when foreign code panics is tested by hand, below.
const BY_HAND: [&str; 2] = ["HandOff", "Identified"];

#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn every_public_awaitable_has_a_row() {
    let rows = rows();
    let covered = rows.iter().flat_map(|row| row.covers).chain(&BY_HAND).copied();
    sources::same(&sources::public_awaitables(), covered);
}

/// A panic names a type that users can find.
#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn a_panic_names_a_public_future() {
    let (names, public) = (sources::names_in_panics(), sources::public_awaitables());
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        let (module, last) = name.rsplit_once("::").expect("a path");
        let is_public =
            ["tasuki::future", "tasuki::runtime"].contains(&module) || module.starts_with("tasuki::channel");
        assert!(is_public, "{name} is elsewhere");
        assert!(public.contains(last), "no public future is called {name}");
    }
}

/// Where the foreign code panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// The first poll clones the waker.
    FirstClone,
    /// A poll of a queued wait clones another waker.
    LaterClone,
    /// The poll of a queued wait replaces its waker, and drops the old one.
    Replaced,
    /// The grant wakes it.
    Woken,
    /// It is dropped while it is queued, and drops its waker.
    DroppedQueued,
    /// It is granted, dropped unpolled, and the next is woken.
    PassedOn,
    /// The clone of the first poll grants, so that nothing has to be waited for, and the clone is dropped.
    SpareOfFirst,
    /// The clone of a later poll grants, and the clone is dropped.
    SpareOfLater,
    /// A limit ends it while it is queued, and drops its waker.
    EndedByLimit,
}

pub(super) const MOMENTS: [Moment; 9] = [
    Moment::FirstClone,
    Moment::LaterClone,
    Moment::Replaced,
    Moment::Woken,
    Moment::DroppedQueued,
    Moment::PassedOn,
    Moment::SpareOfFirst,
    Moment::SpareOfLater,
    Moment::EndedByLimit,
];

/// The waits of one test, and how many got what they waited for.
pub(super) struct Played {
    /// Dropped before what they borrow from.
    pub(super) waits: Vec<Waiting>,
    granted: usize,
    pub(super) subject: Subject,
}

impl Played {
    pub(super) fn new(subject: Subject) -> Self {
        Self { waits: Vec::new(), granted: 0, subject }
    }

    /// One poll of the last wait; it must say before whether it panics because it is over.
    pub(super) fn poll(&mut self, at: usize, waker: &Waker) -> Poll<()> {
        assert!(!self.waits[at].is_over(), "it is not over");
        let polled = self.waits[at].as_mut().poll_once(&mut Context::from_waker(waker));
        if polled.is_ready() {
            self.granted += 1;
            assert!(self.waits[at].is_over(), "it is over");
        }
        polled
    }

    fn wait(&mut self, make: fn(&Subject) -> Option<Waiting>) -> Option<usize> {
        let wait = make(&self.subject)?;
        assert!(!wait.is_over(), "it has not begun");
        self.waits.push(wait);
        Some(self.waits.len() - 1)
    }

    pub(super) fn first(&mut self) -> usize {
        self.wait(|subject| Some((subject.make)())).expect("there is one")
    }

    fn behind(&mut self, spy: &Spy) -> Option<usize> {
        let at = self.wait(|subject| subject.behind.as_ref().map(|make| make()))?;
        assert!(self.poll(at, &spy.waker()).is_pending(), "the one behind waits");
        Some(at)
    }

    /// The panic of the hostile waker, which must come.
    fn hostile(call: impl FnOnce()) {
        assert_eq!(panic_of(call), "a hostile waker");
    }

    /// All waits that are left come to their end.
    pub(super) fn settle(mut self, context: &str) {
        let mut waits = std::mem::take(&mut self.waits);
        for round in 0..16 {
            for wait in waits.iter_mut().filter(|wait| !wait.is_over()) {
                if wait.as_mut().poll_once(&mut Context::from_waker(Waker::noop())).is_ready() {
                    self.granted += 1;
                }
            }
            // What is held is given back, if that has not been done.
            let is_over = waits.iter().all(|wait| wait.is_over());
            if self.subject.one_each && !is_over || !self.subject.one_each && round == 0 {
                (self.subject.grant)();
            }
        }
        waits.iter_mut().for_each(|wait| is_over(wait, context));
        drop(waits);
        assert!((self.subject.intact)(self.granted), "{context}: not as it was");
    }
}

/// A wait that is over says so, and panics if it is polled.
#[track_caller]
fn is_over(wait: &mut Waiting, context: &str) {
    assert!(wait.is_over(), "{context}: a wait is lost");
    let again = panic_of(|| wait.as_mut().poll_once(&mut Context::from_waker(Waker::noop())));
    assert!(again.contains("after it was finished"), "{context}: {again}");
}

/// A waker that panics in this call, once it is armed.
pub(super) fn hostile(call: Call) -> Spy {
    Spy::hostile(call, || panic!("a hostile waker"))
}

/// A waker that grants when it is cloned, and panics when the clone is dropped.
fn granting(grant: Grant) -> Spy {
    let spy = Spy::hostile(Call::Clone, move || grant());
    spy.on(Call::Drop, || panic!("a hostile waker"));
    spy
}

/// Plays one moment; afterwards the wait is dropped, or polled until it ends. False if the moment does not exist for this awaitable.
pub(super) fn play(moment: Moment, subject: Subject, drops: bool) -> bool {
    let source = CancellationSource::new();
    let (token, _kept) = keep(source.token());
    let mut played = Played::new(subject);
    let (spy, behind) = (Spy::new(), Spy::new());
    let wait = limited((moment == Moment::EndedByLimit).then_some(token), || played.first());
    match moment {
        Moment::FirstClone => {
            let hostile = hostile(Call::Clone);
            let waker = hostile.waker();
            hostile.arm(1);
            Played::hostile(|| _ = played.poll(wait, &waker));
        }
        Moment::LaterClone => {
            let hostile = hostile(Call::Clone);
            assert!(played.poll(wait, &spy.waker()).is_pending());
            played.behind(&behind);
            let waker = hostile.waker();
            hostile.arm(1);
            Played::hostile(|| _ = played.poll(wait, &waker));
        }
        Moment::Replaced => {
            let hostile = hostile(Call::Drop);
            assert!(played.poll(wait, &hostile.waker()).is_pending());
            played.behind(&behind);
            hostile.arm(1);
            Played::hostile(|| _ = played.poll(wait, &spy.waker()));
        }
        Moment::Woken => {
            let hostile = hostile(Call::Wake);
            assert!(played.poll(wait, &hostile.waker()).is_pending());
            played.behind(&behind);
            hostile.arm(1);
            let grant = played.subject.grant.clone();
            // The newest of two waiters may be the first.
            if !panics(|| grant()) {
                return false;
            }
        }
        Moment::DroppedQueued => {
            let hostile = hostile(Call::Drop);
            assert!(played.poll(wait, &hostile.waker()).is_pending());
            played.behind(&behind);
            hostile.arm(1);
            let dropped = played.waits.remove(wait);
            Played::hostile(|| drop(dropped));
            assert_eq!(behind.wakes(), 0, "nothing was granted");
            played.settle(&format!("{moment:?}"));
            return true;
        }
        Moment::PassedOn => {
            let hostile = hostile(Call::Wake);
            assert!(played.poll(wait, &spy.waker()).is_pending());
            if played.behind(&hostile).is_none() {
                return false;
            }
            (played.subject.grant)();
            hostile.arm(1);
            let dropped = played.waits.remove(wait);
            // Those that are granted to all at once have woken the one behind already.
            if panics(|| drop(dropped)) {
                assert_eq!(hostile.hook_runs(), 1, "woken once");
            }
            played.settle(&format!("{moment:?}"));
            return true;
        }
        Moment::SpareOfFirst | Moment::SpareOfLater => {
            if moment == Moment::SpareOfLater {
                assert!(played.poll(wait, &spy.waker()).is_pending());
            }
            let hostile = granting(played.subject.grant.clone());
            let waker = hostile.waker();
            hostile.arm(2);
            let panicked = panics(|| _ = played.poll(wait, &waker));
            hostile.arm(0);
            drop(waker);
            if !panicked {
                // Nothing was to be had after all, or the clone was needed.
                drop(played);
                return false;
            }
        }
        Moment::EndedByLimit => {
            let hostile = hostile(Call::Drop);
            let waker = hostile.waker();
            assert!(played.poll(wait, &waker).is_pending());
            played.behind(&behind);
            source.request_cancel();
            hostile.arm(1);
            let panicked = panics(|| _ = played.poll(wait, &waker));
            hostile.arm(0);
            if !panicked {
                return false;
            }
            // It is over, and has until it is dropped what it was given: an upgrade its guard.
            is_over(&mut played.waits[wait], "EndedByLimit");
            drop(played.waits.remove(wait));
            played.settle("EndedByLimit");
            return true;
        }
    }
    if drops && wait < played.waits.len() {
        drop(played.waits.remove(wait));
    }
    played.settle(&format!("{moment:?}, dropped: {drops}"));
    assert_eq!((spy.alive(), behind.alive()), (0, 0), "wakers are left");
    true
}

#[test]
fn nothing_is_given_twice() {
    let _dog = watchdog(120);
    let mut happened = 0;
    for row in rows() {
        for moment in MOMENTS {
            for drops in [false, true] {
                eprintln!("-- {:?}, {moment:?}, dropped: {drops}", row.covers);
                happened += usize::from(play(moment, (row.subject)(), drops));
            }
        }
    }
    assert!(happened > 30 * 2 * 6, "{happened} plays: most moments exist for most awaitables");
}

/// One poll of a wait that ends in it, with an output or with a panic; from then on it is over, says so, and panics if it is polled.
#[track_caller]
fn ends<A: Awaitable>(name: &str, wait: A, with: Option<&str>) {
    let mut wait = Box::pin(wait);
    assert!(!wait.has_ended(), "{name}: it has not begun");
    let mut poll = || wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).map(drop);
    match with {
        None => assert!(poll().is_ready(), "{name}: it ends"),
        Some(message) => assert_eq!(panic_of(poll), message, "{name}"),
    }
    assert!(wait.has_ended(), "{name}: it is over");
    let again = panic_of(|| wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).map(drop));
    assert!(again.contains("after it was finished"), "{name}: {again}");
}

/// The ways to end that the rows above do not have: an error, and a panic of the user's own code.
#[test]
pub(super) fn every_way_to_end() {
    let _dog = watchdog(60);
    let source = CancellationSource::new();
    source.request_cancel();
    let cancelled = source.token();
    let token = CancellationSource::new().token();
    let mutex = Mutex::new(0);
    let held = mutex.try_lock().unwrap();
    ends("timeout", mutex.lock().timeout(Duration::ZERO), None);
    ends("deadline", mutex.lock().deadline(std::time::Instant::now()), None);
    ends("or_cancelled", mutex.lock().or_cancelled(&cancelled), None);
    ends("both", mutex.lock().timeout(Duration::ZERO).or_cancelled(&cancelled), None);
    drop(held);
    let lock = Arc::new(RwLock::new(0));
    let (_reader, upgradable) = (lock.try_read().unwrap(), lock.try_upgradable_read().unwrap());
    ends("upgrade", RwLockUpgradableReadGuard::upgrade(upgradable).timeout(Duration::ZERO), None);
    let closed = Arc::new(Semaphore::new(1));
    closed.close();
    ends("acquire", closed.acquire(), None);
    ends("acquire_owned", closed.clone().acquire_owned(), None);
    ends("reentrant lock without identity", ReentrantMutex::new(0).lock(), None);
    ends("run_until_cancelled", cancelled.run_until_cancelled(never::<()>()), None);
    ends(
        "run_until_cancelled, limited",
        token.run_until_cancelled(never::<()>()).timeout(Duration::ZERO),
        None,
    );
    let condvar = Condvar::new();
    let condition = |_: &mut i32| -> bool { panic!("mine") };
    ends("wait_while", condvar.wait_while(mutex.try_lock().unwrap(), condition), Some("mine"));
    ends("wait_while", condvar.wait_while(mutex.try_lock().unwrap(), condition).timeout(HOUR), Some("mine"));
    ends(
        "wait_while, limited",
        condvar.wait_while(mutex.try_lock().unwrap(), |_| true).timeout(Duration::ZERO),
        None,
    );
    assert!(mutex.try_lock().is_some(), "the panic of a condition releases the lock");
    let cell = OnceCell::<u32>::new();
    ends("get_or_try_init", cell.get_or_try_init(async || Err::<u32, _>(())), None);
    ends(
        "get_or_init, closure",
        cell.get_or_init(|| -> std::future::Ready<u32> { panic!("mine") }),
        Some("mine"),
    );
    ends("get_or_init, future", cell.get_or_init(async || panic!("mine")), Some("mine"));
    ends(
        "get_or_try_init, future",
        cell.get_or_try_init(async || -> Result<u32, ()> { panic!("mine") }),
        Some("mine"),
    );
    ends("get_or_init, limited", cell.get_or_init(never::<u32>).timeout(Duration::ZERO), None);
    ends("get_or_init, destructor", cell.get_or_init(|| PanicsInDrop).timeout(Duration::ZERO), Some("mine"));
    ends("get_or_init", cell.get_or_init(async || 7), None);
    assert_eq!(cell.get(), Some(&7), "the turn was passed on each time");
}

/// The lock is given up by the call, once; a waker that panics in the yield changes nothing.
#[test]
fn a_hand_off_whose_waker_panics() {
    let mutex = Mutex::new(0);
    let (spy, hostile) = (Spy::new(), hostile(Call::WakeByRef));
    let mut next = Box::pin(mutex.lock());
    let guard = mutex.try_lock().unwrap();
    pending(&mut next, &spy);
    let mut hand_off = Box::pin(MutexGuard::hand_off(guard));
    let owner = ready(&mut next);
    let waker = hostile.waker();
    hostile.arm(1);
    assert!(panics(|| poll_with(&mut hand_off, &waker)));
    ready(&mut hand_off);
    ready(&mut hand_off);
    drop(hand_off);
    assert!(mutex.is_locked(), "it is the next owner's");
    drop(owner);
    assert!(!mutex.is_locked());
}

/// The identity is taken away also when the future panics, and the future may be polled again.
#[test]
fn an_identity_whose_future_panics() {
    let mut polls = 0;
    let mut task = Box::pin(task::identify(std::future::poll_fn(|_| {
        polls += 1;
        assert!(polls > 1, "mine");
        Poll::Ready(task::current())
    })));
    assert_eq!(panic_of(|| poll_with(&mut task, Waker::noop())), "mine");
    assert_eq!(task::current(), None);
    let id = task.id();
    assert_eq!(ready(&mut task), Some(id));
}
