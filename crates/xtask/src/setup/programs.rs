//! Test programs that cargo builds: the test runner and two file-system exercisers.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use carafe_testkit::tools;

use crate::sh;

/// A crate, its pinned version, and how it is built.
struct Program {
    name: &'static str,
    version: &'static str,
    flags: &'static [&'static str],
    /// The runner waits for tests and may be slow itself; what exercises a file system compares bytes all the time.
    optimise: &'static str,
}

const PROGRAMS: [Program; 3] = [
    Program {
        name: "cargo-nextest",
        version: "0.9.151",
        flags: &["--no-default-features", "--features", "default-no-update"],
        optimise: "1",
    },
    Program { name: "pjdfstest", version: "0.2.2", flags: &[], optimise: "1" },
    Program { name: "fsx", version: "0.3.2", flags: &[], optimise: "3" },
];

/// Installs the programs that are missing or of another version.
pub(super) fn install_missing() -> Result<()> {
    let tools = tools::tools_dir();
    fs::create_dir_all(&tools)?;
    // Cargo's own list of what it has installed there.
    let installed = fs::read_to_string(tools.join(".crates.toml")).unwrap_or_default();
    for program in PROGRAMS {
        let there = installed.contains(&format!("\"{} {} ", program.name, program.version));
        if !there || !tools.join("bin").join(program.name).exists() {
            install(&program)?;
        }
    }
    Ok(())
}

fn install(program: &Program) -> Result<()> {
    let Program { name, version, flags, optimise } = program;
    println!("installing {name} {version} (once, takes minutes)");
    let tools = tools::tools_dir();
    let mut command = sh::cargo(&tools, &["install", "--locked", "--quiet", "--force", name, "--version"]);
    command
        .arg(format!("={version}"))
        .args(*flags)
        .arg("--root")
        .arg(&tools)
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", optimise)
        .env_remove("CARGO_TARGET_DIR");
    sh::run(&mut command).with_context(|| format!("cargo install {name}"))
}

/// A program of this list.
pub(crate) fn path(name: &str) -> PathBuf {
    tools::tools_dir().join("bin").join(name)
}
