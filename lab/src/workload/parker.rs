//! Threads that park: leaving a token, finding it, and waking each other.

use crate::measure::{Bench, Contender, Group, Meter, Metric, Reading, Sample};
use crate::peer::Park;
use crate::peers::{VisitPark, each_parker};
use crate::placement::pin_nth;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Measures every parker.
pub(crate) fn run(bench: &mut Bench) {
    for step in [Step::UnparkSet, Step::TokenRound, Step::Hop] {
        let mut build = Build { step, contenders: Vec::new() };
        each_parker(&mut build);
        let two_threads = matches!(step, Step::Hop);
        bench.group(Group {
            workload: step.name().into(),
            n: if two_threads { 2 } else { 1 },
            runtime: "none",
            probe_ops: 20,
            least_ops: 100,
            two_threads,
            patient: false,
            metric: Metric::Time,
            contenders: build.contenders,
        });
    }
}

/// What is timed.
#[derive(Clone, Copy)]
enum Step {
    /// `unpark` when the token is there already.
    UnparkSet,
    /// `unpark` and `park` on one thread.
    TokenRound,
    /// From `unpark` on one thread to running on the other.
    Hop,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Step::UnparkSet => "parker/unpark-set",
            Step::TokenRound => "parker/token-round",
            Step::Hop => "parker/hop",
        }
    }
}

fn unpark_set<P: Park>(ops: u64) -> Sample {
    let parker = P::new();
    let unparker = parker.unparker();
    P::unpark(&unparker);
    let meter = Meter::start();
    for _ in 0..ops {
        P::unpark(black_box(&unparker));
    }
    let reading = meter.read();
    parker.park();
    Sample::alone(ops, reading)
}

fn token_round<P: Park>(ops: u64) -> Sample {
    let parker = P::new();
    let unparker = parker.unparker();
    let meter = Meter::start();
    for _ in 0..ops {
        P::unpark(black_box(&unparker));
        black_box(&parker).park();
    }
    Sample::alone(ops, meter.read())
}

/// Two threads wake each other in turns; an operation is one way.
fn hops<P: Park>(ops: u64) -> Sample {
    let trips = ops.div_ceil(2);
    let (first_end, second_end) = (channel(), channel());
    let turns = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let second = std::thread::spawn({
        let (turns, to_first, from_first) = (turns.clone(), first_end.0, second_end.1);
        move || {
            let end = End::<P>::meet(1, &turns, &to_first, &from_first);
            for _ in 0..trips {
                end.wait();
                end.wake();
            }
        }
    });
    let first = std::thread::spawn(move || -> Reading {
        let end = End::<P>::meet(0, &turns, &second_end.0, &first_end.1);
        let meter = Meter::start();
        for _ in 0..trips {
            end.wake();
            end.wait();
        }
        meter.read()
    });
    let reading = first.join().expect("the first thread ends well");
    second.join().expect("the second thread ends well");
    Sample::alone(2 * trips, reading)
}

/// One of two threads that wake each other.
struct End<'a, P: Park> {
    me: usize,
    turns: &'a [AtomicBool; 2],
    parker: P,
    other: P::Unparker,
}

impl<'a, P: Park> End<'a, P> {
    /// Pins this thread and exchanges handles with the other.
    fn meet(
        me: usize,
        turns: &'a [AtomicBool; 2],
        to: &Sender<P::Unparker>,
        from: &Receiver<P::Unparker>,
    ) -> Self {
        pin_nth(me);
        let parker = P::new();
        to.send(parker.unparker()).expect("the other thread waits for it");
        let other = from.recv().expect("the other thread sends it");
        End { me, turns, parker, other }
    }

    /// Makes it the other's turn.
    fn wake(&self) {
        // Release: pairs with the Acquire in `wait`.
        self.turns[1 - self.me].store(true, Ordering::Release);
        P::unpark(&self.other);
    }

    /// Parks until it is this one's turn: a stray token, which threads may have, is not a turn.
    fn wait(&self) {
        while !self.turns[self.me].load(Ordering::Acquire) {
            self.parker.park();
        }
        // Relaxed: the other sets it again only after this one's `wake`.
        self.turns[self.me].store(false, Ordering::Relaxed);
    }
}

struct Build {
    step: Step,
    contenders: Vec<Contender>,
}

impl VisitPark for Build {
    fn visit<P: Park>(&mut self) {
        let work = match self.step {
            Step::UnparkSet => unpark_set::<P>,
            Step::TokenRound => token_round::<P>,
            Step::Hop => hops::<P>,
        };
        self.contenders.push(Contender { subject: P::NAME, kind: P::KIND, run: Box::new(work) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every step ends, for every parker.
    struct Ends;

    impl VisitPark for Ends {
        fn visit<P: Park>(&mut self) {
            for work in [unpark_set::<P>, token_round::<P>, hops::<P>] {
                assert!(work(200).ops >= 200, "{}", P::NAME);
            }
        }
    }

    #[test]
    fn every_step_ends() {
        each_parker(&mut Ends);
    }
}
