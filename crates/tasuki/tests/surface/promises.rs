//! What every type promises beside its methods, as tables: unwind safety as std's, variance as std's. (`panic_places.rs` has the panics.)

use crate::kit::sources;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Mutex as StdMutex;
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
