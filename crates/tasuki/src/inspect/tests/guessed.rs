//! Tasks without an identity, told apart by their wakers: every report of them is `Suspected`.

use super::{Actor, tasks};
use crate::inspect::Certainty;
use crate::{Mutex, RwLock, Semaphore};
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use std::boxed::Box;
use std::string::ToString;

fn ready<F: Future>(actor: Actor, future: F) -> F::Output {
    match actor.poll(pin!(future)) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it was not to wait"),
    }
}

/// Guards are used between polls, where it is not known which task runs.
#[test]
fn two_locks_in_opposite_order() {
    let (one, two) = (Actor::guessed(), Actor::guessed());
    let (a, b) = (Mutex::new(0).named("a"), Mutex::new(0));
    let (mut held_a, mut held_b) = (ready(one, a.lock()), ready(two, b.lock()));
    *held_a += 1;
    *held_b += 1;
    let (mut wants_b, mut wants_a) = (Box::pin(b.lock()), Box::pin(a.lock()));
    one.waits(wants_b.as_mut());
    assert!(one.deadlock().is_none());
    two.waits(wants_a.as_mut());
    *held_a += 1;
    let found = one.deadlock().expect("they wait for each other");
    assert_eq!((found.certainty, found.hops.len()), (Certainty::Suspected, 2));
    let text = found.to_string();
    assert!(text.starts_with("suspected deadlock: 2 tasks wait for each other"), "{text}");
    assert!(text.contains("the mutex `a`, which the task of waker 0x"), "{text}");
    drop(held_b);
    assert!(one.deadlock().is_none() && two.deadlock().is_none());
}

/// A cycle of tasks with an identity and one without is only suspected, too.
#[test]
fn one_of_them_has_an_identity() {
    let (known, guessed) = (Actor::new(), Actor::guessed());
    let (a, b) = (Mutex::new(0), RwLock::new(0));
    let (_held_a, _held_b) = (ready(known, a.lock()), ready(guessed, b.read()));
    let (mut wants_b, mut wants_a) = (Box::pin(b.write()), Box::pin(a.lock()));
    known.waits(wants_b.as_mut());
    guessed.waits(wants_a.as_mut());
    let found = known.deadlock().expect("they wait for each other");
    assert_eq!((found.certainty, found.hops.len()), (Certainty::Suspected, 2));
}

/// A granted future that its task does not poll, while it waits by another.
#[test]
fn futurelock() {
    let _slots = super::SLOTS.read();
    let (holder, me) = (Actor::guessed(), Actor::guessed());
    let mutex = Mutex::new(0);
    let held = ready(holder, mutex.lock());
    let (mut first, mut second) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
    me.waits(first.as_mut());
    me.waits(second.as_mut());
    drop(held);
    let found = me.deadlock().expect("its own grant is in the way");
    assert_eq!((found.certainty, tasks(&found).len()), (Certainty::Suspected, 1));
    assert!(me.poll(first.as_mut()).is_ready());
}

/// A guard that a task with an identity uses is that task's.
#[test]
fn a_guard_that_was_sent_to_a_task_with_an_identity() {
    let (taker, user) = (Actor::guessed(), Actor::new());
    let mutex = Mutex::new(0);
    let mut held = ready(taker, mutex.lock());
    user.run(|| *held += 1);
    let mut again = Box::pin(mutex.lock());
    taker.waits(again.as_mut());
    assert!(taker.deadlock().is_none(), "another task has the guard");
    *held += 1;
    assert!(taker.deadlock().is_none(), "it is not known which task used it");
}

/// What was taken outside of a poll of a wait is held by an unknown task.
#[test]
fn what_is_not_polled_is_not_known() {
    let me = Actor::guessed();
    let (mutex, semaphore) = (Mutex::new(0), Semaphore::new(1));
    let (_held, _permit) = (mutex.try_lock().unwrap(), semaphore.try_acquire().unwrap());
    let (mut lock, mut permit) = (Box::pin(mutex.lock()), Box::pin(semaphore.acquire()));
    me.waits(lock.as_mut());
    assert!(me.deadlock().is_none());
    drop(lock);
    me.waits(permit.as_mut());
    assert!(me.deadlock().is_none());
}

/// All tasks that are polled with a waker that does nothing would be one.
#[test]
fn a_waker_without_an_address() {
    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }
    let mutex = Mutex::new(0).named("of no waker");
    let Poll::Ready(_held) = poll(pin!(mutex.lock())) else { panic!("it is free") };
    let mut again = Box::pin(mutex.lock());
    assert!(poll(again.as_mut()).is_pending());
    let found = crate::inspect::deadlocks();
    let is_it = |name: Option<&str>| name == Some("of no waker");
    assert!(!found.iter().any(|one| one.hops.iter().any(|hop| is_it(hop.lock.name))));
}
