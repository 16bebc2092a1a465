//! Interrupt handlers, here signals, that call what does not wait, at any moment of the thread that they interrupt: also while it has a
//! queue locked. With the feature `critical-section`, whose implementation here blocks the signal.
//!
//! `RUSTFLAGS="--cfg tasuki_interrupts" cargo test -p tasuki --features critical-section --test process interrupt`
#![cfg(target_os = "linux")]

use crate::kit::process::alone;
use crate::kit::watchdog::watchdog;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Waker};
use tasuki::channel::Channel;
use tasuki::policy::Bypass;
use tasuki::{Condvar, Event, Latch, Mutex, RwLock, Semaphore, WaitGroup};

const SIGUSR1: i32 = 10;
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

/// Blocks or unblocks the signal on this thread; was it blocked before?
fn mask(how: i32) -> bool {
    let (mut set, mut old): (SignalSet, SignalSet) = ([0; 16], [0; 16]);
    set[0] = 1 << (SIGUSR1 - 1);
    // SAFETY: both sets are as big as the system's.
    assert_eq!(unsafe { pthread_sigmask(how, &raw const set, &raw mut old) }, 0);
    old[0] & set[0] != 0
}

struct Blocked;
critical_section::set_impl!(Blocked);

// SAFETY: with one core that is to be kept from handlers, this thread; other threads do not share what it protects.
unsafe impl critical_section::Impl for Blocked {
    unsafe fn acquire() -> bool {
        mask(SIG_BLOCK)
    }

    unsafe fn release(was_blocked: bool) {
        if !was_blocked {
            mask(SIG_UNBLOCK);
        }
    }
}

static AUTO: Event = Event::auto();
static MANUAL: Event = Event::manual();
static FIFO: Semaphore = Semaphore::new(0);
static BYPASS: Semaphore<Bypass> = Semaphore::with_policy(0);
static MUTEX: Mutex<u32> = Mutex::new(0);
static OPEN: Mutex<u32, Bypass> = Mutex::with_policy(0);
static LOCK: RwLock<u32> = RwLock::new(0);
static CONDVAR: Condvar = Condvar::new();
static GROUP: WaitGroup = WaitGroup::new();
static CHANNEL: Channel<u32, 2> = Channel::new();
static HANDLED: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicBool = AtomicBool::new(false);

/// What does not wait, one after the other.
extern "C" fn handler(_: i32) {
    AUTO.set();
    MANUAL.set();
    MANUAL.reset();
    FIFO.release(1);
    BYPASS.release(1);
    drop(MUTEX.try_lock());
    drop(OPEN.try_lock());
    drop((LOCK.try_read(), LOCK.try_write()));
    CONDVAR.notify_one();
    CONDVAR.notify_all();
    GROUP.add(1);
    GROUP.done();
    let _ = CHANNEL.try_send(1);
    let _ = CHANNEL.try_recv();
    let _ = CHANNEL.try_send(2);
    let latch = Latch::new(1);
    latch.count_down();
    HANDLED.fetch_add(1, Relaxed);
}

/// Polls once, and gives up.
fn try_once(future: impl Future) {
    let mut future = pin!(future);
    let _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

fn waits() {
    try_once(AUTO.wait());
    try_once(MANUAL.wait());
    try_once(async { FIFO.acquire().await.map(|permit| permit.forget()) });
    try_once(async { BYPASS.acquire().await.map(|permit| permit.forget()) });
    try_once(async {
        let _held = MUTEX.lock().await;
        try_once(MUTEX.lock());
    });
    try_once(async {
        let _held = OPEN.lock().await;
        try_once(OPEN.lock());
    });
    try_once(async {
        let _held = LOCK.write().await;
        try_once(LOCK.read());
    });
    try_once(async { drop(CONDVAR.wait(MUTEX.lock().await).await) });
    try_once(CHANNEL.recv());
    try_once(async { (CHANNEL.send(3).await, CHANNEL.send(4).await, CHANNEL.send(5).await) });
    GROUP.add(1);
    try_once(GROUP.wait());
    GROUP.done();
}

/// R11-7: an interrupt that meets the lock of a queue would wait for the code that it interrupts.
#[test]
fn handlers_never_meet_a_locked_queue() {
    alone(|| {
        let _dog = watchdog(60);
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
                waits();
            }
            DONE.store(true, Relaxed);
        });
        mask(SIG_BLOCK);
        while CHANNEL.try_recv().is_ok() {}
        assert!(CHANNEL.try_send(1).is_ok() && CHANNEL.try_send(2).is_ok() && CHANNEL.try_send(3).is_err());
        assert!(MUTEX.try_lock().is_some() && OPEN.try_lock().is_some() && LOCK.try_write().is_some());
    });
}
