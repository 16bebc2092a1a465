//! Memory as the operating system sees it: trees of cancellation sources that come and go leave none behind (B127).
#![cfg(all(target_os = "linux", not(miri)))]

use crate::kit::process::alone;
use crate::kit::watchdog::watchdog;
use tasuki::CancellationSource;

fn resident_pages() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A million children of one parent, and a million links of a chain, made and dropped: 10 MiB would be a leak of a
/// tenth of a node each.
#[test]
fn b127_the_process_does_not_grow() {
    alone(|| {
        let _dog = watchdog(120);
        let parent = CancellationSource::new();
        let mut last = parent.child();
        let mut round = || {
            for _ in 0..1_000_000 {
                drop(parent.child());
                last = last.child();
            }
        };
        round();
        let before = resident_pages();
        round();
        let grown = resident_pages().saturating_sub(before);
        assert!(grown * 4096 < 10 << 20, "{grown} pages more");
    });
}
