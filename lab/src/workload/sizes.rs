//! Sizes in bytes of every mutex and of its lock future.

use crate::measure::{Bench, Contender, Group};
use crate::peer::{AsyncMutex, LocalMutex};
use crate::peers::{VisitMutex, each_mutex};

/// Notes the sizes of every mutex and of every wait.
pub(crate) fn run(bench: &mut Bench) {
    let mut weigh = Weigh { locks: Vec::new(), waits: Vec::new() };
    each_mutex(&mut weigh);
    bench.group(Group::exact("mutex/size/lock", "bytes", weigh.locks));
    bench.group(Group::exact("mutex/size/future", "bytes", weigh.waits));
}

struct Weigh {
    locks: Vec<Contender>,
    waits: Vec<Contender>,
}

impl VisitMutex for Weigh {
    fn shared<M: AsyncMutex>(&mut self) {
        self.local::<M>();
    }

    fn local<M: LocalMutex>(&mut self) {
        self.locks.push(Contender::exact(M::NAME, M::KIND, || M::LOCK_BYTES as f64));
        if !M::BLOCKS {
            self.waits.push(Contender::exact(M::NAME, M::KIND, || M::new().future_bytes() as f64));
        }
    }
}
