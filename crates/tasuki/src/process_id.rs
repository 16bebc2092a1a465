//! A number of the process that none of its ancestors has; on Linux cached, so that it costs no system call, and taken anew in the child of a fork.
//!
//! What has threads, or locks that one thread alone releases, must notice a fork, for the child has one thread: the timer of the process (`timer/shared.rs`), the watcher and the records of `inspect/`, the table of unclaimed
//! grants (`mutex/raw/overdue.rs`), and runtimes (`runtime::process_number`). The process id of the system does not tell: a child in a PID namespace of its own has the id 1, as its parent may have (the
//! first process of a container), and an id is used again when its process has ended. And a system call for it costs more than the rest of arming a deadline. So on Linux the processes of one line of forks are counted, and the number is kept in a page that the
//! kernel fills with zeros in the child of a fork, however the fork was made. Where the kernel or an emulator does not have such pages, and on other Unix systems, the number is the process id, and every call asks the system. Elsewhere no process forks, and the number is a constant.
//!
//! | page | number in it | event | then |
//! |---|---|---|---|
//! | none | | first call | made; as 0 |
//! | made | that of this process | call | the number |
//! | made | 0: this is a child, or the page is new | call | the number after `LAST` is taken and written |
//! | refused or unknown: `NO_PAGE` | 0, for ever | call | the system is asked |
//!
//! # Orderings
//! `PAGE`: Release in `make` pairs with Acquire in [`id`] and in `make`: the page is there. The number in it: Release in `take` pairs with Acquire in [`id`] and in `take`: the number was taken from `LAST` before it is in the page, also in the
//! memory of a child that a thread which has seen it forks. So the child takes another. `LAST`: Relaxed, each number is taken once.

pub(crate) use imp::id;

#[cfg(all(target_os = "linux", not(miri)))]
mod imp {
    use core::ptr;
    use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

    /// Where the number is; null before the first call.
    static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
    /// The kernel has no page to give. Never written.
    static NO_PAGE: AtomicU32 = AtomicU32::new(0);
    /// The last number that this process or an ancestor has taken: a child goes on from there.
    static LAST: AtomicU32 = AtomicU32::new(0);

    /// The number of this process.
    #[inline]
    pub(crate) fn id() -> u32 {
        // Acquire: pairs with Release in `make`. mutant: survives: no model forks.
        let page = PAGE.load(Ordering::Acquire);
        // SAFETY: null, `NO_PAGE`, or a page that is never unmapped.
        if let Some(page) = unsafe { page.as_ref() } {
            // Acquire: pairs with Release in `take`. mutant: survives: no model forks.
            match page.load(Ordering::Acquire) {
                0 => {}
                id => return id,
            }
        }
        id_slow(page)
    }

    /// The first call in this process, or there is no page.
    #[cold]
    #[inline(never)]
    fn id_slow(page: *mut AtomicU32) -> u32 {
        let page = if page.is_null() { make() } else { page };
        if ptr::eq(page, &raw const NO_PAGE) {
            return std::process::id();
        }
        // SAFETY: a page of `make`, never unmapped.
        take(unsafe { &*page })
    }

    /// `0 =>` the next number. All threads of a process get the one that was written first.
    fn take(page: &AtomicU32) -> u32 {
        // Relaxed: see the header.
        let next = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        // Release: pairs with Acquire in `id`, and here on failure. mutant: survives: no model forks.
        match page.compare_exchange(0, next, Ordering::Release, Ordering::Acquire) {
            Ok(_) => next,
            Err(first) => first,
        }
    }

    /// The page of the thread that is first, or [`NO_PAGE`].
    fn make() -> *mut AtomicU32 {
        let page = map();
        // Release: pairs with Acquire in `id`, and here on failure. mutant: survives: no model forks.
        match PAGE.compare_exchange(ptr::null_mut(), page, Ordering::Release, Ordering::Acquire) {
            Ok(_) => page,
            Err(first) => {
                if !ptr::eq(page, &raw const NO_PAGE) {
                    // SAFETY: a mapping of `map`, which no other code knows.
                    unsafe { libc::munmap(page.cast(), LENGTH) };
                }
                first
            }
        }
    }

    /// So much of a page is used.
    const LENGTH: usize = size_of::<AtomicU32>();

    /// A page of zeros that is one of zeros again in the child of a fork; [`NO_PAGE`] where the kernel has none to give.
    fn map() -> *mut AtomicU32 {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let page = unsafe {
            libc::mmap(ptr::null_mut(), LENGTH, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        if page == libc::MAP_FAILED {
            return (&raw const NO_PAGE).cast_mut();
        }
        // An emulator may say yes to what it does not know, and not wipe the page: then it says yes to nonsense too.
        const NONSENSE: libc::c_int = -1;
        // SAFETY: the mapping made above, which no other code knows.
        let honest = unsafe { libc::madvise(page, LENGTH, NONSENSE) } != 0;
        // SAFETY: as above.
        if !honest || unsafe { libc::madvise(page, LENGTH, libc::MADV_WIPEONFORK) } != 0 {
            // SAFETY: as above.
            unsafe { libc::munmap(page, LENGTH) };
            return (&raw const NO_PAGE).cast_mut();
        }
        page.cast()
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod imp {
    /// The process id. Without forks every process has the same number: std panics where the system has no processes, as on wasm32.
    pub(crate) fn id() -> u32 {
        if cfg!(unix) { std::process::id() } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_process_keeps_its_number() {
        let id = super::id();
        assert!(id != 0 && (0..100).all(|_| super::id() == id));
    }

    /// Threads that ask at the same time agree, also in a child, whose page is empty again.
    #[test]
    #[cfg(not(miri))]
    fn all_threads_have_the_same() {
        let ids = std::thread::scope(|scope| {
            let threads: std::vec::Vec<_> = (0..4).map(|_| scope.spawn(super::id)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<std::vec::Vec<_>>()
        });
        assert!(ids.iter().all(|id| *id == super::id()), "{ids:?}");
    }

    /// A child of a fork has its own number, also if the parent had asked for its own; so has a grandchild whose parent has not asked.
    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_child_has_its_own() {
        use crate::fork_child::{alone, in_child};
        alone(|| {
            let parent = super::id();
            let differs = || super::id() != parent && super::id() == super::id();
            assert!(in_child(|| differs() && in_child(differs) && differs()));
            assert!(in_child(|| in_child(differs) && differs()));
            assert_eq!(super::id(), parent);
        });
    }
}
