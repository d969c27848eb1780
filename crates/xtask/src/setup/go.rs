//! Test programs that Go builds: the conformance suite of the CSI project.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use carafe_testkit::tools;

use crate::sh;

const PROGRAM: &str = "csi-sanity";
const VERSION: &str = "v5.6.0";
const MODULE: &str = "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity";
/// The first Go that fetches by itself the newer toolchain that a module asks for.
const OLDEST: (u32, u32) = (1, 21);

/// Installs the suite if it is missing or of another version, and Go if there is none that can build it.
pub(super) fn install_missing() -> Result<()> {
    let bin = tools::tools_dir().join("bin");
    let stamp = bin.join(format!("{PROGRAM}.version"));
    let installed = fs::read_to_string(&stamp).is_ok_and(|version| version == VERSION);
    if installed && bin.join(PROGRAM).exists() {
        return Ok(());
    }
    println!("installing {PROGRAM} {VERSION} (once, takes minutes)");
    fs::create_dir_all(&bin)?;
    let mut command = Command::new(go()?);
    command.arg("install").arg(format!("{MODULE}@{VERSION}")).env("GOBIN", &bin).env("GOTOOLCHAIN", "auto");
    sh::run(&mut command).with_context(|| format!("go install {MODULE}@{VERSION}"))?;
    fs::write(stamp, VERSION)?;
    Ok(())
}

/// A Go that is new enough: on the search path, where its own installer puts it, or from Debian.
fn go() -> Result<PathBuf> {
    if let Some(go) = found() {
        return Ok(go);
    }
    let advice =
        "install Go 1.21 or newer from https://go.dev/dl into /usr/local/go, or put it on the search path";
    super::debian::install(&["golang-go"]).context(advice)?;
    match found() {
        Some(go) => Ok(go),
        None => bail!("the Go of this Debian release is too old to build {PROGRAM}: {advice}"),
    }
}

fn found() -> Option<PathBuf> {
    let places = [sh::find("go"), Some(PathBuf::from("/usr/local/go/bin/go"))];
    places.into_iter().flatten().find(|go| {
        let said = sh::capture(Command::new(go).arg("version").env("GOTOOLCHAIN", "local"));
        said.ok().and_then(|text| version(&text)).is_some_and(|version| version >= OLDEST)
    })
}

/// Major and minor of `go version go1.26.8 linux/amd64`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split_whitespace().nth(2)?.strip_prefix("go")?.split('.');
    let digits = |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
    Some((digits(numbers.next()?)?, digits(numbers.next()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_go_is_read_and_an_old_one_is_told_from_a_new_one() {
        assert_eq!(version("go version go1.26.8 linux/amd64"), Some((1, 26)));
        assert_eq!(version("go version go1.21rc2 linux/arm64"), Some((1, 21)));
        assert!(version("go version go1.19 linux/amd64").is_some_and(|version| version < OLDEST));
        assert_eq!(version("zsh: command not found"), None);
    }
}
