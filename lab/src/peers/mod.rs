//! The measured subjects: one file or folder for each crate, one file each for the channels (`channels`), the servers (`net`) and the bare operations that are the floor (`floors`); and the lists that name everything measured (`list`).

mod async_executor;
mod async_io;
mod async_lock;
mod asyncband;
mod channels;
mod crossbeam;
mod event_listener;
mod floors;
mod futures;
mod futures_intrusive;
mod list;
mod maitake;
mod mea;
mod mea_family;
mod net;
mod parking;
mod parking_lot;
mod saa;
mod standard;
mod tasuki;
mod tasuki_rt;
mod tokio;
mod tokio_rt;
mod tokio_util;

pub(crate) use list::*;
pub(crate) use net::pin_side;
