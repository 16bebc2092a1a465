//! Hostile wakers (H3) on the event: a waker's clone, wake and drop are foreign code and may do anything. B061, B063, B129, H15.
//!
//! Six actions x the calls that an event makes x every place where it makes one, auto and manual, in one batch of
//! wakers and in several. After each the event works, and every waker was dropped or woken exactly once.
//!
//! Out of reach for safe Rust, so not here: `wake_by_ref` (an event wakes by value only; the test asserts that);
//! polling or dropping a future from a call made by that future's own poll or drop; dropping the event in the
//! middle of a call on it, because the caller keeps it alive.

use crate::kit::hostile::{Cast, every_deed};
use crate::kit::poll::{BoxFuture, panics, pending, poll};
use crate::kit::waker::{Call, Spy};
use crate::kit::watchdog::watchdog;
use std::future::Future;
use std::sync::{Arc, Mutex as StdMutex};
use tasuki::{Event, Reset};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    FirstPoll,
    Repoll,
    Set,
    CancelGiven,
    CancelQueued,
}

const MOMENTS: [Moment; 5] =
    [Moment::FirstPoll, Moment::Repoll, Moment::Set, Moment::CancelGiven, Moment::CancelQueued];

fn wait(event: &Arc<Event>) -> BoxFuture<()> {
    let event = event.clone();
    Box::pin(async move { event.wait().await })
}

type Scene = Cast<Event, dyn Future<Output = ()> + Send>;

fn call_everything(event: &Arc<Event>) {
    let spy = Spy::new();
    let was_set = event.is_set();
    let mut future = Box::pin(event.wait());
    let consumed = poll(&mut future, &spy).is_ready();
    assert!(!was_set || consumed);
    drop(format!("{event:?} {future:?}"));
    drop(future);
    event.reset();
    event.set();
    assert_eq!(spy.alive(), 0);
}

/// Runs the scene up to the moment and lets the hook loose there; true if the moment panicked. `first` is queued before the victim.
fn play(scene: &mut Scene, first: &mut Option<BoxFuture<()>>, moment: Moment) -> bool {
    if let Some(first) = first {
        pending(first, &scene.calm);
    }
    if moment != Moment::FirstPoll {
        scene.queue_victim();
    }
    scene.queue_crowd();
    scene.queue_other();
    if moment == Moment::CancelGiven {
        scene.shared.set();
    }
    let hostile = scene.hostile.waker();
    scene.hostile.arm(1);
    let panicked = match moment {
        Moment::FirstPoll => !scene.poll_victim(&hostile),
        Moment::Repoll => !scene.poll_victim_with_another(&hostile),
        Moment::Set => panics(|| (scene.shared.set(), scene.shared.set())),
        Moment::CancelGiven => panics(|| drop(first.take())),
        Moment::CancelQueued => scene.drop_victim(),
    };
    scene.hostile.arm(0);
    panicked
}

/// Sets until no waiter is left; all are served.
fn settle(mut scene: Scene, first: Option<BoxFuture<()>>, context: &str) {
    let left = scene.left().into_iter().chain(first).collect();
    scene.serve_all(left, Event::set, context);
    scene.shared.set();
    assert!(scene.shared.is_set(), "{context}: no waiter is left, so the signal stays");
    scene.leave(context);
}

/// All of it for one kind of event.
fn all(reset: Reset) {
    let _dog = watchdog(60);
    let is_made = |call| call != Call::WakeByRef;
    every_deed(is_made, |deed, call| {
        let mut done = false;
        for (moment, crowd) in MOMENTS.into_iter().flat_map(|moment| [0, 1, 40].map(|crowd| (moment, crowd)))
        {
            // Miri: several batches only where they are woken.
            let batches = moment == Moment::Set && call == Call::Wake;
            if cfg!(miri) && crowd > 0 && !(batches && crowd == 40) {
                continue;
            }
            let context = format!("{reset:?}: {deed:?} in {call:?} at {moment:?}, crowd {crowd}");
            let event = Arc::new(Event::new(reset, false));
            let mut first = (crowd % 2 == 0).then(|| wait(&event));
            let mut scene = Scene::new(event, crowd, |event, _| wait(event), (deed, call), call_everything);
            let panicked = play(&mut scene, &mut first, moment);
            done |= scene.was_done(deed, panicked, &context);
            settle(scene, first, &context);
        }
        done
    });
}

#[test]
fn h3_auto() {
    all(Reset::Auto);
}

#[test]
fn h3_manual() {
    all(Reset::Manual);
}

/// H15: a waiter that queues again from its own wake is not released by the same set.
#[test]
fn h15_requeueing_in_the_wake_is_not_released_twice() {
    let _dog = watchdog(10);
    let event = Arc::new(Event::manual());
    let spies: Vec<Arc<Spy>> = (0..70).map(|_| Arc::new(Spy::new())).collect();
    let again: Arc<StdMutex<Vec<BoxFuture<()>>>> = Arc::default();
    let late = Arc::new(Spy::new());
    let mut futures: Vec<_> = spies.iter().map(|_| wait(&event)).collect();
    for (future, spy) in futures.iter_mut().zip(&spies) {
        pending(future, spy);
        let (weak, again, late) = (Arc::downgrade(&event), again.clone(), late.clone());
        spy.on(Call::Wake, move || {
            let event = weak.upgrade().unwrap();
            event.reset();
            let mut future = wait(&event);
            pending(&mut future, &late);
            again.lock().unwrap().push(future);
        });
        spy.arm(1);
    }
    event.set();
    assert!(spies.iter().all(|spy| spy.wakes() == 1));
    futures.iter_mut().for_each(crate::kit::poll::ready);
    let mut again = std::mem::take(&mut *again.lock().unwrap());
    assert_eq!((again.len(), late.wakes()), (70, 0));
    again.iter_mut().for_each(|future| pending(future, &late));
    event.set();
    assert_eq!(late.wakes(), 70);
    again.iter_mut().for_each(crate::kit::poll::ready);
}
