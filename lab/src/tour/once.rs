//! Tour stop: a cell that many tasks want, whose first initialisers fail or are cancelled.

use super::tasks::NOTES;
use super::{Count, Guide, all, grouped};
use std::cell::Cell;
use std::rc::Rc;
use tasuki::OnceCell;
use tasuki_rt::{spawn_local, yield_now};

/// How many fail before one succeeds.
const FAILURES: usize = 3;

/// What the tasks share.
#[derive(Default)]
struct Shop {
    cell: OnceCell<usize>,
    tries: Cell<usize>,
    got: Cell<usize>,
    failed: Cell<usize>,
}

/// What they came out with.
struct Sold {
    stuck: usize,
    tries: usize,
    got: usize,
    failed: usize,
    value: Option<usize>,
    allocated: u64,
}

/// Lets all tasks ask at once.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let tasks = guide.pick(100_000, 2_000);
    let sold = guide.run_on_loop(move || open(tasks), || "   the shop is open")?;
    guide.check(
        sold.stuck == 0 && sold.tries == FAILURES + 1 && sold.failed == FAILURES,
        format_args!("{FAILURES} initialisers failed, each passed the turn on, the next one succeeded"),
    )?;
    guide.check(
        sold.got == tasks - FAILURES && sold.value == Some(FAILURES),
        format_args!("the {} others got its value, one initialiser at a time", grouped(tasks - FAILURES)),
    )?;
    guide.check(sold.allocated <= NOTES, "no allocation by any wait")
}

/// Spawns all tasks that ask, and waits for them.
async fn open(tasks: usize) -> Sold {
    let shop = Rc::new(Shop::default());
    let tasks: Vec<_> = (0..tasks).map(|_| spawn_local(ask(shop.clone()))).collect();
    let count = Count::start();
    let stuck = all(tasks).await;
    let (_, allocated) = count.stop();
    Sold {
        stuck,
        tries: shop.tries.get(),
        got: shop.got.get(),
        failed: shop.failed.get(),
        value: shop.cell.get().copied(),
        allocated,
    }
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
