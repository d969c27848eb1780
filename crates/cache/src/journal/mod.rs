//! The journal: what the daemon has accepted and not yet made durable, so that the next daemon can finish it.
//!
//! It protects against a dead process, not against a dead node (metadata.md, 9): records are written with one system call and never
//! synced, and belong to one boot. What a record means is the caller's business: here it is a kind and bytes.
//!
//! 1. *When may a record go?* When its effect is durable. [`Journal::append`] gives a [`JournalToken`]; a segment whose tokens are all
//!    dropped may be deleted, but **only the oldest one**: a later record may say "done" about an earlier one, and must not vanish first.
//! 2. *A process dies within a write*: the last record is torn, and was never acknowledged. `recover` ends there silently.
//! 3. *A write fails half way* (disk full): the segment is cut back, or nothing is appended any more.
//! 4. *Bytes change under us*: each record has a checksum and a number; `recover` reports the damage and goes on behind it.

mod record;
mod recover;
mod segment;

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

use parking_lot::Mutex;

pub use record::MAX_RECORD_BYTES;
pub use recover::{Damage, RecordRef, Recovered, Recovery};

use crate::error::CacheError;
use segment::{OpenSegment, Segment};

/// Segments are closed at this size unless told otherwise.
pub const SEGMENT_BYTES_DEFAULT: u64 = 64 << 20;

/// Whose journal it is; in the head of each segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalHeader {
    /// The boot in which the records were written.
    pub boot_id: [u8; 16],
    /// The file system.
    pub fs_uuid: [u8; 16],
    /// The session's random uuid.
    pub session_uuid: [u8; 16],
    /// The session's number in the store.
    pub session: u64,
    /// Generation of the file system (a restore makes a new one).
    pub generation: u64,
}

/// The number of a record: 1, 2, 3... in the life of one `Journal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// Sizes of a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalStats {
    /// Segments on disk.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Tokens held in the oldest segment: what has to be made durable for the journal to shrink.
    pub oldest_live: u64,
}

/// An open journal. Appends of all threads are put in one order.
pub struct Journal {
    dir: PathBuf,
    header: JournalHeader,
    segment_bytes: u64,
    active: Mutex<Active>,
    closed: Arc<Closed>,
}

struct Active {
    open: OpenSegment,
    next_lsn: u64,
    /// A failed append could not be undone: the end of the log is not known any more.
    broken: bool,
    head: Vec<u8>,
}

/// Segments that take no more records, oldest first.
#[derive(Default)]
struct Closed {
    queue: Mutex<VecDeque<Arc<Segment>>>,
}

impl Closed {
    /// Deletes from the front what nobody needs.
    fn collect(&self) {
        let mut queue = self.queue.lock();
        while let Some(oldest) = queue.front()
            && oldest.live.load(SeqCst) == 0
        {
            if let Err(e) = std::fs::remove_file(&oldest.path) {
                tracing::warn!(path = %oldest.path.display(), error = %e, "journal segment cannot be deleted");
            }
            queue.pop_front();
        }
    }
}

/// Keeps a record (and all later ones) from being deleted. Drop it when the record's effect is durable.
pub struct JournalToken {
    lsn: Lsn,
    segment: Arc<Segment>,
    closed: Arc<Closed>,
}

impl JournalToken {
    /// The record's number.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }
}

impl Clone for JournalToken {
    fn clone(&self) -> Self {
        self.segment.live.fetch_add(1, SeqCst);
        JournalToken { lsn: self.lsn, segment: self.segment.clone(), closed: self.closed.clone() }
    }
}

impl Drop for JournalToken {
    fn drop(&mut self) {
        // A segment that is still open is collected when it is closed.
        if self.segment.live.fetch_sub(1, SeqCst) == 1 && self.segment.closed.load(SeqCst) {
            self.closed.collect();
        }
    }
}

impl std::fmt::Debug for JournalToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "JournalToken({})", self.lsn.0)
    }
}

impl Journal {
    /// Starts a journal in `dir`, behind all segments that are there. Call [`Journal::recover`] first: it does not see what is written now.
    ///
    /// # Errors
    /// `DiskFull`, `DiskError`.
    pub fn create(dir: &Path, header: JournalHeader, segment_bytes: u64) -> Result<Self, CacheError> {
        std::fs::create_dir_all(dir).map_err(|e| CacheError::path("creating", dir, e))?;
        let last =
            segment::list(dir).map_err(|e| CacheError::path("listing", dir, e))?.last().map_or(0, |s| s.0);
        let seq = last + 1;
        let open = OpenSegment::create(dir, &header, seq, seq, 1)?;
        let active = Active { open, next_lsn: 1, broken: false, head: Vec::new() };
        Ok(Journal {
            dir: dir.to_owned(),
            header,
            segment_bytes,
            active: Mutex::new(active),
            closed: Arc::default(),
        })
    }

    /// Looks at what earlier journals left in `dir`. Records of a boot other than `boot_id` are stale.
    ///
    /// # Errors
    /// `DiskError` if the directory or a segment cannot be read. Damage is no error, it is in the answer.
    pub fn recover(dir: &Path, boot_id: [u8; 16]) -> Result<Recovery, CacheError> {
        recover::recover(dir, boot_id)
    }

    /// Appends one record, its payload given in parts, with one write and without a sync.
    ///
    /// # Errors
    /// `RecordTooLarge`, `DiskFull`, `DiskError`; then nothing was appended.
    pub fn append(&self, kind: u8, parts: &[&[u8]]) -> Result<JournalToken, CacheError> {
        let payload: usize = parts.iter().map(|part| part.len()).sum();
        if payload > MAX_RECORD_BYTES {
            return Err(CacheError::RecordTooLarge { bytes: payload, max: MAX_RECORD_BYTES });
        }
        let bytes = (record::HEAD_BYTES + payload) as u64;
        let mut active = self.active.lock();
        if active.broken {
            let source = io::Error::other("an earlier write failed and could not be undone");
            return Err(CacheError::path("appending to", &active.open.segment.path, source));
        }
        if active.open.bytes + bytes > self.segment_bytes && active.open.has_records() {
            self.rotate(&mut active)?;
        }
        let lsn = active.next_lsn;
        let Active { open, head, .. } = &mut *active;
        record::encode_head(head, open.seed, kind, lsn, parts);
        if let Err(e) = record::write(&open.file, open.bytes, head, parts) {
            // What was written of it must not be taken for a record's beginning by the next reader.
            active.broken = active.open.file.set_len(active.open.bytes).is_err();
            return Err(CacheError::path("appending to", &active.open.segment.path, e));
        }
        open.bytes += bytes;
        let segment = open.segment.clone();
        active.next_lsn += 1;
        segment.bytes.store(active.open.bytes, Relaxed);
        segment.live.fetch_add(1, SeqCst);
        Ok(JournalToken { lsn: Lsn(lsn), segment, closed: self.closed.clone() })
    }

    /// Closes the active segment if it holds records, so that everything that is not needed any more can be deleted (at a clean unmount,
    /// or when nothing is dirty).
    ///
    /// # Errors
    /// `DiskFull`, `DiskError`; the journal goes on with the old segment.
    pub fn checkpoint(&self) -> Result<(), CacheError> {
        let mut active = self.active.lock();
        if active.open.has_records() { self.rotate(&mut active) } else { Ok(()) }
    }

    /// Sizes now.
    pub fn stats(&self) -> JournalStats {
        let active = self.active.lock();
        let queue = self.closed.queue.lock();
        let oldest = queue.front().unwrap_or(&active.open.segment);
        JournalStats {
            segments: queue.len() as u64 + 1,
            bytes: active.open.bytes + queue.iter().map(|segment| segment.bytes.load(Relaxed)).sum::<u64>(),
            oldest_live: oldest.live.load(SeqCst),
        }
    }

    fn rotate(&self, active: &mut Active) -> Result<(), CacheError> {
        let old = &active.open;
        let next = OpenSegment::create(&self.dir, &self.header, old.life, old.seq + 1, active.next_lsn)?;
        let old = std::mem::replace(&mut active.open, next);
        self.closed.queue.lock().push_back(old.segment.clone());
        old.segment.closed.store(true, SeqCst);
        self.closed.collect();
        Ok(())
    }
}

impl Drop for Journal {
    /// A journal that ends without any record still needed leaves nothing to recover.
    fn drop(&mut self) {
        let active = self.active.get_mut();
        let idle = active.open.segment.live.load(SeqCst) == 0 && self.closed.queue.lock().is_empty();
        if idle && let Err(e) = std::fs::remove_file(&active.open.segment.path) {
            tracing::debug!(error = %e, "journal segment was not there to be deleted");
        }
    }
}

/// `write_all_at` for tests and heads lives in the standard library; this is only a shorter name.
fn write_all(file: &std::fs::File, bytes: &[u8], at: u64) -> io::Result<()> {
    file.write_all_at(bytes, at)
}
