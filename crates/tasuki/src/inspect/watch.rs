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

use super::graph::{self, Cycle, Stuck};
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
        let tasks = self.tasks.get_or_insert_default();
        let stuck = Stuck::among(tasks.keys().copied(), usize::MAX);
        tasks.retain(|task, before| {
            let Some(cycle) = stuck.cycle_of(*task) else {
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
                    if !cycle.is_own_permits() && told.insert(signature) {
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

    /// What was taken out, with what came meanwhile.
    fn take_back(&mut self, mut before: Self) {
        let came = self.tasks.take();
        came.into_iter().flatten().for_each(|(task, _)| before.add(task));
        *self = before;
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
            // What is watched, taken out: a wait that begins meanwhile does not wait for the look.
            let mut mine =
                core::mem::replace(&mut *locked(&WATCH), Watch { has_thread: true, ..Watch::new() });
            let news = mine.look(crate::host_executor::clock());
            news.iter().for_each(tell);
            let mut watch = locked(&WATCH);
            watch.take_back(mine);
            watch.has_thread = !watch.is_idle();
            if !watch.has_thread {
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

#[cfg(all(test, not(miri)))]
mod tests {
    use super::super::tests::Actor;
    use super::*;
    use crate::Mutex as Lock;
    use std::boxed::Box;

    const MOMENT: Duration = Duration::from_millis(1);

    /// Told once, when it was the same for a second; and not if it was another one in between.
    #[test]
    fn a_cycle_is_told_once_after_a_second() {
        let (me, mutex, mut watch) = (Actor::new(), Lock::new(0), Watch::new());
        let start = crate::host_executor::clock();
        let _held = me.run(|| mutex.try_lock().unwrap());
        let mut wait = Box::pin(mutex.lock());
        assert!(me.poll(wait.as_mut()).is_pending());
        watch.add(me.number());
        assert!(watch.look(start).is_empty());
        assert!(watch.look(start + STAYS - MOMENT).is_empty());
        // Another wait of the same task for the same lock: the second begins again.
        drop(wait);
        let mut wait = Box::pin(mutex.lock());
        assert!(me.poll(wait.as_mut()).is_pending());
        assert!(watch.look(start + STAYS).is_empty());
        assert!(watch.look(start + 2 * STAYS - MOMENT).is_empty());
        assert_eq!(watch.look(start + 2 * STAYS).len(), 1);
        assert!(watch.is_idle(), "it was told, and its task waits once");
        watch.add(me.number());
        assert!(
            watch.look(start + 3 * STAYS).is_empty() && watch.look(start + 5 * STAYS).is_empty(),
            "it was told"
        );
        drop(wait);
        assert!(watch.look(start + 6 * STAYS).is_empty() && watch.is_idle());
    }

    /// Two tasks of one cycle are watched, and it is told once. A task without a cycle and with one wait is not watched any more.
    #[test]
    fn a_cycle_of_two_is_one() {
        let (one, two, stranger) = (Actor::new(), Actor::new(), Actor::new());
        let (a, b, mut watch) = (Lock::new(0), Lock::new(0), Watch::new());
        let _held = (one.run(|| a.try_lock()), two.run(|| b.try_lock()));
        let (mut wants_b, mut wants_a) = (Box::pin(b.lock()), Box::pin(a.lock()));
        assert!(one.poll(wants_b.as_mut()).is_pending() && two.poll(wants_a.as_mut()).is_pending());
        [one, two, stranger].iter().for_each(|task| watch.add(task.number()));
        let start = crate::host_executor::clock();
        assert!(watch.look(start).is_empty());
        assert_eq!(watch.tasks.as_ref().unwrap().len(), 2);
        assert_eq!(watch.look(start + STAYS).len(), 1);
        assert!(watch.is_idle());
    }

    /// A task takes permits, gives them to others and waits for one more: it looks as if it waited for itself, and may not be told. It is in what is asked for.
    #[test]
    fn permits_that_were_given_away_are_not_told() {
        let (me, semaphore, mut watch) = (Actor::new(), crate::Semaphore::new(2), Watch::new());
        let _given = me.run(|| (semaphore.try_acquire().unwrap(), semaphore.try_acquire().unwrap()));
        let mut wait = Box::pin(semaphore.acquire());
        assert!(me.poll(wait.as_mut()).is_pending());
        assert!(graph::cycle_of(me.number()).is_some());
        watch.add(me.number());
        let start = crate::host_executor::clock();
        assert!(watch.look(start).is_empty() && watch.look(start + 2 * STAYS).is_empty());
    }

    /// More holders than a record has places for, released from the middle; and more than a look collects.
    #[test]
    fn a_crowd_of_holders() {
        let lock = crate::RwLock::new(0);
        let readers: Vec<Actor> = (0..100).map(|_| Actor::new()).collect();
        let take = |(n, reader): (usize, &Actor)| (n, reader.run(|| lock.try_read().unwrap()));
        let mut guards: Vec<_> = readers.iter().enumerate().map(take).collect();
        let mut wait = Box::pin(lock.write());
        assert!(readers[50].poll(wait.as_mut()).is_pending());
        let stuck = |reader: &Actor| graph::cycle_of(reader.number()).is_some();
        assert!(!stuck(&readers[50]), "too many to collect");
        guards.retain(|(n, _)| n % 5 == 0);
        assert!(stuck(&readers[50]), "it waits for its own read");
        guards.retain(|(n, _)| *n != 50);
        assert!(!stuck(&readers[50]), "only others read");
        guards.clear();
        assert!(readers[50].poll(wait.as_mut()).is_ready());
    }

    /// A task that waits twice is watched until it does not: a grant may close a cycle.
    #[test]
    fn a_grant_closes_a_cycle() {
        let (me, mutex, mut watch) = (Actor::new(), Lock::new(0), Watch::new());
        let start = crate::host_executor::clock();
        let held = mutex.try_lock().unwrap();
        let (mut first, mut second) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
        assert!(me.poll(first.as_mut()).is_pending() && me.poll(second.as_mut()).is_pending());
        watch.add(me.number());
        assert!(watch.look(start + STAYS).is_empty() && !watch.is_idle());
        drop(held);
        assert!(watch.look(start + 2 * STAYS).is_empty());
        assert_eq!(watch.look(start + 3 * STAYS).len(), 1, "a futurelock");
        drop((first, second));
        assert!(watch.look(start + 4 * STAYS).is_empty() && watch.is_idle());
    }
}
