//! Handlers that wake while the thread which they interrupt is inside of a chain of wakes, deep in its stack, where wakes are kept in a list (`queue/nested_wakes.rs`): also while it changes the list.

use super::steps::single_step;
use super::{SECTIONS, SIGTRAP, signal};
use crate::kit::process::alone;
use crate::kit::watchdog::watchdog;
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Wake, Waker};
use tasuki::Event;
use tasuki::future::WaitEvent;

/// More than the depth down to which wakes nest.
const DEEP: usize = 64 * 1024;
/// How many waiters the handlers wake, one after each few instructions of the chain: more than it has from its beginning to the first changes of the list.
const WAITERS: usize = 300;
const INSTRUCTIONS: usize = 11;

static OUTER: Event = Event::auto();
static INNER: [Event; 8] = [const { Event::auto() }; 8];
static OF_HANDLERS: Event = Event::auto();
static WAKES: AtomicUsize = AtomicUsize::new(0);
static STEPS: AtomicUsize = AtomicUsize::new(0);
/// The chain has begun.
static IS_DEEP: AtomicBool = AtomicBool::new(false);

/// Sets the inner events: wakes inside of a wake.
struct SetsInner;

impl Wake for SetsInner {
    fn wake(self: Arc<Self>) {
        IS_DEEP.store(true, Relaxed);
        INNER.iter().for_each(Event::set);
    }
}

struct Counts;

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        WAKES.fetch_add(1, Relaxed);
    }
}

extern "C" fn trapped(_: i32) {
    let is_due = STEPS.fetch_add(1, Relaxed) % INSTRUCTIONS == 0;
    if is_due && IS_DEEP.load(Relaxed) && SECTIONS.get() == 0 {
        OF_HANDLERS.set();
    }
}

fn waiting(event: &'static Event, waker: &Waker) -> Pin<Box<WaitEvent<'static>>> {
    let mut wait = Box::pin(event.wait());
    assert!(wait.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    wait
}

#[inline(never)]
fn set_deep_in_the_stack() {
    let deep = black_box([0_u8; DEEP]);
    single_step(|| OUTER.set());
    black_box(deep);
}

/// Every waiter is woken once, and no handler finds a list that it must not touch.
#[test]
fn a_handler_inside_of_deep_wakes() {
    alone(|| {
        let _dog = watchdog(60);
        // SAFETY: the handler calls what this test is about.
        unsafe { signal(SIGTRAP, trapped) };
        let counts = Waker::from(Arc::new(Counts));
        // The shallowest wake of this thread.
        let first = waiting(&OUTER, &counts);
        OUTER.set();
        assert_eq!(WAKES.swap(0, Relaxed), 1);
        // The signal goes back to the event.
        drop(first);
        OUTER.reset();
        let _outer = waiting(&OUTER, &Waker::from(Arc::new(SetsInner)));
        let _inner = INNER.each_ref().map(|event| waiting(event, &counts));
        let _of_handlers: Vec<_> = (0..WAITERS).map(|_| waiting(&OF_HANDLERS, &counts)).collect();
        set_deep_in_the_stack();
        assert_eq!(WAKES.load(Relaxed), INNER.len() + WAITERS);
    });
}
