//! Cancellation: a tree that is cancelled while it grows, shrinks and is waited for. Nodes are tracked: one that is
//! not freed fails the model, and so does a wake-up that is lost.
//!
//! Every scenario is a [`race`] of two, run twice with the roles of the threads exchanged. Loom remembers only the
//! last access to an atomic: if one thread looks at it, then the other looks and writes, the order "written
//! before the first looked" is never tried. Begun from the other end it is.

use crate::support::{Data, Task, join, model, spawn};
use std::cell::UnsafeCell;
use std::future::pending;
use tasuki::future::OnCancelOwned;
use tasuki::{CancellationSource, CancellationToken, Event};

/// Something that is handed to one of the threads, or left for the end.
struct Slot<T>(UnsafeCell<Option<T>>);

// SAFETY: the threads of a model run in turns on one thread of the system; what a scenario hands to one of its
// threads is not used by the others.
unsafe impl<T> Sync for Slot<T> {}

impl<T> Slot<T> {
    fn new(value: T) -> Self {
        Self(UnsafeCell::new(Some(value)))
    }

    fn put(&self, value: T) {
        // SAFETY: see `Sync`.
        unsafe { *self.0.get() = Some(value) };
    }

    fn take(&self) -> T {
        // SAFETY: see `Sync`.
        unsafe { (*self.0.get()).take() }.expect("it is there")
    }

    fn get(&self) -> &T {
        // SAFETY: see `Sync`.
        unsafe { (*self.0.get()).as_ref() }.expect("it is there")
    }
}

/// A tree, tasks that wait for some of it, and something that is done before it is cancelled.
struct Tree {
    nodes: Vec<Slot<CancellationSource>>,
    tasks: Vec<Slot<Task<OnCancelOwned>>>,
    born: Slot<CancellationSource>,
    event: Event,
    data: Data,
}

/// A tree of which the second node, the third, ... have these parents.
fn tree(parents: &[usize]) -> Tree {
    let mut nodes = vec![Slot::new(CancellationSource::new())];
    for parent in parents {
        let child = nodes[*parent].get().child();
        nodes.push(Slot::new(child));
    }
    let born = Slot(UnsafeCell::new(None));
    Tree { nodes, tasks: Vec::new(), born, event: Event::auto(), data: Data::new() }
}

fn root() -> Tree {
    tree(&[])
}

fn pair() -> Tree {
    tree(&[0])
}

fn chain() -> Tree {
    tree(&[0, 1])
}

/// A root, a fork below it, two children of that.
fn fork() -> Tree {
    tree(&[0, 1, 1])
}

impl Tree {
    /// Adds tasks that wait for these nodes.
    fn with_tasks(mut self, nodes: &[usize]) -> Self {
        let task = |at: &usize| Slot::new(Task::waiting(self.token(*at).on_cancel_owned()));
        self.tasks = nodes.iter().map(task).collect();
        self
    }

    /// Without these handles.
    fn without(self, nodes: &[usize]) -> Self {
        nodes.iter().for_each(|at| self.drop(*at));
        self
    }

    fn drop(&self, at: usize) {
        drop(self.nodes[at].take());
    }

    fn source(&self, at: usize) -> &CancellationSource {
        self.nodes[at].get()
    }

    fn token(&self, at: usize) -> CancellationToken {
        self.source(at).token()
    }

    /// Writes, then cancels the root.
    fn cancel(&self) {
        self.data.add(1);
        self.source(0).cancel_with("root");
    }

    /// Runs a future to its end, which comes after the cancel of the root.
    fn wait(&self, token: &CancellationToken) {
        Task::new(token.on_cancel()).run();
        assert_eq!((self.data.get(), token.reason()), (1, Some("root")));
    }

    fn all_cancelled(&self, nodes: &[usize]) {
        assert!(nodes.iter().all(|at| self.token(*at).stop_requested()), "a descendant was not reached");
    }

    fn why(&self, at: usize) -> String {
        let token = self.token(at);
        assert!(token.stop_requested(), "{at} was not reached");
        token.reason().expect("all models give reasons").to_owned()
    }
}

type Part = fn(&'static Tree);

/// Both parts at once, then the end; twice, with the threads exchanged.
fn race(object: fn() -> Tree, parts: [Part; 2], end: Part) {
    run(object, parts[0], parts[1], end);
    run(object, parts[1], parts[0], end);
}

fn run(object: fn() -> Tree, here: Part, there: Part, end: Part) {
    model(object, move |tree| {
        let other = spawn(move || there(tree));
        here(tree);
        join([other]);
        end(tree);
    });
}

#[test]
fn a_flag_that_is_seen_acquires() {
    let look: Part = |tree| {
        let token = tree.token(0);
        if token.stop_requested() {
            assert_eq!((tree.data.get(), token.reason()), (1, Some("root")));
        }
    };
    race(root, [Tree::cancel, look], |tree| assert_eq!(tree.why(0), "root"));
}

/// The same for a child, which a cancel of the root reaches by and by.
#[test]
fn a_flag_that_is_inherited_acquires() {
    let look: Part = |tree| {
        let token = tree.token(1);
        if token.stop_requested() {
            assert_eq!((tree.data.get(), token.reason()), (1, Some("root")));
        }
    };
    race(pair, [Tree::cancel, look], |tree| assert_eq!(tree.why(1), "root"));
}

#[test]
fn cancel_races_wait() {
    race(root, [Tree::cancel, |tree| tree.wait(&tree.token(0))], |_| {});
}

#[test]
fn cancel_races_wait_on_a_child() {
    race(pair, [Tree::cancel, |tree| tree.wait(&tree.token(1))], |_| {});
}

#[test]
fn cancel_races_two_waiters_of_which_one_leaves() {
    let leave: Part = |tree| drop(tree.tasks[0].take());
    let end: Part = |tree| {
        let mut stays = tree.tasks[1].take();
        stays.finish();
        assert_eq!((tree.data.get(), stays.rings()), (1, 1));
    };
    race(|| root().with_tasks(&[0, 0]), [Tree::cancel, leave], end);
}

/// Three waiters are two batches of the model. The poll that changes the waker may come at any moment.
#[test]
fn cancel_races_a_change_of_the_waker() {
    let change: Part = |tree| {
        let mut last = tree.tasks[2].take();
        last.change_alarm();
        last.finish();
        assert_eq!(tree.data.get(), 1);
    };
    let end: Part = |tree| assert!(tree.tasks[..2].iter().all(|task| task.get().rings() == 1));
    race(|| root().with_tasks(&[0, 0, 0]), [Tree::cancel, change], end);
}

/// H16: the wait is the last handle, and may be gone before the cancel has let go of the queue.
#[test]
fn the_woken_frees_the_node() {
    let run: Part = |tree| {
        tree.tasks[0].take().run();
        assert_eq!(tree.data.get(), 1);
    };
    race(|| pair().with_tasks(&[1]).without(&[1]), [Tree::cancel, run], |_| {});
}

/// The last handle of a node that is waited for goes with the wait, just when the cancel wants to wake it.
#[test]
fn cancel_races_the_drop_of_a_wait_that_is_the_last_handle() {
    let leave: Part = |tree| drop(tree.tasks[0].take());
    race(|| pair().with_tasks(&[1]).without(&[1]), [Tree::cancel, leave], |_| {});
}

#[test]
fn cancel_races_the_birth_of_a_child() {
    let birth: Part = |tree| tree.born.put(tree.source(0).child());
    let end: Part = |tree| assert_eq!(tree.born.get().token().reason(), Some("root"));
    race(root, [Tree::cancel, birth], end);
}

#[test]
fn cancel_races_the_birth_of_a_grandchild_that_is_waited_for() {
    let birth: Part = |tree| {
        let grandchild = tree.source(1).child().token();
        tree.drop(1);
        tree.wait(&grandchild);
    };
    race(pair, [Tree::cancel, birth], |_| {});
}

#[test]
fn cancel_races_the_drop_of_a_child() {
    let end: Part = |tree| assert_eq!(tree.why(2), "root");
    race(|| tree(&[0, 0]), [Tree::cancel, |tree| tree.drop(1)], end);
}

/// The middle has one child, which takes its place, before the cancel passes or after.
#[test]
fn cancel_races_the_drop_of_a_middle() {
    let end: Part = |tree| assert_eq!(tree.why(2), "root");
    race(chain, [Tree::cancel, |tree| tree.drop(1)], end);
}

/// The fork has two children and must stay until the cancel has passed through it.
#[test]
fn cancel_races_the_drop_of_a_fork() {
    let end: Part = |tree| assert_eq!([tree.why(2), tree.why(3)], ["root", "root"]);
    race(fork, [Tree::cancel, |tree| tree.drop(1)], end);
}

#[test]
fn cancel_of_the_grandparent_races_the_drops_of_parent_and_child() {
    let drops: Part = |tree| [1, 2].iter().for_each(|at| tree.drop(*at));
    race(fork, [Tree::cancel, drops], |tree| assert_eq!(tree.why(3), "root"));
}

#[test]
fn cancel_of_the_grandparent_races_the_drops_of_child_and_parent() {
    let drops: Part = |tree| [2, 1].iter().for_each(|at| tree.drop(*at));
    race(fork, [Tree::cancel, drops], |tree| assert_eq!(tree.why(3), "root"));
}

/// The cancel is done, and only handles are left, of a fork without handles.
#[test]
fn cancel_of_the_grandparent_races_the_drop_of_all() {
    let drops: Part = |tree| [3, 2].iter().for_each(|at| tree.drop(*at));
    race(|| fork().without(&[1]), [Tree::cancel, drops], |_| {});
}

/// The fork has no handles; two of its three children go at once, and then it is needed no more.
#[test]
fn children_of_a_fork_without_handles_go_at_once() {
    let end: Part = |tree| {
        assert!(!tree.token(4).stop_requested());
        tree.cancel();
        assert_eq!(tree.why(4), "root");
    };
    race(|| tree(&[0, 1, 1, 1]).without(&[1]), [|tree| tree.drop(2), |tree| tree.drop(3)], end);
}

/// One of the two children of an orphaned fork is cancelled, the other is dropped.
#[test]
fn a_fork_without_handles_loses_its_children_in_two_ways() {
    let cancel: Part = |tree| tree.source(2).cancel_with("child");
    let end: Part = |tree| {
        assert_eq!(tree.why(2), "child");
        assert!(!tree.token(0).stop_requested());
    };
    race(|| fork().without(&[1]), [cancel, |tree| tree.drop(3)], end);
}

/// Whichever call returns, all descendants are cancelled; and there is one reason.
#[test]
fn two_cancels_of_one_node() {
    let cancels: [Part; 2] = [
        |tree| {
            tree.source(0).cancel_with("one");
            tree.all_cancelled(&[0, 1, 2]);
        },
        |tree| {
            tree.source(0).cancel_with("two");
            tree.all_cancelled(&[0, 1, 2]);
        },
    ];
    race(chain, cancels, |tree| {
        let reason = tree.why(0);
        assert!(["one", "two"].contains(&&*reason));
        assert_eq!([tree.why(1), tree.why(2)], [reason.clone(), reason]);
    });
}

/// The child keeps its own reason if it came first; the leaf has that of the child in any case.
#[test]
fn parent_and_child_are_cancelled_at_once() {
    let parent: Part = |tree| {
        tree.cancel();
        tree.all_cancelled(&[0, 1, 2]);
    };
    let child: Part = |tree| {
        tree.source(1).cancel_with("child");
        tree.all_cancelled(&[1, 2]);
    };
    race(chain, [parent, child], |tree| {
        assert_eq!(tree.why(0), "root");
        assert_eq!(tree.why(1), tree.why(2));
        assert!(["root", "child"].contains(&&*tree.why(1)));
    });
}

/// A cancel that helps has the waiters of the nodes that it flagged to wake: none is forgotten, none is woken
/// twice.
#[test]
fn a_cancel_that_is_helped_wakes_all() {
    let cancel: Part = |tree| tree.source(0).cancel_with("root");
    let end: Part = |tree| {
        for task in &tree.tasks {
            let mut task = task.take();
            task.finish();
            assert_eq!(task.rings(), 1);
        }
    };
    race(|| chain().with_tasks(&[1, 2]), [cancel, cancel], end);
}

/// What one thread has read through its handle must be over when the other frees the node.
#[test]
fn the_last_two_handles_go_at_once() {
    let made = || {
        let tree = root();
        tree.source(0).cancel_with(String::from("made"));
        tree.born.put(tree.source(0).clone());
        tree
    };
    let read: Part = |tree| {
        let token = tree.born.take().token();
        assert_eq!(token.reason(), Some("made"));
    };
    race(made, [read, |tree| tree.drop(0)], |_| {});
}

/// The first node's memory stays for the lock until the last node is gone, whichever that is.
#[test]
fn the_first_and_the_last_node_go_at_once() {
    race(|| chain().without(&[1]), [|tree| tree.drop(0), |tree| tree.drop(2)], |_| {});
}

/// A child is born while the last of the other handles of its parent goes.
#[test]
fn a_birth_races_the_drop_of_the_parent() {
    let made = || {
        let tree = chain();
        tree.born.put(tree.source(1).clone());
        tree
    };
    let birth: Part = |tree| {
        let parent = tree.born.take();
        tree.born.put(parent.child());
    };
    let end: Part = |tree| {
        tree.cancel();
        assert_eq!((tree.why(2), tree.born.get().token().reason()), ("root".to_owned(), Some("root")));
    };
    race(made, [birth, |tree| tree.drop(1)], end);
}

#[test]
fn run_until_cancelled_is_woken_by_the_token() {
    let run: Part = |tree| {
        let token = tree.token(0);
        assert_eq!(Task::new(token.run_until_cancelled(pending::<()>())).run(), None);
        assert_eq!(tree.data.get(), 1);
    };
    race(root, [Tree::cancel, run], |_| {});
}

/// The future and the token race; the signal is neither lost nor doubled.
#[test]
fn run_until_cancelled_ends_by_either() {
    let both: Part = |tree| {
        tree.event.set();
        tree.cancel();
    };
    let run: Part = |tree| {
        let token = tree.token(0);
        let done = Task::new(token.run_until_cancelled(tree.event.wait())).run();
        if done.is_none() {
            assert_eq!(tree.data.get(), 1);
            Task::new(tree.event.wait()).run();
        }
    };
    race(root, [both, run], |tree| assert!(!tree.event.is_set()));
}
