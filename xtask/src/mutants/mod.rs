//! `cargo xtask mutants`: a model proves nothing until a mutant dies.
//!
//! Each ordering of the library is weakened, one at a time, and each fence dropped, in a copy of the sources;
//! then the models run until one fails. A mutant that every model lets pass must be explained beside the
//! code, in the comment of its line or statement:
//!
//! ```text
//! // mutant: survives: the swap that follows acquires as well.
//! // mutant: survives [AcqRel->Acquire]: nothing is published here.
//! ```
//!
//! The short form covers every mutant of the statement of which at least one must survive; the long form names
//! those that must. A survivor without explanation fails the run, and so does an explanation without a survivor.
//!
//! Of the runtime those files are weakened that its models include (`crates/tasuki-rt/model/parts.rs`). Its other files with orderings are in no model, among them `scheduler/deadlines.rs`, `local_runtime.rs`
//! and `signal/`.
//!
//! Verdicts are kept in `target/mutants`, a file for each library: an interrupted run goes on where it stopped. They are
//! forgotten when the library's code (comments aside) or one of its models changes.

mod copy;
mod results;
mod sites;

use crate::args::Args;
use crate::model::{Models, PREEMPTIONS, SUITES, Suite, pool};
use crate::report::{Outcome, Report};
use crate::shell::{Capped, root, target};
use copy::Copy;
use results::{Results, Verdict};
use sites::Site;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Which models to try first for a file or folder of `src/`, after those of the same name; the others follow.
const FIRST: [(&str, &[&str]); 3] = [
    ("queue", &["mutex::", "bypass::"]),
    ("mutex", &["bypass::", "lifo::"]),
    ("countdown", &["wait_group::", "latch::", "barrier::"]),
];

/// Flags for mutants: what is left unused by a weakened line is no error.
const FLAGS: &str = "--cap-lints=warn";

/// What the run was asked for.
struct Plan {
    jobs: usize,
    preemptions: usize,
    /// A model gets the larger of this and ten times what it took unmutated.
    timeout: Duration,
}

pub(crate) fn run(mut args: Args) -> Result<Report, String> {
    let plan = Plan {
        jobs: args.value("--jobs", 2)?,
        preemptions: args.value("--preemptions", PREEMPTIONS)?,
        timeout: Duration::from_secs(args.value("--timeout", 60)?),
    };
    let filter: String = args.value("--filter", String::new())?;
    let (fresh, list) = (args.flag("--fresh"), args.flag("--list"));
    args.end()?;

    let mut report = Report::new("mutants");
    let mut found = 0;
    for suite in &SUITES {
        let mut sites = sites::find(&root(), suite)?;
        sites.retain(|site| site.file.contains(&filter));
        found += sites.len();
        if list {
            for site in &sites {
                println!("{}{}", site.name(), if site.mark.is_some() { "  (said to survive)" } else { "" });
            }
        } else if !sites.is_empty() {
            run_suite(suite, &sites, &plan, fresh, &mut report)?;
        }
    }
    match found {
        0 => return Err(format!("no ordering to weaken in files with {filter:?} in their name")),
        _ if list => report.row("list only, nothing run", Outcome::Passed, Duration::ZERO),
        _ => report.note(format!("mutants: {found} in all")),
    }
    Ok(report)
}

/// The mutants of one library.
fn run_suite(
    suite: &Suite,
    sites: &[Site],
    plan: &Plan,
    fresh: bool,
    report: &mut Report,
) -> Result<(), String> {
    let folder = target().join("mutants");
    let fingerprint = copy::fingerprint(&root(), suite)?;
    let state = format!("{fingerprint:016x}-{}", plan.preemptions);
    let name = format!("results-{}.tsv", suite.library.replace('/', "-"));
    let results = Mutex::new(Results::open(&folder, &name, &state, fresh)?);
    let copies =
        (0..plan.jobs.max(1)).map(|worker| Copy::make(&folder, worker)).collect::<Result<Vec<_>, _>>()?;
    for copy in &copies {
        if copy::fingerprint(&copy.root, suite)? != fingerprint {
            return Err("the sources changed while they were copied: start again".to_owned());
        }
    }
    let times = baseline(&copies[0], suite, plan, &results)?;
    let todo: Vec<&Site> = sites.iter().filter(|site| locked(&results).get(site).is_none()).collect();
    println!("=== mutants of {}: {}, of which {} without verdict", suite.library, sites.len(), todo.len());

    let failures = Mutex::new(Vec::new());
    let done = Mutex::new(sites.len() - todo.len());
    pool(plan.jobs, todo.len(), |at, worker| {
        let started = Instant::now();
        let site = todo[at];
        match copies[worker].try_site(site, suite, plan, &times, &results) {
            Ok(verdict) => {
                let saved = locked(&results).add(site, verdict.clone());
                saved.unwrap_or_else(|why| locked(&failures).push(why));
                let mut done = locked(&done);
                *done += 1;
                let time = started.elapsed().as_secs_f64();
                println!("[{:>3}/{}] {verdict}  {}  ({time:.1} s)", *done, sites.len(), site.name());
            }
            Err(why) => locked(&failures).push(format!("{}: {why}", site.name())),
        }
    });
    if let Some(why) = locked(&failures).first() {
        return Err(why.clone());
    }
    judge(report, sites, &locked(&results))?;
    if copy::fingerprint(&root(), suite)? != fingerprint {
        report.note(format!(
            "mutants: {} has changed meanwhile: these verdicts are about the former sources",
            suite.library
        ));
    }
    Ok(())
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no worker panics")
}

/// The unmutated models must pass; what each took is the measure for the mutants.
fn baseline(
    copy: &Copy,
    suite: &Suite,
    plan: &Plan,
    results: &Mutex<Results>,
) -> Result<Vec<(String, Duration)>, String> {
    let known = locked(results).baseline();
    if !known.is_empty() {
        println!("=== mutants: the unmutated models passed before ({} models)", known.len());
        return Ok(known);
    }
    println!("=== mutants: the unmutated models");
    let models = copy.build(suite)?;
    let times = Mutex::new(Vec::new());
    pool(plan.jobs, models.names.len(), |at, worker| {
        let end = models.run(&models.names[at], plan.preemptions, plan.timeout * 10, worker);
        locked(&times).push((models.names[at].clone(), end));
    });
    let mut passed = Vec::new();
    for (name, end) in times.into_inner().expect("no worker panics") {
        let end = end?;
        if end.how != Capped::Passed || end.ran_too_little() {
            return Err(format!("the unmutated model {name} does not pass: {:?}\n{}", end.how, end.log));
        }
        passed.push((name, end.time));
    }
    passed.sort_by_key(|(_, time)| *time);
    locked(results).set_baseline(&passed)?;
    Ok(passed)
}

impl Copy {
    /// Weakens one site in this copy, runs the models until one fails, and heals the copy.
    fn try_site(
        &self,
        site: &Site,
        suite: &Suite,
        plan: &Plan,
        times: &[(String, Duration)],
        results: &Mutex<Results>,
    ) -> Result<Verdict, String> {
        self.mutate(site)?;
        let verdict = self.verdict(site, suite, plan, times, results);
        self.heal(site)?;
        verdict
    }

    fn verdict(
        &self,
        site: &Site,
        suite: &Suite,
        plan: &Plan,
        times: &[(String, Duration)],
        results: &Mutex<Results>,
    ) -> Result<Verdict, String> {
        let models = self.build(suite)?;
        let killers = locked(results).killers(&site.file);
        for (name, usual) in order(site, times, &killers) {
            let end = models.run(name, plan.preemptions, plan.timeout.max(usual * 10), 0)?;
            match end.how {
                Capped::Passed => {}
                Capped::Failed => return Ok(Verdict::Killed(name.to_owned())),
                Capped::TimedOut => return Ok(Verdict::TimedOut(name.to_owned())),
            }
        }
        Ok(Verdict::Survived)
    }

    fn build(&self, suite: &Suite) -> Result<Models, String> {
        Models::build(&[*suite], &self.root, &self.target, FLAGS)
    }
}

/// The models in the order likeliest to kill soon: those that killed in this file before, those of the
/// file's own table row, then the quick ones first.
fn order<'a>(site: &Site, times: &'a [(String, Duration)], killers: &[String]) -> Vec<(&'a str, Duration)> {
    let own = site.module();
    let more = FIRST.iter().find(|(module, _)| *module == own).map_or(&[][..], |(_, models)| models);
    let first =
        [&[format!("{own}::")][..], &more.iter().map(|model| (*model).to_owned()).collect::<Vec<_>>()]
            .concat();
    let mut ordered: Vec<(&str, Duration)> =
        times.iter().map(|(name, time)| (name.as_str(), *time)).collect();
    ordered.sort_by_key(|(name, time)| {
        let killed = killers.iter().position(|killer| killer == name).unwrap_or(killers.len());
        let listed = first.iter().position(|prefix| name.starts_with(prefix.as_str())).unwrap_or(first.len());
        (killed, listed, *time)
    });
    ordered
}

/// Every mutant has a verdict; the survivors are the explained ones, exactly.
fn judge(report: &mut Report, sites: &[Site], results: &Results) -> Result<(), String> {
    let (mut killed, mut timed_out, mut survived) = (0, 0, 0);
    for site in sites {
        let verdict = results.get(site).ok_or_else(|| format!("{} has no verdict", site.name()))?;
        let outcome = match (&verdict, &site.mark) {
            (Verdict::Survived, None) => {
                Outcome::Failed("no model noticed: add one, weaken the code, or explain".into())
            }
            (Verdict::Survived, Some(_)) => Outcome::Passed,
            (_, Some(mark)) if is_stale(mark, sites, results) => {
                Outcome::Failed("said to survive, but a model kills it: remove the remark".into())
            }
            _ => Outcome::Passed,
        };
        match verdict {
            Verdict::Killed(_) => killed += 1,
            Verdict::TimedOut(ref model) => {
                timed_out += 1;
                report.note(format!("timeout: {} in {model}", site.name()));
            }
            Verdict::Survived => survived += 1,
        }
        report.row(&format!("{verdict}  {}", site.name()), outcome, Duration::ZERO);
    }
    report.note(format!(
        "mutants: {} of one library: {killed} killed, {timed_out} killed by timeout, {survived} survived",
        sites.len()
    ));
    Ok(())
}

/// A remark is stale if none of the mutants it speaks of survived, or if one it names did not.
fn is_stale(mark: &sites::Mark, sites: &[Site], results: &Results) -> bool {
    let survives = |site: &&Site| results.get(site) == Some(Verdict::Survived);
    let same = |site: &&Site| site.mark.as_ref() == Some(mark);
    mark.named || sites.iter().filter(same).find(survives).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_killers_come_first_then_the_file_s_own_then_the_quick() {
        let second = Duration::from_secs(1);
        let times: Vec<(String, Duration)> =
            [("mutex::a", 1), ("queue::b", 5), ("parker::c", 2), ("mutex::d", 9), ("other::e", 1)]
                .map(|(name, time)| (name.to_owned(), second * time))
                .to_vec();
        let site = Site { file: "crates/tasuki/src/queue/word.rs".to_owned(), ..Site::default() };
        let names: Vec<&str> =
            order(&site, &times, &["mutex::d".to_owned()]).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["mutex::d", "queue::b", "mutex::a", "other::e", "parker::c"]);
    }
}
