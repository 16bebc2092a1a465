//! Threads held up at random, as a hypervisor or a busy neighbour does it: a thread that has just read the clock, or is about to sleep, runs on
//! only after tens of milliseconds. Whatever takes for granted that two lines are run within a few milliseconds fails here.
//!
//! Beside busy threads on every processor, a thread of the idle class gets next to nothing: that holds up one thread. `SIGSTOP` holds up all of a
//! process.

use crate::shell::{output, program, target};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Threads that may be held up at the same time.
const AT_ONCE: u64 = 3;
/// The longest time that a thread is held up.
const LONGEST: u64 = 80;
/// One of so many times it is the whole process.
const WHOLE: u64 = 50;

/// Holds up threads of the programs that this process has started, until dropped.
pub(crate) struct HoldUp {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl HoldUp {
    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = |stream| {
            let stop = stop.clone();
            thread::spawn(move || {
                let mut dice = Dice::new(stream);
                // Relaxed: a flag that publishes nothing.
                while !stop.load(Ordering::Relaxed) {
                    hold_up_one(&mut dice);
                }
            })
        };
        let threads = (1..=AT_ONCE).map(thread).collect();
        Self { stop, threads }
    }

    /// Whether this machine can do it.
    pub(crate) fn possible() -> Result<(), String> {
        output(&mut program("chrt", "--idle 0 true")).map(drop)?;
        fs::read_dir("/proc/self/task").map(drop).map_err(|error| format!("/proc: {error}"))
    }
}

impl Drop for HoldUp {
    fn drop(&mut self) {
        // Relaxed: as above.
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // What went wrong there is not about the program under test.
            let _ = thread.join();
        }
    }
}

fn hold_up_one(dice: &mut Dice) {
    let processes = programs_under_test();
    if processes.is_empty() {
        thread::sleep(Duration::from_millis(5));
        return;
    }
    let process = processes[dice.below(processes.len() as u64) as usize];
    let time = Duration::from_millis(1 + dice.below(LONGEST));
    // A thread or process that has ended meanwhile is no error.
    if dice.below(WHOLE) == 0 {
        let _ = output(&mut program("kill", &format!("-STOP {process}")));
        thread::sleep(time);
        let _ = output(&mut program("kill", &format!("-CONT {process}")));
    } else if let Some(id) = dice.one_of(&numbers(format!("/proc/{process}/task"))) {
        let _ = output(&mut program("chrt", &format!("--idle --pid 0 {id}")));
        thread::sleep(time);
        let _ = output(&mut program("chrt", &format!("--other --pid 0 {id}")));
    }
}

/// Processes below this one that run a program from the folder of builds; not the compiler, not cargo.
fn programs_under_test() -> Vec<u32> {
    let all = numbers("/proc".to_owned());
    let parents: Vec<(u32, u32)> =
        all.iter().filter_map(|&process| Some((process, parent(process)?))).collect();
    let mut below = vec![std::process::id()];
    let mut at = 0;
    while at < below.len() {
        let this = below[at];
        below.extend(parents.iter().filter(|(_, parent)| *parent == this).map(|(process, _)| *process));
        at += 1;
    }
    let builds = fs::canonicalize(target()).unwrap_or_else(|_| PathBuf::from("/"));
    let ours = |process: &u32| {
        fs::read_link(format!("/proc/{process}/exe")).is_ok_and(|program| program.starts_with(&builds))
    };
    below.into_iter().skip(1).filter(ours).collect()
}

/// The second field after the name, which is in parentheses and may have any character.
fn parent(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// The entries of a folder that are numbers.
fn numbers(folder: String) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Numbers that differ from run to run: nothing could be replayed by a seed here.
struct Dice(u64);

impl Dice {
    fn new(stream: u64) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self((now.as_nanos() as u64 | 1).wrapping_mul(2 * stream + 1))
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn one_of(&mut self, numbers: &[u32]) -> Option<u32> {
        match numbers.len() {
            0 => None,
            len => numbers.get(self.below(len as u64) as usize).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_of_this_process_is_found() {
        let parent = parent(std::process::id());
        assert!(parent.is_some_and(|parent| parent > 0) || cfg!(not(target_os = "linux")));
        assert!(!programs_under_test().contains(&std::process::id()));
    }

    #[test]
    fn it_ends_when_it_is_dropped() {
        drop(HoldUp::start());
    }
}
