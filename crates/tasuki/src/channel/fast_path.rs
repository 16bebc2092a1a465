//! The fast paths: a send and a receive that need no call while the channel is locked.
//!
//! Most operations find an open channel in which none waits, and slots that were used before, at the beginning of its memory. They are written out here, for that case alone, so
//! that the compiler needs no saved registers: spilled registers would delay the compare-exchange of the queue lock. All other cases are in `locked.rs`, out of line, under the same hold of
//! the lock. The transitions are two of those in `core.rs`: `free => pending` and `pending => free`.

use super::locked::Locked;
use super::parcel::Content;
use super::store::Store;
use core::mem;

impl<T, S: Store<T>> Locked<'_, T, S> {
    /// Sends a message, for which there is room, to a channel in which none waits, if that needs no call: no message was put back, and the slots are found without the table of segments. False: nothing has changed.
    ///
    /// SAFETY: as [`Content::take`]. If it is sent, the message has been taken.
    #[inline(always)]
    pub(super) unsafe fn send_fast(&mut self, content: &Content<T>) -> bool {
        let (core, pending) = (self.core, self.core.pending.get());
        let Some(taken) = core.store.direct_slot(self.state().free) else { return false };
        let last = match pending {
            0 => None,
            _ if self.state().returned.len() > 0 => return false,
            _ => match core.store.direct_slot(self.state().last) {
                None => return false,
                last => last,
            },
        };
        // SAFETY: a free slot that has been used before.
        let slot = unsafe { &*taken };
        let number = mem::replace(&mut self.state_mut().free, slot.next.get());
        // SAFETY: the caller's contract; the slot was free.
        unsafe { slot.fill(content) };
        match last {
            // SAFETY: the last pending message is in a slot that has been used.
            Some(last) => unsafe { (*last).next.set(number) },
            None => self.state_mut().first = number,
        }
        self.state_mut().last = number;
        core.pending.set(pending + 1);
        true
    }

    /// Receives from a channel in which none waits, if that needs no call: there is a message, none was put back, its slot is found without the table of segments, and no memory is to be given back. `None`: nothing has changed.
    #[inline(always)]
    pub(super) fn recv_fast(&mut self) -> Option<T> {
        let (core, pending) = (self.core, self.core.pending.get());
        if pending == 0 || self.state().returned.len() > 0 || self.may_shrink_with(1) {
            return None;
        }
        let number = self.state().first;
        // SAFETY: the first pending message is in a slot that has been used.
        let slot = unsafe { &*core.store.direct_slot(number)? };
        // Behind the last one it is anything, and so is then the first of no messages.
        self.state_mut().first = slot.next.get();
        // SAFETY: a pending message, and not pending from now on.
        let message = unsafe { slot.read() };
        slot.next.set(mem::replace(&mut self.state_mut().free, number));
        core.pending.set(pending - 1);
        Some(message)
    }
}
