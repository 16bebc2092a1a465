//! How a simulation decides: every decision of a run goes through one [`Chooser`], which asks a strategy and keeps a record.
//!
//! There are three kinds of decision, and each has a *default*, option 0:
//!
//! | decision | default | others |
//! |---|---|---|
//! | what runs next ([`Chooser::item`]) | what became ready first and has not yielded | any other that is ready |
//! | does the task switch before an operation ([`Chooser::operation`]) | it goes on | its task yields, the operation has done nothing |
//! | on which worker ([`Chooser::worker`]) | the task's number, modulo the workers | the next ones |
//!
//! So a run is a list of numbers, most of them 0 in a simple run, and a [`Schedule`] is the list of those that are not: it can be
//! printed, repeated, and made smaller by setting some of them to 0.

/// Decisions beyond this many are made, and not recorded: such a run is repeated by its seed only.
const RECORDED: usize = 1 << 20;

/// A random number generator: SplitMix64.
#[derive(Clone, Debug)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `bound`, which is not 0.
    pub(super) fn roll(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Where the decisions come from.
#[derive(Clone, Debug)]
pub(super) enum Strategy {
    /// Each by itself: one ready operation in so many switches.
    Random { dice: Dice, one_in: usize },
    /// The task of the highest priority runs; the priorities change at a few steps.
    Priorities(Priorities),
    /// Those of a schedule; the defaults elsewhere.
    Script(Schedule),
    /// A step of a search: this prefix, and the defaults after it, with at most so many deviations that cost.
    Search { prefix: Vec<Choice>, left: u32 },
}

impl Strategy {
    /// A strategy that the seed chooses: half of the seeds switch at random, with different frequencies, half by priorities.
    pub(super) fn of(seed: u64) -> Self {
        let mut dice = Dice(seed);
        if dice.roll(2) == 0 {
            let one_in = [2, 3, 5, 10, 30][dice.roll(5)];
            return Self::Random { dice, one_in };
        }
        let depth = 1 + dice.roll(4);
        Self::Priorities(Priorities::new(dice, depth))
    }

    /// By priorities that change so often.
    pub(super) fn of_depth(seed: u64, depth: usize) -> Self {
        Self::Priorities(Priorities::new(Dice(seed), depth))
    }
}

/// Priorities of tasks: random ones at first; at a few random steps the running task falls below all others. A bug that needs `d`
/// steps in a certain order is found by a run with `d - 1` changes with a probability that does not depend on how many other
/// schedules there are.
#[derive(Clone, Debug)]
pub(super) struct Priorities {
    dice: Dice,
    /// Steps at which the running task falls, descending.
    changes: Vec<usize>,
    step: usize,
    /// How often one of several was picked.
    picks: usize,
    /// By the number of the task; 0 for one that is not known yet.
    of: Vec<u64>,
    /// What the next task that falls gets: lower each time, and lower than every first priority.
    floor: u64,
}

/// The task that is picked so many times one of several has been falls as well: tasks that wake each other for ever would starve all below them.
const FAIR: usize = 1 << 14;

/// More changes than these have no effect: they come within the first 512 steps.
const MOST_CHANGES: usize = 4_096;

impl Priorities {
    fn new(mut dice: Dice, depth: usize) -> Self {
        // How long the run will be is not known: a guess, of a different size for each seed.
        let length = 4 << dice.roll(8);
        let mut changes: Vec<usize> = (0..depth.min(MOST_CHANGES)).map(|_| 1 + dice.roll(length)).collect();
        changes.sort_unstable_by(|a, b| b.cmp(a));
        Self { dice, changes, step: 0, picks: 0, of: Vec::new(), floor: u64::from(u32::MAX) }
    }

    fn priority(&mut self, task: usize) -> u64 {
        if self.of.len() <= task {
            self.of.resize(task + 1, 0);
        }
        if self.of[task] == 0 {
            self.of[task] = self.dice.next() | 1 << 63;
        }
        self.of[task]
    }

    fn fall(&mut self, task: usize) {
        self.priority(task);
        self.of[task] = self.floor;
        self.floor -= 1;
    }

    /// The option to be picked.
    fn pick(&mut self, options: &[Candidate]) -> usize {
        self.picks += 1;
        if self.picks % FAIR == 0 {
            let highest = self.highest(options);
            self.fall(options[highest].task);
        }
        self.highest(options)
    }

    fn highest(&mut self, options: &[Candidate]) -> usize {
        let priorities = options.iter().map(|option| self.priority(option.task)).enumerate();
        priorities.max_by_key(|&(at, priority)| (priority, usize::MAX - at)).map_or(0, |(at, _)| at)
    }

    fn switches(&mut self, running: usize, others: &[Candidate]) -> bool {
        self.step += 1;
        if self.changes.last().is_some_and(|at| *at <= self.step) {
            self.changes.pop();
            self.fall(running);
            // Also if it is alone: another future of the same task may go first.
            return true;
        }
        let mine = self.priority(running);
        others.iter().any(|other| self.priority(other.task) > mine)
    }
}

/// Something that can run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// The number of the task; posted closures have one for each worker.
    pub(super) task: usize,
    /// Its last poll yielded.
    pub(super) yielded: bool,
}

/// A decision: the option that was taken, of so many that could have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) taken: u32,
    pub(super) of: u32,
    /// Which tasks it was about ([`hash_of`]): a search expects the same ones after the same decisions.
    pub(super) tasks: u32,
}

/// A number for tasks in their order: FNV-1a.
fn hash_of(tasks: impl Iterator<Item = usize>) -> u32 {
    tasks.fold(0x811C_9DC5, |hash, task| (hash ^ task as u32).wrapping_mul(0x0100_0193))
}

/// Decides, and keeps a record.
#[derive(Debug)]
pub(super) struct Chooser {
    strategy: Strategy,
    record: Vec<Choice>,
    made: usize,
    /// A search met another decision than the one that it has seen there.
    differs: bool,
}

impl Chooser {
    pub(super) fn new(strategy: Strategy) -> Self {
        Self { strategy, record: Vec::new(), made: 0, differs: false }
    }

    /// What runs next. Those that have not yielded come first in `options`.
    pub(super) fn item(&mut self, options: &[Candidate]) -> usize {
        if options.len() == 1 {
            return 0;
        }
        let awake = options.iter().filter(|option| !option.yielded).count();
        let taken = match &mut self.strategy {
            Strategy::Random { dice, .. } => Some(dice.roll(options.len())),
            Strategy::Priorities(priorities) => Some(priorities.pick(options)),
            Strategy::Script(_) | Strategy::Search { .. } => None,
        };
        // To run a task that has yielded before the others have run costs one; so does another order of those that have. Otherwise a task that
        // yields until something happens would make the search endless.
        self.decide(taken, options.len(), awake.max(1), hash_of(options.iter().map(|option| option.task)))
    }

    /// Does the running task switch before an operation?
    pub(super) fn operation(&mut self, running: usize, others: &[Candidate]) -> bool {
        let taken = match &mut self.strategy {
            Strategy::Random { dice, one_in } => Some(usize::from(dice.roll(*one_in) == 0)),
            Strategy::Priorities(priorities) => Some(usize::from(priorities.switches(running, others))),
            Strategy::Script(_) | Strategy::Search { .. } => None,
        };
        self.decide(taken, 2, 1, hash_of([running].into_iter())) == 1
    }

    /// On which worker a task runs that is not pinned.
    pub(super) fn worker(&mut self, task: usize, workers: usize) -> usize {
        if workers == 1 {
            return 0;
        }
        let taken = match &mut self.strategy {
            Strategy::Random { dice, .. } => Some(dice.roll(workers)),
            Strategy::Priorities(priorities) => Some(priorities.dice.roll(workers)),
            Strategy::Script(_) => None,
            // Not searched: it would multiply the schedules, and few programs can tell.
            Strategy::Search { .. } => Some(0),
        };
        let turn = match taken {
            Some(0) if matches!(self.strategy, Strategy::Search { .. }) => self.forced(task),
            taken => self.decide(taken, workers, workers, hash_of([task].into_iter())),
        };
        (task + turn) % workers
    }

    /// A task has yielded without need: others go first.
    pub(super) fn has_yielded(&mut self, task: usize) {
        if let Strategy::Priorities(priorities) = &mut self.strategy {
            priorities.fall(task);
        }
    }

    /// Takes an option, of which the first `free` cost nothing: what the strategy says, or what is written. `tasks` says which tasks it is about ([`hash_of`]).
    fn decide(&mut self, taken: Option<usize>, options: usize, free: usize, tasks: u32) -> usize {
        let at = self.made;
        let (taken, of) = match (&mut self.strategy, taken) {
            (Strategy::Search { prefix, left }, _) => {
                let expected = prefix.get(at);
                let of = if *left > 0 { options } else { free };
                let taken = expected.map_or(0, |choice| choice.taken as usize).min(of - 1);
                self.differs |=
                    expected.is_some_and(|choice| (choice.of, choice.tasks) != (of as u32, tasks));
                *left -= u32::from(taken >= free);
                (taken, of)
            }
            (Strategy::Script(schedule), _) => (schedule.at(at).min(options - 1), options),
            (_, taken) => (taken.unwrap_or(0), options),
        };
        self.note(Choice { taken: taken as u32, of: of as u32, tasks });
        taken
    }

    /// The default, without another option.
    fn forced(&mut self, task: usize) -> usize {
        self.decide(Some(0), 1, 1, hash_of([task].into_iter()))
    }

    fn note(&mut self, choice: Choice) {
        self.made += 1;
        if self.record.len() < RECORDED {
            self.record.push(choice);
        }
    }

    /// All decisions, in order; cut off where they were too many.
    pub(super) fn into_record(self) -> DecisionRecord {
        let ended_early =
            matches!(&self.strategy, Strategy::Search { prefix, .. } if self.made < prefix.len());
        DecisionRecord {
            complete: self.made == self.record.len(),
            differs: self.differs || ended_early,
            choices: self.record,
        }
    }
}

/// The decisions of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct DecisionRecord {
    pub(super) choices: Vec<Choice>,
    /// None is missing.
    pub(super) complete: bool,
    /// It did not have the decisions that a search has seen before it.
    pub(super) differs: bool,
}

impl DecisionRecord {
    pub(super) fn schedule(&self) -> Schedule {
        let taken = self.choices.iter().enumerate().filter(|(_, choice)| choice.taken != 0);
        Schedule(taken.map(|(at, choice)| (at, choice.taken)).collect())
    }
}

/// The decisions of a run that are not the default, by their place in the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Schedule(pub(super) Vec<(usize, u32)>);

impl Schedule {
    fn at(&self, place: usize) -> usize {
        self.0.binary_search_by_key(&place, |(at, _)| *at).map_or(0, |found| self.0[found].1 as usize)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was recorded, and nothing else, is repeated by its schedule.
    #[test]
    fn a_record_is_repeated_by_its_schedule() {
        fn play(chooser: &mut Chooser) -> Vec<usize> {
            let candidate = |task| Candidate { task, yielded: task % 3 == 2 };
            let options: Vec<Candidate> = (0..4).map(candidate).collect();
            (0..200)
                .map(|step| match step % 3 {
                    0 => chooser.item(&options),
                    1 => usize::from(chooser.operation(step % 5, &options)),
                    _ => chooser.worker(step, 3),
                })
                .collect()
        }
        for seed in 0..if cfg!(miri) { 2 } else { 50 } {
            let mut first = Chooser::new(Strategy::of(seed));
            let played = play(&mut first);
            let schedule = first.into_record().schedule();
            assert_eq!(play(&mut Chooser::new(Strategy::Script(schedule))), played, "seed {seed}");
            assert_eq!(play(&mut Chooser::new(Strategy::of(seed))), played, "seed {seed}");
        }
    }
}
