//! No place where a runnable task can be is passed over for long, whichever other places have tasks at every pick, however long the polls are and at whatever pick it begins.

use super::Item;
use super::Shared;
use super::worker::Local;
use crate::builder::Builder;
use crate::context::{Context, SpawnSite, ThreadRole};
use crate::event_loop::WorkerId;
use crate::runtime::{spawn_in, spawn_on_in};
use crate::task::Runnable;
use std::sync::Arc;
use std::time::Duration;
use tasuki::task::TaskId;

/// A place, with one task that is put back there after each of its polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Next,
    PinnedNext,
    Local,
    Home,
    Inbox,
    Global,
}

use Place::{Global, Home, Inbox, Next, PinnedNext};

const PLACES: [Place; 6] = [Next, PinnedNext, Place::Local, Home, Inbox, Global];

impl Place {
    fn put(self, shared: &Shared, local: &Local, task: Runnable) {
        match self {
            Next | PinnedNext => local.put(shared, task, true),
            Place::Local | Home => local.put(shared, task, false),
            Inbox => shared.send(0, Item::Task(task)).expect("the inbox is open"),
            Global => shared.push_global(task),
        }
    }

    /// A new task for it.
    fn task(self, shared: &Arc<Shared>, local: &Local) -> Runnable {
        let (pending, site) = (std::future::pending::<()>, SpawnSite::here());
        if matches!(self, PinnedNext | Home | Inbox) {
            drop(spawn_on_in(shared, WorkerId::new(0), pending, site));
        } else {
            drop(spawn_in(shared, pending(), site).handle());
        }
        let Some(Item::Task(task)) = local.take_own(shared) else { unreachable!("spawned above") };
        task
    }
}

/// The most picks between two of a place, for each place.
fn longest_gaps(places: &[Place], poll: Duration, begin: u32, picks: u32) -> Vec<(Place, u32)> {
    let (shared, mut unstarted) = Shared::new(&Builder::with_workers(1));
    let local = Box::new(Local::new(&shared, unstarted.remove(0)));
    let context = Context::new(shared.clone(), ThreadRole::Worker(local));
    context.enter(|| {
        let ThreadRole::Worker(local) = &context.role else { unreachable!("made above") };
        let tasks: Vec<(Place, Runnable)> =
            places.iter().map(|place| (*place, place.task(&shared, local))).collect();
        local.tick.set(begin);
        let ids: Vec<(Place, TaskId)> =
            tasks.iter().map(|(place, task)| (*place, task.metadata().id)).collect();
        tasks.into_iter().for_each(|(place, task)| place.put(&shared, local, task));
        // However quickly all of this was made: the first poll is not taken for a short one.
        local.wary.set(1);
        let (mut picked, mut longest) = (vec![0; ids.len()], vec![0; ids.len()]);
        for pick in 1..=picks {
            let Some(Item::Task(task)) = local.pick(&shared) else { unreachable!("every place has a task") };
            let at = ids.iter().position(|(_, id)| *id == task.metadata().id).expect("one of ours");
            picked[at] = pick;
            for (longest, picked) in longest.iter_mut().zip(&picked) {
                *longest = pick.saturating_sub(*picked).max(*longest);
            }
            std::thread::sleep(poll);
            ids[at].0.put(&shared, local, task);
        }
        while let Some(item) = local.take_own(&shared).or_else(|| local.pick(&shared)) {
            drop(item);
        }
        ids.iter().map(|(place, _)| *place).zip(longest).collect()
    })
}

/// All places, and all but one or two.
fn combinations() -> Vec<Vec<Place>> {
    let without = |some: &[Place]| PLACES.into_iter().filter(|place| !some.contains(place)).collect();
    let mut all: Vec<Vec<Place>> = vec![PLACES.to_vec()];
    for (n, first) in PLACES.into_iter().enumerate() {
        all.push(without(&[first]));
        all.extend(PLACES[n + 1..].iter().map(|second| without(&[first, *second])));
    }
    all
}

fn check(poll: Duration, picks: u32, most: u32) {
    let combinations = combinations();
    let some = if cfg!(miri) { 1 } else { combinations.len() };
    for places in &combinations[..some] {
        // Where it begins decides at which picks it looks outside.
        for begin in 0..4 {
            for (place, longest) in longest_gaps(places, poll, begin, picks) {
                assert!(
                    longest <= most,
                    "{longest} picks without the task in {place:?}, of {places:?} from {begin}"
                );
            }
        }
    }
}

/// After a poll of half a millisecond it is time for what comes from outside, but not twice in a row: every other pick is from there, and of the others every other one from the *next* slots.
#[test]
fn long_polls_pass_over_no_place() {
    check(Duration::from_micros(600), 40, 16);
}

/// A turn of a queue is bounded in time: a hundred long polls in one do not hold up a task in the other.
#[test]
fn long_polls_of_a_crowd_pass_over_no_place() {
    const CROWD: usize = if cfg!(miri) { 20 } else { 100 };
    for (crowded, other) in [(Place::Local, Home), (Home, Place::Local)] {
        let mut places = vec![crowded; CROWD];
        places.push(other);
        let gaps = longest_gaps(&places, Duration::from_micros(600), 0, 3 * CROWD as u32);
        let (_, longest) = gaps[CROWD];
        assert!(
            longest <= 16,
            "{longest} picks without the task in {other:?}, beside a crowd in {crowded:?}"
        );
    }
}

/// One pick in 64 is from outside, and one in 33 not from the *next* slots.
#[test]
fn short_polls_pass_over_no_place() {
    check(Duration::ZERO, if cfg!(miri) { 200 } else { 1_000 }, 160);
}

/// A worker is stuck after one look that showed its poll and another one a millisecond later, however many come between; it is not if it has begun a poll since.
#[test]
fn looks_do_not_postpone_each_other() {
    let (shared, mut unstarted) = Shared::new(&Builder::with_workers(2));
    let victim = Local::new(&shared, unstarted.remove(1));
    let context =
        Context::new(shared.clone(), ThreadRole::Worker(Box::new(Local::new(&shared, unstarted.remove(0)))));
    context.enter(|| {
        let ThreadRole::Worker(local) = &context.role else { unreachable!("made above") };
        let task = Place::Local.task(&shared, local);
        victim.queue.push(task).expect("the queue is empty");
        let begins_poll = || shared.remotes[1].counters.polls.count();
        let looks = |pause| {
            std::thread::sleep(pause);
            local.steal_from_stuck(&shared, 1)
        };
        for _ in 0..5 {
            begins_poll();
            assert!(looks(Duration::from_millis(2)).is_none());
        }
        let found = (1..100).find_map(|look| looks(Duration::from_micros(300)).map(|task| (look, task)));
        let (look, task) = found.expect("it is stuck");
        drop(task);
        assert!(look <= 6, "at look {look}");
    });
}
