//! The server: one task for each connection, a counter behind a mutex, a semaphore that lets two work at a time.

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tasuki::{CancellationSource, Mutex, Semaphore, WaitGroup};
use tasuki_rt::io::HyperTimer;
use tasuki_rt::net::{TcpListener, TcpStream};

/// How many requests are worked on at a time.
pub(crate) const SEATS: usize = 2;

/// What the connections share.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) visits: Mutex<u64>,
    /// How many requests have come.
    pub(crate) requests: AtomicUsize,
    seats: Semaphore,
    seated: AtomicUsize,
    /// The most that were seated at the same time.
    pub(crate) crowd: AtomicUsize,
    pub(crate) quit: CancellationSource,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self {
            visits: Mutex::new(0),
            requests: AtomicUsize::new(0),
            seats: Semaphore::new(SEATS),
            seated: AtomicUsize::new(0),
            crowd: AtomicUsize::new(0),
            quit: CancellationSource::new(),
        }
    }

    /// Works on a visit, as soon as there is a seat, and counts it.
    async fn visit(&self) -> u64 {
        let _seat = self.seats.acquire().await.expect("never closed");
        let seated = self.seated.fetch_add(1, Ordering::SeqCst) + 1;
        self.crowd.fetch_max(seated, Ordering::SeqCst);
        tasuki_rt::sleep(Duration::from_millis(1)).await;
        self.seated.fetch_sub(1, Ordering::SeqCst);
        let mut visits = self.visits.lock().await;
        *visits += 1;
        *visits
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<String>, Infallible> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let (status, text) = match (request.method(), request.uri().path()) {
            (&Method::GET, "/") => (StatusCode::OK, format!("visit {}", self.visit().await)),
            (&Method::POST, "/quit") => {
                self.quit.request_cancel();
                (StatusCode::OK, "goodbye".to_owned())
            }
            (_, path) => (StatusCode::NOT_FOUND, format!("nothing at {path}")),
        };
        let mut response = Response::new(text);
        *response.status_mut() = status;
        Ok(response)
    }
}

/// Serves until a client asks to quit, then until every connection has answered what it was asked.
pub(crate) async fn serve(listener: TcpListener, site: Arc<Site>) -> io::Result<()> {
    let connections = Arc::new(WaitGroup::new());
    let token = site.quit.token();
    while let Some(accepted) = token.run_until_cancelled(listener.accept()).await {
        let (stream, _) = accepted?;
        let (site, member) = (site.clone(), connections.clone().member_owned());
        drop(tasuki_rt::spawn(async move {
            let _member = member;
            // A client that breaks the protocol, or goes away, is the end of its own connection only.
            if let Err(error) = converse(stream, &site).await {
                eprintln!("connection: {error}");
            }
        }));
    }
    drop(listener);
    connections.wait().await;
    Ok(())
}

async fn converse(stream: TcpStream, site: &Site) -> hyper::Result<()> {
    let service = service_fn(|request| site.answer(request));
    let mut builder = http1::Builder::new();
    let connection = builder.timer(HyperTimer).serve_connection(stream, service);
    let mut connection = pin!(connection);
    let token = site.quit.token();
    if let Some(result) = token.run_until_cancelled(connection.as_mut()).await {
        return result;
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}
