//! Lists every channel that is measured.

use super::super::channels;
use super::{list, visitor};
use crate::peer::{AsyncChannel, Oneshot};

visitor! {
    /// Visits every channel with its own type.
    VisitChannel: AsyncChannel
}
list! {
    /// Names every bounded channel the lab knows.
    each_channel: VisitChannel;
    channels::Tasuki,
    channels::Tokio,
    channels::AsyncChannelBounded,
    channels::Flume,
    channels::Kanal,
    channels::Asyncband,
    channels::Intrusive,
    channels::Crossfire,
    channels::Thingbuf,
    channels::Tachyonix,
    channels::Futures,
    channels::Postage,
}
list! {
    /// Names the bounded channel of ours.
    each_own_channel: VisitChannel;
    channels::Tasuki,
}
list! {
    /// Names every unbounded channel the lab knows.
    each_unbounded: VisitChannel;
    channels::TasukiUnbounded,
    channels::TokioUnbounded,
    channels::AsyncChannelUnbounded,
    channels::FlumeUnbounded,
    channels::KanalUnbounded,
    channels::AsyncbandUnbounded,
    channels::CrossfireUnbounded,
    channels::FuturesUnbounded,
}
visitor! {
    /// Visits every oneshot with its own type.
    VisitOneshot: Oneshot
}
list! {
    /// Names every oneshot the lab knows.
    each_oneshot: VisitOneshot;
    channels::TasukiOneshot,
    channels::TokioOneshot,
    channels::AsyncbandOneshot,
    channels::CrateOneshot,
}
