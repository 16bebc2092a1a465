//! Task-locals: values that a future and everything it calls can read, wherever it is polled.
//!
//! A scope is a future that has the value. While it is polled, a [`Frame`] on the stack of that poll names the key and the value; the frames of a thread are a
//! list, the innermost first, and a look-up walks it. Nothing is allocated, and what is not in a scope costs nothing.
//!
//! # Invariants
//! 1. The list of a thread has only frames of calls that have not returned: a frame takes itself out when its call returns or unwinds, in reverse order.
//! 2. The value of a frame is not moved, dropped or changed while the frame is in the list: the call that made the frame has it borrowed.
//! 3. A key is the address of a `static`, and invariant in its type, so one address has one type. A subtype would be another one: a function for every lifetime is also one for a
//!    single lifetime, and a value put under the second type could be taken out under the first.

use crate::error::NotInScope;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll, ready};
use tasuki::runtime::Charge;

/// Declares task-locals: `static NAME: TaskLocal<Type>`.
///
/// # Examples
///
/// ```
/// tasuki_rt::task_local! {
///     /// Which request is served.
///     static REQUEST: u64;
///     pub static USER: String;
/// }
///
/// async fn log() -> String {
///     format!("{}: {}", REQUEST.get(), USER.with(|user| user.len()))
/// }
///
/// tasuki_rt::run(async {
///     let served = REQUEST.scope(7, USER.scope("me".to_owned(), log()));
///     assert_eq!(served.await, "7: 2");
/// });
/// ```
#[macro_export]
macro_rules! task_local {
    ($($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty);* $(;)?) => {
        $($(#[$attribute])* $visibility static $name: $crate::TaskLocal<$type> = $crate::TaskLocal::new();)*
    };
}

/// A value that a future and everything it calls can read without passing it as an argument: a request id, a user.
///
/// ```
/// use tasuki_rt::TaskLocal;
///
/// static REQUEST: TaskLocal<u64> = TaskLocal::new();
///
/// async fn served() -> u64 {
///     tasuki_rt::yield_now().await;
///     REQUEST.get()
/// }
///
/// tasuki_rt::run(async {
///     let task = tasuki_rt::spawn(REQUEST.scope(7, served()));
///     assert_eq!(task.await.unwrap(), 7);
///     assert!(REQUEST.try_get().is_err());
/// });
/// ```
///
/// A value belongs to a future, its scope: not to the thread, and not to what the future spawns. It works under any executor, and in [`testing`](crate::testing).
/// Scopes nest; the innermost counts. To look a value up takes time in proportion to the scopes it is inside of.
pub struct TaskLocal<T: 'static> {
    /// Something to have an address by: two statics of no size might share one.
    _address: Cell<u8>,
    /// Invariant in `T` (invariant 3).
    _value: PhantomData<fn(T) -> T>,
}

// SAFETY: the cell is never touched; only its address counts. Values are reached on the thread that polls their scope.
unsafe impl<T> Sync for TaskLocal<T> {}

// There is no value in it: only its address counts.
impl<T> UnwindSafe for TaskLocal<T> {}
impl<T> RefUnwindSafe for TaskLocal<T> {}

/// A value on the list of a thread.
struct Frame {
    key: *const (),
    value: *const (),
    outer: *const Frame,
}

thread_local! {
    /// The innermost frame. No destructor, so it can be read for as long as the thread lives.
    static INNERMOST: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}

/// Ends a change of the list.
struct RestoreFrame(*const Frame);

impl Drop for RestoreFrame {
    fn drop(&mut self) {
        let _ = INNERMOST.try_with(|innermost| innermost.set(self.0));
    }
}

/// Runs what belongs to no scope, whichever the calling thread is in: tasks of an event loop that is driven by a thread of the user, or dropped by one.
pub(crate) fn outside_of_scopes<R>(f: impl FnOnce() -> R) -> R {
    let _leave =
        RestoreFrame(INNERMOST.try_with(|innermost| innermost.replace(ptr::null())).unwrap_or(ptr::null()));
    f()
}

impl<T> TaskLocal<T> {
    /// Creates a task-local, for a `static`; [`task_local!`](crate::task_local!) is another way to write it.
    ///
    /// # Examples
    ///
    /// ```
    /// static NAME: tasuki_rt::TaskLocal<String> = tasuki_rt::TaskLocal::new();
    /// assert!(NAME.try_with(|_| ()).is_err());
    /// ```
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Self { _address: Cell::new(0), _value: PhantomData }
    }

    fn key(&'static self) -> *const () {
        ptr::from_ref(self).cast()
    }

    /// Runs `f` with this value on the list.
    fn enter<R>(&'static self, value: &T, f: impl FnOnce() -> R) -> R {
        let outer = INNERMOST.try_with(Cell::get).unwrap_or(ptr::null());
        let frame = Frame { key: self.key(), value: ptr::from_ref(value).cast(), outer };
        let _ = INNERMOST.try_with(|innermost| innermost.set(&raw const frame));
        let _leave = RestoreFrame(outer);
        f()
    }

    /// Wraps a future, which has this value while it is polled, and while it is dropped.
    ///
    /// With the budget of the task exhausted it yields once before it polls the future, as [`timeout`](crate::timeout()) does: `KEY.scope(value, mutex.lock())` may enqueue one turn
    /// later than `mutex.lock()`. Inside a scope that has begun, waits enqueue at once: wrap the whole of the work, not a single wait.
    ///
    /// # Cancel safety
    ///
    /// As the future inside: it is dropped with the wrapper, and has the value while it is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// static DEPTH: tasuki_rt::TaskLocal<u32> = tasuki_rt::TaskLocal::new();
    ///
    /// tasuki_rt::run(async {
    ///     let inner = async { DEPTH.scope(DEPTH.get() + 1, async { DEPTH.get() }).await };
    ///     assert_eq!(DEPTH.scope(1, inner).await, 2);
    /// });
    /// ```
    pub fn scope<F: Future>(&'static self, value: T, future: F) -> Scoped<T, F> {
        Scoped { future: Some(future), charge: Charge::default(), value: Some(value), key: self }
    }

    /// Calls a function that has this value.
    ///
    /// # Examples
    ///
    /// ```
    /// static DEPTH: tasuki_rt::TaskLocal<u32> = tasuki_rt::TaskLocal::new();
    ///
    /// assert_eq!(DEPTH.sync_scope(3, || DEPTH.get()), 3);
    /// ```
    pub fn sync_scope<R>(&'static self, value: T, f: impl FnOnce() -> R) -> R {
        self.enter(&value, f)
    }

    /// Looks at the value, if there is one.
    ///
    /// # Errors
    ///
    /// [`NotInScope`] outside of every scope.
    ///
    /// # Examples
    ///
    /// ```
    /// use tasuki_rt::{NotInScope, TaskLocal};
    ///
    /// static NAME: TaskLocal<String> = TaskLocal::new();
    ///
    /// assert_eq!(NAME.try_with(String::len), Err(NotInScope));
    /// assert_eq!(NAME.sync_scope("me".into(), || NAME.try_with(String::len)), Ok(2));
    /// ```
    pub fn try_with<R>(&'static self, look: impl FnOnce(&T) -> R) -> Result<R, NotInScope> {
        let mut at = INNERMOST.try_with(Cell::get).unwrap_or(ptr::null());
        // SAFETY: what is in the list exists (invariant 1), also its outer frames.
        while let Some(frame) = unsafe { at.as_ref() } {
            if ptr::eq(frame.key, self.key()) {
                // SAFETY: of the type of this key (invariant 3), and there until the frame goes (invariant 2), which `look` cannot bring about.
                return Ok(look(unsafe { &*frame.value.cast::<T>() }));
            }
            at = frame.outer;
        }
        Err(NotInScope)
    }

    /// Looks at the value.
    ///
    /// # Panics
    ///
    /// Outside of every scope.
    ///
    /// # Examples
    ///
    /// ```
    /// static NAME: tasuki_rt::TaskLocal<String> = tasuki_rt::TaskLocal::new();
    ///
    /// assert_eq!(NAME.sync_scope("me".into(), || NAME.with(String::len)), 2);
    /// ```
    #[track_caller]
    pub fn with<R>(&'static self, look: impl FnOnce(&T) -> R) -> R {
        match self.try_with(look) {
            Ok(output) => output,
            Err(error) => panic!("`TaskLocal::with`: {error}"),
        }
    }

    /// Returns a copy of the value, if there is one.
    ///
    /// # Errors
    ///
    /// [`NotInScope`] outside of every scope.
    ///
    /// # Examples
    ///
    /// ```
    /// static DEPTH: tasuki_rt::TaskLocal<u32> = tasuki_rt::TaskLocal::new();
    ///
    /// assert_eq!(DEPTH.sync_scope(3, || DEPTH.try_get()), Ok(3));
    /// ```
    pub fn try_get(&'static self) -> Result<T, NotInScope>
    where
        T: Clone,
    {
        self.try_with(T::clone)
    }

    /// Returns a copy of the value.
    ///
    /// # Panics
    ///
    /// Outside of every scope.
    ///
    /// # Examples
    ///
    /// ```
    /// static DEPTH: tasuki_rt::TaskLocal<u32> = tasuki_rt::TaskLocal::new();
    ///
    /// assert_eq!(DEPTH.sync_scope(3, || DEPTH.get()), 3);
    /// ```
    #[track_caller]
    pub fn get(&'static self) -> T
    where
        T: Clone,
    {
        match self.try_get() {
            Ok(value) => value,
            Err(error) => panic!("`TaskLocal::get`: {error}"),
        }
    }
}

impl<T> fmt::Debug for TaskLocal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskLocal").finish_non_exhaustive()
    }
}

/// The future of [`TaskLocal::scope`].
#[must_use = "a future does nothing unless it is polled"]
pub struct Scoped<T: 'static, F> {
    /// `None` when it is dropped.
    future: Option<F>,
    charge: Charge,
    /// `None` after [`take_value`](Self::take_value).
    value: Option<T>,
    key: &'static TaskLocal<T>,
}

// Only the future is pinned.
impl<T, F: Unpin> Unpin for Scoped<T, F> {}

impl<T, F> Scoped<T, F> {
    /// Takes the value out, which the future then has no more. `None` if it was taken before.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    ///
    /// static COUNT: tasuki_rt::TaskLocal<std::cell::Cell<u32>> = tasuki_rt::TaskLocal::new();
    ///
    /// tasuki_rt::run(async {
    ///     let mut scope = pin!(COUNT.scope(0.into(), async { COUNT.with(|count| count.set(5)) }));
    ///     scope.as_mut().await;
    ///     assert_eq!(scope.take_value().unwrap().get(), 5);
    /// });
    /// ```
    pub fn take_value(self: Pin<&mut Self>) -> Option<T> {
        // SAFETY: the value is not pinned; the future is not moved.
        unsafe { self.get_unchecked_mut() }.value.take()
    }
}

impl<T, F: Future> Future for Scoped<T, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: a projection: the future is never moved out of the pinned whole, only dropped in place.
        let this = unsafe { self.get_unchecked_mut() };
        // Before the future is polled: whether it will be ready is not known, and it may hold what it was given.
        ready!(this.charge.poll(cx));
        let future = this.future.as_mut().expect("there until the drop");
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(future) };
        match &this.value {
            Some(value) => this.key.enter(value, || future.poll(cx)),
            None => future.poll(cx),
        }
    }
}

impl<T, F> Drop for Scoped<T, F> {
    fn drop(&mut self) {
        if let Some(value) = &self.value {
            self.key.enter(value, || self.future = None);
        }
    }
}

impl<T, F> fmt::Debug for Scoped<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scoped").finish_non_exhaustive()
    }
}
