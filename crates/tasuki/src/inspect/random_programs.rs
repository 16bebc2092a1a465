//! The graph against a second detector, on random programs of a few tasks and locks.
//!
//! The test keeps its own account of every lock: which tasks hold it, which are queued, what was granted and not claimed. After each step it finds the stuck tasks by trying all sets of
//! tasks, from the definition in `graph.rs`, and compares. Guards are used by other tasks, dropped by other tasks, and forgotten; waits are limited, and dropped in every state; tasks wait by
//! several futures, some of which they do not poll, and for signals.

use super::deadlocks;
use super::graph::cycle_of;
use super::tests::Actor;
use crate::{CancellationSource, CancellationToken, Event, Mutex, RwLock, Semaphore};
use alloc::sync::Arc;
use core::future::Future;
use core::ops::DerefMut as _;
use core::pin::Pin;
use core::task::Poll;
use std::boxed::Box;
use std::collections::{BTreeSet, VecDeque};
use std::format;
use std::string::String;
use std::vec::Vec;

const TASKS: usize = 4;
const LOCKS: usize = 5;
const PERMITS: usize = 2;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    Alone,
    Read,
    Permit,
}

/// Something that is held, and can be used.
trait Held {
    fn used(&mut self) {}
}

impl Held for crate::OwnedMutexGuard<u32> {
    fn used(&mut self) {
        **self += 1;
    }
}

impl Held for crate::rwlock::OwnedRwLockReadGuard<u32> {
    fn used(&mut self) {
        assert!(**self < u32::MAX);
    }
}

impl Held for crate::rwlock::OwnedRwLockWriteGuard<u32> {
    fn used(&mut self) {
        *self.deref_mut() += 1;
    }
}

/// A permit is not used: it stays in the name of the task that took it.
impl Held for crate::OwnedSemaphorePermit {}

type Acquire = Pin<Box<dyn Future<Output = Option<Box<dyn Held>>>>>;

/// A lock, and the test's own account of it.
struct Lock {
    kind: Kind,
    /// Waits and holds by number, with the task whose they are.
    holders: Vec<Hold>,
    queue: VecDeque<Queued>,
}

enum Kind {
    Mutex(Arc<Mutex<u32>>),
    RwLock(Arc<RwLock<u32>>),
    Semaphore(Arc<Semaphore>),
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    number: usize,
    task: usize,
    want: Want,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    number: usize,
    task: usize,
    want: Want,
    is_limited: bool,
}

impl Lock {
    fn new(number: usize) -> Self {
        let kind = match number {
            0 | 1 => Kind::Mutex(Arc::new(Mutex::new(0))),
            2 | 3 => Kind::RwLock(Arc::new(RwLock::new(0))),
            _ => Kind::Semaphore(Arc::new(Semaphore::new(PERMITS))),
        };
        Self { kind, holders: Vec::new(), queue: VecDeque::new() }
    }

    fn admits(&self, want: Want) -> bool {
        match want {
            Want::Alone => self.holders.is_empty(),
            Want::Read => self.holders.iter().all(|hold| hold.want == Want::Read),
            Want::Permit => self.holders.len() < PERMITS,
        }
    }

    /// A newcomer passes no waiter, but for a reader that no writer waits before.
    fn admits_newcomer(&self, want: Want) -> bool {
        let passes = want == Want::Read && self.queue.iter().all(|queued| queued.want == Want::Read);
        (self.queue.is_empty() || passes) && self.admits(want)
    }

    fn grant(&mut self) {
        while let Some(first) = self.queue.front().copied() {
            if !self.admits(first.want) {
                return;
            }
            self.queue.pop_front();
            self.holders.push(Hold { number: first.number, task: first.task, want: first.want });
        }
    }

    fn release(&mut self, number: usize) {
        self.holders.retain(|hold| hold.number != number);
        self.grant();
    }

    fn cancel(&mut self, number: usize) {
        self.queue.retain(|queued| queued.number != number);
        self.release(number);
    }

    fn future(&self, want: Want, limit: Option<CancellationToken>) -> Acquire {
        /// With a limit or without, as something held.
        macro_rules! acquire {
            ($wait:expr, $held:ident => $ok:expr) => {
                match limit {
                    Some(token) => Box::pin(async move {
                        let $held = $wait.or_cancelled(&token).await.ok()?;
                        Some(Box::new($ok) as Box<dyn Held>)
                    }),
                    None => Box::pin(async move {
                        let $held = $wait.await;
                        Some(Box::new($ok) as Box<dyn Held>)
                    }),
                }
            };
        }
        match (&self.kind, want) {
            (Kind::Mutex(mutex), _) => {
                let mutex = mutex.clone();
                acquire!(mutex.lock_owned(), held => held)
            }
            (Kind::RwLock(lock), Want::Read) => {
                let lock = lock.clone();
                acquire!(lock.read_owned(), held => held)
            }
            (Kind::RwLock(lock), _) => {
                let lock = lock.clone();
                acquire!(lock.write_owned(), held => held)
            }
            (Kind::Semaphore(semaphore), _) => {
                let semaphore = semaphore.clone();
                acquire!(semaphore.acquire_owned(), held => held.expect("it is not closed"))
            }
        }
    }
}

/// A wait of a task.
struct Waiting {
    number: usize,
    task: usize,
    lock: usize,
    is_limited: bool,
    future: Acquire,
}

/// Something held, and where the program keeps it.
struct Kept {
    number: usize,
    lock: usize,
    held: Box<dyn Held>,
}

/// The wait of an actor for a signal.
type Signalled = (usize, Pin<Box<dyn Future<Output = ()>>>);

/// A random program.
struct Program {
    actors: Vec<Actor>,
    locks: Vec<Lock>,
    waiting: Vec<Waiting>,
    kept: Vec<Kept>,
    signals: Vec<Signalled>,
    event: Arc<Event>,
    source: CancellationSource,
    next: usize,
    told: Vec<String>,
}

impl Program {
    fn new() -> Self {
        Self {
            actors: (0..TASKS).map(|_| Actor::new()).collect(),
            locks: (0..LOCKS).map(Lock::new).collect(),
            waiting: Vec::new(),
            kept: Vec::new(),
            signals: Vec::new(),
            event: Arc::new(Event::auto()),
            source: CancellationSource::new(),
            next: 0,
            told: Vec::new(),
        }
    }

    fn begin(&mut self, rng: &mut Rng) {
        let (task, at, number) = (rng.below(TASKS), rng.below(LOCKS), self.next);
        self.next += 1;
        let want = match &self.locks[at].kind {
            Kind::Mutex(_) => Want::Alone,
            Kind::RwLock(_) => [Want::Read, Want::Alone][rng.below(2)],
            Kind::Semaphore(_) => Want::Permit,
        };
        let is_limited = rng.one_in(8);
        self.told.push(format!(
            "task {task} asks for {want:?} of lock {at}, limited: {is_limited}, number {number}"
        ));
        let future = self.locks[at].future(want, is_limited.then(|| self.source.token()));
        let enters = self.locks[at].admits_newcomer(want);
        if enters {
            self.locks[at].holders.push(Hold { number, task, want });
        } else {
            self.locks[at].queue.push_back(Queued { number, task, want, is_limited });
        }
        self.waiting.push(Waiting { number, task, lock: at, is_limited, future });
        let is_ready = self.poll(self.waiting.len() - 1);
        assert_eq!(is_ready, enters, "the account is wrong: {:#?}", self.told);
    }

    /// Polls a wait; true if it has ended.
    fn poll(&mut self, at: usize) -> bool {
        let Waiting { number, task, lock, future, .. } = &mut self.waiting[at];
        let Poll::Ready(held) = self.actors[*task].poll(future.as_mut()) else { return false };
        self.kept.push(Kept { number: *number, lock: *lock, held: held.expect("no limit is reached") });
        drop(self.waiting.swap_remove(at));
        true
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.below(10) {
            0..4 => self.begin(rng),
            4 if !self.waiting.is_empty() => {
                let at = rng.below(self.waiting.len());
                self.told.push(format!("number {} is polled", self.waiting[at].number));
                self.poll(at);
            }
            5 if !self.waiting.is_empty() => {
                let Waiting { number, lock, future, .. } =
                    self.waiting.swap_remove(rng.below(self.waiting.len()));
                self.told.push(format!("number {number} is cancelled"));
                self.actors[rng.below(TASKS)].run(|| drop(future));
                self.locks[lock].cancel(number);
            }
            6 | 7 if !self.kept.is_empty() => {
                let Kept { number, lock, held } = self.kept.swap_remove(rng.below(self.kept.len()));
                if rng.one_in(8) {
                    self.told.push(format!("number {number} is forgotten"));
                    core::mem::forget(held);
                    return;
                }
                let task = rng.below(TASKS);
                self.told.push(format!("number {number} is released by task {task}"));
                self.actors[task].run(|| drop(held));
                self.locks[lock].release(number);
            }
            8 if !self.kept.is_empty() => self.send(rng),
            9 => self.signal(rng),
            _ => {}
        }
    }

    /// A guard is used by another task, which has it from then on.
    fn send(&mut self, rng: &mut Rng) {
        let (at, task) = (rng.below(self.kept.len()), rng.below(TASKS));
        let Kept { number, lock, held } = &mut self.kept[at];
        self.actors[task].run(|| held.used());
        self.told.push(format!("number {number} is used by task {task}"));
        for hold in &mut self.locks[*lock].holders {
            if hold.number == *number && hold.want != Want::Permit {
                hold.task = task;
            }
        }
    }

    /// A wait for a signal begins, or ends.
    fn signal(&mut self, rng: &mut Rng) {
        if !self.signals.is_empty() {
            self.told.push("a wait for a signal ends".into());
            drop(self.signals.swap_remove(rng.below(self.signals.len())));
            return;
        }
        let (task, event) = (rng.below(TASKS), self.event.clone());
        self.told.push(format!("task {task} waits for a signal"));
        let mut wait: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async move { event.wait().await });
        assert!(self.actors[task].poll(wait.as_mut()).is_pending());
        self.signals.push((task, wait));
    }

    /// Is a queued wait kept from its end, if the tasks of this set never go on?
    fn is_blocked(&self, lock: &Lock, place: usize, stuck: &BTreeSet<usize>) -> bool {
        let wait = lock.queue[place];
        let mut holders = lock.holders.iter();
        let before =
            || lock.queue.iter().take(place).filter(|other| other.want == Want::Alone && !other.is_limited);
        !wait.is_limited
            && match wait.want {
                Want::Alone => holders.any(|hold| stuck.contains(&hold.task)),
                Want::Permit => holders.all(|hold| stuck.contains(&hold.task)),
                Want::Read => {
                    holders.any(|hold| hold.want == Want::Alone && stuck.contains(&hold.task))
                        || before().any(|writer| stuck.contains(&writer.task))
                }
            }
    }

    /// The tasks that are stuck: the largest set of which each has a wait, and all its waits are blocked. By trying.
    fn stuck(&self) -> BTreeSet<usize> {
        let sets = (0..1_usize << TASKS)
            .map(|bits| (0..TASKS).filter(|task| bits >> task & 1 == 1).collect::<BTreeSet<_>>());
        let holds = |set: &BTreeSet<usize>| {
            set.iter().all(|task| {
                let mut waits = 0;
                let blocked = self.locks.iter().all(|lock| {
                    (0..lock.queue.len()).filter(|place| lock.queue[*place].task == *task).all(|place| {
                        waits += 1;
                        self.is_blocked(lock, place, set)
                    })
                });
                // A limit may be reached also when what it limits was granted and not claimed.
                let is_limited = self.waiting.iter().any(|wait| wait.is_limited && wait.task == *task);
                blocked && waits > 0 && !is_limited && self.signals.iter().all(|(waits, _)| waits != task)
            })
        };
        sets.filter(holds).max_by_key(BTreeSet::len).expect("the empty set is one")
    }

    /// Both detectors say the same, of every task; and every cycle is one of stuck tasks.
    fn compare(&self) -> usize {
        let stuck = self.stuck();
        for (task, actor) in self.actors.iter().enumerate() {
            let found = cycle_of(actor.number()).is_some();
            assert_eq!(found, stuck.contains(&task), "task {task} of {stuck:?}: {:#?}", self.told);
        }
        let mine = |number: u64| self.actors.iter().position(|actor| actor.number() == number);
        // That looks at all tasks of the process, so seldom.
        let all = if self.told.len() % 16 == 0 { deadlocks() } else { Vec::new() };
        for deadlock in all {
            for hop in &deadlock.hops {
                if let Some(task) = mine(hop.task.get()) {
                    assert!(
                        stuck.contains(&task)
                            && mine(hop.holder.task.get()).is_some_and(|holder| stuck.contains(&holder)),
                        "{deadlock}"
                    );
                }
            }
        }
        stuck.len()
    }
}

#[test]
fn both_detectors_say_the_same() {
    let (programs, steps) = (150, 80);
    let mut found = [0; TASKS + 1];
    for seed in 0..programs {
        let (mut rng, mut program) = (Rng(seed), Program::new());
        for _ in 0..steps {
            program.step(&mut rng);
            found[program.compare()] += 1;
        }
    }
    assert!(found.iter().all(|count| *count > 30), "too few deadlocks, or too many: {found:?}");
}
