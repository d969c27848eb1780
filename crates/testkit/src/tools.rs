//! Where the programs are that the tests run.
//!
//! Each is looked for in this order: its environment variable, beside the test executable (only `carafe`), the search path,
//! and the directory that `cargo xtask setup` fills. The last place is `$CARAFE_TOOLS`, else `$XDG_CACHE_HOME/carafe-dev`, else
//! `~/.cache/carafe-dev`.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};

/// The directory that `cargo xtask setup` fills: a virtual environment in `venv/`, programs built by cargo in `bin/`.
pub fn tools_dir() -> PathBuf {
    if let Some(dir) = env::var_os("CARAFE_TOOLS") {
        return PathBuf::from(dir);
    }
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_else(|| "/root".into()));
    cache.unwrap_or_else(|| home().join(".cache")).join("carafe-dev")
}

/// The `carafe` binary: `$CARAFE_BIN`, else `target/{debug,release}/carafe` beside the running executable.
///
/// # Errors
/// If there is none: the message names the command that builds it.
pub fn carafe() -> Result<PathBuf> {
    if let Some(path) = env::var_os("CARAFE_BIN") {
        return existing(Path::new(&path)).ok_or_else(|| anyhow!("CARAFE_BIN names no file: {path:?}"));
    }
    let exe = env::current_exe()?;
    // A test executable lies in target/PROFILE/deps, a binary in target/PROFILE.
    exe.ancestors()
        .skip(1)
        .take(2)
        .find_map(|dir| existing(&dir.join("carafe")))
        .ok_or_else(|| anyhow!("no `carafe` beside {}: run `cargo build -p carafe-cli` first", exe.display()))
}

/// SeaweedFS, which serves S3: `$CARAFE_WEED`, else `weed`.
///
/// # Errors
/// If it is not installed.
pub fn weed() -> Result<PathBuf> {
    find("CARAFE_WEED", "weed")
}

/// `redis-server`, or `$CARAFE_REDIS_SERVER`.
///
/// # Errors
/// If it is not installed.
pub fn redis_server() -> Result<PathBuf> {
    find("CARAFE_REDIS_SERVER", "redis-server")
}

/// `juicefs`, the rival of the benchmarks, or `$CARAFE_JUICEFS`.
///
/// # Errors
/// If it is not installed.
pub fn juicefs() -> Result<PathBuf> {
    find("CARAFE_JUICEFS", "juicefs")
}

/// `tpchgen-cli`, which makes TPC-H data, or `$CARAFE_TPCHGEN`.
///
/// # Errors
/// If it is not installed.
pub fn tpchgen() -> Result<PathBuf> {
    find("CARAFE_TPCHGEN", "tpchgen-cli")
}

/// The python that can import `chdb`: `$CARAFE_PYTHON`, else the one of the tools directory. The search path is not asked,
/// since the python there seldom has the engine.
///
/// # Errors
/// If it is not installed.
pub fn python() -> Result<PathBuf> {
    if let Some(path) = env::var_os("CARAFE_PYTHON") {
        return existing(Path::new(&path)).ok_or_else(|| anyhow!("CARAFE_PYTHON names no file: {path:?}"));
    }
    existing(&tools_dir().join("venv/bin/python")).ok_or_else(|| missing("python with chdb-core"))
}

fn find(variable: &str, name: &str) -> Result<PathBuf> {
    if let Some(path) = env::var_os(variable) {
        return existing(Path::new(&path)).ok_or_else(|| anyhow!("{variable} names no file: {path:?}"));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    search(&path, name).ok_or_else(|| missing(name))
}

fn search(path: &OsStr, name: &str) -> Option<PathBuf> {
    let tools = tools_dir();
    env::split_paths(path)
        .chain([tools.join("venv/bin"), tools.join("bin")])
        .find_map(|dir| existing(&dir.join(name)))
}

fn existing(path: &Path) -> Option<PathBuf> {
    path.is_file().then(|| path.to_path_buf())
}

fn missing(what: &str) -> anyhow::Error {
    anyhow!(
        "{what} is not installed: run `cargo xtask setup` (or see crates/testkit/src/tools.rs for the places searched)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_on_no_search_path_is_reported_with_the_command_that_installs_it() {
        let found = search(OsStr::new("/nonexistent"), "no-such-program-of-carafe");
        assert_eq!(found, None);
        assert!(missing("x").to_string().contains("cargo xtask setup"));
    }
}
