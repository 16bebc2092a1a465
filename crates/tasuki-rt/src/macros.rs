//! The attributes `main` and `test`, with their documentation. Their code is in `tasuki-rt-macros`: attributes must be in a package of their own.

/// Runs an `async fn main` on a [`Runtime`](crate::Runtime) of its own, which is dropped when the function returns, with the tasks that have not ended.
///
/// `workers = N` says how many worker threads there are; otherwise one for each processor. `local` makes it a [`LocalRuntime`](crate::LocalRuntime), all on the main thread. `crate = path` says where this crate is, if it has another
/// name there. The body runs as [`Runtime::block_on`](crate::Runtime::block_on) does it, on the main thread. It is an `async fn` inside of the function, so an associated function names its type: `Self` is not known there.
///
/// # Examples
///
/// ```
/// #[tasuki_rt::main]
/// async fn main() {
///     let task = tasuki_rt::spawn(async { 1 + 1 });
///     assert_eq!(task.await.unwrap(), 2);
/// }
/// ```
///
/// ```
/// #[tasuki_rt::main(local)]
/// async fn main() {
///     assert_eq!(*tasuki_rt::spawn_local(async { std::rc::Rc::new(2) }).await.unwrap(), 2);
/// }
/// ```
///
/// ```
/// #[tasuki_rt::main(workers = 1)]
/// async fn main() -> std::io::Result<()> {
///     tasuki_rt::spawn(async {}).await?;
///     Ok(())
/// }
/// ```
pub use tasuki_rt_macros::main;

/// Runs an `async fn` as a test: on a runtime, or under many schedules.
///
/// | options | how it runs |
/// |---|---|
/// | none, or `workers = N` | once, on a [`Runtime`](crate::Runtime) of its own |
/// | `local` | once, on a [`LocalRuntime`](crate::LocalRuntime) |
/// | `simulate` | under 100 random schedules, with a virtual clock: [`testing::check`](crate::testing::check()) |
/// | `simulate, seeds = N` | the same, under so many |
/// | `exhaustive` | under all schedules with at most two switches; fails if they are more than 100,000: [`testing::Exhaustive`](crate::testing::Exhaustive) |
/// | `exhaustive, schedules = N` | the same; fails if they are more than `N` |
/// | `crate = path` | where this crate is, if it has another name |
///
/// A test may return what every test may: a `Result`, whose error fails it, an `ExitCode`, and whatever else is a `Termination`. Other attributes of tests, such as `#[should_panic]` and `#[ignore]`, work as always.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use tasuki::Mutex;
///
/// #[tasuki_rt::test(simulate, seeds = 1000)]
/// async fn both_count() {
///     let counter = Arc::new(Mutex::new(0));
///     let other = counter.clone();
///     let task = tasuki_rt::spawn(async move { *other.lock().await += 1 });
///     *counter.lock().await += 1;
///     task.await.unwrap();
///     assert_eq!(*counter.lock().await, 2);
/// }
/// ```
pub use tasuki_rt_macros::test;
