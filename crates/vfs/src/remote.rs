//! The bucket as the vfs uses it: slices in, verified ranges of slices out.
//!
//! The one place that knows how a slice lies in objects: blocks of one size, or a pack.

use crate::dirty::SliceBuf;
use crate::rooms::Rooms;
use bytes::Bytes;
use carafe_cache::CacheError;
use carafe_meta::Client;
use carafe_object::client::DELETE_BATCH;
use carafe_object::{
    BlockTrailer, Bucket, MemberInfo, ObjectError, ObjectId, PackBuilder, encode_block_with,
};
use carafe_types::record::ExtentKind;
use carafe_types::{FsError, FsResult, Generation, InodeNo, SessionNo, SessionUuid};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// A slice in the bucket, with all that is needed to read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SliceRef {
    /// Who wrote it.
    pub(crate) session: SessionUuid,
    /// Its number there.
    pub(crate) n: u64,
    /// Blocks or pack.
    pub(crate) kind: ExtentKind,
    /// Payload bytes in all.
    pub(crate) len: u64,
}

/// The bucket, and who is who in it.
pub(crate) struct Remote {
    bucket: Bucket,
    meta: Arc<Client>,
    generation: Generation,
    block_size: u64,
    rooms: Rooms,
    uuids: RwLock<HashMap<SessionNo, SessionUuid>>,
}

impl Remote {
    /// `uploads` blocks are on their way at once.
    pub(crate) fn new(bucket: Bucket, meta: Arc<Client>, uploads: usize) -> Self {
        let block_size = u64::from(meta.superblock().block_size);
        let generation = meta.session().generation;
        Remote { bucket, generation, block_size, meta, rooms: Rooms::new(uploads), uuids: RwLock::default() }
    }

    /// Gives the memory of uploads back if there are none.
    pub(crate) fn maintain(&self) {
        self.rooms.maintain();
    }

    /// Bytes of a block.
    pub(crate) fn block_size(&self) -> u64 {
        self.block_size
    }

    /// The random identity behind a session's number.
    pub(crate) async fn uuid_of(&self, session: SessionNo) -> FsResult<SessionUuid> {
        if let Some(uuid) = self.uuids.read().get(&session) {
            return Ok(*uuid);
        }
        let own = self.meta.session();
        let uuid = if own.no == session { own.uuid } else { self.meta.session_uuid(session).await? };
        self.uuids.write().insert(session, uuid);
        Ok(uuid)
    }

    /// An empty pack with this slice number.
    pub(crate) fn new_pack(&self, session: SessionUuid, n: u64) -> PackBuilder {
        PackBuilder::new(session, n, self.generation)
    }

    /// Writes an object.
    pub(crate) async fn put(&self, id: &ObjectId, object: Bytes) -> Result<(), ObjectError> {
        self.bucket.put(&id.key(), object).await
    }

    /// The object of a block of a slice of this session, read from the slice with every frame checked. `of`: the inode, and
    /// where in the file the block begins.
    ///
    /// # Errors
    /// What the cache does not give back.
    pub(crate) fn block(
        &self,
        slice: &SliceBuf,
        index: u64,
        of: (InodeNo, u64),
    ) -> Result<(ObjectId, Bytes), CacheError> {
        let trailer = BlockTrailer {
            session: slice.session,
            n: slice.id.n,
            block: index as u32,
            generation: self.generation,
            inode: of.0,
            file_offset: of.1,
        };
        let range = slice.block_range(index);
        let len = range.end - range.start;
        // A frame at a time: a writer of this slice waits for no more than that.
        let fill = |at, frame: &mut [u8]| slice.read(range.start + at, frame, true);
        let object = encode_block_with(len, &trailer, self.rooms.take(), fill)?;
        Ok((trailer.id(), self.rooms.bytes(object)))
    }

    /// Deletes blocks of a slice that no record names.
    pub(crate) async fn delete_blocks(&self, slice: &SliceBuf, indices: &[u64]) -> Result<(), ObjectError> {
        let id = |i: &u64| ObjectId::block(slice.session, slice.id.n, *i as u32);
        let keys: Vec<String> = indices.iter().map(|i| id(i).key()).collect();
        for batch in keys.chunks(DELETE_BATCH) {
            self.bucket.client().delete(batch).await?;
        }
        Ok(())
    }

    /// Reads a range of a slice, verified: from one object if it is a pack or lies in one block, else from several, one
    /// after the other.
    pub(crate) async fn read(&self, slice: &SliceRef, range: Range<u64>) -> Result<Vec<Bytes>, ObjectError> {
        let mut out = Vec::new();
        match slice.kind {
            ExtentKind::Pack => {
                let id = ObjectId::pack(slice.session, slice.n);
                out = self.bucket.read_payload(&id, range, Some(slice.len)).await?;
            }
            ExtentKind::Blocks => {
                let mut at = range.start;
                while at < range.end {
                    let index = at / self.block_size;
                    let base = index * self.block_size;
                    let end = range.end.min(base + self.block_size);
                    let len = (slice.len - base).min(self.block_size);
                    let id = ObjectId::block(slice.session, slice.n, index as u32);
                    out.extend(self.bucket.read_payload(&id, at - base..end - base, Some(len)).await?);
                    at = end;
                }
            }
        }
        Ok(out)
    }
}

/// What a member of a pack tells of its file.
pub(crate) fn member(
    attr: &carafe_types::Attr,
    parent: Option<InodeNo>,
    name: Option<&carafe_types::EntryName>,
    mtime_ns: i64,
    file_offset: u64,
) -> MemberInfo {
    MemberInfo {
        inode: attr.ino.0,
        parent: parent.map_or(0, |p| p.0),
        name: name.map(|n| n.as_bytes().to_vec()).unwrap_or_default(),
        mode: 0o100_000 | u32::from(attr.mode),
        uid: attr.uid,
        gid: attr.gid,
        mtime_ns,
        file_offset,
    }
}

/// A bucket's failure as a file system call sees it.
pub(crate) fn to_fs_error(e: &ObjectError) -> FsError {
    if e.is_transient() { FsError::Unavailable(e.to_string()) } else { FsError::Io(e.to_string()) }
}
