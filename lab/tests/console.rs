//! A real console is asked, over its protocol, what it sees of a program of ours: a task, a lock, and the wait of the one for the other. `cargo xtask console` runs it: the console's subscriber
//! is built with `--cfg console_without_tokio_unstable`.

use console_api::field::Value;
use console_api::instrument::instrument_client::InstrumentClient;
use console_api::instrument::{InstrumentRequest, Update};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tasuki::Mutex;

/// What the updates have told so far.
#[derive(Debug, Default)]
struct Seen {
    /// Tasks by their ids: what their fields say.
    tasks: HashMap<u64, Vec<String>>,
    /// Resources by their ids: the type, and the file in which they were made.
    resources: HashMap<u64, (String, String)>,
    /// Waits by their ids: the future, and the resource.
    waits: HashMap<u64, (String, u64)>,
    /// Waits that go on, and their tasks.
    waiting: HashMap<u64, u64>,
}

impl Seen {
    fn add(&mut self, update: Update) {
        for task in update.task_update.into_iter().flat_map(|tasks| tasks.new_tasks) {
            let texts = task.fields.into_iter().filter_map(|field| match field.value {
                Some(Value::StrVal(text) | Value::DebugVal(text)) => Some(text),
                _ => None,
            });
            self.tasks.insert(task.id.map_or(0, |id| id.id), texts.collect());
        }
        for resource in update.resource_update.into_iter().flat_map(|resources| resources.new_resources) {
            let file = resource.location.and_then(|at| at.file).unwrap_or_default();
            self.resources.insert(resource.id.map_or(0, |id| id.id), (resource.concrete_type, file));
        }
        if let Some(waits) = update.async_op_update {
            for wait in waits.new_async_ops {
                let resource = wait.resource_id.map_or(0, |id| id.id);
                self.waits.insert(wait.id.map_or(0, |id| id.id), (wait.source, resource));
            }
            for (id, stats) in waits.stats_update {
                match stats.task_id.filter(|_| stats.dropped_at.is_none()) {
                    Some(task) => self.waiting.insert(id, task.id),
                    None => self.waiting.remove(&id),
                };
            }
        }
    }

    /// A task of this name waits, by a future of this name, for a resource of this type.
    fn has(&self, task: &str, future: &str, resource: &str) -> bool {
        self.waits.iter().any(|(id, (source, lock))| {
            let waiter = self.waiting.get(id).and_then(|task| self.tasks.get(task));
            let is_resource =
                |(name, file): &(String, String)| name.ends_with(resource) && file.ends_with("console.rs");
            source.ends_with(future)
                && waiter.is_some_and(|texts| texts.iter().any(|text| text == task))
                && self.resources.get(lock).is_some_and(is_resource)
        })
    }
}

#[test]
fn a_console_sees_tasks_locks_and_waits() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    console_subscriber::ConsoleLayer::builder()
        .server_addr(([127, 0, 0, 1], port))
        .publish_interval(Duration::from_millis(50))
        .init();
    let runtime = tasuki_rt::Runtime::builder().workers(2).build().unwrap();
    let (mutex, event) = (Arc::new(Mutex::new(0).named("accounts")), Arc::new(tasuki::Event::manual()));
    let held = mutex.try_lock().unwrap();
    let spawn = |name: &str| tasuki_rt::TaskBuilder::new().name(name).on(&runtime.handle());
    let lock = mutex.clone();
    let locks = spawn("locks").spawn(async move { drop(lock.lock().await) });
    let signal = event.clone();
    let listens = spawn("listens").spawn(async move { signal.wait().await });
    let program = std::thread::spawn(move || runtime.block_on(async { (locks.await, listens.await) }));
    let is_seen = |seen: &Seen| {
        seen.has("locks", "::Lock", "Mutex `accounts`") && seen.has("listens", "::WaitEvent", "::WaitEvent")
    };
    let client = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ended = client.block_on(async {
        let mut seen = Seen::default();
        let watch = async {
            let mut client = loop {
                match InstrumentClient::connect(format!("http://127.0.0.1:{port}")).await {
                    Ok(client) => break client,
                    // Its thread has not started yet.
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            };
            let mut updates = client.watch_updates(InstrumentRequest {}).await.unwrap().into_inner();
            while !is_seen(&seen) {
                seen.add(updates.message().await.unwrap().expect("the program runs"));
            }
            drop(held);
            event.set();
            // The waits end, and the console sees that, too.
            while !seen.waiting.is_empty() {
                seen.add(updates.message().await.unwrap().expect("the program runs"));
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(60), watch).await.is_ok();
        assert!(ended, "{seen:#?}");
        ended
    });
    assert!(ended);
    let (locked, listened) = program.join().unwrap();
    assert!(locked.is_ok() && listened.is_ok());
}
