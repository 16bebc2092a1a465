//! Steps of one thread, and what only Miri can judge. The other races are in `model/`, whose program includes the files beside
//! this one.

use super::global::Global;
use super::idle::{Idle, Risen};
use super::next::NextSlot;
use super::shutdown::{close_inbox, drop_item};
use super::steal::Sight;
use super::worker::{Local, run_task};
use super::{Item, Shared};
use crate::builder::Resume;
use crate::context::{Context, Seat};
use crate::runtime::spawn_in;
use crate::task::census::{Census, Row};
use crate::task::registry::{Entry, Registry};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Wake;
use std::time::{Duration, Instant};
use tasuki::Event;

#[test]
fn at_most_half_search() {
    let idle = Idle::new(4);
    assert!(idle.try_search() && idle.try_search() && !idle.try_search());
    assert!(!idle.found() && idle.found());
    let one = Idle::new(1);
    assert!(one.try_search() && !one.try_search());
}

#[test]
fn a_notifier_chooses_only_when_nobody_searches() {
    let idle = Idle::new(2);
    assert_eq!(idle.notify(), None);
    assert!(idle.sleep(1, false));
    assert_eq!(idle.notify(), Some(1));
    assert_eq!(idle.notify(), None);
    assert_eq!(idle.rise(1), Risen::Chosen);
    assert!(idle.sleep(1, true));
    assert_eq!(idle.rise(1), Risen::Alone);
    assert_eq!(idle.notify(), None);
}

#[test]
fn a_draining_census_takes_what_comes_from_inside_and_closes_when_empty() {
    let census = Census::new(2);
    assert!(census.begin(Row::Outside, false));
    census.begin_drain();
    assert!(!census.begin(Row::Outside, false) && !census.begin(Row::Pinned(1), false));
    census.end(Row::Outside);
    census.end(Row::Pinned(1));
    assert!(census.begin(Row::Pinned(1), true) && census.begin(Row::Worker(1), true));
    census.end(Row::Worker(0));
    assert!(!census.drain(Some(Instant::now())));
    assert_eq!((census.len(), census.pinned(1), census.others()), (2, 1, 1));
    std::thread::scope(|scope| {
        let drained = scope.spawn(|| census.drain(None));
        census.end(Row::Pinned(1));
        census.end(Row::Worker(1));
        assert!(drained.join().unwrap());
    });
    assert!(!census.begin(Row::Worker(1), true));
    census.begin_drain();
    assert!(!census.begin(Row::Worker(1), true), "closed for good");
}

#[test]
fn a_share_is_taken_from_the_front() {
    let global = Global::new();
    let mut kept = Vec::new();
    assert_eq!(global.take(2, 9, |_| unreachable!("nothing to keep")), None::<u32>);
    global.extend(0..10);
    global.push(10);
    assert_eq!(global.take(2, 3, |tasks| kept.extend(tasks)), Some(0));
    assert_eq!(global.take(2, 9, |tasks| kept.extend(tasks)), Some(4));
    assert_eq!(kept, [1, 2, 3, 5, 6, 7]);
    assert!(!global.is_empty() && !global.looks_empty());
    assert_eq!(global.take_all(), [8, 9, 10]);
    assert!(global.is_empty() && global.looks_empty());
}

/// Entries leave their list from its ends and its middle, and each is woken or dropped once.
#[test]
fn entries_leave_their_list_in_any_order_and_shards_are_apart() {
    struct Counts(AtomicUsize);
    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0], [0, 2, 1], [2, 0, 1]] {
        let registry = Registry::new(2);
        let woken = Arc::new(Counts(AtomicUsize::new(0)));
        let entries: Vec<_> = (0..5).map(|_| Entry::new()).collect();
        for (n, entry) in entries.iter().enumerate() {
            let (worker, pinned) = if n < 4 { (1, false) } else { (0, true) };
            // SAFETY: the entries stay where they are until all are removed.
            assert!(!unsafe { registry.insert(worker, pinned, entry, woken.clone().into()) });
            assert!(entry.look().is_registered() && !entry.look().is_aborted());
        }
        for n in order {
            registry.remove(&entries[n]);
            registry.remove(&entries[n]);
        }
        assert_eq!(Arc::strong_count(&woken), 3);
        registry.wake_pinned(1);
        assert_eq!(woken.0.load(Ordering::Relaxed), 0, "another shard");
        registry.wake_others();
        registry.wake_others();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        entries.iter().for_each(|entry| registry.remove(entry));
        assert_eq!(Arc::strong_count(&woken), 1);
    }
}

/// B137: the number of polls wraps between two looks.
#[test]
fn long_polls_are_seen_across_the_wrap() {
    let mut sight = Sight::default();
    sight.remember(u32::MAX);
    std::thread::sleep(Duration::from_millis(1));
    assert!(sight.shows_long_polls(u32::MAX) && sight.shows_long_polls(0) && sight.shows_long_polls(2));
    assert!(!sight.shows_long_polls(u32::MAX - 1), "nearly all numbers later");
}

/// A closure that was posted at the last moment wakes a task by its drop: the task is this worker's then, and is dropped by it.
#[test]
fn what_the_last_closure_wakes_is_dropped() {
    struct Sets(Arc<Event>);
    impl Drop for Sets {
        fn drop(&mut self) {
            self.0.set();
        }
    }
    let (shared, mut stations) = Shared::new(2, Resume::default());
    let local = Box::new(Local::new(&shared, stations.remove(0)));
    let context = Context::new(shared.clone(), Seat::Worker(local));
    context.enter(|| {
        let Seat::Worker(local) = &context.seat else { unreachable!("made above") };
        let event = Arc::new(Event::manual());
        let (wait, sets) = (event.clone(), Sets(event));
        drop(spawn_in(&shared, async move { wait.wait().await }));
        let Some(Item::Task(runnable)) = local.take_own(&shared) else { unreachable!("spawned above") };
        run_task(&context, runnable);
        shared.close();
        shared.send(0, Item::Job(Box::new(Box::new(move || drop(sets))))).unwrap();
        close_inbox(&context, local);
        let left = shared.census.others();
        // Before the check: no task may outlive the runtime.
        shared.registry.wake_others();
        while let Some(item) = local.take_own(&shared) {
            drop_item(&context, item);
        }
        assert_eq!(left, 0);
    });
}

/// Tasks that end and begin at the same address, while a thief looks: the pointer it takes must be the one that was put. Miri
/// with reuse of addresses tells them apart.
#[test]
fn a_thief_takes_the_task_that_was_put() {
    fn task(number: u64) -> NonNull<()> {
        NonNull::from(Box::leak(Box::new(number))).cast()
    }
    fn run(task: NonNull<()>) -> u64 {
        // SAFETY: made by `task`, and taken out of the slot once.
        *unsafe { Box::from_raw(task.cast::<u64>().as_ptr()) }
    }
    let rounds = if cfg!(miri) { 3 } else { 100 };
    for _ in 0..rounds {
        let (slot, stop) = (NextSlot::new(), AtomicBool::new(false));
        let ran = std::thread::scope(|scope| {
            let thief = scope.spawn(|| {
                let mut sum = 0;
                while !stop.load(Ordering::Relaxed) {
                    sum += slot.take().map_or(0, run);
                }
                sum
            });
            let mut sum = 0;
            for number in 1..=20 {
                sum += slot.put(task(number)).map_or(0, run);
                if number % 2 == 0 {
                    sum += slot.take().map_or(0, run);
                }
            }
            stop.store(true, Ordering::Relaxed);
            sum + thief.join().unwrap() + slot.take().map_or(0, run)
        });
        assert_eq!(ran, 210, "each task ran once");
    }
}
