//! Random numbers from a seed that is printed when the test fails.

use std::time::{SystemTime, UNIX_EPOCH};

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    state: u64,
}

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True so many times in a thousand.
    pub(crate) fn per_mille(&mut self, chance: u32) -> bool {
        self.below(1000) < chance as usize
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// The seed of a test: `TASUKI_SEED`, or the clock (a constant under Miri, which has seeds of its own).
/// If the test panics, it says with which seed.
#[derive(Debug)]
pub(crate) struct Seed(pub(crate) u64);

impl Seed {
    pub(crate) fn pick() -> Self {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
        Self(super::env_or("TASUKI_SEED", if cfg!(miri) { 1 } else { now() }))
    }

    pub(crate) fn rng(&self) -> Rng {
        Rng::new(self.0)
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with TASUKI_SEED={}", self.0);
        }
    }
}
