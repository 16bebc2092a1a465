//! The barrier: no party passes early, each phase has one leader, and an arrival that is dropped is taken back, or comes after the release and changes nothing.

use crate::support::{Data, Task};
use crate::versus::race;
use std::task::Poll;
use tasuki::future::Arrive;
use tasuki::{Barrier, BarrierWaitResult};

/// A barrier and what the parties write.
struct Site {
    barrier: Barrier,
    data: [Data; 2],
}

fn site(parties: usize) -> Site {
    Site { barrier: Barrier::new(parties), data: [Data::new(), Data::new()] }
}

impl Site {
    /// Writes, arrives, waits; says whether it led.
    fn meet(&self, party: usize) -> bool {
        self.data[party].add(1);
        let mut task = Task::new(self.barrier.arrive_and_wait());
        // The second poll is not asked for, so that only the barrier orders what follows it.
        for _ in 0..2 {
            if let Poll::Ready(result) = task.poll() {
                return result.is_leader();
            }
        }
        task.run().is_leader()
    }

    /// Arrives with one poll; says whether that completed the phase.
    fn arrive(&self) -> (bool, Task<Arrive<'_>>) {
        let mut task = Task::new(self.barrier.arrive_and_wait());
        let poll = task.poll();
        assert!(poll.is_pending() || leads(&poll), "the first poll waits or leads");
        (poll.is_ready(), task)
    }

    /// An arrival that has to wait.
    fn arrived(&self) -> Task<Arrive<'_>> {
        Task::waiting(self.barrier.arrive_and_wait())
    }

    /// So many arrivals, and no fewer, complete a phase; the last of them leads.
    fn needs(&self, arrivals: usize) {
        let waiting: Vec<_> = (1..arrivals).map(|_| self.arrived()).collect();
        assert!(self.arrive().0, "{arrivals} should be enough");
        for mut other in waiting {
            assert!(follows(&other.poll()), "the phase is complete");
        }
    }
}

fn leads(poll: &Poll<BarrierWaitResult>) -> bool {
    matches!(poll, Poll::Ready(result) if result.is_leader())
}

fn follows(poll: &Poll<BarrierWaitResult>) -> bool {
    matches!(poll, Poll::Ready(result) if !result.is_leader())
}

/// Two parties: one leads, and each sees what the other did before.
#[test]
fn two_parties_meet() {
    race(
        || site(2),
        |site, versus| {
            let party = |party: usize| {
                let led = site.meet(party);
                assert_eq!(site.data[1 - party].get(), 1);
                led
            };
            let (left, right) = versus.run(move || party(0), move || party(1));
            assert_ne!(left, right, "one leader");
        },
    );
}

/// Three parties, one of which has arrived before: no party passes early, every arrival is seen by all.
#[test]
fn three_parties_meet() {
    race(
        || site(3),
        |site, versus| {
            let mut first = site.arrived();
            let party = |party: usize| {
                let led = site.meet(party);
                assert_eq!(site.data[1 - party].get(), 1);
                led
            };
            let here = move || {
                let led = party(0);
                assert!(follows(&first.poll()), "one has passed, so all have");
                led
            };
            let (left, right) = versus.run(here, move || party(1));
            assert_ne!(left, right, "one leader");
        },
    );
}

/// Two phases: the party that goes on arrives again while the other is still being resumed.
#[test]
fn phases_follow_each_other() {
    race(
        || site(2),
        |site, versus| {
            let party = |party: usize| {
                let led = [site.meet(party), site.meet(party)];
                assert_eq!(site.data[1 - party].get(), 2);
                led
            };
            let (left, right) = versus.run(move || party(0), move || party(1));
            assert_ne!(left[0], right[0], "one leader of the first phase");
            assert_ne!(left[1], right[1], "one leader of the second phase");
        },
    );
}

/// A drop against the last arrival of two: withdrawn, so that another is needed, or too late.
#[test]
fn a_drop_against_the_last_arrival() {
    race(
        || site(2),
        |site, versus| {
            let dropped = site.arrived();
            let ((), (complete, mut last)) = versus.run(move || drop(dropped), || site.arrive());
            if !complete {
                assert!(last.poll().is_pending(), "it is alone");
                site.needs(1);
                assert!(follows(&last.poll()));
            }
            site.needs(2);
        },
    );
}

/// The same with a third party in the queue: it goes on exactly if the phase is complete.
#[test]
fn a_drop_beside_another_party() {
    race(
        || site(3),
        |site, versus| {
            let dropped = site.arrived();
            let mut third = site.arrived();
            let last = move || {
                let (complete, last) = site.arrive();
                assert_eq!(follows(&third.poll()), complete);
                (complete, last, third)
            };
            let ((), (complete, mut last, mut third)) = versus.run(move || drop(dropped), last);
            if !complete {
                site.needs(1);
                assert!(follows(&third.poll()) && follows(&last.poll()));
            }
            site.needs(3);
        },
    );
}

/// Three wait, one more than a batch. The last of them is dropped during the release: that withdraws nothing from the new
/// phase.
#[test]
fn a_drop_during_the_release_withdraws_nothing() {
    race(
        || site(4),
        |site, versus| {
            let [mut first, mut second, dropped] = [(); 3].map(|()| site.arrived());
            let ((), (complete, mut last)) = versus.run(move || drop(dropped), || site.arrive());
            if !complete {
                site.needs(1);
                assert!(follows(&last.poll()));
            }
            assert!(follows(&first.poll()) && follows(&second.poll()));
            site.needs(4);
        },
    );
}

/// The leader arrives again at once. Of the three it has released, the last to be reached is polled meanwhile: it has
/// passed, it sees what the leader did, and the next phase has one arrival, the leader's.
#[test]
fn a_released_party_passes_before_it_is_reached() {
    race(
        || site(4),
        |site, versus| {
            let [first, second, mut third] = [(); 3].map(|()| site.arrived());
            let lead = || {
                assert!(site.meet(0));
                site.arrived()
            };
            let follow = move || {
                // A poll without a wake: only the barrier orders what follows it.
                if third.poll().is_pending() {
                    assert!(!third.run().is_leader());
                }
                assert_eq!(site.data[0].get(), 1);
                assert!(!first.run().is_leader() && !second.run().is_leader());
            };
            let (mut leader, ()) = versus.run(lead, follow);
            assert!(leader.poll().is_pending(), "it is alone in its phase");
            site.needs(3);
            assert!(follows(&leader.poll()));
        },
    );
}

/// A party leaves and comes back while another arrives: of the two that are there in the end one leads, and none is counted
/// twice.
#[test]
fn a_party_leaves_and_comes_back() {
    race(
        || site(2),
        |site, versus| {
            let dropped = site.arrived();
            let again = move || {
                drop(dropped);
                site.arrive()
            };
            let ((left, _), (right, _)) = versus.run(again, || site.arrive());
            assert!(
                left || right,
                "three arrivals, of which one may have been cancelled: a phase is complete"
            );
            assert!(!(left && right), "and only one");
        },
    );
}

/// A party that changes its waker while the phase is completed is woken by the new one, or sees the release.
#[test]
fn another_waker_against_the_last_arrival() {
    race(
        || site(2),
        |site, versus| {
            let mut waiting = site.arrived();
            let change = move || {
                waiting.change_alarm();
                assert!(!waiting.run().is_leader());
                site.data[0].get()
            };
            assert_eq!(versus.run(|| site.meet(0), change), (true, 1));
        },
    );
}
