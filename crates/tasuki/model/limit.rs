//! Limits: a wait is cancelled at the moment of the grant, by a deadline or by a token. What was granted is returned or passed on,
//! nothing is lost, and nothing is touched that is gone. And the wheel: no sleep is forgotten on it.

use crate::support::{Data, LogMutex, Task, at_rest, join, lock_and_sign, log_mutex, spawn};
use crate::versus::{Versus, race};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use tasuki::policy::{Bypass, Fifo, Policy};
use tasuki::runtime::{self, Driver, Sleep, TaskId, Timers};
use tasuki::{
    Barrier, CancellationSource, CancellationToken, Event, Parker, RwLock, RwLockUpgradableReadGuard,
    Semaphore,
};

/// A wheel, a clock that stands still, and a token.
struct Limits {
    timers: Arc<Timers>,
    now: Instant,
    source: CancellationSource,
    token: CancellationToken,
}

/// The last tick of the wheel of the model. What is later is never due.
const LATER: Duration = Duration::from_millis(7);

impl Limits {
    fn new() -> Self {
        Self::with_alarm(Waker::noop().clone())
    }

    fn with_alarm(alarm: Waker) -> Self {
        let source = CancellationSource::new();
        let now = Instant::now();
        Self { timers: Arc::new(Timers::starting_at(now, alarm)), now, token: source.token(), source }
    }

    /// A wait that has been polled with its deadline on the wheel. Before there are other threads: they would share the driver.
    fn armed<F: Future>(&self, future: F) -> Task<F> {
        let mut task = Task::new(future);
        runtime::enter(self, || assert!(task.poll().is_pending(), "it should have to wait"));
        task
    }

    fn deadline(&self) -> Instant {
        self.now + LATER
    }

    fn sleep(&self) -> Task<Sleep> {
        self.armed(runtime::sleep_until(self.deadline()))
    }

    /// The time is over.
    fn expire(&self) -> Option<Instant> {
        self.timers.advance(self.now + 2 * LATER)
    }
}

impl Driver for Limits {
    fn task(&self) -> Option<TaskId> {
        None
    }

    fn timers(&self) -> Option<Arc<Timers>> {
        Some(self.timers.clone())
    }

    fn may_block(&self) -> bool {
        true
    }

    fn now(&self) -> Instant {
        self.now
    }
}

/// Something to wait for, and limits.
struct Site<T> {
    limits: Limits,
    object: T,
    data: Data,
}

fn site<T>(object: T) -> Site<T> {
    Site { limits: Limits::new(), object, data: Data::new() }
}

/// Ends a wait in two ways at once, in this order.
fn both<const EXPIRE_FIRST: bool>(limits: &Limits, grant: impl FnOnce()) {
    if EXPIRE_FIRST {
        limits.expire();
        grant();
    } else {
        grant();
        limits.expire();
    }
}

/// A lock that is granted as the time runs out: the first has it, or it never had; the next has it in the end.
fn mutex<P: Policy, const EXPIRE_FIRST: bool>(site: &'static Site<LogMutex<P>>, versus: Versus) {
    let held = site.object.try_lock().expect("no task holds it");
    let limited = site.limits.armed(site.object.lock().deadline(site.limits.deadline()));
    let next = Task::waiting(site.object.lock());
    let waiting = || {
        if let Ok(log) = limited.run() {
            log.sign('l');
        }
        next.run().sign('n');
    };
    versus.run(waiting, || both::<EXPIRE_FIRST>(&site.limits, || drop(held)));
    let log = at_rest(&site.object);
    assert!(["n", "ln"].contains(&log.as_str()), "{log}");
}

#[test]
fn a_deadline_before_the_unlock() {
    race(|| site(log_mutex::<Fifo>()), mutex::<Fifo, true>);
}

#[test]
fn a_deadline_after_the_unlock() {
    race(|| site(log_mutex::<Fifo>()), mutex::<Fifo, false>);
}

#[test]
fn a_deadline_with_bypass() {
    race(|| site(log_mutex::<Bypass<1>>()), mutex::<Bypass<1>, true>);
}

/// The same by a token, from another thread than the one that unlocks.
#[test]
fn a_token_races_the_unlock() {
    race(
        || site(log_mutex::<Fifo>()),
        |site, versus| {
            let held = site.object.try_lock().expect("no task holds it");
            let mut limited = Task::new(site.object.lock().or_cancelled(&site.limits.token));
            assert!(limited.poll().is_pending());
            let waiting = || {
                let granted = limited.run().map(|log| log.sign('l')).is_ok();
                lock_and_sign(&site.object, 'n');
                granted
            };
            let ending = || {
                site.limits.source.request_cancel();
                drop(held);
            };
            let (granted, ()) = versus.run(waiting, ending);
            assert_eq!(at_rest(&site.object), if granted { "ln" } else { "n" });
        },
    );
}

/// A big request runs out of time while permits come: it has them all, or the small one behind it is granted.
#[test]
fn a_deadline_races_permits() {
    race(
        || site(Semaphore::new(1)),
        |site, versus| {
            let semaphore = &site.object;
            let big = site.limits.armed(semaphore.acquire_many(2).deadline(site.limits.deadline()));
            let small = Task::waiting(semaphore.acquire());
            let waiting = || {
                drop(big.run());
                drop(small.run().expect("it is not closed"));
            };
            versus.run(waiting, || both::<true>(&site.limits, || semaphore.release(1)));
            assert_eq!(semaphore.available_permits(), 2);
        },
    );
}

/// A signal at the last moment is returned, or passed on, or there still.
fn event<const EXPIRE_FIRST: bool>(site: &'static Site<Event>, versus: Versus) {
    let limited = site.limits.armed(site.object.wait().deadline(site.limits.deadline()));
    let setting = || {
        site.data.add(1);
        site.object.set();
    };
    let (ended, ()) = versus.run(|| limited.run(), move || both::<EXPIRE_FIRST>(&site.limits, setting));
    assert_eq!(ended.is_err(), site.object.is_set(), "the signal is somewhere, once");
    assert_eq!(site.data.get(), 1);
}

#[test]
fn a_deadline_before_the_signal() {
    race(|| site(Event::auto()), event::<true>);
}

#[test]
fn a_deadline_after_the_signal() {
    race(|| site(Event::auto()), event::<false>);
}

/// A writer runs out of time as the reader leaves: the reader behind enters either way.
#[test]
fn a_deadline_races_the_last_reader() {
    race(
        || site(RwLock::new(Data::new())),
        |site, versus| {
            let reader = site.object.try_read().expect("no writer is inside");
            let writer = site.limits.armed(site.object.write().deadline(site.limits.deadline()));
            let behind = Task::waiting(site.object.read());
            let waiting = || {
                let wrote = writer.run().map(|data| data.add(1)).is_ok();
                assert_eq!(behind.run().get(), usize::from(wrote));
            };
            versus.run(waiting, || both::<true>(&site.limits, || drop(reader)));
            assert!(site.object.try_write().is_some(), "the lock was lost");
        },
    );
}

/// An upgrade runs out of time as the reader leaves: it is the writer, or has its guard back.
#[test]
fn a_deadline_races_an_upgrade() {
    race(
        || site(RwLock::new(Data::new())),
        |site, versus| {
            let reader = site.object.try_read().expect("no writer is inside");
            let upgradable = site.object.try_upgradable_read().expect("there is none");
            let upgrade = RwLockUpgradableReadGuard::upgrade(upgradable).deadline(site.limits.deadline());
            let mut upgrade = site.limits.armed(upgrade);
            let waiting = move || {
                let wrote = match upgrade.finish() {
                    Ok(data) => {
                        data.add(1);
                        true
                    }
                    Err(ended) => {
                        assert!(site.object.try_upgradable_read().is_none(), "it was not given back");
                        drop(ended.value);
                        false
                    }
                };
                // The future is still there, and holds nothing.
                let data = Task::new(site.object.write()).run();
                assert_eq!(data.get(), usize::from(wrote));
            };
            versus.run(waiting, || both::<true>(&site.limits, || drop(reader)));
            assert!(site.object.try_write().is_some(), "the lock was lost");
        },
    );
}

/// An arrival is withdrawn by its deadline, or was in time: then the other is not alone.
#[test]
fn a_deadline_races_the_last_arrival() {
    race(
        || site(Barrier::new(2)),
        |site, versus| {
            let limited = site.limits.armed(site.object.arrive_and_wait().deadline(site.limits.deadline()));
            let arriving = move || {
                let mut other = Task::new(site.object.arrive_and_wait());
                site.limits.expire();
                let arrived = matches!(other.poll(), Poll::Ready(result) if result.is_leader());
                drop(other);
                arrived
            };
            let (limited, arrived) = versus.run(|| limited.run().is_ok(), arriving);
            assert_eq!(limited, arrived, "both, or neither");
        },
    );
}

/// Two limits on one wait, and the grant: each ends it in its own way, and nothing is lost.
#[test]
fn two_limits_race() {
    race(
        || site(log_mutex::<Fifo>()),
        |site, versus| {
            let held = site.object.try_lock().expect("no task holds it");
            let limited =
                site.object.lock().deadline(site.limits.deadline()).or_cancelled(&site.limits.token);
            let limited = site.limits.armed(limited);
            let waiting = || {
                if let Ok(Ok(log)) = limited.run() {
                    log.sign('l');
                }
            };
            let ending = || {
                site.limits.expire();
                site.limits.source.request_cancel();
                drop(held);
            };
            versus.run(waiting, ending);
            let log = at_rest(&site.object);
            assert!(["", "l"].contains(&log.as_str()), "{log}");
        },
    );
}

/// A sleep is dropped while it is woken, among others that are not; more than one step of the wheel.
#[test]
fn a_sleep_is_dropped_while_it_ends() {
    race(
        || site(()),
        |site, versus| {
            let [a, b, c] = [(); 3].map(|()| site.limits.sleep());
            let sleeping = || {
                drop(a);
                b.run();
                drop(c);
            };
            versus.run(sleeping, || site.limits.expire());
            assert_eq!(site.limits.expire(), None, "no sleep is left");
        },
    );
}

/// What was done before the wheel was turned is seen by the task it wakes; also with another waker.
#[test]
fn another_waker_races_the_end_of_a_sleep() {
    race(
        || site(()),
        |site, versus| {
            let mut sleep = site.limits.sleep();
            let sleeping = move || {
                sleep.change_alarm();
                sleep.run();
                assert_eq!(site.data.get(), 1);
            };
            let turning = || {
                site.data.add(1);
                site.limits.expire();
            };
            versus.run(sleeping, turning);
        },
    );
}

/// Two turn the wheel: all are woken, once.
#[test]
fn two_turners() {
    race(
        || site(()),
        |site, versus| {
            let sleeps = [(); 3].map(|()| site.limits.sleep());
            versus.run(|| site.limits.expire(), || site.limits.expire());
            for mut sleep in sleeps {
                assert_eq!(sleep.rings(), 1);
                assert!(sleep.poll().is_ready());
            }
        },
    );
}

/// The turner goes to sleep as a newcomer comes: it has seen the newcomer, or is woken by the alarm.
#[test]
fn the_alarm_is_not_missed() {
    for turner_is_main in [true, false] {
        loom::model(move || {
            let parker = Parker::new();
            let limits = Arc::new(Limits::with_alarm(Waker::from(parker.unparker())));
            let (turned, armed) = (limits.clone(), limits);
            let turning = move || {
                while turned.timers.advance(turned.now).is_none() {
                    parker.park();
                }
            };
            let arming = move || armed.sleep();
            if turner_is_main {
                let sleep = spawn(arming);
                turning();
                drop(join([sleep]));
            } else {
                let turner = spawn(turning);
                let sleep = arming();
                join([turner]);
                drop(sleep);
            }
        });
    }
}
