//! Where everything lies in the ordered map. Numbers are big-endian, so that order of keys is order of numbers.
//!
//! | key | value |
//! |---|---|
//! | `m` name | superblock, or a counter as 8 bytes |
//! | `i` inode, kind | inode or guard (0), times (1), access time (2), subdirectories (3) |
//! | `b` `a` `L` `o` inode | content, attributes, locks, open holders |
//! | `x` inode, generation, segment | extents |
//! | `e` directory, name | type, inode |
//! | `r` `p` session, n | owners of a slice, live bytes of a pack |
//! | `q` `Q` quota | record; bytes left, inodes left, reserved |
//! | `R` session, quota | reserved by that session |
//! | `k` due, inode; `K` inode | queue of dead inodes; its due time |
//! | `g` due, object; `G` object | queue of dead objects; its due time |
//! | `v` id; `n` id | volume; snapshot |
//! | `c` quota; `1` name | gate; single record |
//! | `s` session; `u` uuid | uuid, process, alive, record; the living session with that uuid |
//! | `w` key; `l` session | watcher list; end of lease: void when the process ends |

use super::{Kv, Result};
use crate::store::{DeadObject, Key, StoreError, WatchKey};
use bytes::Bytes;
use carafe_types::{
    BucketNo, EntryName, FileKind, InodeNo, QuotaId, SessionNo, SessionUuid, SliceId, Timestamp,
};

/// First byte of watcher lists, which need not outlive the process.
pub const WATCH_PREFIX: u8 = b'w';
/// First byte of lease ends, which need not outlive the process.
pub const LEASE_PREFIX: u8 = b'l';

/// A key being put together.
pub(super) struct At(Vec<u8>);

impl At {
    pub(super) fn new(prefix: u8) -> Self {
        At(vec![prefix])
    }

    pub(super) fn u64(mut self, n: u64) -> Self {
        self.0.extend_from_slice(&n.to_be_bytes());
        self
    }

    pub(super) fn u32(mut self, n: u32) -> Self {
        self.0.extend_from_slice(&n.to_be_bytes());
        self
    }

    pub(super) fn bytes(mut self, b: &[u8]) -> Self {
        self.0.extend_from_slice(b);
        self
    }

    pub(super) fn done(self) -> Vec<u8> {
        self.0
    }
}

/// The key of a record.
pub(super) fn record(key: &Key) -> Vec<u8> {
    let ino = |prefix, i: &InodeNo| At::new(prefix).u64(i.0);
    let slice = |prefix, s: &SliceId| At::new(prefix).u32(s.session.0).u64(s.n);
    match key {
        Key::Inode(i) => ino(b'i', i).bytes(&[0]),
        Key::DirTimes(i) => ino(b'i', i).bytes(&[1]),
        Key::DirAtime(i) => ino(b'i', i).bytes(&[2]),
        Key::DirSubdirs(i) => ino(b'i', i).bytes(&[3]),
        Key::Content(i) => ino(b'b', i),
        Key::Xattr(i) => ino(b'a', i),
        Key::Locks(i) => ino(b'L', i),
        Key::OpenHolders(i) => ino(b'o', i),
        Key::Extents { ino: i, g, segment } => ino(b'x', i).u32(*g).u64(*segment),
        Key::SliceOwners(s) => slice(b'r', s),
        Key::PackLive(s) => slice(b'p', s),
        Key::Quota(q) => At::new(b'q').u32(q.0),
        Key::Volume(id) => At::new(b'v').bytes(id.as_bytes()),
        Key::Snapshot(id) => At::new(b'n').bytes(id.as_bytes()),
        Key::Gate(q) => At::new(b'c').u32(q.0),
        Key::Single(name) => At::new(b'1').bytes(name.as_bytes()),
    }
    .done()
}

/// The records of a bucket: from, to.
pub(super) fn bucket(b: BucketNo) -> (Vec<u8>, Vec<u8>) {
    (At::new(b'i').u64(b.0 << 6).done(), At::new(b'i').u64(b.0.saturating_add(1) << 6).done())
}

/// The record that an `i` key names.
pub(super) fn parse_bucket_key(key: &[u8]) -> Result<Key> {
    let [b'i', number @ .., kind] = key else { return Err(damaged("bucket key")) };
    let ino = InodeNo(u64::from_be_bytes(number.try_into().map_err(|_| damaged("bucket key"))?));
    match kind {
        0 => Ok(Key::Inode(ino)),
        1 => Ok(Key::DirTimes(ino)),
        2 => Ok(Key::DirAtime(ino)),
        3 => Ok(Key::DirSubdirs(ino)),
        _ => Err(damaged("bucket key")),
    }
}

pub(super) fn entry(dir: InodeNo, name: &EntryName) -> Vec<u8> {
    At::new(b'e').u64(dir.0).bytes(name.as_bytes()).done()
}

/// Where the names after `after` begin, and where the directory ends.
pub(super) fn entries(dir: InodeNo, after: Option<&EntryName>) -> (Vec<u8>, Vec<u8>) {
    let from = At::new(b'e').u64(dir.0);
    let from = match after {
        // No name holds a NUL, so this is the first possible key after that name.
        Some(name) => from.bytes(name.as_bytes()).bytes(&[0]),
        None => from,
    };
    (from.done(), At::new(b'e').u64(dir.0.saturating_add(1)).done())
}

/// Bytes of an entry's key before the name.
pub(super) const ENTRY_NAME_AT: usize = 9;

pub(super) fn entry_value(kind: FileKind, ino: InodeNo) -> Vec<u8> {
    let mut out = vec![kind as u8];
    out.extend_from_slice(&ino.0.to_be_bytes());
    out
}

pub(super) fn parse_entry(value: &[u8]) -> Result<(FileKind, InodeNo)> {
    let (kind, ino) = value.split_first().ok_or_else(|| damaged("entry"))?;
    let kind = FileKind::from_u8(*kind).ok_or_else(|| damaged("entry"))?;
    Ok((kind, InodeNo(parse_u64(ino)?)))
}

pub(super) fn watch(key: &WatchKey) -> Vec<u8> {
    match key {
        WatchKey::Bucket(b) => At::new(WATCH_PREFIX).bytes(b"b").u64(b.0),
        WatchKey::Names(dir) => At::new(WATCH_PREFIX).bytes(b"n").u64(dir.0),
    }
    .done()
}

pub(super) fn session(sid: SessionNo) -> Vec<u8> {
    At::new(b's').u32(sid.0).done()
}

pub(super) fn uuid(uuid: &SessionUuid) -> Vec<u8> {
    At::new(b'u').bytes(&uuid.0).done()
}

pub(super) fn lease(sid: SessionNo) -> Vec<u8> {
    At::new(LEASE_PREFIX).u32(sid.0).done()
}

pub(super) fn reserve(sid: SessionNo, q: QuotaId) -> Vec<u8> {
    At::new(b'R').u32(sid.0).u32(q.0).done()
}

pub(super) fn counters(q: QuotaId) -> Vec<u8> {
    At::new(b'Q').u32(q.0).done()
}

/// The due time of a queued thing.
pub(super) fn dead_inode(ino: InodeNo) -> Vec<u8> {
    At::new(b'K').u64(ino.0).done()
}

/// The place of a dead inode in its queue.
pub(super) fn dead_inode_at(due: Timestamp, ino: InodeNo) -> Vec<u8> {
    At::new(b'k').u64(due.0 as u64).u64(ino.0).done()
}

fn object(at: At, o: &DeadObject) -> Vec<u8> {
    at.u32(o.slice.session.0).u64(o.slice.n).bytes(&[u8::from(o.pack)]).u64(o.len).done()
}

pub(super) fn dead_object(o: &DeadObject) -> Vec<u8> {
    object(At::new(b'G'), o)
}

pub(super) fn dead_object_at(due: Timestamp, o: &DeadObject) -> Vec<u8> {
    object(At::new(b'g').u64(due.0 as u64), o)
}

/// Due time and object of a `g` key.
pub(super) fn parse_dead_object(key: &[u8]) -> Result<(Timestamp, DeadObject)> {
    let bad = || damaged("queue of dead objects");
    let [_, rest @ ..] = key else { return Err(bad()) };
    let (due, rest) = rest.split_first_chunk().ok_or_else(bad)?;
    let (sid, rest) = rest.split_first_chunk().ok_or_else(bad)?;
    let (n, rest) = rest.split_first_chunk().ok_or_else(bad)?;
    let (pack, len) = rest.split_first().ok_or_else(bad)?;
    let slice = SliceId { session: SessionNo(u32::from_be_bytes(*sid)), n: u64::from_be_bytes(*n) };
    let object = DeadObject { slice, pack: *pack != 0, len: parse_u64(len)? };
    Ok((Timestamp(i64::from_be_bytes(*due)), object))
}

pub(super) fn damaged(what: &'static str) -> StoreError {
    StoreError::Engine(format!("damaged {what} in the store file"))
}

pub(super) fn parse_u64(value: &[u8]) -> Result<u64> {
    Ok(u64::from_be_bytes(value.try_into().map_err(|_| damaged("number"))?))
}

/// A counter under `m`.
pub(super) fn counter<K: Kv + ?Sized>(kv: &K, name: &str) -> Result<Option<u64>> {
    kv.get(&single(name))?.map(|v| parse_u64(&v)).transpose()
}

pub(super) fn set_counter<K: Kv + ?Sized>(kv: &mut K, name: &str, value: u64) -> Result<()> {
    kv.put(&single(name), &value.to_be_bytes())
}

/// The key of a thing that there is one of.
pub(super) fn single(name: &str) -> Vec<u8> {
    At::new(b'm').bytes(name.as_bytes()).done()
}

/// A number kept as decimal text in a record, 0 if absent.
pub(super) fn decimal(value: Option<Bytes>) -> Result<i64> {
    let Some(value) = value else { return Ok(0) };
    let text = std::str::from_utf8(&value).map_err(|_| damaged("decimal number"))?;
    text.parse().map_err(|_| damaged("decimal number"))
}
