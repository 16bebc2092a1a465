//! The *next* slot: its owner fills and empties it while a thief takes from it.

use crate::parts::next_slot::NextSlot;
use crate::tasks::{run_all, task};
use loom::sync::Arc;
use loom::thread;

#[test]
fn every_task_is_taken_once() {
    loom::model(|| {
        let slot = Arc::new(NextSlot::new());
        let thief = {
            let slot = slot.clone();
            thread::spawn(move || run_all([slot.take(), slot.take()]))
        };
        let mut ran = run_all([slot.put(task())]);
        ran += run_all([slot.put(task())]);
        ran += run_all([slot.take()]);
        ran += run_all([slot.put(task())]);
        ran += thief.join().unwrap();
        ran += run_all([slot.take()]);
        assert_eq!(ran, 3);
        assert!(slot.is_empty());
    });
}
