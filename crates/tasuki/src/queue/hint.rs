//! A byte beside the state word that says whether a fast path should load the word first or try its compare-exchange at once.
//!
//! A primitive with an uncontended fast path keeps one byte of this type beside its queue. It only ever saves time; no result depends on it.
//!
//! On many processors a load of a word that a locked operation has just written waits until that operation has finished. So an
//! uncontended operation does not look first: it tries to exchange the constant that the word most likely is. Where others wait, or hold the
//! lock beside the caller, that try fails, and a failed locked operation is dearer than a look. The hint tells the two apart.
//! It is a byte that no locked operation writes, so it is read at no cost.
//!
//! | hint  | event                                  | becomes | fn |
//! |-------|----------------------------------------|---------|----|
//! | any   | the queue forms, or a try fails because others wait | set | [`Hint::look_first`] |
//! | set   | a look finds the word as it is when nothing is contended | clear | [`Hint::try_first`] |
//!
//! A channel counts its messages anyway, under its queue lock. Read without the lock ([`Gauge::says`]), the counts are hints that a receive or a send without a wait is in vain.
//!
//! It is not changed together with the word, so it may be wrong in both directions, and for any time: that costs a look, or a try that fails. Nothing
//! else may depend on it; the models run with every sequence of answers (`hints::shuffle`).
//!
//! # Orderings
//! All Relaxed: it publishes nothing.

use crate::shim::{self, AtomicGauge, AtomicHint, Ordering, const_fn};

/// Is it better to look before trying?
#[derive(Debug)]
pub(crate) struct Hint(AtomicHint);

impl Hint {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Self(AtomicHint::new(false))
        }
    }

    /// Is it better to look before trying?
    #[inline(always)]
    pub(crate) fn says_look(&self) -> bool {
        // Relaxed: a hint.
        shim::hint(|| self.0.load(Ordering::Relaxed))
    }

    /// A try is likely to fail from now on.
    #[inline(always)]
    pub(crate) fn look_first(&self) {
        // Relaxed: a hint.
        self.0.store(true, Ordering::Relaxed);
    }

    /// A try is likely to succeed from now on.
    #[inline(always)]
    pub(crate) fn try_first(&self) {
        // Relaxed: a hint.
        self.0.store(false, Ordering::Relaxed);
    }
}

/// A number that is changed under the queue lock only; without the lock it is a hint.
#[derive(Debug)]
pub(crate) struct Gauge(AtomicGauge);

impl Gauge {
    const_fn! {
        pub(crate) const fn new(number: u32) -> Self {
            Self(AtomicGauge::new(number))
        }
    }

    /// The number. Exact under the lock.
    #[inline(always)]
    pub(crate) fn get(&self) -> u32 {
        // Relaxed: written under the lock.
        self.0.load(Ordering::Relaxed)
    }

    /// Changes it; under the lock.
    #[inline(always)]
    pub(crate) fn set(&self, number: u32) {
        // Relaxed: as above.
        self.0.store(number, Ordering::Relaxed);
    }

    /// What the number, which may be outdated, says. The answer may be wrong.
    #[inline(always)]
    pub(crate) fn says(&self, question: impl FnOnce(u32) -> bool) -> bool {
        shim::hint(|| question(self.get()))
    }
}
