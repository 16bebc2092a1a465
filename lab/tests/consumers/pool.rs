//! A consumer of the primitives: a pool of connections as applications have it (managed: it makes connections, checks them when they come back, limits how many there are and how long one waits), under tokio and
//! under `tasuki-rt`, with the sockets of each. Why this one, and not bb8 or deadpool: decision 26.

use super::managed::{GetError, Manager, Pool};
use crate::kit::watchdog::watchdog;
use futures_lite::future::yield_now;
use std::fmt::Debug;
use std::future::Future;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const SIZE: usize = 3;
const TASKS: usize = 24;
const ROUNDS: usize = 20;
/// A server ends a connection after so many answers: the pool has to make new ones.
const ANSWERS: usize = 7;

/// A server of plain threads: answers lines, and goes away now and then.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                for _ in 0..ANSWERS {
                    let mut line = String::new();
                    if !stream.read_line(&mut line).is_ok_and(|count| count > 0) {
                        return;
                    }
                    if stream.get_mut().write_all(line.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// What the pool knows of connections: how many there are.
#[derive(Default)]
struct Counted {
    open: AtomicUsize,
    most: AtomicUsize,
    made: AtomicUsize,
}

/// A connection that counts itself.
struct Connection<S> {
    stream: S,
    answers: usize,
    users: AtomicUsize,
    counted: Arc<Counted>,
}

impl<S> Connection<S> {
    fn new(stream: S, counted: Arc<Counted>) -> Self {
        counted.made.fetch_add(1, SeqCst);
        counted.most.fetch_max(counted.open.fetch_add(1, SeqCst) + 1, SeqCst);
        Self { stream, answers: 0, users: AtomicUsize::new(0), counted }
    }
}

impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        self.counted.open.fetch_sub(1, SeqCst);
    }
}

/// What the runtimes differ in.
trait Sockets: Send + Sync + 'static {
    type Stream: Send + 'static;
    fn connect(address: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>> + Send;
    fn ask(stream: &mut Self::Stream, line: &[u8]) -> impl Future<Output = io::Result<()>> + Send;
}

struct Ours;

impl Sockets for Ours {
    type Stream = tasuki_rt::net::TcpStream;

    async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
        tasuki_rt::net::TcpStream::connect(address).await
    }

    async fn ask(stream: &mut Self::Stream, line: &[u8]) -> io::Result<()> {
        stream.write_all(line).await?;
        let mut answer = vec![0; line.len()];
        stream.read_exact(&mut answer).await?;
        assert_eq!(answer, line, "the answer of another request");
        Ok(())
    }
}

struct Tokio;

impl Sockets for Tokio {
    type Stream = tokio::net::TcpStream;

    async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
        tokio::net::TcpStream::connect(address).await
    }

    async fn ask(stream: &mut Self::Stream, line: &[u8]) -> io::Result<()> {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        stream.write_all(line).await?;
        let mut answer = vec![0; line.len()];
        stream.read_exact(&mut answer).await?;
        assert_eq!(answer, line, "the answer of another request");
        Ok(())
    }
}

/// Connects to the server, and lets no connection back that has failed or is near its end.
struct Lines<S> {
    address: SocketAddr,
    counted: Arc<Counted>,
    sockets: std::marker::PhantomData<fn() -> S>,
}

impl<S: Sockets> Manager for Lines<S> {
    type Connection = Connection<S::Stream>;
    type Error = io::Error;

    async fn create(&self) -> io::Result<Self::Connection> {
        Ok(Connection::new(S::connect(self.address).await?, self.counted.clone()))
    }

    fn is_usable(&self, connection: &Self::Connection) -> bool {
        connection.answers < ANSWERS
    }
}

fn pool<S: Sockets>() -> (Arc<Pool<Lines<S>>>, Arc<Counted>) {
    let counted = Arc::<Counted>::default();
    let lines = Lines { address: server(), counted: counted.clone(), sockets: std::marker::PhantomData };
    (Pool::new(lines, SIZE), counted)
}

/// One client: takes a connection, asks, and gives it back; now and then it gives up instead, with a request under way or while it waits.
async fn client<S: Sockets>(pool: Arc<Pool<Lines<S>>>, number: usize) {
    for round in 0..ROUNDS {
        let patience =
            if (number + round) % 5 == 0 { Duration::from_micros(50) } else { Duration::from_secs(60) };
        let mut lease = match pool.get(patience).await {
            Ok(lease) => lease,
            Err(GetError::Elapsed) if patience < Duration::from_secs(1) => continue,
            Err(error) => panic!("{error:?}"),
        };
        assert_eq!(lease.users.fetch_add(1, SeqCst), 0, "a connection with two users");
        let line = format!("client {number} round {round}\n");
        // Until it has answered it is not to be used again: a future that is dropped here leaves half of a conversation.
        lease.answers += ANSWERS;
        S::ask(&mut lease.stream, line.as_bytes()).await.expect("a connection that is usable answers");
        lease.answers -= ANSWERS - 1;
        lease.users.fetch_sub(1, SeqCst);
    }
}

/// All have gone: what there is of connections is idle, and the permits are there.
fn check<S: Sockets>(pool: &Pool<Lines<S>>, counted: &Counted) {
    assert!(counted.most.load(SeqCst) <= SIZE, "{} connections at once", counted.most.load(SeqCst));
    assert!(counted.made.load(SeqCst) > SIZE, "the pool made new ones for those that had ended");
    assert_eq!(pool.available(), SIZE);
    assert_eq!(counted.open.load(SeqCst), pool.idle(), "a connection that is neither used nor idle");
}

/// Clients, and as many that are aborted wherever they are.
async fn clients<H, E: Debug>(spawn: impl Fn(usize) -> H, abort: fn(&H), is_panic: fn(&E) -> bool)
where
    H: Future<Output = Result<(), E>>,
{
    let [tasks, doomed] = [(); 2].map(|()| (0..TASKS).map(&spawn).collect::<Vec<H>>());
    for task in &doomed {
        yield_now().await;
        abort(task);
    }
    for task in doomed {
        assert!(!task.await.is_err_and(|error| is_panic(&error)));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

#[test]
fn the_pool_under_tasuki_rt() {
    let _dog = watchdog(120);
    for workers in [1, 3] {
        let runtime = tasuki_rt::Runtime::builder().workers(workers).build().unwrap();
        let (pool, counted) = pool::<Ours>();
        let spawn = |number| tasuki_rt::spawn(client(pool.clone(), number));
        runtime.block_on(clients(spawn, tasuki_rt::JoinHandle::abort, tasuki_rt::JoinError::is_panic));
        check(&pool, &counted);
    }
}

#[test]
fn the_pool_under_tokio() {
    let _dog = watchdog(120);
    let flavours = [
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
        tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap(),
    ];
    for runtime in flavours {
        let (pool, counted) = pool::<Tokio>();
        let spawn = |number| tokio::spawn(client(pool.clone(), number));
        runtime.block_on(clients(spawn, tokio::task::JoinHandle::abort, tokio::task::JoinError::is_panic));
        check(&pool, &counted);
    }
}

/// A pool that is closed lets those that wait know, and takes nothing back.
#[test]
fn a_closed_pool_ends_the_waits() {
    let _dog = watchdog(120);
    let runtime = tasuki_rt::Runtime::builder().workers(2).build().unwrap();
    let (pool, counted) = pool::<Ours>();
    runtime.block_on(async {
        let mut leases = Vec::new();
        for _ in 0..SIZE {
            leases.push(pool.get(Duration::from_secs(60)).await.unwrap());
        }
        let waiter = pool.clone();
        let waiting = tasuki_rt::spawn(async move { waiter.get(Duration::from_secs(60)).await.map(drop) });
        pool.close();
        assert!(matches!(waiting.await.unwrap(), Err(GetError::Closed)));
        assert!(matches!(pool.get(Duration::ZERO).await, Err(GetError::Closed)));
        drop(leases);
    });
    assert_eq!((pool.idle(), counted.open.load(SeqCst)), (0, 0));
}
