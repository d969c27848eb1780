//! Reading what a dead daemon left.
//!
//! 1. The last record of a life may be torn: if nothing valid follows, the log just ends there.
//! 2. If something valid follows, bytes were damaged: that is reported, and reading goes on at the next valid record, which is found by
//!    trying each offset (a record has a checksum and a number that must be higher than the last one).
//! 3. A gap in the numbers is damage, too: a segment is missing.
//! 4. Records are many and may be large: only their places are kept in memory, payloads are read when asked for.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::record::{HEAD_BYTES, Head};
use super::segment::{self, SegmentHead};
use super::{JournalHeader, Lsn};
use crate::error::CacheError;
use crate::store::read_full;

/// What was found in a journal directory.
#[derive(Debug)]
pub enum Recovery {
    /// No record.
    Nothing,
    /// Records of this boot: to be finished.
    Live(Recovered),
    /// Records of another boot only: the caller discards them, loudly. They are readable, to name what is lost.
    Stale(Recovered),
}

/// The records, oldest first, and the segments that hold them until [`Recovered::discard`].
#[derive(Debug)]
pub struct Recovered {
    /// One header for each daemon that wrote here, oldest first; usually one.
    pub lives: Vec<JournalHeader>,
    /// All records in the order in which they were appended.
    pub records: Vec<RecordRef>,
    /// The last record of a life was cut short by its death; it was never acknowledged.
    pub torn_tail: bool,
    /// Records that are lost.
    pub damage: Vec<Damage>,
    /// Records of other boots, left out of `records` because newer ones of this boot exist.
    pub stale_records: usize,
    segments: Vec<PathBuf>,
}

/// The place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef {
    /// Its number, in its life.
    pub lsn: Lsn,
    /// What it means to the caller.
    pub kind: u8,
    /// Which of `Recovered::lives` wrote it.
    pub life: usize,
    /// Bytes of its payload.
    pub len: usize,
    segment: usize,
    offset: u64,
    seed: u32,
}

/// Something in a journal that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The segment.
    pub path: PathBuf,
    /// Offset of the first bad byte range.
    pub offset: u64,
    /// What is wrong.
    pub reason: String,
}

impl Recovered {
    /// The header of the last life.
    pub fn header(&self) -> Option<&JournalHeader> {
        self.lives.last()
    }

    /// Reads the payload of a record.
    ///
    /// # Errors
    /// `DiskError` if it cannot be read or has changed since.
    pub fn read(&self, record: &RecordRef) -> Result<Vec<u8>, CacheError> {
        let mut file = None;
        self.read_from(record, &mut file)
    }

    /// All records with their payloads, in order, one in memory at a time.
    pub fn iter(&self) -> impl Iterator<Item = Result<(RecordRef, Vec<u8>), CacheError>> {
        let mut file = None;
        self.records.iter().map(move |record| Ok((*record, self.read_from(record, &mut file)?)))
    }

    /// Deletes the segments: to be called when everything in them is done, or was given up.
    ///
    /// # Errors
    /// `DiskError`; what could be deleted was.
    pub fn discard(self) -> Result<(), CacheError> {
        let mut result = Ok(());
        for path in &self.segments {
            if let Err(e) = std::fs::remove_file(path)
                && e.kind() != io::ErrorKind::NotFound
            {
                result = Err(CacheError::path("deleting", path, e));
            }
        }
        result
    }

    fn read_from(&self, record: &RecordRef, file: &mut Option<(usize, File)>) -> Result<Vec<u8>, CacheError> {
        let path = &self.segments[record.segment];
        let fail = |e| CacheError::path("reading", path, e);
        let file = match file {
            Some((segment, file)) if *segment == record.segment => file,
            _ => &mut file.insert((record.segment, File::open(path).map_err(fail)?)).1,
        };
        let mut bytes = vec![0; HEAD_BYTES + record.len];
        let n = read_full(file, &mut bytes, record.offset).map_err(fail)?;
        let head = bytes.first_chunk().and_then(Head::decode);
        if n < bytes.len()
            || !head.is_some_and(|head| head.lsn == record.lsn.0 && head.matches(&bytes, record.seed))
        {
            return Err(fail(io::Error::new(io::ErrorKind::InvalidData, "the record has changed")));
        }
        bytes.drain(..HEAD_BYTES);
        Ok(bytes)
    }
}

/// Finds all records in `dir`.
pub(super) fn recover(dir: &Path, boot_id: [u8; 16]) -> Result<Recovery, CacheError> {
    let files = segment::list(dir).map_err(|e| CacheError::path("listing", dir, e))?;
    let mut scan = Scan::new(files.into_iter().map(|(_, path)| path).collect());
    for index in 0..scan.found.segments.len() {
        let path = scan.found.segments[index].clone();
        scan.segment(index, &path).map_err(|e| CacheError::path("reading", &path, e))?;
    }
    let mut found = scan.finish();
    if found.records.is_empty() && found.damage.is_empty() {
        found.discard()?;
        return Ok(Recovery::Nothing);
    }
    if !found.lives.is_empty() && found.lives.iter().all(|header| header.boot_id != boot_id) {
        return Ok(Recovery::Stale(found));
    }
    let all = found.records.len();
    let Recovered { lives, records, .. } = &mut found;
    records.retain(|record| lives[record.life].boot_id == boot_id);
    found.stale_records = all - found.records.len();
    Ok(Recovery::Live(found))
}

/// The state of the search.
struct Scan {
    found: Recovered,
    /// Life and number of the segment before.
    last: Option<(u64, u64)>,
    next_lsn: u64,
    /// A bad end of a segment: silent if its life ends with it, damage otherwise.
    suspect: Option<Damage>,
}

impl Scan {
    fn new(segments: Vec<PathBuf>) -> Self {
        let found = Recovered {
            lives: Vec::new(),
            records: Vec::new(),
            torn_tail: false,
            damage: Vec::new(),
            stale_records: 0,
            segments,
        };
        Scan { found, last: None, next_lsn: 1, suspect: None }
    }

    fn segment(&mut self, index: usize, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut window =
            Window { file: &file, size, start: 0, bytes: Vec::new(), seed: 0, budget: SEARCH_BYTES_MAX };
        let head_len = size.min(segment::HEAD_BYTES as u64) as usize;
        let head = match SegmentHead::decode(window.get(0, head_len)?) {
            Ok(head) => head,
            Err(reason) => {
                // A daemon that dies while it creates a segment leaves a part of a head.
                let suspect = Damage { path: path.to_owned(), offset: 0, reason: reason.to_owned() };
                if head_len < segment::HEAD_BYTES {
                    self.suspect = Some(suspect);
                } else {
                    self.found.damage.push(suspect);
                }
                return Ok(());
            }
        };
        window.seed = head.seed;
        self.enter(&head, path);
        self.records(index, path, &mut window)
    }

    /// Begins a segment: a new life, or the next of the same.
    fn enter(&mut self, head: &SegmentHead, path: &Path) {
        let same_life = self.last.is_some_and(|(life, _)| life == head.life);
        if let Some(suspect) = self.suspect.take() {
            if same_life {
                self.found.damage.push(suspect);
            } else {
                self.found.torn_tail = true;
            }
        }
        if !same_life {
            self.found.lives.push(head.header);
            self.next_lsn = head.first_lsn;
        } else if self.last.is_some_and(|(_, seq)| seq.checked_add(1) != Some(head.seq)) {
            let reason = "segments before it are missing".to_owned();
            self.found.damage.push(Damage { path: path.to_owned(), offset: 0, reason });
            self.next_lsn = head.first_lsn;
        }
        self.last = Some((head.life, head.seq));
    }

    fn records(&mut self, index: usize, path: &Path, window: &mut Window<'_>) -> io::Result<()> {
        let mut at = segment::HEAD_BYTES as u64;
        while at < window.size {
            let found = match window.record(at, self.next_lsn)? {
                Some(head) => Some((at, head)),
                None => window.search(at + 1, self.next_lsn)?,
            };
            let Some((offset, head)) = found else {
                let suspect =
                    Damage { path: path.to_owned(), offset: at, reason: "its end is bad".to_owned() };
                if window.budget == 0 {
                    self.found.damage.push(suspect);
                } else {
                    self.suspect = Some(suspect);
                }
                return Ok(());
            };
            if offset != at || head.lsn != self.next_lsn {
                let lost = head.lsn - self.next_lsn;
                let reason = format!("{lost} records before lsn {} are lost", head.lsn);
                self.found.damage.push(Damage { path: path.to_owned(), offset: at, reason });
            }
            self.found.records.push(RecordRef {
                lsn: Lsn(head.lsn),
                kind: head.kind,
                life: self.found.lives.len() - 1,
                len: head.len,
                segment: index,
                offset,
                seed: window.seed,
            });
            self.next_lsn = head.lsn.saturating_add(1);
            at = offset + (HEAD_BYTES + head.len) as u64;
        }
        Ok(())
    }

    fn finish(mut self) -> Recovered {
        self.found.torn_tail |= self.suspect.take().is_some();
        self.found
    }
}

/// A file seen through a buffer, by offset.
struct Window<'a> {
    file: &'a File,
    size: u64,
    start: u64,
    bytes: Vec<u8>,
    seed: u32,
    /// Bytes that may still be checked in this segment.
    budget: u64,
}

/// A search behind damage gives up after checking this much: bytes made for it could let each offset cost 16 MiB.
const SEARCH_BYTES_MAX: u64 = 4 << 30;

/// Bytes read at once.
const WINDOW_BYTES: usize = 1 << 20;

impl Window<'_> {
    /// `len` bytes at `at`, which the caller knows to be in the file; fewer if the file shrank.
    fn get(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let inside = at >= self.start && at + len as u64 <= self.start + self.bytes.len() as u64;
        if !inside {
            let rest = (self.size - at.min(self.size)).min(WINDOW_BYTES.max(len) as u64) as usize;
            self.bytes.resize(rest, 0);
            let n = read_full(self.file, &mut self.bytes, at)?;
            self.bytes.truncate(n);
            self.start = at;
        }
        let from = ((at - self.start) as usize).min(self.bytes.len());
        let to = (from + len).min(self.bytes.len());
        Ok(&self.bytes[from..to])
    }

    /// The valid record at `at` with number `lsn_min` or a little higher.
    fn record(&mut self, at: u64, lsn_min: u64) -> io::Result<Option<Head>> {
        let left = self.size - at;
        if left < HEAD_BYTES as u64 {
            return Ok(None);
        }
        let Some(head) = self.get(at, HEAD_BYTES)?.first_chunk().and_then(Head::decode) else {
            return Ok(None);
        };
        let whole = HEAD_BYTES + head.len;
        let plausible = head.lsn >= lsn_min && head.lsn - lsn_min < 1 << 32 && whole as u64 <= left;
        if !plausible {
            return Ok(None);
        }
        self.budget = self.budget.saturating_sub(whole as u64);
        let seed = self.seed;
        let record = self.get(at, whole)?;
        Ok((record.len() == whole && head.matches(record, seed)).then_some(head))
    }

    /// The first valid record at or behind `at`.
    fn search(&mut self, at: u64, lsn_min: u64) -> io::Result<Option<(u64, Head)>> {
        for offset in at..self.size {
            if self.budget == 0 {
                return Ok(None);
            }
            if let Some(head) = self.record(offset, lsn_min)? {
                return Ok(Some((offset, head)));
            }
        }
        Ok(None)
    }
}
