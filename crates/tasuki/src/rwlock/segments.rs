//! The order of the waiters of a reader-writer lock: segments between writers, in each of them the readers before the upgradable readers.
//!
//! A reader may pass an upgradable reader that must wait, and nothing else. So it is enqueued before the upgradable readers that it may pass, and not looked for behind them when
//! it can be granted: what is behind a waiter that must wait must wait too, and a grant is taken from the front (`admission.rs`). Called by `raw.rs` and `admission.rs` with the queue
//! locked; every function takes constant time.
//!
//! ```text
//!   arrival:   W1 U1 R1 U2 R2 W2 U3 R3 R4
//!   queue:     W1 [R1 R2] [U1 U2] W2 [R3 R4] [U3]          runs in brackets
//!   W2 goes:   W1 [R1 R2 R3 R4] [U1 U2 U3]                 two runs change places, four become two
//! ```
//!
//! # Invariants
//! 1. A *segment* is what lies between two waiters that stop readers (`Write`, `Upgrade`), or between one of them and an end of the queue. It is a run of `Read`, then a run of
//!    `Upgradable`; each may be empty. Within a run waiters are in the order in which they came.
//! 2. The first and the last waiter of a run carry a pointer to each other (a run of one: to itself). What others carry means nothing.
//! 3. `Upgrade` is enqueued before all others, so the segment before it is empty.

use super::admission::Kind;
use crate::queue::waiter::{Waiter, WaiterState};
use crate::queue::{Cursor, LockedQueue, NewWaiter, Pinned, Removed};

/// The kind of the waiter at the cursor; `None` at the end.
///
/// SAFETY: the cursor is at the end, or at a waiter in the list of this queue.
unsafe fn kind_at(locked: &LockedQueue<'_>, at: Cursor) -> Option<Kind> {
    // SAFETY: the caller's contract.
    unsafe { locked.get(at) }.map(Kind::of)
}

/// The other end of the run that begins or ends with this waiter.
fn other_end(waiter: &Waiter) -> Cursor {
    Cursor::from_pointer(waiter.pointer())
}

/// The other end of the run that begins or ends at the cursor.
///
/// SAFETY: the cursor is at a waiter in the list of this queue, the first or the last of its run.
unsafe fn end_of_run(locked: &LockedQueue<'_>, at: Cursor) -> Cursor {
    // SAFETY: the caller's contract.
    unsafe { locked.get(at) }.map_or(at, other_end)
}

/// Makes a run of what lies between the two, of one kind.
///
/// SAFETY: both are at waiters in the list of this queue, in this order.
unsafe fn make_run(locked: &LockedQueue<'_>, first: Cursor, last: Cursor) {
    for (at, other) in [(first, last), (last, first)] {
        // SAFETY: the caller's contract.
        if let Some(waiter) = unsafe { locked.get(at) } {
            // SAFETY: the queue is locked, and the waiter in its list.
            unsafe { waiter.set_pointer(other.as_pointer()) };
        }
    }
}

/// A new waiter of this kind comes last; but a reader before the upgradable readers that are last.
#[inline(always)]
pub(super) fn enqueue(locked: &mut LockedQueue<'_>, kind: Kind, waiter: NewWaiter<'_>) {
    if kind.stops_readers() {
        locked.push_back(waiter);
    } else {
        enqueue_in_run(locked, kind, waiter);
    }
}

#[inline(never)]
fn enqueue_in_run(locked: &mut LockedQueue<'_>, kind: Kind, waiter: NewWaiter<'_>) {
    let mut before = locked.cursor_back();
    // SAFETY: the last waiter, or the end.
    let passes = kind == Kind::Read && unsafe { kind_at(locked, before) } == Some(Kind::Upgradable);
    let place = if passes {
        // SAFETY: the last waiter of the queue is the last of its run.
        let first = unsafe { end_of_run(locked, before) };
        // SAFETY: invariant 2: the first of the run, in the list.
        before = unsafe { locked.before(first) };
        // SAFETY: as above.
        Cursor::of(unsafe { locked.insert_before(first, waiter) })
    } else {
        Cursor::of(locked.push_back(waiter))
    };
    // SAFETY: the waiter before the new one, or the end.
    let joins = unsafe { kind_at(locked, before) } == Some(kind);
    // SAFETY: it is the last of its run: behind it was the end, or another run.
    let first = if joins { unsafe { end_of_run(locked, before) } } else { place };
    // SAFETY: both are in the list.
    unsafe { make_run(locked, first, place) };
}

/// The first waiter, of this kind, is about to leave.
///
/// SAFETY: there is a waiter.
#[inline(always)]
pub(super) unsafe fn leaves_front(locked: &LockedQueue<'_>, kind: Kind) {
    if !kind.stops_readers() {
        // SAFETY: the caller's contract.
        unsafe { leaves_run(locked, locked.cursor_front(), kind) };
    }
}

/// The waiter at the cursor, a reader of this kind, is about to leave: its run goes on without it.
///
/// SAFETY: the cursor is at a waiter in the list of this queue.
#[inline(never)]
unsafe fn leaves_run(locked: &LockedQueue<'_>, at: Cursor, kind: Kind) {
    // SAFETY: the caller's contract.
    let (before, behind) = unsafe { neighbours(locked, at) };
    // SAFETY: a neighbour in the list, or the end.
    let is_first = unsafe { kind_at(locked, before) } != Some(kind);
    // SAFETY: as above.
    let is_last = unsafe { kind_at(locked, behind) } != Some(kind);
    if is_first != is_last {
        // SAFETY: one end of a run of more than one; the neighbour within the run takes its place.
        let other = unsafe { end_of_run(locked, at) };
        let (first, last) = if is_first { (behind, other) } else { (other, before) };
        // SAFETY: both are in the list.
        unsafe { make_run(locked, first, last) };
    }
}

/// The waiters before and behind the cursor; the end where there is none.
///
/// SAFETY: the cursor is at a waiter in the list of this queue.
unsafe fn neighbours(locked: &LockedQueue<'_>, at: Cursor) -> (Cursor, Cursor) {
    let mut behind = at;
    // SAFETY: the caller's contract.
    unsafe { locked.advance(&mut behind) };
    // SAFETY: the caller's contract.
    (unsafe { locked.before(at) }, behind)
}

/// As [`LockedQueue::remove`]: the runs go on without the waiter, and two segments become one if it divided them.
///
/// SAFETY: as [`LockedQueue::remove`].
pub(super) unsafe fn remove(locked: &mut LockedQueue<'_>, waiter: Pinned<'_>) -> Removed {
    if waiter.get().state() == WaiterState::Notified {
        return Removed::AlreadyGranted;
    }
    let (at, kind) = (Cursor::of(waiter), Kind::of(waiter.get()));
    if !kind.stops_readers() {
        // SAFETY: not notified, so it is in the list (invariant 3 of the queue; a lock makes no snapshots).
        unsafe { leaves_run(locked, at, kind) };
        // SAFETY: the caller's contract.
        return unsafe { locked.remove(waiter) };
    }
    // SAFETY: as above, in the list.
    let (before, behind) = unsafe { neighbours(locked, at) };
    // SAFETY: the caller's contract.
    let removed = unsafe { locked.remove(waiter) };
    // SAFETY: in the list, or the end; what divided their segments is gone.
    unsafe { unite(locked, before, behind) };
    removed
}

/// Two segments become one: the first ends at `a_last`, the second begins at `b`.
///
/// SAFETY: both are at the end, or at neighbours in the list of this queue, which a waiter that stops readers divided until now.
unsafe fn unite(locked: &mut LockedQueue<'_>, a_last: Cursor, b: Cursor) {
    // SAFETY: the caller's contract.
    let kinds = unsafe { (kind_at(locked, a_last), kind_at(locked, b)) };
    match kinds {
        (Some(Kind::Read), Some(Kind::Read)) | (Some(Kind::Upgradable), Some(Kind::Upgradable)) => {
            // SAFETY: the last of a run and the first of one, of the same kind.
            unsafe { join_runs(locked, a_last, b) };
        }
        (Some(Kind::Upgradable), Some(Kind::Read)) => {
            // SAFETY: the last of a run.
            let a = unsafe { end_of_run(locked, a_last) };
            // SAFETY: the first of a run.
            let b_last = unsafe { end_of_run(locked, b) };
            // SAFETY: two runs, one behind the other.
            unsafe { locked.swap_runs(a, b, b_last) };
            // SAFETY: in the list now: readers, b, b_last, a, a_last, upgradable readers.
            let (before, behind) = unsafe { (locked.before(b), neighbours(locked, a_last).1) };
            // SAFETY: a neighbour in the list, or the end.
            if unsafe { kind_at(locked, before) } == Some(Kind::Read) {
                // SAFETY: as for two runs of one kind.
                unsafe { join_runs(locked, before, b) };
            }
            // SAFETY: as above.
            if unsafe { kind_at(locked, behind) } == Some(Kind::Upgradable) {
                // SAFETY: as for two runs of one kind.
                unsafe { join_runs(locked, a_last, behind) };
            }
        }
        _ => {}
    }
}

/// Two runs of one kind become one.
///
/// SAFETY: the last of a run and the first of another, which are neighbours in the list of this queue.
unsafe fn join_runs(locked: &LockedQueue<'_>, last: Cursor, first: Cursor) {
    // SAFETY: the caller's contract.
    let ends = unsafe { (end_of_run(locked, last), end_of_run(locked, first)) };
    // SAFETY: in the list.
    unsafe { make_run(locked, ends.0, ends.1) };
}

#[cfg(all(test, feature = "std"))]
pub(super) mod tests {
    use super::*;
    use crate::RwLock;
    use core::cell::Cell;
    use core::future::Future;
    use core::pin::Pin;
    use core::task::{Context, Waker};
    use std::boxed::Box;
    use std::vec::Vec;

    std::thread_local! {
        static LOOKS: Cell<usize> = const { Cell::new(0) };
    }

    /// A waiter was looked at.
    pub(in super::super) fn count_look() {
        LOOKS.with(|looks| looks.set(looks.get() + 1));
    }

    /// How many waiters were looked at.
    fn looks(f: impl FnOnce()) -> usize {
        let before = LOOKS.with(Cell::get);
        f();
        LOOKS.with(Cell::get) - before
    }

    trait Waiting: Future {
        fn kind(&self) -> Kind;
    }

    struct Wait<F>(Kind, Pin<Box<F>>);

    impl<F: Future> Future for Wait<F> {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> core::task::Poll<()> {
            self.1.as_mut().poll(cx).map(drop)
        }
    }

    impl<F: Future> Waiting for Wait<F> {
        fn kind(&self) -> Kind {
            self.0
        }
    }

    type Queued<'l> = Pin<Box<dyn Waiting<Output = ()> + 'l>>;

    /// Enqueues a wait of this kind.
    fn enqueue(lock: &RwLock<()>, kind: Kind) -> Queued<'_> {
        let mut wait: Queued<'_> = match kind {
            Kind::Read => Box::pin(Wait(kind, Box::pin(lock.read()))),
            Kind::Upgradable => Box::pin(Wait(kind, Box::pin(lock.upgradable_read()))),
            Kind::Write | Kind::Upgrade => Box::pin(Wait(kind, Box::pin(lock.write()))),
        };
        assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        wait
    }

    /// The kinds in the queue, after a check of the runs.
    fn queue(lock: &RwLock<()>) -> Vec<Kind> {
        let admission = lock.raw.lock();
        let locked = &admission.locked;
        let mut places = Vec::new();
        let mut at = locked.cursor_front();
        // SAFETY: from the first waiter on, and nothing changes the list.
        while let Some(waiter) = unsafe { locked.get(at) } {
            places.push((at, Kind::of(waiter)));
            // SAFETY: as above.
            unsafe { locked.advance(&mut at) };
        }
        for run in places.chunk_by(|a, b| a.1 == b.1).filter(|run| !run[0].1.stops_readers()) {
            let (first, last) = (run[0].0, run[run.len() - 1].0);
            // SAFETY: both are in the list.
            unsafe {
                assert!(end_of_run(locked, first) == last, "the first of a run leads to its last");
                assert!(end_of_run(locked, last) == first, "the last of a run leads to its first");
            }
        }
        places.into_iter().map(|(_, kind)| kind).collect()
    }

    /// What the queue must be: sorted between writers.
    fn sorted(waits: &[Queued<'_>]) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = waits.iter().map(|wait| wait.kind()).collect();
        for segment in kinds.split_mut(|kind| kind.stops_readers()) {
            segment.sort_by_key(|kind| *kind == Kind::Upgradable);
        }
        kinds
    }

    /// Waits come and go in any order: the queue has its form after each.
    #[test]
    fn segments_keep_their_form() {
        let mut random = 0x2545_F491_4F6C_DD1D_u64;
        let mut below = |n: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % n as u64) as usize
        };
        let lock = RwLock::new(());
        for _ in 0..if cfg!(miri) { 3 } else { 300 } {
            let holder = lock.try_write().unwrap();
            let mut waits: Vec<Queued<'_>> = Vec::new();
            for _ in 0..40 {
                if waits.is_empty() || below(5) < 3 {
                    let kinds = [Kind::Read, Kind::Upgradable, Kind::Write, Kind::Read, Kind::Upgradable];
                    waits.push(enqueue(&lock, kinds[below(5)]));
                } else {
                    waits.remove(below(waits.len()));
                }
                assert_eq!(queue(&lock), sorted(&waits));
            }
            drop(holder);
            // Everything that is granted now is let go in the order in which it came, or not at all.
            drop(waits);
            assert!(queue(&lock).is_empty() && lock.try_write().is_some());
        }
    }

    /// A release looks at what it grants, and at little more, wherever the upgradable readers are that it does not grant.
    #[test]
    fn a_grant_looks_at_what_it_grants() {
        let many = if cfg!(miri) { 50 } else { 1_000 };
        let shapes: [&dyn Fn(usize) -> Kind; 3] = [
            &|n| if n < many { Kind::Upgradable } else { Kind::Read },
            &|n| if n < many { Kind::Read } else { Kind::Upgradable },
            &|n| if n % 2 == 0 { Kind::Upgradable } else { Kind::Read },
        ];
        for shape in shapes {
            let lock = RwLock::new(());
            let holder = lock.try_write();
            let waits: Vec<_> = (0..2 * many).map(|n| enqueue(&lock, shape(n))).collect();
            let looked = looks(|| drop(holder));
            assert!(looked <= 4 * (many + 2), "{looked} looks for {many} readers and one upgradable reader");
            assert_eq!(queue(&lock).len(), many - 1, "only upgradable readers are left");
            // Each leaves as it came: no search either.
            let looked = looks(|| drop(waits));
            assert!(looked <= 2 * many * 8, "{looked} looks for {many} drops of each kind");
        }
    }

    /// A writer that goes frees the readers behind it: upgradable readers before it cost nothing.
    #[test]
    fn a_cancelled_writer_costs_what_it_frees() {
        let many = if cfg!(miri) { 50 } else { 1_000 };
        let lock = RwLock::new(());
        let holder = lock.try_upgradable_read();
        let upgradable: Vec<_> = (0..many).map(|_| enqueue(&lock, Kind::Upgradable)).collect();
        let writer = enqueue(&lock, Kind::Write);
        let readers: Vec<_> = (0..3).map(|_| enqueue(&lock, Kind::Read)).collect();
        let behind: Vec<_> = (0..many).map(|_| enqueue(&lock, Kind::Upgradable)).collect();
        let looked = looks(|| drop(writer));
        assert!(looked <= 32, "{looked} looks for three readers");
        assert_eq!(queue(&lock).len(), 2 * many);
        drop((holder, upgradable, readers, behind));
        assert!(lock.try_write().is_some());
    }
}
