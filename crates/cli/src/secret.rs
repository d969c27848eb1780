//! Secrets: from the environment or from files, never from where `ps` shows them.
//!
//! Everybody on a machine can read every command line; only the own user and root can read an environment. Still people
//! paste URLs with a password in them. Such a URL is accepted once, with a warning: the program starts itself again with
//! the password moved into the environment, so that it stands in the process list for some milliseconds only.

use crate::failure::{Exit, Failure, Outcome, io};
use carafe_object::Secret;
use clap::Args;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use url::Url;

/// The password of the metadata store.
pub(crate) const META_PASSWORD: &str = "CARAFE_META_PASSWORD";
/// Access key id of the bucket. Without it the variables of the service (`AWS_ACCESS_KEY_ID`, ...) or the instance role.
pub(crate) const ACCESS_KEY: &str = "CARAFE_ACCESS_KEY";
/// Secret access key of the bucket.
pub(crate) const SECRET_KEY: &str = "CARAFE_SECRET_KEY";
/// Session token of temporary keys.
pub(crate) const SESSION_TOKEN: &str = "CARAFE_SESSION_TOKEN";

/// Files that hold secrets. Each may be given as a variable instead.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SecretArgs {
    /// File with the password of the metadata store [or the variable CARAFE_META_PASSWORD]
    #[arg(long, value_name = "FILE", help_heading = "Secrets")]
    meta_password_file: Option<PathBuf>,

    /// File with the certificates (PEM) to trust for rediss:// instead of the usual public ones
    #[arg(long, value_name = "FILE", help_heading = "Secrets")]
    meta_ca_file: Option<PathBuf>,

    /// File with the access key id of the bucket [or CARAFE_ACCESS_KEY, or AWS_ACCESS_KEY_ID]
    #[arg(long, value_name = "FILE", help_heading = "Secrets")]
    access_key_file: Option<PathBuf>,

    /// File with the secret key of the bucket [or CARAFE_SECRET_KEY, or AWS_SECRET_ACCESS_KEY]
    #[arg(long, value_name = "FILE", help_heading = "Secrets")]
    secret_key_file: Option<PathBuf>,

    /// File with the session token of temporary keys [or CARAFE_SESSION_TOKEN, or AWS_SESSION_TOKEN]
    #[arg(long, value_name = "FILE", help_heading = "Secrets")]
    session_token_file: Option<PathBuf>,
}

/// The secrets themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets {
    pub(crate) meta_password: Option<Secret>,
    pub(crate) meta_ca_pem: Option<Vec<u8>>,
    pub(crate) access_key: Option<String>,
    pub(crate) secret_key: Option<Secret>,
    pub(crate) session_token: Option<Secret>,
}

impl SecretArgs {
    /// Reads them. A file wins over its variable.
    pub(crate) fn read(&self) -> Outcome<Secrets> {
        Ok(Secrets {
            meta_password: read(&self.meta_password_file, META_PASSWORD)?.map(Secret::new),
            meta_ca_pem: self.meta_ca_file.as_deref().map(read_bytes).transpose()?,
            access_key: read(&self.access_key_file, ACCESS_KEY)?,
            secret_key: read(&self.secret_key_file, SECRET_KEY)?.map(Secret::new),
            session_token: read(&self.session_token_file, SESSION_TOKEN)?.map(Secret::new),
        })
    }
}

fn read(file: &Option<PathBuf>, variable: &str) -> Outcome<Option<String>> {
    match file {
        Some(file) => read_file(file).map(Some),
        None => Ok(std::env::var(variable).ok().filter(|value| !value.is_empty())),
    }
}

fn read_bytes(file: &Path) -> Outcome<Vec<u8>> {
    std::fs::read(file).map_err(io(format!("cannot read {}", file.display())))
}

fn read_file(file: &Path) -> Outcome<String> {
    let text =
        std::fs::read_to_string(file).map_err(io(format!("cannot read the secret {}", file.display())))?;
    match text.trim_end_matches(['\n', '\r']) {
        "" => Err(Failure::new(Exit::Usage, format!("the secret file {} is empty", file.display()))),
        text => Ok(text.to_owned()),
    }
}

/// If the command line holds a password, starts the program again without it and does not return.
pub(crate) fn hide_password() -> Outcome {
    let given: Vec<OsString> = std::env::args_os().collect();
    let mut password = None;
    let clean: Vec<OsString> = given.iter().map(|arg| strip(arg, &mut password)).collect();
    let Some(password) = password else { return Ok(()) };
    // Logging has not begun yet; this line is for the person at the terminal.
    #[expect(clippy::print_stderr, reason = "a warning before there is a log")]
    {
        eprintln!(
            "carafe: warning: the password in the URL was visible in the process list; use {META_PASSWORD} or \
             --meta-password-file"
        );
    }
    let program = std::env::current_exe().map_err(io("cannot find the own program"))?;
    let error = Command::new(program).arg0(&given[0]).args(&clean[1..]).env(META_PASSWORD, password).exec();
    Err(io("cannot start the program again without the password in its command line")(error))
}

/// The argument without the password of a metadata URL in it.
fn strip(argument: &OsStr, password: &mut Option<String>) -> OsString {
    let parsed = argument.to_str().and_then(|text| Url::parse(text).ok());
    let Some(mut url) = parsed.filter(|url| url.scheme().starts_with("redis")) else {
        return argument.to_owned();
    };
    let Some(escaped) = url.password() else { return argument.to_owned() };
    let plain = percent_encoding::percent_decode_str(escaped).decode_utf8_lossy().into_owned();
    if url.set_password(None).is_err() {
        return argument.to_owned();
    }
    *password = Some(plain);
    url.as_str().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_leaves_the_url_and_is_decoded() {
        let mut password = None;
        let clean = strip(OsStr::new("redis://me:p%40ss@host:6379/1"), &mut password);
        assert_eq!((clean.to_str(), password.as_deref()), (Some("redis://me@host:6379/1"), Some("p@ss")));
    }

    #[test]
    fn other_arguments_stay_as_they_are() {
        let mut password = None;
        for same in ["redis://host/1", "mount", "embedded:///a/b", "s3://bucket", "/mnt/a:b@c"] {
            assert_eq!(strip(OsStr::new(same), &mut password), same);
        }
        assert_eq!(password, None);
    }
}
