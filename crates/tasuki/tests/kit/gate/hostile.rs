//! Hostile wakers (H3): the waker's clone, wake and drop are foreign code. Each of six things they might do, in each call that a gate makes,
//! at each moment when it makes one, alone and in a crowd of more than a batch.
//!
//! Out of reach for safe Rust, so not here: `wake_by_ref` (a gate wakes by value only, which is asserted); to poll or drop
//! a future from inside its own poll or drop; to free the gate while it is in use, since its user holds it.

use super::{Gate, works_again};
use crate::kit::hostile::{Cast, every_deed};
use crate::kit::poll::{BoxFuture, panics, pending, poll, ready};
use crate::kit::waker::Call;
use crate::kit::watchdog::watchdog;
use std::future::Future;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    FirstPoll,
    AnotherWaker,
    Open,
    Cancel,
}

const MOMENTS: [Moment; 4] = [Moment::FirstPoll, Moment::AnotherWaker, Moment::Open, Moment::Cancel];

type Scene<G> = Cast<G, dyn Future<Output = ()> + Send>;

/// The hook runs once, at the moment, when a waiter stands before the victim; true if that panicked.
fn play<G: Gate>(scene: &mut Scene<G>, first: &mut BoxFuture<()>, moment: Moment) -> bool {
    pending(first, &scene.calm);
    if moment != Moment::FirstPoll {
        scene.queue_victim();
    }
    scene.queue_crowd();
    scene.queue_other();
    let hostile = scene.hostile.waker();
    scene.hostile.arm(1);
    let panicked = match moment {
        Moment::FirstPoll => !scene.poll_victim(&hostile),
        Moment::AnotherWaker => !scene.poll_victim_with_another(&hostile),
        Moment::Open => panics(|| scene.shared.open()),
        Moment::Cancel => scene.drop_victim(),
    };
    scene.hostile.arm(0);
    panicked
}

/// All that are left get through, and nothing is left behind.
fn settle<G: Gate>(mut scene: Scene<G>, first: BoxFuture<()>, context: &str) {
    let mut waiting = scene.left();
    waiting.push(first);
    waiting.retain_mut(|future| poll(future, &scene.calm).is_pending());
    if !waiting.is_empty() {
        scene.shared.open();
        waiting.iter_mut().for_each(ready);
    }
    drop(waiting);
    works_again(&scene.shared, context);
    scene.leave(context);
}

pub(crate) fn wakers<G: Gate>() {
    let _dog = watchdog(60);
    let is_made = |call| call != Call::WakeByRef;
    every_deed(is_made, |deed, call| {
        let mut done = false;
        for (moment, crowd) in MOMENTS.into_iter().flat_map(|moment| [0, 1, 40].map(|crowd| (moment, crowd)))
        {
            // Miri: several batches only where they are woken.
            let batches = moment == Moment::Open && call == Call::Wake;
            if cfg!(miri) && crowd > 0 && !(batches && crowd == 40) {
                continue;
            }
            let context = format!("{deed:?} in {call:?} at {moment:?}, crowd {crowd}");
            let gate = Arc::new(G::closed(crowd + 3));
            let mut first = G::wait(&gate);
            let call_everything = |gate: &Arc<G>| gate.call_everything();
            let mut scene = Scene::new(gate, crowd, |gate, _| G::wait(gate), (deed, call), call_everything);
            let panicked = play(&mut scene, &mut first, moment);
            done |= scene.was_done(deed, panicked, &context);
            settle(scene, first, &context);
        }
        done
    });
}
