//! A byte beside the state word that says whether a fast path should load the word first or try its compare-exchange at once.
//!
//! A primitive with an uncontended fast path keeps one byte of this type beside its queue. The byte only saves time; no result depends on it.
//!
//! On many processors a load of a word that a locked operation has just written waits until that operation has finished. So an
//! uncontended operation does not load the word first: it tries to exchange the constant that the word most likely is. Where waiters are queued, or others hold the
//! lock beside the caller, that exchange fails, and a failed locked operation costs more than a load. The hint tells the two cases apart.
//! No locked operation writes the byte, so reading it waits for nothing (decision 12).
//!
//! | hint  | event                                  | becomes | fn |
//! |-------|----------------------------------------|---------|----|
//! | any   | the queue forms, or an exchange fails because others wait | set | [`Hint::look_first`] |
//! | set   | a look finds the word as it is when nothing is contended | clear | [`Hint::try_first`] |
//!
//! The hint is not changed together with the word. So it may be wrong in both directions, and for any time; a wrong hint costs a load, or an exchange that fails. Nothing
//! else may depend on it: the models run with every sequence of four answers, given over and over (`hints::shuffle`).
//!
//! A [`Gauge`] is a hint that is a number. A channel counts its messages under its queue lock; read without the lock ([`Gauge::says`]), the counts say that a send or a receive would have to wait.
//!
//! # Orderings
//! All Relaxed: hints publish nothing.

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
