//! Where the messages of a channel are: numbered slots, in the channel itself or in its allocation and further segments.
//!
//! A slot is free, reserved, pending (it has a message that no receive has been granted) or granted. Numbers, and not pointers, link the slots,
//! so that a channel without an allocation can be moved while no wait borrows it.
//!
//! Memory of a slot is made a [`MessageSlot`] when its number is used for the first time (`ChannelState::fresh` in `locked.rs`), so a channel of a million slots
//! costs nothing to make.

use super::parcel::Content;
use crate::shim::UnsafeCell;
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr;
#[cfg(feature = "alloc")]
pub(super) use heap::{GROWING_FIRST, Heap};

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// The greatest number of slots.
pub(super) const MAX_SLOTS: u32 = u32::MAX - 1;

/// Room for one message.
#[derive(Debug)]
pub struct MessageSlot<T> {
    /// The next slot in the list of pending or of free slots; in the last pending one it is anything. Under the queue lock only.
    pub(super) next: Cell<u32>,
    /// With `next`, the trees below a message that was put back (`ticket_heap.rs`). Under the queue lock only.
    pub(super) right: Cell<u32>,
    /// The order among messages that were granted. Under the queue lock only, or by the owner of a granted slot.
    pub(super) ticket: Cell<i64>,
    /// The message, in a pending or granted slot.
    pub(super) value: UnsafeCell<MaybeUninit<T>>,
}

impl<T> MessageSlot<T> {
    pub(super) fn new() -> Self {
        Self {
            next: Cell::new(NONE),
            right: Cell::new(NONE),
            ticket: Cell::new(0),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Moves the message of a send into an empty slot.
    ///
    /// SAFETY: as [`Content::take`]; the caller holds the queue lock, and the slot has no message.
    #[inline(always)]
    pub(super) unsafe fn fill(&self, content: &Content<T>) {
        // SAFETY: the caller's contract.
        let message = unsafe { content.take() };
        // SAFETY: no message is overwritten, and no other side looks at it.
        self.value.with_mut(|value| unsafe { (*value).write(message) });
    }

    /// The message.
    ///
    /// SAFETY: there is one, and it is the caller's.
    #[inline(always)]
    pub(super) unsafe fn read(&self) -> T {
        // SAFETY: the caller's contract.
        self.value.with(|value| unsafe { (*value).assume_init_read() })
    }
}

/// A slot and its number: where it is, is computed once. By a pointer: a reference in an argument must stay valid until the function returns, and some of those that take a slot give its memory back.
pub(super) struct Numbered<'c, T> {
    pub(super) number: u32,
    place: *const MessageSlot<T>,
    channel: PhantomData<&'c MessageSlot<T>>,
}

impl<T> Clone for Numbered<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Numbered<'_, T> {}

impl<'c, T> Numbered<'c, T> {
    #[inline(always)]
    pub(super) fn new(number: u32, place: *const MessageSlot<T>) -> Self {
        Self { number, place, channel: PhantomData }
    }

    /// The slot.
    ///
    /// SAFETY: it has been made, and the memory of the slots has not been given back since.
    #[inline(always)]
    pub(super) unsafe fn slot(self) -> &'c MessageSlot<T> {
        // SAFETY: the caller's contract; the channel is there for longer.
        unsafe { &*self.place }
    }
}

/// The number of a slot as the payload of a waiter.
pub(super) fn pack(number: u32) -> *mut () {
    ptr::without_provenance_mut(number as usize)
}

/// The number of a slot that was granted to a waiter.
pub(super) fn unpack(payload: *mut ()) -> u32 {
    payload.addr() as u32
}

/// Memory for slots. Only the crate implements it.
pub trait Store<T> {
    /// What a store that can grow grows by.
    type Segment;
    /// Memory on its way to be freed.
    type Released;

    /// The memory of a slot that there is.
    #[doc(hidden)]
    fn slot(&self, number: u32) -> *mut MessageSlot<T>;

    /// The same, if it is found without a call and the number is that of a slot at all ([`NONE`] is not).
    #[doc(hidden)]
    fn direct_slot(&self, number: u32) -> Option<*mut MessageSlot<T>>;

    /// More slots, behind the first `allocated` ones; `None` if there can be no more. Not under the queue lock.
    #[doc(hidden)]
    fn allocate(&self, allocated: u32) -> Option<Self::Segment>;

    /// Takes the segment over: how many slots there are now. Under the queue lock.
    #[doc(hidden)]
    fn install(&self, segment: Self::Segment) -> u32;

    /// Gives up all slots but the first `keep`, which is where a segment ends. Under the queue lock, with no slot in use; what is returned is dropped after
    /// that.
    #[doc(hidden)]
    fn release(&self, keep: u32) -> Self::Released;
}

/// A fixed number of slots, inside the channel, and a spare one for a message that a panicking poll gives back.
#[derive(Debug)]
pub struct Inline<T, const N: usize> {
    slots: core::cell::UnsafeCell<WithSpare<T, N>>,
}

/// One array of `N + 1`, which cannot be said otherwise.
#[derive(Debug)]
#[repr(C)]
struct WithSpare<T, const N: usize> {
    slots: [MaybeUninit<MessageSlot<T>>; N],
    spare: [MaybeUninit<MessageSlot<T>>; 1],
}

impl<T, const N: usize> Inline<T, N> {
    pub(super) const fn new() -> Self {
        let slots = [const { MaybeUninit::uninit() }; N];
        let spare = [const { MaybeUninit::uninit() }; 1];
        Self { slots: core::cell::UnsafeCell::new(WithSpare { slots, spare }) }
    }
}

impl<T, const N: usize> Store<T> for Inline<T, N> {
    type Segment = core::convert::Infallible;
    type Released = ();

    #[inline(always)]
    fn slot(&self, number: u32) -> *mut MessageSlot<T> {
        debug_assert!((number as usize) <= N, "there is no slot {number}");
        // SAFETY: the number of a slot is at most `N`, and the spare one is behind the others, without a gap: they have the same type.
        unsafe { self.slots.get().cast::<MessageSlot<T>>().add(number as usize) }
    }

    #[inline(always)]
    fn direct_slot(&self, number: u32) -> Option<*mut MessageSlot<T>> {
        (number as usize <= N).then(|| self.slot(number))
    }

    fn allocate(&self, _allocated: u32) -> Option<Self::Segment> {
        None
    }

    fn install(&self, segment: Self::Segment) -> u32 {
        match segment {}
    }

    fn release(&self, _keep: u32) {}
}

#[cfg(feature = "alloc")]
mod heap {
    use super::{MAX_SLOTS, MessageSlot, Store};
    use crate::shim::{AtomicPtr, Ordering};
    use alloc::boxed::Box;
    use alloc::vec::Vec;
    use core::mem::MaybeUninit;
    use core::ptr;

    /// Segment `k` has `first << k` slots, as many as there are before it.
    const SEGMENTS: usize = 32;

    /// The first slots of a channel that grows with its messages. A power of two, and a constant: a division takes longer than all the rest of finding a slot.
    pub(in super::super) const GROWING_FIRST: u32 = 32;

    type Table<T> = [AtomicPtr<MessageSlot<T>>; SEGMENTS];

    /// Slots behind the header of a channel, and further segments of doubling size.
    ///
    /// # Orderings
    /// The table and its entries are Relaxed: they are written under the queue lock before the number of a slot in them is known, and a number travels
    /// through the queue lock or through a grant.
    #[derive(Debug)]
    pub struct Heap<T> {
        base: *mut MessageSlot<T>,
        first: u32,
        table: AtomicPtr<Table<T>>,
    }

    /// More slots, and the table if there was none.
    #[derive(Debug)]
    pub struct Segment<T> {
        slots: Box<[MaybeUninit<MessageSlot<T>>]>,
        table: Option<Box<Table<T>>>,
        number: usize,
    }

    impl<T> Heap<T> {
        /// The first slots are at `base`.
        pub(in super::super) fn new(base: *mut MessageSlot<T>, first: u32) -> Self {
            Self { base, first, table: AtomicPtr::new(ptr::null_mut()) }
        }

        #[inline(never)]
        fn far(&self, number: u32) -> *mut MessageSlot<T> {
            let segment = match self.first {
                GROWING_FIRST => number / GROWING_FIRST,
                // A bounded channel has a message beyond its capacity: a waker panicked.
                first => number / first,
            }
            .ilog2();
            // Relaxed: see the type.
            let table = self.table.load(Ordering::Relaxed);
            // SAFETY: there is such a slot, so there is a table, which lives as long as the store.
            let table = unsafe { &*table };
            // Relaxed: see the type.
            let slots = table[segment as usize % SEGMENTS].load(Ordering::Relaxed);
            let offset = u64::from(number) - (u64::from(self.first) << segment);
            // SAFETY: the number is within its segment.
            unsafe { slots.add(offset as usize) }
        }
    }

    /// Segments on their way to be freed, without the lock.
    #[derive(Debug)]
    pub struct Segments<T>([*mut MessageSlot<T>; SEGMENTS], u32);

    impl<T> Drop for Segments<T> {
        fn drop(&mut self) {
            for (number, slots) in self.0.into_iter().enumerate().filter(|(_, slots)| !slots.is_null()) {
                let len = (self.1 as usize) << number;
                let slots = ptr::slice_from_raw_parts_mut(slots.cast::<MaybeUninit<MessageSlot<T>>>(), len);
                // SAFETY: made by `Box::into_raw` in `install`, of this length, and taken out of the table.
                drop(unsafe { Box::from_raw(slots) });
            }
        }
    }

    impl<T> Store<T> for Heap<T> {
        type Segment = Segment<T>;
        type Released = Segments<T>;

        #[inline(always)]
        fn slot(&self, number: u32) -> *mut MessageSlot<T> {
            match self.direct_slot(number) {
                Some(slot) => slot,
                None => self.far(number),
            }
        }

        #[inline(always)]
        fn direct_slot(&self, number: u32) -> Option<*mut MessageSlot<T>> {
            // SAFETY: so many slots begin at the base.
            (number < self.first).then(|| unsafe { self.base.add(number as usize) })
        }

        fn allocate(&self, allocated: u32) -> Option<Segment<T>> {
            let more = allocated;
            allocated.checked_add(more).filter(|sum| *sum <= MAX_SLOTS)?;
            let mut slots = Vec::new();
            slots.resize_with(more as usize, MaybeUninit::uninit);
            // Relaxed: see the type; a table that is not seen is made in vain.
            let is_first = self.table.load(Ordering::Relaxed).is_null();
            let null = || AtomicPtr::new(ptr::null_mut());
            let table = is_first.then(|| Box::new(core::array::from_fn(|_| null())));
            let number = (allocated / self.first).ilog2() as usize;
            Some(Segment { slots: slots.into_boxed_slice(), table, number })
        }

        fn install(&self, segment: Segment<T>) -> u32 {
            // Relaxed: see the type.
            if self.table.load(Ordering::Relaxed).is_null() {
                let table = segment.table.map_or(ptr::null_mut(), Box::into_raw);
                self.table.store(table, Ordering::Relaxed);
            }
            // SAFETY: made above, or before; it lives as long as the store.
            let table = unsafe { &*self.table.load(Ordering::Relaxed) };
            let slots = Box::into_raw(segment.slots).cast();
            table[segment.number].store(slots, Ordering::Relaxed);
            self.first << (segment.number + 1)
        }

        fn release(&self, keep: u32) -> Segments<T> {
            let from = (keep / self.first).ilog2() as usize;
            let mut segments = Segments([const { ptr::null_mut() }; SEGMENTS], self.first);
            // Relaxed: see the type.
            let table = self.table.load(Ordering::Relaxed);
            // SAFETY: it lives as long as the store.
            if let Some(table) = unsafe { table.as_ref() } {
                for (entry, taken) in table.iter().zip(&mut segments.0).skip(from) {
                    // Relaxed: see the type.
                    *taken = entry.load(Ordering::Relaxed);
                    entry.store(ptr::null_mut(), Ordering::Relaxed);
                }
            }
            segments
        }
    }

    impl<T> Drop for Heap<T> {
        fn drop(&mut self) {
            drop(self.release(self.first));
            // Relaxed: the last user is alone.
            let table = self.table.load(Ordering::Relaxed);
            if !table.is_null() {
                // SAFETY: made by `Box::into_raw` in `install`.
                drop(unsafe { Box::from_raw(table) });
            }
        }
    }
}
