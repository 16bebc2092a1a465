//! Ctrl-C of a console. Compiled in CI, and not run there.

use crate::io::source::release_waiters;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use tasuki::Event;

static COUNT: AtomicU32 = AtomicU32::new(0);
/// Set for a moment only, to release those that wait.
static ARRIVED: Event = Event::manual();
/// Held while the handler is installed; true afterwards.
static INSTALLED: Mutex<bool> = Mutex::new(false);

#[link(name = "kernel32")]
unsafe extern "system" {
    fn SetConsoleCtrlHandler(handler: Option<unsafe extern "system" fn(u32) -> i32>, add: i32) -> i32;
}

/// Called by a thread of the system, so it may do what it likes. 1: the event was taken.
unsafe extern "system" fn handler(event: u32) -> i32 {
    // CTRL_C_EVENT.
    if event != 0 {
        return 0;
    }
    // SeqCst: pairs with SeqCst in `ctrl_c`: the count, or the place in the queue.
    COUNT.fetch_add(1, Ordering::SeqCst);
    release_waiters(&ARRIVED);
    1
}

pub(super) async fn ctrl_c() -> io::Result<()> {
    {
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        if !*installed {
            // SAFETY: the handler lives for ever.
            if unsafe { SetConsoleCtrlHandler(Some(handler), 1) } == 0 {
                return Err(io::Error::last_os_error());
            }
            *installed = true;
        }
    }
    // SeqCst: pairs with SeqCst in `handler`.
    let count = || COUNT.load(Ordering::SeqCst);
    let seen = count();
    while count() == seen {
        let mut wait = pin!(ARRIVED.wait());
        poll_fn(|cx| {
            if wait.as_mut().poll(cx).is_ready() || count() != seen { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
    Ok(())
}
