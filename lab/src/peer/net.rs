//! The trait that every measured runtime with sockets implements, and what its servers do.

use super::Kind;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// A runtime that serves connections, on a thread of its own that stays for the rest of the process.
pub(crate) trait NetRuntime: 'static {
    /// Its name in reports.
    const NAME: &'static str;
    /// Whose it is.
    const KIND: Kind = Kind::Peer;
    /// Starts a server, on the first processor; where it listens.
    fn start(work: Arc<NetWork>) -> SocketAddr;
}

/// What a server does with what it reads. The same code for all.
pub(crate) enum NetWork {
    /// Gives it back.
    Echo,
    /// The same byte by byte: a connection has next to no buffers, so that the rest can be weighed.
    Bytes,
    /// A line is a request, `GET key` or `SET key value`, and so is its answer.
    Store(Mutex<HashMap<Vec<u8>, Vec<u8>>>),
    /// HTTP by hyper: every request is answered by [`PLAIN_TEXT`].
    Http,
}

/// Keys of the store.
pub(crate) const KEYS: usize = 1_000;

/// What the HTTP servers answer.
pub(crate) const PLAIN_TEXT: &str = "Hello, World!";

impl NetWork {
    /// By its name, for a server in a process of its own.
    pub(crate) fn of_name(name: &str) -> Option<NetWork> {
        match name {
            "echo" => Some(NetWork::Echo),
            "bytes" => Some(NetWork::Bytes),
            "kv" => Some(NetWork::store(KEYS)),
            "hyper" => Some(NetWork::Http),
            _ => None,
        }
    }

    /// A store with some keys.
    fn store(keys: usize) -> NetWork {
        let entry = |key: usize| (format!("key{key}").into_bytes(), format!("value of {key}").into_bytes());
        NetWork::Store(Mutex::new((0..keys).map(entry).collect()))
    }

    /// Whole requests come in one read: the clients wait for their answers.
    pub(crate) fn answer(&self, input: &[u8], output: &mut Vec<u8>) {
        let NetWork::Store(store) = self else { return output.extend_from_slice(input) };
        let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
        for line in input.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let mut words = line.splitn(3, |byte| *byte == b' ');
            match (words.next(), words.next(), words.next()) {
                (Some(b"GET"), Some(key), None) => {
                    output.extend_from_slice(store.get(key).map_or(b"NONE", Vec::as_slice));
                }
                (Some(b"SET"), Some(key), Some(value)) => {
                    store.insert(key.to_vec(), value.to_vec());
                    output.extend_from_slice(b"OK");
                }
                _ => output.extend_from_slice(b"ERROR"),
            }
            output.push(b'\n');
        }
    }
}
