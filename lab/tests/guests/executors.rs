//! The primitives under executors that know nothing of them.

use crate::kit::program;
use crate::kit::watchdog::watchdog;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tasuki::{Barrier, Condvar, Mutex, RwLock, Semaphore, WaitGroup};

const SAID: [&str; 4] = ["2000 sales", "given up: true true true", "a thread counts 2000", "locked 2 deep"];

#[test]
fn the_example_under_tokio_prints_what_it_says() {
    let _dog = watchdog(60);
    assert_eq!(program::lines("lab", "under_tokio"), SAID);
}

#[test]
fn the_example_under_smol_prints_what_it_says() {
    let _dog = watchdog(60);
    assert_eq!(program::lines("lab", "under_smol"), SAID);
}

/// What tasks of every executor and plain threads share at the same time.
struct Common {
    pair: RwLock<(u64, u64)>,
    stock: Mutex<Vec<u64>>,
    delivered: Condvar,
    seats: Semaphore,
    start: Barrier,
    ends: Arc<WaitGroup>,
}

/// One party: as many deliveries as removals, in a section that is entered by two at most.
async fn party(common: &Common, rounds: u64) {
    common.start.arrive_and_wait().await;
    for round in 0..rounds {
        let _seat = common.seats.acquire().await.expect("never closed");
        common.stock.lock().await.push(round);
        common.delivered.notify_one();
        {
            let mut pair = common.pair.write().await;
            *pair = (pair.0 + 1, pair.1 + 1);
        }
        {
            let pair = common.pair.read().await;
            assert_eq!(pair.0, pair.1);
        }
        let stock = common.stock.lock().await;
        let mut stock = common.delivered.wait_while(stock, |stock| stock.is_empty()).await;
        stock.pop().expect("woken because there is something");
        drop(stock);
        // Now and then a wait that is given up.
        drop(common.stock.lock().timeout(Duration::from_micros(round % 3 * 100)).await);
    }
}

#[test]
fn one_set_of_locks_serves_all_executors_at_once() {
    const PARTIES: usize = 12;
    const ROUNDS: u64 = 100;
    let _dog = watchdog(120);
    let common = Arc::new(Common {
        pair: RwLock::new((0, 0)),
        stock: Mutex::new(Vec::new()),
        delivered: Condvar::new(),
        seats: Semaphore::new(2),
        start: Barrier::new(PARTIES),
        ends: Arc::new(WaitGroup::new()),
    });
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let mut threads = Vec::new();
    for n in 0..PARTIES {
        let (common, member) = (common.clone(), common.ends.clone().member_owned());
        let body = async move {
            let _member = member;
            party(&common, ROUNDS).await;
        };
        match n % 3 {
            0 => drop(tokio.spawn(body)),
            1 => smol::spawn(body).detach(),
            _ => threads.push(thread::spawn(|| smol::block_on(body))),
        }
    }
    common.ends.wait().block();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let total = PARTIES as u64 * ROUNDS;
    assert_eq!(*common.pair.try_read().unwrap(), (total, total));
    assert!(common.stock.try_lock().unwrap().is_empty());
    assert_eq!(common.seats.available_permits(), 2);
}

/// smol does not tell which task runs. Two of its tasks that wait for each other are known by their wakers.
#[test]
#[cfg(debug_assertions)]
fn a_deadlock_under_smol_is_suspected() {
    let _dog = watchdog(60);
    let locks = Arc::new(["smol a", "smol b"].map(|name| Mutex::new(0).named(name)));
    let both_have_one = Arc::new(Barrier::new(2));
    let tasks: Vec<smol::Task<()>> = [[0, 1], [1, 0]]
        .into_iter()
        .map(|order: [usize; 2]| {
            let (locks, both_have_one) = (locks.clone(), both_have_one.clone());
            smol::spawn(async move {
                let mut held = locks[order[0]].lock().await;
                both_have_one.arrive_and_wait().await;
                *held += 1;
                drop(locks[order[1]].lock().await);
            })
        })
        .collect();
    let is_it = |one: &tasuki::inspect::Deadlock| {
        one.hops.len() == 2
            && one.hops.iter().all(|hop| hop.lock.name.is_some_and(|name| name.starts_with("smol ")))
    };
    let found = loop {
        if let Some(found) = tasuki::inspect::deadlocks().into_iter().find(is_it) {
            break found;
        }
        thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(found.certainty, tasuki::inspect::Certainty::Suspected);
    assert!(found.hops.iter().all(|hop| hop.task.is_guessed()));
    // A task that is dropped gives its lock back.
    drop(tasks);
    smol::block_on(async {
        for lock in &*locks {
            drop(lock.lock().await);
        }
    });
    assert!(!tasuki::inspect::deadlocks().iter().any(is_it));
}
