//! Random small programs under `Exhaustive`: it sees exactly the orders that an independent model has (`order_model.rs`), with as many switches as it is allowed; random schedules see some of these, and the same
//! seed always the same.

use super::order_model::{MOST, Of, Outcome, Program, Step, outcomes};
use crate::kit::watchdog;
use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tasuki::{Event, Mutex, RwLock, Semaphore};
use tasuki_rt::testing::{Exhaustive, Simulation};
use tasuki_rt::{AbortHandle, JoinHandle, checkpoint, sleep, spawn_local, yield_now};

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

/// Longer than all sleeps of a program.
const END: Duration = Duration::from_secs(1);

struct Shared {
    mutex: Arc<Mutex<()>>,
    semaphore: Arc<Semaphore>,
    lock: Arc<RwLock<()>>,
    event: Event,
    log: RefCell<Vec<(usize, usize, bool)>>,
    handles: RefCell<Vec<Option<JoinHandle<()>>>>,
    aborts: RefCell<Vec<AbortHandle>>,
}

/// Takes permits; the guard, if there is one.
async fn take(shared: &Shared, of: Of, count: usize) -> Option<Box<dyn Any>> {
    Some(match of {
        Of::Mutex => Box::new(shared.mutex.clone().lock_owned().await),
        Of::Semaphore => Box::new(shared.semaphore.clone().acquire_many_owned(count).await.unwrap()),
        Of::RwLock if count == 1 => Box::new(shared.lock.clone().read_owned().await),
        Of::RwLock => Box::new(shared.lock.clone().write_owned().await),
        Of::Event => {
            shared.event.wait().await;
            return None;
        }
    })
}

async fn run_steps(shared: Rc<Shared>, task: usize, steps: Vec<Step>) {
    let mut held = VecDeque::new();
    for (at, step) in steps.into_iter().enumerate() {
        let mut aborted = false;
        match step {
            Step::Checkpoint => checkpoint().await,
            Step::Yield => yield_now().await,
            Step::Take(of, count) => held.extend(take(&shared, of, count).await),
            Step::Release => drop(held.pop_front()),
            Step::Set => shared.event.set(),
            Step::Sleep(time) => sleep(Duration::from_millis(time)).await,
            Step::Join(other) => {
                let handle = shared.handles.borrow_mut()[other].take().expect("joined once");
                aborted = handle.await.is_err();
            }
            Step::Abort(other) => shared.aborts.borrow()[other].abort(),
        }
        shared.log.borrow_mut().push((task, at, aborted));
    }
}

async fn run(program: Program, found: Rc<RefCell<BTreeSet<Outcome>>>) {
    let shared = Rc::new(Shared {
        mutex: Arc::default(),
        semaphore: Arc::new(Semaphore::new(MOST[Of::Semaphore as usize])),
        lock: Arc::default(),
        event: Event::auto(),
        log: RefCell::default(),
        handles: RefCell::default(),
        aborts: RefCell::default(),
    });
    for (task, steps) in program.into_iter().enumerate() {
        let handle = spawn_local(run_steps(shared.clone(), task, steps));
        shared.aborts.borrow_mut().push(handle.abort_handle());
        shared.handles.borrow_mut().push(Some(handle));
    }
    // Tasks that wait for ever are no deadlock beside this.
    sleep(END).await;
    let ended = shared.aborts.borrow().iter().map(AbortHandle::is_finished).collect();
    found.borrow_mut().insert((shared.log.borrow().clone(), ended));
    shared.handles.borrow_mut().clear();
}

fn random_program(rng: &mut Rng) -> Program {
    let tasks = 2 + rng.below(2);
    let kinds: Vec<usize> = (0..1 + rng.below(3)).map(|_| rng.below(7)).collect();
    let mut joined = vec![false; tasks];
    let steps = |task: usize| {
        let (mut steps, mut held) = (Vec::new(), Vec::new());
        let awaits = 1 + rng.below(6 - tasks);
        while steps.iter().filter(|step: &&Step| step.is_awaited()).count() < awaits {
            let other = (task + 1 + rng.below(tasks - 1)) % tasks;
            let step = match kinds[rng.below(kinds.len())] {
                0 => Step::Take(Of::Mutex, 1),
                1 => Step::Take(Of::Semaphore, 1 + rng.below(2)),
                2 => Step::Take(Of::RwLock, [1, MOST[Of::RwLock as usize]][rng.below(2)]),
                3 => [Step::Take(Of::Event, 1), Step::Set][rng.below(2)],
                4 => [Step::Checkpoint, Step::Yield][rng.below(2)],
                5 => Step::Sleep(rng.below(3) as u64),
                _ if rng.below(2) == 0 => Step::Abort(other),
                _ if !std::mem::replace(&mut joined[other], true) => Step::Join(other),
                _ => Step::Checkpoint,
            };
            match step {
                // It would wait for itself.
                Step::Take(of, _) if held.contains(&of) => steps.push(Step::Checkpoint),
                step => steps.push(step),
            }
            if let (Step::Take(of, _), Some(Step::Take(..))) = (step, steps.last()) {
                held.extend((of != Of::Event).then_some(of));
            }
            if !held.is_empty() && rng.below(2) == 0 {
                held.remove(0);
                steps.push(Step::Release);
            }
        }
        steps
    };
    (0..tasks).map(steps).collect()
}

#[test]
#[cfg_attr(miri, ignore = "thousands of runs")]
fn a_search_has_exactly_the_orders_of_a_model() {
    let _dog = watchdog(240);
    let mut compared = 0;
    for seed in 0..100 {
        let mut rng = Rng(seed);
        let program = random_program(&mut rng);
        let switches = [0, 1, 2, 3, 100][rng.below(5)];
        let Some(expected) = outcomes(&program, switches, 3_000) else { continue };
        let found = Rc::<RefCell<BTreeSet<Outcome>>>::default();
        let search = Exhaustive::new().switches(switches).schedules(1_000).grace(Duration::ZERO);
        let explored = search.check(|| run(program.clone(), found.clone()));
        let unexpected = found.borrow().difference(&expected).next().cloned();
        assert_eq!(unexpected, None, "seed {seed}, {switches} switches: {program:?}");
        if explored.is_complete() {
            let missed = expected.difference(&found.borrow()).next().cloned();
            assert_eq!(missed, None, "seed {seed}, {switches} switches: {program:?}");
            compared += 1;
        }
        if switches == 100 {
            for seed in 0..8 {
                let by_seed = || {
                    let found = Rc::<RefCell<BTreeSet<Outcome>>>::default();
                    Simulation::new(seed)
                        .workers(2)
                        .grace(Duration::ZERO)
                        .run(run(program.clone(), found.clone()));
                    found.take()
                };
                let once = by_seed();
                assert!(once == by_seed() && once.is_subset(&expected), "{seed}: {program:?}");
            }
        }
    }
    assert!(compared > 60, "{compared} of 100");
}
