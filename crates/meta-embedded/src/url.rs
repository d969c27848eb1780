//! `embedded:///path/file?sync=always`.

use carafe_meta::store::StoreError;
use std::fmt;
use std::path::PathBuf;

/// When acknowledged changes are on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// Before they are acknowledged.
    #[default]
    Always,
    /// At most about a second later. A killed process loses nothing, a machine that loses power may.
    EverySec,
}

impl fmt::Display for Sync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sync::Always => "always",
            Sync::EverySec => "everysec",
        })
    }
}

/// Path and sync of a URL.
pub(crate) fn parse(url: &str) -> Result<(PathBuf, Sync), StoreError> {
    let bad = |reason: &str| StoreError::BadUrl { url: url.to_owned(), reason: reason.to_owned() };
    let rest = url.strip_prefix("embedded://").ok_or_else(|| bad("it must begin with embedded://"))?;
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !path.starts_with('/') || path.ends_with('/') {
        return Err(bad("the path of a file is wanted, from the root: embedded:///var/lib/carafe/meta.redb"));
    }
    let mut sync = Sync::default();
    for option in query.split('&').filter(|o| !o.is_empty()) {
        sync = match option {
            "sync=always" => Sync::Always,
            "sync=everysec" => Sync::EverySec,
            _ => return Err(bad("the only option is sync=always or sync=everysec")),
        };
    }
    Ok((PathBuf::from(path), sync))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_file_and_when_it_is_synced() {
        let path = PathBuf::from("/var/lib/x.redb");
        assert_eq!(parse("embedded:///var/lib/x.redb"), Ok((path.clone(), Sync::Always)));
        assert_eq!(parse("embedded:///var/lib/x.redb?sync=everysec"), Ok((path, Sync::EverySec)));
    }

    #[test]
    fn other_urls_are_refused_with_what_would_be_right() {
        for url in
            ["redis:///x", "embedded://x", "embedded:///", "embedded:///x?sync=never", "embedded:///x?y"]
        {
            assert!(matches!(parse(url), Err(StoreError::BadUrl { .. })), "{url}");
        }
    }
}
