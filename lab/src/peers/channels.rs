//! The channels: ours, and those of crates that have nothing else to measure here.

use crate::peer::{AsyncChannel, Kind, Oneshot};
use std::future::{Future, IntoFuture};

/// One channel: what makes it, what its sides are called, and how its answers become ours.
macro_rules! channel {
    ($(#[$doc:meta])* $subject:ident, $name:literal, $kind:expr, $sender:ty, $receiver:ty, |$capacity:ident| $new:expr, |$one:ident| $second:expr,
     |$tx:ident, $message:ident| $send:expr, $sent:ty, $is_sent:expr, |$rx:ident| $recv:expr, $received:ty, $open:expr, $try_send:expr, $try_recv:expr $(, $room:literal)?) => {
        $(#[$doc])*
        pub(crate) struct $subject;

        impl AsyncChannel for $subject {
            const NAME: &'static str = $name;
            const KIND: Kind = $kind;
            $(const ROOM_OF_EACH_SENDER: bool = $room;)?
            type Sender = $sender;
            type Receiver = $receiver;

            fn new($capacity: usize) -> (Self::Sender, Self::Receiver) {
                $new
            }

            fn second($one: &Self::Receiver) -> Option<Self::Receiver> {
                $second
            }

            type Sent = $sent;
            type Received = $received;

            #[inline]
            fn send($tx: &mut Self::Sender, $message: u64) -> impl Future<Output = Self::Sent> + Send {
                $send
            }

            #[inline]
            fn is_sent(sent: &Self::Sent) -> bool {
                $is_sent(sent)
            }

            #[inline]
            fn recv($rx: &mut Self::Receiver) -> impl Future<Output = Self::Received> + Send {
                $recv
            }

            #[inline]
            fn message(received: Self::Received) -> Option<u64> {
                $open(received)
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

channel!(
    /// Ours, bounded.
    Tasuki, "tasuki", Kind::Ours, tasuki::channel::Sender<u64>, tasuki::channel::Receiver<u64>,
    |capacity| tasuki::channel::bounded(capacity), |one| Some(one.clone()),
    |tx, message| tx.send(message), Result<(), tasuki::channel::SendError<u64>>, |sent: &Result<_, _>| sent.is_ok(), |rx| rx.recv(), Result<u64, tasuki::Closed>, |received: Result<u64, _>| received.ok(),
    tx.try_send(message).is_ok(), rx.try_recv().ok()
);
channel!(
    /// Ours, unbounded.
    TasukiUnbounded, "tasuki", Kind::Ours, tasuki::channel::Sender<u64>, tasuki::channel::Receiver<u64>,
    |_capacity| tasuki::channel::unbounded(), |one| Some(one.clone()),
    |tx, message| tx.send(message), Result<(), tasuki::channel::SendError<u64>>, |sent: &Result<_, _>| sent.is_ok(), |rx| rx.recv(), Result<u64, tasuki::Closed>, |received: Result<u64, _>| received.ok(),
    tx.try_send(message).is_ok(), rx.try_recv().ok()
);
channel!(
    /// tokio's `mpsc`.
    Tokio, "tokio", Kind::Peer, tokio::sync::mpsc::Sender<u64>, tokio::sync::mpsc::Receiver<u64>,
    |capacity| tokio::sync::mpsc::channel(capacity), |_one| None,
    |tx, message| tx.send(message), Result<(), tokio::sync::mpsc::error::SendError<u64>>, |sent: &Result<_, _>| sent.is_ok(), |rx| rx.recv(), Option<u64>, |received| received,
    tx.try_send(message).is_ok(), rx.try_recv().ok()
);
channel!(
    /// tokio's unbounded `mpsc`.
    TokioUnbounded, "tokio", Kind::Peer, tokio::sync::mpsc::UnboundedSender<u64>, tokio::sync::mpsc::UnboundedReceiver<u64>,
    |_capacity| tokio::sync::mpsc::unbounded_channel(), |_one| None,
    |tx, message| std::future::ready(tx.send(message).is_ok()), bool, |sent: &bool| *sent, |rx| rx.recv(), Option<u64>, |received| received,
    tx.send(message).is_ok(), rx.try_recv().ok()
);
channel!(
    /// async-channel.
    AsyncChannelBounded, "async-channel", Kind::Peer, async_channel::Sender<u64>, async_channel::Receiver<u64>,
    |capacity| async_channel::bounded(capacity), |one| Some(one.clone()),
    |tx, message| tx.send(message), Result<(), async_channel::SendError<u64>>, |sent: &Result<_, _>| sent.is_ok(), |rx| rx.recv(), Result<u64, async_channel::RecvError>, |received: Result<u64, _>| received.ok(),
    tx.try_send(message).is_ok(), rx.try_recv().ok()
);
channel!(
    /// async-channel, unbounded.
    AsyncChannelUnbounded, "async-channel", Kind::Peer, async_channel::Sender<u64>, async_channel::Receiver<u64>,
    |_capacity| async_channel::unbounded(), |one| Some(one.clone()),
    |tx, message| tx.send(message), Result<(), async_channel::SendError<u64>>, |sent: &Result<_, _>| sent.is_ok(), |rx| rx.recv(), Result<u64, async_channel::RecvError>, |received: Result<u64, _>| received.ok(),
    tx.try_send(message).is_ok(), rx.try_recv().ok()
);
channel!(
    /// flume.
    Flume, "flume", Kind::Peer, flume::Sender<u64>, flume::Receiver<u64>,
    |capacity| flume::bounded(capacity), |one| Some(one.clone()),
    |tx, message| tx.send_async(message), Result<(), flume::SendError<u64>>, |sent: &Result<_, _>| sent.is_ok(), |rx| rx.recv_async(), Result<u64, flume::RecvError>, |received: Result<u64, _>| received.ok(),
    tx.try_send(message).is_ok(), rx.try_recv().ok()
);
channel!(
    /// flume, unbounded.
    FlumeUnbounded, "flume", Kind::Peer, flume::Sender<u64>, flume::Receiver<u64>,
    |_capacity| flume::unbounded(), |one| Some(one.clone()),
    |tx, message| tx.send_async(message), Result<(), flume::SendError<u64>>, |sent: &Result<_, _>| sent.is_ok(), |rx| rx.recv_async(), Result<u64, flume::RecvError>, |received: Result<u64, _>| received.ok(),
    tx.try_send(message).is_ok(), rx.try_recv().ok()
);
channel!(
    /// kanal.
    Kanal, "kanal", Kind::Peer, kanal::AsyncSender<u64>, kanal::AsyncReceiver<u64>,
    |capacity| kanal::bounded_async(capacity), |one| Some(one.clone()),
    |tx, message| tx.send(message), Result<(), kanal::SendError>, |sent: &Result<_, _>| sent.is_ok(), |rx| rx.recv(), Result<u64, kanal::ReceiveError>, |received: Result<u64, _>| received.ok(),
    tx.try_send(message).unwrap_or(false), rx.try_recv().ok().flatten()
);
channel!(
    /// kanal, unbounded.
    KanalUnbounded, "kanal", Kind::Peer, kanal::AsyncSender<u64>, kanal::AsyncReceiver<u64>,
    |_capacity| kanal::unbounded_async(), |one| Some(one.clone()),
    |tx, message| tx.send(message), Result<(), kanal::SendError>, |sent: &Result<_, _>| sent.is_ok(), |rx| rx.recv(), Result<u64, kanal::ReceiveError>, |received: Result<u64, _>| received.ok(),
    tx.try_send(message).unwrap_or(false), rx.try_recv().ok().flatten()
);
channel!(
    /// asyncband's `mpmc`.
    Asyncband, "asyncband", Kind::Peer, asyncband::mpmc::BoundedSender<u64>, asyncband::mpmc::BoundedReceiver<u64>,
    |capacity| asyncband::mpmc::bounded(capacity), |one| Some(one.clone()),
    |tx, message| tx.send(message), Result<(), asyncband::mpmc::SendError<u64>>, |sent: &Result<_, _>| sent.is_ok(), |rx| rx.recv(), Result<u64, asyncband::mpmc::RecvError>, |received: Result<u64, _>| received.ok(),
    tx.try_send(message).is_ok(), rx.try_recv().ok()
);
channel!(
    /// asyncband's unbounded `mpmc`.
    AsyncbandUnbounded, "asyncband", Kind::Peer, asyncband::mpmc::UnboundedSender<u64>, asyncband::mpmc::UnboundedReceiver<u64>,
    |_capacity| asyncband::mpmc::unbounded(), |one| Some(one.clone()),
    |tx, message| std::future::ready(tx.send(message).is_ok()), bool, |sent: &bool| *sent, |rx| rx.recv(), Result<u64, asyncband::mpmc::RecvError>, |received: Result<u64, _>| received.ok(),
    tx.send(message).is_ok(), rx.try_recv().ok()
);
channel!(
    /// futures-intrusive's shared channel.
    Intrusive, "futures-intrusive", Kind::Peer, futures_intrusive::channel::shared::Sender<u64>,
    futures_intrusive::channel::shared::Receiver<u64>,
    |capacity| futures_intrusive::channel::shared::channel(capacity), |one| Some(one.clone()),
    |tx, message| tx.send(message), Result<(), futures_intrusive::channel::ChannelSendError<u64>>, |sent: &Result<_, _>| sent.is_ok(), |rx| rx.receive(), Option<u64>, |received| received,
    tx.try_send(message).is_ok(), rx.try_receive().ok()
);

channel!(
    /// crossfire's `mpmc`.
    Crossfire, "crossfire", Kind::Peer, crossfire::MAsyncTx<crossfire::mpmc::Array<u64>>, crossfire::MAsyncRx<crossfire::mpmc::Array<u64>>,
    |capacity| crossfire::mpmc::bounded_async(capacity), |one| Some(one.clone()),
    |tx, message| tx.send(message), Result<(), crossfire::SendError<u64>>, |sent: &Result<_, _>| sent.is_ok(), |rx| rx.recv(), Result<u64, crossfire::RecvError>, |received: Result<u64, _>| received.ok(),
    tx.try_send(message).is_ok(), rx.try_recv().ok()
);
channel!(
    /// crossfire's unbounded `mpmc`.
    CrossfireUnbounded, "crossfire", Kind::Peer, crossfire::MTx<crossfire::mpmc::List<u64>>, crossfire::MAsyncRx<crossfire::mpmc::List<u64>>,
    |_capacity| crossfire::mpmc::unbounded_async(), |one| Some(one.clone()),
    |tx, message| std::future::ready(tx.send(message).is_ok()), bool, |sent: &bool| *sent, |rx| rx.recv(), Result<u64, crossfire::RecvError>, |received: Result<u64, _>| received.ok(),
    tx.send(message).is_ok(), rx.try_recv().ok()
);
channel!(
    /// thingbuf's `mpsc`.
    Thingbuf, "thingbuf", Kind::Peer, thingbuf::mpsc::Sender<u64>, thingbuf::mpsc::Receiver<u64>,
    |capacity| thingbuf::mpsc::channel(capacity), |_one| None,
    |tx, message| tx.send(message), Result<(), thingbuf::mpsc::errors::Closed<u64>>, |sent: &Result<_, _>| sent.is_ok(), |rx| rx.recv(), Option<u64>, |received| received,
    tx.try_send(message).is_ok(), rx.try_recv().ok()
);
channel!(
    /// tachyonix.
    Tachyonix, "tachyonix", Kind::Peer, tachyonix::Sender<u64>, tachyonix::Receiver<u64>,
    |capacity| tachyonix::channel(capacity), |_one| None,
    |tx, message| tx.send(message), Result<(), tachyonix::SendError<u64>>, |sent: &Result<_, _>| sent.is_ok(), |rx| rx.recv(), Result<u64, tachyonix::RecvError>, |received: Result<u64, _>| received.ok(),
    tx.try_send(message).is_ok(), rx.try_recv().ok()
);
channel!(
    /// The `mpsc` of futures: its first sender's own place counts as room.
    Futures, "futures", Kind::Peer, futures_channel::mpsc::Sender<u64>, futures_channel::mpsc::Receiver<u64>,
    |capacity| futures_channel::mpsc::channel(capacity - 1), |_one| None,
    |tx, message| futures_util::SinkExt::send(tx, message), Result<(), futures_channel::mpsc::SendError>, |sent: &Result<_, _>| sent.is_ok(),
    |rx| rx.recv(), Result<u64, futures_channel::mpsc::RecvError>, |received: Result<u64, _>| received.ok(),
    tx.try_send(message).is_ok(), rx.try_recv().ok(), true
);
channel!(
    /// The unbounded `mpsc` of futures.
    FuturesUnbounded, "futures", Kind::Peer, futures_channel::mpsc::UnboundedSender<u64>, futures_channel::mpsc::UnboundedReceiver<u64>,
    |_capacity| futures_channel::mpsc::unbounded(), |_one| None,
    |tx, message| std::future::ready(tx.unbounded_send(message).is_ok()), bool, |sent: &bool| *sent,
    |rx| rx.recv(), Result<u64, futures_channel::mpsc::RecvError>, |received: Result<u64, _>| received.ok(),
    tx.unbounded_send(message).is_ok(), rx.try_recv().ok()
);
channel!(
    /// postage's `dispatch`.
    Postage, "postage", Kind::Peer, postage::dispatch::Sender<u64>, postage::dispatch::Receiver<u64>,
    |capacity| postage::dispatch::channel(capacity), |one| Some(one.clone()),
    |tx, message| postage::sink::Sink::send(tx, message), Result<(), postage::sink::SendError<u64>>, |sent: &Result<_, _>| sent.is_ok(),
    |rx| postage::stream::Stream::recv(rx), Option<u64>, |received| received,
    postage::sink::Sink::try_send(tx, message).is_ok(), postage::stream::Stream::try_recv(rx).ok()
);

/// Ours.
pub(crate) struct TasukiOneshot;

impl Oneshot for TasukiOneshot {
    const NAME: &'static str = "tasuki";
    const KIND: Kind = Kind::Ours;
    type Sender = tasuki::channel::OneshotSender<u64>;
    type Receiver = tasuki::channel::oneshot::OneshotRecv<tasuki::channel::OneshotReceiver<u64>>;

    #[inline]
    fn new() -> (Self::Sender, Self::Receiver) {
        let (sender, receiver) = tasuki::channel::oneshot();
        (sender, receiver.recv())
    }

    #[inline]
    fn send(sender: Self::Sender, message: u64) {
        sender.send(message).expect("the receiver is there");
    }

    #[inline]
    fn message(output: Result<u64, tasuki::Closed>) -> u64 {
        output.expect("it was sent")
    }
}

/// tokio's.
pub(crate) struct TokioOneshot;

impl Oneshot for TokioOneshot {
    const NAME: &'static str = "tokio";
    type Sender = tokio::sync::oneshot::Sender<u64>;
    type Receiver = tokio::sync::oneshot::Receiver<u64>;

    #[inline]
    fn new() -> (Self::Sender, Self::Receiver) {
        tokio::sync::oneshot::channel()
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

/// asyncband's.
pub(crate) struct AsyncbandOneshot;

impl Oneshot for AsyncbandOneshot {
    const NAME: &'static str = "asyncband";
    type Sender = asyncband::oneshot::Sender<u64>;
    type Receiver = asyncband::oneshot::Recv<u64>;

    #[inline]
    fn new() -> (Self::Sender, Self::Receiver) {
        let (sender, receiver) = asyncband::oneshot::channel();
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

/// The one of the crate `oneshot`.
pub(crate) struct CrateOneshot;

impl Oneshot for CrateOneshot {
    const NAME: &'static str = "oneshot";
    type Sender = oneshot::Sender<u64>;
    type Receiver = oneshot::AsyncReceiver<u64>;

    #[inline]
    fn new() -> (Self::Sender, Self::Receiver) {
        oneshot::async_channel()
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
