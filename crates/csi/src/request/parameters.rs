//! The parameters of a StorageClass.
//!
//! | key | meaning | without it |
//! |---|---|---|
//! | `uid` | owner of the volume's root directory, a number | 0 |
//! | `gid` | group of the volume's root directory, a number | 0 |
//! | `mode` | permission bits of the volume's root directory, octal | `0777` |
//! | `inodeLimit` | how many files and directories the volume may hold | no limit |
//! | `fileSystem` | the file system, by the name or uuid that the driver knows | the secret's, or the only one |
//! | `pathPattern` | where the volume lies (`pattern`) | the driver's folder, under the volume's id |
//! | `onPathExists` | `adopt`: take over a volume that was retained at that path; `fail` | `fail` |
//! | `cache` | `disk`, or `memory`: nothing on the node's disk | `disk` |
//! | `cacheSize` | bytes of the cache on the node's disk | the driver's |
//! | `uploadParallel` | uploads at once | the driver's |
//! | `isolation` | `volume`: a mount of its own; `shared` | `shared` |
//!
//! Keys that begin with `csi.storage.k8s.io/` are Kubernetes' own (names of PVC and PV) and are not ours to judge.

use super::keys::{self, Key};
use super::pattern::PathPattern;
use super::quantity::positive;
use crate::address::MountOptions;
use crate::error::CsiError;
use std::collections::{BTreeMap, HashMap};

/// A key of the parameters; the module's table says what each means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ParameterKey {
    /// `uid`
    Uid,
    /// `gid`
    Gid,
    /// `mode`
    Mode,
    /// `inodeLimit`
    InodeLimit,
    /// `fileSystem`
    FileSystem,
    /// `pathPattern`
    PathPattern,
    /// `onPathExists`
    OnPathExists,
    /// `cache`
    Cache,
    /// `cacheSize`
    CacheSize,
    /// `uploadParallel`
    UploadParallel,
    /// `isolation`
    Isolation,
}

impl Key for ParameterKey {
    const MAP: &'static str = "parameter";
    const TABLE: &'static [(Self, &'static [&'static str])] = &[
        (Self::Uid, &["uid"]),
        (Self::Gid, &["gid"]),
        (Self::Mode, &["mode"]),
        (Self::InodeLimit, &["inodeLimit"]),
        (Self::FileSystem, &["fileSystem"]),
        (Self::PathPattern, &["pathPattern"]),
        (Self::OnPathExists, &["onPathExists"]),
        (Self::Cache, &["cache"]),
        (Self::CacheSize, &["cacheSize"]),
        (Self::UploadParallel, &["uploadParallel"]),
        (Self::Isolation, &["isolation"]),
    ];
}

/// Parameters, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeParameters {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mode: u32,
    pub(crate) inode_limit: Option<u64>,
    /// The name or uuid of the file system.
    pub(crate) file_system: Option<String>,
    /// Where the volume lies.
    pub(crate) pattern: Option<PathPattern>,
    /// A volume that was left at that path is taken over.
    pub(crate) adopt: bool,
    /// What every node call must know: goes into the volume's context.
    pub(crate) context: BTreeMap<String, String>,
    /// The parameters as given, less Kubernetes' own: what a repeated call is compared with.
    pub(crate) given: BTreeMap<String, String>,
}

impl VolumeParameters {
    /// Reads the parameters of a request.
    ///
    /// # Errors
    /// [`CsiError::Faults`] that names every unknown key and every wrong value.
    pub(crate) fn parse(map: &HashMap<String, String>) -> Result<Self, CsiError> {
        let mut faults = Vec::new();
        let values = keys::parse::<ParameterKey>(map, is_kubernetes_own, &mut faults);
        let mut number = |key, name: &str, parse: fn(&str) -> Option<u64>, what: &str| {
            let text = values.get(&key)?;
            let value = parse(text);
            if value.is_none() {
                faults.push(format!("parameter {name:?} is {text:?}, which is not {what}"));
            }
            value
        };
        let uid = number(ParameterKey::Uid, "uid", id, "a user number");
        let gid = number(ParameterKey::Gid, "gid", id, "a group number");
        let mode = number(ParameterKey::Mode, "mode", octal_mode, "an octal mode between 0 and 7777");
        let inode_limit = number(ParameterKey::InodeLimit, "inodeLimit", positive, "a number above 0");
        let text = |key| values.get(&key).map(String::as_str);
        let wanted = MountKeys {
            cache: text(ParameterKey::Cache),
            cache_size: text(ParameterKey::CacheSize),
            upload_parallel: text(ParameterKey::UploadParallel),
            isolation: text(ParameterKey::Isolation),
        };
        mount_options(ParameterKey::MAP, &wanted, &mut faults);
        let pattern = text(ParameterKey::PathPattern).map(PathPattern::parse).transpose();
        let pattern = pattern.unwrap_or_else(|reason| {
            faults.push(format!("parameter \"pathPattern\": {reason}"));
            None
        });
        let adopt = match text(ParameterKey::OnPathExists) {
            None | Some("fail") => false,
            Some("adopt") => true,
            Some(other) => {
                faults.push(format!(
                    "parameter \"onPathExists\" is {other:?}, which is not \"fail\" or \"adopt\""
                ));
                false
            }
        };
        let own = map.iter().filter(|(key, _)| !is_kubernetes_own(key));
        let for_nodes = ["fileSystem", "gid", "cache", "cacheSize", "uploadParallel", "isolation"];
        let context = own.clone().filter(|(key, _)| for_nodes.contains(&key.as_str()));
        let parameters = Self {
            uid: uid.unwrap_or(0) as u32,
            gid: gid.unwrap_or(0) as u32,
            mode: mode.unwrap_or(0o777) as u32,
            inode_limit,
            file_system: text(ParameterKey::FileSystem).map(str::to_owned),
            pattern,
            adopt,
            context: context.map(|(key, value)| (key.clone(), value.clone())).collect(),
            given: own.map(|(key, value)| (key.clone(), value.clone())).collect(),
        };
        keys::unless_faults(parameters, faults)
    }
}

/// What the mount of a volume can be told, as text.
pub(super) struct MountKeys<'a> {
    pub(super) cache: Option<&'a str>,
    pub(super) cache_size: Option<&'a str>,
    pub(super) upload_parallel: Option<&'a str>,
    pub(super) isolation: Option<&'a str>,
}

/// The options that these say, and whether the volume has a mount of its own. `map` is for the messages.
pub(super) fn mount_options(
    map: &str,
    keys: &MountKeys<'_>,
    faults: &mut Vec<String>,
) -> (MountOptions, bool) {
    let mut wrong = |name: &str, text: &str, what: &str| {
        faults.push(format!("{map} {name:?} is {text:?}, which is not {what}"));
    };
    let mut options = MountOptions::default();
    match keys.cache {
        None | Some("disk") => {}
        Some("memory") => options.memory_only = true,
        Some(other) => wrong("cache", other, "\"disk\" or \"memory\""),
    }
    if let Some(text) = keys.cache_size {
        options.cache_size = positive(text);
        if options.cache_size.is_none() {
            wrong("cacheSize", text, "a number of bytes, for example 10Gi");
        }
    }
    if let Some(text) = keys.upload_parallel {
        options.upload_parallel = text.parse().ok().filter(|uploads| (1..=1024).contains(uploads));
        if options.upload_parallel.is_none() {
            wrong("uploadParallel", text, "a number from 1 to 1024");
        }
    }
    let alone = match keys.isolation {
        None | Some("shared") => false,
        Some("volume") => true,
        Some(other) => {
            wrong("isolation", other, "\"shared\" or \"volume\"");
            false
        }
    };
    (options, alone)
}

/// Names of claims and pods, the provisioner's identity: put there by Kubernetes.
pub(super) fn is_kubernetes_own(key: &str) -> bool {
    key.starts_with("csi.storage.k8s.io/") || key.starts_with("storage.kubernetes.io/")
}

/// A user or group number. The highest one means "leave as it is" to chown and belongs to nobody.
fn id(text: &str) -> Option<u64> {
    text.parse::<u32>().ok().filter(|id| *id != u32::MAX).map(u64::from)
}

fn octal_mode(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    u64::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o7777 && !digits.starts_with('+'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<VolumeParameters, CsiError> {
        let map = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        VolumeParameters::parse(&map)
    }

    #[test]
    fn without_parameters_everybody_may_use_the_volume() {
        let parameters = parse(&[]).unwrap();
        assert_eq!((parameters.uid, parameters.gid, parameters.mode), (0, 0, 0o777));
        assert_eq!(parameters.inode_limit, None);
    }

    #[test]
    fn parameters_are_read_and_those_of_kubernetes_are_left_out() {
        let pairs =
            [("uid", "101"), ("mode", "2775"), ("inodeLimit", "9"), ("csi.storage.k8s.io/pvc/name", "data")];
        let parameters = parse(&pairs).unwrap();
        assert_eq!((parameters.uid, parameters.mode, parameters.inode_limit), (101, 0o2775, Some(9)));
        assert_eq!(parameters.given.keys().collect::<Vec<_>>(), ["inodeLimit", "mode", "uid"]);
    }

    #[test]
    fn unknown_and_wrong_parameters_are_all_named_at_once() {
        let text = parse(&[
            ("uuid", "1"),
            ("Mode", "1"),
            ("gid", "-1"),
            ("mode", "999"),
            ("pathPattern", "../${pvc.name}"),
            ("onPathExists", "replace"),
            ("cache", "tape"),
        ])
        .unwrap_err()
        .to_string();
        let parts = [
            r#""Mode", "uuid""#,
            r#""gid" is "-1""#,
            r#""mode" is "999""#,
            "inodeLimit",
            r#""pathPattern": "#,
            r#""onPathExists" is "replace""#,
            r#""cache" is "tape""#,
        ];
        for part in parts {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
    }
}
