//! The rows of the functions `poll_*` in the table of awaitables (`budget_table.rs`): those of the stream traits of others, and our own. They are named by the file that implements them.

use super::budget_sockets::{WAITING, each, stream};
use super::budget_table::{ATTEMPTS, ENOUGH, FORGETS, Other, Outcome, Row, is_ready_at_once, is_send, row};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io::IoSlice;
use std::path::Path;
use std::pin::Pin;
use tasuki_rt::yield_now;

/// One call of a function of a trait, polled to its end.
macro_rules! call {
    ($of:path, $function:ident, $stream:ident $(, $argument:expr)*) => {
        poll_fn(|cx| <_ as $of>::$function(Pin::new(&mut $stream), cx $(, $argument)*)).await.unwrap()
    };
}

/// The flushes and ends of all three traits. For the types beside `TcpStream`: the same macro implements them.
macro_rules! writers {
    ($setup:tt, $write:ident) => {
        vec![
            row!("flush, futures-io", [], $setup, call!(futures_io::AsyncWrite, poll_flush, $write)),
            row!("close, futures-io", [], $setup, call!(futures_io::AsyncWrite, poll_close, $write)),
            row!("flush, tokio", [], $setup, call!(tokio::io::AsyncWrite, poll_flush, $write)),
            row!("shutdown, tokio", [], $setup, call!(tokio::io::AsyncWrite, poll_shutdown, $write)),
            row!("flush, hyper", [], $setup, call!(hyper::rt::Write, poll_flush, $write)),
            row!("shutdown, hyper", [], $setup, call!(hyper::rt::Write, poll_shutdown, $write)),
        ]
    };
}

#[allow(unused_mut, unused_variables, reason = "as in `budget_sockets.rs`")]
pub(super) fn rows() -> Vec<Row> {
    let traits = each!(
        {
            let (mut stream, _peer) = stream().await;
        },
        "futures_io::poll_read" => call!(futures_io::AsyncRead, poll_read, stream, &mut [0]),
        "futures_io::poll_write" => call!(futures_io::AsyncWrite, poll_write, stream, b"x"),
        "futures_io::poll_write_vectored" =>
            call!(futures_io::AsyncWrite, poll_write_vectored, stream, &[IoSlice::new(b"x")]),
        "futures_io::poll_flush" => call!(futures_io::AsyncWrite, poll_flush, stream),
        "futures_io::poll_close" => call!(futures_io::AsyncWrite, poll_close, stream),
        "tokio_io::poll_read" =>
            call!(tokio::io::AsyncRead, poll_read, stream, &mut tokio::io::ReadBuf::new(&mut [0])),
        "tokio_io::poll_write" => call!(tokio::io::AsyncWrite, poll_write, stream, b"x"),
        "tokio_io::poll_write_vectored" =>
            call!(tokio::io::AsyncWrite, poll_write_vectored, stream, &[IoSlice::new(b"x")]),
        "tokio_io::poll_flush" => call!(tokio::io::AsyncWrite, poll_flush, stream),
        "tokio_io::poll_shutdown" => call!(tokio::io::AsyncWrite, poll_shutdown, stream),
        "hyper::poll_read" =>
            call!(hyper::rt::Read, poll_read, stream, hyper::rt::ReadBuf::new(&mut [0]).unfilled()),
        "hyper::poll_write" => call!(hyper::rt::Write, poll_write, stream, b"x"),
        "hyper::poll_write_vectored" =>
            call!(hyper::rt::Write, poll_write_vectored, stream, &[IoSlice::new(b"x")]),
        "hyper::poll_flush" => call!(hyper::rt::Write, poll_flush, stream),
        "hyper::poll_shutdown" => call!(hyper::rt::Write, poll_shutdown, stream),
    );
    let halves = writers!(
        {
            let (mut stream, _peer) = stream().await;
            let (_read, mut write) = stream.split();
        },
        write
    );
    let owned_halves = writers!(
        {
            let (stream, _peer) = stream().await;
            let (_read, mut write) = stream.into_split();
        },
        write
    );
    let mut all = vec![traits, halves, owned_halves];
    #[cfg(unix)]
    all.extend(unix::rows());
    all.into_iter().flatten().collect()
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::io::{Read, Write};
    use tasuki_rt::io::Async;

    /// A descriptor with bytes to read and room to write, and its peer.
    fn descriptor() -> (std::os::unix::net::UnixStream, std::os::unix::net::UnixStream) {
        let (one, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        other.write_all(&[7; 10 * WAITING]).unwrap();
        (one, other)
    }

    #[allow(unused_mut, unused_variables, reason = "as above")]
    pub(super) fn rows() -> Vec<Vec<Row>> {
        let streams = writers!(
            {
                let (one, _peer) = descriptor();
                let mut stream = tasuki_rt::net::UnixStream::from_std(one).unwrap();
            },
            stream
        );
        let own = each!(
            {
                let (one, _peer) = descriptor();
                let one = Async::new(one).unwrap();
            },
            "async_fd::poll_readable" => poll_fn(|cx| one.poll_readable(cx)).await.unwrap(),
            "async_fd::poll_writable" => poll_fn(|cx| one.poll_writable(cx)).await.unwrap(),
            "async_fd::poll_read_with" =>
                poll_fn(|cx| one.poll_read_with(cx, |mut io| io.read(&mut [0]))).await.unwrap(),
            "async_fd::poll_write_with" =>
                poll_fn(|cx| one.poll_write_with(cx, |mut io| io.write(&[0]))).await.unwrap(),
        );
        macro_rules! foreign {
            ($($name:literal => $operation:ident $(, $argument:expr)*;)*) => {
                vec![$(row!(
                    $name,
                    [],
                    {
                        let (one, _peer) = descriptor();
                        let mut one = Async::new(one).unwrap();
                    },
                    poll_fn(|cx| Pin::new(&mut one).$operation(cx $(, $argument)*)).await.unwrap()
                )),*]
            };
        }
        use futures_io::{AsyncRead, AsyncWrite};
        let descriptors = foreign!(
            "read of a descriptor" => poll_read, &mut [0];
            "read of a descriptor, without room" => poll_read, &mut [];
            "write of a descriptor" => poll_write, b"x";
            "flush of a descriptor" => poll_flush;
            "close of a descriptor" => poll_close;
        );
        vec![streams, own, descriptors]
    }
}

/// The functions `poll_*` of a source file that users can call: public ones that are given a context, and those of traits, which are given a pinned `self`.
fn polls(source: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in source.match_indices("fn poll_") {
        let rest = &source[at + "fn ".len()..];
        let name = &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())];
        let signature = rest.split(['{', ';']).next().unwrap_or_default();
        let is_public = source[..at].ends_with("pub ") && signature.contains("Context<'_>");
        if is_public || signature.contains("self: Pin<&mut Self>") {
            names.insert(name.to_owned());
        }
    }
    names
}

/// Those of the runtime, by file. What the macro `writes!` has (`io/stream_traits.rs`) is in each file that calls it, beside the function that ends the stream, which it is given.
pub(super) fn polls_of(folder: &Path) -> BTreeSet<String> {
    const SHARED: &str = "stream_traits";
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let name = path.file_stem().unwrap().to_string_lossy().into_owned();
                files.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let shared = files.iter().find(|(name, _)| name == SHARED).map(|(_, source)| polls(source));
    let shared = shared.expect("the file of the shared traits");
    let mut all = BTreeSet::new();
    for (file, source) in files.iter().filter(|(name, _)| name != SHARED) {
        let mut names = polls(source);
        if let Some((_, arguments)) = source.split_once("writes! { ") {
            let close = arguments.split(", ").nth(1).and_then(|rest| rest.split(',').next());
            names.extend(shared.iter().cloned().chain(close.map(str::to_owned)));
        }
        all.extend(names.iter().map(|name| format!("{file}::{name}")));
    }
    assert!(all.len() > 15, "the sources are not read: {all:?}");
    all
}
