//! A helper of unit tests: the line at which a call panics, as the panic hook gets it. A function with `#[track_caller]` must name its caller's line.

use crate::catch_panic::caught;
use core::cell::Cell;
use std::boxed::Box;
use std::panic::{set_hook, take_hook};
use std::sync::Once;
use std::thread_local;

/// The line that the panic of `call` names; `call` must panic.
#[track_caller]
pub(crate) fn line_of_panic(call: impl FnOnce()) -> u32 {
    thread_local! {
        static LINE: Cell<u32> = const { Cell::new(0) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            let _ = LINE.try_with(|line| line.set(panic.location().map_or(0, |location| location.line())));
            usual(panic);
        }));
    });
    assert!(caught(call).is_none(), "it does not panic");
    LINE.try_with(Cell::get).expect("a test does not run at the end of its thread")
}
