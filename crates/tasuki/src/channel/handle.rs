//! Senders and receivers: counted handles to one allocation, which has the channel, the counts, and the first slots.
//!
//! # States
//!
//! | count       | what it counts                                                        | at zero |
//! |-------------|-----------------------------------------------------------------------|---------|
//! | `senders`   | [`Sender`]s                                                            | closes the channel |
//! | `receivers` | [`Receiver`]s                                                          | closes the channel and drops the pending messages |
//! | `handles`   | weak handles, and one for all senders, and one for all receivers      | frees the allocation |
//!
//! | event                | counts                                       | duty                         | function |
//! |----------------------|----------------------------------------------|------------------------------|----------|
//! | clone                | + 1                                          | –                            | [`HandleCount::add`] |
//! | drop                 | - 1                                          | at zero: close, then release | [`HandleCount::remove`] |
//! | downgrade, clone of a weak handle | `handles` + 1                   | –                            | [`WeakHandle::new`] |
//! | upgrade              | + 1 unless zero                              | –                            | [`HandleCount::add_unless_zero`] |
//! | drop of a weak handle| `handles` - 1                                | at zero: free                | `release` |
//!
//! # Invariants
//! 1. The allocation is alive while `handles` is not zero. A strong handle keeps `senders` or `receivers` above zero, and that keeps one of `handles`.
//! 2. What was at zero stays at zero: no handle can be made from none.
//!
//! # Orderings
//! Release of [`HandleCount::remove`] pairs with its Acquire by the thread that reaches zero: what other handles did happens before the close, and before the
//! memory is freed. Additions are Relaxed: the caller has a handle.

use super::core::ChannelCore;
use super::store::{GROWING_FIRST, Heap, MAX_SLOTS, MessageSlot};
use super::{Receiver, Sender};
use crate::shim::{AtomicUsize, Ordering, Tracked};
use alloc::alloc::{alloc, dealloc, handle_alloc_error};
use core::alloc::Layout;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr::NonNull;

/// The channel of a handle.
pub(super) type HeapCore<T> = ChannelCore<T, Heap<T>>;

/// So many slots stay when an unbounded channel is empty; the end of a segment.
const UNBOUNDED_KEEP: u32 = 1024;
/// As many as segments of doubling size can have.
const UNBOUNDED_CAPACITY: u32 = 1 << 31;

impl<T> HeapCore<T> {
    /// For how many messages there is room; `None` if it is unbounded. One with a bound keeps as many slots, whatever the bound is.
    pub(super) fn bound(&self) -> Option<usize> {
        (self.keep == self.capacity).then(|| self.capacity())
    }
}

/// So many handles a side can have. There is room for as many threads above it, each of which adds one before it finds that there are too many. Both sides of a rendezvous and its weak handles are in one `Arc`, which ends
/// the process beyond `isize::MAX` references.
const MAX_HANDLES: usize = usize::MAX / 8;
// The last quarter is for the additions of threads that are about to panic.
const _: () = assert!(4 * MAX_HANDLES <= isize::MAX as usize);

#[cold]
#[track_caller]
fn too_many() -> ! {
    panic!("a channel has too many handles: some are made and forgotten");
}

/// A number of handles.
#[derive(Debug)]
pub(super) struct HandleCount(AtomicUsize);

impl HandleCount {
    pub(super) fn new(count: usize) -> Self {
        Self(AtomicUsize::new(count))
    }

    #[track_caller]
    pub(super) fn add(&self) {
        // Relaxed: the caller has a handle.
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        if before >= MAX_HANDLES {
            // Relaxed: as above.
            self.0.fetch_sub(1, Ordering::Relaxed);
            too_many();
        }
    }

    #[track_caller]
    pub(super) fn add_unless_zero(&self) -> bool {
        // Relaxed: only compared.
        let mut count = self.0.load(Ordering::Relaxed);
        loop {
            if count == 0 {
                return false;
            }
            if count >= MAX_HANDLES {
                too_many();
            }
            // Relaxed: the caller has a weak handle, and the others are not done before the count is zero.
            match self.0.compare_exchange(count, count + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => count = now,
            }
        }
    }

    /// One handle less; true if it was the last.
    pub(super) fn remove(&self) -> bool {
        // Release: pairs with the Acquire of the last; Acquire: pairs with the Release of all others.
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// What the handles share; the first slots are behind it. Begins with a cache line: the first 64 bytes of a channel are what its operations write.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct SharedChannel<T> {
    pub(super) core: HeapCore<T>,
    pub(super) senders: HandleCount,
    pub(super) receivers: HandleCount,
    pub(super) handles: HandleCount,
    layout: Layout,
    _tracked: Tracked,
}

/// A counted pointer to the allocation.
pub(super) struct ChannelHandle<T>(pub(super) NonNull<SharedChannel<T>>);

impl<T> ChannelHandle<T> {
    /// A channel with one sender and one receiver.
    #[track_caller]
    fn new(first: u32, capacity: u32, keep: u32) -> Self {
        let slots = Layout::array::<MessageSlot<T>>(first as usize).expect(TOO_BIG);
        let (layout, offset) = Layout::new::<SharedChannel<T>>().extend(slots).expect(TOO_BIG);
        // SAFETY: the layout is not of size zero.
        let Some(memory) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        // SAFETY: within the allocation.
        let base = unsafe { memory.as_ptr().add(offset) }.cast::<MessageSlot<T>>();
        let shared = memory.cast::<SharedChannel<T>>();
        let value = SharedChannel {
            core: ChannelCore::new(Heap::new(base, first), first, capacity, keep),
            senders: HandleCount::new(1),
            receivers: HandleCount::new(1),
            handles: HandleCount::new(2),
            layout,
            _tracked: Tracked::new(),
        };
        // SAFETY: just allocated for it.
        unsafe { shared.write(value) };
        Self(shared)
    }

    #[inline(always)]
    pub(super) fn shared(&self) -> &SharedChannel<T> {
        // SAFETY: invariant 1.
        unsafe { self.0.as_ref() }
    }

    /// The same pointer; the caller has counted it.
    pub(super) fn copy(&self) -> Self {
        Self(self.0)
    }

    /// One of `handles` less; the last frees the allocation.
    pub(super) fn release(&self) {
        if !self.shared().handles.remove() {
            return;
        }
        /// Frees the memory, also if the drop of a message panics.
        struct Free(NonNull<u8>, Layout);
        impl Drop for Free {
            fn drop(&mut self) {
                // SAFETY: allocated in `new` with this layout, and not used again.
                unsafe { dealloc(self.0.as_ptr(), self.1) };
            }
        }
        let _free = Free(self.0.cast(), self.shared().layout);
        // SAFETY: no handle is left.
        unsafe { self.0.drop_in_place() };
    }
}

/// What a weak handle has: one of `handles`, which keeps the allocation and not the channel open.
pub(super) struct WeakHandle<T>(ChannelHandle<T>);

impl<T> WeakHandle<T> {
    /// A further one, of a channel that the caller has a handle to.
    #[track_caller]
    pub(super) fn new(handle: &ChannelHandle<T>) -> Self {
        handle.shared().handles.add();
        Self(handle.copy())
    }

    /// The pointer, to count a sender or a receiver, and for its handle.
    pub(super) fn get(&self) -> &ChannelHandle<T> {
        &self.0
    }
}

impl<T> Clone for WeakHandle<T> {
    #[track_caller]
    fn clone(&self) -> Self {
        Self::new(&self.0)
    }
}

impl<T> Drop for WeakHandle<T> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Releases one of `handles`, whatever panics.
pub(super) struct ReleaseOnDrop<'h, T>(pub(super) &'h ChannelHandle<T>);

impl<T> Drop for ReleaseOnDrop<'_, T> {
    fn drop(&mut self) {
        self.0.release();
    }
}

const TOO_BIG: &str =
    "a channel of this capacity does not fit into memory: use a smaller capacity, or box the messages";

// SAFETY: a handle gives access to the channel, which is `Sync` if messages may be sent to other threads.
unsafe impl<T: core::marker::Send> core::marker::Send for ChannelHandle<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for ChannelHandle<T> {}
impl<T> UnwindSafe for ChannelHandle<T> {}
impl<T> RefUnwindSafe for ChannelHandle<T> {}

/// Creates a channel with room for `capacity` messages. A send that finds it full waits.
///
/// # Panics
///
/// If `capacity` is zero (use [`rendezvous`](super::rendezvous())), more than 2^32 - 2, or more than an address space has bytes for: all slots are allocated at once. If there is no memory for them the
/// process ends, as with a `Vec`.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (sender, receiver) = tasuki::channel::bounded(2);
/// tokio::spawn(async move {
///     for n in 0..100 {
///         sender.send(n).await.unwrap();
///     }
/// });
/// let mut sum = 0;
/// while let Ok(n) = receiver.recv().await {
///     sum += n;
/// }
/// assert_eq!(sum, 4950);
/// # }
/// ```
#[doc(alias = "mpsc")]
#[doc(alias = "mpmc")]
#[doc(alias = "sync_channel")]
#[track_caller]
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(
        capacity > 0,
        "a bounded channel has a capacity of at least 1: use `rendezvous` for a hand-over without room"
    );
    assert!(capacity <= MAX_SLOTS as usize, "{TOO_BIG}");
    let capacity = capacity as u32;
    pair(ChannelHandle::new(capacity, capacity, capacity))
}

/// Creates a channel without a bound: its memory grows with the messages that are in it, and shrinks to room for 1,024 when it is empty. A send waits only behind 2^31 messages.
///
/// Prefer [`bounded`]: a receiver that is slower than its senders is noticed there, and here only when memory ends.
///
/// # Panics
///
/// If the messages are so large that the first 32 do not fit into an address space.
///
/// # Examples
///
/// ```
/// let (sender, receiver) = tasuki::channel::unbounded();
/// (0..100).for_each(|n| sender.try_send(n).unwrap());
/// drop(sender);
/// assert_eq!(receiver.iter().sum::<i32>(), 4950);
/// ```
#[doc(alias = "unbounded_channel")]
#[track_caller]
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    pair(ChannelHandle::new(GROWING_FIRST, UNBOUNDED_CAPACITY, UNBOUNDED_KEEP))
}

fn pair<T>(handle: ChannelHandle<T>) -> (Sender<T>, Receiver<T>) {
    (Sender { handle: handle.copy() }, Receiver { handle })
}

#[cfg(all(test, feature = "std"))]
impl HandleCount {
    /// The line that the panic of `call` names while there are as many handles as there can be.
    #[track_caller]
    pub(super) fn line_of_one_too_many(&self, call: impl FnOnce()) -> u32 {
        let before = self.0.swap(MAX_HANDLES, Ordering::Relaxed);
        let line = crate::panic_place::line_of_panic(call);
        assert_eq!(self.0.swap(before, Ordering::Relaxed), MAX_HANDLES, "nothing has changed");
        line
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    /// What operations write is in one cache line with the word: a processor that gets the lock from another waits for one line.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn one_line_is_written() {
        assert_eq!(
            (align_of::<SharedChannel<u64>>(), core::mem::offset_of!(SharedChannel<u64>, core)),
            (64, 0)
        );
        const { assert!(HeapCore::<u64>::WRITTEN <= 64) };
    }

    /// A bound of as many messages as an unbounded channel can have is a bound. With a few slots only: so much memory is not to be had everywhere.
    #[test]
    fn every_bound_is_a_bound() {
        for capacity in [1, 32, UNBOUNDED_KEEP, UNBOUNDED_CAPACITY - 1, UNBOUNDED_CAPACITY, MAX_SLOTS] {
            let (sender, receiver) = pair::<u8>(ChannelHandle::new(1, capacity, capacity));
            assert_eq!(
                (sender.capacity(), receiver.capacity()),
                (Some(capacity as usize), Some(capacity as usize))
            );
        }
        assert_eq!(unbounded::<u8>().0.capacity(), None);
    }

    /// Handles that are made and forgotten without end, by clones or by upgrades: the count does not overflow, and stays what it was.
    #[test]
    fn too_many_handles() {
        let count = HandleCount::new(MAX_HANDLES - 1);
        assert!(count.add_unless_zero());
        let upgrade = |count: &HandleCount| assert!(!count.add_unless_zero());
        for add in [HandleCount::add, upgrade] {
            assert!(std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| add(&count))).is_err());
            assert_eq!(count.0.load(Ordering::Relaxed), MAX_HANDLES);
        }
        assert!(!count.remove());
        count.add();
    }

    /// The panic names the line of the caller: of a clone, and of each function that makes a handle.
    #[test]
    fn one_handle_too_many_names_its_caller() {
        let (sender, receiver) = bounded::<u8>(1);
        let (weak_sender, weak_receiver) = (sender.downgrade(), receiver.downgrade());
        let SharedChannel { senders, receivers, handles, .. } = sender.handle.shared();
        let first = line!() + 2;
        let lines = [
            senders.line_of_one_too_many(|| drop(sender.clone())),
            receivers.line_of_one_too_many(|| drop(receiver.clone())),
            handles.line_of_one_too_many(|| drop(sender.downgrade())),
            handles.line_of_one_too_many(|| drop(receiver.downgrade())),
            handles.line_of_one_too_many(|| drop(weak_sender.clone())),
            handles.line_of_one_too_many(|| drop(weak_receiver.clone())),
            senders.line_of_one_too_many(|| drop(weak_sender.upgrade())),
            receivers.line_of_one_too_many(|| drop(weak_receiver.upgrade())),
        ];
        assert_eq!(lines, core::array::from_fn(|at| first + at as u32));
    }
}
