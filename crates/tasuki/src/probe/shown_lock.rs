//! What `Debug` of a lock shows instead of the value, where `inspect/` is active.

use crate::task::TaskId;
use core::fmt;
use core::panic::Location;
use core::time::Duration;

/// A task that holds a lock, and where it took it; how many wait, and for how long.
pub(super) struct ShownLock {
    /// What it is: locked, or taken.
    pub(super) word: &'static str,
    pub(super) holder: Option<(u64, &'static Location<'static>)>,
    pub(super) waiters: (usize, Duration),
}

impl fmt::Debug for ShownLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}", self.word)?;
        if let Some((task, at)) = self.holder.and_then(|(task, at)| Some((TaskId::from_number(task)?, at))) {
            write!(f, " by {task} at {at}")?;
        }
        match self.waiters {
            (0, _) => f.write_str(">"),
            (1, longest) => write!(f, ", 1 waits, for {longest:.1?}>"),
            (count, longest) => write!(f, ", {count} wait, the longest for {longest:.1?}>"),
        }
    }
}
