//! Debian packages.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::sh;

/// A program that must be on the search path, and the package that brings it.
const WANTED: [(&str, &str); 6] = [
    ("cc", "gcc"),
    ("redis-server", "redis-server"),
    ("fusermount3", "fuse3"),
    ("protoc", "protobuf-compiler"),
    ("python3", "python3"),
    ("mount", "mount"),
];

/// Installs the packages whose programs are missing.
pub(super) fn install_missing() -> Result<()> {
    let mut packages: Vec<&str> = WANTED
        .into_iter()
        .filter(|(program, _)| sh::find(program).is_none())
        .map(|(_, package)| package)
        .collect();
    if !can_make_environments() {
        packages.push("python3-venv");
    }
    if !has_well_known_types() {
        packages.push("libprotobuf-dev");
    }
    if packages.is_empty() {
        return Ok(());
    }
    install(&packages)
}

/// Installs these packages.
pub(super) fn install(packages: &[&str]) -> Result<()> {
    println!("installing Debian packages: {}", packages.join(" "));
    if sh::find("apt-get").is_none() {
        bail!("this is no Debian system: install the equivalents of {} by hand", packages.join(", "));
    }
    let advice = || format!("install by hand: apt-get install {}", packages.join(" "));
    sh::run(&mut apt(&["update", "-q"])).with_context(advice)?;
    let install = [&["install", "-q", "-y", "--no-install-recommends"], packages].concat();
    sh::run(&mut apt(&install)).with_context(advice)
}

/// Debian's python3 lacks `ensurepip` until python3-venv is there.
fn can_make_environments() -> bool {
    sh::capture(Command::new("python3").args(["-c", "import venv, ensurepip"])).is_ok()
}

/// Debian's protobuf-compiler only recommends the package with the `.proto` files that every compiler is expected to have.
fn has_well_known_types() -> bool {
    let mut compile = Command::new("protoc");
    sh::capture(compile.args(["--descriptor_set_out=/dev/null", "google/protobuf/timestamp.proto"])).is_ok()
}

fn apt(arguments: &[&str]) -> Command {
    let mut command = if rustix::process::geteuid().is_root() {
        Command::new("apt-get")
    } else {
        let mut sudo = Command::new("sudo");
        sudo.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]);
        sudo
    };
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command
}
