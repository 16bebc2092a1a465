//! The protocol by which workers search, sleep and are woken, as a state machine: its steps are the accesses to shared memory. `idle_states.rs` visits its states.
//!
//! As docs/scheduler.md has it ("Searching and sleeping"), with less luck than the runtime has: a look without a lock may miss what is there, a steal may find nothing, any sleeper may be chosen, and
//! there is no watcher.

/// At most so many workers, threads in all, and tasks.
const WORKERS: usize = 3;
pub(super) const THREADS: usize = 5;
const TASKS: usize = 5;

/// The tasks, by their numbers.
pub(super) const SPAWNS: u8 = 0;
pub(super) const YIELDS: u8 = 1;
pub(super) const WAITS: u8 = 2;
pub(super) const ENDS: u8 = 3;
/// Its poll lasts until `ENDS` has run: another worker must run that.
pub(super) const HOLDS: u8 = 4;

/// In a queue, or to be queued after the poll.
const SCHEDULED: u8 = 1;
const RUNNING: u8 = 2;

/// First in, first out.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Fifo {
    tasks: [u8; TASKS],
    len: u8,
}

impl Fifo {
    fn push(&mut self, task: u8) {
        self.tasks[usize::from(self.len)] = task;
        self.len += 1;
    }

    fn pop(&mut self) -> Option<u8> {
        let first = (self.len > 0).then(|| self.tasks[0])?;
        self.tasks.copy_within(1.., 0);
        self.tasks[TASKS - 1] = 0;
        self.len -= 1;
        Some(first)
    }
}

/// What a thread does after a notification, or after a search ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum After {
    Run(u8),
    /// The poll of this task ends; true if the task has ended.
    Polled(u8, bool),
    Top,
    Exit,
    /// The next act of a thread outside.
    Act(u8),
}

/// The next step of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum At {
    Absent,
    Top,
    PickLocal,
    PickGlobal,
    Steal(u8),
    TrySearch,
    Sleep,
    LookClosing,
    LookGlobal,
    LookLocal(u8),
    Park,
    Rise,
    Found(After),
    SeesOwn(After),
    SeesGlobal(After),
    Run(u8),
    Poll(u8),
    Polled(u8, bool),
    PushLocal(u8, After),
    Notify(After),
    LockList(After),
    ReadSearching(After),
    Choose(After),
    Unpark(u8, After),
    Act(u8),
    WakeOutside(u8, After),
    PushGlobal(u8, After),
    Exit,
    Gone,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Thread {
    pub(super) at: At,
    searching: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) awake: u8,
    pub(super) searching: u8,
    /// The mutex of the list is locked.
    locked: bool,
    asleep: [bool; WORKERS],
    tokens: [bool; WORKERS],
    global: Fifo,
    locals: [Fifo; WORKERS],
    cells: [u8; TASKS],
    polls: [u8; TASKS],
    is_set: bool,
    is_awaited: bool,
    pub(super) left: u8,
    closing: bool,
    pub(super) threads: [Thread; THREADS],
}

/// What a thread outside does.
#[derive(Clone, Copy)]
pub(super) enum Act {
    /// Spawns it, or wakes it.
    Wake(u8),
    SetEvent,
}

/// The step that is left out, to see that the search notices.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Without {
    Nothing,
    /// A push notifies.
    Notification,
    /// A worker that sleeps as the last searcher looks again.
    SecondLook,
    /// A searcher that found something notifies, if it was the last one.
    Found,
    /// A notifier that has the list looks again whether a worker searches. It is for speed alone.
    ReadSearching,
    /// An unpark that comes before the park is kept.
    Token,
}

/// What is run.
#[derive(Clone, Copy)]
pub(super) struct Program {
    pub(super) workers: usize,
    pub(super) tasks: &'static [u8],
    /// In the global queue at first, and in the local queue of the first worker.
    pub(super) queued: &'static [u8],
    pub(super) local: &'static [u8],
    /// Threads outside, and what each does.
    pub(super) outside: &'static [&'static [Act]],
    pub(super) without: Without,
}

impl Program {
    pub(super) const fn new(workers: usize, tasks: &'static [u8]) -> Self {
        Self { workers, tasks, queued: &[], local: &[], outside: &[], without: Without::Nothing }
    }

    /// The first worker is awake, the others sleep.
    pub(super) fn start(&self) -> State {
        let mut threads = [Thread { at: At::Absent, searching: false }; THREADS];
        threads[..self.workers].iter_mut().for_each(|thread| thread.at = At::Park);
        threads[0].at = At::Top;
        for (at, _) in self.outside.iter().enumerate() {
            threads[self.workers + at].at = At::Act(0);
        }
        let mut state = State {
            awake: 1,
            searching: 0,
            locked: false,
            asleep: std::array::from_fn(|worker| (1..self.workers).contains(&worker)),
            tokens: [false; WORKERS],
            global: Fifo::default(),
            locals: [Fifo::default(); WORKERS],
            cells: [0; TASKS],
            polls: [0; TASKS],
            is_set: false,
            is_awaited: false,
            left: self.tasks.len() as u8,
            closing: false,
            threads,
        };
        for task in self.queued {
            state.cells[usize::from(*task)] = SCHEDULED;
            state.global.push(*task);
        }
        for task in self.local {
            state.cells[usize::from(*task)] = SCHEDULED;
            state.locals[0].push(*task);
        }
        state
    }

    /// All states that one step of this thread leads to; none if it waits, or has ended.
    pub(super) fn steps(&self, state: &State, thread: usize, to: &mut Vec<State>) {
        let Thread { at, searching } = state.threads[thread];
        let mut next = *state;
        let mut go = |mut next: State, at: At| {
            next.threads[thread].at = at;
            to.push(next);
        };
        match at {
            At::Absent | At::Gone => {}
            At::Top if state.closing => {
                go(next, if searching { At::Found(After::Exit) } else { At::Exit });
            }
            At::Top => go(next, At::PickLocal),
            At::PickLocal => match next.locals[thread].pop() {
                Some(task) => go(next, got(searching, task)),
                None => go(next, At::PickGlobal),
            },
            At::PickGlobal => {
                let missed = if searching { At::Steal(0) } else { At::TrySearch };
                // A glance without the lock may be old news.
                go(next, missed);
                if let Some(task) = next.global.pop() {
                    let share = usize::from(next.global.len) / self.workers;
                    for _ in 0..share {
                        let task = next.global.pop().unwrap();
                        next.locals[thread].push(task);
                    }
                    // The notification of a searcher changes nothing: a worker searches, itself.
                    let tells = share > 0 && !searching;
                    go(next, if tells { At::Notify(After::Run(task)) } else { got(searching, task) });
                }
            }
            At::Steal(victim) => {
                let other = usize::from(victim);
                if other == self.workers {
                    go(next, At::Sleep);
                } else {
                    go(next, At::Steal(victim + 1));
                    if other != thread {
                        if let Some(task) = next.locals[other].pop() {
                            go(next, got(searching, task));
                        }
                    }
                }
            }
            At::TrySearch => {
                if usize::from(state.searching) < (self.workers / 2).max(1) {
                    next.searching += 1;
                    next.threads[thread].searching = true;
                    go(next, At::PickLocal);
                } else {
                    go(next, At::Sleep);
                }
            }
            At::Sleep | At::LookClosing | At::LookGlobal | At::LookLocal(_) | At::Park | At::Rise => {
                self.sleep(state, thread, go);
            }
            At::Found(after) => {
                let last = state.searching == 1;
                next.searching -= 1;
                next.threads[thread].searching = false;
                if last && self.without != Without::Found {
                    go(next, if state.awake > 1 { At::Notify(after) } else { At::SeesOwn(after) });
                } else {
                    go(next, begin(after));
                }
            }
            At::SeesOwn(after) => {
                let more = state.locals[thread].len > 0;
                go(next, if more { At::Notify(after) } else { At::SeesGlobal(after) });
            }
            At::SeesGlobal(after) => {
                go(next, if state.global.len > 0 { At::Notify(after) } else { begin(after) });
            }
            At::Run(_) | At::Poll(_) | At::Polled(..) | At::PushLocal(..) => self.run(state, thread, go),
            At::Notify(_) | At::LockList(_) | At::ReadSearching(_) | At::Choose(_) | At::Unpark(..) => {
                self.notify(state, at, go);
            }
            At::Act(_) | At::WakeOutside(..) | At::PushGlobal(..) => self.act(state, thread, go),
            At::Exit => go(next, At::Gone),
        }
    }

    fn sleep(&self, state: &State, worker: usize, mut go: impl FnMut(State, At)) {
        let mut next = *state;
        match state.threads[worker].at {
            At::Sleep if !state.locked => {
                next.asleep[worker] = true;
                next.awake -= 1;
                next.searching -= u8::from(state.threads[worker].searching);
                next.threads[worker].searching = false;
                let look = next.searching == 0 && self.without != Without::SecondLook;
                go(next, if look { At::LookClosing } else { At::Park });
            }
            At::LookClosing => go(next, if state.closing { At::Rise } else { At::LookGlobal }),
            At::LookGlobal => go(next, if state.global.len > 0 { At::Rise } else { At::LookLocal(0) }),
            At::LookLocal(other) if usize::from(other) == self.workers => go(next, At::Park),
            At::LookLocal(other) => {
                let sees = usize::from(other) != worker && state.locals[usize::from(other)].len > 0;
                go(next, if sees { At::Rise } else { At::LookLocal(other + 1) });
            }
            At::Park if state.tokens[worker] => {
                next.tokens[worker] = false;
                go(next, At::Rise);
            }
            At::Rise if !state.locked => {
                if state.asleep[worker] {
                    next.asleep[worker] = false;
                    next.awake += 1;
                } else {
                    next.threads[worker].searching = true;
                }
                go(next, At::Top);
            }
            // The mutex is locked, or there is no token.
            _ => {}
        }
    }

    fn run(&self, state: &State, worker: usize, mut go: impl FnMut(State, At)) {
        let mut next = *state;
        match state.threads[worker].at {
            At::Run(task) => {
                let cell = &mut next.cells[usize::from(task)];
                assert_eq!(std::mem::replace(cell, RUNNING), SCHEDULED, "a task is queued once");
                next.polls[usize::from(task)] += 1;
                go(next, At::Poll(task));
            }
            At::Poll(SPAWNS) => {
                next.cells[usize::from(YIELDS)] |= SCHEDULED;
                go(next, At::PushLocal(YIELDS, After::Polled(SPAWNS, true)));
            }
            At::Poll(YIELDS) if state.polls[usize::from(YIELDS)] == 1 => {
                next.cells[usize::from(YIELDS)] |= SCHEDULED;
                go(next, At::Polled(YIELDS, false));
            }
            At::Poll(WAITS) => {
                next.is_awaited = !state.is_set;
                go(next, At::Polled(WAITS, state.is_set));
            }
            At::Poll(HOLDS) if state.polls[usize::from(ENDS)] == 0 => {}
            At::Poll(task) => go(next, At::Polled(task, true)),
            At::Polled(_, true) => {
                next.left -= 1;
                if next.left == 0 {
                    next.closing = true;
                    next.tokens = [true; WORKERS];
                }
                go(next, At::Top);
            }
            At::Polled(task, false) => {
                let cell = &mut next.cells[usize::from(task)];
                *cell &= !RUNNING;
                let again = *cell & SCHEDULED != 0;
                go(next, if again { At::PushLocal(task, After::Top) } else { At::Top });
            }
            At::PushLocal(task, after) => {
                next.locals[worker].push(task);
                // One task alone is for its worker, or for a watcher, of which there is none here.
                go(next, if next.locals[worker].len > 1 { At::Notify(after) } else { begin(after) });
            }
            _ => unreachable!("not a step of a poll"),
        }
    }

    fn notify(&self, state: &State, at: At, mut go: impl FnMut(State, At)) {
        let mut next = *state;
        match at {
            At::Notify(after) => {
                let needless = state.searching > 0 || usize::from(state.awake) == self.workers;
                go(next, if needless { begin(after) } else { At::LockList(after) });
            }
            At::LockList(after) if !state.locked => {
                next.locked = true;
                let read = self.without != Without::ReadSearching;
                go(next, if read { At::ReadSearching(after) } else { At::Choose(after) });
            }
            At::ReadSearching(after) => {
                next.locked = state.searching == 0;
                go(next, if next.locked { At::Choose(after) } else { begin(after) });
            }
            At::Choose(after) => {
                next.locked = false;
                for worker in (0..self.workers).filter(|worker| state.asleep[*worker]) {
                    let mut next = next;
                    next.asleep[worker] = false;
                    next.awake += 1;
                    next.searching += 1;
                    go(next, At::Unpark(worker as u8, after));
                }
                if !state.asleep.contains(&true) {
                    go(next, begin(after));
                }
            }
            At::Unpark(worker, after) => {
                let worker = usize::from(worker);
                next.tokens[worker] = self.without != Without::Token || state.threads[worker].at == At::Park;
                go(next, begin(after));
            }
            // The mutex is locked.
            _ => {}
        }
    }

    fn act(&self, state: &State, thread: usize, mut go: impl FnMut(State, At)) {
        let mut next = *state;
        match state.threads[thread].at {
            At::Act(number) => match self.outside[thread - self.workers].get(usize::from(number)) {
                None => go(next, At::Exit),
                Some(Act::Wake(task)) => go(next, At::WakeOutside(*task, After::Act(number + 1))),
                Some(Act::SetEvent) => {
                    (next.is_set, next.is_awaited) = (true, false);
                    let after = After::Act(number + 1);
                    go(next, if state.is_awaited { At::WakeOutside(WAITS, after) } else { begin(after) });
                }
            },
            At::WakeOutside(task, after) => {
                let cell = &mut next.cells[usize::from(task)];
                let push = std::mem::replace(cell, *cell | SCHEDULED) == 0;
                go(next, if push { At::PushGlobal(task, after) } else { begin(after) });
            }
            At::PushGlobal(task, after) => {
                next.global.push(task);
                let silent = self.without == Without::Notification;
                go(next, if silent { begin(after) } else { At::Notify(after) });
            }
            _ => unreachable!("not a step of a thread outside"),
        }
    }
}

/// A task was found: a searcher ends its search first.
fn got(searching: bool, task: u8) -> At {
    if searching { At::Found(After::Run(task)) } else { At::Run(task) }
}

fn begin(after: After) -> At {
    match after {
        After::Run(task) => At::Run(task),
        After::Polled(task, ended) => At::Polled(task, ended),
        After::Top => At::Top,
        After::Exit => At::Exit,
        After::Act(number) => At::Act(number),
    }
}
