//! Which types cross threads, and which may be moved. A public type without a row fails the test.

use crate::kit::sources;
use crate::kit::traits::{Both, Neither, SendOnly, matrix, traits};
use std::cell::Cell;
use std::future::Ready;
use std::marker::{PhantomData, PhantomPinned};
use std::panic::{RefUnwindSafe, UnwindSafe};
use tasuki_rt::testing::{Exhaustive, Explored, ForeignWakes, Simulation};
use tasuki_rt::{
    AbortHandle, Builder, Dump, EnterGuard, EventLoop, EventLoops, Handle, Interval, JoinError, JoinHandle,
    JoinSet, LocalRuntime, LoopEnded, LoopLock, LoopLockOwned, LoopMutex, LoopMutexGuard,
    MappedLoopMutexGuard, Metrics, MissedTickBehavior, NoRuntime, NotInScope, NotOnEventLoop,
    OwnedLoopMutexGuard, OwnedMappedLoopMutexGuard, PollTimes, Resume, Runtime, Scoped, ShutdownError,
    SpawnPlace, TaskBuilder, TaskDump, TaskLocal, TaskState, WorkerId, WorkerMetrics,
};

#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn every_public_type_has_a_row() {
    let mut rows = matrix! {
        "SYU": Runtime, Builder, Resume, Handle, EventLoop, WorkerId, AbortHandle, Interval, EventLoops, TaskBuilder,
            MissedTickBehavior, Metrics, WorkerMetrics, PollTimes, Dump, SpawnPlace, TaskDump, TaskState;
        "SYU": JoinError, LoopEnded, NoRuntime, NotInScope, NotOnEventLoop, ShutdownError;
        "SYU": Simulation, Exhaustive, Explored, ForeignWakes;
        // Belongs to the thread that made it.
        "--U": EnterGuard, LocalRuntime;
        // A key for all threads; a scope is what is in it.
        "SYU": TaskLocal[Neither], Scoped[Both, Ready<Both>];
        "S-U": Scoped[SendOnly, Ready<Both>];
        "--U": Scoped[Neither, Ready<Both>], Scoped[Both, Ready<Neither>];
        "SY-": Scoped[Both, PhantomPinned];
        // With a result.
        "SYU": JoinHandle[Both], JoinHandle[SendOnly], JoinSet[Both], JoinSet[SendOnly];
        "--U": JoinHandle[Neither], JoinSet[Neither];
        "SYU": LoopMutex[Both], LoopMutex[SendOnly];
        "--U": LoopMutex[Neither];
        "---": LoopLock['static, Both], LoopLockOwned[Both];
        "--U": LoopMutexGuard['static, Both], MappedLoopMutexGuard['static, Both, Both], OwnedLoopMutexGuard[Both],
            OwnedMappedLoopMutexGuard[Both, Both];
    };
    rows.extend(of_sockets());
    sources::same(&sources::public_types(), rows);
}

#[cfg(feature = "net")]
fn of_sockets() -> Vec<&'static str> {
    use tasuki_rt::net::*;
    let mut rows = matrix! {
        "SYU": TcpListener, TcpStream, UdpSocket;
        "SYU": ReadHalf['static, TcpStream], WriteHalf['static, TcpStream];
        "SYU": OwnedReadHalf[TcpStream], OwnedWriteHalf[TcpStream], ReuniteError[TcpStream];
    };
    #[cfg(feature = "hyper")]
    {
        use tasuki_rt::io::{HyperExecutor, HyperTimer};
        rows.extend(matrix! { "SYU": HyperExecutor, HyperTimer; });
    }
    // Read in the sources, and not there.
    #[cfg(not(feature = "hyper"))]
    rows.extend(["HyperExecutor", "HyperTimer"]);
    #[cfg(unix)]
    {
        use tasuki_rt::io::Async;
        use tasuki_rt::signal::unix::{Signal, SignalKind};
        rows.extend(matrix! {
            "SYU": UnixListener, UnixStream, UnixDatagram;
            "SYU": Async[std::fs::File], Signal, SignalKind;
        });
    }
    rows
}

#[cfg(not(feature = "net"))]
fn of_sockets() -> Vec<&'static str> {
    Vec::new()
}

/// Asks whether a type may cross an unwind: the inherent constant exists only if it does, and hides the other.
struct AskUnwind<T: ?Sized>(PhantomData<T>);

trait NotUnwindSafe {
    const BY_VALUE: bool = false;
    const BY_REFERENCE: bool = false;
}

impl<T: ?Sized> NotUnwindSafe for AskUnwind<T> {}

impl<T: ?Sized + UnwindSafe> AskUnwind<T> {
    const BY_VALUE: bool = true;
}

impl<T: ?Sized + RefUnwindSafe> AskUnwind<T> {
    const BY_REFERENCE: bool = true;
}

/// As two letters, `UnwindSafe` and `RefUnwindSafe`, with the names of the types.
macro_rules! unwinds {
    ($($expected:literal: $($name:ident $([$($argument:tt)*])?),* $(,)?;)*) => {{
        $($({
            type Asked = AskUnwind<$name $(<$($argument)*>)?>;
            let letters =
                [if Asked::BY_VALUE { 'U' } else { '-' }, if Asked::BY_REFERENCE { 'R' } else { '-' }];
            assert_eq!(String::from_iter(letters), $expected, "{}", stringify!($name $([$($argument)*])?));
        })*)*
        vec![$($(stringify!($name)),*),*]
    }};
}

/// What a panic unwinds past may be used afterwards, if it is whole: as with other runtimes, all that a program keeps for long. What is lent out of it, and a future that is on its way,
/// is as its parts are.
#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn every_public_type_says_whether_it_crosses_an_unwind() {
    /// What a panic may leave half changed.
    type Torn = Cell<&'static mut u8>;
    let mut rows = unwinds! {
        "UR": Runtime, LocalRuntime, Resume, Handle, EventLoop, WorkerId, AbortHandle, Interval, EventLoops, TaskBuilder,
            MissedTickBehavior, Metrics, WorkerMetrics, PollTimes, Dump, SpawnPlace, TaskDump, TaskState, EnterGuard;
        // Hooks of the user; an error of the system, as `std::io::Error`.
        "--": Builder, JoinError;
        "UR": LoopEnded, NoRuntime, NotInScope, NotOnEventLoop, ShutdownError;
        "UR": Simulation, Exhaustive, Explored, ForeignWakes;
        "UR": JoinHandle[Torn], JoinSet[Torn], TaskLocal[Torn], LoopMutex[Torn];
        "UR": Scoped[Both, Ready<Both>];
        "--": Scoped[Torn, Ready<Both>];
        // In the middle of their wait.
        "--": LoopLock['static, Torn], LoopLockOwned[Torn];
        "UR": LoopMutexGuard['static, Torn], OwnedLoopMutexGuard[Torn];
        "--": MappedLoopMutexGuard['static, Both, Torn], OwnedMappedLoopMutexGuard[Both, Torn];
    };
    rows.extend(sockets_that_cross_an_unwind());
    sources::same(&sources::public_types(), rows);
}

#[cfg(feature = "net")]
fn sockets_that_cross_an_unwind() -> Vec<&'static str> {
    use tasuki_rt::net::*;
    let mut rows = unwinds! {
        "UR": TcpListener, TcpStream, UdpSocket;
        "UR": ReadHalf['static, TcpStream], WriteHalf['static, TcpStream];
        "UR": OwnedReadHalf[TcpStream], OwnedWriteHalf[TcpStream], ReuniteError[TcpStream];
    };
    #[cfg(feature = "hyper")]
    {
        use tasuki_rt::io::{HyperExecutor, HyperTimer};
        rows.extend(unwinds! { "UR": HyperExecutor, HyperTimer; });
    }
    // Read in the sources, and not there.
    #[cfg(not(feature = "hyper"))]
    rows.extend(["HyperExecutor", "HyperTimer"]);
    #[cfg(unix)]
    {
        use tasuki_rt::io::Async;
        use tasuki_rt::signal::unix::{Signal, SignalKind};
        rows.extend(unwinds! {
            "UR": UnixListener, UnixStream, UnixDatagram;
            "UR": Async[std::fs::File], Signal, SignalKind;
        });
    }
    rows
}

#[cfg(not(feature = "net"))]
fn sockets_that_cross_an_unwind() -> Vec<&'static str> {
    Vec::new()
}
