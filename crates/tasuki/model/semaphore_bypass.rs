//! The semaphore with `Bypass`: newcomers ahead of the queue, within a bound.

use crate::semaphore::supply;
use crate::support::{Task, join, model, spawn};
use tasuki::policy::Bypass;

#[test]
fn one_permit_excludes() {
    model(supply::<Bypass<1>, 1>, |supply| {
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

#[test]
fn cancel_races_release() {
    model(supply::<Bypass<1>, 0>, |supply| {
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

/// A newcomer that releases and acquires again, and a waiter that is polled in between: the waiter acquires.
#[test]
fn the_waiter_acquires() {
    model(supply::<Bypass<1>, 1>, |supply| {
        let held = supply.semaphore.try_acquire().unwrap();
        let waiter = Task::waiting(supply.semaphore.acquire());
        let newcomer = spawn(move || {
            drop(held);
            (0..2).for_each(|_| {
                if let Ok(permit) = supply.semaphore.try_acquire() {
                    supply.data.add(1);
                    drop(permit);
                }
            });
        });
        let permit = waiter.run().unwrap();
        supply.data.add(1);
        drop(permit);
        join([newcomer]);
        assert!((1..=3).contains(&supply.data.get()));
        supply.at_rest(1);
    });
}

/// A waiter that is woken and not polled until the newcomers are done: only one of them passes it.
#[test]
fn newcomers_stop_at_the_bound() {
    model(supply::<Bypass<1>, 1>, |supply| {
        let held = supply.semaphore.try_acquire().unwrap();
        let waiter = Task::waiting(supply.semaphore.acquire());
        drop(held);
        let overtake = || supply.semaphore.try_acquire().map(drop).is_ok();
        let newcomers = [spawn(overtake), spawn(overtake)];
        let overtakes = join(newcomers).into_iter().filter(|ok| *ok).count();
        assert_eq!(overtakes, 1);
        drop(waiter.run().unwrap());
        supply.at_rest(1);
    });
}

/// A woken head is polled while a newcomer takes what it was woken for, and the permit comes back.
#[test]
fn a_woken_head_races_a_newcomer() {
    model(supply::<Bypass<2>, 1>, |supply| {
        let held = supply.semaphore.try_acquire().unwrap();
        let waiter = Task::waiting(supply.semaphore.acquire());
        drop(held);
        let newcomer = spawn(|| {
            let permit = Task::new(supply.semaphore.acquire()).run().unwrap();
            supply.data.add(1);
            drop(permit);
        });
        let permit = waiter.run().unwrap();
        supply.data.add(1);
        drop(permit);
        join([newcomer]);
        assert_eq!(supply.data.get(), 2);
        supply.at_rest(1);
    });
}
