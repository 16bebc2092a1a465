//! One look at the program: locks and waits, and the runtimes that were given. Bounded: what is listed is the top of it, and the rest is counted.

use tasuki::inspect::{Snapshot, snapshot_limited};

/// So many locks, waits and places are listed.
pub(crate) const LISTED: usize = 100;

/// What was seen.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) locks: Snapshot,
    #[cfg(feature = "rt")]
    pub(crate) runtimes: Vec<runtime::RuntimeSample>,
}

/// What is looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    #[cfg(feature = "rt")]
    pub(crate) runtimes: Vec<tasuki_rt::Handle>,
}

impl Sources {
    pub(crate) fn look(&self) -> Sample {
        let locks = snapshot_limited(LISTED);
        #[cfg(feature = "rt")]
        let runtimes = runtime::look(&self.runtimes, &locks);
        Sample {
            locks,
            #[cfg(feature = "rt")]
            runtimes,
        }
    }

    /// As text, for the command line: at most so many waits, and tasks of each runtime.
    pub(crate) fn text(&self, limit: usize) -> String {
        let text = snapshot_limited(limit).to_string() + "\n";
        #[cfg(feature = "rt")]
        let text = self.runtimes.iter().fold(text, |text, runtime| text + &runtime::text(runtime, limit));
        text
    }
}

#[cfg(feature = "rt")]
impl Sample {
    /// How many tasks there are.
    pub(crate) fn tasks(&self) -> usize {
        self.runtimes.iter().map(|runtime| runtime.metrics.tasks()).sum()
    }

    /// How many of them are in a queue.
    pub(crate) fn queued(&self) -> usize {
        self.runtimes.iter().map(|runtime| runtime::queued(&runtime.metrics)).sum()
    }

    /// How many polls there have been.
    pub(crate) fn polls(&self) -> u64 {
        self.runtimes.iter().map(|runtime| runtime.metrics.polls()).sum()
    }
}

#[cfg(not(feature = "rt"))]
impl Sample {
    pub(crate) fn tasks(&self) -> usize {
        0
    }

    pub(crate) fn queued(&self) -> usize {
        0
    }

    pub(crate) fn polls(&self) -> u64 {
        0
    }
}

/// Samples of runtimes of `tasuki-rt`, and their JSON. No other part knows more of `tasuki-rt` than its handles.
#[cfg(feature = "rt")]
pub(crate) mod runtime {
    use super::LISTED;
    use crate::json::Json;
    use std::collections::HashMap;
    use std::time::{Duration, Instant};
    use tasuki::inspect::Snapshot;
    use tasuki_rt::{Dump, Handle, Metrics, TaskId, TaskState};

    #[derive(Debug)]
    pub(crate) struct RuntimeSample {
        pub(crate) metrics: Metrics,
        pub(crate) dump: Dump,
    }

    /// The runtimes, with the tasks that hold or wait for something that is listed.
    pub(super) fn look(runtimes: &[Handle], locks: &Snapshot) -> Vec<RuntimeSample> {
        let holders = locks.locks.iter().flat_map(|lock| lock.holders.iter().take(8));
        let hops = locks.deadlocks.iter().take(LISTED).flat_map(|deadlock| deadlock.hops.iter().take(LISTED));
        let mut tasks: Vec<TaskId> = locks.waits.iter().map(|wait| wait.task).collect();
        tasks.extend(holders.map(|holder| holder.task).chain(hops.map(|hop| hop.task)));
        let look = |runtime: &Handle| RuntimeSample {
            metrics: runtime.metrics(),
            dump: runtime.dump_limited(LISTED, &tasks),
        };
        runtimes.iter().map(look).collect()
    }

    pub(super) fn text(runtime: &Handle, limit: usize) -> String {
        format!("\n{}\n", runtime.dump_limited(limit, &[]))
    }

    /// How many tasks are in queues of the runtime.
    pub(super) fn queued(metrics: &Metrics) -> usize {
        let workers = metrics.workers().iter().map(|worker| worker.queued() + worker.inbox());
        metrics.queued() + workers.sum::<usize>()
    }

    /// Since when a task is seen in the same poll: a worker that is stuck in one.
    #[derive(Debug, Default)]
    pub(crate) struct PollStarts(HashMap<TaskId, (u32, Instant)>);

    impl PollStarts {
        /// Takes a sample. Tasks that do not run are forgotten.
        pub(crate) fn add(&mut self, runtimes: &[RuntimeSample], now: Instant) {
            let running = runtimes.iter().flat_map(|runtime| &runtime.dump.tasks);
            let running = running.filter(|task| matches!(task.state, TaskState::Running(_)));
            let before = std::mem::take(&mut self.0);
            self.0 = running
                .map(|task| {
                    let same = before.get(&task.id).filter(|(polls, _)| *polls == task.polls);
                    (task.id, *same.unwrap_or(&(task.polls, now)))
                })
                .collect();
        }

        fn age(&self, task: TaskId, now: Instant) -> Duration {
            self.0.get(&task).map_or(Duration::ZERO, |(_, since)| now.duration_since(*since))
        }
    }

    /// The tasks of one runtime.
    pub(crate) fn write_tasks(json: &mut Json, runtime: &RuntimeSample, polls: &PollStarts, now: Instant) {
        let dump = &runtime.dump;
        json.key("noted").bool(dump.is_noted);
        json.key("total").number(dump.total as u64);
        json.key("tasks").array(&dump.tasks, |json, task| {
            json.object(|json| {
                crate::snapshot_json::task(json, "id", task.id);
                json.key("name").shown(task.name.as_ref());
                json.key("kind").string(task.kind);
                json.key("at").string(&task.spawned_at.to_string());
                let (state, worker) = match task.state {
                    TaskState::Running(worker) => ("running", worker),
                    TaskState::Scheduled => ("scheduled", None),
                    _ => ("waiting", None),
                };
                json.key("state").string(state);
                json.key("worker").shown(worker.or(task.pinned_to).map(|worker| worker.index()));
                json.key("polls").number(task.polls);
                json.key("same_poll_ms").number(polls.age(task.id, now).as_millis());
            });
        });
        json.key("places").array(dump.places.iter().take(LISTED), |json, place| {
            json.object(|json| {
                json.key("at").string(&place.at.to_string());
                json.key("running").number(place.running as u64);
                json.key("scheduled").number(place.scheduled as u64);
                json.key("waiting").number(place.waiting as u64);
            });
        });
    }

    /// The workers and queues of one runtime.
    pub(crate) fn write_workers(json: &mut Json, runtime: &RuntimeSample) {
        let metrics = &runtime.metrics;
        json.key("queued").number(metrics.queued() as u64);
        json.key("blocking_threads").number(metrics.num_blocking_threads() as u64);
        json.key("blocking_idle").number(metrics.num_idle_blocking_threads() as u64);
        json.key("blocking_queued").number(metrics.queued_blocking_work() as u64);
        json.key("workers").array(metrics.workers().iter().take(256), |json, worker| {
            json.object(|json| {
                json.key("polls").number(worker.polls());
                json.key("steals").number(worker.steals());
                json.key("parks").number(worker.parks());
                json.key("queued").number(worker.queued() as u64);
                json.key("inbox").number(worker.inbox() as u64);
                json.key("timers").number(worker.timers() as u64);
            });
        });
    }
}
