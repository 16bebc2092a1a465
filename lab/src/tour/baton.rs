//! Tour stop: a baton passed through all tasks, lap after lap: on one event loop in exactly the order in which they queued,
//! on all workers so that no task is passed over.

use super::tasks::NOTES;
use super::{Count, Guide, all, grouped, rate, resident, until};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;
use tasuki::{Mutex, MutexGuard};
use tasuki_rt::JoinHandle;

/// Laps of the race.
const LAPS: usize = 10;

/// What the runners share; the baton counts how often it was passed.
#[derive(Default)]
struct Track {
    baton: Mutex<usize>,
    runners: usize,
    /// The baton's count, for tasks that do not hold it.
    passed: AtomicUsize,
    waiting: AtomicUsize,
    out_of_turn: AtomicUsize,
    longest_wait: AtomicUsize,
}

/// What a race showed.
struct Race {
    waiting: usize,
    failed: usize,
    passed: Option<usize>,
    taken: Duration,
    allocated: u64,
    resident: String,
}

/// Lets them run, on one loop and everywhere.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let runners = guide.pick(100_000, 2_000);
    let track = new_track(runners);
    let given = track.clone();
    let start = move || race(given, |track, me| tasuki_rt::spawn_local(run(track, me)));
    let progress = || progress(&track);
    let on_loop = guide.run_on_loop(start, progress)?;
    on_loop.report(guide, &track, "one event loop")?;
    let strict = track.out_of_turn.load(Ordering::Relaxed) == 0;
    guide.check(strict, "each in turn, every lap: strict FIFO")?;

    let track = new_track(runners);
    let race = race(track.clone(), |track, me| tasuki_rt::spawn(run(track, me)));
    let everywhere = guide.run(race, || self::progress(&track))?;
    everywhere.report(guide, &track, "all workers")?;
    let longest = track.longest_wait.load(Ordering::Relaxed);
    guide.check(
        longest < runners,
        format_args!("no task let more than {} others pass: never one of them twice", grouped(longest)),
    )
}

fn new_track(runners: usize) -> Arc<Track> {
    Arc::new(Track { runners, ..Track::default() })
}

fn progress(track: &Track) -> String {
    let total = LAPS * track.runners;
    format!("   the baton was passed {} times of {total}", track.passed.load(Ordering::Relaxed))
}

/// Queues all runners behind a held lock, lets go, and waits for the last.
async fn race(track: Arc<Track>, spawn: impl Fn(Arc<Track>, usize) -> JoinHandle<()>) -> Race {
    let mut start = Some(track.baton.lock().await);
    let runners: Vec<_> = (0..track.runners).map(|me| spawn(track.clone(), me)).collect();
    // Acquire: pairs with Release in `take`.
    until(|| track.waiting.load(Ordering::Acquire) == track.runners).await;
    let (waiting, resident) = (track.waiting.load(Ordering::Relaxed), resident());
    let count = Count::start();
    start.take();
    let failed = all(runners).await;
    let (taken, allocated) = count.stop();
    let passed = track.baton.try_lock().map(|baton| *baton);
    Race { waiting, failed, passed, taken, allocated, resident }
}

impl Race {
    fn report(&self, guide: &Guide, track: &Track, place: &str) -> Result<(), String> {
        let (runners, total) = (track.runners, LAPS * track.runners);
        guide.check(
            self.waiting == runners,
            format_args!("{} tasks on {place} wait for one lock", grouped(runners)),
        )?;
        guide.say(format_args!("       {}", self.resident));
        guide.check(self.failed == 0, "every task finished: no wake-up was lost")?;
        guide
            .check(self.passed == Some(total), format_args!("{} hand-offs in {LAPS} laps", grouped(total)))?;
        guide.check(self.allocated <= NOTES, "no allocation by any wait")?;
        guide.say(format_args!("       {}", rate(total, self.taken)));
        Ok(())
    }
}

/// One runner: takes the baton once a lap, and notes whether it was its turn, and which runners came before it.
async fn run(track: Arc<Track>, me: usize) {
    let (mut out_of_turn, mut longest) = (0, 0);
    for lap in 0..LAPS {
        let (mut baton, queued_at) = take(&track, lap).await;
        out_of_turn += usize::from(*baton != lap * track.runners + me);
        longest = longest.max(queued_at.map_or(0, |at| *baton - at));
        *baton += 1;
        // Relaxed: the lock orders its writers, and readers take what they see.
        track.passed.store(*baton, Ordering::Relaxed);
    }
    track.out_of_turn.fetch_add(out_of_turn, Ordering::Relaxed);
    track.longest_wait.fetch_max(longest, Ordering::Relaxed);
}

/// Waits for the baton; how often it had been passed right after the wait was queued, if it was.
async fn take(track: &Track, lap: usize) -> (MutexGuard<'_, usize>, Option<usize>) {
    let mut lock = pin!(track.baton.lock());
    let mut queued_at = None;
    poll_fn(|cx| match lock.as_mut().poll(cx) {
        Poll::Ready(baton) => Poll::Ready((baton, queued_at)),
        Poll::Pending => {
            if queued_at.is_none() {
                queued_at = Some(track.passed.load(Ordering::Relaxed));
                // Release: pairs with Acquire in `race` - the wait is queued.
                track.waiting.fetch_add(usize::from(lap == 0), Ordering::Release);
            }
            Poll::Pending
        }
    })
    .await
}
