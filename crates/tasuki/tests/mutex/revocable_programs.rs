//! `Revocable` and a condvar in random programs: tasks keep futures without polling them, of the mutex and of the condvar, and notify, lock, drop and end. Afterwards every task that is left asks for the lock, and must get it.

use crate::kit::poll::{pending, ready};
use crate::kit::rng::{Rng, Seed};
use crate::kit::waker::Spy;
use crate::kit::watchdog::watchdog;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tasuki::policy::Revocable;
use tasuki::runtime::poll_ended;
use tasuki::{Condvar, Mutex, MutexGuard, OwnedMutexGuard, task};

type Shared = Arc<Mutex<(), Revocable>>;
type Waiting<'c, G> = Pin<Box<dyn Future<Output = G> + 'c>>;

/// A guard that borrows the mutex, or keeps a handle of it.
trait Held<'c>: Sized + 'c {
    /// Does the end of a poll revoke a grant that was left unclaimed?
    const IS_REVOKED_BY_POLLS: bool;

    fn lock(mutex: &'c Shared) -> Waiting<'c, Self>;
    fn try_lock(mutex: &'c Shared) -> Option<Self>;
    fn wait(self, condvar: &'c Condvar) -> Waiting<'c, Self>;
}

impl<'c> Held<'c> for OwnedMutexGuard<(), Revocable> {
    const IS_REVOKED_BY_POLLS: bool = true;

    fn lock(mutex: &'c Shared) -> Waiting<'c, Self> {
        Box::pin(mutex.clone().lock_owned())
    }

    fn try_lock(mutex: &'c Shared) -> Option<Self> {
        mutex.clone().try_lock_owned()
    }

    fn wait(self, condvar: &'c Condvar) -> Waiting<'c, Self> {
        Box::pin(condvar.wait(self))
    }
}

impl<'c> Held<'c> for MutexGuard<'c, (), Revocable> {
    const IS_REVOKED_BY_POLLS: bool = false;

    fn lock(mutex: &'c Shared) -> Waiting<'c, Self> {
        Box::pin(mutex.lock())
    }

    fn try_lock(mutex: &'c Shared) -> Option<Self> {
        mutex.try_lock()
    }

    fn wait(self, condvar: &'c Condvar) -> Waiting<'c, Self> {
        Box::pin(condvar.wait(self))
    }
}

/// What a task has.
struct Belongings<'c, G> {
    /// Polled once or more, and perhaps never again.
    kept: Vec<Waiting<'c, G>>,
    /// Polled each time.
    awaited: Option<Waiting<'c, G>>,
    guard: Option<G>,
    /// It does nothing but await.
    is_honest: bool,
}

impl<G> Default for Belongings<'_, G> {
    fn default() -> Self {
        Self { kept: Vec::new(), awaited: None, guard: None, is_honest: false }
    }
}

impl<'c, G: Held<'c>> Belongings<'c, G> {
    fn poll(&mut self, mutex: &'c Shared, condvar: &'c Condvar, rng: &mut Rng, cx: &mut Context<'_>) {
        if let Some(Poll::Ready(guard)) = self.awaited.as_mut().map(|awaited| awaited.as_mut().poll(cx)) {
            self.awaited = None;
            if self.is_honest && !G::IS_REVOKED_BY_POLLS {
                // It does not ask again, so it lets go of what it keeps.
                self.kept.clear();
            }
            self.guard = Some(guard).filter(|_| !self.is_honest && rng.below(2) == 0);
        }
        for _ in 0..if self.is_honest { 0 } else { rng.below(3) } {
            self.act(mutex, condvar, rng, cx);
        }
    }

    fn act(&mut self, mutex: &'c Shared, condvar: &'c Condvar, rng: &mut Rng, cx: &mut Context<'_>) {
        match rng.below(10) {
            0 | 1 => self.keep(G::lock(mutex), cx),
            2 => {
                if let Some(guard) = self.guard.take() {
                    self.keep(guard.wait(condvar), cx);
                }
            }
            3 => condvar.notify_one(),
            4 => condvar.notify_all(),
            5 => self.guard = None,
            6 if self.guard.is_none() => self.guard = G::try_lock(mutex),
            7 => drop(self.any(rng)),
            8 if self.awaited.is_none() => self.awaited = self.any(rng),
            _ => {
                if let Some(kept) = self.any(rng) {
                    self.keep(kept, cx);
                }
            }
        }
    }

    fn any(&mut self, rng: &mut Rng) -> Option<Waiting<'c, G>> {
        (!self.kept.is_empty()).then(|| self.kept.swap_remove(rng.below(self.kept.len())))
    }

    fn keep(&mut self, mut future: Waiting<'c, G>, cx: &mut Context<'_>) {
        match future.as_mut().poll(cx) {
            Poll::Ready(guard) => self.guard = Some(guard),
            Poll::Pending => self.kept.push(future),
        }
    }
}

/// One program; false if a task waits for ever.
fn ends<'c, G: Held<'c>>(mutex: &'c Shared, condvar: &'c Condvar, rng: Rng) -> bool {
    let rng = RefCell::new(rng);
    let count = 2 + rng.borrow_mut().below(4);
    let tasks: Vec<RefCell<Belongings<'c, G>>> = (0..count).map(|_| RefCell::default()).collect();
    let spies: Vec<Spy> = (0..count).map(|_| Spy::new()).collect();
    let (all, rng) = (&tasks, &rng);
    let spawn = |at: usize| {
        let step = move |cx: &mut Context<'_>| {
            all[at].borrow_mut().poll(mutex, condvar, &mut rng.borrow_mut(), cx);
            Poll::<()>::Pending
        };
        Some(Box::pin(task::identify(poll_fn(step))))
    };
    let mut running: Vec<_> = (0..count).map(spawn).collect();
    let steps = 5 + rng.borrow_mut().below(60);
    for _ in 0..steps {
        let at = rng.borrow_mut().below(count);
        pending(running[at].as_mut().unwrap(), &spies[at]);
    }
    for (at, belongings) in tasks.iter().enumerate() {
        let ended = rng.borrow_mut().below(4) == 0;
        if ended {
            running[at] = None;
            *belongings.borrow_mut() = Belongings::default();
            continue;
        }
        let mut belongings = belongings.borrow_mut();
        belongings.is_honest = true;
        belongings.guard = None;
        belongings.awaited.get_or_insert_with(|| G::lock(mutex));
    }
    // Each is polled when it was woken. One that awaits the condvar goes on by a notification.
    let mut seen = vec![usize::MAX; count];
    let mut is_quiet = false;
    while !is_quiet {
        is_quiet = true;
        for (at, running) in running.iter_mut().enumerate() {
            let Some(running) = running else { continue };
            if std::mem::replace(&mut seen[at], spies[at].wakes()) != seen[at] {
                is_quiet = false;
                pending(running, &spies[at]);
            }
        }
        condvar.notify_all();
        is_quiet &= spies.iter().zip(&seen).all(|(spy, seen)| *seen == usize::MAX || spy.wakes() == *seen);
    }
    tasks.iter().all(|task| task.borrow().awaited.is_none())
}

#[test]
fn every_task_that_asks_gets_the_lock() {
    let _dog = watchdog(60);
    let seed = Seed::pick();
    let mut rng = seed.rng();
    for program in 0..if cfg!(miri) { 20 } else { 4000 } {
        let inner = Rng::new(rng.next());
        let (mutex, condvar) = (Shared::new(Mutex::with_policy(())), Condvar::new());
        assert!(
            ends::<OwnedMutexGuard<(), Revocable>>(&mutex, &condvar, inner.clone()),
            "program {program}, {inner:?}: a task waits for ever"
        );
        let (mutex, condvar) = (Shared::new(Mutex::with_policy(())), Condvar::new());
        assert!(
            ends::<MutexGuard<'_, (), Revocable>>(&mutex, &condvar, inner.clone()),
            "program {program}, {inner:?}: a task waits for ever, without handles of the mutex"
        );
    }
}

/// How a task leaves a wait of a condvar that another task has moved to the mutex's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaves {
    /// It is polled, and does not poll the wait.
    Kept,
    Ended,
    /// The wait was polled by another task since, which keeps it as well.
    ToAnother,
}

/// A `notify_all` makes another waiter move this wait to the mutex's queue, where it is granted the mutex without having been polled there: its task is known all the same.
#[test]
fn a_wait_of_a_condvar_that_another_has_moved() {
    let _dog = watchdog(10);
    for leaves in [Leaves::Kept, Leaves::Ended, Leaves::ToAnother] {
        let (mutex, condvar, [first_spy, spy, heir_spy]) =
            (Shared::new(Mutex::with_policy(())), Condvar::new(), Spy::many());
        let mut first = Box::pin(condvar.wait(mutex.clone().try_lock_owned().unwrap()));
        pending(&mut first, &first_spy);
        let wait = RefCell::new(Box::pin(condvar.wait(mutex.clone().try_lock_owned().unwrap())));
        let polls_it = |spy: &Spy| {
            let step = |cx: &mut Context<'_>| wait.borrow_mut().as_mut().poll(cx).map(drop);
            let mut task = Box::pin(task::identify(poll_fn(step)));
            pending(&mut task, spy);
            task
        };
        let mut tasks = vec![polls_it(&spy)];
        if leaves == Leaves::ToAnother {
            tasks.push(polls_it(&heir_spy));
        }
        let last = tasks.last().unwrap().id();
        condvar.notify_all();
        drop(ready(&mut first));
        assert!(mutex.is_locked(), "granted to the wait that was moved");
        if leaves == Leaves::Ended {
            tasks.clear();
        } else {
            (0..2).for_each(|_| poll_ended(last, &spy.waker()));
        }
        assert!(!mutex.is_locked(), "{leaves:?}");
        drop(ready(&mut wait.borrow_mut()));
    }
}
