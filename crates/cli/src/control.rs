//! The daemon's side of [`crate::ask`].

use crate::ask::{self, MountReport};
use crate::process::ProcessId;
use crate::verbs::info::{ExtentReport, FileReport};
use crate::volume::Volume;
use bytes::Bytes;
use carafe_fuse::Control;
use carafe_object::{ObjectId, Part};
use carafe_types::record::{Extent, ExtentKind};
use carafe_types::{FileKind, FsError, FsResult, InodeNo};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// Extents in one answer: an attribute holds 64 KiB, and an extent takes up to 250 bytes of JSON.
const EXTENTS_SHOWN: usize = 200;

/// Answers for one mount.
pub(crate) struct VolumeControl {
    volume: Arc<Volume>,
    /// This process lives for the mount alone.
    alone: bool,
}

/// The answer to [`ask::STATS`]: counted since the start, sizes now.
#[derive(Serialize)]
struct StatsReport {
    open_or_dirty_inodes: u64,
    dirty_files: u64,
    reads: u64,
    read_bytes: u64,
    writes: u64,
    written_bytes: u64,
    packs: u64,
    blocks: u64,
    inline_files: u64,
    uploaded_bytes: u64,
    upload_errors: u64,
    commits: u64,
    lost_files: u64,
    fetches: u64,
    fetched_bytes: u64,
    cache_disk_failing: bool,
    cache_used_bytes: u64,
    cache_limit_bytes: u64,
    cache_dirty_bytes: u64,
    cache_hits: u64,
    cache_misses: u64,
    cache_evicted_bytes: u64,
    cache_corrupt_frames: u64,
}

impl VolumeControl {
    pub(crate) fn new(volume: Arc<Volume>, alone: bool) -> Self {
        VolumeControl { volume, alone }
    }

    fn mount(&self) -> MountReport {
        let v = &self.volume;
        MountReport {
            name: v.superblock.name.clone(),
            uuid: v.superblock.uuid.to_string(),
            meta_url: v.meta_url.clone(),
            bucket: v.superblock.bucket.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            session: v.client.session().no.0,
            process: ProcessId::own().filter(|_| self.alone),
            cache_dir: v.cache_dir.as_ref().map(|d| d.display().to_string()),
        }
    }

    fn stats(&self) -> StatsReport {
        let (v, c) = (self.volume.vfs.stats(), self.volume.cache.stats());
        StatsReport {
            open_or_dirty_inodes: v.nodes,
            dirty_files: v.dirty_files,
            reads: v.reads,
            read_bytes: v.read_bytes,
            writes: v.writes,
            written_bytes: v.written_bytes,
            packs: v.packs,
            blocks: v.blocks,
            inline_files: v.inline_files,
            uploaded_bytes: v.uploaded_bytes,
            upload_errors: v.upload_errors,
            commits: v.commits,
            lost_files: v.lost_files,
            fetches: v.fetches,
            fetched_bytes: v.fetched_bytes,
            cache_disk_failing: v.memory_mode,
            cache_used_bytes: c.used_bytes,
            cache_limit_bytes: c.limit_bytes,
            cache_dirty_bytes: c.dirty_bytes,
            cache_hits: c.hits,
            cache_misses: c.misses,
            cache_evicted_bytes: c.evicted_bytes,
            cache_corrupt_frames: c.corrupt_frames,
        }
    }

    async fn info(&self, ino: InodeNo) -> FsResult<FileReport> {
        // With sizes as this mount sees them; extents are those of the last commit.
        let attr = self.volume.vfs.getattr(ino, None).await?.attr;
        let (mut content, mut extents, mut left_out, mut unsaved) = ("none", Vec::new(), 0, false);
        if attr.kind == FileKind::Regular {
            let found = self.volume.client.content(ino, 0..u64::MAX).await?;
            unsaved = (found.attr.size, found.attr.mtime) != (attr.size, attr.mtime);
            content = match (found.inline.is_some(), found.extents.is_empty()) {
                (true, _) => "inline",
                (false, true) => "empty",
                (false, false) => "extents",
            };
            for extent in found.extents.iter().take(EXTENTS_SHOWN) {
                extents.push(self.extent(extent).await?);
            }
            left_out = found.extents.len().saturating_sub(EXTENTS_SHOWN) as u64;
        }
        Ok(FileReport {
            inode: ino.0,
            kind: kind(attr.kind).to_owned(),
            size: attr.size,
            links: attr.nlink,
            quota: attr.quota.0,
            data_version: attr.dataver,
            content: content.to_owned(),
            unsaved,
            extents,
            extents_left_out: left_out,
        })
    }

    async fn extent(&self, e: &Extent) -> FsResult<ExtentReport> {
        let session = self.volume.client.session_uuid(e.slice.session).await?;
        let block = u64::from(self.volume.superblock.block_size);
        let (kind, part, objects) = match e.kind {
            ExtentKind::Pack => ("pack", Part::Pack, 1),
            ExtentKind::Blocks => {
                let first = e.slice_off / block;
                let last = (e.slice_off + e.len - 1) / block;
                ("blocks", Part::Block(first as u32), last - first + 1)
            }
        };
        let id = ObjectId { session, n: e.slice.n, part };
        Ok(ExtentReport {
            offset: e.offset,
            length: e.len,
            kind: kind.to_owned(),
            slice: e.slice.to_string(),
            slice_offset: e.slice_off,
            object: id.key(),
            objects,
        })
    }
}

impl fmt::Debug for VolumeControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VolumeControl").field("name", &self.volume.superblock.name).finish_non_exhaustive()
    }
}

impl Control for VolumeControl {
    fn get(&self, ino: InodeNo, what: &str) -> BoxFuture<'_, FsResult<Bytes>> {
        let what = what.to_owned();
        async move {
            match what.as_str() {
                ask::MOUNT => json(&self.mount()),
                ask::INFO => json(&self.info(ino).await?),
                ask::STATS => json(&self.stats()),
                _ => Err(FsError::NoAttribute),
            }
        }
        .boxed()
    }

    fn set(&self, what: &str, _value: Bytes) -> BoxFuture<'_, FsResult<()>> {
        let what = what.to_owned();
        async move {
            match what.as_str() {
                ask::FLUSH => self.volume.vfs.sync().await,
                ask::DROP_CACHE => {
                    let cache = self.volume.cache.clone();
                    let dropped = tokio::task::spawn_blocking(move || cache.drop_clean()).await;
                    dropped.map(drop).map_err(|e| FsError::Io(e.to_string()))
                }
                _ => Err(FsError::NotSupported),
            }
        }
        .boxed()
    }
}

fn json(value: &impl Serialize) -> FsResult<Bytes> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|e| FsError::Io(e.to_string()))
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "regular",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::CharDevice => "character device",
        FileKind::BlockDevice => "block device",
    }
}
