//! Wakers that panic or meddle, in every place of a socket that keeps one (H3): a slot and a queue for each direction. The other direction has a waker that drops the socket when it is woken, so
//! that what the runtime still holds of the socket is the last of it, and the hostile waker is dropped there.

use crate::kit::waker::{Call, Spy};
use crate::kit::{MS, watchdog};
use std::any::Any;
use std::future::Future;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};
use tasuki_rt::io::Async;
use tasuki_rt::{Handle, JoinHandle, LocalRuntime, Runtime, net, sleep};

/// Where a waker is kept.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// By the functions that poll.
    Slot,
    /// By those that are awaited.
    Queue,
}

#[derive(Clone, Copy, Debug)]
enum Direction {
    Read,
    Write,
}

/// What makes the runtime wake.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cause {
    /// Readiness of the direction whose waker drops the socket.
    OneDirection,
    BothDirections,
    Shutdown,
}

/// What a hostile waker does.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Spawns,
    Panics,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    call: Call,
    deed: Deed,
    /// Of the hostile waker, and of the one that drops the socket.
    places: [Place; 2],
    /// Of the hostile waker.
    direction: Direction,
    cause: Cause,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let all = [Place::Slot, Place::Queue];
    for (call, deed) in Call::ALL.into_iter().flat_map(|call| [(call, Deed::Spawns), (call, Deed::Panics)]) {
        for places in all.into_iter().flat_map(|hostile| all.map(|drops| [hostile, drops])) {
            for direction in [Direction::Read, Direction::Write] {
                for cause in [Cause::OneDirection, Cause::BothDirections, Cause::Shutdown] {
                    cases.push(Case { call, deed, places, direction, cause });
                }
            }
        }
    }
    cases
}

type Socket = Arc<Async<UnixStream>>;
type Wait = Pin<Box<dyn Future<Output = std::io::Result<()>> + Send>>;

/// Keeps the waker there; what comes back must live as long as it is to be kept.
fn keep(socket: &Socket, waker: &Waker, place: Place, direction: Direction) -> Option<Wait> {
    let mut cx = Context::from_waker(waker);
    let (socket, mut wait): (_, Wait) = match (place, direction) {
        (Place::Slot, Direction::Read) => {
            assert!(socket.poll_readable(&mut cx).is_pending());
            return None;
        }
        (Place::Slot, Direction::Write) => {
            assert!(socket.poll_writable(&mut cx).is_pending());
            return None;
        }
        (Place::Queue, Direction::Read) => {
            let inner = socket.clone();
            (socket, Box::pin(async move { inner.readable().await }))
        }
        (Place::Queue, Direction::Write) => {
            let inner = socket.clone();
            (socket, Box::pin(async move { inner.writable().await }))
        }
    };
    assert!(wait.as_mut().poll(&mut cx).is_pending(), "{socket:?}");
    Some(wait)
}

/// A socket that is neither readable nor writable, and its peer.
fn stuck(runtime: &Handle) -> (UnixStream, Socket) {
    let (peer, socket) = UnixStream::pair().unwrap();
    socket.set_nonblocking(true).unwrap();
    peer.set_nonblocking(true).unwrap();
    // Before it is registered: a report that it was writable could come late, and make it ready again.
    while (&socket).write(&[0; 65_536]).is_ok() {}
    let _inside = runtime.enter();
    let socket = Arc::new(Async::new(socket).unwrap());
    assert!(socket.try_write_with(|mut io| io.write(&[0])).is_err());
    assert!(socket.try_read_with(|mut io| io.read(&mut [0])).is_err());
    (peer, socket)
}

/// The peer makes it so.
fn make_ready(mut peer: &UnixStream, direction: Direction) {
    match direction {
        // The socket may have been dropped, if the other direction was ready before.
        Direction::Read => drop(peer.write_all(b"x")),
        Direction::Write => while peer.read(&mut [0; 65_536]).is_ok_and(|count| count > 0) {},
    }
}

/// A task that waits for a byte of another socket, and the end from which that comes.
fn bystander(runtime: &Handle) -> (UnixStream, JoinHandle<()>) {
    let (peer, socket) = UnixStream::pair().unwrap();
    let _inside = runtime.enter();
    let mut socket = net::UnixStream::from_std(socket).unwrap();
    let task = runtime.spawn(async move {
        socket.read_exact(&mut [0]).await.unwrap();
    });
    (peer, task)
}

/// `pass` lets the runtime run for a moment; `shut_down` is the end of it.
fn check(case: Case, runtime: &Handle, pass: &dyn Fn(), shut_down: Box<dyn FnOnce() + '_>) {
    let other = match case.direction {
        Direction::Read => Direction::Write,
        Direction::Write => Direction::Read,
    };
    let (peer, socket) = stuck(runtime);
    let (mut beside, task) = bystander(runtime);
    pass();
    let spawns = runtime.clone();
    let hostile = Spy::hostile(case.call, move || match case.deed {
        Deed::Spawns => drop(spawns.spawn(async {})),
        Deed::Panics => panic!("a hostile waker"),
    });
    let waker = hostile.waker();
    // A clone that panics has been kept by none.
    hostile.arm(usize::from(case.call == Call::Clone));
    let kept = catch_unwind(AssertUnwindSafe(|| keep(&socket, &waker, case.places[0], case.direction)));
    hostile.arm(0);
    let kept = kept.unwrap_or_else(|_| keep(&socket, &waker, case.places[0], case.direction));
    drop(waker);
    let held: Arc<Mutex<Vec<Box<dyn Any + Send>>>> = Arc::default();
    let drops = Spy::new();
    for call in [Call::Wake, Call::WakeByRef] {
        let held = held.clone();
        drops.on(call, move || {
            let all = std::mem::take(&mut *held.lock().unwrap());
            // One by one: of two panics, one while the other unwinds, the process would end.
            all.into_iter().for_each(|one| drop(catch_unwind(AssertUnwindSafe(|| drop(one)))));
        });
    }
    drops.arm(1);
    let other_wait = keep(&socket, &drops.waker(), case.places[1], other);
    held.lock().unwrap().extend([
        Box::new(other_wait) as Box<dyn Any + Send>,
        Box::new(kept),
        Box::new(socket),
    ]);
    hostile.arm(1);
    if case.cause != Cause::Shutdown {
        make_ready(&peer, other);
        if case.cause == Cause::BothDirections {
            make_ready(&peer, case.direction);
        }
        beside.write_all(b"y").unwrap();
        let start = Instant::now();
        while !(task.is_finished() && drops.fired()) {
            assert!(start.elapsed() < Duration::from_secs(20), "{case:?}: the runtime has stopped");
            pass();
        }
    }
    shut_down();
    assert!(drops.fired(), "{case:?}: not woken");
    assert!(held.lock().unwrap().is_empty() && hostile.alive() == 0, "{case:?}: {hostile:?}");
}

#[test]
fn workers_survive_them() {
    let _dog = watchdog(120);
    for case in cases() {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        runtime.start().unwrap();
        let shut_down = || {
            let ended = runtime.shutdown_timeout(Duration::from_secs(20));
            assert!(ended.is_ok(), "{case:?}: {ended:?}");
        };
        check(case, &runtime.handle(), &|| thread::sleep(MS / 4), Box::new(shut_down));
    }
}

#[test]
fn local_runtimes_survive_them() {
    let _dog = watchdog(120);
    for case in cases() {
        let runtime = LocalRuntime::new().unwrap();
        let cell = std::cell::RefCell::new(Some(runtime));
        let handle = cell.borrow().as_ref().unwrap().handle();
        let pass = || cell.borrow().as_ref().unwrap().block_on(sleep(MS / 4));
        check(case, &handle, &pass, Box::new(|| drop(cell.take())));
    }
}
