//! Barriers: parties that meet again and again, and what becomes of an arrival that is cancelled.

use super::minimal;
use super::start_gate::{Line, StartGate};
use super::two_thread_runtime::TwoThreadRuntime;
use crate::measure::{Bench, Contender, Group, Sample};
use crate::peer::AsyncBarrier;
use crate::peers::{VisitBarrier, each_barrier};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

/// How many meet.
const PARTIES: [usize; 2] = [8, 64];

/// Measures every barrier, and tells which of them count an arrival that was cancelled.
pub(crate) fn run(bench: &mut Bench) {
    let mut note = Note { sizes: Vec::new(), leaks: Vec::new() };
    each_barrier(&mut note);
    bench.group(Group::exact("barrier/size", "bytes", note.sizes));
    bench.group(Group::exact("barrier/cancelled-arrival", "arrivals leaked", note.leaks));
    for parties in PARTIES {
        let mut build = Build { two_threads: false, parties, contenders: Vec::new() };
        each_barrier(&mut build);
        build.contenders.push(minimal::alone(parties));
        let unit = 8 * parties as u64;
        bench.group(Group::on_one_thread("barrier/arrive", parties, minimal::NAME, unit, build.contenders));
    }
    for parties in PARTIES {
        let mut build = Build { two_threads: true, parties, contenders: Vec::new() };
        each_barrier(&mut build);
        bench.group(Group::on_two_threads(
            "barrier/arrive",
            parties,
            TwoThreadRuntime::Tokio.name(),
            build.contenders,
        ));
    }
}

/// Arrivals that are counted although they were cancelled: one of three parties arrives and leaves again,
/// and then the two others arrive. If that is enough, the cancelled arrival was counted.
pub(crate) fn leaked_arrivals<B: AsyncBarrier>() -> usize {
    let barrier = B::new(3);
    let mut cx = Context::from_waker(Waker::noop());
    let mut first = Box::pin(barrier.arrive());
    assert!(first.as_mut().poll(&mut cx).is_pending(), "{}: one of three", B::NAME);
    drop(first);
    let (mut second, mut third) = (pin!(barrier.arrive()), pin!(barrier.arrive()));
    assert!(second.as_mut().poll(&mut cx).is_pending(), "{}: one or two of three", B::NAME);
    let third = third.as_mut().poll(&mut cx).is_ready();
    let second = second.as_mut().poll(&mut cx).is_ready();
    usize::from(second || third)
}

/// What needs no clock.
struct Note {
    sizes: Vec<Contender>,
    leaks: Vec<Contender>,
}

impl VisitBarrier for Note {
    fn visit<B: AsyncBarrier>(&mut self) {
        self.sizes.push(Contender::exact(B::NAME, B::KIND, || B::BYTES as f64));
        self.leaks.push(Contender::exact(B::NAME, B::KIND, || leaked_arrivals::<B>() as f64));
    }
}

struct Build {
    two_threads: bool,
    parties: usize,
    contenders: Vec<Contender>,
}

impl VisitBarrier for Build {
    fn visit<B: AsyncBarrier>(&mut self) {
        if self.parties > B::MOST {
            return;
        }
        let (two_threads, parties) = (self.two_threads, self.parties);
        let run = Box::new(move |ops| match two_threads {
            false => on_one_thread::<B>(parties, ops),
            true => on_two_threads::<B>(parties, ops),
        });
        self.contenders.push(Contender { subject: B::NAME, kind: B::KIND, run });
    }
}

/// What the parties share.
struct Meeting<B> {
    barrier: Line<B>,
    gate: StartGate,
    phases: u64,
    leaders: AtomicU64,
    /// The last phase that began, kept by its leaders: no party may be more than one ahead.
    begun: Line<AtomicU64>,
}

impl<B: AsyncBarrier> Meeting<B> {
    fn new(parties: usize, ops: u64) -> Self {
        Meeting {
            barrier: Line(B::new(parties)),
            gate: StartGate::new(parties),
            phases: ops.div_ceil(parties as u64),
            leaders: AtomicU64::new(0),
            begun: Line(AtomicU64::new(0)),
        }
    }

    /// Takes part in every phase; how often it led.
    async fn attend(&self) -> u64 {
        let mut led = 0;
        for phase in 0..self.phases {
            let told = self.barrier.0.arrive().await;
            if B::is_leader(&told) {
                led += 1;
                // Relaxed: the barrier orders the leaders.
                let before = self.begun.0.swap(phase + 1, Ordering::Relaxed);
                assert_eq!(before, phase, "{}: a phase was skipped", B::NAME);
            }
        }
        led
    }

    /// One leader a phase.
    fn check(&self) {
        // Relaxed: read when the parties are done.
        let leaders = self.leaders.load(Ordering::Relaxed);
        assert_eq!(leaders, self.phases, "{}: one leader a phase", B::NAME);
    }
}

/// One sample on one thread; an operation is an arrival.
fn on_one_thread<B: AsyncBarrier>(parties: usize, ops: u64) -> Sample {
    let meeting = Rc::new(Meeting::<B>::new(parties, ops));
    let reading = minimal::run((0..parties).map(|_| {
        let meeting = meeting.clone();
        async move {
            let led = meeting.attend().await;
            meeting.leaders.fetch_add(led, Ordering::Relaxed);
        }
    }));
    meeting.check();
    Sample::alone(meeting.phases * parties as u64, reading)
}

/// One sample on two threads; an operation is an arrival.
fn on_two_threads<B: AsyncBarrier>(parties: usize, ops: u64) -> Sample {
    let meeting = Arc::new(Meeting::<B>::new(parties, ops));
    for party in 0..parties {
        let meeting = meeting.clone();
        TwoThreadRuntime::Tokio.spawn(async move {
            meeting.gate.enter().await;
            let led = meeting.attend().await;
            meeting.leaders.fetch_add(led, Ordering::Relaxed);
            meeting.gate.leave(party, meeting.phases);
        });
    }
    let (reading, served) = meeting.gate.run(|| ());
    meeting.check();
    Sample::alone(served.iter().sum(), reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Meets briefly; the meetings check their leaders. Notes which subjects count a cancelled arrival.
    #[derive(Default)]
    struct Short {
        leaks: Vec<&'static str>,
    }

    impl VisitBarrier for Short {
        fn visit<B: AsyncBarrier>(&mut self) {
            assert_eq!(on_one_thread::<B>(3, 30).ops, 30);
            assert_eq!(on_two_threads::<B>(3, 30).ops, 30);
            if leaked_arrivals::<B>() > 0 {
                self.leaks.push(B::NAME);
            }
        }
    }

    #[test]
    fn every_barrier_meets_and_the_documented_ones_leak() {
        let mut short = Short::default();
        each_barrier(&mut short);
        assert_eq!(short.leaks, ["tokio", "async-lock", "asyncband", "mea", "saa"]);
    }
}
