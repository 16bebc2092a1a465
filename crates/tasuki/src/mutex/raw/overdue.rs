//! Grants that their task does not claim: the second half of the policy [`Revocable`].
//!
//! `revoke.rs` lets another future of the same task take over an unclaimed grant. If the task never asks for the lock again, the grant would stay unclaimed for ever, and all *other* tasks would wait for it. So a runtime that knows its
//! tasks says when a poll has ended ([`poll_ended`]). A grant that is unclaimed at the end of a poll is noted, and the task is woken once. If it is still unclaimed at the end of the next poll, which
//! began after the grant, it is revoked: the lock is granted to the next waiter, or is free. A task that has ended can claim nothing any more: it is said, too ([`task_ended`]), and its grants are revoked
//! at once. A future that was granted, and outlives its task, competes again when another task polls it, as any that was revoked.
//!
//! ```text
//!   UNCLAIMED                      Arc<Mutex>                         Arc<Mutex>
//!  +---------------------+        +-----------------------------+    +-----------------------------+
//!  | task % 256 | tree --+------->| record: task, links --------+--->| record: task, links         |      each locks its own queue,
//!  +---------------------+        | queue: a·LOCKED·WOKEN       |    | queue: c·LOCKED·WOKEN       |      and holds an unclaimed grant
//!  | ...                 |        +-----------------------------+    +-----------------------------+
//! ```
//!
//! # After a fork
//! The child has the table of its parent, in which a thread that is not there may have locked a bucket. It clears the table before it first locks one ([`lock_bucket`]). A grant that was made before the fork is not in it: it is claimed or cancelled
//! as ever, and not revoked by the end of a poll. (With the feature `critical-section` a child must not be forked while another thread is in a section: which of them the child can enter is the platform's matter.)
//!
//! # Why only locks in an `Arc`
//! A future that borrows its mutex may be forgotten (`mem::forget`). That ends the borrow without running any code of ours: the mutex may be moved or dropped while the granted waiter is still in its list. So no table may keep a pointer to a
//! borrowed mutex. A forgotten future of `lock_owned` has forgotten an `Arc` as well, so its mutex stays where it is.
//!
//! # States of a record
//!
//! | `task` | in the tree of the task's bucket (`grant_tree.rs`) | the lock |
//! |---|---|---|
//! | 0 | no | not granted, or claimed, or granted to a future that is not watched |
//! | number | yes: new, or left over | granted to a watched future of this task, and not claimed |
//!
//! | from | event | to | fn |
//! |---|---|---|---|
//! | not linked | grant to a watched waiter | new | [`RawMutex::watch_grant`] |
//! | new | end of a poll of the task | left over; the task is woken | [`GrantTree::end_poll`] |
//! | new, left over | claim, cancel, revocation by a sibling | not linked | [`RawMutex::unwatch_grant`] |
//! | left over | end of the next poll | not linked; revoked, the next waiter is granted or the lock is free | [`revoke_one`] |
//! | left over | the same, and another thread has locked the queue | left over; the task is woken | [`GrantTree::spare_first`] |
//! | new, left over | end of the task | not linked; revoked, the next waiter is granted or the lock is free | [`task_ended`] |
//! | new, left over | end of the task, and another thread has locked the queue | the same; tried again | [`task_ended`] |
//!
//! # Invariants
//! O1. A linked record is in a mutex in an `Arc`, which the granted future keeps: a record is linked only for a waiter whose mark says so, and unlinked before that waiter can leave (both under `EDIT` of the mutex).
//! O2. `task`, `process` and `spins` are written under `EDIT` of the mutex, and only while the record is in no bucket or its bucket is locked, too; so the holder of either lock may read them. All else in it belongs to
//!     the holder of the bucket's lock.
//! O3. The order of locks is `EDIT` of a mutex, then a bucket. [`revoke_one`] has the bucket first; it only tries `EDIT`, once: if that fails another thread claims, cancels or enqueues, and the end of the next poll tries again; the end of a task, which has no next poll, lets go of the bucket and tries until the record is gone. With both it unlinks the record and lets go of the
//!     bucket; the mutex stays until `EDIT` is cleared, because the future that was granted needs `EDIT` to leave. After that store nothing of it is touched.
//! O4. Wakers are called with neither.
//!
//! # Orderings
//! Both locks are queue locks. Release in [`clear_table`] pairs with Acquire in [`lock_bucket`]: the table that was cleared. The look of [`poll_ended`] at the bucket is Relaxed: a poll that a grant's wake has caused comes after the grant, whose record was linked before; an
//! earlier one may miss it, because that wake is still to come. The look of [`task_ended`] may miss a grant that another thread makes at the same moment, as one that it makes later: see *What is not revoked* there.

use super::grant_tree::GrantTree;
use super::{LOCKED, RawMutex};
use crate::policy::{Policy, Revocable};
use crate::probe::foreign_code;
use crate::process_id;
use crate::queue::batch::Panics;
use crate::queue::queue_lock::{QueueLock, QueueLockGuard};
use crate::queue::waiter::wake_owner;
use crate::queue::word::FLAG_A as HAS_GRANTS;
use crate::queue::{Deferred, LockedQueue, QueueGuard as _, QueueWaker};
use crate::shim::{MODEL, Section, static_array, yield_thread};
use crate::task::TaskId;
use core::mem::offset_of;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::Waker;

pub(crate) use super::grant_tree::UnclaimedGrant;

/// A power of two: few enough to be small, and more than there usually are grants on their way.
pub(super) const BUCKETS: usize = if MODEL { 1 } else { 256 };

static_array! {
    /// The unclaimed grants of watched futures, by the number of their task.
    static UNCLAIMED: [QueueLock<GrantTree>; BUCKETS] = QueueLock::new(GrantTree::EMPTY);
}

fn bucket(task: usize) -> &'static QueueLock<GrantTree> {
    &UNCLAIMED[task & (BUCKETS - 1)]
}

/// The process whose grants the table has; 0 before the first. This and the next are not those of the model checker, which does not fork.
static TABLE_OF: AtomicU32 = AtomicU32::new(0);
/// The process that has cleared the table, or is about to.
static CLEARED_BY: AtomicU32 = AtomicU32::new(0);

fn this_process() -> u32 {
    if MODEL { 0 } else { process_id::id() }
}

/// Locks the bucket of a task. The child of a fork clears the table first: a thread of its parent, which is not here, may have locked the bucket, and what is linked in it is the parent's.
fn lock_bucket(task: usize) -> QueueLockGuard<'static, GrantTree> {
    let process = this_process();
    // Acquire: pairs with Release in `clear_table`. mutant: survives: no model forks.
    if TABLE_OF.load(Ordering::Acquire) != process {
        clear_table(process);
    }
    bucket(task).lock()
}

/// The first thread of a process clears the table; others wait until it has.
#[cold]
fn clear_table(process: u32) {
    // Around all of it: an interrupt handler would wait for the code that it has interrupted.
    let _section = Section::enter();
    // Relaxed: which thread is the first; the table is published by `TABLE_OF`.
    if CLEARED_BY.swap(process, Ordering::Relaxed) == process {
        // Acquire: as in `lock_bucket`. mutant: survives: no model forks.
        while TABLE_OF.load(Ordering::Acquire) != process {
            yield_thread();
        }
        return;
    }
    for bucket in UNCLAIMED.iter() {
        // SAFETY: the other threads of this process wait, here or in `lock_bucket`, until it is done; those of its parent are not here.
        unsafe { bucket.reset(GrantTree::EMPTY) };
    }
    // Release: pairs with Acquire in `lock_bucket`. mutant: survives: no model forks.
    TABLE_OF.store(process, Ordering::Release);
}

/// The queue of the lock was locked by another thread.
struct Busy;

/// Says that a poll of this task has ended, without having ended the task. Grants that the task has left unclaimed over a whole poll are revoked; for one that it has left unclaimed for the
/// first time it is woken by `waker`.
///
/// For runtimes, at the end of each poll. It costs one load, unless a task of the same bucket has an unclaimed grant of a `Revocable` mutex.
#[inline]
pub fn poll_ended(task: TaskId, waker: &Waker) {
    let task = task.get() as usize;
    if bucket(task).look().has(HAS_GRANTS) {
        look_at_grants(task, waker);
    }
}

/// Says that this task has ended, and its future is dropped: ready, by a panic, aborted or dropped. All grants that it has not claimed are revoked.
///
/// For runtimes, at the end of each task. It costs one load, unless a task of the same bucket has an unclaimed grant of a `Revocable` mutex.
///
/// # What is not revoked
///
/// A grant that comes later, to a future that the task has left behind in the queue: no table of ended tasks is kept. Such a future is to be polled by another task, or dropped.
#[inline]
pub fn task_ended(task: TaskId) {
    let task = task.get() as usize;
    if bucket(task).look().has(HAS_GRANTS) {
        revoke_all(task);
    }
}

/// How often the end of a task tries again what another thread has locked. Without end: that one holds `EDIT` for a few instructions. Loom is not fair to two threads that yield to each other, so its executions would not
/// end; in the models the other thread claims or cancels, which ends the grant as well.
const MAX_TRIES: usize = if MODEL { 2 } else { usize::MAX };

/// Also what is granted meanwhile to another future of the task. A waker that panics does not keep the rest from being revoked.
#[cold]
#[inline(never)]
fn revoke_all(task: usize) {
    let (mut tries, mut panics) = (0, Panics::default());
    while let Some(revoked) = revoke_one(task, GrantTree::first) {
        match revoked {
            Ok(owner) => panics.catch(|| wake_owner(owner)),
            Err(Busy) if tries < MAX_TRIES => {
                tries += 1;
                yield_thread();
            }
            Err(Busy) => break,
        }
    }
    panics.resume();
}

/// A waker that panics keeps neither the other grants from being revoked nor the task from being woken: no other poll of it may come.
#[cold]
#[inline(never)]
fn look_at_grants(task: usize, waker: &Waker) {
    let (mut is_left, mut panics) = (false, Panics::default());
    while let Some(revoked) = revoke_one(task, GrantTree::left_over) {
        match revoked {
            Ok(owner) => panics.catch(|| wake_owner(owner)),
            Err(Busy) => is_left = true,
        }
    }
    // Afterwards: the next waiter may be of the same task, in a set of futures that is not polled and therefore wakes it only once.
    let has_new = lock_bucket(task).value().end_poll(task);
    if has_new || is_left {
        foreign_code();
        panics.catch(|| waker.wake_by_ref());
    }
    panics.resume();
}

/// Revokes the first grant of the task, if `find` gives it; `None` if it gives none.
fn revoke_one(
    task: usize,
    find: impl Fn(&GrantTree, usize) -> Option<NonNull<UnclaimedGrant>>,
) -> Option<Result<Option<QueueWaker>, Busy>> {
    // Around the bucket, which is unlocked before the mutex: sections nest.
    let section = Section::enter();
    let mut locked = lock_bucket(task);
    let grant = find(locked.value(), task)?;
    // If it stays, because its queue is locked, it is left over again at the end of the next poll.
    locked.value().spare_first(task);
    // SAFETY: linked in the tree, which is locked.
    let spins = unsafe { grant.as_ref() }.spins.get();
    // SAFETY: it is linked in the locked bucket, and `watch_grant` noted which of the two types of locks it is in.
    Some(unsafe {
        if spins {
            revoke_overdue::<Revocable<true>>(grant, section, locked)
        } else {
            revoke_overdue::<Revocable<false>>(grant, section, locked)
        }
    })
}

/// Revokes the grant of a lock, and grants it to the next waiter. The section was entered before the bucket was locked.
///
/// SAFETY: the record is linked in the locked bucket, and in a `RawMutex<P>`.
unsafe fn revoke_overdue<P: Policy>(
    grant: NonNull<UnclaimedGrant>,
    section: Section,
    mut bucket: QueueLockGuard<'static, GrantTree>,
) -> Result<Option<QueueWaker>, Busy> {
    // SAFETY: the pointer is that of `watch_grant`: valid for the whole mutex, in which the record is a field.
    let lock = unsafe { grant.as_ptr().byte_sub(offset_of!(RawMutex<P>, record)) }.cast::<RawMutex<P>>();
    // Not an argument of this function, nor of one that unlocks the queue: with the last store it may be gone.
    // SAFETY: O1: the record is linked, so the mutex is there.
    let mutex = unsafe { &*lock };
    let mut locked = mutex.queue.try_lock(mutex.queue.load()).ok_or(Busy)?;
    locked.extend_section(section);
    mutex.unlink_grant(&mut bucket);
    drop(bucket);
    mutex.revoke(&mut locked);
    let next = mutex.pass_on(&mut locked);
    Ok(locked.unlock_with(next))
}

/// Changes a bucket; the word of its lock then says whether there is a record.
fn edit_bucket(locked: &mut QueueLockGuard<'static, GrantTree>, edit: impl FnOnce(&mut GrantTree)) {
    let (word, tree) = locked.parts();
    edit(tree);
    if tree.is_empty() {
        word.clear(HAS_GRANTS);
    } else {
        word.set(HAS_GRANTS);
    }
}

impl<P: Policy> RawMutex<P> {
    /// The lock was granted to a watched future of this task. Called under `EDIT`.
    #[inline]
    pub(super) fn watch_grant(&self, task: usize) {
        let Some(grant) = P::grant_record(&self.record) else { return };
        debug_assert_eq!(grant.task.get(), 0, "one grant at a time");
        grant.task.set(task);
        grant.spins.set(P::SPIN);
        grant.process.set(this_process());
        let grant = self.grant_pointer();
        // SAFETY: its task was 0, so it was in no bucket; O1.
        edit_bucket(&mut lock_bucket(task), |tree| unsafe { tree.link(grant) });
    }

    /// The record, by a pointer that is valid for the whole mutex.
    fn grant_pointer(&self) -> NonNull<UnclaimedGrant> {
        // SAFETY: a field of the mutex.
        unsafe { NonNull::from(self).byte_add(offset_of!(Self, record)) }.cast()
    }

    /// The grant is claimed, or revoked. Called under `EDIT`.
    #[inline(always)]
    pub(super) fn unwatch_grant(&self) {
        if P::grant_record(&self.record).is_some_and(|grant| grant.task.get() != 0) {
            self.unlink_watched();
        }
    }

    #[cold]
    #[inline(never)]
    fn unlink_watched(&self) {
        let Some(grant) = P::grant_record(&self.record) else { return };
        if grant.process.get() == this_process() {
            self.unlink_grant(&mut lock_bucket(grant.task.get()));
        } else {
            // In the child of a fork: it was linked in the parent's table.
            grant.task.set(0);
        }
    }

    /// Out of the bucket, which is that of the record's task. Called under `EDIT`.
    fn unlink_grant(&self, locked: &mut QueueLockGuard<'static, GrantTree>) {
        let Some(grant) = P::grant_record(&self.record) else { return };
        // SAFETY: its task is not 0, so it is in this bucket.
        edit_bucket(locked, |tree| unsafe { tree.unlink(self.grant_pointer()) });
        grant.task.set(0);
    }

    /// A grant was revoked, and the lock is not for the caller: the next waiter is granted, or it is free.
    fn pass_on(&self, locked: &mut LockedQueue<'_>) -> Deferred<Option<QueueWaker>> {
        if !locked.has_waiters() {
            locked.clear(LOCKED);
            return Deferred::none();
        }
        self.probe.grant(locked.front_note());
        // SAFETY: there is a waiter, asked above.
        unsafe { self.grant_revocably(locked) }
    }
}

// With the feature `critical-section` the other thread is in a section of the platform, which the child could not enter.
#[cfg(all(test, target_os = "linux", not(any(miri, feature = "critical-section"))))]
mod tests {
    use super::{bucket, lock_bucket};
    use crate::Mutex;
    use crate::fork_child::{alone, in_child};
    use crate::policy::Revocable;
    use crate::task;
    use alloc::sync::Arc;
    use core::future::{Future as _, poll_fn};
    use core::pin::pin;
    use core::task::{Context, Poll, Waker};
    use std::sync::mpsc;
    use std::thread;

    /// A fork while another thread holds the lock of a bucket: the child grants and claims locks of its own, and one that was granted before, without that lock.
    #[test]
    fn a_child_does_not_wait_for_a_bucket_of_its_parent() {
        // The emulator of CI (qemu) ends the child of a fork in which a thread is started, by an assertion of its own, and a wait that is noted starts one.
        if std::env::var_os("TASUKI_RUNNER").is_some() {
            return std::eprintln!("NOT RUN: the emulator cannot start a thread in the child of a fork");
        }
        alone(|| {
            let (inherited, own) =
                [(), ()].map(|()| Arc::new(Mutex::<u32, Revocable>::with_policy(0))).into();
            let mut cx = Context::from_waker(Waker::noop());
            let kept = inherited.try_lock();
            let mut granted = pin!(inherited.clone().lock_owned());
            let mut task = pin!(task::identify(poll_fn(|cx| {
                assert!(granted.as_mut().poll(cx).is_pending());
                Poll::<()>::Pending
            })));
            let number = task.id().get() as usize;
            assert!(task.as_mut().poll(&mut cx).is_pending());
            drop(kept);
            let (is_locked, until_locked) = mpsc::channel();
            let (forked, until_forked) = mpsc::channel();
            let holder = thread::spawn(move || {
                let locked = lock_bucket(number);
                is_locked.send(()).unwrap();
                until_forked.recv().unwrap();
                drop(locked);
            });
            until_locked.recv().unwrap();
            let is_right = in_child(|| granted.as_mut().poll(&mut cx).is_ready() && hands_over(&own, number));
            forked.send(()).unwrap();
            holder.join().unwrap();
            assert!(is_right, "the child hung, or did not get its lock");
            assert!(granted.as_mut().poll(&mut cx).is_ready(), "the parent has its own");
        });
    }

    /// A task whose grants are in the same bucket waits for a lock and claims it.
    fn hands_over(mutex: &Arc<Mutex<u32, Revocable>>, number: usize) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let is_same = |id: task::TaskId| core::ptr::eq(bucket(id.get() as usize), bucket(number));
        let Some(kept) = mutex.try_lock() else { return false };
        loop {
            let mut task = pin!(task::identify(mutex.clone().lock_owned()));
            if is_same(task.id()) {
                let waits = task.as_mut().poll(&mut cx).is_pending();
                drop(kept);
                return waits && task.as_mut().poll(&mut cx).is_ready();
            }
        }
    }
}
