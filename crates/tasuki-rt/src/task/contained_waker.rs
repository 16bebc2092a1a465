//! A foreign waker whose panics go no further, without an allocation.
//!
//! The cell of a task clones, wakes and drops the waker of the future that awaits it, and ends the process if one of these panics. The wakers of our own tasks do not; those of
//! other executors, and of combinators that wake their parts one by one, are foreign code. So [`with`] gives the cell another waker: the same data, with a table of ours, whose functions call those of
//! the foreign table and catch what they panic with.
//!
//! A table has no data, so there must be one of ours for each foreign one. There are [`SLOTS`] of them, each for the foreign table that took it first, for ever: a program has one for each
//! executor and each combinator that it uses. Once all are taken, a waker with a further table is kept in an `Arc`.
//!
//! ```text
//!   foreign waker: data, its table         ->   contained: data, TABLES[3]      FOREIGN[3] = its table
//! ```
//!
//! A clone that panics leaves a waker that does nothing, and its panic goes on as soon as the cell is left: the poll that it was for did not happen.

use super::output::discard;
use super::{PanicPayload, contain_panic};
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};

/// How many foreign tables have one of ours.
const SLOTS: usize = 8;

static FOREIGN: [OnceLock<&'static RawWakerVTable>; SLOTS] = [const { OnceLock::new() }; SLOTS];
static TABLES: [RawWakerVTable; SLOTS] = [
    table::<0>(),
    table::<1>(),
    table::<2>(),
    table::<3>(),
    table::<4>(),
    table::<5>(),
    table::<6>(),
    table::<7>(),
];

thread_local! {
    /// What a clone panicked with, inside of a cell.
    static PANICKED: Cell<Option<PanicPayload>> = const { Cell::new(None) };
}

/// What a clone inside of an outer [`with`] panicked with, kept while an inner one lasts: foreign code that the cell calls may poll another cell.
struct OuterPanic(Option<PanicPayload>);

impl OuterPanic {
    fn set_aside() -> Self {
        Self(PANICKED.try_with(Cell::take).unwrap_or(None))
    }
}

impl Drop for OuterPanic {
    fn drop(&mut self) {
        if let Some(payload) = self.0.take() {
            let _ = PANICKED.try_with(|panicked| panicked.set(Some(payload)));
        }
    }
}

/// Polls with a waker that does not panic, in place of the context's.
pub(super) fn with<R>(foreign: &Waker, poll: impl FnOnce(&mut Context<'_>) -> Poll<R>) -> Poll<R> {
    let _outer = OuterPanic::set_aside();
    let polled = match slot_of(foreign.vtable()) {
        Some(slot) => {
            let raw = RawWaker::new(foreign.data(), &TABLES[slot]);
            // SAFETY: the functions of the table keep the contract if those of the foreign one do. Not dropped: it is the reference that the context has, borrowed.
            let contained = ManuallyDrop::new(unsafe { Waker::from_raw(raw) });
            poll(&mut Context::from_waker(&contained))
        }
        None => poll(&mut Context::from_waker(&in_arc(foreign.clone()))),
    };
    match (PANICKED.try_with(Cell::take).unwrap_or(None), &polled) {
        (Some(payload), Poll::Pending) => resume_unwind(payload),
        // The waker is not needed any more.
        (Some(payload), Poll::Ready(_)) => discard(payload),
        (None, _) => (),
    }
    polled
}

/// Which table of ours is for this foreign one; `None` if all are for others.
fn slot_of(table: &'static RawWakerVTable) -> Option<usize> {
    FOREIGN.iter().position(|slot| ptr::eq(*slot.get_or_init(|| table), table))
}

/// The same waker, contained.
fn contain(waker: Waker) -> Waker {
    let Some(slot) = slot_of(waker.vtable()) else { return in_arc(waker) };
    let waker = ManuallyDrop::new(waker);
    // SAFETY: as in `with`; the reference that the foreign waker had is now this one's.
    unsafe { Waker::from_raw(RawWaker::new(waker.data(), &TABLES[slot])) }
}

/// As a waker with a reference of its own to a count: its clone calls nothing foreign.
#[cold]
fn in_arc(waker: Waker) -> Waker {
    Waker::from(Arc::new(KeptWaker(ManuallyDrop::new(waker))))
}

const fn table<const SLOT: usize>() -> RawWakerVTable {
    RawWakerVTable::new(clone::<SLOT>, wake::<SLOT>, wake_by_ref::<SLOT>, drop_waker::<SLOT>)
}

/// The foreign waker, which is not dropped here.
///
/// # Safety
///
/// The data is that of a waker with the foreign table of this slot, which exists.
unsafe fn foreign<const SLOT: usize>(data: *const ()) -> ManuallyDrop<Waker> {
    let table = FOREIGN[SLOT].get().expect("a table is given out after its slot was taken");
    // SAFETY: promised by the caller.
    ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(data, table)) })
}

unsafe fn clone<const SLOT: usize>(data: *const ()) -> RawWaker {
    // SAFETY: the contract of a waker's table.
    let waker = unsafe { foreign::<SLOT>(data) };
    let cloned = match catch_unwind(AssertUnwindSafe(|| Waker::clone(&waker))) {
        Ok(cloned) => ManuallyDrop::new(contain(cloned)),
        Err(payload) => {
            // A second one, before the first could go on, is dropped.
            let before = PANICKED.try_with(|panicked| panicked.replace(Some(payload))).unwrap_or(None);
            before.into_iter().for_each(discard);
            ManuallyDrop::new(Waker::noop().clone())
        }
    };
    RawWaker::new(cloned.data(), cloned.vtable())
}

unsafe fn wake<const SLOT: usize>(data: *const ()) {
    // SAFETY: the contract of a waker's table: this is the last use of the reference.
    let waker = ManuallyDrop::into_inner(unsafe { foreign::<SLOT>(data) });
    contain_panic(|| waker.wake());
}

unsafe fn wake_by_ref<const SLOT: usize>(data: *const ()) {
    // SAFETY: the contract of a waker's table.
    let waker = unsafe { foreign::<SLOT>(data) };
    contain_panic(|| waker.wake_by_ref());
}

unsafe fn drop_waker<const SLOT: usize>(data: *const ()) {
    // SAFETY: the contract of a waker's table: this is the last use of the reference.
    let waker = ManuallyDrop::into_inner(unsafe { foreign::<SLOT>(data) });
    contain_panic(|| drop(waker));
}

/// A foreign waker whose table came too late.
struct KeptWaker(ManuallyDrop<Waker>);

impl Wake for KeptWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        contain_panic(|| self.0.wake_by_ref());
    }
}

impl Drop for KeptWaker {
    fn drop(&mut self) {
        // SAFETY: dropped here and nowhere else.
        contain_panic(|| unsafe { ManuallyDrop::drop(&mut self.0) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    /// What was called, and whether a call panics.
    #[derive(Default)]
    struct Log {
        clones: AtomicUsize,
        wakes: AtomicUsize,
        drops: AtomicUsize,
        hostile: AtomicUsize,
    }

    impl Log {
        fn call(&self, counter: &AtomicUsize) {
            counter.fetch_add(1, SeqCst);
            assert_eq!(self.hostile.load(SeqCst), 0, "a hostile waker");
        }
    }

    /// More tables than there are slots, all with the same functions.
    static FOREIGNERS: [RawWakerVTable; 2 * SLOTS] = [const { foreigner() }; 2 * SLOTS];

    const fn foreigner() -> RawWakerVTable {
        fn log<'a>(data: *const ()) -> &'a Log {
            // SAFETY: every waker of these tables has the pointer of a log that outlives it.
            unsafe { &*data.cast() }
        }
        RawWakerVTable::new(
            |data| {
                let log = log(data);
                log.call(&log.clones);
                // A clone may have another table.
                RawWaker::new(data, &FOREIGNERS[log.clones.load(SeqCst) % (2 * SLOTS)])
            },
            |data| {
                let log = log(data);
                log.drops.fetch_add(1, SeqCst);
                log.call(&log.wakes);
            },
            |data| {
                let log = log(data);
                log.call(&log.wakes);
            },
            |data| {
                let log = log(data);
                log.call(&log.drops);
            },
        )
    }

    /// Polls as a cell does: keeps a clone, or wakes at once.
    fn keep(kept: &mut Vec<Waker>) -> impl FnOnce(&mut Context<'_>) -> Poll<()> {
        |cx| {
            kept.push(cx.waker().clone());
            Poll::Pending
        }
    }

    /// Whichever table a waker has, and however many there are, each of its functions is called, and none panics.
    #[test]
    fn every_waker_is_contained() {
        for table in &FOREIGNERS {
            let log = Log::default();
            // SAFETY: the log outlives its wakers.
            let foreign =
                ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new((&raw const log).cast(), table)) });
            let mut kept = Vec::new();
            assert!(with(&foreign, keep(&mut kept)).is_pending());
            assert!(with(&foreign, keep(&mut kept)).is_pending());
            assert_eq!(log.clones.load(SeqCst), 2, "one for each that is kept");
            log.hostile.store(1, SeqCst);
            kept[0].wake_by_ref();
            kept.pop().expect("two").wake();
            drop(kept);
            assert_eq!((log.wakes.load(SeqCst), log.drops.load(SeqCst)), (2, 2), "two kept, two dropped");
            // By reference inside of the poll; one that goes into an `Arc` is cloned before.
            if slot_of(table).is_some() {
                let wake = |cx: &mut Context<'_>| {
                    cx.waker().wake_by_ref();
                    Poll::Ready(())
                };
                assert!(with(&foreign, wake).is_ready());
                assert_eq!(log.wakes.load(SeqCst), 3);
            }
        }
    }

    /// A clone that panics does so to the caller of the poll, not inside of it; a result that came meanwhile is not lost.
    #[test]
    fn a_clone_that_panics() {
        let log = Log::default();
        log.hostile.store(1, SeqCst);
        // SAFETY: the log outlives its wakers.
        let foreign = ManuallyDrop::new(unsafe {
            Waker::from_raw(RawWaker::new((&raw const log).cast(), &FOREIGNERS[0]))
        });
        let mut kept = Vec::new();
        let polled = catch_unwind(AssertUnwindSafe(|| with(&foreign, keep(&mut kept))));
        assert!(polled.is_err());
        let ready = |cx: &mut Context<'_>| {
            kept.extend(catch_unwind(AssertUnwindSafe(|| cx.waker().clone())));
            Poll::Ready(1)
        };
        if slot_of(&FOREIGNERS[0]).is_some() {
            assert_eq!(with(&foreign, ready), Poll::Ready(1));
            kept.drain(..).for_each(Waker::wake);
        }
        log.hostile.store(0, SeqCst);
        assert_eq!(log.wakes.load(SeqCst), 0, "what stands for it does nothing");
    }

    /// A poll inside of a poll, as by the destructor of a waker that the cell lets go of: the panic of the outer clone is not the inner poll's, and comes out of the outer one.
    #[test]
    fn a_poll_inside_of_a_poll() {
        let (hostile, tame) = (Log::default(), Log::default());
        hostile.hostile.store(1, SeqCst);
        let waker = |log: &Log| {
            // SAFETY: the logs outlive their wakers.
            ManuallyDrop::new(unsafe {
                Waker::from_raw(RawWaker::new(ptr::from_ref(log).cast(), &FOREIGNERS[0]))
            })
        };
        let (outer, inner) = (waker(&hostile), waker(&tame));
        let mut kept = Vec::new();
        let polled = catch_unwind(AssertUnwindSafe(|| {
            with(&outer, |cx| {
                kept.push(cx.waker().clone());
                let inside = catch_unwind(AssertUnwindSafe(|| with(&inner, keep(&mut kept))));
                assert!(inside.is_ok(), "the panic was not its own");
                Poll::<()>::Pending
            })
        }));
        // Without a slot for its table the clone panics before the poll.
        assert!(polled.is_err(), "the clone of the outer poll panicked");
    }
}
