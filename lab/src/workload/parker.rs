//! Threads that park: leaving a token, finding it, and waking each other.

use crate::measure::{Bench, Contender, Group, Meter, Metric, Reading, Sample};
use crate::peer::Park;
use crate::peers::{VisitPark, each_parker};
use crate::placement::pin_nth;
use std::hint::black_box;
use std::sync::mpsc::channel;

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
    let (to_first, from_second) = channel::<P::Unparker>();
    let (to_second, from_first) = channel::<P::Unparker>();
    let second = std::thread::spawn(move || {
        pin_nth(1);
        let parker = P::new();
        to_first.send(parker.unparker()).expect("the first thread waits for it");
        let first = from_first.recv().expect("the first thread sends it");
        for _ in 0..trips {
            parker.park();
            P::unpark(&first);
        }
    });
    let first = std::thread::spawn(move || -> Reading {
        pin_nth(0);
        let parker = P::new();
        to_second.send(parker.unparker()).expect("the second thread waits for it");
        let second = from_second.recv().expect("the second thread sends it");
        let meter = Meter::start();
        for _ in 0..trips {
            P::unpark(&second);
            parker.park();
        }
        meter.read()
    });
    let reading = first.join().expect("the first thread ends well");
    second.join().expect("the second thread ends well");
    Sample::alone(2 * trips, reading)
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
