//! The inbox of a worker: many threads push, one takes all, closes it, and leaves. A value that was taken in is seen once, those of one
//! thread in their order; one that was refused comes back to its thread.

use crate::parts::shared_queue::SharedQueue;
use crate::tasks::Token;
use loom::sync::Notify;
use loom::thread;

struct Loop {
    inbox: SharedQueue<Token>,
    /// The unparker of the worker.
    bell: Notify,
}

impl Loop {
    /// Never freed: a model that fails as it should must not touch it again while it unwinds.
    fn new() -> &'static Self {
        Box::leak(Box::new(Self { inbox: SharedQueue::new(), bell: Notify::new() }))
    }

    /// As `Shared::send`; false if it came back.
    fn send(&self, number: usize) -> bool {
        let sent = self.inbox.push(Token::new(number)).is_ok();
        if sent {
            self.bell.notify();
        }
        sent
    }

    /// As a worker: takes all, and sleeps until it is unparked, for nothing else.
    fn receive(&self, enough: usize) -> Vec<usize> {
        let mut seen = Vec::new();
        while seen.len() < enough {
            let before = seen.len();
            seen.extend(self.inbox.take_all().map(|token| token.number()));
            if seen.len() == before {
                self.bell.wait();
            }
        }
        seen
    }
}

/// Two threads push, one of them twice: nothing is lost though the look before the sleep is only a glance, because an unpark follows
/// every push.
#[test]
fn pushes_against_a_worker_that_sleeps() {
    loom::model(|| {
        let here = Loop::new();
        let one = thread::spawn(|| assert!(here.send(10)));
        let two = thread::spawn(|| assert!(here.send(20) && here.send(21)));
        let mut seen = here.receive(3);
        seen.retain(|number| *number != 10);
        assert_eq!(seen, [20, 21]);
        one.join().unwrap();
        two.join().unwrap();
        assert!(here.inbox.is_empty());
    });
}

/// The worker closes its inbox and leaves: what was taken in before is taken out, what comes later goes back.
#[test]
fn pushes_against_the_close() {
    loom::model(|| {
        let here = Loop::new();
        let threads = [10, 20].map(|number| thread::spawn(move || here.send(number)));
        here.inbox.close();
        let left = here.inbox.take_all().count();
        let sent = threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum::<usize>();
        assert_eq!(left, sent);
        assert!(here.inbox.is_empty() && !here.send(30));
    });
}
