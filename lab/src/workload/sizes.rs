//! What a lock and a wait for it weigh.

use crate::measure::Bench;
use crate::peer::{AsyncMutex, LocalMutex};
use crate::peers::{VisitMutex, each_mutex};
use crate::report::Record;

/// Notes the sizes of every mutex, then of every wait.
pub(crate) fn run(bench: &mut Bench) {
    each_mutex(&mut Weigh { bench, waits: false });
    each_mutex(&mut Weigh { bench, waits: true });
}

struct Weigh<'a> {
    bench: &'a mut Bench,
    waits: bool,
}

impl VisitMutex for Weigh<'_> {
    fn shared<M: AsyncMutex>(&mut self) {
        self.local::<M>();
    }

    fn local<M: LocalMutex>(&mut self) {
        let (workload, bytes) = match self.waits {
            false => ("mutex/size/lock", M::LOCK_BYTES),
            true if M::BLOCKS => return,
            true => ("mutex/size/future", M::new().future_bytes()),
        };
        self.bench.note(Record::exact(workload, M::NAME, M::KIND, bytes as f64, "bytes"));
    }
}
