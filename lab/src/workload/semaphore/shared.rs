//! Many tasks, few permits.
//!
//! A task yields while it holds a permit, so that all others queue and every permit is handed on. Without
//! the yield two threads would never want more than two permits at a time.

use super::check_permits;
use crate::exec::yield_now;
use crate::measure::{Bench, Contender, Group, Sample, fairness};
use crate::peer::AsyncSemaphore;
use crate::peers::{VisitSemaphore, each_semaphore};
use crate::workload::minimal;
use crate::workload::start_gate::{Budget, Line, StartGate};
use crate::workload::two_thread_runtime::TwoThreadRuntime;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Tasks that share the permits.
const TASKS: usize = 64;
/// Permits that they share.
const PERMITS: usize = 4;
/// Other numbers of permits, so that the cost is seen to grow with them or not.
const OTHERS: [usize; 3] = [1, 16, 48];

/// Measures sharing on one and on two threads.
pub(crate) fn run(bench: &mut Bench) {
    local_group(bench, "semaphore/held", TASKS, PERMITS);
    for permits in OTHERS {
        local_group(bench, "semaphore/permits", permits, permits);
    }
    let mut build = Build { scene: Scene::Tokio, contenders: Vec::new() };
    each_semaphore(&mut build);
    bench.group(Group::on_two_threads(
        "semaphore/held",
        TASKS,
        TwoThreadRuntime::Tokio.name(),
        build.contenders,
    ));
}

/// Measures sharing of so many permits on one thread.
fn local_group(bench: &mut Bench, workload: &str, n: usize, permits: usize) {
    let mut build = Build { scene: Scene::Local(permits), contenders: Vec::new() };
    each_semaphore(&mut build);
    build.contenders.push(minimal::alone(TASKS));
    let unit = 32 * TASKS as u64;
    bench.group(Group::on_one_thread(workload, n, minimal::NAME, unit, build.contenders));
}

/// Where the tasks run.
#[derive(Clone, Copy)]
enum Scene {
    /// One thread, minimal executor, so many permits.
    Local(usize),
    /// Two threads under tokio.
    Tokio,
}

struct Build {
    scene: Scene,
    contenders: Vec<Contender>,
}

impl VisitSemaphore for Build {
    fn visit<S: AsyncSemaphore>(&mut self) {
        if S::NEVER_WAITS {
            return;
        }
        let scene = self.scene;
        let run = Box::new(move |ops| match scene {
            Scene::Local(permits) => local::<S>(permits, ops),
            Scene::Tokio => on_tokio::<S>(ops),
        });
        self.contenders.push(Contender { subject: S::NAME, kind: S::KIND, run });
    }
}

/// What the tasks of one thread share.
struct Ring<S> {
    semaphore: S,
    permits: usize,
    left: Cell<u64>,
    inside: Cell<usize>,
    served: Vec<Cell<u64>>,
}

/// One sample on one thread.
fn local<S: AsyncSemaphore>(permits: usize, ops: u64) -> Sample {
    let ring = Rc::new(Ring {
        semaphore: S::new(permits),
        permits,
        left: Cell::new(ops),
        inside: Cell::new(0),
        served: vec![Cell::new(0); TASKS],
    });
    let reading = minimal::run((0..TASKS).map(|task| take_turns(ring.clone(), task)));
    let served: Vec<u64> = ring.served.iter().map(Cell::get).collect();
    assert_eq!(served.iter().sum::<u64>(), ops, "{}: every operation was made by a task", S::NAME);
    check_permits(&ring.semaphore, permits);
    Sample::shared(ops, reading, fairness(&served))
}

/// A task that holds a permit over a yield until the budget is used.
async fn take_turns<S: AsyncSemaphore>(ring: Rc<Ring<S>>, me: usize) {
    let mut served = 0;
    loop {
        let _permit = ring.semaphore.acquire().await;
        let left = ring.left.get();
        if left == 0 {
            break;
        }
        ring.left.set(left - 1);
        ring.inside.set(ring.inside.get() + 1);
        assert!(ring.inside.get() <= ring.permits, "{}: more inside than permits", S::NAME);
        served += 1;
        yield_now().await;
        ring.inside.set(ring.inside.get() - 1);
    }
    ring.served[me].set(served);
}

/// What the tasks of two threads share.
struct Arena<S> {
    semaphore: Line<S>,
    budget: Budget,
    gate: StartGate,
}

/// One sample on two threads.
fn on_tokio<S: AsyncSemaphore>(ops: u64) -> Sample {
    let semaphore = Line(S::new(PERMITS));
    let arena = Arc::new(Arena { semaphore, budget: Budget::new(ops), gate: StartGate::new(TASKS) });
    for task in 0..TASKS {
        TwoThreadRuntime::Tokio.spawn(contend(arena.clone(), task));
    }
    let (reading, served) = arena.gate.run(|| arena.budget.cut());
    let ops = served.iter().sum::<u64>();
    check_permits(&arena.semaphore.0, PERMITS);
    Sample::shared(ops, reading, fairness(&served))
}

/// A task that takes permits until the budget is used.
async fn contend<S: AsyncSemaphore>(arena: Arc<Arena<S>>, me: usize) {
    arena.gate.enter().await;
    let mut served = 0;
    while arena.budget.take() {
        for _ in 0..Budget::CHUNK {
            let permit = arena.semaphore.0.acquire().await;
            yield_now().await;
            drop(permit);
        }
        served += Budget::CHUNK;
    }
    arena.gate.leave(me, served);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs every scene briefly; the samples check their counters.
    struct Short;

    impl VisitSemaphore for Short {
        fn visit<S: AsyncSemaphore>(&mut self) {
            assert_eq!(crate::workload::semaphore::pairs::<S>(100).ops, 100);
            if !S::NEVER_WAITS {
                assert_eq!(local::<S>(3, 500).ops, 500);
                assert_eq!(on_tokio::<S>(500).ops, 500);
            }
        }
    }

    #[test]
    fn every_scene_ends_with_its_counters_right() {
        each_semaphore(&mut Short);
    }
}
