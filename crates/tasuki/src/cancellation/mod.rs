//! Asking tasks to stop: sources that cancel, tokens that are asked, a tree of both.
//!
//! A source and its tokens are handles of one node; `child` makes a node below it. [`source`] and [`token`] are the surface,
//! with the contract on the page of [`CancellationSource`].
//! [`tree`] has the states and the transitions, [`node`] says which thread may touch what and which orderings pair,
//! [`after_unlock`] what a change of the tree leaves to be done without its lock. [`on_cancel`] waits for a cancel, [`run_until_cancelled`] drops a future at a cancel.

mod after_unlock;
mod node;
mod on_cancel;
mod reason;
mod run_until_cancelled;
mod source;
mod token;
mod tree;

pub use on_cancel::OnCancelOp;
pub use run_until_cancelled::{RunUntilCancelled, UntilCancelled};
pub use source::{CancellationSource, DropGuard};
pub use token::{CancellationToken, OnCancel, OnCancelOwned};

use core::fmt;
use node::NodeRef;
use reason::Reason;

/// What `Debug` shows of a source or a token.
fn describe(f: &mut fmt::Formatter<'_>, name: &str, node: &NodeRef) -> fmt::Result {
    let reason = node.reason();
    let text = reason.and_then(Reason::text);
    f.debug_struct(name).field("stop_requested", &reason.is_some()).field("reason", &text).finish()
}
