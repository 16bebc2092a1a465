//! Wait groups: add and done, a group of tasks that one task waits for, and many waiters.

use super::{minimal, release};
use crate::exec::yield_now;
use crate::measure::{Bench, Contender, Group, Meter, Reading, Sample};
use crate::peer::Membership;
use crate::peers::{VisitGroup, each_group, each_group_release};
use std::cell::Cell;
use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Waker};

/// Members of a group of tasks.
const MEMBERS: usize = 1_000;

/// Measures every wait group.
pub(crate) fn run(bench: &mut Bench) {
    release::sizes(bench, "wait-group/size", each_group_release);
    let mut build = Build { tasks: false, contenders: Vec::new() };
    each_group(&mut build);
    bench.group(Group::on_one_thread("wait-group/add-done", 1, "none", 1_000, build.contenders));
    let mut build = Build { tasks: true, contenders: Vec::new() };
    each_group(&mut build);
    let unit = MEMBERS as u64;
    bench.group(Group::on_one_thread("wait-group/tasks", MEMBERS, minimal::NAME, unit, build.contenders));
    release::run(bench, "wait-group/release", each_group_release);
}

struct Build {
    tasks: bool,
    contenders: Vec<Contender>,
}

impl VisitGroup for Build {
    fn visit<G: Membership>(&mut self) {
        if self.tasks && G::NEVER_WAITS {
            return;
        }
        let work = if self.tasks { tasks::<G> } else { pairs::<G> };
        self.contenders.push(Contender { subject: G::NAME, kind: G::KIND, run: Box::new(work) });
    }
}

/// One member comes and goes.
fn pairs<G: Membership>(ops: u64) -> Sample {
    let group = G::new();
    let shared = black_box(&group);
    let meter = Meter::start();
    for _ in 0..ops {
        drop(black_box(shared.member()));
    }
    let reading = meter.read();
    let left = pin!(group.wait()).poll(&mut Context::from_waker(Waker::noop()));
    assert!(left.is_ready(), "{}: all have left", G::NAME);
    Sample::alone(ops, reading)
}

/// Tasks that each hold a member over a yield, and one that waits for them all.
fn tasks<G: Membership>(ops: u64) -> Sample {
    let rounds = ops.div_ceil(MEMBERS as u64);
    let mut total = Reading::default();
    for _ in 0..rounds {
        let reading = one_group::<G>();
        total.ns += reading.ns;
        total.allocations += reading.allocations;
    }
    Sample::alone(rounds * MEMBERS as u64, total)
}

/// A task of a group.
type Boxed = Pin<Box<dyn Future<Output = ()>>>;

/// One group from the first poll of its tasks to the end of the wait.
fn one_group<G: Membership>() -> Reading {
    let group = G::new();
    let left = Rc::new(Cell::new(0));
    let mut all: Vec<Boxed> = Vec::with_capacity(MEMBERS + 1);
    for _ in 0..MEMBERS {
        let (member, left) = (group.owned(), left.clone());
        all.push(Box::pin(async move {
            yield_now().await;
            left.set(left.get() + 1);
            drop(member);
        }));
    }
    let (wait, seen) = (group.wait(), left);
    all.push(Box::pin(async move {
        wait.await;
        assert_eq!(seen.get(), MEMBERS, "{}: released while a member was there", G::NAME);
    }));
    minimal::run(all.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs briefly; the samples check which members are done.
    struct Short;

    impl VisitGroup for Short {
        fn visit<G: Membership>(&mut self) {
            assert_eq!(pairs::<G>(10).ops, 10);
            if !G::NEVER_WAITS {
                assert_eq!(tasks::<G>(10).ops, MEMBERS as u64);
            }
        }
    }

    #[test]
    fn every_group_is_waited_for() {
        each_group(&mut Short);
    }
}
