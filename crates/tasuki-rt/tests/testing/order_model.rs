//! A model of small programs that a search explores: which orders there are, said a second time. A primitive is a number of permits and a queue here, a task a list of
//! steps; there is no waker, no future and no scheduler.

use std::collections::{BTreeSet, HashSet, VecDeque};

/// What is taken and given back, in the order of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Of {
    Mutex,
    Semaphore,
    RwLock,
    /// One that resets itself. A wait takes its permit, and a set gives it.
    Event,
}

/// How many permits each has at most.
pub(super) const MOST: [usize; 4] = [1, 2, 8, 1];

/// What a task does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Checkpoint,
    Yield,
    Take(Of, usize),
    /// The oldest guard that it holds.
    Release,
    Set,
    Sleep(u64),
    Join(usize),
    Abort(usize),
}

impl Step {
    pub(super) fn is_awaited(self) -> bool {
        !matches!(self, Self::Release | Self::Set | Self::Abort(_))
    }
}

/// The steps of every task.
pub(super) type Program = Vec<Vec<Step>>;

/// Which task has done which of its steps, in order, and whether it joined one that was aborted; then which tasks have ended.
pub(super) type Outcome = (Vec<(usize, usize, bool)>, Vec<bool>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    /// It is to try its step.
    Ready,
    /// What its step waited for has come.
    Granted,
    Waiting,
    Ended,
    Aborted,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Task {
    at: usize,
    state: State,
    held: VecDeque<(Of, usize)>,
    /// When its sleep ends.
    due: Option<u64>,
    joined_by: Vec<usize>,
    is_aborted: bool,
    has_yielded: bool,
    /// It was switched away before its step, and is not asked about it again.
    has_switched: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct Permits {
    free: usize,
    queue: VecDeque<(usize, usize)>,
}

/// Between two polls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    tasks: Vec<Task>,
    permits: [Permits; 4],
    /// In the order in which they became ready.
    ready: Vec<usize>,
    now: u64,
    log: Vec<(usize, usize, bool)>,
    switches: u32,
    /// The task of the last poll, if it was switched away.
    switched: Option<usize>,
}

impl World {
    fn new(program: &Program, switches: u32) -> Self {
        let task = Task {
            at: 0,
            state: State::Ready,
            held: VecDeque::new(),
            due: None,
            joined_by: Vec::new(),
            is_aborted: false,
            has_yielded: false,
            has_switched: false,
        };
        let mut permits: [Permits; 4] = Default::default();
        for of in [Of::Mutex, Of::Semaphore, Of::RwLock] {
            permits[of as usize].free = MOST[of as usize];
        }
        let (tasks, ready) = (vec![task; program.len()], (0..program.len()).collect());
        Self { tasks, permits, ready, now: 0, log: Vec::new(), switches, switched: None }
    }

    fn has_ended(&self, task: usize) -> bool {
        matches!(self.tasks[task].state, State::Ended | State::Aborted)
    }

    fn outcome(self) -> Outcome {
        let ended = (0..self.tasks.len()).map(|task| self.has_ended(task)).collect();
        (self.log, ended)
    }

    /// What the task waits for has come.
    fn grant(&mut self, task: usize) {
        match self.tasks[task].state {
            State::Waiting => self.ready.push(task),
            // It is ready already, to be dropped.
            State::Ready if self.tasks[task].is_aborted => {}
            _ => return,
        }
        self.tasks[task].state = State::Granted;
    }

    fn give(&mut self, of: Of, count: usize) {
        let most = MOST[of as usize];
        self.permits[of as usize].free = most.min(self.permits[of as usize].free + count);
        loop {
            let permits = &mut self.permits[of as usize];
            let Some(&(task, wanted)) = permits.queue.front() else { return };
            if permits.free < wanted {
                return;
            }
            permits.free -= wanted;
            permits.queue.pop_front();
            self.grant(task);
        }
    }

    /// What it holds is released, and it is joined.
    fn end(&mut self, task: usize, how: State) {
        for (of, count) in std::mem::take(&mut self.tasks[task].held) {
            self.give(of, count);
        }
        self.tasks[task].state = how;
        for joiner in std::mem::take(&mut self.tasks[task].joined_by) {
            self.grant(joiner);
        }
    }

    /// The future of an aborted task is dropped: its wait leaves the queue, or passes on what it was granted.
    fn drop_aborted(&mut self, task: usize, step: Option<Step>) {
        let was_granted = self.tasks[task].state == State::Granted;
        match step {
            Some(Step::Take(of, count)) if was_granted => self.give(of, count),
            Some(Step::Take(of, _)) => {
                self.permits[of as usize].queue.retain(|(waiter, _)| *waiter != task);
                self.give(of, 0);
            }
            Some(Step::Join(other)) => self.tasks[other].joined_by.retain(|joiner| *joiner != task),
            _ => {}
        }
        self.end(task, State::Aborted);
    }

    /// The task waits, until it is granted what it wants.
    fn wait(&mut self, task: usize) -> bool {
        self.tasks[task].state = State::Waiting;
        false
    }

    /// Does the step that is awaited end at once?
    fn try_step(&mut self, task: usize, step: Step) -> bool {
        match step {
            Step::Take(of, count) => {
                let permits = &mut self.permits[of as usize];
                if permits.queue.is_empty() && permits.free >= count {
                    permits.free -= count;
                    return true;
                }
                permits.queue.push_back((task, count));
                self.wait(task)
            }
            Step::Sleep(time) if time > 0 => {
                self.tasks[task].due = Some(self.now + time);
                self.wait(task)
            }
            Step::Join(other) if !self.has_ended(other) => {
                self.tasks[other].joined_by.push(task);
                self.wait(task)
            }
            Step::Yield => {
                self.tasks[task].has_yielded = true;
                self.tasks[task].state = State::Granted;
                self.ready.push(task);
                false
            }
            _ => true,
        }
    }

    fn do_at_once(&mut self, task: usize, step: Step) {
        match step {
            Step::Release => {
                let (of, count) = self.tasks[task].held.pop_front().expect("it holds one");
                self.give(of, count);
            }
            Step::Set => self.give(Of::Event, 1),
            Step::Abort(other) if !self.has_ended(other) && !self.tasks[other].is_aborted => {
                self.tasks[other].is_aborted = true;
                if self.tasks[other].state == State::Waiting {
                    self.tasks[other].state = State::Ready;
                    self.ready.push(other);
                }
            }
            _ => {}
        }
    }

    /// The step is done.
    fn note(&mut self, task: usize, step: Step) {
        if let Step::Take(of, count) = step {
            if of != Of::Event {
                self.tasks[task].held.push_back((of, count));
            }
        }
        let aborted = matches!(step, Step::Join(other) if self.tasks[other].state == State::Aborted);
        self.log.push((task, self.tasks[task].at, aborted));
        self.tasks[task].at += 1;
        self.tasks[task].state = State::Ready;
    }

    /// Nothing can run: the first sleeps end. False if none will.
    fn pass_time(&mut self) -> bool {
        let asleep = |task: &&Task| task.state == State::Waiting && task.due.is_some();
        let Some(now) = self.tasks.iter().filter(asleep).filter_map(|task| task.due).min() else {
            return false;
        };
        self.now = now;
        for task in 0..self.tasks.len() {
            if self.tasks[task].due == Some(now) {
                self.tasks[task].due = None;
                self.grant(task);
            }
        }
        true
    }

    /// Every choice of what runs next that the switches allow.
    fn picks(&self) -> Vec<(usize, Self)> {
        let switched = self.switched.filter(|_| self.ready.len() > 1);
        let mut options: Vec<usize> =
            self.ready.iter().copied().filter(|task| Some(*task) != switched).collect();
        options.sort_by_key(|task| self.tasks[*task].has_yielded);
        let free = options.iter().filter(|task| !self.tasks[**task].has_yielded).count().max(1);
        let mut picks = Vec::new();
        for (at, task) in options.into_iter().enumerate() {
            let costs = u32::from(at >= free);
            if costs <= self.switches {
                let mut next = self.clone();
                next.switches -= costs;
                next.ready.retain(|other| *other != task);
                picks.push((task, next));
            }
        }
        picks
    }

    /// Polls the task; adds a world for each place where it was switched away, and the one in which it was not.
    fn poll(mut self, program: &Program, task: usize, next: &mut Vec<Self>) {
        let steps = &program[task];
        // It was switched away, and nothing has run since: the next operation goes on.
        let mut goes_on = self.switched.take() == Some(task);
        self.tasks[task].has_yielded = false;
        if self.tasks[task].is_aborted {
            self.drop_aborted(task, steps.get(self.tasks[task].at).copied());
            return next.push(self);
        }
        if self.tasks[task].state == State::Granted {
            self.note(task, steps[self.tasks[task].at]);
        }
        let mut was_asked = std::mem::take(&mut self.tasks[task].has_switched);
        while let Some(&step) = steps.get(self.tasks[task].at) {
            if !step.is_awaited() {
                self.do_at_once(task, step);
                self.note(task, step);
                continue;
            }
            let waits_for_an_end = matches!(step, Step::Join(other) if !self.has_ended(other));
            if !was_asked && !waits_for_an_end && step != Step::Yield && !std::mem::take(&mut goes_on) {
                self.add_switched(task, next);
            }
            if std::mem::take(&mut was_asked) {
                goes_on = false;
            }
            if !self.try_step(task, step) {
                return next.push(self);
            }
            self.note(task, step);
        }
        self.end(task, State::Ended);
        next.push(self);
    }

    /// The same, with a switch before this operation.
    fn add_switched(&self, task: usize, next: &mut Vec<Self>) {
        if self.switches > 0 {
            let mut world = self.clone();
            world.switches -= 1;
            world.tasks[task].has_switched = true;
            world.ready.push(task);
            world.switched = Some(task);
            next.push(world);
        }
    }
}

/// Every outcome of a program with at most so many switches; `None` if it takes more than `most` worlds to tell.
pub(super) fn outcomes(program: &Program, switches: u32, most: usize) -> Option<BTreeSet<Outcome>> {
    let (mut outcomes, mut seen) = (BTreeSet::new(), HashSet::new());
    let mut left = vec![World::new(program, switches)];
    while let Some(mut world) = left.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        if seen.len() > most {
            return None;
        }
        if world.ready.is_empty() && !world.pass_time() {
            outcomes.insert(world.outcome());
            continue;
        }
        for (task, picked) in world.picks() {
            picked.poll(program, task, &mut left);
        }
    }
    Some(outcomes)
}
