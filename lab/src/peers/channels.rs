//! The channels: ours, and those of crates of which nothing else is measured.

use crate::peer::{AsyncChannel, Kind, Oneshot, Received as _, Sent as _};
use std::future::{Future, IntoFuture, ready};

/// One channel: its sides, what makes it, whether it can have more than one receiver, and how it sends and receives.
macro_rules! channel {
    ($(#[$doc:meta])* $subject:ident, $name:literal, $sender:ty => $receiver:ty, |$capacity:ident| $new:expr, |$one:ident| $second:expr,
     |$tx:ident, $message:ident| $send:expr, $try_send:expr, |$rx:ident| $recv:expr, $try_recv:expr $(; $($more:tt)*)?) => {
        $(#[$doc])*
        pub(crate) struct $subject;

        impl AsyncChannel for $subject {
            const NAME: &'static str = $name;
            $($($more)*)?
            type Sender = $sender;
            type Receiver = $receiver;

            fn new($capacity: usize) -> (Self::Sender, Self::Receiver) {
                $new
            }

            fn second($one: &Self::Receiver) -> Option<Self::Receiver> {
                $second
            }

            #[inline]
            fn send($tx: &mut Self::Sender, $message: u64) -> impl Future<Output: crate::peer::Sent> + Send {
                $send
            }

            #[inline]
            fn recv($rx: &mut Self::Receiver) -> impl Future<Output: crate::peer::Received> + Send {
                $recv
            }

            #[inline]
            fn try_send($tx: &mut Self::Sender, $message: u64) -> bool {
                $try_send
            }

            #[inline]
            fn try_recv($rx: &mut Self::Receiver) -> Option<u64> {
                $try_recv
            }
        }
    };
}

/// A channel whose functions have the usual names.
macro_rules! usual {
    ($(#[$doc:meta])* $subject:ident, $name:literal, $sender:ty => $receiver:ty, |$capacity:ident| $new:expr, |$one:ident| $second:expr $(; $($more:tt)*)?) => {
        channel!(
            $(#[$doc])* $subject, $name, $sender => $receiver, |$capacity| $new, |$one| $second,
            |tx, message| tx.send(message), tx.try_send(message).is_sent(), |rx| rx.recv(), rx.try_recv().message() $(; $($more)*)?
        );
    };
}

/// One whose sends are plain functions, by the name of `send`: it is never full.
macro_rules! never_full {
    ($(#[$doc:meta])* $subject:ident, $name:literal, $sender:ty => $receiver:ty, $new:expr, |$one:ident| $second:expr) => {
        channel!(
            $(#[$doc])* $subject, $name, $sender => $receiver, |_capacity| $new, |$one| $second,
            |tx, message| ready(tx.send(message).is_sent()), tx.send(message).is_sent(), |rx| rx.recv(), rx.try_recv().message()
        );
    };
}

usual!(
    /// Ours, bounded.
    Tasuki, "tasuki", tasuki::channel::Sender<u64> => tasuki::channel::Receiver<u64>,
    |capacity| tasuki::channel::bounded(capacity), |one| Some(one.clone()); const KIND: Kind = Kind::Ours;
);
usual!(
    /// Ours, unbounded.
    TasukiUnbounded, "tasuki", tasuki::channel::Sender<u64> => tasuki::channel::Receiver<u64>,
    |_capacity| tasuki::channel::unbounded(), |one| Some(one.clone()); const KIND: Kind = Kind::Ours;
);
usual!(
    /// tokio's `mpsc`.
    Tokio, "tokio", tokio::sync::mpsc::Sender<u64> => tokio::sync::mpsc::Receiver<u64>,
    |capacity| tokio::sync::mpsc::channel(capacity), |_one| None
);
never_full!(
    /// tokio's unbounded `mpsc`.
    TokioUnbounded, "tokio", tokio::sync::mpsc::UnboundedSender<u64> => tokio::sync::mpsc::UnboundedReceiver<u64>,
    tokio::sync::mpsc::unbounded_channel(), |_one| None
);
usual!(
    /// async-channel.
    AsyncChannelBounded, "async-channel", async_channel::Sender<u64> => async_channel::Receiver<u64>,
    |capacity| async_channel::bounded(capacity), |one| Some(one.clone())
);
usual!(
    /// async-channel, unbounded.
    AsyncChannelUnbounded, "async-channel", async_channel::Sender<u64> => async_channel::Receiver<u64>,
    |_capacity| async_channel::unbounded(), |one| Some(one.clone())
);
channel!(
    /// flume.
    Flume, "flume", flume::Sender<u64> => flume::Receiver<u64>,
    |capacity| flume::bounded(capacity), |one| Some(one.clone()),
    |tx, message| tx.send_async(message), tx.try_send(message).is_sent(), |rx| rx.recv_async(), rx.try_recv().message()
);
channel!(
    /// flume, unbounded.
    FlumeUnbounded, "flume", flume::Sender<u64> => flume::Receiver<u64>,
    |_capacity| flume::unbounded(), |one| Some(one.clone()),
    |tx, message| tx.send_async(message), tx.try_send(message).is_sent(), |rx| rx.recv_async(), rx.try_recv().message()
);
channel!(
    /// kanal.
    Kanal, "kanal", kanal::AsyncSender<u64> => kanal::AsyncReceiver<u64>,
    |capacity| kanal::bounded_async(capacity), |one| Some(one.clone()),
    |tx, message| tx.send(message), tx.try_send(message).unwrap_or(false), |rx| rx.recv(), rx.try_recv().ok().flatten()
);
channel!(
    /// kanal, unbounded.
    KanalUnbounded, "kanal", kanal::AsyncSender<u64> => kanal::AsyncReceiver<u64>,
    |_capacity| kanal::unbounded_async(), |one| Some(one.clone()),
    |tx, message| tx.send(message), tx.try_send(message).unwrap_or(false), |rx| rx.recv(), rx.try_recv().ok().flatten()
);
usual!(
    /// asyncband's `mpmc`.
    Asyncband, "asyncband", asyncband::mpmc::BoundedSender<u64> => asyncband::mpmc::BoundedReceiver<u64>,
    |capacity| asyncband::mpmc::bounded(capacity), |one| Some(one.clone())
);
never_full!(
    /// asyncband's unbounded `mpmc`.
    AsyncbandUnbounded, "asyncband", asyncband::mpmc::UnboundedSender<u64> => asyncband::mpmc::UnboundedReceiver<u64>,
    asyncband::mpmc::unbounded(), |one| Some(one.clone())
);
channel!(
    /// futures-intrusive's shared channel.
    Intrusive, "futures-intrusive", futures_intrusive::channel::shared::Sender<u64> => futures_intrusive::channel::shared::Receiver<u64>,
    |capacity| futures_intrusive::channel::shared::channel(capacity), |one| Some(one.clone()),
    |tx, message| tx.send(message), tx.try_send(message).is_sent(), |rx| rx.receive(), rx.try_receive().message()
);
usual!(
    /// crossfire's `mpmc`.
    Crossfire, "crossfire", crossfire::MAsyncTx<crossfire::mpmc::Array<u64>> => crossfire::MAsyncRx<crossfire::mpmc::Array<u64>>,
    |capacity| crossfire::mpmc::bounded_async(capacity), |one| Some(one.clone())
);
never_full!(
    /// crossfire's unbounded `mpmc`.
    CrossfireUnbounded, "crossfire", crossfire::MTx<crossfire::mpmc::List<u64>> => crossfire::MAsyncRx<crossfire::mpmc::List<u64>>,
    crossfire::mpmc::unbounded_async(), |one| Some(one.clone())
);
usual!(
    /// thingbuf's `mpsc`.
    Thingbuf, "thingbuf", thingbuf::mpsc::Sender<u64> => thingbuf::mpsc::Receiver<u64>,
    |capacity| thingbuf::mpsc::channel(capacity), |_one| None
);
usual!(
    /// tachyonix.
    Tachyonix, "tachyonix", tachyonix::Sender<u64> => tachyonix::Receiver<u64>,
    |capacity| tachyonix::channel(capacity), |_one| None
);
channel!(
    /// The `mpsc` of futures: its first sender's own place counts as room.
    Futures, "futures", futures_channel::mpsc::Sender<u64> => futures_channel::mpsc::Receiver<u64>,
    |capacity| futures_channel::mpsc::channel(capacity - 1), |_one| None,
    |tx, message| futures_util::SinkExt::send(tx, message), tx.try_send(message).is_sent(), |rx| rx.recv(), rx.try_recv().message(); const ROOM_OF_EACH_SENDER: bool = true;
);
channel!(
    /// The unbounded `mpsc` of futures.
    FuturesUnbounded, "futures", futures_channel::mpsc::UnboundedSender<u64> => futures_channel::mpsc::UnboundedReceiver<u64>,
    |_capacity| futures_channel::mpsc::unbounded(), |_one| None,
    |tx, message| ready(tx.unbounded_send(message).is_sent()), tx.unbounded_send(message).is_sent(), |rx| rx.recv(), rx.try_recv().message()
);
channel!(
    /// postage's `dispatch`.
    Postage, "postage", postage::dispatch::Sender<u64> => postage::dispatch::Receiver<u64>,
    |capacity| postage::dispatch::channel(capacity), |one| Some(one.clone()),
    |tx, message| postage::sink::Sink::send(tx, message), postage::sink::Sink::try_send(tx, message).is_sent(),
    |rx| postage::stream::Stream::recv(rx), postage::stream::Stream::try_recv(rx).message()
);

/// One oneshot: its sender, the future of its receiver, and what makes both.
macro_rules! oneshot {
    ($(#[$doc:meta])* $subject:ident, $name:literal, $kind:expr, $sender:ty => $receiver:ty, $new:expr) => {
        $(#[$doc])*
        pub(crate) struct $subject;

        impl Oneshot for $subject {
            const NAME: &'static str = $name;
            const KIND: Kind = $kind;
            type Sender = $sender;
            type Receiver = $receiver;

            #[inline]
            fn new() -> (Self::Sender, Self::Receiver) {
                let (sender, receiver) = $new;
                (sender, receiver.into_future())
            }

            #[inline]
            fn send(sender: Self::Sender, message: u64) {
                sender.send(message).expect("the receiver is there");
            }

            #[inline]
            fn message(output: <Self::Receiver as Future>::Output) -> u64 {
                output.expect("it was sent")
            }
        }
    };
}

oneshot!(
    /// Ours.
    TasukiOneshot, "tasuki", Kind::Ours,
    tasuki::channel::OneshotSender<u64> => tasuki::channel::oneshot::OneshotRecv<tasuki::channel::OneshotReceiver<u64>>,
    tasuki::channel::oneshot()
);
oneshot!(
    /// tokio's.
    TokioOneshot, "tokio", Kind::Peer,
    tokio::sync::oneshot::Sender<u64> => tokio::sync::oneshot::Receiver<u64>, tokio::sync::oneshot::channel()
);
oneshot!(
    /// asyncband's.
    AsyncbandOneshot, "asyncband", Kind::Peer,
    asyncband::oneshot::Sender<u64> => asyncband::oneshot::Recv<u64>, asyncband::oneshot::channel()
);
oneshot!(
    /// The one of the crate `oneshot`.
    CrateOneshot, "oneshot", Kind::Peer,
    oneshot::Sender<u64> => oneshot::AsyncReceiver<u64>, oneshot::async_channel()
);
