//! Settings that may be changed while a volume is in use: the parameters of a VolumeAttributesClass.
//!
//! | key | meaning |
//! |---|---|
//! | `closeSync` | `true`: close() returns when the data is in the bucket |
//! | `trashDays` | days that the deleted volume stays in the trash |
//! | `inodeLimit` | how many files and directories the volume may hold |
//! | `readAhead` | bytes that are read ahead of a sequential reader |
//! | `uploadRate`, `downloadRate` | bytes a second to and from the bucket |
//! | `opsRate` | metadata operations a second |

use super::keys::{self, Key};
use super::quantity::{positive, quantity, truth};
use crate::error::CsiError;
use std::collections::{BTreeMap, HashMap};

/// A key of the settings; the module's table says what each means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingKey {
    /// `closeSync`
    CloseSync,
    /// `trashDays`
    TrashDays,
    /// `inodeLimit`
    InodeLimit,
    /// `readAhead`
    ReadAhead,
    /// `uploadRate`
    UploadRate,
    /// `downloadRate`
    DownloadRate,
    /// `opsRate`
    OpsRate,
}

impl Key for SettingKey {
    const MAP: &'static str = "mutable parameter";
    const TABLE: &'static [(Self, &'static [&'static str])] = &[
        (Self::CloseSync, &["closeSync"]),
        (Self::TrashDays, &["trashDays"]),
        (Self::InodeLimit, &["inodeLimit"]),
        (Self::ReadAhead, &["readAhead"]),
        (Self::UploadRate, &["uploadRate"]),
        (Self::DownloadRate, &["downloadRate"]),
        (Self::OpsRate, &["opsRate"]),
    ];
}

/// Settings, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// For the record, quantities as plain numbers: mounts read them.
    pub(crate) given: BTreeMap<String, String>,
    /// `inodeLimit`.
    pub(crate) inode_limit: Option<u64>,
}

impl Settings {
    /// Reads the mutable parameters of a request.
    ///
    /// # Errors
    /// [`CsiError::Faults`] that names every unknown key and every wrong value.
    pub(crate) fn parse(map: &HashMap<String, String>) -> Result<Self, CsiError> {
        let mut faults = Vec::new();
        let values = keys::parse::<SettingKey>(map, |_| false, &mut faults);
        for (key, text) in &values {
            let (good, what) = match key {
                SettingKey::CloseSync => (truth(text).is_some(), "true or false"),
                SettingKey::TrashDays => (text.parse::<u16>().is_ok(), "a number of days"),
                SettingKey::InodeLimit => (positive(text).is_some(), "a number above 0"),
                SettingKey::ReadAhead => (quantity(text).is_some(), "a number of bytes, for example 8Mi"),
                SettingKey::UploadRate | SettingKey::DownloadRate => {
                    (quantity(text).is_some(), "a number of bytes a second, for example 100Mi; 0 is no bound")
                }
                SettingKey::OpsRate => {
                    (quantity(text).is_some(), "a number of operations a second; 0 is no bound")
                }
            };
            if !good {
                let name = spelling(*key);
                faults.push(format!("mutable parameter {name:?} is {text:?}, which is not {what}"));
            }
        }
        let inode_limit = values.get(&SettingKey::InodeLimit).and_then(|text| positive(text));
        let given = values.iter().map(|(key, text)| (spelling(*key).to_owned(), plain(text))).collect();
        keys::unless_faults(Self { given, inode_limit }, faults)
    }
}

fn spelling(key: SettingKey) -> &'static str {
    SettingKey::TABLE.iter().find(|(known, _)| *known == key).map_or("", |(_, names)| names[0])
}

/// A quantity as a plain number, anything else as it is.
fn plain(text: &str) -> String {
    quantity(text).map_or_else(|| text.to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Settings, CsiError> {
        Settings::parse(&pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn settings_are_checked_and_all_faults_are_told_at_once() {
        let good = parse(&[("closeSync", "true"), ("inodeLimit", "5k"), ("uploadRate", "0")]).unwrap();
        assert_eq!((good.inode_limit, good.given["inodeLimit"].as_str()), (Some(5000), "5000"));
        assert_eq!((good.given["closeSync"].as_str(), good.given.len()), ("true", 3));
        let text =
            parse(&[("closesync", "1"), ("readAhead", "much"), ("opsRate", "-1")]).unwrap_err().to_string();
        for part in [r#""closesync""#, r#""readAhead" is "much""#, r#""opsRate" is "-1""#, "trashDays"] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
    }
}
