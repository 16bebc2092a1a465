//! Where a panic points to, as the panic hook is told. Simulations replace the hook too, so this is alone.

use crate::kit::process::alone;
use crate::kit::{runtime, watchdog};
use std::cell::Cell;
use std::future::pending;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};
use std::time::Duration;
use tasuki::WaitGroup;
use tasuki_rt::testing::{self, Exhaustive, Simulation};
use tasuki_rt::{
    EventLoop, Handle, JoinSet, LocalRuntime, PollTimes, Runtime, TaskBuilder, TaskLocal, WaitGroupExt,
    WorkerId, spawn, spawn_blocking,
};

/// Where the last panic of this thread was, by the panic hook.
fn place_of(f: impl FnOnce()) -> String {
    thread_local! {
        static PLACE: Cell<Option<String>> = const { Cell::new(None) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PLACE.set(info.location().map(|location| location.file().to_owned()));
            before(info);
        }));
    });
    PLACE.set(None);
    catch_unwind(AssertUnwindSafe(f)).expect_err("it should panic");
    PLACE.take().expect("the hook was called")
}

static NUMBER: TaskLocal<u32> = TaskLocal::new();

#[test]
fn panics_point_to_the_caller() {
    alone(|| {
        let _dog = watchdog(60);
        let first = runtime(1);
        let other = first.block_on(first.spawn(async { EventLoop::current().unwrap().id() })).unwrap();
        let (second, group) = (runtime(1), Arc::new(WaitGroup::new()));
        let outside: [(&str, &dyn Fn()); 44] = [
            ("spawn", &|| drop(spawn(async {}))),
            ("spawn_on", &|| drop(tasuki_rt::spawn_on(WorkerId::new(0), || async {}))),
            ("spawn_local", &|| drop(tasuki_rt::spawn_local(async {}))),
            ("spawn_blocking", &|| drop(spawn_blocking(|| ()))),
            ("for_each_worker", &|| tasuki_rt::for_each_worker(|_| ())),
            ("interval", &|| _ = tasuki_rt::interval(Duration::ZERO)),
            ("Runtime::spawn_on", &|| drop(second.spawn_on(WorkerId::new(7), || async {}))),
            ("Runtime::spawn_on, another's", &|| drop(second.spawn_on(other, || async {}))),
            ("Runtime::spawn_local", &|| drop(second.spawn_local(async {}))),
            ("Handle::current", &|| drop(Handle::current())),
            ("Handle::spawn_on", &|| drop(second.handle().spawn_on(WorkerId::new(7), || async {}))),
            ("Handle::spawn_local", &|| drop(second.handle().spawn_local(async {}))),
            ("JoinHandle::abort_handle", &|| {
                let mut handle = second.spawn(async {});
                second.block_on(&mut handle).unwrap();
                drop(handle.abort_handle());
            }),
            ("JoinSet::spawn", &|| _ = JoinSet::new().spawn(async {})),
            ("JoinSet::spawn_on", &|| _ = JoinSet::new().spawn_on(WorkerId::new(0), || async {})),
            ("interval_at", &|| _ = tasuki_rt::interval_at(tasuki_rt::now(), Duration::ZERO)),
            ("LocalRuntime::spawn_on", &|| {
                drop(LocalRuntime::new().unwrap().spawn_on(WorkerId::new(1), || async {}));
            }),
            ("TaskBuilder::spawn", &|| drop(TaskBuilder::new().spawn(async {}))),
            ("TaskBuilder::spawn_on", &|| drop(TaskBuilder::new().spawn_on(WorkerId::new(0), || async {}))),
            ("TaskBuilder::spawn_local", &|| drop(TaskBuilder::new().spawn_local(async {}))),
            ("TaskBuilder::spawn_blocking", &|| drop(TaskBuilder::new().spawn_blocking(|| ()))),
            ("PollTimes::quantile", &|| _ = PollTimes::default().quantile(2.0)),
            ("TaskLocal::with", &|| NUMBER.with(|_| ())),
            ("TaskLocal::get", &|| _ = NUMBER.get()),
            ("JoinSet::spawn_local", &|| _ = JoinSet::new().spawn_local(async {})),
            ("JoinSet::spawn_blocking", &|| _ = JoinSet::new().spawn_blocking(|| ())),
            ("JoinSet::from_iter", &|| drop(JoinSet::from_iter([async {}]))),
            ("JoinSet::extend", &|| JoinSet::new().extend([async {}])),
            ("WaitGroupExt::spawn", &|| drop(group.spawn(async {}))),
            ("WaitGroupExt::spawn_on", &|| drop(group.spawn_on(WorkerId::new(0), || async {}))),
            ("WaitGroupExt::spawn_local", &|| drop(group.spawn_local(async {}))),
            ("WaitGroupExt::spawn_blocking", &|| drop(group.spawn_blocking(|| ()))),
            ("JoinSet::insert", &|| {
                let mut handle = second.spawn(async {});
                second.block_on(&mut handle).unwrap();
                JoinSet::new().insert(handle);
            }),
            ("Simulation::workers", &|| _ = Simulation::new(1).workers(0)),
            ("Simulation::workers, too many", &|| _ = Simulation::new(1).workers(65_536)),
            ("Simulation::replay", &|| _ = Simulation::replay("no schedule")),
            ("Simulation::replay, too many", &|| _ = Simulation::replay("65536@-")),
            ("Simulation::depth", &|| _ = Simulation::replay("4@-").depth(1)),
            ("Simulation::run", &|| Simulation::new(1).grace(Duration::ZERO).run(pending())),
            ("Exhaustive::workers", &|| _ = Exhaustive::new().workers(0)),
            ("Exhaustive::workers, too many", &|| _ = Exhaustive::new().workers(65_536)),
            ("Explored::expect_complete", &|| {
                Exhaustive::new().schedules(0).check(|| async {}).expect_complete();
            }),
            ("spawn_on in block_on", &|| {
                second.block_on(async { drop(tasuki_rt::spawn_on(WorkerId::new(7), || async {})) });
            }),
            ("spawn_local in block_on", &|| {
                second.block_on(async { drop(tasuki_rt::spawn_local(async {})) });
            }),
        ];
        for (name, call) in outside {
            assert!(place_of(call).ends_with("caller.rs"), "{name}: {}", place_of(call));
        }
        let nested: [(&str, fn()); 7] = [
            ("testing::check in a task", || testing::check(1, || async {})),
            ("Exhaustive::check in a task", || _ = Exhaustive::new().check(|| async {})),
            ("Simulation::run in a task", || Simulation::new(1).run(async {})),
            ("run in a task", || tasuki_rt::run(async {})),
            ("LocalRuntime::block_on in a task", || LocalRuntime::new().unwrap().block_on(async {})),
            ("Handle::block_on in a task", || Handle::current().block_on(async {})),
            ("block_on in a task", || Runtime::builder().workers(1).build().unwrap().block_on(async {})),
        ];
        for (name, call) in nested {
            let place = second.block_on(second.spawn(async move { place_of(call) })).unwrap();
            assert!(place.ends_with("caller.rs"), "{name}: {place}");
        }
    });
}
