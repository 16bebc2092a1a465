//! Steps of one thread. The races are in `model/`, whose program includes the files beside this one.

use super::idle::{Idle, Risen};

#[test]
fn at_most_half_search() {
    let idle = Idle::new(4);
    assert!(idle.try_search() && idle.try_search() && !idle.try_search());
    assert!(!idle.found() && idle.found());
    let one = Idle::new(1);
    assert!(one.try_search() && !one.try_search());
}

#[test]
fn a_notifier_chooses_only_when_nobody_searches() {
    let idle = Idle::new(2);
    assert_eq!(idle.notify(), None);
    assert!(idle.sleep(1, false));
    assert_eq!(idle.notify(), Some(1));
    assert_eq!(idle.notify(), None);
    assert_eq!(idle.rise(1), Risen::Chosen);
    assert!(idle.sleep(1, true));
    assert_eq!(idle.rise(1), Risen::Alone);
    assert_eq!(idle.notify(), None);
}
