//! What the tasks share, and what must be true of it.

use crate::task_log::{Chaos, TaskLog};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::task::Waker;
use tasuki::policy::{Bypass, Lifo};
use tasuki::{CancellationSource, Condvar, Event, Mutex, OnceCell, ReentrantMutex, RwLock, Semaphore};
use tasuki_rt::{JoinError, JoinHandle};

/// Two numbers that are equal whenever no task is inside.
#[derive(Debug, Default)]
pub(crate) struct Pair(u64, u64);

impl Pair {
    pub(crate) fn read(&self) -> u64 {
        assert_eq!(self.0, self.1, "another task was inside at the same time");
        self.0
    }

    /// Without an await: a task that is aborted has done both or nothing.
    pub(crate) fn add(&mut self, count: &AtomicU64) {
        self.0 += 1;
        self.1 += 1;
        count.fetch_add(1, SeqCst);
    }
}

/// How many permits there are.
pub(crate) const SEATS: usize = 4;

/// Counts who is inside, and leaves when dropped.
pub(crate) struct Seated<'a>(&'a AtomicUsize, usize);

impl<'a> Seated<'a> {
    pub(crate) fn new(inside: &'a AtomicUsize, seats: usize) -> Self {
        let before = inside.fetch_add(seats, SeqCst);
        assert!(before + seats <= SEATS, "{} permits of {SEATS} are held", before + seats);
        Self(inside, seats)
    }
}

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, SeqCst);
    }
}

/// A closure that was posted: run or dropped, it is counted once.
pub(crate) struct Posted(pub(crate) Arc<SharedState>);

impl Drop for Posted {
    fn drop(&mut self) {
        self.0.posts_gone.fetch_add(1, SeqCst);
    }
}

/// The two semaphores, all permits there.
#[derive(Debug)]
pub(crate) struct Seats {
    pub(crate) fifo: Semaphore,
    pub(crate) bypass: Semaphore<Bypass<8>>,
}

impl Default for Seats {
    fn default() -> Self {
        Self { fifo: Semaphore::new(SEATS), bypass: Semaphore::with_policy(SEATS) }
    }
}

/// Connections at once: each has two or three descriptors, and a process may have a thousand.
pub(crate) const LINES: usize = 64;

/// The connections that may still be made.
#[derive(Debug)]
pub(crate) struct Lines(Semaphore);

impl Default for Lines {
    fn default() -> Self {
        Self(Semaphore::new(LINES))
    }
}

impl std::ops::Deref for Lines {
    type Target = Semaphore;

    fn deref(&self) -> &Semaphore {
        &self.0
    }
}

#[derive(Debug, Default)]
pub(crate) struct SharedState {
    pub(crate) log: Arc<TaskLog>,
    pub(crate) stop: CancellationSource,
    pub(crate) fifo: Mutex<Pair>,
    pub(crate) lifo: Mutex<Pair, Lifo>,
    pub(crate) bypass: Mutex<Pair, Bypass<8>>,
    pub(crate) rwlock: RwLock<Pair>,
    /// How often each of the four was added to.
    pub(crate) added: [AtomicU64; 4],
    pub(crate) seats: Seats,
    pub(crate) seated: [AtomicUsize; 2],
    pub(crate) auto: Event,
    pub(crate) auto_set: AtomicU64,
    pub(crate) auto_seen: AtomicU64,
    pub(crate) manual: Event,
    pub(crate) basket: Mutex<VecDeque<u64>>,
    pub(crate) filled: Condvar,
    pub(crate) put: AtomicU64,
    pub(crate) taken: AtomicU64,
    pub(crate) once: OnceCell<u64>,
    pub(crate) inits: AtomicU64,
    pub(crate) nested: ReentrantMutex<AtomicU64>,
    pub(crate) posts: AtomicU64,
    pub(crate) posts_gone: AtomicU64,
    /// How many connections there may be at once.
    pub(crate) lines: Lines,
    /// Bytes that came through sockets, each checked.
    pub(crate) received: AtomicU64,
    /// Handles that any task may take, await, abort or drop.
    handles: StdMutex<Vec<JoinHandle<u64>>>,
    /// Wakers of tasks that may be gone, for threads to call.
    wakers: StdMutex<Vec<Waker>>,
}

impl SharedState {
    pub(crate) fn new() -> Self {
        Self { auto: Event::auto(), manual: Event::manual(), ..Self::default() }
    }

    /// Keeps a handle; the one that has been there longest goes when there are many.
    pub(crate) fn keep(&self, handle: JoinHandle<u64>, at: usize) {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        if handles.len() < 256 {
            return handles.push(handle);
        }
        let at = at % handles.len();
        let old = std::mem::replace(&mut handles[at], handle);
        drop(handles);
        drop(old);
    }

    pub(crate) fn take(&self, at: usize) -> Option<JoinHandle<u64>> {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let len = handles.len();
        (len > 0).then(|| handles.swap_remove(at % len))
    }

    pub(crate) fn keep_waker(&self, waker: Waker) {
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.push(waker);
        let old = if wakers.len() > 256 { wakers.drain(..128).collect() } else { Vec::new() };
        drop(wakers);
        drop(old);
    }

    pub(crate) fn take_wakers(&self) -> Vec<Waker> {
        std::mem::take(&mut *self.wakers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A result must be one that can be: `number` of the task, or the panic that was meant, or an end that was wanted.
    pub(crate) fn judge(&self, result: Result<u64, JoinError>) {
        match result {
            Ok(number) => assert!(number < self.log.opened.load(SeqCst)),
            Err(error) if error.is_panic() => {
                assert!(
                    error.into_panic().is_ok_and(|payload| payload.is::<Chaos>()),
                    "a panic that was not meant"
                );
            }
            Err(error) => assert!(error.is_aborted() || error.is_shut_down(), "{error}"),
        }
    }

    /// All tasks have left: all is free, and the sums agree.
    pub(crate) fn check(&self) {
        self.log.check();
        let pairs = [
            self.fifo.try_lock().expect("free").read(),
            self.lifo.try_lock().expect("free").read(),
            self.bypass.try_lock().expect("free").read(),
            self.rwlock.try_write().expect("free").read(),
        ];
        assert_eq!(pairs, self.added.each_ref().map(|added| added.load(SeqCst)), "an addition was lost");
        assert_eq!(self.seats.fifo.available_permits(), SEATS);
        assert_eq!(self.seats.bypass.available_permits(), SEATS);
        assert_eq!(self.seated.each_ref().map(|seated| seated.load(SeqCst)), [0, 0]);
        assert_eq!(self.lines.available_permits(), LINES, "a connection is missing");
        let (set, seen) = (self.auto_set.load(SeqCst), self.auto_seen.load(SeqCst));
        assert!(seen <= set, "{set} signals were seen {seen} times");
        let left = self.basket.try_lock().expect("free").len() as u64;
        assert_eq!(self.put.load(SeqCst), self.taken.load(SeqCst) + left);
        assert_eq!(self.inits.load(SeqCst), u64::from(self.once.get().is_some()));
        assert_eq!(self.posts.load(SeqCst), self.posts_gone.load(SeqCst), "a posted closure is missing");
    }
}
