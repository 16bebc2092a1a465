//! Strongly connected components of the wait-for graph: which of the stuck tasks wait for each other, and one cycle of each such set.
//!
//! `graph.rs` finds the tasks that cannot go on, and asks here what to report of them. A *component* is a largest set of stuck tasks each of which waits for all others of it, directly or over others. Tasks that wait for a
//! component, and for which none of it waits, are stuck because of it, and not reported. Of every component one cycle is reported, a shortest one of the task with the smallest number (but see [`Components::cycle_through`]): a component of a
//! crowd has more cycles than can be read.
//!
//! ```text
//!   task --wait--> holders of the lock that keep out a wait of this class --> task
//!          |-----> the writers up to the last one before it --> task
//!                    '--> the writers up to the one before
//! ```
//!
//! Between tasks are nodes for classes of holders and for prefixes of writers, so that a crowd that waits for a crowd has as many edges as there are members. All is iterative: a chain may be as long
//! as there are tasks.

use super::graph::{CLASSES, Cycle, CycleLink, Graph};
use super::locks::LockId;
use super::waits::{WaitView, Want};
use std::collections::{HashMap, VecDeque};
use std::vec::Vec;

/// With so many other holders of permits a cycle is looked for: each costs a search.
const TRIED: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum GraphNode {
    Task(u64),
    /// The holders that keep out what is wanted in the way of this class.
    Holders(LockId, usize),
    /// The first so many writers.
    Writers(LockId, usize),
}

pub(super) struct Components<'a> {
    graph: &'a Graph,
    is_certain: bool,
    /// The first are the tasks, in their order.
    nodes: Vec<GraphNode>,
    edges: Vec<Vec<usize>>,
    tasks: usize,
    numbers: HashMap<GraphNode, usize>,
    /// Which nodes are in one component, by the number of one of them; none if it is one node.
    component: Vec<Option<usize>>,
}

impl<'a> Components<'a> {
    /// Among these tasks, which are stuck.
    pub(super) fn new(graph: &'a Graph, tasks: &[u64], is_certain: bool) -> Self {
        let nodes: Vec<GraphNode> = tasks.iter().copied().map(GraphNode::Task).collect();
        let numbers = nodes.iter().copied().zip(0..).collect();
        let mut this = Self {
            graph,
            is_certain,
            tasks: nodes.len(),
            nodes,
            edges: Vec::new(),
            numbers,
            component: Vec::new(),
        };
        // More nodes are added meanwhile.
        let mut at = 0;
        while let Some(node) = this.nodes.get(at).copied() {
            let edges = this.edges_of(node);
            this.edges.push(edges);
            at += 1;
        }
        this.component = components(&this.edges);
        this
    }

    fn task(&self, task: u64) -> Option<usize> {
        self.numbers.get(&GraphNode::Task(task)).copied()
    }

    fn number(&mut self, node: GraphNode) -> usize {
        *self.numbers.entry(node).or_insert_with(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        })
    }

    fn edges_of(&mut self, node: GraphNode) -> Vec<usize> {
        let graph = self.graph;
        match node {
            GraphNode::Task(task) => {
                let waits: &[WaitView] = graph.tasks.get(&task).map_or(&[], Vec::as_slice);
                waits.iter().flat_map(|wait| self.edges_of_wait(wait)).collect()
            }
            GraphNode::Holders(lock, class) => {
                let holders = graph.locks[&lock].kept_out(CLASSES[class]);
                holders.filter_map(|task| self.task(task)).collect()
            }
            GraphNode::Writers(lock, count) => {
                let writer = graph.locks[&lock].writer(count - 1);
                let before = (count > 1).then(|| self.number(GraphNode::Writers(lock, count - 1)));
                self.task(writer.task).into_iter().chain(before).collect()
            }
        }
    }

    fn edges_of_wait(&mut self, wait: &WaitView) -> Vec<usize> {
        let node = &self.graph.locks[&wait.lock];
        let class = match wait.want {
            Want::Signal | Want::Time | Want::Nothing => return Vec::new(),
            // There is one at a time, and its own hold does not count.
            Want::Upgrade => {
                return node.blockers(wait).filter_map(|blocker| self.task(blocker.task())).collect();
            }
            Want::Exclusive | Want::Permits => 0,
            Want::Upgradable => 1,
            Want::Read => 2,
        };
        let writers = node.writers_before(wait).len();
        let holders = self.number(GraphNode::Holders(wait.lock, class));
        let writers = (writers > 0).then(|| self.number(GraphNode::Writers(wait.lock, writers)));
        core::iter::once(holders).chain(writers).collect()
    }

    /// A shortest way from a task back to it, or from another of its component: over one step at least, the nodes behind the first. No node outside of the component is on it, so none is looked at: the searches for one cycle of each
    /// component take as long as there are nodes, however many of the others each component waits for.
    fn way_back(&self, from: usize, task: usize) -> Option<Vec<usize>> {
        self.way(from, |node| self.component[node] == self.component[task], |node| node == task)
    }

    /// A shortest way from a node over such as may be passed to one that is wanted, over one step at least: the nodes behind the first.
    fn way(
        &self,
        from: usize,
        passes: impl Fn(usize) -> bool,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Option<Vec<usize>> {
        let mut came: HashMap<usize, usize> = HashMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            for &next in &self.edges[at] {
                #[cfg(all(test, not(miri)))]
                super::tests::count_work(1);
                if came.contains_key(&next) || !passes(next) {
                    continue;
                }
                came.insert(next, at);
                if is_wanted(next) {
                    let mut way = std::vec![next];
                    let mut back = at;
                    while back != from {
                        way.push(back);
                        back = came[&back];
                    }
                    way.reverse();
                    return Some(way);
                }
                queue.push_back(next);
            }
        }
        None
    }

    /// A shortest cycle of this task, which is in a component. Of tasks each of which holds permits and waits for more of the same semaphore, each waits for itself, too: then one with another task, if
    /// all permits of it borrow the semaphore. Those that own it are made to be sent to others.
    fn cycle_through(&self, task: usize) -> Option<Cycle> {
        let cycle = self.cycle(self.way_back(task, task)?)?;
        let longer = if cycle.is_own_permits() { self.cycle_with_another(task) } else { None };
        Some(longer.unwrap_or(cycle))
    }

    fn cycle_with_another(&self, task: usize) -> Option<Cycle> {
        let GraphNode::Task(number) = self.nodes[task] else { return None };
        let waits = self.graph.tasks.get(&number)?;
        let locks =
            waits.iter().filter(|wait| wait.want == Want::Permits).map(|wait| &self.graph.locks[&wait.lock]);
        let mut others: Vec<usize> = locks
            .filter(|node| node.borrowers().any(|task| task == number))
            .flat_map(|node| node.borrowers().filter(|other| *other != number))
            .filter_map(|other| self.task(other))
            .filter(|other| self.component[*other] == self.component[task])
            .collect();
        others.sort_unstable();
        others.dedup();
        others.into_iter().take(TRIED).find_map(|other| {
            let mut way = std::vec![other];
            way.extend(self.way_back(other, task)?);
            self.cycle(way).filter(|cycle| !cycle.has_owned_permits())
        })
    }

    /// The cycle of a way that leads back to where it began.
    fn cycle(&self, way: Vec<usize>) -> Option<Cycle> {
        let tasks: Vec<u64> = way
            .into_iter()
            .filter_map(|node| if let GraphNode::Task(task) = self.nodes[node] { Some(task) } else { None })
            .collect();
        let first = tasks.iter().enumerate().min_by_key(|(_, task)| **task)?.0;
        let links = (0..tasks.len()).map(|n| {
            let at = (first + n) % tasks.len();
            self.link(tasks[at], tasks[(at + 1) % tasks.len()])
        });
        Some(Cycle { links: links.collect::<Option<_>>()?, is_certain: self.is_certain })
    }

    /// Why a task waits for another.
    fn link(&self, task: u64, other: u64) -> Option<CycleLink> {
        let waits = self.graph.tasks.get(&task)?.iter();
        let link = |wait: &WaitView| {
            let mut blockers = self.graph.locks[&wait.lock].blockers(wait);
            blockers.find(|blocker| blocker.task() == other).map(|blocker| CycleLink { wait: *wait, blocker })
        };
        waits.filter_map(link).next()
    }

    /// The cycle that the task is in, or one that it waits for.
    pub(super) fn cycle_of(&self, task: u64) -> Option<Cycle> {
        let task = self.task(task)?;
        if self.component[task].is_some() {
            return self.cycle_through(task);
        }
        let way = self.way(task, |_| true, |node| node < self.tasks && self.component[node].is_some())?;
        self.cycle_through(*way.last()?)
    }

    /// One cycle of each component.
    pub(super) fn cycles(&self) -> Vec<Cycle> {
        let mut reported = HashMap::new();
        let first = |task: &usize| {
            self.component[*task].is_some_and(|component| reported.insert(component, ()).is_none())
        };
        let first: Vec<usize> = (0..self.tasks).filter(first).collect();
        first.into_iter().filter_map(|task| self.cycle_through(task)).collect()
    }
}

/// The strongly connected components of more than one node, by Tarjan's algorithm with a stack of its own: for each node the number of the first one found of its component.
fn components(edges: &[Vec<usize>]) -> Vec<Option<usize>> {
    const UNSEEN: usize = usize::MAX;
    let mut component = std::vec![None; edges.len()];
    let (mut order, mut low) = (std::vec![UNSEEN; edges.len()], std::vec![UNSEEN; edges.len()]);
    let mut is_open = std::vec![false; edges.len()];
    let (mut open, mut path, mut count) = (Vec::new(), Vec::new(), 0);
    for start in 0..edges.len() {
        if order[start] != UNSEEN {
            continue;
        }
        path.push((start, 0));
        while let Some((node, edge)) = path.last_mut() {
            let node = *node;
            if *edge == 0 {
                (order[node], low[node], is_open[node]) = (count, count, true);
                count += 1;
                open.push(node);
            }
            if let Some(&next) = edges[node].get(*edge) {
                *edge += 1;
                if order[next] == UNSEEN {
                    path.push((next, 0));
                } else if is_open[next] {
                    low[node] = low[node].min(order[next]);
                }
                continue;
            }
            path.pop();
            if let Some((before, _)) = path.last() {
                low[*before] = low[*before].min(low[node]);
            }
            if low[node] == order[node] {
                let first = open.iter().rposition(|other| *other == node).unwrap_or(0);
                let members = open.split_off(first);
                // A task that waits for itself may be one without a node between.
                let is_cyclic = members.len() > 1 || edges[node].contains(&node);
                for &member in &members {
                    is_open[member] = false;
                    component[member] = is_cyclic.then_some(node);
                }
            }
        }
    }
    component
}
