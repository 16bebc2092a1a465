//! `Builder`: how many workers, what their threads are like, and where a task resumes that was given a lock or a message.

use crate::blocking::{DEFAULT_LIMIT, KEEP_ALIVE};
use crate::local_runtime::LocalRuntime;
use crate::platform;
use crate::runtime::Runtime;
use crate::scheduler::idle::MAX_WORKERS;
use crate::threads::{Hook, ThreadSettings};
use std::io;
use std::num::NonZero;
use std::thread;
use std::time::Duration;

/// Where a task resumes after another task gave it a lock or a message.
///
/// # Examples
///
/// ```
/// use tasuki_rt::{Resume, Runtime};
///
/// let runtime = Runtime::builder().resume(Resume::Global).build().unwrap();
/// runtime.block_on(async {});
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Resume {
    /// It runs next on the worker of the task that gave it the lock or the message, where the data is in the cache. After 32 such tasks in a row, or 200 µs, the worker runs other tasks; and if the poll
    /// that gave the lock or the message goes on for long, another worker takes the task over.
    #[default]
    Next,
    /// In the queue of the worker that woke it, behind the tasks that are there: as with every other wake.
    Local,
    /// In the queue that all workers share. With this setting every task that is woken or spawned, and not pinned, goes there, not only those that were given something.
    Global,
}

/// Configures and creates a runtime; see [`Runtime::builder`].
///
/// # Examples
///
/// ```
/// let runtime = tasuki_rt::Runtime::builder().workers(2).thread_name("crew").build().unwrap();
/// let name = runtime.spawn(async { std::thread::current().name().map(str::to_owned) });
/// assert!(runtime.block_on(name).unwrap().unwrap().starts_with("crew-"));
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing before `build`"]
pub struct Builder {
    pub(crate) workers: usize,
    pub(crate) resume: Resume,
    pub(crate) threads: ThreadSettings,
    pub(crate) blocking_threads: usize,
    pub(crate) keep_alive: Duration,
    pub(crate) time_polls: bool,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self::with_workers(thread::available_parallelism().map_or(1, NonZero::get).min(MAX_WORKERS))
    }

    /// The same, without asking the system how many workers there should be.
    pub(crate) fn with_workers(workers: usize) -> Self {
        Self {
            workers,
            resume: Resume::default(),
            threads: ThreadSettings::default(),
            blocking_threads: DEFAULT_LIMIT,
            keep_alive: KEEP_ALIVE,
            time_polls: false,
        }
    }

    /// Sets the number of workers; by default one for each processor that is available to the program.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::builder().workers(3).build().unwrap();
    /// assert_eq!(runtime.workers(), 3);
    /// ```
    #[doc(alias = "worker_threads")]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Sets the names of the threads: those of workers get this name and a number, those for blocking work this name and `-block`.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::builder().thread_name("crew").build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.threads.name = name.into();
        self
    }

    /// Sets where a task resumes that was given a lock or a message by another task; by default it runs next on the same worker ([`Resume::Next`]).
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::{Resume, Runtime};
    ///
    /// let runtime = Runtime::builder().resume(Resume::Local).build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn resume(mut self, resume: Resume) -> Self {
        self.resume = resume;
        self
    }

    /// Sets the limit on threads for blocking work; by default 512. They start when they are needed, and end when they
    /// have been idle for some time ([`thread_keep_alive`](Self::thread_keep_alive)).
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::builder().max_blocking_threads(1).build().unwrap();
    /// let first = runtime.spawn_blocking(|| 1);
    /// let second = runtime.spawn_blocking(|| 2);
    /// assert_eq!(runtime.block_on(async { first.await.unwrap() + second.await.unwrap() }), 3);
    /// ```
    pub fn max_blocking_threads(mut self, threads: usize) -> Self {
        self.blocking_threads = threads;
        self
    }

    /// Sets how long an idle thread for blocking work is kept; by default ten seconds.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = tasuki_rt::Runtime::builder().thread_keep_alive(Duration::from_secs(1)).build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn thread_keep_alive(mut self, time: Duration) -> Self {
        self.keep_alive = time;
        self
    }

    /// Sets the stack size of each thread, in bytes; by default that of the standard library. The system may give more.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::builder().thread_stack_size(4 << 20).build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn thread_stack_size(mut self, bytes: usize) -> Self {
        self.threads.stack_size = Some(bytes);
        self
    }

    /// Sets a function that each thread of a worker, or for blocking work, calls before it does anything else.
    ///
    /// A panic in it, as in the other hooks, is reported by the panic hook and goes no further. A second call of this function replaces the hook. The end of the runtime waits for it, so shutting down inside of it is an
    /// error, as in a task.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// static STARTED: AtomicUsize = AtomicUsize::new(0);
    ///
    /// let count = || _ = STARTED.fetch_add(1, Ordering::Relaxed);
    /// let runtime = tasuki_rt::Runtime::builder().workers(2).on_thread_start(count).build().unwrap();
    /// runtime.start().unwrap();
    /// drop(runtime);
    /// assert_eq!(STARTED.load(Ordering::Relaxed), 2);
    /// ```
    pub fn on_thread_start(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.threads.on_start = Hook::new(hook);
        self
    }

    /// Sets a function that each thread of a worker, or for blocking work, calls before it ends. A worker has dropped its tasks by then.
    ///
    /// The end of the runtime waits for these hooks, as long as it waits for anything ([`Runtime::shutdown_timeout`]). So shutting down inside of one is an error, as in a task.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::builder().on_thread_stop(|| println!("bye")).build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn on_thread_stop(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.threads.on_stop = Hook::new(hook);
        self
    }

    /// Sets a function that a worker calls on its thread before it goes to sleep because it found nothing to do. The function must not wait. What it wakes or spawns is run
    /// before the sleep, or ends it.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::builder().on_thread_park(|| println!("nothing to do")).build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn on_thread_park(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.threads.on_park = Hook::new(hook);
        self
    }

    /// Sets a function that a worker calls on its thread after each sleep: as often as the one of [`on_thread_park`](Self::on_thread_park). The function must not wait: the task that the worker was woken for waits for it.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::builder().on_thread_unpark(|| println!("awake")).build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn on_thread_unpark(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.threads.on_unpark = Hook::new(hook);
        self
    }

    /// Pins each worker to one of these processors: the first worker to the first, and from the beginning again if there are fewer processors than workers. Threads for
    /// blocking work go where they like. On Linux; elsewhere [`build`](Self::build) says `Unsupported`.
    ///
    /// # Examples
    ///
    /// ```
    /// let built = tasuki_rt::Runtime::builder().workers(1).pin_workers([0]).build();
    /// if let Err(error) = built {
    ///     // Not on Linux, or this process may not use processor 0.
    ///     println!("{error}");
    /// }
    /// ```
    #[doc(alias = "affinity")]
    pub fn pin_workers(mut self, processors: impl IntoIterator<Item = usize>) -> Self {
        self.threads.processors = processors.into_iter().collect();
        self
    }

    /// Measures how long every poll takes, for [`Metrics::poll_times`](crate::Metrics::poll_times); by default it does not: two looks at the clock cost as much as a short poll.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::builder().time_polls(true).build().unwrap();
    /// runtime.block_on(async { tasuki_rt::spawn(async {}).await.unwrap() });
    /// assert!(runtime.metrics().poll_times().is_some());
    /// ```
    #[doc(alias = "enable_metrics_poll_time_histogram")]
    pub fn time_polls(mut self, time: bool) -> Self {
        self.time_polls = time;
        self
    }

    /// Creates the runtime. Its threads start with the first [`block_on`](Runtime::block_on) or [`drain`](Runtime::drain), or with
    /// [`start`](Runtime::start).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for no workers, too many, no thread for blocking work, a thread name with a NUL byte in it, or a processor that this process may not use;
    /// `Unsupported` for processors where workers cannot be pinned, and on a target without threads (wasm32-unknown-unknown).
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::Runtime;
    ///
    /// assert!(Runtime::builder().build().is_ok());
    /// assert!(Runtime::builder().workers(0).build().is_err());
    /// ```
    pub fn build(self) -> io::Result<Runtime> {
        if self.workers == 0 {
            return invalid("a runtime needs at least one worker: pass 1 or more to `workers`".to_owned());
        }
        if self.workers > MAX_WORKERS {
            return invalid(format!("a runtime has at most {MAX_WORKERS} workers, not {}", self.workers));
        }
        self.check()?;
        let mut builder = self;
        builder.threads.check_processors()?;
        Ok(Runtime::made_of(&builder))
    }

    /// Creates a runtime on the calling thread alone. Settings for the threads of workers have no effect there: their number, their
    /// stacks, their processors, and the hooks of their start and stop.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for no thread for blocking work, or a thread name with a NUL byte in it; `Unsupported` on a target without threads (wasm32-unknown-unknown).
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::Runtime;
    ///
    /// let runtime = Runtime::builder().max_blocking_threads(4).build_local().unwrap();
    /// assert_eq!(runtime.block_on(async { 3 }), 3);
    /// ```
    #[doc(alias = "new_current_thread")]
    pub fn build_local(self) -> io::Result<LocalRuntime> {
        self.check()?;
        Ok(LocalRuntime::made_of(&Self { workers: 1, ..self }))
    }

    /// What concerns both kinds of runtime.
    fn check(&self) -> io::Result<()> {
        platform::check_system()?;
        if self.blocking_threads == 0 {
            return invalid(
                "blocking work needs a thread: pass 1 or more to `max_blocking_threads`".to_owned(),
            );
        }
        if self.threads.name.contains('\0') {
            return invalid("a thread name cannot contain a NUL byte".to_owned());
        }
        Ok(())
    }
}

fn invalid<T>(what: String) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}
