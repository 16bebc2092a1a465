//! The tree of cancellation sources: which nodes a cancel reaches, which nodes are kept, what it costs (B127, H14).

use crate::kit::alloc::{bytes_here, measure, nodes_here};
use crate::kit::poll::{pending, ready};
use crate::kit::waker::Spy;
use crate::kit::watchdog::watchdog;
use crate::kit::{VERY_MANY, scaled};
use tasuki::{CancellationSource, CancellationToken};

/// The nodes that exist now, minus those that existed at the start.
struct Count(isize);

impl Count {
    fn start() -> Self {
        measure();
        Self(nodes_here())
    }

    fn now(&self) -> isize {
        nodes_here() - self.0
    }
}

/// Anything recursive over so many nodes overflows the stack.
fn on_a_small_stack(body: impl FnOnce() + Send + 'static) {
    let _dog = watchdog(120);
    crate::kit::fixture::on_a_small_stack(body);
}

#[test]
fn a_cancel_reaches_all_descendants_and_no_other_node() {
    let root = CancellationSource::new();
    let [a, b] = [root.child(), root.child()];
    let [aa, ab] = [a.child(), a.token().child()];
    let aaa = aa.child();
    a.request_cancel();
    for inside in [&a, &aa, &ab, &aaa] {
        assert!(inside.token().stop_requested());
    }
    assert!(!root.token().stop_requested() && !b.token().stop_requested());
    root.request_cancel();
    assert!(b.token().stop_requested());
}

#[test]
fn a_cancel_goes_through_nodes_without_handles() {
    let count = Count::start();
    let root = CancellationSource::new();
    let leaf = {
        let a = root.child();
        let b = a.child();
        let c = b.token().child();
        c.child()
    };
    // One child each: nothing is left of the three.
    assert_eq!(count.now(), 2);
    let (left, right) = {
        let fork = root.child();
        (fork.child(), fork.child())
    };
    // Two children need their parent.
    assert_eq!(count.now(), 5);
    root.cancel_with("all");
    for token in [leaf.token(), left.token(), right.token()] {
        assert_eq!(token.reason(), Some("all"));
    }
    // Cancelled nodes need no other.
    assert_eq!(count.now(), 4);
    drop((leaf, left, right, root));
    assert_eq!(count.now(), 0);
}

#[test]
fn a_node_without_handles_goes_with_its_last_child_but_one() {
    let count = Count::start();
    let root = CancellationSource::new();
    let fork = root.child();
    let [one, two, three] = [fork.child(), fork.child(), fork.child()];
    drop(fork);
    assert_eq!(count.now(), 5);
    drop(two);
    assert_eq!(count.now(), 4);
    // The other way to lose a child.
    three.request_cancel();
    assert_eq!(count.now(), 3);
    drop(three);
    assert_eq!(count.now(), 2);
    assert!(!one.token().stop_requested());
    root.request_cancel();
    assert!(one.token().stop_requested());
}

#[test]
fn descendants_outlive_a_root_without_handles() {
    let count = Count::start();
    let root = CancellationSource::new();
    let [one, two] = [root.child(), root.child()];
    let below = one.child();
    drop(root);
    assert!(!below.token().stop_requested());
    one.request_cancel();
    assert!(below.token().stop_requested() && !two.token().stop_requested());
    two.request_cancel();
    drop((one, below));
    // The first node's memory stays for the lock.
    assert_eq!(count.now(), 2);
    drop(two);
    assert_eq!(count.now(), 0);
}

/// Every order in which the nodes of a tree can be dropped, cancelled in between or not: nothing leaks.
#[test]
fn nothing_is_left_whatever_the_order() {
    let _dog = watchdog(120);
    let count = Count::start();
    let orders = permutations(5);
    for order in orders.iter().step_by(scaled(1, 17)) {
        for cancelled in 0..=5 {
            let root = CancellationSource::new();
            let a = root.child();
            let nodes = [a.child(), a.child(), root.child(), a, root];
            let mut nodes = nodes.map(Some);
            for (step, at) in order.iter().enumerate() {
                if step == cancelled {
                    nodes.iter().flatten().next().unwrap().request_cancel();
                }
                nodes[*at] = None;
            }
            assert_eq!(count.now(), 0, "{order:?}, cancelled at {cancelled}");
        }
    }
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for item in 0..count {
        let longer = |shorter: &Vec<usize>| {
            let shorter = shorter.clone();
            (0..=item).map(move |at| {
                let mut longer = shorter.clone();
                longer.insert(at, item);
                longer
            })
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

#[test]
fn b127_children_made_and_dropped_leave_nothing() {
    let _dog = watchdog(120);
    let count = Count::start();
    let parent = CancellationSource::new();
    let _others = (parent.child(), parent.child());
    for _ in 0..VERY_MANY {
        assert!(!parent.child().token().stop_requested());
    }
    assert_eq!(count.now(), 3);
}

/// A loop that replaces its token by a child of it must not keep all that it ever had.
#[test]
fn a_chain_whose_links_are_dropped_does_not_grow() {
    let _dog = watchdog(120);
    let count = Count::start();
    let root = CancellationSource::new();
    let mut last = root.child();
    for _ in 0..VERY_MANY {
        last = last.child();
    }
    assert_eq!(count.now(), 2);
    root.cancel_with("through all of them");
    assert_eq!(last.token().reason(), Some("through all of them"));
}

#[test]
fn b127_h14_a_deep_chain_is_cancelled_and_dropped_on_a_small_stack() {
    on_a_small_stack(|| {
        let count = Count::start();
        let mut chain = vec![CancellationSource::new()];
        for at in 0..VERY_MANY {
            chain.push(chain[at].child());
        }
        let (spy, deepest) = (Spy::new(), chain[VERY_MANY].token());
        let mut wait = Box::pin(deepest.clone().on_cancel_owned());
        pending(&mut wait, &spy);
        chain[0].cancel_with("root");
        assert_eq!((spy.wakes(), deepest.reason()), (1, Some("root")));
        assert!(chain.iter().all(|link| link.token().stop_requested()));
        ready(&mut wait);
        drop((wait, deepest, chain));
        assert_eq!(count.now(), 0);
    });
}

#[test]
fn b127_h14_a_deep_chain_is_dropped_uncancelled_from_either_end_or_the_middle() {
    on_a_small_stack(|| {
        let count = Count::start();
        for way in 0..3 {
            let mut chain = vec![CancellationSource::new()];
            for at in 0..VERY_MANY {
                chain.push(chain[at].child());
            }
            match way {
                0 => drop(chain),
                1 => chain.into_iter().rev().for_each(drop),
                _ => {
                    let mut late = chain.split_off(VERY_MANY / 2);
                    drop(chain.split_off(1));
                    chain[0].request_cancel();
                    assert!(late.pop().unwrap().token().stop_requested());
                    drop((chain, late));
                }
            }
            assert_eq!(count.now(), 0, "way {way}");
        }
    });
}

/// All forks of a comb lose their handles: each has two children, so all stay, until a cancel takes them.
#[test]
fn h14_very_many_nodes_that_no_handle_holds_are_cancelled_on_a_small_stack() {
    on_a_small_stack(|| {
        let count = Count::start();
        let root = CancellationSource::new();
        let (mut spine, mut teeth) = (root.child(), Vec::new());
        for _ in 0..VERY_MANY / 2 {
            teeth.push(spine.token().child());
            spine = spine.child();
        }
        assert_eq!(count.now(), 2 + 2 * (VERY_MANY / 2) as isize);
        root.request_cancel();
        // The forks are gone, without a drop of theirs.
        assert_eq!(count.now(), 2 + (VERY_MANY / 2) as isize);
        assert!(spine.token().stop_requested());
        assert!(teeth.iter().all(|tooth| tooth.token().stop_requested()));
        drop((root, spine, teeth));
        assert_eq!(count.now(), 0);
    });
}

#[test]
fn b127_s2_64_wide_trees_cost_in_proportion() {
    let _dog = watchdog(120);
    let count = Count::start();
    // A cost that grows with the square of the number would take hours, and the watchdog ends the test.
    wide(VERY_MANY);
    assert_eq!(count.now(), 0);
}

/// Makes so many children, drops every third, cancels, drops the rest in an order that is bad for lists.
fn wide(children: usize) {
    let parent = CancellationSource::new();
    let mut all: Vec<Option<CancellationSource>> = (0..children).map(|_| Some(parent.child())).collect();
    all.iter_mut().step_by(3).for_each(|child| *child = None);
    let tokens: Vec<CancellationToken> = all.iter().flatten().map(CancellationSource::token).collect();
    parent.request_cancel();
    assert!(tokens.iter().all(CancellationToken::stop_requested));
    drop(tokens);
    for at in 0..children / 2 {
        all[at] = None;
        all[children - 1 - at] = None;
    }
}

/// The first call flags; what is below a flagged node is never looked at again.
#[test]
fn cancelling_again_costs_nothing() {
    let _dog = watchdog(120);
    let parent = CancellationSource::new();
    let children: Vec<_> = (0..VERY_MANY / 10).map(|_| parent.child()).collect();
    children.iter().for_each(CancellationSource::request_cancel);
    parent.request_cancel();
    // With a look at the children in each call the watchdog would end the test.
    (0..scaled(3_000_000, 100)).for_each(|_| parent.request_cancel());
}

#[test]
fn a_shared_reason_is_stored_once() {
    let count = Count::start();
    let root = CancellationSource::new();
    let children: Vec<_> = (0..100).map(|_| root.child()).collect();
    let reason = "x".repeat(1 << 20);
    let before = bytes_here();
    root.cancel_with(reason.clone());
    let grown = bytes_here() - before;
    assert!(grown < 3 << 20, "{grown} bytes for one reason of a MiB, of 101 nodes");
    assert!(children.iter().all(|child| child.token().reason() == Some(&*reason)));
    drop((root, children));
    assert_eq!(count.now(), 0);
}

#[test]
fn a_node_fits_two_cache_lines_and_a_half() {
    assert!(measure() <= 160, "a node has {} bytes", measure());
}
