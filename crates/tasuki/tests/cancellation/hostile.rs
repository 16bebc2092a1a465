//! Cancellation: every state and position in which a wait can be dropped, and wakers that do what they like.

use crate::kit::poll::{panic_of, panics, pending, poll, poll_with, ready};
use crate::kit::tally;
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use tasuki::channel::bounded;
use tasuki::future::{OnCancel, OnCancelOwned};
use tasuki::{CancellationSource, CancellationToken};

type Wait = Pin<Box<OnCancelOwned>>;

fn owned(token: &CancellationToken) -> Wait {
    Box::pin(token.clone().on_cancel_owned())
}

/// So many waits on one token, all queued.
fn queued(token: &CancellationToken, spies: &[Spy]) -> Vec<Wait> {
    let mut waits: Vec<Wait> = spies.iter().map(|_| owned(token)).collect();
    waits.iter_mut().zip(spies).for_each(|(wait, spy)| pending(wait, spy));
    waits
}

fn spies(count: usize) -> Vec<Spy> {
    (0..count).map(|_| Spy::new()).collect()
}

/// Where a wait can be when it is dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Unpolled,
    Queued,
    Cancelled,
    Ready,
}

/// Every state x several positions of few, and of more than a batch: the others are woken once, and nothing is left.
#[test]
fn a_wait_can_be_dropped_in_every_state_at_every_position() {
    let _dog = watchdog(120);
    for count in [1, 2, 3, crate::kit::scaled(70, 34)] {
        for position in [0, 1, 2, 31, 32, 33, count - 1].into_iter().filter(|at| *at < count) {
            for at in [At::Unpolled, At::Queued, At::Cancelled, At::Ready] {
                drop_one(count, position, at);
            }
        }
    }
}

fn drop_one(count: usize, position: usize, at: At) {
    let source = CancellationSource::new();
    let (token, spies) = (source.token(), spies(count));
    let mut waits: Vec<_> = spies.iter().map(|_| Some(owned(&token))).collect();
    for (number, wait) in waits.iter_mut().enumerate() {
        if number != position || at != At::Unpolled {
            pending(wait.as_mut().unwrap(), &spies[number]);
        }
    }
    let gone_before = matches!(at, At::Unpolled | At::Queued);
    if gone_before {
        waits[position] = None;
    }
    source.request_cancel();
    if at == At::Ready {
        ready(waits[position].as_mut().unwrap());
    }
    waits[position] = None;
    for (number, wait) in waits.iter_mut().enumerate() {
        let woken = number != position || !gone_before;
        assert_eq!(spies[number].wakes(), usize::from(woken), "{number} of {count}: {position} {at:?}");
        wait.iter_mut().for_each(ready);
    }
    drop(waits);
    assert!(spies.iter().all(|spy| spy.alive() == 0), "{count}: {position} {at:?}");
}

/// Drops made by the first waker of a cancel: of waits that are in the same batch, in a later one, in a child.
#[test]
fn waits_may_be_dropped_while_the_cancel_wakes() {
    let _dog = watchdog(60);
    for victim in [0, 1, 31, 32, 39, 40, 60, 79].into_iter().step_by(crate::kit::scaled(1, 3)) {
        let source = CancellationSource::new();
        let child = source.child();
        let slots: Arc<Mutex<Vec<Option<Wait>>>> = Arc::default();
        let (taken, all) = (slots.clone(), spies(80));
        all[0].on(Call::Wake, move || {
            let wait = taken.lock().unwrap()[victim].take();
            drop(wait);
        });
        all[0].arm(1);
        for (number, spy) in all.iter().enumerate() {
            let token = if number < 40 { source.token() } else { child.token() };
            let mut wait = owned(&token);
            pending(&mut wait, spy);
            slots.lock().unwrap().push(Some(wait));
        }
        source.request_cancel();
        for (number, spy) in all.iter().enumerate() {
            // In the first batch its waker was already on its way.
            let expected = usize::from(number != victim || victim < 32);
            assert_eq!((spy.wakes(), spy.alive()), (expected, 0), "{number} when {victim} goes");
        }
        slots.lock().unwrap().iter_mut().flatten().for_each(ready);
    }
}

/// A poll between the flag and the waker is ready; the waker that comes late finds no waiter, and does no harm.
#[test]
fn all_are_ready_before_the_first_waker_runs() {
    let source = CancellationSource::new();
    let (child, count) = (source.child(), 40);
    let tokens = [source.token(), child.token(), child.child().token()];
    let waits: Arc<Mutex<Vec<Wait>>> = Arc::default();
    let (polled, seen) = (waits.clone(), Arc::new(AtomicUsize::new(0)));
    let (spies, total, all) = (spies(tokens.len() * count), seen.clone(), tokens.clone());
    spies[0].on(Call::Wake, move || {
        assert!(all.iter().all(CancellationToken::stop_requested));
        let mut waits = polled.lock().unwrap();
        waits.iter_mut().for_each(ready);
        waits.clear();
        total.fetch_add(1, SeqCst);
    });
    spies[0].arm(1);
    for (token, spies) in tokens.iter().zip(spies.chunks(count)) {
        waits.lock().unwrap().extend(queued(token, spies));
    }
    source.request_cancel();
    assert_eq!(seen.load(SeqCst), 1);
    assert!(spies.iter().all(|spy| spy.wakes() <= 1 && spy.alive() == 0));
}

#[test]
fn a_panicking_waker_stops_neither_the_others_nor_the_descendants() {
    let _dog = watchdog(60);
    for bad in [39, 5, 0].into_iter().step_by(crate::kit::scaled(1, 3)) {
        let root = CancellationSource::new();
        let child = root.child();
        let below = child.child();
        drop(child);
        let spies = spies(120);
        for node in 0..3 {
            let spy = &spies[node * 40 + bad];
            spy.on(Call::Wake, move || panic!("waker of {node}"));
            spy.arm(1);
        }
        let mut waits = queued(&root.token(), &spies[..40]);
        waits.extend(queued(&root.child().token(), &spies[40..80]));
        waits.extend(queued(&below.token(), &spies[80..]));
        assert_eq!(panic_of(|| root.cancel_with("anyway")), "waker of 0");
        assert!(spies.iter().all(|spy| spy.wakes() == 1));
        assert_eq!(below.token().reason(), Some("anyway"));
        waits.iter_mut().for_each(ready);
        drop(waits);
        assert!(spies.iter().all(|spy| spy.alive() == 0));
    }
}

/// What a hostile waker can reach.
struct Scene {
    parent: CancellationSource,
    source: CancellationSource,
    child: Mutex<Option<CancellationSource>>,
    wait: Mutex<Option<Wait>>,
}

type Action = (&'static str, fn(&Scene));

const ACTIONS: [Action; 9] = [
    ("cancel the same", |scene| scene.source.cancel_with("from inside")),
    ("cancel the parent", |scene| scene.parent.cancel_with("from inside")),
    ("make a child", |scene| {
        let (child, token) = (scene.source.child().token(), scene.source.token());
        assert_eq!((child.stop_requested(), child.reason()), (token.stop_requested(), token.reason()));
    }),
    ("make a child and cancel it", |scene| scene.parent.child().request_cancel()),
    ("drop the child", |scene| {
        let child = scene.child.lock().unwrap().take();
        drop(child);
    }),
    ("drop a wait", |scene| {
        let wait = scene.wait.lock().unwrap().take();
        drop(wait);
    }),
    ("wait", |scene| {
        let mut wait = owned(&scene.source.token());
        let _ = poll(&mut wait, &Spy::new());
    }),
    ("poll a wait", |scene| {
        let wait = scene.wait.lock().unwrap().take();
        if let Some(mut wait) = wait {
            if wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                *scene.wait.lock().unwrap() = Some(wait);
            }
        }
    }),
    ("panic", |_| panic!("a hostile waker")),
];

/// Each call into a waker, each action on the tree from inside it.
#[test]
fn wakers_may_do_anything() {
    let _dog = watchdog(120);
    for (name, action) in ACTIONS {
        for call in Call::ALL {
            for waiter_first in [true, false].into_iter().take(crate::kit::scaled(2, 1)) {
                hostile(name, action, call, waiter_first);
            }
        }
    }
}

/// Polls a wait that has not ended; a poll may panic, and is ready at most once.
fn poll_if_there(wait: &mut Option<Wait>, spy: &Spy) {
    let mut ended = false;
    if let Some(wait) = wait {
        let _ = panics(|| ended = poll(wait, spy).is_ready());
    }
    if ended {
        *wait = None;
    }
}

fn hostile(name: &str, action: fn(&Scene), call: Call, waiter_first: bool) {
    let parent = CancellationSource::new();
    let source = parent.child();
    let child = Mutex::new(Some(source.child()));
    let scene = Arc::new(Scene { child, wait: Mutex::default(), parent, source });
    let (token, quiet) = (scene.source.token(), Spy::new());
    let (inside, fired) = (scene.clone(), Arc::new(AtomicUsize::new(0)));
    let count = fired.clone();
    let spy = Spy::hostile(call, move || {
        count.fetch_add(1, SeqCst);
        action(&inside);
    });
    let wait_in_scene = || {
        let mut wait = Some(owned(&token));
        poll_if_there(&mut wait, &quiet);
        *scene.wait.lock().unwrap() = wait;
    };
    if waiter_first {
        wait_in_scene();
    }
    // Clone and drop of the waker happen here, under the hook.
    spy.arm(1);
    let mut waits = [Some(owned(&token)), Some(owned(&token))];
    poll_if_there(&mut waits[0], &spy);
    poll_if_there(&mut waits[1], &quiet);
    if !waiter_first {
        wait_in_scene();
    }
    // A change of the waker, then the cancel, then what is left.
    poll_if_there(&mut waits[0], &quiet);
    poll_if_there(&mut waits[0], &spy);
    let _ = panics(|| scene.source.request_cancel());
    assert!(token.stop_requested(), "{name} in {call:?}");
    for wait in waits.iter_mut().flatten() {
        // The drop of a waker that is not needed any more may panic; the next poll is ready.
        assert!(!panics(|| ready(wait)) || !panics(|| ready(wait)), "{name} in {call:?}");
    }
    drop(waits);
    let wait = scene.wait.lock().unwrap().take();
    drop(wait);
    // The queue wakes by value, never by reference.
    assert_eq!(fired.load(SeqCst), usize::from(call != Call::WakeByRef), "{name} in {call:?}");
    assert_eq!((spy.alive(), quiet.alive()), (0, 0), "{name} in {call:?}");
}

/// The drop of the waker panics when `run_until_cancelled` has its output: that is returned, and with it the message that was received. The token has no waiter then.
#[test]
fn an_output_is_not_lost_to_a_waker_that_panics() {
    let (source, spy) = (CancellationSource::new(), Spy::hostile(Call::Drop, || panic!("a hostile waker")));
    let (token, (sender, receiver)) = (source.token(), bounded(1));
    let mut run = Box::pin(token.run_until_cancelled(receiver.recv()));
    pending(&mut run, &spy);
    sender.try_send(1).unwrap();
    spy.arm(1);
    assert_eq!(ready(&mut run), Some(Ok(1)));
    assert!(spy.fired() && spy.alive() == 0);
    source.request_cancel();
    assert_eq!(spy.wakes(), 1, "for the message");
    assert!(panic_of(|| ready(&mut run)).contains("polled after it was finished"));
}

/// A future that was forgotten keeps its place, and its token may go: what is gone may not be touched.
#[test]
fn a_forgotten_wait_is_harmless() {
    let parent = CancellationSource::new();
    let middle = parent.child();
    // Two children keep the middle in the tree when its handles are gone.
    let (one, two) = (middle.child(), middle.child());
    let token = middle.token();
    // A waker without memory of its own, for it is forgotten too.
    let (waker, mut wait) = (tally::waker(0), Box::pin(token.on_cancel()));
    assert!(poll_with(&mut wait, &waker).is_pending());
    // SAFETY: the memory stays as it is until it is freed below, unused and without being dropped.
    let memory = Box::into_raw(unsafe { Pin::into_inner_unchecked(wait) });
    let memory = memory.cast::<MaybeUninit<OnCancel<'static>>>();
    drop((middle, token));
    parent.request_cancel();
    assert!(one.token().stop_requested() && two.token().stop_requested());
    assert_eq!(tally::wakes()[0], 0);
    // SAFETY: from `into_raw`; all nodes that knew the wait are gone. `MaybeUninit` drops nothing.
    drop(unsafe { Box::from_raw(memory) });
}
