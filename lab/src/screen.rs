//! Shows progress: one line that is rewritten on a terminal, plain lines elsewhere.

use std::cell::Cell;
use std::fmt::{Arguments, Display};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often a live line may change.
const TICK: Duration = Duration::from_millis(100);

/// Where progress is shown.
pub(crate) struct Screen {
    stdout: bool,
    terminal: bool,
    last: Cell<Option<Instant>>,
    dirty: Cell<bool>,
}

impl Screen {
    /// Progress beside results that go to stdout.
    pub(crate) fn stderr() -> Screen {
        Self::on(false, std::io::stderr().is_terminal())
    }

    /// Progress among the lines of a tour.
    pub(crate) fn stdout() -> Screen {
        Self::on(true, std::io::stdout().is_terminal())
    }

    fn on(stdout: bool, terminal: bool) -> Screen {
        Screen { stdout, terminal, last: Cell::new(None), dirty: Cell::new(false) }
    }

    /// Shows what is happening now; nothing where lines cannot be rewritten. Does not allocate.
    pub(crate) fn live(&self, text: impl Display) {
        let now = Instant::now();
        let fresh = self.last.get().is_some_and(|last| now - last < TICK);
        if !self.terminal || fresh {
            return;
        }
        self.last.set(Some(now));
        self.dirty.set(true);
        self.put(format_args!("\r\x1b[2K{text}"));
    }

    /// A lasting line.
    pub(crate) fn line(&self, text: &str) {
        let clear = if self.dirty.replace(false) { "\r\x1b[2K" } else { "" };
        self.put(format_args!("{clear}{text}\n"));
    }

    /// Writes and flushes; a closed pipe is not worth failing for.
    fn put(&self, text: Arguments<'_>) {
        if self.stdout {
            let mut out = std::io::stdout().lock();
            out.write_fmt(text).and_then(|()| out.flush()).ok();
        } else {
            std::io::stderr().write_fmt(text).ok();
        }
    }
}
