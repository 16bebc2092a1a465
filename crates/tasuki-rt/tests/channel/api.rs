//! Channels on the runtime: messages that stay on one event loop, and batons that let others run.

use crate::kit::{scaled, watchdog};
use std::cell::Cell;
use std::rc::Rc;
use tasuki::channel::{bounded, oneshot, rendezvous};
use tasuki_rt::{LocalRuntime, spawn_local, yield_now};

/// Messages that are not `Send`, through every kind of channel, between the tasks of one loop.
#[test]
fn messages_that_stay_on_their_loop() {
    let _dog = watchdog(60);
    LocalRuntime::new().unwrap().block_on(async {
        let sum = Rc::new(Cell::new(0));
        let (work, jobs) = bounded::<(Rc<Cell<u32>>, u32)>(2);
        let (meet, meets) = rendezvous::<Rc<Cell<u32>>>();
        let (reply, replies) = oneshot::<Rc<Cell<u32>>>();
        let worker = spawn_local(async move {
            while let Ok((sum, n)) = jobs.recv().await {
                sum.set(sum.get() + n);
            }
            let met = meets.recv().await.unwrap();
            met.set(met.get() + 1);
            assert!(reply.send(met).is_ok());
        });
        for n in 0..10 {
            work.send((sum.clone(), n)).await.unwrap();
        }
        drop(work);
        meet.send(sum.clone()).await.unwrap();
        assert_eq!(replies.await.unwrap().get(), 46);
        worker.await.unwrap();
        assert_eq!((sum.get(), Rc::strong_count(&sum)), (46, 1));
    });
}

/// A request and its reply hand the worker to each other for ever; a task that only yields gets its turns all the same. Polls are counted, not time.
#[test]
fn batons_of_messages_do_not_starve_others() {
    let _dog = watchdog(60);
    LocalRuntime::new().unwrap().block_on(async {
        let rounds = scaled(10_000, 200) as u64;
        let (ask, asked) = bounded(1);
        let (answer, answered) = bounded(1);
        spawn_local(async move {
            while let Ok(n) = asked.recv().await {
                let _ = answer.send(n).await;
            }
        });
        let polls = Rc::new(Cell::new(0_u64));
        let (counted, over) = (polls.clone(), Rc::new(Cell::new(false)));
        let end = over.clone();
        let other = spawn_local(async move {
            while !end.get() {
                counted.set(counted.get() + 1);
                yield_now().await;
            }
        });
        for n in 0..rounds {
            ask.send(n).await.unwrap();
            assert_eq!(answered.recv().await, Ok(n));
        }
        assert!(polls.get() >= rounds / 64, "{} polls beside {rounds} round trips", polls.get());
        over.set(true);
        other.await.unwrap();
    });
}
