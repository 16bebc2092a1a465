//! Task dumps: what is listed, in every state, and while no worker can answer.

use crate::kit::{runtime, scaled, until, watchdog};
use std::future::pending;
use std::sync::{Arc, mpsc};
use tasuki::{Event, Mutex};
use tasuki_rt::{Dump, Handle, Runtime, TaskBuilder, TaskDump, TaskState, WorkerId, spawn, yield_now};

fn named<'a>(dump: &'a Dump, name: &str) -> &'a TaskDump {
    dump.tasks.iter().find(|task| task.name.as_deref() == Some(name)).expect(name)
}

fn builder(runtime: &Runtime, name: &'static str) -> TaskBuilder {
    TaskBuilder::new().name(name).on(&runtime.handle())
}

/// Before the start: listed with their places, in a queue, never polled.
#[test]
fn tasks_that_were_never_polled_are_listed() {
    let runtime = runtime(2);
    let line = line!() + 1;
    let free = runtime.spawn(async {});
    drop(runtime.spawn_on(WorkerId::new(1), || async {}));
    let dump = runtime.dump();
    assert!(dump.is_noted && dump.total == 2 && dump.tasks.len() == 2);
    let (first, pinned) = (&dump.tasks[0], &dump.tasks[1]);
    assert_eq!((first.id, first.spawned_at.line(), first.spawned_at.file()), (free.id(), line, file!()));
    assert_eq!((first.state, first.polls, first.kind), (TaskState::Scheduled, 0, "task"));
    assert_eq!((pinned.kind, pinned.pinned_to), ("local", Some(WorkerId::new(1))));
    assert!(dump.to_string().starts_with("2 tasks: 0 running, 2 scheduled, 0 waiting\n  task "));
    drop(runtime);
}

/// Every worker blocks its thread in a poll, and one more thread blocks in blocking work: the dump is made, with what runs where and what waits in the queues.
#[test]
fn all_workers_are_stuck() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    runtime.start().unwrap();
    let (stuck, is_stuck) = mpsc::channel();
    let gates: Vec<mpsc::Sender<()>> = ["first", "second", "blocking"]
        .map(|name| {
            let (gate, opened) = mpsc::channel();
            let stuck = stuck.clone();
            let block = move || {
                stuck.send(()).unwrap();
                opened.recv().unwrap_err();
            };
            let builder = builder(&runtime, name);
            if name == "blocking" {
                drop(builder.spawn_blocking(block));
            } else {
                // The first poll never returns.
                drop(builder.spawn(async move { block() }));
            }
            is_stuck.recv().unwrap();
            gate
        })
        .into();
    drop(builder(&runtime, "behind").spawn(async {}));
    let dump = runtime.dump();
    let worker = |name| match named(&dump, name).state {
        TaskState::Running(worker) => worker.map(WorkerId::index),
        other => panic!("{name}: {other:?}"),
    };
    let mut workers = [worker("first"), worker("second")];
    workers.sort_unstable();
    assert_eq!((workers, worker("blocking")), ([Some(0), Some(1)], None));
    assert_eq!((named(&dump, "first").polls, named(&dump, "behind").polls), (1, 0));
    assert_eq!(named(&dump, "behind").state, TaskState::Scheduled);
    assert!(dump.to_string().contains("runs on a thread for blocking work, 1 poll"), "{dump}");
    drop(gates);
    until(|| runtime.dump().total == 0);
}

/// A task that waits says for what; one that is woken is in a queue; polls are counted.
#[test]
fn waits_and_polls() {
    let _dog = watchdog(60);
    let runtime = runtime(1);
    let mutex = Arc::new(Mutex::new(0).named("dumped"));
    let (taken, release) = (Arc::new(Event::manual()), Arc::new(Event::manual()));
    let (held, tells, waits) = (mutex.clone(), taken.clone(), release.clone());
    drop(builder(&runtime, "holder").spawn(async move {
        let _guard = held.lock().await;
        tells.set();
        waits.wait().await;
    }));
    let wanted = mutex.clone();
    let waiter = builder(&runtime, "waiter").spawn(async move {
        for _ in 0..3 {
            yield_now().await;
        }
        taken.wait().await;
        drop(wanted.lock().await);
    });
    runtime.start().unwrap();
    let waits_for_it = |dump: &Dump| {
        let wait = |task: &TaskDump| task.waits.iter().any(|wait| wait.lock.is_some());
        dump.tasks.iter().any(|task| task.state == TaskState::Waiting && wait(task))
    };
    until(|| waits_for_it(&runtime.dump()));
    let dump = runtime.dump();
    let (holder, waits) = (named(&dump, "holder"), named(&dump, "waiter"));
    assert!(waits.polls >= 4 && waits.waits[0].behind[0].task == holder.id, "{dump}");
    assert_eq!(waits.waits[0].lock.map(|(_, label)| label.name), Some(Some("dumped")));
    assert!(dump.to_string().contains("for the mutex `dumped`, which task"), "{dump}");
    assert_eq!(dump.places.iter().map(|place| place.waiting).sum::<usize>(), 2);
    // One thread does both, and is in this poll: the waiter is woken, and cannot run.
    let here = runtime.handle();
    let states = runtime.spawn(async move {
        release.set();
        yield_now().await;
        here.dump().tasks.iter().map(|task| task.state).collect::<Vec<_>>()
    });
    let states = runtime.block_on(states).unwrap();
    assert!(states.contains(&TaskState::Running(Some(WorkerId::new(0)))), "{states:?}");
    runtime.block_on(waiter).unwrap();
    until(|| runtime.dump().tasks.is_empty());
}

/// However a task ends, it is not listed any more, and what it was is freed.
#[test]
fn what_has_ended_is_not_listed() {
    let _dog = watchdog(60);
    let runtime = runtime(2);
    let kept = Arc::new(());
    let [one, two, three, four] = [(); 4].map(|()| kept.clone());
    let aborted = runtime.spawn(async move {
        pending::<()>().await;
        drop(one)
    });
    aborted.abort();
    let panicked = runtime.spawn(async move { panic!("{two:?} is expected") });
    runtime.block_on(async {
        assert!(aborted.await.is_err() && panicked.await.is_err());
    });
    drop(runtime.spawn(async move {
        pending::<()>().await;
        drop(three)
    }));
    until(|| runtime.dump().tasks.iter().all(|task| task.polls == 1) && runtime.dump().total == 1);
    let handle = runtime.handle();
    drop(runtime);
    let refused = handle.spawn(async move { drop(four) });
    assert!(refused.is_finished() && handle.dump().tasks.is_empty() && handle.dump().total == 0);
    assert_eq!(Arc::strong_count(&kept), 1);
}

/// What a runtime refuses is no task: it is not listed either, while its destructor runs.
#[test]
fn what_is_refused_is_not_listed() {
    struct Looks(Handle, mpsc::Sender<(usize, usize, usize)>);
    impl Drop for Looks {
        fn drop(&mut self) {
            let dump = self.0.dump();
            self.1.send((dump.tasks.len(), dump.total, self.0.tasks())).unwrap();
        }
    }
    let _dog = watchdog(60);
    let handle = runtime(1).handle();
    let (seen, all) = mpsc::channel();
    let [spawned, pinned, blocking] = [(); 3].map(|()| Looks(handle.clone(), seen.clone()));
    drop(seen);
    drop(handle.spawn(async move { drop(spawned) }));
    drop(handle.spawn_on(WorkerId::new(0), || async move { drop(pinned) }));
    drop(handle.spawn_blocking(move || drop(blocking)));
    assert_eq!(all.iter().collect::<Vec<_>>(), [(0, 0, 0); 3]);
}

/// The tasks that are asked for and few others; the totals are of all.
#[test]
fn a_limited_dump() {
    let runtime = runtime(1);
    let tasks: Vec<_> = (0..scaled(1_000, 20)).map(|_| runtime.spawn(async {})).collect();
    let wanted = tasks.last().unwrap().id();
    let dump = runtime.handle().dump_limited(3, &[wanted]);
    assert_eq!((dump.tasks.len(), dump.total, dump.places.len()), (4, tasks.len(), 1));
    assert!(dump.tasks.iter().any(|task| task.id == wanted) && dump.places[0].scheduled == tasks.len());
    assert!(dump.to_string().ends_with(&format!("and {} more", tasks.len() - 4)), "{dump}");
}

/// Dumps while tasks come and go on all workers: each sees whole tasks, and the last one none.
#[test]
fn dumps_among_tasks_that_come_and_go() {
    let _dog = watchdog(60);
    let runtime = runtime(3);
    let handle = runtime.handle();
    let dumps = std::thread::spawn(move || {
        for _ in 0..scaled(30, 3) {
            let dump = handle.dump();
            assert!(dump.tasks.iter().all(|task| task.spawned_at.file() == file!()));
            assert!(dump.tasks.windows(2).all(|pair| pair[0].id < pair[1].id), "each once");
            assert_eq!(dump.places.iter().map(tasuki_rt::SpawnPlace::count).sum::<usize>(), dump.total);
        }
    });
    runtime.block_on(async {
        for _ in 0..scaled(200, 3) {
            let crowd: Vec<_> = (0..20).map(|_| spawn(async { yield_now().await })).collect();
            for task in crowd {
                task.await.unwrap();
            }
        }
    });
    dumps.join().unwrap();
    until(|| runtime.dump().total == 0);
}

/// A report and a snapshot name the tasks of every runtime, and say where one without a name was spawned; not those of a runtime that is gone.
#[test]
fn a_deadlock_names_its_tasks() {
    let _dog = watchdog(60);
    let (gone, first, second) = (runtime(1), runtime(1), runtime(1));
    drop(gone);
    let locks = Arc::new((Mutex::new(0).named("left of names"), Mutex::new(0)));
    let met = Arc::new(tasuki::Barrier::new(2));
    let (mine, barrier) = (locks.clone(), met.clone());
    let one = builder(&first, "left").spawn(async move {
        let _held = mine.0.lock().await;
        barrier.arrive_and_wait().await;
        *mine.1.lock().await
    });
    let line = line!() + 1;
    let two = second.spawn(async move {
        let _held = locks.1.lock().await;
        met.arrive_and_wait().await;
        *locks.0.lock().await
    });
    first.start().unwrap();
    second.start().unwrap();
    let named = format!("{} `left`", one.id());
    let mine = || {
        tasuki::inspect::deadlocks()
            .into_iter()
            .find(|found| found.hops.iter().any(|hop| hop.task == one.id()))
    };
    until(|| mine().is_some());
    let report = mine().expect("it stays").to_string();
    let spawned = format!("  {} (spawned at {}:{line}:", two.id(), file!());
    assert!(report.contains(&format!("  {named} waits at ")) && report.contains(&spawned), "{report}");
    assert!(report.contains(&format!("`left of names`, which {named} took at ")), "{report}");
    let snapshot = tasuki::inspect::snapshot();
    assert!(snapshot.to_string().contains(&format!("  {named} waits at ")), "{snapshot}");
    assert!(
        snapshot.tasks.iter().any(|label| label.task == one.id() && label.name.as_deref() == Some("left"))
    );
    drop((one, two));
}
