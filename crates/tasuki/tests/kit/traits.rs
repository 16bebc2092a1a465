//! Which of `Send`, `Sync` and `Unpin` a type has.

use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::MutexGuard as Local;

/// Asks whether a type has a trait: the inherent constant exists only if it does, and hides the other.
pub(crate) struct Ask<T: ?Sized>(PhantomData<T>);

pub(crate) trait Otherwise {
    const SEND: bool = false;
    const SYNC: bool = false;
    const UNPIN: bool = false;
}

impl<T: ?Sized> Otherwise for Ask<T> {}

impl<T: ?Sized + Send> Ask<T> {
    pub(crate) const SEND: bool = true;
}

impl<T: ?Sized + Sync> Ask<T> {
    pub(crate) const SYNC: bool = true;
}

impl<T: ?Sized + Unpin> Ask<T> {
    pub(crate) const UNPIN: bool = true;
}

/// As three letters: "SYU", "S-U", "---"; an array of them for several types.
macro_rules! traits {
    ($type:ty) => {{
        #[allow(unused_imports, reason = "a type with all three needs no other answer")]
        use $crate::kit::traits::{Ask, Otherwise as _};
        [
            if Ask::<$type>::SEND { 'S' } else { '-' },
            if Ask::<$type>::SYNC { 'Y' } else { '-' },
            if Ask::<$type>::UNPIN { 'U' } else { '-' },
        ]
        .iter()
        .collect::<String>()
    }};
    ($($type:ty),+) => { [$(traits!($type)),+] };
}
pub(crate) use traits;

/// The traits of types, `Name[arguments]`, with their names.
macro_rules! matrix {
    ($($expected:literal: $($name:ident $([$($argument:tt)*])?),* $(,)?;)*) => {{
        $($(assert_eq!(
            traits!($name $(<$($argument)*>)?),
            $expected,
            "{}",
            stringify!($name $([$($argument)*])?)
        );)*)*
        vec![$($(stringify!($name)),*),*]
    }};
}
pub(crate) use matrix;

/// Both; only `Send`; only `Sync`; neither.
pub(crate) type Both = u32;
pub(crate) type SendOnly = Cell<u32>;
pub(crate) type SyncOnly = Local<'static, u32>;
pub(crate) type Neither = Rc<u32>;
