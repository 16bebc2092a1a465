//! Which types cross threads, and which may be moved. A public type without a row fails the test.

use crate::kit::sources;
use crate::kit::traits::{Both, Neither, SendOnly, matrix, traits};
use std::future::Ready;
use std::marker::PhantomPinned;
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
        "SYU": JoinHandle[Both], JoinHandle[SendOnly], JoinSet[Both];
        // Results that have come are in it.
        "S-U": JoinSet[SendOnly];
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

/// As those of other runtimes: what a panic unwinds past may be used afterwards.
#[test]
fn handles_cross_an_unwind() {
    use std::panic::{RefUnwindSafe, UnwindSafe};

    fn unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}
    type Torn = std::cell::Cell<&'static mut u8>;

    unwind_safe::<(Runtime, Handle, EventLoop, AbortHandle, JoinHandle<Torn>)>();
    #[cfg(feature = "net")]
    unwind_safe::<(tasuki_rt::net::TcpStream, tasuki_rt::net::TcpListener, tasuki_rt::net::UdpSocket)>();
}
