//! Tour stop: sizes of the primitives, and the memory of the whole tour.

use super::{Guide, resident};
use tasuki::Mutex;
use tasuki::future::Lock;

/// Shows what a lock and a wait weigh.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let (lock, future) = (size_of::<Mutex<()>>(), size_of::<Lock<'static, ()>>());
    // Where `inspect` is active a lock knows its holders, and a wait its task and its place.
    let (most_lock, most_future) = if tasuki::inspect::is_active() { (56, 96) } else { (16, 64) };
    guide.check(lock <= most_lock, format_args!("`Mutex<()>` is {lock} bytes"))?;
    guide.check(future <= most_future, format_args!("a wait for it is {future} bytes, and all there is"))?;
    guide.say(format_args!("       at the end: {}", resident()));
    Ok(())
}
