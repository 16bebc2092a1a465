//! The lock passed from task to task on one thread.
//!
//! *Hand-off*: every task queues once, and from then on a task that is given the lock gives it back and
//! asks for it again. Under a fair lock every operation is one hand-off and one task switch, and
//! nothing else; an unfair one takes the lock again at once and switches no tasks, which its
//! fairness shows. *Held*: a task yields while it holds the lock, so that every lock is handed off,
//! fair or not, at two task switches an operation. The executor alone, yielding as often without any
//! lock, is the floor.

use super::minimal;
use crate::exec::yield_now;
use crate::measure::{Bench, Contender, Group, Meter, Metric, Reading, Sample, fairness};
use crate::peer::{AsyncMutex, Kind, LocalMutex};
use crate::peers::{VisitMutex, each_mutex};
use async_executor::LocalExecutor;
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

/// How many tasks share the lock.
const TASKS: [usize; 4] = [2, 8, 64, 1024];

/// Measures hand-offs under the minimal and under a common executor.
pub(crate) fn run(bench: &mut Bench) {
    for (two_threads, held) in [
        (TwoThreadRuntime::Minimal, false),
        (TwoThreadRuntime::Minimal, true),
        (TwoThreadRuntime::AsyncExecutor, false),
    ] {
        for tasks in TASKS {
            let setting = Setting { two_threads, held, tasks };
            let mut build = Build { setting, contenders: Vec::new() };
            each_mutex(&mut build);
            build.push("executor-alone", Kind::Floor, alone);
            bench.group(Group {
                workload: if held { "mutex/hand-off-held" } else { "mutex/hand-off" }.into(),
                n: tasks as u64,
                runtime: two_threads.name(),
                probe_ops: 2 * tasks as u64,
                least_ops: 32 * tasks as u64,
                two_threads: false,
                patient: false,
                metric: Metric::Time,
                contenders: build.contenders,
            });
        }
    }
}

/// One cell of the workload.
#[derive(Clone, Copy)]
struct Setting {
    two_threads: TwoThreadRuntime,
    /// Is the lock held over a yield every time?
    held: bool,
    tasks: usize,
}

/// The executor the tasks run on.
#[derive(Clone, Copy)]
enum TwoThreadRuntime {
    Minimal,
    AsyncExecutor,
}

impl TwoThreadRuntime {
    fn name(self) -> &'static str {
        match self {
            TwoThreadRuntime::Minimal => "minimal",
            TwoThreadRuntime::AsyncExecutor => "async-executor-1",
        }
    }

    /// Runs the tasks to their end.
    fn run<F: Future<Output = ()> + 'static>(self, tasks: impl Iterator<Item = F>) -> Reading {
        match self {
            TwoThreadRuntime::Minimal => minimal::run(tasks),
            TwoThreadRuntime::AsyncExecutor => on_async_executor(tasks),
        }
    }
}

fn on_async_executor<F: Future<Output = ()> + 'static>(tasks: impl Iterator<Item = F>) -> Reading {
    let exec = LocalExecutor::new();
    let handles: Vec<_> = tasks.map(|task| exec.spawn(task)).collect();
    let meter = Meter::start();
    futures_lite::future::block_on(exec.run(async {
        for handle in handles {
            handle.await;
        }
    }));
    meter.read()
}

/// What the tasks of one sample share.
struct Ring<M> {
    mutex: M,
    total: u64,
    held: bool,
    served: Vec<Cell<u64>>,
}

/// Runs one sample; the way a task takes part is given by `pass`.
fn sample<M, F>(
    two_threads: TwoThreadRuntime,
    ring: &Rc<Ring<M>>,
    pass: fn(Rc<Ring<M>>, usize) -> F,
) -> Sample
where
    F: Future<Output = ()> + 'static,
{
    let tasks = ring.served.len();
    let reading = two_threads.run((0..tasks).map(|task| pass(ring.clone(), task)));
    let served: Vec<u64> = ring.served.iter().map(Cell::get).collect();
    assert!(served.iter().sum::<u64>() >= ring.total, "every operation was made by a task");
    Sample::shared(ring.total, reading, fairness(&served))
}

/// A ring around a fresh lock.
fn ring<M>(mutex: M, setting: Setting, total: u64) -> Rc<Ring<M>> {
    let Setting { held, tasks, .. } = setting;
    Rc::new(Ring { mutex, total, held, served: vec![Cell::new(0); tasks] })
}

/// A task that takes the lock and passes it on. The very first holds it over a yield, so that all others queue.
async fn pass<M: LocalMutex>(ring: Rc<Ring<M>>, me: usize) {
    let mut served = 0;
    loop {
        let mut guard = ring.mutex.lock().await;
        if *guard >= ring.total {
            break;
        }
        *guard += 1;
        served += 1;
        if ring.held || *guard == 1 {
            yield_now().await;
        }
        drop(guard);
    }
    ring.served[me].set(served);
}

/// A task that yields as often, and has no lock.
async fn spin_alone(ring: Rc<Ring<()>>, me: usize) {
    let share = ring.total.div_ceil(ring.served.len() as u64);
    for _ in 0..share {
        yield_now().await;
    }
    ring.served[me].set(share);
}

/// One sample of the executor alone.
fn alone(setting: Setting, ops: u64) -> Sample {
    sample(setting.two_threads, &ring((), setting, ops), spin_alone)
}

/// One sample of a mutex, its counter checked.
fn passes<M: LocalMutex>(setting: Setting, ops: u64) -> Sample {
    let ring = ring(M::new(), setting, ops);
    let sample = sample(setting.two_threads, &ring, pass::<M>);
    let count = *ring.mutex.try_lock().expect("given back");
    assert_eq!(count, ops, "{}: one increment an operation", M::NAME);
    sample
}

struct Build {
    setting: Setting,
    contenders: Vec<Contender>,
}

impl Build {
    fn push(&mut self, subject: &'static str, kind: Kind, work: fn(Setting, u64) -> Sample) {
        let setting = self.setting;
        let run = Box::new(move |ops| work(setting, ops));
        self.contenders.push(Contender { subject, kind, run });
    }
}

impl VisitMutex for Build {
    fn shared<M: AsyncMutex>(&mut self) {
        self.local::<M>();
    }

    fn local<M: LocalMutex>(&mut self) {
        if !M::BLOCKS {
            self.push(M::NAME, M::KIND, passes::<M>);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::each_own_mutex;

    /// Runs both stages briefly; `passes` checks the counters.
    struct Short;

    impl VisitMutex for Short {
        fn shared<M: AsyncMutex>(&mut self) {
            for (two_threads, held) in [
                (TwoThreadRuntime::Minimal, true),
                (TwoThreadRuntime::Minimal, false),
                (TwoThreadRuntime::AsyncExecutor, false),
            ] {
                assert_eq!(passes::<M>(Setting { two_threads, held, tasks: 8 }, 800).ops, 800);
            }
        }
    }

    #[test]
    fn every_stage_ends_with_its_counters_right() {
        each_own_mutex(&mut Short);
    }
}
