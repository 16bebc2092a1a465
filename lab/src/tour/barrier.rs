//! A barrier whose parties come and go: an arrival that is cancelled is withdrawn.

use super::{Guide, counted, grouped, rate};
use crate::exec::Executor;
use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use tasuki::Barrier;

/// How many meet.
const PARTIES: usize = 16;

/// What the parties share.
struct Meeting {
    barrier: Barrier,
    leaders: Cell<usize>,
    begun: Cell<usize>,
    early: Cell<usize>,
}

/// Lets parties meet, with arrivals cancelled in between.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let phases = guide.pick(20_000, 500);
    let meeting = Rc::new(Meeting {
        barrier: Barrier::new(PARTIES),
        leaders: Cell::new(0),
        begun: Cell::new(0),
        early: Cell::new(0),
    });
    let mut exec = Executor::new(PARTIES);
    for _ in 0..PARTIES {
        exec.spawn(attend(meeting.clone(), phases));
    }
    let (left, taken, allocated) = counted(|| exec.run_until_stalled());
    let (arrivals, cancelled) = (phases * PARTIES, phases * (PARTIES - 1));
    guide.check(left == 0, format_args!("{PARTIES} parties met {} times", grouped(phases)))?;
    guide.check(
        meeting.early.get() == 0,
        format_args!("{} arrivals were cancelled, and no phase began early", grouped(cancelled)),
    )?;
    guide.check(meeting.leaders.get() == phases, "one leader a phase")?;
    guide.check(allocated == 0, "no allocation by any wait")?;
    guide.say(format_args!("       {}", rate(arrivals + cancelled, taken)));
    Ok(())
}

/// One party: arrives, thinks better of it, and arrives again.
async fn attend(meeting: Rc<Meeting>, phases: usize) {
    for phase in 0..phases {
        // The last to arrive would complete the phase: it does not hesitate.
        if meeting.begun.get() % PARTIES < PARTIES - 1 {
            let hasty = pin!(meeting.barrier.arrive_and_wait());
            let polled = hasty.poll(&mut Context::from_waker(Waker::noop()));
            meeting.early.set(meeting.early.get() + usize::from(polled.is_ready()));
        }
        meeting.begun.set(meeting.begun.get() + 1);
        let told = meeting.barrier.arrive_and_wait().await;
        let complete = meeting.begun.get() >= (phase + 1) * PARTIES;
        meeting.early.set(meeting.early.get() + usize::from(!complete));
        meeting.leaders.set(meeting.leaders.get() + usize::from(told.is_leader()));
    }
}
