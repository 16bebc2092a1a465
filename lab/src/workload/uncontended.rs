//! A lock that no other task wants: lock and unlock, and `try_lock`.

use crate::measure::{Bench, Contender, Group, Meter, Metric, Sample};
use crate::peer::{AsyncMutex, LocalMutex};
use crate::peers::{VisitMutex, each_mutex};
use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Measures lock and try_lock pairs.
pub(crate) fn run(bench: &mut Bench) {
    for (workload, tries) in [("mutex/uncontended", false), ("mutex/try_lock", true)] {
        let mut build = Build { tries, contenders: Vec::new() };
        each_mutex(&mut build);
        bench.group(Group {
            workload: workload.into(),
            n: 1,
            runtime: "none",
            probe_ops: 1_000,
            least_ops: 1_000,
            two_threads: false,
            patient: false,
            metric: Metric::Time,
            contenders: build.contenders,
        });
    }
}

struct Build {
    tries: bool,
    contenders: Vec<Contender>,
}

impl VisitMutex for Build {
    fn shared<M: AsyncMutex>(&mut self) {
        self.local::<M>();
    }

    fn local<M: LocalMutex>(&mut self) {
        let mutex = M::new();
        let work = if self.tries { try_pairs::<M> } else { pairs::<M> };
        let run = move |ops| {
            let before = *mutex.try_lock().expect("free");
            let meter = Meter::start();
            work(black_box(&mutex), ops);
            let reading = meter.read();
            let done = *mutex.try_lock().expect("given back") - before;
            assert_eq!(done, ops, "{}: every pair increments once", M::NAME);
            Sample::alone(ops, reading)
        };
        self.contenders.push(Contender { subject: M::NAME, kind: M::KIND, run: Box::new(run) });
    }
}

/// Lock, increment, unlock: the subject's own future, polled once.
#[inline(never)]
fn pairs<M: LocalMutex>(mutex: &M, ops: u64) {
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..ops {
        match pin!(mutex.lock()).poll(&mut cx) {
            Poll::Ready(mut guard) => *guard += 1,
            Poll::Pending => panic!("{}: no other task holds it", M::NAME),
        }
    }
}

/// try_lock, increment, unlock.
#[inline(never)]
fn try_pairs<M: LocalMutex>(mutex: &M, ops: u64) {
    for _ in 0..ops {
        match mutex.try_lock() {
            Some(mut guard) => *guard += 1,
            None => panic!("{}: no other task holds it", M::NAME),
        }
    }
}
