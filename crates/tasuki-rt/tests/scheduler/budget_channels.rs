//! The rows of channels in the table of awaitables (`budget_table.rs`).

use super::budget_table::{ENOUGH, Other, Outcome, Row, is_ready_at_once, is_send, row};
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
    ]
}
