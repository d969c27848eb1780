//! Keys, fields and members: where each record lies (`docs/format-store.md`).
//!
//! All keys of a file system begin with its tag in braces, so that a Redis Cluster keeps them in one slot. Small records
//! lie in hashes of 64, which Redis stores compactly while every value has at most 64 bytes.

use carafe_meta::store::{DeadObject, DirEntry, Key, StoreError, WatchKey};
use carafe_types::{BucketNo, EntryName, FileKind, InodeNo, SessionNo, SliceId};
use std::fmt::Display;

/// A key and the field in it.
pub(crate) type Place = (String, String);

/// The keys of one file system.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    root: String,
}

impl Names {
    /// `tag` holds no braces; [`crate::target`] checks that.
    pub(crate) fn new(tag: &str) -> Self {
        Names { root: format!("{{{tag}}}") }
    }

    fn at(&self, kind: char, number: impl Display) -> String {
        format!("{}{kind}{number}", self.root)
    }

    pub(crate) fn root(&self) -> String {
        self.root.clone()
    }

    pub(crate) fn sessions(&self) -> String {
        format!("{}s", self.root)
    }

    pub(crate) fn session(&self, sid: SessionNo) -> String {
        self.at('s', sid.0)
    }

    pub(crate) fn leases(&self) -> String {
        format!("{}l", self.root)
    }

    pub(crate) fn quotas(&self) -> String {
        format!("{}q", self.root)
    }

    pub(crate) fn volumes(&self) -> String {
        format!("{}v", self.root)
    }

    pub(crate) fn snapshots(&self) -> String {
        format!("{}n", self.root)
    }

    pub(crate) fn gates(&self) -> String {
        format!("{}c", self.root)
    }

    pub(crate) fn dead_inodes(&self) -> String {
        format!("{}k", self.root)
    }

    pub(crate) fn dead_objects(&self) -> String {
        format!("{}g", self.root)
    }

    pub(crate) fn open_holders(&self) -> String {
        format!("{}o", self.root)
    }

    pub(crate) fn bucket(&self, b: BucketNo) -> String {
        self.at('i', b.0)
    }

    pub(crate) fn entries(&self, dir: InodeNo) -> String {
        self.at('e', dir.0)
    }

    /// The channel of a session; `who` is its identity.
    pub(crate) fn channel(&self, who: &str) -> String {
        self.at('m', who)
    }

    /// Matches all keys, or all buckets.
    pub(crate) fn pattern(&self, kind: &str) -> String {
        format!("{}{kind}*", self.root)
    }

    pub(crate) fn bucket_of_key(&self, key: &[u8]) -> Option<BucketNo> {
        let number = key.strip_prefix(self.root.as_bytes())?.strip_prefix(b"i")?;
        std::str::from_utf8(number).ok()?.parse().ok().map(BucketNo)
    }

    fn slice(&self, kind: char, s: &SliceId) -> Place {
        (self.at(kind, format_args!("{}.{}", s.session.0, s.n >> 6)), (s.n & 63).to_string())
    }

    /// Where a record lies.
    pub(crate) fn record(&self, key: &Key) -> Place {
        let slot =
            |kind, i: &InodeNo, suffix: &str| (self.at(kind, i.bucket().0), format!("{}{suffix}", i.slot()));
        match key {
            Key::Inode(i) => slot('i', i, ""),
            Key::DirTimes(i) => slot('i', i, "t"),
            Key::DirAtime(i) => slot('i', i, "a"),
            Key::DirSubdirs(i) => slot('i', i, "s"),
            Key::Content(i) => slot('b', i, ""),
            Key::Xattr(i) => slot('a', i, ""),
            Key::Locks(i) => slot('L', i, ""),
            Key::Extents { ino, g, segment } => {
                (self.at('x', format_args!("{}.{g}", ino.0)), segment.to_string())
            }
            Key::OpenHolders(i) => (self.open_holders(), i.0.to_string()),
            Key::SliceOwners(s) => self.slice('r', s),
            Key::PackLive(s) => self.slice('p', s),
            Key::Quota(q) => (self.quotas(), q.0.to_string()),
            Key::Volume(id) => (self.volumes(), id.clone()),
            Key::Snapshot(id) => (self.snapshots(), id.clone()),
            Key::Gate(q) => (self.gates(), q.0.to_string()),
            Key::Single(name) => (self.root(), format!("1{name}")),
        }
    }

    /// Where a watcher list lies.
    pub(crate) fn watch(&self, key: &WatchKey) -> Place {
        match key {
            WatchKey::Bucket(b) => (self.bucket(*b), "w".to_owned()),
            WatchKey::Names(dir) => (self.bucket(dir.bucket()), format!("{}w", dir.slot())),
        }
    }
}

/// The record that a field of a bucket is; `None` for a watcher list.
pub(crate) fn parse_bucket_field(b: BucketNo, field: &[u8]) -> Result<Option<Key>, StoreError> {
    let bad = || StoreError::Engine(format!("bucket {} has the unknown field {}", b.0, field.escape_ascii()));
    let digits = field.iter().take_while(|c| c.is_ascii_digit()).count();
    let (number, suffix) = field.split_at(digits);
    if suffix == b"w" {
        return Ok(None);
    }
    let slot: u8 = std::str::from_utf8(number).ok().and_then(|n| n.parse().ok()).ok_or_else(bad)?;
    let ino = b.inode(slot);
    match suffix {
        _ if slot > 63 => Err(bad()),
        b"" => Ok(Some(Key::Inode(ino))),
        b"t" => Ok(Some(Key::DirTimes(ino))),
        b"a" => Ok(Some(Key::DirAtime(ino))),
        b"s" => Ok(Some(Key::DirSubdirs(ino))),
        _ => Err(bad()),
    }
}

/// A member of a directory: name, NUL, type as a digit, inode big-endian without leading zero bytes. Names hold no NUL, so
/// members sort as names do.
pub(crate) fn member(name: &EntryName, kind: FileKind, ino: InodeNo) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.as_bytes().len() + 10);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&[0, b'0' + kind as u8]);
    let skip = ino.0.leading_zeros() as usize / 8;
    out.extend_from_slice(&ino.0.to_be_bytes()[skip..]);
    out
}

/// The entry that a member is.
pub(crate) fn parse_member(member: &[u8]) -> Result<DirEntry, StoreError> {
    let bad = || StoreError::Engine(format!("a directory has the damaged entry {}", member.escape_ascii()));
    let nul = member.iter().position(|b| *b == 0).ok_or_else(bad)?;
    let name = EntryName::new(&member[..nul]).map_err(|_| bad())?;
    let (kind, number) = member[nul + 1..].split_first().ok_or_else(bad)?;
    let kind = FileKind::from_u8(kind.wrapping_sub(b'0')).ok_or_else(bad)?;
    let mut wide = [0; 8];
    if number.len() > 8 {
        return Err(bad());
    }
    wide[8 - number.len()..].copy_from_slice(number);
    Ok(DirEntry { name, kind, ino: InodeNo(u64::from_be_bytes(wide)) })
}

/// Bounds that hold exactly the member of a name.
pub(crate) fn exactly(name: &EntryName) -> (Vec<u8>, Vec<u8>) {
    let bound = |open: u8, end: u8| [&[open], name.as_bytes(), &[end]].concat();
    (bound(b'[', 0), bound(b'(', 1))
}

/// The lower bound of the names after `after`.
pub(crate) fn after(after: Option<&EntryName>) -> Vec<u8> {
    match after {
        Some(name) => [b"[", name.as_bytes(), &[1]].concat(),
        None => b"-".to_vec(),
    }
}

/// The member of a dead object in its queue: `<session>.<n>.<b or p>.<length>`.
pub(crate) fn object(o: &DeadObject) -> String {
    format!("{}.{}.{}.{}", o.slice.session.0, o.slice.n, if o.pack { 'p' } else { 'b' }, o.len)
}

/// The dead object that a member is.
pub(crate) fn parse_object(member: &[u8]) -> Result<DeadObject, StoreError> {
    let parse = || {
        let mut parts = std::str::from_utf8(member).ok()?.split('.');
        let session = SessionNo(parts.next()?.parse().ok()?);
        let n = parts.next()?.parse().ok()?;
        let pack = match parts.next()? {
            "p" => true,
            "b" => false,
            _ => return None,
        };
        let len = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(DeadObject { slice: SliceId { session, n }, pack, len })
    };
    parse().ok_or_else(|| StoreError::Engine(format!("damaged dead object {}", member.escape_ascii())))
}

/// The name of a watched key in messages: `b<bucket>` or `n<directory>`.
pub(crate) fn watch_text(key: &WatchKey) -> String {
    match key {
        WatchKey::Bucket(b) => format!("b{}", b.0),
        WatchKey::Names(dir) => format!("n{}", dir.0),
    }
}

/// The watched key that a message names.
pub(crate) fn parse_watch(text: &str) -> Option<WatchKey> {
    let number = text.get(1..)?.parse().ok()?;
    match text.as_bytes()[0] {
        b'b' => Some(WatchKey::Bucket(BucketNo(number))),
        b'n' => Some(WatchKey::Names(InodeNo(number))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_sort_as_names_and_read_back() {
        let names: [&[u8]; 6] = [b"a", b"a\x01", b"ab", b"a\xff", b"b", b"\xff"];
        let members: Vec<Vec<u8>> = names
            .iter()
            .map(|n| member(&EntryName::new(n).unwrap(), FileKind::Regular, InodeNo(u64::MAX)))
            .collect();
        assert!(members.is_sorted());
        for ino in [0, 1, 255, 256, 1 << 20, u64::MAX] {
            let name = EntryName::new(b"x").unwrap();
            let entry = DirEntry { name: name.clone(), kind: FileKind::BlockDevice, ino: InodeNo(ino) };
            assert_eq!(parse_member(&member(&name, FileKind::BlockDevice, InodeNo(ino))), Ok(entry));
        }
    }

    #[test]
    fn damaged_members_and_fields_are_errors() {
        for bad in [&b""[..], b"x", b"x\0", b"x\x009", b"x\x000123456789", b"\x000"] {
            assert!(parse_member(bad).is_err(), "{}", bad.escape_ascii());
        }
        for bad in [&b""[..], b"1", b"1.2.3.4", b"1.2.p", b"1.2.p.4.5", b"x.2.p.4"] {
            assert!(parse_object(bad).is_err());
        }
        for bad in [&b""[..], b"64", b"1x", b"t", b"-1", b"1tt"] {
            assert!(parse_bucket_field(BucketNo(1), bad).is_err());
        }
        assert_eq!(parse_bucket_field(BucketNo(1), b"w"), Ok(None));
        assert_eq!(parse_bucket_field(BucketNo(1), b"5w"), Ok(None));
    }
}
