//! The table of the README that compares the primitives with those of peers: what a peer has is run here, and what it does not have is looked for in its sources.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;
use std::task::{Context, Poll, Waker};

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Whether a newcomer gets a lock that is released while a task waits for it. `$held` holds it, `$lock` waits, `$try` is true if the newcomer has it.
macro_rules! newcomer_passes {
    ($mutex:ident, $held:expr, $try:expr) => {{
        let held = $held;
        let mut waits = pin!($mutex.lock());
        assert!(poll(waits.as_mut()).is_pending());
        drop(held);
        let passes: bool = $try;
        assert!(passes || poll(waits.as_mut()).is_ready(), "the waiter has it, or the newcomer");
        passes
    }};
}

#[test]
fn which_mutexes_serve_their_waiters_in_order() {
    let mutex = tasuki::Mutex::new(());
    assert!(!newcomer_passes!(mutex, mutex.try_lock().unwrap(), mutex.try_lock().is_some()));
    let mutex = tokio::sync::Mutex::new(());
    assert!(!newcomer_passes!(mutex, mutex.try_lock().unwrap(), mutex.try_lock().is_ok()));
    let mutex = asyncband::mutex::Mutex::new(());
    assert!(!newcomer_passes!(mutex, mutex.try_lock().unwrap(), mutex.try_lock().is_some()));
    let mutex = async_lock::Mutex::new(());
    assert!(newcomer_passes!(mutex, mutex.try_lock().unwrap(), mutex.try_lock().is_some()));
    // As an option: the second argument.
    let mutex = futures_intrusive::sync::Mutex::new((), true);
    assert!(!newcomer_passes!(mutex, mutex.try_lock().unwrap(), mutex.try_lock().is_some()));
    let mutex = futures_intrusive::sync::Mutex::new((), false);
    assert!(newcomer_passes!(mutex, mutex.try_lock().unwrap(), mutex.try_lock().is_some()));
}

#[test]
fn which_reader_writer_locks_can_be_upgraded() {
    let lock = tasuki::RwLock::new(1);
    let reader = lock.try_upgradable_read().unwrap();
    *tasuki::RwLockUpgradableReadGuard::try_upgrade(reader).unwrap() = 2;
    let lock = async_lock::RwLock::new(1);
    let reader = lock.try_upgradable_read().unwrap();
    *async_lock::RwLockUpgradableReadGuard::try_upgrade(reader).unwrap() = 2;
    // The others have readers and writers.
    let lock = tokio::sync::RwLock::new(1);
    assert_eq!(*lock.try_read().unwrap() + *lock.try_read().unwrap(), 2);
    assert!(lock.try_write().is_ok());
    let lock = asyncband::rwlock::RwLock::new(1);
    assert_eq!(*lock.try_read().unwrap() + *lock.try_read().unwrap(), 2);
    assert!(lock.try_write().is_some());
}

#[test]
fn which_events_reset_themselves() {
    let event = asyncband::event::AutoResetEvent::new();
    event.set();
    assert!(poll(pin!(event.wait())).is_ready() && poll(pin!(event.wait())).is_pending());
    let event = asyncband::event::ManualResetEvent::new();
    event.set();
    assert!(poll(pin!(event.wait())).is_ready() && poll(pin!(event.wait())).is_ready());
    let event = futures_intrusive::sync::ManualResetEvent::new(false);
    event.set();
    assert!(poll(pin!(event.wait())).is_ready() && poll(pin!(event.wait())).is_ready());
    // `Notify` keeps one signal, however many were given, and a signal to all only for those that wait.
    let notify = tokio::sync::Notify::new();
    notify.notify_one();
    notify.notify_one();
    assert!(poll(pin!(notify.notified())).is_ready() && poll(pin!(notify.notified())).is_pending());
    notify.notify_waiters();
    assert!(poll(pin!(notify.notified())).is_pending());
}

#[test]
fn asyncband_has_a_condition_variable_and_a_wait_group() {
    let (mutex, condvar) = (asyncband::mutex::Mutex::new(false), asyncband::condvar::Condvar::new());
    let mut waits = pin!(condvar.wait(mutex.try_lock().unwrap()));
    assert!(poll(waits.as_mut()).is_pending());
    condvar.notify_one();
    assert!(poll(waits.as_mut()).is_ready());
    let group = asyncband::waitgroup::WaitGroup::new();
    let member = group.clone();
    let mut waits = pin!(std::future::IntoFuture::into_future(group));
    assert!(poll(waits.as_mut()).is_pending());
    drop(member);
    assert!(poll(waits.as_mut()).is_ready());
}

/// A limit of ours gives back what the wait was given. Those of peers drop the future, and what is in it.
#[test]
fn what_a_timeout_gives_back() {
    let lock = tasuki::RwLock::new(1);
    let (reader, upgradable) = (lock.try_read(), lock.try_upgradable_read().unwrap());
    let upgrade = tasuki::RwLockUpgradableReadGuard::upgrade(upgradable);
    let ended = upgrade.deadline(std::time::Instant::now()).block();
    let Err(tasuki::GivenBack { value, .. }) = ended else { panic!("a reader is inside") };
    assert_eq!(*value, 1);
    drop(reader);
}

#[test]
fn futures_intrusive_has_a_channel_without_room_and_none_that_broadcasts_a_sequence() {
    use futures_intrusive::channel::{StateBroadcastChannel, StateId, UnbufferedChannel};
    let channel = UnbufferedChannel::<i32>::new();
    let mut sends = pin!(channel.send(1));
    assert!(poll(sends.as_mut()).is_pending());
    assert_eq!(poll(pin!(channel.receive())), Poll::Ready(Some(1)));
    // Its broadcast of a state is a watch: only the newest is seen.
    let state = StateBroadcastChannel::<i32>::new();
    state.send(1).unwrap();
    state.send(2).unwrap();
    let Poll::Ready(Some((_, seen))) = poll(pin!(state.receive(StateId::new()))) else {
        panic!("there is a state")
    };
    assert_eq!(seen, 2);
}

/// The types of each peer that the table says it does not have; and one that it has, so that a search that reads nothing fails.
#[test]
fn what_peers_do_not_have() {
    let absent: [(&str, &str, &str, &[&str]); 4] = [
        (
            "tokio",
            "src/sync",
            "Mutex",
            &[
                "Condvar",
                "WaitGroup",
                "Latch",
                "AutoResetEvent",
                "ManualResetEvent",
                "Rendezvous",
                "RwLockUpgradableReadGuard",
            ],
        ),
        (
            "async-lock",
            "src",
            "Mutex",
            &[
                "Condvar",
                "WaitGroup",
                "Latch",
                "Event",
                "AutoResetEvent",
                "ManualResetEvent",
                "Sender",
                "Channel",
            ],
        ),
        ("asyncband", "src", "Mutex", &["Rendezvous", "RwLockUpgradableReadGuard"]),
        (
            "futures-intrusive",
            "src",
            "GenericMutex",
            &[
                "RwLock",
                "GenericRwLock",
                "Condvar",
                "WaitGroup",
                "Latch",
                "Barrier",
                "AutoResetEvent",
                "UnboundedChannel",
            ],
        ),
    ];
    for (package, folder, present, absent) in absent {
        let sources = sources(&package_folder(package).join(folder));
        let has = |name: &str| {
            let defines = |line: &str, kind: &str| {
                line.split(kind)
                    .skip(1)
                    .any(|rest| rest.split(|c: char| !c.is_alphanumeric()).next() == Some(name))
            };
            sources.lines().any(|line| defines(line, "struct ") || defines(line, "type "))
        };
        assert!(has(present), "{package} has a {present}");
        for name in absent {
            assert!(!has(name), "{package} has a {name}: the README says that it has not");
        }
        // A limit is no method of a wait; `tokio::sync::mpsc::Sender::send_timeout` is another function.
        assert!(!sources.contains("fn timeout("), "{package}");
    }
}

/// Which peers can do without the standard library, and without an allocator.
#[test]
fn which_peers_need_the_standard_library() {
    let root = |package: &str| fs::read_to_string(package_folder(package).join("src/lib.rs")).unwrap();
    for (package, without_std, needs_allocator) in [
        ("tokio", false, true),
        ("asyncband", false, true),
        ("async-lock", true, true),
        ("futures-intrusive", true, false),
    ] {
        let root = root(package);
        assert_eq!(root.contains("no_std"), without_std, "{package}");
        // An `extern crate alloc` without a condition before it.
        let allocates = root.contains("\n\nextern crate alloc;");
        assert_eq!(allocates || !without_std, needs_allocator, "{package}");
    }
}

/// The platform of this machine, as cargo calls it.
fn platform() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().expect("rustc runs");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc knows its host").to_owned()
}

/// Where the sources of a dependency are. Asked for this platform alone; of the other packages of the workspace cargo may fetch what
/// a run of these tests alone did not need.
fn package_folder(package: &str) -> PathBuf {
    let platform = platform();
    let words = [
        "metadata",
        "--filter-platform",
        &platform,
        "--format-version",
        "1",
        "--locked",
        "--manifest-path",
        concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
    ];
    let output = Command::new(env!("CARGO")).args(words).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata = String::from_utf8(output.stdout).expect("JSON");
    let manifests = metadata.split("\"manifest_path\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let is_it = |folder: &Path| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let version = name.strip_prefix(package).and_then(|rest| rest.strip_prefix('-'));
        version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    };
    let mut folders =
        manifests.filter_map(|manifest| Path::new(manifest).parent()).filter(|folder| is_it(folder));
    folders.next().unwrap_or_else(|| panic!("{package} is a dependency")).to_owned()
}

/// The code of all Rust files below a folder, without comments.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).expect("there are sources") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            text += &sources(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let file = fs::read_to_string(&path).expect("it can be read");
            let code = file.lines().filter(|line| !line.trim_start().starts_with("//"));
            code.for_each(|line| text.extend([line, "\n"]));
        }
    }
    text
}
