//! A worker and a thief: a task that is alone with its worker is run once, by whichever of the two takes it first; and the watcher.
//!
//! *Next* slot, searching, sleeping and watching are the runtime's own. The local queue is a stand-in for that of `st3`:
//! a list under a mutex. A thief's look finds every poll long, so it takes whatever it sees.

use crate::parts::idle::{Idle, IdleWorker, NEVER, SleepPlan, SleepRequest};
use crate::parts::next_slot::NextSlot;
use crate::tasks::{run, run_all, task};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use loom::sync::{Mutex, Notify};
use loom::thread;
use std::collections::VecDeque;
use std::ptr::NonNull;

/// Worker 0 holds tasks, worker 1 is the thief.
struct Pair {
    idle: Idle,
    next: NextSlot,
    queue: Mutex<VecDeque<NonNull<()>>>,
    /// Wakes the thief.
    bell: Notify,
    closing: AtomicBool,
    stolen: AtomicUsize,
    /// Fences where the runtime has none, for comparison.
    fenced: bool,
}

// SAFETY: a raw task is one pointer to something that only its holder touches.
unsafe impl Send for Pair {}
// SAFETY: as above.
unsafe impl Sync for Pair {}

impl Pair {
    /// Never freed: a model that fails as it should must not touch it again while it unwinds.
    fn new(fenced: bool) -> &'static Self {
        Box::leak(Box::new(Self {
            idle: Idle::new(2),
            next: NextSlot::new(),
            queue: Mutex::new(VecDeque::new()),
            bell: Notify::new(),
            closing: AtomicBool::new(false),
            stolen: AtomicUsize::new(0),
            fenced,
        }))
    }

    fn fence(&self) {
        if self.fenced {
            fence(Ordering::SeqCst);
        }
    }

    /// As `Local::put_next`: who was there goes to the queue.
    fn put(&self, task: NonNull<()>) {
        let wanted = match self.next.put(task) {
            None => {
                self.fence();
                self.idle.want_watcher()
            }
            Some(displaced) => {
                let mut queue = self.queue.lock().unwrap();
                queue.push_back(displaced);
                let alone = queue.len() == 1;
                drop(queue);
                if alone { self.idle.want_watcher() } else { self.idle.notify() }
            }
        };
        if wanted.is_some() {
            self.bell.notify();
        }
    }

    fn pop(&self) -> Option<NonNull<()>> {
        self.next.take().or_else(|| self.queue.lock().unwrap().pop_front())
    }

    fn steal(&self) -> Option<NonNull<()>> {
        let first = self.queue.lock().unwrap().pop_front();
        first.or_else(|| if self.next.is_empty() { None } else { self.next.take() })
    }

    fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.bell.notify();
    }

    /// The thief's life, until the pair closes or it has stolen enough.
    fn thief(&self, enough: usize) {
        let (mut searching, mut has_watched) = (false, false);
        while self.stolen.load(Ordering::Relaxed) < enough && !self.closing.load(Ordering::Acquire) {
            searching = searching || self.idle.try_search();
            if let Some(task) = self.steal() {
                run(task);
                self.stolen.fetch_add(1, Ordering::Relaxed);
                has_watched = false;
                if std::mem::take(&mut searching) {
                    // There is no other worker to search.
                    let _ = self.idle.found(|| true);
                }
                continue;
            }
            let watch = !std::mem::replace(&mut has_watched, true);
            let request = SleepRequest { worker: 1, searching: std::mem::take(&mut searching), watch };
            searching = self.idle.sleep_until_woken(request, self).chosen;
        }
    }
}

impl IdleWorker for Pair {
    fn sees_work(&self, alone: bool) -> bool {
        self.fence();
        let seen = self.queue.lock().unwrap().len();
        self.closing.load(Ordering::Acquire) || seen > usize::from(!alone) || (alone && !self.next.is_empty())
    }

    fn earliest_deadline(&self) -> u64 {
        NEVER
    }

    fn sleep(&self, plan: SleepPlan) {
        if plan.watch { thread::yield_now() } else { self.bell.wait() }
    }
}

/// Every task is run once, by its worker or by the thief, whichever is faster; none is left.
#[test]
fn the_owner_takes_while_a_thief_steals() {
    loom::model(|| {
        let pair = Pair::new(false);
        let thief = thread::spawn(|| run_all([pair.steal(), pair.steal()]));
        pair.put(task());
        pair.put(task());
        let mut ran = run_all([pair.pop(), pair.pop()]);
        ran += thief.join().unwrap();
        ran += run_all([pair.pop(), pair.pop()]);
        assert_eq!(ran, 2);
        assert!(pair.next.is_empty());
    });
}

/// One task alone, while the thief falls asleep, or watches: it is run once, and the thief ends.
#[test]
fn a_task_alone_against_a_thief_that_falls_asleep() {
    loom::model(|| {
        let pair = Pair::new(false);
        let thief = thread::spawn(|| pair.thief(usize::MAX));
        pair.put(task());
        let ran = run_all([pair.pop()]);
        pair.close();
        thief.join().unwrap();
        assert_eq!(ran + pair.stolen.load(Ordering::Relaxed), 1);
    });
}

/// The worker's poll does not end: only the thief can run the task.
fn an_endless_poll(fenced: bool) {
    loom::model(move || {
        let pair = Pair::new(fenced);
        let thief = thread::spawn(|| pair.thief(1));
        pair.put(task());
        thief.join().unwrap();
    });
}

#[test]
fn a_watcher_comes_for_a_task_alone() {
    an_endless_poll(true);
}

/// The runtime has not these fences, because every hand-over of a lock would pay for them. So a watcher that leaves at the very
/// moment of the push may miss it, and the task waits for the end of its worker's poll (docs/scheduler.md, "Watching").
#[test]
#[should_panic(expected = "deadlock")]
fn without_fences_a_watcher_that_leaves_may_miss_it() {
    an_endless_poll(false);
}
