//! Unit tests of the scheduler's parts, on one thread, and tests for Miri. Races are explored in `model/`, whose program includes the files beside
//! this one.

use super::chain::{Chain, Link, Linked};
use super::idle::{Idle, IdleWorker, NEVER, Risen, SleepPlace, SleepPlan, SleepRequest};
use super::next_slot::NextSlot;
use super::shared_queue::SharedQueue;
use super::shutdown::{close_inbox, drop_item};
use super::steal::Observation;
use super::worker::{self, Local, run_task};
use super::{Item, Job, Shared};
use crate::builder::Builder;
use crate::context::{Context, SpawnSite, ThreadRole};
use crate::event_loop::WorkerId;
use crate::runtime::{spawn_in, spawn_on_in};
use crate::task::registry::{Entry, RegisteredCell, Registry};
use crate::task::task_counts::{Row, TaskCounts};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};
use tasuki::Event;

#[test]
fn at_most_half_search() {
    let idle = Idle::new(4);
    assert!(idle.try_search() && idle.try_search() && !idle.try_search());
    assert!(!idle.found(|| true) && idle.found(|| true));
    let one = Idle::new(1);
    assert!(one.try_search() && !one.try_search());
}

#[test]
fn a_notifier_chooses_only_when_no_worker_searches() {
    let idle = Idle::new(2);
    assert_eq!(idle.notify(), None);
    assert!(idle.sleep(SleepRequest::of(1)).look);
    assert_eq!(idle.notify(), Some(1));
    assert_eq!(idle.notify(), None);
    assert_eq!(idle.rise(1), Risen { chosen: true, kept_time: false, owes_poll_slot: false });
    assert!(idle.sleep(SleepRequest { searching: true, ..SleepRequest::of(1) }).look);
    assert_eq!(idle.rise(1), Risen { chosen: false, kept_time: false, owes_poll_slot: false });
    assert_eq!(idle.notify(), None);
}

/// A task that is alone wakes one worker: the next one would find nothing.
#[test]
fn a_searcher_notifies_if_there_may_be_more() {
    let idle = Idle::new(2);
    assert!(idle.sleep(SleepRequest::of(1)).look);
    assert!(idle.try_search() && !idle.found(|| false), "all others sleep, and nothing is left");
    assert!(idle.try_search() && idle.found(|| true));
    assert_eq!(idle.notify(), Some(1));
    assert!(idle.rise(1).chosen && idle.found(|| panic!("another worker is awake: it may have pushed")));
}

/// The first to fall asleep keeps the time, is chosen last, and passes the duty on when it rises.
#[test]
fn one_sleeper_keeps_the_time() {
    let idle = Idle::new(4);
    assert_eq!(idle.cover(|| 7), None, "no sleeper");
    assert!([2, 3, 1].map(|worker| idle.sleep(SleepRequest::of(worker)).keeps_time) == [true, false, false]);
    assert_eq!(idle.cover(|| NEVER), None);
    assert_eq!([9, 9, 10, 8].map(|deadline| idle.cover(|| deadline)), [Some(2), None, None, Some(2)]);
    assert_eq!(idle.rise(2), Risen { chosen: false, kept_time: true, owes_poll_slot: false });
    assert_eq!(idle.cover(|| 9), Some(1), "another sleeper, which has looked at no deadline");
    assert!(!idle.sleep(SleepRequest::of(2)).keeps_time, "there is one");
    assert_eq!([idle.notify(), idle.notify()], [Some(2), None]);
    assert!(idle.found(|| true));
    assert_eq!(idle.rise(3), Risen { chosen: false, kept_time: false, owes_poll_slot: false });
    assert_eq!(idle.notify(), Some(1), "the last sleeper");
    assert_eq!(idle.rise(1), Risen { chosen: true, kept_time: false, owes_poll_slot: false });
    assert!(idle.sleep(SleepRequest::of(0)).keeps_time);
}

/// One sleeper has the poll slot, which the watcher leaves to others; it is chosen after all others, and says what it owes when it rises.
#[test]
fn one_sleeper_polls() {
    let idle = Idle::new(4);
    let watcher = SleepRequest { watch: true, ..SleepRequest::of(0) };
    assert!(!idle.sleep(SleepRequest::of(1)).polls && !idle.try_poll(2), "there is nothing to poll");
    assert_eq!(idle.open_poll_slot(), Some(1));
    assert_eq!(idle.rise(1), Risen { chosen: true, kept_time: false, owes_poll_slot: false });
    assert!(idle.found(|| true));
    assert!(
        !idle.sleep(watcher).polls
            && idle.sleep(SleepRequest::of(1)).polls
            && !idle.sleep(SleepRequest::of(2)).polls
    );
    assert!(!idle.try_poll(3), "taken");
    // Worker 0 keeps the time.
    assert_eq!(idle.cover(|| 5), Some(0));
    for (next, kept_time) in [(2, false), (0, true), (1, false)] {
        assert_eq!(idle.notify(), Some(next));
        assert_eq!(idle.rise(next), Risen { chosen: true, kept_time, owes_poll_slot: false });
        assert!(idle.found(|| true));
    }
    assert!(idle.try_poll(3) && !idle.try_poll(2));
    assert!(!idle.sleep(SleepRequest::of(2)).polls, "taken by a worker that is awake");
    assert_eq!(idle.end_poll(3), Some(2), "it parks, and no worker would poll");
    assert!(idle.rise(2).chosen && idle.found(|| true));
    assert!(idle.sleep(SleepRequest::of(2)).polls && !idle.sleep(SleepRequest::of(1)).polls);
    assert_eq!(idle.rise(2), Risen { chosen: false, kept_time: true, owes_poll_slot: true });
    assert_eq!([idle.hand_over_poll_slot(), idle.hand_over_poll_slot()], [Some(1), None]);
}

/// Worker 0 leaves the poll slot and relies on the watcher, worker 1, while worker 2 sleeps: a watcher that rises to run something owes a poller.
#[test]
fn a_watcher_that_rises_owes_a_poller() {
    struct Watching<'i>(&'i Idle);
    impl IdleWorker for Watching<'_> {
        fn sees_work(&self, _alone: bool) -> bool {
            false
        }

        fn earliest_deadline(&self) -> u64 {
            NEVER
        }

        fn sleep(&self, plan: SleepPlan) {
            assert!(plan.watch && plan.place == SleepPlace::Parker);
            assert_eq!(self.0.end_poll(0), None, "one watches");
        }
    }
    let idle = Idle::new(3);
    assert_eq!(idle.open_poll_slot(), None);
    assert!(idle.try_poll(0) && !idle.sleep(SleepRequest::of(2)).polls);
    let watcher = SleepRequest { watch: true, ..SleepRequest::of(1) };
    assert!(idle.sleep_until_woken(watcher, &Watching(&idle)).owes_poll_slot);
    assert_eq!(idle.hand_over_poll_slot(), Some(2));
}

#[test]
fn draining_counts_take_what_comes_from_inside_and_closes_when_empty() {
    let task_counts = TaskCounts::new(2);
    assert!(task_counts.begin(Row::Outside, false));
    task_counts.begin_drain();
    assert!(!task_counts.begin(Row::Outside, false) && !task_counts.begin(Row::Pinned(1), false));
    assert_eq!(task_counts.len(), 1, "the refused are not counted");
    assert!(task_counts.begin(Row::Pinned(1), true) && task_counts.begin(Row::Worker(1), true));
    task_counts.end(Row::Worker(0));
    assert!(!task_counts.drain(Some(Instant::now())));
    assert_eq!((task_counts.len(), task_counts.pinned(1), task_counts.others()), (2, 1, 1));
    std::thread::scope(|scope| {
        let drained = scope.spawn(|| task_counts.drain(None));
        task_counts.end(Row::Pinned(1));
        task_counts.end(Row::Worker(1));
        assert!(drained.join().unwrap());
    });
    assert!(!task_counts.begin(Row::Worker(1), true));
    task_counts.begin_drain();
    assert!(!task_counts.begin(Row::Worker(1), true), "closed for good");
    assert_eq!(task_counts.len(), 0);
}

/// A number that can be queued.
struct Number(Box<(Link, u32)>);

fn numbers(values: impl IntoIterator<Item = u32>) -> Chain<Number> {
    values.into_iter().map(|value| Number(Box::new((Link::new(), value)))).collect()
}

// SAFETY: the box stays where it is, and its link is used for nothing else.
unsafe impl Linked for Number {
    fn into_raw(self) -> NonNull<()> {
        NonNull::from(Box::leak(self.0)).cast()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: made by `into_raw`, and given back once.
        Self(unsafe { Box::from_raw(raw.cast().as_ptr()) })
    }

    unsafe fn link<'a>(raw: NonNull<()>) -> &'a Link {
        // SAFETY: made by `into_raw`, and not given back.
        unsafe { &raw.cast::<(Link, u32)>().as_ref().0 }
    }
}

fn values(chain: impl Iterator<Item = Number>) -> Vec<u32> {
    chain.map(|number| number.0.1).collect()
}

#[test]
fn chains_keep_their_order() {
    let mut chain = numbers([]);
    assert!(chain.is_empty() && chain.pop().is_none());
    chain.append(numbers([]));
    chain.append(numbers(0..2));
    chain.append(numbers([]));
    chain.append(numbers(2..5));
    assert_eq!((chain.len(), chain.is_empty()), (5, false));
    assert_eq!(values(chain.by_ref().take(2)), [0, 1]);
    chain.append(numbers([5]));
    assert_eq!((values(chain.by_ref()), chain.len()), (vec![2, 3, 4, 5], 0));
    chain.append(numbers(6..9));
    assert_eq!(values(chain.by_ref().take(1)), [6]);
    // What is left is freed; Miri sees to it.
    drop(chain);
}

/// Whatever the lengths, and wherever the first one is: an append begins in the lane after the last.
#[test]
fn chains_are_appended_in_every_position() {
    // None, one and more of each: Miri needs minutes for all.
    let (few, most) = if cfg!(miri) { (3, 3) } else { (6, 10) };
    for (taken, left, appended) in
        (0..few).flat_map(|a| (0..most).flat_map(move |b| (0..most).map(move |c| (a, b, c))))
    {
        let mut other = numbers(0..taken + appended);
        other.by_ref().take(taken as usize).for_each(drop);
        let mut chain = numbers(0..2 + left);
        chain.by_ref().take(2).for_each(drop);
        chain.append(other);
        chain.append(numbers([99]));
        let expected = (2..2 + left).chain(taken..taken + appended).chain([99]);
        assert_eq!(chain.len(), expected.clone().count());
        assert_eq!(values(chain), expected.collect::<Vec<_>>());
    }
}

#[test]
fn a_share_is_taken_from_the_front() {
    let queue = SharedQueue::new();
    let mut kept = Vec::new();
    assert!(queue.take(2, 9, |_| unreachable!("nothing to keep")).is_none());
    queue.append(numbers(0..10));
    assert!(numbers([10]).all(|number| queue.push(number).is_ok()));
    assert_eq!(values(queue.take(2, 3, |tasks| kept.extend(values(tasks))).into_iter()), [0]);
    assert_eq!(values(queue.take(2, 9, |tasks| kept.extend(values(tasks))).into_iter()), [4]);
    assert_eq!(kept, [1, 2, 3, 5, 6, 7]);
    assert!(!queue.is_empty() && !queue.looks_empty());
    queue.close();
    assert!(numbers([11]).all(|number| queue.push(number).is_err_and(|back| back.0.1 == 11)));
    assert_eq!(values(queue.take_all()), [8, 9, 10]);
    assert!(queue.is_empty() && queue.looks_empty());
}

/// A closure is called once or dropped once, and comes out of a queue as what it went in.
#[test]
fn jobs_are_called_or_dropped_once() {
    let held = Arc::new(());
    let calls = Arc::new(AtomicUsize::new(0));
    let job = || {
        let (held, calls) = (held.clone(), calls.clone());
        Item::Job(Job::new(move || {
            calls.fetch_add(Arc::strong_count(&held).min(1), Ordering::Relaxed);
        }))
    };
    let mut chain: Chain<Item> = (0..4).map(|_| job()).collect();
    chain.push(Item::Job(Job::new(|| ())));
    for _ in 0..2 {
        let Some(Item::Job(job)) = chain.pop() else { unreachable!("jobs only") };
        job.call();
    }
    drop(chain.pop());
    assert_eq!((calls.load(Ordering::Relaxed), Arc::strong_count(&held)), (2, 2));
    drop(chain);
    assert_eq!((calls.load(Ordering::Relaxed), Arc::strong_count(&held)), (2, 1));
}

/// Entries leave their list from its ends and its middle, and each is woken or dropped once.
#[test]
fn entries_leave_their_list_in_any_order_and_shards_are_apart() {
    /// A cell, and how often it was woken.
    struct Cell(Entry, AtomicUsize);
    impl Wake for Cell {
        fn wake(self: Arc<Self>) {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
    // SAFETY: the data of an `Arc`'s waker is what the `Arc` points to.
    unsafe impl RegisteredCell for Cell {
        unsafe fn entry<'a>(cell: NonNull<()>) -> &'a Entry {
            // SAFETY: promised by the caller.
            unsafe { &cell.cast::<Self>().as_ref().0 }
        }

        unsafe fn waker(cell: NonNull<()>) -> Waker {
            let cell = cell.as_ptr().cast::<Self>().cast_const();
            // SAFETY: a reference exists, so it can be counted; the `Arc` is another one.
            unsafe { Arc::increment_strong_count(cell) };
            // SAFETY: just counted.
            Waker::from(unsafe { Arc::from_raw(cell) })
        }
    }
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0], [0, 2, 1], [2, 0, 1]] {
        let registry = Registry::<Cell>::new(2);
        let cells: Vec<_> =
            (0..5).map(|n| Arc::new(Cell(Entry::new((n == 4).then_some(0)), AtomicUsize::new(0)))).collect();
        for cell in &cells {
            let worker = cell.0.home().unwrap_or(1);
            // SAFETY: the entry is in the cell.
            assert!(!unsafe { registry.insert(worker, &cell.0, cell.clone().into()) });
            assert!(cell.0.look().is_registered() && !cell.0.look().is_aborted());
        }
        for n in order {
            registry.remove(&cells[n].0);
            registry.remove(&cells[n].0);
        }
        let references = || cells.iter().map(|cell| Arc::strong_count(cell) - 1).collect::<Vec<_>>();
        let woken = || cells.iter().map(|cell| cell.1.load(Ordering::Relaxed)).collect::<Vec<_>>();
        assert_eq!(references(), [0, 0, 0, 1, 1]);
        registry.wake_pinned(1);
        assert_eq!(woken(), [0; 5], "another shard");
        registry.wake_others();
        registry.wake_others();
        assert_eq!(woken(), [0, 0, 0, 1, 0]);
        cells.iter().for_each(|cell| registry.remove(&cell.0));
        assert_eq!(references(), [0; 5]);
    }
}

/// The number of polls wraps between two looks.
#[test]
fn long_polls_are_seen_across_the_wrap() {
    let mut observation = Observation::default();
    observation.remember(u64::MAX);
    std::thread::sleep(Duration::from_millis(1));
    assert!(
        observation.shows_long_polls(u64::MAX)
            && observation.shows_long_polls(0)
            && observation.shows_long_polls(2)
    );
    assert!(!observation.shows_long_polls(u64::MAX - 1), "nearly all numbers later");
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
    let (shared, mut unstarted) = Shared::new(&Builder::with_workers(2));
    let local = Box::new(Local::new(&shared, unstarted.remove(0)));
    let context = Context::new(shared.clone(), ThreadRole::Worker(local));
    context.enter(|| {
        let ThreadRole::Worker(local) = &context.role else { unreachable!("made above") };
        let event = Arc::new(Event::manual());
        let (wait, sets) = (event.clone(), Sets(event));
        drop(spawn_in(&shared, async move { wait.wait().await }, SpawnSite::here()));
        let Some(Item::Task(runnable)) = local.take_own(&shared) else { unreachable!("spawned above") };
        run_task(&context, runnable);
        shared.close();
        shared.send(0, Item::Job(Job::new(move || drop(sets)))).unwrap();
        close_inbox(&context, local);
        let left = shared.task_counts.others();
        // Before the check: no task may outlive the runtime.
        shared.registry.wake_others();
        while let Some(item) = local.take_own(&shared) {
            drop_item(&context, item);
        }
        assert_eq!(left, 0);
    });
}

/// The work of one of two workers panics, which it never should: the runtime closes, and both leave, having dropped all tasks wherever they are.
#[test]
fn a_worker_that_panics_closes_its_runtime() {
    let (shared, mut unstarted) = Shared::new(&Builder::with_workers(2));
    let pending = || async { std::future::pending::<()>().await };
    for _ in 0..10 {
        drop(spawn_in(&shared, pending(), SpawnSite::here()));
        for worker in [0, 1] {
            drop(spawn_on_in(&shared, WorkerId::new(worker), pending, SpawnSite::here()));
        }
    }
    let other = unstarted.remove(1);
    std::thread::scope(|scope| {
        scope.spawn(|| worker::main(shared.clone(), other));
        let panics = |local: &Local, context: &Context| {
            // With tasks in its own places.
            local.take_inbox(&context.shared);
            std::panic::resume_unwind(Box::new("a defect of the runtime"));
        };
        let (worker, shared) = (unstarted.remove(0), shared.clone());
        scope.spawn(move || worker::live(shared, worker, panics));
    });
    assert!(shared.is_closing());
    assert_eq!(shared.task_counts.len(), 0);
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
