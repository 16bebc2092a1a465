//! A hang is a failure: the test binary is aborted, with the name of the test.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Aborts the process unless it is dropped in time.
///
/// Under Miri there is none: Miri reports a deadlock itself, and its clock is not ours.
#[derive(Debug)]
#[must_use = "the dog sleeps as soon as it is dropped"]
pub(crate) struct Watchdog {
    _alive: Option<Sender<()>>,
}

/// Watches the current test for so many seconds.
pub(crate) fn watchdog(seconds: u64) -> Watchdog {
    watchdog_with(seconds, String::new())
}

/// As [`watchdog`]; the note (a seed, a parameter) is printed when it barks.
pub(crate) fn watchdog_with(seconds: u64, note: String) -> Watchdog {
    if cfg!(miri) {
        return Watchdog { _alive: None };
    }
    // Instrumented code takes many times as long.
    let patience = std::env::var("TASUKI_PATIENCE").ok().and_then(|factor| factor.parse::<u64>().ok());
    let seconds = seconds * patience.unwrap_or(1);
    let (alive, gone) = channel();
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let watch = move || {
        if gone.recv_timeout(Duration::from_secs(seconds)) == Err(RecvTimeoutError::Timeout) {
            // Not `eprintln!`: what the test harness captures is lost in an abort.
            let message = format!("watchdog: {name} hangs, {seconds} s are over {note}\n");
            let _ = std::io::stderr().write_all(message.as_bytes());
            std::process::abort();
        }
    };
    std::thread::Builder::new().name("watchdog".to_owned()).spawn(watch).expect("a thread can be started");
    Watchdog { _alive: Some(alive) }
}
