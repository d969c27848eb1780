//! `cargo xtask setup`: installs what the tests, the demo and the benchmarks run, where it is missing.
//!
//! Four sources, each with pinned versions and each asked only when something is missing, so that a second run takes no time:
//! Debian packages for the services, a virtual environment for programs that come as Python packages (the ClickHouse engine, an S3
//! server, the rival), cargo for the test programs, and Go for the conformance suite of CSI.

mod debian;
mod go;
mod programs;
mod python;

use std::path::Path;

use anyhow::{Result, bail};

pub(crate) use programs::path as program;

/// How much is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Building and running `carafe` with the ClickHouse engine.
    Demo,
    /// The same and the test programs.
    Tests,
}

/// Installs what is missing. Ends at once, quietly, when nothing is.
pub(crate) fn setup(root: &Path, scope: Scope) -> Result<()> {
    if !Path::new("/dev/fuse").exists() {
        bail!(
            "/dev/fuse does not exist: load the kernel module `fuse`, or run in a container that may use the device"
        );
    }
    debian::install_missing()?;
    python::install_missing(root)?;
    if scope == Scope::Tests {
        programs::install_missing()?;
        go::install_missing()?;
    }
    Ok(())
}
