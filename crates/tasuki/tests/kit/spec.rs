//! Every string of operations up to a length, and some that are longer, on the real thing and on a model of it.
//!
//! A model is a few lines of plain data. It says which operations make sense next, and what each shows.
//! The real thing is built anew for every string and must show the same after every step.

use super::rng::Rng;
use super::watchdog::watchdog;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Something that operations are applied to.
pub(crate) trait System {
    type Op: Copy + Debug + Send + Sync;
    /// All that can be observed after an operation.
    type Seen: PartialEq + Debug + Send + Sync;

    fn apply(&mut self, op: Self::Op) -> Self::Seen;

    /// After the last operation: checks that nothing is left behind.
    fn finish(&mut self) {}
}

/// A system that knows what may come next.
pub(crate) trait Model: System + Clone + Send + Sync {
    /// Adds the operations that make sense now. None means that the string is complete.
    fn next(&self, ops: &mut Vec<Self::Op>);
}

/// One run of the real thing: builds it and hands it to the body. The wait objects borrow what they wait
/// for, so it can only be lent.
pub(crate) type Body<'b, M> =
    dyn FnMut(&mut dyn System<Op = <M as System>::Op, Seen = <M as System>::Seen>) + 'b;

struct Search<'s, M: System, R> {
    run: R,
    path: Vec<M::Op>,
    expected: Vec<M::Seen>,
    strings: &'s AtomicU64,
}

impl<M: Model, R: Fn(&mut Body<'_, M>)> Search<'_, M, R> {
    fn step(&mut self, model: &M, op: M::Op) -> M {
        let mut model = model.clone();
        self.expected.push(model.apply(op));
        self.path.push(op);
        model
    }

    fn back(&mut self) {
        self.expected.pop();
        self.path.pop();
    }

    fn descend(&mut self, model: &M, depth: usize) {
        let mut ops = Vec::new();
        if depth > 0 {
            model.next(&mut ops);
        }
        if ops.is_empty() {
            return self.compare();
        }
        for op in ops {
            let model = self.step(model, op);
            self.descend(&model, depth - 1);
            self.back();
        }
    }

    /// One string of up to `length` operations, each drawn from those that make sense.
    fn stray(&mut self, model: &M, length: usize, rng: &mut Rng) {
        let mut model = model.clone();
        let mut ops = Vec::new();
        for _ in 0..length {
            ops.clear();
            model.next(&mut ops);
            if ops.is_empty() {
                break;
            }
            model = self.step(&model, ops[rng.below(ops.len())]);
        }
        self.compare();
        self.expected.clear();
        self.path.clear();
    }

    fn compare(&self) {
        let mut ran = false;
        (self.run)(&mut |real| {
            for (step, op) in self.path.iter().enumerate() {
                let seen = real.apply(*op);
                assert!(
                    seen == self.expected[step],
                    "operation {step} of {:?}\n shows {seen:?}\nexpected {:?}",
                    self.path,
                    self.expected[step],
                );
            }
            real.finish();
            ran = true;
        });
        assert!(ran, "the body was not called");
        self.strings.fetch_add(1, Relaxed);
    }
}

/// All prefixes of this length, or shorter ones that are complete.
fn prefixes<M: Model>(model: &M, depth: usize) -> Vec<Vec<M::Op>> {
    let mut done = Vec::new();
    let mut open = vec![(model.clone(), Vec::new())];
    while let Some((model, path)) = open.pop() {
        let mut ops = Vec::new();
        model.next(&mut ops);
        if path.len() == depth || ops.is_empty() {
            done.push(path);
            continue;
        }
        for op in ops {
            let (mut model, mut path) = (model.clone(), path.clone());
            model.apply(op);
            path.push(op);
            open.push((model, path));
        }
    }
    done
}

/// The depth, and how many waiters: what the environment says, or 6 and 3; under Miri `small` and 2. A step more costs ten times as long: 7 is for release
/// builds (`TASUKI_SPEC_DEPTH`).
pub(crate) fn size(small: usize, most_waiters: usize) -> (usize, usize) {
    size_of_many(6, small, most_waiters)
}

/// The same where there is so much to do at each step that another depth than 6 is the usual one.
pub(crate) fn size_of_many(usual: usize, small: usize, most_waiters: usize) -> (usize, usize) {
    let depth = super::env_or("TASUKI_SPEC_DEPTH", super::scaled(usual, small) as u64) as usize;
    let waiters = super::env_or("TASUKI_SPEC_WAITERS", super::scaled(3, 2) as u64) as usize;
    assert!(waiters <= most_waiters, "at most {most_waiters} waiters here");
    (depth, waiters)
}

/// How many longer strings are drawn, from a fixed seed, and their length.
const STRAYS: usize = super::scaled(4_000, 20);
const STRAY_LENGTH: usize = 24;

/// Compares every string of up to `depth` operations, on all processors, and `STRAYS` longer ones; returns how many there were.
/// Panics at the first difference with the string that shows it. `TASUKI_PROGRESS=1` shows how far it is.
pub(crate) fn enumerate<M: Model>(
    name: &str,
    depth: usize,
    model: &M,
    run: impl Fn(&mut Body<'_, M>) + Copy + Send + Sync,
) -> u64 {
    let _dog = watchdog(if depth > 7 { 7_200 } else { 600 });
    let started = Instant::now();
    let prefixes = prefixes(model, depth.min(4));
    let (strings, taken) = (AtomicU64::new(0), AtomicU64::new(0));
    let progress = super::env_or("TASUKI_PROGRESS", 0) > 0;
    // Millions of polls with one waker are no task that overruns, which an unknown executor could not tell.
    let work = || {
        while let Some(prefix) = prefixes.get(taken.fetch_add(1, Relaxed) as usize) {
            let mut search = Search { run, path: Vec::new(), expected: Vec::new(), strings: &strings };
            let mut state = model.clone();
            for op in prefix {
                state = search.step(&state, *op);
            }
            search.descend(&state, depth - prefix.len());
            if progress {
                let (at, of) = (taken.load(Relaxed).min(prefixes.len() as u64), prefixes.len());
                eprintln!("{name}: {at}/{of} prefixes, {} strings", strings.load(Relaxed));
            }
        }
    };
    let threads = if cfg!(miri) { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) };
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| tasuki::runtime::uncharged(work))).collect();
        for worker in workers {
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    let enumerated = strings.load(Relaxed);
    tasuki::runtime::uncharged(|| {
        let mut search = Search { run, path: Vec::new(), expected: Vec::new(), strings: &strings };
        let mut rng = Rng::new(depth as u64);
        (0..STRAYS).for_each(|_| search.stray(model, STRAY_LENGTH, &mut rng));
    });
    println!(
        "{name}: depth {depth}, {enumerated} strings agree, and {STRAYS} longer ones, {:.1?}",
        started.elapsed()
    );
    assert!(
        enumerated >> depth > 0,
        "{enumerated} strings are no enumeration: there are always two things to do"
    );
    enumerated
}
