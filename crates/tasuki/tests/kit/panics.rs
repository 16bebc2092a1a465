//! Panics that a test expects. One hook for the whole program: two that replace the hook at the same time could lose one.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// What the hook says of a panic.
#[derive(Clone, Copy, PartialEq)]
enum Voice {
    /// All that the hook before it says.
    Usual,
    /// One line: a backtrace of each expected panic takes Miri minutes.
    Line,
    /// Nothing: enumerations have millions of them.
    Silent,
}

thread_local! {
    static VOICE: Cell<Voice> = const { Cell::new(Voice::Usual) };
    /// The file in which this thread panicked last.
    static FILE: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn install() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let file = info.location().map(|location| location.file().to_owned());
            let _ = FILE.try_with(|last| *last.borrow_mut() = file);
            match VOICE.try_with(Cell::get).unwrap_or(Voice::Usual) {
                Voice::Usual => usual(info),
                Voice::Line => eprintln!("caught by the test: {info}"),
                Voice::Silent => {}
            }
        }));
    });
}

fn caught_with<R>(voice: Voice, call: impl FnOnce() -> R) -> std::thread::Result<R> {
    install();
    let before = VOICE.replace(voice);
    let result = catch_unwind(AssertUnwindSafe(call));
    VOICE.set(before);
    result
}

/// Calls; a panic is announced in one line.
pub(crate) fn caught<R>(call: impl FnOnce() -> R) -> std::thread::Result<R> {
    caught_with(Voice::Line, call)
}

/// Calls, and says whether it panicked; nothing is printed.
pub(crate) fn panics_silently<R>(call: impl FnOnce() -> R) -> bool {
    caught_with(Voice::Silent, call).is_err()
}

/// The file that the hook is told for the panic of the call, which must happen.
pub(crate) fn panics_in<R>(call: impl FnOnce() -> R) -> String {
    FILE.take();
    assert!(caught(call).is_err(), "no panic, expected one");
    FILE.take().expect("the hook was called")
}
