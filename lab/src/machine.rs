//! Describes the machine of a run for the results: processor, kernel, compiler, commit, date; and measures what a pair of locked operations and a bounce of a cache line cost there.

use crate::placement::{Probe, cpus};
use std::hint::black_box;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What is not known.
pub(crate) const UNKNOWN: &str = "unknown";
/// Pairs in one batch, and batches of which the fastest counts.
const PAIRS: u32 = 20_000;
const BATCHES: usize = 20;
/// Probes of a bounce, of which the fastest counts.
const PROBES: usize = 10;

/// A machine, and what was built on it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Machine {
    /// The model of the processor.
    pub(crate) processor: String,
    /// How many processors this process may use.
    pub(crate) processors: u64,
    /// Nanoseconds of a compare-exchange and a swap on a word that no other processor wants.
    pub(crate) locked_pair_ns: f64,
    /// Nanoseconds for a cache line to go from one processor to another; infinite where that is not known.
    pub(crate) bounce_ns: f64,
    /// The operating system and its kernel.
    pub(crate) kernel: String,
    /// The compiler.
    pub(crate) compiler: String,
    /// The commit, and `+` if the tree had changes.
    pub(crate) commit: String,
    /// The day.
    pub(crate) date: String,
    /// What else a reader has to know.
    pub(crate) note: String,
}

impl Default for Machine {
    fn default() -> Self {
        let unknown = || UNKNOWN.to_owned();
        Machine {
            processor: unknown(),
            processors: 0,
            locked_pair_ns: f64::INFINITY,
            bounce_ns: f64::INFINITY,
            kernel: unknown(),
            compiler: unknown(),
            commit: unknown(),
            date: unknown(),
            note: String::new(),
        }
    }
}

impl Machine {
    /// This one, now.
    pub(crate) fn here() -> Machine {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            processor: processor(),
            processors: cpus().len().max(1) as u64,
            locked_pair_ns: locked_pair(),
            bounce_ns: bounce(),
            kernel: format!("{} {}", std::env::consts::OS, kernel.trim()).trim().to_owned(),
            compiler: said("rustc", &["-V"]).unwrap_or_else(|| UNKNOWN.into()),
            commit: commit().unwrap_or_else(|| UNKNOWN.into()),
            date: today(),
            note: if cfg!(debug_assertions) { "built without optimisation".into() } else { String::new() },
        }
    }
}

/// The model of the processor. Where the system hides the name, its family and model tell.
fn processor() -> String {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = about.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
        Some(line.split_once(':')?.1.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let name = field("model name").or_else(|| field("CPU implementer").map(|id| format!("implementer {id}")));
    let name = name.unwrap_or_else(|| std::env::consts::ARCH.into());
    match (field("cpu family"), field("model")) {
        (Some(family), Some(model)) => format!("{name} (family {family}, model {model})"),
        _ => name,
    }
}

/// The fastest of some batches: what disturbs a batch makes it slower, never faster.
fn locked_pair() -> f64 {
    let word = AtomicU64::new(0);
    let batch = || {
        let start = Instant::now();
        for _ in 0..PAIRS {
            // Acquire and Release as a lock has them; they pair with each other on this thread.
            black_box(black_box(&word).compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)).ok();
            black_box(black_box(&word).swap(0, Ordering::Release));
        }
        start.elapsed().as_nanos() as f64 / f64::from(PAIRS)
    };
    (0..BATCHES).map(|_| batch()).fold(f64::INFINITY, f64::min)
}

fn bounce() -> f64 {
    let probes = |probe: Probe| (0..PROBES).map(|_| probe.bounce()).fold(f64::INFINITY, f64::min);
    Probe::start().map_or(f64::INFINITY, probes)
}

fn commit() -> Option<String> {
    let here = env!("CARGO_MANIFEST_DIR");
    let commit = said("git", &["-C", here, "rev-parse", "--short=10", "HEAD"])?;
    let changes = said("git", &["-C", here, "status", "--porcelain"]).unwrap_or_default();
    Some(if changes.is_empty() { commit } else { format!("{commit}+") })
}

/// What a program says, if it can be asked.
fn said(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The day in the calendar of everyday, in universal time.
fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    day(seconds / 86_400)
}

/// The date so many days after the first of January 1970.
fn day(mut days: u64) -> String {
    let leap = |year: u64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= months[month] {
        days -= months[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}", month + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        assert_eq!([day(0), day(59), day(11_016)], ["1970-01-01", "1970-03-01", "2000-02-29"]);
        assert_eq!(day(20_772), "2026-11-15");
    }

    #[test]
    fn this_machine_has_a_price_and_a_name() {
        let here = Machine::here();
        assert!(here.locked_pair_ns > 0.0 && here.locked_pair_ns.is_finite() && here.processors > 0);
        assert!(!here.processor.is_empty());
    }
}
