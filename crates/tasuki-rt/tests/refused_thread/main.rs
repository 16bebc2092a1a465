//! A program for `programs/panic_abort.rs`: the system refuses the only thread for blocking work.

use tasuki_rt::Runtime;

fn main() {
    // No address space has room for such a stack.
    let refused =
        Runtime::builder().workers(1).thread_stack_size(isize::MAX as usize / 4).build_local().unwrap();
    let work = refused.spawn_blocking(|| ());
    println!("{}", refused.block_on(work).unwrap_err());
}
