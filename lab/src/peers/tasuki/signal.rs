//! Tasuki's event, group, barrier and token.

use crate::peer::{AsyncBarrier, AutoEvent, Broadcast, Kind, Membership, StopCheck};
use std::future::Future;
use std::sync::Arc;
use tasuki::{
    Barrier, BarrierWaitResult, CancellationSource, CancellationToken, Event, OwnedWaitGroupMember,
    WaitGroup, WaitGroupMember,
};

/// `Event::auto`.
pub(crate) struct Auto(Event);

impl AutoEvent for Auto {
    const NAME: &'static str = "tasuki";
    const KIND: Kind = Kind::Ours;

    fn new() -> Self {
        Auto(Event::auto())
    }

    #[inline]
    fn set(&self) {
        self.0.set();
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.0.wait()
    }
}

/// `Event::manual`.
pub(crate) struct Manual(Event);

impl Broadcast for Manual {
    const NAME: &'static str = "tasuki";
    const KIND: Kind = Kind::Ours;
    const BYTES: usize = size_of::<Event>();

    fn new() -> Self {
        Manual(Event::manual())
    }

    fn rearm(&mut self) {
        self.0.reset();
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.0.wait()
    }

    #[inline]
    fn release(&self) {
        self.0.set();
    }
}

/// `tasuki::Barrier`.
pub(crate) struct Parties(Barrier);

impl AsyncBarrier for Parties {
    const NAME: &'static str = "tasuki";
    const KIND: Kind = Kind::Ours;
    const BYTES: usize = size_of::<Barrier>();
    type WaitResult = BarrierWaitResult;

    fn new(parties: usize) -> Self {
        Parties(Barrier::new(parties))
    }

    #[inline]
    fn arrive(&self) -> impl Future<Output = Self::WaitResult> + Send {
        self.0.arrive_and_wait()
    }

    #[inline]
    fn is_leader(result: &Self::WaitResult) -> bool {
        result.is_leader()
    }
}

/// `tasuki::WaitGroup`, members that borrow it.
pub(crate) struct Members(Arc<WaitGroup>);

impl Membership for Members {
    const NAME: &'static str = "tasuki";
    const KIND: Kind = Kind::Ours;
    type Member<'a> = WaitGroupMember<'a>;
    type Owned = OwnedWaitGroupMember;

    fn new() -> Self {
        Members(Arc::new(WaitGroup::new()))
    }

    #[inline]
    fn member(&self) -> Self::Member<'_> {
        self.0.member()
    }

    #[inline]
    fn owned(&self) -> Self::Owned {
        self.0.clone().member_owned()
    }

    async fn wait(self) {
        self.0.wait().await;
    }
}

/// The same, members that share the ownership of it.
pub(crate) struct OwnedMembers(Arc<WaitGroup>);

impl Membership for OwnedMembers {
    const NAME: &'static str = "tasuki-owned";
    const KIND: Kind = Kind::Ours;
    type Member<'a> = OwnedWaitGroupMember;
    type Owned = OwnedWaitGroupMember;

    fn new() -> Self {
        OwnedMembers(Arc::new(WaitGroup::new()))
    }

    #[inline]
    fn member(&self) -> Self::Member<'_> {
        self.0.clone().member_owned()
    }

    #[inline]
    fn owned(&self) -> Self::Owned {
        self.0.clone().member_owned()
    }

    async fn wait(self) {
        self.0.wait().await;
    }
}

/// A group with one member left.
pub(crate) struct Release(WaitGroup);

impl Broadcast for Release {
    const NAME: &'static str = "tasuki";
    const KIND: Kind = Kind::Ours;
    const BYTES: usize = size_of::<WaitGroup>();

    fn new() -> Self {
        Release(WaitGroup::new())
    }

    fn rearm(&mut self) {
        self.0.add(1);
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.0.wait()
    }

    #[inline]
    fn release(&self) {
        self.0.done();
    }
}

/// `tasuki::CancellationSource` and a token of it.
pub(crate) struct Token {
    source: CancellationSource,
    token: CancellationToken,
}

impl Token {
    fn live() -> Self {
        let source = CancellationSource::new();
        Token { token: source.token(), source }
    }
}

impl Broadcast for Token {
    const NAME: &'static str = "tasuki";
    const KIND: Kind = Kind::Ours;
    const BYTES: usize = size_of::<CancellationToken>();

    fn new() -> Self {
        Self::live()
    }

    fn rearm(&mut self) {
        *self = Self::live();
    }

    #[inline]
    fn wait(&self) -> impl Future {
        self.token.on_cancel()
    }

    #[inline]
    fn release(&self) {
        self.source.request_cancel();
    }
}

impl StopCheck for Token {
    const NAME: &'static str = "tasuki";
    const KIND: Kind = Kind::Ours;

    fn new() -> Self {
        Self::live()
    }

    #[inline]
    fn is_requested(&self) -> bool {
        self.token.stop_requested()
    }

    fn request(&self) {
        self.source.request_cancel();
    }
}
