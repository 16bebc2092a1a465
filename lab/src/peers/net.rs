//! Servers over TCP, one for each runtime with sockets: each with one thread that does the work, on one processor.
//!
//! A subject brings its own listener, streams and tasks; what a connection does is the same for all.

use crate::peer::{Kind, NetRuntime, NetWork, PLAIN_TEXT};
use crate::placement::{cpus, pin};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::thread;

/// Pins this thread to the first processor, for a server, or to the second, for the client; whether that could be done. A thread inherits the place of the thread that started it: the
/// processors are those that there were before the first was pinned.
pub(crate) fn pin_side(side: usize) -> bool {
    static PROCESSORS: OnceLock<Vec<usize>> = OnceLock::new();
    let processors = PROCESSORS.get_or_init(cpus);
    if processors.len() > 1 {
        pin(processors[side]);
    }
    processors.len() > 1 && cpus() == [processors[side]]
}

/// A listener, whose address is known before a runtime takes it.
fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.set_nonblocking(true).expect("a socket can be non-blocking");
    let address = listener.local_addr().expect("it has an address");
    (listener, address)
}

/// Every request is answered by the same text.
async fn plain_text(_: Request<Incoming>) -> Result<Response<String>, Infallible> {
    Ok(Response::new(String::from(PLAIN_TEXT)))
}

/// What becomes of a connection, by the functions that every stream has: `serve`, `bytes` and `http`.
macro_rules! connections {
    ($name:ident, $stream:ty, $hyper:expr, {$($uses:item)*}) => {
        mod $name {
            use super::*;
            $($uses)*

            pub(super) async fn serve(mut stream: $stream, work: Arc<NetWork>) -> io::Result<()> {
                let (mut input, mut output) = ([0; 4096], Vec::with_capacity(4096));
                loop {
                    let count = stream.read(&mut input).await?;
                    if count == 0 {
                        return Ok(());
                    }
                    output.clear();
                    work.answer(&input[..count], &mut output);
                    stream.write_all(&output).await?;
                }
            }

            pub(super) async fn bytes(mut stream: $stream) -> io::Result<()> {
                let mut byte = [0];
                while stream.read(&mut byte).await? > 0 {
                    stream.write_all(&byte).await?;
                }
                Ok(())
            }

            pub(super) async fn http(stream: $stream) -> hyper::Result<()> {
                http1::Builder::new().serve_connection($hyper(stream), service_fn(plain_text)).await
            }
        }
    };
}

connections!(of_tasuki, tasuki_rt::net::TcpStream, std::convert::identity, {});
connections!(of_tokio, tokio::net::TcpStream, hyper_util::rt::TokioIo::new, {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
});
connections!(of_smol, async_io::Async<std::net::TcpStream>, smol_hyper::rt::FuturesIo::new, {
    use futures_lite::{AsyncReadExt, AsyncWriteExt};
});

/// Spawns what becomes of a connection, each a task of its own type: none is larger for what the others hold.
macro_rules! spawn_connection {
    ($of:ident, $stream:ident, $work:ident, |$future:ident| $spawn:expr) => {
        match &*$work {
            NetWork::Echo | NetWork::Store(_) => {
                let $future = $of::serve($stream, $work.clone());
                $spawn;
            }
            NetWork::Bytes => {
                let $future = $of::bytes($stream);
                $spawn;
            }
            NetWork::Http => {
                let $future = $of::http($stream);
                $spawn;
            }
        }
    };
}

async fn tasuki_accept(listener: TcpListener, work: Arc<NetWork>) -> io::Result<()> {
    let listener = tasuki_rt::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        spawn_connection!(of_tasuki, stream, work, |future| drop(tasuki_rt::spawn(future)));
    }
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
            tasuki_accept(listener, work).await
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
            runtime.block_on(tasuki_accept(listener, work))
        });
        address
    }
}

async fn tokio_accept(listener: TcpListener, work: Arc<NetWork>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        spawn_connection!(of_tokio, stream, work, |future| drop(tokio::spawn(future)));
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
            .on_thread_start(|| {
                pin_side(0);
            })
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
                        spawn_connection!(of_smol, stream, work, |future| executor.spawn(future).detach());
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
