//! Every string of operations on a channel, against a model of a few lines: what is received, which waits are ready, which are woken and how often, how many
//! messages there are, after every step; and at the end every message was received, given back or dropped, exactly once.
//!
//! `TASUKI_SPEC_DEPTH=8 TASUKI_SPEC_WAITERS=3` (in release) is the long form.

mod model;
mod real;
mod rendezvous;

use crate::kit::spec::{self, enumerate};
use model::{MAX_WAITERS, Spec};
use real::{Parcel, Real};
use tasuki::channel::{self, Channel, TryReserveError, bounded, unbounded};

/// How long the strings are, at this cost, and how many waiters there are.
fn size(depth_less: usize) -> (usize, usize) {
    let (depth, waiters) = spec::size(4, MAX_WAITERS);
    (depth.saturating_sub(depth_less).max(3), waiters)
}

fn compare<const N: usize>(name: &str, reserves: Vec<usize>, depth_less: usize) {
    let (depth, waiters) = size(depth_less);
    enumerate(name, depth, &Spec::new(N, waiters, reserves, 0), |body| {
        let (sender, receiver) = bounded(N);
        body(&mut Real::new((&sender, &receiver), 0));
    });
}

#[test]
fn capacity_1_agrees_with_its_model() {
    compare::<1>("bounded(1)", vec![], 0);
}

#[test]
fn capacity_2_agrees_with_its_model() {
    compare::<2>("bounded(2)", vec![], 0);
}

#[test]
fn permits_agree_with_their_model() {
    compare::<2>("bounded(2) with permits", vec![1, 2], 1);
}

#[test]
fn a_channel_without_allocation_agrees_with_the_same_model() {
    let (depth, waiters) = size(1);
    enumerate("Channel<_, 1>", depth, &Spec::new(1, waiters, vec![], 0), |body| {
        let channel = Channel::<Parcel, 1>::new();
        body(&mut Real::new(&channel, 0));
    });
}

/// Where the memory of an unbounded channel ends, which has to grow for the next message: one that comes, or one that waited behind a reservation of all the room there is.
#[test]
fn an_unbounded_channel_agrees_with_the_same_model_where_its_memory_ends() {
    const CAPACITY: usize = 1 << 31;
    const SLOTS: usize = 32;
    let (depth, waiters) = size(1);
    let spec = Spec::new(CAPACITY, waiters, vec![1, CAPACITY - SLOTS], SLOTS);
    enumerate("unbounded", depth, &spec, |body| {
        let (sender, receiver) = unbounded();
        body(&mut Real::new((&sender, &receiver), SLOTS));
    });
}

#[test]
fn a_rendezvous_agrees_with_its_model() {
    let (depth, waiters) = size(0);
    enumerate("rendezvous", depth, &rendezvous::Spec::new(waiters), |body| {
        let (sender, receiver) = channel::rendezvous();
        body(&mut Real::new((&sender, &receiver), 0));
    });
}

/// Nothing is reserved at once, and never while closed.
#[test]
fn a_reservation_of_nothing() {
    let (sender, receiver) = bounded::<u8>(1);
    sender.try_send(1).unwrap();
    assert_eq!(sender.try_reserve_many(0).unwrap().len(), 0);
    receiver.close();
    assert_eq!(sender.try_reserve_many(0).unwrap_err(), TryReserveError::Closed);
}
