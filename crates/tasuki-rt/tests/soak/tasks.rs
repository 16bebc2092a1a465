//! The tasks, and the threads that meddle with them from outside.

use crate::kit::rng::Rng;
use crate::ops;
use crate::shared_state::SharedState;
use crate::task_log::Ticket;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;
use tasuki::Parker;
use tasuki_rt::{JoinHandle, Runtime, WorkerId};

/// Where a task may run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Anywhere,
    /// On a worker, by a number that is cut to those that there are.
    Pinned(usize),
    /// On the worker that spawns it, if it is one.
    Local,
}

impl Kind {
    pub(crate) fn pick(rng: &mut Rng) -> Self {
        match rng.below(4) {
            0 => Self::Pinned(rng.below(64)),
            1 => Self::Local,
            _ => Self::Anywhere,
        }
    }
}

/// What a task does last, or what is dropped with it.
pub(crate) type AtEnd = Box<dyn FnOnce() + Send>;

/// Spawns a task on the runtime, or from inside on one's own.
pub(crate) fn spawn_task(
    outside: Option<&Runtime>,
    shared: &Arc<SharedState>,
    kind: Kind,
    seed: u64,
    depth: u8,
    at_end: Option<AtEnd>,
) -> JoinHandle<u64> {
    let (name, pinned) = match (kind, outside) {
        (Kind::Pinned(_), _) => ("pinned task", true),
        (Kind::Local, None) => ("local task", true),
        _ => ("task", false),
    };
    let ticket = shared.log.open(name, pinned);
    let body = live(shared.clone(), ticket, Rng::new(seed), depth, AtLast(at_end));
    match (kind, outside) {
        (Kind::Pinned(number), Some(runtime)) => {
            runtime.spawn_on(WorkerId::new(number % runtime.workers()), || at_home(body))
        }
        (Kind::Pinned(number), None) => {
            let mut workers = 0;
            tasuki_rt::for_each_worker(|_| workers += 1);
            tasuki_rt::spawn_on(WorkerId::new(number % workers), || at_home(body))
        }
        (Kind::Local, None) => tasuki_rt::spawn_local(at_home(body)),
        (_, Some(runtime)) => runtime.spawn(body),
        (Kind::Anywhere, None) => tasuki_rt::spawn(body),
    }
}

/// Makes a future that is not `Send`.
async fn at_home(body: impl Future<Output = u64>) -> u64 {
    let here = Rc::new(thread::current().id());
    let number = body.await;
    assert_eq!(*here, thread::current().id());
    number
}

/// Called at the end, also when it is dropped.
struct AtLast(Option<AtEnd>);

impl Drop for AtLast {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end();
        }
    }
}

async fn live(shared: Arc<SharedState>, ticket: Ticket, mut rng: Rng, depth: u8, end: AtLast) -> u64 {
    let mut ticket = ticket;
    ticket.begin();
    let token = shared.stop.token();
    for _ in 0..1 + rng.below(12) {
        if token.stop_requested() {
            break;
        }
        ops::step(&shared, &mut rng, &ticket, depth).await;
    }
    drop(end);
    ticket.finish()
}

/// A foreign thread: locks, joins, aborts, wakes, for as long as it may.
pub(crate) fn meddler(shared: Arc<SharedState>, over: Arc<AtomicBool>, seed: u64) -> thread::JoinHandle<()> {
    let work = move || {
        let mut rng = Rng::new(seed);
        while !over.load(SeqCst) {
            match rng.below(5) {
                0 => {
                    let mut guard = shared.bypass.lock().block();
                    guard.read();
                    guard.add(&shared.added[2]);
                }
                1 => drop(shared.seats.fifo.acquire().timeout(Duration::from_micros(200)).block()),
                2 => shared.take_wakers().into_iter().for_each(Waker::wake),
                3 => drop(shared.take(rng.below(256)).inspect(JoinHandle::abort)),
                _ => {
                    if let Some(handle) = shared.take(rng.below(256)) {
                        handle.abort();
                        shared.judge(wait_for(handle));
                    }
                }
            }
            thread::sleep(Duration::from_micros(rng.next() % 500));
        }
    };
    thread::Builder::new().name("meddler".to_owned()).spawn(work).expect("a thread can be started")
}

/// Waits for a future as a thread that belongs to no runtime.
fn wait_for<F: Future>(future: F) -> F::Output {
    let parker = Parker::new();
    let waker = Waker::from(parker.unparker());
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => parker.park(),
        }
    }
}
