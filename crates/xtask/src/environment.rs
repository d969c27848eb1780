//! Changing the environment of this process.

#![expect(unsafe_code, reason = "the one place that calls set_var")]

use std::ffi::OsStr;

/// Sets a variable for this process and its later children.
pub(crate) fn set(name: &str, value: &OsStr) {
    // SAFETY: called by the main thread before any other thread exists, so nobody reads the environment meanwhile.
    unsafe { std::env::set_var(name, value) }
}
