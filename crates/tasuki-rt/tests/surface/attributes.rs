//! The attributes `main` and `test`.

use crate::kit::MS;
use std::cell::Cell;
use std::process::Command;
use std::sync::Arc;
use tasuki::{Event, Mutex};
use tasuki_rt::{EventLoop, WorkerId, now, sleep, spawn, spawn_on};

/// Not the main function of anything: the attribute takes any name.
#[tasuki_rt::main(workers = 3)]
async fn three_workers() -> Result<usize, tasuki_rt::JoinError> {
    spawn_on(WorkerId::new(2), || async { EventLoop::current().unwrap().id().index() }).await
}

#[test]
fn main_returns_what_the_body_returns() {
    assert_eq!(three_workers().unwrap(), 2);
}

#[tasuki_rt::test]
async fn a_test_has_a_runtime() {
    assert_eq!(spawn(async { 7 }).await.unwrap(), 7);
}

#[tasuki_rt::test(workers = 1)]
async fn a_test_may_return_a_result() -> Result<(), Box<dyn std::error::Error>> {
    assert_eq!("8".parse::<i32>()?, spawn(async { 8 }).await?);
    Ok(())
}

/// What the body returns is coerced to the type that it says, as in every function.
#[tasuki_rt::main(local)]
async fn fails() -> Result<(), Box<dyn std::error::Error>> {
    let result: Result<(), std::fmt::Error> = Err(std::fmt::Error);
    match result {
        Ok(()) => Ok(()),
        Err(error) => Err(Box::new(error)),
    }
}

#[tasuki_rt::main(local)]
async fn panics() -> ! {
    panic!("as it should")
}

#[test]
fn what_a_body_returns_is_coerced() {
    assert!(fails().unwrap_err().is::<std::fmt::Error>());
    assert!(std::panic::catch_unwind(|| panics()).is_err());
}

#[tasuki_rt::test(local)]
async fn a_test_on_one_thread() {
    assert_eq!(*tasuki_rt::spawn_local(async { std::rc::Rc::new(9) }).await.unwrap(), 9);
}

#[tasuki_rt::main(local)]
async fn on_this_thread() -> std::thread::ThreadId {
    tasuki_rt::spawn(async { std::thread::current().id() }).await.unwrap()
}

#[test]
fn main_can_be_local() {
    assert_eq!(on_this_thread(), std::thread::current().id());
}

#[tasuki_rt::test]
#[should_panic(expected = "as it should")]
async fn other_attributes_work() {
    panic!("as it should");
}

thread_local! {
    /// A simulation runs on the thread that calls it, so a test sees its own.
    static RUNS: Cell<u32> = const { Cell::new(0) };
}

#[tasuki_rt::test(simulate, seeds = 25)]
async fn counted() {
    RUNS.set(RUNS.get() + 1);
    let before = now();
    sleep(3_600_000 * MS).await;
    assert_eq!(now() - before, 3_600_000 * MS, "the clock is virtual");
}

/// The attribute makes a function of the same name, which can be called.
#[test]
fn seeds_says_how_many_schedules() {
    counted();
    assert_eq!(RUNS.get(), 25);
}

#[tasuki_rt::test(simulate)]
#[should_panic(expected = "deadlock")]
async fn a_deadlock_fails() {
    let (a, b) = (Arc::new(Mutex::new(1)), Arc::new(Mutex::new(2)));
    let (c, d) = (a.clone(), b.clone());
    let one = spawn(async move { *a.lock().await + *b.lock().await });
    let two = spawn(async move { *d.lock().await + *c.lock().await });
    assert_eq!(one.await.unwrap() + two.await.unwrap(), 6);
}

#[tasuki_rt::test(simulate)]
#[should_panic(expected = "the test returns an error: \"no\"")]
async fn an_error_fails_a_schedule() -> Result<(), &'static str> {
    Err("no")
}

/// Where schedules are explored, a test may return what any other test may.
#[allow(clippy::unused_unit, unused_parens, reason = "that is what is tried")]
mod returns_anything {
    use std::process::{ExitCode, Termination};

    struct Own(u8);
    impl Termination for Own {
        fn report(self) -> ExitCode {
            self.0.into()
        }
    }

    type Outcome = Result<ExitCode, String>;

    macro_rules! tests {
        ($($module:ident: $(#[$attribute:meta])*;)* => $body:tt) => {
            $(tests!(@ $module, [$(#[$attribute])*] $body);)*
        };
        (@ $module:ident, $attributes:tt { $($name:ident -> $type:ty $body:block)* }) => {
            mod $module {
                use super::*;
                $(tests!(@@ $attributes $name $type, $body);)*
            }
        };
        (@@ [$($attribute:tt)*] $name:ident $type:ty, $body:block) => {
            $($attribute)*
            async fn $name() -> $type $body
        };
    }

    tests! {
        plain: #[tasuki_rt::test];
        simulated: #[tasuki_rt::test(simulate, seeds = 2)];
        exhaustive: #[tasuki_rt::test(exhaustive)];
        => {
            a_code -> ExitCode { ExitCode::SUCCESS }
            parentheses -> (()) {}
            of_ones_own -> Own { Own(0) }
            an_alias -> Outcome { Ok(ExitCode::SUCCESS) }
            opaque -> impl Termination { Own(0) }
        }
    }

    // The harness takes no other type than `()` with `should_panic`, and a failure is nothing else there.
    tests! {
        simulated_failures: #[should_panic(expected = "the test returns")] #[tasuki_rt::test(simulate, seeds = 2)];
        exhaustive_failures: #[should_panic(expected = "the test returns")] #[tasuki_rt::test(exhaustive)];
        => {
            a_code -> ExitCode { ExitCode::FAILURE }
            of_ones_own -> Own { Own(3) }
            in_a_result -> Outcome { Ok(ExitCode::FAILURE) }
            an_error -> Outcome { Err("no".to_owned()) }
            never -> ! { panic!("the test returns in no way") }
        }
    }

    /// The names of the expansion are not those of the test.
    #[tasuki_rt::test(simulate, seeds = 2)]
    async fn report() -> Result<(), Box<dyn std::error::Error>> {
        Ok(())
    }
}

#[tasuki_rt::test(exhaustive)]
async fn all_schedules() {
    let (event, seen) = (Arc::new(Event::auto()), Arc::new(Mutex::new(0)));
    let (set, count) = (event.clone(), seen.clone());
    let task = spawn(async move {
        *count.lock().await += 1;
        set.set();
    });
    event.wait().await;
    assert_eq!(*seen.lock().await, 1);
    task.await.unwrap();
}

/// Two tasks that each yield have more than two schedules: what was not run cannot have passed.
#[tasuki_rt::test(exhaustive, schedules = 2)]
#[should_panic(expected = "the search is not complete after 2 schedules")]
async fn too_many_schedules() {
    let tasks = [(); 2].map(|()| spawn(tasuki_rt::yield_now()));
    for task in tasks {
        task.await.unwrap();
    }
}

#[tasuki_rt::test(exhaustive, schedules = 1_000)]
async fn enough_schedules() {
    spawn(async {}).await.unwrap();
}

/// A test that repeats one schedule has not searched, and passes all the same.
#[test]
#[cfg_attr(miri, ignore = "starts a program")]
fn one_schedule_is_enough_where_it_is_named() {
    for told in [("TASUKI_SEED", "1"), ("TASUKI_SCHEDULE", "4@-")] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "surface::attributes::enough_schedules"]);
        command.env_remove("TASUKI_SEED").env_remove("TASUKI_SCHEDULE").envs([told]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
    }
}

/// Neither of these returns anything, though something stands behind the parentheses.
#[allow(trivial_bounds, clippy::unused_unit, reason = "that is what is tried")]
mod returns_nothing {
    #[tasuki_rt::test(simulate, seeds = 2)]
    async fn a_unit() -> () {}

    #[tasuki_rt::test(exhaustive)]
    async fn a_bound()
    where
        u8: Copy,
    {
    }

    #[tasuki_rt::test]
    async fn both() -> ()
    where
        u8: Copy,
    {
    }
}

/// The attributes take what a macro gives: bodies, types, numbers and whole functions, each a group that is not written.
mod by_macros {
    use super::{RUNS, spawn};

    macro_rules! tests {
        ($($name:ident($number:literal) -> $type:ty $body:block)*) => {
            mod plain {
                use super::*;
                $(
                    #[tasuki_rt::test(workers = $number)]
                    async fn $name() -> $type $body
                )*
            }
            mod simulated {
                use super::*;
                $(
                    #[tasuki_rt::test(simulate, seeds = $number)]
                    pub(super) async fn $name() -> $type $body
                )*
            }
        };
    }

    tests! {
        a_unit(2) -> () {
            RUNS.set(RUNS.get() + 1);
            assert_eq!(spawn(async { 7 }).await.unwrap(), 7);
        }
        a_result(2) -> Result<(), tasuki_rt::JoinError> {
            spawn(async {}).await
        }
    }

    macro_rules! attributed {
        ($function:item) => {
            #[tasuki_rt::test(simulate)]
            $function
        };
    }

    attributed! {
        async fn a_function() {
            spawn(async {}).await.unwrap();
        }
    }

    #[test]
    fn seeds_says_how_many_schedules() {
        simulated::a_unit();
        assert_eq!(RUNS.get(), 2);
    }
}
