//! Tasks on two threads that all want one lock.
//!
//! The counter inside the lock is also the budget, so that tasks share nothing else while they
//! run; each counts what it was served. Tasks wait at a gate, yielding, so that they start together
//! and not from a queue that the start itself made.

use super::critical_section::CriticalSection;
use super::start_gate::{Line, StartGate};
use super::two_thread_runtime::TwoThreadRuntime;
use crate::exec::yield_now;
use crate::measure::{Bench, Contender, Group, Metric, Sample, fairness};
use crate::peer::AsyncMutex;
use crate::peers::{VisitMutex, each_mutex};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// How many tasks share the lock.
const TASKS: [usize; 3] = [2, 16, 256];
/// Lengths of the critical section, in nanoseconds.
const SECTIONS_NS: [u32; 2] = [0, 100];

/// Measures contention under both runtimes.
pub(crate) fn run(bench: &mut Bench) {
    for runtime in TwoThreadRuntime::ALL {
        for tasks in TASKS {
            for section_ns in SECTIONS_NS {
                for yields in [false, true] {
                    group(bench, Scene { runtime, tasks, section_ns, yields, watch: false });
                }
            }
            group(bench, Scene { runtime, tasks, section_ns: 0, yields: false, watch: true });
        }
    }
}

/// One way to contend.
#[derive(Clone, Copy)]
pub(crate) struct Scene {
    /// The runtime.
    pub(crate) runtime: TwoThreadRuntime,
    /// How many share the lock.
    pub(crate) tasks: usize,
    /// Length of the critical section.
    pub(crate) section_ns: u32,
    /// Yield after each unlock.
    pub(crate) yields: bool,
    /// Measure waits in acquisitions instead of time.
    pub(crate) watch: bool,
}

impl Scene {
    fn name(&self) -> String {
        if self.watch {
            return "mutex/longest-wait".into();
        }
        let yields = if self.yields { "/yield" } else { "" };
        format!("mutex/contended/section-{}{yields}", self.section_ns)
    }
}

fn group(bench: &mut Bench, scene: Scene) {
    let mut build = Build { scene, contenders: Vec::new() };
    each_mutex(&mut build);
    bench.group(Group {
        workload: scene.name(),
        n: scene.tasks as u64,
        runtime: scene.runtime.name(),
        probe_ops: 16 * scene.tasks as u64,
        least_ops: 64 * scene.tasks as u64,
        two_threads: true,
        patient: false,
        metric: if scene.watch { Metric::LongestWait } else { Metric::Time },
        contenders: build.contenders,
    });
}

/// What the tasks of one sample share.
struct Arena<M> {
    lock: Line<M>,
    /// Acquisitions so far, for the thread that watches; on a cache line of its own.
    acquired: Line<AtomicU64>,
    /// How far to count; on a line of its own, that is only read while all is well.
    total: Line<AtomicU64>,
    section: CriticalSection,
    yields: bool,
    gate: StartGate,
    longest_wait: AtomicU64,
}

impl<M: AsyncMutex> Arena<M> {
    fn new(scene: Scene, total: u64) -> Arc<Self> {
        Arc::new(Arena {
            lock: Line(M::new()),
            acquired: Line(AtomicU64::new(0)),
            total: Line(AtomicU64::new(total)),
            section: CriticalSection::of_ns(scene.section_ns),
            yields: scene.yields,
            gate: StartGate::new(scene.tasks),
            longest_wait: AtomicU64::new(0),
        })
    }
}

/// A task that takes the lock until the budget is used.
async fn contend<M: AsyncMutex>(arena: Arc<Arena<M>>, me: usize) {
    arena.gate.enter().await;
    let mut served = 0;
    loop {
        {
            let mut guard = arena.lock.0.lock().await;
            if *guard >= arena.total.0.load(Ordering::Relaxed) {
                break;
            }
            *guard += 1;
            arena.section.run();
        }
        served += 1;
        if arena.yields {
            yield_now().await;
        }
    }
    arena.gate.leave(me, served);
}

/// The same, counting how many acquisitions go by while a waiter is queued.
async fn watch<M: AsyncMutex>(arena: Arc<Arena<M>>, me: usize) {
    // Before the gate: it allocates.
    let watched = poll_fn(|cx| Poll::Ready(OwnWakes::of(cx.waker()))).await;
    arena.gate.enter().await;
    let (mut served, mut longest) = (0, 0);
    loop {
        let queued_at = {
            let (mut guard, queued_at) = lock_watched(&arena, &watched).await;
            if *guard >= arena.total.0.load(Ordering::Relaxed) {
                break;
            }
            *guard += 1;
            // Relaxed: a count, and the lock orders its writers.
            let before = arena.acquired.0.load(Ordering::Relaxed);
            arena.acquired.0.store(before + 1, Ordering::Relaxed);
            queued_at.map(|at| before - at)
        };
        longest = longest.max(queued_at.unwrap_or(0));
        served += 1;
    }
    arena.longest_wait.fetch_max(longest, Ordering::Relaxed);
    arena.gate.leave(me, served);
}

/// Locks, and tells the number of acquisitions right after it was queued, if it was. A poll that has woken its own task has not queued it: it was a yield, by a budget.
async fn lock_watched<'a, M: AsyncMutex>(
    arena: &'a Arena<M>,
    watched: &Arc<OwnWakes>,
) -> (M::Guard<'a>, Option<u64>) {
    let mut lock = pin!(arena.lock.0.lock());
    let waker = Waker::from(watched.clone());
    let mut queued_at = None;
    poll_fn(|_| {
        let polled = watched.during(|| lock.as_mut().poll(&mut Context::from_waker(&waker)));
        match polled {
            (Poll::Ready(guard), _) => Poll::Ready((guard, queued_at)),
            (Poll::Pending, woke_itself) => {
                if !woke_itself {
                    queued_at.get_or_insert_with(|| arena.acquired.0.load(Ordering::Relaxed));
                }
                Poll::Pending
            }
        }
    })
    .await
}

/// The waker of a task, which notices a wake-up by the poll of that task itself.
struct OwnWakes {
    task: Waker,
    woke_itself: AtomicBool,
}

thread_local! {
    /// The task that is being polled on this thread.
    static POLLED: Cell<*const OwnWakes> = const { Cell::new(ptr::null()) };
}

impl OwnWakes {
    fn of(task: &Waker) -> Arc<Self> {
        Arc::new(Self { task: task.clone(), woke_itself: AtomicBool::new(false) })
    }

    /// What `poll` returns, and whether it woke this task.
    fn during<T>(&self, poll: impl FnOnce() -> T) -> (T, bool) {
        POLLED.set(self);
        let polled = poll();
        POLLED.set(ptr::null());
        // Relaxed: written by this thread.
        (polled, self.woke_itself.swap(false, Ordering::Relaxed))
    }
}

impl Wake for OwnWakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if ptr::eq(POLLED.get(), &raw const **self) {
            self.woke_itself.store(true, Ordering::Relaxed);
        }
        self.task.wake_by_ref();
    }
}

/// Runs one sample.
pub(crate) fn sample<M: AsyncMutex>(scene: Scene, ops: u64) -> Sample {
    let arena = Arena::<M>::new(scene, ops);
    for task in 0..scene.tasks {
        if scene.watch {
            scene.runtime.spawn(watch(arena.clone(), task));
        } else {
            scene.runtime.spawn(contend(arena.clone(), task));
        }
    }
    // Relaxed: the tasks see it when they look again.
    let (reading, served) = arena.gate.run(|| arena.total.0.store(0, Ordering::Relaxed));
    let ops = *arena.lock.0.try_lock().expect("given back");
    assert_eq!(served.iter().sum::<u64>(), ops, "{}: one increment an operation, each of one task", M::NAME);
    let longest_wait = arena.longest_wait.load(Ordering::Relaxed);
    Sample { longest_wait, ..Sample::shared(ops, reading, fairness(&served)) }
}

struct Build {
    scene: Scene,
    contenders: Vec<Contender>,
}

impl VisitMutex for Build {
    fn shared<M: AsyncMutex>(&mut self) {
        if M::NEVER_WAITS || (self.scene.watch && M::BLOCKS) {
            return;
        }
        let scene = self.scene;
        let run = Box::new(move |ops| sample::<M>(scene, ops));
        self.contenders.push(Contender { subject: M::NAME, kind: M::KIND, run });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::each_own_mutex;

    /// Runs every scene briefly; `sample` checks the counters.
    struct Short;

    impl VisitMutex for Short {
        fn shared<M: AsyncMutex>(&mut self) {
            for runtime in TwoThreadRuntime::ALL {
                for (yields, watch) in [(false, false), (true, false), (false, true)] {
                    let scene = Scene { runtime, tasks: 4, section_ns: 0, yields, watch };
                    assert_eq!(sample::<M>(scene, 1_000).ops, 1_000);
                }
            }
        }
    }

    #[test]
    fn every_scene_ends_with_its_counters_right() {
        each_own_mutex(&mut Short);
    }
}
