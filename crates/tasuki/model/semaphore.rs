//! The semaphore: counting, weights, closing, cancelled waits.

use crate::support::{Data, Task, join, model, spawn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use tasuki::policy::{Fifo, SemaphorePolicy};
use tasuki::{Closed, Semaphore, TryAcquireError};

/// A semaphore, and what is done before permits are given.
pub(crate) struct Supply<P: SemaphorePolicy> {
    pub(crate) semaphore: Semaphore<P>,
    pub(crate) data: Data,
    more: Data,
    /// Counts without ordering anything: loom does not see it.
    count: AtomicUsize,
}

pub(crate) fn supply<P: SemaphorePolicy, const N: usize>() -> Supply<P> {
    let semaphore = Semaphore::with_policy(N);
    Supply { semaphore, data: Data::new(), more: Data::new(), count: AtomicUsize::new(0) }
}

impl<P: SemaphorePolicy> Supply<P> {
    pub(crate) fn write_and_release(&self, permits: usize) {
        self.data.add(1);
        self.semaphore.release(permits);
    }

    /// No waiter is queued, and so many permits are free; anything else fails.
    pub(crate) fn at_rest(&self, permits: usize) {
        assert_eq!(self.semaphore.available_permits(), permits);
        let all = self.semaphore.try_acquire_many(permits).expect("all can be had at once");
        assert_eq!(self.semaphore.available_permits(), 0);
        drop(all);
    }
}

/// One permit passes between two threads, by the word or by a grant; what it protects is never touched by both.
#[test]
fn one_permit_excludes() {
    model(supply::<Fifo, 1>, |supply| {
        let enter = || {
            let permit = Task::new(supply.semaphore.acquire()).run().unwrap();
            supply.data.add(1);
            drop(permit);
        };
        let other = spawn(enter);
        enter();
        join([other]);
        assert_eq!(supply.data.get(), 2);
        supply.at_rest(1);
    });
}

/// One task wants both permits, the other one of them: never both at once.
#[test]
fn weights_exclude() {
    model(supply::<Fifo, 2>, |supply| {
        let enter = |permits| {
            let permit = Task::new(supply.semaphore.acquire_many(permits)).run().unwrap();
            supply.data.add(1);
            drop(permit);
        };
        let other = spawn(move || enter(2));
        enter(1);
        join([other]);
        assert_eq!(supply.data.get(), 2);
        supply.at_rest(2);
    });
}

/// What was done before a release is seen after the acquire, however the permit travels.
#[test]
fn release_publishes() {
    model(supply::<Fifo, 0>, |supply| {
        let giver = spawn(|| supply.write_and_release(1));
        let permit = Task::new(supply.semaphore.acquire()).run().unwrap();
        assert_eq!(supply.data.get(), 1);
        join([giver]);
        drop(permit);
        supply.at_rest(1);
    });
}

/// The same through `try_acquire`.
#[test]
fn release_publishes_to_a_try() {
    model(supply::<Fifo, 0>, |supply| {
        let giver = spawn(|| supply.write_and_release(1));
        if let Ok(permit) = supply.semaphore.try_acquire() {
            assert_eq!(supply.data.get(), 1);
            drop(permit);
        }
        join([giver]);
        supply.at_rest(1);
    });
}

/// Two releases make one big acquire: it sees what was done before both, whichever comes last.
#[test]
fn a_big_request_sees_all_it_was_made_of() {
    model(supply::<Fifo, 0>, |supply| {
        let task = Task::waiting(supply.semaphore.acquire_many(2));
        let giver = spawn(|| supply.write_and_release(1));
        supply.more.add(1);
        supply.semaphore.release(1);
        let permit = task.run().unwrap();
        assert_eq!((supply.data.get(), supply.more.get()), (1, 1));
        join([giver]);
        drop(permit);
        supply.at_rest(2);
    });
}

/// The same without a queue: a release that adds to another one publishes what was done before both.
#[test]
fn releases_in_a_row_publish_all() {
    model(supply::<Fifo, 0>, |supply| {
        let givers = [&supply.data, &supply.more].map(|data| {
            spawn(|| {
                data.add(1);
                supply.semaphore.release(1);
            })
        });
        if let Ok(permit) = supply.semaphore.try_acquire_many(2) {
            assert_eq!((supply.data.get(), supply.more.get()), (1, 1));
            drop(permit);
        }
        join(givers);
        supply.at_rest(2);
    });
}

/// One release grants a queue longer than a batch of wakers (which is two in the model).
#[test]
fn a_batch_grants_every_waiter() {
    model(supply::<Fifo, 0>, |supply| {
        let tasks = [(); 3].map(|()| Task::waiting(supply.semaphore.acquire()));
        let giver = spawn(|| supply.write_and_release(4));
        for task in tasks {
            drop(task.run().unwrap());
            assert_eq!(supply.data.get(), 1);
        }
        join([giver]);
        supply.at_rest(4);
    });
}

/// A waiter of the second batch is cancelled between the batches.
#[test]
fn a_batch_with_a_cancel_in_between() {
    model(supply::<Fifo, 0>, |supply| {
        let [a, b, c] = [(); 3].map(|()| Task::waiting(supply.semaphore.acquire()));
        let giver = spawn(|| supply.semaphore.release(3));
        drop(c);
        drop(a.run().unwrap());
        drop(b.run().unwrap());
        join([giver]);
        supply.at_rest(3);
    });
}

/// A closing semaphore gives the permit, or the error; never neither.
#[test]
fn close_races_acquire() {
    model(supply::<Fifo, 1>, |supply| {
        let closer = spawn(|| supply.semaphore.close());
        let first = Task::new(supply.semaphore.acquire()).run();
        let second = Task::new(supply.semaphore.acquire()).run();
        // A waiter can only have been refused.
        assert!(first.is_ok() || second.is_err());
        assert_eq!(second.unwrap_err(), Closed);
        assert!(supply.semaphore.is_closed(), "a waiter that was refused sees it closed");
        drop(first);
        join([closer]);
        assert_eq!(supply.semaphore.available_permits(), 1);
    });
}

/// A release and a close at once: granted waiters keep their permits, the others are refused, and nothing is lost.
#[test]
fn close_races_release() {
    model(supply::<Fifo, 0>, |supply| {
        let [a, b] = [(); 2].map(|()| Task::waiting(supply.semaphore.acquire()));
        let giver = spawn(|| supply.semaphore.release(1));
        supply.semaphore.close();
        let (a, b) = (a.run(), b.run());
        join([giver]);
        assert!(b.is_err());
        assert_eq!(supply.semaphore.available_permits(), if a.is_ok() { 0 } else { 1 });
        drop(a);
        assert_eq!(supply.semaphore.available_permits(), 1);
    });
}

/// Waiters of a closing semaphore that are polled, or dropped, before their batch has come.
#[test]
fn close_races_poll_and_cancel() {
    model(supply::<Fifo, 0>, |supply| {
        let [a, b, mut c] = [(); 3].map(|()| Task::waiting(supply.semaphore.acquire()));
        let closer = spawn(|| supply.semaphore.close());
        drop(b);
        if supply.semaphore.is_closed() {
            assert!(matches!(c.poll(), Poll::Ready(Err(Closed))), "closed for all at once");
        } else {
            assert!(c.finish().is_err());
        }
        assert!(a.run().is_err());
        join([closer]);
        assert_eq!(supply.semaphore.available_permits(), 0);
    });
}

/// A thread that finds it closed sees what was done before.
#[test]
fn close_publishes() {
    model(supply::<Fifo, 1>, |supply| {
        let closer = spawn(|| {
            supply.data.add(1);
            supply.semaphore.close();
        });
        match supply.semaphore.try_acquire() {
            Ok(permit) => drop(permit),
            Err(error) => {
                assert_eq!((error, supply.data.get()), (TryAcquireError::Closed, 1));
            }
        }
        join([closer]);
    });
}

/// The first waiter is cancelled while it is being granted: the second is granted.
#[test]
fn cancel_races_release() {
    model(supply::<Fifo, 0>, |supply| {
        let [a, b] = [(); 2].map(|()| Task::waiting(supply.semaphore.acquire()));
        let giver = spawn(|| supply.write_and_release(1));
        drop(a);
        let permit = b.run().unwrap();
        assert_eq!(supply.data.get(), 1);
        join([giver]);
        drop(permit);
        supply.at_rest(1);
    });
}

/// A big request at the head, with some permits kept for it, is cancelled while more come: the small one behind it
/// must not be stranded.
#[test]
fn a_big_head_gives_up() {
    model(supply::<Fifo, 1>, |supply| {
        let big = Task::waiting(supply.semaphore.acquire_many(3));
        let small = Task::waiting(supply.semaphore.acquire_many(2));
        let giver = spawn(|| supply.semaphore.release(1));
        drop(big);
        let permit = small.run().unwrap();
        join([giver]);
        drop(permit);
        supply.at_rest(2);
    });
}

/// Small requests do not pass a big one.
#[test]
fn a_big_head_is_not_overtaken() {
    model(supply::<Fifo, 1>, |supply| {
        let big = Task::waiting(supply.semaphore.acquire_many(2));
        let small = spawn(|| {
            let permit = Task::new(supply.semaphore.acquire()).run().unwrap();
            assert_eq!(supply.count.load(Ordering::Relaxed), 1, "the big one was first");
            drop(permit);
        });
        assert_eq!(supply.semaphore.try_acquire().unwrap_err(), TryAcquireError::NoPermits);
        supply.semaphore.release(1);
        let permit = big.run().unwrap();
        supply.count.fetch_add(1, Ordering::Relaxed);
        drop(permit);
        join([small]);
        supply.at_rest(2);
    });
}

/// Removing permits and taking them: each is had by one.
#[test]
fn forget_races_acquire() {
    model(supply::<Fifo, 2>, |supply| {
        let forgetter = spawn(|| supply.semaphore.forget_permits(2));
        let taken = supply.semaphore.try_acquire();
        let forgotten = join([forgetter])[0];
        assert!(forgotten == 2 || taken.is_ok() && forgotten == 1);
        assert_eq!(supply.semaphore.available_permits(), 2 - forgotten - usize::from(taken.is_ok()));
        drop(taken);
        supply.at_rest(2 - forgotten);
    });
}

/// Removing permits while they are kept for a waiter, and while the waiter is cancelled.
#[test]
fn forget_races_cancel() {
    model(supply::<Fifo, 1>, |supply| {
        let big = Task::waiting(supply.semaphore.acquire_many(2));
        let forgetter = spawn(|| supply.semaphore.forget_permits(1));
        drop(big);
        let forgotten = join([forgetter])[0];
        supply.at_rest(1 - forgotten);
    });
}

/// B009: a try and a queued acquire, with a permit that comes back. A waiter that was granted and gives back leaves
/// something to take: the word is never older than what a waiter knows.
#[test]
fn try_and_acquire_are_linearizable() {
    model(supply::<Fifo, 0>, |supply| {
        let waiter = Task::waiting(supply.semaphore.acquire());
        let giver = spawn(|| supply.semaphore.release(2));
        let permit = waiter.run().unwrap();
        // The release was of two, in one step: one is here, so the other must be there.
        let other = supply.semaphore.try_acquire().expect("released together with ours");
        join([giver]);
        drop((permit, other));
        supply.at_rest(2);
    });
}

/// Giving back and trying again races with a newcomer that queues: at rest all is there, and none got it twice.
#[test]
fn try_races_queue_and_release() {
    model(supply::<Fifo, 1>, |supply| {
        let held = supply.semaphore.try_acquire().unwrap();
        let trier = spawn(move || {
            supply.data.add(1);
            drop(held);
            if let Ok(permit) = supply.semaphore.try_acquire() {
                supply.data.add(1);
                drop(permit);
            }
        });
        let permit = Task::new(supply.semaphore.acquire()).run().unwrap();
        supply.data.add(1);
        drop(permit);
        join([trier]);
        assert!((2..=3).contains(&supply.data.get()));
        supply.at_rest(1);
    });
}

/// The semaphore goes with its last permit or future, whichever thread has it, and is not touched after.
#[test]
fn the_last_owner_frees_the_semaphore() {
    model(
        || (),
        |()| {
            let semaphore = Arc::new(Semaphore::new(1));
            let watch = Arc::downgrade(&semaphore);
            let held = semaphore.clone().try_acquire_owned().unwrap();
            let waiter = Task::waiting(semaphore.acquire_owned());
            let holder = spawn(move || drop(held));
            drop(waiter.run().unwrap());
            join([holder]);
            assert_eq!(watch.strong_count(), 0);
        },
    );
}

/// A granted future moves to another thread and is dropped there: the next waiter is granted.
#[test]
fn a_granted_future_dies_elsewhere() {
    model(supply::<Fifo, 0>, |supply| {
        let [a, b] = [(); 2].map(|()| Task::waiting(supply.semaphore.acquire()));
        supply.write_and_release(1);
        assert_eq!(a.rings(), 1);
        let dropper = spawn(|| drop(a));
        let permit = b.run().unwrap();
        assert_eq!(supply.data.get(), 1);
        join([dropper]);
        drop(permit);
        supply.at_rest(1);
    });
}

/// A poll with another waker races with the grant: the new waker is woken, or the poll is ready.
#[test]
fn another_waker_races_the_grant() {
    model(supply::<Fifo, 0>, |supply| {
        let mut task = Task::waiting(supply.semaphore.acquire());
        let giver = spawn(|| supply.write_and_release(1));
        task.change_alarm();
        let permit = task.run().unwrap();
        assert_eq!(supply.data.get(), 1);
        join([giver]);
        drop(permit);
        supply.at_rest(1);
    });
}

/// Permits that come from two threads add up.
#[test]
fn releases_add_up() {
    model(supply::<Fifo, 0>, |supply| {
        let givers = [1, 2].map(|n| spawn(move || supply.semaphore.release(n)));
        join(givers);
        supply.at_rest(3);
    });
}
