//! A closure posted to an event loop: one box, behind a thin pointer, with the link by which it is queued.

use super::chain::Link;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// What is posted. Dropped without a call if its loop ends first.
pub(crate) struct Job(NonNull<Header>);

/// What every box begins with.
#[repr(C)]
struct Header {
    link: Link,
    /// Frees the box; calls the closure, or drops it.
    finish: unsafe fn(NonNull<Header>, call: bool),
}

#[repr(C)]
struct Posted<F> {
    header: Header,
    work: F,
}

// SAFETY: the closure is `Send`, and a job has one owner.
unsafe impl Send for Job {}

impl Job {
    pub(crate) fn new<F: FnOnce() + Send + 'static>(work: F) -> Self {
        let header = Header { link: Link::new(), finish: finish::<F> };
        Self(NonNull::from(Box::leak(Box::new(Posted { header, work }))).cast())
    }

    pub(crate) fn call(self) {
        let job = ManuallyDrop::new(self);
        // SAFETY: the box is ours, and is not used again.
        unsafe { (job.0.as_ref().finish)(job.0, true) };
    }

    pub(super) fn into_raw(self) -> NonNull<()> {
        ManuallyDrop::new(self).0.cast()
    }

    /// # Safety
    ///
    /// The pointer is from `into_raw`, and is given back once.
    pub(super) unsafe fn from_raw(raw: NonNull<()>) -> Self {
        Self(raw.cast())
    }

    /// # Safety
    ///
    /// The pointer is from `into_raw`, and has not been given back while the link is used.
    pub(super) unsafe fn link<'a>(raw: NonNull<()>) -> &'a Link {
        // SAFETY: promised by the caller.
        unsafe { &raw.cast::<Header>().as_ref().link }
    }
}

/// # Safety
///
/// The header is that of a `Posted<F>`, which is the caller's, and is not used again.
unsafe fn finish<F: FnOnce()>(header: NonNull<Header>, call: bool) {
    // SAFETY: promised by the caller.
    let Posted { work, .. } = *unsafe { Box::from_raw(header.cast::<Posted<F>>().as_ptr()) };
    if call {
        work();
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // SAFETY: the box is ours, and is not used again.
        unsafe { (self.0.as_ref().finish)(self.0, false) };
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Job")
    }
}
