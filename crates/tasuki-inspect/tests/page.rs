//! What the page reports of programs whose locks and waits are known.

use crate::client::{ask, events, get, inspector};
use serde_json::Value;
use std::sync::{Arc, mpsc};
use tasuki::{Barrier, Mutex};
use tasuki_rt::{Runtime, TaskBuilder};

#[test]
fn the_page_is_one_file() {
    let page = inspector().start().unwrap();
    let (head, body) = get(&page, "/");
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("text/html") && head.contains("no-store"),
        "{head}"
    );
    assert!(body.starts_with("<!doctype html>") && body.contains("</html>"));
    // No address of another server, no file beside it.
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!body.replace("url(#", "").contains(outside), "{outside}");
    }
    let (head, body) = ask(&page, "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.contains("Content-Length: ") && !head.contains("Content-Length: 0") && body.is_empty());
}

/// A deadlock is in an event that comes after it, with names, places and locks.
#[test]
fn a_planted_deadlock_is_told() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let page = inspector().runtime(&runtime.handle()).start().unwrap();
    let mut events = events(&page);
    let first = events.next().expect("the last sample comes at once");
    assert!(first["active"] == true && first["runtimes"][0]["workers"].as_array().unwrap().len() == 2);
    let shared = Arc::new((Mutex::new(0).named("left"), Mutex::new(0).named("right"), Barrier::new(2)));
    for (name, is_first) in [("one", true), ("two", false)] {
        let shared = shared.clone();
        drop(TaskBuilder::new().name(name).on(&runtime.handle()).spawn(async move {
            let (left, right) = if is_first { (&shared.0, &shared.1) } else { (&shared.1, &shared.0) };
            let _first = left.lock().await;
            shared.2.arrive_and_wait().await;
            let _second = right.lock().await;
        }));
    }
    runtime.start().unwrap();
    let is_it =
        |deadlock: &Value| deadlock["hops"].as_array().unwrap().iter().any(|hop| hop["name"] == "left");
    let found = events.find_map(|event| {
        // A sample is not of one moment: the waits were looked at before the cycles.
        event["waits"].as_array().unwrap().iter().find(|wait| wait["name"] == "left")?;
        let deadlock = event["deadlocks"].as_array().unwrap().iter().find(|one| is_it(one)).cloned()?;
        // While the poll that closed it runs, it is suspected.
        (deadlock["certainty"] == "deadlock").then_some((event, deadlock))
    });
    let (event, deadlock) = found.expect("events go on");
    assert_eq!(deadlock["hops_total"], 2);
    assert!(
        deadlock["hops"][0]["at"].as_str().unwrap().contains("page.rs:")
            && deadlock["hops"][0]["holder"]["hold"] == "taken"
    );
    let names = |task: &Value| task["name"].as_str().map(str::to_owned);
    let mut tasks: Vec<_> =
        event["runtimes"][0]["tasks"].as_array().unwrap().iter().filter_map(names).collect();
    tasks.sort();
    assert_eq!(tasks, ["one", "two"]);
    let lock = event["locks"].as_array().unwrap().iter().find(|lock| lock["name"] == "left").unwrap();
    assert!(
        lock["waiters"] == 1
            && lock["holders"][0]["task"].as_str().is_some_and(|task| task.parse::<u64>().is_ok())
            && lock["waited"].as_array().unwrap().len() == 24
    );
    let wait = event["waits"].as_array().unwrap().iter().find(|wait| wait["lock"] == lock["id"]).unwrap();
    assert_eq!(wait["behind"][0]["task"], lock["holders"][0]["task"]);
    // The next sample blames the place where it was taken, and has a row of contention.
    let later = events.find(|event| {
        event["blame"]
            .as_array()
            .unwrap()
            .iter()
            .any(|pair| pair["lock"] == "mutex `left`" && pair["holder"] == wait["behind"][0]["at"])
    });
    let later = later.expect("events go on");
    assert!(later["heat"].as_array().unwrap().iter().any(|row| row["lock"] == "mutex `left`"));
    let text = get(&page, "/dump.txt").1;
    assert!(
        text.contains("deadlock: 2 tasks wait for each other") && text.contains("`one`, spawned at"),
        "{text}"
    );
}

/// Every worker is stuck in a poll: the page answers, and says which poll it is.
#[test]
fn it_answers_while_every_worker_is_stuck() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.start().unwrap();
    let page = inspector().runtime(&runtime.handle()).start().unwrap();
    let ((stuck, is_stuck), (gate, opened)) = (mpsc::channel(), mpsc::channel::<()>());
    drop(TaskBuilder::new().name("blocks").on(&runtime.handle()).spawn(async move {
        stuck.send(()).unwrap();
        let _ = opened.recv();
    }));
    is_stuck.recv().unwrap();
    let text = get(&page, "/dump.txt").1;
    assert!(text.contains("`blocks`") && text.contains("runs on worker 0, 1 poll"), "{text}");
    let runs = |event: &Value| {
        let tasks = event["runtimes"][0]["tasks"].as_array().unwrap();
        tasks.iter().any(|task| {
            task["name"] == "blocks"
                && task["state"] == "running"
                && task["worker"] == "0"
                && task["same_poll_ms"] != 0
        })
    };
    assert!(events(&page).any(|event| runs(&event)), "seen twice in the same poll");
    drop(gate);
}

/// The end of the page ends its streams.
/// Numbers of tasks that are no number of a script, as of tasks that are known by their wakers, are told apart.
#[test]
fn a_deadlock_of_threads_is_told() {
    let page = inspector().start().unwrap();
    let mut events = events(&page);
    let locks = Arc::new(["thread a", "thread b"].map(|name| Mutex::new(0).named(name)));
    let both_have_one = Arc::new(std::sync::Barrier::new(2));
    for order in [[0, 1], [1, 0]] {
        let (locks, both_have_one) = (locks.clone(), both_have_one.clone());
        // They wait for ever.
        std::thread::spawn(move || {
            let [first, second] = order.map(|at: usize| &locks[at]);
            let _held = first.lock().block();
            both_have_one.wait();
            drop(second.lock().block());
        });
    }
    let hops = events.find_map(|event| {
        let deadlocks = event["deadlocks"].as_array().unwrap();
        let mut all = deadlocks.iter().map(|deadlock| deadlock["hops"].as_array().unwrap());
        all.find(|hops| hops.iter().any(|hop| hop["name"] == "thread a")).cloned()
    });
    let hops = hops.expect("events go on");
    let tasks: Vec<u64> = hops.iter().map(|hop| hop["task"].as_str().unwrap().parse().unwrap()).collect();
    assert!(tasks.len() == 2 && tasks[0] != tasks[1] && tasks[0] >> 53 != 0, "{tasks:?}");
    assert_eq!(hops[0]["holder"]["task"], hops[1]["task"]);
}

#[test]
fn the_page_ends() {
    let page = inspector().start().unwrap();
    let mut events = events(&page);
    assert!(events.next().is_some());
    drop(page);
    // What was sent before can still be read; then it ends.
    events.for_each(drop);
}
