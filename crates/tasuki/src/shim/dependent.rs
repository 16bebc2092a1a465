//! The model checker's atomics, made to explore what they would leave out.
//!
//! Loom runs two steps in both orders only if they *depend* on each other, and it compares a step with the last
//! access to the same atomic alone. A thread that loads a word and then changes it has itself made the last access, so
//! an earlier load by another thread is forgotten, and with it the execution in which that load comes second. "Load, then
//! compare-exchange" is what most operations of this crate do.
//!
//! So every load is preceded by a read-modify-write of a shadow that nothing else uses. All loads of an atomic depend on
//! each other by it, hence also what follows them; it is Relaxed and never changes its value, so it orders nothing.

use loom::sync::atomic::{self, Ordering};

macro_rules! dependent {
    ($name:ident $(<$t:ident>)?, $value:ty) => {
        #[derive(Debug, Default)]
        pub(crate) struct $name $(<$t>)? {
            real: atomic::$name $(<$t>)?,
            shadow: atomic::AtomicUsize,
        }

        impl $(<$t>)? $name $(<$t>)? {
            pub(crate) fn new(value: $value) -> Self {
                Self { real: atomic::$name::new(value), shadow: atomic::AtomicUsize::new(0) }
            }

            pub(crate) fn load(&self, ordering: Ordering) -> $value {
                // Relaxed: see above.
                self.shadow.fetch_add(0, Ordering::Relaxed);
                self.real.load(ordering)
            }
        }

        /// Everything but a load is loom's own: it depends on the last access, whatever that was.
        impl $(<$t>)? core::ops::Deref for $name $(<$t>)? {
            type Target = atomic::$name $(<$t>)?;

            fn deref(&self) -> &Self::Target {
                &self.real
            }
        }

        impl $(<$t>)? core::ops::DerefMut for $name $(<$t>)? {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.real
            }
        }
    };
}

dependent!(AtomicPtr<T>, *mut T);
dependent!(AtomicBool, bool);
dependent!(AtomicI8, i8);
dependent!(AtomicU32, u32);
dependent!(AtomicU64, u64);
dependent!(AtomicUsize, usize);
