//! The latch: it opens once, for all waiters, and what was done before the last count is visible to them.

use crate::support::{Data, Task, join, model, spawn};
use crate::versus::race;
use tasuki::Latch;

/// A latch and what the counting threads write.
struct Site {
    latch: Latch,
    data: [Data; 2],
}

fn site(counts: usize) -> Site {
    Site { latch: Latch::new(counts), data: [Data::new(), Data::new()] }
}

impl Site {
    /// Writes and counts.
    fn count(&self, thread: usize) {
        self.data[thread].add(1);
        self.latch.count_down();
    }

    fn written(&self) -> [usize; 2] {
        [0, 1].map(|thread| self.data[thread].get())
    }
}

/// Two threads count, one waits: it sees what both did.
#[test]
fn every_count_is_seen() {
    model(
        || site(2),
        |site| {
            let counting = [0, 1].map(|thread| spawn(move || site.count(thread)));
            Task::new(site.latch.wait()).run();
            assert_eq!(site.written(), [1, 1]);
            join(counting);
            assert_eq!(site.latch.count(), 0);
        },
    );
}

/// A look that finds it open sees as much as a wait. A waiter is there before, so that it opens by a release.
#[test]
fn a_look_sees_what_a_wait_sees() {
    race(
        || site(1),
        |site, versus| {
            let mut waiter = Task::waiting(site.latch.wait());
            let look = move || {
                if site.latch.try_wait() {
                    assert_eq!(site.written(), [1, 0]);
                    assert!(waiter.poll().is_ready(), "open, and a waiter held back");
                } else {
                    waiter.run();
                }
            };
            versus.run(|| site.count(0), look);
            assert!(site.latch.try_wait(), "it stays open");
        },
    );
}

/// A look that finds it open without waiters.
#[test]
fn a_look_without_waiters() {
    race(
        || site(1),
        |site, versus| {
            let look = || {
                if site.latch.try_wait() {
                    assert_eq!(site.written(), [1, 0]);
                }
            };
            versus.run(|| site.count(0), look);
        },
    );
}

/// Three waiters, more than a batch of the model; one is dropped while the latch opens.
#[test]
fn a_drop_against_the_opening() {
    race(
        || site(1),
        |site, versus| {
            let [first, dropped, mut third] = [(); 3].map(|()| Task::waiting(site.latch.wait()));
            let leave = move || {
                drop(dropped);
                // A poll without a wake: only the latch orders what follows it.
                if third.poll().is_pending() {
                    third.run();
                }
                let written = site.written();
                first.run();
                written
            };
            let ((), written) = versus.run(|| site.count(0), leave);
            assert_eq!(written, [1, 0]);
        },
    );
}

/// A waiter that comes while the latch opens is not forgotten.
#[test]
fn a_late_waiter_is_released() {
    race(
        || site(2),
        |site, versus| {
            let present = Task::waiting(site.latch.wait());
            let late = || {
                site.count(1);
                Task::new(site.latch.wait()).run();
                site.written()
            };
            let ((), written) = versus.run(|| site.count(0), late);
            present.run();
            assert_eq!(written, [1, 1]);
        },
    );
}
