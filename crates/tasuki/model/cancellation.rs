//! Cancellation: a tree that is cancelled while it grows, shrinks and is waited for. Nodes are tracked: one that is
//! not freed fails the model, and so does a wake-up that is lost.

use crate::support::{Data, Task, join, model, spawn};
use std::future::pending;
use tasuki::{CancellationSource, CancellationToken, Event};

/// A root, and something that is done before it is cancelled.
struct Root {
    source: CancellationSource,
    data: Data,
}

fn root() -> Root {
    Root { source: CancellationSource::new(), data: Data::new() }
}

impl Root {
    fn write_and_cancel(&self) {
        self.data.add(1);
        self.source.cancel_with("root");
    }
}

/// A root, its child and the child of that.
fn chain() -> [CancellationSource; 3] {
    let root = CancellationSource::new();
    let child = root.child();
    let leaf = child.child();
    [root, child, leaf]
}

fn why(source: &CancellationSource) -> String {
    let token = source.token();
    assert!(token.stop_requested(), "not reached");
    token.reason().expect("all models give reasons").to_owned()
}

fn all_cancelled(tree: &[CancellationSource]) -> bool {
    tree.iter().all(|source| source.token().stop_requested())
}

/// Nothing to share but what the scenario makes.
fn nothing() {}

#[test]
fn a_flag_that_is_seen_acquires() {
    model(root, |root| {
        let canceller = spawn(|| root.write_and_cancel());
        let token = root.source.token();
        if token.stop_requested() {
            assert_eq!((root.data.get(), token.reason()), (1, Some("root")));
        }
        join([canceller]);
        assert_eq!(why(&root.source), "root");
    });
}

#[test]
fn cancel_races_wait() {
    model(root, |root| {
        let canceller = spawn(|| root.write_and_cancel());
        Task::new(root.source.token().on_cancel()).run();
        assert_eq!(root.data.get(), 1);
        join([canceller]);
    });
}

#[test]
fn cancel_races_wait_on_a_child() {
    model(root, |root| {
        let child = root.source.child().token();
        let canceller = spawn(|| root.write_and_cancel());
        Task::new(child.on_cancel()).run();
        assert_eq!((root.data.get(), child.reason()), (1, Some("root")));
        join([canceller]);
    });
}

#[test]
fn cancel_races_two_waiters_of_which_one_leaves() {
    model(root, |root| {
        let token = root.source.token();
        let (leaves, stays) = (token.clone().on_cancel_owned(), token.clone().on_cancel_owned());
        let (leaves, mut stays) = (Task::waiting(leaves), Task::waiting(stays));
        let canceller = spawn(|| root.write_and_cancel());
        drop(leaves);
        stays.finish();
        assert_eq!(root.data.get(), 1);
        join([canceller]);
        assert_eq!(stays.rings(), 1);
    });
}

/// Three waiters are two batches of the model. The poll that changes the waker may come at any moment.
#[test]
fn cancel_races_a_change_of_the_waker() {
    model(root, |root| {
        let token = root.source.token();
        let others = [token.clone().on_cancel_owned(), token.clone().on_cancel_owned()].map(Task::waiting);
        let mut last = Task::waiting(token.on_cancel());
        let canceller = spawn(|| root.write_and_cancel());
        last.change_alarm();
        last.finish();
        assert_eq!(root.data.get(), 1);
        join([canceller]);
        assert!(others.iter().all(|task| task.rings() == 1));
    });
}

/// H16: the wait is the last handle, and may be gone before the cancel has let go of the queue.
#[test]
fn the_woken_frees_the_node() {
    model(root, |root| {
        let wait = root.source.child().token().on_cancel_owned();
        let canceller = spawn(|| root.write_and_cancel());
        Task::new(wait).run();
        assert_eq!(root.data.get(), 1);
        join([canceller]);
    });
}

/// The last handle of a node that is waited for goes with the wait, just when the cancel wants to wake it.
#[test]
fn cancel_races_the_drop_of_a_wait_that_is_the_last_handle() {
    model(root, |root| {
        let wait = Task::waiting(root.source.child().token().on_cancel_owned());
        let canceller = spawn(|| root.write_and_cancel());
        drop(wait);
        join([canceller]);
    });
}

#[test]
fn cancel_races_the_birth_of_a_child() {
    model(root, |root| {
        let canceller = spawn(|| root.write_and_cancel());
        let child = root.source.child();
        join([canceller]);
        assert_eq!(why(&child), "root");
        root.data.add(1);
    });
}

#[test]
fn cancel_races_the_birth_of_a_grandchild_that_is_waited_for() {
    model(root, |root| {
        let child = root.source.child();
        let canceller = spawn(|| root.write_and_cancel());
        let grandchild = child.child().token();
        drop(child);
        Task::new(grandchild.on_cancel()).run();
        assert_eq!((root.data.get(), grandchild.reason()), (1, Some("root")));
        join([canceller]);
    });
}

#[test]
fn cancel_races_the_drop_of_a_child() {
    model(root, |root| {
        let (goes, stays) = (root.source.child(), root.source.child());
        let canceller = spawn(|| root.write_and_cancel());
        drop(goes);
        join([canceller]);
        assert_eq!(why(&stays), "root");
    });
}

/// The middle has one child, which takes its place, before the cancel passes or after.
#[test]
fn cancel_races_the_drop_of_a_middle() {
    model(nothing, |()| {
        let [root, middle, leaf] = chain();
        let canceller = spawn(move || root.cancel_with("root"));
        drop(middle);
        join([canceller]);
        assert_eq!(why(&leaf), "root");
    });
}

/// The fork has two children and must stay until the cancel has passed through it.
#[test]
fn cancel_races_the_drop_of_a_fork() {
    model(nothing, |()| {
        let [root, fork, one] = chain();
        let two = fork.child();
        let canceller = spawn(move || root.cancel_with("root"));
        drop(fork);
        join([canceller]);
        assert_eq!([why(&one), why(&two)], ["root", "root"]);
    });
}

#[test]
fn cancel_of_the_grandparent_races_the_drops_of_parent_and_child() {
    model(nothing, |()| {
        let [root, middle, leaf] = chain();
        let stays = middle.child();
        let canceller = spawn(move || root.cancel_with("root"));
        drop(middle);
        drop(leaf);
        join([canceller]);
        assert_eq!(why(&stays), "root");
    });
}

#[test]
fn cancel_of_the_grandparent_races_the_drops_of_child_and_parent() {
    model(nothing, |()| {
        let [root, middle, leaf] = chain();
        let stays = middle.child();
        let canceller = spawn(move || root.cancel_with("root"));
        drop(leaf);
        drop(middle);
        join([canceller]);
        assert_eq!(why(&stays), "root");
    });
}

/// Nobody holds the fork; two of its three children go at once, and then it is needed no more.
#[test]
fn children_of_a_fork_that_nobody_holds_go_at_once() {
    model(nothing, |()| {
        let [root, fork, one] = chain();
        let [two, three] = [fork.child(), fork.child()];
        drop(fork);
        let other = spawn(move || drop(one));
        drop(two);
        join([other]);
        assert!(!three.token().stop_requested());
        root.cancel_with("root");
        assert_eq!(why(&three), "root");
    });
}

/// One of the two children of an orphaned fork is cancelled, the other is dropped.
#[test]
fn a_fork_that_nobody_holds_loses_its_children_in_two_ways() {
    model(nothing, |()| {
        let [root, fork, one] = chain();
        let two = fork.child();
        drop(fork);
        let canceller = spawn(move || one.cancel_with("one"));
        drop(two);
        join([canceller]);
        assert!(!root.token().stop_requested());
    });
}

/// Whoever returns, all descendants are cancelled, and there is one reason.
#[test]
fn two_cancels_of_one_node() {
    model(chain, |tree| {
        let other = spawn(|| {
            tree[0].cancel_with("other");
            assert!(all_cancelled(tree));
        });
        tree[0].cancel_with("this");
        assert!(all_cancelled(tree));
        let reason = why(&tree[0]);
        assert!(tree.iter().all(|source| why(source) == reason));
        join([other]);
        assert!(reason == why(&tree[0]) && ["this", "other"].contains(&&*reason));
    });
}

/// The child keeps its own reason if it came first; the leaf has that of the child in any case.
#[test]
fn parent_and_child_are_cancelled_at_once() {
    model(chain, |tree| {
        let parent = spawn(|| {
            tree[0].cancel_with("parent");
            assert!(all_cancelled(tree));
        });
        tree[1].cancel_with("child");
        assert!(all_cancelled(&tree[1..]));
        join([parent]);
        assert_eq!(why(&tree[0]), "parent");
        assert_eq!(why(&tree[1]), why(&tree[2]));
    });
}

/// A cancel that helps has the waiters of the nodes that it flagged to wake: none is left to nobody.
#[test]
fn a_cancel_that_is_helped_wakes_all() {
    model(chain, |tree| {
        let [mut child, mut leaf] =
            [&tree[1], &tree[2]].map(|source| Task::waiting(source.token().on_cancel_owned()));
        let other = spawn(|| tree[0].cancel_with("other"));
        tree[0].cancel_with("this");
        child.finish();
        leaf.finish();
        join([other]);
        assert_eq!((child.rings(), leaf.rings()), (1, 1));
    });
}

/// What one thread has read through its handle must be over when the other frees the node.
#[test]
fn the_last_two_handles_go_at_once() {
    model(nothing, |()| {
        let source = CancellationSource::new();
        source.cancel_with(String::from("made"));
        let token = source.token();
        let reader = spawn(move || {
            assert_eq!(token.reason(), Some("made"));
            drop(token);
        });
        drop(source);
        join([reader]);
    });
}

/// The first node's memory stays for the lock until the last node is gone, whoever that is.
#[test]
fn the_first_and_the_last_node_go_at_once() {
    model(nothing, |()| {
        let [root, child, leaf] = chain();
        drop(child);
        let other = spawn(move || drop(root));
        drop(leaf);
        join([other]);
    });
}

/// A child is born while the last of the other handles of its parent goes.
#[test]
fn a_birth_races_the_drop_of_the_parent() {
    model(nothing, |()| {
        let [root, child, leaf] = chain();
        let token = child.token();
        let other = spawn(move || drop(child));
        let late = token.child();
        drop(token);
        join([other]);
        root.cancel_with("root");
        assert_eq!([why(&leaf), why(&late)], ["root", "root"]);
    });
}

#[test]
fn run_until_cancelled_is_woken_by_the_token() {
    model(root, |root| {
        let canceller = spawn(|| root.write_and_cancel());
        let token = root.source.token();
        assert_eq!(Task::new(token.run_until_cancelled(pending::<()>())).run(), None);
        assert_eq!(root.data.get(), 1);
        join([canceller]);
    });
}

struct Both {
    root: Root,
    event: Event,
}

fn both() -> Both {
    Both { root: root(), event: Event::auto() }
}

/// The future and the token race; the signal is neither lost nor doubled.
#[test]
fn run_until_cancelled_ends_by_either() {
    model(both, |both| {
        let other = spawn(|| {
            both.root.data.add(1);
            both.event.set();
            both.root.source.cancel_with("root");
        });
        let token: CancellationToken = both.root.source.token();
        let done = Task::new(token.run_until_cancelled(both.event.wait())).run();
        assert_eq!(both.root.data.get(), 1);
        join([other]);
        assert_eq!(both.event.is_set(), done.is_none());
    });
}
