//! Channels between threads: recorded histories are those of a first-in-first-out queue; with waits that are cancelled at random every message is received or given back,
//! once.

use crate::kit::rng::Rng;
use crate::kit::scaled;
use crate::kit::stress::{Stress, Turn};
use crate::kit::watchdog::watchdog_with;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use tasuki::channel::{Receiver, Sender, bounded, unbounded};

/// When an operation began and ended, by one clock that every thread advances.
#[derive(Clone, Copy, Debug)]
struct Span {
    began: u64,
    ended: u64,
}

/// Is the history one of a queue? With distinct messages it is, exactly if each is received once at most, after its send has begun, and no message overtakes
/// another: sent entirely before it and received entirely after it.
fn is_queue(sends: &HashMap<u64, Span>, receives: &HashMap<u64, Span>) -> Result<(), String> {
    for (message, received) in receives {
        let sent = sends.get(message).ok_or_else(|| format!("{message} was never sent"))?;
        if received.ended < sent.began {
            return Err(format!("{message} was received before it was sent"));
        }
    }
    // In the order of the ends of sends; the earliest begin of a receive from there on must not be before.
    let mut order: Vec<_> = sends.iter().collect();
    order.sort_by_key(|(_, sent)| sent.ended);
    for (first, sent) in &order {
        for (second, later) in &order {
            if sent.ended < later.began {
                let (Some(a), Some(b)) = (receives.get(first), receives.get(second)) else { continue };
                if b.ended < a.began {
                    return Err(format!("{second} has overtaken {first}"));
                }
            }
        }
    }
    Ok(())
}

#[test]
fn the_check_sees_what_is_no_queue() {
    let span = |began, ended| Span { began, ended };
    let sends: HashMap<_, _> = [(1, span(0, 1)), (2, span(2, 3))].into();
    assert!(is_queue(&sends, &[(1, span(4, 5)), (2, span(6, 7))].into()).is_ok());
    assert!(is_queue(&sends, &[(2, span(4, 5)), (1, span(6, 7))].into()).is_err());
    assert!(is_queue(&sends, &[(2, span(4, 6)), (1, span(5, 7))].into()).is_ok());
    assert!(is_queue(&sends, &[(3, span(4, 5))].into()).is_err());
}

fn history(pair: (Sender<u64>, Receiver<u64>), seed: u64) {
    let clock = AtomicU64::new(0);
    let tick = || clock.fetch_add(1, SeqCst);
    let (sends, receives) = (Mutex::new(HashMap::new()), Mutex::new(HashMap::new()));
    let count = scaled(60, 6) as u64;
    let start = Barrier::new(4);
    let (sender, receiver) = pair;
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (sender, sends, start, tick) = (sender.clone(), &sends, &start, &tick);
            scope.spawn(move || {
                let mut rng = Rng::new(seed + thread);
                start.wait();
                for n in 0..count {
                    let (message, began) = (thread * count + n, tick());
                    if rng.below(2) == 0 {
                        sender.send(message).block().unwrap();
                    } else {
                        while sender.try_send(message).is_err() {
                            std::thread::yield_now();
                        }
                    }
                    let span = Span { began, ended: tick() };
                    sends.lock().unwrap().insert(message, span);
                }
            });
        }
        for thread in 2..4 {
            let (receiver, receives, start, tick) = (receiver.clone(), &receives, &start, &tick);
            scope.spawn(move || {
                let mut rng = Rng::new(seed + thread);
                start.wait();
                loop {
                    let began = tick();
                    let message = if rng.below(2) == 0 {
                        match receiver.try_recv() {
                            Ok(message) => Ok(message),
                            Err(tasuki::channel::TryRecvError::Empty) => continue,
                            Err(tasuki::channel::TryRecvError::Closed) => Err(tasuki::Closed),
                        }
                    } else {
                        receiver.recv().block()
                    };
                    let Ok(message) = message else { return };
                    let span = Span { began, ended: tick() };
                    assert!(receives.lock().unwrap().insert(message, span).is_none(), "{message} twice");
                }
            });
        }
        drop(sender);
    });
    let (sends, receives) = (sends.into_inner().unwrap(), receives.into_inner().unwrap());
    assert_eq!((sends.len(), receives.len()), (2 * count as usize, 2 * count as usize));
    is_queue(&sends, &receives).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
}

#[test]
fn histories_are_those_of_a_queue() {
    let _dog = watchdog_with(300, String::new());
    for seed in 0..scaled(60, 1) as u64 {
        history(bounded(1), 4 * seed);
        history(bounded(3), 4 * seed);
        history(unbounded(), 4 * seed);
    }
}

/// Tasks send and receive, and futures are dropped at random, in any state: what was sent is received or still there, and no wait is forgotten.
#[test]
fn cancelled_at_random() {
    for (capacity, seed) in [(1, 1), (2, 2), (16, 3)] {
        let stress = Stress {
            threads: scaled(4, 2),
            tasks: scaled(32, 4),
            rounds: scaled(400, 8),
            cancel_per_mille: 100,
            seed,
        };
        let _dog = watchdog_with(300, format!("{stress:?}"));
        let (sender, receiver) = bounded::<Counted>(capacity);
        let counts = Arc::new(Counts::default());
        let outcome = stress.run(|Turn { task, round }| {
            let (sender, receiver, counts) = (sender.clone(), receiver.clone(), counts.clone());
            Box::pin(async move {
                if (task + round) % 2 == 0 {
                    let message = Counted::new(&counts);
                    // An end is always near: the channel may be full with no receiver left.
                    let _ = sender.send(message).timeout(std::time::Duration::from_millis(20)).await;
                } else if let Ok(Ok(message)) =
                    receiver.recv().timeout(std::time::Duration::from_millis(20)).await
                {
                    drop(message);
                }
            })
        });
        assert!(outcome.completed > 0);
        let left = sender.len();
        assert_eq!(receiver.try_iter().count(), left, "what is there can be received");
        assert_eq!(counts.made.load(SeqCst), counts.dropped.load(SeqCst), "each message is dropped once");
        assert!(sender.is_empty() && sender.try_reserve_many(capacity).is_ok(), "and all room is free");
    }
}

/// Handles are cloned, downgraded, upgraded and dropped by all threads at once, while messages go through: the channel stays open until the last handle of a side has gone, and is closed then.
#[test]
fn a_storm_of_clones() {
    let _dog = watchdog_with(300, "a storm of clones".to_owned());
    let (sender, receiver) = bounded::<u64>(4);
    let (threads, rounds) = (scaled(4, 2), scaled(3_000, 30));
    let weak = (sender.downgrade(), receiver.downgrade());
    let received = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, receiver, weak, received) = (sender.clone(), receiver.clone(), &weak, &received);
            scope.spawn(move || {
                for round in 0..rounds {
                    let (senders, receivers) =
                        ([(); 8].map(|()| sender.clone()), [(); 8].map(|()| receiver.clone()));
                    senders[round % 8].send(1).block().unwrap();
                    let again = (weak.0.upgrade().unwrap(), weak.1.upgrade().unwrap());
                    assert!(again.0.same_channel(&sender) && again.1.same_channel(&receiver));
                    drop((senders, sender.downgrade().clone(), receiver.downgrade().clone()));
                    assert_eq!(again.1.recv().block(), Ok(1));
                    received.fetch_add(1, SeqCst);
                    drop(receivers);
                    assert!(!again.0.is_closed());
                }
            });
        }
    });
    assert_eq!(received.load(SeqCst), threads * rounds);
    drop(sender);
    assert!(receiver.is_closed() && weak.0.upgrade().is_none() && weak.1.upgrade().is_some());
    drop(receiver);
    assert!(weak.1.upgrade().is_none());
}

#[derive(Default)]
struct Counts {
    made: AtomicUsize,
    dropped: AtomicUsize,
}

struct Counted(Arc<Counts>);

impl Counted {
    fn new(counts: &Arc<Counts>) -> Self {
        counts.made.fetch_add(1, SeqCst);
        Self(counts.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, SeqCst);
    }
}
