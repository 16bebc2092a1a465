//! Who is counted, who is refused, and whoever waits for the last task: a wait that misses it is a deadlock.

use crate::parts::census::{Census, Row};
use loom::sync::Arc;
use loom::thread;

/// A spawn from outside against a drain: it is refused, or waited for.
#[test]
fn a_spawn_is_refused_or_waited_for() {
    loom::model(|| {
        let census = Arc::new(Census::new(1));
        let spawner = {
            let census = census.clone();
            thread::spawn(move || {
                let taken = census.begin(Row::Outside, false);
                // Taken: it runs and ends on a worker. Refused: at once, here.
                census.end(if taken { Row::Worker(0) } else { Row::Outside });
            })
        };
        census.begin_drain();
        assert!(census.drain(None));
        assert!(!census.begin(Row::Worker(0), true), "closed");
        census.end(Row::Worker(0));
        spawner.join().unwrap();
        assert_eq!(census.len(), 0);
    });
}

/// Two tasks end in two rows while somebody waits: one of them rings.
#[test]
fn the_last_of_two_rings() {
    loom::model(|| {
        let census = Arc::new(Census::new(1));
        assert!(census.begin(Row::Outside, false) && census.begin(Row::Pinned(0), false));
        census.begin_drain();
        let ends: Vec<_> = [Row::Worker(0), Row::Pinned(0)]
            .into_iter()
            .map(|row| {
                let census = census.clone();
                thread::spawn(move || census.end(row))
            })
            .collect();
        assert!(census.drain(None));
        ends.into_iter().for_each(|end| end.join().unwrap());
    });
}

/// A task that spawns another and ends, in two rows: there is no moment without tasks.
#[test]
fn a_chain_is_never_seen_broken() {
    loom::model(|| {
        let census = Arc::new(Census::new(1));
        assert!(census.begin(Row::Outside, false));
        let worker = {
            let census = census.clone();
            thread::spawn(move || {
                assert!(census.begin(Row::Pinned(0), true));
                census.end(Row::Worker(0));
            })
        };
        assert!(census.len() > 0);
        worker.join().unwrap();
        assert_eq!((census.len(), census.pinned(0), census.others()), (1, 1, 0));
    });
}
