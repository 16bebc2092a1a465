//! Shutdown, from the worker's side: each drops the tasks pinned to it, and the first and the last one all others. The steps are in docs/scheduler.md.
//!
//! How far it has come is [`progress`]. Every future is dropped on a thread that may, in its context; no worker leaves while a task of its own exists.

pub(crate) mod abandoned_wheel;
pub(crate) mod progress;

use super::worker::Local;
use super::{Item, Shared, UnstartedWorker};
use crate::context::{Context, ThreadRole};
use crate::task::registry::Registry;
use crate::task::{TaskCell, contain_panic, drop_foreign};
use crate::task_local::outside_of_scopes;
use abandoned_wheel::AbandonedWheel;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// How long a leaving worker sleeps while a task that was woken elsewhere is still on its way.
const ON_ITS_WAY: Duration = Duration::from_micros(100);

/// How long the worker that stays and the last one sleep, at most, before they look for tasks to drop and for deadlines again: the one while a worker is in a poll, the other while blocking work runs. A poll that goes on for
/// so long is long.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A runtime that was never started, or not wholly: the caller leaves for each worker in turn.
///
/// It does not wait for blocking work, which may be its own, or take longer than it may wait: the last thread of that work says that the worker has ended.
pub(crate) fn leave_unstarted(shared: &Arc<Shared>, unstarted: Vec<UnstartedWorker>) {
    for worker in unstarted {
        let local = Box::new(Local::new(shared, worker));
        let wheel =
            leave_by(Context::new(shared.clone(), ThreadRole::Worker(local)), |context, local, is_last| {
                if is_last {
                    drop_others(context, local, || shared.task_counts.others_of_workers() == 0);
                }
            });
        if !shared.blocking.ends_worker() {
            shared.shutdown.has_ended();
        }
        contain_panic(|| leave_to_others(wheel));
    }
}

/// Steps 3 to 5 of a shutdown, for one worker; what is left of it are its sleeps.
pub(crate) fn leave(context: Context) -> Option<AbandonedWheel> {
    leave_by(context, |context, local, is_last| {
        let shared = &context.shared;
        if is_last {
            drop_others(context, local, || shared.task_counts.others() == 0);
            // Those that are left are idle, and end.
            while shared.blocking.wait(local.advance_leaving(shared, LOOK_AGAIN)) {}
        } else if shared.shutdown.stays() {
            wait_for_others(context, local);
        }
    })
}

/// The same on a thread that goes on: that of a `LocalRuntime`.
pub(crate) fn leave_here(context: Context) {
    let wheel = leave(context);
    if thread::panicking() { contain_panic(|| leave_to_others(wheel)) } else { leave_to_others(wheel) }
}

/// Panics if the system refuses every thread for it.
fn leave_to_others(wheel: Option<AbandonedWheel>) {
    if let Some(wheel) = wheel {
        wheel.leave_to_others();
    }
}

/// `stay` is told whether this worker is the last to leave home.
fn leave_by(context: Context, stay: impl FnOnce(&Context, &Local, bool)) -> Option<AbandonedWheel> {
    let drop_tasks = || {
        let ThreadRole::Worker(local) = &context.role else { unreachable!("only workers leave") };
        drop_own(&context, local);
        let is_last = context.shared.shutdown.left_home();
        if is_last {
            (0..context.shared.workers()).for_each(|worker| context.shared.unpark(worker));
        }
        stay(&context, local, is_last);
    };
    outside_of_scopes(|| context.enter(drop_tasks));
    let Context { role, .. } = context;
    let ThreadRole::Worker(local) = role else { unreachable!("only workers leave") };
    AbandonedWheel::of(*local)
}

/// Drops all tasks pinned here, then everything else that is in this worker's places.
fn drop_own(context: &Context, local: &Local) {
    let shared = &context.shared;
    shared.registry.wake_pinned(local.index);
    loop {
        while let Some(item) = local.take_own(shared) {
            drop_item(context, item);
        }
        if shared.task_counts.pinned(local.index) == 0 {
            break;
        }
        local.parker.park_timeout(local.advance_leaving(shared, ON_ITS_WAY));
    }
    close_inbox(context, local);
}

/// What the thread is called that advances the wheels beside destructors.
const MINDER: &str = "tasuki-rt-timers";

/// Drops tasks beside a poll, or blocking work, that goes on: that may wait for a sleep by another executor, and a destructor for it, by a lock say. `work` calls its argument before the first such
/// destructor: from then on a thread advances all wheels, if there is a deadline on one, until `work` is over. If the system refuses the thread, only this worker does, between two destructors.
fn beside_minded_wheels(shared: &Shared, work: impl FnOnce(&mut dyn FnMut())) {
    struct Over<'a>(&'a AtomicBool, Option<Thread>);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            // Relaxed: publishes nothing; the scope waits for the thread.
            self.0.store(true, Ordering::Relaxed);
            self.1.iter().for_each(Thread::unpark);
        }
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut over = Over(&is_over, None);
        work(&mut || {
            // Relaxed: as above.
            let mind = || shared.advance_all_until(LOOK_AGAIN, || is_over.load(Ordering::Relaxed));
            if over.1.is_none() && shared.next_of_all_wheels().is_some() {
                let minder = thread::Builder::new().name(MINDER.into()).spawn_scoped(scope, mind).ok();
                over.1 = minder.map(|minder| minder.thread().clone());
            }
        });
    });
}

/// Minds the wheels until no worker is in a poll: a sleep that was carried out of the runtime does not wait for the end of that poll, and the poll may wait for a sleep by another executor. So it is with what the tasks own that
/// are not pinned: they are dropped here if the poll is long.
fn wait_for_others(context: &Context, local: &Local) {
    beside_minded_wheels(&context.shared, |mind| drop_beside_polls(context, local, mind));
}

/// `mind_wheels` is called before the first task is dropped while a worker is in a poll.
fn drop_beside_polls(context: &Context, local: &Local, mind_wheels: &mut dyn FnMut()) {
    let shared = &context.shared;
    // Not at once: most polls end soon, and destructors of tasks that are pinned elsewhere find their sockets open.
    let long_from = Instant::now() + LOOK_AGAIN;
    let mut woken_with = None;
    loop {
        let at_home = shared.shutdown.at_home();
        if at_home == 0 {
            break;
        }
        let pause = local.advance_leaving(shared, LOOK_AGAIN);
        let is_long = long_from <= Instant::now();
        if is_long {
            mind_wheels();
            // Again whenever another worker has left: it may have polled one of them meanwhile, or for the first time, and left it waiting.
            if woken_with.replace(at_home) != Some(at_home) {
                wake_others(context, Registry::wake_others_early);
            }
            drop_arrived(context, local);
            while let Some(item) = local.take_of_others(shared) {
                drop_item(context, item);
                drop_arrived(context, local);
            }
        }
        local.parker.park_timeout(pause);
    }
    // The last worker would not find them here.
    drop_arrived(context, local);
}

/// No pinned task is left: nothing more is taken, and what was is dropped.
pub(super) fn close_inbox(context: &Context, local: &Local) {
    let shared = &context.shared;
    shared.remotes[local.index].inbox.close();
    // Not only from the inbox: a closure that was posted at the last moment may wake a task by its drop, which is then ours.
    while let Some(item) = local.take_own(shared) {
        drop_item(context, item);
    }
}

/// Wakes all tasks that are not pinned and wait, to be dropped as they arrive, and drops the blocking work that has not begun.
fn wake_others(context: &Context, wake: impl FnOnce(&Registry<TaskCell>)) {
    let shared = &context.shared;
    // Before blocking work is waited for: it may wait for a socket.
    shared.sockets.close();
    wake(&shared.registry);
    for work in shared.blocking.close() {
        drop_item(context, Item::Task(work));
    }
}

/// Drops what has come to this worker, and to the queue of all.
fn drop_arrived(context: &Context, local: &Local) {
    let shared = &context.shared;
    let take = || local.take_own(shared).or_else(|| shared.global.take(1, 0, |_| ()).map(Item::Task));
    while let Some(item) = take() {
        drop_item(context, item);
    }
}

/// The last worker drops the tasks that are not pinned, until it has dropped all.
fn drop_others(context: &Context, local: &Local, dropped_all: impl Fn() -> bool) {
    let shared = &context.shared;
    beside_minded_wheels(shared, |mind_wheels| {
        if shared.blocking.is_busy() {
            mind_wheels();
        }
        wake_others(context, Registry::wake_others);
        loop {
            let pause = local.advance_leaving(shared, LOOK_AGAIN);
            drop_arrived(context, local);
            if dropped_all() {
                break;
            }
            if !shared.blocking.wait(pause) {
                local.parker.park_timeout(pause.min(ON_ITS_WAY));
            }
        }
    });
}

/// Drops a task, under its name, or a closure that will not be called.
pub(crate) fn drop_item(context: &Context, item: Item) {
    match item {
        Item::Task(runnable) => {
            let id = runnable.metadata().id;
            context.poll(id, || drop(runnable));
        }
        Item::Job(job) => drop_foreign(job),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::Builder;
    use crate::context::SpawnSite;
    use crate::runtime::spawn_in;
    use crate::scheduler::worker::run_task;
    use std::future::pending;

    /// A worker has taken a task before the shutdown, and polls it after the one that stays has woken all: it is dropped when that worker has left, though a third one is in a poll.
    #[test]
    fn a_task_that_is_polled_late_does_not_wait_for_a_long_poll() {
        let (shared, unstarted) = Shared::new(&Builder::with_workers(3));
        let [in_poll, late, stays] = unstarted.try_into().unwrap_or_else(|_| unreachable!("three workers"));
        let enter =
            |worker| Context::new(shared.clone(), ThreadRole::Worker(Box::new(Local::new(&shared, worker))));
        let spawn = || spawn_in(&shared, pending::<()>(), SpawnSite::here()).handle();
        let take = || shared.global.take(1, 0, |_| ()).expect("just spawned");
        let (waits, late) = (spawn(), enter(late));
        late.enter(|| run_task(&late, take()));
        let polled_late = spawn();
        let in_hand = take();
        shared.close();
        thread::scope(|scope| {
            scope.spawn(|| leave(enter(stays)));
            while !waits.is_finished() {
                thread::yield_now();
            }
            late.enter(|| run_task(&late, in_hand));
            leave(late);
            let deadline = Instant::now() + Duration::from_secs(10);
            while !polled_late.is_finished() && Instant::now() < deadline {
                thread::yield_now();
            }
            let is_dropped = polled_late.is_finished();
            leave(enter(in_poll));
            assert!(is_dropped);
        });
    }
}
