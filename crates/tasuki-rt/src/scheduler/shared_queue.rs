//! A queue that every thread pushes to: the global queue, which all workers share, the inbox of each worker, and the ended members of each `JoinSet`.
//!
//! The global queue has what is woken or spawned from outside, and what does not fit into local queues; an inbox has the tasks pinned to its
//! worker that another thread woke, and closures posted there. (Those of a `JoinSet`: `task/completions.rs`.)
//!
//! A [`Chain`] under a lock. Nothing is allocated, and all steps but [`SharedQueue::take`] are of constant length. Workers take and
//! give many at once, so they meet at the lock rarely; and the lock of the global queue orders pushes against
//! workers that go to sleep (docs/scheduler.md, claim 1), which a queue without one would need fences for.
//!
//! # States
//!
//! | from | event | to | fn |
//! |---|---|---|---|
//! | open | push | open, one more | [`SharedQueue::push`], [`SharedQueue::append`] |
//! | open, closed | taken | the same, fewer | [`SharedQueue::take`], [`SharedQueue::take_all`] |
//! | open | shutdown, of an inbox; the drop of a `JoinSet` | closed: a push gives its value back | [`SharedQueue::close`] |
//!
//! # Orderings
//! Release of the lock pairs with its Acquire: what is queued, and what the pusher or the worker did before. `len` is a hint, stored under the
//! lock. An empty hint is not the last look: at the global queue that is [`SharedQueue::is_empty`]; at an inbox it follows a park, which
//! acquires what the pusher did before its unpark (claim 3).

use super::chain::{Chain, Linked};
use crate::shim::{AtomicUsize, Mutex, Ordering};
use std::sync::PoisonError;

/// First in, first out.
#[derive(Debug)]
pub(crate) struct SharedQueue<T: Linked> {
    state: Mutex<SharedQueueState<T>>,
    /// How many there are, for a glance without the lock.
    len: AtomicUsize,
}

#[derive(Debug)]
struct SharedQueueState<T: Linked> {
    chain: Chain<T>,
    closed: bool,
}

impl<T: Linked> SharedQueue<T> {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(SharedQueueState { chain: Chain::new(), closed: false }),
            len: AtomicUsize::new(0),
        }
    }

    fn edit<R>(&self, edit: impl FnOnce(&mut SharedQueueState<T>) -> R) -> R {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = edit(&mut state);
        // Relaxed: a hint, see above.
        self.len.store(state.chain.len(), Ordering::Relaxed);
        result
    }

    /// To the end; comes back if the queue has closed.
    pub(crate) fn push(&self, value: T) -> Result<(), T> {
        self.edit(|state| {
            if state.closed {
                return Err(value);
            }
            state.chain.push(value);
            Ok(())
        })
    }

    /// All of them, to the end of a queue that does not close.
    pub(crate) fn append(&self, values: Chain<T>) {
        self.edit(|state| {
            debug_assert!(!state.closed, "only the global queue is appended to, and it does not close");
            state.chain.append(values);
        });
    }

    /// Takes the first, and gives the next ones to `keep`: a share of what is there, at most `most`.
    pub(crate) fn take(
        &self,
        shares: usize,
        most: usize,
        keep: impl FnOnce(&mut dyn Iterator<Item = T>),
    ) -> Option<T> {
        // A glance: most picks find nothing, and should not write to the line of the lock.
        if self.looks_empty() {
            return None;
        }
        self.edit(|SharedQueueState { chain, .. }| {
            let first = chain.pop()?;
            let share = (chain.len() / shares).min(most);
            if share > 0 {
                keep(&mut chain.take(share));
            }
            Some(first)
        })
    }

    /// May be outdated.
    #[inline]
    pub(crate) fn looks_empty(&self) -> bool {
        // Relaxed: a hint.
        self.len.load(Ordering::Relaxed) == 0
    }

    /// May be outdated.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // Relaxed: a hint.
        self.len.load(Ordering::Relaxed)
    }

    /// With the lock: a push is seen, or comes after this look, and sees what the caller did before it.
    pub(crate) fn is_empty(&self) -> bool {
        self.edit(|state| state.chain.is_empty())
    }

    /// All of them.
    pub(crate) fn take_all(&self) -> Chain<T> {
        // A glance, as in `take`.
        if self.looks_empty() {
            return Chain::new();
        }
        self.edit(|state| std::mem::take(&mut state.chain))
    }

    /// Nothing is taken any more.
    pub(crate) fn close(&self) {
        self.edit(|state| state.closed = true);
    }
}
