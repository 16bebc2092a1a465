//! The samples: one thread looks at the program, keeps the history, and writes the text that all clients are sent.
//!
//! It looks twice a second while a client reads the events, every two seconds otherwise, so that there is a history when the page is opened; and mostly for less than a tenth of the
//! time: after a look that took long, as among very many tasks in a debug build, it sleeps for nine times as long, up to three seconds.

use crate::dumps::Dumps;
use crate::history::History;
use crate::json::Json;
use crate::sample::{Sample, Sources};
use crate::snapshot_json::{self, Program};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time from a look to the next while a client watches.
const WATCHED: Duration = Duration::from_millis(500);
/// The same while none does.
const UNWATCHED: Duration = Duration::from_secs(2);
/// So many times as long as a look takes there is none.
const REST: u32 = 9;
/// But no rest is longer than this.
const LONGEST_REST: Duration = Duration::from_secs(3);
/// After a look that took so long there is none for this time.
pub(crate) fn rest(took: Duration) -> Duration {
    (took * REST).min(LONGEST_REST)
}

/// So many waits and tasks are in a dump.
const DUMPED: usize = 10_000;

/// The last sample, and what waits for the next.
#[derive(Debug)]
pub(crate) struct Samples {
    state: Mutex<State>,
    /// There is a new sample, a client that watches, or the end.
    changed: Condvar,
    sources: Sources,
    dumps: Dumps,
}

#[derive(Debug)]
struct State {
    /// Counts the samples, from 1.
    number: u64,
    text: Arc<str>,
    watchers: usize,
    has_ended: bool,
}

/// A client that watches, until it is dropped.
pub(crate) struct WatchingClient<'a>(&'a Samples);

impl Drop for WatchingClient<'_> {
    fn drop(&mut self) {
        self.0.state().watchers -= 1;
    }
}

impl Samples {
    /// With the first sample, which is taken here.
    pub(crate) fn new(sources: Sources) -> (Arc<Self>, Sampler) {
        let mut sampler = Sampler::new();
        let text = sampler.look(&sources);
        let state = State { number: 1, text, watchers: 0, has_ended: false };
        let (state, changed, dumps) = (Mutex::new(state), Condvar::new(), Dumps::default());
        (Arc::new(Self { state, changed, sources, dumps }), sampler)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last sample, and its number.
    pub(crate) fn latest(&self) -> (u64, Arc<str>) {
        let state = self.state();
        (state.number, state.text.clone())
    }

    /// Waits for a sample with a greater number; `None` at the end.
    pub(crate) fn next_after(&self, seen: u64) -> Option<(u64, Arc<str>)> {
        let wait = |state: &mut State| state.number <= seen && !state.has_ended;
        let state = self.changed.wait_while(self.state(), wait).unwrap_or_else(PoisonError::into_inner);
        (!state.has_ended).then(|| (state.number, state.text.clone()))
    }

    /// From now on there are more samples.
    pub(crate) fn watch(&self) -> WatchingClient<'_> {
        self.state().watchers += 1;
        // The next look may be due earlier now.
        self.changed.notify_all();
        WatchingClient(self)
    }

    /// As text, of now or of a moment ago.
    pub(crate) fn dump(&self) -> Arc<str> {
        self.dump_with(|| self.sources.text(DUMPED))
    }

    /// The same by another look.
    pub(crate) fn dump_with(&self, look: impl FnOnce() -> String) -> Arc<str> {
        self.dumps.text(Instant::now, look)
    }

    pub(crate) fn have_ended(&self) -> bool {
        self.state().has_ended
    }

    pub(crate) fn end(&self) {
        self.state().has_ended = true;
        self.changed.notify_all();
    }

    /// The life of the thread that samples.
    pub(crate) fn run(&self, mut sampler: Sampler) {
        let mut took = Duration::ZERO;
        loop {
            if self.sleep(took) {
                return;
            }
            let start = Instant::now();
            let text = sampler.look(&self.sources);
            took = start.elapsed();
            let mut state = self.state();
            state.number += 1;
            state.text = text;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Sleeps until the next look is due; true at the end.
    fn sleep(&self, took: Duration) -> bool {
        let start = Instant::now();
        let mut state = self.state();
        loop {
            let period = if state.watchers > 0 { WATCHED } else { UNWATCHED };
            let left = period.max(rest(took)).saturating_sub(start.elapsed());
            if state.has_ended || left.is_zero() {
                return state.has_ended;
            }
            let waited = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
        }
    }
}

/// What only the thread that samples has.
#[derive(Debug)]
pub(crate) struct Sampler {
    program: Program,
    start: Instant,
    last: Instant,
    history: History,
    #[cfg(feature = "rt")]
    polls: crate::sample::runtime::PollStarts,
}

impl Sampler {
    fn new() -> Self {
        let file = std::env::current_exe().ok();
        let name =
            file.as_deref().and_then(|file| file.file_name()).map(|name| name.to_string_lossy().into_owned());
        let program =
            Program { name: name.unwrap_or_else(|| "program".to_owned()), process: std::process::id() };
        let now = Instant::now();
        Self {
            program,
            start: now,
            last: now,
            history: History::default(),
            #[cfg(feature = "rt")]
            polls: crate::sample::runtime::PollStarts::default(),
        }
    }

    fn look(&mut self, sources: &Sources) -> Arc<str> {
        let sample = sources.look();
        let now = Instant::now();
        self.history.add(&sample, now.duration_since(self.start), now.duration_since(self.last));
        self.last = now;
        #[cfg(feature = "rt")]
        self.polls.add(&sample.runtimes, now);
        let uptime = now.duration_since(self.start);
        snapshot_json::write(&self.program, &sample, &self.history, uptime, |json| {
            self.write_runtimes(json, &sample, now)
        })
        .into()
    }

    #[cfg(feature = "rt")]
    fn write_runtimes(&self, json: &mut Json, sample: &Sample, now: Instant) {
        json.key("runtimes").array(&sample.runtimes, |json, runtime| {
            json.object(|json| {
                crate::sample::runtime::write_workers(json, runtime);
                crate::sample::runtime::write_tasks(json, runtime, &self.polls, now);
            });
        });
    }

    #[cfg(not(feature = "rt"))]
    fn write_runtimes(&self, json: &mut Json, _: &Sample, _: Instant) {
        json.key("runtimes").array([0_u8; 0], |json, item| json.number(item));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that opened the stream of events and went away, in a loop, made a look each time.
    #[test]
    fn clients_that_come_and_go_make_no_looks() {
        let (samples, sampler) = Samples::new(Sources::default());
        std::thread::scope(|scope| {
            scope.spawn(|| samples.run(sampler));
            let (start, before) = (Instant::now(), samples.latest().0);
            for _ in 0..50 {
                drop(samples.watch());
                std::thread::sleep(Duration::from_millis(2));
            }
            let looks = samples.latest().0 - before;
            samples.end();
            let most = start.elapsed().as_millis() / WATCHED.as_millis() + 1;
            assert!(u128::from(looks) <= most, "{looks} looks");
        });
    }
}
