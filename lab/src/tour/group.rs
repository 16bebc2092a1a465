//! A wait group used again and again, and a latch.

use super::{Guide, counted, grouped, rate};
use crate::exec::{Executor, yield_now};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use tasuki::{Latch, WaitGroup};

/// Times the group is used.
const CYCLES: usize = 10;

/// Waits for the members of one group, cycle after cycle.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let members = guide.pick(10_000, 500);
    let (group, working) = (Arc::new(WaitGroup::new()), Rc::new(Cell::new(0)));
    let mut early = 0;
    let (mut allocated, mut taken) = (0, std::time::Duration::ZERO);
    for _ in 0..CYCLES {
        let mut exec = Executor::new(members + 1);
        for _ in 0..members {
            let (member, working) = (group.clone().member_owned(), working.clone());
            working.set(working.get() + 1);
            exec.spawn(async move {
                yield_now().await;
                working.set(working.get() - 1);
                drop(member);
            });
        }
        let (waiter, left, seen) = (group.clone(), working.clone(), Rc::new(Cell::new(usize::MAX)));
        let note = seen.clone();
        exec.spawn(async move {
            waiter.wait().await;
            note.set(left.get());
        });
        let (_, time, count) = counted(|| exec.run_until_stalled());
        (taken, allocated) = (taken + time, allocated + count);
        early += usize::from(seen.get() != 0);
    }
    let claim = format_args!("one wait group, {CYCLES} times {} members: released at zero", grouped(members));
    guide.check(early == 0 && group.count() == 0, claim)?;
    guide.check(allocated == 0, "no allocation by any wait")?;
    guide.say(format_args!("       {}", rate(CYCLES * members, taken)));
    latch(guide)
}

/// Threads wait for a latch that this one counts down.
fn latch(guide: &Guide) -> Result<(), String> {
    let latch = Arc::new(Latch::new(3));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let latch = latch.clone();
            std::thread::spawn(move || {
                latch.wait().block();
                latch.count()
            })
        })
        .collect();
    let mut open = 0;
    for _ in 0..3 {
        open += usize::from(latch.try_wait());
        latch.count_down();
    }
    let counts: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap_or(usize::MAX)).collect();
    guide.check(open == 0 && counts == [0, 0], "a latch of 3 opens at the third count, for threads as well")
}
