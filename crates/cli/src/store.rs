//! Opening the metadata store that a URL names, and looking at what is in it.

use crate::failure::{Exit, Failure, Outcome};
use crate::secret::Secrets;
use carafe_meta::store::{MetaStore, StoreError, StoreInfo};
use carafe_types::record::Superblock;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use url::Url;

/// What a metadata URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MetaUrl {
    /// `redis://`, `rediss://`, `redis+unix://`
    Redis(Url),
    /// `embedded:///path?options`
    Embedded {
        /// The file.
        path: PathBuf,
        /// What stands behind the question mark.
        options: Option<String>,
    },
}

impl MetaUrl {
    /// Parses it.
    pub(crate) fn parse(text: &str) -> Outcome<Self> {
        let bad =
            |reason: String| Failure::new(Exit::Usage, format!("metadata URL {:?}: {reason}", shown(text)));
        let url = Url::parse(text).map_err(|e| {
            bad(format!(
                "{e}; write redis://HOST:PORT/DB, rediss://..., redis+unix:///SOCKET or embedded:///FILE"
            ))
        })?;
        match url.scheme() {
            "redis" | "rediss" | "redis+unix" => Ok(MetaUrl::Redis(url)),
            "embedded" => {
                let path = percent_encoding::percent_decode_str(url.path()).decode_utf8_lossy().into_owned();
                if url.host().is_some() || path.len() < 2 {
                    return Err(bad("write embedded:///ABSOLUTE/PATH with three slashes".into()));
                }
                Ok(MetaUrl::Embedded { path: path.into(), options: url.query().map(str::to_owned) })
            }
            other => Err(bad(format!(
                "unknown scheme {other:?}; known are redis, rediss, redis+unix and embedded"
            ))),
        }
    }

    /// Whether only one process can have it open.
    pub(crate) fn is_embedded(&self) -> bool {
        matches!(self, MetaUrl::Embedded { .. })
    }
}

/// The URL without a password, for people.
pub(crate) fn shown(text: &str) -> String {
    match Url::parse(text) {
        Ok(mut url) if url.password().is_some() => {
            // A URL with a password has an authority, the only thing that could stand against it.
            let _ = url.set_password(Some("..."));
            url.into()
        }
        _ => text.rsplit_once('@').map_or_else(|| text.to_owned(), |(_, rest)| format!("...@{rest}")),
    }
}

/// The folder that a metadata file would lie in, if it is not there.
fn missing_folder(file: &Path) -> Option<&Path> {
    file.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists())
}

/// Connects. `create` makes the embedded engine's file if it does not exist.
pub(crate) async fn connect(url: &MetaUrl, secrets: &Secrets, create: bool) -> Outcome<Arc<dyn MetaStore>> {
    match url {
        MetaUrl::Redis(url) => {
            let options = carafe_meta_redis::Options {
                password: secrets.meta_password.as_ref().map(|p| p.expose().to_owned()),
                ca_pem: secrets.meta_ca_pem.clone(),
                ..carafe_meta_redis::Options::default()
            };
            Ok(Arc::new(carafe_meta_redis::RedisStore::new(url.as_str(), &options)?))
        }
        MetaUrl::Embedded { path, .. } if !create && !path.exists() => Err(StoreError::NotFormatted.into()),
        MetaUrl::Embedded { path, options } => {
            if let Some(folder) = missing_folder(path).map(Path::display) {
                let what = format!("the folder {folder} of the metadata file does not exist");
                return Err(
                    Failure::new(Exit::Unreachable, what).next(format!("make it: `mkdir -p {folder}`"))
                );
            }
            let options = options.as_ref().map(|o| format!("?{o}")).unwrap_or_default();
            let url = format!("embedded://{}{options}", path.display());
            // A file that was not closed well is checked first, which takes its time.
            tokio::task::spawn_blocking(move || carafe_meta_embedded::open(&url))
                .await
                .map_err(|e| Failure::new(Exit::Failed, format!("opening the store panicked: {e}")))?
                .map_err(|e| match e {
                    StoreError::Unreachable { .. } => Failure::from(e)
                        .next("end that process, or ask it: `findmnt -t fuse.carafe`, `carafe info DIR`"),
                    other => Failure::from(other),
                })
        }
    }
}

/// What the store holds, checked as far as this program must be able to read it.
pub(crate) async fn inspect(store: &dyn MetaStore) -> Outcome<(StoreInfo, Superblock)> {
    let info = store.info().await?;
    let bytes = info.superblock.as_ref().ok_or(StoreError::NotFormatted)?;
    let superblock = Superblock::decode(bytes)
        .map_err(|source| StoreError::Damaged { key: "superblock".into(), source })?;
    Ok((info, superblock))
}

/// Whether the server's settings keep what they are given.
pub(crate) fn check_fit(info: &StoreInfo, allow_volatile: bool) -> Outcome {
    let unfit = info.unfit_unless(allow_volatile);
    if unfit.is_empty() {
        return Ok(());
    }
    let only_volatile = info.unfit_unless(true).is_empty();
    let failure = Failure::new(Exit::Refused, format!("the metadata store is unfit: {}", unfit.join("; ")));
    Err(failure.next(if only_volatile {
        "change the server's settings, or accept the loss with --allow-volatile"
    } else {
        "change the server's settings, then try again"
    }))
}

/// Tells what a person should know about the server.
pub(crate) fn warn(info: &StoreInfo) {
    info.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn urls_name_their_engine() {
        assert!(matches!(MetaUrl::parse("redis://h:1/2"), Ok(MetaUrl::Redis(_))));
        assert!(matches!(MetaUrl::parse("redis+unix:///run/r.sock"), Ok(MetaUrl::Redis(_))));
        let embedded = MetaUrl::parse("embedded:///var/a%20b").unwrap();
        assert!(matches!(embedded, MetaUrl::Embedded { path, .. } if path == Path::new("/var/a b")));
    }

    #[test]
    fn a_bad_url_says_what_would_be_right_and_hides_a_password() {
        for (text, part) in [
            ("mysql://h/db", "known are redis"),
            ("nothing", "write redis://"),
            ("embedded://a/b", "three slashes"),
            ("embedded:///", "three slashes"),
            ("ftp://u:hush@h", "unknown scheme"),
        ] {
            let error = MetaUrl::parse(text).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("hush"), "{error}");
        }
    }
}
