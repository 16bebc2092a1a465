//! Every reachable state of the protocol by which workers search, sleep and are woken, for small programs, with any number of preemptions.
//!
//! The models of `model/first_run.rs` run the runtime's own code, under weak memory, with two or three preemptions. Here the protocol is written down a second time, as a state machine
//! (`idle_machine.rs`), and a search visits every state. From each of them the end of the program must be reachable: a lost wake-up is a state from which it is not.
//! The last test leaves out each step of the protocol, and must notice.

use super::idle_machine::{Act, At, ENDS, HOLDS, Program, SPAWNS, THREADS, WAITS, Without, YIELDS};
use std::collections::HashMap;

impl Program {
    /// Visits every reachable state. Returns their number, and how many of them do not lead to the end; or how many were visited until one had no step.
    fn explore(&self) -> (usize, usize) {
        let mut numbers = HashMap::from([(self.start(), 0_u32)]);
        let mut states = vec![self.start()];
        // Which states lead to each state.
        let mut before: Vec<Vec<u32>> = vec![Vec::new()];
        let mut ends = Vec::new();
        let mut to = Vec::new();
        let mut at = 0;
        while at < states.len() {
            let state = states[at];
            if state.threads.iter().all(|thread| matches!(thread.at, At::Absent | At::Gone)) {
                assert_eq!((state.left, state.searching), (0, 0));
                ends.push(at as u32);
            }
            assert!(state.searching <= state.awake && usize::from(state.awake) <= self.workers);
            (0..THREADS).for_each(|thread| self.steps(&state, thread, &mut to));
            if to.is_empty() && ends.last() != Some(&(at as u32)) {
                return (at, 1);
            }
            for state in to.drain(..) {
                let number = *numbers.entry(state).or_insert_with(|| {
                    states.push(state);
                    before.push(Vec::new());
                    states.len() as u32 - 1
                });
                before[number as usize].push(at as u32);
            }
            at += 1;
        }
        let mut leads_to_end = vec![false; states.len()];
        while let Some(state) = ends.pop() {
            if !std::mem::replace(&mut leads_to_end[state as usize], true) {
                ends.append(&mut before[state as usize]);
            }
        }
        (states.len(), leads_to_end.iter().filter(|leads| !**leads).count())
    }

    #[track_caller]
    fn ends(self) {
        let (states, stuck) = self.explore();
        println!("{states} states, {stuck} from which the end cannot be reached");
        assert_eq!(stuck, 0, "of {states} states");
    }

    #[track_caller]
    fn is_stuck_without(self, without: Without) {
        assert_ne!(Self { without, ..self }.explore().1, 0, "the step is needed");
    }
}

/// Spawned from outside, one of them spawns inside a task that yields, the other is woken before, in or after its first poll.
const WHOLE: Program = Program {
    outside: &[&[Act::Wake(SPAWNS), Act::Wake(WAITS), Act::SetEvent]],
    ..Program::new(1, &[SPAWNS, YIELDS, WAITS])
};

/// One thread spawns, another wakes.
const BY_TWO: Program =
    Program { outside: &[&[Act::Wake(WAITS)], &[Act::SetEvent]], ..Program::new(1, &[WAITS]) };

/// A poll that does not end before another worker has run the task from outside.
const LONG_POLL: Program =
    Program { local: &[HOLDS], outside: &[&[Act::Wake(ENDS)]], ..Program::new(2, &[HOLDS, ENDS]) };

#[test]
#[cfg_attr(miri, ignore = "very many states, and no unsafe code")]
fn one_worker_runs_them_all() {
    WHOLE.ends();
    BY_TWO.ends();
}

#[test]
#[cfg_attr(miri, ignore = "very many states, and no unsafe code")]
fn two_workers_run_them_all() {
    Program { workers: 2, ..WHOLE }.ends();
}

#[test]
#[cfg_attr(miri, ignore = "very many states, and no unsafe code")]
fn two_workers_run_what_two_threads_spawn_and_wake() {
    Program { workers: 2, ..BY_TWO }.ends();
}

#[test]
#[cfg_attr(miri, ignore = "very many states, and no unsafe code")]
fn three_workers_and_a_task_that_is_woken_early() {
    let woken = Program { queued: &[WAITS], ..Program::new(3, &[WAITS]) };
    Program { outside: &[&[Act::SetEvent]], ..woken }.ends();
}

#[test]
#[cfg_attr(miri, ignore = "very many states, and no unsafe code")]
fn three_workers_and_tasks_from_inside() {
    Program { local: &[SPAWNS, ENDS], ..Program::new(3, &[SPAWNS, YIELDS, ENDS]) }.ends();
}

#[test]
#[cfg_attr(miri, ignore = "very many states, and no unsafe code")]
fn a_task_from_outside_does_not_wait_for_a_long_poll() {
    LONG_POLL.ends();
    Program { workers: 3, ..LONG_POLL }.ends();
    // The task that the other worker runs first is in the queue as well.
    let more = Program { queued: &[SPAWNS], ..LONG_POLL };
    Program { tasks: &[SPAWNS, YIELDS, HOLDS, ENDS], ..more }.ends();
}

#[test]
#[cfg_attr(miri, ignore = "very many states, and no unsafe code")]
fn every_step_but_one_is_needed() {
    let two = Program { workers: 2, ..WHOLE };
    two.is_stuck_without(Without::Notification);
    two.is_stuck_without(Without::SecondLook);
    two.is_stuck_without(Without::Token);
    let more = Program { queued: &[SPAWNS, ENDS], ..LONG_POLL };
    Program { tasks: &[SPAWNS, YIELDS, HOLDS, ENDS], outside: &[], ..more }.is_stuck_without(Without::Found);
    Program { workers: 2, without: Without::ReadSearching, ..BY_TWO }.ends();
}
