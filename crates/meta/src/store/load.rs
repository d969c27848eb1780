//! Reading: snapshots for operations, pages for jobs.

use super::{Key, QuotaState, WatchKey};
use bytes::Bytes;
use carafe_types::{BucketNo, EntryName, FileKind, InodeNo, QuotaId, SliceId, Timestamp};

/// What to read in one atomic step.
#[derive(Clone, Debug, Default)]
pub struct LoadRequest {
    /// Single records.
    pub records: Vec<Key>,
    /// Whole buckets: the `Inode`, `DirTimes`, `DirAtime` and `DirSubdirs` records that exist in them.
    pub buckets: Vec<BucketNo>,
    /// Exact names.
    pub names: Vec<(InodeNo, EntryName)>,
    /// Pages of names in order.
    pub lists: Vec<ListRequest>,
    /// Quotas with their counters.
    pub quotas: Vec<QuotaId>,
    /// Keys to stand in the watcher list of from now on.
    pub watch: Vec<WatchKey>,
}

/// A page of a directory's names.
#[derive(Clone, Debug)]
pub struct ListRequest {
    /// Which directory.
    pub dir: InodeNo,
    /// Names greater than this one (bytewise); `None` from the start.
    pub after: Option<EntryName>,
    /// At most this many.
    pub limit: usize,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name.
    pub name: EntryName,
    /// The type of the inode.
    pub kind: FileKind,
    /// The inode.
    pub ino: InodeNo,
}

/// The answer to a [`LoadRequest`], in its order.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The store's sequence number at this snapshot.
    pub seq: u64,
    /// The store's clock.
    pub time: Timestamp,
    /// A record each, `None` when absent.
    pub records: Vec<Option<Bytes>>,
    /// The records in each bucket.
    pub buckets: Vec<Vec<(Key, Bytes)>>,
    /// A name each, `None` when absent.
    pub names: Vec<Option<(FileKind, InodeNo)>>,
    /// A page each; shorter than the limit means that it reaches the end.
    pub lists: Vec<Vec<DirEntry>>,
    /// A quota each, `None` when absent.
    pub quotas: Vec<Option<QuotaState>>,
    /// For each key of `watch`, how this session stands in it now.
    pub watched: Vec<Watched>,
    /// Keys (read or watched) that another session holds alone. It was told to share; load again.
    pub held: Vec<WatchKey>,
}

/// How a session stands in a watcher list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Alone and marked so: it may cache, answer from memory, and give the kernel a lifetime.
    Sole,
    /// With others, or not enlisted since another holds it alone: every question loads.
    Shared,
}

/// What a job reads next.
#[derive(Clone, Debug)]
pub enum ScanRequest {
    /// Single records without watching.
    Records(Vec<Key>),
    /// Names of a directory.
    Names(ListRequest),
    /// All buckets that hold records, in no particular order. One that exists from the first page to the last is found,
    /// perhaps twice; a page may be empty though more follow.
    Buckets {
        /// 0 to begin, then what the last page said.
        cursor: u64,
        /// About this many buckets.
        limit: usize,
    },
    /// Dead inodes, by the time when they may be purged.
    DeadInodes {
        /// At most this many.
        limit: usize,
        /// `None`: whose time has come. Else all whose time is not before this one (for `fsck`).
        from: Option<Timestamp>,
    },
    /// Dead objects, by the time when they may be deleted.
    DeadObjects {
        /// At most this many.
        limit: usize,
        /// `None`: whose time has come. Else all whose time is not before this one (for `fsck` and `gc`).
        from: Option<Timestamp>,
    },
    /// Volumes by id, greater than `after`.
    Volumes {
        /// `None` from the start.
        after: Option<String>,
        /// At most this many.
        limit: usize,
    },
    /// Snapshots by id, in the same way.
    Snapshots {
        /// `None` from the start.
        after: Option<String>,
        /// At most this many.
        limit: usize,
    },
    /// Quotas with their counters.
    Quotas,
}

/// An unlinked inode that waits for its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadInode {
    /// Which.
    pub ino: InodeNo,
    /// From when on it may be purged, by the store's clock.
    pub due: Timestamp,
}

/// A slice whose objects wait for deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeadObject {
    /// Which.
    pub slice: SliceId,
    /// A pack (one object) or blocks.
    pub pack: bool,
    /// Payload bytes of the whole slice: with the block size, how many objects.
    pub len: u64,
}

/// One thing found by a scan.
#[derive(Clone, Debug)]
pub enum Scanned {
    /// A record that was asked for.
    Record(Option<Bytes>),
    /// A name.
    Name(DirEntry),
    /// A bucket and the records in it.
    Bucket(BucketNo, Vec<(Key, Bytes)>),
    /// A dead inode.
    DeadInode(DeadInode),
    /// A dead slice and when it may go.
    DeadObject(DeadObject, Timestamp),
    /// A volume record.
    Volume(String, Bytes),
    /// A snapshot record.
    Snapshot(String, Bytes),
    /// A quota.
    Quota(QuotaId, QuotaState),
}

/// A page of a scan.
#[derive(Clone, Debug, Default)]
pub struct ScanPage {
    /// What was found.
    pub found: Vec<Scanned>,
    /// Where to go on (only `Buckets` uses the number); `None` at the end.
    pub next: Option<u64>,
    /// The store's clock.
    pub time: Timestamp,
}
