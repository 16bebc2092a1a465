//! Which types cross threads, which may be moved, how large they are. The policy never matters.
//! B067, B105, B109. What must not compile is in `compile_fail.md`, which the documentation tests run.

use crate::kit::sources;
use crate::kit::traits::{Both, Neither, SendOnly, SyncOnly, matrix, traits};
use std::future::Ready;
use std::mem::size_of;
use std::sync::Arc;
use tasuki::future::*;
use tasuki::inspect::{
    Certainty, Deadlock, Durations, Hold, HolderSnapshot, Hop, LabelTasks, LockKind, LockLabel, LockSnapshot,
    PollState, Snapshot, TaskLabel, WaitSite, WaitSnapshot,
};
use tasuki::policy::*;
use tasuki::runtime::*;
use tasuki::task::*;
use tasuki::*;

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
            // Where `inspect` is active a lock has a name and a number, and a lock future knows where it was asked for; the crate asserts
            // the sizes without it when it is compiled.
            // `console` adds spans to both.
            let (mutex, future) = match tasuki::inspect::is_active() {
                true if cfg!(feature = "console") => (104, 120),
                true => (56, 112),
                false => (16, 64),
            };
            // What is kept of a grant, for the end of a poll.
            let mutex = mutex + if <P as tasuki::policy::Policy>::REVOCABLE { 48 } else { 0 };
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
for_the_policy!(revocable, Revocable);

/// Every public type, each with a value that crosses threads and with one that does not, where it has a value.
#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn every_public_type_has_a_row() {
    type Never = Ready<Neither>;
    type Always = Ready<Both>;
    type Makes = fn() -> Always;
    type Judges = fn(&mut Both) -> bool;
    let rows = matrix! {
        // Without a value: shared by all.
        "SYU": Barrier, BarrierWaitResult, Bypass, Order, CancellationSource, CancellationToken, Cancelled, Closed, Condvar, DropGuard, Elapsed,
            Event, Fifo, HandOff, Latch, Lifo, NoTaskIdentity, Reset, Revocable, Semaphore, SemaphorePermit['static], OwnedSemaphorePermit, TryAcquireError,
            Certainty, Deadlock, Durations, Hold, HolderSnapshot, Hop, LockKind, LockLabel, LockSnapshot, PollState, Snapshot, LabelTasks, TaskLabel, WaitSite, WaitSnapshot, Unparker, WaitGroup, WaitGroupMember['static], OwnedWaitGroupMember, Advanced, Charge, SignalWait, SignalSlot, Key, KeyedRawMutex, SelfDeadlock, TaskId,
            Timers, WakeKind, Permit[&'static Semaphore], GivenBack[Elapsed, Both];
        "SY-": Acquire['static], AcquireOwned, Arrive['static], OnCancel['static], OnCancelOwned, Sleep, WaitEvent['static], WaitLatch['static],
            WaitMembers['static];
        "SYU": AcquireOp[&'static Semaphore], AcquireOwnedOp[Fifo], ArriveOp['static], OnCancelOp[CancellationToken], WaitEventOp['static],
            WaitLatchOp['static], WaitMembersOp['static];
        "S-U": Parker;
        "--U": GivenBack[Elapsed, Neither];
        // Locks: one thread at a time, or shared by readers.
        "SYU": Mutex[Both], Mutex[SendOnly], RwLock[Both], ReentrantMutex[Both], OnceCell[Both];
        "S-U": RwLock[SendOnly], ReentrantMutex[SendOnly], OnceCell[SendOnly];
        "--U": Mutex[Neither], RwLock[SyncOnly], ReentrantMutex[SyncOnly], OnceCell[Neither];
        // Guards.
        "SYU": Guard[&'static Mutex<Both>], MutexGuard['static, Both], MappedMutexGuard['static, Both], OwnedMutexGuard[Both],
            OwnedMappedMutexGuard[SendOnly, Both], RwLockReadGuard['static, Both], RwLockWriteGuard['static, Both],
            RwLockUpgradableReadGuard['static, Both], MappedRwLockReadGuard['static, Both], MappedRwLockWriteGuard['static, Both],
            OwnedRwLockReadGuard[Both], OwnedRwLockWriteGuard[Both], OwnedRwLockUpgradableReadGuard[Both],
            OwnedMappedRwLockReadGuard[Both, Both], OwnedMappedRwLockWriteGuard[Both, Both], ReentrantMutexGuard['static, Both],
            OwnedReentrantMutexGuard[Both];
        "-YU": RwLockReadGuard['static, SyncOnly], MappedMutexGuard['static, SyncOnly];
        "S-U": MutexGuard['static, SendOnly], MappedRwLockWriteGuard['static, SendOnly];
        "--U": Guard[&'static Mutex<Neither>], RwLockReadGuard['static, SendOnly], RwLockUpgradableReadGuard['static, SyncOnly],
            OwnedRwLockReadGuard[SyncOnly], ReentrantMutexGuard['static, SendOnly], OwnedReentrantMutexGuard[SendOnly];
        // Waits for locks, and their operations.
        "SY-": Wait[Single<LockOp<&'static Mutex<Both>>>], Single[LockOp<&'static Mutex<SendOnly>>], Lock['static, SendOnly], LockOwned[SendOnly],
            Read['static, Both], Write['static, Both], UpgradableRead['static, Both], ReadOwned[Both], WriteOwned[Both], UpgradableReadOwned[Both],
            Upgrade[&'static RwLock<Both>], LockReentrant['static, Both], LockReentrantOwned[Both], WaitValue['static, Both], WaitNotified['static, &'static Mutex<Both>],
            WaitWhile['static, &'static Mutex<Both>, Judges], Conditional['static, &'static Mutex<Both>, Judges],
            Timeout[Lock<'static, Both>], OrCancelled['static, Lock<'static, Both>], Limited[Lock<'static, Both>, SleepOp],
            GetOrInit['static, Both, Makes, Always], GetOrTryInit['static, Both, Makes, Always, ()], InfallibleInit['static, Both, Makes, Always],
            Init['static, Both, Makes, Always, ()], RunUntilCancelled['static, Always], UntilCancelled['static, Always];
        "---": Lock['static, Neither], LockOwned[SyncOnly], Read['static, SendOnly], Write['static, SendOnly], Upgrade[Arc<RwLock<SendOnly>>],
            LockReentrant['static, SendOnly], LockReentrantOwned[SendOnly], WaitValue['static, SendOnly], WaitNotified['static, &'static Mutex<Neither>],
            WaitWhile['static, &'static Mutex<Neither>, fn(&mut Neither) -> bool], Timeout[Lock<'static, Neither>],
            GetOrInit['static, Neither, fn() -> Never, Never], RunUntilCancelled['static, Never];
        "SYU": LockOp[&'static Mutex<SendOnly>], LockOwnedOp[SendOnly, Fifo], AccessOp[&'static RwLock<Both>, ()],
            UpgradeOp[&'static RwLock<Both>], LockReentrantOp[&'static ReentrantMutex<Both>], ValueOp['static, Both],
            CondvarOp['static, &'static Mutex<Both>], Identified[Always];
        "--U": LockOp[&'static Mutex<Neither>], AccessOp[Arc<RwLock<SendOnly>>, ()], Identified[Never];
        // With an owner that has a key: they stay where they are.
        "---": KeyedLock[&'static Keyed];
        "--U": KeyedLockOp[&'static Keyed], KeyedGuard[&'static Keyed], MappedKeyedGuard[&'static Keyed, Both];
    };
    // Under tokio it may have a sleep of tokio's inside, which must not be moved; neither is the future around it.
    assert_eq!(traits!(SleepOp), if cfg!(feature = "tokio") { "SY-" } else { "SYU" });
    sources::same(&sources::public_types(), rows.into_iter().chain(["SleepOp"]).chain(of_channels()));
}

/// Those of channels: a message goes from thread to thread and is never shared.
fn of_channels() -> Vec<&'static str> {
    use tasuki::channel::oneshot::{Boxed, Core, OneshotRecv, OneshotRecvOp, Slot};
    use tasuki::channel::rendezvous::{HandOver, HandOverOp, TakeOver, TakeOverOp};
    use tasuki::channel::{
        Channel, IntoIter, Iter, OwnedPermit, Permits, Receiver, SendError, Sender, TryIter, TryRecvError,
        TryReserveError, TrySendError, WeakReceiver, WeakSender,
    };
    use tasuki::channel::{OneshotReceiver, OneshotSender};
    use tasuki::future::{
        InlineRecv, InlineSend, Recv, RecvMany, RecvManyOp, RecvOp, RecvOwned, Reservation, ReservationMany,
        ReservationOwned, ReserveOne, ReserveOp, SendMessage, SendOp,
    };
    assert_eq!(traits!(SendMessage<'static, SendOnly>), "SY-");
    assert_eq!(traits!(SendMessage<'static, Neither>), "---");
    assert_eq!(traits!(channel::Permit<'static, SendOnly>), "SYU");
    assert_eq!(traits!(channel::Permit<'static, Neither>), "--U");
    let rows = matrix! {
        "SYU": Sender[SendOnly], Receiver[SendOnly], WeakSender[SendOnly], WeakReceiver[SendOnly], OwnedPermit[SendOnly],
            Permits['static, SendOnly], Iter['static, SendOnly], TryIter['static, SendOnly], IntoIter[SendOnly], TryRecvError, TryReserveError,
            SendError[Both], TrySendError[Both], RecvOp[Receiver<SendOnly>];
        "--U": Sender[SyncOnly], Receiver[Neither], WeakSender[Neither], WeakReceiver[SyncOnly], OwnedPermit[Neither],
            Permits['static, Neither], Iter['static, SyncOnly], IntoIter[Neither], RecvOp[Receiver<SyncOnly>];
        "SY-": Recv['static, SendOnly], RecvOwned[SendOnly], Reservation['static, SendOnly], ReservationMany['static, SendOnly],
            ReservationOwned[SendOnly], InlineSend['static, SendOnly, 1], InlineRecv['static, SendOnly, 1], SendOp[Sender<SendOnly>];
        "---": Recv['static, SyncOnly], RecvOwned[Neither], Reservation['static, Neither], ReservationMany['static, SyncOnly],
            ReservationOwned[Neither], InlineSend['static, Neither, 1], InlineRecv['static, SyncOnly, 1], SendOp[Sender<SyncOnly>];
        // The buffer is borrowed.
        "SY-": RecvMany['static, Both];
        "SYU": RecvManyOp['static, Receiver<Both>], Channel[SendOnly, 1];
        "--U": Channel[SyncOnly, 1];
    };
    // Those in the modules of oneshots and rendezvous, whose sides are called as those of channels.
    type Once<T> = channel::oneshot::Boxed<T>;
    assert_eq!(traits!(channel::oneshot::Sender<Once<SendOnly>>), "SYU");
    assert_eq!(traits!(channel::oneshot::Receiver<Once<Neither>>), "--U");
    assert_eq!(traits!(channel::rendezvous::Sender<SendOnly>), "SYU");
    assert_eq!(traits!(channel::rendezvous::Receiver<Neither>), "--U");
    assert_eq!(traits!(channel::rendezvous::WeakSender<SendOnly>), "SYU");
    assert_eq!(traits!(channel::rendezvous::WeakReceiver<Neither>), "--U");
    let nested = matrix! {
        "SYU": Boxed[SendOnly], Core[SendOnly], Slot[SendOnly], OneshotSender[SendOnly], OneshotReceiver[SendOnly], OneshotRecvOp[OneshotReceiver<SendOnly>],
            TakeOverOp['static, SendOnly];
        "--U": Boxed[SyncOnly], Core[Neither], Slot[Neither], OneshotSender[SyncOnly], OneshotReceiver[Neither], TakeOverOp['static, Neither];
        "SY-": OneshotRecv[OneshotReceiver<SendOnly>], HandOver['static, SendOnly], HandOverOp['static, SendOnly], TakeOver['static, SendOnly];
        "---": OneshotRecv[OneshotReceiver<Neither>], HandOver['static, Neither], HandOverOp['static, SyncOnly], TakeOver['static, Neither];
    };
    #[cfg(feature = "futures-core")]
    assert_eq!(
        [traits!(channel::MessageStream<SendOnly>), traits!(channel::MessageStream<Neither>)],
        ["SY-", "---"]
    );
    #[cfg(feature = "futures-sink")]
    assert_eq!(
        [traits!(channel::MessageSink<SendOnly>), traits!(channel::MessageSink<Neither>)],
        ["SY-", "---"]
    );
    let reserves = traits!(ReserveOp<ReserveOne<'static, SendOnly>>);
    assert_eq!(reserves, "SYU");
    let others = [
        "SendMessage",
        "ReserveOp",
        "ReserveOne",
        "ReserveMany",
        "ReserveOwned",
        "MessageStream",
        "MessageSink",
    ];
    rows.into_iter().chain(nested).chain(others).collect()
}

/// Everything that a lock with a key is made of.
struct Keyed(KeyedRawMutex);

struct Nowhere;

impl Domain for Nowhere {
    type Error = ();

    fn here() -> Result<Key, ()> {
        Err(())
    }

    fn elsewhere() {}

    fn may_release(_: Key) -> bool {
        false
    }
}

// SAFETY: nothing can be locked.
unsafe impl KeyedMutex for Keyed {
    type Value = ();
    type Domain = Nowhere;

    fn raw(&self) -> &KeyedRawMutex {
        &self.0
    }

    fn value(&self) -> *mut () {
        std::ptr::dangling_mut()
    }
}

#[test]
fn sizes() {
    assert!(size_of::<Event>() <= 16, "{}", size_of::<Event>());
    let wait = if tasuki::inspect::is_active() { 96 } else { 64 };
    assert!(size_of::<WaitEvent<'static>>() <= wait, "{}", size_of::<WaitEvent<'static>>());
}

/// As those of std and of other libraries: what a panic unwinds past may be used afterwards. With a value that is not unwind safe by itself, for types that give it out whole.
#[test]
fn shared_types_cross_an_unwind() {
    use std::panic::{RefUnwindSafe, UnwindSafe};
    use tasuki::channel::{self, OneshotReceiver, OneshotSender, rendezvous};

    fn unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}
    type Torn = std::cell::Cell<&'static mut u8>;

    unwind_safe::<(Mutex<Torn>, RwLock<Torn>, ReentrantMutex<u8>, OnceCell<u8>)>();
    unwind_safe::<(Semaphore, Event, Condvar, Barrier, Latch, WaitGroup)>();
    unwind_safe::<(CancellationSource, CancellationToken, DropGuard, Parker, Unparker)>();
    unwind_safe::<(channel::Sender<Torn>, channel::Receiver<Torn>, channel::Channel<Torn, 2>)>();
    unwind_safe::<(channel::WeakSender<Torn>, channel::WeakReceiver<Torn>)>();
    unwind_safe::<(OneshotSender<Torn>, OneshotReceiver<Torn>, channel::oneshot::Slot<Torn>)>();
    unwind_safe::<(rendezvous::Sender<Torn>, rendezvous::Receiver<Torn>)>();
}

/// A receiver has a form whatever its messages are, and so has what iterates over it.
#[test]
fn iterators_have_a_form_without_that_of_the_messages() {
    let (_sender, receiver) = channel::bounded::<Neither>(1);
    let form = format!("{:?}", receiver.try_iter());
    assert!(form.starts_with("TryIter(") && form.contains(&format!("{receiver:?}")), "{form}");
    assert!(format!("{:?}", receiver.iter()).starts_with("Iter("));
    assert!(format!("{:?}", receiver.into_iter()).starts_with("IntoIter("));
}
