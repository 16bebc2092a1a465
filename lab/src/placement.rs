//! Measures whether the processors of a two-thread sample share a cache (near) or not (far), and pins the threads.
//!
//! A host may move virtual processors between cores that share a cache and cores that do not; a
//! cache line then bounces several times slower, and every two-thread figure with it. So threads
//! are pinned, the bounce is probed around each sample, and samples are compared within one
//! placement only.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Above this many nanoseconds a bounce, two processors do not share a cache.
const FAR_NS: f64 = 80.0;
/// Round trips in one batch of the probe.
const ROUND_TRIPS: u64 = 200;
/// Batches of the probe; the fastest counts, so that one preemption does not.
const BATCHES: usize = 5;
/// On a busy machine fewer batches must do.
const PATIENCE: Duration = Duration::from_millis(3);
/// Looks at the line before the thread lets others run: the helper may be one of them.
const LOOKS: u32 = 10_000;

/// How far apart the processors of a sample were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// The sample used one thread.
    Alone,
    /// A line bounces quickly.
    Near,
    /// A line bounces slowly.
    Far,
    /// It changed during the sample; such a sample is discarded.
    Moved,
    /// It cannot be told: fewer than two processors, or no way to pin.
    Unknown,
    /// The one thread was preempted; such a sample counts only when there is no other.
    Disturbed,
}

impl Placement {
    /// All placements a sample can be kept under.
    pub(crate) const KEPT: [Placement; 4] =
        [Placement::Alone, Placement::Near, Placement::Far, Placement::Unknown];

    /// Its name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Placement::Alone => "alone",
            Placement::Near => "near",
            Placement::Far => "far",
            Placement::Moved => "moved",
            Placement::Unknown => "unknown",
            Placement::Disturbed => "disturbed",
        }
    }

    /// Classifies one probe.
    fn of_bounce(bounce: Option<f64>) -> Placement {
        match bounce {
            None => Placement::Unknown,
            Some(ns) if ns < FAR_NS => Placement::Near,
            Some(_) => Placement::Far,
        }
    }

    /// The placement of a sample from the probes before and after it.
    pub(crate) fn between(before: Option<f64>, after: Option<f64>) -> Placement {
        let (before, after) = (Self::of_bounce(before), Self::of_bounce(after));
        if before == after { before } else { Placement::Moved }
    }
}

/// The cache line that is passed to and fro.
#[repr(align(128))]
struct Line {
    turn: AtomicU64,
    target: AtomicU64,
    stop: AtomicBool,
}

/// A helper thread on the second processor, and the line it shares with the caller.
pub(crate) struct Probe {
    line: Arc<Line>,
    helper: Option<JoinHandle<()>>,
    first: usize,
}

impl Probe {
    /// A probe between the first two processors of this process, if it has two.
    pub(crate) fn start() -> Option<Probe> {
        let cpus = cpus();
        let (&first, &second) = (cpus.first()?, cpus.get(1)?);
        let line = Arc::new(Line {
            turn: AtomicU64::new(0),
            target: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let shared = line.clone();
        let helper = std::thread::spawn(move || {
            pin(second);
            answer(&shared);
        });
        Some(Probe { line, helper: Some(helper), first })
    }

    /// Nanoseconds for the line to go one way.
    pub(crate) fn bounce(&self) -> f64 {
        let _pinned = Pinned::on(self.first);
        let start = Instant::now();
        let mut best = self.batch();
        for _ in 1..BATCHES {
            if start.elapsed() > PATIENCE {
                break;
            }
            best = best.min(self.batch());
        }
        best
    }

    /// One batch of round trips, per one way.
    fn batch(&self) -> f64 {
        let line = &*self.line;
        let mut turn = line.turn.load(Ordering::Relaxed);
        line.target.store(turn + 2 * ROUND_TRIPS, Ordering::Release);
        if let Some(helper) = &self.helper {
            helper.thread().unpark();
        }
        // The first round trip wakes the helper; it is not timed.
        turn = round_trip(line, turn);
        let start = Instant::now();
        for _ in 1..ROUND_TRIPS {
            turn = round_trip(line, turn);
        }
        start.elapsed().as_nanos() as f64 / (2 * (ROUND_TRIPS - 1)) as f64
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.line.stop.store(true, Ordering::Release);
        if let Some(helper) = self.helper.take() {
            helper.thread().unpark();
            helper.join().ok();
        }
    }
}

/// Makes the turn odd and waits for the helper to make it even.
fn round_trip(line: &Line, turn: u64) -> u64 {
    line.turn.store(turn + 1, Ordering::Release);
    let mut looks = 0;
    while line.turn.load(Ordering::Acquire) != turn + 2 {
        look_again(&mut looks);
    }
    turn + 2
}

/// Spins, and now and then lets others run.
fn look_again(looks: &mut u32) {
    *looks = looks.wrapping_add(1);
    if *looks % LOOKS == 0 {
        std::thread::yield_now();
    }
    std::hint::spin_loop();
}

/// The helper: answers every odd turn until the target, then sleeps.
fn answer(line: &Line) {
    let (mut turn, mut looks) = (0, 0);
    while !line.stop.load(Ordering::Acquire) {
        if turn == line.target.load(Ordering::Acquire) {
            std::thread::park();
            continue;
        }
        if line.turn.load(Ordering::Acquire) == turn + 1 {
            turn += 2;
            line.turn.store(turn, Ordering::Release);
        }
        look_again(&mut looks);
    }
}

/// Pins this thread until dropped.
struct Pinned(Option<sys::Mask>);

impl Pinned {
    fn on(cpu: usize) -> Pinned {
        let before = sys::mask();
        pin(cpu);
        Pinned(before)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(mask) = &self.0 {
            sys::set_mask(mask);
        }
    }
}

/// The processors this process may use.
pub(crate) fn cpus() -> Vec<usize> {
    sys::mask().map(|mask| sys::members(&mask)).unwrap_or_default()
}

/// Pins this thread to a processor, where that can be done.
pub(crate) fn pin(cpu: usize) {
    if let Some(mask) = sys::only(cpu) {
        sys::set_mask(&mask);
    }
}

/// The processor this thread is on, where the system tells.
pub(crate) fn current_cpu() -> Option<usize> {
    sys::current_cpu()
}

/// How often this thread was preempted so far, where the system tells.
pub(crate) fn preemptions() -> i64 {
    sys::preemptions()
}

/// Pins this thread to the `index`-th processor of this process.
pub(crate) fn pin_nth(index: usize) {
    let cpus = cpus();
    if cpus.len() > 1 {
        pin(cpus[index % cpus.len()]);
    }
}

/// The affinity calls of Linux.
#[cfg(target_os = "linux")]
mod sys {
    /// A set of processors.
    pub(super) type Mask = libc::cpu_set_t;

    /// The processors of this thread.
    pub(super) fn mask() -> Option<Mask> {
        let mut mask = empty();
        // SAFETY: the pointer is to a live set of the size given; 0 names this thread.
        let error = unsafe { libc::sched_getaffinity(0, size_of::<Mask>(), &mut mask) };
        (error == 0).then_some(mask)
    }

    /// Moves this thread; a refusal leaves it where it is.
    pub(super) fn set_mask(mask: &Mask) {
        // SAFETY: the pointer is to a live set of the size given; 0 names this thread.
        unsafe { libc::sched_setaffinity(0, size_of::<Mask>(), mask) };
    }

    /// The set of one processor.
    pub(super) fn only(cpu: usize) -> Option<Mask> {
        let mut mask = empty();
        if cpu >= libc::CPU_SETSIZE as usize {
            return None;
        }
        // SAFETY: `cpu` is within the set.
        unsafe { libc::CPU_SET(cpu, &mut mask) };
        Some(mask)
    }

    /// The processors of a set.
    pub(super) fn members(mask: &Mask) -> Vec<usize> {
        // SAFETY: every index is within the set.
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, mask) }).collect()
    }

    /// The processor of this thread.
    pub(super) fn current_cpu() -> Option<usize> {
        // SAFETY: takes nothing.
        usize::try_from(unsafe { libc::sched_getcpu() }).ok()
    }

    /// Involuntary context switches of this thread.
    pub(super) fn preemptions() -> i64 {
        // SAFETY: the record is made of integers, for which zero is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a live record.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
        usage.ru_nivcsw
    }

    fn empty() -> Mask {
        // SAFETY: the set is an array of integers, for which zero is a value.
        unsafe { std::mem::zeroed() }
    }
}

/// Elsewhere threads stay where the system puts them.
#[cfg(not(target_os = "linux"))]
mod sys {
    /// Nothing is known.
    pub(super) struct Mask;

    /// Nothing is known.
    pub(super) fn mask() -> Option<Mask> {
        None
    }

    /// Nothing is done.
    pub(super) fn set_mask(_: &Mask) {}

    /// Nothing is known.
    pub(super) fn current_cpu() -> Option<usize> {
        None
    }

    /// Nothing is known.
    pub(super) fn preemptions() -> i64 {
        0
    }

    /// Nothing can be asked for.
    pub(super) fn only(_: usize) -> Option<Mask> {
        None
    }

    /// Nothing is known.
    pub(super) fn members(_: &Mask) -> Vec<usize> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_that_moved_is_told_apart() {
        assert_eq!(Placement::between(Some(30.0), Some(35.0)), Placement::Near);
        assert_eq!(Placement::between(Some(30.0), Some(170.0)), Placement::Moved);
        assert_eq!(Placement::between(None, None), Placement::Unknown);
    }
}
