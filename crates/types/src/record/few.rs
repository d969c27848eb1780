//! Records of which a file system has few, kept as JSON that a person can read.

use super::DecodeError;
use crate::attr::Timestamp;
use crate::id::{InodeNo, QuotaId, SessionUuid};
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
}
json_record!(QuotaRecord, "quota");

/// Where a volume is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VolumeState {
    /// Ready to be mounted.
    Ready,
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
}
json_record!(VolumeRecord, "volume");

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
    fn a_superblock_from_the_future_is_refused_even_if_its_fields_are_unknown() {
        let e = Superblock::decode(br#"{"version": 2, "shape": "of things to come"}"#).unwrap_err();
        assert!(matches!(e, DecodeError::Version { found: 2, known: 1, .. }), "{e}");
        assert!(matches!(Superblock::decode(b"{"), Err(DecodeError::Json { .. })));
    }
}
