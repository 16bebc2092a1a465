//! What a failure prints is enough to repeat it: in the same function, in another one, in another process.

use super::planted::{CORPUS, Planted};
use crate::kit::watchdog;
use std::process::Command;
use std::time::Duration;
use tasuki::Mutex;
use tasuki_rt::testing::{Exhaustive, Simulation, check};

/// The schedule that a failed search prints, made smaller, fails in the same way in another process: in the search, and on its own in `check` and in `Simulation::replay`, which
/// have another number of workers unless it is told.
#[test]
#[cfg_attr(miri, ignore = "starts programs")]
fn what_is_printed_repeats_every_planted_bug() {
    const ASKED: &str = "TASUKI_TESTING_PLANTED";
    const BY: &str = "TASUKI_TESTING_BY";
    let _dog = watchdog(300);
    if let Ok(asked) = std::env::var(ASKED) {
        let planted = &CORPUS[asked.parse::<usize>().unwrap()];
        let program = || (planted.program)(true);
        match std::env::var(BY).unwrap().split_once(' ').unwrap() {
            ("search", workers) => {
                let search = Exhaustive::new().workers(workers.parse().unwrap()).grace(Duration::ZERO);
                let _ = search.check(program);
            }
            ("check", _) => check(1, program),
            (_, schedule) => Simulation::replay(schedule).grace(Duration::ZERO).run(program()),
        }
        return;
    }
    let run = |at: usize, by: &str, told: Option<(&str, &str)>| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "testing::replays::what_is_printed_repeats_every_planted_bug", "--nocapture"])
            .env(ASKED, at.to_string())
            .env(BY, by);
        command.env_remove("TASUKI_SEED").env_remove("TASUKI_SCHEDULE").envs(told);
        // To resolve the symbols of a backtrace takes more processor time than the search.
        command.env("RUST_BACKTRACE", "0");
        let output = command.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        let Planted { name, says, .. } = CORPUS[at];
        assert!(!output.status.success() && printed.contains(says), "{name}, {by}, {told:?}: {printed}");
        printed
    };
    for (at, planted) in CORPUS.iter().enumerate() {
        let search = if at % 3 == 2 { "search 2" } else { "search 1" };
        let first = run(at, search, None);
        let smaller = first.split("a smaller schedule that still fails: TASUKI_SCHEDULE=").nth(1);
        let smaller = smaller.unwrap_or_else(|| panic!("{}: {first}", planted.name));
        let schedule = smaller.split_whitespace().next().unwrap();
        let told = Some(("TASUKI_SCHEDULE", schedule));
        let mut again = vec![run(at, search, told), run(at, &format!("replay {schedule}"), None)];
        if planted.says != "deadlock" {
            // For those it would wait a second for foreign threads.
            again.push(run(at, "check 1", told));
        }
        for again in again {
            assert!(again.contains(&format!("TASUKI_SCHEDULE={schedule} ")), "{}: {again}", planted.name);
        }
    }
}

/// A run with more decisions than are kept is not made smaller, and the report says so: nothing outside of the simulation decides there.
#[test]
#[cfg_attr(miri, ignore = "starts programs")]
fn a_long_run_is_repeated_by_its_seed() {
    const PLAYED: &str = "TASUKI_TESTING_LONG_RUN";
    let _dog = watchdog(300);
    if std::env::var_os(PLAYED).is_some() {
        check(1, || async {
            let mutex = Mutex::new(0);
            for _ in 0..(2 << 20) {
                *mutex.lock().await += 1;
            }
            panic!("at the end");
        });
        return;
    }
    let run = |seed: Option<&str>| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "testing::replays::a_long_run_is_repeated_by_its_seed", "--nocapture"]);
        command.env_remove("TASUKI_SEED").env_remove("TASUKI_SCHEDULE").env("RUST_BACKTRACE", "0");
        command.env(PLAYED, "1").envs(seed.map(|seed| ("TASUKI_SEED", seed)));
        let output = command.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && printed.contains("at the end"), "{seed:?}: {printed}");
        printed
    };
    let first = run(None);
    assert!(first.contains("too many decisions") && !first.contains("outside of the simulation"), "{first}");
    let seed = first.split("failed with TASUKI_SEED=").nth(1).unwrap().split_whitespace().next().unwrap();
    assert!(run(Some(seed)).contains(&format!("failed with TASUKI_SEED={seed}")));
}
