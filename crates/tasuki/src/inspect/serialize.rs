//! Implements serde's `Serialize` for snapshots, deadlocks and the other values of `inspect` (feature `serde`). No other file uses serde.
//!
//! Tasks and locks are numbers, places are strings as compilers print them (`src/main.rs:3:18`), times are nanoseconds, histograms the counts of their classes.

use super::{
    Certainty, Deadlock, Durations, Hold, HolderSnapshot, Hop, LockKind, LockLabel, LockSnapshot, PollState,
    Snapshot, TaskLabel, WaitSite, WaitSnapshot,
};
use core::fmt::Display;
use core::panic::Location;
use core::time::Duration;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::string::{String, ToString};
use std::vec::Vec;

/// Serialises a struct: each field with its value, and perhaps one thing more. A field that is not named does not compile.
macro_rules! fields {
    ($to:expr, $this:expr => $type:ident { $($field:ident: $value:expr),+ $(,)? } $(and $more:literal: $also:expr)?) => {{
        let $type { $($field),+ } = $this;
        let fields: &[&str] = &[$(stringify!($field),)+ $($more)?];
        let mut out = $to.serialize_struct(stringify!($type), fields.len())?;
        $(out.serialize_field(stringify!($field), &$value)?;)+
        $(out.serialize_field($more, &$also)?;)?
        out.end()
    }};
}

fn place(at: Option<&'static Location<'static>>) -> Option<String> {
    at.map(ToString::to_string)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fields!(to, self => Snapshot {
            locks: locks,
            total_locks: total_locks,
            waits: waits,
            total_waits: total_waits,
            sites: sites,
            deadlocks: deadlocks,
            total_deadlocks: total_deadlocks,
            tasks: tasks,
        })
    }
}

impl Serialize for TaskLabel {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fields!(to, self => TaskLabel {
            task: task.get(),
            name: name.as_deref(),
            spawned_at: place(*spawned_at),
            polls: polls,
            state: state,
        })
    }
}

impl Serialize for LockSnapshot {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fields!(to, self => LockSnapshot {
            id: id,
            label: label,
            holders: holders,
            unknown_holders: unknown_holders,
            waiters: waiters,
            contentions: contentions,
            longest_queue: longest_queue,
            waited: waited,
            held: held,
        })
    }
}

impl Serialize for LockLabel {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fields!(to, self => LockLabel { kind: kind, name: name, made_at: place(*made_at) })
    }
}

impl Serialize for HolderSnapshot {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fields!(to, self => HolderSnapshot { task: task.get(), hold: hold, at: place(*at) })
    }
}

impl Serialize for WaitSnapshot {
    /// `lock` is the number of the lock, `label` its name.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fields!(to, self => WaitSnapshot {
            task: task.get(),
            future: future,
            at: place(*at),
            waited: nanoseconds(*waited),
            is_limited: is_limited,
            is_granted: is_granted,
            lock: lock.map(|(id, _)| id),
            behind: behind,
        } and "label": self.lock.map(|(_, label)| label))
    }
}

impl Serialize for WaitSite {
    /// As above.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fields!(to, self => WaitSite {
            future: future,
            at: place(*at),
            lock: lock.map(|(id, _)| id),
            count: count,
            longest: nanoseconds(*longest),
        } and "label": self.lock.map(|(_, label)| label))
    }
}

impl Serialize for Deadlock {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fields!(to, self => Deadlock { certainty: certainty, hops: hops, tasks: tasks })
    }
}

impl Serialize for Hop {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        fields!(to, self => Hop {
            task: task.get(),
            waits_at: place(*waits_at),
            waited: nanoseconds(*waited),
            future: future,
            lock: lock,
            holder: holder,
        })
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

impl Serialize for PollState {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(match self {
            Self::Waiting => "waiting",
            Self::Scheduled => "scheduled",
            Self::Running => "running",
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
        assert_eq!(lock["unknown_holders"], 0);
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
