//! What the process that measures a cell tells the one that started it: lines of JSON in a file.
//!
//! A file and not a pipe, because each line is written between two samples and must not wake the reader beside
//! them. Every line is one write, so that whatever ends the process later takes none of them away.
//!
//! | line | written |
//! |---|---|
//! | `{"at": subject}` | before each run of a subject: what is last there when the process dies is to blame |
//! | `{"result": {...}}` | when the subject's samples are summed up |
//! | `{"unmeasured": subject, "why": ...}` | when no sample of it counted, and it is not to blame |
//! | `{"panic": message}` | by the panic hook, on any thread; the process ends there |

use crate::report::Record;
use crate::report::json::{self, quoted};
use crate::report::parse::{self, Value};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::panic;
use std::path::Path;
use std::process;
use std::sync::{Mutex, PoisonError};

/// Exit code of a process that ended in its panic hook.
const PANICKED: i32 = 101;

/// The writing end.
pub(crate) struct Journal(Mutex<File>);

/// One line, read back.
#[derive(Debug)]
pub(crate) enum Line {
    /// This subject is about to run.
    At(String),
    /// A subject was measured.
    Result(Box<Record>),
    /// A subject could not be measured, for this reason.
    Unmeasured(String, String),
    /// A thread panicked.
    Panic(String),
}

impl Journal {
    /// Goes on writing a file.
    pub(crate) fn append(path: &Path) -> io::Result<Journal> {
        OpenOptions::new().append(true).create(true).open(path).map(|file| Journal(Mutex::new(file)))
    }

    /// Ends the process when any thread panics, after the message was written to `path`: what a panic leaves
    /// behind (tasks that never end, a poisoned runtime) must not be measured.
    pub(crate) fn note_panics(path: &Path) -> io::Result<()> {
        let journal = Journal::append(path)?;
        panic::set_hook(Box::new(move |info| {
            let payload = info.payload();
            let text = payload.downcast_ref::<&str>().copied();
            let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            let text = text.unwrap_or("no message");
            let place =
                info.location().map_or_else(String::new, |at| format!(" ({}:{})", at.file(), at.line()));
            journal.put(&format!("{{\"panic\": {}}}", quoted(&format!("{text}{place}"))));
            process::exit(PANICKED);
        }));
        Ok(())
    }

    /// A subject is about to run.
    pub(super) fn at(&self, subject: &str) {
        self.put(&format!("{{\"at\": {}}}", quoted(subject)));
    }

    /// A subject was measured.
    pub(super) fn result(&self, record: &Record) {
        self.put(&format!("{{\"result\": {}}}", json::record(record)));
    }

    /// A subject could not be measured.
    pub(super) fn unmeasured(&self, subject: &str, why: &str) {
        self.put(&format!("{{\"unmeasured\": {}, \"why\": {}}}", quoted(subject), quoted(why)));
    }

    /// One write a line. A full disk loses the line, and the supervisor sees that the subject is missing.
    fn put(&self, line: &str) {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(format!("{line}\n").as_bytes()).ok();
    }

    /// Reads what was written; a line that was cut short is left out.
    pub(crate) fn read(text: &str) -> Vec<Line> {
        text.lines().filter_map(|line| Line::of(&parse::value(line).ok()?)).collect()
    }
}

impl Line {
    fn of(value: &Value) -> Option<Line> {
        let text = |name| value.get(name).and_then(Value::text).map(str::to_owned);
        if let Some(subject) = text("at") {
            return Some(Line::At(subject));
        }
        if let Some(subject) = text("unmeasured") {
            return Some(Line::Unmeasured(subject, text("why")?));
        }
        if let Some(message) = text("panic") {
            return Some(Line::Panic(message));
        }
        Some(Line::Result(Box::new(parse::record(value.get("result")?)?)))
    }
}
