//! What every type promises beside its methods, as tables: unwind safety as std's, variance as std's, and panics that name the
//! caller's file.

use crate::kit::driver::Told;
use crate::kit::panics::panics_in;
use std::cell::Cell;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, Mutex as StdMutex};
use tasuki::{
    Barrier, CancellationSource, CancellationToken, Condvar, Event, Latch, MappedMutexGuard,
    MappedRwLockReadGuard, MappedRwLockWriteGuard, Mutex, MutexGuard, OnceCell, OwnedMappedMutexGuard,
    OwnedMappedRwLockReadGuard, OwnedMappedRwLockWriteGuard, OwnedMutexGuard, OwnedRwLockReadGuard,
    OwnedRwLockUpgradableReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit, OwnedWaitGroupMember,
    Parker, ReentrantMutex, ReentrantMutexGuard, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard,
    RwLockWriteGuard, Semaphore, SemaphorePermit, Unparker, WaitGroup, WaitGroupMember, runtime,
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
        };
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

    /// A read guard over a part also stands for one whose value is borrowed for less long.
    pub(super) fn mapped_read_value<'a, 'short, 'long: 'short>(
        guard: MappedRwLockReadGuard<'a, &'long str>,
    ) -> MappedRwLockReadGuard<'a, &'short str> {
        guard
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
    let part = RwLockReadGuard::map(LOCK.try_read().unwrap(), |value| value);
    assert_eq!(*covariant::mapped_read_value(part), "value");
}

#[test]
fn a_value_becomes_a_lock() {
    assert_eq!(*Mutex::from(5).try_lock().unwrap(), 5);
    assert_eq!(*RwLock::from(5).try_read().unwrap(), 5);
    assert_eq!(OnceCell::from(5).get(), Some(&5));
    let error = std::io::Error::from(tasuki::Elapsed);
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}

/// Every documented panic of a function that is called (and not polled) is in the file of its caller.
#[test]
fn panics_name_the_caller() {
    const MANY: usize = Semaphore::MAX_PERMITS;
    let (semaphore, group) = (Arc::new(Semaphore::new(1)), Arc::new(WaitGroup::new()));
    let (mutex, stranger) = (Mutex::new(0), Semaphore::new(1));
    let told = Told { may_block: false, ..Told::nothing() };
    type Call<'a> = Box<dyn FnOnce() + 'a>;
    let calls: Vec<(&str, Call<'_>)> = vec![
        ("Barrier::new", Box::new(|| _ = Barrier::new(0))),
        ("Latch::new", Box::new(|| _ = Latch::new(usize::MAX))),
        ("Latch::count_down", Box::new(|| Latch::new(0).count_down())),
        ("Semaphore::new", Box::new(|| _ = Semaphore::new(MANY + 1))),
        ("Semaphore::with_policy", Box::new(|| _ = Semaphore::<tasuki::Bypass>::with_policy(MANY + 1))),
        ("Semaphore::release", Box::new(|| semaphore.release(MANY))),
        ("Semaphore::release", Box::new(|| semaphore.release(usize::MAX))),
        ("Semaphore::acquire_many", Box::new(|| drop(semaphore.acquire_many(MANY + 1)))),
        ("acquire_many_owned", Box::new(|| drop(semaphore.clone().acquire_many_owned(MANY + 1)))),
        (
            "Permit::merge",
            Box::new(|| semaphore.try_acquire().unwrap().merge(stranger.try_acquire().unwrap())),
        ),
        ("WaitGroup::add", Box::new(|| group.add(usize::MAX))),
        ("WaitGroup::done", Box::new(|| group.done())),
        (".block()", Box::new(|| runtime::enter(&told, || drop(mutex.lock().block())))),
    ];
    for (name, call) in calls {
        let file = panics_in(call);
        assert_eq!(file, file!(), "{name}");
    }
}
