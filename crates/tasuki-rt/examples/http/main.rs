//! An HTTP server: hyper's protocol and `async-io`'s sockets on our runtime and our locks.
//!
//! `cargo run -p tasuki-rt --example http [PORT]`, then `curl localhost:PORT/` and `curl -X POST localhost:PORT/quit`.

mod glue;
mod server;

use async_io::Async;
use server::{Site, serve};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn main() -> std::io::Result<()> {
    let port =
        std::env::args().nth(1).map_or(0, |port| port.parse().expect("a port is a number below 65536"));
    tasuki_rt::run(async {
        let listener = Async::<TcpListener>::bind(([127, 0, 0, 1], port))?;
        println!("listening on {}", listener.get_ref().local_addr()?);
        let site = Arc::new(Site::new());
        serve(listener, site.clone()).await?;
        let (visits, requests) = (*site.visits.lock().await, site.requests.load(Ordering::SeqCst));
        println!(
            "{visits} visits in {requests} requests, at most {} at once",
            site.crowd.load(Ordering::SeqCst)
        );
        Ok(())
    })
}
