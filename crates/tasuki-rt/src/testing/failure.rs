//! Why a run has failed, and what tells its failure from another one: a schedule that is made smaller must not end in another bug.
//!
//! Two failures are the same if they are of one kind, have the same message but for its numbers, and come from the same places: those of the panics of the run, or those where the tasks of
//! a deadlock wait for each other. The smaller schedule may have fewer of them, as where a second task has panicked too, and none that the first run did not have.

use crate::error::panic_message;
use crate::task::PanicPayload;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::mem;
use std::panic::resume_unwind;
use std::sync::Once;

/// Places in the source, as they are printed: the hook of panics has none that it may keep.
pub(super) type SourcePlaces = BTreeSet<String>;

/// Why a simulation failed.
pub(super) enum Failure {
    /// The test, a task, or a posted closure panicked.
    Panic(PanicPayload),
    /// The test was aborted.
    NoResult(String),
    /// No task can run, and none will be woken.
    Deadlock {
        report: String,
        /// Where the tasks wait that wait for each other; empty if none do, or if that is not noted.
        cycles: SourcePlaces,
    },
    /// The run has not ended after so many polls.
    TooLong(u64),
}

impl Failure {
    /// What is the same when another schedule fails in the same way. `panics`: where the run has panicked.
    pub(super) fn mark(&self, panics: SourcePlaces) -> FailureMark {
        let (kind, message, places) = match self {
            Self::Panic(payload) => (0, panic_message(&**payload).map(without_numbers), panics),
            Self::NoResult(_) => (1, None, panics),
            Self::Deadlock { cycles, .. } => (2, None, cycles.clone()),
            Self::TooLong(_) => (3, None, SourcePlaces::new()),
        };
        FailureMark { kind, message, places }
    }

    #[track_caller]
    pub(super) fn raise(self) -> ! {
        match self {
            Self::Panic(payload) => resume_unwind(payload),
            Self::NoResult(text) | Self::Deadlock { report: text, .. } => panic!("{text}"),
            Self::TooLong(polls) => panic!("the test has not ended after {polls} polls"),
        }
    }
}

/// Tells a failure from another one.
#[derive(Debug)]
pub(super) struct FailureMark {
    kind: u8,
    message: Option<String>,
    places: SourcePlaces,
}

impl FailureMark {
    /// The same, wherever it comes from.
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.message == other.message
    }

    /// The same, and it comes from nowhere else than that one.
    pub(super) fn repeats(&self, first: &Self) -> bool {
        self.says_the_same(first)
            && self.places.is_subset(&first.places)
            && self.places.is_empty() == first.places.is_empty()
    }
}

/// A message without its numbers: the identity of a task, as in a `JoinError`, is another one in each run, and so is an address.
fn without_numbers(message: &str) -> String {
    let is_number = |word: &str| word.starts_with(|first: char| first.is_ascii_digit());
    let words = message.split_inclusive(|end: char| !end.is_ascii_alphanumeric());
    words.filter(|word| !is_number(word)).collect()
}

thread_local! {
    /// Panics on this thread are expected, and not printed.
    static QUIET: Cell<bool> = const { Cell::new(false) };
    /// Where it has panicked without a word.
    static PANICS: RefCell<SourcePlaces> = const { RefCell::new(SourcePlaces::new()) };
}

/// Runs `f` without a word about its panics. The hook that is replaced for that, once and only after a failure, is asked for all others.
pub(super) fn contain_panic<R>(f: impl FnOnce() -> R) -> R {
    static HOOK: Once = Once::new();
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            let _ = QUIET.try_with(|quiet| quiet.set(false));
        }
    }
    HOOK.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.try_with(Cell::get).unwrap_or(false) {
                return hook(panic);
            }
            if let Some(place) = panic.location() {
                let _ = PANICS.try_with(|panics| panics.borrow_mut().insert(place.to_string()));
            }
        }));
    });
    let _ = QUIET.try_with(|quiet| quiet.set(true));
    let _loud = Loud;
    f()
}

/// Where this thread has panicked inside of [`contain_panic`] since the last question.
pub(super) fn take_panics() -> SourcePlaces {
    PANICS.try_with(|panics| mem::take(&mut *panics.borrow_mut())).unwrap_or_default()
}
