//! Makes the text of `/dump.txt`: one dump at a time, shared by the clients that ask while it is made or within a few seconds.
//!
//! A dump is a look at the program itself, of up to 10,000 waits and tasks. A client that asks while one is made waits for it and gets the same, and so does one that asks within nine times the time that it took, three seconds at
//! most. So however many ask, and however often, the program is looked at for at most a tenth of the time if a look takes up to a third of a second, and otherwise once in three seconds and the length of a look, as by the samples.

use crate::sampler::rest;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The last dump.
#[derive(Debug, Default)]
pub(crate) struct Dumps(Mutex<Option<LastDump>>);

#[derive(Debug)]
struct LastDump {
    text: Arc<str>,
    took: Duration,
    made: Instant,
}

impl Dumps {
    /// The last one if it is young; else what `look` says.
    pub(crate) fn text(&self, now: impl Fn() -> Instant, look: impl FnOnce() -> String) -> Arc<str> {
        // Held while it is looked: the next client waits for this look instead of making its own.
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = now();
        let is_young = |dump: &&LastDump| start.saturating_duration_since(dump.made) < rest(dump.took);
        if let Some(dump) = last.as_ref().filter(is_young) {
            return dump.text.clone();
        }
        let text: Arc<str> = look().into();
        let made = now();
        *last = Some(LastDump { text: text.clone(), took: made.saturating_duration_since(start), made });
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A clock that a test moves, and a look that takes so many milliseconds of it.
    struct Stage {
        dumps: Dumps,
        start: Instant,
        millis: AtomicU64,
        looks: AtomicU64,
    }

    impl Stage {
        fn new() -> Self {
            let (millis, looks) = (AtomicU64::new(0), AtomicU64::new(0));
            Self { dumps: Dumps::default(), start: Instant::now(), millis, looks }
        }

        fn ask(&self, takes: u64) -> Arc<str> {
            let now = || self.start + Duration::from_millis(self.millis.load(Ordering::Relaxed));
            self.dumps.text(now, || {
                self.millis.fetch_add(takes, Ordering::Relaxed);
                format!("{}", self.looks.fetch_add(1, Ordering::Relaxed) + 1)
            })
        }

        fn passes(&self, millis: u64) {
            self.millis.fetch_add(millis, Ordering::Relaxed);
        }
    }

    /// Each client in a loop made a look of its own, for all of the time.
    #[test]
    fn a_loop_of_questions_makes_few_looks() {
        let stage = Stage::new();
        assert_eq!(&*stage.ask(10), "1");
        for _ in 0..90 {
            assert_eq!(&*stage.ask(10), "1");
            stage.passes(1);
        }
        assert_eq!(&*stage.ask(2_000), "2");
        stage.passes(2_999);
        assert_eq!(&*stage.ask(0), "2");
        stage.passes(1);
        assert_eq!(&*stage.ask(0), "3", "none is older than three seconds");
    }

    #[test]
    fn clients_that_ask_together_share_one_look() {
        let stage = Stage::new();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(&*stage.ask(10), "1"));
            }
        });
        assert_eq!(stage.looks.load(Ordering::Relaxed), 1);
    }

    /// A look that panics ends its own connection only.
    #[test]
    fn a_look_that_panics_is_made_again() {
        let stage = Stage::new();
        let panics = || stage.dumps.text(Instant::now, || panic!("on purpose"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert_eq!(&*stage.ask(0), "1");
    }
}
