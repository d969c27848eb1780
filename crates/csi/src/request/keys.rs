//! Maps with known keys only.
//!
//! A misspelt key that is silently ignored costs its user hours, so an unknown key is an error, and all faults of a map
//! are told at once: a StorageClass cannot be edited, so each attempt costs deleting and creating it.

use crate::error::CsiError;
use std::collections::{BTreeMap, HashMap};

/// An enum of the keys that a map may have.
pub(crate) trait Key: Copy + Ord + 'static {
    /// What the map is called in messages.
    const MAP: &'static str;
    /// Every key with its spellings, the canonical one first.
    const TABLE: &'static [(Self, &'static [&'static str])];
}

/// Sorts `map` by key. A key given in two spellings and every unknown key become faults.
pub(crate) fn parse<K: Key>(
    map: &HashMap<String, String>,
    ignored: impl Fn(&str) -> bool,
    faults: &mut Vec<String>,
) -> BTreeMap<K, String> {
    let mut known = BTreeMap::new();
    let mut unknown = Vec::new();
    let mut names: Vec<_> = map.keys().filter(|name| !ignored(name)).collect();
    names.sort_unstable();
    for name in names {
        let Some((key, spellings)) =
            K::TABLE.iter().find(|(_, spellings)| spellings.contains(&name.as_str()))
        else {
            unknown.push(format!("{name:?}"));
            continue;
        };
        if known.insert(*key, map[name].clone()).is_some() {
            faults.push(format!(
                "{} {:?} is given twice, as {}",
                K::MAP,
                spellings[0],
                spellings.join(" and ")
            ));
        }
    }
    if !unknown.is_empty() {
        let allowed: Vec<_> = K::TABLE.iter().map(|(_, spellings)| spellings[0]).collect();
        faults.push(format!("unknown {}s {}; known are {}", K::MAP, unknown.join(", "), allowed.join(", ")));
    }
    known
}

/// `value`, or all the faults.
pub(crate) fn unless_faults<T>(value: T, faults: Vec<String>) -> Result<T, CsiError> {
    if faults.is_empty() { Ok(value) } else { Err(CsiError::Faults(faults)) }
}
