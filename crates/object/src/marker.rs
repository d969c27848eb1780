//! Whose bucket it is: one small object, `carafe-fs`, at the root of each file system's bucket or prefix.
//!
//! Two file systems in one bucket would not overwrite each other's objects (names are random), but the collector of one
//! would delete what the other wrote. So every mount and every collector compares this marker with the uuid in the
//! metadata store first, and nothing is deleted from a bucket that says it belongs to someone else.
//!
//! The marker is JSON so that a person who finds the bucket can read it, with a checksum so that a damaged one is not
//! taken for another file system's. Two `format`s of one bucket at the same moment: the last one wins, the other's first
//! mount is refused, and no object is lost.

use crate::bucket::Bucket;
use crate::error::{ObjectError, Result};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Key of the marker.
pub const MARKER_KEY: &str = "carafe-fs";

/// Format of everything in the bucket that this build reads and writes.
pub const FORMAT_VERSION: u32 = 1;

/// Longest marker in bytes; a longer object of that name is not ours.
const MARKER_LEN_MAX: usize = 4096;

/// What the marker says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsMarker {
    /// Identity of the file system, as in the metadata store.
    pub uuid: Uuid,
    /// Its name, for people.
    pub name: String,
    /// Format of the objects in the bucket.
    pub format: u32,
    /// When it was made, in seconds since 1970.
    pub created: u64,
}

/// The marker as it is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(flatten)]
    marker: FsMarker,
    /// crc32c of the fields in [`FsMarker::crc`]'s form.
    crc32c: u32,
}

/// What no version of the marker changes.
#[derive(Deserialize)]
struct Version {
    format: u32,
}

impl FsMarker {
    /// The marker of a new file system. `created` in seconds since 1970.
    ///
    /// # Errors
    /// [`ObjectError::Corrupt`] if the name is too long for a marker (about 1000 characters).
    pub fn new(uuid: Uuid, name: &str, created: u64) -> Result<Self> {
        let marker = FsMarker { uuid, name: name.to_owned(), format: FORMAT_VERSION, created };
        if marker.encode().len() > MARKER_LEN_MAX {
            return Err(ObjectError::corrupt(MARKER_KEY, "the name of the file system is too long"));
        }
        Ok(marker)
    }

    /// The bytes of the object.
    pub fn encode(&self) -> Bytes {
        let stored = Stored { marker: self.clone(), crc32c: self.crc() };
        let mut text = serde_json::to_vec_pretty(&stored).expect("plain fields always serialise");
        text.push(b'\n');
        Bytes::from(text)
    }

    /// The marker in these bytes.
    ///
    /// # Errors
    /// [`ObjectError::Corrupt`] or [`ObjectError::FutureVersion`].
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let corrupt = |detail: String| ObjectError::corrupt(MARKER_KEY, detail);
        if bytes.len() > MARKER_LEN_MAX {
            return Err(corrupt(format!("longer than {MARKER_LEN_MAX} bytes, not written by carafe")));
        }
        let parsed = serde_json::from_slice::<Stored>(bytes);
        if let Ok(Stored { marker, crc32c }) = &parsed
            && marker.format == FORMAT_VERSION
        {
            // Comparing the text finds also what JSON would forgive, as a damaged space.
            let intact = *crc32c == marker.crc() && marker.encode() == bytes;
            return if intact {
                Ok(marker.clone())
            } else {
                Err(corrupt("its checksum does not match".into()))
            };
        }
        match (serde_json::from_slice::<Version>(bytes), parsed) {
            (Ok(Version { format }), _) if format > FORMAT_VERSION => Err(ObjectError::FutureVersion {
                what: format!("the bucket's marker {MARKER_KEY}"),
                found: format,
                known: FORMAT_VERSION,
            }),
            (_, Err(e)) => Err(corrupt(e.to_string())),
            (_, Ok(_)) => Err(corrupt("it has a format that never was".into())),
        }
    }

    /// Over all fields, each ended by a NUL.
    fn crc(&self) -> u32 {
        crc32c::crc32c(
            format!("{}\0{}\0{}\0{}\0", self.uuid, self.name, self.format, self.created).as_bytes(),
        )
    }

    fn title(&self) -> String {
        format!("{:?} ({})", self.name, self.uuid)
    }
}

impl Bucket {
    /// The marker, or nothing if the bucket holds no file system.
    ///
    /// # Errors
    /// As [`Bucket::get`] and [`FsMarker::decode`].
    pub async fn read_marker(&self) -> Result<Option<FsMarker>> {
        // One byte more than a marker may have: whatever lies there, no more is read.
        match self.get_last(MARKER_KEY, MARKER_LEN_MAX as u64 + 1).await {
            Ok(bytes) => FsMarker::decode(&bytes).map(Some),
            Err(ObjectError::NotFound { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Takes the bucket for a file system. Doing so again changes nothing.
    ///
    /// # Errors
    /// [`ObjectError::ForeignBucket`] if it belongs to another one; as [`Bucket::put`].
    pub async fn write_marker(&self, marker: &FsMarker) -> Result<()> {
        match self.read_marker().await? {
            Some(found) if found.uuid == marker.uuid => return Ok(()),
            Some(found) => return Err(foreign(&found, marker.title())),
            None => self.put(MARKER_KEY, marker.encode()).await?,
        }
        self.verify_marker(marker.uuid).await.map(drop)
    }

    /// Makes sure that the bucket belongs to this file system.
    ///
    /// # Errors
    /// [`ObjectError::Unformatted`], [`ObjectError::ForeignBucket`], [`ObjectError::FutureVersion`]; as [`Bucket::get`].
    pub async fn verify_marker(&self, uuid: Uuid) -> Result<FsMarker> {
        match self.read_marker().await? {
            Some(found) if found.uuid == uuid => Ok(found),
            Some(found) => Err(foreign(&found, uuid.to_string())),
            None => Err(ObjectError::Unformatted { bucket: self.name().to_owned() }),
        }
    }
}

fn foreign(found: &FsMarker, wanted: String) -> ObjectError {
    ObjectError::ForeignBucket { found: found.title(), wanted }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn marker(n: u128, name: &str) -> FsMarker {
        FsMarker::new(Uuid::from_u128(n), name, 1_700_000_000).unwrap()
    }

    #[tokio::test]
    async fn a_bucket_belongs_to_one_file_system() {
        let bucket = Bucket::memory();
        let (mine, other) = (marker(1, "mine"), marker(2, "other"));
        assert!(matches!(bucket.verify_marker(mine.uuid).await, Err(ObjectError::Unformatted { .. })));
        bucket.write_marker(&mine).await.unwrap();
        bucket.write_marker(&mine).await.unwrap();
        assert_eq!(bucket.verify_marker(mine.uuid).await.unwrap(), mine);
        for e in [
            bucket.write_marker(&other).await.unwrap_err(),
            bucket.verify_marker(other.uuid).await.unwrap_err(),
        ] {
            assert!(matches!(e, ObjectError::ForeignBucket { .. }) && e.to_string().contains("mine"), "{e}");
        }
    }

    #[tokio::test]
    async fn an_object_of_that_name_from_elsewhere_is_refused() {
        let bucket = Bucket::memory();
        bucket.put(MARKER_KEY, vec![b' '; 1 << 20].into()).await.unwrap();
        assert!(matches!(bucket.read_marker().await, Err(ObjectError::Corrupt { .. })));
        assert!(bucket.write_marker(&marker(1, "mine")).await.is_err());
    }

    #[test]
    fn a_marker_from_the_future_asks_for_an_upgrade() {
        let e = FsMarker::decode(br#"{"format": 2, "anything": ["else"]}"#).unwrap_err();
        assert!(matches!(e, ObjectError::FutureVersion { found: 2, known: 1, .. }), "{e}");
    }

    #[test]
    fn a_name_that_does_not_fit_is_refused() {
        assert!(FsMarker::new(Uuid::nil(), &"x".repeat(5000), 0).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(uuid: u128, name in "\\PC{0,200}", created: u64) {
            let marker = FsMarker::new(Uuid::from_u128(uuid), &name, created).unwrap();
            prop_assert_eq!(FsMarker::decode(&marker.encode()), Ok(marker));
        }

        #[test]
        fn every_flipped_bit_and_every_truncation_is_seen(at in 0.0f64..1.0, bit in 0u8..8, name in "[a-z]{1,20}") {
            let good = marker(7, &name).encode();
            let at = (at * good.len() as f64) as usize;
            let mut bad = good.to_vec();
            bad[at] ^= 1 << bit;
            prop_assert!(FsMarker::decode(&bad).is_err());
            prop_assert!(FsMarker::decode(&good[..at]).is_err());
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(FsMarker::decode(&bytes).is_err());
        }
    }
}
