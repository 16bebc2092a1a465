//! Everything is imported at once, as a program may do: a function that users call is still the one of the type, also through an `Arc`, and not one of a trait that came along.

use crate::kit::sources;
use std::sync::Arc;
use std::time::Duration;
#[allow(unused_imports, reason = "whatever has no function that is called here")]
use tasuki::{channel::*, future::*, policy::*, runtime::*, task::*, *};

/// What a program has without an import, types and traits: a glob import would hide them.
const PRELUDE: [&str; 30] = [
    "AsyncFn",
    "AsyncFnMut",
    "AsyncFnOnce",
    "Send",
    "Sized",
    "Sync",
    "Unpin",
    "Drop",
    "Fn",
    "FnMut",
    "FnOnce",
    "Box",
    "ToOwned",
    "Clone",
    "PartialEq",
    "PartialOrd",
    "Eq",
    "Ord",
    "AsRef",
    "AsMut",
    "Into",
    "From",
    "Default",
    "Iterator",
    "Option",
    "Result",
    "String",
    "Vec",
    "Future",
    "IntoFuture",
];

#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn nothing_of_the_prelude_is_hidden() {
    let types = sources::public_types();
    assert!(types.len() > 100 && PRELUDE.iter().all(|name| !types.contains(*name)));
    // The traits, beside the globs above.
    fn crosses<T: Send + Sync + Unpin + Clone + Default>() {}
    crosses::<Option<String>>();
}

/// A call through an `Arc` looks at the traits of the `Arc` before it comes to the functions of what is in it.
#[test]
fn primitives_behind_an_arc_have_their_own_functions() {
    let semaphore = Arc::new(Semaphore::new(1));
    semaphore.release(3);
    assert_eq!(
        (semaphore.available_permits(), semaphore.forget_permits(1), semaphore.is_closed()),
        (4, 1, false)
    );
    drop((semaphore.try_acquire(), semaphore.try_acquire_many(2)));
    drop((semaphore.acquire().block(), semaphore.acquire_many(2).block()));
    drop(semaphore.clone().acquire_owned().block());
    semaphore.close();

    let mutex = Arc::new(Mutex::new(1));
    assert!(!mutex.is_locked() && mutex.try_lock().is_some());
    assert!(mutex.lock_for(Duration::ZERO).block().is_ok());
    assert_eq!(*mutex.lock().block(), 1);
    assert_eq!(*mutex.clone().lock_owned().block(), 1);

    let lock = Arc::new(RwLock::new(1));
    assert!(lock.try_read().is_some() && lock.try_write().is_some() && lock.try_upgradable_read().is_some());
    drop((lock.read().block(), lock.upgradable_read().block()));
    drop(lock.write().block());

    let reentrant = Arc::new(ReentrantMutex::new(1));
    assert!(reentrant.try_lock().is_err(), "a thread is no task");

    let event = Arc::new(Event::manual());
    event.set();
    event.wait().block();
    event.reset();
    assert!(!event.is_set());

    let cell = Arc::new(OnceCell::new());
    assert_eq!((cell.get(), cell.set(1), cell.get(), cell.wait().block()), (None, Ok(()), Some(&1), &1));

    let (latch, group, barrier) =
        (Arc::new(Latch::new(1)), Arc::new(WaitGroup::new()), Arc::new(Barrier::new(1)));
    latch.count_down();
    latch.wait().block();
    assert!(latch.try_wait() && latch.count() == 0);
    group.add(1);
    group.done();
    drop((group.member(), group.clone().member_owned()));
    group.wait().block();
    assert!(group.count() == 0 && barrier.arrive_and_wait().block().is_leader());

    let condvar = Arc::new(Condvar::new());
    condvar.notify_one();
    condvar.notify_all();
    drop(condvar.wait_while(mutex.lock().block(), |_| false).block());
    assert!(condvar.wait(mutex.lock().block()).timeout(Duration::ZERO).block().is_err());
}

#[test]
fn channels_behind_an_arc_have_their_own_functions() {
    let (sender, receiver) = bounded(1);
    let (sender, receiver) = (Arc::new(sender), Arc::new(receiver));
    sender.send(1).block().unwrap();
    assert_eq!(
        (sender.len(), receiver.len(), sender.capacity(), receiver.is_empty()),
        (1, 1, Some(1), false)
    );
    assert_eq!((receiver.recv().block(), receiver.try_recv().is_err()), (Ok(1), true));
    sender.reserve().block().unwrap().send(2).unwrap();
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [2]);
    assert!(sender.close() && !receiver.close() && receiver.is_closed());
    let (sender, receiver) = unbounded();
    Arc::new(sender).try_send(1).unwrap();
    assert_eq!(Arc::new(receiver).recv().block(), Ok(1));
    let (sender, receiver) = oneshot();
    sender.send(1).unwrap();
    assert_eq!(receiver.recv().block(), Ok(1));
}

/// `is_terminated` is the function of `FusedFuture`, and of no other trait that is in scope.
#[cfg(feature = "futures-core")]
#[test]
fn fused_futures_are_asked_without_naming_the_trait() {
    use futures_core::future::FusedFuture;
    let event = Event::auto();
    let mut wait = Box::pin(event.wait());
    assert!(!wait.is_terminated());
    event.set();
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(wait.as_mut().poll(&mut cx).is_ready());
    assert!(wait.is_terminated());
}
