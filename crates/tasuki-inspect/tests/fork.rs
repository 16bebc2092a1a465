//! The child of a fork: it has none of the threads of its parent's page.

use crate::client::{get, inspector};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The drop of a copy in a child ends, without a panic, and the page of the parent is as it was.
#[test]
fn a_child_that_drops_the_page_leaves_it_to_its_parent() {
    let mut page = Some(inspector().start().unwrap());
    // SAFETY: the child has this thread only; it drops a value, which must take no lock, and ends here.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a number. A child that hangs is ended.
        unsafe { libc::alarm(20) };
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(page.take()))).is_ok();
        // SAFETY: ends the child without the destructors of its parent.
        unsafe { libc::_exit(if dropped { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: the child was started above, and the status is writable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status}");
    let page = page.unwrap();
    assert!(get(&page, "/").0.starts_with("HTTP/1.1 200 OK"));
    drop(page);
}
