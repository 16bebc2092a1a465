//! The queue that all workers share: what is woken or spawned from outside, and what does not fit into local queues.
//!
//! A ring under a lock. Workers take and give many tasks at once, so they meet at it rarely; and the lock orders pushes against
//! workers that go to sleep (docs/scheduler.md, claim 1), which a queue without one would need fences for.

use crate::shim::{AtomicUsize, Mutex, Ordering};
use std::collections::VecDeque;
use std::sync::PoisonError;

/// First in, first out.
#[derive(Debug)]
pub(crate) struct Global<T> {
    queue: Mutex<VecDeque<T>>,
    /// How many there are, for whoever only glances.
    len: AtomicUsize,
}

impl<T> Global<T> {
    pub(crate) fn new() -> Self {
        Self { queue: Mutex::new(VecDeque::new()), len: AtomicUsize::new(0) }
    }

    fn edit<R>(&self, edit: impl FnOnce(&mut VecDeque<T>) -> R) -> R {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let result = edit(&mut queue);
        // Relaxed: a hint; the lock orders those who rely on it.
        self.len.store(queue.len(), Ordering::Relaxed);
        result
    }

    pub(crate) fn push(&self, task: T) {
        self.edit(|queue| queue.push_back(task));
    }

    pub(crate) fn extend(&self, tasks: impl Iterator<Item = T>) {
        self.edit(|queue| queue.extend(tasks));
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
        self.edit(|queue| {
            let first = queue.pop_front()?;
            let share = (queue.len() / shares).min(most);
            if share > 0 {
                keep(&mut queue.drain(..share));
            }
            Some(first)
        })
    }

    /// May be old news.
    pub(crate) fn looks_empty(&self) -> bool {
        // Relaxed: a hint.
        self.len.load(Ordering::Relaxed) == 0
    }

    /// With the lock: a push is seen, or comes after this look, and sees what the caller did before it.
    pub(crate) fn is_empty(&self) -> bool {
        self.edit(|queue| queue.is_empty())
    }

    /// All of them.
    pub(crate) fn take_all(&self) -> VecDeque<T> {
        self.edit(std::mem::take)
    }
}
