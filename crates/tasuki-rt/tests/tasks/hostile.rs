//! Wakers that do anything, on everything of the runtime that keeps one: B121, B131, B133; and threads that end (B085).

use crate::kit::waker::{Call, Spy};
use crate::kit::{Drops, MS, poll_with, runtime, scaled, until, watchdog};
use std::cell::RefCell;
use std::future::{Future, pending, poll_fn};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, RawWaker, RawWakerVTable, Waker};
use std::thread;
use std::time::Duration;
use tasuki::Event;
use tasuki_rt::{EventLoop, JoinHandle, JoinSet, Runtime, WorkerId, interval, sleep, yield_now};

/// What a hostile waker does when it is called.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deed {
    /// Uses the runtime: spawns, aborts, posts, counts.
    Meddles,
    Panics,
}

fn hostile(call: Call, deed: Deed, runtime: &Arc<Runtime>) -> Spy {
    let runtime = runtime.clone();
    Spy::hostile(call, move || {
        if deed == Deed::Panics {
            panic!("a hostile waker");
        }
        drop(runtime.spawn(async {}));
        runtime.spawn(pending::<()>()).abort();
        runtime.for_each_worker(|worker| drop(runtime.spawn_on(worker, yield_now)));
        assert!(runtime.tasks() < 1_000_000);
    })
}

/// A hostile waker and a harmless one, to replace each other. It is hostile once at a time: of two panics, one while the other
/// unwinds, the process would end.
struct Pair([Spy; 2]);

impl Pair {
    /// Calls foreign code; a panic of one of the wakers may come out.
    fn provoke<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        self.0[0].arm(1);
        let result = catch_unwind(AssertUnwindSafe(f)).ok();
        self.0[0].arm(0);
        result
    }

    /// Polls with one waker after the other, so that each replaces the one before.
    fn poll<F: Future + Unpin>(&self, future: &mut F) -> Option<F::Output> {
        [&self.0[0], &self.0[1], &self.0[0]].into_iter().find_map(|spy| {
            let waker = spy.waker();
            match self.provoke(|| poll_with(future, &waker)) {
                Some(Poll::Ready(output)) => Some(output),
                _ => None,
            }
        })
    }

    /// Polls with them, lets time pass in which others call them, and polls in peace: one that panics at every poll must not stop
    /// it for ever.
    async fn poll_twice<F: Future + Unpin>(&self, future: &mut F) -> Option<F::Output> {
        if let Some(output) = self.poll(future) {
            return Some(output);
        }
        self.0[0].arm(1);
        sleep(scaled(1, 400) as u32 * MS / 2).await;
        self.0[0].arm(0);
        match catch_unwind(AssertUnwindSafe(|| poll_with(future, Waker::noop()))) {
            Ok(Poll::Ready(output)) => Some(output),
            // An async function that has panicked is at its end.
            _ => None,
        }
    }

    fn let_go<T>(&self, value: T) {
        self.provoke(|| drop(value));
    }
}

async fn join_all(pair: &Pair, handle: &mut JoinHandle<()>, set: &mut JoinSet<()>) {
    loop {
        if let Some(result) = pair.poll_twice(handle).await {
            break result.unwrap();
        }
    }
    let (mut joined, mut calm) = (0, false);
    while joined < 3 {
        // Dropped and made again: it loses no result, also when a panic has ended it.
        let mut next = Box::pin(set.join_next());
        let result = if calm { Some(next.as_mut().await) } else { pair.poll_twice(&mut next).await };
        calm = !calm;
        joined += result.map_or(0, |result| usize::from(result.expect("three were inserted").is_ok()));
        pair.let_go(next);
    }
}

/// Sleeps and ticks on the wheel of a worker.
async fn keep_time(pair: &Pair, call: Call) {
    let mut long = Box::pin(sleep(60_000 * MS));
    assert!(pair.poll(&mut long).is_none());
    pair.let_go(long);
    let mut short = Box::pin(sleep(2 * MS));
    while pair.poll_twice(&mut short).await.is_none() {}
    // Armed until the wheel has called it: that it does is the property.
    if call == Call::Wake {
        let mut due = Box::pin(sleep(2 * MS));
        let waker = pair.0[0].waker();
        // Before the poll: the deadline may have come when that returns.
        pair.0[0].arm(1);
        assert!(poll_with(&mut due, &waker).is_pending());
        while !pair.0[0].fired() {
            sleep(MS / 2).await;
        }
        pair.0[0].arm(0);
    }
    // A yield wakes by reference.
    let waker = pair.0[0].waker();
    pair.provoke(|| poll_with(&mut Box::pin(yield_now()), &waker));
    let mut ticks = interval(2 * MS);
    for _ in 0..3 {
        let mut tick = Box::pin(ticks.tick());
        let ticked = pair.poll_twice(&mut tick).await.is_some();
        pair.let_go(tick);
        if !ticked {
            ticks.tick().await;
        }
    }
}

#[test]
fn everything_that_keeps_a_waker_survives_it() {
    let _dog = watchdog(120);
    for (call, deed) in Call::ALL.into_iter().flat_map(|call| [(call, Deed::Meddles), (call, Deed::Panics)]) {
        let runtime = Arc::new(runtime(2));
        runtime.start().unwrap();
        let pair = Arc::new(Pair([hostile(call, deed, &runtime), Spy::new()]));
        let gate = Arc::new(Event::manual());
        let wait = || {
            let gate = gate.clone();
            runtime.spawn(async move { gate.wait().await })
        };
        let (mut handle, mut dropped, mut set) = (wait(), wait(), JoinSet::new());
        (0..3).for_each(|_| set.insert(wait()));
        assert!(pair.poll(&mut handle).is_none() && pair.poll(&mut dropped).is_none());
        pair.let_go(dropped);
        let mut next = Box::pin(set.join_next());
        assert!(pair.poll(&mut next).is_none());
        pair.let_go(next);
        // A handle wakes by value: armed until that has come, for whatever else the end of the task does is a race with us.
        pair.provoke(|| {
            gate.set();
            until(|| call != Call::Wake || pair.0[0].fired());
        });
        runtime.block_on(join_all(&pair, &mut handle, &mut set));
        let timed = {
            let pair = pair.clone();
            runtime.spawn_on(WorkerId::new(0), move || async move { keep_time(&pair, call).await })
        };
        runtime.block_on(timed).unwrap();
        assert!(pair.0[0].fired(), "{call:?} was never called");
        until(|| runtime.tasks() == 0);
        assert_eq!(runtime.block_on(runtime.spawn(async { 1 })).unwrap(), 1);
    }
}

/// A waker that only looks like the one that the poll was given: the same data, or none, and another table. It is foreign, so its
/// panics go no further.
#[test]
fn a_waker_with_the_data_of_ours_is_not_ours() {
    static HOSTILE: RawWakerVTable = RawWakerVTable::new(
        |data| RawWaker::new(data, &HOSTILE),
        |_| panic!("a hostile waker"),
        |_| panic!("a hostile waker"),
        |_| panic!("a hostile waker"),
    );
    fn poll_hostile<T>(handle: &mut JoinHandle<T>, data: *const ()) {
        // SAFETY: the functions of the table do nothing with the data, so any will do.
        let waker = ManuallyDrop::new(unsafe { Waker::new(data, &HOSTILE) });
        assert!(poll_with(handle, &waker).is_pending());
    }
    let _dog = watchdog(60);
    let runtime = runtime(2);
    let gate = Arc::new(Event::manual());
    let wait = || {
        let gate = gate.clone();
        runtime.spawn(async move { gate.wait().await })
    };
    // In a posted closure no poll has been given a waker.
    let there = runtime.block_on(runtime.spawn(async { EventLoop::current().unwrap() })).unwrap();
    let (mut handle, told) = (wait(), Arc::new(Event::manual()));
    let tells = told.clone();
    let job = move || {
        poll_hostile(&mut handle, ptr::null());
        std::mem::forget(handle);
        tells.set();
    };
    there.post(job).unwrap();
    runtime.block_on(told.wait());
    // In a task, and in `block_on`, one has.
    let mut handle = wait();
    let inside = runtime.spawn(poll_fn(move |cx| {
        poll_hostile(&mut handle, ptr::null());
        poll_hostile(&mut handle, cx.waker().data());
        handle.abort();
        Poll::Ready(())
    }));
    runtime.block_on(inside).unwrap();
    let mut handle = wait();
    runtime.block_on(poll_fn(|cx| {
        poll_hostile(&mut handle, cx.waker().data());
        Poll::Ready(())
    }));
    gate.set();
    until(|| runtime.tasks() == 0 && handle.is_finished());
    assert_eq!(runtime.block_on(runtime.spawn(async { 1 })).unwrap(), 1);
}

/// A handle that is dropped lets go of the waker it was polled with, at once; its task wakes nothing when it ends.
#[test]
fn a_dropped_handle_keeps_no_waker() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    runtime.start().unwrap();
    let gate = Arc::new(Event::manual());
    let wait = || {
        let gate = gate.clone();
        runtime.spawn(async move { gate.wait().await })
    };
    let foreign = Spy::new();
    let mut handles: Vec<_> = (0..scaled(100, 3)).map(|_| wait()).collect();
    let waker = foreign.waker();
    handles.iter_mut().for_each(|handle| assert!(poll_with(handle, &waker).is_pending()));
    drop(waker);
    assert_eq!(foreign.alive(), handles.len() as isize);
    drop(handles);
    assert_eq!(foreign.alive(), 0);
    // A task that gave its own waker to a handle, and dropped that, is not polled again when the other ends.
    let polls = Arc::new(AtomicUsize::new(0));
    let (mut handle, counted) = (Some(wait()), polls.clone());
    drop(runtime.spawn(poll_fn(move |cx| {
        if let Some(mut handle) = handle.take() {
            assert!(poll_with(&mut handle, cx.waker()).is_pending());
        }
        counted.fetch_add(1, Ordering::SeqCst);
        Poll::<()>::Pending
    })));
    until(|| polls.load(Ordering::SeqCst) == 1);
    gate.set();
    until(|| runtime.tasks() == 1);
    (0..100).for_each(|_| runtime.block_on(runtime.spawn(yield_now())).unwrap());
    assert_eq!((polls.load(Ordering::SeqCst), foreign.wakes(), foreign.alive()), (1, 0, 0));
}

/// B121: a wake that comes when a task has been entered and not been polled, or while it is, is not lost.
#[test]
fn a_wake_at_any_moment_of_a_poll_counts() {
    const ROUNDS: usize = scaled(20_000, 30);
    let _dog = watchdog(120);
    let runtime = runtime(2);
    for pinned in [false, true] {
        let (said, heard) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let slot = Arc::new(std::sync::Mutex::new(None::<Waker>));
        let body = {
            let (said, heard, slot) = (said.clone(), heard.clone(), slot.clone());
            poll_fn(move |cx| {
                *slot.lock().unwrap() = Some(cx.waker().clone());
                heard.store(said.load(Ordering::SeqCst), Ordering::SeqCst);
                if heard.load(Ordering::SeqCst) == ROUNDS { Poll::Ready(()) } else { Poll::Pending }
            })
        };
        let task = if pinned { runtime.spawn_on(WorkerId::new(1), || body) } else { runtime.spawn(body) };
        runtime.start().unwrap();
        until(|| slot.lock().unwrap().is_some());
        for round in 1..=ROUNDS {
            said.store(round, Ordering::SeqCst);
            let waker = slot.lock().unwrap().clone();
            waker.expect("polled once").wake();
            // Every third is waited for; the others meet the poll of the one before.
            while round % 3 == 0 && heard.load(Ordering::SeqCst) < round {
                thread::yield_now();
            }
        }
        runtime.block_on(task).unwrap();
    }
}

/// B085: the destructor of a thread's own storage wakes, spawns, polls and lets go of tasks, when everything else of the thread is gone.
#[test]
fn a_thread_that_ends_may_use_the_runtime() {
    struct Last(RefCell<Option<Box<dyn FnOnce()>>>);
    impl Drop for Last {
        fn drop(&mut self) {
            self.0.take().expect("set before")();
        }
    }
    thread_local!(static LAST: Last = const { Last(RefCell::new(None)) });
    let _dog = watchdog(60);
    let (runtime, drops, woken) = (Arc::new(runtime(2)), Drops::default(), Arc::new(Event::manual()));
    let (inner, held, event) = (runtime.clone(), drops.one(), woken.clone());
    let waiting = runtime.spawn({
        let woken = woken.clone();
        async move { woken.wait().await }
    });
    runtime.start().unwrap();
    thread::spawn(move || {
        LAST.with(|last| {
            *last.0.borrow_mut() = Some(Box::new(move || {
                event.set();
                drop(inner.spawn(async move { drop(held) }));
                let mut sleep = Box::pin(sleep(Duration::from_secs(60)));
                assert!(poll_with(&mut sleep, Waker::noop()).is_pending());
                inner.block_on(yield_now());
                drop(inner);
            }));
        });
    })
    .join()
    .unwrap();
    runtime.block_on(waiting).unwrap();
    until(|| drops.count() == 1);
}

/// A runtime inside a task of another is as much of a mistake as its own; nothing else is lost.
#[test]
fn other_runtimes_inside_a_task() {
    let _dog = watchdog(60);
    let (runtime, other) = (runtime(1), Arc::new(crate::kit::runtime(1)));
    let inner = other.clone();
    let nested = runtime.block_on(runtime.spawn(async move { inner.block_on(async {}) })).unwrap_err();
    assert!(nested.is_panic() && nested.to_string().contains("`block_on` inside a task"), "{nested}");
    let nested = runtime.block_on(runtime.spawn(async { tasuki_rt::run(async {}) })).unwrap_err();
    assert!(nested.is_panic() && nested.to_string().contains("`block_on` inside a task"), "{nested}");
    // To spawn there, and to wait for it, is none.
    let inner = other.clone();
    other.start().unwrap();
    let across = runtime.spawn(async move { inner.spawn(async { 5 }).await.unwrap() });
    assert_eq!(runtime.block_on(across).unwrap(), 5);
    // What a runtime that has shut down is given is dropped, not run.
    let drops = Drops::default();
    other.shutdown_timeout(Duration::MAX).unwrap();
    let (held, set) = (drops.one(), drops.one());
    let blocking = other.spawn_blocking(move || drop(held));
    let pinned = other.spawn_on(WorkerId::new(0), move || async move { drop(set) });
    assert_eq!(drops.count(), 2);
    assert!(runtime.block_on(blocking).unwrap_err().is_shut_down());
    assert!(runtime.block_on(pinned).unwrap_err().is_shut_down());
}
