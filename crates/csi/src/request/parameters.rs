//! The parameters of a StorageClass.
//!
//! | key | meaning | without it |
//! |---|---|---|
//! | `uid` | owner of the volume's root directory, a number | 0 |
//! | `gid` | group of the volume's root directory, a number | 0 |
//! | `mode` | permission bits of the volume's root directory, octal | `0777` |
//! | `inodeLimit` | how many files and directories the volume may hold | no limit |
//!
//! Keys that begin with `csi.storage.k8s.io/` are Kubernetes' own (names of PVC and PV) and are not ours to judge.

use super::keys::{self, Key};
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
}

impl Key for ParameterKey {
    const MAP: &'static str = "parameter";
    const TABLE: &'static [(Self, &'static [&'static str])] = &[
        (Self::Uid, &["uid"]),
        (Self::Gid, &["gid"]),
        (Self::Mode, &["mode"]),
        (Self::InodeLimit, &["inodeLimit"]),
    ];
}

/// Parameters, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeParameters {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mode: u32,
    pub(crate) inode_limit: Option<u64>,
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
        let own = map.iter().filter(|(key, _)| !is_kubernetes_own(key));
        let parameters = Self {
            uid: uid.unwrap_or(0) as u32,
            gid: gid.unwrap_or(0) as u32,
            mode: mode.unwrap_or(0o777) as u32,
            inode_limit,
            given: own.map(|(key, value)| (key.clone(), value.clone())).collect(),
        };
        keys::unless_faults(parameters, faults)
    }
}

fn is_kubernetes_own(key: &str) -> bool {
    key.starts_with("csi.storage.k8s.io/")
}

/// A user or group number. The highest one means "leave as it is" to chown and belongs to nobody.
fn id(text: &str) -> Option<u64> {
    text.parse::<u32>().ok().filter(|id| *id != u32::MAX).map(u64::from)
}

fn octal_mode(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    u64::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o7777 && !digits.starts_with('+'))
}

fn positive(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number > 0)
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
        let text =
            parse(&[("uuid", "1"), ("Mode", "1"), ("gid", "-1"), ("mode", "999")]).unwrap_err().to_string();
        for part in [r#""Mode", "uuid""#, r#""gid" is "-1""#, r#""mode" is "999""#, "inodeLimit"] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
    }
}
