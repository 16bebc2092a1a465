//! Every string of operations on small cancellation trees, against a model that is plain data.
//!
//! The model keeps the whole history of the tree and says which nodes are cancelled, why, which waits are woken, and how many nodes
//! may exist. It knows nothing of lists: what is kept is computed from the history each time.

use crate::kit::alloc::{measure, nodes_here};
use crate::kit::spec::{Model, System, enumerate};
use crate::kit::{env_or, fewer_under_tsan, scaled, tally};
use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use tasuki::CancellationSource;
use tasuki::future::OnCancelOwned;

const NODES: usize = 5;
/// What the source of each node says when it cancels; the first says nothing.
const REASONS: [Option<&str>; NODES] = [None, Some("one"), Some("two"), Some("three"), Some("four")];

/// A tree to begin with: the parents of the second node, the third, and so on.
type Shape = &'static [usize];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    /// A child of this node, by its source.
    Child(usize),
    /// The source of this node goes; a wait may keep the node.
    Drop(usize),
    Cancel(usize),
    /// Polls the wait of this node, which is made if there is none.
    Poll(usize),
    DropWait(usize),
}

#[derive(Debug, Default, PartialEq)]
struct Seen {
    ready: Option<bool>,
    /// Of each node whose source is there: cancelled or not, and why.
    tokens: [Option<(bool, Option<&'static str>)>; NODES],
    wakes: [u8; NODES],
    nodes: isize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Wait {
    None,
    Queued,
    Ended,
}

#[derive(Clone, Debug)]
struct History {
    parent: Option<usize>,
    source: bool,
    wait: Wait,
    /// Who cancelled it.
    cancelled: Option<usize>,
    /// Born cancelled: never a part of the tree.
    alone: bool,
    wakes: u8,
}

/// The reference: every node that ever was.
#[derive(Clone, Debug)]
struct Reference(Vec<History>);

impl Reference {
    fn new(shape: Shape) -> Self {
        let mut this = Self(vec![Self::node(None, None)]);
        for at in shape {
            let _ = this.apply(Op::Child(*at));
        }
        this
    }

    fn node(parent: Option<usize>, cancelled: Option<usize>) -> History {
        History { parent, source: true, wait: Wait::None, cancelled, alone: cancelled.is_some(), wakes: 0 }
    }

    fn is_held(&self, at: usize) -> bool {
        self.0[at].source || self.0[at].wait != Wait::None
    }

    fn cancel(&mut self, at: usize, by: usize) {
        if self.0[at].cancelled.is_some() {
            return;
        }
        self.0[at].cancelled = Some(by);
        if self.0[at].wait == Wait::Queued {
            self.0[at].wakes += 1;
        }
        for child in 0..self.0.len() {
            if self.0[child].parent == Some(at) {
                self.cancel(child, by);
            }
        }
    }

    /// How many nodes of the uncancelled part at and below this one must exist, and whether one of them is its top.
    fn kept_below(&self, at: usize) -> (isize, bool) {
        if self.0[at].cancelled.is_some() {
            return (0, false);
        }
        let children = (0..self.0.len()).filter(|child| self.0[*child].parent == Some(at));
        let below: Vec<(isize, bool)> = children.map(|child| self.kept_below(child)).collect();
        let count: isize = below.iter().map(|(count, _)| count).sum();
        let branches = below.iter().filter(|(_, any)| *any).count();
        let needed = self.is_held(at) || branches >= 2;
        (count + isize::from(needed), needed || branches > 0)
    }

    /// Uncancelled: what is held, and what is needed. Cancelled: what is held. And the first as long as any handle
    /// of its tree is there.
    fn kept(&self) -> isize {
        let (uncancelled, _) = self.kept_below(0);
        let roots = (1..self.0.len())
            .filter(|at| self.0[*at].parent.is_some_and(|up| self.0[up].cancelled.is_some()));
        let below_cancelled: isize = roots.map(|at| self.kept_below(at).0).sum();
        let cancelled = |at: &usize| self.0[*at].cancelled.is_some() && self.is_held(*at);
        let apart: Vec<usize> = (0..self.0.len()).filter(cancelled).collect();
        let members =
            uncancelled + below_cancelled + apart.iter().filter(|at| !self.0[**at].alone).count() as isize;
        let root_is_counted = self.is_held(0) || (self.0[0].cancelled.is_none() && self.root_is_needed());
        let holder = isize::from(members > 0 && !root_is_counted);
        uncancelled + below_cancelled + apart.len() as isize + holder
    }

    fn root_is_needed(&self) -> bool {
        let children = (0..self.0.len()).filter(|child| self.0[*child].parent == Some(0));
        children.filter(|child| self.kept_below(*child).1).count() >= 2
    }
}

impl System for Reference {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let mut ready = None;
        match op {
            Op::Child(at) => {
                let cancelled = self.0[at].cancelled;
                self.0.push(Self::node(Some(at), cancelled));
            }
            Op::Drop(at) => self.0[at].source = false,
            Op::Cancel(at) => self.cancel(at, at),
            Op::Poll(at) => {
                let cancelled = self.0[at].cancelled.is_some();
                self.0[at].wait = if cancelled { Wait::Ended } else { Wait::Queued };
                ready = Some(cancelled);
            }
            Op::DropWait(at) => self.0[at].wait = Wait::None,
        }
        let mut seen = Seen { ready, nodes: self.kept(), ..Seen::default() };
        for (at, node) in self.0.iter().enumerate() {
            seen.tokens[at] =
                node.source.then(|| (node.cancelled.is_some(), node.cancelled.and_then(|by| REASONS[by])));
            seen.wakes[at] = node.wakes;
        }
        seen
    }
}

impl Model for Reference {
    fn next(&self, ops: &mut Vec<Op>) {
        for (at, node) in self.0.iter().enumerate() {
            if node.source {
                if self.0.len() < NODES {
                    ops.push(Op::Child(at));
                }
                ops.extend([Op::Drop(at), Op::Cancel(at)]);
            }
            match node.wait {
                Wait::None if node.source => ops.push(Op::Poll(at)),
                Wait::None => {}
                Wait::Queued => ops.extend([Op::Poll(at), Op::DropWait(at)]),
                Wait::Ended => ops.push(Op::DropWait(at)),
            }
        }
    }
}

/// The real thing.
struct Real {
    sources: Vec<Option<CancellationSource>>,
    waits: [Option<Pin<Box<OnCancelOwned>>>; NODES],
    /// Nodes on this thread before.
    before: isize,
}

impl Real {
    fn new(shape: Shape) -> Self {
        tally::reset();
        let before = nodes_here();
        let mut sources = Vec::with_capacity(NODES);
        sources.push(Some(CancellationSource::new()));
        let mut this = Self { sources, waits: [const { None }; NODES], before };
        for at in shape {
            let _ = this.apply(Op::Child(*at));
        }
        this
    }

    fn source(&self, at: usize) -> &CancellationSource {
        self.sources[at].as_ref().expect("the model says that it is there")
    }
}

impl System for Real {
    type Op = Op;
    type Seen = Seen;

    fn apply(&mut self, op: Op) -> Seen {
        let mut ready = None;
        match op {
            Op::Child(at) => {
                let child = self.source(at).child();
                self.sources.push(Some(child));
            }
            Op::Drop(at) => self.sources[at] = None,
            Op::Cancel(at) => match REASONS[at] {
                None => self.source(at).request_cancel(),
                Some(reason) => self.source(at).cancel_with(reason),
            },
            Op::Poll(at) => {
                if self.waits[at].is_none() {
                    self.waits[at] = Some(Box::pin(self.source(at).token().on_cancel_owned()));
                }
                let waker = tally::waker(at);
                let wait = self.waits[at].as_mut().expect("just made");
                ready = Some(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
            }
            Op::DropWait(at) => self.waits[at] = None,
        }
        let mut seen = Seen { ready, nodes: nodes_here() - self.before, ..Seen::default() };
        for (at, source) in self.sources.iter().enumerate() {
            seen.tokens[at] = source.as_ref().map(|source| {
                let token = source.token();
                (
                    token.stop_requested(),
                    REASONS.into_iter().find(|reason| token.reason() == *reason).flatten(),
                )
            });
        }
        seen.wakes.copy_from_slice(&tally::wakes()[..NODES]);
        seen
    }

    fn finish(&mut self) {
        self.sources.clear();
        self.waits = [const { None }; NODES];
        assert_eq!(nodes_here(), self.before, "a node leaked");
        assert_eq!(tally::alive(), 0, "a waker leaked");
    }
}

/// Compares all strings that begin with this tree; the depth is that of CI plus `TASUKI_DEEPER`.
fn compare(name: &str, shape: Shape, depth: usize) {
    let depth = depth + env_or("TASUKI_DEEPER", 0) as usize;
    assert!(measure() != size_of::<OnCancelOwned>(), "blocks of that size are counted as nodes");
    enumerate(name, depth, &Reference::new(shape), |body| body(&mut Real::new(shape)));
}

#[test]
fn every_string_from_a_root() {
    compare("a root", &[], scaled(5, 3));
}

#[test]
fn every_string_from_a_chain() {
    compare("a chain of four", &[0, 1, 2], fewer_under_tsan(scaled(4, 1), 3));
}

#[test]
fn every_string_from_a_fork_below_the_root() {
    compare("a fork below the root", &[0, 1, 1], fewer_under_tsan(scaled(4, 1), 3));
}

#[test]
fn every_string_from_a_wide_root() {
    compare("a root with four children", &[0, 0, 0, 0], fewer_under_tsan(scaled(4, 1), 3));
}

#[test]
fn every_string_from_a_fork_below_a_fork() {
    compare("a fork below a fork", &[0, 0, 1, 1], fewer_under_tsan(scaled(4, 1), 3));
}
