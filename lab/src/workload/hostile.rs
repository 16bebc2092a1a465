//! Subjects that misbehave on purpose: the lab must report each and go on. Not part of `bench all`.

use crate::measure::{Bench, Contender, Group, Meter, Sample};
use crate::peer::Kind;
use crate::workload::Family;
use std::time::Duration;

/// The family's name on the command line, and its groups.
pub(crate) const FAMILY: Family = ("hostile", run);

/// A subject's name, whose it is said to be, and what it does with its first sample.
type Subject = (&'static str, Kind, fn());

const PEERS: [Subject; 7] = [
    ("ours-behaves", Kind::Ours, || ()),
    ("panics", Kind::Peer, || panic!("on purpose")),
    ("panics-on-another-thread", Kind::Peer, || {
        std::thread::spawn(|| panic!("elsewhere, on purpose"));
        wait_for_ever();
    }),
    ("hangs-asleep", Kind::Peer, wait_for_ever),
    ("hangs-spinning", Kind::Peer, || {
        loop {
            std::hint::spin_loop();
        }
    }),
    ("aborts", Kind::Peer, || std::process::abort()),
    ("exits", Kind::Peer, || std::process::exit(0)),
];

/// Describes a cell of misbehaving peers, one that is measured after it, and one in which ours fails.
fn run(bench: &mut Bench) {
    let mut contenders: Vec<Contender> = PEERS.into_iter().map(contender).collect();
    contenders.push(Contender {
        subject: "cannot-be-measured",
        kind: Kind::Ours,
        run: Box::new(|_| Sample::unmeasured("on purpose")),
    });
    bench.group(Group::on_one_thread("hostile/peers", 1, "none", 1, contenders));
    let calm = vec![contender(PEERS[0])];
    bench.group(Group::on_one_thread("hostile/after", 1, "none", 1, calm));
    let ours = vec![contender(("ours-panics", Kind::Ours, || panic!("ours, on purpose")))];
    bench.group(Group::on_one_thread("hostile/own", 1, "none", 1, ours));
}

fn contender((subject, kind, act): Subject) -> Contender {
    let run = move |ops: u64| {
        let meter = Meter::start();
        (0..ops).for_each(|op| assert!(std::hint::black_box(op) < ops));
        act();
        Sample::alone(ops, meter.read())
    };
    Contender { subject, kind, run: Box::new(run) }
}

fn wait_for_ever() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}
