//! Waits that are kept and not polled: until their end comes they keep their task out of every cycle, and then they do not.

use super::{Actor, two};
use crate::catch_panic::catch;
use crate::host_executor::clock;
use crate::inspect::{self, check_cycle};
use crate::runtime::{SignalSlot, SignalWait, sleep};
use crate::{CancellationSource, CancellationToken, Condvar, Event, Mutex, RwLock, Semaphore};
use core::future::Future;
use std::boxed::Box;
use std::string::ToString;
use std::time::Duration;

/// Until a timer of the process has fired.
fn until(is_so: impl Fn() -> bool) {
    let start = clock();
    while !is_so() {
        assert!(clock() - start < Duration::from_secs(10), "it has not come");
        std::thread::yield_now();
    }
}

/// The task keeps the wait, and waits for itself by another. While the first may end it is in no cycle, then it is; strict mode, which judges in a poll, does not say so.
fn row<F: Future>(wait: F, comes: impl FnOnce()) {
    let (me, mutex, mut wait) = (Actor::new(), Mutex::new(0), Box::pin(wait));
    let _held = me.run(|| mutex.try_lock().unwrap());
    me.waits(wait.as_mut());
    let mut lock = Box::pin(mutex.lock());
    me.waits(lock.as_mut());
    assert!(me.deadlock().is_none(), "it may end");
    comes();
    until(|| me.deadlock().is_some());
    assert!(catch(|| check_cycle(me.number())).is_ok(), "the poll that runs may poll it");
    assert!(me.poll(wait.as_mut()).is_ready());
    assert!(me.deadlock().is_some() && catch(|| check_cycle(me.number())).is_err());
}

/// A row for everything that ends a wait.
#[test]
fn a_wait_whose_end_has_come_hides_no_deadlock() {
    let (event, auto, condvar, guarded) = (Event::manual(), Event::auto(), Condvar::new(), Mutex::new(0));
    row(sleep(Duration::from_millis(20)), || ());
    row(event.wait(), || event.set());
    row(auto.wait(), || auto.set());
    row(condvar.wait(guarded.try_lock().unwrap()), || condvar.notify_one());
    let source = CancellationSource::new();
    let token = source.token();
    row(token.on_cancel(), || source.request_cancel());
    let (sender, receiver) = crate::channel::bounded::<u32>(1);
    row(async { receiver.recv().await }, || sender.try_send(1).unwrap());
    sender.try_send(2).unwrap();
    row(async { sender.send(3).await }, || _ = receiver.try_recv());
    let latch = crate::Latch::new(1);
    row(latch.wait(), || latch.count_down());
    let cell = crate::OnceCell::<u32>::new();
    row(cell.wait(), || _ = cell.set(1));
    let cell = crate::OnceCell::<u32>::new();
    let mut first = Box::pin(cell.get_or_init(core::future::pending));
    assert!(Actor::new().poll(first.as_mut()).is_pending());
    row(cell.get_or_init(|| async { 1 }), || drop(first));
    let (group, barrier) = (crate::WaitGroup::new(), crate::Barrier::new(2));
    group.add(1);
    row(group.wait(), || group.done());
    row(barrier.arrive_and_wait(), || {
        assert!(Actor::new().poll(Box::pin(barrier.arrive_and_wait()).as_mut()).is_ready());
    });
}

/// The same for every wait of a channel. (A receive of a rendezvous that was woken for a send is not over: the send may be cancelled.)
#[test]
fn a_wait_of_a_channel_whose_end_has_come_hides_no_deadlock() {
    use crate::channel::{Channel, bounded, oneshot, rendezvous};
    let full = || {
        let (sender, receiver) = bounded::<u32>(1);
        sender.try_send(1).unwrap();
        (sender, receiver)
    };
    let (sender, receiver) = bounded::<u32>(1);
    let mut buffer = std::vec::Vec::new();
    row(receiver.recv_many(&mut buffer, 2), || sender.try_send(1).unwrap());
    assert_eq!(receiver.try_recv().ok(), None);
    row(receiver.clone().recv_owned(), || sender.try_send(1).unwrap());
    row(receiver.recv(), || _ = sender.close());
    let (sender, receiver) = full();
    row(sender.reserve(), || _ = receiver.try_recv());
    sender.try_send(1).unwrap();
    row(sender.reserve_many(1), || _ = receiver.try_recv());
    sender.try_send(1).unwrap();
    row(sender.clone().reserve_owned(), || _ = receiver.try_recv());
    sender.try_send(1).unwrap();
    row(sender.send(2), || _ = receiver.close());
    let (sender, receiver) = full();
    row(sender.reserve(), || _ = receiver.close());
    let (sender, receiver) = full();
    row(sender.closed(), || drop(receiver));
    let channel = Channel::<u32, 1>::new();
    row(channel.recv(), || channel.try_send(1).unwrap());
    channel.try_send(1).unwrap();
    row(channel.send(2), || _ = channel.try_recv());
    let (sender, receiver) = oneshot::<u32>();
    row(receiver.recv(), || sender.send(1).unwrap());
    let (sender, receiver) = oneshot::<u32>();
    row(receiver.recv(), || drop(sender));
    let (sender, receiver) = oneshot::<u32>();
    row(sender.closed(), || drop(receiver));
    let (sender, receiver) = rendezvous::<u32>();
    row(sender.send(1), || _ = receiver.try_recv());
    row(receiver.recv(), || sender.try_send(1).unwrap());
    row(sender.closed(), || _ = receiver.close());
    let (sender, receiver) = rendezvous::<u32>();
    row(sender.send(1), || _ = receiver.close());
    let (sender, receiver) = rendezvous::<u32>();
    row(receiver.recv(), || drop(sender));
}

/// A wait is borrowed by a future that has a limit. When that future is gone, and its task polls the wait without a limit, the wait can be part of a cycle.
#[test]
fn a_limit_that_is_gone_hides_no_deadlock_of_what_it_borrowed() {
    let (me, mutex, token) = (Actor::new(), Mutex::new(0), CancellationSource::new().token());
    let _held = me.run(|| mutex.try_lock().unwrap());
    let cell = crate::OnceCell::<()>::new();
    for is_initialiser in [false, true] {
        let (mut lock, limit) = (Box::pin(mutex.lock()), CancellationSource::new());
        let limited_by = limit.token();
        let borrowed = async {
            if is_initialiser {
                let made = cell.get_or_init(|| async { drop(lock.as_mut().await) });
                made.or_cancelled(&limited_by).await.is_err()
            } else {
                token.run_until_cancelled(lock.as_mut()).or_cancelled(&limited_by).await.is_err()
            }
        };
        let mut borrowed = Box::pin(borrowed);
        me.waits(borrowed.as_mut());
        assert!(me.deadlock().is_none(), "its limit may end it");
        limit.request_cancel();
        assert!(matches!(me.poll(borrowed.as_mut()), core::task::Poll::Ready(true)));
        drop(borrowed);
        me.waits(lock.as_mut());
        assert!(me.deadlock().is_some(), "no limit is left; in an initialiser: {is_initialiser}");
    }
}

/// A thread blocks inside of a poll that has a limit: that poll does not end, so the limit does not end the wait.
#[test]
fn a_limit_around_a_thread_that_blocks_hides_no_deadlock() {
    let (me, mutex, token) = (Actor::new(), Mutex::new(0), CancellationSource::new().token());
    let held = me.run(|| mutex.try_lock().unwrap());
    let blocked = || {
        let cell = crate::OnceCell::<()>::new();
        let made = cell.get_or_init(|| async { drop(mutex.lock().block()) });
        me.run(|| made.or_cancelled(&token).block().is_ok())
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(blocked);
        until(|| me.deadlock().is_some());
        drop(held);
        assert!(thread.join().unwrap());
    });
}

/// A limit that is reached ends the wait only when it is polled. Until then the wait is in the queue, as one without a limit. A row for each kind of limit, alone and around another.
#[test]
fn a_limit_that_was_reached_hides_no_deadlock() {
    macro_rules! row {
        ($wait:ident => $limited:expr, $comes:expr) => {{
            let (me, mutex, other) = (Actor::new(), Mutex::new(0), Mutex::new(0));
            let _held = me.run(|| (mutex.try_lock().unwrap(), other.try_lock().unwrap()));
            let $wait = other.lock();
            let mut limited = Box::pin($limited);
            me.waits(limited.as_mut());
            assert!(me.deadlock().is_none(), "the limit ends it");
            let mut lock = Box::pin(mutex.lock());
            me.waits(lock.as_mut());
            assert!(me.deadlock().is_none(), "the limit ends it");
            $comes();
            until(|| me.deadlock().is_some());
            assert!(catch(|| check_cycle(me.number())).is_ok(), "the poll that runs may poll it");
            drop(lock);
            assert!(me.deadlock().is_some(), "it is in the queue of a lock that its task holds");
            assert!(me.poll(limited.as_mut()).is_ready() && me.deadlock().is_none());
        }};
    }
    let source = CancellationSource::new();
    let (token, other) = (source.token(), source.token());
    let moment = Duration::from_millis(20);
    row!(wait => wait.timeout(moment), || ());
    row!(wait => wait.timeout(Duration::MAX).timeout(moment), || ());
    row!(wait => wait.timeout(moment).timeout(Duration::MAX), || ());
    // Both come, one by one: as long as one is to come it wakes the task.
    row!(wait => wait.timeout(moment).or_cancelled(&token).or_cancelled(&other), || {
        std::thread::sleep(2 * moment);
        source.request_cancel()
    });
}

/// `Duration::MAX` never ends, and a default token is never cancelled, so they are no limits: the wait is as one without it, at once and in strict mode, and so is a task that sleeps for that time.
#[test]
fn a_time_that_never_comes_is_no_limit() {
    let (me, mutex) = (Actor::new(), Mutex::new(0));
    let _held = me.run(|| mutex.try_lock().unwrap());
    let mut limited = Box::pin(mutex.lock().timeout(Duration::MAX));
    me.waits(limited.as_mut());
    assert!(me.deadlock().is_some());
    let mut forever = Box::pin(sleep(Duration::MAX));
    me.waits(forever.as_mut());
    assert!(me.deadlock().is_some());
    let never = CancellationToken::default();
    let mut uncancelled = Box::pin(mutex.lock().or_cancelled(&never));
    me.waits(uncancelled.as_mut());
    let mut cancel = Box::pin(never.on_cancel());
    me.waits(cancel.as_mut());
    assert!(me.deadlock().is_some(), "a token without a source is not cancelled");
    drop(limited);
    assert!(me.deadlock().is_some(), "nor does it end the wait");
    let mut long = Box::pin(sleep(Duration::from_secs(1_000_000_000)));
    me.waits(long.as_mut());
    assert!(me.deadlock().is_none(), "that one ends");
}

/// A writer whose limit was reached, and that is not polled, stays in the queue and keeps readers out.
#[test]
fn a_writer_whose_limit_was_reached() {
    let ((one, two), lock, source) = (two(), RwLock::new(0), CancellationSource::new());
    let (token, mutex) = (source.token(), Mutex::new(0));
    let _read = one.run(|| lock.try_read().unwrap());
    let _held = one.run(|| mutex.try_lock().unwrap());
    let (mut write, mut locks) = (Box::pin(lock.write().or_cancelled(&token)), Box::pin(mutex.lock()));
    two.waits(write.as_mut());
    two.waits(locks.as_mut());
    let mut again = Box::pin(lock.read());
    one.waits(again.as_mut());
    assert!(one.deadlock().is_none(), "the writer goes by its limit");
    source.request_cancel();
    assert_eq!(one.deadlock().expect("it does not poll it").hops.len(), 2);
    assert!(two.poll(write.as_mut()).is_ready() && one.deadlock().is_none());
}

/// A semaphore that was closed: a wait that is refused is over, whatever permits are held.
#[test]
fn a_wait_that_was_refused() {
    let ((me, holder), mutex, semaphore) = (two(), Mutex::new(0), Semaphore::new(1));
    let _held = me.run(|| mutex.try_lock().unwrap());
    let _permit = holder.run(|| semaphore.try_acquire().unwrap());
    let (mut acquire, mut lock) = (Box::pin(semaphore.acquire()), Box::pin(mutex.lock()));
    me.waits(acquire.as_mut());
    me.waits(lock.as_mut());
    assert!(me.deadlock().is_none(), "the other task may release the permit");
    semaphore.close();
    assert!(me.deadlock().is_some());
}

/// A wait of a runtime's own future; and a signal that comes for a wait that is over, whose record another wait has.
#[test]
fn a_signal_of_a_runtime() {
    static NAME: &str = "a runtime's future";
    let (me, mutex) = (Actor::new(), Mutex::new(0));
    let _held = me.run(|| mutex.try_lock().unwrap());
    let (slot, late) = (SignalSlot::new(), SignalSlot::default());
    let (mut first, mut wait) = (SignalWait::new(), SignalWait::new());
    me.run(|| first.waits(&NAME));
    late.set(&first);
    first.ends();
    me.run(|| wait.waits(&NAME));
    slot.set(&wait);
    let mut lock = Box::pin(mutex.lock());
    me.waits(lock.as_mut());
    late.came();
    assert!(me.deadlock().is_none(), "the signal of another wait");
    slot.came();
    assert!(me.deadlock().is_some());
    late.came();
    assert!(me.deadlock().is_some(), "what the wait that has the record now was told stays");
    let is_mine = |wait: &&inspect::WaitSnapshot| wait.task == me.0 && wait.future == NAME;
    let shown = inspect::snapshot().waits.iter().find(is_mine).expect("it goes on").clone();
    assert!(
        shown.is_granted
            && shown.to_string().ends_with(", whose end has come, and has not polled the future since")
    );
    slot.set(&SignalWait::new());
    wait.ends();
}
