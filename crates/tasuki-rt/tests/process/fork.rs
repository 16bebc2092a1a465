//! The child of a fork: the threads of its parent's runtimes are not there.

use crate::kit::process::alone;
use crate::kit::{runtime, until, watchdog};
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(feature = "net")]
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
#[cfg(feature = "net")]
use tasuki_rt::net::{UdpSocket, UnixDatagram, UnixStream};
use tasuki_rt::{LocalRuntime, Runtime, ShutdownError};

/// Runs it in a child of this process; true if that ends, and says that it was so.
fn in_child(so: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child has this thread only; it uses nothing whose lock another thread could have, and ends here.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_so = catch_unwind(AssertUnwindSafe(so)).unwrap_or(false);
        // SAFETY: ends the child without the destructors of its parent.
        unsafe { libc::_exit(if is_so { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: the child was started above, and the status is writable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

fn does_not_start(runtime: &Runtime) -> bool {
    let error = runtime.start().unwrap_err().to_string();
    let panicked = catch_unwind(AssertUnwindSafe(|| runtime.block_on(async {})));
    error.contains("process that forked") && panicked.is_err()
}

/// What would wait for the threads of the parent is an error, and the drop waits for none; in the parent nothing has changed.
#[test]
fn the_threads_of_a_runtime_are_not_in_a_child() {
    alone(|| {
        let _dog = watchdog(60);
        std::panic::set_hook(Box::new(|_| ()));
        for blocking in [false, true] {
            let runtime = runtime(2);
            if blocking {
                let work = runtime.spawn_blocking(|| ());
                until(|| work.is_finished());
            } else {
                runtime.block_on(async {});
            }
            let mut kept = Some(runtime);
            assert!(in_child(|| {
                let runtime = kept.take().unwrap();
                let refused = does_not_start(&runtime);
                let drained = runtime.drain(Duration::MAX) == Err(ShutdownError::TasksLeft);
                let ended = runtime.shutdown_timeout(Duration::MAX) == Err(ShutdownError::TimedOut);
                drop(runtime);
                refused && drained && ended
            }));
            let runtime = kept.unwrap();
            assert_eq!(runtime.block_on(runtime.spawn(async { 1 })).unwrap(), 1);
            assert_eq!(runtime.shutdown_timeout(Duration::MAX), Ok(()));
        }
    });
}

/// One that was not started is as good there as here, and so is a new one.
#[test]
fn a_runtime_without_threads_works_in_a_child() {
    alone(|| {
        let _dog = watchdog(60);
        let mut kept = Some(runtime(2));
        assert!(in_child(|| {
            let answer = |runtime: Runtime| runtime.block_on(runtime.spawn(async { 7 })).unwrap();
            answer(kept.take().unwrap()) == 7 && answer(runtime(1)) == 7
        }));
        let local = LocalRuntime::new().unwrap();
        let mut kept = Some(local);
        assert!(in_child(|| {
            let local = kept.take().unwrap();
            local.block_on(local.spawn_local(async { 7 })).unwrap() == 7
        }));
        // With a thread for blocking work, the rest works; new work is refused, and the drop does not wait for the thread.
        let local = kept.unwrap();
        assert_eq!(local.block_on(local.spawn_blocking(|| 7)).unwrap(), 7);
        let mut kept = Some(local);
        assert!(in_child(|| {
            let local = kept.take().unwrap();
            let _dog = watchdog(20);
            let refused = local.block_on(local.spawn_blocking(|| 7)).unwrap_err();
            let runs = local.block_on(local.spawn_local(async { 7 })).unwrap();
            drop(local);
            refused.is_refused() && refused.to_string().contains("process that forked") && runs == 7
        }));
        // In the parent nothing has changed.
        let local = kept.unwrap();
        assert_eq!(local.block_on(local.spawn_blocking(|| 7)).unwrap(), 7);
    });
}

/// What a child does to the sockets of its parent, which wait in one place of the system for both: nothing.
#[cfg(feature = "net")]
#[test]
fn a_child_that_drops_sockets_leaves_those_of_its_parent_alone() {
    alone(|| {
        let _dog = watchdog(60);
        let runtime = runtime(1);
        runtime.block_on(async {
            for takes_out in [false, true] {
                // The drop of an owned half ends the connection, in the process that made it.
                let (one, mut other) = UnixStream::pair().unwrap();
                let (_read, write) = one.into_split();
                let mut kept = Some(write);
                assert!(in_child(|| kept.take().is_some()));
                kept.as_mut().unwrap().write_all(b"x").await.unwrap();
                assert_eq!(other.read(&mut [0; 2]).await.unwrap(), 1);
                drop(kept);
                assert_eq!(other.read(&mut [0; 2]).await.unwrap(), 0);

                let (read, mut write) = UnixStream::pair().unwrap();
                let mut byte = [0];
                // Asked, and not ready: from now on only a report makes it so.
                let asked = read.try_read(&mut byte).unwrap_err();
                assert_eq!(asked.kind(), std::io::ErrorKind::WouldBlock);
                let mut kept = Some(read);
                assert!(in_child(|| {
                    let read = kept.take().unwrap();
                    let made = UnixDatagram::unbound().unwrap_err().to_string();
                    if takes_out {
                        drop(read.into_std())
                    } else {
                        drop(read)
                    }
                    made.contains("process that forked")
                }));
                let mut read = kept.unwrap();
                let reader = async { read.read(&mut byte).await };
                let writer = async { write.write_all(b"x").await };
                let (count, written) = futures_util::join!(reader, writer);
                assert_eq!(count.unwrap(), 1);
                written.unwrap();
            }
        });
    });
}

/// A runtime that has sockets is not for both, whether it was started or not.
#[cfg(feature = "net")]
#[test]
fn a_runtime_with_sockets_is_not_started_in_a_child() {
    alone(|| {
        let _dog = watchdog(60);
        std::panic::set_hook(Box::new(|_| ()));
        let runtime = runtime(1);
        let socket = {
            let _inside = runtime.enter();
            UdpSocket::from_std(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap()
        };
        let mut kept = Some(runtime);
        assert!(in_child(|| {
            let runtime = kept.take().unwrap();
            let refused = does_not_start(&runtime);
            drop(runtime);
            refused
        }));
        let local = LocalRuntime::new().unwrap();
        let other = local.block_on(async { UdpSocket::bind("127.0.0.1:0").await }).unwrap();
        assert!(in_child(|| catch_unwind(AssertUnwindSafe(|| local.block_on(async {}))).is_err()));
        // Its tasks are the parent's as well.
        static IS_DROPPED: AtomicBool = AtomicBool::new(false);
        struct OnDrop;
        impl Drop for OnDrop {
            fn drop(&mut self) {
                IS_DROPPED.store(true, Ordering::Relaxed);
            }
        }
        let value = OnDrop;
        drop(local.handle().spawn(async move {
            std::future::pending::<()>().await;
            drop(value);
        }));
        local.block_on(tasuki_rt::yield_now());
        let mut local = Some(local);
        assert!(in_child(|| {
            drop(local.take());
            !IS_DROPPED.load(Ordering::Relaxed)
        }));
        let local = local.unwrap();
        let address = socket.local_addr().unwrap();
        local.block_on(other.send_to(b"x", address)).unwrap();
        assert_eq!(kept.unwrap().block_on(socket.recv(&mut [0; 2])).unwrap(), 1);
    });
}
