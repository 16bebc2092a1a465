//! What the notes of `tasuki::inspect` cost: one program that is built with the feature `inspect` and without, by `lab bench inspect` and by `cargo xtask inspect-cost`.
//!
//! `inspect-cost KIND N` does N operations and prints the nanoseconds of one: for a tool that counts instructions. `inspect-cost serve` reads such lines from its standard input, and
//! answers each with operations, nanoseconds and allocations, so that two builds can be asked in turns.
//!
//! | kind | an operation is |
//! |---|---|
//! | `uncontended`, `semaphore`, `rwlock-read` | a task takes and releases what no other task wants |
//! | `wait-grant` | two tasks, polled by hand: one enqueues while the other holds the mutex, is granted it by the release, and claims it. No scheduler |
//! | `contended` | sixteen tasks on two workers take one mutex, use it twenty times and yield while they hold it: nearly all wait |
//! | `lock-bytes`, `waiter-bytes` | none: it answers with the bytes of a lock that was used, and of a future that waits, instead of nanoseconds |

mod bytes;
mod operations;

use std::io::{BufRead, Write};
use std::pin::Pin;
use std::time::Instant;
use tasuki_rt::Runtime;

/// Counts what is allocated.
#[global_allocator]
static ALLOCATOR: bytes::Counting = bytes::Counting;

const WORKERS: usize = 2;

/// Operations, nanoseconds, allocations; or one of them and bytes.
type Answer = (u64, f64, u64);

/// What the future takes, from its first poll to its last: not what it takes to spawn it.
async fn timed(operations: impl Future<Output = u64>) -> Answer {
    let (allocated, start) = (bytes::allocations(), Instant::now());
    let ops = operations.await;
    (ops, start.elapsed().as_nanos() as f64, bytes::allocations() - allocated)
}

fn measure(runtime: &Runtime, kind: &str, ops: u64) -> Answer {
    let task: Pin<Box<dyn Future<Output = Answer> + Send>> = match kind {
        "uncontended" => Box::pin(timed(operations::uncontended(ops))),
        "semaphore" => Box::pin(timed(operations::semaphore(ops))),
        "rwlock-read" => Box::pin(timed(operations::rwlock_read(ops))),
        "contended" => Box::pin(timed(operations::contended(ops))),
        "lock-bytes" => Box::pin(async { (1, bytes::of_lock().await, 0) }),
        "waiter-bytes" => Box::pin(async { (1, bytes::of_waiter().await, 0) }),
        // Without the runtime: it polls its tasks itself.
        "wait-grant" => return runtime.block_on(timed(async move { operations::wait_grant(ops) })),
        other => panic!("no kind {other:?}"),
    };
    runtime.block_on(runtime.spawn(task)).expect("it does not panic")
}

/// What a line asks for.
fn parse(line: &str) -> (&str, u64) {
    let (kind, ops) = line.trim().split_once(' ').expect("a kind and a number");
    (kind, ops.parse().expect("a number"))
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = Runtime::builder().workers(WORKERS).build().expect("threads start");
    if args == ["serve"] {
        for line in std::io::stdin().lock().lines() {
            let line = line.expect("standard input can be read");
            let (kind, ops) = parse(&line);
            let (ops, ns, allocations) = measure(&runtime, kind, ops);
            println!("{ops} {ns} {allocations}");
            std::io::stdout().flush().expect("standard output can be written");
        }
        return;
    }
    let line = args.join(" ");
    let (kind, ops) = parse(&line);
    let (ops, ns, _) = measure(&runtime, kind, ops);
    println!("{:.2}", ns / ops as f64);
}
