//! A mutex whose owner has a key: a raw lock for runtimes, from which they make a mutex of their own. May change in a minor release; kept within one.
//!
//! A runtime says what a key is ([`Domain`]): an event loop, say. Every waiter carries the key of the place where it waits, and the release
//! that grants the lock stores the key of the new owner. So at every moment the lock is held the owner's key is known, before the owner has
//! run, and nothing has to be called for that. The future is [`Wait`], the guard is [`Guard`], as for every other lock.
//!
//! # States of the word
//!
//! | word          | meaning                          | `owner` |
//! |---------------|----------------------------------|---------|
//! | `0`           | free, no waiter                  | none    |
//! | `LOCKED`      | held or granted, no waiter       | its key |
//! | `head·LOCKED` | held or granted, the head waits  | its key |
//!
//! Each with `EDIT` while the queue is locked. There is no `head` alone.
//!
//! # Transitions
//!
//! | from          | event     | to                           | duty | fn |
//! |---------------|-----------|------------------------------|------|----|
//! | `0`           | lock, try | `LOCKED`, owner = the caller | none | [`KeyedRawMutex::try_lock`], [`KeyedRawMutex::enqueue_or_lock`] |
//! | `·LOCKED`     | lock      | waiter enqueued, with its key | return `Pending` | [`KeyedRawMutex::enqueue_or_lock`] |
//! | `LOCKED`      | unlock    | `0`, owner = none            | none | [`KeyedRawMutex::unlock`] |
//! | `head·LOCKED` | unlock    | head granted, owner = its key | wake it | [`KeyedRawMutex::unlock`] |
//! | any, `Waiting` | cancel   | waiter removed               | none | [`KeyedRawMutex::cancel`] |
//! | any, `Notified` | cancel  | as unlock                    | as unlock | [`KeyedLockOp`] |
//! | any           | poll where the key is another, or there is none | as cancel | return the error | [`KeyedLockOp`] |
//!
//! # Invariants
//! 1. With the queue unlocked: `LOCKED` is set exactly while a task owns the lock or has been granted it, and exactly then `owner` is not 0.
//! 2. `owner` is written under `EDIT` only.
//!
//! # Orderings
//! The protected value: Acquire of the queue's lock pairs with Release of its unlock, and a grant publishes through the waiter's state. `owner` is
//! Relaxed: written under `EDIT`, so that a thread which has seen `LOCKED` with Acquire ([`KeyedRawMutex::is_locked`]) sees the key too; and
//! compared by the owner, which wrote it or was granted it.

use crate::guard::{Exclusive, Guard, Holder, Narrow, sealed};
use crate::primitive_ref::PrimitiveRef;
use crate::probe::{LockMode, LockProbe, Site, Target};
use crate::queue::batch::while_unwinding;
use crate::queue::waiter::{Payload, clone_waker, drop_spare, drop_waker, wake_owner};
use crate::queue::word::{FLAG_A as LOCKED, Word};
use crate::queue::{LockedQueue, Pinned, QueueGuard as _, QueueWaker, Removed, WaitQueue};
use crate::shim::{AtomicUsize, Ordering, const_fn};
use crate::wait::{Op, Single, Wait, WaiterSlot};
use core::fmt;
use core::marker::PhantomData;
use core::num::NonZeroUsize;
use core::task::{Context, Poll};
use std::thread_local;

const FREE: Word = Word::flags(0);

/// Where a lock is held or waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(pub NonZeroUsize);

/// What the keys of a lock mean.
pub trait Domain {
    /// The calling thread is at no place of the domain, or at another than where its wait began.
    type Error;

    /// Where the calling thread is.
    fn here() -> Result<Key, Self::Error>;

    /// A wait is polled at another place than where it began.
    fn elsewhere() -> Self::Error;

    /// May a guard that was made with this key be dropped here, by the thread that it was made by?
    fn may_release(owner: Key) -> bool;
}

/// A mutex that is made of a [`KeyedRawMutex`] and a value.
///
/// # Safety
///
/// Both functions give the same each time, for as long as the mutex is borrowed. The value is reached in no other way while the lock is held.
pub unsafe trait KeyedMutex {
    /// What the lock guards.
    type Value: ?Sized;
    /// What its keys mean.
    type Domain: Domain;

    /// The lock.
    fn raw(&self) -> &KeyedRawMutex;

    /// The value.
    fn value(&self) -> *mut Self::Value;
}

/// A reference to a [`KeyedMutex`], borrowed or counted: `&M`, or an `Arc<M>`.
pub trait KeyedAccess:
    PrimitiveRef<Primitive: KeyedMutex<Value = Self::Value, Domain = Self::Domain>>
{
    /// What the lock guards.
    type Value: ?Sized;
    /// What its keys mean.
    type Domain: Domain;
}

impl<M: KeyedMutex + ?Sized, R: PrimitiveRef<Primitive = M>> KeyedAccess for R {
    type Value = M::Value;
    type Domain = M::Domain;
}

/// The lock without the value.
pub struct KeyedRawMutex {
    queue: WaitQueue,
    /// The key of the owner, 0 if there is none.
    owner: AtomicUsize,
    /// Where `inspect/` is active, which task holds it.
    probe: LockProbe,
}

/// Shows which task has it locked, as far as that is known.
impl fmt::Debug for KeyedRawMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_locked() { self.probe.shown().fmt(f) } else { f.write_str("<free>") }
    }
}

impl KeyedRawMutex {
    const_fn! {
        /// Creates a free lock.
        #[track_caller]
        pub const fn new() -> Self {
            Self { queue: WaitQueue::new(FREE), owner: AtomicUsize::new(0), probe: LockProbe::loop_mutex() }
        }
    }

    const_fn! {
        /// Gives the lock a name, which the reports of [`inspect`](crate::inspect) show.
        pub const fn rename(&mut self, name: &'static str) {
            self.probe.rename(name);
        }
    }

    /// Returns true if it is held, or granted to a waiter.
    pub fn is_locked(&self) -> bool {
        // Acquire: pairs with Release at the unlock of the queue, for `owner`.
        self.queue.load_with(Ordering::Acquire).has(LOCKED)
    }

    /// Returns the key of the task that holds it, or has been granted it. The answer may be outdated when it is returned.
    pub fn owner(&self) -> Option<Key> {
        // Relaxed: for information; see the module.
        NonZeroUsize::new(self.owner.load(Ordering::Relaxed)).map(Key)
    }

    fn set_owner(&self, _locked: &LockedQueue<'_>, owner: usize) {
        // Relaxed: published by the unlock of the queue.
        self.owner.store(owner, Ordering::Relaxed);
    }

    /// `0 => LOCKED`, under the lock of the queue.
    fn take(&self, locked: &mut LockedQueue<'_>, key: Key) {
        self.set_owner(locked, key.0.get());
        locked.set(LOCKED);
    }

    fn try_lock(&self, key: Key) -> bool {
        let word = self.queue.load();
        if word != FREE {
            return false;
        }
        let Some(mut locked) = self.queue.try_lock(word) else { return false };
        self.take(&mut locked, key);
        true
    }

    /// Enqueues, or takes the lock if it has become free.
    fn enqueue_or_lock(&self, key: Key, slot: WaiterSlot<'_>, waker: QueueWaker) -> Poll<()> {
        let mut locked = self.queue.lock();
        if locked.word().has(LOCKED) {
            locked.push_back(slot.init(waker, Payload::key(key.0.get())));
            return Poll::Pending;
        }
        self.take(&mut locked, key);
        drop(locked);
        drop_spare(waker, || {
            self.unlock();
        });
        Poll::Ready(())
    }

    fn poll_queued(&self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: it was enqueued here, and waiters of this lock are not moved.
        unsafe { self.queue.poll_queued(waiter, cx) }
    }

    /// Removes the waiter; true if the lock had been granted to it, which the caller then owns.
    fn cancel(&self, waiter: Pinned<'_>) -> bool {
        let mut locked = self.queue.lock();
        // SAFETY: it was enqueued here, and waiters of this lock are not moved.
        let Removed::Waker(waker) = (unsafe { locked.remove(waiter) }) else { return true };
        drop_waker(locked.unlock_with(waker));
        false
    }

    /// Releases the lock, for the owner; true if it was granted to a waiter.
    fn unlock(&self) -> bool {
        self.probe.clear();
        let mut locked = self.queue.lock();
        debug_assert!(locked.word().has(LOCKED), "unlock of a mutex that is not locked: {:?}", locked.word());
        let Some(next) = locked.front().map(|waiter| waiter.key()) else {
            self.set_owner(&locked, 0);
            locked.clear(LOCKED);
            return false;
        };
        self.set_owner(&locked, next);
        self.probe.grant(locked.front_note());
        // SAFETY: there is a waiter; this lock wakes none without a grant, so it is `Waiting`.
        let waker = unsafe { locked.grant_sleeping_front() };
        wake_owner(Some(locked.unlock_with(waker)));
        true
    }
}

impl Default for KeyedRawMutex {
    fn default() -> Self {
        Self::new()
    }
}

/// The future of a lock with a key. Not `Send`: it belongs to the place where it is polled.
pub type KeyedLock<A> = Wait<Single<KeyedLockOp<A>>>;

/// The guard of a lock with a key. Not `Send`: it is dropped where it was made.
pub type KeyedGuard<A> = Guard<Keyed<A>>;

/// The guard of a part of the value.
pub type MappedKeyedGuard<A, U> = Guard<KeyedPart<A, U>>;

/// Locks at the first poll. Gives [`Domain::Error`] off the domain, without a place in the queue; and where it is polled at another place than where it
/// was enqueued, whose place it then gives up.
///
/// # Cancel safety
///
/// A dropped future loses its place in the queue, never the lock.
#[track_caller]
pub fn keyed_lock<A: KeyedAccess>(access: A) -> KeyedLock<A> {
    Wait::new(KeyedLockOp { access: Some(access), key: None, site: Site::here(), _here: PhantomData })
}

/// Locks without waiting; `None` if it is held.
#[track_caller]
pub fn keyed_try_lock<A: KeyedAccess>(
    access: A,
) -> Result<Option<KeyedGuard<A>>, <A::Domain as Domain>::Error> {
    let (key, site) = (A::Domain::here()?, Site::here());
    Ok(access.primitive().raw().try_lock(key).then(|| Guard::new(Keyed::new(access, key, site))))
}

/// The operation of a [`KeyedLock`].
pub struct KeyedLockOp<A> {
    /// `None` when the guard has it, or when the wait was refused after it had been enqueued.
    access: Option<A>,
    /// Where it was enqueued.
    key: Option<Key>,
    site: Site,
    _here: PhantomData<*const ()>,
}

impl<A> fmt::Debug for KeyedLockOp<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyedLockOp")
    }
}

impl<A: KeyedAccess> KeyedLockOp<A> {
    fn raw(&self) -> &KeyedRawMutex {
        self.access.as_ref().expect("the access is here until the guard takes it").primitive().raw()
    }

    fn guard(&mut self, key: Key) -> KeyedGuard<A> {
        let access = self.access.take().expect("the access is here until the guard takes it");
        Guard::new(Keyed::new(access, key, self.site))
    }
}

impl<A: KeyedAccess> Op for KeyedLockOp<A> {
    type Output = Result<KeyedGuard<A>, <A::Domain as Domain>::Error>;
    type Unfinished<E> = E;
    const NAME: &'static str = "tasuki::runtime::KeyedLock";

    fn try_now(&mut self) -> Option<Self::Output> {
        match A::Domain::here() {
            Ok(key) => self.raw().try_lock(key).then(|| Ok(self.guard(key))),
            Err(error) => Some(Err(error)),
        }
    }

    fn is_ready(&self) -> bool {
        A::Domain::here().is_err() || self.raw().queue.load_settled() == FREE
    }

    fn target(&self) -> Target<'_> {
        Target::lock(&self.raw().probe, LockMode::Exclusive)
    }

    fn enqueue(&mut self, slot: WaiterSlot<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let key = match A::Domain::here() {
            Ok(key) => key,
            Err(error) => return Poll::Ready(Err(error)),
        };
        self.key = Some(key);
        let waker = clone_waker(cx.waker());
        self.raw().enqueue_or_lock(key, slot, waker).map(|()| Ok(self.guard(key)))
    }

    fn poll_queued(&mut self, waiter: Pinned<'_>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let here = A::Domain::here();
        let key = here.as_ref().ok().copied().filter(|key| self.key == Some(*key) && self.access.is_some());
        if let Some(key) = key {
            return self.raw().poll_queued(waiter, cx).map(|()| Ok(self.guard(key)));
        }
        // Taken out first: if a waker panics below, the drop of the future has nothing left to cancel or to release.
        if let Some(access) = self.access.take() {
            if access.primitive().raw().cancel(waiter) {
                access.primitive().raw().unlock();
            }
        }
        Poll::Ready(Err(here.err().unwrap_or_else(A::Domain::elsewhere)))
    }

    fn cancel(&mut self, waiter: Pinned<'_>) -> Option<Self::Output> {
        let access = self.access.as_ref()?;
        let key = self.key.expect("a queued wait has a key");
        access.primitive().raw().cancel(waiter).then(|| Ok(self.guard(key)))
    }

    fn unfinished<E>(&mut self, limit: E) -> E {
        limit
    }

    fn discard(&mut self, output: Self::Output) {
        if let Ok(guard) = output {
            // Wherever that is: what was granted and not claimed has been at no place.
            guard.into_holder().access.primitive().raw().unlock();
        }
    }
}

/// What a guard of a lock with a key holds.
#[doc(hidden)]
pub struct Keyed<A: KeyedAccess> {
    access: A,
    key: Key,
    /// The thread that made it.
    thread: usize,
    _here: PhantomData<*const ()>,
}

thread_local! {
    static THREAD: u8 = const { 0 };
}

/// A number that no other thread has, while this one lives.
fn this_thread() -> usize {
    THREAD.try_with(|thread| (&raw const *thread).addr()).unwrap_or(0)
}

impl<A: KeyedAccess> Keyed<A> {
    fn new(access: A, key: Key, site: Site) -> Self {
        access.primitive().raw().probe.set(site);
        Self { access, key, thread: this_thread(), _here: PhantomData }
    }

    /// Releases the lock, if it may be released here; else it stays locked. In safe code the thread is the one that took it.
    #[track_caller]
    fn release(&self) -> bool {
        if self.thread != this_thread() || !A::Domain::may_release(self.key) {
            // A task that panics drops its guards too: a second panic would end the process.
            while_unwinding(|| refused());
            return false;
        }
        self.access.primitive().raw().unlock()
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn refused() -> ! {
    panic!("a mutex with an owner is unlocked elsewhere: keep the guard where it was taken")
}

impl<A: KeyedAccess> fmt::Debug for Keyed<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keyed")
    }
}

impl<A: KeyedAccess> sealed::Sealed for Keyed<A> {}

// SAFETY: made only by the owner of the lock, which excludes all others; the access outlives the release.
unsafe impl<A: KeyedAccess> Holder for Keyed<A> {
    type Target = A::Value;

    fn value(&self) -> *mut A::Value {
        self.access.primitive().value()
    }

    fn release(&self) -> bool {
        self.release()
    }

    #[inline(always)]
    fn touch(&self) {
        self.access.primitive().raw().probe.touch();
    }
}

// SAFETY: one owner at a time.
unsafe impl<A: KeyedAccess> Exclusive for Keyed<A> {}

/// What a guard of a part holds.
#[doc(hidden)]
pub struct KeyedPart<A: KeyedAccess, U: ?Sized> {
    whole: Keyed<A>,
    part: *mut U,
}

impl<A: KeyedAccess, U: ?Sized> fmt::Debug for KeyedPart<A, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyedPart")
    }
}

impl<A: KeyedAccess, U: ?Sized> sealed::Sealed for KeyedPart<A, U> {}

// SAFETY: made from a guard, whose lock it keeps; the part was borrowed from its value.
unsafe impl<A: KeyedAccess, U: ?Sized> Holder for KeyedPart<A, U> {
    type Target = U;

    fn value(&self) -> *mut U {
        self.part
    }

    fn release(&self) -> bool {
        self.whole.release()
    }

    #[inline(always)]
    fn touch(&self) {
        self.whole.touch();
    }
}

// SAFETY: one owner at a time.
unsafe impl<A: KeyedAccess, U: ?Sized> Exclusive for KeyedPart<A, U> {}

// SAFETY: the part keeps the lock until it is released.
unsafe impl<A: KeyedAccess> Narrow for Keyed<A> {
    type Narrowed<U: ?Sized> = KeyedPart<A, U>;

    fn narrow<U: ?Sized>(self, part: *mut U) -> KeyedPart<A, U> {
        KeyedPart { whole: self, part }
    }
}

// SAFETY: as above.
unsafe impl<A: KeyedAccess, V: ?Sized> Narrow for KeyedPart<A, V> {
    type Narrowed<U: ?Sized> = KeyedPart<A, U>;

    fn narrow<U: ?Sized>(self, part: *mut U) -> KeyedPart<A, U> {
        KeyedPart { whole: self.whole, part }
    }
}
