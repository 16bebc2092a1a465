//! Limits on every wait there is: by a deadline and by a token, before, at and after the moment of the grant. What was granted is
//! returned, what was not leaves its queue at once, nothing is lost and nothing is left behind.
//! S2-65, S3-19, S3-23; B001, B013, B021, B025, B027, B035, B097, B133, H2, H5.

use crate::kit::driver::Limits;
use crate::kit::poll::{panic_of, panics, pending, poll, poll_with, ready};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;
use tasuki::policy::{Bypass, Lifo, Revocable};
use tasuki::runtime;
use tasuki::{
    Barrier, CancellationSource, Condvar, Event, Latch, Mutex, OnceCell, RwLock, RwLockUpgradableReadGuard,
    Semaphore, WaitGroup,
};

/// What happens to a limited wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Story {
    /// The limit is reached and the wait polled; then what it waited for comes.
    Ended,
    /// What it waited for comes, then the limit; then it is polled.
    Granted,
    EndedAndDropped,
    GrantedAndDropped,
    BothAndDropped,
    /// It is granted, and its waker panics when the limit lets go of it.
    GrantedWithPanic,
}

const STORIES: [Story; 6] = [
    Story::Ended,
    Story::Granted,
    Story::EndedAndDropped,
    Story::GrantedAndDropped,
    Story::BothAndDropped,
    Story::GrantedWithPanic,
];

/// Plays a story on a wait that has to wait. `at_rest` is asked in the end, with whether the wait got what was waited for.
fn play<T, E>(
    story: Story,
    limits: &Limits,
    mut wait: Pin<Box<impl Future<Output = Result<T, E>>>>,
    grant: impl FnOnce(),
    at_rest: impl FnOnce(bool) -> bool,
) {
    let spy = Spy::hostile(Call::Drop, || panic!("a hostile waker"));
    runtime::enter(&limits.driver, || pending(&mut wait, &spy));
    match story {
        Story::Ended => {
            limits.end();
            assert!(ready(&mut wait).is_err(), "nothing was granted");
            assert_eq!(spy.alive(), 0, "withdrawn at once");
            grant();
            assert!(panic_of(|| poll(&mut wait, &spy).is_ready()).contains("after it was finished"));
        }
        Story::Granted => {
            grant();
            limits.end();
            assert!(ready(&mut wait).is_ok(), "what was granted is returned");
            assert_eq!(spy.alive(), 0, "the limit is withdrawn at once");
            assert!(panics(|| poll(&mut wait, &spy).is_ready()));
        }
        Story::EndedAndDropped => {
            limits.end();
            drop(wait);
            grant();
        }
        Story::GrantedAndDropped => {
            grant();
            drop(wait);
        }
        Story::BothAndDropped => {
            grant();
            limits.end();
            drop(wait);
        }
        Story::GrantedWithPanic => {
            grant();
            spy.arm(1);
            assert_eq!(panic_of(|| poll_with(&mut wait, Waker::noop()).is_ready()), "a hostile waker");
            drop(wait);
        }
    }
    assert!(at_rest(story == Story::Granted), "not at rest after {story:?}");
    assert_eq!(spy.alive(), 0, "wakers are left after {story:?}");
    limits.end();
    assert_eq!(limits.driver.pass(Duration::from_secs(1_000)), None, "sleeps are left");
}

/// Every story on a wait, with a deadline, a token, both, and one inside the other.
macro_rules! each_story {
    ($name:ident, { $($setup:tt)* }, $wait:expr, grant $grant:expr, at_rest $at_rest:expr) => {
        #[test]
        fn $name() {
            for story in STORIES {
                {
                    $($setup)*
                    let limits = Limits::new();
                    play(story, &limits, Box::pin($wait.deadline(limits.deadline())), $grant, $at_rest);
                }
                {
                    $($setup)*
                    let limits = Limits::new();
                    play(story, &limits, Box::pin($wait.or_cancelled(&limits.token)), $grant, $at_rest);
                }
                {
                    $($setup)*
                    let limits = Limits::new();
                    let both = $wait.or_cancelled(&limits.token).deadline(limits.deadline());
                    let both = Box::pin(async move { both.await.map(Result::ok).ok().flatten().ok_or(()) });
                    if !matches!(story, Story::Ended | Story::Granted | Story::GrantedWithPanic) {
                        play(story, &limits, both, $grant, $at_rest);
                    }
                }
            }
            // B097: a token that is cancelled already leaves everything as it is, a thousand times.
            $($setup)*
            let limits = Limits::new();
            limits.source.request_cancel();
            {
                let mut wait = Box::pin($wait.or_cancelled(&limits.token));
                assert!(ready(&mut wait).is_err());
                assert!(panics(|| ready(&mut wait).is_err()));
            }
            ($grant)();
            assert!(($at_rest)(false));
        }
    };
}

each_story!(
    mutex,
    {
        let mutex = Mutex::new(0);
        let held = mutex.try_lock().unwrap();
    },
    mutex.lock(),
    grant || drop(held),
    at_rest | _ | !mutex.is_locked()
);

each_story!(
    mutex_lifo,
    {
        let mutex = Mutex::<_, Lifo>::with_policy(0);
        let held = mutex.try_lock().unwrap();
    },
    mutex.lock(),
    grant || drop(held),
    at_rest | _ | !mutex.is_locked()
);

each_story!(
    mutex_bypass,
    {
        let mutex = Mutex::<_, Bypass<1>>::with_policy(0);
        let held = mutex.try_lock().unwrap();
    },
    mutex.lock(),
    grant || drop(held),
    at_rest | _ | !mutex.is_locked() && mutex.try_lock().is_some()
);

each_story!(
    mutex_revocable,
    {
        let mutex = Mutex::<_, Revocable>::with_policy(0);
        let held = mutex.try_lock().unwrap();
    },
    mutex.lock(),
    grant || drop(held),
    at_rest | _ | !mutex.is_locked()
);

each_story!(
    mutex_owned,
    {
        let mutex = Arc::new(Mutex::new(0));
        let held = mutex.clone().try_lock_owned().unwrap();
    },
    mutex.clone().lock_owned(),
    grant || drop(held),
    at_rest | _ | !mutex.is_locked()
);

each_story!(
    semaphore,
    {
        let semaphore = Semaphore::new(1);
    },
    semaphore.acquire_many(2),
    grant || semaphore.release(1),
    at_rest | _ | semaphore.available_permits() == 2
);

each_story!(event_auto, {
    let event = Event::auto();
}, event.wait(), grant || event.set(), at_rest |given: bool| event.is_set() != given);

each_story!(
    event_manual,
    {
        let event = Event::manual();
    },
    event.wait(),
    grant || event.set(),
    at_rest | _ | event.is_set()
);

each_story!(
    read,
    {
        let lock = RwLock::new(0);
        let held = lock.try_write().unwrap();
    },
    lock.read(),
    grant || drop(held),
    at_rest | _ | lock.try_write().is_some()
);

each_story!(
    write,
    {
        let lock = RwLock::new(0);
        let held = lock.try_read().unwrap();
    },
    lock.write(),
    grant || drop(held),
    at_rest | _ | lock.try_write().is_some()
);

each_story!(
    upgradable_read,
    {
        let lock = RwLock::new(0);
        let held = lock.try_upgradable_read().unwrap();
    },
    lock.upgradable_read(),
    grant || drop(held),
    at_rest | _ | lock.try_write().is_some()
);

each_story!(
    upgrade,
    {
        let lock = RwLock::new(0);
        let held = lock.try_read().unwrap();
        let upgradable = lock.try_upgradable_read().unwrap();
    },
    RwLockUpgradableReadGuard::upgrade(upgradable),
    grant || drop(held),
    at_rest | _ | lock.try_write().is_some()
);

each_story!(
    wait_group,
    {
        let group = WaitGroup::new();
        group.add(1);
    },
    group.wait(),
    grant || group.done(),
    at_rest | _ | poll(&mut Box::pin(group.wait()), &Spy::new()).is_ready()
);

each_story!(
    latch,
    {
        let latch = Latch::new(1);
    },
    latch.wait(),
    grant || latch.count_down(),
    at_rest | _ | latch.try_wait()
);

/// One arrives, and does not stay if it has to wait.
fn one_arrives(barrier: &Barrier) {
    let _ = poll(&mut Box::pin(barrier.arrive_and_wait()), &Spy::new()).is_ready();
}

/// Two arrive: the first waits, the second leads.
fn two_arrive(barrier: &Barrier) -> bool {
    let mut arrivals = [(); 2].map(|()| Box::pin(barrier.arrive_and_wait()));
    let first = poll(&mut arrivals[0], &Spy::new()).is_ready();
    let second = poll(&mut arrivals[1], &Spy::new());
    !first && matches!(second, Poll::Ready(result) if result.is_leader())
}

each_story!(
    barrier,
    {
        let barrier = Barrier::new(2);
    },
    barrier.arrive_and_wait(),
    grant || one_arrives(&barrier),
    at_rest | _ | two_arrive(&barrier)
);

/// A wait that was polled, and waits.
fn waiting<F: Future>(wait: F) -> Pin<Box<F>> {
    let mut wait = Box::pin(wait);
    pending(&mut wait, &Spy::new());
    wait
}

/// Has this wait got what was waited for, unless the one before it was granted it? It is dropped then.
fn is_next(wait: Option<Pin<Box<impl Future>>>, granted: bool) -> bool {
    poll(&mut wait.expect("it waits"), &Spy::new()).is_ready() != granted
}

// A notification is the next waiter's, if this one did not come back with it.
each_story!(
    condvar,
    {
        let mutex = Mutex::new(0);
        let condvar = Condvar::new();
        let next = RefCell::new(None);
        let guard = mutex.try_lock().unwrap();
    },
    condvar.wait(guard),
    grant || {
        next.replace(Some(waiting(condvar.wait(mutex.try_lock().unwrap()))));
        condvar.notify_one();
    },
    at_rest | granted | is_next(next.take(), granted) && !mutex.is_locked()
);

each_story!(
    condvar_wait_while,
    {
        let mutex = Mutex::new(0);
        let condvar = Condvar::new();
        let next = RefCell::new(None);
        let guard = mutex.try_lock().unwrap();
    },
    condvar.wait_while(guard, |n| *n == 0),
    grant || {
        next.replace(Some(waiting(condvar.wait_while(mutex.try_lock().unwrap(), |n| *n == 0))));
        *mutex.try_lock().unwrap() = 1;
        condvar.notify_one();
    },
    at_rest | granted | is_next(next.take(), granted) && !mutex.is_locked()
);

each_story!(
    once_cell_wait,
    {
        let cell = OnceCell::new();
    },
    cell.wait(),
    grant || cell.set(1).unwrap(),
    at_rest | _ | cell.get() == Some(&1)
);

each_story!(
    on_cancel,
    {
        let source = CancellationSource::new();
        let token = source.token();
    },
    token.on_cancel(),
    grant || source.request_cancel(),
    at_rest | _ | token.stop_requested()
);

/// The turn of a once cell is no value yet: a limit that is reached passes it on.
#[test]
fn a_turn_that_ends() {
    let _dog = watchdog(30);
    let (cell, limits, spy) = (OnceCell::new(), Limits::new(), Spy::new());
    let mut first = Box::pin(cell.get_or_init(std::future::pending).or_cancelled(&limits.token));
    pending(&mut first, &spy);
    let mut second = Box::pin(cell.get_or_init(async || 2));
    pending(&mut second, &spy);
    limits.end();
    assert!(ready(&mut first).is_err());
    assert_eq!(ready(&mut second), &2);
    assert_eq!(spy.alive(), 0);
}

/// What can be had without waiting is had, also in no time; a token that is cancelled comes first.
#[test]
fn what_is_free_is_had_in_no_time() {
    let _dog = watchdog(30);
    let limits = Limits::new();
    limits.end();
    let (mutex, lock) = (Mutex::new(0), RwLock::new(0));
    drop(ready(&mut Box::pin(mutex.lock().deadline(limits.driver.now.get()))).unwrap());
    drop(ready(&mut Box::pin(lock.write().timeout(Duration::ZERO))).unwrap());
    assert!(ready(&mut Box::pin(lock.write().or_cancelled(&limits.token))).is_err());
    assert!(ready(&mut Box::pin(mutex.lock().timeout(Duration::ZERO).or_cancelled(&limits.token))).is_err());
}
