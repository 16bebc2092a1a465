//! asyncband, mea's successor: its events and shutdown; its other primitives are in `mea_family.rs`.

use super::mea_family::mea_family;
use crate::peer::{AutoEvent, Broadcast, StopCheck};
use std::future::{Future, IntoFuture};

mea_family!(asyncband, "asyncband");

/// `::asyncband::event::AutoResetEvent`.
pub(crate) struct Auto(::asyncband::event::AutoResetEvent);

impl AutoEvent for Auto {
    const NAME: &'static str = "asyncband";

    fn new() -> Self {
        Auto(::asyncband::event::AutoResetEvent::new())
    }

    #[inline]
    fn set(&self) {
        self.0.set();
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.0.wait()
    }
}

/// `::asyncband::event::ManualResetEvent`.
pub(crate) struct Manual(::asyncband::event::ManualResetEvent);

impl Broadcast for Manual {
    const NAME: &'static str = "asyncband";
    const BYTES: usize = size_of::<::asyncband::event::ManualResetEvent>();

    fn new() -> Self {
        Manual(::asyncband::event::ManualResetEvent::new())
    }

    fn rearm(&mut self) {
        self.0.reset();
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.0.wait()
    }

    #[inline]
    fn release(&self) {
        self.0.set();
    }
}

/// `::asyncband::shutdown::Shutdown` and the guard that sees it.
pub(crate) struct Shutdown(::asyncband::shutdown::Shutdown, ::asyncband::shutdown::ShutdownGuard);

impl Shutdown {
    fn running() -> Self {
        let (shutdown, guard) = ::asyncband::shutdown::new();
        Shutdown(shutdown, guard)
    }
}

impl Broadcast for Shutdown {
    const NAME: &'static str = "asyncband";
    const BYTES: usize = size_of::<::asyncband::shutdown::Shutdown>();

    fn new() -> Self {
        Self::running()
    }

    fn rearm(&mut self) {
        *self = Self::running();
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.1.shutdown_requested()
    }

    #[inline]
    fn release(&self) {
        self.0.request_shutdown();
    }
}

impl StopCheck for Shutdown {
    const NAME: &'static str = "asyncband";

    fn new() -> Self {
        Self::running()
    }

    #[inline]
    fn is_requested(&self) -> bool {
        self.1.is_shutdown_requested()
    }

    fn request(&self) {
        self.0.request_shutdown();
    }
}
