//! Names of objects: `d/<hh>/<session>-<n>/<block>` for a block of a slice, `d/<hh>/<session>-<n>/p` for a pack.
//!
//! 1. **No two writers ever share a name.** `session` is the random uuid of the session (32 hex digits), `n` its own
//!    count. Numbers from the metadata store would be given again after a restore; uuids are not.
//! 2. **A listing can be split.** `hh` is a hash of session and n, so 256 prefixes ([`partition`]) share the objects
//!    evenly, and services that spread load by prefix spread it.
//! 3. **A listing may hold anything.** [`parse_key`] accepts exactly the names that [`ObjectId`] writes, so the
//!    collector never deletes what Carafe did not write.

use carafe_types::SessionUuid;
use std::fmt;

/// Prefix of all data objects.
pub const DATA_PREFIX: &str = "d/";

/// Which part of a slice an object holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The block with this index, counted from 0.
    Block(u32),
    /// A pack: small slices of many files, with a footer.
    Pack,
}

/// What an object is. Its checksums cover this identity, so bytes of one object never pass for another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The session that wrote it.
    pub session: SessionUuid,
    /// Number of the slice or pack, counted by that session.
    pub n: u64,
    /// Block or pack.
    pub part: Part,
}

impl ObjectId {
    /// The identity of block `index` of slice `n` of `session`.
    pub fn block(session: SessionUuid, n: u64, index: u32) -> Self {
        ObjectId { session, n, part: Part::Block(index) }
    }

    /// The identity of pack `n` of `session`.
    pub fn pack(session: SessionUuid, n: u64) -> Self {
        ObjectId { session, n, part: Part::Pack }
    }

    /// The key in the bucket, without the prefix of the bucket.
    pub fn key(&self) -> String {
        self.to_string()
    }

    /// The partition that the object lies in: all parts of one slice lie in one.
    pub fn partition(&self) -> u8 {
        crc32c::crc32c_append(crc32c::crc32c(&self.session.0), &self.n.to_le_bytes()) as u8
    }

    /// What the checksum of a frame starts from: the crc32c of session, n, kind and block.
    pub(crate) fn seed(&self) -> u32 {
        let (kind, block) = match self.part {
            Part::Block(index) => (1u8, index),
            Part::Pack => (2u8, 0),
        };
        let crc = crc32c::crc32c(&self.session.0);
        let crc = crc32c::crc32c_append(crc, &self.n.to_le_bytes());
        let crc = crc32c::crc32c_append(crc, &[kind]);
        crc32c::crc32c_append(crc, &block.to_le_bytes())
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "d/{:02x}/", self.partition())?;
        self.session.0.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
        match self.part {
            Part::Block(index) => write!(f, "-{}/{index}", self.n),
            Part::Pack => write!(f, "-{}/p", self.n),
        }
    }
}

/// The prefix of one of the 256 partitions of a listing, for example `d/0a`.
pub fn partition(hh: u8) -> String {
    format!("d/{hh:02x}")
}

/// The identity behind a key, or nothing if Carafe writes no object of that name.
pub fn parse_key(key: &str) -> Option<ObjectId> {
    let (_, rest) = key.strip_prefix(DATA_PREFIX)?.split_once('/')?;
    let (slice, part) = rest.split_once('/')?;
    let (session, n) = slice.split_once('-')?;
    let part = match part {
        "p" => Part::Pack,
        index => Part::Block(index.parse().ok()?),
    };
    let id = ObjectId { session: parse_session(session)?, n: n.parse().ok()?, part };
    // One name for one object: wrong partitions, capitals, signs and leading zeros are somebody else's.
    (id.key() == key).then_some(id)
}

fn parse_session(hex: &str) -> Option<SessionUuid> {
    if hex.len() != 32 || !hex.is_ascii() {
        return None;
    }
    u128::from_str_radix(hex, 16).ok().map(|n| SessionUuid(n.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SESSION: SessionUuid = SessionUuid(*b"0123456789abcdef");

    #[test]
    fn keys_have_the_documented_form() {
        let hh = format!("{:02x}", ObjectId::pack(SESSION, 7).partition());
        let base = format!("d/{hh}/30313233343536373839616263646566-7");
        assert_eq!(ObjectId::block(SESSION, 7, 12).key(), format!("{base}/12"));
        assert_eq!(ObjectId::pack(SESSION, 7).key(), format!("{base}/p"));
        assert_eq!(partition(10), "d/0a");
    }

    #[test]
    fn names_of_others_are_not_taken_for_ours() {
        let good = ObjectId::block(SESSION, 7, 12).key();
        let wrong_partition = format!("d/{:02x}{}", ObjectId::pack(SESSION, 7).partition() ^ 1, &good[4..]);
        for bad in [
            "",
            "d/",
            "carafe-fs",
            "d/00",
            "d/00/x-1/2",
            &wrong_partition,
            &good.to_uppercase(),
            &good.replace("-7/", "-07/"),
            &good.replace("/12", "/+12"),
            &good.replace("/12", "/12/"),
            &good.replace("/12", "/99999999999"),
            &format!("x{good}"),
        ] {
            assert_eq!(parse_key(bad), None, "{bad}");
        }
    }

    #[test]
    fn slices_spread_over_all_partitions() {
        let mut seen = [0u32; 256];
        (0..25_600).for_each(|n| seen[usize::from(ObjectId::pack(SESSION, n).partition())] += 1);
        assert!(seen.iter().all(|&count| (20..=400).contains(&count)), "{seen:?}");
    }

    proptest! {
        #[test]
        fn every_identity_comes_back_from_its_key(session: [u8; 16], n: u64, block: Option<u32>) {
            let part = block.map_or(Part::Pack, Part::Block);
            let id = ObjectId { session: SessionUuid(session), n, part };
            prop_assert_eq!(parse_key(&id.key()), Some(id));
        }

        #[test]
        fn no_text_makes_the_parser_panic(key in "\\PC*", tail in "(d/[0-9a-f]{2}/)?[0-9a-f]{30,34}-[0-9]{1,22}/(p|[0-9]{1,12})") {
            let _ = parse_key(&key);
            if let Some(id) = parse_key(&tail) {
                prop_assert_eq!(id.key(), tail);
            }
        }
    }
}
