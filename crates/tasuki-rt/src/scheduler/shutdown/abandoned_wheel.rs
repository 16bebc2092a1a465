//! The wheel of a worker that has left, with sleeps of futures that were carried out of the runtime: what wakes them from then on.
//!
//! A thread is started for such a wheel. It ends when the last sleep was woken or cancelled. If the system refuses the thread, the deadlines must come all the same: the thread of a worker
//! then stays for them itself, detached from its runtime. A thread that is not the runtime's cannot stay: it leaves the wheel to the deadlines of whatever runs
//! on the thread, or of the process.

use crate::scheduler::worker::Local;
use crate::task::contain_panic;
use crate::threads::start_with;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Instant;
use tasuki::Parker;
use tasuki::runtime::{Sleep, Timers, sleep_until};

/// A wheel without a worker, and the parker that its alarm unparks.
pub(crate) struct AbandonedWheel {
    timers: Arc<Timers>,
    parker: Parker,
}

impl AbandonedWheel {
    /// `None` if no sleep is left on it.
    pub(super) fn of(local: Local) -> Option<Self> {
        let Local { timers, parker, .. } = local;
        timers.ring_when_empty();
        let wheel = Self { timers, parker };
        turn(&wheel.timers).is_some().then_some(wheel)
    }

    /// Gives it to a thread of its own; comes back if the system refuses that.
    pub(crate) fn start_thread(self) -> Result<(), Self> {
        let builder = thread::Builder::new().name("tasuki-rt-timers".into());
        start_with(builder, self, |wheel| wheel.turn_until_empty()).map(drop).map_err(|(_, wheel)| wheel)
    }

    /// Wakes its sleeps with this thread.
    pub(crate) fn turn_until_empty(&self) {
        while let Some(next) = turn(&self.timers) {
            self.parker.park_deadline(next);
        }
    }

    /// For a thread that cannot stay: gives it to a thread, or else to the deadlines of others.
    ///
    /// Panics if the system refuses the thread of the process as well.
    pub(super) fn leave_to_others(self) {
        if let Err(wheel) = self.start_thread() {
            let relay = Relay {
                timers: wheel.timers,
                wakes: AtomicUsize::new(0),
                sleep: Mutex::new(Box::pin(sleep_until(Instant::now()))),
            };
            Arc::new(relay).wake();
        }
    }
}

/// A wheel that is turned whenever a sleep ends, which is on another wheel.
struct Relay {
    timers: Arc<Timers>,
    /// Wakes that have not been answered by a turn: the first one turns, and again as long as others come. One may come inside of the poll: the task of this thread has used up its budget, and the sleep yields.
    wakes: AtomicUsize,
    /// Its own waker is in it, until the wheel is empty. Polled by the wake that turns, and by none else.
    sleep: Mutex<Pin<Box<Sleep>>>,
}

impl Relay {
    fn turn(self: &Arc<Self>) {
        while let Some(next) = turn(&self.timers) {
            let waker = Waker::from(self.clone());
            let mut sleep = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
            sleep.as_mut().reset(next);
            if sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                return;
            }
        }
    }
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        // Relaxed: the locks of the wheel and of the sleep order what the turns do.
        if self.wakes.fetch_add(1, Ordering::Relaxed) > 0 {
            return;
        }
        let mut answered = 1;
        loop {
            self.turn();
            // Relaxed: as above. It fails if there was another wake, which is answered then.
            match self.wakes.compare_exchange(answered, 0, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(wakes) => answered = wakes,
            }
        }
    }
}

/// Wakes the sleeps of a wheel that are due, and says when the next one is.
fn turn(timers: &Timers) -> Option<Instant> {
    // A waker that panics is its owner's mistake; come back at once for the others.
    let now = Instant::now();
    let mut next = Some(now);
    contain_panic(|| next = timers.advance(now));
    next
}
