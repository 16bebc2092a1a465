//! Members of a set that end: each wake is followed by a look of the owner that sees what the waker did, and a set that goes leaves nothing
//! behind.

use crate::parts::completions::{Completion, Completions};
use loom::sync::Notify;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::sync::Arc;

/// An event that one thread waits for, and whether a member has ended.
struct SetEvent {
    event: Notify,
    ended: AtomicBool,
}

type Set = Completions<SetEvent>;

fn set() -> Arc<Set> {
    Arc::new(Completions::new(SetEvent { event: Notify::new(), ended: AtomicBool::new(false) }))
}

fn wake(completion: &Arc<Completion<SetEvent>>) {
    if completion.announce() {
        completion.set.event.event.notify();
    }
}

/// As the loop of `join_next`: looks at everything that is queued, or waits.
fn look_until(set: &Set, mut wanted: impl FnMut(usize) -> bool) {
    loop {
        while let Some(completion) = set.next() {
            if wanted(completion.index) {
                return;
            }
        }
        set.event.event.wait();
    }
}

/// Two members end on two threads: each is looked at.
#[test]
fn two_members_end() {
    loom::model(|| {
        let set = set();
        let members: Vec<_> = (0..2).map(|index| Completion::new(index, set.clone())).collect();
        let enders: Vec<_> = members
            .iter()
            .map(|member| {
                let member = member.clone();
                thread::spawn(move || wake(&member))
            })
            .collect();
        let mut seen = [false; 2];
        look_until(&set, |index| {
            assert!(!std::mem::replace(&mut seen[index], true), "woken once, and looked at twice");
            seen == [true; 2]
        });
        enders.into_iter().for_each(|ender| ender.join().unwrap());
        set.close();
        assert!(
            members.iter().all(|member| Arc::strong_count(member) == 1),
            "every reference was given back"
        );
    });
}

/// A member is woken in vain, and then because it ends, while the owner looks: a look comes after the end, whether the second wake
/// queued the member again or found it queued. Otherwise the owner waits for ever.
#[test]
fn a_member_that_is_woken_twice_is_looked_at_after_its_end() {
    loom::model(|| {
        let set = set();
        let member = Completion::new(0, set.clone());
        let ender = {
            let member = member.clone();
            thread::spawn(move || {
                wake(&member);
                // Relaxed: the second wake publishes it.
                member.set.event.ended.store(true, Ordering::Relaxed);
                wake(&member);
            })
        };
        // Relaxed: as above.
        look_until(&set, |_| set.event.ended.load(Ordering::Relaxed));
        ender.join().unwrap();
        set.close();
        assert_eq!(Arc::strong_count(&member), 1, "every reference was given back");
    });
}

/// A wake against the end of the set: the completion is let go by one of them.
#[test]
fn a_wake_against_the_end_of_the_set() {
    loom::model(|| {
        let set = set();
        let member = Completion::new(0, set.clone());
        let waker = {
            let member = member.clone();
            thread::spawn(move || wake(&member))
        };
        set.close();
        waker.join().unwrap();
        assert_eq!(Arc::strong_count(&member), 1, "every reference was given back");
        drop(member);
        assert_eq!(Arc::strong_count(&set), 1);
    });
}
