//! A deadlock is told by the program itself: through the hook, and once.

#![cfg(any(debug_assertions, feature = "inspect"))]

use crate::kit::process::alone;
use crate::kit::watchdog::watchdog;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Mutex as StdMutex, mpsc};
use std::task::{Context, Poll, Waker};
use tasuki::inspect::{self, Certainty};
use tasuki::{Mutex, task};

static TOLD: StdMutex<Option<mpsc::Sender<(Certainty, String)>>> = StdMutex::new(None);

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
#[cfg_attr(miri, ignore = "there is no thread that looks")]
fn a_deadlock_is_told_by_itself() {
    alone(|| {
        let _dog = watchdog(60);
        let (send, receive) = mpsc::channel();
        *TOLD.lock().unwrap() = Some(send);
        inspect::on_deadlock(|deadlock| {
            TOLD.lock().unwrap().as_ref().unwrap().send((deadlock.certainty, deadlock.to_string())).unwrap();
        });
        let (a, b) = (Mutex::new(0).named("a"), Mutex::new(0).named("b"));
        let mut first = pin!(task::identify(async {
            let _a = a.lock().await;
            std::future::poll_fn(once_pending()).await;
            drop(b.lock().await);
        }));
        let mut second = pin!(task::identify(async {
            let _b = b.lock().await;
            drop(a.lock().await);
        }));
        assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
        assert!(poll(first.as_mut()).is_pending());
        let (certainty, text) = receive.recv().unwrap();
        assert_eq!(certainty, Certainty::Deadlock);
        assert!(
            text.contains("the mutex `a`, which task") && text.contains("the mutex `b`, which task"),
            "{text}"
        );
        // Another one: told after it, and the first not again.
        let c = Mutex::new(0).named("c");
        let mut third = pin!(task::identify(async {
            let _c = c.lock().await;
            drop(c.lock().await);
        }));
        assert!(poll(third.as_mut()).is_pending());
        let (_, text) = receive.recv().unwrap();
        assert!(
            text.contains("a task waits for itself") && text.contains("`c`, which this task took"),
            "{text}"
        );
    });
}

fn once_pending() -> impl FnMut(&mut Context<'_>) -> Poll<()> {
    let mut polled = false;
    move |_| if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }
}
