//! A value that many ask for and one makes, though the first who try fail or give up.

use super::{Guide, counted, grouped};
use crate::exec::{Executor, yield_now};
use std::cell::Cell;
use std::rc::Rc;
use tasuki::OnceCell;

/// How many fail before one succeeds.
const FAILURES: usize = 3;

/// What the tasks share.
struct Shop {
    cell: OnceCell<usize>,
    tries: Cell<usize>,
    got: Cell<usize>,
    failed: Cell<usize>,
}

/// Lets everybody ask at once.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let tasks = guide.pick(100_000, 2_000);
    let shop =
        Rc::new(Shop { cell: OnceCell::new(), tries: Cell::new(0), got: Cell::new(0), failed: Cell::new(0) });
    let mut exec = Executor::new(tasks);
    for _ in 0..tasks {
        exec.spawn(ask(shop.clone()));
    }
    let (left, _, allocated) = counted(|| exec.run_until_stalled());
    guide.check(
        left == 0 && shop.tries.get() == FAILURES + 1 && shop.failed.get() == FAILURES,
        format_args!("{FAILURES} initialisers failed, each passed the turn on, the next one succeeded"),
    )?;
    guide.check(
        shop.got.get() == tasks - FAILURES && shop.cell.get() == Some(&FAILURES),
        format_args!("the {} others got its value, one initialiser at a time", grouped(tasks - FAILURES)),
    )?;
    guide.check(allocated == 0, "no allocation by any wait")
}

/// Asks for the value; the first few cannot make it.
async fn ask(shop: Rc<Shop>) {
    let made = shop
        .cell
        .get_or_try_init(|| async {
            let turn = shop.tries.replace(shop.tries.get() + 1);
            yield_now().await;
            if turn < FAILURES { Err(()) } else { Ok(turn) }
        })
        .await;
    match made {
        Ok(&FAILURES) => shop.got.set(shop.got.get() + 1),
        Ok(_) => {}
        Err(()) => shop.failed.set(shop.failed.get() + 1),
    }
}
