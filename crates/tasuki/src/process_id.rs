//! The id of the process; on Linux cached, so that it costs no system call, and refreshed in the child of a fork.
//!
//! The timer of the process and the watcher of `inspect/` must notice a fork: their threads are not in the child (`timer/shared.rs`). A system call for the process id costs
//! more than the rest of arming a deadline. So on Linux the id is kept in a page that the kernel fills with zeros in the child of a fork, however the fork was made. Where the kernel or an emulator does not have such pages, and on other Unix systems, every
//! call asks the system. Elsewhere no process forks, and the id is a constant.
//!
//! | page | id in it | event | then |
//! |---|---|---|---|
//! | none | | first call | made, with the id |
//! | made | the id of this process | call | the id |
//! | made | 0: this is a child | call | the id is written again |
//! | refused or unknown: `NO_PAGE` | 0, for ever | call | the system is asked |
//!
//! # Orderings
//! `PAGE`: Release in `ask` pairs with Acquire in [`id`]: the page is there. The id in it is Relaxed: any thread may write it, always the same.

pub(crate) use imp::id;

#[cfg(all(target_os = "linux", not(miri)))]
mod imp {
    use core::ptr;
    use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

    /// Where the id is; null before the first call.
    static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
    /// The kernel has no page to give. Never written.
    static NO_PAGE: AtomicU32 = AtomicU32::new(0);

    /// The id of this process.
    #[inline]
    pub(crate) fn id() -> u32 {
        // Acquire: pairs with Release in `ask`. mutant: survives: no model forks.
        let page = PAGE.load(Ordering::Acquire);
        // SAFETY: null, `NO_PAGE`, or a page that is never unmapped.
        if let Some(page) = unsafe { page.as_ref() } {
            // Relaxed: a number that all writers agree on.
            match page.load(Ordering::Relaxed) {
                0 => {}
                id => return id,
            }
        }
        ask(page)
    }

    /// Asks the system, and keeps the answer.
    #[cold]
    #[inline(never)]
    fn ask(mut page: *mut AtomicU32) -> u32 {
        let id = std::process::id();
        if page.is_null() {
            page = map();
            // Release: pairs with Acquire in `id`. Two threads may both make a page; the second stays mapped and unused.
            // mutant: survives: no model forks.
            PAGE.store(page, Ordering::Release);
        }
        if !ptr::eq(page, &raw const NO_PAGE) {
            // SAFETY: a page of `map`, never unmapped.
            let kept = unsafe { &*page };
            // Relaxed: see the header.
            kept.store(id, Ordering::Relaxed);
        }
        id
    }

    /// A page of zeros that is one of zeros again in the child of a fork; [`NO_PAGE`] where the kernel has none to give.
    fn map() -> *mut AtomicU32 {
        let length = size_of::<AtomicU32>();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let page = unsafe {
            libc::mmap(ptr::null_mut(), length, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        if page == libc::MAP_FAILED {
            return (&raw const NO_PAGE).cast_mut();
        }
        // An emulator may say yes to what it does not know, and not wipe the page: then it says yes to nonsense too.
        const NONSENSE: libc::c_int = -1;
        // SAFETY: the mapping made above, which no other code knows.
        let honest = unsafe { libc::madvise(page, length, NONSENSE) } != 0;
        // SAFETY: as above.
        if !honest || unsafe { libc::madvise(page, length, libc::MADV_WIPEONFORK) } != 0 {
            // SAFETY: as above.
            unsafe { libc::munmap(page, length) };
            return (&raw const NO_PAGE).cast_mut();
        }
        page.cast()
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod imp {
    /// The id of this process. Without forks every process has the same: std panics where the system has no processes, as on wasm32.
    pub(crate) fn id() -> u32 {
        if cfg!(unix) { std::process::id() } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(unix)]
    fn the_id_is_that_of_the_system() {
        assert_eq!(super::id(), std::process::id());
        assert_eq!(super::id(), std::process::id());
    }

    /// A child of a fork has its own id, also if the parent had asked for its own.
    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_child_has_its_own() {
        let parent = super::id();
        // SAFETY: the child calls nothing but functions that are safe after a fork, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_own = super::id() == std::process::id() && super::id() != parent;
            // SAFETY: ends the child without running anything else.
            unsafe { libc::_exit(i32::from(!is_own)) };
        }
        let mut status = 0;
        // SAFETY: a child of this process, and a place for its status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        assert_eq!(super::id(), parent);
    }
}
