//! Futurelock: the programs in which others have found it, with tokio's mutex, with ours, and with ours whose grants can be revoked. A program hangs if it has not ended when no task
//! is woken any more: that is looked at by polling, not by a clock.

use crate::kit::watchdog::watchdog;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use tasuki::policy::{Fifo, Policy, Revocable};
use tasuki::{Event, Mutex, MutexGuard, task};

/// A mutex of some library.
trait Lock: Default + 'static {
    fn lock(&self) -> impl Future<Output = impl Sized>;
}

impl<P: Policy> Lock for tasuki::Mutex<(), P> {
    fn lock(&self) -> impl Future<Output = impl Sized> {
        self.lock()
    }
}

impl Lock for tokio::sync::Mutex<()> {
    fn lock(&self) -> impl Future<Output = impl Sized> {
        self.lock()
    }
}

impl Lock for async_lock::Mutex<()> {
    fn lock(&self) -> impl Future<Output = impl Sized> {
        self.lock()
    }
}

/// Was it woken since it was last asked?
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A task, and whether it is to be polled.
struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    woken: Arc<Woken>,
    ended: bool,
}

/// An executor of one thread, whose tasks are polled when they were woken.
#[derive(Default)]
struct Executor {
    tasks: Vec<Task>,
}

impl Executor {
    /// The first poll comes with the next [`settle`](Self::settle).
    fn spawn(&mut self, future: impl Future<Output = ()> + 'static) {
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        self.tasks.push(Task { future: Box::pin(future), woken, ended: false });
    }

    /// Polls what is woken until nothing is.
    fn settle(&mut self) {
        while let Some(task) =
            self.tasks.iter_mut().find(|task| !task.ended && task.woken.0.swap(false, Ordering::SeqCst))
        {
            let waker = Waker::from(task.woken.clone());
            task.ended = task.future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        }
    }

    fn all_ended(&self) -> bool {
        self.tasks.iter().all(|task| task.ended)
    }
}

/// Waits with the thread, as a `block_on` inside of a task does; false if that would be for ever.
fn block_on<F: Future>(future: F) -> bool {
    let woken = Arc::new(Woken(AtomicBool::new(true)));
    let (waker, mut future) = (Waker::from(woken.clone()), pin!(future));
    while woken.0.swap(false, Ordering::SeqCst) {
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            return true;
        }
    }
    false
}

/// A program, and the moments at which it is to go on.
struct TwoThreadRuntime<L> {
    lock: L,
    /// The timer of the program is over.
    timer: Event,
    /// The holder in the background is to release the lock.
    release: Event,
}

/// Runs a program beside a task that holds the lock; whether both end.
fn ends<L: Lock, F: Future<Output = ()> + 'static>(
    program: impl FnOnce(Rc<TwoThreadRuntime<L>>) -> F,
    identify: bool,
) -> bool {
    let stage =
        Rc::new(TwoThreadRuntime { lock: L::default(), timer: Event::manual(), release: Event::manual() });
    let mut executor = Executor::default();
    let holder = stage.clone();
    executor.spawn(async move {
        let guard = holder.lock.lock().await;
        holder.release.wait().await;
        drop(guard);
    });
    if identify {
        executor.spawn(task::identify(program(stage.clone())));
    } else {
        executor.spawn(program(stage.clone()));
    }
    executor.settle();
    stage.timer.set();
    executor.settle();
    stage.release.set();
    executor.settle();
    executor.all_ended()
}

/// Oxide's RFD 609: a future that waits for the lock, by reference in a `select!` with a timer; the arm of the timer locks too.
async fn rfd_609<L: Lock>(stage: Rc<TwoThreadRuntime<L>>) {
    let mut future1 = pin!(async {
        drop(stage.lock.lock().await);
    });
    let mut sleep = pin!(stage.timer.wait());
    let is_first = poll_fn(|cx| match future1.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(true),
        Poll::Pending => sleep.as_mut().poll(cx).map(|()| false),
    });
    assert!(!is_first.await, "the timer is first");
    drop(stage.lock.lock().await);
}

/// async-lock#91: two futures are polled in one order, and the second is awaited while the first is kept.
async fn async_lock_91<L: Lock>(stage: Rc<TwoThreadRuntime<L>>) {
    let (mut a, mut b) = (pin!(stage.lock.lock()), pin!(stage.lock.lock()));
    poll_fn(|cx| {
        assert!(b.as_mut().poll(cx).is_pending());
        assert!(a.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
    drop(a.await);
}

/// tokio#7892: a future that polls the lock first, and the second time waits for it with its thread.
async fn tokio_7892<L: Lock>(stage: Rc<TwoThreadRuntime<L>>) {
    let mut kept = pin!(stage.lock.lock());
    let mut was_polled = false;
    let blocked = poll_fn(|cx| {
        if was_polled {
            return Poll::Ready(block_on(stage.lock.lock()));
        }
        was_polled = true;
        assert!(kept.as_mut().poll(cx).is_pending());
        Poll::Pending
    });
    if !blocked.await {
        std::future::pending::<()>().await;
    }
}

/// A set of futures that is polled only where its next result is awaited; the body of the loop locks too. Each future of the set has a waker of its own.
async fn futures_unordered<L: Lock>(stage: Rc<TwoThreadRuntime<L>>) {
    let job = async |n: u32| {
        if n > 0 {
            drop(stage.lock.lock().await);
        }
        n
    };
    let mut jobs: FuturesUnordered<_> = (0..3).map(job).collect();
    let mut ended = 0;
    while let Some(n) = jobs.next().await {
        if n == 0 {
            // The others of the set come to the lock, and are not polled again before the body has ended.
            assert!(poll_fn(|cx| Poll::Ready(jobs.poll_next_unpin(cx).is_pending())).await);
            stage.timer.wait().await;
        }
        drop(stage.lock.lock().await);
        ended += 1;
    }
    assert_eq!(ended, 3);
}

/// What each mutex makes of a program: whether it ends.
macro_rules! each {
    ($program:ident, identify: $identify:expr) => {
        [
            ends::<tokio::sync::Mutex<()>, _>($program, $identify),
            ends::<tasuki::Mutex<(), Fifo>, _>($program, $identify),
            ends::<tasuki::Mutex<(), Revocable>, _>($program, $identify),
            ends::<tasuki::Mutex<(), Revocable<false>>, _>($program, $identify),
        ]
    };
}

const CURED: [bool; 4] = [false, false, true, true];

#[test]
fn the_program_of_rfd_609() {
    assert_eq!(each!(rfd_609, identify: false), CURED);
    assert_eq!(each!(rfd_609, identify: true), CURED);
}

#[test]
fn the_program_of_async_lock_91() {
    assert!(!ends::<async_lock::Mutex<()>, _>(async_lock_91, false), "the library that it was found in");
    assert_eq!(each!(async_lock_91, identify: false), CURED);
    assert_eq!(each!(async_lock_91, identify: true), CURED);
}

/// A thread that waits has a waker of its own: its task is known by an identity only.
#[test]
fn the_program_of_tokio_7892() {
    assert_eq!(each!(tokio_7892, identify: true), CURED);
    assert_eq!(each!(tokio_7892, identify: false), [false; 4]);
}

/// As are the tasks of a set.
#[test]
fn a_set_of_futures() {
    assert_eq!(each!(futures_unordered, identify: true), CURED);
    assert_eq!(each!(futures_unordered, identify: false), [false; 4]);
}

/// A program without two futures of one task ends with all of them: the executor detects hangs, and nothing else.
#[test]
fn a_program_that_is_right_ends() {
    async fn right<L: Lock>(stage: Rc<TwoThreadRuntime<L>>) {
        stage.timer.wait().await;
        drop(stage.lock.lock().await);
    }
    assert_eq!(each!(right, identify: false), [true; 4]);
    assert_eq!(each!(right, identify: true), [true; 4]);
}

/// Tasks that each keep a lock future unpolled while they lock again, on threads that take tasks from each other: whatever the order, all of them end.
#[test]
fn on_the_runtime_in_any_order() {
    const TASKS: usize = 6;
    const ROUNDS: usize = 300;
    type Total = Mutex<usize, Revocable>;

    /// The section, in which others come to the lock.
    async fn add(mut total: MutexGuard<'_, usize, Revocable>) {
        tasuki_rt::yield_now().await;
        *total += 1;
    }

    /// Locks twice, by a future that is kept and by one that is awaited before it.
    async fn keeps_one(total: &Total) {
        let mut kept = pin!(total.lock());
        match poll_fn(|cx| Poll::Ready(kept.as_mut().poll(cx))).await {
            Poll::Ready(guard) => {
                add(guard).await;
                add(total.lock().await).await;
            }
            Poll::Pending => {
                add(total.lock().await).await;
                add(kept.await).await;
            }
        }
    }

    /// The same with the future in a set, whose futures have wakers of their own.
    async fn keeps_a_set(total: &Total) {
        let mut set: FuturesUnordered<_> = [total.lock()].into_iter().collect();
        match poll_fn(|cx| Poll::Ready(set.poll_next_unpin(cx))).await {
            Poll::Ready(guard) => {
                add(guard.expect("there is one")).await;
                add(total.lock().await).await;
            }
            Poll::Pending => {
                add(total.lock().await).await;
                add(set.next().await.expect("it is left")).await;
            }
        }
    }

    let _dog = watchdog(120);
    let total = Arc::new(Total::with_policy(0));
    tasuki_rt::run(async {
        let spawn = |n: usize| {
            let total = total.clone();
            tasuki_rt::spawn(async move {
                for _ in 0..ROUNDS {
                    if n % 2 == 0 {
                        keeps_one(&total).await;
                    } else {
                        keeps_a_set(&total).await;
                    }
                }
            })
        };
        let tasks: Vec<_> = (0..TASKS).map(spawn).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(*total.try_lock().unwrap(), 2 * TASKS * ROUNDS);
}
