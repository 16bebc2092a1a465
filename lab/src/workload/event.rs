//! Events: a signal that is there, a signal passed to and fro, and many waiters released at once.

use super::{minimal, release};
use crate::measure::{Bench, Contender, Group, Meter, Sample};
use crate::peer::AutoEvent;
use crate::peers::{VisitAuto, each_auto_event, each_manual_event};
use std::cell::Cell;
use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Waker};

/// Measures every event.
pub(crate) fn run(bench: &mut Bench) {
    release::sizes(bench, "event/size", each_manual_event);
    let mut kept = Kept(Vec::new());
    each_auto_event(&mut kept);
    bench.group(Group::on_one_thread("event/wait-set", 1, "none", 1_000, kept.0));
    let mut build = Build(Vec::new());
    each_auto_event(&mut build);
    build.0.push(minimal::alone(2));
    bench.group(Group::on_one_thread("event/ping-pong", 2, minimal::NAME, 64, build.0));
    release::run(bench, "event/wake-all", each_manual_event);
}

struct Build(Vec<Contender>);

impl VisitAuto for Build {
    fn visit<E: AutoEvent>(&mut self) {
        self.0.push(Contender { subject: E::NAME, kind: E::KIND, run: Box::new(ping_pong::<E>) });
    }
}

/// The events that keep a signal until it is waited for.
struct Kept(Vec<Contender>);

impl VisitAuto for Kept {
    fn visit<E: AutoEvent>(&mut self) {
        let event = E::new();
        event.set();
        if is_ready(event.wait()) {
            self.0.push(Contender { subject: E::NAME, kind: E::KIND, run: Box::new(wait_set::<E>) });
        }
    }
}

fn is_ready(wait: impl Future) -> bool {
    pin!(wait).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// A signal, and the wait that finds it.
fn wait_set<E: AutoEvent>(ops: u64) -> Sample {
    let event = E::new();
    let shared = black_box(&event);
    let meter = Meter::start();
    let mut found = 0;
    for _ in 0..ops {
        shared.set();
        found += u64::from(is_ready(black_box(shared).wait()));
    }
    let reading = meter.read();
    assert_eq!(found, ops, "{}: every signal is found", E::NAME);
    Sample::alone(ops, reading)
}

/// Two players and the two events that tell them their turn.
struct Court<E> {
    turns: [E; 2],
    hops: Cell<u64>,
    rounds: u64,
}

/// Two tasks that signal each other; an operation is one way.
fn ping_pong<E: AutoEvent>(ops: u64) -> Sample {
    let rounds = ops.div_ceil(2);
    let court = Rc::new(Court { turns: [E::new(), E::new()], hops: Cell::new(0), rounds });
    // The first waiter is spawned first: some events keep nothing for later.
    let reading = minimal::run([1, 0].into_iter().map(|me| play(court.clone(), me)));
    assert_eq!(court.hops.get(), 2 * rounds, "{}: every hop was made", E::NAME);
    Sample::alone(2 * rounds, reading)
}

/// One player; player 0 serves.
async fn play<E: AutoEvent>(court: Rc<Court<E>>, me: usize) {
    for round in 0..court.rounds {
        if me == 1 || round > 0 {
            court.turns[me].wait().await;
        }
        let hops = court.hops.get();
        assert_eq!(hops % 2, me as u64, "{}: out of turn", E::NAME);
        court.hops.set(hops + 1);
        court.turns[1 - me].set();
    }
    if me == 0 {
        court.turns[0].wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays briefly; the court checks the turns.
    struct Short;

    impl VisitAuto for Short {
        fn visit<E: AutoEvent>(&mut self) {
            assert_eq!(ping_pong::<E>(101).ops, 102, "{}", E::NAME);
            let mut kept = Kept(Vec::new());
            kept.visit::<E>();
            kept.0.iter_mut().for_each(|contender| assert_eq!((contender.run)(7).ops, 7, "{}", E::NAME));
        }
    }

    #[test]
    fn every_event_keeps_the_turns() {
        each_auto_event(&mut Short);
    }
}
