//! Making a file system in a store, and removing it.

use crate::store::{Key, MetaStore, QuotaState, StoreError};
use bytes::Bytes;
use carafe_types::record::{DirTimes, FORMAT_VERSION, Guard, Limits, QuotaRecord, Superblock};
use carafe_types::{InodeNo, QuotaId, Timestamp};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The directory into which deleted volumes are moved. No name in the tree leads to it, so nobody sees what is being
/// purged; it is its own parent, like the root. Sessions take numbers from 2^20 on, so it is free in every file system.
pub const TRASH: InodeNo = InodeNo(128);

/// What is left of a quota without a limit.
pub const UNLIMITED: i64 = 1 << 62;

/// Decisions for the whole life of a file system.
#[derive(Clone, Debug)]
pub struct FormatOptions {
    /// Its name, for people.
    pub name: String,
    /// Its identity, random; the bucket's marker object holds the same.
    pub uuid: Uuid,
    /// Where the bytes are, without secrets, for example `s3://bucket/prefix`.
    pub bucket: String,
    /// Public bucket settings; secrets never.
    pub bucket_options: BTreeMap<String, String>,
    /// Bytes of a block: a power of two from 64 KiB to 64 MiB.
    pub block_size: u32,
    /// Files up to this many bytes may be inline; at most 64 KiB.
    pub inline_max: u32,
    /// How many bytes of inline data the store may hold in all.
    pub inline_budget: u64,
    /// Bounds of the whole file system.
    pub limits: Limits,
}

impl FormatOptions {
    /// The defaults: blocks of 4 MiB, files up to 4 KiB inline, 256 MiB of inline data, no bounds.
    pub fn new(name: impl Into<String>, bucket: impl Into<String>) -> Self {
        FormatOptions {
            name: name.into(),
            uuid: Uuid::new_v4(),
            bucket: bucket.into(),
            bucket_options: BTreeMap::new(),
            block_size: 4 << 20,
            inline_max: 4096,
            inline_budget: 256 << 20,
            limits: Limits::default(),
        }
    }

    fn check(&self) -> Result<(), StoreError> {
        let bad = |reason: String| Err(StoreError::Engine(reason));
        if !self.block_size.is_power_of_two() || !(64 << 10..=64 << 20).contains(&self.block_size) {
            return bad(format!("block size {} is no power of two from 64 KiB to 64 MiB", self.block_size));
        }
        if self.inline_max > 64 << 10 {
            return bad(format!("inline files of {} bytes: at most 65536 are possible", self.inline_max));
        }
        if self.name.is_empty() || self.name.len() > 255 {
            return bad("the name of a file system has 1 to 255 bytes".to_owned());
        }
        Ok(())
    }
}

/// Makes a file system: the superblock, an empty root and the root quota.
///
/// The root belongs to root and has mode 0777, as a fresh volume is expected to be writable by the user of a pod before
/// anybody could have called chown.
///
/// # Errors
/// [`StoreError::AlreadyFormatted`]; [`StoreError::Engine`] naming an option that is out of range; whatever the store
/// cannot do.
pub async fn format(store: &dyn MetaStore, options: FormatOptions) -> Result<Superblock, StoreError> {
    options.check()?;
    let now = store.info().await?.time;
    let superblock = Superblock {
        version: FORMAT_VERSION,
        name: options.name,
        uuid: options.uuid,
        bucket: options.bucket,
        bucket_options: options.bucket_options,
        block_size: options.block_size,
        inline_max: options.inline_max,
        inline_budget: options.inline_budget,
        created: now,
    };
    let mut records = directory(InodeNo::ROOT, 0o777, now);
    records.extend(directory(TRASH, 0o700, now));
    let limits = options.limits;
    let left = |bound: Option<u64>| bound.map_or(UNLIMITED, |n| i64::try_from(n).unwrap_or(UNLIMITED));
    let record = QuotaRecord {
        version: FORMAT_VERSION,
        parent: None,
        root: InodeNo::ROOT,
        limits,
        settings: BTreeMap::new(),
    };
    let quota = QuotaState {
        record: record.encode().into(),
        left_bytes: left(limits.bytes),
        left_inodes: left(limits.inodes),
        reserved: 0,
    };
    store.format(superblock.encode().into(), records, quota).await?;
    Ok(superblock)
}

fn directory(ino: InodeNo, mode: u16, now: Timestamp) -> Vec<(Key, Bytes)> {
    let guard = Guard {
        mode,
        uid: 0,
        gid: 0,
        quota: QuotaId::ROOT,
        parent: ino,
        btime: now,
        ctime: now,
        has_xattr: false,
        quota_root: false,
    };
    vec![
        (Key::Inode(ino), Bytes::from(guard.encode())),
        (Key::DirTimes(ino), Bytes::from(DirTimes::Touched(now).encode())),
    ]
}

/// Removes every record of the file system. The bucket is the caller's.
///
/// # Errors
/// Whatever the store cannot do.
pub async fn destroy(store: &dyn MetaStore) -> Result<(), StoreError> {
    store.destroy().await
}
