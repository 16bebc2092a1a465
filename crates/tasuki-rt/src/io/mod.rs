//! Waiting for sockets and other descriptors, inside the workers.
//!
//! [`net`](crate::net) has the sockets; [`Async`] is for everything else with a file descriptor. There is no thread for I/O: a worker that has nothing to do waits in the operating system's poll, and runs the tasks that become ready
//! there itself. The poller starts with the first socket; a program without sockets pays nothing for it.
//!
//! # Which runtime
//!
//! A socket belongs to the runtime in whose context it was made. It can be used by tasks of another runtime, and by any executor: the wakes come from a worker of its own. Once
//! that runtime has shut down every operation that reads, writes, accepts or waits is an error, and pending ones end with it. What asks the socket itself, its addresses and options, goes on, and so does the flush of a
//! stream, which has nothing to do, and the end of a direction.
//!
//! So that runtime must run: its worker wakes the tasks that wait. Two runtimes have no worker that could: a [`Runtime`](crate::Runtime) whose threads were not started, by [`start`](crate::Runtime::start) or the first
//! [`block_on`](crate::Runtime::block_on) (sockets can be made in it by [`enter`](crate::Runtime::enter)), and a [`LocalRuntime`](crate::LocalRuntime) while its thread is outside of its
//! [`block_on`](crate::LocalRuntime::block_on). What has to wait for a socket of such a runtime waits, without an error, until the runtime runs or shuts down. What need not wait is as always.
//!
//! # Cancel safety
//!
//! An operation of a socket is done by one system call, the last that it makes. A future that is dropped before it is ready has done nothing. Operations that make several (`read_exact`, `write_all`) say so.
//!
//! # Without waiting
//!
//! The functions `try_*` ask the system each time, whatever was reported before: they find what is there, and `WouldBlock` is the system's answer. (A read into an empty buffer, and a write of one to a stream, is 0 without asking.) They are not charged to the budget.
//!
//! # The budget
//!
//! An operation on a socket that is ready counts as one, as with the primitives of `tasuki`: a task that reads from a fast peer lets the others run.

// The layers of this folder, from the surface down:
//
//   Async<T>, net::*      registered.rs  an operation: ready? try; would block? clear, wait
//         |
//     source.rs           the tasks that wait: one slot a direction, and two queues
//         |
//    readiness.rs         what was reported and is not yet over; ticks
//         |
//     poller.rs           one wait for all; tokens; closing           <--- scheduler: the worker with the poll slot
//         |
//     system.rs           epoll_pwait2, or mio's poll

mod futures_io;
#[cfg(feature = "hyper")]
mod hyper;
mod poller;
pub(crate) mod readiness;
pub(crate) mod registered;
pub(crate) mod source;
mod stream_traits;
mod system;
#[cfg(feature = "tokio-io")]
mod tokio_io;

#[cfg(unix)]
mod async_fd;

#[cfg(unix)]
pub use async_fd::Async;
#[cfg(feature = "hyper")]
pub use hyper::{HyperExecutor, HyperTimer};
pub(crate) use poller::Sockets;
pub(crate) use source::Delivery;
