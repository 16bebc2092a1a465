//! Sizes, and the memory of the whole tour.

use super::{Guide, resident};
use tasuki::Mutex;
use tasuki::future::Lock;

/// Most bytes of a lock around nothing; with debug assertions it knows its holder.
const LOCK_BYTES: usize = if cfg!(debug_assertions) { 48 } else { 16 };
/// Most bytes of a wait for it; with debug assertions it knows its task and its place.
const FUTURE_BYTES: usize = if cfg!(debug_assertions) { 96 } else { 64 };

/// Shows what a lock and a wait weigh.
pub(super) fn visit(guide: &Guide) -> Result<(), String> {
    let (lock, future) = (size_of::<Mutex<()>>(), size_of::<Lock<'static, ()>>());
    guide.check(lock <= LOCK_BYTES, format_args!("`Mutex<()>` is {lock} bytes"))?;
    guide.check(future <= FUTURE_BYTES, format_args!("a wait for it is {future} bytes, and all there is"))?;
    guide.say(format_args!("       at the end: {}", resident()));
    Ok(())
}
