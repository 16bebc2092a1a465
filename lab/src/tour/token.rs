//! Trees of tokens, a million deep and a million wide.

use super::{Guide, grouped, resident};
use std::time::{Duration, Instant};
use tasuki::{CancellationSource, CancellationToken};

/// Cancels two great trees from their root.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let nodes = guide.pick(1_000_000, 20_000);
    guide.live("   a chain of tokens grows");
    deep(guide, nodes)?;
    guide.live("   a bush of tokens grows");
    wide(guide, nodes)
}

/// Each the child of the one before; only the last is kept.
fn deep(guide: &Guide, nodes: usize) -> Result<(), String> {
    let root = CancellationSource::new();
    let mut last = root.child();
    for _ in 1..nodes {
        last = last.child();
    }
    let token = last.token();
    drop(last);
    let memory = resident();
    let before = token.stop_requested();
    let start = Instant::now();
    root.cancel_with("the tour is over");
    let taken = start.elapsed();
    let told = !before && token.stop_requested() && token.reason() == Some("the tour is over");
    guide.check(
        told,
        format_args!("the root of {} generations cancels the last one, with its reason", grouped(nodes)),
    )?;
    let start = Instant::now();
    drop(token);
    drop(root);
    guide.say(format_args!("       {}; {memory}", times(nodes, taken, start.elapsed())));
    Ok(())
}

/// All children of one.
fn wide(guide: &Guide, nodes: usize) -> Result<(), String> {
    let root = CancellationSource::new();
    let tokens: Vec<CancellationToken> = (0..nodes).map(|_| root.child().token()).collect();
    let memory = resident();
    let early = tokens.iter().filter(|token| token.stop_requested()).count();
    let start = Instant::now();
    root.request_cancel();
    let taken = start.elapsed();
    let told = tokens.iter().filter(|token| token.stop_requested()).count();
    guide.check(
        early == 0 && told == nodes,
        format_args!("one cancel reaches {} children whose own sources are gone", grouped(nodes)),
    )?;
    let start = Instant::now();
    drop(tokens);
    drop(root);
    guide.say(format_args!("       {}; {memory}", times(nodes, taken, start.elapsed())));
    Ok(())
}

/// How long a node took.
fn times(nodes: usize, cancelled: Duration, dropped: Duration) -> String {
    let each = |time: Duration| time.as_nanos() as f64 / nodes as f64;
    format!("cancelled in {:.0} ns a node, freed in {:.0} ns", each(cancelled), each(dropped))
}
