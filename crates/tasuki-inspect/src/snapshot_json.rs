//! Writes the last sample and the history as the JSON of `/snapshot.json` and `/events`. Bounded by [`LISTED`] and the sizes of the history.

use crate::history::{Heat, History, SLOT, SLOTS};
use crate::json::Json;
use crate::sample::{LISTED, Sample};
use std::collections::VecDeque;
use std::panic::Location;
use std::time::Duration;
use tasuki::inspect::{self, Certainty, Deadlock, Durations, Hold, HolderSnapshot, LockLabel};
use tasuki::task::TaskId;

/// So many holders of a lock are listed.
const HOLDERS: usize = 8;
/// So many rows of contention and pairs of blame are listed.
const ROWS: usize = 24;
/// So many deadlocks are listed, and tasks of each.
const CYCLES: usize = 16;

/// What is the same in every sample.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) process: u32,
}

fn place(json: &mut Json, key: &str, at: Option<&'static Location<'static>>) {
    json.key(key).shown(at);
}

fn time(json: &mut Json, key: &str, time: Duration) {
    json.key(key).number(time.as_millis());
}

fn label(json: &mut Json, label: &LockLabel) {
    json.key("kind").string(&label.kind.to_string());
    json.key("name").shown(label.name);
    place(json, "made_at", label.made_at);
}

/// A task, by its number. A string: more than 53 bits are no number of a script, and those of tokio's tasks have 64.
pub(crate) fn task(json: &mut Json, key: &str, id: TaskId) {
    json.key(key).string(&id.get().to_string());
}

fn holder(json: &mut Json, holder: &HolderSnapshot) {
    json.object(|json| {
        task(json, "task", holder.task);
        json.key("hold").string(match holder.hold {
            Hold::Taken => "taken",
            Hold::Unclaimed => "unclaimed",
            _ => "queued",
        });
        place(json, "at", holder.at);
    });
}

fn durations(json: &mut Json, key: &str, durations: &Durations) {
    json.key(key).array(durations.buckets(), |json, (_, count)| json.number(count));
}

/// Everything, as one line.
pub(crate) fn write(
    program: &Program,
    sample: &Sample,
    history: &History,
    uptime: Duration,
    more: impl FnOnce(&mut Json),
) -> String {
    let mut json = Json::default();
    json.object(|json| {
        json.key("program").string(&program.name);
        json.key("process").number(program.process);
        json.key("version").string(env!("CARGO_PKG_VERSION"));
        json.key("active").bool(inspect::is_active());
        time(json, "uptime_ms", uptime);
        write_waits(json, sample);
        write_locks(json, sample);
        let deadlocks = &sample.locks.deadlocks;
        json.key("total_deadlocks").number(sample.locks.total_deadlocks as u64);
        json.key("deadlocks").array(deadlocks.iter().take(CYCLES), write_deadlock);
        write_history(json, history);
        more(json);
    });
    json.into_text()
}

fn write_waits(json: &mut Json, sample: &Sample) {
    json.key("total_waits").number(sample.locks.total_waits as u64);
    json.key("waits").array(&sample.locks.waits, |json, wait| {
        json.object(|json| {
            task(json, "task", wait.task);
            json.key("future").string(wait.future);
            place(json, "at", wait.at);
            time(json, "ms", wait.waited);
            json.key("limited").bool(wait.is_limited);
            json.key("granted").bool(wait.is_granted);
            if let Some((id, of)) = &wait.lock {
                json.key("lock").string(&id.to_string());
                label(json, of);
            }
            json.key("behind_total").number(wait.behind.len() as u64);
            json.key("behind").array(wait.behind.iter().take(HOLDERS), holder);
        });
    });
    json.key("sites").array(&sample.locks.sites, |json, site| {
        json.object(|json| {
            json.key("future").string(site.future);
            place(json, "at", site.at);
            if let Some((id, of)) = &site.lock {
                json.key("lock").string(&id.to_string());
                label(json, of);
            }
            json.key("count").number(site.count as u64);
            time(json, "ms", site.longest);
        });
    });
}

fn write_locks(json: &mut Json, sample: &Sample) {
    json.key("total_locks").number(sample.locks.total_locks as u64);
    json.key("locks").array(sample.locks.locks.iter().take(LISTED), |json, lock| {
        json.object(|json| {
            // A string: more than 53 bits are no number of a script.
            json.key("id").string(&lock.id.to_string());
            label(json, &lock.label);
            json.key("holders_total").number(lock.holders.len() as u64);
            json.key("holders").array(lock.holders.iter().take(HOLDERS), holder);
            json.key("waiters").number(lock.waiters as u64);
            json.key("contentions").number(lock.contentions);
            json.key("longest_queue").number(lock.longest_queue as u64);
            durations(json, "waited", &lock.waited);
            durations(json, "held", &lock.held);
        });
    });
}

fn write_deadlock(json: &mut Json, deadlock: &Deadlock) {
    json.object(|json| {
        json.key("certainty").string(match deadlock.certainty {
            Certainty::Deadlock => "deadlock",
            Certainty::Futurelock => "futurelock",
            _ => "suspected",
        });
        json.key("hops_total").number(deadlock.hops.len() as u64);
        json.key("hops").array(deadlock.hops.iter().take(CYCLES), |json, hop| {
            json.object(|json| {
                task(json, "task", hop.task);
                place(json, "at", hop.waits_at);
                time(json, "ms", hop.waited);
                label(json, &hop.lock);
                json.key("holder");
                holder(json, &hop.holder);
            });
        });
    });
}

fn write_history(json: &mut Json, history: &History) {
    json.key("history").object(|json| {
        time(json, "slot_ms", SLOT);
        json.key("slots").number(SLOTS as u64);
        let figures = &history.figures;
        json.key("waits").array(figures, |json, one| json.number(one.waits));
        json.key("longest_ms").array(figures, |json, one| json.number(one.longest));
        json.key("tasks").array(figures, |json, one| json.number(one.tasks));
        json.key("queued").array(figures, |json, one| json.number(one.queued));
        json.key("polls").array(figures, |json, one| json.number(one.polls));
        json.key("deadlocks").array(figures, |json, one| json.number(one.deadlocks));
    });
    let mut rows: Vec<(&String, &VecDeque<Heat>, u64)> =
        history.heat.iter().map(|(name, row)| (name, row, row.iter().map(|heat| heat.sum()).sum())).collect();
    rows.sort_by(|one, other| other.2.cmp(&one.2).then_with(|| one.0.cmp(other.0)));
    json.key("heat").array(rows.into_iter().take(ROWS), |json, (name, row, _)| {
        json.object(|json| {
            json.key("lock").string(name);
            json.key("ended").array(row, |json, heat| json.number(heat.ended));
            json.key("waiters").array(row, |json, heat| json.number(heat.waiters));
        });
    });
    let mut pairs: Vec<_> = history.blame.iter().collect();
    pairs.sort_by(|one, other| other.1.total_cmp(one.1).then_with(|| one.0.cmp(other.0)));
    json.key("blame").array(pairs.into_iter().take(ROWS), |json, (pair, time)| {
        json.object(|json| {
            json.key("lock").string(&pair.lock);
            json.key("holder").string(&pair.holder);
            json.key("waiter").string(&pair.waiter);
            json.key("ms").number((*time / 1_000.0) as u64);
        });
    });
}
