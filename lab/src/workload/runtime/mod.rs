//! Runtimes: what a task, a switch, a wake from elsewhere and a timer cost, each by the runtime's own means.
//!
//! Subjects differ in how many threads they have; all are in one table, because a user may choose.

mod late;
mod lock;
mod memory;
mod ping_pong;
mod spawn;
mod switch;
mod timers;

use crate::measure::{Bench, Contender, Group, Sample};
use crate::peer::TaskRuntime;
use crate::peers::{VisitRuntime, each_runtime};

/// In place of the runtime's name in reports, where the runtime is the subject.
const OWN: &str = "own";

/// Measures every runtime.
pub(crate) fn run(bench: &mut Bench) {
    memory::run(bench);
    group::<spawn::Outside>(bench);
    group::<spawn::Inside>(bench);
    group::<spawn::Chained>(bench);
    group::<switch::Yield>(bench);
    group::<switch::SelfWake>(bench);
    group::<ping_pong::PingPong>(bench);
    group::<timers::InsertCancel>(bench);
    late::run(bench);
    lock::run(bench);
}

/// Something that every runtime can be made to do.
trait Work: 'static {
    /// Its name in reports.
    const NAME: &'static str;
    /// Tasks or timers.
    const N: u64;
    /// Fewest operations of a valid sample.
    const LEAST: u64;
    /// Does about that many operations, checked.
    fn sample<R: TaskRuntime>(ops: u64) -> Sample;
}

fn group<W: Work>(bench: &mut Bench) {
    let mut build = Build::<W>(Vec::new(), std::marker::PhantomData);
    each_runtime(&mut build);
    if W::NAME == switch::Yield::NAME {
        build.0.push(switch::clock_reading());
    }
    bench.group(Group {
        probe_ops: W::LEAST,
        least_ops: W::LEAST,
        patient: true,
        ..Group::on_two_threads(W::NAME, W::N as usize, OWN, build.0)
    });
}

struct Build<W>(Vec<Contender>, std::marker::PhantomData<W>);

impl<W: Work> VisitRuntime for Build<W> {
    fn visit<R: TaskRuntime>(&mut self) {
        self.0.push(Contender { subject: R::NAME, kind: R::KIND, run: Box::new(W::sample::<R>) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest sample; it checks itself.
    struct Short<W>(std::marker::PhantomData<W>);

    impl<W: Work> VisitRuntime for Short<W> {
        fn visit<R: TaskRuntime>(&mut self) {
            let sample = W::sample::<R>(1);
            assert!(sample.ops >= 1 && sample.reading.ns > 0.0, "{} {}", W::NAME, R::NAME);
        }
    }

    fn short<W: Work>() {
        each_runtime(&mut Short::<W>(std::marker::PhantomData));
    }

    #[test]
    fn every_runtime_does_the_work() {
        short::<spawn::Outside>();
        short::<spawn::Inside>();
        short::<spawn::Chained>();
        short::<switch::Yield>();
        short::<switch::SelfWake>();
        short::<ping_pong::PingPong>();
        short::<timers::InsertCancel>();
    }
}
