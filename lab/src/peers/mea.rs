//! mea: its shutdown; its other primitives are in `mea_family.rs`.

use super::mea_family::mea_family;
use crate::peer::{Broadcast, StopCheck};
use std::future::{Future, IntoFuture};

mea_family!(mea, "mea");

/// `::mea::shutdown::ShutdownSend` and the other end.
pub(crate) struct Shutdown(::mea::shutdown::ShutdownSend, ::mea::shutdown::ShutdownRecv);

impl Shutdown {
    fn running() -> Self {
        let (send, receive) = ::mea::shutdown::new_pair();
        Shutdown(send, receive)
    }
}

impl Broadcast for Shutdown {
    const NAME: &'static str = "mea";
    const BYTES: usize = size_of::<::mea::shutdown::ShutdownSend>();

    fn new() -> Self {
        Self::running()
    }

    fn rearm(&mut self) {
        *self = Self::running();
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.1.is_shutdown()
    }

    #[inline]
    fn release(&self) {
        self.0.shutdown();
    }
}

impl StopCheck for Shutdown {
    const NAME: &'static str = "mea";

    fn new() -> Self {
        Self::running()
    }

    #[inline]
    fn is_requested(&self) -> bool {
        self.1.is_shutdown_now()
    }

    fn request(&self) {
        self.0.shutdown();
    }
}
