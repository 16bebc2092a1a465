//! What the system does to a process: forks, signals, a refusal to start threads.

#![cfg(all(target_os = "linux", not(miri)))]

use crate::kit::poll::{panic_of, pending, ready};
use crate::kit::process::{alone, is_alone};
use crate::kit::waker::Spy;
use crate::kit::watchdog::watchdog;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use tasuki::{Elapsed, Event, Mutex, Parker, runtime};

const MS: Duration = Duration::from_millis(1);

fn times_out() -> bool {
    Event::auto().wait().timeout(MS).block() == Err(Elapsed)
}

/// Runs `child` in a forked process; true if it said so.
fn forked(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child does nothing but what is asked of it, and ends without returning.
    match unsafe { libc::fork() } {
        -1 => panic!("no fork: {}", std::io::Error::last_os_error()),
        0 => {
            // SAFETY: no precondition. The signal ends a child that hangs.
            unsafe { libc::alarm(60) };
            let fine = child();
            // SAFETY: no precondition.
            unsafe { libc::_exit(i32::from(!fine)) }
        }
        id => {
            let mut status = -1;
            // SAFETY: our child; the status is a local.
            assert_eq!(unsafe { libc::waitpid(id, &raw mut status, 0) }, id);
            status == 0
        }
    }
}

/// The timer thread of the parent is not in the child, nor that of the child in the grandchild; the parent keeps its own.
#[test]
fn deadlines_come_after_a_fork() {
    alone(|| {
        let _dog = watchdog(120);
        assert!(times_out());
        assert!(forked(|| times_out()
            && times_out()
            && forked(|| times_out() && times_out())
            && times_out()));
        assert!(times_out());
    });
}

/// A child in a PID namespace of its own has the process id 1. Its parent has the same, if it is the first process of a container: the child has its own timer thread all the same.
#[test]
fn deadlines_come_in_a_child_with_the_id_of_its_parent() {
    /// The signal that ends a child which hangs: without a handler the first process of a namespace ignores it.
    extern "C" fn end(_signal: libc::c_int) {
        // SAFETY: no precondition.
        unsafe { libc::_exit(2) }
    }
    let has_new_namespace = |kind| {
        // SAFETY: no precondition.
        unsafe { libc::unshare(kind) == 0 }
    };
    let is_first = || std::process::id() == 1;
    alone(|| {
        let _dog = watchdog(120);
        // SAFETY: the handler ends the process, and does nothing else.
        unsafe { libc::signal(libc::SIGALRM, end as *const () as usize) };
        assert!(forked(|| {
            // In a namespace of users any process may have the other kind; root may have it without.
            let _ = has_new_namespace(libc::CLONE_NEWUSER);
            if !has_new_namespace(libc::CLONE_NEWPID) {
                println!("!!! SKIPPED: the system has no PID namespaces for this user");
                return true;
            }
            forked(|| {
                is_first()
                    && times_out()
                    && has_new_namespace(libc::CLONE_NEWPID)
                    && forked(|| is_first() && times_out() && times_out())
                    && times_out()
            })
        }));
    });
}

/// The thread that tells deadlocks is not in the child either: the child has its own, which tells the child's, and not again what its parent was told.
#[test]
#[cfg(any(debug_assertions, feature = "inspect"))]
fn deadlocks_are_told_after_a_fork() {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};
    use tasuki::{inspect, task};

    static TOLD: AtomicUsize = AtomicUsize::new(0);

    /// A task waits for itself: how many deadlocks are told until one more than `before` is.
    fn told_after(before: usize) -> usize {
        let mutex = Mutex::new(0);
        let mut stuck = pin!(task::identify(async {
            let _guard = mutex.lock().await;
            drop(mutex.lock().await);
        }));
        assert!(stuck.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        while TOLD.load(SeqCst) <= before {
            thread::sleep(MS);
        }
        // Two more looks: whatever else there is to tell is told.
        thread::sleep(1_200 * MS);
        TOLD.load(SeqCst)
    }

    alone(|| {
        let _dog = watchdog(120);
        inspect::on_deadlock(|_| {
            TOLD.fetch_add(1, SeqCst);
        });
        // Stays: it was told to the parent, and its task is not in the child.
        let mutex = Mutex::new(0);
        let mut stays = Box::pin(task::identify(async {
            let _guard = mutex.lock().await;
            drop(mutex.lock().await);
        }));
        assert!(stays.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(told_after(1), 2);
        assert!(forked(|| told_after(2) == 3 && forked(|| told_after(3) == 4)));
    });
}

/// A child that forks while another thread of its parent makes the first wait.
#[test]
fn a_fork_in_the_middle_of_the_start() {
    alone(|| {
        let _dog = watchdog(120);
        thread::scope(|scope| {
            let first = scope.spawn(times_out);
            assert!(forked(times_out));
            assert!(first.join().unwrap());
        });
        assert!(times_out());
    });
}

/// A refusal is a panic of the wait that needs the thread, with nothing lost; a later wait tries again.
#[test]
fn a_timer_thread_that_cannot_start() {
    let _dog = (!is_alone()).then(|| watchdog(120));
    alone(|| {
        // No watchdog here: its thread would still be starting when memory runs short.
        let limit = |bytes: libc::rlim_t| {
            let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: a local.
            assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limits) }, 0);
            limits.rlim_cur = bytes.min(limits.rlim_max);
            // SAFETY: a local.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limits) }, 0);
        };
        let mutex = Mutex::new(0);
        let guard = mutex.try_lock().unwrap();
        let (mut sleep, mut limited) = (Box::pin(runtime::sleep(MS)), Box::pin(mutex.lock().timeout(MS)));
        let spy = Spy::new();
        // Room for what a panic allocates, not for a stack of two megabytes.
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: libc::rlim_t = pages.split(' ').next().unwrap().parse().unwrap();
        limit(pages * 4096 + (1 << 20));
        let refused = panic_of(|| crate::kit::poll::poll(&mut sleep, &spy).is_ready());
        let refused_limit = panic_of(|| crate::kit::poll::poll(&mut limited, &spy).is_ready());
        limit(libc::rlim_t::MAX);
        assert!(refused.contains("the timer thread did not start"), "{refused}");
        assert!(refused_limit.contains("the timer thread did not start"), "{refused_limit}");
        drop(limited);
        drop(guard);
        assert!(mutex.try_lock().is_some(), "nothing was lost");
        // As if it had not been polled.
        pending(&mut sleep, &spy);
        while spy.wakes() == 0 {
            thread::yield_now();
        }
        ready(&mut sleep);
        assert!(times_out());
    });
}

/// A signal ends the sleep of the system call, and neither the park nor the wait.
#[test]
fn a_park_goes_on_after_a_signal() {
    alone(|| {
        extern "C" fn handler(_signal: libc::c_int) {
            HANDLED.fetch_add(1, SeqCst);
        }
        static HANDLED: AtomicUsize = AtomicUsize::new(0);
        let _dog = watchdog(120);
        // SAFETY: zero is a valid value of every field.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as *const () as usize;
        // SAFETY: the handler does nothing but count. Without SA_RESTART, so that the call returns.
        assert_eq!(unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) }, 0);

        let parker = Parker::new();
        let (unparker, event) = (parker.unparker(), Event::auto());
        let (given, returned) = (&AtomicBool::new(false), &AtomicUsize::new(0));
        let interrupted = |work: &(dyn Fn() + Sync), give: &dyn Fn()| {
            let (send, receive) = std::sync::mpsc::channel();
            thread::scope(|scope| {
                scope.spawn(move || {
                    // SAFETY: no precondition.
                    send.send(unsafe { libc::pthread_self() } as usize).unwrap();
                    work();
                    assert!(given.load(SeqCst), "it returned for a signal");
                    returned.fetch_add(1, SeqCst);
                });
                let thread = receive.recv().unwrap() as libc::pthread_t;
                for _ in 0..20 {
                    let before = HANDLED.load(SeqCst);
                    // SAFETY: the thread is alive: it waits for what is given below.
                    assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGUSR1) }, 0);
                    while HANDLED.load(SeqCst) == before {
                        thread::sleep(MS);
                    }
                }
                given.store(true, SeqCst);
                give();
            });
            given.store(false, SeqCst);
        };
        let (unpark, set) = (|| unparker.unpark(), || event.set());
        // The parker cannot be shared, so its thread takes it.
        let parker = std::sync::Mutex::new(parker);
        interrupted(&|| parker.lock().unwrap().park(), &unpark);
        interrupted(&|| assert!(parker.lock().unwrap().park_timeout(Duration::from_secs(600))), &unpark);
        interrupted(&|| event.wait().block(), &set);
        interrupted(&|| event.wait().timeout(Duration::from_secs(600)).block().unwrap(), &set);
        assert_eq!(returned.load(SeqCst), 4);

        // And a deadline comes, however often it is interrupted.
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            // SAFETY: no precondition.
            let waits = unsafe { libc::pthread_self() } as usize;
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(SeqCst) {
                    // SAFETY: that thread waits for this one at the end of the scope.
                    assert_eq!(unsafe { libc::pthread_kill(waits as libc::pthread_t, libc::SIGUSR1) }, 0);
                    thread::sleep(MS / 10);
                }
            });
            let began = Instant::now();
            let (parker, time) = (Parker::new(), 20 * MS);
            assert!(!parker.park_timeout(time) && began.elapsed() >= time);
            assert!(times_out());
            stop.store(true, SeqCst);
        });
    });
}

/// A waker that blocks on the thread that keeps the deadlines would stop all of them, and its own limit: it panics, as on a thread that runs tasks.
#[test]
fn a_waker_that_blocks_on_the_timer_thread() {
    use std::sync::{Arc, mpsc};
    use std::task::{Context, Wake, Waker};
    struct Blocks(mpsc::Sender<bool>);
    impl Wake for Blocks {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(std::panic::catch_unwind(times_out).is_err());
        }
    }
    alone(|| {
        let _dog = watchdog(60);
        let ((send, receive), event) = (mpsc::channel(), Event::auto());
        let mut wait = Box::pin(event.wait().timeout(MS));
        let waker = Waker::from(Arc::new(Blocks(send)));
        assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert!(receive.recv().unwrap(), "it panics");
        assert!(times_out(), "deadlines come");
    });
}
