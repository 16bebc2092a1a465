//! `Serialize` for the values of `inspect`, with the feature `serde`. The only file that knows it.
//!
//! Tasks and locks are numbers, places are strings as compilers print them (`src/main.rs:3:18`), times are nanoseconds, histograms the counts of their classes.

use super::{
    Certainty, Deadlock, Durations, Hold, HolderSnapshot, Hop, LockKind, LockLabel, LockSnapshot, Snapshot,
    TaskLabel, WaitSite, WaitSnapshot,
};
use core::fmt::Display;
use core::panic::Location;
use core::time::Duration;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::string::{String, ToString};
use std::vec::Vec;

/// Serialises a struct: its name, and each field with its value.
macro_rules! fields {
    ($to:expr, $name:literal, $($field:literal: $value:expr),+ $(,)?) => {{
        let fields: &[&str] = &[$($field),+];
        let mut out = $to.serialize_struct($name, fields.len())?;
        $(out.serialize_field($field, &$value)?;)+
        out.end()
    }};
}

fn place(at: Option<&'static Location<'static>>) -> Option<String> {
    at.map(ToString::to_string)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The number of a lock, and its label.
fn lock(lock: Option<(u64, LockLabel)>) -> (Option<u64>, Option<LockLabel>) {
    lock.unzip()
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fields!(to, "Snapshot",
            "locks": self.locks,
            "total_locks": self.total_locks,
            "waits": self.waits,
            "total_waits": self.total_waits,
            "sites": self.sites,
            "deadlocks": self.deadlocks,
            "tasks": self.tasks,
        )
    }
}

impl Serialize for TaskLabel {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fields!(to, "TaskLabel",
            "task": self.task.get(),
            "name": self.name.as_deref(),
            "spawned_at": place(self.spawned_at),
        )
    }
}

impl Serialize for LockSnapshot {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fields!(to, "LockSnapshot",
            "id": self.id,
            "label": self.label,
            "holders": self.holders,
            "waiters": self.waiters,
            "contentions": self.contentions,
            "longest_queue": self.longest_queue,
            "waited": self.waited,
            "held": self.held,
        )
    }
}

impl Serialize for LockLabel {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fields!(to, "LockLabel", "kind": self.kind, "name": self.name, "made_at": place(self.made_at))
    }
}

impl Serialize for HolderSnapshot {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fields!(to, "HolderSnapshot", "task": self.task.get(), "hold": self.hold, "at": place(self.at))
    }
}

impl Serialize for WaitSnapshot {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (id, label) = lock(self.lock);
        fields!(to, "WaitSnapshot",
            "task": self.task.get(),
            "future": self.future,
            "at": place(self.at),
            "waited": nanoseconds(self.waited),
            "is_limited": self.is_limited,
            "is_granted": self.is_granted,
            "lock": id,
            "label": label,
            "behind": self.behind,
        )
    }
}

impl Serialize for WaitSite {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (id, label) = lock(self.lock);
        fields!(to, "WaitSite",
            "future": self.future,
            "at": place(self.at),
            "lock": id,
            "label": label,
            "count": self.count,
            "longest": nanoseconds(self.longest),
        )
    }
}

impl Serialize for Deadlock {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fields!(to, "Deadlock", "certainty": self.certainty, "hops": self.hops, "tasks": self.tasks)
    }
}

impl Serialize for Hop {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fields!(to, "Hop",
            "task": self.task.get(),
            "waits_at": place(self.waits_at),
            "waited": nanoseconds(self.waited),
            "future": self.future,
            "lock": self.lock,
            "holder": self.holder,
        )
    }
}

impl Serialize for Durations {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let counts: Vec<u32> = self.buckets().map(|(_, count)| count).collect();
        counts.serialize(to)
    }
}

impl Serialize for LockKind {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self as &dyn Display)
    }
}

impl Serialize for Hold {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(match self {
            Self::Taken => "taken",
            Self::Unclaimed => "unclaimed",
            Self::Queued => "queued",
        })
    }
}

impl Serialize for Certainty {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(match self {
            Self::Deadlock => "deadlock",
            Self::Futurelock => "futurelock",
            Self::Suspected => "suspected",
        })
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::super::tests::Actor;
    use std::boxed::Box;
    use std::string::ToString as _;

    /// A snapshot as JSON: the deadlock, the wait and its site, the lock with its holder and histograms.
    #[test]
    fn a_snapshot_is_serialised() {
        let (me, mutex) = (Actor::new(), crate::Mutex::new(0).named("serialised"));
        let _held = me.run(|| mutex.try_lock().unwrap());
        let mut wait = Box::pin(mutex.lock());
        assert!(me.poll(wait.as_mut()).is_pending());
        let json = serde_json::to_value(crate::inspect::snapshot()).unwrap();
        let of = |list: &str, has: &dyn Fn(&serde_json::Value) -> bool| {
            json[list].as_array().unwrap().iter().find(|one| has(one)).unwrap().clone()
        };
        let lock = of("locks", &|lock| lock["label"]["name"] == "serialised");
        assert_eq!((&lock["label"]["kind"], &lock["waiters"]), (&"mutex".into(), &1.into()));
        assert_eq!(
            (&lock["holders"][0]["task"], &lock["holders"][0]["hold"]),
            (&me.number().into(), &"taken".into())
        );
        let classes = [&lock["waited"], &lock["held"]].map(|counts| counts.as_array().unwrap().len());
        assert_eq!(classes, [super::super::durations::CLASSES; 2]);
        let wait = of("waits", &|wait| wait["task"] == me.number());
        let site = of("sites", &|site| site["lock"] == lock["id"]);
        assert!(
            wait["lock"] == lock["id"] && wait["behind"][0]["task"] == me.number() && wait["waited"].is_u64()
        );
        assert!(
            site["count"] == 1
                && site["at"] == wait["at"]
                && wait["at"].to_string().contains("serialize.rs:")
        );
        let deadlock = of("deadlocks", &|one| one["hops"][0]["task"] == me.number());
        assert_eq!(
            (&deadlock["certainty"], &deadlock["hops"][0]["lock"]["name"]),
            (&"deadlock".into(), &"serialised".into())
        );
        assert!(json["total_waits"].as_u64().unwrap() >= 1 && json["total_locks"].as_u64().unwrap() >= 1);
    }
}
