//! Hostile wakers (H3): a waker's clone, wake, `wake_by_ref` and drop are foreign code and may do anything. Here are six
//! things that such a call can do ([`Deed`]), and the wakers and futures with which the tests of each primitive try them.

use super::poll::{catch, panics, pending, poll, poll_with};
use super::waker::{Call, Spy};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

/// What a call on a waker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    CallEverything,
    PollAnother,
    DropAnother,
    DropOneHandle,
    Panic,
    WakeElsewhere,
}

pub(crate) const DEEDS: [Deed; 6] = [
    Deed::CallEverything,
    Deed::PollAnother,
    Deed::DropAnother,
    Deed::DropOneHandle,
    Deed::Panic,
    Deed::WakeElsewhere,
];

/// Every deed in every call: `play` tells whether it was done at some moment, and it must be in the calls that are `made`.
pub(crate) fn every_deed(made: impl Fn(Call) -> bool, mut play: impl FnMut(Deed, Call) -> bool) {
    for (deed, call) in DEEDS.into_iter().flat_map(|deed| Call::ALL.map(|call| (deed, call))) {
        assert_eq!(play(deed, call), made(call), "{deed:?} in {call:?}");
    }
}

/// A place from which a hook can take something; never locked while foreign code runs.
pub(crate) type Place<T> = Arc<Mutex<Option<T>>>;

pub(crate) fn place<T>(content: T) -> Place<T> {
    Arc::new(Mutex::new(Some(content)))
}

pub(crate) fn take<T>(place: &Place<T>) -> Option<T> {
    place.lock().unwrap().take()
}

/// A victim with a hostile waker, another and a crowd, who all wait for the same thing.
pub(crate) struct Cast<S, F: ?Sized> {
    pub(crate) shared: Arc<S>,
    pub(crate) victim: Option<Pin<Box<F>>>,
    pub(crate) other: Place<Pin<Box<F>>>,
    pub(crate) crowd: Vec<Pin<Box<F>>>,
    handle: Place<Arc<S>>,
    pub(crate) hostile: Spy,
    pub(crate) calm: Arc<Spy>,
}

impl<S: Send + Sync + 'static, F: Future + Send + ?Sized + 'static> Cast<S, F> {
    /// All are made by `wait`, which is told their number in the order in which they stand here: the victim, the other, the crowd.
    pub(crate) fn new(
        shared: Arc<S>,
        crowd: usize,
        wait: impl Fn(&Arc<S>, usize) -> Pin<Box<F>>,
        (deed, call): (Deed, Call),
        call_everything: impl Fn(&Arc<S>) + Send + Sync + 'static,
    ) -> Self {
        let (other, handle, calm) = (place(wait(&shared, 1)), place(shared.clone()), Arc::new(Spy::new()));
        let hostile = Spy::hostile(call, {
            let (weak, other, handle, calm) =
                (Arc::downgrade(&shared), other.clone(), handle.clone(), calm.clone());
            move || match deed {
                Deed::CallEverything => call_everything(&weak.upgrade().expect("the caller holds it")),
                Deed::PollAnother => {
                    let Some(mut future) = take(&other) else { return };
                    if poll(&mut future, &calm).is_pending() {
                        *other.lock().unwrap() = Some(future);
                    }
                }
                Deed::DropAnother => drop(take(&other)),
                Deed::DropOneHandle => drop(take(&handle)),
                Deed::Panic => panic!("a hostile waker"),
                Deed::WakeElsewhere => {
                    let waker = calm.waker();
                    std::thread::spawn(move || waker.wake()).join().unwrap();
                }
            }
        });
        let victim = Some(wait(&shared, 0));
        let crowd = (2..crowd + 2).map(|number| wait(&shared, number)).collect();
        Self { shared, victim, other, crowd, handle, hostile, calm }
    }

    pub(crate) fn queue_victim(&mut self) {
        pending(self.victim.as_mut().unwrap(), &self.hostile);
    }

    pub(crate) fn queue_other(&mut self) {
        let mut other = take(&self.other).unwrap();
        pending(&mut other, &self.calm);
        *self.other.lock().unwrap() = Some(other);
    }

    pub(crate) fn queue_crowd(&mut self) {
        self.crowd.iter_mut().for_each(|future| pending(future, &self.calm));
    }

    /// One poll of the victim; false if it panicked. A future that has ended either way is taken away.
    pub(crate) fn poll_victim(&mut self, waker: &Waker) -> bool {
        let Some(mut victim) = self.victim.take() else { return true };
        let poll = catch(|| poll_with(&mut victim, waker));
        if poll.as_ref().is_some_and(Poll::is_pending) {
            self.victim = Some(victim);
        }
        poll.is_some()
    }

    /// To a calm waker and back; false if that panicked.
    pub(crate) fn poll_victim_with_another(&mut self, hostile: &Waker) -> bool {
        let away = self.poll_victim(&self.calm.waker());
        self.poll_victim(hostile) && away
    }

    pub(crate) fn drop_victim(&mut self) -> bool {
        panics(|| drop(self.victim.take()))
    }

    /// Was the deed done? Its caller panicked if the deed is to panic, and not otherwise.
    #[track_caller]
    pub(crate) fn was_done(&self, deed: Deed, panicked: bool, context: &str) -> bool {
        let done = self.hostile.fired();
        assert_eq!(panicked, deed == Deed::Panic && done, "{context}");
        done
    }

    /// The waits that are left.
    pub(crate) fn left(&mut self) -> Vec<Pin<Box<F>>> {
        let mut left: Vec<_> = self.victim.take().into_iter().chain(take(&self.other)).collect();
        left.append(&mut self.crowd);
        left
    }

    /// Polls the waiters that are left until all have been served, in each round at least one, and says what is wrong otherwise. `serve` comes
    /// before each round.
    #[track_caller]
    pub(crate) fn serve_all(&self, mut waiting: Vec<Pin<Box<F>>>, serve: impl Fn(&S), context: &str) {
        while !waiting.is_empty() {
            let before = waiting.len();
            serve(&self.shared);
            waiting.retain_mut(|future| poll(future, &self.calm).is_pending());
            assert!(waiting.len() < before, "{context}: {before} wait, and none is served");
        }
    }

    /// Nothing is left behind.
    #[track_caller]
    pub(crate) fn leave(self, context: &str) {
        drop(take(&self.handle));
        assert_eq!(Arc::strong_count(&self.shared), 1, "{context}: it is kept");
        assert_eq!((self.hostile.alive(), self.calm.alive()), (0, 0), "{context}: wakers are left");
    }
}
