//! Events: one waiter for one signal, or everybody at once.

use super::{Guide, counted, grouped, rate};
use crate::exec::Executor;
use std::cell::Cell;
use std::rc::Rc;
use tasuki::Event;

/// Signals an auto and a manual event, and counts who came through.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let waiters = guide.pick(100_000, 2_000);
    auto(guide, waiters)?;
    manual(guide, waiters)
}

fn auto(guide: &Guide, waiters: usize) -> Result<(), String> {
    let (event, through) = (Rc::new(Event::auto()), Rc::new(Cell::new(0)));
    let mut exec = Executor::new(waiters);
    for _ in 0..waiters {
        let (event, through) = (event.clone(), through.clone());
        exec.spawn(async move {
            event.wait().await;
            through.set(through.get() + 1);
        });
    }
    exec.run_until_stalled();
    (0..waiters / 2).for_each(|_| event.set());
    let left = exec.run_until_stalled();
    let half = through.get() == waiters / 2 && left == waiters - waiters / 2;
    guide.check(half, format_args!("auto: {} signals release as many waiters", grouped(waiters / 2)))?;
    drop(exec);
    event.set();
    event.set();
    let kept = event.is_set();
    event.wait().block();
    guide.check(kept && !event.is_set(), "auto: a signal nobody waits for is kept, two are one")
}

fn manual(guide: &Guide, waiters: usize) -> Result<(), String> {
    let (event, rounds) = (Rc::new(Event::manual()), Rc::new(Cell::new(0)));
    let mut exec = Executor::new(waiters);
    for _ in 0..waiters {
        let (event, rounds) = (event.clone(), rounds.clone());
        exec.spawn(async move {
            for _ in 0..2 {
                event.wait().await;
                rounds.set(rounds.get() + 1);
            }
        });
    }
    exec.run_until_stalled();
    event.set();
    event.reset();
    let (left, taken, allocated) = counted(|| exec.run_until_stalled());
    guide.check(
        left == waiters && rounds.get() == waiters,
        format_args!("manual: one `set` releases the {} who wait, and none of them twice", grouped(waiters)),
    )?;
    event.set();
    guide.check(exec.run_until_stalled() == 0, "manual: a second `set` releases them again")?;
    guide.check(allocated == 0, "no allocation by any wait")?;
    guide.say(format_args!("       {}", rate(waiters, taken)));
    Ok(())
}
