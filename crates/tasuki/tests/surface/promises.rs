//! What every type promises beside its methods, as tables: unwind safety as std's, variance as std's, and panics that name the
//! caller's file.

use crate::kit::driver::FakeDriver;
use crate::kit::panics::panics_in;
use crate::kit::poll::poll_with;
use crate::kit::sources;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, Mutex as StdMutex};
use std::task::Waker;
use tasuki::runtime::{KeyedGuard, MappedKeyedGuard};
use tasuki::{
    Barrier, CancellationSource, CancellationToken, Condvar, Event, Latch, MappedMutexGuard,
    MappedRwLockReadGuard, MappedRwLockWriteGuard, Mutex, MutexGuard, OnceCell, OwnedMappedMutexGuard,
    OwnedMappedRwLockReadGuard, OwnedMappedRwLockWriteGuard, OwnedMutexGuard, OwnedReentrantMutexGuard,
    OwnedRwLockReadGuard, OwnedRwLockUpgradableReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit,
    OwnedWaitGroupMember, Parker, ReentrantMutex, ReentrantMutexGuard, RwLock, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard, Semaphore, SemaphorePermit, Unparker, WaitGroup,
    WaitGroupMember, channel, runtime,
};

/// Whether a type is `UnwindSafe` and `RefUnwindSafe`. Inherent methods come before those of the trait.
macro_rules! unwind {
    ($type:ty) => {{
        struct Asked<T: ?Sized>(std::marker::PhantomData<T>);
        #[allow(dead_code, reason = "one of each pair is used")]
        trait No {
            fn unwind(&self) -> bool {
                false
            }
            fn ref_unwind(&self) -> bool {
                false
            }
        }
        impl<T: ?Sized> No for Asked<T> {}
        #[allow(dead_code, reason = "one of each pair is used")]
        impl<T: ?Sized + UnwindSafe> Asked<T> {
            fn unwind(&self) -> bool {
                true
            }
        }
        #[allow(dead_code, reason = "one of each pair is used")]
        impl<T: ?Sized + RefUnwindSafe> Asked<T> {
            fn ref_unwind(&self) -> bool {
                true
            }
        }
        let asked = Asked::<$type>(std::marker::PhantomData);
        (asked.unwind(), asked.ref_unwind())
    }};
}

/// Something that a panic may leave half changed.
type Fragile = Cell<u8>;

/// What std has, ours has too: a value behind a lock may be seen after a panic, as with std.
#[test]
fn unwind_safety_is_that_of_std() {
    let std_mutex = unwind!(StdMutex<Fragile>);
    assert_eq!(std_mutex, (true, true));
    assert_eq!(unwind!(Mutex<Fragile>), std_mutex);
    assert_eq!(unwind!(RwLock<Fragile>), unwind!(std::sync::RwLock<Fragile>));
    let std_guard = unwind!(std::sync::MutexGuard<'static, Fragile>);
    assert_eq!(std_guard, (true, true));
    assert_eq!(unwind!(MutexGuard<'static, Fragile>), std_guard);
    assert_eq!(unwind!(OwnedMutexGuard<Fragile>), std_guard);
    let write = unwind!(std::sync::RwLockWriteGuard<'static, Fragile>);
    assert_eq!(write, (true, true));
    assert_eq!(unwind!(RwLockWriteGuard<'static, Fragile>), write);
    assert_eq!(unwind!(OwnedRwLockWriteGuard<Fragile>), write);
    assert_eq!(unwind!(RwLockUpgradableReadGuard<'static, Fragile>), write);
    assert_eq!(unwind!(OwnedRwLockUpgradableReadGuard<Fragile>), write);
    let read = unwind!(std::sync::RwLockReadGuard<'static, u8>);
    assert_eq!(read, (true, true));
    assert_eq!(unwind!(RwLockReadGuard<'static, u8>), read);
    assert_eq!(unwind!(OwnedRwLockReadGuard<u8>), read);
    // As references to the part.
    assert_eq!(unwind!(MappedMutexGuard<'static, u8>), (true, true));
    assert_eq!(unwind!(OwnedMappedMutexGuard<Fragile, u8>), (true, true));
    assert_eq!(unwind!(MappedRwLockReadGuard<'static, u8>), (true, true));
    assert_eq!(unwind!(MappedRwLockWriteGuard<'static, u8>), (true, true));
    assert_eq!(unwind!(OwnedMappedRwLockReadGuard<Fragile, u8>), (true, true));
    assert_eq!(unwind!(OwnedMappedRwLockWriteGuard<Fragile, u8>), (true, true));
    // As `OnceLock` and `ReentrantLock`: they give references to the value.
    assert_eq!(unwind!(OnceCell<u8>), unwind!(std::sync::OnceLock<u8>));
    assert_eq!(unwind!(OnceCell<u8>), (true, true));
    assert!(!unwind!(OnceCell<Fragile>).1 && !unwind!(ReentrantMutex<Fragile>).1);
    assert_eq!(unwind!(ReentrantMutex<u8>), (true, true));
    assert_eq!(unwind!(ReentrantMutexGuard<'static, u8>), (true, true));
    assert_eq!(unwind!(OwnedReentrantMutexGuard<u8>), (true, true));
}

#[test]
fn what_has_no_value_is_safe() {
    macro_rules! safe {
        ($($type:ty),* $(,)?) => {
            $(assert_eq!(unwind!($type), (true, true), stringify!($type));)*
        };
    }
    safe![
        Barrier,
        Condvar,
        Event,
        Latch,
        Semaphore,
        SemaphorePermit<'static>,
        OwnedSemaphorePermit,
        WaitGroup,
        WaitGroupMember<'static>,
        OwnedWaitGroupMember,
        CancellationSource,
        CancellationToken,
        Unparker,
    ];
    assert!(unwind!(Parker).0);
}

/// A guard stands for one of a shorter borrow. These functions compile, or do not.
#[allow(dead_code, reason = "that they compile is the test")]
mod covariant {
    use super::*;

    macro_rules! shortens {
        ($($name:ident: $guard:ident<$($value:ty)?>;)*) => {
            $(pub(super) fn $name<'short, 'long: 'short>(
                guard: $guard<'long $(, $value)?>,
            ) -> $guard<'short $(, $value)?> {
                guard
            })*
            pub(super) const GUARDS: &[&str] = &[$(stringify!($guard)),*];
        };
    }
    /// A guard that only reads also stands for one whose value is borrowed for less long.
    macro_rules! shortens_value {
        ($($name:ident: $guard:ident<$first:tt>;)*) => {
            $(pub(super) fn $name<'a, 'short, 'long: 'short>(
                guard: $guard<$first, &'long str>,
                _: &'a (),
            ) -> $guard<$first, &'short str> {
                guard
            })*
            pub(super) const READERS: &[&str] = &[$(stringify!($guard)),*];
        };
    }
    shortens_value! {
        read_value: RwLockReadGuard<'a>;
        mapped_read_value: MappedRwLockReadGuard<'a>;
        owned_mapped_read_value: OwnedMappedRwLockReadGuard<u8>;
        reentrant_value: ReentrantMutexGuard<'a>;
    }

    pub(super) fn keyed<'short, 'long: 'short, M: runtime::KeyedMutex>(
        guard: KeyedGuard<&'long M>,
    ) -> KeyedGuard<&'short M> {
        guard
    }

    pub(super) fn keyed_part<'short, 'long: 'short, M: runtime::KeyedMutex, U>(
        guard: MappedKeyedGuard<&'long M, U>,
    ) -> MappedKeyedGuard<&'short M, U> {
        guard
    }

    shortens! {
        mutex: MutexGuard<u8>;
        mapped_mutex: MappedMutexGuard<u8>;
        read: RwLockReadGuard<u8>;
        write: RwLockWriteGuard<u8>;
        upgradable: RwLockUpgradableReadGuard<u8>;
        mapped_read: MappedRwLockReadGuard<u8>;
        mapped_write: MappedRwLockWriteGuard<u8>;
        reentrant: ReentrantMutexGuard<u8>;
        permit: SemaphorePermit<>;
        member: WaitGroupMember<>;
    }
}

/// Every guard there is is in one of the tables above, or borrows nothing. That those which write are invariant in their value is in
/// `compile_fail.md`, which names each of them.
#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn every_guard_has_its_variance() {
    let is_guard = |name: &String| ["Guard", "Permit", "Member"].iter().any(|end| name.ends_with(end));
    let guards: BTreeSet<String> = sources::public_types().into_iter().filter(is_guard).collect();
    let owned = [
        "OwnedMutexGuard",
        "OwnedMappedMutexGuard",
        "OwnedRwLockReadGuard",
        "OwnedRwLockWriteGuard",
        "OwnedRwLockUpgradableReadGuard",
        "OwnedMappedRwLockReadGuard",
        "OwnedMappedRwLockWriteGuard",
        "OwnedReentrantMutexGuard",
        "OwnedPermit",
        "OwnedSemaphorePermit",
        "OwnedWaitGroupMember",
        "DropGuard",
    ];
    // All are one of these two, over what is held.
    let generic = ["Guard", "Permit"];
    let rows = covariant::GUARDS.iter().copied().chain(["KeyedGuard", "MappedKeyedGuard"]);
    sources::same(&guards, rows.chain(owned).chain(generic));
    let readers = guards.iter().filter(|name| name.contains("Read") && !name.contains("Upgradable"));
    // An `Arc` of the lock is invariant in its value.
    let readers = readers.filter(|name| *name != "OwnedRwLockReadGuard").cloned();
    let readers = readers.chain(["ReentrantMutexGuard".to_owned()]);
    sources::same(&readers.collect(), covariant::READERS.iter().copied());
    let refused = include_str!("../compile_fail.md");
    for guard in &guards {
        let writes =
            !["Read", "Reentrant", "Permit", "Member", "Keyed"].iter().any(|kind| guard.contains(kind));
        let writes = writes || guard.contains("Upgradable") || guard == "OwnedRwLockReadGuard";
        if writes && guard != "DropGuard" && guard != "Guard" {
            assert!(refused.contains(&format!("(guard: {guard}<")), "{guard} is not refused anywhere");
        }
    }
}

#[test]
fn a_guard_of_a_static_stands_for_a_shorter_one() {
    struct Named<'a>(MutexGuard<'a, u8>, &'a str);
    fn named<'a>(guard: MutexGuard<'static, u8>, name: &'a str) -> Named<'a> {
        Named(guard, name)
    }
    static MUTEX: Mutex<u8> = Mutex::new(1);
    static LOCK: RwLock<&str> = RwLock::new("value");
    let name = String::from("short");
    let named = named(covariant::mutex(MUTEX.try_lock().unwrap()), &name);
    assert_eq!((*named.0, named.1), (1, "short"));
    assert_eq!(*covariant::read_value(LOCK.try_read().unwrap(), &()), "value");
    let part = RwLockReadGuard::map(LOCK.try_read().unwrap(), |value| value);
    let part = MappedRwLockReadGuard::filter_map(part, |value| Some(value)).unwrap();
    let part = MappedRwLockReadGuard::map(part, |value| value);
    assert_eq!(*covariant::mapped_read_value(part, &()), "value");
}

#[test]
fn a_value_becomes_a_lock() {
    assert_eq!(*Mutex::from(5).try_lock().unwrap(), 5);
    assert_eq!(*RwLock::from(5).try_read().unwrap(), 5);
    assert_eq!(OnceCell::from(5).get(), Some(&5));
    let error = std::io::Error::from(tasuki::Elapsed);
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}

/// The error of a wait is that of a try, as with std's channels: `?` works in both.
#[test]
fn what_is_closed_is_closed_for_a_try() {
    use tasuki::{Closed, TryAcquireError};
    assert_eq!(TryAcquireError::from(Closed), TryAcquireError::Closed);
    assert_eq!(channel::TryRecvError::from(Closed), channel::TryRecvError::Closed);
    assert_eq!(channel::TryReserveError::from(Closed), channel::TryReserveError::Closed);
    assert_eq!(channel::TrySendError::from(channel::SendError(1)), channel::TrySendError::Closed(1));
}

/// A call that panics.
type Call<'a> = Box<dyn FnOnce() + 'a>;

/// Panic only in a poll of the future that they return: that has no caller of its own.
const IN_A_POLL: [&str; 16] = [
    "cancellation/token::run_until_cancelled",
    "condvar::wait",
    "condvar::wait_while",
    "limited::timeout",
    "mutex::lock",
    "mutex::lock_for",
    "mutex/owned::lock_owned",
    "reentrant::lock",
    "reentrant::lock_owned",
    "rwlock::read",
    "rwlock/owned::read_owned",
    "rwlock::upgradable_read",
    "rwlock/owned::upgradable_read_owned",
    "rwlock::write",
    "rwlock/owned::write_owned",
    "mutex/keyed::keyed_lock",
];

/// Never panic: they note where a lock was made or taken, or a wait was asked for, for the reports of `inspect`.
const NOTE_THE_CALLER: [&str; 50] = [
    "timer::reset",
    "channel/inline::closed",
    "channel/inline::recv",
    "channel/inline::send",
    "channel/oneshot/sender::closed",
    "channel/receiver::recv",
    "channel/receiver::recv_many",
    "channel/receiver::recv_owned",
    "channel/rendezvous::closed",
    "channel/sender::closed",
    "channel/sender::reserve",
    "channel/sender::reserve_owned",
    "channel/sender::send",
    "channel/sink::into_sink",
    "channel/stream::into_stream",
    "limited::deadline",
    "limited::or_cancelled",
    "once_cell::get_or_init",
    "once_cell::get_or_try_init",
    "barrier::arrive_and_wait",
    "cancellation/token::on_cancel",
    "cancellation/token::on_cancel_owned",
    "channel/oneshot/receiver::recv",
    "channel/oneshot/receiver::recv_mut",
    "channel/rendezvous::recv",
    "channel/rendezvous::send",
    "event::wait",
    "latch::wait",
    "once_cell::wait",
    "runtime::sleep",
    "runtime::sleep_until",
    "wait_group::wait",
    "mutex/keyed::new",
    "mutex::new",
    "mutex::with_policy",
    "reentrant::new",
    "rwlock/upgrade::upgrade",
    "rwlock::new",
    "semaphore/owned::acquire_owned",
    "semaphore/owned::try_acquire_many_owned",
    "semaphore/owned::try_acquire_owned",
    "semaphore/permit::split",
    "semaphore::acquire",
    "semaphore::try_acquire",
    "semaphore::try_acquire_many",
    "mutex::try_lock",
    "mutex/owned::try_lock_owned",
    "rwlock::try_write",
    "rwlock/owned::try_write_owned",
    "mutex/keyed::keyed_try_lock",
];

/// Only what they call panics, which is foreign: wakers.
const FOREIGN: [&str; 2] = ["cancellation/source::cancel_with", "cancellation/source::request_cancel"];

/// Takes billions of guards or handles: a unit test of the module looks at the place of the panic.
const IN_A_UNIT_TEST: [&str; 12] = [
    "cancellation/source::token",
    "channel/receiver::downgrade",
    "channel/receiver::upgrade",
    "channel/rendezvous::upgrade",
    "channel/sender::downgrade",
    "channel/sender::upgrade",
    "reentrant::try_lock",
    "reentrant::try_lock_owned",
    "rwlock::try_read",
    "rwlock/owned::try_read_owned",
    "rwlock::try_upgradable_read",
    "rwlock/owned::try_upgradable_read_owned",
];

/// Channels of more bytes than an address space has. Not on every processor: for aarch64 the compiler took all memory of a machine to copy such a message.
fn too_large() -> Vec<(&'static str, Call<'static>)> {
    #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
    {
        const LARGE: usize = 1 << (usize::BITS / 2 + 8);
        const HUGE: usize = 1 << (usize::BITS - 4);
        vec![
            ("channel/handle::bounded", Box::new(|| _ = channel::bounded::<[u8; LARGE]>(1 << 31))),
            ("channel/handle::unbounded", Box::new(|| _ = channel::unbounded::<[u8; HUGE]>())),
        ]
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "x86")))]
    Vec::new()
}

/// Every panic of a function that is called (and not polled) is in the file of its caller. What the sources say panics, or tracks its caller, is in
/// this table or in one of the lists above.
#[test]
fn panics_name_the_caller() {
    const MANY: usize = Semaphore::MAX_PERMITS;
    let (semaphore, group) = (Arc::new(Semaphore::new(1)), Arc::new(WaitGroup::new()));
    let full = Arc::new(WaitGroup::new());
    full.add(WaitGroup::MAX_MEMBERS);
    let (mutex, stranger) = (Mutex::new(0), Semaphore::new(1));
    let driver = FakeDriver { may_block: false, ..FakeDriver::new() };
    let calls: Vec<(&str, Call<'_>)> = vec![
        ("barrier::new", Box::new(|| _ = Barrier::new(0))),
        ("channel/handle::bounded", Box::new(|| _ = channel::bounded::<u8>(0))),
        ("channel/handle::bounded", Box::new(|| _ = channel::bounded::<u8>(usize::MAX))),
        ("channel/sender::reserve_many", Box::new(|| drop(channel::bounded::<u8>(1).0.reserve_many(2)))),
        (
            "channel/sender::try_reserve_many",
            Box::new(|| _ = channel::bounded::<u8>(1).0.try_reserve_many(2)),
        ),
        ("inspect/durations::quantile", Box::new(|| _ = tasuki::inspect::Durations::default().quantile(2.0))),
        ("latch::new", Box::new(|| _ = Latch::new(usize::MAX))),
        ("latch::count_down", Box::new(|| Latch::new(0).count_down())),
        ("semaphore::new", Box::new(|| _ = Semaphore::new(MANY + 1))),
        (
            "semaphore::with_policy",
            Box::new(|| _ = Semaphore::<tasuki::policy::Bypass>::with_policy(MANY + 1)),
        ),
        ("semaphore::release", Box::new(|| semaphore.release(MANY))),
        ("semaphore::release", Box::new(|| semaphore.release(usize::MAX))),
        ("semaphore::acquire_many", Box::new(|| drop(semaphore.acquire_many(MANY + 1)))),
        (
            "semaphore/owned::acquire_many_owned",
            Box::new(|| drop(semaphore.clone().acquire_many_owned(MANY + 1))),
        ),
        (
            "semaphore/permit::merge",
            Box::new(|| semaphore.try_acquire().unwrap().merge(stranger.try_acquire().unwrap())),
        ),
        ("wait_group::add", Box::new(|| group.add(usize::MAX))),
        ("wait_group::done", Box::new(|| group.done())),
        ("wait_group::member", Box::new(|| drop(full.member()))),
        ("wait_group::member_owned", Box::new(|| drop(full.clone().member_owned()))),
        ("wait::block", Box::new(|| runtime::enter(&driver, || drop(mutex.lock().block())))),
    ];
    let mut names: BTreeSet<&str> = calls.iter().map(|(name, _)| *name).collect();
    names.insert("channel/handle::unbounded");
    for (name, call) in calls.into_iter().chain(too_large()) {
        let file = panics_in(call);
        assert_eq!(file, file!(), "{name}");
    }
    if !cfg!(miri) {
        let found = sources::functions_that_panic();
        names.extend(IN_A_UNIT_TEST);
        for (name, (_, tracked)) in &found {
            assert!(*tracked || !names.contains(name.as_str()), "{name} does not track its caller");
        }
        names.extend(IN_A_POLL.into_iter().chain(NOTE_THE_CALLER).chain(FOREIGN));
        sources::same(&found.into_keys().collect(), names);
    }
}

/// Called by polls only, which have no caller of their own.
const PANIC_IN_A_POLL: [&str; 3] =
    ["host_executor::no_clock", "primitive_ref::taken", "rwlock/admission::too_many_writers"];

/// A function that only panics is called by others, which may be public and say nothing of a panic: it tracks its caller, and a unit test looks at the place.
#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn what_only_panics_tracks_its_caller() {
    let found = sources::functions_that_only_panic();
    assert!(found.len() > 8, "{found:?}");
    let untracked = found.into_iter().filter(|(_, tracked)| !tracked).map(|(name, _)| name);
    sources::same(&untracked.collect(), PANIC_IN_A_POLL);
}

/// What can only panic in a poll.
#[test]
fn a_condvar_has_one_mutex_at_a_time() {
    let (first, second, condvar) = (Mutex::new(0), Mutex::new(0), Condvar::new());
    let mut waits = Box::pin(condvar.wait(first.try_lock().unwrap()));
    assert!(poll_with(&mut waits, Waker::noop()).is_pending());
    let mut refused = Box::pin(condvar.wait(second.try_lock().unwrap()));
    panics_in(|| _ = poll_with(&mut refused, Waker::noop()));
    drop(refused);
    assert!(!second.is_locked(), "its guard was in the wait");
}
