//! Very many waiting tasks. Alone in its process: they would fill the lists of other tests.
#![allow(dead_code, reason = "a part of the client is used")]

#[path = "../client.rs"]
mod client;

use client::{events, inspector};
use serde_json::Value;
use std::sync::Arc;
use tasuki::Mutex;
use tasuki_rt::Runtime;

/// The answer has a bound however many tasks there are, and counts all of them.
#[test]
fn a_crowd_is_counted_and_not_listed() {
    const CROWD: usize = 20_000;
    let runtime = Runtime::builder().workers(2).build().unwrap();
    runtime.start().unwrap();
    let gate = Arc::new(Mutex::new(()).named("crowded"));
    let held = gate.try_lock().unwrap();
    for _ in 0..CROWD {
        let gate = gate.clone();
        drop(runtime.spawn(async move { drop(gate.lock().await) }));
    }
    let page = inspector().runtime(&runtime.handle()).start().unwrap();
    let all_wait = |event: &Value| {
        event["sites"]
            .as_array()
            .unwrap()
            .iter()
            .any(|site| site["name"] == "crowded" && site["count"] == CROWD)
    };
    let event = events(&page).find(all_wait).expect("events go on");
    assert!(event["total_waits"].as_u64().unwrap() >= CROWD as u64 && event["runtimes"][0]["total"] == CROWD);
    assert!(
        event["waits"].as_array().unwrap().len() <= 100
            && event["runtimes"][0]["tasks"].as_array().unwrap().len() <= 1_000
    );
    assert!(event.to_string().len() < 500_000, "{}", event.to_string().len());
    drop(held);
}
