//! Tour stop: a barrier whose arrivals are cancelled now and then, which takes them back.

use super::tasks::NOTES;
use super::{Count, Guide, all, grouped, rate};
use crate::exec::let_other_threads_run;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use tasuki::Barrier;

/// How many meet.
const PARTIES: usize = 16;

/// What the parties share.
struct Meeting {
    barrier: Barrier,
    leaders: AtomicUsize,
    begun: AtomicUsize,
    early: AtomicUsize,
    cancelled: AtomicUsize,
}

/// Lets parties meet, with arrivals cancelled in between.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let phases = guide.pick(20_000, 500);
    let meeting = Arc::new(Meeting {
        barrier: Barrier::new(PARTIES),
        leaders: AtomicUsize::new(0),
        begun: AtomicUsize::new(0),
        early: AtomicUsize::new(0),
        cancelled: AtomicUsize::new(0),
    });
    let given = meeting.clone();
    let meet = async move {
        let parties: Vec<_> =
            (0..PARTIES).map(|me| tasuki_rt::spawn(attend(given.clone(), me, phases))).collect();
        let count = Count::start();
        (all(parties).await, count.stop())
    };
    let begun = || meeting.begun.load(Ordering::Relaxed);
    let progress = || format!("   {} arrivals of {}", begun(), phases * PARTIES);
    let (failed, (taken, allocated)) = guide.run(meet, progress)?;
    let number = |of: &AtomicUsize| of.load(Ordering::Relaxed);
    let cancelled = number(&meeting.cancelled);
    guide
        .check(failed == 0, format_args!("{PARTIES} parties on all workers met {} times", grouped(phases)))?;
    guide.check(
        number(&meeting.early) == 0 && cancelled > 0,
        format_args!("{} arrivals were cancelled, and no phase began early", grouped(cancelled)),
    )?;
    guide.check(number(&meeting.leaders) == phases, "one leader a phase")?;
    guide.check(allocated <= NOTES, "no allocation by any wait")?;
    guide.say(format_args!("       {}", rate(phases * PARTIES + cancelled, taken)));
    Ok(())
}

/// One party: arrives, thinks better of it, and arrives again.
async fn attend(meeting: Arc<Meeting>, me: usize, phases: usize) {
    for phase in 0..phases {
        if me == phase % PARTIES {
            // One does not hesitate, and comes when the others no longer do: a hasty arrival would complete the phase.
            while meeting.begun.load(Ordering::Relaxed) < (phase + 1) * PARTIES - 1 {
                let_other_threads_run();
                tasuki_rt::yield_now().await;
            }
        } else {
            let hasty = pin!(meeting.barrier.arrive_and_wait());
            let polled = hasty.poll(&mut Context::from_waker(Waker::noop()));
            meeting.early.fetch_add(usize::from(polled.is_ready()), Ordering::Relaxed);
            meeting.cancelled.fetch_add(1, Ordering::Relaxed);
        }
        // Relaxed: the barrier orders the arrivals of a phase before its end.
        meeting.begun.fetch_add(1, Ordering::Relaxed);
        let told = meeting.barrier.arrive_and_wait().await;
        let complete = meeting.begun.load(Ordering::Relaxed) >= (phase + 1) * PARTIES;
        meeting.early.fetch_add(usize::from(!complete), Ordering::Relaxed);
        meeting.leaders.fetch_add(usize::from(told.is_leader()), Ordering::Relaxed);
    }
}
