//! Interrupt handlers, here signals, that call what does not wait, at any moment of the thread that they interrupt: also while it has a
//! queue locked, or is between two steps of an operation. With the feature `critical-section`, whose implementation here blocks the signal.
//!
//! Every function that does not wait has a row in [`CALLS`]; the list of what users can name says which there are. Random signals find what is long; on x86-64 the processor itself interrupts
//! after each instruction (its trap flag), and every call of the table is made between any two instructions that no section covers.
//!
//! `RUSTFLAGS="--cfg tasuki_interrupts" cargo test -p tasuki --features critical-section --test process interrupt`
#![cfg(target_os = "linux")]

#[cfg(target_arch = "x86_64")]
mod deep_wakes;

use crate::kit::process::alone;
use crate::kit::watchdog::watchdog;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Waker};
use tasuki::channel::Channel;
use tasuki::policy::{Bypass, Lifo, Revocable};
use tasuki::runtime::poll_ended;
use tasuki::{
    Barrier, CancellationSource, CancellationToken, Condvar, Event, Latch, Mutex, OnceCell, Parker,
    ReentrantMutex, RwLock, RwLockUpgradableReadGuard, Semaphore, Unparker, WaitGroup, task,
};

const SIGUSR1: i32 = 10;
#[cfg(target_arch = "x86_64")]
const SIGTRAP: i32 = 5;
const SIG_BLOCK: i32 = 0;
const SIG_UNBLOCK: i32 = 1;
/// So many must be handled. Most of the time the thread has a queue locked, or is about to.
const INTERRUPTS: u64 = 2_000;

type SignalSet = [u64; 16];

unsafe extern "C" {
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
    fn pthread_self() -> usize;
    fn pthread_kill(thread: usize, number: i32) -> i32;
    fn pthread_sigmask(how: i32, set: *const SignalSet, old: *mut SignalSet) -> i32;
}

/// Blocks or unblocks the signal on this thread.
fn mask(how: i32) {
    let mut set: SignalSet = [0; 16];
    set[0] = 1 << (SIGUSR1 - 1);
    // SAFETY: the set is as big as the system's.
    assert_eq!(unsafe { pthread_sigmask(how, &raw const set, std::ptr::null_mut()) }, 0);
}

thread_local! {
    /// In how many sections this thread is.
    static SECTIONS: Cell<usize> = const { Cell::new(0) };
}

struct Blocked;
critical_section::set_impl!(Blocked);

// SAFETY: with one core that is to be kept from handlers, this thread; other threads do not share what it protects. A handler that comes between two of these steps leaves the number and
// the mask as it has found them.
unsafe impl critical_section::Impl for Blocked {
    unsafe fn acquire() -> bool {
        let outer = SECTIONS.get();
        SECTIONS.set(outer + 1);
        mask(SIG_BLOCK);
        outer > 0
    }

    /// Sections nest, as the contract has it: the first that was entered is the last that is left.
    unsafe fn release(was_in_section: bool) {
        let sections = SECTIONS.get();
        assert_eq!(was_in_section, sections > 1, "left in another order than entered: one of {sections}");
        if !was_in_section {
            mask(SIG_UNBLOCK);
        }
        SECTIONS.set(sections - 1);
    }
}

static AUTO: Event = Event::auto();
static MANUAL: Event = Event::manual();
static FIFO: Semaphore = Semaphore::new(0);
static BYPASS: Semaphore<Bypass> = Semaphore::with_policy(0);
static MUTEX: Mutex<u32> = Mutex::new(0);
static OPEN: Mutex<u32, Bypass> = Mutex::with_policy(0);
static LAST: Mutex<u32, Lifo> = Mutex::with_policy(0);
static REVOKED: Mutex<u32, Revocable> = Mutex::with_policy(0);
static REENTRANT: ReentrantMutex<u32> = ReentrantMutex::new(0);
static LOCK: RwLock<u32> = RwLock::new(0);
static CONDVAR: Condvar = Condvar::new();
static GROUP: WaitGroup = WaitGroup::new();
static BARRIER: Barrier = Barrier::new(2);
static CHANNEL: Channel<u32, 2> = Channel::new();
static LARGE: Latch = Latch::new(Latch::MAX_COUNT);
static HANDLED: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicBool = AtomicBool::new(false);
/// What a round of [`waits`] uses up.
static ROUND: AtomicPtr<Round> = AtomicPtr::new(std::ptr::null_mut());

/// What comes to its end once.
struct Round {
    latch: Latch,
    cell: OnceCell<u32>,
    source: CancellationSource,
    token: CancellationToken,
    channel: Channel<u32, 2>,
    semaphore: Semaphore,
    unparker: Unparker,
}

impl Round {
    /// The next round. The last one is leaked: a handler may still look at it.
    fn begin() {
        let source = CancellationSource::new();
        let token = source.token();
        let (latch, cell, channel) = (Latch::new(1), OnceCell::new(), Channel::new());
        let (semaphore, unparker) = (Semaphore::new(0), Parker::new().unparker());
        let round = Self { latch, cell, source, token, channel, semaphore, unparker };
        ROUND.store(Box::into_raw(Box::new(round)), Relaxed);
    }

    fn now() -> &'static Self {
        // SAFETY: begun before the first signal, and leaked.
        unsafe { &*ROUND.load(Relaxed) }
    }
}

/// A call of a handler, and the functions that it stands for, as the list of the surface names them.
type Call = (&'static [&'static str], fn());

/// What does not wait and can be called again and again.
const CALLS: &[Call] = &[
    (&["Event: set"], || (AUTO.set(), MANUAL.set(), MANUAL.reset()).0),
    (&["Event: reset"], || AUTO.reset()),
    (&["Event: try_wait", "Event: is_set"], || _ = (AUTO.try_wait(), MANUAL.try_wait(), AUTO.is_set())),
    (&["Semaphore: release"], || (FIFO.release(1), BYPASS.release(1)).0),
    (&["Semaphore: forget_permits"], || _ = (FIFO.forget_permits(9), BYPASS.forget_permits(9))),
    (&["Semaphore: try_acquire"], || drop((FIFO.try_acquire(), BYPASS.try_acquire()))),
    (&["Semaphore: try_acquire_many"], || drop((FIFO.try_acquire_many(2), BYPASS.try_acquire_many(2)))),
    (&["Semaphore: available_permits"], || _ = (FIFO.available_permits(), BYPASS.available_permits())),
    (&["Semaphore: is_closed"], || _ = FIFO.is_closed()),
    (&["Mutex: try_lock"], || drop((MUTEX.try_lock(), OPEN.try_lock(), LAST.try_lock(), REVOKED.try_lock()))),
    (&["Mutex: is_locked"], || _ = (MUTEX.is_locked(), REVOKED.is_locked())),
    (&["ReentrantMutex: try_lock", "ReentrantMutex: is_locked"], || {
        _ = (REENTRANT.try_lock().is_ok(), REENTRANT.is_locked());
    }),
    (&["RwLock: try_read"], || drop((LOCK.try_read(), LOCK.try_write()))),
    (&["RwLock: try_write"], || drop(LOCK.try_write())),
    (&["RwLock: try_upgradable_read"], || {
        drop(LOCK.try_upgradable_read().map(RwLockUpgradableReadGuard::try_upgrade));
    }),
    (&["Condvar: notify_one"], || CONDVAR.notify_one()),
    (&["Condvar: notify_all"], || CONDVAR.notify_all()),
    (&["WaitGroup: add", "WaitGroup: done"], || (GROUP.add(1), GROUP.done()).0),
    (&["WaitGroup: member"], || drop(GROUP.member())),
    (&["WaitGroup: count"], || _ = GROUP.count()),
    (&["Latch: count_down"], || LARGE.count_down()),
    (&["Latch: try_wait"], || _ = Round::now().latch.try_wait()),
    (&["Latch: count"], || _ = Round::now().latch.count()),
    (&["OnceCell: get"], || _ = Round::now().cell.get()),
    (&["CancellationToken: stop_requested"], || _ = Round::now().token.stop_requested()),
    (&["CancellationToken: reason"], || _ = Round::now().token.reason()),
    (&["Channel: try_send", "Channel: try_recv"], || {
        _ = (CHANNEL.try_send(1), CHANNEL.try_recv(), CHANNEL.try_send(2));
    }),
    (&["Channel: len", "Channel: is_empty", "Channel: is_closed", "Channel: capacity"], || {
        _ = (CHANNEL.len(), CHANNEL.is_empty(), CHANNEL.is_closed(), CHANNEL.capacity());
    }),
    (&["Unparker: unpark"], || Round::now().unparker.unpark()),
];

/// What ends something for ever: once in a round.
const ENDS: &[Call] = &[
    (&["Semaphore: close"], || _ = Round::now().semaphore.close()),
    (&["OnceCell: set"], || _ = Round::now().cell.set(1)),
    (&["CancellationSource: request_cancel"], || Round::now().source.request_cancel()),
    (&["Channel: close"], || _ = Round::now().channel.close()),
];

/// They allocate, which a handler must not.
const ALLOCATE: [&str; 5] = [
    "CancellationSource: cancel_with",
    "CancellationSource: child",
    "CancellationSource: token",
    "CancellationToken: child",
    "Parker: unparker",
];

/// They wait.
const WAIT: [&str; 25] = [
    "Barrier: arrive_and_wait",
    "CancellationToken: on_cancel",
    "CancellationToken: run_until_cancelled",
    "Channel: closed",
    "Channel: recv",
    "Channel: send",
    "Condvar: wait",
    "Condvar: wait_while",
    "Event: wait",
    "Latch: wait",
    "Mutex: lock",
    "Mutex: lock_for",
    "OnceCell: get_or_init",
    "OnceCell: get_or_try_init",
    "OnceCell: wait",
    "Parker: park",
    "Parker: park_deadline",
    "Parker: park_timeout",
    "ReentrantMutex: lock",
    "RwLock: read",
    "RwLock: upgradable_read",
    "RwLock: write",
    "Semaphore: acquire",
    "Semaphore: acquire_many",
    "WaitGroup: wait",
];

/// Every function of a primitive that takes it by reference is called by a handler, or allocates, or waits.
#[test]
fn every_function_has_a_row() {
    const TYPES: [&str; 15] = [
        "Barrier",
        "CancellationSource",
        "CancellationToken",
        "Channel",
        "Condvar",
        "Event",
        "Latch",
        "Mutex",
        "OnceCell",
        "Parker",
        "ReentrantMutex",
        "RwLock",
        "Semaphore",
        "Unparker",
        "WaitGroup",
    ];
    let surface = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/surface/tasuki.txt");
    let surface = std::fs::read_to_string(surface).unwrap();
    let functions = surface.lines().filter_map(|line| {
        let (of, function) = line.split_once(": pub fn ")?;
        let name = function.split(['<', '(']).next()?;
        (TYPES.contains(&of) && function.contains("(&self")).then(|| format!("{of}: {name}"))
    });
    let functions: BTreeSet<String> = functions.collect();
    let calls = CALLS.iter().chain(ENDS).flat_map(|(names, _)| names.iter().copied());
    let rows: BTreeSet<String> = calls.chain(ALLOCATE).chain(WAIT).map(str::to_owned).collect();
    assert!(functions.len() > 60, "{functions:?}");
    assert_eq!(functions, rows);
}

/// What does not wait, one after the other.
extern "C" fn handler(_: i32) {
    CALLS.iter().for_each(|(_, call)| call());
    HANDLED.fetch_add(1, Relaxed);
}

/// Polls once, and cancels.
fn try_once(future: impl Future) {
    let mut future = pin!(future);
    let _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

/// Holds a lock, if it is free, and waits for it.
macro_rules! wait_behind {
    ($held:expr, $wait:expr) => {
        try_once(async {
            let _held = $held.await;
            try_once($wait);
        })
    };
}

fn waits() {
    let round = Round::now();
    try_once(AUTO.wait());
    try_once(MANUAL.wait());
    try_once(async { FIFO.acquire().await.map(|permit| permit.forget()) });
    try_once(async { BYPASS.acquire().await.map(|permit| permit.forget()) });
    wait_behind!(MUTEX.lock(), MUTEX.lock());
    wait_behind!(OPEN.lock(), OPEN.lock());
    wait_behind!(LAST.lock(), LAST.lock());
    wait_behind!(REVOKED.lock(), REVOKED.lock());
    wait_behind!(LOCK.write(), LOCK.read());
    wait_behind!(LOCK.read(), LOCK.write());
    wait_behind!(LOCK.upgradable_read(), LOCK.upgradable_read());
    try_once(async { drop(CONDVAR.wait(MUTEX.lock().await).await) });
    try_once(CHANNEL.recv());
    try_once(async { (CHANNEL.send(3).await, CHANNEL.send(4).await, CHANNEL.send(5).await) });
    // The last one goes while another waits.
    GROUP.add(1);
    {
        let mut wait = pin!(GROUP.wait());
        let _ = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        GROUP.done();
    }
    {
        let mut wait = pin!(round.latch.wait());
        let _ = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        round.latch.count_down();
    }
    {
        let mut first = pin!(BARRIER.arrive_and_wait());
        let _ = first.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        try_once(BARRIER.arrive_and_wait());
    }
    try_once(round.cell.wait());
    try_once(round.cell.get_or_init(|| std::future::pending()));
    try_once(round.token.on_cancel());
    try_once(round.channel.recv());
    try_once(round.semaphore.acquire());
}

/// A task is granted a lock, and does not claim it in two polls: it is the next one's.
fn revokes() {
    let mutex = Arc::new(Mutex::<u32, Revocable>::with_policy(0));
    let held = mutex.clone().try_lock_owned();
    let mut waits = [(); 2].map(|()| Box::pin(mutex.clone().lock_owned()));
    let task = {
        let mut task =
            pin!(task::identify(async { waits.iter_mut().for_each(|wait| try_once(wait.as_mut())) }));
        try_once(task.as_mut());
        task.id()
    };
    drop(held);
    (0..4).for_each(|_| poll_ended(task, Waker::noop()));
    drop(waits);
    assert!(!mutex.is_locked());
}

/// What the handlers and [`waits`] leave behind.
fn check_at_rest() {
    while CHANNEL.try_recv().is_ok() {}
    assert!(CHANNEL.try_send(1).is_ok() && CHANNEL.try_send(2).is_ok() && CHANNEL.try_send(3).is_err());
    assert!(MUTEX.try_lock().is_some() && OPEN.try_lock().is_some() && LOCK.try_write().is_some());
    assert!(LAST.try_lock().is_some() && REVOKED.try_lock().is_some() && GROUP.count() == 0);
}

/// R11-7: an interrupt that meets the lock of a queue would wait for the code that it interrupts.
#[test]
fn handlers_never_meet_a_locked_queue() {
    alone(|| {
        let _dog = watchdog(600);
        Round::begin();
        // SAFETY: the handler calls what this test is about, and atomics.
        unsafe { signal(SIGUSR1, handler) };
        // SAFETY: no preconditions.
        let target = unsafe { pthread_self() };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while !DONE.load(Relaxed) {
                    // SAFETY: the thread lives until the scope ends, which waits for this one.
                    unsafe { pthread_kill(target, SIGUSR1) };
                }
            });
            while HANDLED.load(Relaxed) < INTERRUPTS {
                mask(SIG_BLOCK);
                Round::begin();
                mask(SIG_UNBLOCK);
                waits();
                revokes();
            }
            DONE.store(true, Relaxed);
        });
        mask(SIG_BLOCK);
        check_at_rest();
    });
}

/// Interrupts after each instruction.
#[cfg(target_arch = "x86_64")]
mod steps {
    use super::*;
    use std::arch::asm;

    /// Rounds, each with another call after the same instruction. A debug build has tens of instructions between two accesses to an atomic, so each pair of those meets every call.
    const ROUNDS: usize = 3;
    /// Moments of a round at which something ends for ever.
    const MOMENTS: usize = 6;

    static STEPS: AtomicUsize = AtomicUsize::new(0);
    static CALLED: AtomicUsize = AtomicUsize::new(0);
    /// The number of the round; and the step at which all is called that ends something, if that is to be.
    static OFFSET: AtomicUsize = AtomicUsize::new(0);
    static ENDS_AT: AtomicUsize = AtomicUsize::new(usize::MAX);

    extern "C" fn trapped(_: i32) {
        let step = STEPS.fetch_add(1, Relaxed);
        if SECTIONS.get() > 0 {
            return;
        }
        let called = CALLED.fetch_add(1, Relaxed);
        let ends_at = ENDS_AT.load(Relaxed);
        if ends_at == usize::MAX {
            CALLS[(called + OFFSET.load(Relaxed)) % CALLS.len()].1();
        } else if step >= ends_at {
            ENDS_AT.store(usize::MAX - 1, Relaxed);
            ENDS.iter().for_each(|(_, call)| call());
        }
    }

    /// Calls `f` with an interrupt after each instruction.
    pub(super) fn single_step(f: impl FnOnce()) {
        // SAFETY: the processor traps after each instruction from here on; the handler returns. The stack is as it was.
        unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
        f();
        // SAFETY: as above; no trap any more.
        unsafe { asm!("pushfq", "and qword ptr [rsp], -257", "popfq") };
    }

    /// One round; how many instructions it had.
    fn stepped() -> usize {
        Round::begin();
        STEPS.store(0, Relaxed);
        CALLED.store(0, Relaxed);
        single_step(waits);
        assert!(CALLED.load(Relaxed) > 1000, "the processor has not trapped");
        check_at_rest();
        STEPS.load(Relaxed)
    }

    /// No call of a handler waits for the code that it interrupts, wherever that is.
    #[test]
    fn a_handler_after_each_instruction() {
        alone(|| {
            let _dog = watchdog(600);
            // What is made at its first use is made before.
            Round::begin();
            waits();
            // SAFETY: the handler calls what this test is about, and atomics.
            unsafe { signal(SIGTRAP, trapped) };
            let mut steps = 0;
            for round in 0..ROUNDS {
                OFFSET.store(round * CALLS.len() / ROUNDS, Relaxed);
                steps = stepped();
            }
            for moment in 0..MOMENTS {
                ENDS_AT.store((steps / MOMENTS * moment).min(usize::MAX - 2), Relaxed);
                stepped();
            }
        });
    }
}
