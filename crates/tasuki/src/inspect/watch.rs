//! When a cycle is told: once, when it has stayed the same for about a second.
//!
//! A cycle that closes when a wait begins need not be a deadlock: another branch of a foreign `select!` may end the wait, and a guard may be with
//! another task than the one that took it. So the task is only *watched*: a thread looks again, twice a second, and tells of a cycle when two looks that are a second apart have
//! found the same waits of the same tasks behind the same holds. The thread starts when there is a task to watch, and ends when there is none.
//!
//! Watched is also a task that waits for a second lock, or for the same once more: a grant to a future that it does not poll can close a cycle later, when no wait begins.
//!
//! | watched task | a look finds | then |
//! |---|---|---|
//! | any | no cycle, and one wait for a lock, or none | it is not watched any more |
//! | any | no cycle, and several waits for locks | it is watched on |
//! | any | another cycle than before | the second begins |
//! | for less than a second in this cycle | the same cycle | it is watched on |
//! | for a second | the same cycle | it is told, unless it was, and not watched any more |
//!
//! Time is a parameter of [`Watch::look`]: the tests choose it.

use super::graph::{self, Cycle};
use super::locked;
use super::report::Deadlock;
use crate::catch_panic::caught;
use std::collections::{HashMap, HashSet};
use std::io::Write as _;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};
use std::vec::Vec;

/// So long a cycle must stay the same.
const STAYS: Duration = Duration::from_secs(1);
/// So often is looked.
const PERIOD: Duration = Duration::from_millis(500);
/// So many cycles are remembered as told. Beyond that the memory begins anew: a cycle may then be told twice.
const REMEMBERED: usize = 1_000;

/// A cycle, and since when it has been the same.
type Seen = (Vec<u64>, Instant);

/// What is watched.
struct Watch {
    tasks: Option<HashMap<u64, Option<Seen>>>,
    told: Option<HashSet<Vec<u64>>>,
    has_thread: bool,
}

static WATCH: Mutex<Watch> = Mutex::new(Watch::new());

impl Watch {
    const fn new() -> Self {
        Self { tasks: None, told: None, has_thread: false }
    }

    fn add(&mut self, task: u64) {
        self.tasks.get_or_insert_default().entry(task).or_insert(None);
    }

    /// Looks at every task that is watched: the cycles to be told.
    fn look(&mut self, now: Instant) -> Vec<Cycle> {
        let told = self.told.get_or_insert_default();
        let mut news = Vec::new();
        self.tasks.get_or_insert_default().retain(|task, before| {
            let Some(cycle) = graph::cycle_of(*task) else {
                *before = None;
                return graph::has_several_waits(*task);
            };
            let signature = cycle.signature();
            match before {
                Some((same, since)) if *same == signature => {
                    if now.duration_since(*since) < STAYS {
                        return true;
                    }
                    if told.len() >= REMEMBERED {
                        told.clear();
                    }
                    if told.insert(signature) {
                        news.push(cycle);
                    }
                    // Others of its waits may close another cycle when this one ends.
                    *before = None;
                    graph::has_several_waits(*task)
                }
                _ => {
                    *before = Some((signature, now));
                    true
                }
            }
        });
        news
    }

    fn is_idle(&self) -> bool {
        self.tasks.as_ref().is_none_or(HashMap::is_empty)
    }
}

/// The task may be in a cycle, or come into one without another wait.
#[cold]
pub(super) fn watch(task: u64) {
    let mut watch = locked(&WATCH);
    watch.add(task);
    // An interpreter would wait for the thread at the end of every test.
    if watch.has_thread || cfg!(miri) {
        return;
    }
    let run = || {
        loop {
            thread::sleep(PERIOD);
            let mut watch = locked(&WATCH);
            let news = watch.look(crate::host_executor::clock());
            watch.has_thread = !watch.is_idle();
            let goes_on = watch.has_thread;
            drop(watch);
            news.iter().for_each(tell);
            if !goes_on {
                return;
            }
        }
    };
    // Without a thread there is no report, until another wait tries again.
    watch.has_thread = thread::Builder::new().name("tasuki-inspect".into()).spawn(run).is_ok();
}

fn tell(cycle: &Cycle) {
    let deadlock = Deadlock::new(cycle);
    caught(|| super::hook(&deadlock));
    if super::prints() {
        // Without a stream there is no one to tell.
        let _ = writeln!(std::io::stderr(), "tasuki: {deadlock}");
    }
}
