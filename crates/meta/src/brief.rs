//! Threads that may wait for a moment.
//!
//! A server nearby answers within a tenth of a millisecond, and to wait for it on the spot costs less than to move a call to
//! another thread and back. Whoever polls on a thread of his own says so here; an engine that can wait on the spot asks.
//! Threads of a runtime never may: others wait for them.

use std::cell::Cell;

thread_local! {
    static ALLOWED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, which may wait on this thread for a few milliseconds.
pub fn allow<T>(work: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            ALLOWED.set(self.0);
        }
    }
    let _before = Before(ALLOWED.replace(true));
    work()
}

/// Whether this thread may wait for a few milliseconds just now.
pub fn is_allowed() -> bool {
    ALLOWED.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_inside_and_also_after_a_panic_no_longer() {
        assert!(!is_allowed());
        assert!(allow(is_allowed));
        assert!(std::panic::catch_unwind(|| allow(|| panic!("on purpose"))).is_err());
        assert!(!is_allowed());
    }
}
