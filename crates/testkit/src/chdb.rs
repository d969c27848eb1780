//! The ClickHouse engine, run from python.
//!
//! The engine allows one session a process, so every piece of work is a python process of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::filesystem::ToolOutput;
use crate::tools;

/// A python that can import `chdb`, and the repository's scripts.
#[derive(Debug, Clone)]
pub struct ChdbEnv {
    python: PathBuf,
    repository: PathBuf,
}

impl ChdbEnv {
    /// Finds the python of [`tools::python`].
    ///
    /// # Errors
    /// If it is not installed.
    pub fn find() -> Result<Self> {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
        let repository = repository.context("the crate lies two levels below the repository")?.to_path_buf();
        Ok(Self { python: tools::python()?, repository })
    }

    /// The python.
    pub fn python(&self) -> &Path {
        &self.python
    }

    /// A python command that runs a script, its path given from the root of the repository.
    pub fn script(&self, path: &str) -> Command {
        let mut command = Command::new(&self.python);
        command.arg(self.repository.join(path));
        command
    }

    /// Runs workloads of `e2e/workloads` on `dir`, with the engine's own state in `state`; returns what they printed.
    ///
    /// # Errors
    /// If one of them fails: the message has what they printed.
    pub fn workloads(&self, names: &[&str], dir: &Path, state: &Path) -> Result<String> {
        let mut command = self.script("e2e/workloads/run.py");
        command.arg("--dir").arg(dir).arg("--state").arg(state).args(names);
        ToolOutput::of(&mut command)?.ok().with_context(|| format!("ClickHouse workloads {names:?}"))
    }
}
