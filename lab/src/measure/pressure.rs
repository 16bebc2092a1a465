//! Whether the threads of a sample had a processor when they wanted one.
//!
//! A sample of two threads lasts about as long as the slice that a scheduler gives: when another process takes one of the two
//! processors for a slice, the tasks of the other go on alone, and the least-served task shows the neighbour, not the lock.

use crate::placement::process_preemptions;
use std::fs;
use std::time::{Duration, Instant};

/// A sample is disturbed when its threads waited for a processor for more than this part of it.
const SHARE: u128 = 50;

/// What the threads of this process had suffered at one moment.
pub(super) struct Pressure {
    at: Instant,
    preemptions: i64,
    waited: Duration,
}

impl Pressure {
    /// What they have suffered so far.
    pub(super) fn now() -> Pressure {
        Pressure { at: Instant::now(), preemptions: process_preemptions(), waited: waited() }
    }

    /// Did others take a processor away since then? Waiting alone does not say so: whoever sleeps also waits for a moment
    /// when it is woken. Nor does a preemption: this thread may take a processor from its workers, briefly.
    pub(super) fn is_felt(&self) -> bool {
        self.is_felt_at(&Pressure::now())
    }

    fn is_felt_at(&self, now: &Pressure) -> bool {
        let waited = now.waited.saturating_sub(self.waited).as_nanos();
        now.preemptions > self.preemptions && waited * SHARE > now.at.duration_since(self.at).as_nanos()
    }
}

/// How long the threads of this process, but for this one, have waited for a processor; nothing where the system does not
/// tell.
fn waited() -> Duration {
    let this = fs::read_link("/proc/thread-self").unwrap_or_default();
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let others = threads.filter(|thread| Some(thread.file_name().as_os_str()) != this.file_name());
    let waits = others.filter_map(|thread| {
        let times = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        times.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    Duration::from_nanos(waits.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_felt_and_a_moment_is_not() {
        let at = Instant::now();
        let ms = Duration::from_millis;
        let before = Pressure { at, preemptions: 3, waited: ms(7) };
        let after = |preemptions, waited| Pressure { at: at + ms(25), preemptions, waited };
        assert!(before.is_felt_at(&after(4, ms(11))));
        assert!(!before.is_felt_at(&after(3, ms(11))), "it slept and was woken often");
        assert!(
            !before.is_felt_at(&after(4, ms(7) + Duration::from_micros(100))),
            "it was pushed aside briefly"
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_crowd_on_one_processor_is_felt() {
        let before = Pressure::now();
        let crowd = std::thread::spawn(move || {
            crate::placement::pin_nth(0);
            let busy = || {
                let end = Instant::now() + Duration::from_millis(100);
                while Instant::now() < end {}
            };
            // They inherit the one processor. Looked at while they live: the system forgets those who ended.
            std::thread::scope(|scope| {
                let crowd: Vec<_> = (0..3).map(|_| scope.spawn(busy)).collect();
                std::thread::sleep(Duration::from_millis(60));
                let felt = before.is_felt();
                crowd.into_iter().for_each(|thread| thread.join().expect("it only looks at the clock"));
                felt
            })
        });
        assert!(crowd.join().expect("nobody panics"));
    }
}
