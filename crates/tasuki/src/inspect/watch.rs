//! The watcher: a thread of the process that looks at the wait-for graph twice a second, and reports a cycle once, when it has stayed the same for about a second.
//!
//! A cycle that closes need not be a deadlock: another branch of a foreign `select!` may end the wait, and a guard may be with
//! another task than the one that took it. And it need not close by a wait that begins: a grant to a future that is not polled, a guard that another task uses, the end of another wait of
//! a task, a condvar that moves its waiter to the mutex, a release of too few permits can all do it. So no event is judged: a thread, the *watcher*, looks twice a second at the holders of every lock
//! that has been waited for without a limit for 0.1 s, and remembers the cycles that it finds. When one has stood for a second, the watcher looks at its tasks once more, and reports it if it has found the same waits of the same
//! tasks behind the same holds, and no runtime says that one of the tasks has been polled meanwhile or is about to be. One that was reported is remembered as long as its waits go on: it may open for a while, and close again.
//!
//! The watcher starts with the first such wait of the process, of any age, and ends when there have been none for ten seconds. It reads records, not buckets: a look costs as much as there are
//! records, some nanoseconds each (1,024 of every thread on which tasks have waited, and those of the pool), and as there are tasks that hold what is waited for and wait themselves. A look that finds cycles which have not been reported asks the runtimes
//! once for the polls of all their tasks, and once more for the labels of those that are reported then; each question is a walk over all tasks of the runtimes. A look is followed by a pause of at least twenty times its length, in which the reports are made.
//!
//! # States of `WATCHER`
//!
//! | value | means | event | to |
//! |---|---|---|---|
//! | 0 | no watcher | a wait for a lock begins, or becomes one | the number of this process, and a thread is started ([`need`]) |
//! | the number of this process | it runs | nothing to see for ten seconds | 0; back, if a last look finds a wait, or all threads cannot be fenced ([`Watcher::ends`]) |
//! | the number of this process, no thread | the system refused the thread | | it stays: nothing is reported in this process |
//! | that of another process | it runs in the parent of a fork | a wait begins | as 0 |
//!
//! # Orderings
//! A wait takes its record, or becomes one for a lock, and then reads `WATCHER` ([`need`]); a watcher that ends stores 0 and then looks at the records that are taken ([`Watcher::ends`]). A fence is between the two on either side, so either the wait
//! starts another watcher, or the last look finds it. A fence in every wait would cost more than the rest of [`need`], and a watcher ends once in ten seconds at most: so that of a wait orders what the compiler does and nothing else, and the watcher asks the
//! system to have every running thread of the process pass a full fence ([`fence_all_threads`]). Where the system cannot do that, the watcher does not end. All else is Relaxed: nothing is published with the number.
//!
//! # Forks
//! A child has the records of its parent, and none of the parent's threads. Its own watcher reports no cycle with a wait of another process: that task is not there any more, or never
//! waits again. A child that was forked while another thread had one of the locks of a record or of a list, which are held for some ten instructions, or by a look while it reads the list, may wait for that for ever, as for any lock of std.
//!
//! Time is a parameter of [`Watch::look`]: the tests choose it.

use super::gather::labels_of;
use super::graph::{self, Cycle};
use super::labels::{self, PollState, TaskLabel};
use super::report::Deadlock;
use super::{nanoseconds, waits};
use crate::catch_panic::caught;
use crate::host_executor::{clock, fence_all_threads};
use crate::task::TaskId;
use crate::{process_id, trace};
use std::collections::HashMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};
use std::thread;
use std::time::{Duration, Instant};
use std::vec::Vec;

/// So long a cycle must stay the same.
const STAYS: Duration = Duration::from_secs(1);
/// So often is looked.
const PERIOD: Duration = Duration::from_millis(500);
/// So old is the youngest wait that is looked at.
const YOUNGEST: Duration = Duration::from_millis(100);
/// So many looks that find nothing end the watcher.
const IDLE_LOOKS: u32 = 20;
/// A pause is so many times the look before it, at least.
const PAUSE: u32 = 20;

/// See the table of the module.
static WATCHER: AtomicU32 = AtomicU32::new(0);

/// A cycle that was found.
struct SeenCycle {
    since: Instant,
    is_reported: bool,
    tasks: Vec<u64>,
    /// The labels of the tasks at `since`: how many polls of them there had been.
    polls: Vec<Option<u32>>,
}

/// The cycles that were found, and stood at the last look.
struct Watch {
    /// The process whose cycles are reported.
    process: u32,
    seen: HashMap<Vec<u64>, SeenCycle>,
}

impl Default for Watch {
    fn default() -> Self {
        Self { process: process_id::id(), seen: HashMap::new() }
    }
}

impl Watch {
    /// Looks at everything that can be reached from these tasks: the cycles to be reported. What is not found is forgotten, or begins anew if it was not reported.
    fn look(&mut self, tasks: Vec<u64>, now: Instant) -> Vec<Cycle> {
        let mut before = core::mem::take(&mut self.seen);
        let news = self.find(tasks, &mut before, now);
        // A cycle that was reported, and is open for a while, as another wait of a task of it goes on, is the same one when that ends.
        before.retain(|signature, seen| seen.is_reported && Cycle::has_waits(signature));
        self.seen.extend(before);
        news
    }

    /// Looks only at the cycles that have been there for long enough now: those that still stand are to be reported.
    fn confirm(&mut self, now: Instant) -> Vec<Cycle> {
        let is_due = |seen: &SeenCycle| !seen.is_reported && now >= seen.since + STAYS;
        let (due, rest) = core::mem::take(&mut self.seen).into_iter().partition(|(_, seen)| is_due(seen));
        self.seen = rest;
        let mut due: HashMap<Vec<u64>, SeenCycle> = due;
        let tasks = due.values().flat_map(|seen| seen.tasks.iter().copied()).collect();
        self.find(tasks, &mut due, now)
    }

    fn find(
        &mut self,
        tasks: Vec<u64>,
        before: &mut HashMap<Vec<u64>, SeenCycle>,
        now: Instant,
    ) -> Vec<Cycle> {
        let mut news = Vec::new();
        let cycles = graph::cycles_of(tasks);
        let is_open = |cycle: &&Cycle| before.get(&cycle.signature()).is_none_or(|seen| !seen.is_reported);
        let polls = Polls::of(cycles.iter().filter(is_open));
        for cycle in cycles {
            let signature = cycle.signature();
            // One that another look has found, which this one was not asked about; or one that stood in the parent when this process was forked, and stands in its records for ever.
            if self.seen.contains_key(&signature) || !self.is_of_this_process(&cycle) {
                continue;
            }
            let mut seen = before.remove(&signature).unwrap_or_else(|| SeenCycle {
                since: now,
                is_reported: false,
                tasks: cycle.links.iter().map(|link| link.wait.task).collect(),
                polls: polls.counts(&cycle),
            });
            if !seen.is_reported && (polls.is_due(&cycle) || polls.counts(&cycle) != seen.polls) {
                (seen.since, seen.polls) = (now, polls.counts(&cycle));
            }
            let is_news = !seen.is_reported && now >= seen.since + STAYS;
            seen.is_reported |= is_news;
            self.seen.insert(signature, seen);
            if is_news && !cycle.is_own_permits() {
                news.push(cycle);
            }
        }
        news
    }

    /// Did all its waits begin in this process?
    fn is_of_this_process(&self, cycle: &Cycle) -> bool {
        cycle.links.iter().all(|link| link.wait.process == self.process)
    }

    /// When a cycle has to be looked at again, to be reported.
    fn due(&self) -> Option<Instant> {
        self.seen.values().filter(|seen| !seen.is_reported).map(|seen| seen.since + STAYS).min()
    }
}

/// What the runtimes say of the polls of tasks: a task that is polled meanwhile goes on, though its waits do not end.
struct Polls(Vec<TaskLabel>);

impl Polls {
    fn of<'a>(cycles: impl Iterator<Item = &'a Cycle>) -> Self {
        let tasks = cycles.flat_map(|cycle| cycle.links.iter().map(|link| link.wait.task));
        Self(labels_of(tasks.filter_map(TaskId::from_number)))
    }

    fn of_cycle(&self, cycle: &Cycle) -> impl Iterator<Item = Option<&TaskLabel>> {
        let label = |task| labels::find(&self.0, TaskId::from_number(task)?);
        cycle.links.iter().map(move |link| label(link.wait.task))
    }

    /// How many polls there have been of each task.
    fn counts(&self, cycle: &Cycle) -> Vec<Option<u32>> {
        self.of_cycle(cycle).map(|label| label.and_then(|label| label.polls)).collect()
    }

    /// Has one of the tasks been woken, and will be polled?
    fn is_due(&self, cycle: &Cycle) -> bool {
        self.of_cycle(cycle).flatten().any(|label| label.state == Some(PollState::Scheduled))
    }
}

/// A wait for a lock has been published, in a record that was taken before: there must be a watcher.
#[inline]
pub(super) fn need() {
    // SeqCst, for the compiler: pairs with `fence_all_threads` in `Watcher::ends`; see the header. mutant: survives: no model has the watcher.
    compiler_fence(Ordering::SeqCst);
    // Relaxed: ordered by the fences.
    let watcher = WATCHER.load(Ordering::Relaxed);
    if watcher != process_id::id() {
        start(watcher);
    }
}

#[cold]
fn start(before: u32) {
    let id = process_id::id();
    // An interpreter would wait for the thread at the end of every test. Relaxed: the thread that wins starts the watcher.
    if cfg!(miri) || WATCHER.compare_exchange(before, id, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return;
    }
    // Without a thread there is no report.
    let _ = thread::Builder::new().name("tasuki-inspect".into()).spawn(|| Watcher::default().run());
}

#[derive(Default)]
struct Watcher {
    watch: Watch,
    idle: u32,
}

impl Watcher {
    fn run(mut self) {
        let mut next = clock() + PERIOD;
        while !self.ends() {
            let now = self.sleep(next);
            if now < next {
                report(&self.watch.confirm(now));
                continue;
            }
            let oldest = nanoseconds().saturating_sub(YOUNGEST.as_nanos() as u64);
            self.idle = if waits::has_candidate(u64::MAX) { 0 } else { self.idle + 1 };
            let news = self.watch.look(graph::holders_waited_for(oldest), now);
            next = clock() + PERIOD.max(now.elapsed() * PAUSE);
            report(&news);
        }
    }

    /// Until then, or until a cycle has to be looked at again.
    fn sleep(&self, until: Instant) -> Instant {
        let until = self.watch.due().map_or(until, |due| due.min(until));
        thread::sleep(until.saturating_duration_since(clock()));
        clock()
    }

    /// `id => 0`, if there has been nothing to see, and there still is not.
    fn ends(&mut self) -> bool {
        if self.idle < IDLE_LOOKS {
            return false;
        }
        self.idle = 0;
        // Relaxed: ordered by the fences.
        WATCHER.store(0, Ordering::Relaxed);
        // Pairs with the fence in `need`.
        let is_fenced = fence_all_threads();
        // There is nothing to see, or another has been started meanwhile.
        is_fenced && !waits::has_begun()
            || WATCHER.compare_exchange(0, process_id::id(), Ordering::Relaxed, Ordering::Relaxed).is_err()
    }
}

fn report(cycles: &[Cycle]) {
    for deadlock in Deadlock::all(cycles) {
        caught(|| super::hook(&deadlock));
        caught(|| trace::deadlock(&deadlock));
        if super::prints() {
            // Without a stream there is nowhere to report.
            let _ = writeln!(std::io::stderr(), "tasuki: {deadlock}");
        }
    }
}

#[cfg(all(test, not(miri)))]
pub(super) mod tests {
    use super::super::tests::Actor;
    use super::*;
    use crate::Mutex as Lock;
    use alloc::sync::Arc;
    use std::boxed::Box;
    use std::vec;

    const MOMENT: Duration = Duration::from_millis(1);

    /// A watcher at times that a test says.
    pub(in crate::inspect) struct Looks(Watch, Instant);

    impl Looks {
        pub(in crate::inspect) fn new() -> Self {
            Self(Watch::default(), clock())
        }

        /// Time goes by, and the watcher does what it does then: the cycles that it reports.
        pub(in crate::inspect) fn after(&mut self, time: Duration, tasks: Vec<u64>) -> Vec<Cycle> {
            self.1 += time;
            let mut reported = self.0.confirm(self.1);
            reported.extend(self.0.look(tasks, self.1));
            reported
        }
    }

    /// Told once, when it was the same for a second; and not if it was another one in between.
    #[test]
    fn a_cycle_is_reported_once_after_a_second() {
        let (me, mutex, mut watch) = (Actor::new(), Lock::new(0), Watch::default());
        let start = clock();
        let mut reported = |after| watch.look(vec![me.number()], start + after).len();
        let _held = me.run(|| mutex.try_lock().unwrap());
        let mut wait = Box::pin(mutex.lock());
        assert!(me.poll(wait.as_mut()).is_pending());
        assert_eq!((reported(Duration::ZERO), reported(STAYS - MOMENT)), (0, 0));
        // Another wait of the same task for the same lock: the second begins again.
        drop(wait);
        let mut wait = Box::pin(mutex.lock());
        assert!(me.poll(wait.as_mut()).is_pending());
        assert_eq!((reported(STAYS), reported(2 * STAYS - MOMENT), reported(2 * STAYS)), (0, 0, 1));
        assert_eq!((reported(3 * STAYS), reported(5 * STAYS)), (0, 0), "it was reported");
        drop(wait);
        assert_eq!(reported(6 * STAYS), 0);
        assert!(watch.seen.is_empty(), "what is over is forgotten");
    }

    /// What a runtime says of the polls of a task.
    static SAID: std::sync::Mutex<Vec<TaskLabel>> = std::sync::Mutex::new(Vec::new());

    fn say(actor: Actor, polls: u32, state: PollState) {
        super::super::label_tasks(|wanted| {
            let said = SAID.lock().unwrap();
            said.iter().filter(|label| wanted.binary_search(&label.task).is_ok()).cloned().collect()
        });
        let task = TaskId::from_number(actor.number()).unwrap();
        let mut said = SAID.lock().unwrap();
        said.retain(|label| label.task != task);
        said.push(TaskLabel::new(task, None, None).with_polls(polls, state));
    }

    /// A branch of the task holds the lock and is polled, another one waits: the task goes on. One poll that lasts may be a computation, and is only suspected.
    #[test]
    fn a_task_that_is_polled_is_not_reported() {
        let (me, mutex, mut watch) = (Actor::new(), Lock::new(0), Watch::default());
        let start = clock();
        let mut reported = |times| watch.look(vec![me.number()], start + STAYS * times);
        let _held = me.run(|| mutex.try_lock().unwrap());
        let mut wait = Box::pin(mutex.lock());
        assert!(me.poll(wait.as_mut()).is_pending());
        say(me, 1, PollState::Waiting);
        assert!(reported(0).is_empty());
        say(me, 2, PollState::Waiting);
        assert!(reported(1).is_empty(), "it was polled meanwhile");
        say(me, 2, PollState::Scheduled);
        assert!(reported(2).is_empty(), "it is about to be polled");
        say(me, 3, PollState::Running);
        assert!(reported(3).is_empty(), "it is polled");
        let cycle = reported(4).pop().expect("the same poll for a second");
        let certainty = || Deadlock::all(std::slice::from_ref(&cycle)).pop().unwrap().certainty;
        assert_eq!(certainty(), super::super::Certainty::Suspected);
        say(me, 3, PollState::Waiting);
        assert_eq!(certainty(), super::super::Certainty::Deadlock);
        say(me, 4, PollState::Waiting);
        assert!(reported(5).is_empty() && reported(6).is_empty(), "it was reported");
    }

    /// What a look and the reports of twice so many tasks do, each of which waits for itself. One half of them waits for a lock besides that the other half has.
    fn work_of_cycles(count: usize) -> usize {
        let actors = || -> Vec<Actor> { (0..count).map(|_| Actor::new()).collect() };
        let (readers, writers, common) = (actors(), actors(), crate::RwLock::new(()));
        let _read: Vec<_> = readers.iter().map(|task| task.run(|| common.try_read().unwrap())).collect();
        let mut write: Vec<_> = writers.iter().map(|_| Box::pin(common.write())).collect();
        for (task, wait) in writers.iter().zip(&mut write) {
            assert!(task.poll(wait.as_mut()).is_pending());
        }
        let tasks = [readers, writers].concat();
        let locks: Vec<Lock<()>> = tasks.iter().map(|_| Lock::new(())).collect();
        let _held: Vec<_> =
            tasks.iter().zip(&locks).map(|(task, lock)| task.run(|| lock.try_lock())).collect();
        let mut waits: Vec<_> = locks.iter().map(|lock| Box::pin(lock.lock())).collect();
        for (task, wait) in tasks.iter().zip(&mut waits) {
            assert!(task.poll(wait.as_mut()).is_pending());
            say(*task, 1, PollState::Waiting);
        }
        let (mut watch, start) = (Watch::default(), clock());
        let numbers: Vec<u64> = tasks.iter().map(|task| task.number()).collect();
        super::super::tests::work_of(|| {
            assert!(watch.look(numbers.clone(), start).is_empty());
            let news = Deadlock::all(&watch.look(numbers.clone(), start + STAYS));
            assert_eq!(news.len(), tasks.len());
            assert!(news.iter().all(|one| one.tasks.len() == 1 && !std::format!("{one}").is_empty()));
        })
    }

    /// Many cycles at a time: to find their labels was quadratic, every report walked over all tasks of the runtimes, and the search for a cycle left its component.
    #[test]
    fn reports_cost_in_proportion_to_the_cycles() {
        // Records are few where their number does not grow, and other tests have some of them.
        let cycles = if cfg!(feature = "critical-section") { 8 } else { 64 };
        let (few, many) = (work_of_cycles(cycles), work_of_cycles(4 * cycles));
        assert!(many < 7 * few, "{few}, and {many} for four times as many cycles");
    }

    /// A cycle of the parent of a fork is not reported, and is no reason to look again at once.
    #[test]
    fn a_cycle_of_another_process() {
        let (me, mutex, mut watch) = (Actor::new(), Lock::new(0), Watch::default());
        let _held = me.run(|| mutex.try_lock().unwrap());
        let mut wait = Box::pin(mutex.lock());
        assert!(me.poll(wait.as_mut()).is_pending());
        let start = clock();
        watch.process += 1;
        for seconds in 0..3 {
            assert!(watch.look(vec![me.number()], start + seconds * STAYS).is_empty());
            assert!(watch.due().is_none() && watch.seen.is_empty());
        }
        watch.process -= 1;
        assert!(watch.look(vec![me.number()], start).is_empty() && watch.due() == Some(start + STAYS));
    }

    /// A future of a cycle is polled by another task, which takes the place of the first: that is another cycle, and its second begins.
    #[test]
    fn a_cycle_with_another_task_is_another() {
        // The cycle of the smallest number is reported: not that of the reader alone, which waits for itself.
        let [two, three, one] = [(); 3].map(|()| Actor::new());
        let (lock, mut watch) = (crate::RwLock::new(0), Watch::default());
        let _held = one.run(|| lock.try_write().unwrap());
        let (mut write, mut read) = (Box::pin(lock.write()), Box::pin(lock.read()));
        assert!(two.poll(write.as_mut()).is_pending());
        // Behind the writer, which waits for it.
        assert!(one.poll(read.as_mut()).is_pending());
        let start = clock();
        let mut reported = |after| watch.look(vec![one.number()], start + after).len();
        assert_eq!(reported(Duration::ZERO), 0);
        assert!(three.poll(write.as_mut()).is_pending());
        assert_eq!((reported(STAYS), reported(2 * STAYS)), (0, 1));
    }

    /// Two tasks of one cycle, and one that waits for it, are looked at: it is reported once.
    #[test]
    fn a_cycle_of_two_is_one() {
        let (one, two, tail) = (Actor::new(), Actor::new(), Actor::new());
        let (a, b, mut watch) = (Lock::new(0), Lock::new(0), Watch::default());
        let _held = (one.run(|| a.try_lock()), two.run(|| b.try_lock()));
        let mut waits = [Box::pin(b.lock()), Box::pin(a.lock()), Box::pin(a.lock())];
        for (task, wait) in [one, two, tail].iter().zip(&mut waits) {
            assert!(task.poll(wait.as_mut()).is_pending());
        }
        let tasks: Vec<u64> = [tail, one, two].iter().map(|task| task.number()).collect();
        let start = clock();
        assert!(watch.look(tasks.clone(), start).is_empty());
        assert_eq!(watch.look(tasks, start + STAYS).len(), 1);
    }

    /// A task takes permits, gives them to others and waits for one more: it looks as if it waited for itself, and may not be reported. It is in what is asked for.
    #[test]
    fn permits_that_were_given_away_are_not_reported() {
        let (me, semaphore, mut watch) = (Actor::new(), crate::Semaphore::new(2), Watch::default());
        let _given = me.run(|| (semaphore.try_acquire().unwrap(), semaphore.try_acquire().unwrap()));
        let mut wait = Box::pin(semaphore.acquire());
        assert!(me.poll(wait.as_mut()).is_pending());
        assert!(graph::cycle_of(me.number()).is_some());
        let start = clock();
        let mut reported = |after| watch.look(vec![me.number()], start + after).len();
        assert_eq!((reported(Duration::ZERO), reported(2 * STAYS)), (0, 0));
    }

    /// A pool that is exhausted: each of three tasks has a permit of it, and wants another one. With permits that own their semaphore, which are sent to other tasks, it is not reported.
    #[test]
    fn tasks_that_each_have_a_permit_and_want_another() {
        macro_rules! news {
            ($pool:ident => $permit:expr) => {{
                let (tasks, $pool) = ([(); 3].map(|()| Actor::new()), Arc::new(crate::Semaphore::new(3)));
                let _held = tasks.map(|task| task.run(|| $permit.unwrap()));
                let mut waits = [(); 3].map(|()| Box::pin($pool.acquire()));
                for (task, wait) in tasks.iter().zip(&mut waits) {
                    assert!(task.poll(wait.as_mut()).is_pending());
                }
                let (mut watch, start) = (Watch::default(), clock());
                let mut look = |at| watch.look(tasks.iter().map(|task| task.number()).collect(), at);
                assert!(look(start).is_empty());
                look(start + STAYS)
            }};
        }
        let borrowed = news!(pool => pool.try_acquire());
        let found: Vec<_> = borrowed.iter().map(|cycle| (cycle.links.len(), cycle.is_certain)).collect();
        assert_eq!(found, [(2, false)]);
        assert!(news!(pool => pool.clone().try_acquire_owned()).is_empty());
    }

    /// A cycle over a mutex and a semaphore is suspected, also if its permit is one that may have been sent to another task.
    #[test]
    fn an_owned_permit_and_a_mutex() {
        let (one, two) = (Actor::new(), Actor::new());
        let (pool, mutex) = (Arc::new(crate::Semaphore::new(1)), Lock::new(0));
        let _permit = one.run(|| pool.clone().try_acquire_owned().unwrap());
        let _held = two.run(|| mutex.try_lock().unwrap());
        let (mut lock, mut acquire) = (Box::pin(mutex.lock()), Box::pin(pool.acquire()));
        assert!(one.poll(lock.as_mut()).is_pending() && two.poll(acquire.as_mut()).is_pending());
        let (mut watch, start) = (Watch::default(), clock());
        assert!(watch.look(vec![one.number()], start).is_empty());
        let found = watch.look(vec![one.number()], start + STAYS);
        assert_eq!(
            found.iter().map(|cycle| (cycle.links.len(), cycle.is_certain)).collect::<Vec<_>>(),
            [(2, false)]
        );
    }

    /// Cycles that close without a wait that begins: a grant, the end of another wait, a guard that another task uses. Each is found by the looks that come by themselves: its waits are candidates.
    #[test]
    fn cycles_that_no_wait_closes() {
        let is_candidate = |me: Actor| graph::holders_waited_for(u64::MAX).contains(&me.number());
        let is_stuck = |me: Actor| is_candidate(me) && graph::cycle_of(me.number()).is_some();
        // A grant to a future that is not polled.
        let (me, mutex) = (Actor::new(), Lock::new(0));
        let held = mutex.try_lock().unwrap();
        let (mut first, mut second) = (Box::pin(mutex.lock()), Box::pin(mutex.lock()));
        assert!(me.poll(first.as_mut()).is_pending() && me.poll(second.as_mut()).is_pending());
        assert!(!is_stuck(me));
        drop(held);
        assert!(is_stuck(me), "a futurelock");
        drop((first, second));
        assert!(!is_candidate(me));
        // The end of another wait.
        let event = crate::Event::auto();
        let _held = me.run(|| mutex.try_lock().unwrap());
        let (mut lock, mut signal) = (Box::pin(mutex.lock()), Box::pin(event.wait()));
        assert!(me.poll(lock.as_mut()).is_pending() && me.poll(signal.as_mut()).is_pending());
        assert!(!is_stuck(me));
        event.set();
        assert!(me.poll(signal.as_mut()).is_ready() && is_stuck(me));
        drop(lock);
        // A guard that another task uses.
        let (other, sent) = (Actor::new(), Lock::new(0));
        let mut guard = me.run(|| sent.try_lock().unwrap());
        let mut wait = Box::pin(sent.lock());
        assert!(other.poll(wait.as_mut()).is_pending() && !is_stuck(other));
        other.run(|| *guard += 1);
        assert!(is_stuck(other));
    }

    /// The mutex of a condvar: the waiter becomes a candidate when it is moved there.
    #[test]
    fn a_cycle_that_a_notification_closes() {
        let (one, two) = (Actor::new(), Actor::new());
        let (mutex, other, condvar) = (Lock::new(0), Lock::new(0), crate::Condvar::new());
        let guard = one.run(|| mutex.try_lock().unwrap());
        let _other = one.run(|| other.try_lock().unwrap());
        let mut wait = Box::pin(condvar.wait(guard));
        assert!(one.poll(wait.as_mut()).is_pending());
        let _held = two.run(|| mutex.try_lock().unwrap());
        let mut lock = Box::pin(other.lock());
        assert!(two.poll(lock.as_mut()).is_pending());
        two.run(|| condvar.notify_one());
        assert!(one.poll(wait.as_mut()).is_pending());
        let start = clock();
        let mine = |tasks: Vec<u64>| -> Vec<u64> {
            tasks.into_iter().filter(|task| [one.number(), two.number()].contains(task)).collect()
        };
        let mut watch = Watch::default();
        assert!(watch.look(mine(graph::holders_waited_for(u64::MAX)), start).is_empty());
        assert_eq!(watch.look(mine(graph::holders_waited_for(u64::MAX)), start + STAYS).len(), 1);
        let shown = std::format!("{mutex:?}");
        assert!(shown.contains(", 1 waits, for "), "the waiter that was moved is one of the mutex: {shown}");
    }

    /// More holders than a thread has slots for, released from the middle; and a crowd of waits behind them.
    #[test]
    #[cfg(not(feature = "critical-section"))]
    fn a_crowd_of_holders() {
        let lock = crate::RwLock::new(0);
        let readers: Vec<Actor> = (0..100).map(|_| Actor::new()).collect();
        let writers: Vec<Actor> = (0..100).map(|_| Actor::new()).collect();
        let take = |(n, reader): (usize, &Actor)| (n, reader.run(|| lock.try_read().unwrap()));
        let mut guards: Vec<_> = readers.iter().enumerate().map(take).collect();
        let mut wait = Box::pin(lock.write());
        assert!(readers[50].poll(wait.as_mut()).is_pending());
        let mut crowd: Vec<_> = writers.iter().map(|_| Box::pin(lock.write())).collect();
        for (writer, wait) in writers.iter().zip(&mut crowd) {
            assert!(writer.poll(wait.as_mut()).is_pending());
        }
        let stuck = |reader: &Actor| graph::cycle_of(reader.number()).is_some();
        assert!(stuck(&readers[50]) && stuck(&writers[99]), "one of a hundred is enough");
        guards.retain(|(n, _)| n % 5 == 0);
        assert!(stuck(&readers[50]), "it waits for its own read");
        guards.retain(|(n, _)| *n != 50);
        assert!(!stuck(&readers[50]) && !stuck(&writers[99]), "only others read");
        drop(crowd);
        guards.clear();
        assert!(readers[50].poll(wait.as_mut()).is_ready());
    }

    /// Where nothing may be allocated, the holders beyond all slots are counted, and a deadlock of theirs is not found.
    #[test]
    #[cfg(feature = "critical-section")]
    fn holders_without_a_slot_are_counted() {
        const HOLDERS: usize = 5_000;
        let _alone = super::super::tests::SLOTS.write();
        let semaphore = crate::Semaphore::new(HOLDERS).named("counted");
        let holders: Vec<Actor> = (0..HOLDERS).map(|_| Actor::new()).collect();
        let mut permits: Vec<_> =
            holders.iter().map(|holder| holder.run(|| semaphore.try_acquire().unwrap())).collect();
        let unknown = || {
            let snapshot = super::super::snapshot();
            let is_it = |lock: &&super::super::LockSnapshot| lock.label.name == Some("counted");
            snapshot.locks.iter().find(is_it).map(|lock| lock.unknown_holders)
        };
        assert!(
            unknown() >= Some(HOLDERS - 64 - 4_096),
            "a thread has 64 slots, and all together 4,096 more"
        );
        let mut waits: Vec<_> = holders.iter().map(|_| Box::pin(semaphore.acquire())).collect();
        for (holder, wait) in holders.iter().zip(&mut waits) {
            assert!(holder.poll(wait.as_mut()).is_pending());
        }
        assert!(holders.iter().step_by(1_000).all(|holder| graph::cycle_of(holder.number()).is_none()));
        drop(waits);
        permits.clear();
        assert_eq!(unknown(), Some(0));
    }
}
