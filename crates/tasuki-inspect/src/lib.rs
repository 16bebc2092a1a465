//! A page that shows why an async program is stuck, while it is stuck.
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! let runtime = tasuki_rt::Runtime::new()?;
//! # let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
//! let page = tasuki_inspect::Inspector::new()
//!     .runtime(&runtime.handle())
//! #   .address(any)
//!     .start()?;
//! println!("{}", page.url());
//! # Ok(())
//! # }
//! ```
//!
//! Open the printed address in a browser, by default <http://127.0.0.1:6680/>. The page shows the wait-for graph with its cycles in red, the longest waits with their holders and source lines, which locks are contended and when, which
//! code keeps which waiting, the workers and queues of the runtimes that it is given, and the last five minutes. Under tokio, smol or another executor leave `.runtime(..)` out: locks and waits are shown all the same.
//!
//! All of it comes from [`tasuki::inspect`] and from the dumps of `tasuki-rt`. Debug builds show everything; release builds need the feature `inspect`.
//!
//! | path | is |
//! |---|---|
//! | `/` | the page: one file, without access to a network |
//! | `/snapshot.json` | the last sample and the history |
//! | `/events` | the same as server-sent events, twice a second |
//! | `/dump.txt` | all waits and tasks as text, at most 10,000 of each, of now or of a moment ago: for the command line |
//!
//! # What it costs, and what it lets in
//!
//! **Threads.** One takes samples: every two seconds, twice a second while a client watches, less often where a sample takes long. One accepts connections, and each connection has one. No executor takes part, so the page
//! answers while all workers hang.
//!
//! **Memory** is bounded: the hundred longest waits and most contended locks are listed and the rest is counted; the history has 150 slots of two seconds.
//!
//! **The program** is only read. While the tasks of a runtime are counted, a spawn or the end of a task may wait for that: some milliseconds for 100,000 tasks.
//!
//! **Access.** It listens on the loopback address; any other address needs a [token](Inspector::token). Without a token it answers only requests whose host is `localhost` or a loopback address, so that no web site can read it. Also with a
//! token, what a browser asks for in the name of another site is refused, except the empty page itself. There is no TLS: use a tunnel. Nothing can be changed through it.
//!
//! | what a client may take | limit |
//! |---|---|
//! | a request | 8 KiB, 64 fields, no body, 5 seconds from the accept to its last byte |
//! | an answer, or an event | 10 seconds; then the client is cut off |
//! | connections | 32 at a time, of which 16 streams of events; the next one is answered with 503 |
//! | samples of the program | none: all clients are sent the last one. Only `/dump.txt` makes a new one; clients that ask while it is made, or within nine times as long as it took (at most three seconds), share it |
//!
//! # Features
//!
//! * `rt`, on by default: [`Inspector::runtime`].
//! * `inspect`: release builds note locks, waits and tasks, as debug builds always do. Without it a release build shows workers and queues only.

mod dumps;
mod history;
mod json;
mod request;
mod sample;
mod sampler;
mod server;
mod snapshot_json;

use sample::Sources;
use sampler::Samples;
use server::{Limits, Server};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Where the page is, unless it is said otherwise.
const PORT: u16 = 6680;
/// A token has at least so many letters: a shorter one can be guessed.
const TOKEN: usize = 16;

/// Configures the page: what it shows, and where. [`start`](Self::start) starts it.
///
/// # Examples
///
/// ```no_run
/// let page = tasuki_inspect::Inspector::new().start()?;
/// println!("{}", page.url());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "it does nothing before it is started"]
pub struct Inspector {
    address: SocketAddr,
    token: Option<String>,
    sources: Sources,
    limits: Limits,
}

impl Default for Inspector {
    fn default() -> Self {
        Self::new()
    }
}

impl Inspector {
    /// Creates a page of the locks and waits of the program, at `127.0.0.1:6680`.
    ///
    /// # Examples
    ///
    /// ```
    /// let inspector = tasuki_inspect::Inspector::new();
    /// # drop(inspector);
    /// ```
    pub fn new() -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
        Self { address, token: None, sources: Sources::default(), limits: Limits::DEFAULT }
    }

    /// Sets the address that it listens on; port 0 is any that is free. An address that is not the loopback's needs a [`token`](Self::token).
    ///
    /// # Examples
    ///
    /// ```
    /// let inspector = tasuki_inspect::Inspector::new().address(([127, 0, 0, 1], 0).into());
    /// # drop(inspector);
    /// ```
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Sets the token that a client must send: as `?token=` of the page, or as `Authorization: Bearer`. At least 16 letters, digits, or signs of `-._~`.
    ///
    /// # Examples
    ///
    /// ```
    /// let inspector = tasuki_inspect::Inspector::new().token("correct-horse-battery");
    /// # drop(inspector);
    /// ```
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Shows tasks, workers and queues of this runtime too. Several may be shown.
    ///
    /// # Examples
    ///
    /// ```
    /// let runtime = tasuki_rt::Runtime::new().unwrap();
    /// let inspector = tasuki_inspect::Inspector::new().runtime(&runtime.handle());
    /// # drop(inspector);
    /// ```
    #[cfg(feature = "rt")]
    pub fn runtime(mut self, runtime: &tasuki_rt::Handle) -> Self {
        self.sources.runtimes.push(runtime.clone());
        self
    }

    /// Starts the threads and serves the page until the returned value is dropped.
    ///
    /// # Errors
    ///
    /// If the address is not the loopback's and there is no token, if the token is too short or has other letters, if the address is taken, or if threads cannot be started.
    ///
    /// # Examples
    ///
    /// ```
    /// let anywhere = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
    /// assert!(tasuki_inspect::Inspector::new().address(anywhere).start().is_err());
    /// ```
    pub fn start(self) -> io::Result<Inspection> {
        self.check()?;
        let listener = TcpListener::bind(self.address)?;
        let address = listener.local_addr()?;
        let (samples, sampler) = Samples::new(self.sources);
        let server = Server::new(samples.clone(), self.limits, self.token.clone());
        // Made first: if a thread cannot be started, its drop ends the one before.
        let mut inspection = Inspection {
            address,
            token: self.token,
            samples: samples.clone(),
            threads: Vec::new(),
            process: tasuki::runtime::process_number(),
        };
        let spawn =
            |name: &str, run: Box<dyn FnOnce() + Send>| thread::Builder::new().name(name.into()).spawn(run);
        inspection.threads.push(spawn("tasuki-inspect-samples", Box::new(move || samples.run(sampler)))?);
        inspection.threads.push(spawn("tasuki-inspect-server", Box::new(move || server.accept(&listener)))?);
        Ok(inspection)
    }

    fn check(&self) -> io::Result<()> {
        let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why.to_owned()));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        match &self.token {
            None if !self.address.ip().is_loopback() => {
                refuse("an address that is not the loopback's needs a token")
            }
            Some(token) if token.len() < TOKEN || !token.bytes().all(is_plain) => {
                refuse("a token has at least 16 letters, digits, or signs of `-._~`")
            }
            _ => Ok(()),
        }
    }
}

/// Without the token.
impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspector").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A page that is there until this is dropped. Keep it for as long as the program runs: `let _page = ...`.
///
/// The drop waits for the two threads of the page, if it can still connect to it; connections end with what they do. In the child of a fork the drop does nothing: the threads and the
/// page are the parent's.
///
/// # Examples
///
/// ```
/// let page = tasuki_inspect::Inspector::new().address(([127, 0, 0, 1], 0).into()).start()?;
/// assert!(page.url().starts_with("http://127.0.0.1:"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "the page is gone when this is dropped"]
pub struct Inspection {
    address: SocketAddr,
    token: Option<String>,
    samples: Arc<Samples>,
    threads: Vec<JoinHandle<()>>,
    /// In which the threads are.
    process: u32,
}

impl Inspection {
    /// Returns the address that it listens on.
    ///
    /// # Examples
    ///
    /// ```
    /// let page = tasuki_inspect::Inspector::new().address(([127, 0, 0, 1], 0).into()).start()?;
    /// assert_ne!(page.address().port(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the page, with the token if there is one.
    ///
    /// # Examples
    ///
    /// ```
    /// let page = tasuki_inspect::Inspector::new().address(([127, 0, 0, 1], 0).into()).token("correct-horse-battery").start()?;
    /// assert!(page.url().ends_with("/?token=correct-horse-battery"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn url(&self) -> String {
        match &self.token {
            Some(token) => format!("http://{}/?token={token}", self.address),
            None => format!("http://{}/", self.address),
        }
    }
}

impl Drop for Inspection {
    fn drop(&mut self) {
        if self.process != tasuki::runtime::process_number() {
            // The child of a fork has none of the threads, which may have held a lock when it was made.
            return std::mem::forget(std::mem::take(&mut self.threads));
        }
        self.samples.end();
        if self.threads.len() == 2 && !server::knock(self.address) {
            // It ends at the next connection; to wait for that could be for ever.
            drop(self.threads.pop());
        }
        // A thread that panicked has said so.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Without the token.
impl fmt::Debug for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspection").field("address", &self.address).finish_non_exhaustive()
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
