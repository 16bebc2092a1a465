//! Which spawns are counted, which are refused, and a drain that waits for the last task: a wait that misses it is a deadlock.

use crate::parts::task_counts::{Row, TaskCounts};
use loom::sync::Arc;
use loom::thread;

/// A spawn from outside against a drain: it is refused, or waited for.
#[test]
fn a_spawn_is_refused_or_waited_for() {
    loom::model(|| {
        let task_counts = Arc::new(TaskCounts::new(1));
        let spawner = {
            let task_counts = task_counts.clone();
            thread::spawn(move || {
                // Taken: it runs and ends on a worker. Refused: it is not counted.
                if task_counts.begin(Row::Outside, false) {
                    task_counts.end(Row::Worker(0));
                }
            })
        };
        task_counts.begin_drain();
        assert!(task_counts.drain(None));
        assert!(!task_counts.begin(Row::Worker(0), true), "closed");
        spawner.join().unwrap();
        assert_eq!(task_counts.len(), 0);
    });
}

/// Two tasks end in two rows while a drain waits: one of them notifies it.
#[test]
fn the_last_of_two_rings() {
    loom::model(|| {
        let task_counts = Arc::new(TaskCounts::new(1));
        assert!(task_counts.begin(Row::Outside, false) && task_counts.begin(Row::Pinned(0), false));
        task_counts.begin_drain();
        let ends: Vec<_> = [Row::Worker(0), Row::Pinned(0)]
            .into_iter()
            .map(|row| {
                let task_counts = task_counts.clone();
                thread::spawn(move || task_counts.end(row))
            })
            .collect();
        assert!(task_counts.drain(None));
        ends.into_iter().for_each(|end| end.join().unwrap());
    });
}

/// A task that spawns another and ends, in two rows: there is no moment without tasks.
#[test]
fn a_chain_is_never_seen_broken() {
    loom::model(|| {
        let task_counts = Arc::new(TaskCounts::new(1));
        assert!(task_counts.begin(Row::Outside, false));
        let worker = {
            let task_counts = task_counts.clone();
            thread::spawn(move || {
                assert!(task_counts.begin(Row::Pinned(0), true));
                task_counts.end(Row::Worker(0));
            })
        };
        assert!(task_counts.len() > 0);
        worker.join().unwrap();
        assert_eq!((task_counts.len(), task_counts.pinned(0), task_counts.others()), (1, 1, 0));
    });
}
