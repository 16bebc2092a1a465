//! `Builder`: how many workers, what they are called, and where the new owner of a lock resumes.

use crate::blocking::DEFAULT_LIMIT;
use crate::runtime::Runtime;
use crate::scheduler::idle::MAX_WORKERS;
use std::io;
use std::num::NonZero;
use std::thread;

/// Where a task goes that was made the owner of a lock by another task.
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
    /// It runs next on the worker that gave it the lock, where the data is warm. Bounded: others get their turn, and
    /// another worker takes it over when the poll of this one is long.
    #[default]
    Next,
    /// To the queue of the worker that woke it, as with every wake.
    Local,
    /// To the queue that all workers share, and so does every other woken task.
    Global,
}

/// What a runtime is made of; see [`Runtime::builder`].
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
    pub(crate) name: String,
    pub(crate) resume: Resume,
    pub(crate) blocking_threads: usize,
}

impl Builder {
    pub(crate) fn new() -> Self {
        let workers = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_WORKERS);
        Self {
            workers,
            name: "tasuki-rt".to_owned(),
            resume: Resume::default(),
            blocking_threads: DEFAULT_LIMIT,
        }
    }

    /// How many workers; by default as many as the machine runs threads at once.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::builder().workers(3).build().unwrap();
    /// assert_eq!(runtime.workers(), 3);
    /// ```
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// What the threads are called, each followed by its number.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::builder().thread_name("crew").build().unwrap();
    /// # drop(runtime);
    /// ```
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Where a new owner of a lock resumes.
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

    /// How many threads for blocking work there may be at the same time; by default 512. They start when they are needed, and end when they
    /// have been idle for ten seconds.
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

    /// The runtime. Its threads start with the first [`block_on`](Runtime::block_on), or with
    /// [`start`](Runtime::start).
    ///
    /// # Errors
    ///
    /// `InvalidInput` for no workers, too many, no thread for blocking work, or a thread name with a NUL byte in it.
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
        let invalid = |what: String| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        if self.workers == 0 {
            return invalid("a runtime needs at least one worker: pass 1 or more to `workers`".to_owned());
        }
        if self.blocking_threads == 0 {
            return invalid(
                "blocking work needs a thread: pass 1 or more to `max_blocking_threads`".to_owned(),
            );
        }
        if self.workers > MAX_WORKERS {
            return invalid(format!("a runtime has at most {MAX_WORKERS} workers, not {}", self.workers));
        }
        if self.name.contains('\0') {
            return invalid("a thread name cannot contain a NUL byte".to_owned());
        }
        Ok(Runtime::made_of(self))
    }
}
