//! Every public awaitable, in a state in which it has to wait: how a wait begins, what grants it, and whether everything is as it was in the end. The
//! rows are compared with the sources (`foreign_panics.rs`).

use crate::kit::driver::Told;
use std::any::Any;
use std::cell::UnsafeCell;
use std::future::{Future, pending as never};
use std::num::NonZeroUsize;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tasuki::channel::{Channel, Receiver, Sender, bounded, oneshot, rendezvous};
use tasuki::future::Awaitable;
use tasuki::policy::{Bypass, Lifo, Policy, SemaphorePolicy};
use tasuki::runtime::{Domain, Key, KeyedMutex, KeyedRawMutex, Timers, keyed_lock, keyed_try_lock};
use tasuki::{
    Barrier, CancellationSource, Condvar, Event, Latch, Mutex, MutexGuard, OnceCell, ReentrantMutex, RwLock,
    RwLockUpgradableReadGuard, Semaphore, WaitGroup, runtime, task,
};

/// A wait, whatever it waits for. What it gives is dropped at once.
pub(super) trait Waits {
    fn poll_once(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;
    fn is_over(&self) -> bool;
}

impl<A: Awaitable> Waits for A {
    fn poll_once(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx).map(drop)
    }

    fn is_over(&self) -> bool {
        self.is_terminated()
    }
}

pub(super) type Waiting = Pin<Box<dyn Waits>>;
pub(super) type Make = Box<dyn Fn() -> Waiting>;
pub(super) type Grant = Arc<dyn Fn() + Send + Sync>;

/// An awaitable, in a state in which it has to wait.
pub(super) struct Subject {
    /// A wait; those that are made later are behind it.
    pub(super) make: Make,
    /// A wait behind it, if there can be one.
    pub(super) behind: Option<Make>,
    /// Gives what is waited for, to one waiter or to all. May be called again.
    pub(super) grant: Grant,
    /// Does every waiter need a grant of its own?
    pub(super) one_each: bool,
    /// All waits are over, so many of them with what they waited for: is everything as it was?
    pub(super) intact: Box<dyn Fn(usize) -> bool>,
    /// Borrowed by all others, so dropped after them.
    _kept: Box<dyn Any>,
}

/// A value that lives until its keeper is dropped.
struct Keeper<T>(*mut T);

impl<T> Drop for Keeper<T> {
    fn drop(&mut self) {
        // SAFETY: made by `keep`, dropped once; `Subject` drops whatever borrows it before.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

fn keep<T: 'static>(value: T) -> (&'static T, Box<dyn Any>) {
    let kept = Box::into_raw(Box::new(value));
    // SAFETY: valid until the keeper is dropped, which is the last of its subject.
    (unsafe { &*kept }, Box::new(Keeper(kept)))
}

/// What is held until it is granted.
struct Held<T>(StdMutex<Option<T>>);

impl<T: Send + 'static> Held<T> {
    fn grant(value: T) -> Grant {
        let held = Self(StdMutex::new(Some(value)));
        Arc::new(move || {
            let value = held.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
            drop(value);
        })
    }
}

fn boxed<A: Awaitable + 'static>(wait: A) -> Waiting {
    Box::pin(wait)
}

/// Waits of the same kind, one behind the other.
fn alike<A: Awaitable + 'static>(make: impl Fn() -> A + Clone + 'static) -> (Make, Option<Make>) {
    let behind = make.clone();
    (Box::new(move || boxed(make())), Some(Box::new(move || boxed(behind()))))
}

/// A mutex of some policy, locked; `wait` is how it is waited for.
fn mutex<P: Policy + Send + Sync + 'static, A: Awaitable + 'static>(
    wait: impl Fn(&'static Arc<Mutex<u32, P>>) -> A + Clone + 'static,
) -> Subject {
    let (mutex, kept) = keep(Arc::new(Mutex::<u32, P>::with_policy(0)));
    let grant = Held::grant(mutex.try_lock().unwrap());
    let (make, behind) = alike(move || wait(mutex));
    let intact = Box::new(|_| mutex.try_lock().is_some_and(|_held| mutex.try_lock().is_none()));
    Subject { make, behind, grant, one_each: false, intact, _kept: kept }
}

fn rwlock<A: Awaitable + 'static>(
    wait: impl Fn(&'static Arc<RwLock<u32>>) -> A + Clone + 'static,
) -> Subject {
    let (lock, kept) = keep(Arc::new(RwLock::new(0)));
    let grant = Held::grant(lock.try_write().unwrap());
    let (make, behind) = alike(move || wait(lock));
    let intact = Box::new(|_| lock.try_write().is_some_and(|_held| lock.try_read().is_none()));
    Subject { make, behind, grant, one_each: false, intact, _kept: kept }
}

fn upgrade() -> Subject {
    let (lock, kept) = keep(RwLock::new(0));
    let grant = Held::grant(lock.try_read().unwrap());
    let make = || RwLockUpgradableReadGuard::upgrade(lock.try_upgradable_read().unwrap());
    let intact = Box::new(|_| lock.try_write().is_some());
    let behind: Option<Make> = Some(Box::new(|| boxed(lock.write())));
    Subject { make: Box::new(move || boxed(make())), behind, grant, one_each: false, intact, _kept: kept }
}

fn semaphore<P: SemaphorePolicy + Send + Sync + 'static, A: Awaitable + 'static>(
    wait: impl Fn(&'static Arc<Semaphore<P>>) -> A + Clone + 'static,
) -> Subject {
    let (semaphore, kept) = keep(Arc::new(Semaphore::<P>::with_policy(2)));
    let grant = Held::grant(semaphore.try_acquire_many(2).unwrap());
    let (make, behind) = alike(move || wait(semaphore));
    let intact = Box::new(|_| semaphore.available_permits() == 2);
    Subject { make, behind, grant, one_each: false, intact, _kept: kept }
}

fn event(auto: bool) -> Subject {
    let (event, kept) = keep(if auto { Event::auto() } else { Event::manual() });
    let (make, behind) = alike(|| event.wait());
    let sets = Arc::new(AtomicUsize::new(0));
    let counted = sets.clone();
    let grant = Arc::new(move || {
        counted.fetch_add(1, SeqCst);
        event.set();
    });
    // Every signal was consumed by one waiter, or is still there.
    let intact = Box::new(move |granted| !auto || sets.load(SeqCst) == granted + usize::from(event.is_set()));
    Subject { make, behind, grant, one_each: auto, intact, _kept: kept }
}

/// A channel, full; `wait` is how it is sent to. Each receive makes room for one.
fn sends<C: 'static, A: Awaitable + 'static>(
    channel: C,
    wait: impl Fn(&'static C) -> A + Clone + 'static,
    receive: fn(&C) -> bool,
    refill: fn(&C) -> bool,
) -> Subject
where
    &'static C: Send + Sync,
{
    assert!(refill(&channel));
    let (channel, kept) = keep(channel);
    let received = Arc::new(AtomicUsize::new(0));
    let (make, behind) = alike(move || wait(channel));
    let counted = received.clone();
    let grant: Grant = Arc::new(move || {
        // Counted first: a waker that panics loses no message, but the count of it.
        if receive(channel) {
            counted.fetch_add(1, SeqCst);
        }
    });
    let intact = Box::new(move |granted| {
        while receive(channel) {
            received.fetch_add(1, SeqCst);
        }
        // A send that was dropped may have gone.
        received.load(SeqCst) > granted && refill(channel) && !refill(channel) && receive(channel)
    });
    Subject { make, behind, grant, one_each: true, intact, _kept: kept }
}

/// A channel, empty; `wait` is how it is received from. Each message is counted.
fn receives<C: 'static, A: Awaitable + 'static>(
    channel: C,
    wait: impl Fn(&'static C) -> A + Clone + 'static,
    send: fn(&C) -> bool,
    receive: fn(&C) -> bool,
    taken: impl Fn(usize) -> usize + 'static,
) -> Subject
where
    &'static C: Send + Sync,
{
    let (channel, kept) = keep(channel);
    let sent = Arc::new(AtomicUsize::new(0));
    let (make, behind) = alike(move || wait(channel));
    let counted = sent.clone();
    let grant: Grant = Arc::new(move || {
        // Counted before: a waker that panics does so when the message has been sent.
        counted.fetch_add(1, SeqCst);
        if !send(channel) {
            counted.fetch_sub(1, SeqCst);
        }
    });
    let intact = Box::new(move |granted| {
        let mut left = 0;
        while receive(channel) {
            left += 1;
        }
        sent.load(SeqCst) == taken(granted) + left && send(channel) && receive(channel)
    });
    Subject { make, behind, grant, one_each: true, intact, _kept: kept }
}

type Pair = (Sender<u32>, Receiver<u32>);

fn receives_of_handles<A: Awaitable + 'static>(
    wait: impl Fn(&'static Pair) -> A + Clone + 'static,
) -> Subject {
    receives(
        bounded(64),
        wait,
        |pair| pair.0.try_send(1).is_ok(),
        |pair| pair.1.try_recv().is_ok(),
        |granted| granted,
    )
}

/// What is received is in the buffers, also if a poll panicked.
fn receives_many() -> Subject {
    type Buffers = Arc<StdMutex<Vec<*mut Vec<u32>>>>;
    struct Freed(Buffers);
    impl Freed {
        fn len(&self) -> usize {
            // SAFETY: no wait is left when it is asked.
            self.0.lock().unwrap().iter().map(|buffer| unsafe { &**buffer }.len()).sum()
        }
    }
    impl Drop for Freed {
        fn drop(&mut self) {
            // SAFETY: made by `Box::into_raw` below; all waits are gone.
            self.0.lock().unwrap().drain(..).for_each(|buffer| drop(unsafe { Box::from_raw(buffer) }));
        }
    }
    let buffers = Buffers::default();
    let freed = Freed(buffers.clone());
    let wait = move |pair: &'static Pair| {
        let buffer = Box::into_raw(Box::new(Vec::new()));
        buffers.lock().unwrap().push(buffer);
        // SAFETY: freed when the subject is dropped, after its waits.
        pair.1.recv_many(unsafe { &mut *buffer }, 1)
    };
    let send: fn(&Pair) -> bool = |pair| pair.0.try_send(1).is_ok();
    let receive: fn(&Pair) -> bool = |pair| pair.1.try_recv().is_ok();
    receives(bounded(64), wait, send, receive, move |_| freed.len())
}

fn reservations<A: Awaitable + 'static>(
    wait: impl Fn(&'static Sender<u32>) -> A + Clone + 'static,
) -> Subject {
    let (pair, kept) = keep(bounded::<u32>(2));
    let grant = Held::grant(pair.0.try_reserve_many(2).unwrap());
    let (make, behind) = alike(move || wait(&pair.0));
    let intact = Box::new(|_| pair.0.try_reserve_many(2).is_ok());
    Subject { make, behind, grant, one_each: false, intact, _kept: kept }
}

fn latch() -> Subject {
    let (latch, kept) = keep(Latch::new(1));
    let (make, behind) = alike(|| latch.wait());
    let grant = Arc::new(|| {
        if latch.count() > 0 {
            latch.count_down();
        }
    });
    Subject { make, behind, grant, one_each: false, intact: Box::new(|_| latch.count() < 2), _kept: kept }
}

fn wait_group() -> Subject {
    let (group, kept) = keep(WaitGroup::new());
    let (make, behind) = alike(|| group.wait());
    let grant = Held::grant(group.member());
    Subject { make, behind, grant, one_each: false, intact: Box::new(|_| group.count() < 2), _kept: kept }
}

/// Two parties, one of which is the grant: an arrival that is withdrawn does not count.
fn barrier() -> Subject {
    let (barrier, kept) = keep(Barrier::new(2));
    let grant = Arc::new(move || {
        let mut arrival = Box::pin(barrier.arrive_and_wait());
        let _ = arrival.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    });
    // An arrival that is alone waits, so none is left.
    let intact = Box::new(|_| {
        let mut alone = Box::pin(barrier.arrive_and_wait());
        alone.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
    });
    let make = Box::new(|| boxed(barrier.arrive_and_wait()));
    Subject { make, behind: None, grant, one_each: false, intact, _kept: kept }
}

fn value() -> Subject {
    let (cell, kept) = keep(OnceCell::new());
    let (make, behind) = alike(|| cell.wait());
    let grant = Arc::new(|| _ = cell.set(1));
    Subject {
        make,
        behind,
        grant,
        one_each: false,
        intact: Box::new(|_| cell.get() != Some(&2)),
        _kept: kept,
    }
}

/// An initialiser has the turn, and is dropped.
fn turn(fallible: bool) -> Subject {
    let (cell, kept) = keep(OnceCell::<u32>::new());
    let mut first = Box::pin(cell.get_or_init(never::<u32>));
    assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let grant = Held::grant(first);
    let intact = Box::new(|granted| cell.get().is_some() == (granted > 0));
    let (make, behind) = if fallible {
        alike(|| cell.get_or_try_init(async || Ok::<_, ()>(1)))
    } else {
        alike(|| cell.get_or_init(async || 1))
    };
    Subject { make, behind, grant, one_each: false, intact, _kept: kept }
}

fn token<A: Awaitable + 'static>(
    wait: impl Fn(&'static tasuki::CancellationToken) -> A + Clone + 'static,
) -> Subject {
    let source = CancellationSource::new();
    let (token, kept) = keep(source.token());
    let (make, behind) = alike(move || wait(token));
    let grant = Arc::new(move || source.request_cancel());
    Subject { make, behind, grant, one_each: false, intact: Box::new(|_| true), _kept: kept }
}

fn condvar<A: Awaitable + 'static>(
    wait: impl Fn(&'static Condvar, MutexGuard<'static, u32>) -> A + Clone + 'static,
) -> Subject {
    let ((mutex, condvar), kept) = keep((Mutex::new(0), Condvar::new()));
    let (make, behind) = alike(move || wait(condvar, mutex.try_lock().unwrap()));
    // For `wait_while`: the condition is false from now on.
    let grant = Arc::new(move || {
        if let Some(mut value) = mutex.try_lock() {
            *value += 1;
        }
        condvar.notify_one();
    });
    let intact = Box::new(|_| mutex.try_lock().is_some_and(|_held| mutex.try_lock().is_none()));
    Subject { make, behind, grant, one_each: true, intact, _kept: kept }
}

/// The deadline is an hour away, on a wheel that stands still.
fn sleep() -> Subject {
    const HOUR: Duration = Duration::from_secs(3_600);
    struct Sleeps {
        timers: Arc<Timers>,
        sleep: runtime::Sleep,
    }
    impl Waits for Sleeps {
        fn poll_once(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            let told = Told::with_timers(&self.timers);
            // SAFETY: a projection; nothing is moved out.
            let sleep = unsafe { self.map_unchecked_mut(|this| &mut this.sleep) };
            runtime::enter(&told, || sleep.poll(cx))
        }

        fn is_over(&self) -> bool {
            self.sleep.is_terminated()
        }
    }
    let timers = Arc::new(Timers::new(Waker::noop().clone()));
    let (of_make, of_behind) = (timers.clone(), timers.clone());
    let make = move |timers: &Arc<Timers>| -> Waiting {
        Box::pin(Sleeps { timers: timers.clone(), sleep: runtime::sleep(HOUR) })
    };
    let grant = Arc::new(move || {
        let _ = timers.advance(std::time::Instant::now() + 2 * HOUR);
    });
    Subject {
        make: Box::new(move || make(&of_make)),
        behind: Some(Box::new(move || make(&of_behind))),
        grant,
        one_each: false,
        intact: Box::new(|_| true),
        _kept: Box::new(()),
    }
}

/// Each wait is a task of its own.
fn reentrant() -> Subject {
    struct AsTask<A> {
        told: Told,
        wait: A,
    }
    impl<A: Awaitable> Waits for AsTask<A> {
        fn poll_once(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            // SAFETY: a projection; nothing is moved out.
            let this = unsafe { self.get_unchecked_mut() };
            // SAFETY: as above.
            let wait = unsafe { Pin::new_unchecked(&mut this.wait) };
            runtime::enter(&this.told, || wait.poll(cx).map(drop))
        }

        fn is_over(&self) -> bool {
            self.wait.is_terminated()
        }
    }
    fn told() -> Told {
        Told { task: Some(task::TaskId::fresh()), ..Told::nothing() }
    }
    let (mutex, kept) = keep(ReentrantMutex::new(0));
    let held = runtime::enter(&told(), || mutex.try_lock().unwrap().unwrap());
    let make = || -> Waiting { Box::pin(AsTask { told: told(), wait: mutex.lock() }) };
    let intact = |_| {
        let lock = || mutex.try_lock().unwrap();
        runtime::enter(&told(), lock).is_some_and(|_held| runtime::enter(&told(), lock).is_none())
    };
    Subject {
        make: Box::new(make),
        behind: Some(Box::new(make)),
        grant: Held::grant(held),
        one_each: false,
        intact: Box::new(intact),
        _kept: kept,
    }
}

struct Keyed {
    raw: KeyedRawMutex,
    value: UnsafeCell<u32>,
}

struct Somewhere;

impl Domain for Somewhere {
    type Error = ();

    fn here() -> Result<Key, ()> {
        Ok(Key(NonZeroUsize::MIN))
    }

    fn elsewhere() {}

    fn may_release(_: Key) -> bool {
        true
    }
}

// SAFETY: the lock and its value, which only guards reach.
unsafe impl KeyedMutex for Keyed {
    type Value = u32;
    type Domain = Somewhere;

    fn raw(&self) -> &KeyedRawMutex {
        &self.raw
    }

    fn value(&self) -> *mut u32 {
        self.value.get()
    }
}

/// Its guards do not cross threads; here there is one.
struct OneThread<T>(T);
// SAFETY: every test uses it on its own thread.
unsafe impl<T> Send for OneThread<T> {}

fn keyed() -> Subject {
    let (mutex, kept) = keep(Keyed { raw: KeyedRawMutex::new(), value: UnsafeCell::new(0) });
    let grant = Held::grant(OneThread(keyed_try_lock(mutex).unwrap().unwrap()));
    let (make, behind) = alike(move || keyed_lock(mutex));
    let intact = Box::new(move |_| {
        keyed_try_lock(mutex).unwrap().is_some_and(|_held| keyed_try_lock(mutex).unwrap().is_none())
    });
    Subject { make, behind, grant, one_each: false, intact, _kept: kept }
}

type Rendezvous = (rendezvous::Sender<u32>, rendezvous::Receiver<u32>);

/// Can a message be handed over, and is none left?
fn hands_over(pair: &Rendezvous) -> bool {
    while pair.1.try_recv().is_ok() {}
    let mut send = pin!(pair.0.send(7));
    let waits = send.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
    waits && pair.1.try_recv() == Ok(7) && pair.1.try_recv().is_err()
}

/// Sends that wait for a receiver.
fn hand_over() -> Subject {
    let (pair, kept): (&Rendezvous, _) = keep(rendezvous());
    let (make, behind) = alike(|| pair.0.send(1));
    let grant: Grant = Arc::new(|| _ = pair.1.try_recv());
    Subject { make, behind, grant, one_each: true, intact: Box::new(|_| hands_over(pair)), _kept: kept }
}

/// Receives that wait for a sender; the senders wait beside them.
fn take_over() -> Subject {
    let (pair, kept): (&Rendezvous, _) = keep(rendezvous());
    let (make, behind) = alike(|| pair.1.recv());
    let senders = Arc::new(StdMutex::new(Vec::new()));
    let waiting = senders.clone();
    let grant: Grant = Arc::new(move || {
        // Kept also if the waker of a receiver panics in its poll.
        let mut senders = waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        senders.push(Box::pin(pair.0.send(1)));
        let send = senders.last_mut().expect("it was pushed").as_mut();
        let _ = send.poll(&mut Context::from_waker(Waker::noop()));
    });
    let intact = Box::new(move |_| {
        senders.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clear();
        hands_over(pair)
    });
    Subject { make, behind, grant, one_each: true, intact, _kept: kept }
}

/// A receive of a oneshot, of which there is one.
fn oneshot_recv() -> Subject {
    let (sender, receiver) = oneshot::<u32>();
    let receiver = StdMutex::new(Some(receiver));
    let make: Make = Box::new(move || {
        let receiver = receiver.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        boxed(receiver.expect("one wait").recv())
    });
    let sender = StdMutex::new(Some(sender));
    let grant: Grant = Arc::new(move || {
        let sender = sender.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(sender) = sender {
            let _ = sender.send(1);
        }
    });
    Subject { make, behind: None, grant, one_each: true, intact: Box::new(|_| true), _kept: Box::new(()) }
}

pub(super) struct Row {
    /// The public types that it stands for.
    pub(super) covers: &'static [&'static str],
    pub(super) subject: fn() -> Subject,
}

pub(super) const HOUR: Duration = Duration::from_secs(3_600);

pub(super) fn rows() -> Vec<Row> {
    let row = |covers, subject| Row { covers, subject };
    vec![
        row(&["Wait", "Single", "Lock"], || mutex::<tasuki::policy::Fifo, _>(|mutex| mutex.lock())),
        row(&[], || mutex::<Lifo, _>(|mutex| mutex.lock())),
        row(&[], || mutex::<Bypass, _>(|mutex| mutex.lock())),
        row(&["LockOwned"], || mutex::<tasuki::policy::Fifo, _>(|mutex| mutex.clone().lock_owned())),
        row(&[], || mutex::<Bypass, _>(|mutex| mutex.clone().lock_owned())),
        row(&["Timeout", "Limited"], || mutex::<tasuki::policy::Fifo, _>(|mutex| mutex.lock().timeout(HOUR))),
        row(&["OrCancelled"], || {
            static SOURCE: std::sync::LazyLock<tasuki::CancellationToken> =
                std::sync::LazyLock::new(|| CancellationSource::new().token());
            mutex::<tasuki::policy::Fifo, _>(|mutex| mutex.lock().or_cancelled(&SOURCE))
        }),
        row(&["Read"], || rwlock(|lock| lock.read())),
        row(&["Write"], || rwlock(|lock| lock.write())),
        row(&["UpgradableRead"], || rwlock(|lock| lock.upgradable_read())),
        row(&["ReadOwned"], || rwlock(|lock| lock.clone().read_owned())),
        row(&["WriteOwned"], || rwlock(|lock| lock.clone().write_owned())),
        row(&["UpgradableReadOwned"], || rwlock(|lock| lock.clone().upgradable_read_owned())),
        row(&["Upgrade"], upgrade),
        row(&["Acquire"], || semaphore::<tasuki::policy::Fifo, _>(|semaphore| semaphore.acquire())),
        row(&[], || semaphore::<tasuki::policy::Fifo, _>(|semaphore| semaphore.acquire_many(2))),
        row(&[], || semaphore::<Bypass, _>(|semaphore| semaphore.acquire_many(2))),
        row(&["AcquireOwned"], || semaphore::<Bypass, _>(|semaphore| semaphore.clone().acquire_owned())),
        row(&["WaitEvent"], || event(true)),
        row(&[], || event(false)),
        row(&["Send"], || {
            let refill: fn(&Pair) -> bool = |pair| pair.0.try_send(1).is_ok();
            sends(bounded(1), |pair| pair.0.send(1), |pair| pair.1.try_recv().is_ok(), refill)
        }),
        row(&["InlineSend"], || {
            let refill: fn(&Channel<u32, 1>) -> bool = |channel| channel.try_send(1).is_ok();
            sends(Channel::new(), |channel| channel.send(1), |channel| channel.try_recv().is_ok(), refill)
        }),
        row(&["Recv"], || receives_of_handles(|pair| pair.1.recv())),
        row(&["RecvOwned"], || receives_of_handles(|pair| pair.1.clone().recv_owned())),
        row(&["InlineRecv"], || {
            let send: fn(&Channel<u32, 64>) -> bool = |channel| channel.try_send(1).is_ok();
            receives(
                Channel::new(),
                |channel| channel.recv(),
                send,
                |channel| channel.try_recv().is_ok(),
                |granted| granted,
            )
        }),
        row(&["RecvMany"], receives_many),
        row(&["Reservation"], || reservations(|sender| sender.reserve())),
        row(&["ReservationMany"], || reservations(|sender| sender.reserve_many(2))),
        row(&["ReservationOwned"], || reservations(|sender| sender.clone().reserve_owned())),
        row(&["HandOver"], hand_over),
        row(&["TakeOver"], take_over),
        row(&["OneshotRecv"], oneshot_recv),
        row(&["WaitLatch"], latch),
        row(&["WaitMembers"], wait_group),
        row(&["Arrive"], barrier),
        row(&["WaitValue"], value),
        row(&["GetOrInit", "InfallibleInit", "Init"], || turn(false)),
        row(&["GetOrTryInit"], || turn(true)),
        row(&["OnCancel"], || token(|token| token.on_cancel())),
        row(&["OnCancelOwned"], || token(|token| token.clone().on_cancel_owned())),
        row(&["RunUntilCancelled", "UntilCancelled"], || {
            token(|token| token.run_until_cancelled(never::<()>()))
        }),
        row(&["WaitNotified"], || condvar(|condvar, guard| condvar.wait(guard))),
        row(&["WaitWhile", "Conditional"], || {
            condvar(|condvar, guard| condvar.wait_while(guard, |n| *n == 0))
        }),
        row(&["Sleep"], sleep),
        row(&["LockReentrant"], reentrant),
        row(&["KeyedLock"], keyed),
    ]
}
