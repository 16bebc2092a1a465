//! The types and functions of `notes.rs`, empty and zero-sized, for builds in which `inspect/` is not active.

use super::LockMode;
use core::fmt;
use core::marker::PhantomData;
use core::task::Waker;

#[cfg(feature = "alloc")]
#[inline(always)]
pub(crate) fn limited<R>(_ends: impl FnOnce() -> bool, poll: impl FnOnce() -> R) -> R {
    poll()
}

/// Runs a poll that a limit of the runtime ends.
#[cfg(feature = "std")]
#[inline(always)]
pub fn with_limit<R>(poll: impl FnOnce() -> R) -> R {
    poll()
}

/// Runs what waits with its thread: the limits around the poll that this thread is in do not end it.
#[cfg(feature = "std")]
#[inline(always)]
pub fn without_limits<R>(wait: impl FnOnce() -> R) -> R {
    wait()
}

#[derive(Debug)]
pub(crate) struct Polling;

impl Polling {
    #[inline(always)]
    pub(crate) fn begin(_waker: &Waker) -> Self {
        Self
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Site;

impl Site {
    #[inline(always)]
    pub(crate) const fn here() -> Self {
        Self
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Held;

impl Held {
    pub(crate) const NONE: Self = Self;
}

#[inline(always)]
pub(crate) fn waits_have_moved() {}

#[derive(Debug)]
pub(crate) struct LockProbe;

impl LockProbe {
    pub(crate) const fn mutex() -> Self {
        Self
    }

    pub(crate) const fn rwlock() -> Self {
        Self
    }

    #[cfg(feature = "std")]
    pub(crate) const fn loop_mutex() -> Self {
        Self
    }

    pub(crate) const fn semaphore() -> Self {
        Self
    }

    pub(crate) const fn rename(&mut self, _name: &'static str) {}

    #[cfg(feature = "std")]
    pub(crate) const fn is_reentrant(&mut self) {}

    #[inline(always)]
    pub(crate) fn set(&self, _at: Site) {}
    #[inline(always)]
    pub(crate) fn clear(&self) {}
    #[inline(always)]
    pub(crate) fn grant(&self, _note: WaitNote) {}
    #[inline(always)]
    pub(crate) fn revoke(&self, _note: WaitNote) {}
    #[inline(always)]
    pub(crate) fn adopt(&self, _note: WaitNote) {}
    #[inline(always)]
    pub(crate) fn grant_moved(&self, _note: WaitNote) {}
    #[inline(always)]
    pub(crate) fn touch(&self) {}
    #[inline(always)]
    pub(crate) fn touch_held(&self, _held: Held) {}

    #[inline(always)]
    pub(crate) fn add(&self, _mode: LockMode, _at: Site) -> Held {
        Held
    }

    #[inline(always)]
    pub(crate) fn grants(&self) -> GrantProbe<'_> {
        GrantProbe(PhantomData)
    }

    #[inline(always)]
    pub(crate) fn claim(&self, _mode: LockMode, _note: WaitNote, _at: Site) -> Held {
        Held
    }

    #[inline(always)]
    pub(crate) fn set_free_permits(&self, _permits: usize) {}
    #[cfg(feature = "std")]
    #[inline(always)]
    pub(crate) fn touch_shared(&self, _owner: u64) {}
    #[inline(always)]
    pub(crate) fn change(&self, _held: Held, _mode: LockMode) {}
    #[inline(always)]
    pub(crate) fn remove(&self, _held: Held) {}

    pub(crate) fn shown(&self) -> impl fmt::Debug + use<> {
        format_args!("<locked>")
    }

    pub(crate) fn shown_permits(&self) -> Option<impl fmt::Debug + use<>> {
        None::<&str>
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantProbe<'a>(PhantomData<&'a LockProbe>);

impl GrantProbe<'_> {
    #[inline(always)]
    pub(crate) fn grant(self, _mode: LockMode, _note: WaitNote) {}
    #[inline(always)]
    pub(crate) fn grant_upgrade(self, _note: WaitNote) {}
}

/// What a wait is for.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a>(PhantomData<&'a LockProbe>);

impl<'a> Target<'a> {
    pub(crate) const SIGNAL: Self = Self(PhantomData);
    #[cfg(feature = "std")]
    pub(crate) const TIME: Self = Self(PhantomData);
    #[cfg(feature = "alloc")]
    pub(crate) const NEVER: Self = Self(PhantomData);

    #[inline(always)]
    pub(crate) const fn lock(_lock: &'a LockProbe, _mode: LockMode) -> Self {
        Self(PhantomData)
    }

    #[inline(always)]
    pub(crate) const fn permits(_lock: &'a LockProbe, _permits: usize) -> Self {
        Self(PhantomData)
    }

    #[inline(always)]
    pub(crate) const fn upgrade(_lock: &'a LockProbe, _own: Held) -> Self {
        Self(PhantomData)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct WaitNote;

impl WaitNote {
    pub(crate) const NONE: Self = Self;

    #[inline(always)]
    pub(crate) fn enqueued(self) {}

    #[inline(always)]
    pub(crate) fn polled(self) {}

    #[cfg(feature = "std")]
    #[inline(always)]
    pub(crate) fn of_signal(_name: &'static &'static str) -> Self {
        Self
    }

    #[cfg(feature = "std")]
    #[inline(always)]
    pub(crate) fn is_none(self) -> bool {
        true
    }

    #[inline(always)]
    pub(crate) fn came(self) {}

    #[inline(always)]
    pub(crate) fn refused(self) {}

    #[cfg(feature = "alloc")]
    #[inline(always)]
    pub(crate) fn limited_by(self, _limit: Self) {}

    #[inline(always)]
    pub(crate) fn end(self) {}
}

#[cfg(feature = "std")]
#[derive(Debug)]
pub(crate) struct WaitSlot;

#[cfg(feature = "std")]
impl WaitSlot {
    pub(crate) const fn new() -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn set(&self, _note: WaitNote) {}

    #[inline(always)]
    pub(crate) fn came(&self) {}
}

#[derive(Debug)]
pub(crate) struct WaitBegin;

impl WaitBegin {
    #[inline(always)]
    pub(crate) fn new(_target: Target<'_>, _name: &'static &'static str, _at: Site) -> Self {
        Self
    }

    #[inline(always)]
    pub(crate) fn note(&self) -> WaitNote {
        WaitNote
    }

    #[inline(always)]
    pub(crate) fn enqueued(self) -> BegunWait {
        BegunWait
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BegunWait;

impl BegunWait {
    #[inline(always)]
    pub(crate) fn check(self) {}
}
