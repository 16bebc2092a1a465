//! The wait queue through the event, which shows most of it: wake-all over the border of a batch (two wakers
//! under the model), and what may happen to a waiter while the snapshot that it is in drains.

use crate::support::{Data, Task, join, model, spawn};
use tasuki::Event;
use tasuki::future::WaitEvent;

/// A manual event, and what is done before it is set.
struct Gate {
    event: Event,
    data: Data,
}

fn gate() -> Gate {
    Gate { event: Event::manual(), data: Data::new() }
}

impl Gate {
    fn open(&self) {
        self.data.add(1);
        self.event.set();
    }

    fn waiters<const N: usize>(&'static self) -> [Task<WaitEvent<'static>>; N] {
        [(); N].map(|()| Task::waiting(self.event.wait()))
    }

    /// Goes through, and sees what was done before.
    fn pass(&self, task: Task<WaitEvent<'_>>) {
        task.run();
        assert_eq!(self.data.get(), 1);
    }

    /// No waiter is queued, and the next would not have to.
    fn assert_open(&self) {
        assert!(self.event.is_set());
        assert!(Task::new(self.event.wait()).poll().is_ready());
    }
}

#[test]
fn wake_all_crosses_a_batch() {
    model(gate, |gate| {
        let [a, b, c] = gate.waiters();
        let threads = [spawn(|| gate.open()), spawn(|| gate.pass(c))];
        gate.pass(a);
        gate.pass(b);
        join(threads);
        gate.assert_open();
    });
}

#[test]
fn wake_all_crosses_two_batches() {
    model(gate, |gate| {
        let [a, b, c, d, e] = gate.waiters();
        let opener = spawn(|| gate.open());
        for task in [e, c, a, b, d] {
            gate.pass(task);
        }
        join([opener]);
        gate.assert_open();
    });
}

/// The waiter at `cancelled` of three is cancelled while the snapshot drains.
fn cancel_races_wake_all(gate: &'static Gate, cancelled: usize) {
    let mut tasks = Vec::from(gate.waiters::<3>());
    let given_up = tasks.remove(cancelled);
    let threads = [spawn(|| gate.open()), spawn(|| drop(given_up))];
    for task in tasks {
        gate.pass(task);
    }
    join(threads);
    gate.assert_open();
}

#[test]
fn cancel_of_the_first_races_wake_all() {
    model(gate, |gate| cancel_races_wake_all(gate, 0));
}

#[test]
fn cancel_of_the_second_races_wake_all() {
    model(gate, |gate| cancel_races_wake_all(gate, 1));
}

/// The third is alone in the second batch: the ring may be empty when the batch is to be filled.
#[test]
fn cancel_of_the_third_races_wake_all() {
    model(gate, |gate| cancel_races_wake_all(gate, 2));
}

#[test]
fn cancels_of_neighbours_race_wake_all() {
    model(gate, |gate| {
        let [a, b, c] = gate.waiters();
        let opener = spawn(|| gate.open());
        drop(b);
        drop(c);
        gate.pass(a);
        join([opener]);
        gate.assert_open();
    });
}

/// One waiter has been released, so all have, also those that no batch has reached (B039).
#[test]
fn released_but_not_reached_is_ready() {
    model(gate, |gate| {
        let [a, b, mut c] = gate.waiters();
        let opener = spawn(|| gate.open());
        gate.pass(a);
        assert!(c.poll().is_ready(), "the set happened: it happened for all");
        drop(c);
        gate.pass(b);
        join([opener]);
        gate.assert_open();
    });
}

/// A poll without a wake may find the release before any batch; then it sees what was done before.
#[test]
fn a_poll_races_wake_all() {
    model(gate, |gate| {
        let [a, b, mut c] = gate.waiters();
        let opener = spawn(|| gate.open());
        if c.poll().is_ready() {
            assert_eq!(gate.data.get(), 1);
        } else {
            c.finish();
        }
        drop(c);
        gate.pass(a);
        gate.pass(b);
        join([opener]);
        gate.assert_open();
    });
}

/// Who comes after the reset belongs to the next round: the batches of the last do not touch it (B039).
#[test]
fn the_next_round_is_not_released_by_the_last() {
    model(gate, |gate| {
        let [a, b, c] = gate.waiters();
        let opener = spawn(|| gate.open());
        gate.pass(a);
        gate.event.reset();
        let mut late = Task::waiting(gate.event.wait());
        join([opener]);
        assert!(late.poll().is_pending() && late.rings() == 0);
        gate.pass(c);
        gate.pass(b);
        gate.event.set();
        late.run();
        gate.assert_open();
    });
}

/// Two rounds drain at the same time, each from its own snapshot.
#[test]
fn two_snapshots_drain_at_once() {
    model(gate, |gate| {
        let [a, b, c] = gate.waiters();
        let opener = spawn(|| gate.open());
        gate.pass(a);
        gate.event.reset();
        let [d, e] = gate.waiters();
        gate.event.set();
        gate.pass(d);
        gate.pass(e);
        gate.pass(c);
        gate.pass(b);
        join([opener]);
        gate.assert_open();
    });
}

/// A waiter in a snapshot gets another waker before its batch comes.
#[test]
fn another_waker_races_wake_all() {
    model(gate, |gate| {
        let [a, b, mut c] = gate.waiters();
        let opener = spawn(|| gate.open());
        c.change_alarm();
        gate.pass(c);
        gate.pass(a);
        gate.pass(b);
        join([opener]);
        gate.assert_open();
    });
}

/// The list under two holders of the queue lock: one leaves and enters again, one releases all.
#[test]
fn enqueue_and_cancel_race_wake_all() {
    model(gate, |gate| {
        let [a] = gate.waiters();
        let opener = spawn(|| gate.open());
        drop(a);
        gate.pass(Task::new(gate.event.wait()));
        join([opener]);
        gate.assert_open();
    });
}
