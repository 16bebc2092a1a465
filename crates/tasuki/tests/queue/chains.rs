//! Wakes inside wakes, and panics inside both, for every primitive that wakes: a table of scenes.
//!
//! A waker may drop its task, or poll it, before it returns. Then the release goes on inside the wake, from waiter to waiter; the stack
//! must not grow with them. And it may panic with something whose drop panics too; no waiter is lost by that, and the process goes on.
//! S3-13, H3, H14, H15.

use crate::kit::fixture::on_a_small_stack;
use crate::kit::poll::{BoxFuture, pending, poll_with, ready};
use crate::kit::process::alone;
use crate::kit::waker::{Call, Spy, never_yields};
use crate::kit::watchdog::watchdog;
use crate::kit::{fewer_under_tsan, scaled};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Poll, Wake, Waker};
use tasuki::policy::{Bypass, Fifo, Lifo, Policy, Revocable, SemaphorePolicy};
use tasuki::{
    Barrier, CancellationSource, Condvar, Event, Latch, Mutex, OnceCell, ReentrantMutex, RwLock, Semaphore,
    WaitGroup, task,
};

/// A recursion overflows the small stack long before.
const MANY: usize =
    fewer_under_tsan(scaled(if cfg!(debug_assertions) { 20_000 } else { 100_000 }, 300), 20_000);

/// Something that many tasks wait for, and what lets the first of them go, or all.
struct Scene {
    name: &'static str,
    task: Box<dyn Fn(usize) -> BoxFuture<()>>,
    release: Box<dyn FnOnce()>,
}

fn scene(
    name: &'static str,
    task: impl Fn(usize) -> BoxFuture<()> + 'static,
    release: impl FnOnce() + 'static,
) -> Scene {
    Scene { name, task: Box::new(task), release: Box::new(release) }
}

fn mutex<P: Policy>(name: &'static str) -> Scene {
    let mutex = Arc::new(Mutex::<u32, P>::with_policy(0));
    let guard = mutex.clone().try_lock_owned().unwrap();
    let wait = move |_| -> BoxFuture<()> {
        let mutex = mutex.clone();
        Box::pin(async move { *mutex.lock().await += 1 })
    };
    scene(name, wait, || drop(guard))
}

fn semaphore<P: SemaphorePolicy>(name: &'static str, weight: fn(usize) -> usize) -> Scene {
    let semaphore = Arc::new(Semaphore::<P>::with_policy(3));
    let permits = semaphore.clone().try_acquire_many_owned(3).unwrap();
    let wait = move |n| -> BoxFuture<()> {
        let semaphore = semaphore.clone();
        Box::pin(async move { drop(semaphore.acquire_many(weight(n)).await.unwrap()) })
    };
    scene(name, wait, || drop(permits))
}

fn rwlock(name: &'static str, kind: fn(usize) -> usize) -> Scene {
    let lock = Arc::new(RwLock::new(0));
    let guard = lock.clone().try_write_owned().unwrap();
    let wait = move |n| -> BoxFuture<()> {
        let lock = lock.clone();
        Box::pin(async move {
            match kind(n) {
                0 => drop(lock.write().await),
                1 => drop(lock.upgradable_read().await),
                _ => drop(lock.read().await),
            }
        })
    };
    scene(name, wait, || drop(guard))
}

fn reentrant() -> Scene {
    let lock = Arc::new(ReentrantMutex::new(0));
    let (held, gate) = (lock.clone(), Arc::new(Event::manual()));
    let opened = gate.clone();
    let mut holder: BoxFuture<()> = Box::pin(task::identify(async move {
        let _guard = held.lock().await.unwrap();
        opened.wait().await;
    }));
    assert!(poll_with(&mut holder, Waker::noop()).is_pending());
    let wait = move |_| -> BoxFuture<()> {
        let lock = lock.clone();
        Box::pin(task::identify(async move { drop(lock.lock().await.unwrap()) }))
    };
    scene("reentrant mutex", wait, move || {
        gate.set();
        assert!(poll_with(&mut holder, Waker::noop()).is_ready());
    })
}

/// Each task holds the lock that the next one waits for.
fn locks_in_a_row() -> Scene {
    let locks: Arc<Vec<_>> = Arc::new((0..=MANY).map(|_| Arc::new(Mutex::new(()))).collect());
    let first = locks[0].clone().try_lock_owned().unwrap();
    let wait = move |n: usize| -> BoxFuture<()> {
        let (mine, wanted) = (locks[n + 1].clone(), locks[n].clone());
        Box::pin(async move {
            let _mine = mine.lock_owned().await;
            let _wanted = wanted.lock_owned().await;
        })
    };
    scene("locks in a row", wait, || drop(first))
}

fn event(name: &'static str, event: Event) -> Scene {
    let event = Arc::new(event);
    let waited = event.clone();
    let wait = move |_| -> BoxFuture<()> {
        let event = waited.clone();
        Box::pin(async move {
            event.wait().await;
            // So that an auto event goes on to the next.
            event.set();
        })
    };
    scene(name, wait, move || event.set())
}

fn once_cell() -> Scene {
    let cell = Arc::new(OnceCell::<u32>::new());
    let running = cell.clone();
    let mut initialiser: BoxFuture<()> = Box::pin(async move {
        running.get_or_init(async || std::future::pending().await).await;
    });
    assert!(poll_with(&mut initialiser, Waker::noop()).is_pending());
    let wait = move |_| -> BoxFuture<()> {
        let cell = cell.clone();
        Box::pin(async move {
            let _ = cell.get_or_try_init(async || Err(())).await;
        })
    };
    scene("once cell", wait, || drop(initialiser))
}

fn condvar(name: &'static str, notify: fn(&Condvar)) -> Scene {
    let pair = Arc::new((Arc::new(Mutex::new(())), Condvar::new()));
    let waited = pair.clone();
    let wait = move |_| -> BoxFuture<()> {
        let pair = waited.clone();
        Box::pin(async move {
            let guard = pair.0.clone().lock_owned().await;
            let guard = pair.1.wait(guard).await;
            drop(guard);
            // So that a single notification goes on to the next.
            pair.1.notify_one();
        })
    };
    scene(name, wait, move || notify(&pair.1))
}

fn countdowns() -> [Scene; 2] {
    let (group, latch) = (Arc::new(WaitGroup::new()), Arc::new(Latch::new(1)));
    group.add(1);
    let (grouped, latched) = (group.clone(), latch.clone());
    let group_wait = move |_| -> BoxFuture<()> {
        let group = grouped.clone();
        Box::pin(async move { group.wait().await })
    };
    let latch_wait = move |_| -> BoxFuture<()> {
        let latch = latched.clone();
        Box::pin(async move { latch.wait().await })
    };
    [
        scene("wait group", group_wait, move || group.done()),
        scene("latch", latch_wait, move || latch.count_down()),
    ]
}

fn barrier(parties: usize) -> Scene {
    let barrier = Arc::new(Barrier::new(parties + 1));
    let waited = barrier.clone();
    let wait = move |_| -> BoxFuture<()> {
        let barrier = waited.clone();
        Box::pin(async move {
            barrier.arrive_and_wait().await;
        })
    };
    scene("barrier", wait, move || {
        let mut last: BoxFuture<()> = Box::pin(async move {
            barrier.arrive_and_wait().await;
        });
        assert!(poll_with(&mut last, Waker::noop()).is_ready());
    })
}

fn cancellation() -> Scene {
    let source = CancellationSource::new();
    let token = source.token();
    let wait = move |_| -> BoxFuture<()> {
        let token = token.child().token();
        Box::pin(async move { token.on_cancel().await })
    };
    scene("cancellation", wait, move || source.request_cancel())
}

fn scenes(tasks: usize) -> Vec<Scene> {
    let mut all = vec![
        mutex::<Fifo>("mutex, fifo"),
        mutex::<Lifo>("mutex, lifo"),
        mutex::<Bypass>("mutex, bypass"),
        mutex::<Revocable>("mutex, revocable"),
        semaphore::<Fifo>("semaphore, fifo", |_| 3),
        semaphore::<Fifo>("semaphore, mixed", |n| n % 3 + 1),
        semaphore::<Bypass>("semaphore, bypass", |n| n % 3 + 1),
        rwlock("writers", |_| 0),
        rwlock("upgradable readers", |_| 1),
        rwlock("all kinds", |n| n % 3),
        reentrant(),
        locks_in_a_row(),
        event("event, auto", Event::auto()),
        event("event, manual", Event::manual()),
        once_cell(),
        condvar("condvar, one", Condvar::notify_one),
        condvar("condvar, all", Condvar::notify_all),
        barrier(tasks),
        cancellation(),
    ];
    all.extend(countdowns());
    all
}

/// What a waker does before it returns.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deed {
    DropIt,
    PollIt,
    Panic,
}

/// A panic with one of these is two: its drop is the second.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a payload that panics when it is dropped");
    }
}

/// A task that is in its own waker.
struct Task {
    future: StdMutex<Option<BoxFuture<()>>>,
    deed: Deed,
    woken: AtomicBool,
    ended: Arc<AtomicUsize>,
}

impl Task {
    fn spawn(future: BoxFuture<()>, deed: Deed, ended: &Arc<AtomicUsize>) -> Arc<Self> {
        never_yields();
        let task = Arc::new(Self {
            future: StdMutex::new(Some(future)),
            deed,
            woken: AtomicBool::new(false),
            ended: ended.clone(),
        });
        assert!(task.poll().is_pending());
        task
    }

    fn take(&self) -> Option<BoxFuture<()>> {
        self.future.lock().unwrap().take()
    }

    fn end(&self, future: BoxFuture<()>) {
        self.ended.fetch_add(1, Relaxed);
        drop(future);
    }

    /// Until it is not woken meanwhile.
    fn poll(self: &Arc<Self>) -> Poll<()> {
        let waker = Waker::from(self.clone());
        loop {
            let Some(mut future) = self.take() else { return Poll::Pending };
            self.woken.store(false, Relaxed);
            if poll_with(&mut future, &waker).is_ready() {
                self.end(future);
                return Poll::Ready(());
            }
            *self.future.lock().unwrap() = Some(future);
            if !self.woken.load(Relaxed) {
                return Poll::Pending;
            }
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Relaxed);
        match self.deed {
            Deed::DropIt => self.take().into_iter().for_each(|future| self.end(future)),
            Deed::PollIt => {
                let _ = self.poll();
            }
            Deed::Panic => panic_any(Bomb),
        }
    }
}

/// The tasks of a scene, all waiting.
fn wait_all(scene: &Scene, tasks: usize, deed: Deed, ended: &Arc<AtomicUsize>) -> Vec<Arc<Task>> {
    (0..tasks).map(|n| Task::spawn((scene.task)(n), deed, ended)).collect()
}

fn every_chain(deed: Deed) {
    let _dog = watchdog(240);
    on_a_small_stack(move || {
        for scene in scenes(MANY) {
            let (name, ended) = (scene.name, Arc::new(AtomicUsize::new(0)));
            let tasks = wait_all(&scene, MANY, deed, &ended);
            (scene.release)();
            assert_eq!(ended.load(Relaxed), MANY, "{name}: how many were reached");
            drop(tasks);
        }
    });
}

/// R11-6: a shut down executor drops each task in its wake.
#[test]
fn a_chain_of_drops_does_not_grow_the_stack() {
    alone(|| {
        every_chain(Deed::DropIt);
    });
}

/// The same with an executor that polls in the wake.
#[test]
fn a_chain_of_polls_does_not_grow_the_stack() {
    alone(|| {
        every_chain(Deed::PollIt);
    });
}

/// Runs it; a panic may go on from it, and what that carries is not dropped.
fn survive(call: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(call)).map_err(std::mem::forget).is_err()
}

/// R11-5: every waker panics, with a payload that panics again. The first panic is heard of, and nothing is lost by the others: when
/// all tasks are gone, what they waited for is free.
#[test]
fn payloads_that_panic_when_they_are_dropped() {
    const TASKS: usize = 40;
    let _dog = watchdog(60);
    for scene in scenes(TASKS) {
        let (name, ended) = (scene.name, Arc::new(AtomicUsize::new(0)));
        let tasks = wait_all(&scene, TASKS, Deed::Panic, &ended);
        assert!(survive(scene.release), "{name}: the panic of a waker goes on");
        let (polled, dropped) = tasks.split_at(TASKS / 2);
        for task in polled {
            survive(|| {
                let _ = task.poll();
            });
        }
        // A task that was granted something and is dropped passes it on, which wakes another.
        for task in polled.iter().chain(dropped) {
            survive(|| drop(task.take()));
        }
        let waits_anyway = name.starts_with("condvar") || name == "barrier";
        let next = poll_with(&mut (scene.task)(0), Waker::noop());
        assert_eq!(next.is_pending(), waits_anyway, "{name}: what was granted to a task that is gone");
    }
}

/// Calls from further down the stack than wakes may nest.
fn deep_down<R>(call: impl FnOnce() -> R) -> R {
    let pad = std::hint::black_box([0_u8; 64 << 10]);
    let result = call();
    std::hint::black_box(pad);
    result
}

/// A waker that waits for the effect of a wake that its own thread keeps: the wake is made before the thread sleeps.
#[test]
fn a_thread_that_blocks_makes_the_wakes_that_it_keeps() {
    let _dog = watchdog(30);
    let (outer, inner, event) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())), Arc::new(Event::auto()));
    let held = StdMutex::new(Some(inner.clone().try_lock_owned().unwrap()));
    let (waits, sets) = (Spy::new(), Spy::new());
    sets.on(Call::Wake, {
        let event = event.clone();
        move || event.set()
    });
    waits.on(Call::Wake, move || {
        drop(held.lock().unwrap().take());
        event.wait().block();
    });
    // The measure of this thread: a wake from here.
    let shallow = Event::auto();
    let mut measured = Box::pin(shallow.wait());
    pending(&mut measured, &Spy::new());
    shallow.set();
    let guard = outer.try_lock().unwrap();
    let (mut first, mut second) = (Box::pin(outer.lock()), Box::pin(inner.lock()));
    pending(&mut first, &waits);
    pending(&mut second, &sets);
    waits.arm(1);
    sets.arm(1);
    deep_down(|| drop(guard));
    drop((ready(&mut first), ready(&mut second)));
}
