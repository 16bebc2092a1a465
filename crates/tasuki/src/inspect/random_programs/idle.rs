//! Waits that only the next poll of their future can end, and that their task does not poll: they change nothing in the reference model of a program. And limits that are reached.

use super::{Program, Rng, TASKS};
use crate::inspect::tests::Actor;
use crate::policy::Revocable;
use crate::runtime::sleep;
use crate::{CancellationSource, Event, Mutex, Semaphore};
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use std::boxed::Box;
use std::format;
use std::time::Duration;

/// A wait that is kept.
pub(super) type Idle = Pin<Box<dyn Future<Output = ()>>>;

/// A wait for a mutex of its own that was granted to it, and then revoked.
fn revoked(actor: Actor) -> Idle {
    let mutex = Arc::new(Mutex::<(), Revocable>::with_policy(()));
    let lock = || {
        let mutex = mutex.clone();
        Box::pin(async move { drop(mutex.lock_owned().await) })
    };
    let held = mutex.try_lock().expect("it is free");
    let (mut kept, mut sibling) = (lock(), lock());
    assert!(actor.poll(kept.as_mut()).is_pending() && actor.poll(sibling.as_mut()).is_pending());
    drop(held);
    // The third poll that finds the grant takes it over.
    while actor.poll(sibling.as_mut()).is_pending() {}
    kept
}

/// A wait that this task begins, and whose end comes then.
fn came(actor: Actor, wait: impl Future<Output = ()> + 'static, ends: impl FnOnce()) -> Idle {
    let mut kept: Idle = Box::pin(wait);
    assert!(actor.poll(kept.as_mut()).is_pending());
    ends();
    kept
}

/// One of each kind.
fn any(actor: Actor, kind: usize) -> (&'static str, Idle) {
    let (event, source, pool) =
        (Arc::new(Event::manual()), CancellationSource::new(), Arc::new(Semaphore::new(0)));
    let (token, (sender, receiver)) = (source.token(), crate::channel::unbounded::<u32>());
    match kind {
        0 => ("was revoked", revoked(actor)),
        1 => {
            let waited = event.clone();
            ("had its signal", came(actor, async move { waited.wait().await }, || event.set()))
        }
        2 => {
            let receive = async move { _ = receiver.recv().await };
            ("has its message", came(actor, receive, || assert!(sender.try_send(1).is_ok())))
        }
        3 => {
            let wait = async move { token.on_cancel().await };
            ("was cancelled", came(actor, wait, || source.request_cancel()))
        }
        4 => {
            let refused = pool.clone();
            let acquire = async move { _ = refused.acquire_owned().await };
            ("was refused", came(actor, acquire, || _ = pool.close()))
        }
        _ => ("never ends", came(actor, async { sleep(Duration::MAX).await }, || ())),
    }
}

impl Program {
    /// A task has a wait that no event ends, or one of these is dropped.
    pub(super) fn idle(&mut self, rng: &mut Rng) {
        if !self.idle.is_empty() && rng.one_in(2) {
            self.note("a wait that was not polled is dropped".into());
            drop(self.idle.swap_remove(rng.below(self.idle.len())));
            return;
        }
        let task = rng.below(TASKS);
        let (what, wait) = any(self.actors[task], rng.below(6));
        self.note(format!("task {task} keeps a wait that {what}"));
        self.idle.push(wait);
    }

    /// The limit of a wait is reached, and the wait not polled: it is as one without a limit, until a poll finds the limit.
    pub(super) fn reach(&mut self, rng: &mut Rng) {
        let limited = self.waiting.iter_mut().filter(|waiting| waiting.is_limited);
        let mut limited = limited.filter(|waiting| waiting.source.is_some());
        let Some(waiting) = limited.nth(usize::from(rng.one_in(2))) else { return };
        waiting.is_limited = false;
        waiting.source.iter().for_each(CancellationSource::request_cancel);
        let (number, task, lock) = (waiting.number, waiting.task, waiting.lock);
        self.note(format!("{number}: its limit is reached"));
        self.reference.others[task] -= 1;
        let queued = self.reference.locks[lock].queue.iter_mut().find(|queued| queued.number == number);
        queued.into_iter().for_each(|queued| queued.is_limited = false);
    }
}
