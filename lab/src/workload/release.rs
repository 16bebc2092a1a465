//! Many waiters that are all released at once: events, groups, tokens.
//!
//! The futures live in place in one array, as in [`cancel`](super::cancel). Three things are timed
//! apart, each per waiter: registering (first poll), the call that releases, and completing (the poll
//! that finds it released, and the drop).

use super::counting_waker::WakeCount;
use super::wake_passes;
use crate::measure::{Bench, Contender, Group, Meter, Reading, Sample};
use crate::peer::{Broadcast, Kind};
use crate::peers::VisitBroadcast;
use std::future::Future;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

/// How many wait.
const WAITERS: usize = 1_000;
/// How many wait for the one call, so that its cost for each of them is seen to grow or not.
const MORE: [usize; 2] = [10, 100_000];
/// How many wait in the first probe.
const FEW: u64 = 100;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Register,
    Call,
    Complete,
}

/// Measures the three phases of everything that `each` names.
pub(crate) fn run(bench: &mut Bench, family: &str, each: fn(&mut Build)) {
    for (phase, name) in [(Phase::Register, "register"), (Phase::Call, "call"), (Phase::Complete, "complete")]
    {
        let workload = format!("{family}/{name}");
        phase_of(bench, workload.clone(), phase, WAITERS, each);
        if phase == Phase::Call {
            MORE.iter().for_each(|&waiters| phase_of(bench, workload.clone(), phase, waiters, each));
        }
    }
}

/// Measures one phase among so many waiters.
fn phase_of(bench: &mut Bench, workload: String, phase: Phase, waiters: usize, each: fn(&mut Build)) {
    let mut build = Build { what: What::Phase(phase, waiters), contenders: Vec::new() };
    each(&mut build);
    if phase == Phase::Call {
        build.contenders.extend(wake_passes::floors(waiters));
    }
    let group = Group::on_one_thread(workload, waiters, "none", waiters as u64, build.contenders);
    bench.group(Group { probe_ops: FEW.min(waiters as u64), ..group });
}

/// Measures a wait that is queued and given up.
pub(crate) fn run_give_up(bench: &mut Bench, workload: &str, each: fn(&mut Build)) {
    let mut build = Build { what: What::GiveUp, contenders: Vec::new() };
    each(&mut build);
    bench.group(Group::on_one_thread(workload, 1, "none", 1_000, build.contenders));
}

/// Notes the sizes of everything that `each` names.
pub(crate) fn sizes(bench: &mut Bench, workload: &str, each: fn(&mut Weigh)) {
    let mut weigh = Weigh(Vec::new());
    each(&mut weigh);
    bench.group(Group::exact(workload, "bytes", weigh.0));
}

/// Notes sizes.
pub(crate) struct Weigh(Vec<Contender>);

impl VisitBroadcast for Weigh {
    fn visit<B: Broadcast>(&mut self) {
        self.0.push(Contender::exact(B::NAME, B::KIND, || B::BYTES as f64));
    }
}

/// Which work.
#[derive(Clone, Copy)]
enum What {
    Phase(Phase, usize),
    GiveUp,
}

/// Collects the subjects of a group.
pub(crate) struct Build {
    what: What,
    contenders: Vec<Contender>,
}

impl VisitBroadcast for Build {
    fn visit<B: Broadcast>(&mut self) {
        let (what, tally) = (self.what, WakeCount::new());
        let run = Box::new(move |ops| match what {
            What::Phase(phase, waiters) => storm::<B>(phase, waiters, tally, ops),
            What::GiveUp => give_up::<B>(tally, ops),
        });
        self.contenders.push(Contender { subject: B::NAME, kind: B::KIND, run });
    }
}

/// Releases `ops` waiters, at most `waiters` at a time, and times one phase.
fn storm<B: Broadcast>(phase: Phase, waiters: usize, tally: WakeCount, ops: u64) -> Sample {
    let width = waiters.min(ops as usize);
    let rounds = ops / width as u64;
    let mut subject = B::new();
    let mut total = Reading::default();
    for _ in 0..rounds {
        subject.rearm();
        let readings = round(&subject, width, tally);
        let timed = readings[phase as usize];
        total.ns += timed.ns;
        total.allocations += timed.allocations;
    }
    Sample::alone(rounds * width as u64, total)
}

/// One release of `width` waiters: each pending before, woken once, ready after.
fn round<B: Broadcast>(subject: &B, width: usize, tally: WakeCount) -> [Reading; 3] {
    let waker = tally.waker();
    let mut cx = Context::from_waker(&waker);
    // Not freed in a panic: futures that have not been dropped must keep their place.
    let mut slots = ManuallyDrop::new((0..width).map(|_| MaybeUninit::uninit()).collect::<Vec<_>>());
    // So that the system gives the pages now, and not while they are timed. Not zeros: those it would give later.
    // SAFETY: the slots are there, and may hold anything.
    unsafe { slots.as_mut_ptr().write_bytes(0xa5, width) };
    let before = tally.count();
    let meter = Meter::start();
    for slot in slots.iter_mut() {
        assert!(poll(slot.write(subject.wait()), &mut cx).is_pending(), "{}: not released yet", B::NAME);
    }
    let registered = meter.read();
    assert_eq!(tally.count(), before, "{}: woken before the release", B::NAME);
    let meter = Meter::start();
    subject.release();
    let called = meter.read();
    let meter = Meter::start();
    for slot in slots.iter_mut() {
        // SAFETY: all have been written.
        let wait = unsafe { slot.assume_init_mut() };
        assert!(poll(wait, &mut cx).is_ready(), "{}: a waiter was forgotten", B::NAME);
        // SAFETY: as above, and it is not looked at again. Dropped where it is: an empty slot written over it would be timed.
        unsafe { slot.assume_init_drop() };
    }
    let completed = meter.read();
    // Of memory only: the futures have been dropped.
    drop(ManuallyDrop::into_inner(slots));
    assert_eq!(tally.count() - before, width as u64, "{}: each is woken once", B::NAME);
    [registered, called, completed]
}

/// Waits that are polled once and dropped; of ours no waiter is left to be woken.
fn give_up<B: Broadcast>(tally: WakeCount, ops: u64) -> Sample {
    let waker = tally.waker();
    let mut cx = Context::from_waker(&waker);
    let mut subject = B::new();
    subject.rearm();
    let before = tally.count();
    let meter = Meter::start();
    for _ in 0..ops {
        assert!(pin!(subject.wait()).poll(&mut cx).is_pending(), "{}: not released yet", B::NAME);
    }
    let reading = meter.read();
    // Some peers wake waiters that are cancelled, or keep their wakers until the release; ours must not.
    subject.release();
    let woken = tally.count() - before;
    assert!(woken == 0 || B::KIND == Kind::Peer, "{}: {woken} who had left were woken", B::NAME);
    Sample::alone(ops, reading)
}

/// Polls a wait where it lies.
#[inline]
fn poll<F: Future>(wait: &mut F, cx: &mut Context<'_>) -> Poll<F::Output> {
    // SAFETY: the slots are in a vector that is never moved nor grown, and the waits are dropped in place.
    unsafe { Pin::new_unchecked(wait) }.poll(cx)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{each_group_release, each_manual_event, each_token};

    /// Runs everything briefly; the samples check which waiters are pending, woken and ready.
    struct Short;

    impl VisitBroadcast for Short {
        fn visit<B: Broadcast>(&mut self) {
            let tally = WakeCount::new();
            for phase in [Phase::Register, Phase::Call, Phase::Complete] {
                assert_eq!(storm::<B>(phase, 20, tally, 40).ops, 40, "{} {phase:?}", B::NAME);
            }
            assert_eq!(give_up::<B>(tally, 20).ops, 20);
        }
    }

    #[test]
    fn every_waiter_is_released_once() {
        each_manual_event(&mut Short);
        each_group_release(&mut Short);
        each_token(&mut Short);
    }
}
