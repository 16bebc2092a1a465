//! The rows of channels in the table of awaitables (`budget_table.rs`).

use super::budget_table::{ATTEMPTS, ENOUGH, FORGETS, Other, Outcome, Row, is_ready_at_once, is_send, row};
use futures_util::{Sink, SinkExt, StreamExt};
use std::future::poll_fn;
use tasuki::channel;
use tasuki_rt::yield_now;

pub(super) fn rows() -> Vec<Row> {
    vec![
        row!(
            "send and recv",
            ["SendMessage", "Recv"],
            {
                let (sender, receiver) = channel::bounded(1);
            },
            {
                sender.send(1).await.unwrap();
                receiver.recv().await.unwrap()
            }
        ),
        row!(
            "send and recv, inside",
            ["InlineSend", "InlineRecv"],
            {
                let channel = channel::Channel::<u32, 1>::new();
            },
            {
                channel.send(1).await.unwrap();
                channel.recv().await.unwrap()
            }
        ),
        row!(
            "rendezvous, closed",
            ["HandOver", "TakeOver"],
            {
                let (sender, receiver) = channel::rendezvous();
                receiver.close();
            },
            {
                sender.send(1).await.unwrap_err();
                receiver.recv().await.unwrap_err()
            }
        ),
        row!("oneshot", ["OneshotRecv"], {}, {
            let (sender, receiver) = channel::oneshot();
            sender.send(1).unwrap();
            receiver.await.unwrap()
        }),
        row!(
            "recv_owned",
            ["RecvOwned"],
            {
                let (sender, receiver) = channel::unbounded();
                (0..=ENOUGH).for_each(|n| sender.try_send(n).unwrap());
            },
            receiver.clone().recv_owned().await.unwrap()
        ),
        row!(
            "recv_many",
            ["RecvMany"],
            {
                let (sender, receiver) = channel::unbounded();
                (0..=ENOUGH).for_each(|n| sender.try_send(n).unwrap());
                let mut buffer = Vec::new();
            },
            receiver.recv_many(&mut buffer, 1).await.unwrap()
        ),
        row!(
            "reserve",
            ["Reservation", "ReservationMany", "ReservationOwned"],
            {
                let (sender, _receiver) = channel::bounded::<u8>(2);
            },
            {
                drop(sender.reserve().await.unwrap());
                drop(sender.reserve_many(2).await.unwrap());
                drop(sender.clone().reserve_owned().await.unwrap())
            }
        ),
        row!(
            "stream",
            ["MessageStream"],
            {
                let (sender, receiver) = channel::unbounded();
                (0..=ENOUGH).for_each(|n| sender.try_send(n).unwrap());
                let mut stream = Box::pin(receiver.into_stream());
            },
            stream.next().await.unwrap()
        ),
        row!(
            "stream, ended",
            [],
            {
                let mut stream = Box::pin(channel::unbounded::<u8>().1.into_stream());
            },
            assert_eq!(stream.next().await, None)
        ),
        row!(
            "sink",
            ["MessageSink"],
            {
                let (sender, _receiver) = channel::unbounded();
                let mut sink = Box::pin(sender.into_sink());
            },
            sink.send(1).await.unwrap()
        ),
        row!(
            "sink, ready",
            [],
            {
                let (sender, _receiver) = channel::unbounded::<u8>();
                let mut sink = Box::pin(sender.into_sink());
            },
            poll_fn(|cx| sink.as_mut().poll_ready(cx)).await.unwrap()
        ),
        row!(
            "sink, flushed",
            [],
            {
                let (sender, _receiver) = channel::unbounded::<u8>();
                let mut sink = Box::pin(sender.into_sink());
            },
            sink.flush().await.unwrap()
        ),
        row!(
            "sink, closed",
            [],
            {
                let (sender, _receiver) = channel::unbounded::<u8>();
                let mut sink = Box::pin(sender.into_sink());
            },
            sink.close().await.unwrap()
        ),
        row!(
            "sink, refused",
            [],
            {
                let (sender, _receiver) = channel::unbounded();
                let mut sink = Box::pin(sender.into_sink());
                sink.close().await.unwrap();
            },
            sink.send(1).await.unwrap_err()
        ),
    ]
}
