//! Shutdown, from the worker's side: each drops the tasks pinned to it, and the last one all others. The steps are in docs/scheduler.md.
//!
//! How far it has come is [`progress`]. Every future is dropped on a thread that may, in its context; no worker leaves while a task of its own exists.

pub(crate) mod progress;

use super::worker::Local;
use super::{Item, Shared, UnstartedWorker};
use crate::context::{Context, ThreadRole};
use crate::task::contain_panic;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tasuki::Parker;
use tasuki::runtime::Timers;

/// How long a leaving worker sleeps while a task that was woken elsewhere is still on its way.
const ON_ITS_WAY: Duration = Duration::from_micros(100);

/// How long the last worker sleeps, at most, while blocking work runs, before it looks for tasks to drop again.
const BLOCKING_WORK: Duration = Duration::from_millis(5);

/// A runtime that was never started: the caller leaves for each worker in turn.
pub(crate) fn leave_unstarted(shared: &Arc<Shared>, unstarted: Vec<UnstartedWorker>) {
    for worker in unstarted {
        let local = Box::new(Local::new(shared, worker));
        leave(Context::new(shared.clone(), ThreadRole::Worker(local)));
        shared.shutdown.has_ended();
    }
}

/// Steps 3 to 6 of a shutdown, for one worker.
pub(crate) fn leave(context: Context) {
    context.enter(|| {
        let ThreadRole::Worker(local) = &context.role else { unreachable!("only workers leave") };
        drop_own(&context, local);
        if context.shared.shutdown.left_home() {
            drop_others(&context, local);
        }
    });
    let Context { role, .. } = context;
    let ThreadRole::Worker(local) = role else { unreachable!("only workers leave") };
    let Local { timers, parker, .. } = *local;
    keep_turning(timers, parker);
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
        local.parker.park_timeout(ON_ITS_WAY);
    }
    close_inbox(context, local);
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

/// The last worker drops the tasks that are not pinned.
fn drop_others(context: &Context, local: &Local) {
    let shared = &context.shared;
    // Before blocking work is waited for: it may wait for a socket.
    shared.sockets.close();
    shared.registry.wake_others();
    for work in shared.blocking.close() {
        drop_item(context, Item::Task(work));
    }
    loop {
        while let Some(item) =
            local.take_own(shared).or_else(|| shared.global.take(1, 0, |_| ()).map(Item::Task))
        {
            drop_item(context, item);
        }
        if shared.task_counts.others() == 0 {
            break;
        }
        if !shared.blocking.wait(BLOCKING_WORK) {
            local.parker.park_timeout(ON_ITS_WAY);
        }
    }
    // Those that are left are idle, and end.
    while shared.blocking.wait(BLOCKING_WORK) {}
}

/// Drops a task, under its name, or a closure that will not be called.
pub(crate) fn drop_item(context: &Context, item: Item) {
    match item {
        Item::Task(runnable) => {
            let id = runnable.metadata().id;
            context.poll(id, || drop(runnable));
        }
        Item::Job(job) => contain_panic(|| drop(job)),
    }
}

/// The sleeps left on the wheel belong to futures that were carried elsewhere: a thread wakes them, and ends with the last, also when that is
/// cancelled. Or to tasks that the last worker is about to drop.
fn keep_turning(timers: Arc<Timers>, parker: Parker) {
    timers.ring_when_empty();
    if turn(&timers).is_none() {
        return;
    }
    let turn = move || {
        while let Some(next) = turn(&timers) {
            parker.park_deadline(next);
        }
    };
    let started = thread::Builder::new().name("tasuki-rt-timers".into()).spawn(turn);
    drop(started);
}

/// Wakes the sleeps of a wheel that are due, and says when the next one is.
fn turn(timers: &Timers) -> Option<Instant> {
    // A waker that panics is its owner's mistake; come back at once for the others.
    let now = Instant::now();
    let mut next = Some(now);
    contain_panic(|| next = timers.advance(now));
    next
}
