//! Workers that leave one after another, and what the first one that leaves and the last one do for the others.

use super::{Cell, House};
use loom::thread;
use std::sync::Arc;

/// Two workers leave: the last one has seen what the other did, and drops what is not pinned.
#[test]
fn the_last_worker_cleans_up() {
    loom::model(|| {
        let house = House::new(2);
        let cell = Cell::waiting(house);
        house.close();
        let other = thread::spawn(|| house.leave(1));
        house.leave(0);
        other.join().unwrap();
        assert_eq!(cell.drops(), 1);
        house.at_rest();
    });
}

/// One worker is still in the first poll of a task when another one leaves, which drops what waits, and does not wait for that poll; the last of both drops what was registered after that.
#[test]
fn the_worker_that_stays_drops_what_waits() {
    loom::model(|| {
        let house = House::new(2);
        let (waits, polled) = (Cell::waiting(house), Cell::new(house));
        assert!(house.spawn(&polled));
        let in_hand = house.pop().expect("just pushed");
        house.close();
        let other = thread::spawn(move || {
            in_hand.poll();
            house.leave(0);
        });
        house.leave(1);
        other.join().unwrap();
        for cell in [&waits, &polled] {
            assert_eq!((cell.drops(), Arc::strong_count(cell)), (1, 1), "every reference was given back");
        }
        house.at_rest();
    });
}

/// One worker does not leave before a task is dropped that another one still polls, after the worker that stays has woken all: that one wakes the task again.
#[test]
fn a_worker_in_a_long_poll_holds_up_no_task() {
    loom::model(|| {
        let house = House::new(3);
        let polled = Cell::new(house);
        assert!(house.spawn(&polled));
        let in_hand = house.pop().expect("just pushed");
        house.close();
        let polls = thread::spawn(move || {
            in_hand.poll();
            house.leave(0);
        });
        let stays = thread::spawn(|| house.leave(1));
        house.dropped.wait();
        house.leave(2);
        [polls, stays].into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!((polled.drops(), Arc::strong_count(&polled)), (1, 1), "every reference was given back");
        house.at_rest();
    });
}
