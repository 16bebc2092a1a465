//! What a process has once and sockets need: its descriptors, its signals. Each test alone in a process of its own.
#![cfg(all(target_os = "linux", feature = "net"))]

use crate::kit::process::{alone, other_threads};
use crate::kit::{runtime, until, watchdog};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tasuki_rt::net::{TcpListener, TcpStream};
use tasuki_rt::spawn;

/// So many descriptors, and no more.
fn limit_descriptors(limit: u64) {
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: the limit is initialised, and alive for the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
}

/// As many descriptors as the system allows; how many that is.
fn raise_descriptors() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: there is room for the limit.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) }, 0);
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the limit is initialised, and alive for the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    limit.rlim_max as usize
}

/// Takes all descriptors that are left.
fn exhaust() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

/// Without descriptors an accept is an error, after a pause; with one it accepts again, without a new event of the system.
#[test]
fn accept_at_the_limit_of_descriptors_does_not_spin_and_recovers() {
    alone(|| {
        let _dog = watchdog(60);
        limit_descriptors(200);
        let runtime = runtime(2);
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = std::net::TcpStream::connect(address).unwrap();
        let taken = exhaust();
        let freed = Arc::new(AtomicBool::new(false));
        let free = freed.clone();
        let begun = Instant::now();
        let server = runtime.spawn(async move {
            let mut errors = 0;
            loop {
                match listener.accept().await {
                    Ok((mut stream, _)) => {
                        stream.write_all(b"at last").await.unwrap();
                        return errors;
                    }
                    Err(error) => {
                        assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{error}");
                        errors += 1;
                    }
                }
                if errors == 3 {
                    free.store(true, Ordering::SeqCst);
                }
            }
        });
        until(|| freed.load(Ordering::SeqCst));
        // Each error came after a pause of 50 ms: no more of them than there is time for, however slow the machine.
        assert!(begun.elapsed() >= Duration::from_millis(150));
        drop(taken);
        client.read_exact(&mut [0; 7]).unwrap();
        assert!(runtime.block_on(server).unwrap() >= 3);
    });
}

#[test]
fn a_poller_that_does_not_start_is_an_error_and_starts_later() {
    alone(|| {
        let _dog = watchdog(60);
        limit_descriptors(200);
        let runtime = runtime(2);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let again = listener.try_clone().unwrap();
        let mut taken = exhaust();
        for _ in 0..3 {
            // One is not enough: the poll, its clone and the wake-up.
            let error = runtime.block_on(async { TcpListener::from_std(again.try_clone()?) }).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "the clone");
            taken.pop();
            let error = runtime.block_on(async {
                let listener = again.try_clone()?;
                TcpListener::from_std(listener)
            });
            let error = error.unwrap_err();
            assert!(error.to_string().contains("poller does not start"), "{error}");
            taken.push(File::open("/dev/null").unwrap());
        }
        drop(taken);
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            listener.accept().await.unwrap();
        });
    });
}

extern "C" fn ignore(_signal: libc::c_int) {}

/// Signals interrupt the system calls of every thread, the wait of the poller among them: nothing is lost by it.
#[test]
fn signals_during_the_poll_are_nothing() {
    alone(|| {
        let _dog = watchdog(60);
        // SAFETY: zeroes are a valid `sigaction`; without SA_RESTART, so that calls are interrupted.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the action is initialised, and its handler does nothing.
        assert_eq!(unsafe { libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()) }, 0);
        let runtime = runtime(2);
        let ended = Arc::new(AtomicBool::new(false));
        let end = ended.clone();
        let storm = std::thread::spawn(move || {
            let mut sent = 0_u32;
            while !end.load(Ordering::SeqCst) {
                for thread in other_threads() {
                    // SAFETY: a signal for a thread of this process, or for none if it has gone.
                    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR2) };
                    sent += 1;
                }
                std::thread::yield_now();
            }
            sent
        });
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let server = spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = [0; 64];
                while let count @ 1.. = stream.read(&mut bytes).await.unwrap() {
                    stream.write_all(&bytes[..count]).await.unwrap();
                }
            });
            let mut client = TcpStream::connect(address).await.unwrap();
            for n in 0..500_u32 {
                client.write_all(&n.to_ne_bytes()).await.unwrap();
                let mut bytes = [0; 4];
                client.read_exact(&mut bytes).await.unwrap();
                assert_eq!(bytes, n.to_ne_bytes());
                if n % 50 == 0 {
                    // The workers sleep, until a deadline.
                    tasuki_rt::sleep(Duration::from_millis(2)).await;
                }
            }
            drop(client);
            server.await.unwrap();
        });
        ended.store(true, Ordering::SeqCst);
        assert!(storm.join().unwrap() > 0);
    });
}

/// Ten thousand sockets of open connections, each with a task that waits: all are dropped, and their descriptors closed.
#[test]
fn a_shutdown_with_ten_thousand_connected_sockets_closes_them_all() {
    alone(|| {
        let _dog = watchdog(120);
        // Both ends are sockets of the runtime.
        let connections = 5_000.min((raise_descriptors() - 100) / 2);
        let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = descriptors();
        let runtime = runtime(4);
        let waiting = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            for _ in 0..connections {
                let client = TcpStream::connect(address).await.unwrap();
                let (server, _) = listener.accept().await.unwrap();
                for mut stream in [client, server] {
                    let waiting = waiting.clone();
                    drop(spawn(async move {
                        waiting.fetch_add(1, Ordering::SeqCst);
                        stream.read(&mut [0]).await
                    }));
                }
            }
        });
        until(|| waiting.load(Ordering::SeqCst) == 2 * connections);
        assert_eq!(runtime.tasks(), 2 * connections);
        runtime.shutdown_timeout(Duration::MAX).unwrap();
        assert_eq!(runtime.tasks(), 0);
        drop(runtime);
        assert_eq!(descriptors(), before);
    });
}

/// Connections that the runtime has not accepted, and those whose tasks wait, end for peers elsewhere when it shuts down.
#[test]
fn a_shutdown_ends_the_connections_of_peers() {
    alone(|| {
        let _dog = watchdog(120);
        let runtime = runtime(2);
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        drop(runtime.spawn(async move {
            let mut accepted = Vec::new();
            for _ in 0..100 {
                let (mut stream, _) = listener.accept().await.unwrap();
                accepted.push(spawn(async move { stream.read(&mut [0]).await }));
            }
            std::future::pending::<()>().await;
            drop(listener);
        }));
        runtime.start().unwrap();
        let clients: Vec<_> = (0..150).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        until(|| runtime.tasks() == 101);
        runtime.shutdown_timeout(Duration::MAX).unwrap();
        for mut client in clients {
            let end = client.read(&mut [0]);
            assert!(
                matches!(&end, Ok(0)) || end.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
            );
        }
    });
}

/// A read ends behind a message that carries a descriptor, though more is there: the rest is read, too.
#[test]
fn a_message_with_a_descriptor_does_not_stop_the_stream() {
    use std::os::fd::AsRawFd;
    alone(|| {
        let _dog = watchdog(60);
        runtime(1).block_on(async {
            let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
            let mut stream = tasuki_rt::net::UnixStream::from_std(there).unwrap();
            for _ in 0..3 {
                send_with_descriptor(&here, b"a", here.as_raw_fd());
                (&here).write_all(b"bcd").unwrap();
                let mut bytes = [0; 64];
                let mut all = Vec::new();
                while all.len() < 4 {
                    let count = stream.read(&mut bytes).await.unwrap();
                    all.extend_from_slice(&bytes[..count]);
                }
                assert_eq!(all, b"abcd");
            }
        });
    });
}

fn send_with_descriptor(to: &std::os::unix::net::UnixStream, bytes: &[u8], descriptor: i32) {
    use std::os::fd::AsRawFd;
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // Room for a header and a descriptor, aligned as a header is.
    let mut control = [0_u64; 4];
    // SAFETY: zeroes are a valid message without parts.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: a function of its argument only.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(4) } as _;
    // SAFETY: the message has room for one header, so there is a first one.
    let header = unsafe { &mut *libc::CMSG_FIRSTHDR(&message) };
    header.cmsg_level = libc::SOL_SOCKET;
    header.cmsg_type = libc::SCM_RIGHTS;
    // SAFETY: as above.
    header.cmsg_len = unsafe { libc::CMSG_LEN(4) } as _;
    // SAFETY: there is room for a descriptor behind the header.
    unsafe { libc::CMSG_DATA(header).cast::<i32>().write_unaligned(descriptor) };
    // SAFETY: all parts of the message are alive, and have the lengths that it says.
    assert_eq!(unsafe { libc::sendmsg(to.as_raw_fd(), &message, 0) }, bytes.len() as isize);
}

/// A waker of a program: it blocks until it is let go, then panics.
struct Hostile {
    woken: std::sync::mpsc::Sender<()>,
    go_on: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
}

impl std::task::Wake for Hostile {
    fn wake(self: Arc<Self>) {
        self.woken.send(()).unwrap();
        self.go_on.lock().unwrap().recv().unwrap();
        panic!("a waker of another program");
    }
}

/// While a waker blocks the thread of the signals, so many come that its pipe is full: one that comes then is not lost. Neither the panic of that waker nor an interrupted
/// call ends the thread.
#[test]
fn signals_survive_a_full_pipe_a_panicking_waker_and_an_interrupted_call() {
    use tasuki_rt::signal::unix::{SignalKind, signal};
    alone(|| {
        let _dog = watchdog(60);
        let raise = |kind: SignalKind| {
            // SAFETY: the handler is ours.
            assert_eq!(unsafe { libc::raise(kind.as_raw()) }, 0);
        };
        let (many, one) = (SignalKind::user_defined1(), SignalKind::hangup());
        let (mut first, mut second) = (signal(many).unwrap(), signal(one).unwrap());
        let ((woken, is_woken), (let_go, go_on)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
        let hostile = Arc::new(Hostile { woken, go_on: std::sync::Mutex::new(go_on) });
        {
            let waker = std::task::Waker::from(hostile);
            let mut wait = std::pin::pin!(first.recv());
            let polled = wait.as_mut().poll(&mut std::task::Context::from_waker(&waker));
            assert!(polled.is_pending());
            raise(many);
            is_woken.recv().unwrap();
            (0..5_000).for_each(|_| raise(many));
            raise(one);
            let_go.send(()).unwrap();
        }
        let runtime = runtime(1);
        runtime.block_on(second.recv());
        // SAFETY: zeroes are a valid `sigaction`; without SA_RESTART, so that calls are interrupted.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the action is initialised, and its handler does nothing.
        assert_eq!(unsafe { libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()) }, 0);
        for _ in 0..100 {
            for thread in other_threads() {
                // SAFETY: a signal for a thread of this process, or for none if it has gone.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR2) };
            }
            raise(one);
            runtime.block_on(second.recv());
        }
    });
}

/// Two tasks wait for a signal, and each notices it; one that was raised before the wait is noticed too.
#[test]
fn signals_are_awaited() {
    use tasuki_rt::signal::unix::{SignalKind, signal};
    alone(|| {
        let _dog = watchdog(60);
        let raise = |kind: SignalKind| {
            // SAFETY: the handler is ours.
            assert_eq!(unsafe { libc::raise(kind.as_raw()) }, 0);
        };
        let (kind, other) = (SignalKind::user_defined1(), SignalKind::hangup());
        for bad in [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, 0, -1, 1_000] {
            assert!(signal(SignalKind::from_raw(bad)).is_err(), "{bad}");
        }
        let runtime = runtime(2);
        runtime.block_on(async {
            for _ in 0..50 {
                let (mut first, mut second) = (signal(kind).unwrap(), signal(kind).unwrap());
                let mut third = signal(other).unwrap();
                let waiting = spawn(async move { first.recv().await });
                raise(kind);
                waiting.await.unwrap();
                second.recv().await;
                let never = tasuki_rt::timeout(Duration::ZERO, third.recv()).await;
                assert!(never.is_err(), "it was not raised");
                raise(other);
                third.recv().await;
            }
        });
        // Ctrl-C, with a task that waits for it before it comes.
        let waiting = runtime.spawn(tasuki_rt::signal::ctrl_c());
        let _handler = signal(SignalKind::interrupt()).unwrap();
        while !waiting.is_finished() {
            raise(SignalKind::interrupt());
            std::thread::yield_now();
        }
        runtime.block_on(waiting).unwrap().unwrap();
    });
}

/// A signal that came before is not noticed, though the thread may still have to wake the tasks that waited for it; every one that comes after is. So it is with the first poll of `ctrl_c`.
#[test]
fn signals_are_noticed_from_the_creation_on() {
    use std::task::{Context, Waker};
    use tasuki_rt::signal::unix::{SignalKind, signal};
    alone(|| {
        let _dog = watchdog(60);
        let raise = |kind: SignalKind| {
            // SAFETY: the handler is ours.
            assert_eq!(unsafe { libc::raise(kind.as_raw()) }, 0);
        };
        let (kind, interrupt) = (SignalKind::user_defined2(), SignalKind::interrupt());
        let mut cx = Context::from_waker(Waker::noop());
        let runtime = runtime(1);
        let (mut first, mut control) = (signal(kind).unwrap(), signal(interrupt).unwrap());
        for round in 0..500 {
            raise(kind);
            let mut late = signal(kind).unwrap();
            let mut waits = Box::pin(late.recv());
            assert!(waits.as_mut().poll(&mut cx).is_pending(), "round {round}: it came before");
            runtime.block_on(first.recv());
            // By now the thread may have released those that wait: for a signal that this one has not.
            std::thread::sleep(Duration::from_micros(round % 3 * 50));
            assert!(waits.as_mut().poll(&mut cx).is_pending(), "round {round}: it came before");
            raise(kind);
            runtime.block_on(waits);
            runtime.block_on(first.recv());

            raise(interrupt);
            let mut waits = Box::pin(tasuki_rt::signal::ctrl_c());
            assert!(waits.as_mut().poll(&mut cx).is_pending(), "round {round}: it came before");
            runtime.block_on(control.recv());
            assert!(waits.as_mut().poll(&mut cx).is_pending(), "round {round}: it came before");
            raise(interrupt);
            runtime.block_on(waits).unwrap();
            runtime.block_on(control.recv());
        }
    });
}

/// One signal at a time, each while a task waits, or is about to: all are noticed.
#[test]
fn no_signal_is_missed() {
    const ROUNDS: usize = 500;
    use tasuki_rt::signal::unix::{SignalKind, signal};
    alone(|| {
        let _dog = watchdog(60);
        let kind = SignalKind::user_defined1();
        let (mut signals, noticed) = (signal(kind).unwrap(), Arc::new(AtomicUsize::new(0)));
        let (runtime, count) = (runtime(1), noticed.clone());
        let task = runtime.spawn(async move {
            for _ in 0..ROUNDS {
                signals.recv().await;
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        runtime.start().unwrap();
        for n in 0..ROUNDS {
            // SAFETY: the handler is ours.
            assert_eq!(unsafe { libc::raise(kind.as_raw()) }, 0);
            while noticed.load(Ordering::SeqCst) <= n {
                std::thread::yield_now();
            }
            // The task waits again, or not yet.
            (0..n % 64).for_each(|_| std::hint::spin_loop());
        }
        runtime.block_on(task).unwrap();
    });
}
