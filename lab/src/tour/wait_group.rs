//! Tour stop: a wait group that is used again and again, and a latch.

use super::tasks::NOTES;
use super::{Count, Guide, all, grouped, rate};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tasuki::{Latch, WaitGroup};
use tasuki_rt::{spawn_local, yield_now};

/// Times the group is used.
const CYCLES: usize = 10;

/// Waits for the members of one group, cycle after cycle.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let members = guide.pick(10_000, 500);
    let group = Arc::new(WaitGroup::new());
    let given = group.clone();
    let progress = || format!("   {} members at work", group.count());
    let (early, taken, allocated) = guide.run_on_loop(move || cycles(given, members), progress)?;
    let claim = format_args!("one wait group, {CYCLES} times {} members: released at zero", grouped(members));
    guide.check(early == 0 && group.count() == 0, claim)?;
    guide.check(allocated <= NOTES, "no allocation by any wait")?;
    guide.say(format_args!("       {}", rate(CYCLES * members, taken)));
    latch(guide)
}

/// How often the wait ended while a member was at work, the time of all cycles, and their allocations.
async fn cycles(group: Arc<WaitGroup>, members: usize) -> (usize, Duration, u64) {
    let working = Rc::new(Cell::new(0));
    let (mut early, mut taken, mut allocated) = (0, Duration::ZERO, 0);
    for _ in 0..CYCLES {
        let mut tasks = Vec::with_capacity(members);
        for _ in 0..members {
            let (member, working) = (group.clone().member_owned(), working.clone());
            working.set(working.get() + 1);
            tasks.push(spawn_local(async move {
                yield_now().await;
                working.set(working.get() - 1);
                drop(member);
            }));
        }
        let count = Count::start();
        group.wait().await;
        early += working.get();
        early += all(tasks).await;
        let (time, count) = count.stop();
        (taken, allocated) = (taken + time, allocated + count);
    }
    (early, taken, allocated)
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
