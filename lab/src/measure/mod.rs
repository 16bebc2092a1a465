//! The harness: groups of subjects doing the same work, sampled in turns inside one process.
//!
//! Workloads describe their groups to a [`Bench`], which either lists them or measures one: every cell (a group of
//! one workload, number and runtime) is measured in a process of its own, so that a subject that panics, hangs or
//! brings the process down costs that process and nothing else. `supervise` starts those processes.

mod group;
mod journal;
mod plan;
mod sample;
mod session;

pub(crate) use group::{Contender, Group, Metric};
pub(crate) use journal::{Journal, Line};
pub(crate) use plan::Plan;
pub(crate) use sample::{Meter, Reading, Sample, fairness};

use crate::peer::Kind;
use session::Session;

/// What becomes of the groups that the workloads describe.
pub(crate) struct Bench {
    plan: Plan,
    role: Role,
}

enum Role {
    /// Collects the names of all cells.
    Lists(Vec<Cell>),
    /// Measures one of them.
    Measures { key: String, subjects: Vec<String>, session: Session, found: bool },
}

/// One cell, as it is expected before anything has run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    /// Name of the workload.
    pub(crate) workload: String,
    /// Tasks or waiters.
    pub(crate) n: u64,
    /// The executor.
    pub(crate) runtime: String,
    /// Who takes part.
    pub(crate) subjects: Vec<(String, Kind)>,
}

impl Cell {
    /// Its name: "mutex/hand-off n=64 minimal".
    pub(crate) fn key(&self) -> String {
        format!("{} n={} {}", self.workload, self.n, self.runtime)
    }

    /// Keeps what a filter lets pass: the whole cell by its name, or subjects by theirs.
    pub(crate) fn filtered(mut self, only: Option<&str>) -> Option<Cell> {
        let only = only.unwrap_or_default();
        if !self.key().contains(only) {
            self.subjects.retain(|(subject, _)| subject.contains(only));
        }
        (!self.subjects.is_empty()).then_some(self)
    }
}

impl Bench {
    /// Lists every cell that `describe` mentions.
    pub(crate) fn list(plan: Plan, describe: impl FnOnce(&mut Bench)) -> Vec<Cell> {
        let mut bench = Bench { plan, role: Role::Lists(Vec::new()) };
        describe(&mut bench);
        match bench.role {
            Role::Lists(cells) => cells,
            Role::Measures { .. } => Vec::new(),
        }
    }

    /// Measures the cell of that name, these subjects only; false when `describe` does not mention it.
    pub(crate) fn measure(
        plan: Plan,
        key: &str,
        subjects: Vec<String>,
        journal: Journal,
        describe: impl FnOnce(&mut Bench),
    ) -> bool {
        let session = Session::new(plan, journal);
        let mut bench =
            Bench { plan, role: Role::Measures { key: key.into(), subjects, session, found: false } };
        describe(&mut bench);
        matches!(bench.role, Role::Measures { found: true, .. })
    }

    /// Whether only the essential is asked for.
    pub(crate) fn is_quick(&self) -> bool {
        self.plan.quick
    }

    /// Takes a group: its name, or its measure.
    pub(crate) fn group(&mut self, mut group: Group) {
        match &mut self.role {
            Role::Lists(cells) => cells.push(Cell {
                workload: group.workload.clone(),
                n: group.n,
                runtime: group.runtime.into(),
                subjects: group.contenders.iter().map(|one| (one.subject.into(), one.kind)).collect(),
            }),
            Role::Measures { key, subjects, session, found } => {
                if *found || group.key() != *key {
                    return;
                }
                *found = true;
                group.contenders.retain(|one| subjects.iter().any(|subject| subject == one.subject));
                session.measure(group);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell() -> Cell {
        let subjects = vec![("tasuki-fifo".into(), Kind::Ours), ("tokio".into(), Kind::Peer)];
        Cell { workload: "mutex/hand-off".into(), n: 64, runtime: "minimal".into(), subjects }
    }

    #[test]
    fn a_filter_keeps_cells_and_subjects() {
        assert_eq!(cell().filtered(None), Some(cell()));
        assert_eq!(cell().filtered(Some("n=64 min")), Some(cell()));
        assert_eq!(cell().filtered(Some("toki")).map(|cell| cell.subjects.len()), Some(1));
        assert_eq!(cell().filtered(Some("elsewhere")), None);
    }

    #[test]
    fn every_cell_has_a_name_of_its_own() {
        let all = |plan| {
            Bench::list(plan, |bench| {
                crate::workload::FAMILIES.iter().for_each(|(what, _)| crate::workload::run(what, bench));
            })
        };
        for plan in [Plan::QUICK, Plan::FULL] {
            let mut names: Vec<(String, String)> = all(plan)
                .iter()
                .flat_map(|cell| cell.subjects.iter().map(|(subject, _)| (cell.key(), subject.clone())))
                .collect();
            let before = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), before);
        }
    }
}
