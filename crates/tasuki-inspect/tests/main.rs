//! The server, asked by plain sockets on the loopback address: what it says, what it refuses, and that no client keeps out the others.
//!
//! What is noted is of the whole process: a program with very many waits is one of its own, `crowd/`.

mod client;
#[cfg(target_os = "linux")]
mod fork;
mod limits;
mod page;
