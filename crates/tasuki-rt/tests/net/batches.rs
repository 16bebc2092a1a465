//! How often a worker asks the system which sockets are ready: once for all that are, however long their tasks run.

use crate::kit::{MS, runtime, until, watchdog};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream as Peer;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tasuki_rt::net::UnixStream;
use tasuki_rt::{Runtime, yield_now};

/// A worker that always has something to do asks at one pick in so many.
const GLOBAL_EVERY: usize = 64;

/// Keeps the worker for so long that a clock would tell it to look at what comes from outside.
fn slow() {
    let start = Instant::now();
    while start.elapsed() < MS {}
}

/// So many connections, whose server takes a millisecond for a request; and how many it has served.
fn connections(runtime: &Runtime, count: usize) -> (Vec<Peer>, Arc<AtomicUsize>) {
    let (waiting, served) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (peers, streams): (Vec<_>, Vec<_>) = (0..count).map(|_| Peer::pair().unwrap()).unzip();
    for stream in streams {
        let (waiting, served) = (waiting.clone(), served.clone());
        drop(runtime.spawn(async move {
            let mut stream = UnixStream::from_std(stream).unwrap();
            let mut byte = [0];
            waiting.fetch_add(1, SeqCst);
            while stream.read(&mut byte).await.unwrap() > 0 {
                slow();
                stream.write_all(&byte).await.unwrap();
                served.fetch_add(1, SeqCst);
            }
        }));
    }
    runtime.start().unwrap();
    until(|| waiting.load(SeqCst) == count);
    (peers, served)
}

/// A request on every connection, all of which are there when the worker looks: a Unix socket is readable when the write has returned.
fn round(runtime: &Runtime, peers: &mut [Peer], served: &AtomicUsize) -> usize {
    let (held, release) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (holds, until_released) = (held.clone(), release.clone());
    let holder = runtime.spawn(async move {
        holds.store(true, SeqCst);
        until(|| until_released.load(SeqCst));
    });
    until(|| held.load(SeqCst));
    peers.iter_mut().for_each(|peer| peer.write_all(b"x").unwrap());
    let (before, all) = (runtime.metrics().socket_polls(), served.load(SeqCst) + peers.len());
    release.store(true, SeqCst);
    until(|| served.load(SeqCst) == all);
    let polls = runtime.metrics().socket_polls() - before;
    // Afterwards: a read makes a Unix socket writable, which the system reports.
    peers.iter_mut().for_each(|peer| peer.read_exact(&mut [0]).unwrap());
    runtime.block_on(holder).unwrap();
    polls as usize
}

/// On a slow machine, or under a tracer of system calls, a look by the clock came after every second request.
#[test]
#[cfg_attr(miri, ignore = "Miri has no sockets")]
fn requests_that_are_there_together_are_asked_for_once() {
    let _dog = watchdog(120);
    for count in [48, 150] {
        let runtime = runtime(1);
        let (mut peers, served) = connections(&runtime, count);
        for _ in 0..3 {
            let polls = round(&runtime, &mut peers, &served);
            // The one that brings them, the sleep that follows the last answer, and those at one pick in 64; a few more are the machine's: a thread that is held up may sleep
            // between two of them.
            let most = 8 + count / GLOBAL_EVERY;
            assert!((1..=most).contains(&polls), "{polls} polls for {count} requests");
        }
    }
}

/// Beside tasks that always run the sockets are asked for again and again, but not before each of these had its turn.
#[test]
#[cfg_attr(miri, ignore = "Miri has no sockets")]
fn a_busy_worker_asks_when_its_tasks_have_had_a_turn() {
    const BUSY: usize = 20;
    let _dog = watchdog(120);
    let runtime = runtime(1);
    let (mut peers, served) = connections(&runtime, 1);
    let (turns, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    // At which turn the request came and the answer was there, both seen by tasks of the worker: no other thread, which may be held up, takes part.
    let [asked, answered] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let peer = Arc::new(Mutex::new(Some(peers.remove(0))));
    let busy: Vec<_> = (0..BUSY)
        .map(|_| {
            let (turns, stop, peer, served) = (turns.clone(), stop.clone(), peer.clone(), served.clone());
            let (asked, answered) = (asked.clone(), answered.clone());
            runtime.spawn(async move {
                let mut kept = None;
                while !stop.load(SeqCst) {
                    let turn = turns.fetch_add(1, SeqCst);
                    let due = if turn > 2 * BUSY { peer.lock().unwrap().take() } else { None };
                    if let Some(mut peer) = due {
                        asked.store(turn, SeqCst);
                        peer.write_all(b"x").unwrap();
                        kept = Some(peer);
                    }
                    if served.load(SeqCst) == 1 && answered.load(SeqCst) == 0 {
                        answered.store(turn, SeqCst);
                    }
                    slow();
                    yield_now().await;
                }
                kept
            })
        })
        .collect();
    until(|| answered.load(SeqCst) > 0);
    let ended = answered.load(SeqCst) - asked.load(SeqCst);
    assert!(ended <= 4 * BUSY, "{ended} polls came before the answer");
    // The turns before the polls, and afterwards the polls before the turns: what comes in between makes turns more, not polls.
    let (begun, polls) = (turns.load(SeqCst), runtime.metrics().socket_polls());
    until(|| turns.load(SeqCst) > begun + 10 * BUSY);
    let (polls, turns) = (runtime.metrics().socket_polls() - polls, turns.load(SeqCst) - begun);
    // One more for the poll that has begun, one for what was counted in between.
    assert!(polls as usize <= turns / BUSY + 2, "{polls} polls beside {turns} turns of {BUSY} tasks");
    stop.store(true, SeqCst);
    busy.into_iter().for_each(|task| drop(runtime.block_on(task).unwrap()));
}
