//! Servers over TCP, one for each runtime with sockets: each with one thread that does the work, on one processor.
//!
//! A subject brings its own listener, streams and tasks; what a connection does is the same for all.

use crate::peer::{Kind, NetRuntime, NetWork};
use crate::placement::{cpus, pin};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::thread;

/// Pins this thread to the first processor, for a server, or to the second, for the client. A thread inherits the place of the thread that started it: the processors are those that
/// there were before the first was pinned.
pub(crate) fn pin_side(side: usize) {
    static PROCESSORS: OnceLock<Vec<usize>> = OnceLock::new();
    let processors = PROCESSORS.get_or_init(cpus);
    if processors.len() > 1 {
        pin(processors[side]);
    }
}

/// A listener, whose address is known before a runtime takes it.
fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.set_nonblocking(true).expect("a socket can be non-blocking");
    let address = listener.local_addr().expect("it has an address");
    (listener, address)
}

/// Serves a connection until its end, by the functions that every stream has.
macro_rules! serve {
    ($stream:ident, $work:ident) => {{
        let (mut input, mut output) = ([0; 4096], Vec::with_capacity(4096));
        loop {
            let count = $stream.read(&mut input).await?;
            if count == 0 {
                return io::Result::Ok(());
            }
            output.clear();
            $work.answer(&input[..count], &mut output);
            $stream.write_all(&output).await?;
        }
    }};
}

/// tasuki-rt with one worker.
pub(crate) struct TasukiNet;

impl NetRuntime for TasukiNet {
    const NAME: &'static str = "tasuki-rt-1";
    const KIND: Kind = Kind::Ours;

    fn start(work: Arc<NetWork>) -> SocketAddr {
        let (listener, address) = listener();
        let runtime = tasuki_rt::Runtime::builder().workers(1).build().expect("a runtime");
        let accept = runtime.spawn(async move {
            pin_side(0);
            let listener = tasuki_rt::net::TcpListener::from_std(listener)?;
            loop {
                let (mut stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let work = work.clone();
                drop(tasuki_rt::spawn(async move { serve!(stream, work) }));
            }
            #[expect(unreachable_code, reason = "the type of the loop")]
            io::Result::Ok(())
        });
        runtime.start().expect("a thread");
        // For the rest of the process.
        std::mem::forget((runtime, accept));
        address
    }
}

/// tasuki-rt on the thread of `block_on`.
pub(crate) struct TasukiLocalNet;

impl NetRuntime for TasukiLocalNet {
    const NAME: &'static str = "tasuki-rt-local";
    const KIND: Kind = Kind::Ours;

    fn start(work: Arc<NetWork>) -> SocketAddr {
        let (listener, address) = listener();
        thread::spawn(move || {
            pin_side(0);
            let runtime = tasuki_rt::LocalRuntime::new().expect("a runtime");
            runtime.block_on(async move {
                let listener = tasuki_rt::net::TcpListener::from_std(listener)?;
                loop {
                    let (mut stream, _) = listener.accept().await?;
                    stream.set_nodelay(true)?;
                    let work = work.clone();
                    drop(tasuki_rt::spawn(async move { serve!(stream, work) }));
                }
                #[expect(unreachable_code, reason = "the type of the loop")]
                io::Result::Ok(())
            })
        });
        address
    }
}

async fn tokio_accept(listener: TcpListener, work: Arc<NetWork>) -> io::Result<()> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let work = work.clone();
        tokio::spawn(async move { serve!(stream, work) });
    }
}

/// tokio's `multi_thread` with one worker.
pub(crate) struct TokioNet;

impl NetRuntime for TokioNet {
    const NAME: &'static str = "tokio-1";

    fn start(work: Arc<NetWork>) -> SocketAddr {
        let (listener, address) = listener();
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder
            .worker_threads(1)
            .enable_all()
            .on_thread_start(|| pin_side(0))
            .build()
            .expect("a runtime");
        runtime.spawn(tokio_accept(listener, work));
        std::mem::forget(runtime);
        address
    }
}

/// tokio's `current_thread`.
pub(crate) struct TokioCurrentNet;

impl NetRuntime for TokioCurrentNet {
    const NAME: &'static str = "tokio-current";

    fn start(work: Arc<NetWork>) -> SocketAddr {
        let (listener, address) = listener();
        thread::spawn(move || {
            pin_side(0);
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            // Spawned, as with the others: what is in `block_on` has a path of its own.
            runtime.block_on(async { tokio::spawn(tokio_accept(listener, work)).await })
        });
        address
    }
}

/// smol: async-executor and async-io, on one thread that also polls.
pub(crate) struct SmolNet;

impl NetRuntime for SmolNet {
    const NAME: &'static str = "smol-1";

    fn start(work: Arc<NetWork>) -> SocketAddr {
        use futures_lite::{AsyncReadExt, AsyncWriteExt};
        let (listener, address) = listener();
        let (started, wait) = channel();
        thread::spawn(move || {
            pin_side(0);
            let executor: &'static async_executor::StaticExecutor = async_executor::Executor::new().leak();
            executor
                .spawn(async move {
                    let listener = async_io::Async::new_nonblocking(listener)?;
                    loop {
                        let (stream, _) = listener.accept().await?;
                        stream.get_ref().set_nodelay(true)?;
                        let (mut stream, work) = (stream, work.clone());
                        executor.spawn(async move { serve!(stream, work) }).detach();
                    }
                    #[expect(unreachable_code, reason = "the type of the loop")]
                    io::Result::Ok(())
                })
                .detach();
            started.send(()).expect("the caller waits");
            async_io::block_on(executor.run(std::future::pending::<()>()))
        });
        wait.recv().expect("the thread starts");
        address
    }
}
