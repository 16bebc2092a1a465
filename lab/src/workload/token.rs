//! Cancellation tokens: the check, a wait that is dropped, and many waiters released at once.

use super::release;
use crate::measure::{Bench, Contender, Group, Meter, Sample};
use crate::peer::StopCheck;
use crate::peers::{VisitStop, each_stop, each_token};
use std::hint::black_box;

/// Measures every token.
pub(crate) fn run(bench: &mut Bench) {
    let mut build = Build(Vec::new());
    each_stop(&mut build);
    bench.group(Group::on_one_thread("token/check", 1, "none", 1_000, build.0));
    release::run_give_up(bench, "token/register-drop", each_token);
    release::run(bench, "token/cancel", each_token);
}

struct Build(Vec<Contender>);

impl VisitStop for Build {
    fn visit<S: StopCheck>(&mut self) {
        self.0.push(Contender { subject: S::NAME, kind: S::KIND, run: Box::new(checks::<S>) });
    }
}

/// Asks whether to stop, of a token that was not cancelled.
fn checks<S: StopCheck>(ops: u64) -> Sample {
    let token = S::new();
    let shared = black_box(&token);
    let meter = Meter::start();
    let mut told = 0;
    for _ in 0..ops {
        told += u64::from(black_box(shared).is_requested());
    }
    let reading = meter.read();
    assert_eq!(told, 0, "{}: not requested", S::NAME);
    token.request();
    assert!(token.is_requested(), "{}: requested", S::NAME);
    Sample::alone(ops, reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks briefly.
    struct Short;

    impl VisitStop for Short {
        fn visit<S: StopCheck>(&mut self) {
            assert_eq!(checks::<S>(10).ops, 10);
        }
    }

    #[test]
    fn every_token_tells_when_asked() {
        each_stop(&mut Short);
    }
}
