//! The wait group: no wake-up is lost between its two words, no waiter is released early, and a released waiter sees what the members did.

use crate::support::{Data, Task, join, model, spawn};
use crate::versus::race;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tasuki::WaitGroup;
use tasuki::future::WaitMembers;

/// A group and what its members write.
struct Site {
    group: WaitGroup,
    data: [Data; 2],
}

fn site(members: usize) -> Site {
    let site = Site { group: WaitGroup::new(), data: [Data::new(), Data::new()] };
    site.group.add(members);
    site
}

fn one() -> Site {
    site(1)
}

impl Site {
    /// A member writes and is done.
    fn work(&self, member: usize) {
        self.data[member].add(1);
        self.group.done();
    }

    fn waiting(&self) -> Task<WaitMembers<'_>> {
        Task::waiting(self.group.wait())
    }

    /// Waits to the end of a wait that was begun, and looks at what the members wrote. The first poll is not asked for, so
    /// that nothing but the group orders what follows it.
    fn finish(&self, mut waiter: Task<WaitMembers<'_>>) -> [usize; 2] {
        if waiter.poll().is_pending() {
            waiter.run();
        }
        self.written()
    }

    fn written(&self) -> [usize; 2] {
        [0, 1].map(|member| self.data[member].get())
    }
}

/// One member writes and is done: the waiter finds zero at the first look, with the queue locked, or is released.
#[test]
fn one_member_and_one_waiter() {
    race(one, |site, versus| {
        let wait = || {
            Task::new(site.group.wait()).run();
            site.written()
        };
        let ((), written) = versus.run(|| site.work(0), wait);
        assert_eq!(written, [1, 0]);
        assert_eq!(site.group.count(), 0);
    });
}

/// Two members: what the one did that was not the last is seen as well.
#[test]
fn every_done_is_seen() {
    model(
        || site(2),
        |site| {
            let members = [0, 1].map(|member| spawn(move || site.work(member)));
            Task::new(site.group.wait()).run();
            assert_eq!(site.written(), [1, 1]);
            join(members);
        },
    );
}

/// The waiter is in the queue from the start: the last one passes on what the other did.
#[test]
fn every_done_is_seen_through_a_release() {
    race(
        || site(2),
        |site, versus| {
            let waiter = site.waiting();
            let here = move || {
                site.work(0);
                site.finish(waiter)
            };
            let (written, ()) = versus.run(here, || site.work(1));
            assert_eq!(written, [1, 1]);
        },
    );
}

/// Two waiters on two threads, one of them late: both are released.
#[test]
fn all_waiters_are_released() {
    race(one, |site, versus| {
        let present = site.waiting();
        let here = move || {
            site.work(0);
            site.finish(present)
        };
        let late = || {
            Task::new(site.group.wait()).run();
            site.written()
        };
        assert_eq!(versus.run(here, late), ([1, 0], [1, 0]));
    });
}

/// A new cycle begins while three waiters of the last are being resumed, the third of them from the second batch: they
/// leave, and the waiter of the new cycle stays.
#[test]
fn the_next_cycle_begins_at_once() {
    race(one, |site, versus| {
        let [first, second, third] = [(); 3].map(|()| site.waiting());
        let cycles = || {
            site.work(0);
            site.group.add(1);
            let mut next = site.waiting();
            assert!(next.poll().is_pending(), "released by the cycle before its own");
            site.group.done();
            next.run();
        };
        let leave = move || [third, first, second].map(|waiter| site.finish(waiter));
        let ((), written) = versus.run(cycles, leave);
        assert_eq!(written, [[1, 0]; 3]);
        assert_eq!(site.group.count(), 0);
    });
}

/// A member is counted in and out while the last member is done. If that was before zero, the member may find the count as
/// it left it: what happened in between is seen by the waiter all the same.
#[test]
fn an_add_against_the_last_done() {
    race(one, |site, versus| {
        let waiter = site.waiting();
        let here = move || {
            site.work(0);
            site.finish(waiter)
        };
        let more = || {
            site.group.add(1);
            // The other is still counted: this is the cycle that the waiter waits for.
            let same_cycle = site.group.count() == 2;
            if same_cycle {
                site.data[1].add(1);
            }
            site.group.done();
            usize::from(same_cycle)
        };
        let (written, more) = versus.run(here, more);
        assert_eq!(written, [1, more]);
        assert_eq!(site.group.count(), 0);
    });
}

/// A wait is dropped while the last member is done: the other waiter is released all the same.
#[test]
fn a_drop_against_the_last_done() {
    race(one, |site, versus| {
        let [dropped, kept] = [(); 2].map(|()| site.waiting());
        let leave = move || {
            drop(dropped);
            site.finish(kept)
        };
        let ((), written) = versus.run(|| site.work(0), leave);
        assert_eq!(written, [1, 0]);
    });
}

/// The only waiter is dropped on another thread: the count still comes to zero, and the group works.
#[test]
fn a_drop_elsewhere_leaves_a_group_that_works() {
    race(one, |site, versus| {
        let dropped = site.waiting();
        versus.run(|| site.work(0), move || drop(dropped));
        assert_eq!(site.group.count(), 0);
        site.group.add(1);
        let waiter = site.waiting();
        site.work(1);
        assert_eq!(site.finish(waiter), [1, 1]);
    });
}

/// A thread that sees zero finds the waiters of that cycle released.
#[test]
fn zero_and_the_release_are_one_step() {
    race(one, |site, versus| {
        let mut waiter = site.waiting();
        let look = move || {
            if site.group.count() == 0 {
                assert!(waiter.poll().is_ready(), "the count is zero, and the waiter held back");
            } else {
                waiter.run();
            }
        };
        versus.run(|| site.work(0), look);
    });
}

/// The same for a caller that looks by waiting. It sees what the member did, also if it had to look twice.
#[test]
fn a_ready_wait_and_the_release_are_one_step() {
    race(one, |site, versus| {
        let mut waiter = site.waiting();
        let look = move || {
            if Task::new(site.group.wait()).poll().is_ready() {
                assert_eq!(site.written(), [1, 0]);
                assert!(waiter.poll().is_ready(), "one wait has ended, and another is held back");
            } else {
                waiter.run();
            }
        };
        versus.run(|| site.work(0), look);
    });
}

/// A waiter that changes its waker while it is released is woken by the new one, or sees the release.
#[test]
fn another_waker_against_the_last_done() {
    race(one, |site, versus| {
        let mut waiter = site.waiting();
        let change = move || {
            waiter.change_alarm();
            waiter.run();
            site.written()
        };
        let ((), written) = versus.run(|| site.work(0), change);
        assert_eq!(written, [1, 0]);
    });
}

/// The group goes when its last handle does, be it the member's: nothing touches it after that.
#[test]
fn a_member_may_be_the_last_to_hold_the_group() {
    race(
        || (),
        |(), versus| {
            let group = Arc::new(WaitGroup::new());
            let member = group.clone().member_owned();
            let wait = move || {
                Task::new(group.wait()).run();
                drop(group);
            };
            versus.run(move || drop(member), wait);
        },
    );
}

/// Counts one out; 1 if there was a member, 0 if that panicked.
fn done_or_panic(group: &WaitGroup) -> usize {
    usize::from(catch_unwind(AssertUnwindSafe(|| group.done())).is_ok())
}

/// Two are counted out and one in: whichever of the two comes too late panics, and nothing is left of it.
#[test]
fn one_done_too_many() {
    race(
        || site(0),
        |site, versus| {
            let member = || {
                site.group.add(1);
                done_or_panic(&site.group)
            };
            let (first, second) = versus.run(member, || done_or_panic(&site.group));
            assert_eq!(first + second, 1);
            assert_eq!(site.group.count(), 0);
        },
    );
}

/// The same against a waiter, who is released by the one that counted.
#[test]
fn one_done_too_many_with_a_waiter() {
    race(one, |site, versus| {
        let waiter = site.waiting();
        let here = move || {
            let counted = done_or_panic(&site.group);
            site.finish(waiter);
            counted
        };
        let (first, second) = versus.run(here, || done_or_panic(&site.group));
        assert_eq!(first + second, 1);
        assert_eq!(site.group.count(), 0);
    });
}
