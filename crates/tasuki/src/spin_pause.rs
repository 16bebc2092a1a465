//! Measures how long the spin hint of the processor takes, so that the length of a spin can be given in nanoseconds.
//!
//! A thread that expects what it waits for soon does not sleep: it looks at a word again and again, with pauses between the looks. The spin of a mutex (`mutex/raw/watch.rs`) and the wait for a locked queue (`queue/mod.rs`) ask
//! here how many pauses make a number of nanoseconds.
//!
//! The spin hint of a processor lasts 5 ns on one and 45 on another. With `std` it is measured once, by the first caller that spins: some
//! microseconds, for the process. Without a clock it is taken to be long, so that spins are short.

/// What 64 pauses take where nothing can be measured, in nanoseconds.
const UNKNOWN: u32 = 64 * 50;

#[cfg(not(feature = "std"))]
fn nanoseconds_of_64() -> u32 {
    UNKNOWN
}

#[cfg(feature = "std")]
fn nanoseconds_of_64() -> u32 {
    use core::sync::atomic::{AtomicU32, Ordering};

    /// 0: not measured yet.
    static NANOSECONDS: AtomicU32 = AtomicU32::new(0);
    // Relaxed: a number, which any thread may measure again.
    match NANOSECONDS.load(Ordering::Relaxed) {
        0 => {
            let measured = measure();
            // Relaxed: as above.
            NANOSECONDS.store(measured, Ordering::Relaxed);
            measured
        }
        known => known,
    }
}

/// The shortest of a few: a thread that is interrupted in the middle would measure the interruption.
#[cfg(feature = "std")]
#[cold]
fn measure() -> u32 {
    if !crate::host_executor::HAS_CLOCK {
        return UNKNOWN;
    }
    let once = || {
        let begin = std::time::Instant::now();
        for _ in 0..32 {
            core::hint::spin_loop();
        }
        2 * begin.elapsed().as_nanos()
    };
    let shortest = (0..4).map(|_| once()).min().unwrap_or(0);
    // A clock that stands still, or jumps, must not make a spin endless or useless: 1 to 200 ns a pause.
    u32::try_from(shortest).unwrap_or(u32::MAX).clamp(64, 64 * 200)
}

/// How many pauses take so many nanoseconds, at least one.
pub(crate) fn pauses(nanoseconds: u32) -> u32 {
    (nanoseconds.saturating_mul(64) / nanoseconds_of_64()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the clock says, a spin ends and is not nothing.
    #[test]
    fn a_spin_has_a_length() {
        assert!((1..=1_000).contains(&pauses(1_000)));
        assert!(pauses(50_000) <= 50_000 && pauses(50_000) >= pauses(250));
        assert_eq!(pauses(0), 1);
    }
}
