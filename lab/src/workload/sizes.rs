//! What a lock and a wait for it weigh.

use crate::measure::Bench;
use crate::peer::{AsyncMutex, Kind, LocalMutex};
use crate::peers::{VisitMutex, each_mutex};
use crate::report::Record;

/// Notes the sizes of every mutex.
pub(crate) fn run(bench: &mut Bench) {
    each_mutex(&mut Weigh(bench));
}

struct Weigh<'a>(&'a mut Bench);

impl Weigh<'_> {
    fn note(&mut self, workload: &str, subject: &'static str, kind: Kind, bytes: usize) {
        self.0.note(Record::exact(workload, subject, kind, bytes as f64, "bytes"));
    }
}

impl VisitMutex for Weigh<'_> {
    fn shared<M: AsyncMutex>(&mut self) {
        self.local::<M>();
    }

    fn local<M: LocalMutex>(&mut self) {
        self.note("mutex/size/lock", M::NAME, M::KIND, M::LOCK_BYTES);
        if !M::BLOCKS {
            self.note("mutex/size/future", M::NAME, M::KIND, M::new().future_bytes());
        }
    }
}
