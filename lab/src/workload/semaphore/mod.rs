//! Semaphores: a permit that no other task wants, and few permits that many tasks want.

mod shared;

use crate::measure::{Bench, Contender, Group, Meter, Sample};
use crate::peer::AsyncSemaphore;
use crate::peers::{VisitSemaphore, each_semaphore};
use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Measures every semaphore.
pub(crate) fn run(bench: &mut Bench) {
    let mut weigh = Weigh { semaphores: Vec::new(), waits: Vec::new() };
    each_semaphore(&mut weigh);
    bench.group(Group::exact("semaphore/size", "bytes", weigh.semaphores));
    bench.group(Group::exact("semaphore/size/future", "bytes", weigh.waits));
    for (workload, tries) in [("semaphore/uncontended", false), ("semaphore/try_acquire", true)] {
        let mut build = Build { tries, contenders: Vec::new() };
        each_semaphore(&mut build);
        bench.group(Group::on_one_thread(workload, 1, "none", 1_000, build.contenders));
    }
    shared::run(bench);
}

/// Notes sizes.
struct Weigh {
    semaphores: Vec<Contender>,
    waits: Vec<Contender>,
}

impl VisitSemaphore for Weigh {
    fn visit<S: AsyncSemaphore>(&mut self) {
        self.semaphores.push(Contender::exact(S::NAME, S::KIND, || S::BYTES as f64));
        if !S::NEVER_WAITS {
            self.waits.push(Contender::exact(S::NAME, S::KIND, || S::new(1).future_bytes() as f64));
        }
    }
}

struct Build {
    tries: bool,
    contenders: Vec<Contender>,
}

impl VisitSemaphore for Build {
    fn visit<S: AsyncSemaphore>(&mut self) {
        let work = if self.tries { try_pairs::<S> } else { pairs::<S> };
        self.contenders.push(Contender { subject: S::NAME, kind: S::KIND, run: Box::new(work) });
    }
}

/// Permits of the uncontended workloads: enough that the count is not what is special.
const PERMITS: usize = 4;

/// Acquire and release: the subject's own future, polled once.
fn pairs<S: AsyncSemaphore>(ops: u64) -> Sample {
    timed::<S>(ops, |semaphore| {
        let mut cx = Context::from_waker(Waker::noop());
        match pin!(semaphore.acquire()).poll(&mut cx) {
            Poll::Ready(permit) => drop(permit),
            Poll::Pending => panic!("{}: no other task wants it", S::NAME),
        }
    })
}

/// try_acquire and release.
fn try_pairs<S: AsyncSemaphore>(ops: u64) -> Sample {
    timed::<S>(ops, |semaphore| match semaphore.try_acquire() {
        Some(permit) => drop(permit),
        None => panic!("{}: no other task wants it", S::NAME),
    })
}

/// Times pairs, and checks that every permit came back, and no more.
fn timed<S: AsyncSemaphore>(ops: u64, pair: impl Fn(&S)) -> Sample {
    let semaphore = S::new(PERMITS);
    let shared = black_box(&semaphore);
    let meter = Meter::start();
    for _ in 0..ops {
        pair(shared);
    }
    let reading = meter.read();
    check_permits(&semaphore, PERMITS);
    Sample::alone(ops, reading)
}

/// All permits are free, and no more.
fn check_permits<S: AsyncSemaphore>(semaphore: &S, permits: usize) {
    let held: Vec<_> = (0..permits).map_while(|_| semaphore.try_acquire()).collect();
    assert_eq!(held.len(), permits, "{}: a permit was lost", S::NAME);
    assert!(semaphore.try_acquire().is_none(), "{}: a permit too many", S::NAME);
}
