//! Cancellation on real threads: waits that only a cancel ends, and trees that grow, shrink and are cancelled at once.

use crate::kit::alloc::{measure, nodes_everywhere};
use crate::kit::process::alone;
use crate::kit::rng::{Rng, Seed};
use crate::kit::stress::Stress;
use crate::kit::watchdog::watchdog_with;
use crate::kit::{env_or, scaled};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tasuki::{CancellationSource, CancellationToken};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How much longer than in CI.
fn longer() -> usize {
    env_or("TASUKI_STRESS", 1) as usize
}

/// Tasks wait, at three depths, for a source that is cancelled and replaced again and again. They are polled only when
/// woken, so a lost wake-up is a hang; a third of them is dropped while it waits.
#[test]
fn s2_61_no_wake_is_lost() {
    alone(|| {
        measure();
        let (seed, before) = (Seed::pick(), nodes_everywhere());
        let _dog = watchdog_with(300, format!("TASUKI_SEED={}", seed.0));
        let current = Mutex::new(CancellationSource::new());
        let stop = AtomicBool::new(false);
        let stress = Stress {
            threads: 3,
            tasks: scaled(64, 4),
            rounds: scaled(300, 6) * longer(),
            cancel_per_mille: 300,
            seed: seed.0,
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(SeqCst) {
                    let next = CancellationSource::new();
                    let last = std::mem::replace(&mut *lock(&current), next);
                    last.cancel_with("next");
                    std::thread::yield_now();
                }
            });
            stress.run(|turn| {
                let source = lock(&current).clone();
                let token = match turn.round % 3 {
                    0 => source.token(),
                    1 => source.child().token(),
                    _ => source.child().child().token(),
                };
                Box::pin(async move {
                    token.on_cancel().await;
                    assert_eq!(token.reason(), Some("next"));
                })
            });
            stop.store(true, SeqCst);
        });
        drop(current);
        assert_eq!(nodes_everywhere(), before, "a node leaked");
    });
}

/// A place of the tree that the threads share.
struct Leaf {
    source: CancellationSource,
    /// The numbers of all nodes above it, and its own.
    line: Vec<usize>,
}

const LEAVES: usize = 24;

/// Threads make children of each other's nodes, drop and cancel them. When a cancel returns, all descendants that were
/// there before the call are cancelled. In the end no node is left.
#[test]
fn a_tree_under_fire_keeps_its_promise() {
    alone(|| {
        measure();
        let (seed, before) = (Seed::pick(), nodes_everywhere());
        let _dog = watchdog_with(300, format!("TASUKI_SEED={}", seed.0));
        let numbers = AtomicUsize::new(1);
        let leaves: Vec<Mutex<Option<Leaf>>> = (0..LEAVES).map(|_| Mutex::new(None)).collect();
        std::thread::scope(|scope| {
            for thread in 0..scaled(4, 2) {
                let (leaves, numbers) = (&leaves, &numbers);
                let mut rng = Rng::new(seed.0.wrapping_add(thread as u64));
                scope.spawn(move || {
                    for _ in 0..scaled(100_000, 100) * longer() {
                        match rng.below(10) {
                            0 => cancel(leaves, &mut rng),
                            1..=4 => drop(lock(&leaves[rng.below(LEAVES)]).take()),
                            _ => grow(leaves, &mut rng, numbers),
                        }
                    }
                });
            }
        });
        drop(leaves);
        assert_eq!(nodes_everywhere(), before, "a node leaked");
    });
}

/// A child of some node, or a new root, in some place.
fn grow(leaves: &[Mutex<Option<Leaf>>], rng: &mut Rng, numbers: &AtomicUsize) {
    let parent =
        lock(&leaves[rng.below(LEAVES)]).as_ref().map(|leaf| (leaf.source.clone(), leaf.line.clone()));
    let (source, mut line) = match parent {
        Some((parent, line)) if line.len() < 20 => (parent.child(), line),
        _ => (CancellationSource::new(), Vec::new()),
    };
    line.push(numbers.fetch_add(1, SeqCst));
    let old = lock(&leaves[rng.below(LEAVES)]).replace(Leaf { source, line });
    drop(old);
}

fn cancel(leaves: &[Mutex<Option<Leaf>>], rng: &mut Rng) {
    let Some((source, number)) = lock(&leaves[rng.below(LEAVES)])
        .as_ref()
        .map(|leaf| (leaf.source.clone(), *leaf.line.last().expect("its own number")))
    else {
        return;
    };
    let below: Vec<CancellationToken> = leaves
        .iter()
        .filter_map(|leaf| {
            lock(leaf).as_ref().filter(|leaf| leaf.line.contains(&number)).map(|leaf| leaf.source.token())
        })
        .collect();
    source.cancel_with("stop");
    assert!(source.token().stop_requested());
    assert!(below.iter().all(CancellationToken::stop_requested), "a descendant was not reached");
    assert!(below.iter().all(|token| token.reason() == Some("stop")));
}
