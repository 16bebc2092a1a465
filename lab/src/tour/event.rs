//! Tour stop: events that release one waiter for each signal, or all at once.

use super::tasks::NOTES;
use super::{Count, Guide, all, grouped, note_wait, rate, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tasuki::Event;

/// How long waiters that must not be released are watched.
const A_WHILE: Duration = Duration::from_millis(20);

/// What the waiters share.
struct Hall {
    event: Event,
    waiting: AtomicUsize,
    through: AtomicUsize,
}

impl Hall {
    fn new(event: Event) -> Arc<Self> {
        Arc::new(Hall { event, waiting: AtomicUsize::new(0), through: AtomicUsize::new(0) })
    }

    /// Waits so many times.
    async fn wait(self: Arc<Self>, times: usize) {
        for _ in 0..times {
            note_wait(self.event.wait(), &self.waiting).await;
            self.through.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn waiting(&self) -> usize {
        // Acquire: pairs with Release in `note_wait`.
        self.waiting.load(Ordering::Acquire)
    }

    fn through(&self) -> usize {
        self.through.load(Ordering::Relaxed)
    }
}

/// Signals an auto and a manual event, and counts the waiters that were released.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let waiters = guide.pick(100_000, 2_000);
    auto(guide, waiters)?;
    manual(guide, waiters)
}

fn auto(guide: &Guide, waiters: usize) -> Result<(), String> {
    let hall = Hall::new(Event::auto());
    let given = hall.clone();
    let work = async move {
        let tasks: Vec<_> = (0..waiters).map(|_| tasuki_rt::spawn(given.clone().wait(1))).collect();
        until(|| given.waiting() == waiters).await;
        (0..waiters / 2).for_each(|_| given.event.set());
        until(|| given.through() >= waiters / 2).await;
        tasuki_rt::sleep(A_WHILE).await;
        let through = given.through();
        tasks.iter().for_each(tasuki_rt::JoinHandle::abort);
        (through, all(tasks).await)
    };
    let (through, aborted) = guide.run(work, || format!("   {} came through", hall.through()))?;
    guide.check(
        through == waiters / 2,
        format_args!("auto: {} signals release as many waiters", grouped(waiters / 2)),
    )?;
    guide.check(aborted == waiters - waiters / 2, "auto: the others wait until they are aborted")?;
    let event = &hall.event;
    event.set();
    event.set();
    let kept = event.is_set();
    event.wait().block();
    guide.check(kept && !event.is_set(), "auto: a signal without a waiter is kept, two are one")
}

fn manual(guide: &Guide, waiters: usize) -> Result<(), String> {
    let hall = Hall::new(Event::manual());
    let given = hall.clone();
    let progress = || format!("   {} came through", hall.through());
    // On one loop no task can come back between `set` and `reset`.
    let (once, failed, (taken, allocated)) =
        guide.run_on_loop(move || set_twice(given, waiters), progress)?;
    guide.check(
        once == waiters,
        format_args!("manual: one `set` releases the {} who wait, and none of them twice", grouped(waiters)),
    )?;
    guide
        .check(failed == 0 && hall.through() == 2 * waiters, "manual: a second `set` releases them again")?;
    guide.check(allocated <= NOTES, "no allocation by any wait")?;
    guide.say(format_args!("       {}", rate(waiters, taken)));
    Ok(())
}

/// How many came through at the first signal, how many failed in the end, and what the first signal took.
async fn set_twice(hall: Arc<Hall>, waiters: usize) -> (usize, usize, (Duration, u64)) {
    let tasks: Vec<_> = (0..waiters).map(|_| tasuki_rt::spawn_local(hall.clone().wait(2))).collect();
    until(|| hall.waiting() == waiters).await;
    let count = Count::start();
    hall.event.set();
    hall.event.reset();
    while hall.waiting() < 2 * waiters {
        tasuki_rt::yield_now().await;
    }
    let count = count.stop();
    let once = hall.through();
    hall.event.set();
    (once, all(tasks).await, count)
}
