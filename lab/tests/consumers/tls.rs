//! hyper and rustls over the sockets of `tasuki-rt`, unchanged: a client and a server of HTTP, with TLS and without. The certificates are made by the test.

use crate::kit::watchdog::watchdog;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use tasuki_rt::io::{HyperExecutor, HyperTimer};
use tasuki_rt::net::{TcpListener, TcpStream};
use tasuki_rt::{JoinSet, Runtime, spawn};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);
const NAME: &str = "localhost";

/// Both sides of a connection that trusts one certificate.
struct Trust {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
}

fn trust() -> Trust {
    let made = rcgen::generate_simple_self_signed([String::from(NAME)]).expect("a certificate can be made");
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("a certificate");
    let server = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a key");
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Trust { acceptor: TlsAcceptor::from(Arc::new(server)), connector: TlsConnector::from(Arc::new(client)) }
}

fn name() -> ServerName<'static> {
    ServerName::try_from(NAME).expect("a name")
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, listener.accept().await.unwrap().0)
}

fn runtimes() -> [Runtime; 2] {
    [1, 3].map(|workers| Runtime::builder().workers(workers).build().expect("a runtime can be made"))
}

/// A megabyte each way through TLS, both ways at once, and a proper end.
#[test]
fn rustls_works_over_our_streams() {
    const LENGTH: usize = 1 << 20;
    let _dog = watchdog(120);
    for runtime in runtimes() {
        runtime.block_on(async {
            let trust = trust();
            let (client, server) = pair().await;
            let accepting = spawn(async move {
                let stream = trust.acceptor.accept(server).await.unwrap();
                let (mut read, mut write) = tokio::io::split(stream);
                let copied = tokio::io::copy(&mut read, &mut write).await.unwrap();
                write.shutdown().await.unwrap();
                copied
            });
            let stream = trust.connector.connect(name(), client).await.unwrap();
            let (mut read, mut write) = tokio::io::split(stream);
            let bytes: Vec<u8> = (0..LENGTH).map(|n| (n % 251) as u8).collect();
            let sent = bytes.clone();
            let writing = spawn(async move {
                write.write_all(&sent).await.unwrap();
                write.shutdown().await.unwrap();
            });
            let mut all = Vec::new();
            read.read_to_end(&mut all).await.unwrap();
            assert!(all == bytes, "{} bytes came back", all.len());
            writing.await.unwrap();
            assert_eq!(accepting.await.unwrap(), LENGTH as u64);
        });
    }
}

/// A peer that does not speak TLS, one that goes away in the middle of the handshake, and one with a certificate that is not trusted: errors, not hangs.
#[test]
fn a_handshake_that_fails_is_an_error() {
    let _dog = watchdog(120);
    for runtime in runtimes() {
        runtime.block_on(async {
            let ours = trust();
            let (mut client, server) = pair().await;
            client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
            assert!(ours.acceptor.accept(server).await.is_err(), "no TLS");
            let (client, server) = pair().await;
            drop(client);
            assert!(ours.acceptor.accept(server).await.is_err(), "the peer has gone");
            let (client, server) = pair().await;
            let accepting = spawn(async move { trust().acceptor.accept(server).await.map(drop) });
            assert!(ours.connector.connect(name(), client).await.is_err(), "a stranger");
            assert!(accepting.await.unwrap().is_err());
        });
    }
}

/// Answers with what it was sent.
async fn echo(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    let path = request.uri().path().to_owned();
    let text = text_of(request.into_body()).await;
    Ok(Response::new(format!("{path}: {text}")))
}

/// All of a body.
async fn text_of(mut body: Incoming) -> String {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        bytes.extend_from_slice(&frame.expect("the peer sends all").into_data().unwrap_or_default());
    }
    String::from_utf8(bytes).expect("text")
}

/// Serves connections, in tasks of their own, with our timers.
async fn serve(listener: TcpListener, acceptor: Option<TlsAcceptor>) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let acceptor = acceptor.clone();
        drop(spawn(async move {
            let mut builder = server::Builder::new();
            builder.timer(HyperTimer).half_close(true);
            match acceptor {
                None => builder.serve_connection(stream, service_fn(echo)).await,
                Some(acceptor) => {
                    let stream = acceptor.accept(stream).await.expect("a client of this test");
                    builder.serve_connection(TokioIo::new(stream), service_fn(echo)).await
                }
            }
        }));
    }
}

/// Asks one thing after the other on one connection, by hyper's client.
async fn ask(stream: impl hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static, requests: usize) {
    let (mut sender, connection) = client::handshake(stream).await.unwrap();
    hyper::rt::Executor::execute(&HyperExecutor, async move { drop(connection.await) });
    for n in 0..requests {
        // Bodies of every size, up to many reads.
        let body = "x".repeat(n * n * 1_000);
        let request = Request::post(format!("/{n}")).header("host", NAME).body(body.clone()).unwrap();
        // The end of the last answer is known here before the connection's own task has seen it.
        sender.ready().await.unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert!(text_of(answer.into_body()).await == format!("/{n}: {body}"), "answer {n}");
    }
}

/// Client and server of hyper talk over our streams by its own traits, and over TLS.
#[test]
fn hyper_talks_to_hyper_with_tls_and_without() {
    const CLIENTS: usize = 6;
    const REQUESTS: usize = 12;
    let _dog = watchdog(120);
    for runtime in runtimes() {
        for with_tls in [false, true] {
            runtime.block_on(async {
                let Trust { acceptor, connector } = trust();
                let listener = TcpListener::bind(LOOPBACK).await.unwrap();
                let address = listener.local_addr().unwrap();
                let serving = spawn(serve(listener, with_tls.then_some(acceptor)));
                let mut clients = JoinSet::new();
                for _ in 0..CLIENTS {
                    let connector = connector.clone();
                    clients.spawn(async move {
                        let stream = TcpStream::connect(address).await.unwrap();
                        if with_tls {
                            let stream = connector.connect(name(), stream).await.unwrap();
                            ask(TokioIo::new(stream), REQUESTS).await;
                        } else {
                            ask(stream, REQUESTS).await;
                        }
                    });
                }
                while let Some(ended) = clients.join_next().await {
                    ended.unwrap();
                }
                serving.abort();
            });
        }
    }
}
