//! The tour: what Tasuki promises, done before your eyes and checked.
//!
//! One file a stop; a later primitive adds its own to [`STOPS`]. A stop says what it does, does it,
//! and fails the whole tour when a check fails. Tasks run on `tasuki-rt`: on all its workers, or, where a check
//! needs to know which task came first, on the event loop of one worker.

mod barrier;
mod baton;
mod cancel;
mod channel;
mod condvar;
mod event;
mod memory;
mod once;
mod runtime;
mod rwlock;
mod semaphore;
mod tasks;
mod threads;
mod time;
mod token;
mod wait_group;

use crate::alloc;
use crate::cli::TourArgs;
use crate::screen::Screen;
use std::fmt::Display;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tasks::{Count, all, note_wait, until};
use tasuki_rt::Runtime;

/// A stop of the tour: its title and what happens there.
type Stop = (&'static str, fn(&Guide) -> Result<(), String>);

/// The stops in order.
const STOPS: [Stop; 15] = [
    ("The baton: strict FIFO, hand to hand", baton::visit),
    ("Giving up: a million waiters leave the queue", cancel::visit),
    ("Threads and tasks in one queue", threads::visit),
    ("Semaphore: small and big requests in order", semaphore::visit),
    ("Event: one of them, or all of them", event::visit),
    ("WaitGroup and Latch: until the last one is done", wait_group::visit),
    ("Barrier: arrivals that change their minds", barrier::visit),
    ("Cancellation: a million tokens, deep and wide", token::visit),
    ("RwLock: readers together, writers alone", rwlock::visit),
    ("Condvar: a bounded queue", condvar::visit),
    ("Channels: nothing is lost", channel::visit),
    ("OnceCell: made once, though the first attempts fail", once::visit),
    ("Time: waits that run out", time::visit),
    ("The runtime: a million tasks", runtime::visit),
    ("What it weighs", memory::visit),
];

/// Takes the tour; the exit code tells whether every check passed.
pub(crate) fn run(args: TourArgs) -> ExitCode {
    let guide = match Guide::new(args) {
        Ok(guide) => guide,
        Err(error) => {
            eprintln!("FAILED: no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let start = Instant::now();
    guide.say("Tasuki: the sash that relay runners hand on. A tour.");
    guide.say(format_args!("Its tasks run on tasuki-rt, with {} workers.", guide.runtime.workers()));
    match visit_all(&guide) {
        Ok(()) => {
            let seconds = start.elapsed().as_secs_f64();
            guide.say(format_args!("\nEvery check passed, in {seconds:.1} s."));
            ExitCode::SUCCESS
        }
        Err(error) => {
            guide.say("");
            eprintln!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Visits every stop until one fails.
fn visit_all(guide: &Guide) -> Result<(), String> {
    for (number, (title, visit)) in STOPS.iter().enumerate() {
        guide.say(format_args!("\n{}. {title}", number + 1));
        visit(guide).map_err(|error| format!("{title}: {error}"))?;
    }
    Ok(())
}

/// Shows and checks.
struct Guide {
    screen: Screen,
    args: TourArgs,
    runtime: Runtime,
}

impl Guide {
    fn new(args: TourArgs) -> std::io::Result<Self> {
        let runtime = runtime(args)?;
        let mut enlisted = Vec::new();
        runtime.for_each_worker(|id| enlisted.push(runtime.spawn_on(id, || async { alloc::enlist() })));
        runtime.start()?;
        // What a worker allocates before it is enlisted would not be counted, and what it frees later would.
        runtime.block_on(all(enlisted));
        Ok(Guide { screen: Screen::stdout(), args, runtime })
    }

    /// The full number, or the small one.
    fn pick(&self, full: usize, quick: usize) -> usize {
        if self.args.quick { quick } else { full }
    }

    /// A lasting line.
    fn say(&self, text: impl Display) {
        self.screen.line(&text.to_string());
    }

    /// Progress; does not allocate.
    fn live(&self, text: impl Display) {
        self.screen.live(text);
    }

    /// Says what holds, or fails the tour.
    fn check(&self, holds: bool, claim: impl Display) -> Result<(), String> {
        if !holds {
            return Err(format!("not so: {claim}"));
        }
        self.say(format_args!("   ok  {claim}"));
        Ok(())
    }
}

/// A runtime with as many workers as the tour was asked to have.
fn runtime(args: TourArgs) -> std::io::Result<Runtime> {
    let builder = Runtime::builder();
    match args.workers {
        Some(workers) => builder.workers(workers).build(),
        None => builder.build(),
    }
}

/// Runs `work` on this thread with the allocator counting; its result, its time and its thread's allocations.
fn counted<T>(work: impl FnOnce() -> T) -> (T, Duration, u64) {
    alloc::counting(|| {
        let before = alloc::own_allocations();
        let start = Instant::now();
        let result = work();
        let taken = start.elapsed();
        (result, taken, alloc::own_allocations() - before)
    })
}

/// A number with its thousands apart.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// How often a second, and how long each.
fn rate(count: usize, taken: Duration) -> String {
    let seconds = taken.as_secs_f64().max(1e-9);
    let count = count.max(1) as f64;
    format!("{:.1} million a second, {:.0} ns each", count / seconds / 1e6, seconds * 1e9 / count)
}

/// Resident memory in words, where the system tells.
fn resident() -> String {
    match alloc::resident() {
        Some(bytes) => format!("{:.1} MiB resident", bytes as f64 / f64::from(1 << 20)),
        None => "resident memory unknown here".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test: workers of another tour in this process would be counted among the workers of this one.
    #[test]
    fn the_quick_tour_passes_and_a_false_claim_fails_it() {
        for workers in [None, Some(1), Some(3)] {
            let guide = Guide::new(TourArgs { quick: true, workers }).unwrap();
            assert_eq!(visit_all(&guide), Ok(()));
            assert!(guide.check(false, "one is two").is_err());
        }
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([grouped(7), grouped(1_000), grouped(12_345_678)], ["7", "1,000", "12,345,678"]);
    }
}
