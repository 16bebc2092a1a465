//! `LocalRuntime`: one thread, its tasks, and what other threads do to it.

use crate::kit::{Drops, MS, runtime, scaled, until, watchdog};
use std::cell::{Cell, RefCell};
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use tasuki::{Event, Mutex};
use tasuki_rt::testing::Simulation;
use tasuki_rt::{
    EventLoop, Handle, JoinSet, LocalRuntime, LoopMutex, Runtime, WorkerId, now, sleep, spawn,
    spawn_blocking, spawn_local, timeout, yield_now,
};

fn local() -> LocalRuntime {
    LocalRuntime::new().unwrap()
}

/// The future of `block_on` may borrow, and is on an event loop; all tasks run on its thread.
#[test]
fn everything_runs_on_the_calling_thread() {
    let _dog = watchdog(60);
    let (runtime, seen) = (local(), RefCell::new(Vec::new()));
    let here = thread::current().id();
    runtime.block_on(async {
        assert!(EventLoop::current().unwrap().is_current());
        let shared = Rc::new(Cell::new(0));
        let mut set = JoinSet::new();
        for n in 0..scaled(50, 5) {
            let shared = shared.clone();
            set.spawn_local(async move {
                yield_now().await;
                shared.set(shared.get() + n);
                thread::current().id()
            });
            set.spawn(async { thread::current().id() });
            set.spawn_on(WorkerId::new(0), || async { thread::current().id() });
        }
        while let Some(thread) = set.join_next().await {
            seen.borrow_mut().push(thread.unwrap());
        }
        assert_ne!(spawn_blocking(|| thread::current().id()).await.unwrap(), here);
        let mutex = LoopMutex::new(1);
        *mutex.lock().await.unwrap() += 1;
        assert_eq!(mutex.into_inner(), 2);
    });
    assert!(seen.borrow().iter().all(|thread| *thread == here));
    assert_eq!((seen.borrow().len(), runtime.tasks()), (3 * scaled(50, 5), 0));
}

/// First come, first served: the main future is one of those that wait for their turn.
#[test]
fn the_main_future_and_its_tasks_take_turns() {
    let _dog = watchdog(60);
    let (runtime, order) = (local(), Rc::new(RefCell::new(Vec::new())));
    runtime.block_on(async {
        let other = order.clone();
        let task = spawn_local(async move {
            for _ in 0..5 {
                other.borrow_mut().push('t');
                yield_now().await;
            }
        });
        for _ in 0..5 {
            order.borrow_mut().push('m');
            yield_now().await;
        }
        task.await.unwrap();
    });
    assert_eq!(order.borrow().iter().collect::<String>(), "mtmtmtmtmt");
}

#[test]
fn tasks_stay_between_two_calls() {
    let _dog = watchdog(60);
    let (runtime, count) = (local(), Rc::new(Cell::new(0)));
    let gate = Arc::new(Event::manual());
    let (counter, wait) = (count.clone(), gate.clone());
    let task = runtime.spawn_local(async move {
        counter.set(1);
        wait.wait().await;
        counter.set(2);
    });
    assert_eq!(count.get(), 0);
    runtime.block_on(yield_now());
    runtime.block_on(yield_now());
    assert_eq!(count.get(), 1);
    // Woken from outside, between two calls.
    thread::spawn(move || gate.set()).join().unwrap();
    assert_eq!(count.get(), 1);
    runtime.block_on(task).unwrap();
    assert_eq!((count.get(), runtime.tasks()), (2, 0));
}

/// Wakes, spawns and posts of other threads end its sleep; so do its deadlines.
#[test]
fn other_threads_and_deadlines_wake_it() {
    let _dog = watchdog(60);
    let runtime = local();
    let handle = runtime.handle();
    runtime.block_on(async {
        for _ in 0..scaled(200, 3) {
            let (event, handle) = (Arc::new(Event::auto()), handle.clone());
            let (set, here) = (event.clone(), EventLoop::current().unwrap());
            let thread = thread::spawn(move || {
                let task = handle.spawn(async { Handle::current().workers() });
                here.post(move || set.set()).unwrap();
                handle.block_on(task).unwrap()
            });
            event.wait().await;
            assert_eq!(spawn_blocking(move || thread.join().unwrap()).await.unwrap(), 1);
        }
        let before = now();
        sleep(5 * MS).await;
        assert!(now() - before >= 5 * MS);
        assert!(timeout(2 * MS, pending::<()>()).await.is_err());
        let mutex = Mutex::new(0);
        let guard = mutex.lock().await;
        assert!(mutex.lock().timeout(2 * MS).await.is_err());
        drop(guard);
    });
}

/// What the thread posts before `block_on` runs before what it posts inside: it is one thread, and one loop.
#[test]
fn posts_keep_their_order_across_block_on() {
    let _dog = watchdog(60);
    let runtime = local();
    let here = runtime.block_on(async { EventLoop::current().unwrap() });
    let (order, done) = (Arc::new(std::sync::Mutex::new(Vec::new())), Arc::new(Event::manual()));
    let post = |n: usize| {
        let (order, done) = (order.clone(), done.clone());
        let note = move || {
            order.lock().unwrap().push(n);
            if n == 5 {
                done.set();
            }
        };
        here.post(note).unwrap();
    };
    (0..2).for_each(&post);
    runtime.block_on(async {
        (2..4).for_each(&post);
        yield_now().await;
        // On another loop, which ends here, the same thread is elsewhere.
        struct Posts<F: Fn(usize)>(F);
        impl<F: Fn(usize)> Drop for Posts<F> {
            fn drop(&mut self) {
                (self.0)(4);
            }
        }
        let other = local();
        let (order, here) = (order.clone(), here.clone());
        let posts = Posts(move |n| {
            let order = order.clone();
            here.post(move || order.lock().unwrap().push(n)).unwrap();
        });
        drop(other.spawn_local(async move { drop(posts) }));
        drop(other);
        post(5);
        done.wait().await;
    });
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn panics_and_nesting() {
    let _dog = watchdog(60);
    let runtime = local();
    let panicked =
        catch_unwind(AssertUnwindSafe(|| runtime.block_on(async { panic!("in the main future") })));
    assert!(panicked.is_err() && tasuki::task::current().is_none());
    runtime.block_on(async {
        assert!(spawn_local(async { panic!("in a task") }).await.unwrap_err().is_panic());
        assert!(catch_unwind(AssertUnwindSafe(|| local().block_on(async {}))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| runtime.block_on(async {}))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| drop(Mutex::new(1).lock().block()))).is_err());
        assert_eq!(spawn(async { 1 }).await.unwrap(), 1);
    });
    // Inside a task of another runtime.
    let error = self::runtime(1).block_on(async { spawn(async { local().block_on(async {}) }).await });
    assert!(error.unwrap_err().to_string().contains("`block_on` inside a task"));
    // Beside another runtime it is a thread like any other.
    let other = self::runtime(1);
    assert_eq!(other.block_on(async { other.spawn(async { 2 }).await.unwrap() }), 2);
    assert_eq!(runtime.block_on(other.spawn(async { 3 })).unwrap(), 3);
    let bad = Runtime::builder().max_blocking_threads(0).build_local();
    assert_eq!(bad.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
}

/// Tasks are dropped on the thread, in their context; running blocking work is waited for; handles are refused afterwards.
#[test]
fn the_drop_ends_everything() {
    let _dog = watchdog(60);
    let (runtime, drops) = (local(), Drops::default());
    let handle = runtime.handle();
    for polled in [false, true] {
        let held = drops.one();
        runtime.spawn_local(async move {
            let _held = (held, Rc::new(1));
            pending::<()>().await;
        });
        let held = drops.one();
        runtime.spawn(async move {
            let _held = held;
            sleep(3_600_000 * MS).await;
        });
        if !polled {
            runtime.block_on(yield_now());
        }
    }
    let (began, held) = (Arc::new(Event::manual()), drops.one());
    let begins = began.clone();
    runtime.spawn_blocking(move || {
        begins.set();
        thread::sleep(5 * MS);
        drop(held);
    });
    began.wait().block();
    let stop = runtime.spawn_local(pending::<()>()).abort_handle();
    drop(runtime);
    assert_eq!((drops.count(), handle.tasks()), (5, 0));
    assert!(stop.is_finished() && handle.is_shut_down());
    assert!(handle.block_on(handle.spawn(async {})).unwrap_err().is_shut_down());
    // Blocking work may hold the last handle.
    let runtime = local();
    let late = runtime.handle();
    let work = runtime.spawn_blocking(move || late.tasks());
    until(|| work.is_finished());
}

/// The simulation has the same functions; a local runtime inside a task of it is refused as everywhere.
#[test]
fn in_a_simulation_a_task_is_on_a_loop_as_well() {
    Simulation::new(3).run(async {
        assert_eq!(*spawn_local(async { Rc::new(7) }).await.unwrap(), 7);
        assert!(catch_unwind(AssertUnwindSafe(|| local().block_on(async {}))).is_err());
    });
}

/// Sockets are waited for by the same thread, which also runs what they bring; and an idle one is woken by both.
#[cfg(feature = "net")]
#[test]
#[cfg_attr(miri, ignore = "sockets")]
fn sockets() {
    use tasuki_rt::net::{TcpListener, TcpStream};
    let _dog = watchdog(60);
    let runtime = local();
    let echoed = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = spawn_local(async move {
            for _ in 0..3 {
                let (mut stream, _) = listener.accept().await.unwrap();
                spawn_local(async move {
                    let mut bytes = [0; 4];
                    while stream.read_exact(&mut bytes).await.is_ok() {
                        stream.write_all(&bytes).await.unwrap();
                    }
                });
            }
        });
        let total = Rc::new(Cell::new(0));
        let mut clients = JoinSet::new();
        for n in 0..3_u32 {
            let total = total.clone();
            clients.spawn_local(async move {
                let mut stream = TcpStream::connect(address).await.unwrap();
                for round in 0..20 {
                    stream.write_all(&(n + round).to_le_bytes()).await.unwrap();
                    let mut bytes = [0; 4];
                    stream.read_exact(&mut bytes).await.unwrap();
                    total.set(total.get() + u32::from_le_bytes(bytes));
                }
            });
        }
        clients.join_all().await;
        server.await.unwrap();
        total.get()
    });
    assert_eq!(echoed, 3 * 190 + 20 * 3);
    // Between two calls: what comes then is seen by the next.
    let (listener, address) = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    });
    let accepts = runtime.spawn_local(async move { listener.accept().await.is_ok() });
    runtime.block_on(yield_now());
    let client = std::net::TcpStream::connect(address).unwrap();
    assert!(runtime.block_on(accepts).unwrap());
    drop(client);
}
