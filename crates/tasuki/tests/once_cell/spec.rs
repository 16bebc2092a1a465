//! Every string of operations on a once cell, against a model of a few lines: which waits are ready and with what, which are woken and
//! how often, which task makes the value, and whether it is there, after every step. Initialisers succeed, fail, panic, are dropped
//! and run out of time.
//!
//! `TASUKI_SPEC_DEPTH=9 TASUKI_SPEC_WAITERS=4` (in release) is the long form.
//! B007, B025, B097, H2, H4, H15.

use crate::kit::poll::catch;
use crate::kit::spec::{self, Model, System, enumerate};
use crate::kit::tally;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use tasuki::{CancellationSource, CancellationToken, Cancelled, OnceCell};

const MAX_WAITERS: usize = 4;
/// What `set` puts there; an initialiser makes the number of its slot.
const SET: usize = 9;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// The first poll of a waiter that wants the value, or would make it.
    Begin(usize, Wants),
    /// Polls a waiter with the first or the second of its two wakers.
    Poll(usize, usize),
    /// The initialiser of the waiter that has the turn comes to this end, in a poll.
    End(usize, Step),
    /// The token is cancelled, and the waiter polled.
    Expire(usize),
    Drop(usize),
    Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    Value,
    Turn,
}

/// What an initialiser does when it is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    GoOn,
    Succeed,
    Fail,
    Panic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Result {
    Value(usize),
    Failed,
    Cancelled,
    Panicked,
    Pending,
    Refused,
    Done,
}

#[derive(Debug, PartialEq)]
struct Seen {
    result: Result,
    value: Option<usize>,
    /// Whose initialiser exists.
    running: [bool; MAX_WAITERS],
    wakes: [u8; tally::WAKERS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Queued(Wants),
    /// It has the turn, and has not looked yet.
    Granted,
    Running,
    /// The value is there, and it has not looked yet.
    Released,
    Gone,
}

/// What a once cell is, said with a list.
#[derive(Clone)]
struct Spec {
    waiters: usize,
    value: Option<usize>,
    has_turn: Option<usize>,
    queue: Vec<usize>,
    state: [State; MAX_WAITERS],
    waker: [usize; MAX_WAITERS],
    wakes: [u8; tally::WAKERS],
}

impl Spec {
    fn new(waiters: usize) -> Self {
        Self {
            waiters,
            value: None,
            has_turn: None,
            queue: Vec::with_capacity(MAX_WAITERS),
            state: [State::New; MAX_WAITERS],
            waker: [0; MAX_WAITERS],
            wakes: [0; tally::WAKERS],
        }
    }

    fn wake(&mut self, slot: usize) {
        self.wakes[2 * slot + self.waker[slot]] += 1;
    }

    fn make(&mut self, value: usize) {
        self.value = Some(value);
        self.has_turn = None;
        for slot in std::mem::take(&mut self.queue) {
            self.state[slot] = State::Released;
            self.wake(slot);
        }
    }

    fn pass_on(&mut self) {
        self.has_turn = None;
        let next = self.queue.iter().position(|slot| self.state[*slot] == State::Queued(Wants::Turn));
        if let Some(at) = next {
            let slot = self.queue.remove(at);
            self.has_turn = Some(slot);
            self.state[slot] = State::Granted;
            self.wake(slot);
        }
    }

    fn begin(&mut self, slot: usize, wants: Wants) -> Result {
        if let Some(value) = self.value {
            self.state[slot] = State::Gone;
            return Result::Value(value);
        }
        if wants == Wants::Turn && self.has_turn.is_none() {
            self.has_turn = Some(slot);
            self.state[slot] = State::Running;
        } else {
            self.queue.push(slot);
            self.state[slot] = State::Queued(wants);
        }
        Result::Pending
    }

    fn poll(&mut self, slot: usize, waker: usize) -> Result {
        self.waker[slot] = waker;
        match self.state[slot] {
            State::Released => {
                self.state[slot] = State::Gone;
                return Result::Value(self.value.expect("released by the value"));
            }
            State::Granted => self.state[slot] = State::Running,
            _ => {}
        }
        Result::Pending
    }

    fn end(&mut self, slot: usize, step: Step) -> Result {
        self.state[slot] = State::Gone;
        match step {
            Step::Succeed => {
                self.make(slot);
                return Result::Value(slot);
            }
            _ => self.pass_on(),
        }
        if step == Step::Fail { Result::Failed } else { Result::Panicked }
    }

    fn drop_slot(&mut self, slot: usize) {
        self.queue.retain(|other| *other != slot);
        if matches!(std::mem::replace(&mut self.state[slot], State::Gone), State::Granted | State::Running) {
            self.pass_on();
        }
    }

    fn expire(&mut self, slot: usize) -> Result {
        self.wake(slot);
        let result = self.poll(slot, self.waker[slot]);
        if result != Result::Pending {
            return result;
        }
        self.drop_slot(slot);
        Result::Cancelled
    }

    fn set(&mut self) -> Result {
        if self.value.is_some() || self.has_turn.is_some() {
            return Result::Refused;
        }
        self.make(SET);
        Result::Done
    }
}

impl System for Spec {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let result = match op {
            Op::Begin(slot, wants) => self.begin(slot, wants),
            Op::Poll(slot, waker) => self.poll(slot, waker),
            Op::End(slot, step) => self.end(slot, step),
            Op::Expire(slot) => self.expire(slot),
            Op::Drop(slot) => {
                self.drop_slot(slot);
                Result::Done
            }
            Op::Set => self.set(),
        };
        let running = self.state.map(|state| state == State::Running);
        Seen { result, value: self.value, running, wakes: self.wakes }
    }
}

impl Model for Spec {
    fn next(&self, ops: &mut Vec<Op>) {
        let mut begins = true;
        for slot in 0..self.waiters {
            match self.state[slot] {
                State::New if begins => {
                    ops.extend([Op::Begin(slot, Wants::Value), Op::Begin(slot, Wants::Turn)]);
                    begins = false;
                }
                State::New | State::Gone => {}
                State::Queued(_) => {
                    ops.extend([Op::Poll(slot, 1 - self.waker[slot]), Op::Drop(slot), Op::Expire(slot)]);
                }
                State::Granted | State::Released => {
                    ops.extend([Op::Poll(slot, 0), Op::Drop(slot), Op::Expire(slot)]);
                }
                State::Running => {
                    ops.extend([Step::Succeed, Step::Fail, Step::Panic].map(|step| Op::End(slot, step)));
                    ops.extend([Op::Drop(slot), Op::Expire(slot)]);
                }
            }
        }
        ops.push(Op::Set);
    }
}

/// What lasts for a string.
struct World {
    cell: OnceCell<usize>,
    sources: [CancellationSource; MAX_WAITERS],
    tokens: [CancellationToken; MAX_WAITERS],
    steps: [Cell<Step>; MAX_WAITERS],
    running: [Cell<bool>; MAX_WAITERS],
}

/// Says that an initialiser exists.
struct Running<'w>(&'w Cell<bool>);

impl<'w> Running<'w> {
    fn new(flag: &'w Cell<bool>) -> Self {
        assert!(!flag.replace(true));
        Self(flag)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl World {
    fn new() -> Self {
        let sources: [_; MAX_WAITERS] = std::array::from_fn(|_| CancellationSource::new());
        let tokens = sources.each_ref().map(CancellationSource::token);
        let steps = std::array::from_fn(|_| Cell::new(Step::GoOn));
        Self { cell: OnceCell::new(), sources, tokens, steps, running: Default::default() }
    }

    async fn initialise(&self, slot: usize) -> std::result::Result<usize, ()> {
        let _running = Running::new(&self.running[slot]);
        poll_fn(|_| match self.steps[slot].get() {
            Step::GoOn => Poll::Pending,
            Step::Succeed => Poll::Ready(Ok(slot)),
            Step::Fail => Poll::Ready(Err(())),
            // Without the message that every panic prints.
            Step::Panic => std::panic::resume_unwind(Box::new("an initialiser")),
        })
        .await
    }

    fn future<'w>(&'w self, slot: usize, wants: Wants) -> Pin<Box<dyn Future<Output = Result> + 'w>> {
        let token = &self.tokens[slot];
        match wants {
            Wants::Value => Box::pin(async move {
                match self.cell.wait().or_cancelled(token).await {
                    Ok(value) => Result::Value(*value),
                    Err(Cancelled) => Result::Cancelled,
                }
            }),
            Wants::Turn => Box::pin(async move {
                match self.cell.get_or_try_init(|| self.initialise(slot)).or_cancelled(token).await {
                    Ok(Ok(value)) => Result::Value(*value),
                    Ok(Err(())) => Result::Failed,
                    Err(Cancelled) => Result::Cancelled,
                }
            }),
        }
    }
}

struct Real<'w> {
    world: &'w World,
    slots: [Option<Pin<Box<dyn Future<Output = Result> + 'w>>>; MAX_WAITERS],
}

impl<'w> Real<'w> {
    fn new(world: &'w World) -> Self {
        tally::reset();
        Self { world, slots: Default::default() }
    }

    fn poll(&mut self, slot: usize, waker: usize) -> Result {
        let waker = tally::waker(2 * slot + waker);
        let future = self.slots[slot].as_mut().expect("it waits");
        let result = match catch(|| future.as_mut().poll(&mut Context::from_waker(&waker))) {
            Some(Poll::Pending) => return Result::Pending,
            Some(Poll::Ready(result)) => result,
            None => Result::Panicked,
        };
        self.slots[slot] = None;
        result
    }
}

impl System for Real<'_> {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let mut result = Result::Done;
        match op {
            Op::Begin(slot, wants) => {
                self.slots[slot] = Some(self.world.future(slot, wants));
                result = self.poll(slot, 0);
            }
            Op::Poll(slot, waker) => result = self.poll(slot, waker),
            Op::End(slot, step) => {
                self.world.steps[slot].set(step);
                result = self.poll(slot, 0);
            }
            Op::Expire(slot) => {
                self.world.sources[slot].request_cancel();
                result = self.poll(slot, 0);
            }
            Op::Drop(slot) => self.slots[slot] = None,
            Op::Set => {
                if self.world.cell.set(SET).is_err() {
                    result = Result::Refused;
                }
            }
        }
        let running = self.world.running.each_ref().map(Cell::get);
        Seen { result, value: self.world.cell.get().copied(), running, wakes: tally::wakes() }
    }

    /// All leave: no waiter has the turn, and no waker is left.
    fn finish(&mut self) {
        let (cell, filled) = (&self.world.cell, self.world.cell.get().is_some());
        self.slots = Default::default();
        assert_eq!(cell.set(SET).is_ok(), !filled, "no waiter has the turn");
        assert_eq!(tally::alive(), 0, "wakers made and not dropped");
    }
}

#[test]
fn the_cell_is_its_model() {
    let (depth, waiters) = spec::size(4, MAX_WAITERS);
    enumerate("OnceCell", depth, &Spec::new(waiters), |body| {
        let world = World::new();
        body(&mut Real::new(&world));
    });
}
