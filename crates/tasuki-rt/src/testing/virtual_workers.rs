//! The machine of a simulation: virtual workers on one thread, what is ready on them, and a virtual clock.
//!
//! [`Sim`] is what a runtime's context holds instead of a worker. The scheduler gives it what becomes ready ([`Sim::put`]), the budget
//! asks it at the first poll of every operation ([`Sim::operation`]), and the loop of a run lets it run what is next ([`Sim::step`]). It decides
//! nothing itself: that is the [`Chooser`]'s part.
//!
//! Invariants:
//! 1. No foreign code runs while a `RefCell` of it is borrowed.
//! 2. The clock stands at a tick of the wheel, moves only in [`Sim::pick`], and never past a deadline: so a duration of whole milliseconds takes exactly as long.
//! 3. Of the closures posted to one worker only the oldest can be picked.

use super::Failure;
use super::choices::{Candidate, Chooser, DecisionRecord, Strategy};
use super::report::{PollEnd, SetAddress, Tasks};
use super::spin_clock::SpinClock;
use super::unobserved_panics::{UnobservedPanic, UnobservedPanics};
use crate::context::{Context, SpawnSite};
use crate::scheduler::shutdown::drop_item;
use crate::scheduler::worker::run_task;
use crate::scheduler::{Item, Job, Shared};
use crate::task::{PanicPayload, Runnable, contain_panic};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};
use tasuki::runtime::{TaskId, Timers, uncharged};

/// How many operations of one poll may be ready before the task yields, whatever the strategy says; as in a runtime. As often may grants wake a task during its own poll, one poll after the other.
const BUDGET: u32 = 128;
/// A deadline that is so far from the start of the run, or further, never comes: `Duration::MAX` is one.
const NEVER: Duration = Duration::from_secs(10_000 * 365 * 86_400);
/// How long the end of a run waits before it looks again whether a thread for blocking work has ended, which is told.
const END_OF_THREADS: Duration = Duration::from_millis(5);

/// What a run has beside its strategy.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) workers: usize,
    /// A run that takes more polls has failed.
    pub(super) polls: u64,
    /// How long a foreign thread has to wake a task before the wait is called a deadlock.
    pub(super) grace: Duration,
}

/// Something that can run.
struct Ready {
    /// The worker that must be played to run it, if there is one.
    home: Option<usize>,
    /// Number of the task. A posted closure has that of its worker; those of tasks begin after them.
    task: usize,
    /// How its last poll ended, if it was woken during that.
    end: Option<PollEnd>,
    /// The others go first.
    yielded: bool,
    item: Item,
}

impl Ready {
    fn is_job(&self) -> bool {
        matches!(self.item, Item::Job(_))
    }

    /// Its last poll gave way to others, and may have done nothing else.
    fn spins(&self) -> bool {
        matches!(self.end, Some(PollEnd::Yielded | PollEnd::Switched | PollEnd::WokeItself))
    }
}

/// The poll that is going on.
#[derive(Default)]
struct CurrentPoll {
    /// Number of the task.
    task: Cell<Option<usize>>,
    operations: Cell<u32>,
    /// It switched before an operation.
    switched: Cell<bool>,
    /// It did so before a wait took its place in the queue: what the other branches of the task begin in this poll yields as well, so that their waits keep the order of the branches.
    held_back: Cell<bool>,
    /// It yielded.
    yielded: Cell<bool>,
    /// It did so the last time, and nothing has run since: the next operation goes on.
    again: Cell<bool>,
}

impl CurrentPoll {
    /// How the poll of a task ended that was woken during it.
    fn end(&self) -> PollEnd {
        match (self.switched.get(), self.yielded.get()) {
            (true, _) => PollEnd::Switched,
            (false, true) => PollEnd::Yielded,
            (false, false) => PollEnd::WokeItself,
        }
    }
}

/// All workers of a simulation.
pub(crate) struct Sim {
    pub(crate) timers: Arc<Timers>,
    settings: Settings,
    ready: RefCell<Vec<Ready>>,
    chooser: RefCell<Chooser>,
    tasks: RefCell<Tasks>,
    polling: CurrentPoll,
    /// The task that switched in the last poll: it is not picked again if something else can run.
    switched: Cell<Option<usize>>,
    here: Cell<usize>,
    now: Cell<Instant>,
    polls: Cell<u64>,
    spin_clock: SpinClock,
    /// The last task that was woken during its own poll, without a yield, and how often in a row.
    woke_itself: Cell<(usize, u32)>,
    failure: RefCell<Option<Failure>>,
    unobserved_panics: UnobservedPanics,
    shutting_down: Cell<bool>,
    /// Guards of [`foreign_wakes`](super::foreign_wakes).
    foreign: Arc<AtomicUsize>,
    /// A foreign thread has woken a task, or posted something.
    met_foreign: Cell<bool>,
}

impl Sim {
    pub(super) fn new(settings: Settings, strategy: Strategy) -> Self {
        let start = Instant::now();
        Self {
            timers: Arc::new(Timers::starting_at(start, Waker::noop().clone()).ending_after(NEVER)),
            ready: RefCell::default(),
            chooser: RefCell::new(Chooser::new(strategy)),
            tasks: RefCell::new(Tasks::new(settings.workers)),
            settings,
            polling: CurrentPoll::default(),
            switched: Cell::new(None),
            here: Cell::new(0),
            now: Cell::new(start),
            polls: Cell::new(0),
            spin_clock: SpinClock::default(),
            woke_itself: Cell::new((0, 0)),
            failure: RefCell::default(),
            unobserved_panics: UnobservedPanics::default(),
            shutting_down: Cell::new(false),
            foreign: Arc::default(),
            met_foreign: Cell::new(false),
        }
    }

    /// The worker that is played now.
    pub(crate) fn here(&self) -> usize {
        self.here.get()
    }

    pub(crate) fn now(&self) -> Instant {
        self.now.get()
    }

    pub(super) fn foreign(&self) -> Arc<AtomicUsize> {
        self.foreign.clone()
    }

    /// Something has become ready.
    pub(crate) fn put(&self, home: Option<usize>, item: Item) {
        let task = match &item {
            Item::Task(runnable) => {
                let meta = runnable.metadata();
                self.tasks.borrow_mut().number(meta.id, || meta.notes.site())
            }
            Item::Job(_) => home.expect("closures are posted to a worker"),
        };
        let own = self.polling.task.get() == Some(task) && matches!(item, Item::Task(_));
        let end = own.then(|| self.polling.end());
        if let Some(end) = end {
            self.tasks.borrow_mut().poll_ends_as(end);
        }
        let yielded = match end {
            Some(PollEnd::Yielded) => true,
            Some(PollEnd::Switched) => false,
            Some(_) => {
                self.spin_clock.self_woken();
                self.woke_itself_too_often(task)
            }
            None => {
                self.spin_clock.reset();
                false
            }
        };
        if yielded {
            self.chooser.borrow_mut().has_yielded(task);
        }
        self.ready.borrow_mut().push(Ready { home, task, end, yielded, item });
    }

    /// The running task was woken during its poll. Was it so often, with no other task between, that others would starve?
    fn woke_itself_too_often(&self, task: usize) -> bool {
        let (last, times) = self.woke_itself.get();
        let times = if last == task { times + 1 } else { 1 };
        let too_often = times > BUDGET;
        self.woke_itself.set((task, if too_often { 0 } else { times }));
        too_often
    }

    /// The running task yields: it asks to be polled again, although nothing was granted to it.
    pub(crate) fn yields(&self) {
        self.polling.yielded.set(true);
    }

    /// A task was spawned here.
    pub(crate) fn spawn(&self, home: Option<usize>, runnable: Runnable, site: SpawnSite<'_>) {
        let id = runnable.metadata().id;
        self.put(home, Item::Task(runnable));
        self.tasks.borrow_mut().spawned(id, site);
    }

    /// The future of a task is gone.
    pub(crate) fn ended(&self, id: TaskId) {
        // At the end all are dropped, which is no step of the test.
        if !self.shutting_down.get() {
            self.tasks.borrow_mut().ended(id);
        }
    }

    /// The running task waits for the end of this one.
    pub(crate) fn joins(&self, id: TaskId) {
        if let Some(task) = self.polling.task.get() {
            self.tasks.borrow_mut().joins(task, id);
        }
    }

    /// The handle of this task has given its result, or is dropped.
    pub(crate) fn joins_no_more(&self, id: TaskId) {
        self.tasks.borrow_mut().joins_no_more(id);
    }

    /// The running task waits for the end of one of these, the members of a set.
    pub(crate) fn joins_set(&self, set: SetAddress, members: impl Iterator<Item = TaskId>) {
        if let Some(task) = self.polling.task.get() {
            self.tasks.borrow_mut().joins_set(task, set, members);
        }
    }

    /// This set is waited for no more.
    pub(crate) fn leaves_set(&self, set: SetAddress) {
        self.tasks.borrow_mut().leaves_set(set);
    }

    /// A task has panicked, and its handle was not awaited.
    pub(crate) fn panicked(&self, payload: PanicPayload) {
        self.fail(Failure::Panic(payload));
    }

    /// A task has panicked with this, which its handle may report.
    pub(crate) fn panics(&self, payload: &PanicPayload) -> UnobservedPanic {
        self.unobserved_panics.note(&**payload)
    }

    /// The run has ended: panics that no handle has reported are failures.
    pub(super) fn fail_by_unobserved_panics(&self) {
        if let Some(message) = self.unobserved_panics.first() {
            self.fail(Failure::Panic(Box::new(message)));
        }
    }

    /// The first failure is the one that is reported.
    fn fail(&self, failure: Failure) {
        let mut first = self.failure.borrow_mut();
        let second = if first.is_none() { first.replace(failure) } else { Some(failure) };
        drop(first);
        contain_panic(|| drop(second));
    }

    pub(super) fn failure(&self) -> Option<Failure> {
        self.failure.borrow_mut().take()
    }

    /// The running task begins an operation: how many may go on before the next question? 0: the task yields.
    pub(crate) fn operation(&self) -> u32 {
        let polling = &self.polling;
        let Some(task) = polling.task.get().filter(|_| !self.shutting_down.get()) else { return 1 };
        if polling.held_back.get() {
            return 0;
        }
        let operations = polling.operations.get() + 1;
        polling.operations.set(operations);
        if operations > BUDGET {
            self.yields();
            return 0;
        }
        if polling.again.take() {
            return 1;
        }
        let others: Vec<Candidate> = self.ready.borrow().iter().map(candidate).collect();
        let switches = self.chooser.borrow_mut().operation(task, &others);
        if switches {
            polling.switched.set(true);
        }
        u32::from(!switches)
    }

    /// Does the running task switch also before the operation that it has just begun, which must wait?
    pub(crate) fn switches_before_wait(&self) -> bool {
        let switches = self.polling.switched.get();
        self.polling.held_back.set(switches);
        switches
    }

    /// Runs one thing that can run, on a worker that may run it; lets the time pass if nothing can. The run has failed if nothing
    /// will, or if it takes too long.
    pub(super) fn step(&self, context: &Context) -> Result<(), Failure> {
        if self.polls.get() >= self.settings.polls {
            return Err(Failure::TooLong(self.settings.polls));
        }
        self.polls.set(self.polls.get() + 1);
        let Some(Ready { task, item, .. }) = self.pick(&context.shared) else {
            return Err(self.deadlock(&context.shared));
        };
        let polling = &self.polling;
        polling.task.set(Some(task));
        polling.operations.set(0);
        polling.switched.set(false);
        polling.held_back.set(false);
        polling.yielded.set(false);
        polling.again.set(self.switched.replace(None) == Some(task));
        self.tasks.borrow_mut().runs(task, self.here.get());
        match item {
            Item::Task(runnable) => run_task(context, runnable),
            Item::Job(job) => self.run_job(job),
        }
        if polling.switched.get() {
            self.switched.set(Some(task));
        }
        polling.task.set(None);
        Ok(())
    }

    fn run_job(&self, job: Job) {
        // A closure is no task: it is not asked to yield.
        self.polling.task.set(None);
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| uncharged(|| job.call()))) {
            self.fail(Failure::Panic(payload));
        }
    }

    fn pick(&self, shared: &Shared) -> Option<Ready> {
        self.take_from_outside(shared);
        self.pass_time_beside_spins();
        while self.ready.borrow().is_empty() {
            if !self.pass_time() && !self.wait_for_outside(shared) {
                return None;
            }
        }
        let (places, options) = self.options();
        let mut chooser = self.chooser.borrow_mut();
        let chosen = places[chooser.item(&options)];
        let ready = self.ready.borrow_mut().remove(chosen);
        let worker = ready.home.unwrap_or_else(|| chooser.worker(ready.task, self.settings.workers));
        self.here.set(worker);
        Some(ready)
    }

    /// What can be picked, by place; those that have yielded last.
    fn options(&self) -> (Vec<usize>, Vec<Candidate>) {
        let ready = self.ready.borrow();
        let switched = self.switched.get().filter(|_| ready.len() > 1);
        let mut jobs = vec![false; self.settings.workers];
        let mut can_run = |entry: &Ready| {
            let behind = entry.is_job() && std::mem::replace(&mut jobs[entry.task], true);
            !behind && (entry.is_job() || switched != Some(entry.task))
        };
        let mut all: Vec<usize> = (0..ready.len()).filter(|at| can_run(&ready[*at])).collect();
        // Stable: otherwise in the order in which they became ready.
        all.sort_by_key(|at| ready[*at].yielded);
        let options = all.iter().map(|at| candidate(&ready[*at])).collect();
        (all, options)
    }

    /// The clock goes to the next deadline, if one will come, and what is due becomes ready.
    fn pass_time(&self) -> bool {
        let Some(next) = self.advance() else { return false };
        self.now.set(next);
        self.advance();
        true
    }

    /// What is due now becomes ready; the next deadline, or a time before it.
    fn advance(&self) -> Option<Instant> {
        let now = self.now.get();
        // A waker that panics is its owner's mistake; come back for the others.
        let mut next = Some(now);
        contain_panic(|| next = self.timers.advance(now));
        next
    }

    /// Tasks that ask again and again, and give way in between, use up time: the clock moves, to the next deadline at most.
    fn pass_time_beside_spins(&self) {
        let ready = self.ready.borrow();
        if ready.is_empty() || !ready.iter().all(Ready::spins) {
            return;
        }
        let any = |end| ready.iter().any(|entry| entry.end == Some(end));
        let (switched, woke_itself) = (any(PollEnd::Switched), any(PollEnd::WokeItself));
        drop(ready);
        let used = self.spin_clock.count(switched, woke_itself);
        if used.is_zero() {
            return;
        }
        let now = self.now.get();
        let step = self.advance().map_or(used, |next| used.min(next - now));
        self.spin_clock.spend(step);
        self.now.set(now + step);
        self.advance();
    }

    /// Nothing can run, and nothing is due: only a foreign thread can help. False if none does in time.
    fn wait_for_outside(&self, shared: &Shared) -> bool {
        let start = Instant::now();
        loop {
            // Acquire: pairs with Release in the drop of the guard, which comes after the wake.
            let awaited = self.foreign.load(Ordering::Acquire) > 0;
            let over = start.elapsed() >= self.settings.grace;
            self.take_from_outside(shared);
            if !self.ready.borrow().is_empty() {
                return true;
            }
            if over && !awaited {
                return false;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn take_from_outside(&self, shared: &Shared) {
        let tasks = shared.global.take_all().map(|runnable| (None, Item::Task(runnable)));
        let inboxes = shared.remotes.iter().enumerate();
        let items =
            inboxes.flat_map(|(at, remote)| remote.inbox.take_all().map(move |item| (Some(at), item)));
        for (home, item) in tasks.chain(items) {
            self.met_foreign.set(true);
            self.put(home, item);
        }
    }

    fn deadlock(&self, shared: &Shared) -> Failure {
        let (report, cycles) = self.tasks.borrow().deadlock(shared.task_counts.len());
        Failure::Deadlock { report, cycles }
    }

    /// Drops every task that is left.
    pub(super) fn end(&self, context: &Context) {
        self.shutting_down.set(true);
        let shared = &context.shared;
        shared.close();
        shared.registry.wake_others();
        (0..self.settings.workers).for_each(|worker| shared.registry.wake_pinned(worker));
        // Foreign threads may have started some; what they run is counted among the tasks.
        shared.blocking.close().into_iter().for_each(|work| drop_item(context, Item::Task(work)));
        while shared.task_counts.len() > 0 {
            self.take_from_outside(shared);
            let Some(Ready { home, item, .. }) = self.ready.borrow_mut().pop() else {
                // A foreign thread is about to push it.
                thread::yield_now();
                continue;
            };
            self.drop_at(home, context, item);
        }
        // What foreign threads have posted since the last step; more is refused from now on.
        shared.remotes.iter().for_each(|remote| remote.inbox.close());
        self.take_from_outside(shared);
        let left = self.ready.take();
        left.into_iter().for_each(|entry| self.drop_at(entry.home, context, entry.item));
        while shared.blocking.wait(END_OF_THREADS) {}
        shared.blocking.join();
    }

    /// Drops what is left, on the loop that it was for.
    fn drop_at(&self, home: Option<usize>, context: &Context, item: Item) {
        self.here.set(home.unwrap_or(0));
        drop_item(context, item);
    }

    /// What the run was like.
    pub(super) fn history(&self) -> RunHistory {
        let chooser = self.chooser.replace(Chooser::new(Strategy::Script(Default::default())));
        RunHistory {
            workers: self.settings.workers,
            record: chooser.into_record(),
            steps: self.tasks.borrow().to_string(),
            met_foreign: self.met_foreign.get(),
        }
    }
}

/// What a run leaves behind.
#[derive(Debug)]
pub(super) struct RunHistory {
    pub(super) workers: usize,
    pub(super) record: DecisionRecord,
    /// The last steps, to be read.
    pub(super) steps: String,
    pub(super) met_foreign: bool,
}

fn candidate(ready: &Ready) -> Candidate {
    Candidate { task: ready.task, yielded: ready.yielded }
}
