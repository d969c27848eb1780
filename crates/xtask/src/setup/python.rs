//! The virtual environment: `e2e/requirements.txt` in the tools directory.
//!
//! A copy of the requirements lies beside the environment once they are installed; while the two are equal nothing is asked of pip.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use carafe_testkit::tools;

use crate::sh;

/// Makes the environment, or brings it up to date.
pub(super) fn install_missing(root: &Path) -> Result<()> {
    let file = root.join("e2e/requirements.txt");
    let wanted = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let tools = tools::tools_dir();
    let environment = tools.join("venv");
    let stamp = tools.join("venv.installed");
    if environment.join("bin/python").exists() && fs::read_to_string(&stamp).is_ok_and(|had| had == wanted) {
        return Ok(());
    }
    println!("installing Python packages into {}", environment.display());
    fs::create_dir_all(&tools)?;
    if !environment.join("bin/python").exists() {
        sh::run(Command::new("python3").args(["-m", "venv"]).arg(&environment))
            .context("make a virtual environment")?;
    }
    let python = environment.join("bin/python");
    sh::run(Command::new(python).args(["-m", "pip", "install", "-q", "-r"]).arg(&file))
        .context("pip install")?;
    fs::write(&stamp, wanted)?;
    Ok(())
}
