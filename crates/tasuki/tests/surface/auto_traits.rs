//! Which types cross threads, which may be moved, how large they are. The policy never matters.
//! B067, B105, B109. What must not compile is in `compile_fail.md`, which the documentation tests run.

use crate::kit::traits::{Both, Neither, SendOnly, SyncOnly, traits};
use std::mem::size_of;
use tasuki::{
    Bypass, Event, Fifo, HandOff, Lifo, Lock, LockOwned, MappedMutexGuard, Mutex, MutexGuard,
    OwnedMappedMutexGuard, OwnedMutexGuard, Parker, Reset, Unparker, WaitEvent,
};

#[test]
fn the_probe_can_say_no() {
    assert_eq!(traits!(Both), "SYU");
    assert_eq!(traits!(SendOnly), "S-U");
    assert_eq!(traits!(SyncOnly), "-YU");
    assert_eq!(traits!(Neither), "--U");
    assert_eq!(traits!(std::marker::PhantomPinned), "SY-");
}

macro_rules! for_the_policy {
    ($test:ident, $policy:ty) => {
        #[test]
        fn $test() {
            type P = $policy;
            // The mutex gives the value to one thread at a time: Send is all it needs.
            assert_eq!(traits!(Mutex<Both, P>), "SYU");
            assert_eq!(traits!(Mutex<SendOnly, P>), "SYU");
            assert_eq!(traits!(Mutex<SyncOnly, P>), "--U");
            assert_eq!(traits!(Mutex<Neither, P>), "--U");
            assert_eq!(traits!(Mutex<[SendOnly], P>), "SYU");
            assert_eq!(traits!(Mutex<dyn Fn() + Send, P>)[..2], *"SY");
            assert_eq!(traits!(Mutex<dyn Fn() + Sync, P>)[..2], *"--");
            // Futures: Send iff the value is; never Unpin.
            assert_eq!(traits!(Lock<'static, Both, P>), "SY-");
            assert_eq!(traits!(Lock<'static, SendOnly, P>), "SY-");
            assert_eq!(traits!(Lock<'static, SyncOnly, P>), "---");
            assert_eq!(traits!(Lock<'static, Neither, P>), "---");
            assert_eq!(traits!(LockOwned<Both, P>), "SY-");
            assert_eq!(traits!(LockOwned<SendOnly, P>), "SY-");
            assert_eq!(traits!(LockOwned<SyncOnly, P>), "---");
            assert_eq!(traits!(LockOwned<Neither, P>), "---");
            // Guards: Send iff the value is, Sync iff `&value` may be shared.
            assert_eq!(traits!(MutexGuard<'static, Both, P>), "SYU");
            assert_eq!(traits!(MutexGuard<'static, SendOnly, P>), "S-U");
            assert_eq!(traits!(MutexGuard<'static, SyncOnly, P>), "--U");
            assert_eq!(traits!(MutexGuard<'static, Neither, P>), "--U");
            assert_eq!(traits!(OwnedMutexGuard<Both, P>), "SYU");
            assert_eq!(traits!(OwnedMutexGuard<SendOnly, P>), "S-U");
            assert_eq!(traits!(OwnedMutexGuard<SyncOnly, P>), "--U");
            assert_eq!(traits!(OwnedMutexGuard<Neither, P>), "--U");
            // B105: a mapped guard is judged by the part; the owned one by the whole as well, which it may drop.
            assert_eq!(traits!(MappedMutexGuard<'static, Both, P>), "SYU");
            assert_eq!(traits!(MappedMutexGuard<'static, SendOnly, P>), "S-U");
            assert_eq!(traits!(MappedMutexGuard<'static, SyncOnly, P>), "-YU");
            assert_eq!(traits!(MappedMutexGuard<'static, Neither, P>), "--U");
            assert_eq!(traits!(OwnedMappedMutexGuard<Both, Both, P>), "SYU");
            assert_eq!(traits!(OwnedMappedMutexGuard<SendOnly, Both, P>), "SYU");
            assert_eq!(traits!(OwnedMappedMutexGuard<Both, SendOnly, P>), "S-U");
            assert_eq!(traits!(OwnedMappedMutexGuard<Both, SyncOnly, P>), "-YU");
            assert_eq!(traits!(OwnedMappedMutexGuard<Both, Neither, P>), "--U");
            assert_eq!(traits!(OwnedMappedMutexGuard<SyncOnly, Both, P>), "--U");
            assert_eq!(traits!(OwnedMappedMutexGuard<Neither, Both, P>), "--U");
            // With debug assertions a lock knows which task holds it, and a lock future where it was asked for; the crate
            // asserts the sizes without them when it is compiled.
            let (mutex, future) = if cfg!(debug_assertions) { (32, 80) } else { (16, 64) };
            assert!(size_of::<Mutex<(), P>>() <= mutex, "{}", size_of::<Mutex<(), P>>());
            assert!(size_of::<Lock<'static, (), P>>() <= future, "{}", size_of::<Lock<'static, (), P>>());
            assert_eq!(size_of::<LockOwned<(), P>>(), size_of::<Lock<'static, (), P>>());
            assert_eq!(size_of::<MutexGuard<'static, (), P>>(), size_of::<usize>());
            assert_eq!(size_of::<OwnedMutexGuard<(), P>>(), size_of::<usize>());
        }
    };
}

for_the_policy!(fifo, Fifo);
for_the_policy!(fifo_without_spin, Fifo<false>);
for_the_policy!(lifo, Lifo);
for_the_policy!(bypass, Bypass);
for_the_policy!(bypass_never, Bypass<0>);

#[test]
fn everything_else() {
    assert_eq!(traits!(Event), "SYU");
    assert_eq!(traits!(WaitEvent<'static>), "SY-");
    assert_eq!(traits!(HandOff), "SYU");
    assert_eq!(traits!(Reset), "SYU");
    assert_eq!(traits!(Parker), "S-U");
    assert_eq!(traits!(Unparker), "SYU");
    assert!(size_of::<Event>() <= 16, "{}", size_of::<Event>());
    assert!(size_of::<WaitEvent<'static>>() <= 64, "{}", size_of::<WaitEvent<'static>>());
}
