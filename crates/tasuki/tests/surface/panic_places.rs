//! Panics of the crate's functions are in the file of their caller. What the sources say panics, or tracks its caller, is in a table or in one of the lists here.

use crate::kit::driver::FakeDriver;
use crate::kit::panics::panics_in;
use crate::kit::poll::poll_with;
use crate::kit::sources;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Waker;
use tasuki::{Barrier, Condvar, Latch, Mutex, Semaphore, WaitGroup, channel, runtime};

/// A call that panics.
type Call<'a> = Box<dyn FnOnce() + 'a>;

/// Panic only in a poll of the future that they return: that has no caller of its own.
const IN_A_POLL: [&str; 16] = [
    "cancellation/token::run_until_cancelled",
    "condvar::wait",
    "condvar::wait_while",
    "limited::timeout",
    "mutex::lock",
    "mutex::lock_for",
    "mutex/owned::lock_owned",
    "reentrant::lock",
    "reentrant::lock_owned",
    "rwlock::read",
    "rwlock/owned::read_owned",
    "rwlock::upgradable_read",
    "rwlock/owned::upgradable_read_owned",
    "rwlock::write",
    "rwlock/owned::write_owned",
    "mutex/keyed::keyed_lock",
];

/// Never panic: they note where a lock was made or taken, or a wait was asked for, for the reports of `inspect`.
const NOTE_THE_CALLER: [&str; 50] = [
    "timer::reset",
    "channel/inline::closed",
    "channel/inline::recv",
    "channel/inline::send",
    "channel/oneshot/sender::closed",
    "channel/receiver::recv",
    "channel/receiver::recv_many",
    "channel/receiver::recv_owned",
    "channel/rendezvous::closed",
    "channel/sender::closed",
    "channel/sender::reserve",
    "channel/sender::reserve_owned",
    "channel/sender::send",
    "channel/sink::into_sink",
    "channel/stream::into_stream",
    "limited::deadline",
    "limited::or_cancelled",
    "once_cell::get_or_init",
    "once_cell::get_or_try_init",
    "barrier::arrive_and_wait",
    "cancellation/token::on_cancel",
    "cancellation/token::on_cancel_owned",
    "channel/oneshot/receiver::recv",
    "channel/oneshot/receiver::recv_mut",
    "channel/rendezvous::recv",
    "channel/rendezvous::send",
    "event::wait",
    "latch::wait",
    "once_cell::wait",
    "runtime::sleep",
    "runtime::sleep_until",
    "wait_group::wait",
    "mutex/keyed::new",
    "mutex::new",
    "mutex::with_policy",
    "reentrant::new",
    "rwlock/upgrade::upgrade",
    "rwlock::new",
    "semaphore/owned::acquire_owned",
    "semaphore/owned::try_acquire_many_owned",
    "semaphore/owned::try_acquire_owned",
    "semaphore/permit::split",
    "semaphore::acquire",
    "semaphore::try_acquire",
    "semaphore::try_acquire_many",
    "mutex::try_lock",
    "mutex/owned::try_lock_owned",
    "rwlock::try_write",
    "rwlock/owned::try_write_owned",
    "mutex/keyed::keyed_try_lock",
];

/// Only what they call panics, which is foreign: wakers.
const FOREIGN: [&str; 2] = ["cancellation/source::cancel_with", "cancellation/source::request_cancel"];

/// Takes billions of guards or handles: a unit test of the module looks at the place of the panic.
const IN_A_UNIT_TEST: [&str; 13] = [
    "cancellation/source::token",
    "channel/receiver::downgrade",
    "channel/receiver::upgrade",
    "channel/rendezvous::downgrade",
    "channel/rendezvous::upgrade",
    "channel/sender::downgrade",
    "channel/sender::upgrade",
    "reentrant::try_lock",
    "reentrant::try_lock_owned",
    "rwlock::try_read",
    "rwlock/owned::try_read_owned",
    "rwlock::try_upgradable_read",
    "rwlock/owned::try_upgradable_read_owned",
];

/// Channels of more bytes than an address space has. Not on every processor: for aarch64 the compiler took all memory of a machine to copy such a message.
fn too_large() -> Vec<(&'static str, Call<'static>)> {
    #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
    {
        const LARGE: usize = 1 << (usize::BITS / 2 + 8);
        const HUGE: usize = 1 << (usize::BITS - 4);
        vec![
            ("channel/handle::bounded", Box::new(|| _ = channel::bounded::<[u8; LARGE]>(1 << 31))),
            ("channel/handle::unbounded", Box::new(|| _ = channel::unbounded::<[u8; HUGE]>())),
        ]
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "x86")))]
    Vec::new()
}

/// Every panic of a function that is called (and not polled) is in the file of its caller. What the sources say panics, or tracks its caller, is in
/// this table or in one of the lists above.
#[test]
fn panics_name_the_caller() {
    const MANY: usize = Semaphore::MAX_PERMITS;
    let (semaphore, group) = (Arc::new(Semaphore::new(1)), Arc::new(WaitGroup::new()));
    let full = Arc::new(WaitGroup::new());
    full.add(WaitGroup::MAX_MEMBERS);
    let (mutex, stranger) = (Mutex::new(0), Semaphore::new(1));
    let driver = FakeDriver { may_block: false, ..FakeDriver::new() };
    let calls: Vec<(&str, Call<'_>)> = vec![
        ("barrier::new", Box::new(|| _ = Barrier::new(0))),
        ("channel/handle::bounded", Box::new(|| _ = channel::bounded::<u8>(0))),
        ("channel/handle::bounded", Box::new(|| _ = channel::bounded::<u8>(usize::MAX))),
        ("channel/sender::reserve_many", Box::new(|| drop(channel::bounded::<u8>(1).0.reserve_many(2)))),
        (
            "channel/sender::try_reserve_many",
            Box::new(|| _ = channel::bounded::<u8>(1).0.try_reserve_many(2)),
        ),
        ("inspect/durations::quantile", Box::new(|| _ = tasuki::inspect::Durations::default().quantile(2.0))),
        ("latch::new", Box::new(|| _ = Latch::new(usize::MAX))),
        ("latch::count_down", Box::new(|| Latch::new(0).count_down())),
        ("semaphore::new", Box::new(|| _ = Semaphore::new(MANY + 1))),
        (
            "semaphore::with_policy",
            Box::new(|| _ = Semaphore::<tasuki::policy::Bypass>::with_policy(MANY + 1)),
        ),
        ("semaphore::release", Box::new(|| semaphore.release(MANY))),
        ("semaphore::release", Box::new(|| semaphore.release(usize::MAX))),
        ("semaphore::acquire_many", Box::new(|| drop(semaphore.acquire_many(MANY + 1)))),
        (
            "semaphore/owned::acquire_many_owned",
            Box::new(|| drop(semaphore.clone().acquire_many_owned(MANY + 1))),
        ),
        (
            "semaphore/permit::merge",
            Box::new(|| semaphore.try_acquire().unwrap().merge(stranger.try_acquire().unwrap())),
        ),
        ("wait_group::add", Box::new(|| group.add(usize::MAX))),
        ("wait_group::done", Box::new(|| group.done())),
        ("wait_group::member", Box::new(|| drop(full.member()))),
        ("wait_group::member_owned", Box::new(|| drop(full.clone().member_owned()))),
        ("wait::block", Box::new(|| runtime::enter(&driver, || drop(mutex.lock().block())))),
    ];
    let mut names: BTreeSet<&str> = calls.iter().map(|(name, _)| *name).collect();
    names.insert("channel/handle::unbounded");
    for (name, call) in calls.into_iter().chain(too_large()) {
        let file = panics_in(call);
        assert_eq!(file, file!(), "{name}");
    }
    if !cfg!(miri) {
        let found = sources::functions_that_panic();
        names.extend(IN_A_UNIT_TEST);
        for (name, (_, tracked)) in &found {
            assert!(*tracked || !names.contains(name.as_str()), "{name} does not track its caller");
        }
        names.extend(IN_A_POLL.into_iter().chain(NOTE_THE_CALLER).chain(FOREIGN));
        sources::same(&found.into_keys().collect(), names);
    }
}

/// Called by polls only, which have no caller of their own.
const PANIC_IN_A_POLL: [&str; 3] =
    ["host_executor::no_clock", "primitive_ref::taken", "rwlock/admission::too_many_writers"];

/// A function that only panics is called by others, which may be public and say nothing of a panic: it tracks its caller, and a unit test looks at the place.
#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn what_only_panics_tracks_its_caller() {
    let found = sources::functions_that_only_panic();
    assert!(found.len() > 8, "{found:?}");
    let untracked = found.into_iter().filter(|(_, tracked)| !tracked).map(|(name, _)| name);
    sources::same(&untracked.collect(), PANIC_IN_A_POLL);
}

/// What can only panic in a poll.
#[test]
fn a_condvar_has_one_mutex_at_a_time() {
    let (first, second, condvar) = (Mutex::new(0), Mutex::new(0), Condvar::new());
    let mut waits = Box::pin(condvar.wait(first.try_lock().unwrap()));
    assert!(poll_with(&mut waits, Waker::noop()).is_pending());
    let mut refused = Box::pin(condvar.wait(second.try_lock().unwrap()));
    panics_in(|| _ = poll_with(&mut refused, Waker::noop()));
    drop(refused);
    assert!(!second.is_locked(), "its guard was in the wait");
}
