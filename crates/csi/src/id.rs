//! Ids of volumes and snapshots: `cv1-<fs26>-<hash26>`, `cs1-<fs26>-<hash26>`.
//!
//! An id must be short (Kubernetes and `csi-sanity` send names of 128 bytes and allow ids of 128), tell which file system
//! holds the volume, and be the same whenever the same name is asked for. So it is a pure function of both: base32 of the
//! file system's uuid, and of the first 16 bytes of the name's SHA-256. No counter, no table, nothing to lose at a
//! restart; whether a name was asked for before is told by the registry record that lies under the id.

use data_encoding::BASE32_NOPAD;
use sha2::{Digest, Sha256};
use std::fmt;
use std::marker::PhantomData;
use uuid::Uuid;

/// Base32 digits of 16 bytes.
const DIGITS: usize = 26;

/// What an id can be of: its prefix says so, and which version of the scheme made it.
pub trait Kind {
    /// The first four bytes of every such id.
    const PREFIX: &'static str;
}

/// See [`VolumeId`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfVolume {}

/// See [`SnapshotId`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfSnapshot {}

impl Kind for OfVolume {
    const PREFIX: &'static str = "cv1-";
}

impl Kind for OfSnapshot {
    const PREFIX: &'static str = "cs1-";
}

/// The id of a volume that this driver created; 57 bytes of lower-case ASCII.
pub type VolumeId = Id<OfVolume>;
/// The id of a snapshot that this driver created: as a [`VolumeId`], with another prefix.
pub type SnapshotId = Id<OfSnapshot>;

/// The id of something that this driver created.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id<K> {
    text: String,
    fs: Uuid,
    kind: PhantomData<K>,
}

impl<K: Kind> Id<K> {
    /// The id of what is called `name` in the file system `fs`.
    pub fn new(fs: Uuid, name: &str) -> Self {
        Self { text: compose(K::PREFIX, fs, name), fs, kind: PhantomData }
    }

    /// Reads an id; `None` if it is not one that [`Id::new`] makes (a static volume's handle may be any text).
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self { fs: file_system(K::PREFIX, text)?, text: text.to_owned(), kind: PhantomData })
    }
}

impl<K> Id<K> {
    /// The id as it goes over the wire.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The file system that holds the volume or snapshot.
    pub fn fs(&self) -> Uuid {
        self.fs
    }
}

impl<K> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn compose(prefix: &str, fs: Uuid, name: &str) -> String {
    let hash = Sha256::digest(name.as_bytes());
    format!("{prefix}{}-{}", base32(fs.as_bytes()), base32(&hash[..16]))
}

/// The file system that an id names, if `compose` can have made it.
fn file_system(prefix: &str, text: &str) -> Option<Uuid> {
    let (fs, hash) = text.strip_prefix(prefix)?.split_once('-')?;
    unbase32(hash)?;
    Some(Uuid::from_bytes(unbase32(fs)?))
}

/// Lower-case base32 without padding, usable in file names, DNS labels and mount tables.
pub(crate) fn base32(bytes: &[u8]) -> String {
    BASE32_NOPAD.encode(bytes).to_ascii_lowercase()
}

/// The inverse for 16 bytes; stray bits after the last byte are refused, so every value has one spelling.
fn unbase32(text: &str) -> Option<[u8; 16]> {
    if text.len() != DIGITS || text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    BASE32_NOPAD.decode(text.to_ascii_uppercase().as_bytes()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FS: Uuid = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);

    #[test]
    fn an_id_is_the_same_for_the_same_name_and_different_for_another() {
        assert_eq!(VolumeId::new(FS, "pvc-1"), VolumeId::new(FS, "pvc-1"));
        assert_ne!(VolumeId::new(FS, "pvc-1"), VolumeId::new(FS, "pvc-2"));
        assert_ne!(VolumeId::new(FS, "pvc-1"), VolumeId::new(Uuid::nil(), "pvc-1"));
    }

    #[test]
    fn the_scheme_does_not_change_between_releases() {
        assert_eq!(
            VolumeId::new(FS, "pvc-1").as_str(),
            "cv1-aerukz4jvpg66ajdivtytk6n54-6kdi4gvhzk3gsul43h22wg3zk4"
        );
    }

    #[test]
    fn an_id_of_a_snapshot_is_none_of_a_volume() {
        let (snapshot, volume) = (SnapshotId::new(FS, "a"), VolumeId::new(FS, "a"));
        assert_eq!(SnapshotId::parse(snapshot.as_str()), Some(snapshot.clone()));
        assert_eq!((VolumeId::parse(snapshot.as_str()), SnapshotId::parse(volume.as_str())), (None, None));
        assert_eq!((snapshot.fs(), snapshot.as_str().len()), (FS, 57));
    }

    #[test]
    fn what_only_resembles_an_id_is_not_taken_for_one() {
        let id = VolumeId::new(FS, "pvc-1").text;
        let last_digit_with_stray_bits = format!("{}b", &id[..56]);
        for text in
            ["", "cv1-", "reallyfakevolumeid", &id[..56], &id.to_uppercase(), &last_digit_with_stray_bits]
        {
            assert_eq!(VolumeId::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_id_has_57_bytes_and_reads_back(fs: u128, name in ".{0,200}") {
            let id = VolumeId::new(Uuid::from_u128(fs), &name);
            prop_assert_eq!(id.as_str().len(), 57);
            prop_assert_eq!(VolumeId::parse(id.as_str()), Some(id));
        }

        #[test]
        fn any_text_parses_or_is_refused_without_a_panic(text in ".{0,80}") {
            if let Some(id) = VolumeId::parse(&text) {
                prop_assert_eq!(id.as_str(), text);
            }
        }
    }
}
