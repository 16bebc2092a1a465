//! Memory of a task beyond its future.

use super::OWN;
use crate::alloc;
use crate::exec::let_other_threads_run;
use crate::measure::{Bench, Contender, Group};
use crate::peer::TaskRuntime;
use crate::peers::{VisitRuntime, each_runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tasuki::Event;

/// Tasks that wait.
const TASKS: usize = 100_000;

/// Weighs a task of every runtime.
pub(super) fn run(bench: &mut Bench) {
    let mut weigh = Weigh(Vec::new());
    each_runtime(&mut weigh);
    bench.group(Group { n: TASKS as u64, runtime: OWN, ..Group::exact("runtime/memory", "bytes", weigh.0) });
}

struct Weigh(Vec<Contender>);

impl VisitRuntime for Weigh {
    fn visit<R: TaskRuntime>(&mut self) {
        self.0.push(Contender::exact(R::NAME, R::KIND, || beyond_future::<R>(TASKS)));
    }
}

/// Bytes asked of the allocator for each task that has been polled and waits, less the size of its future. Its
/// handle, which the caller keeps where it likes, is not counted.
fn beyond_future<R: TaskRuntime>(tasks: usize) -> f64 {
    let (end, polled) = (Arc::new(Event::manual()), Arc::new(AtomicUsize::new(0)));
    let idle = |()| {
        let (end, polled) = (end.clone(), polled.clone());
        async move {
            // Relaxed: a number to wait for; the tasks are joined.
            polled.fetch_add(1, Ordering::Relaxed);
            end.wait().await;
        }
    };
    let future_bytes = size_of_val(&idle(()));
    let bytes = alloc::counting(|| {
        R::block_on(async {
            // One before, so that what is made once is not counted.
            let first = R::spawn(idle(()));
            let mut handles = Vec::with_capacity(tasks);
            let before = alloc::live_bytes();
            handles.extend((0..tasks).map(|_| R::spawn(idle(()))));
            while polled.load(Ordering::Relaxed) <= tasks {
                let_other_threads_run();
                R::yield_now().await;
            }
            let bytes = alloc::live_bytes() - before;
            end.set();
            R::output(first.await);
            for handle in handles {
                R::output(handle.await);
            }
            bytes
        })
    });
    bytes as f64 / tasks as f64 - future_bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task is more than its future, and not a thread.
    struct Plausible;

    impl VisitRuntime for Plausible {
        fn visit<R: TaskRuntime>(&mut self) {
            let bytes = beyond_future::<R>(1_000);
            assert!(bytes > 0.0 && bytes < 4_096.0, "{}: {bytes}", R::NAME);
        }
    }

    #[test]
    fn every_runtime_can_be_weighed() {
        // Other tests allocate and free at the same time.
        crate::process::alone(|| each_runtime(&mut Plausible));
    }
}
