//! event-listener: events, with their state kept beside the listeners, as its documentation shows.

use crate::peer::{AutoEvent, Broadcast, StopCheck};
use event_listener::Event;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

/// `event_listener::Event` beside a flag.
pub(crate) struct Flagged {
    flag: AtomicBool,
    event: Event,
}

impl Flagged {
    fn unset() -> Self {
        Flagged { flag: AtomicBool::new(false), event: Event::new() }
    }

    /// Waits until the flag is set, and takes it.
    async fn take(&self) {
        loop {
            // Acquire: pairs with the Release in `set`.
            if self.flag.swap(false, Ordering::Acquire) {
                return;
            }
            let listener = self.event.listen();
            // Again: it may have been set before the listener was there. Acquire as above.
            if self.flag.swap(false, Ordering::Acquire) {
                return;
            }
            listener.await;
        }
    }

    /// Waits until the flag is set.
    async fn look(&self) {
        // Acquire: pairs with the Release in `release`.
        while !self.flag.load(Ordering::Acquire) {
            let listener = self.event.listen();
            // Again: it may have been set before the listener was there. Acquire as above.
            if self.flag.load(Ordering::Acquire) {
                return;
            }
            listener.await;
        }
    }
}

impl AutoEvent for Flagged {
    const NAME: &'static str = "event-listener";

    fn new() -> Self {
        Self::unset()
    }

    #[inline]
    fn set(&self) {
        // Release: pairs with the Acquire in `take`.
        self.flag.store(true, Ordering::Release);
        self.event.notify(1);
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.take()
    }
}

impl Broadcast for Flagged {
    const NAME: &'static str = "event-listener";
    const BYTES: usize = size_of::<Flagged>();

    fn new() -> Self {
        Self::unset()
    }

    fn rearm(&mut self) {
        *self.flag.get_mut() = false;
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.look()
    }

    #[inline]
    fn release(&self) {
        // Release: pairs with the Acquire in `look`.
        self.flag.store(true, Ordering::Release);
        self.event.notify(usize::MAX);
    }
}

impl StopCheck for Flagged {
    const NAME: &'static str = "event-listener";

    fn new() -> Self {
        Self::unset()
    }

    #[inline]
    fn is_requested(&self) -> bool {
        // Acquire: pairs with the Release in `release`.
        self.flag.load(Ordering::Acquire)
    }

    fn request(&self) {
        self.release();
    }
}
