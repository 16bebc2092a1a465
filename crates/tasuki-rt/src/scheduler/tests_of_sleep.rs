//! What a worker does on its way to sleep, in the context of a whole runtime.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use tasuki::Event;

/// A waker that calls a closure, once.
struct Calls<F>(Mutex<Option<F>>);

impl<F: FnOnce() + Send + 'static> Wake for Calls<F> {
    fn wake(self: Arc<Self>) {
        let call = self.0.lock().unwrap().take();
        call.into_iter().for_each(|call| call());
    }
}

fn calls(call: impl FnOnce() + Send + 'static) -> Waker {
    Waker::from(Arc::new(Calls(Mutex::new(Some(call)))))
}

fn poll(wait: &mut std::pin::Pin<Box<impl Future>>, waker: Waker) {
    assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
}

/// Calls from further down the stack than wakes may nest. A frame of its own in release builds too.
#[inline(never)]
fn deep_down(call: impl FnOnce()) {
    let mut pad = [0_u8; 64 << 10];
    std::hint::black_box(&mut pad);
    call();
    std::hint::black_box(&mut pad);
}

/// A local runtime inside of a chain of wakes so deep that the thread keeps some of them: it makes them before it falls asleep, not when it sleeps and has the poll slot. One
/// that panics changes nothing.
#[test]
#[cfg_attr(miri, ignore = "there are no sockets")]
fn wakes_that_a_thread_keeps_are_made_before_it_sleeps() {
    // The measure of this thread: a wake from here.
    let shallow = Event::auto();
    let mut measured = Box::pin(shallow.wait());
    poll(&mut measured, calls(|| ()));
    shallow.set();

    let (kept, end) = (Arc::new(Event::manual()), Arc::new(Event::manual()));
    let slot_was_free = Arc::new(Mutex::new(Vec::new()));
    let root = Event::auto();
    let mut first = Box::pin(root.wait());
    poll(&mut first, {
        let (kept, end) = (kept.clone(), end.clone());
        calls(move || {
            kept.set();
            let runtime = crate::LocalRuntime::new().unwrap();
            runtime.block_on(async {
                let _socket = crate::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
                end.wait().await;
            });
        })
    });
    let looks = |ends: bool| {
        let (end, slot_was_free) = (end.clone(), slot_was_free.clone());
        calls(move || {
            let is_free = crate::context::with(|context| {
                let idle = &context.expect("inside of `block_on`").shared.idle;
                let is_free = idle.try_poll(0);
                if is_free {
                    assert_eq!(idle.end_poll(0), None, "no worker sleeps");
                }
                is_free
            });
            slot_was_free.lock().unwrap().push(is_free);
            if !ends {
                std::panic::resume_unwind(Box::new("a waker that panics"));
            }
            end.set();
        })
    };
    let (mut second, mut third) = (Box::pin(kept.wait()), Box::pin(kept.wait()));
    poll(&mut second, looks(false));
    poll(&mut third, looks(true));
    deep_down(|| root.set());
    assert_eq!(*slot_was_free.lock().unwrap(), [true, true]);
}
