//! How long a queue stays locked: a call that releases, refuses or passes over many waiters unlocks it in between, so that no other caller waits for all of them.
//!
//! Built with `--cfg tasuki_counts` by `cargo xtask counts`, as `counts.rs`.
#![cfg(tasuki_counts)]

use super::counts::{now, poll, wait};
use std::future::Future;
use tasuki::{
    AccessKind, Barrier, CancellationSource, Condvar, Event, Latch, Mutex, OnceCell, RwLock,
    RwLockWriteGuard, Semaphore, WaitGroup, channel, trace,
};

/// What one call does.
struct Holds {
    /// The most accesses that this thread makes between two locked operations. A queue is locked and unlocked by one each, so no hold of it has more.
    longest: usize,
    /// Its locked operations. Links of the list and marks of waiters are no atomics: a hold that looks at all waiters shows in that it is one.
    locked: usize,
}

impl Holds {
    fn of(call: impl FnOnce()) -> Self {
        let accesses = trace(call);
        let parts = || accesses.split(|access| access.kind == AccessKind::Locked);
        Self { longest: parts().map(<[_]>::len).max().unwrap_or_default(), locked: parts().count() - 1 }
    }

    /// Of a call after which all of these waits are ready.
    fn of_release<F: Future>(waits: impl IntoIterator<Item = F>, release: impl FnOnce()) -> Self {
        let mut waiting: Vec<_> = waits.into_iter().map(Box::pin).collect();
        waiting.iter_mut().for_each(|future| wait(future.as_mut()));
        let holds = Self::of(release);
        assert!(waiting.iter_mut().all(|future| poll(future.as_mut()).is_ready()), "all are released");
        holds
    }
}

/// A call that releases, refuses or passes over so many waiters.
type Row = (&'static str, fn(usize) -> Holds);

/// Every such call of the primitives, one for each way through the queue.
const ROWS: [Row; 18] = [
    ("`Event`: set", |waiters| {
        let event = Event::manual();
        Holds::of_release((0..waiters).map(|_| event.wait()), || event.set())
    }),
    ("`WaitGroup`: done", |waiters| {
        let group = WaitGroup::new();
        group.add(1);
        Holds::of_release((0..waiters).map(|_| group.wait()), || group.done())
    }),
    ("`Latch`: count_down", |waiters| {
        let latch = Latch::new(1);
        Holds::of_release((0..waiters).map(|_| latch.wait()), || latch.count_down())
    }),
    ("`Barrier`: the last arrives", |waiters| {
        let barrier = Barrier::new(waiters + 1);
        let others = (0..waiters).map(|_| barrier.arrive_and_wait());
        Holds::of_release(others, || assert!(now(barrier.arrive_and_wait()).is_leader()))
    }),
    ("`CancellationSource`: request_cancel", |waiters| {
        let source = CancellationSource::new();
        let token = source.token();
        Holds::of_release((0..waiters).map(|_| token.on_cancel()), || source.request_cancel())
    }),
    ("`Semaphore`: release", |waiters| {
        let semaphore = Semaphore::new(0);
        Holds::of_release((0..waiters).map(|_| semaphore.acquire()), || semaphore.release(waiters))
    }),
    ("`Semaphore`: close", |waiters| {
        let semaphore = Semaphore::new(0);
        Holds::of_release((0..waiters).map(|_| semaphore.acquire()), || _ = semaphore.close())
    }),
    ("`RwLock`: a writer leaves, readers wait", |readers| {
        let lock = RwLock::new(());
        let writer = lock.try_write();
        Holds::of_release((0..readers).map(|_| lock.read()), || drop(writer))
    }),
    ("`RwLock`: a writer is cancelled before readers", |readers| {
        let lock = RwLock::new(());
        let _reader = lock.try_read();
        let mut writer = Box::pin(lock.write());
        wait(writer.as_mut());
        Holds::of_release((0..readers).map(|_| lock.read()), || drop(writer))
    }),
    ("`RwLock`: downgrade before readers", |readers| {
        let lock = RwLock::new(());
        let writer = lock.try_write().unwrap();
        let mut reader = None;
        Holds::of_release((0..readers).map(|_| lock.read()), || {
            reader = Some(RwLockWriteGuard::downgrade(writer));
        })
    }),
    ("`Semaphore`: a large request is cancelled before small ones", |small| {
        let semaphore = Semaphore::new(small);
        let mut large = Box::pin(semaphore.acquire_many(small + 1));
        wait(large.as_mut());
        Holds::of_release((0..small).map(|_| semaphore.acquire()), || drop(large))
    }),
    ("`OnceCell`: the value is there", |waiters| {
        let cell = OnceCell::new();
        Holds::of_release((0..waiters).map(|_| cell.wait()), || cell.set(1).unwrap())
    }),
    ("`OnceCell`: a turn fails, the next is behind waits for the value", |waiters| {
        let cell = OnceCell::<u8>::new();
        let never = || Box::pin(cell.get_or_init(async || std::future::pending().await));
        let (mut first, mut second) = (never(), never());
        wait(first.as_mut());
        // The first that waits for a turn is the front of the queue, the others go to its end.
        wait(second.as_mut());
        let mut waiting: Vec<_> = (0..waiters).map(|_| Box::pin(cell.wait())).collect();
        waiting.iter_mut().for_each(|future| wait(future.as_mut()));
        let mut last = Box::pin(cell.get_or_init(async || 1));
        wait(last.as_mut());
        drop(first);
        wait(second.as_mut());
        let holds = Holds::of(|| drop(second));
        assert!(poll(last.as_mut()).is_ready(), "it has the turn");
        holds
    }),
    ("`Condvar`: notify_all, and the move", |waiters| {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        let queued = |_| {
            let mut future = Box::pin(condvar.wait(mutex.try_lock().unwrap()));
            wait(future.as_mut());
            future
        };
        let mut waiting: Vec<_> = (0..waiters).map(queued).collect();
        // The first moves all of them to the queue of the mutex, and has the lock.
        Holds::of(|| {
            condvar.notify_all();
            assert!(poll(waiting[0].as_mut()).is_ready());
        })
    }),
    ("channel: close, with receivers", |receivers| {
        let (_sender, receiver) = channel::bounded::<u8>(1);
        Holds::of_release((0..receivers).map(|_| receiver.recv()), || _ = receiver.close())
    }),
    ("channel: close, with senders", |senders| {
        let (sender, receiver) = channel::bounded::<u8>(1);
        sender.try_send(0).unwrap();
        Holds::of_release((0..senders).map(|_| sender.send(1)), || _ = receiver.close())
    }),
    ("rendezvous: close, with receivers", |receivers| {
        let (_sender, receiver) = channel::rendezvous::<u8>();
        Holds::of_release((0..receivers).map(|_| receiver.recv()), || _ = receiver.close())
    }),
    ("rendezvous: close, with senders", |senders| {
        let (sender, receiver) = channel::rendezvous::<u8>();
        Holds::of_release((0..senders).map(|_| sender.send(1)), || _ = receiver.close())
    }),
];

/// Of how many waiters one hold of a queue takes care at most; a hold has two locked operations, or shares them.
const MOST: usize = 64;

/// However many waiters one call releases or passes over, no hold of a queue is longer for it, and none has them all.
#[test]
fn no_hold_of_a_queue_grows_with_the_waiters() {
    const WAITERS: usize = 20_000;
    for (name, holds) in ROWS {
        let (some, many) = (holds(1_000), holds(WAITERS));
        println!(
            "{name}: at most {} accesses in a row beside 1,000 waiters, {} beside {WAITERS}, by {} locked operations",
            some.longest, many.longest, many.locked
        );
        assert!(many.longest <= some.longest, "{name}: a hold grows with the waiters");
        assert!(
            WAITERS <= MOST * many.locked,
            "{name}: {} locked operations for {WAITERS} waiters",
            many.locked
        );
    }
}
