//! The conditions under which `tour`, `repeat` and `bench` run a program: an idle machine, a busy one, one processor, real-time priority, little memory, threads held up as on a shared machine.
//!
//! A program is run under each condition alone, by a prefix of its command line; the load is this process's own threads.

use crate::hold_up::HoldUp;
use crate::shell::{output, program};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Busy threads for each processor.
const LOAD: usize = 4;
/// The address space of a small machine, in bytes.
const ADDRESS_SPACE: u64 = 2 << 30;

/// One condition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Condition {
    /// Nothing else is started here.
    Quiet,
    /// Four busy threads for each processor.
    Busy,
    /// One processor.
    Pinned,
    /// The lowest real-time priority, first in, first out.
    RealTime,
    /// The same priority, in turns of some milliseconds: for tests that keep every processor busy until another thread ends them.
    /// First in, first out, that thread would never run.
    RealTimeInTurns,
    /// Two GiB of address space.
    SmallMemory,
    /// One busy thread for each processor, and threads of the program are held up at random.
    HeldUp,
}

impl Condition {
    /// For the tour.
    pub(crate) const TOUR: [Condition; 6] =
        [Self::Quiet, Self::Busy, Self::Pinned, Self::RealTime, Self::SmallMemory, Self::HeldUp];
    /// For the tests.
    pub(crate) const TESTS: [Condition; 6] =
        [Self::Quiet, Self::Busy, Self::Pinned, Self::RealTimeInTurns, Self::SmallMemory, Self::HeldUp];

    /// Its name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::Busy => "beside 4 busy threads a processor",
            Self::Pinned => "pinned to one processor",
            Self::RealTime => "with real-time priority",
            Self::RealTimeInTurns => "with real-time priority, in turns",
            Self::SmallMemory => "in 2 GiB of address space",
            Self::HeldUp => "with threads held up at random",
        }
    }

    /// The words before the command that bring it about; an error if this machine cannot have it.
    pub(crate) fn prefix(self) -> Result<Vec<String>, String> {
        let words = match self {
            Self::Quiet | Self::Busy => return Ok(Vec::new()),
            Self::HeldUp => return HoldUp::possible().map(|()| Vec::new()),
            Self::Pinned => format!("taskset -c {}", first_processor()),
            Self::RealTime => "chrt --fifo 1".to_owned(),
            Self::RealTimeInTurns => "chrt --rr 1".to_owned(),
            Self::SmallMemory => format!("prlimit --as={ADDRESS_SPACE}"),
        };
        let (tool, rest) = words.split_once(' ').unwrap_or((&words, ""));
        output(&mut program(tool, &format!("{rest} true")))
            .map_err(|why| format!("{words}: {}", why.lines().collect::<Vec<_>>().join(" ")))?;
        Ok(words.split_whitespace().map(str::to_owned).collect())
    }

    /// What has to go on beside the program.
    pub(crate) fn load(self) -> Load {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let threads = match self {
            Self::Busy => LOAD,
            Self::HeldUp => 1,
            _ => 0,
        };
        let mut load = Load::of(threads * processors);
        load.hold_up = (self == Self::HeldUp).then(HoldUp::start);
        load
    }
}

/// The first processor that this process may use: not every machine gives it number 0.
fn first_processor() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or("0");
    list.trim().split([',', '-']).next().unwrap_or("0").to_owned()
}

/// Busy threads, until dropped, and what holds up others.
pub(crate) struct Load {
    /// Ends before the busy threads do: what is held up then runs on.
    hold_up: Option<HoldUp>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn of(threads: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let busy = |_| {
            let stop = stop.clone();
            thread::spawn(move || {
                // Relaxed: a flag that publishes nothing.
                while !stop.load(Ordering::Relaxed) {
                    std::hint::black_box((0..10_000_u64).sum::<u64>());
                }
            })
        };
        let threads = (0..threads).map(busy).collect();
        Self { hold_up: None, stop, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        drop(self.hold_up.take());
        // Relaxed: as above.
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that only counts does not panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_ends_when_it_is_dropped() {
        drop(Load::of(3));
        assert!(Condition::Quiet.prefix().is_ok_and(|words| words.is_empty()));
    }

    #[test]
    fn what_cannot_be_had_is_an_error_that_names_the_command() {
        let pinned = Condition::Pinned.prefix();
        assert!(pinned.is_ok_and(|words| words.len() == 3) || cfg!(not(target_os = "linux")));
    }
}
