//! Every task that becomes runnable is run. The program has tasks that are spawned from outside, that are spawned inside, that yield, and that are woken before, in or after their first
//! poll. A worker sleeps until it is unparked, and for no other reason, so a lost wake-up is a deadlock.
//!
//! Searching, sleeping and the global queue are the runtime's own, and so is the order of the steps of a worker. The task cell is a stand-in for that of `async-task`: a task is queued once for each time it
//! becomes runnable, and a wake during its poll queues it after the poll. The steps of the cell, of the local queue, of the event, and of the flag and the count by which the program ends are atomic and
//! order nothing else: the model checker does not know them.
//!
//! | program | workers | preemptions | executions |
//! |---|---|---|---|
//! | the whole | 1 | 3 | 53,000 |
//! | its two halves | 2 | 2 | 73,000 and 187,000; with 3 they do not end in hours |
//! | a task from outside, and one that is woken from outside | 2 | 2 | 68,000 each |
//! | the same | 2 | 3 | 2,391,476 each, in half an hour beside other work |
//! | two tasks from inside | 2 | 2 | 16 |
//! | the same | 2 | 3 | 19 |
//! | a task in the global queue that is woken before its first poll | 2 | as the others | 6 |
//!
//! Three preemptions with two workers are for releases: `cargo xtask model --preemptions 3 --cap 7200 rt::first_run`. They were last counted before a searcher looked whether there is more to do. A task in the global queue that is woken in or after
//! its first poll, by whichever worker, has two preemptions in every run.
//! `tests/scheduler/idle_states.rs` has the protocol as a state machine, and visits all states of these programs, with any number of preemptions.

use crate::parts::idle::{Idle, IdleWorker, NEVER, SleepPlan, SleepRequest};
use crate::parts::shared_queue::SharedQueue;
use crate::tasks::Token;
use loom::sync::Notify;
use loom::thread;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The tasks, by their numbers.
const SPAWNS: usize = 0;
const YIELDS: usize = 1;
const WAITS: usize = 2;
const ENDS: usize = 3;
const TASKS: usize = 4;

/// In a queue, or to be queued after the poll.
const SCHEDULED: usize = 1;
const RUNNING: usize = 2;

/// A runtime, and the program.
struct Pool {
    idle: Idle,
    global: SharedQueue<Token>,
    locals: Vec<Mutex<VecDeque<usize>>>,
    parkers: Vec<Notify>,
    /// As the local queues: the end of the program is not what is tried here.
    closing: AtomicBool,
    states: [AtomicUsize; TASKS],
    /// How often each was polled.
    polls: [AtomicUsize; TASKS],
    /// An event: whether it is set, and whether its task waits.
    event: Mutex<(bool, bool)>,
    left: AtomicUsize,
    /// Leaves out the notification of a push, to see that the models notice.
    silent: bool,
}

impl Pool {
    /// Never freed: a model that fails as it should must not touch it again while it unwinds.
    fn new(program: &Program) -> &'static Self {
        let (workers, tasks, silent) = (program.workers, program.tasks.len(), program.silent);
        Box::leak(Box::new(Self {
            idle: Idle::new(workers),
            global: SharedQueue::new(),
            locals: (0..workers).map(|_| Mutex::new(VecDeque::new())).collect(),
            parkers: (0..workers).map(|_| Notify::new()).collect(),
            closing: false.into(),
            states: Default::default(),
            polls: Default::default(),
            event: Mutex::new((program.is_set, false)),
            left: tasks.into(),
            silent,
        }))
    }

    fn notify(&self) {
        if let Some(worker) = self.idle.notify() {
            self.parkers[worker].notify();
        }
    }

    /// As `schedule`: to the local queue on a worker, to the global one elsewhere.
    fn push(&self, here: Option<usize>, task: usize) {
        match here {
            Some(worker) => {
                let mut local = self.locals[worker].lock().unwrap();
                local.push_back(task);
                let alone = local.len() == 1;
                drop(local);
                // One task alone is for its worker, or for a watcher, of which there is none here.
                if !alone {
                    self.notify();
                }
            }
            None => {
                assert!(self.global.push(Token::new(task)).is_ok());
                if !self.silent {
                    self.notify();
                }
            }
        }
    }

    fn wake(&self, here: Option<usize>, task: usize) {
        if self.states[task].fetch_or(SCHEDULED, Ordering::AcqRel) == 0 {
            self.push(here, task);
        }
    }

    fn set_event(&self) {
        let mut event = self.event.lock().unwrap();
        let waits = event.1;
        *event = (true, false);
        drop(event);
        if waits {
            self.wake(None, WAITS);
        }
    }

    /// One poll; true if the task has ended.
    fn poll(&self, worker: usize, task: usize) -> bool {
        let first = self.polls[task].fetch_add(1, Ordering::Relaxed) == 0;
        match task {
            SPAWNS => {
                self.wake(Some(worker), YIELDS);
                true
            }
            YIELDS if first => {
                self.wake(Some(worker), YIELDS);
                false
            }
            YIELDS | ENDS => true,
            _ => {
                let mut event = self.event.lock().unwrap();
                event.1 = !event.0;
                event.0
            }
        }
    }

    fn run(&self, worker: usize, task: usize) {
        assert_eq!(self.states[task].swap(RUNNING, Ordering::AcqRel), SCHEDULED);
        if self.poll(worker, task) {
            if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.closing.store(true, Ordering::Release);
                self.parkers.iter().for_each(Notify::notify);
            }
        } else if self.states[task].fetch_and(!RUNNING, Ordering::AcqRel) & SCHEDULED != 0 {
            self.push(Some(worker), task);
        }
    }

    /// Local queue, global queue; a searcher also the local queues of the others.
    fn pick(&self, worker: usize, searching: bool) -> Option<usize> {
        let local = self.locals[worker].lock().unwrap().pop_front();
        let global = || self.global.take(1, 0, |_| ()).map(|token| token.number());
        local.or_else(global).or_else(|| {
            let mut others = (0..self.locals.len()).filter(|other| searching && *other != worker);
            // Whatever it sees: this thief finds every poll long.
            others.find_map(|other| self.locals[other].lock().unwrap().pop_front())
        })
    }

    /// A worker that is asleep at first.
    fn work_when_woken(&self, worker: usize) {
        self.parkers[worker].wait();
        self.work(worker, self.idle.rise(worker).chosen);
    }

    fn work(&self, worker: usize, mut searching: bool) {
        while !self.closing.load(Ordering::Acquire) {
            let mut task = self.pick(worker, searching);
            if task.is_none() && !searching {
                searching = self.idle.try_search();
                task = self.pick(worker, searching);
            }
            if let Some(task) = task {
                if std::mem::take(&mut searching) {
                    self.found(worker);
                }
                self.run(worker, task);
                continue;
            }
            let request = SleepRequest { worker, searching: std::mem::take(&mut searching), watch: false };
            searching = self.idle.sleep_until_woken(request, &FallingAsleep { pool: self, worker }).chosen;
        }
        if searching {
            self.found(worker);
        }
    }

    fn found(&self, worker: usize) {
        let has_own = || !self.locals[worker].lock().unwrap().is_empty();
        if self.idle.found(|| has_own() || !self.global.is_empty()) {
            self.notify();
        }
    }
}

struct FallingAsleep<'a> {
    pool: &'a Pool,
    worker: usize,
}

impl IdleWorker for FallingAsleep<'_> {
    fn sees_work(&self, alone: bool) -> bool {
        let pool = self.pool;
        let mut others = (0..pool.locals.len()).filter(|other| *other != self.worker);
        pool.closing.load(Ordering::Acquire)
            || !pool.global.is_empty()
            || others.any(|other| pool.locals[other].lock().unwrap().len() > usize::from(!alone))
    }

    fn earliest_deadline(&self) -> u64 {
        NEVER
    }

    fn sleep(&self, _plan: SleepPlan) {
        self.pool.parkers[self.worker].wait();
    }
}

/// What is run. All tasks end, or it is a deadlock.
#[derive(Clone, Copy)]
struct Program {
    workers: usize,
    /// As many as for the other models, unless it says otherwise.
    preemptions: Option<usize>,
    tasks: &'static [usize],
    /// Those that are in the global queue at first, and those that the first worker has.
    queued: &'static [usize],
    local: &'static [usize],
    /// What a thread outside does.
    outside: Option<fn(&Pool)>,
    /// The event is set from the beginning.
    is_set: bool,
    silent: bool,
}

impl Program {
    const fn new(workers: usize, preemptions: Option<usize>, tasks: &'static [usize]) -> Self {
        let (queued, local, outside): (&[usize], &[usize], _) = (&[], &[], None);
        Self { workers, preemptions, tasks, queued, local, outside, is_set: false, silent: false }
    }

    fn run(self) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = self.preemptions.or(model.preemption_bound);
        let executions = std::sync::Arc::new(AtomicUsize::new(0));
        let counted = executions.clone();
        model.check(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            self.execute();
        });
        // A `Builder` has no log of its own, and `loom::model` takes no bound.
        println!("Completed in {} iterations", executions.load(Ordering::Relaxed));
    }

    fn execute(self) {
        let pool = Pool::new(&self);
        // The first worker is awake at first, the others are not.
        (1..self.workers).for_each(|worker| assert!(pool.idle.sleep(SleepRequest::of(worker)).look));
        self.queued.iter().for_each(|task| pool.wake(None, *task));
        for task in self.local {
            pool.states[*task].store(SCHEDULED, Ordering::Relaxed);
            pool.locals[0].lock().unwrap().push_back(*task);
        }
        let outside = self.outside.map(|outside| thread::spawn(move || outside(pool)));
        let others: Vec<_> =
            (1..self.workers).map(|worker| thread::spawn(move || pool.work_when_woken(worker))).collect();
        pool.work(0, false);
        outside.into_iter().chain(others).for_each(|thread| thread.join().unwrap());
        let polls = |task: usize| pool.polls[task].load(Ordering::Relaxed);
        assert!(self.tasks.iter().all(|task| match *task {
            SPAWNS | ENDS => polls(*task) == 1,
            YIELDS => polls(YIELDS) == 2,
            _ => (1..=2).contains(&polls(WAITS)),
        }));
    }
}

fn spawn_all(pool: &Pool) {
    pool.wake(None, SPAWNS);
    pool.wake(None, WAITS);
    pool.set_event();
}

#[test]
fn one_worker_runs_them_all() {
    Program { outside: Some(spawn_all), ..Program::new(1, Some(3), &[SPAWNS, YIELDS, WAITS]) }.run();
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_notification_a_task_stays() {
    let all = Program::new(1, Some(3), &[SPAWNS, YIELDS, WAITS]);
    Program { outside: Some(spawn_all), silent: true, ..all }.run();
}

#[test]
fn two_workers_and_a_task_that_spawns_one_that_yields() {
    let outside = |pool: &Pool| pool.wake(None, SPAWNS);
    Program { outside: Some(outside), ..Program::new(2, Some(2), &[SPAWNS, YIELDS]) }.run();
}

/// Spawned before, and woken before, in or after its first poll.
#[test]
fn two_workers_and_a_task_that_is_woken_early() {
    let woken = Program { queued: &[WAITS], ..Program::new(2, Some(2), &[WAITS]) };
    Program { outside: Some(Pool::set_event), ..woken }.run();
}

// The parts of these two, each alone: with three preemptions, too, they end.

/// While the first worker falls asleep.
#[test]
fn two_workers_and_a_task_from_outside() {
    let outside = |pool: &Pool| pool.wake(None, ENDS);
    Program { outside: Some(outside), ..Program::new(2, None, &[ENDS]) }.run();
}

/// The second worker sleeps, and is woken for the second task in the queue of the first.
#[test]
fn two_workers_and_two_tasks_from_inside() {
    Program { local: &[SPAWNS, ENDS], ..Program::new(2, None, &[SPAWNS, YIELDS, ENDS]) }.run();
}

/// As above, and it is woken in or after that poll from outside.
#[test]
fn two_workers_and_a_task_that_is_woken_from_outside() {
    let woken = Program { local: &[WAITS], ..Program::new(2, None, &[WAITS]) };
    Program { outside: Some(Pool::set_event), ..woken }.run();
}

/// Woken before its first poll, which is a step without a word to the scheduler: so the event is set from the beginning. Both workers look for the task.
#[test]
fn two_workers_and_a_task_that_was_woken_before_its_first_poll() {
    Program { queued: &[WAITS], is_set: true, ..Program::new(2, None, &[WAITS]) }.run();
}
