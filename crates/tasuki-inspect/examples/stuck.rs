//! A program to look at: `cargo run -p tasuki-inspect --example stuck`, then open the page that it names.
//!
//! Some tasks work, and contend for a few locks. What goes wrong is asked for on standard input, a word a line: `deadlock` (two locks in opposite order), `ring` (four tasks), `futurelock`,
//! `block` (a task keeps its worker in one poll), `crowd N` (so many tasks wait for one lock); `dump` lists the tasks, `quit` ends it. Every line is answered with `ok`.

use std::future::{Future, poll_fn};
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tasuki::{Barrier, Event, Mutex, RwLock, Semaphore};
use tasuki_rt::{Runtime, TaskBuilder, sleep, spawn, yield_now};

/// Tasks that go on, and wait for each other now and then.
fn work(runtime: &Runtime) {
    let cache = Arc::new(Mutex::new(0_u64).named("cache"));
    let table = Arc::new(RwLock::new(0_u64).named("routes"));
    let permits = Arc::new(Semaphore::new(3).named("connections"));
    for n in 0..12_u64 {
        let (cache, table, permits) = (cache.clone(), table.clone(), permits.clone());
        drop(TaskBuilder::new().name(format!("client {n}")).on(&runtime.handle()).spawn(async move {
            loop {
                {
                    let _permit = permits.acquire().await;
                    *cache.lock().await += n;
                    sleep(Duration::from_millis(20 + n * 3)).await;
                }
                let mut entry = cache.lock().await;
                if n == 0 {
                    *table.write().await += 1;
                    sleep(Duration::from_millis(15)).await;
                } else {
                    *entry += *table.read().await;
                }
                drop(entry);
                yield_now().await;
            }
        }));
    }
}

/// So many tasks take locks in a ring, each its own and then the next one's.
fn ring(runtime: &Runtime, names: &'static [(&'static str, &'static str)]) {
    let locks: Arc<Vec<Mutex<u32>>> =
        Arc::new(names.iter().map(|(_, lock)| Mutex::new(0).named(lock)).collect());
    let all = Arc::new(Barrier::new(names.len()));
    for (n, (task, _)) in names.iter().enumerate() {
        let (locks, all) = (locks.clone(), all.clone());
        drop(TaskBuilder::new().name(*task).on(&runtime.handle()).spawn(async move {
            let _mine = locks[n].lock().await;
            all.arrive_and_wait().await;
            let _next = locks[(n + 1) % locks.len()].lock().await;
        }));
    }
}

/// The future that lost is kept and not polled, while its task locks again.
fn futurelock(runtime: &Runtime) {
    let shared = Arc::new((Mutex::new(0).named("connection"), Event::auto()));
    drop(TaskBuilder::new().name("request").on(&runtime.handle()).spawn(async move {
        let (connection, queued) = &*shared;
        let background = spawn({
            let shared = shared.clone();
            async move {
                let guard = shared.0.lock().await;
                shared.1.set();
                sleep(Duration::from_millis(50)).await;
                drop(guard);
            }
        });
        queued.wait().await;
        let mut first = Box::pin(connection.lock());
        let _ = poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending())).await;
        drop(connection.lock().await);
        drop((first, background));
    }));
}

/// A worker that is kept in one poll.
fn block(runtime: &Runtime) {
    drop(TaskBuilder::new().name("parser").on(&runtime.handle()).spawn(async {
        std::thread::sleep(Duration::from_secs(3600));
    }));
}

/// So many tasks wait for a lock whose holder never comes back.
fn crowd(runtime: &Runtime, count: usize) {
    let gate = Arc::new(Mutex::new(()).named("gate"));
    let held = gate.clone();
    runtime.block_on(async move { std::mem::forget(spawn(async move { held.lock_owned().await }).await) });
    for _ in 0..count {
        let gate = gate.clone();
        drop(runtime.spawn(async move { drop(gate.lock().await) }));
    }
}

fn main() -> std::io::Result<()> {
    let runtime = Runtime::builder().workers(4).build()?;
    runtime.start()?;
    let page = match std::env::args().nth(1) {
        Some(port) => tasuki_inspect::Inspector::new()
            .address(([127, 0, 0, 1], port.parse().expect("a port is a number")).into()),
        None => tasuki_inspect::Inspector::new(),
    };
    let page = page.runtime(&runtime.handle()).start()?;
    println!("{}", page.url());
    work(&runtime);
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        match words.next() {
            Some("deadlock") => ring(&runtime, &[("transfer", "accounts"), ("audit", "journal")]),
            Some("ring") => ring(
                &runtime,
                &[("north", "fork 1"), ("east", "fork 2"), ("south", "fork 3"), ("west", "fork 4")],
            ),
            Some("futurelock") => futurelock(&runtime),
            Some("block") => block(&runtime),
            Some("crowd") => {
                crowd(&runtime, words.next().and_then(|count| count.parse().ok()).unwrap_or(1_000))
            }
            Some("dump") => println!("{}", runtime.dump()),
            Some("quit") => std::process::exit(0),
            _ => println!("deadlock, ring, futurelock, block, crowd N, dump, or quit"),
        }
        println!("ok");
        std::io::stdout().flush()?;
    }
    // Without an input it goes on.
    loop {
        std::thread::park();
    }
}
