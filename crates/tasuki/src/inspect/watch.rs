//! When a cycle is told: once, when it has stayed the same for about a second.
//!
//! A cycle that closes need not be a deadlock: another branch of a foreign `select!` may end the wait, and a guard may be with
//! another task than the one that took it. And it need not close by a wait that begins: a grant to a future that is not polled, a guard that another task uses, the end of another wait of
//! a task, a condvar that moves its waiter to the mutex, a release of too few permits can all do it. So no event is judged: a thread, the *watcher*, looks twice a second at the holders of every lock
//! that has been waited for without a limit for 0.1 s, and remembers the cycles that it finds. When one has stood for a second, the watcher looks at its tasks once more, and tells of it if it has found the same waits of the same
//! tasks behind the same holds. One that was told is remembered as long as its waits go on: it may open for a while, and close again.
//!
//! The watcher starts with the first such wait of the process, of any age, and ends when there have been none for ten seconds. It reads records, not buckets: a look costs as much as there are
//! waits for locks, a few nanoseconds each, and as there are tasks that hold what is waited for and wait themselves. It is followed by a pause of at least twenty times its length.
//!
//! # States of `WATCHER`
//!
//! | value | means | event | to |
//! |---|---|---|---|
//! | 0 | no watcher | a wait begins | the process id, and a thread is started ([`need`]) |
//! | the id of this process | it runs | nothing to see for ten seconds | 0; back, if a last look finds a wait ([`Watcher::ends`]) |
//! | the id of this process, no thread | the system refused the thread | | it stays: nothing is told in this process |
//! | another process id | it runs in the parent of a fork | a wait begins | as 0 |
//!
//! # Orderings
//! A wait is published before `WATCHER` is read, a watcher that ends stores 0 before its last look, with a `SeqCst` fence between the two each (`Stamp::publish`, [`Watcher::ends`]): either the wait
//! starts another, or the last look finds it. All else is Relaxed: nothing is published with the number.
//!
//! # Forks
//! A child has the records of its parent, and none of the parent's threads. Its own watcher tells of no cycle with a wait of another process: that task is not there any more, or never
//! waits again. A child that was forked while another thread had one of the locks of a record, which are held for some ten instructions, may wait for that for ever, as for any lock of std.
//!
//! Time is a parameter of [`Watch::look`]: the tests choose it.

use super::graph::{self, Cycle};
use super::report::Deadlock;
use super::{nanoseconds, waits};
use crate::catch_panic::caught;
use crate::host_executor::clock;
use crate::{process_id, trace};
use std::collections::HashMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering, fence};
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
struct Seen {
    since: Instant,
    is_told: bool,
    tasks: Vec<u64>,
}

/// The cycles that were found, and stood at the last look.
#[derive(Default)]
struct Watch {
    seen: HashMap<Vec<u64>, Seen>,
}

impl Watch {
    /// Looks at everything that can be reached from these tasks: the cycles to be told. What is not found is forgotten, or begins anew if it was not told.
    fn look(&mut self, tasks: Vec<u64>, now: Instant) -> Vec<Cycle> {
        let mut before = core::mem::take(&mut self.seen);
        let news = self.find(tasks, &mut before, now);
        // A cycle that was told, and is open for a while, as another wait of a task of it goes on, is the same one when that ends.
        before.retain(|signature, seen| seen.is_told && Cycle::has_waits(signature));
        self.seen.extend(before);
        news
    }

    /// Looks only at the cycles that have been there for long enough now: those that still stand are to be told.
    fn confirm(&mut self, now: Instant) -> Vec<Cycle> {
        let is_due = |seen: &Seen| !seen.is_told && now >= seen.since + STAYS;
        let (due, rest) = core::mem::take(&mut self.seen).into_iter().partition(|(_, seen)| is_due(seen));
        self.seen = rest;
        let mut due: HashMap<Vec<u64>, Seen> = due;
        let tasks = due.values().flat_map(|seen| seen.tasks.iter().copied()).collect();
        self.find(tasks, &mut due, now)
    }

    fn find(&mut self, tasks: Vec<u64>, before: &mut HashMap<Vec<u64>, Seen>, now: Instant) -> Vec<Cycle> {
        let mut news = Vec::new();
        for cycle in graph::cycles_of(tasks) {
            let signature = cycle.signature();
            // One that another look has found: this one was not asked about it.
            if self.seen.contains_key(&signature) {
                continue;
            }
            let mut seen = before.remove(&signature).unwrap_or_else(|| Seen {
                since: now,
                is_told: false,
                tasks: cycle.links.iter().map(|link| link.wait.task).collect(),
            });
            let is_news = !seen.is_told && now >= seen.since + STAYS && is_of_this_process(&cycle);
            seen.is_told |= is_news;
            self.seen.insert(signature, seen);
            if is_news && !cycle.is_own_permits() {
                news.push(cycle);
            }
        }
        news
    }

    /// When a cycle has to be looked at again, to be told.
    fn due(&self) -> Option<Instant> {
        self.seen.values().filter(|seen| !seen.is_told).map(|seen| seen.since + STAYS).min()
    }
}

fn is_of_this_process(cycle: &Cycle) -> bool {
    let process = process_id::id();
    cycle.links.iter().all(|link| link.wait.process == process)
}

/// A wait for a lock has been published: there must be a watcher.
#[inline]
pub(super) fn need() {
    // Relaxed: after the fence of `Stamp::publish`; see the header.
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
                self.watch.confirm(now).iter().for_each(tell);
                continue;
            }
            let oldest = nanoseconds().saturating_sub(YOUNGEST.as_nanos() as u64);
            self.idle = if waits::has_candidate(u64::MAX) { 0 } else { self.idle + 1 };
            let news = self.watch.look(graph::holders_waited_for(oldest), now);
            next = clock() + PERIOD.max(now.elapsed() * PAUSE);
            news.iter().for_each(tell);
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
        WATCHER.store(0, Ordering::Relaxed);
        // SeqCst: pairs with the fence of `Stamp::publish`; see the header.
        fence(Ordering::SeqCst);
        // Another has been started meanwhile, or there is nothing to see.
        !waits::has_candidate(u64::MAX)
            || WATCHER.compare_exchange(0, process_id::id(), Ordering::Relaxed, Ordering::Relaxed).is_err()
    }
}

fn tell(cycle: &Cycle) {
    let Some(deadlock) = Deadlock::new(cycle) else { return };
    caught(|| super::hook(&deadlock));
    caught(|| trace::deadlock(&deadlock));
    if super::prints() {
        // Without a stream there is no one to tell.
        let _ = writeln!(std::io::stderr(), "tasuki: {deadlock}");
    }
}

#[cfg(all(test, not(miri)))]
pub(super) mod tests {
    use super::super::tests::Actor;
    use super::*;
    use crate::Mutex as Lock;
    use std::boxed::Box;
    use std::vec;

    const MOMENT: Duration = Duration::from_millis(1);

    /// A watcher at times that a test says.
    pub(in crate::inspect) struct Looks(Watch, Instant);

    impl Looks {
        pub(in crate::inspect) fn new() -> Self {
            Self(Watch::default(), clock())
        }

        /// Time goes by, and the watcher does what it does then: the cycles that it tells.
        pub(in crate::inspect) fn after(&mut self, time: Duration, tasks: Vec<u64>) -> Vec<Cycle> {
            self.1 += time;
            let mut told = self.0.confirm(self.1);
            told.extend(self.0.look(tasks, self.1));
            told
        }
    }

    /// Told once, when it was the same for a second; and not if it was another one in between.
    #[test]
    fn a_cycle_is_told_once_after_a_second() {
        let (me, mutex, mut watch) = (Actor::new(), Lock::new(0), Watch::default());
        let start = clock();
        let mut told = |after| watch.look(vec![me.number()], start + after).len();
        let _held = me.run(|| mutex.try_lock().unwrap());
        let mut wait = Box::pin(mutex.lock());
        assert!(me.poll(wait.as_mut()).is_pending());
        assert_eq!((told(Duration::ZERO), told(STAYS - MOMENT)), (0, 0));
        // Another wait of the same task for the same lock: the second begins again.
        drop(wait);
        let mut wait = Box::pin(mutex.lock());
        assert!(me.poll(wait.as_mut()).is_pending());
        assert_eq!((told(STAYS), told(2 * STAYS - MOMENT), told(2 * STAYS)), (0, 0, 1));
        assert_eq!((told(3 * STAYS), told(5 * STAYS)), (0, 0), "it was told");
        drop(wait);
        assert_eq!(told(6 * STAYS), 0);
        assert!(watch.seen.is_empty(), "what is over is forgotten");
    }

    /// Two tasks of one cycle, and one that waits for it, are looked at: it is told once.
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

    /// A task takes permits, gives them to others and waits for one more: it looks as if it waited for itself, and may not be told. It is in what is asked for.
    #[test]
    fn permits_that_were_given_away_are_not_told() {
        let (me, semaphore, mut watch) = (Actor::new(), crate::Semaphore::new(2), Watch::default());
        let _given = me.run(|| (semaphore.try_acquire().unwrap(), semaphore.try_acquire().unwrap()));
        let mut wait = Box::pin(semaphore.acquire());
        assert!(me.poll(wait.as_mut()).is_pending());
        assert!(graph::cycle_of(me.number()).is_some());
        let start = clock();
        let mut told = |after| watch.look(vec![me.number()], start + after).len();
        assert_eq!((told(Duration::ZERO), told(2 * STAYS)), (0, 0));
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
