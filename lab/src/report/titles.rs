//! Titles and descriptions of workloads, for a reader who has not read the lab.

/// What a cell measures.
pub(crate) fn title(workload: &str, n: u64, runtime: &str) -> String {
    let tasks = count(n, "task");
    let waiters = count(n, "waiter");
    let place = place(runtime);
    let text = match workload {
        "mutex/uncontended" => "A lock that no other task wants: lock and unlock".into(),
        "mutex/try_lock" => "A lock that no other task wants: try_lock and unlock".into(),
        "mutex/hand-off" => format!("{tasks} pass one lock on, {place}"),
        "mutex/hand-off-held" => format!("{tasks} pass one lock on and yield while they hold it, {place}"),
        "mutex/enqueue" => format!("{waiters} queue for a held lock, each"),
        "mutex/longest-wait" => format!("{tasks} share one lock {place}: the longest wait"),
        "semaphore/uncontended" => "A permit that no other task wants: acquire and release".into(),
        "semaphore/try_acquire" => "A permit that no other task wants: try_acquire and release".into(),
        "semaphore/held" => format!("{tasks} share 4 permits, {place}"),
        "semaphore/permits" => format!("64 tasks share {}, {place}", count(n, "permit")),
        "event/wait-set" => "A signal is given, and a wait finds it".into(),
        "event/ping-pong" => format!("Two tasks signal each other, {place}"),
        "wait-group/add-done" => "A member enters a group and leaves it".into(),
        "wait-group/tasks" => format!("One task waits for a group of {tasks}, each of them"),
        "barrier/arrive" => format!("{} meet at a barrier, {place}", count(n, "task")),
        "barrier/cancelled-arrival" => "Arrivals that still count after they were cancelled".into(),
        "token/check" => "A task asks whether it should stop".into(),
        "token/register-drop" => "A wait for a token, given up".into(),
        "rwlock/read" => "A read lock that no other task wants".into(),
        "rwlock/write" => "A write lock that no other task wants".into(),
        "rwlock/read-only" => "Two threads read".into(),
        "rwlock/mix-90-10" => format!("{tasks} read 90 times and write 10 times in a hundred, {place}"),
        "rwlock/mix-50-50" => format!("{tasks} read and write equally often, {place}"),
        "channel/try" => "A message is sent and received, without waiting".into(),
        "channel/ready" => "A message is sent and received, by waits that are ready".into(),
        "channel/ping-pong" => format!("Two tasks answer each other's messages, {place}"),
        "channel/hand-off" => format!("One task sends, one receives, room for one: all wait, {place}"),
        "channel/stream" => format!("One task sends to one, {place}"),
        "channel/many-to-one" => format!("8 tasks send to one, {place}"),
        "channel/many-to-one-yielding" => format!("8 tasks send to one and yield every 8 messages, {place}"),
        "channel/many-to-many" => format!("4 tasks send to 4, {place}"),
        "channel/many-to-many-yielding" => format!("4 tasks send to 4 and yield every 8 messages, {place}"),
        "channel/unbounded" => format!("8 tasks send to one without a bound, {place}"),
        "channel/oneshot" => "A reply that is there".into(),
        "channel/oneshot-waiting" => "A reply that is waited for".into(),
        "channel/cancel-recv" => format!("{waiters} for a message are cancelled, each"),
        "channel/cancel-send" => format!("{waiters} for room are cancelled, each"),
        "condvar/ping-pong" => format!("Two tasks pass a turn with a condition variable, {place}"),
        "time/arm-drop" if n == 1 => "A time limit, set and dropped".into(),
        "time/arm-drop" => format!("{} time limits set together, dropped in random order, each", grouped(n)),
        "parker/unpark-set" => "Unpark a thread that has its token".into(),
        "parker/token-round" => "Unpark and park on one thread".into(),
        "parker/hop" => "One thread wakes another".into(),
        _ => return family(workload, n, runtime),
    };
    capitalised(&text)
}

/// Names that are made of parts.
fn family(workload: &str, n: u64, runtime: &str) -> String {
    let (tasks, waiters, place) = (count(n, "task"), count(n, "waiter"), place(runtime));
    let (head, last) = workload.rsplit_once('/').unwrap_or(("", workload));
    let text = match (head, last) {
        ("mutex/cancel", order) => {
            let order = match order {
                "fifo" => "oldest first",
                "lifo" => "newest first",
                _ => "in random order",
            };
            format!("{waiters} give up, {order}, each")
        }
        ("event/wake-all" | "wait-group/release" | "token/cancel", phase) => {
            let what = match head {
                "event/wake-all" => "an event",
                "wait-group/release" => "the end of a group",
                _ => "a cancellation",
            };
            let phase = match phase {
                "register" => "queue for it",
                "call" => "are released by one call",
                _ => "find that it has come",
            };
            format!("{waiters} of {what} {phase}, each")
        }
        ("runtime", "spawn-join") => format!("{tasks} spawned from outside and awaited, each"),
        ("runtime", "spawn-inside") => format!("{tasks} spawned by a task and awaited, each"),
        ("runtime", "chained-spawn") => "A task that spawns the next one and ends".into(),
        ("runtime", "yield") => format!("{tasks} yield in turn"),
        ("runtime", "self-wake") => format!("{tasks} wake themselves in turn"),
        ("runtime", "ping-pong") => "A thread wakes a task on another processor".into(),
        ("runtime", "timers") => format!("{} sleeps set together, dropped in random order, each", grouped(n)),
        ("runtime", "memory") => "Memory of a waiting task beyond its future".into(),
        ("runtime", "mutex") => format!("{tasks} share one lock on two threads of each runtime"),
        ("net", what) => net(what, n),
        ("inspect", what) => inspect(what, n),
        ("runtime", "hand-off") => format!("{tasks} hand one lock off on two threads of each runtime"),
        _ if workload.starts_with("mutex/contended/section-") => {
            let section = if workload.contains("section-100") { ", 100 ns at a time" } else { "" };
            let yields = if last == "yield" { ", and yield after each turn" } else { "" };
            format!("{tasks} share one lock {place}{section}{yields}")
        }
        _ if workload.contains("/size") => {
            let what =
                workload.replace("/size/future", ": a wait").replace("/size/lock", "").replace("/size", "");
            format!("Size of the {what}")
        }
        _ => format!("{workload}, n = {n}, {runtime}"),
    };
    capitalised(&text)
}

/// What the numbers along a curve count.
pub(crate) fn axis(workload: &str) -> &'static str {
    match workload {
        "semaphore/permits" => "permits",
        name if name.starts_with("mutex/cancel") || name == "mutex/enqueue" => "waiters",
        name if name.contains("/call") => "waiters",
        "barrier/arrive" => "parties",
        _ => "tasks",
    }
}

/// The title of a curve over all numbers of a workload.
pub(crate) fn curve(workload: &str, runtime: &str) -> String {
    let place = place(runtime);
    match workload {
        "mutex/cancel/random" => "Giving up, in random order: does it cost more among more waiters?".into(),
        "mutex/hand-off" => format!("Passing a lock on, {place}: does it cost more among more tasks?"),
        "mutex/contended/section-0" => {
            format!("Sharing one lock {place}: does it cost more among more tasks?")
        }
        "event/wake-all/call" => "Releasing all waiters by one call: the cost of each of them".into(),
        "semaphore/permits" => "64 tasks share a semaphore: does it cost more with more permits?".into(),
        _ => format!("{workload}, {place}: cost against the number of {}", axis(workload)),
    }
}

/// Where tasks run.
fn place(runtime: &str) -> String {
    match runtime {
        "tokio-2" => "on two threads".into(),
        "async-executor-2" => "on two threads (async-executor)".into(),
        "async-executor-1" => "on one thread (async-executor)".into(),
        "minimal" => "on one thread".into(),
        other => format!("on {other}"),
    }
}

fn count(n: u64, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(n))
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let apart = |(place, digit): (usize, char)| {
        let comma = place > 0 && (digits.len() - place) % 3 == 0;
        [comma.then_some(','), Some(digit)]
    };
    digits.chars().enumerate().flat_map(apart).flatten().collect()
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// What is noted, and what that costs.
fn inspect(what: &str, n: u64) -> String {
    match what {
        "uncontended" => "With `inspect`: a lock that no other task wants".into(),
        "semaphore" => "With `inspect`: a permit that no other task wants".into(),
        "rwlock-read" => "With `inspect`: a read lock that no other task wants".into(),
        "wait-grant" => "With `inspect`: a wait, its grant and its claim, without a scheduler".into(),
        "contended" => format!("With `inspect`: {} share one lock on tasuki-rt", count(n, "task")),
        "lock-bytes" => "With `inspect`: memory of a mutex that was used".into(),
        _ => "With `inspect`: memory of a future that waits".into(),
    }
}

/// What a workload of sockets is.
fn net(what: &str, n: u64) -> String {
    let of = |work: &str| match work {
        "hyper" => "an HTTP request",
        "accept" => "a connection that is made, used once and closed",
        _ => "a request to a store",
    };
    let connections = count(n, "connection");
    match what.split_once('-') {
        None => match what {
            "echo" => format!("A request that is sent back, {connections}"),
            "kv" => format!("A request to a store, {connections}"),
            "hyper" => format!("An HTTP request, {connections}"),
            "accept" => format!("A connection is made, used once and closed, {n} at a time"),
            "memory" => format!("Memory of an idle connection, task and socket, of {}", grouped(n)),
            _ => format!(
                "Processor time of a server with {}, while the client sleeps",
                count(n, "idle connection")
            ),
        },
        Some((work, "server-time")) => {
            format!("Processor time of the server for {}, {connections}", of(work))
        }
        Some((work, "calls")) => format!("System calls of the server for {}, {connections}", of(work)),
        Some((work, "p50")) => format!("One answer in two to {} is later, {connections}", of(work)),
        Some((work, "p99")) => format!("One answer in a hundred to {} is later, {connections}", of(work)),
        Some((work, _)) => format!("One answer in a thousand to {} is later, {connections}", of(work)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Bench, Plan};

    #[test]
    fn every_cell_has_words_of_its_own() {
        let all = |bench: &mut Bench| crate::workload::FAMILIES.iter().for_each(|(_, run)| run(bench));
        let cells = Bench::list(Plan::FULL, all);
        let mut titles: Vec<String> =
            cells.iter().map(|cell| title(&cell.workload, cell.n, &cell.runtime)).collect();
        for (cell, title) in cells.iter().zip(&titles) {
            assert!(!title.contains(&cell.workload), "{title}");
        }
        titles.sort();
        let before = titles.len();
        titles.dedup();
        assert_eq!(titles.len(), before, "{titles:#?}");
    }

    #[test]
    fn the_words_are_a_users() {
        let of = |workload, n, runtime| title(workload, n, runtime);
        assert_eq!(of("mutex/contended/section-0", 16, "tokio-2"), "16 tasks share one lock on two threads");
        assert_eq!(
            of("mutex/cancel/lifo", 1_000_000, "none"),
            "1,000,000 waiters give up, newest first, each"
        );
        assert_eq!(of("net/kv", 1, "own"), "A request to a store, 1 connection");
    }
}
