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
use tasuki::{Condvar, Mutex, OwnedMutexGuard, task};

type Shared = Arc<Mutex<(), Revocable>>;
type Held = OwnedMutexGuard<(), Revocable>;
type Waiting<'c> = Pin<Box<dyn Future<Output = Held> + 'c>>;

/// What a task has.
#[derive(Default)]
struct Belongings<'c> {
    /// Polled once or more, and perhaps never again.
    kept: Vec<Waiting<'c>>,
    /// Polled each time.
    awaited: Option<Waiting<'c>>,
    guard: Option<Held>,
    /// It does nothing but await.
    is_honest: bool,
}

impl<'c> Belongings<'c> {
    fn poll(&mut self, mutex: &Shared, condvar: &'c Condvar, rng: &mut Rng, cx: &mut Context<'_>) {
        if let Some(Poll::Ready(guard)) = self.awaited.as_mut().map(|awaited| awaited.as_mut().poll(cx)) {
            self.awaited = None;
            self.guard = Some(guard).filter(|_| !self.is_honest && rng.below(2) == 0);
        }
        for _ in 0..if self.is_honest { 0 } else { rng.below(3) } {
            self.act(mutex, condvar, rng, cx);
        }
    }

    fn act(&mut self, mutex: &Shared, condvar: &'c Condvar, rng: &mut Rng, cx: &mut Context<'_>) {
        match rng.below(10) {
            0 | 1 => self.keep(Box::pin(mutex.clone().lock_owned()), cx),
            2 => {
                if let Some(guard) = self.guard.take() {
                    self.keep(Box::pin(condvar.wait(guard)), cx);
                }
            }
            3 => condvar.notify_one(),
            4 => condvar.notify_all(),
            5 => self.guard = None,
            6 if self.guard.is_none() => self.guard = mutex.clone().try_lock_owned(),
            7 => drop(self.any(rng)),
            8 if self.awaited.is_none() => self.awaited = self.any(rng),
            _ => {
                if let Some(kept) = self.any(rng) {
                    self.keep(kept, cx);
                }
            }
        }
    }

    fn any(&mut self, rng: &mut Rng) -> Option<Waiting<'c>> {
        (!self.kept.is_empty()).then(|| self.kept.swap_remove(rng.below(self.kept.len())))
    }

    fn keep(&mut self, mut future: Waiting<'c>, cx: &mut Context<'_>) {
        match future.as_mut().poll(cx) {
            Poll::Ready(guard) => self.guard = Some(guard),
            Poll::Pending => self.kept.push(future),
        }
    }
}

/// One program; false if a task waits for ever.
fn ends(rng: Rng) -> bool {
    let (mutex, condvar, rng): (Shared, _, _) =
        (Arc::new(Mutex::with_policy(())), Condvar::new(), RefCell::new(rng));
    let count = 2 + rng.borrow_mut().below(4);
    let tasks: Vec<RefCell<Belongings<'_>>> = (0..count).map(|_| RefCell::default()).collect();
    let spies: Vec<Spy> = (0..count).map(|_| Spy::new()).collect();
    let (all, mutex, condvar, rng) = (&tasks, &mutex, &condvar, &rng);
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
        belongings.awaited.get_or_insert_with(|| Box::pin(mutex.clone().lock_owned()));
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
        assert!(ends(inner.clone()), "program {program}, {inner:?}: a task waits for ever");
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
