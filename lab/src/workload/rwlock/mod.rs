//! Reader-writer locks: uncontended, readers on two threads, and mixes of readers and writers.

mod mix;
mod readers;

use crate::measure::{Bench, Contender, Group, Meter, Sample};
use crate::peer::AsyncRwLock;
use crate::peers::{VisitRwLock, each_rwlock};
use crate::workload::now;
use std::hint::black_box;

/// Measures every reader-writer lock.
pub(crate) fn run(bench: &mut Bench) {
    let mut weigh = Weigh(Vec::new());
    each_rwlock(&mut weigh);
    bench.group(Group::exact("rwlock/size", "bytes", weigh.0));
    for (workload, writes) in [("rwlock/read", false), ("rwlock/write", true)] {
        let mut build = Build { writes, contenders: Vec::new() };
        each_rwlock(&mut build);
        bench.group(Group::on_one_thread(workload, 1, "none", 1_000, build.contenders));
    }
    readers::run(bench);
    mix::run(bench);
}

/// Notes sizes.
struct Weigh(Vec<Contender>);

impl VisitRwLock for Weigh {
    fn visit<L: AsyncRwLock>(&mut self) {
        self.0.push(Contender::exact(L::NAME, L::KIND, || L::BYTES as f64));
    }
}

struct Build {
    writes: bool,
    contenders: Vec<Contender>,
}

impl VisitRwLock for Build {
    fn visit<L: AsyncRwLock>(&mut self) {
        let work = if self.writes { writes::<L> } else { reads::<L> };
        self.contenders.push(Contender { subject: L::NAME, kind: L::KIND, run: Box::new(work) });
    }
}

/// Read, look, give back: the subject's own future, polled once.
fn reads<L: AsyncRwLock>(ops: u64) -> Sample {
    let lock = L::new();
    *now!(lock.write()) = 1;
    let shared = black_box(&lock);
    let meter = Meter::start();
    let mut seen = 0;
    for _ in 0..ops {
        seen += *now!(shared.read());
    }
    let reading = meter.read();
    assert_eq!(seen, ops, "{}: the value is read every time", L::NAME);
    Sample::alone(ops, reading)
}

/// Write, increment, give back.
fn writes<L: AsyncRwLock>(ops: u64) -> Sample {
    let lock = L::new();
    let shared = black_box(&lock);
    let meter = Meter::start();
    for _ in 0..ops {
        *now!(shared.write()) += 1;
    }
    let reading = meter.read();
    assert_eq!(*now!(lock.read()), ops, "{}: one increment an operation", L::NAME);
    Sample::alone(ops, reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs briefly; the samples check the value.
    struct Short;

    impl VisitRwLock for Short {
        fn visit<L: AsyncRwLock>(&mut self) {
            assert_eq!(reads::<L>(50).ops + writes::<L>(50).ops, 100);
            assert_eq!(readers::sample::<L>(200).ops, 200);
            for percent in mix::WRITES {
                assert!(mix::sample::<L>(percent, 500).ops >= 500);
            }
        }
    }

    #[test]
    fn every_lock_keeps_its_counters_right() {
        each_rwlock(&mut Short);
    }
}
