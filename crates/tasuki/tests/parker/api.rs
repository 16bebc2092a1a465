//! The parker: tokens, sleeps with and without a deadline, parkers that go while they are woken (S4-01..S4-16; B045, B047, B073, B085).

use crate::kit::process::{this_thread, until_asleep};
use crate::kit::scaled;
use crate::kit::watchdog::watchdog;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use tasuki::{Event, Mutex, Parker, Unparker};

const SHORT: Duration = Duration::from_millis(20);

#[test]
fn a_token_is_taken_at_once_and_only_once() {
    let _dog = watchdog(10);
    let parker = Parker::new();
    // S4-08, S4-12: an unpark before the park is not lost.
    parker.unparker().unpark();
    parker.park();
    // B045: one unpark never satisfies two parks.
    let began = Instant::now();
    assert!(!parker.park_timeout(SHORT));
    assert!(began.elapsed() >= SHORT);
    // S4-09: reusable.
    parker.unparker().unpark();
    assert!(parker.park_timeout(Duration::MAX));
}

#[test]
fn tokens_coalesce() {
    let _dog = watchdog(10);
    // S4-14.
    let parker = Parker::new();
    let unparkers: Vec<Unparker> = (0..5).map(|_| parker.unparker()).collect();
    unparkers.iter().for_each(Unparker::unpark);
    parker.park();
    assert!(!parker.park_timeout(Duration::ZERO));
}

#[test]
fn b045_every_parker_has_its_own_token() {
    let _dog = watchdog(10);
    let (a, b) = (Parker::new(), Parker::new());
    a.unparker().unpark();
    // The token of one parker, and the token of the thread, are told apart.
    thread::current().unpark();
    assert!(!b.park_timeout(Duration::from_millis(1)));
    thread::park();
    assert!(a.park_timeout(Duration::ZERO));
    // A blocking wait on the same thread takes none either.
    a.unparker().unpark();
    let event = Event::auto();
    event.set();
    event.wait().block();
    assert!(a.park_timeout(Duration::ZERO));
}

#[test]
fn no_time_and_all_time() {
    let _dog = watchdog(20);
    let parker = Parker::new();
    assert!(!parker.park_timeout(Duration::ZERO));
    assert!(!parker.park_deadline(Instant::now()));
    let past = Instant::now().checked_sub(Duration::from_millis(1)).unwrap_or_else(Instant::now);
    assert!(!parker.park_deadline(past));
    // A token wins over a time that is over.
    parker.unparker().unpark();
    assert!(parker.park_deadline(past));
    parker.unparker().unpark();
    assert!(parker.park_timeout(Duration::ZERO));
    let far = [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_secs(1 << 40), Duration::MAX / 2];
    for time in far {
        let unparker = parker.unparker();
        let helper = thread::spawn(move || {
            thread::sleep(Duration::from_millis(5));
            unparker.unpark();
        });
        assert!(parker.park_timeout(time), "{time:?} is not over");
        helper.join().unwrap();
    }
}

#[test]
fn a_deadline_ends_a_sleep_in_time() {
    let _dog = watchdog(20);
    let parker = Parker::new();
    let deadline = Instant::now() + SHORT;
    assert!(!parker.park_deadline(deadline));
    assert!(Instant::now() >= deadline);
    // After a timeout the parker is empty again: an unpark is neither lost nor doubled.
    parker.unparker().unpark();
    assert!(parker.park_timeout(Duration::ZERO));
    assert!(!parker.park_timeout(Duration::ZERO));
}

/// S4-03, S4-01: with a deadline and without, the system does not run it.
#[cfg_attr(any(miri, not(target_os = "linux")), ignore = "the system does not tell")]
#[test]
fn a_parked_thread_uses_no_processor() {
    let _dog = watchdog(60);
    for deadline in [false, true] {
        let parker = Parker::new();
        let unparker = parker.unparker();
        let (send, receive) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            send.send(this_thread()).unwrap();
            if deadline { assert!(parker.park_timeout(Duration::from_secs(3600))) } else { parker.park() }
        });
        let parked = receive.recv().unwrap();
        until_asleep(|| vec![parked]);
        assert!(!thread.is_finished());
        unparker.unpark();
        thread.join().unwrap();
    }
}

#[test]
fn the_work_is_seen_and_no_wake_up_is_lost() {
    // S4-13, S4-15, B047: check the queue, find it empty, park; against push, unpark. The data is published by the
    // token alone.
    let _dog = watchdog(60);
    let rounds = scaled(100_000, 50) as u64;
    let (there, back) = (Parker::new(), Parker::new());
    let (wake_there, wake_back) = (there.unparker(), back.unparker());
    let data = Arc::new(AtomicU64::new(0));
    let seen = data.clone();
    let worker = thread::spawn(move || {
        for round in 1..=rounds {
            there.park();
            assert_eq!(seen.load(Relaxed), round);
            wake_back.unpark();
        }
    });
    for round in 1..=rounds {
        data.store(round, Relaxed);
        wake_there.unpark();
        back.park();
    }
    worker.join().unwrap();
}

#[test]
fn timeouts_racing_unparks_lose_no_token() {
    // B035: every unpark is seen by exactly one park, timed or not, or is still there at the end.
    let _dog = watchdog(60);
    for round in 0..scaled(3_000, 20) {
        let parker = Parker::new();
        let unparker = parker.unparker();
        let helper = thread::spawn(move || unparker.unpark());
        let mut tokens = 0;
        for _ in 0..3 {
            tokens += usize::from(parker.park_timeout(Duration::from_micros(round as u64 % 50)));
        }
        helper.join().unwrap();
        tokens += usize::from(parker.park_timeout(Duration::ZERO));
        assert_eq!(tokens, 1);
    }
}

#[test]
fn b073_the_parker_may_go_as_soon_as_it_wakes() {
    let _dog = watchdog(60);
    for _ in 0..scaled(5_000, 30) {
        let parker = Parker::new();
        let unparker = parker.unparker();
        let helper = thread::spawn(move || unparker.unpark());
        parker.park();
        drop(parker);
        helper.join().unwrap();
    }
    // And an unparker may outlive it.
    let unparker = Parker::new().unparker();
    unparker.unpark();
}

/// Uses everything while the thread's other variables are already gone.
struct AtTheEnd(Arc<AtomicUsize>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        let parker = Parker::new();
        parker.unparker().unpark();
        parker.park();
        let mutex = Arc::new(Mutex::new(1));
        let guard = mutex.lock().block();
        let waiter = thread::spawn({
            let mutex = mutex.clone();
            move || *mutex.lock().block() += 1
        });
        drop(guard);
        waiter.join().unwrap();
        // A wait that really blocks, on this thread.
        let event = Arc::new(Event::auto());
        let setter = thread::spawn({
            let event = event.clone();
            move || {
                thread::sleep(Duration::from_millis(2));
                event.set();
            }
        });
        event.wait().block();
        setter.join().unwrap();
        self.0.fetch_add(*mutex.lock().block(), Relaxed);
    }
}

#[test]
fn b085_used_in_the_destructor_of_a_thread_local() {
    let _dog = watchdog(20);
    thread_local! {
        static BEFORE: std::cell::RefCell<Option<AtTheEnd>> = const { std::cell::RefCell::new(None) };
        static AFTER: std::cell::RefCell<Option<AtTheEnd>> = const { std::cell::RefCell::new(None) };
    }
    let done = Arc::new(AtomicUsize::new(0));
    let thread = thread::spawn({
        let done = done.clone();
        move || {
            // One registered before the variable that `.block()` keeps, one after: whichever dies first.
            BEFORE.set(Some(AtTheEnd(done.clone())));
            Event::new(tasuki::Reset::Auto, true).wait().block();
            drop(Mutex::new(0).lock().block());
            AFTER.set(Some(AtTheEnd(done)));
        }
    });
    thread.join().unwrap();
    assert_eq!(done.load(Relaxed), 4);
}
