//! The context of a volume: what `CreateVolume` told, or an administrator wrote into a static PersistentVolume, and every
//! node call brings back.
//!
//! | key | meaning |
//! |---|---|
//! | `path` | the volume's directory from the root of its file system |
//! | `fileSystem` | the file system, by the name that the driver's configuration gives it |
//! | `gid` | the directory's group was set: an fsGroup does not change it |
//! | `cache` | `disk` or `memory` |
//! | `cacheSize` | bytes of the cache on the node's disk |
//! | `uploadParallel` | uploads at once |
//! | `isolation` | `shared`, or `volume`: the volume has a mount of its own |

use super::keys::{self, Key};
use super::parameters::{MountKeys, is_kubernetes_own, mount_options};
use super::{CONTEXT_PATH, VolumePath};
use crate::address::MountOptions;
use crate::error::CsiError;
use crate::id::VolumeId;
use std::collections::HashMap;

/// A key of a volume's context; the module's table says what each means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContextKey {
    /// `path`
    Path,
    /// `fileSystem`
    FileSystem,
    /// `gid`
    Gid,
    /// `cache`
    Cache,
    /// `cacheSize`
    CacheSize,
    /// `uploadParallel`
    UploadParallel,
    /// `isolation`
    Isolation,
}

impl Key for ContextKey {
    const MAP: &'static str = "volume attribute";
    const TABLE: &'static [(Self, &'static [&'static str])] = &[
        (Self::Path, &[CONTEXT_PATH]),
        (Self::FileSystem, &["fileSystem"]),
        (Self::Gid, &["gid"]),
        (Self::Cache, &["cache"]),
        (Self::CacheSize, &["cacheSize"]),
        (Self::UploadParallel, &["uploadParallel"]),
        (Self::Isolation, &["isolation"]),
    ];
}

const EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";

/// A checked context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeContext {
    /// The volume's directory.
    pub(crate) path: VolumePath,
    /// The name of its file system.
    pub(crate) file_system: Option<String>,
    /// An fsGroup does not change the directory's group.
    pub(crate) has_group: bool,
    /// How its file system is to be mounted.
    pub(crate) options: MountOptions,
}

impl VolumeContext {
    /// Reads the context of the volume `id`; one without a path lies under its id in `base`.
    ///
    /// # Errors
    /// [`CsiError::Faults`] that names every unknown key and wrong value; [`CsiError::NoVolume`] for a static volume that
    /// says no path.
    pub(crate) fn parse(
        id: &str,
        context: &HashMap<String, String>,
        base: &VolumePath,
    ) -> Result<Self, CsiError> {
        if context.get(EPHEMERAL).is_some_and(|value| value == "true") {
            let reason = "inline volumes are not served: use a generic ephemeral volume (`ephemeral.volumeClaimTemplate`)";
            return Err(CsiError::invalid("volume_context", reason));
        }
        let mut faults = Vec::new();
        let values = keys::parse::<ContextKey>(context, is_kubernetes_own, &mut faults);
        let text = |key| values.get(&key).map(String::as_str);
        let wanted = MountKeys {
            cache: text(ContextKey::Cache),
            cache_size: text(ContextKey::CacheSize),
            upload_parallel: text(ContextKey::UploadParallel),
            isolation: text(ContextKey::Isolation),
        };
        let (mut options, alone) = mount_options(ContextKey::MAP, &wanted, &mut faults);
        options.alone = alone.then(|| id.to_owned());
        let path = match text(ContextKey::Path).map(VolumePath::new) {
            Some(Ok(path)) => Some(path),
            Some(Err(reason)) => {
                faults.push(format!("volume attribute \"path\" is {reason}"));
                None
            }
            None => VolumeId::parse(id).map(|id| VolumePath::of(base, &id)),
        };
        keys::unless_faults((), faults)?;
        Ok(Self {
            path: path.ok_or_else(|| CsiError::NoVolume(id.to_owned()))?,
            file_system: text(ContextKey::FileSystem).map(str::to_owned),
            has_group: values.contains_key(&ContextKey::Gid),
            options,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(id: &str, pairs: &[(&str, &str)]) -> Result<VolumeContext, CsiError> {
        let map = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        VolumeContext::parse(id, &map, &VolumePath::new("volumes").unwrap())
    }

    #[test]
    fn a_static_volume_says_where_it_lies_and_a_dynamic_one_lies_under_its_id() {
        let given =
            parse("any handle", &[("path", "/tables/a"), ("fileSystem", "main"), ("gid", "7")]).unwrap();
        assert_eq!((given.path.as_str(), given.file_system.as_deref()), ("tables/a", Some("main")));
        assert!(given.has_group && given.options == MountOptions::default());
        let id = VolumeId::new(uuid::Uuid::nil(), "a");
        assert_eq!(parse(id.as_str(), &[]).unwrap().path.as_str(), format!("volumes/{id}"));
        assert!(matches!(parse("any handle", &[]), Err(CsiError::NoVolume(_))));
    }

    #[test]
    fn options_of_the_mount_are_read_and_all_faults_are_told_at_once() {
        let pairs = [("path", "a"), ("cache", "memory"), ("isolation", "volume"), ("uploadParallel", "9")];
        let options = parse("h", &pairs).unwrap().options;
        assert_eq!(
            (options.memory_only, options.alone.as_deref(), options.upload_parallel),
            (true, Some("h"), Some(9))
        );
        let bad = [
            ("pth", "a"),
            ("path", "../a"),
            ("cache", "ssd"),
            ("cacheSize", "big"),
            ("storage.kubernetes.io/x", "1"),
        ];
        let text = parse("h", &bad).unwrap_err().to_string();
        for part in [r#""pth""#, r#"".."#, r#""cache" is "ssd""#, r#""cacheSize" is "big""#] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
        assert!(!text.contains("kubernetes.io"), "{text}");
        let inline = parse("h", &[(EPHEMERAL, "true")]).unwrap_err().to_string();
        assert!(inline.contains("volumeClaimTemplate"), "{inline}");
    }
}
