//! An idle runtime sleeps: it uses no processor time (S4-03).

/// One worker sleeps in the poll, the others on their parkers; sockets are open, and tasks wait for them, with and without a deadline.
#[cfg(all(target_os = "linux", feature = "net"))]
#[test]
fn an_idle_runtime_with_sockets_uses_no_cpu() {
    use crate::kit::process::{alone, other_threads, until_asleep};
    use crate::kit::{runtime, watchdog};
    use std::time::Duration;
    use tasuki_rt::net::{TcpListener, TcpStream, UdpSocket};
    use tasuki_rt::{WorkerId, spawn, timeout};

    alone(|| {
        let _dog = watchdog(60);
        let runtime = runtime(4);
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            for n in 0..20 {
                let mut client = TcpStream::connect(address).await.unwrap();
                let (mut server, _) = listener.accept().await.unwrap();
                client.write_all(b"one byte and more").await.unwrap();
                drop(spawn(async move {
                    let mut bytes = [0; 64];
                    while server.read(&mut bytes).await.unwrap() > 0 {}
                }));
                let far = Duration::from_secs(60 + 97 * n);
                drop(tasuki_rt::spawn_on(WorkerId::new(n as usize % 4), move || async move {
                    let _ = timeout(far, client.read(&mut [0])).await;
                }));
            }
            drop(spawn(async move { listener.accept().await.map(drop) }));
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            drop(spawn(async move { socket.recv(&mut [0]).await.map(drop) }));
        });
        until_asleep(other_threads);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn an_idle_runtime_uses_no_cpu() {
    use crate::kit::process::{alone, other_threads, until_asleep};
    use crate::kit::{MS, runtime, watchdog};
    use std::time::Duration;
    use tasuki::{Event, Mutex, Semaphore};
    use tasuki_rt::WorkerId;
    use tasuki_rt::{interval, sleep, spawn, timeout};

    alone(|| {
        let _dog = watchdog(60);
        let runtime = runtime(4);
        runtime.block_on(async {
            // Every worker has been awake, and a far timer and a waiting task are there.
            let tasks: Vec<_> = (0..100).map(|n| spawn(sleep(n % 3 * MS))).collect();
            for task in tasks {
                task.await.unwrap();
            }
            drop(spawn(sleep(Duration::from_secs(3600))));
            drop(spawn(std::future::pending::<()>()));
            // Deadlines of every kind and distance on every worker, which a timekeeper could mistake for its business.
            for n in 0..40_u64 {
                let far = Duration::from_secs(60 + 97 * n);
                drop(tasuki_rt::spawn_on(WorkerId::new(n as usize % 4), move || async move {
                    let (event, mutex, permits) = (Event::auto(), Mutex::new(()), Semaphore::new(0));
                    let _held = mutex.lock().await;
                    match n % 4 {
                        0 => drop(event.wait().timeout(far).await),
                        1 => drop(mutex.lock().timeout(far).await),
                        2 => drop(timeout(far, permits.acquire()).await),
                        _ => {
                            let mut ticks = interval(far);
                            ticks.tick().await;
                            ticks.tick().await;
                        }
                    }
                }));
            }
        });
        // A thread with a deadline parks, too.
        let _blocked = std::thread::spawn(|| Event::auto().wait().timeout(Duration::from_secs(3600)).block());
        until_asleep(other_threads);
    });
}
