//! Compares the wait-for graph and the watcher with the reference model after each step of a random program.

use super::reference::{ModelLock, TASKS, Tasks, has};
use super::{Program, Rng};
use crate::inspect::graph::{self, Cycle};
use crate::inspect::watch::tests::Looks;
use crate::inspect::{Certainty, Deadlock, Hold};
use std::format;
use std::string::String;
use std::time::Duration;
use std::vec::Vec;

/// What a program was found to be, in how many steps.
#[derive(Default, Debug)]
struct Found {
    none: usize,
    certain: usize,
    futurelocks: usize,
    suspected: usize,
    several: usize,
    reported: usize,
}

impl Program {
    fn task(&self, number: u64) -> usize {
        self.actors.iter().position(|actor| actor.number() == number).expect("a task of the program")
    }

    fn tasks(&self, cycle: &Cycle) -> Tasks {
        cycle.links.iter().fold(0, |tasks, link| tasks | 1 << self.task(link.wait.task))
    }

    fn numbers(&self) -> Vec<u64> {
        self.actors.iter().map(|actor| actor.number()).collect()
    }

    /// Every line of a report is true: the task waits for this lock, and the other one has it, or is queued for it before.
    fn is_true(&self, cycle: &Cycle) -> bool {
        let deadlock = Deadlock::new(cycle).expect("it is closed");
        let next = deadlock.hops.iter().cycle().skip(1);
        deadlock.hops.len() == cycle.links.len()
            && deadlock.hops.iter().zip(next).all(|(hop, next)| {
                let (task, other) = (self.task(hop.task.get()), self.task(hop.holder.task.get()));
                let waits =
                    |lock: &&ModelLock| lock.queue.iter().any(|wait| wait.task == task && !wait.is_limited);
                let is_kept_out = |lock: &ModelLock| match hop.holder.hold {
                    Hold::Queued => lock.queue.iter().any(|wait| wait.task == other),
                    Hold::Taken => lock.holders.iter().any(|hold| hold.task == other && hold.is_claimed),
                    Hold::Unclaimed => lock.holders.iter().any(|hold| hold.task == other && !hold.is_claimed),
                };
                hop.holder.task == next.task && self.reference.locks.iter().filter(waits).any(is_kept_out)
            })
    }

    /// Both detectors say the same.
    fn compare(&self, found: &mut Found) -> [Tasks; 2] {
        let (certain, all) = (self.reference.stuck(false), self.reference.stuck(true));
        let cycles = graph::cycles_of(self.numbers());
        let fail = |what: &str| -> ! {
            let reports: Vec<String> =
                cycles.iter().filter_map(Deadlock::new).map(|deadlock| format!("{deadlock}")).collect();
            let reported = self.reported.join("\n");
            let names: Vec<u64> = self.numbers();
            let locks: Vec<String> = self.reference.locks.iter().map(|lock| format!("{lock:?}")).collect();
            panic!(
                "{what}: {certain:05b} of {all:05b} {names:?}\n{reported}\n{}\n{}",
                reports.join("\n"),
                locks.join("\n")
            );
        };
        // One of them after each step: each is a look of its own.
        for (task, actor) in self.actors.iter().enumerate().skip(self.reported.len() % TASKS).take(1) {
            let is_found = graph::cycle_of(actor.number());
            if has(certain, task) && is_found.is_none() {
                fail("a task that is stuck is missed");
            }
            if !has(all, task) && is_found.is_some() {
                fail("a task that goes on is reported");
            }
            if is_found.is_some_and(|cycle| {
                cycle.is_certain && !has(certain, task) && self.tasks(&cycle) & 1 << task != 0
            }) {
                fail("permits may let a task go on that is said to be stuck");
            }
        }
        let (sure, others): (Vec<&Cycle>, Vec<&Cycle>) = cycles.iter().partition(|cycle| cycle.is_certain);
        let mut reported: Vec<Tasks> = sure.iter().map(|cycle| self.tasks(cycle)).collect();
        for component in self.reference.components(certain) {
            let mine = reported.iter().position(|tasks| tasks & !component == 0);
            let Some(mine) = mine else { fail("tasks that wait for each other have no report") };
            reported.swap_remove(mine);
        }
        if !reported.is_empty() {
            fail("a report too many");
        }
        if others.iter().any(|cycle| self.tasks(cycle) & !all != 0)
            || !cycles.iter().all(|cycle| self.is_true(cycle))
        {
            fail("a line that is not true");
        }
        found.none += usize::from(all == 0);
        found.certain += usize::from(!sure.is_empty());
        found.suspected += usize::from(!others.is_empty());
        found.several += usize::from(cycles.len() > 1);
        let is_suspected = |cycle: &Cycle| {
            Deadlock::new(cycle).is_some_and(|deadlock| deadlock.certainty == Certainty::Suspected)
        };
        if self.is_guessed && !cycles.iter().all(is_suspected) {
            fail("tasks that are known by their wakers only are said to be stuck for certain");
        }
        let is_futurelock = |cycle: &&Cycle| {
            Deadlock::new(cycle).is_some_and(|deadlock| deadlock.certainty == Certainty::Futurelock)
        };
        found.futurelocks += cycles.iter().filter(is_futurelock).count();
        [certain, all]
    }
}

/// Runs one program beside a watcher.
fn run(seed: u64, is_guessed: bool, steps: usize, found: &mut Found) {
    const STEP: Duration = Duration::from_millis(300);
    let (mut rng, mut program, mut looks) = (Rng(seed), Program::new(seed, is_guessed), Looks::new());
    // The tasks that were stuck at the end of each of the last five steps: for more than a second.
    let (mut before, mut reported) = ([0; 5], Vec::new());
    for _ in 0..steps {
        program.step(&mut rng);
        before.rotate_left(1);
        before[4] = program.compare(found)[1];
        for cycle in looks.after(STEP, program.numbers()) {
            let tasks = program.tasks(&cycle);
            assert!(
                before[1..].iter().all(|stuck| tasks & !stuck == 0),
                "reported too early: {tasks:05b} of {before:?}: {:#?}",
                program.reported
            );
            reported.push(cycle.signature());
        }
    }
    for _ in 0..5 {
        reported.extend(looks.after(STEP, program.numbers()).iter().map(Cycle::signature));
    }
    for cycle in graph::cycles_of(program.numbers()) {
        let count = reported.iter().filter(|one| **one == cycle.signature()).count();
        assert_eq!(count, usize::from(!cycle.is_own_permits()), "reported once: {:#?}", program.reported);
    }
    found.reported += reported.len();
    reported.sort_unstable();
    assert!(reported.windows(2).all(|two| two[0] != two[1]), "reported twice: {:#?}", program.reported);
}

/// With critical sections the memory for records does not grow, and guards that are leaked keep theirs.
const PROGRAMS: u64 = if cfg!(feature = "critical-section") { 400 } else { 1_500 };

/// `TASUKI_STRESS_ROUNDS` says how many programs, if it is more.
fn programs() -> u64 {
    let rounds = std::env::var("TASUKI_STRESS_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    rounds.map_or(PROGRAMS, |rounds: u64| rounds.max(PROGRAMS))
}

#[test]
fn both_detectors_say_the_same() {
    let _slots = crate::inspect::tests::SLOTS.read();
    let (mut found, steps) = (Found::default(), 40);
    for seed in 0..programs() {
        run(seed, false, steps, &mut found);
    }
    let Found { none, certain, futurelocks, suspected, several, reported } = found;
    let least = none.min(certain).min(futurelocks).min(suspected).min(several).min(reported);
    assert!(least as u64 > programs() / 8, "too few deadlocks of some kind, or too many: {found:?}");
}

/// The same of tasks that no runtime tells of: every report is only a suspicion, and none is missed.
#[test]
fn tasks_that_are_known_by_their_wakers() {
    let _slots = crate::inspect::tests::SLOTS.read();
    let (mut found, steps) = (Found::default(), 40);
    for seed in 0..PROGRAMS {
        run(seed, true, steps, &mut found);
    }
    let Found { none, certain, suspected, several, reported, .. } = found;
    let least = none.min(certain).min(suspected).min(several).min(reported);
    assert!(least as u64 > PROGRAMS / 8, "too few deadlocks of some kind, or too many: {found:?}");
}
