//! The system refuses threads (`RLIMIT_NPROC`): what the runtime does without them ends all the same, and waits for nothing that waits for it.
#![cfg(target_os = "linux")]

use crate::kit::process::alone;
use crate::kit::{Drops, MS, poll_with, runtime, until, watchdog};
use std::cell::RefCell;
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, mpsc};
use std::task::{Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};
use tasuki_rt::{
    JoinHandle, LocalRuntime, Runtime, ShutdownError, Sleep, WorkerId, checkpoint, sleep, sleep_until,
};

/// From now on, or no longer, each start of a thread is refused. The limit does not hold for the superuser: this process becomes that of another user.
fn refuse_threads(refuse: bool) {
    // SAFETY: no arguments, or a number.
    assert!(unsafe { libc::getuid() != 0 || libc::setuid(65_534) == 0 }, "a process may give up its rights");
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit outlives the call.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NPROC, &raw mut limit) }, 0);
    limit.rlim_cur = if refuse { 0 } else { limit.rlim_max };
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit) }, 0);
    let started = thread::Builder::new().spawn(|| ());
    assert_eq!(started.is_err(), refuse, "a thread is refused when it should be");
}

/// Blocking work of a runtime whose workers have not been started: it has begun, threads are refused, and it is told to go on.
fn in_blocking_work<T: Send + 'static>(
    work: impl FnOnce(Arc<Runtime>) -> T + Send + 'static,
) -> (Arc<Runtime>, mpsc::Sender<()>, JoinHandle<T>) {
    let runtime = Arc::new(runtime(2));
    let ((begins, begun), (go_on, held)) = (mpsc::channel(), mpsc::channel::<()>());
    let own = runtime.clone();
    let task = runtime.spawn_blocking(move || {
        begins.send(()).unwrap();
        let _ = held.recv();
        work(own)
    });
    begun.recv().unwrap();
    refuse_threads(true);
    (runtime, go_on, task)
}

fn waits_for<T>(task: &JoinHandle<T>) {
    until(|| task.is_finished());
}

/// The last handle of the runtime goes with its blocking work: the work does not wait for itself, the tasks are dropped.
#[test]
#[cfg_attr(miri, ignore = "sets limits of the process")]
fn a_drop_inside_blocking_work() {
    alone(|| {
        let dog = watchdog(60);
        let drops = Drops::default();
        let seen = drops.clone();
        let (runtime, go_on, task) = in_blocking_work(move |runtime| {
            drop(runtime);
            seen.count()
        });
        let [held, pinned] = [(); 2].map(|()| drops.one());
        drop(runtime.spawn(async move { drop(held) }));
        drop(runtime.spawn_on(WorkerId::new(1), || async move { drop(pinned) }));
        let handle = runtime.handle();
        drop(runtime);
        go_on.send(()).unwrap();
        waits_for(&task);
        assert_eq!(drops.count(), 2);
        until(|| handle.tasks() == 0);
        refuse_threads(false);
        drop(dog);
    });
}

/// What needs the workers says that it cannot have them, and the work goes on.
#[test]
#[cfg_attr(miri, ignore = "sets limits of the process")]
fn a_start_inside_blocking_work() {
    alone(|| {
        let _dog = watchdog(60);
        for kind in 0..3 {
            let (runtime, go_on, task) = in_blocking_work(move |runtime| match kind {
                0 => runtime.start().is_err(),
                1 => {
                    let run = std::panic::AssertUnwindSafe(|| runtime.block_on(async {}));
                    std::panic::catch_unwind(run).is_err()
                }
                _ => runtime.drain(MS) == Err(ShutdownError::InsideTask) && runtime.start().is_err(),
            });
            go_on.send(()).unwrap();
            waits_for(&task);
            assert_eq!(runtime.shutdown_timeout(Duration::MAX), Ok(()));
            refuse_threads(false);
            assert!(runtime.block_on(task).unwrap(), "{kind}");
        }
    });
}

/// A shutdown waits no longer than it may for blocking work, and by the end of that for all of it: tasks on which the work waits are dropped before.
#[test]
#[cfg_attr(miri, ignore = "sets limits of the process")]
fn a_shutdown_beside_blocking_work() {
    alone(|| {
        let _dog = watchdog(60);
        let (runtime, go_on, task) = in_blocking_work(|_| ());
        let (held, wait) = mpsc::channel::<()>();
        let (begins, begun) = mpsc::channel();
        refuse_threads(false);
        let second = runtime.spawn_blocking(move || {
            begins.send(()).unwrap();
            wait.recv().is_err()
        });
        begun.recv().unwrap();
        refuse_threads(true);
        drop(runtime.spawn(async move {
            pending::<()>().await;
            drop(held);
        }));
        assert_eq!(runtime.shutdown_timeout(MS), Err(ShutdownError::TimedOut));
        waits_for(&second);
        assert!(!task.is_finished());
        go_on.send(()).unwrap();
        assert_eq!(runtime.shutdown_timeout(Duration::MAX), Ok(()));
        assert!(task.is_finished() && runtime.tasks() == 0);
    });
}

/// What a closure owned shuts the runtime down, on the thread that spawns it: as inside the work itself, an error, and not a wait for its own end.
#[test]
#[cfg_attr(miri, ignore = "sets limits of the process")]
fn a_shutdown_by_what_is_refused() {
    struct ShutsDown(Arc<Runtime>, mpsc::Sender<Result<(), ShutdownError>>);
    impl Drop for ShutsDown {
        fn drop(&mut self) {
            self.1.send(self.0.shutdown_timeout(Duration::MAX)).unwrap();
        }
    }
    alone(|| {
        let _dog = watchdog(60);
        let runtime = Arc::new(runtime(1));
        runtime.start().unwrap();
        refuse_threads(true);
        let (tell, told) = mpsc::channel();
        let held = ShutsDown(runtime.clone(), tell);
        let refused = runtime.spawn_blocking(move || drop(held));
        assert_eq!(told.recv().unwrap(), Err(ShutdownError::InsideTask));
        assert!(runtime.block_on(refused).unwrap_err().is_refused());
        assert_eq!(runtime.shutdown_timeout(Duration::MAX), Ok(()));
    });
}

thread_local! {
    static AT_THE_END: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) };
}

struct AtTheEnd(Option<Box<dyn FnOnce()>>);
impl Drop for AtTheEnd {
    fn drop(&mut self) {
        self.0.take().unwrap()();
    }
}

/// In the destructor of a thread-local variable, when others of the thread are gone: the closure is refused there too, and not called on the thread that spawns it.
#[test]
#[cfg_attr(miri, ignore = "sets limits of the process")]
fn a_closure_that_is_refused_when_its_thread_ends() {
    alone(|| {
        let _dog = watchdog(60);
        let (go_on, wait) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            wait.recv().unwrap();
            // Made first, and so destroyed last: after the variables of the runtime that a refusal needed.
            AT_THE_END.with(|_| ());
            let runtime = LocalRuntime::new().unwrap();
            let before = runtime.block_on(runtime.spawn_blocking(|| ())).unwrap_err();
            let spawns = move || {
                let late = runtime.spawn_blocking(|| ());
                let late = runtime.block_on(late);
                tell.send((before.is_refused(), late.map_err(|error| error.is_refused()))).unwrap();
            };
            AT_THE_END.with(|place| *place.borrow_mut() = Some(AtTheEnd(Some(Box::new(spawns)))));
        });
        refuse_threads(true);
        go_on.send(()).unwrap();
        assert_eq!(told.recv().unwrap(), (true, Err(true)));
        thread.join().unwrap();
    });
}

/// Armed on the wheel of a worker, and carried out of its runtime.
async fn armed(time: Duration) -> (Pin<Box<Sleep>>,) {
    let mut sleep = Box::pin(sleep(time));
    assert!(poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx))).await.is_pending());
    (sleep,)
}

/// The thread that wakes them when their runtime is gone is refused.
#[test]
#[cfg_attr(miri, ignore = "sets limits of the process")]
fn sleeps_that_outlive_their_runtime() {
    alone(|| {
        let _dog = watchdog(60);
        let first = runtime(2);
        let handle = first.handle();
        let (carried,) = first.block_on(first.spawn(armed(50 * MS))).unwrap();
        let local = LocalRuntime::new().unwrap();
        // On the thread of the process, which there must be for it.
        sleep(MS).block();
        let (from_local,) = local.block_on(armed(50 * MS));
        refuse_threads(true);
        drop(first);
        drop(local);
        // A handle runs futures also when its runtime is gone.
        handle.block_on(async {
            carried.await;
            from_local.await;
        });
    });
}

/// A waker that takes until then, and panics.
struct Hostile(Instant);
impl Wake for Hostile {
    fn wake(self: Arc<Self>) {
        thread::sleep(self.0.saturating_duration_since(Instant::now()));
        panic!("a hostile waker");
    }
}

/// The same, dropped by a task that has used up its budget, while wakers that panic make the wheel due again at once. What turns the wheel is no operation of that task: a yield would wake it inside of itself, and hang.
#[test]
#[cfg_attr(miri, ignore = "sets limits of the process")]
fn sleeps_that_outlive_their_runtime_beside_an_exhausted_budget() {
    alone(|| {
        let _dog = watchdog(60);
        let (outer, local) = (LocalRuntime::new().unwrap(), LocalRuntime::new().unwrap());
        let start = Instant::now();
        let mut hostile = [1, 100].map(|ms| Box::pin(sleep_until(start + ms * MS)));
        let (carried,) = local.block_on(async {
            for sleep in &mut hostile {
                // The second is due when the waker of the first returns.
                let waker = Waker::from(Arc::new(Hostile(start + 110 * MS)));
                assert!(poll_with(sleep, &waker).is_pending());
            }
            armed(200 * MS).await
        });
        thread::sleep(2 * MS);
        refuse_threads(true);
        let mut local = Some(local);
        outer.block_on(async {
            poll_fn(|cx| {
                while pin!(checkpoint()).poll(cx).is_ready() {}
                drop(local.take());
                Poll::Ready(())
            })
            .await;
            carried.await;
        });
    });
}
