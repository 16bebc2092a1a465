//! A listener on each worker: `SO_REUSEPORT` lets sockets share an address, and the system spreads new connections over them. Each worker accepts for itself, in a task that is
//! pinned there, and the tasks of its connections stay with it: what they share needs no lock between threads, and need not be `Send`.
//!
//! `cargo run -p tasuki-rt --example reuse_port [PORT]`. Every line is answered by the number of the worker and how many lines it has answered. SIGTERM or Ctrl-C ends it.
//!
//! When it pays: many short connections and as many processors. When it does not: connections that last, of which one worker may have the busy ones, with no other to help.

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("only Linux spreads connections over the sockets of an address");
}

#[cfg(target_os = "linux")]
fn main() -> std::io::Result<()> {
    linux::main()
}

#[cfg(target_os = "linux")]
mod linux {
    use socket2::{Domain, Protocol, Socket, Type};
    use std::cell::Cell;
    use std::io;
    use std::net::SocketAddr;
    use std::rc::Rc;
    use tasuki_rt::net::{TcpListener, TcpStream};
    use tasuki_rt::signal::unix::{SignalKind, signal};
    use tasuki_rt::{Runtime, WorkerId};

    const WORKERS: usize = 2;

    /// A listener that shares its address with others of this process.
    fn listener(address: SocketAddr) -> io::Result<std::net::TcpListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        socket.listen(1024)?;
        Ok(socket.into())
    }

    pub(super) fn main() -> io::Result<()> {
        let port =
            std::env::args().nth(1).map_or(0, |port| port.parse().expect("a port is a number below 65536"));
        let runtime = Runtime::builder().workers(WORKERS).build()?;
        let mut terminate = signal(SignalKind::terminate())?;
        // The first finds the port; all listen before any connection comes.
        let first = listener(SocketAddr::from(([127, 0, 0, 1], port)))?;
        let address = first.local_addr()?;
        let mut listeners = vec![first];
        for _ in 1..WORKERS {
            listeners.push(listener(address)?);
        }
        for (worker, listener) in listeners.into_iter().enumerate() {
            drop(runtime.spawn_on(WorkerId::new(worker), move || accept(worker, listener)));
        }
        println!("listening on {address}");
        runtime.block_on(terminate.recv());
        println!("ended");
        Ok(())
    }

    async fn accept(worker: usize, listener: std::net::TcpListener) -> io::Result<()> {
        let listener = TcpListener::from_std(listener)?;
        // Of this worker alone: neither a lock nor an atomic.
        let answered = Rc::new(Cell::new(0_u64));
        loop {
            // An error is that of one connection, or there is no descriptor: `accept` has waited for one then.
            let Ok((stream, _)) = listener.accept().await else { continue };
            drop(tasuki_rt::spawn_local(converse(stream, worker, answered.clone())));
        }
    }

    async fn converse(mut stream: TcpStream, worker: usize, answered: Rc<Cell<u64>>) -> io::Result<()> {
        let mut bytes = [0; 1024];
        loop {
            let count = stream.read(&mut bytes).await?;
            if count == 0 {
                return Ok(());
            }
            for _ in bytes[..count].iter().filter(|byte| **byte == b'\n') {
                answered.set(answered.get() + 1);
                stream.write_all(format!("worker {worker} line {}\n", answered.get()).as_bytes()).await?;
            }
        }
    }
}
