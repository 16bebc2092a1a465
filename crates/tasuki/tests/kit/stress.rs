//! An executor for stress: a task is polled only when it was woken, so that a lost wake-up is a hang; and
//! futures are dropped at random, on any thread, in any state.

use super::poll::BoxFuture;
use super::rng::Rng;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// What to run: `tasks` tasks, each `rounds` futures one after the other, on `threads` threads.
#[derive(Clone, Debug)]
pub(crate) struct Stress {
    pub(crate) threads: usize,
    pub(crate) tasks: usize,
    pub(crate) rounds: usize,
    /// How often in a thousand polls another task's future is dropped.
    pub(crate) cancel_per_mille: u32,
    pub(crate) seed: u64,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) completed: usize,
    pub(crate) cancelled: usize,
    pub(crate) polls: usize,
}

/// Which future to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) task: usize,
    pub(crate) round: usize,
}

/// One future of a task. Each has a waker of its own, so that a late wake of the last one cannot make up for
/// a wake that this one lost.
struct Attempt {
    turn: Turn,
    scheduled: AtomicBool,
    future: Mutex<Option<BoxFuture<()>>>,
    shared: Arc<Shared>,
}

struct Shared {
    ready: Mutex<VecDeque<Arc<Attempt>>>,
    bell: Condvar,
    /// The present future of each task.
    tasks: Vec<Mutex<Option<Arc<Attempt>>>>,
    unfinished: AtomicUsize,
    completed: AtomicUsize,
    cancelled: AtomicUsize,
    polls: AtomicUsize,
    rounds: usize,
    failed: AtomicBool,
}

type Make<'m> = dyn Fn(Turn) -> BoxFuture<()> + Send + Sync + 'm;

impl Stress {
    /// Runs everything to the end; whether that comes is for a watchdog to see.
    pub(crate) fn run(&self, make: impl Fn(Turn) -> BoxFuture<()> + Send + Sync) -> Outcome {
        let shared = Arc::new(Shared {
            ready: Mutex::new(VecDeque::new()),
            bell: Condvar::new(),
            tasks: (0..self.tasks).map(|_| Mutex::new(None)).collect(),
            unfinished: AtomicUsize::new(self.tasks),
            completed: AtomicUsize::new(0),
            cancelled: AtomicUsize::new(0),
            polls: AtomicUsize::new(0),
            rounds: self.rounds,
            failed: AtomicBool::new(false),
        });
        for task in 0..self.tasks {
            begin(&shared, Turn { task, round: 0 }, &make);
        }
        std::thread::scope(|scope| {
            for number in 0..self.threads {
                let (shared, make): (_, &Make<'_>) = (&shared, &make);
                let rng = Rng::new(self.seed.wrapping_add(number as u64));
                // Uncharged: orders are recorded at the first poll, and a yield would come between.
                scope.spawn(move || {
                    tasuki::runtime::uncharged(|| worker(shared, rng, self.cancel_per_mille, make));
                });
            }
        });
        // Futures that were woken after their end: they and the shared part hold each other.
        drop(std::mem::take(&mut *lock(&shared.ready)));
        let [completed, cancelled, polls] =
            [&shared.completed, &shared.cancelled, &shared.polls].map(|count| count.load(SeqCst));
        assert_eq!(completed + cancelled, self.tasks * self.rounds, "every future ended once");
        Outcome { completed, cancelled, polls }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the future of a turn, or ends the task after its last.
fn begin(shared: &Arc<Shared>, turn: Turn, make: &Make<'_>) {
    if turn.round == shared.rounds {
        *lock(&shared.tasks[turn.task]) = None;
        if shared.unfinished.fetch_sub(1, SeqCst) == 1 {
            drop(lock(&shared.ready));
            shared.bell.notify_all();
        }
        return;
    }
    let attempt = Arc::new(Attempt {
        turn,
        scheduled: AtomicBool::new(false),
        future: Mutex::new(Some(make(turn))),
        shared: shared.clone(),
    });
    *lock(&shared.tasks[turn.task]) = Some(attempt.clone());
    attempt.wake();
}

impl Wake for Attempt {
    fn wake(self: Arc<Self>) {
        if !self.scheduled.swap(true, SeqCst) {
            let shared = self.shared.clone();
            lock(&shared.ready).push_back(self);
            shared.bell.notify_one();
        }
    }
}

/// Ends the others too if this thread panics: the scope then passes the panic on.
struct FailTogether<'s>(&'s Shared);

impl Drop for FailTogether<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.store(true, SeqCst);
            drop(lock(&self.0.ready));
            self.0.bell.notify_all();
        }
    }
}

fn worker(shared: &Arc<Shared>, mut rng: Rng, cancel_per_mille: u32, make: &Make<'_>) {
    let _together = FailTogether(shared);
    while let Some(attempt) = next(shared) {
        run(shared, &attempt, make);
        if rng.per_mille(cancel_per_mille) {
            cancel(shared, rng.below(shared.tasks.len()), make);
        }
    }
}

/// The next task that was woken; none when all are finished.
fn next(shared: &Shared) -> Option<Arc<Attempt>> {
    let mut ready = lock(&shared.ready);
    loop {
        if shared.unfinished.load(SeqCst) == 0 || shared.failed.load(SeqCst) {
            return None;
        }
        if let Some(attempt) = ready.pop_front() {
            return Some(attempt);
        }
        ready = shared.bell.wait(ready).unwrap_or_else(PoisonError::into_inner);
    }
}

fn run(shared: &Arc<Shared>, attempt: &Arc<Attempt>, make: &Make<'_>) {
    // Before the poll: a wake during the poll schedules it again.
    attempt.scheduled.store(false, SeqCst);
    let mut slot = lock(&attempt.future);
    let Some(future) = slot.as_mut() else { return };
    shared.polls.fetch_add(1, SeqCst);
    let waker = Waker::from(attempt.clone());
    if let Poll::Ready(()) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
        *slot = None;
        drop(slot);
        shared.completed.fetch_add(1, SeqCst);
        begin(shared, Turn { round: attempt.turn.round + 1, ..attempt.turn }, make);
    }
}

/// Drops the future of a task, unless it is being polled at this moment.
fn cancel(shared: &Arc<Shared>, task: usize, make: &Make<'_>) {
    let Some(attempt) = lock(&shared.tasks[task]).clone() else { return };
    let Ok(mut slot) = attempt.future.try_lock() else { return };
    let Some(future) = slot.take() else { return };
    drop(future);
    drop(slot);
    shared.cancelled.fetch_add(1, SeqCst);
    begin(shared, Turn { round: attempt.turn.round + 1, ..attempt.turn }, make);
}
