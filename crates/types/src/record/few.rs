//! Records of which a file system has few, kept as JSON that a person can read.

use super::DecodeError;
use crate::attr::Timestamp;
use crate::id::{InodeNo, QuotaId, SessionNo, SessionUuid};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The version of all formats together. A store or bucket with a higher one is refused.
pub const FORMAT_VERSION: u32 = 1;

macro_rules! json_record {
    ($ty:ty, $what:literal) => {
        impl $ty {
            /// The stored form.
            pub fn encode(&self) -> Vec<u8> {
                serde_json::to_vec(self).expect("a record of plain fields always serialises")
            }

            /// Reads the stored form.
            ///
            /// # Errors
            /// [`DecodeError::Version`] for a newer program's record, [`DecodeError::Json`] for anything else.
            pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
                decode_json($what, bytes)
            }
        }
    };
}

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

fn decode_json<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, DecodeError> {
    let json = |e: serde_json::Error| DecodeError::Json { what, reason: e.to_string() };
    let head: Versioned = serde_json::from_slice(bytes).map_err(json)?;
    if head.version > FORMAT_VERSION {
        let found = u8::try_from(head.version).unwrap_or(u8::MAX);
        return Err(DecodeError::Version { what, found, known: FORMAT_VERSION as u8 });
    }
    serde_json::from_slice(bytes).map_err(json)
}

/// What `carafe format` decided, once and for all mounts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Superblock {
    /// [`FORMAT_VERSION`] of the writer.
    pub version: u32,
    /// The file system's name, as given to `format`.
    pub name: String,
    /// Its identity; the bucket's marker object holds the same.
    pub uuid: Uuid,
    /// Where the bytes are, without secrets, for example `s3://bucket/prefix`.
    pub bucket: String,
    /// Public bucket settings (`endpoint`, `region`, `path-style`); secrets never.
    #[serde(default)]
    pub bucket_options: BTreeMap<String, String>,
    /// Bytes of a block, a power of two; 4 MiB unless told.
    pub block_size: u32,
    /// Files up to this many bytes may be inline.
    pub inline_max: u32,
    /// How many bytes of inline data the store may hold in all.
    pub inline_budget: u64,
    /// Unix time of `format`, nanoseconds.
    pub created: Timestamp,
}
json_record!(Superblock, "superblock");

/// A client of the store: a mount, a controller or a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// [`FORMAT_VERSION`] of the writer.
    pub version: u32,
    /// Names this session's objects.
    pub uuid: SessionUuid,
    /// Host name, for `carafe status`.
    pub host: String,
    /// Process id on that host.
    pub pid: u32,
    /// What it is: `mount /mnt/x`, `controller`, `gc`.
    pub role: String,
    /// Version of the program.
    pub program: String,
    /// Unix time of registration, nanoseconds.
    pub started: Timestamp,
}
json_record!(SessionRecord, "session");

/// Upper bounds of a quota; `None` is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes, compared with the sum of `st_size`.
    pub bytes: Option<u64>,
    /// Inodes.
    pub inodes: Option<u64>,
}

/// The unchanging part of a quota; what is left of it is counted beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaRecord {
    /// [`FORMAT_VERSION`] of the writer.
    pub version: u32,
    /// The next quota above; `None` for the file system's own.
    pub parent: Option<QuotaId>,
    /// The directory where it begins.
    pub root: InodeNo,
    /// The bounds.
    pub limits: Limits,
    /// Settings of the volume that begins here, as its mounts hear of them with every renewal.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}
json_record!(QuotaRecord, "quota");

/// Where a volume is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VolumeState {
    /// Ready to be mounted.
    Ready,
    /// What it is made from is being copied; it cannot be used yet.
    Copying,
    /// Renamed into the trash, being purged.
    Deleting,
}

/// A CSI volume: a directory with a quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeRecord {
    /// [`FORMAT_VERSION`] of the writer.
    pub version: u32,
    /// `cv1-...`
    pub id: String,
    /// The name that the CO gave at creation.
    pub name: String,
    /// Path of the directory from the root, without a leading `/`.
    pub path: String,
    /// The directory.
    pub root: InodeNo,
    /// Its quota.
    pub quota: QuotaId,
    /// Bytes asked for.
    pub capacity: u64,
    /// Parameters of the StorageClass, to tell a repeated call from a different one.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// Unix time of creation, nanoseconds.
    pub created: Timestamp,
    /// Where it is in its life.
    pub state: VolumeState,
    /// What it was copied from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<CopySource>,
    /// While [`VolumeState::Copying`]: who copies, and how far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopyJob>,
    /// Settings that may be changed during its life (a VolumeAttributesClass).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}
json_record!(VolumeRecord, "volume");

/// A tree that is copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CopySource {
    /// The volume with this id.
    Volume(String),
    /// The snapshot with this id.
    Snapshot(String),
}

impl CopySource {
    /// The id of the volume or snapshot.
    pub fn id(&self) -> &str {
        match self {
            Self::Volume(id) | Self::Snapshot(id) => id,
        }
    }
}

/// Who copies a tree, and how far it is. Kept in the record of what is made, so that another one can take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyJob {
    /// The session that copies.
    pub session: SessionNo,
    /// By the store's clock: from then on, or once the session has ended, another one may take over.
    pub until: Timestamp,
    /// Inodes copied so far.
    pub copied: u64,
    /// Inodes of the source when it began.
    pub total: u64,
}

impl CopyJob {
    /// How much is done, in percent; below 100 until all is.
    pub fn percent(&self) -> u64 {
        (self.copied * 100).checked_div(self.total).unwrap_or(0).min(99)
    }
}

/// A snapshot: a tree that nobody changes, with a quota of its own that counts it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotRecord {
    /// [`FORMAT_VERSION`] of the writer.
    pub version: u32,
    /// `cs1-...`
    pub id: String,
    /// The name that the CO gave at creation.
    pub name: String,
    /// The volume that it was taken of. It may be gone since.
    pub source: String,
    /// The directory, in a folder that no name leads to.
    pub root: InodeNo,
    /// The quota that counts it.
    pub quota: QuotaId,
    /// Bytes of its files, once it is ready.
    pub bytes: u64,
    /// The capacity of its source when it was taken: what a volume made from it must have at least; 0 is no limit.
    pub capacity: u64,
    /// Unix time of the cut, nanoseconds; of the request while it is being made.
    pub created: Timestamp,
    /// Where it is in its life.
    pub state: VolumeState,
    /// While [`VolumeState::Copying`]: who copies, and how far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopyJob>,
}
json_record!(SnapshotRecord, "snapshot");

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock() -> Superblock {
        Superblock {
            version: FORMAT_VERSION,
            name: "demo".into(),
            uuid: Uuid::from_bytes([7; 16]),
            bucket: "file:///srv/demo".into(),
            bucket_options: BTreeMap::new(),
            block_size: 4 << 20,
            inline_max: 4096,
            inline_budget: 64 << 20,
            created: Timestamp(1),
        }
    }

    #[test]
    fn a_superblock_reads_back() {
        assert_eq!(Superblock::decode(&superblock().encode()), Ok(superblock()));
    }

    #[test]
    fn a_volume_record_without_the_newer_fields_reads_and_writes_as_before() {
        let old = br#"{"version":1,"id":"cv1-a","name":"a","path":"volumes/a","root":64,"quota":1,"capacity":5,"parameters":{},"created":7,"state":"ready"}"#;
        let record = VolumeRecord::decode(old).unwrap();
        assert_eq!((record.source.clone(), record.copy, record.settings.len()), (None, None, 0));
        assert_eq!(record.encode(), old);
        let job = CopyJob { session: SessionNo(3), until: Timestamp(9), copied: 5, total: 5 };
        let source = Some(CopySource::Snapshot("cs1-b".into()));
        let new = VolumeRecord { source, copy: Some(job), state: VolumeState::Copying, ..record };
        assert_eq!(VolumeRecord::decode(&new.encode()), Ok(new));
        assert_eq!((job.percent(), CopyJob { total: 0, ..job }.percent()), (99, 0));
    }

    #[test]
    fn a_superblock_from_the_future_is_refused_even_if_its_fields_are_unknown() {
        let e = Superblock::decode(br#"{"version": 2, "shape": "of things to come"}"#).unwrap_err();
        assert!(matches!(e, DecodeError::Version { found: 2, known: 1, .. }), "{e}");
        assert!(matches!(Superblock::decode(b"{"), Err(DecodeError::Json { .. })));
    }
}
