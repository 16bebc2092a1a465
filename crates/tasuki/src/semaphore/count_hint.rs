//! A hint of the count, beside the word: an acquisition need not look at the word before it tries to change it.
//!
//! A load of a word that a locked operation has just written waits for that operation on many processors (decision 12). The word of a mutex most likely is a constant. That of
//! a semaphore is a count, and no constant stands for it; but where one task at a time takes a permit and gives it back, every acquisition finds the same count, and every release finds that count less
//! what was taken. So that count is kept here, in two bytes that no locked operation writes.
//!
//! | stored       | event                                    | becomes      | fn |
//! |--------------|------------------------------------------|--------------|----|
//! | (new)        | the semaphore is made                    | trusted, its first count; none above [`MOST`] | [`CountHint::new`] |
//! | anything     | an acquisition or a release does not succeed with its first exchange | none | [`CountHint::miss`] |
//! | none, another candidate, or trusted meanwhile | an acquisition that looked succeeds | its count, a candidate; none above [`MOST`] | [`CountHint::learn`] |
//! | candidate    | the next one that looked finds the same  | trusted      | [`CountHint::learn`] |
//!
//! Two that agree are asked for, so that a semaphore with several holders, whose count is another each time, looks, and does not try in vain. A count above [`MOST`] is never stored.
//!
//! The hint is compared by the exchange and decides nothing else, so it may be wrong at any time; the models run with every sequence of four answers whether to use it, given over and over (`hints::shuffle`).
//!
//! # Orderings
//! All Relaxed: it publishes nothing.

use crate::queue::word::Word;
use crate::shim::{self, AtomicCountHint, Ordering, const_fn};

/// Use it without a look.
const TRUSTED: u16 = 1 << 15;
/// Nothing is known.
const NONE: u16 = TRUSTED - 1;
/// The greatest count that is stored.
const MOST: usize = NONE as usize - 1;

/// What is free before an acquisition, most likely.
#[derive(Debug)]
pub(super) struct CountHint(AtomicCountHint);

const fn candidate(count: usize) -> u16 {
    if count <= MOST { count as u16 } else { NONE }
}

impl CountHint {
    const_fn! {
        /// Of a semaphore that begins with this count.
        pub(super) const fn new(count: usize) -> Self {
            let first = candidate(count);
            Self(AtomicCountHint::new(if first == NONE { NONE } else { first | TRUSTED }))
        }
    }

    /// The word to try without a look; `None`: look.
    #[inline(always)]
    pub(super) fn get(&self) -> Option<Word> {
        // Relaxed: a hint.
        let stored = self.0.load(Ordering::Relaxed);
        if shim::hint(|| stored < TRUSTED) {
            return None;
        }
        // `NONE` only in a model, as a count like any other.
        Some(Word::counted((stored & !TRUSTED) as usize))
    }

    /// The word while so many are taken, to be tried without a look; `None`: look.
    #[inline(always)]
    pub(super) fn after(&self, taken: usize) -> Option<Word> {
        self.get()?.try_minus(taken)
    }

    /// A try failed: from now on, look.
    #[inline(always)]
    pub(super) fn miss(&self) {
        // Relaxed twice: a hint. Not stored again and again where tasks wait.
        if self.0.load(Ordering::Relaxed) != NONE {
            self.0.store(NONE, Ordering::Relaxed);
        }
    }

    /// An acquisition looked, found this count, and succeeded.
    #[inline(always)]
    pub(super) fn learn(&self, count: usize) {
        let found = candidate(count);
        // Relaxed twice: a hint.
        let again = found != NONE && self.0.load(Ordering::Relaxed) == found;
        self.0.store(if again { found | TRUSTED } else { found }, Ordering::Relaxed);
    }
}
