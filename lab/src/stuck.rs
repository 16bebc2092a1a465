//! The five classic hangs, planted one after another on `tasuki-rt`, and what each says by itself while it hangs.
//!
//! Deadlocks are reported by the watcher, as in any program that hangs. A lost notification and a sleeping holder are no deadlocks: for these a snapshot is printed, which shows the wait and what it is
//! behind.

use std::future::{Future, poll_fn};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex as StdMutex, mpsc};
use std::task::Poll;
use std::time::Duration;
use tasuki::inspect::{self, Snapshot};
use tasuki::{Condvar, Event, Mutex};
use tasuki_rt::{Runtime, sleep};

/// So long is the sleep of a holder; nothing waits for its end.
const LONG: Duration = Duration::from_secs(3600);

static TOLD: StdMutex<Option<mpsc::Sender<String>>> = StdMutex::new(None);

/// A hang: its name, what is told of it, and how it is planted.
struct Hang {
    name: &'static str,
    plant: fn(&Runtime),
    /// Is it told by itself, or shown by a snapshot in which so many tasks wait?
    shown: Option<usize>,
}

const HANGS: [Hang; 5] = [
    Hang { name: "self-lock", plant: self_lock, shown: None },
    Hang { name: "two locks in opposite order", plant: opposite_order, shown: None },
    Hang { name: "futurelock", plant: futurelock, shown: None },
    Hang { name: "lost notification", plant: lost_notification, shown: Some(1) },
    Hang { name: "a holder asleep", plant: holder_asleep, shown: Some(2) },
];

/// A task locks what it has locked.
fn self_lock(runtime: &Runtime) {
    drop(runtime.spawn(async {
        let config = Mutex::new(1).named("config");
        let _first = config.lock().await;
        let _second = config.lock().await;
    }));
}

/// Two tasks take two locks in opposite order, and meet between.
fn opposite_order(runtime: &Runtime) {
    let shared =
        Arc::new((Mutex::new(1).named("accounts"), Mutex::new(2).named("journal"), tasuki::Barrier::new(2)));
    let other = shared.clone();
    drop(runtime.spawn(async move {
        let (accounts, journal, both) = &*shared;
        let _accounts = accounts.lock().await;
        both.arrive_and_wait().await;
        let _journal = journal.lock().await;
    }));
    drop(runtime.spawn(async move {
        let (accounts, journal, both) = &*other;
        let _journal = journal.lock().await;
        both.arrive_and_wait().await;
        let _accounts = accounts.lock().await;
    }));
}

/// The program of Oxide's RFD 609: the arm of a `select!` locks again, while the future that lost is kept and not polled.
fn futurelock(runtime: &Runtime) {
    let shared = Arc::new((Mutex::new(1).named("connection"), Event::auto(), Event::auto()));
    let background = shared.clone();
    drop(runtime.spawn(async move {
        let (connection, taken, queued) = &*background;
        let guard = connection.lock().await;
        taken.set();
        queued.wait().await;
        drop(guard);
    }));
    drop(runtime.spawn(async move {
        let (connection, taken, queued) = &*shared;
        taken.wait().await;
        let mut first = Box::pin(connection.lock());
        let lost = poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending())).await;
        assert!(lost, "the background task holds the lock");
        let mut second = Box::pin(connection.lock());
        let waits = poll_fn(|cx| Poll::Ready(second.as_mut().poll(cx).is_pending())).await;
        assert!(waits, "the first future is before it");
        queued.set();
        drop(second.await);
        drop(first);
    }));
}

/// The notification comes before the wait, and no other will.
fn lost_notification(runtime: &Runtime) {
    drop(runtime.spawn(async {
        let (ready, changed) = (Mutex::new(false).named("ready"), Condvar::new());
        changed.notify_one();
        let guard = ready.lock().await;
        // The flag is not set, and not looked at: that is the mistake.
        drop(changed.wait(guard).await);
    }));
}

/// A task sleeps with a lock that another wants.
fn holder_asleep(runtime: &Runtime) {
    let cache = Arc::new(Mutex::new(1).named("cache"));
    let (held, taken) = (cache.clone(), Arc::new(Event::auto()));
    let tells = taken.clone();
    drop(runtime.spawn(async move {
        let _cache = held.lock().await;
        tells.set();
        sleep(LONG).await;
    }));
    drop(runtime.spawn(async move {
        taken.wait().await;
        drop(cache.lock().await);
    }));
}

/// Plants all of them. Where nothing is noted the lab is built anew with the feature, by the cargo that runs it.
pub(crate) fn run() -> ExitCode {
    if !inspect::is_active() {
        return with_the_feature();
    }
    let (send, receive) = mpsc::channel();
    if let Ok(mut told) = TOLD.lock() {
        *told = Some(send);
    }
    // To the hook instead of standard error, so that it comes under its headline.
    inspect::print_deadlocks(false);
    inspect::on_deadlock(|deadlock| {
        if let Some(told) = TOLD.lock().ok().as_ref().and_then(|told| told.as_ref()) {
            told.send(deadlock.to_string()).ok();
        }
    });
    for hang in &HANGS {
        println!("== {}", hang.name);
        let runtime = match Runtime::new() {
            Ok(runtime) => runtime,
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::FAILURE;
            }
        };
        runtime.block_on(async {
            (hang.plant)(&runtime);
            sleep(Duration::from_millis(10)).await;
        });
        match hang.shown {
            None => println!("{}\n", receive.recv().unwrap_or_default()),
            Some(waits) => println!("{}\n", shown(waits)),
        }
        // Tasks that wait are dropped.
        drop(runtime);
    }
    ExitCode::SUCCESS
}

/// The snapshot in which so many tasks wait, none of them for an event that has been set and not been polled since.
fn shown(waits: usize) -> Snapshot {
    loop {
        let snapshot = inspect::snapshot();
        let is_shown = |wait: &inspect::WaitSnapshot| !wait.future.ends_with("WaitEvent");
        if snapshot.waits.len() == waits && snapshot.waits.iter().all(is_shown) {
            return snapshot;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs the lab of the feature `inspect`.
fn with_the_feature() -> ExitCode {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let words =
        ["run", "--quiet", "--release", "--features", "inspect", "--manifest-path", manifest, "--", "stuck"];
    eprintln!("locks and waits are not noted in this build: building with the feature `inspect`");
    match Command::new(cargo).args(words).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: cargo cannot be run: {error}");
            ExitCode::FAILURE
        }
    }
}
