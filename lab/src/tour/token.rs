//! Tour stop: trees of tokens, a million deep and a million wide.

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

/// Each the child of the one before; of every other one the source is gone when the root is cancelled.
fn deep(guide: &Guide, nodes: usize) -> Result<(), String> {
    let root = CancellationSource::new();
    let (mut kept, mut parent) = (Vec::with_capacity(nodes / 2 + 1), root.child());
    for generation in 1..nodes {
        let child = parent.child();
        let grown = std::mem::replace(&mut parent, child);
        if generation % 2 == 0 {
            kept.push(grown);
        }
    }
    kept.push(parent);
    let memory = resident();
    let tokens = || kept.iter().map(CancellationSource::token);
    let early = tokens().filter(CancellationToken::stop_requested).count();
    let start = Instant::now();
    root.cancel_with("the tour is over");
    let taken = start.elapsed();
    let told = tokens().filter(|token| token.reason() == Some("the tour is over")).count();
    guide.check(
        early == 0 && told == kept.len(),
        format_args!(
            "{} generations, every other one dropped: the root's reason reaches all",
            grouped(nodes)
        ),
    )?;
    let start = Instant::now();
    drop(root);
    drop(kept);
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
