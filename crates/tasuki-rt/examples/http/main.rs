//! An HTTP server: hyper's protocol on our runtime, its sockets and our locks. Ctrl-C ends it as `/quit` does.
//!
//! `cargo run -p tasuki-rt --example http [PORT]`, then `curl localhost:PORT/` and `curl -X POST localhost:PORT/quit`.

mod server;

use server::{Site, serve};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tasuki_rt::net::TcpListener;

fn main() -> std::io::Result<()> {
    let port =
        std::env::args().nth(1).map_or(0, |port| port.parse().expect("a port is a number below 65536"));
    tasuki_rt::run(async {
        let listener = TcpListener::bind(([127, 0, 0, 1], port)).await?;
        println!("listening on {}", listener.local_addr()?);
        let site = Arc::new(Site::new());
        let interrupted = site.clone();
        drop(tasuki_rt::spawn(async move {
            if tasuki_rt::signal::ctrl_c().await.is_ok() {
                interrupted.quit.request_cancel();
            }
        }));
        serve(listener, site.clone()).await?;
        let (visits, requests) = (*site.visits.lock().await, site.requests.load(Ordering::SeqCst));
        println!(
            "{visits} visits in {requests} requests, at most {} at once",
            site.crowd.load(Ordering::SeqCst)
        );
        Ok(())
    })
}
