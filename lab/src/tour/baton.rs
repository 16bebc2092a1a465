//! A baton passed through all tasks, lap after lap, in exactly the order in which they queued.

use super::{Guide, counted, grouped, rate, resident};
use crate::exec::Executor;
use crate::screen::Screen;
use std::cell::Cell;
use std::rc::Rc;
use tasuki::Mutex;

/// What the runners share; the baton counts how often it was passed.
struct Track {
    baton: Mutex<usize>,
    runners: usize,
    laps: usize,
    out_of_turn: Cell<usize>,
}

/// Queues all runners behind a held lock, lets go, and checks every hand-off.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let (runners, laps) = (guide.pick(100_000, 2_000), 10);
    let out_of_turn = Cell::new(0);
    let track = Rc::new(Track { baton: Mutex::new(0), runners, laps, out_of_turn });
    guide.live(format_args!("   {runners} runners take their places"));
    let mut exec = Executor::new(runners);
    let start = track.baton.try_lock().ok_or("a new mutex is free")?;
    for runner in 0..runners {
        exec.spawn(run(track.clone(), runner, guide.screen.clone()));
    }
    let (waiting, _, queueing) = counted(|| exec.run_until_stalled());
    guide.check(waiting == runners, format_args!("{} tasks wait for one lock", grouped(runners)))?;
    guide.say(format_args!("       {}", resident()));
    drop(start);
    let (left, taken, passing) = counted(|| exec.run_until_stalled());
    let passed = *track.baton.try_lock().ok_or("the baton was not given back")?;
    let total = runners * laps;
    guide.check(left == 0, "every task finished: no wake-up was lost")?;
    guide.check(passed == total, format_args!("{} hand-offs in {laps} laps", grouped(total)))?;
    guide.check(track.out_of_turn.get() == 0, "everybody in turn, every lap: strict FIFO")?;
    guide.check(queueing + passing == 0, "no allocation by any wait")?;
    guide.say(format_args!("       {}", rate(total, taken)));
    Ok(())
}

/// One runner: takes the baton once a lap, and notes whether it was its turn.
async fn run(track: Rc<Track>, me: usize, screen: Rc<Screen>) {
    for lap in 0..track.laps {
        let mut baton = track.baton.lock().await;
        if *baton != lap * track.runners + me {
            track.out_of_turn.set(track.out_of_turn.get() + 1);
        }
        *baton += 1;
        if *baton % 16_384 == 0 {
            let total = track.laps * track.runners;
            screen.live(format_args!("   the baton was passed {} times of {total}", *baton));
        }
    }
}
