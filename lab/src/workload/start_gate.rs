//! A starting gate for tasks on two threads: they start together, are timed until the last is done, and share a number of operations.

use crate::exec::{let_other_threads_run, yield_now};
use crate::measure::{Meter, Reading};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// A sample that takes longer is cut short.
const LIMIT: Duration = Duration::from_millis(400);

/// Something on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Line<T>(pub(crate) T);

/// Where the tasks of one sample begin and end. Tasks wait at it yielding, so that they start together
/// and not from a queue that the start itself made.
pub(crate) struct StartGate {
    ready: AtomicUsize,
    open: AtomicBool,
    finished: AtomicUsize,
    meter: OnceLock<Meter>,
    reading: OnceLock<Reading>,
    served: Vec<AtomicU64>,
    starter: Thread,
}

impl StartGate {
    /// A gate for so many tasks; `run` is called by this thread.
    pub(crate) fn new(tasks: usize) -> StartGate {
        StartGate {
            ready: AtomicUsize::new(0),
            open: AtomicBool::new(false),
            finished: AtomicUsize::new(0),
            meter: OnceLock::new(),
            reading: OnceLock::new(),
            served: (0..tasks).map(|_| AtomicU64::new(0)).collect(),
            starter: std::thread::current(),
        }
    }

    /// Waits until all tasks are here.
    pub(crate) async fn enter(&self) {
        self.ready.fetch_add(1, Ordering::Relaxed);
        // Acquire: pairs with the Release in `start` - publishes the clock.
        while !self.open.load(Ordering::Acquire) {
            let_other_threads_run();
            yield_now().await;
        }
    }

    /// Notes what a task got; the last one stops the clock.
    pub(crate) fn leave(&self, me: usize, served: u64) {
        self.served[me].store(served, Ordering::Relaxed);
        // AcqRel: the last to leave sees what the others noted, and `run` sees it through `reading`.
        if self.finished.fetch_add(1, Ordering::AcqRel) + 1 == self.served.len() {
            let meter = self.meter.get().expect("set before the gate opens");
            self.reading.set(meter.read()).ok();
            self.starter.unpark();
        }
    }

    /// Lets the tasks go when all are here, for a task; the last of them stops the clock.
    pub(crate) async fn open(&self) {
        while self.ready.load(Ordering::Relaxed) < self.served.len() {
            let_other_threads_run();
            yield_now().await;
        }
        self.start();
    }

    /// What the clock showed when the last one left.
    pub(crate) fn reading(&self) -> Option<Reading> {
        self.reading.get().copied()
    }

    /// Starts the clock, and the tasks.
    fn start(&self) {
        self.meter.set(Meter::start()).ok();
        // Release: pairs with the Acquire in `enter`.
        self.open.store(true, Ordering::Release);
    }

    /// Lets the tasks go when all are here, and waits for the last; what each was served. After
    /// [`LIMIT`] it calls `cut`, which makes them stop: a peer that is quick when probed may be a
    /// thousand times slower when it has to wait.
    pub(crate) fn run(&self, cut: impl Fn()) -> (Reading, Vec<u64>) {
        while self.ready.load(Ordering::Relaxed) < self.served.len() {
            std::thread::sleep(Duration::from_micros(20));
        }
        let start = Instant::now();
        self.start();
        let reading = loop {
            match self.reading.get() {
                Some(reading) => break *reading,
                None if start.elapsed() < LIMIT => std::thread::park_timeout(LIMIT),
                None => {
                    cut();
                    std::thread::park_timeout(LIMIT);
                }
            }
        };
        let served = self.served.iter().map(|served| served.load(Ordering::Relaxed)).collect();
        (reading, served)
    }
}

/// Operations that tasks share where nothing else counts them, taken in chunks, so that the budget is
/// not what they contend for.
pub(crate) struct Budget(Line<AtomicI64>);

impl Budget {
    /// Operations in a chunk.
    pub(crate) const CHUNK: u64 = 4;

    /// At least so many operations, in whole chunks.
    pub(crate) fn new(ops: u64) -> Budget {
        Budget(Line(AtomicI64::new(ops.div_ceil(Self::CHUNK) as i64)))
    }

    /// Takes a chunk; false when all are taken.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        // Relaxed, here and below: a count that publishes nothing. Below zero is nothing left, too.
        self.0.0.fetch_sub(1, Ordering::Relaxed) > 0
    }

    /// Leaves nothing to take.
    pub(crate) fn cut(&self) {
        self.0.0.store(0, Ordering::Relaxed);
    }
}
