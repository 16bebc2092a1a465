//! Condition variables: two tasks that take turns.

use super::{minimal, now};
use crate::measure::{Bench, Contender, Group, Sample};
use crate::peer::AsyncCondvar;
use crate::peers::{VisitCondvar, each_condvar};
use std::rc::Rc;

/// Measures every condition variable.
pub(crate) fn run(bench: &mut Bench) {
    let mut build = Build(Vec::new());
    each_condvar(&mut build);
    build.0.push(minimal::alone(2));
    bench.group(Group::on_one_thread("condvar/ping-pong", 2, minimal::NAME, 64, build.0));
}

struct Build(Vec<Contender>);

impl VisitCondvar for Build {
    fn visit<C: AsyncCondvar>(&mut self) {
        self.0.push(Contender { subject: C::NAME, kind: C::KIND, run: Box::new(ping_pong::<C>) });
    }
}

/// The value in the mutex counts the turns; an operation is one turn.
fn ping_pong<C: AsyncCondvar>(ops: u64) -> Sample {
    let turns = ops.next_multiple_of(2);
    let table = Rc::new(C::new());
    let reading = minimal::run((0..2).map(|me| play(table.clone(), me, turns)));
    assert_eq!(*now!(table.lock()), turns, "{}: every turn was taken", C::NAME);
    Sample::alone(turns, reading)
}

/// One player: waits until the count is its own, and makes it the other's.
async fn play<C: AsyncCondvar>(table: Rc<C>, me: u64, turns: u64) {
    loop {
        let mut turn = table.lock().await;
        while *turn < turns && *turn % 2 != me {
            turn = table.wait(turn).await;
        }
        if *turn >= turns {
            break;
        }
        *turn += 1;
        drop(turn);
        table.notify_one();
    }
    // The other may wait for a turn that will not come.
    table.notify_one();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays briefly; the count is checked.
    struct Short;

    impl VisitCondvar for Short {
        fn visit<C: AsyncCondvar>(&mut self) {
            assert_eq!(ping_pong::<C>(101).ops, 102, "{}", C::NAME);
        }
    }

    #[test]
    fn every_condvar_keeps_the_turns() {
        each_condvar(&mut Short);
    }
}
