//! Which types of the reader-writer lock, the condvar, the once cell and the limits cross threads, which may be moved, how large
//! they are. B067, B105, B107, B109. What must not compile is in `compile_fail.md`.

use crate::kit::spans;
use crate::kit::traits::{Both, Neither, SendOnly, SyncOnly, traits};
use std::mem::size_of;
use std::sync::Arc;
use tasuki::future::{
    Lock, OrCancelled, Read, ReadOwned, Sleep, Timeout, UpgradableRead, UpgradableReadOwned, Upgrade,
    WaitNotified, WaitValue, WaitWhile, Write, WriteOwned,
};
use tasuki::policy::Bypass;
use tasuki::{
    Condvar, Event, MappedRwLockReadGuard, MappedRwLockWriteGuard, Mutex, OnceCell,
    OwnedMappedRwLockReadGuard, OwnedMappedRwLockWriteGuard, OwnedRwLockReadGuard,
    OwnedRwLockUpgradableReadGuard, OwnedRwLockWriteGuard, RwLock, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard, Semaphore, runtime,
};

/// Readers share the value, so the lock is shared only if the value may be.
#[test]
fn the_lock_and_its_futures() {
    assert_eq!(
        traits!(RwLock<Both>, RwLock<SendOnly>, RwLock<SyncOnly>, RwLock<Neither>),
        ["SYU", "S-U", "--U", "--U"]
    );
    assert_eq!(traits!(RwLock<[Both]>, RwLock<[SendOnly]>), ["SYU", "S-U"]);
    assert_eq!(
        traits!(
            Read<'static, Both>,
            Read<'static, SendOnly>,
            Read<'static, SyncOnly>,
            Read<'static, Neither>
        ),
        ["SY-", "---", "---", "---"]
    );
    assert_eq!(
        traits!(
            Write<'static, Both>,
            Write<'static, SendOnly>,
            Write<'static, SyncOnly>,
            Write<'static, Neither>
        ),
        ["SY-", "---", "---", "---"]
    );
    assert_eq!(traits!(UpgradableRead<'static, Both>, UpgradableRead<'static, SendOnly>), ["SY-", "---"]);
    assert_eq!(traits!(ReadOwned<Both>, ReadOwned<SendOnly>, ReadOwned<SyncOnly>), ["SY-", "---", "---"]);
    assert_eq!(traits!(WriteOwned<Both>, WriteOwned<SendOnly>, WriteOwned<SyncOnly>), ["SY-", "---", "---"]);
    assert_eq!(traits!(UpgradableReadOwned<Both>, UpgradableReadOwned<SyncOnly>), ["SY-", "---"]);
    assert_eq!(
        traits!(
            Upgrade<&'static RwLock<Both>>,
            Upgrade<Arc<RwLock<Both>>>,
            Upgrade<&'static RwLock<SendOnly>>
        ),
        ["SY-", "SY-", "---"]
    );
}

/// B109: an owned read guard may drop the value, so it crosses threads only if the value does.
#[test]
fn guards_of_the_lock() {
    assert_eq!(
        traits!(
            RwLockReadGuard<'static, Both>,
            RwLockReadGuard<'static, SendOnly>,
            RwLockReadGuard<'static, SyncOnly>,
            RwLockReadGuard<'static, Neither>
        ),
        ["SYU", "--U", "-YU", "--U"]
    );
    assert_eq!(
        traits!(
            OwnedRwLockReadGuard<Both>,
            OwnedRwLockReadGuard<SendOnly>,
            OwnedRwLockReadGuard<SyncOnly>,
            OwnedRwLockReadGuard<Neither>
        ),
        ["SYU", "--U", "--U", "--U"]
    );
    assert_eq!(
        traits!(
            RwLockWriteGuard<'static, Both>,
            RwLockWriteGuard<'static, SendOnly>,
            RwLockWriteGuard<'static, SyncOnly>
        ),
        ["SYU", "--U", "--U"]
    );
    assert_eq!(
        traits!(
            OwnedRwLockWriteGuard<Both>,
            OwnedRwLockWriteGuard<SendOnly>,
            OwnedRwLockWriteGuard<SyncOnly>
        ),
        ["SYU", "--U", "--U"]
    );
    assert_eq!(
        traits!(
            RwLockUpgradableReadGuard<'static, Both>,
            RwLockUpgradableReadGuard<'static, SendOnly>,
            OwnedRwLockUpgradableReadGuard<Both>,
            OwnedRwLockUpgradableReadGuard<SyncOnly>
        ),
        ["SYU", "--U", "SYU", "--U"]
    );
}

/// B105: a mapped guard is judged by the part; the owned one by the whole as well, which it may drop.
#[test]
fn mapped_guards_of_the_lock() {
    assert_eq!(
        traits!(
            MappedRwLockReadGuard<'static, Both>,
            MappedRwLockReadGuard<'static, SendOnly>,
            MappedRwLockReadGuard<'static, SyncOnly>,
            MappedRwLockReadGuard<'static, Neither>
        ),
        ["SYU", "--U", "-YU", "--U"]
    );
    assert_eq!(
        traits!(
            MappedRwLockWriteGuard<'static, Both>,
            MappedRwLockWriteGuard<'static, SendOnly>,
            MappedRwLockWriteGuard<'static, SyncOnly>,
            MappedRwLockWriteGuard<'static, Neither>
        ),
        ["SYU", "S-U", "-YU", "--U"]
    );
    assert_eq!(
        traits!(
            OwnedMappedRwLockReadGuard<Both, Both>,
            OwnedMappedRwLockReadGuard<SyncOnly, Both>,
            OwnedMappedRwLockReadGuard<SendOnly, Both>,
            OwnedMappedRwLockReadGuard<Both, SendOnly>
        ),
        ["SYU", "--U", "--U", "--U"]
    );
    assert_eq!(
        traits!(
            OwnedMappedRwLockWriteGuard<Both, Both>,
            OwnedMappedRwLockWriteGuard<SyncOnly, Both>,
            OwnedMappedRwLockWriteGuard<Both, SendOnly>,
            OwnedMappedRwLockWriteGuard<Both, SyncOnly>
        ),
        ["SYU", "--U", "S-U", "-YU"]
    );
}

/// A condvar can be shared by all; a wait goes where its guard may go, and the policy does not matter.
#[test]
fn condvar_and_once_cell() {
    type Waits<T> = WaitNotified<'static, &'static Mutex<T>>;
    type Until<T> = WaitWhile<'static, &'static Mutex<T>, fn(&mut T) -> bool>;
    assert_eq!(traits!(Condvar), "SYU");
    assert_eq!(
        traits!(Waits<Both>, Waits<SendOnly>, Waits<SyncOnly>, Waits<Neither>),
        ["SY-", "S--", "---", "---"]
    );
    assert_eq!(
        traits!(WaitNotified<'static, Arc<Mutex<Both>>>, WaitNotified<'static, Arc<Mutex<SyncOnly>>>),
        ["SY-", "---"]
    );
    assert_eq!(traits!(WaitNotified<'static, &'static Mutex<Both, Bypass>>), "SY-");
    assert_eq!(traits!(Until<Both>, Until<SendOnly>, Until<Neither>), ["SY-", "S--", "---"]);
    assert_eq!(
        traits!(OnceCell<Both>, OnceCell<SendOnly>, OnceCell<SyncOnly>, OnceCell<Neither>),
        ["SYU", "S-U", "--U", "--U"]
    );
    assert_eq!(
        traits!(WaitValue<'static, Both>, WaitValue<'static, SendOnly>, WaitValue<'static, SyncOnly>),
        ["SY-", "---", "---"]
    );
}

/// A limit changes nothing about where a wait may go.
#[test]
fn limits() {
    assert_eq!(traits!(Sleep, runtime::Timers), ["SY-", "SYU"]);
    assert_eq!(traits!(Timeout<Lock<'static, Both>>, Timeout<Lock<'static, Neither>>), ["SY-", "---"]);
    assert_eq!(
        traits!(OrCancelled<'static, Lock<'static, Both>>, OrCancelled<'static, Lock<'static, Neither>>),
        ["SY-", "---"]
    );
}

#[test]
fn sizes() {
    const WORD: usize = size_of::<usize>();
    // S2-08: a word with flags or the head of the queue, and eight bytes beside it. What `inspect` adds is the same for both.
    assert_eq!(size_of::<Mutex<()>>(), size_of::<Semaphore>());
    assert_eq!(size_of::<Event>(), WORD + 8);
    assert_eq!(size_of::<Condvar>(), 3 * WORD);
    assert!(size_of::<OnceCell<()>>() <= 16);
    // Where `inspect` is active a lock has a name and a number, a guard knows which place it has there, and a future where it was asked for; the
    // crate asserts the sizes without it when it is compiled.
    if !tasuki::inspect::is_active() {
        assert_eq!(size_of::<Mutex<()>>(), WORD + 8);
        assert_eq!(size_of::<RwLock<()>>(), WORD + 8);
        assert_eq!(size_of::<RwLockReadGuard<'static, u32>>(), 2 * WORD);
        assert_eq!(size_of::<RwLockWriteGuard<'static, u32>>(), WORD);
        assert_eq!(size_of::<OwnedRwLockWriteGuard<u32>>(), WORD);
        assert!(size_of::<Upgrade<&'static RwLock<u32>>>() <= 64);
    }
    let inspected = if tasuki::inspect::is_active() { 48 } else { 0 } + spans();
    let waiter = 64 + inspected;
    assert!(size_of::<Read<'static, u32>>() <= waiter, "{}", size_of::<Read<'static, u32>>());
    assert!(size_of::<WaitNotified<'static, &'static Mutex<u32>>>() <= 96 + inspected);
    // With the feature `tokio` it has room for a sleep of tokio's.
    let host = if cfg!(feature = "tokio") { size_of::<tokio::time::Sleep>() } else { 0 };
    assert!(size_of::<Sleep>() <= 96 + inspected + host, "{}", size_of::<Sleep>());
}
