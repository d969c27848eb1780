//! One append-only log of index records a shard, rewritten when most of it is history.
//!
//! A log instead of a file of metadata per slice: 100,000 slices are loaded from 256 sequential reads, and a fill costs one small write.
//! Nothing is synced. After a crash of the node the log may tell of frames that never reached the disk, or not know of some that did:
//! checksums find the first, the second is fetched again.
//!
//! Rewriting must not lose what is appended meanwhile and must not hold the log while it waits for a slice's gate (`entry`: order of
//! locks). So between `begin_rewrite` and `end_rewrite` each append goes to both files, and a slice's state is put into the new one while
//! its gate is held. Telling something twice is harmless.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::index::Record;

const MAGIC: &[u8; 8] = b"CARAFEIX";
const VERSION: u32 = 1;
const HEAD: u64 = 12;

/// A log smaller than this is not rewritten.
const REWRITE_MIN: u64 = 256 << 10;

/// The index of a shard, open for appending.
pub(crate) struct IndexLog {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// Size after the last rewrite.
    base: u64,
    rewrite: Option<(File, u64)>,
}

impl IndexLog {
    /// Opens or creates the log, and gives each record in it to `apply`. It ends at the first record that cannot be read.
    pub(crate) fn open(path: PathBuf, mut apply: impl FnMut(Record)) -> io::Result<Self> {
        let file = options().create(true).truncate(false).open(&path)?;
        let mut log = IndexLog { path, file, bytes: HEAD, base: 0, rewrite: None };
        if log.read(&mut apply)? {
            log.file.set_len(log.bytes)?;
        } else {
            log.file.set_len(0)?;
            write_head(&log.file)?;
        }
        Ok(log)
    }

    /// Reads all records; false if this is not a log of this version.
    fn read(&mut self, apply: &mut impl FnMut(Record)) -> io::Result<bool> {
        let size = self.file.metadata()?.len();
        let mut reader = BufReader::with_capacity(64 << 10, &self.file);
        let mut head = [0; HEAD as usize];
        if size < HEAD {
            return Ok(false);
        }
        reader.read_exact(&mut head)?;
        if head != head_bytes() {
            tracing::warn!(path = %self.path.display(), "cache index of another version is ignored");
            return Ok(false);
        }
        // A window of whole records: topped up when less than the largest record is left.
        let mut window = Vec::new();
        let mut at = 0;
        loop {
            if window.len() - at < 1024 {
                window.drain(..at);
                at = 0;
                let missing = (32 << 10) - window.len() as u64;
                reader.by_ref().take(missing).read_to_end(&mut window)?;
            }
            let Some((record, n)) = Record::decode(&window[at..]) else { break };
            apply(record);
            at += n;
            self.bytes += n as u64;
        }
        if self.bytes < size {
            tracing::info!(path = %self.path.display(), from = self.bytes, "torn end of a cache index is cut");
        }
        Ok(true)
    }

    /// Appends encoded records.
    pub(crate) fn append(&mut self, records: &[u8]) -> io::Result<()> {
        if let Some((file, bytes)) = &mut self.rewrite {
            match file.write_all_at(records, *bytes) {
                Ok(()) => *bytes += records.len() as u64,
                Err(_) => self.rewrite = None,
            }
        }
        // A part that was written is written over by the next append, or cut when the log is read.
        self.file.write_all_at(records, self.bytes)?;
        self.bytes += records.len() as u64;
        Ok(())
    }

    /// Whether most of the log is history.
    pub(crate) fn is_due(&self) -> bool {
        self.rewrite.is_none() && self.bytes > REWRITE_MIN.max(self.base * 2)
    }

    /// Starts a new file next to the old one.
    pub(crate) fn begin_rewrite(&mut self) -> io::Result<()> {
        let file = options().create(true).truncate(true).open(new_path(&self.path))?;
        write_head(&file)?;
        self.rewrite = Some((file, HEAD));
        Ok(())
    }

    /// Puts the state of a slice into the new file only.
    pub(crate) fn snapshot(&mut self, records: &[u8]) {
        if let Some((file, bytes)) = &mut self.rewrite {
            match file.write_all_at(records, *bytes) {
                Ok(()) => *bytes += records.len() as u64,
                Err(_) => self.rewrite = None,
            }
        }
    }

    /// Makes the new file the log. If it could not be written the old one stays; it is tried again when that has doubled.
    pub(crate) fn end_rewrite(&mut self) -> io::Result<()> {
        self.base = self.bytes;
        let Some((file, bytes)) = self.rewrite.take() else { return Ok(()) };
        fs::rename(new_path(&self.path), &self.path)?;
        (self.file, self.bytes, self.base) = (file, bytes, bytes);
        Ok(())
    }
}

/// Where a rewrite is prepared.
pub(crate) fn new_path(path: &Path) -> PathBuf {
    path.with_extension("new")
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

fn head_bytes() -> [u8; HEAD as usize] {
    let mut head = [0; HEAD as usize];
    head[..8].copy_from_slice(MAGIC);
    head[8..].copy_from_slice(&VERSION.to_le_bytes());
    head
}

fn write_head(file: &File) -> io::Result<()> {
    file.write_all_at(&head_bytes(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Change;
    use crate::key::SliceKey;

    fn gone(n: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let change = Change::Gone { segment: n as u32, mask: n };
        Record { key: SliceKey { session_uuid: 3, n }, change }.encode(&mut bytes);
        bytes
    }

    fn load(path: &Path) -> (IndexLog, Vec<u64>) {
        let mut seen = Vec::new();
        let log = IndexLog::open(path.to_owned(), |record| seen.push(record.key.n)).unwrap();
        (log, seen)
    }

    #[test]
    fn a_torn_end_is_cut_and_appending_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index");
        let (mut log, _) = load(&path);
        (0..3000).for_each(|n| log.append(&gone(n)).unwrap());
        let size = log.bytes;
        drop(log);
        for cut in 1..gone(0).len() as u64 {
            options().open(&path).unwrap().set_len(size - cut).unwrap();
            let (mut log, seen) = load(&path);
            assert_eq!(seen.len(), 2999);
            log.append(&gone(7)).unwrap();
            assert_eq!(log.bytes, size);
        }
    }

    #[test]
    fn appends_during_a_rewrite_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index");
        let (mut log, _) = load(&path);
        (0..10_000).for_each(|n| log.append(&gone(n)).unwrap());
        assert!(log.is_due());
        log.begin_rewrite().unwrap();
        log.append(&gone(1)).unwrap();
        log.snapshot(&gone(2));
        log.end_rewrite().unwrap();
        log.append(&gone(3)).unwrap();
        assert!(!log.is_due());
        assert_eq!(load(&path).1, [1, 2, 3]);
    }

    #[test]
    fn a_log_of_another_version_starts_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index");
        let mut head = head_bytes();
        head[8] = 2;
        fs::write(&path, [&head[..], &gone(1)].concat()).unwrap();
        let (mut log, seen) = load(&path);
        assert!(seen.is_empty());
        log.append(&gone(5)).unwrap();
        assert_eq!(load(&path).1, [5]);
    }
}
