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
use std::time::Instant;
use tasuki_rt::Runtime;

/// Counts what is allocated.
#[global_allocator]
static ALLOCATOR: bytes::Counting = bytes::Counting;

const WORKERS: usize = 2;

/// Operations, nanoseconds, allocations; or one of them and bytes.
fn measure(runtime: &Runtime, kind: &str, ops: u64) -> (u64, f64, u64) {
    let in_task = |future: std::pin::Pin<Box<dyn Future<Output = u64> + Send>>| {
        let (allocated, start) = (bytes::allocations(), Instant::now());
        let ops = runtime.block_on(runtime.spawn(future)).expect("it does not panic");
        (ops, start.elapsed().as_nanos() as f64, bytes::allocations() - allocated)
    };
    match kind {
        "uncontended" => in_task(Box::pin(operations::uncontended(ops))),
        "semaphore" => in_task(Box::pin(operations::semaphore(ops))),
        "rwlock-read" => in_task(Box::pin(operations::rwlock_read(ops))),
        "contended" => in_task(Box::pin(operations::contended(ops))),
        "wait-grant" => {
            let (allocated, start) = (bytes::allocations(), Instant::now());
            let ops = operations::wait_grant(ops);
            (ops, start.elapsed().as_nanos() as f64, bytes::allocations() - allocated)
        }
        "lock-bytes" => (1, runtime.block_on(runtime.spawn(bytes::of_lock())).expect("it does not panic"), 0),
        "waiter-bytes" => {
            (1, runtime.block_on(runtime.spawn(bytes::of_waiter())).expect("it does not panic"), 0)
        }
        other => panic!("no kind {other:?}"),
    }
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
