//! Open directories.
//!
//! A cookie is the ordinal of an entry in its handle. The store lists by name, so a handle must know which name an
//! ordinal was: it keeps the names of the last 1 MiB, and before them every 256th, which is enough to go back to (the
//! kernel goes back at most over its last buffer; `seekdir` to anywhere is rare). Names that are there all the time come
//! exactly once, whatever is created and removed meanwhile, because the next page begins behind the last name.
//!
//! A restarted daemon does not know the handles of the one before: a handle is the directory's number, and one that is
//! met again is read from its start up to the cookie.

use crate::vfs::Vfs;
use bytes::Bytes;
use carafe_meta::Ctx;
use carafe_types::{Attr, EntryName, FileKind, FsError, FsResult, InodeNo};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Names in full that a handle keeps, bytes.
const RECENT_BYTES: usize = 1 << 20;

/// Before these, one name in so many.
const MARK_EVERY: u64 = 256;

/// Names asked of the store at once.
const PAGE: usize = 1000;

/// `.` and `..` come first.
const DOTS: u64 = 2;

/// An entry of a directory as `readdir` gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirItem {
    /// Its name; `.` and `..` come first.
    pub name: Bytes,
    /// Its inode.
    pub ino: InodeNo,
    /// Its type.
    pub kind: FileKind,
    /// Where the next call goes on behind it.
    pub cookie: u64,
    /// Its attributes, if they were asked for and the inode still exists.
    pub attr: Option<Attr>,
}

/// Some entries of a directory.
#[derive(Clone, Debug, Default)]
pub struct DirPage {
    /// In the order of the handle. Empty: the end.
    pub entries: Vec<DirItem>,
    /// How long names and attributes may be kept.
    pub ttl: Duration,
    /// Nobody else can change the file system, so the lifetime holds for replies under way, too.
    pub fixed: bool,
}

/// The place of one reader in a directory.
#[derive(Debug)]
struct Reader {
    dir: InodeNo,
    parent: InodeNo,
    /// Ordinals of the names in `recent`: the first is `base`, counted from 0 behind the dots.
    base: u64,
    recent: VecDeque<EntryName>,
    recent_bytes: usize,
    /// Every 256th name before `base`, by ordinal / 256.
    marks: Vec<EntryName>,
    /// Entries that were listed and not yet given out, behind the last of `recent`.
    ahead: VecDeque<(EntryName, InodeNo, FileKind, Option<Attr>)>,
    ahead_plus: bool,
    ttl: Duration,
    end: bool,
}

impl Reader {
    fn new(dir: InodeNo, parent: InodeNo) -> Self {
        Reader {
            dir,
            parent,
            base: 0,
            recent: VecDeque::new(),
            recent_bytes: 0,
            marks: Vec::new(),
            ahead: VecDeque::new(),
            ahead_plus: false,
            ttl: Duration::ZERO,
            end: false,
        }
    }

    /// Ordinal of the next entry to give out.
    fn next(&self) -> u64 {
        self.base + self.recent.len() as u64
    }

    /// Notes a name as given out.
    fn give(&mut self, name: EntryName) {
        let ordinal = self.next();
        if ordinal.is_multiple_of(MARK_EVERY) && ordinal / MARK_EVERY == self.marks.len() as u64 {
            self.marks.push(name.clone());
        }
        self.recent_bytes += name.as_bytes().len();
        self.recent.push_back(name);
        while self.recent_bytes > RECENT_BYTES {
            let Some(old) = self.recent.pop_front() else { break };
            self.recent_bytes -= old.as_bytes().len();
            self.base += 1;
        }
    }

    /// Goes to the entry with this ordinal; returns how many entries must be passed over to get there.
    fn seek(&mut self, ordinal: u64) -> u64 {
        if ordinal == self.next() {
            return 0;
        }
        self.ahead.clear();
        self.end = false;
        if ordinal >= self.base && ordinal < self.next() {
            self.recent.truncate((ordinal - self.base) as usize);
            self.recent_bytes = self.recent.iter().map(|n| n.as_bytes().len()).sum();
            if ordinal > self.base || ordinal == 0 {
                return 0;
            }
        }
        if ordinal > self.next() {
            return ordinal - self.next();
        }
        // Entry `m` of the marks has the ordinal `m * MARK_EVERY`: the place behind it is one more.
        let mark = (ordinal.saturating_sub(1) / MARK_EVERY).min(self.marks.len() as u64);
        self.recent.clear();
        self.recent_bytes = 0;
        match self.marks.get(mark as usize).filter(|_| ordinal > 0) {
            Some(name) => {
                self.base = mark * MARK_EVERY;
                self.recent_bytes = name.as_bytes().len();
                self.recent.push_back(name.clone());
            }
            None => self.base = 0,
        }
        ordinal - self.next()
    }
}

/// All open directories.
#[derive(Debug, Default)]
pub(crate) struct DirHandles {
    readers: Mutex<HashMap<u64, Arc<tokio::sync::Mutex<Reader>>>>,
    next: AtomicU64,
}

/// A directory handle: the number of the directory above 12 bits that tell handles apart.
const TELL_APART: u64 = 1 << 12;

fn dir_of(fh: u64) -> InodeNo {
    InodeNo(fh / TELL_APART)
}

impl Vfs {
    /// Opens a directory for reading its names.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`.
    pub async fn opendir(&self, _ctx: &Ctx, ino: InodeNo) -> FsResult<u64> {
        if self.meta.getattr(ino).await?.attr.kind != FileKind::Directory {
            return Err(FsError::NotDirectory);
        }
        let parent = self.places.parent_of(ino);
        let reader = Arc::new(tokio::sync::Mutex::new(Reader::new(ino, parent)));
        let mut readers = self.dirs.readers.lock();
        loop {
            let fh = ino.0 * TELL_APART + self.dirs.next.fetch_add(1, Relaxed) % TELL_APART;
            if let std::collections::hash_map::Entry::Vacant(free) = readers.entry(fh) {
                free.insert(reader);
                return Ok(fh);
            }
        }
    }

    /// The entries behind `cookie` (0 from the start), at most `limit`, with attributes if `plus`.
    ///
    /// # Errors
    /// `NotFound` when the directory was removed meanwhile; store errors.
    pub async fn readdir(&self, fh: u64, cookie: u64, limit: usize, plus: bool) -> FsResult<DirPage> {
        let reader = self.dir_reader(fh).await;
        let mut reader = reader.lock().await;
        let mut page = DirPage { fixed: self.fixed, ..DirPage::default() };
        if cookie < DOTS {
            self.dots(&reader, cookie, plus, &mut page.entries).await;
        }
        if cookie == 0 {
            // rewinddir, or the first call: what was listed before may be old.
            *reader = Reader::new(reader.dir, reader.parent);
        }
        let mut skip = reader.seek(cookie.saturating_sub(DOTS));
        while page.entries.len() < limit.max(1) {
            if reader.ahead.is_empty() || (plus && !reader.ahead_plus) {
                self.list_ahead(&mut reader, plus).await?;
            }
            let Some((name, ino, kind, attr)) = reader.ahead.pop_front() else { break };
            reader.give(name.clone());
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let cookie = reader.next() + DOTS;
            let name = Bytes::copy_from_slice(name.as_bytes());
            page.entries.push(DirItem { name, ino, kind, cookie, attr });
        }
        page.ttl = reader.ttl;
        Ok(page)
    }

    async fn list_ahead(&self, reader: &mut Reader, plus: bool) -> FsResult<()> {
        if reader.ahead.is_empty() && reader.end {
            return Ok(());
        }
        reader.ahead.clear();
        let after = reader.recent.back().cloned();
        let listed = self.meta.list(reader.dir, after.as_ref(), PAGE, plus).await?;
        reader.end = listed.end;
        reader.ttl = listed.ttl;
        reader.ahead_plus = plus;
        for (entry, mut attr) in listed.entries {
            if let Some(attr) = &mut attr {
                self.overlay(attr);
                // The kernel makes an entry of it.
                self.places.learn((attr.ino, attr.kind), reader.dir, &entry.name);
            }
            reader.ahead.push_back((entry.name, entry.ino, entry.kind, attr));
        }
        Ok(())
    }

    async fn dots(&self, reader: &Reader, cookie: u64, plus: bool, into: &mut Vec<DirItem>) {
        let both = [(&b"."[..], reader.dir), (&b".."[..], reader.parent)];
        for (i, (name, ino)) in both.into_iter().enumerate().skip(cookie as usize) {
            let attr = if plus { self.meta.getattr(ino).await.ok().map(|f| f.attr) } else { None };
            let name = Bytes::from_static(name);
            into.push(DirItem { name, ino, kind: FileKind::Directory, cookie: i as u64 + 1, attr });
        }
    }

    async fn dir_reader(&self, fh: u64) -> Arc<tokio::sync::Mutex<Reader>> {
        if let Some(reader) = self.dirs.readers.lock().get(&fh) {
            return reader.clone();
        }
        // Opened at a daemon before this one.
        let dir = dir_of(fh);
        let parent = self.places.parent_of(dir);
        let reader = Arc::new(tokio::sync::Mutex::new(Reader::new(dir, parent)));
        self.dirs.readers.lock().entry(fh).or_insert(reader).clone()
    }

    /// Closes a directory.
    ///
    /// # Errors
    /// None; an unknown handle is as good as closed.
    pub async fn releasedir(&self, fh: u64) -> FsResult<()> {
        self.dirs.readers.lock().remove(&fh);
        Ok(())
    }

    /// Makes the names of a directory durable. They are committed already; what is left is the store's own class of
    /// durability.
    ///
    /// # Errors
    /// `Unavailable` if the store does not answer in time.
    pub async fn fsyncdir(&self, _fh: u64) -> FsResult<()> {
        self.barrier().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(i: u64) -> EntryName {
        // Long names, so that the recent ones fill up.
        EntryName::new(format!("{i:0>200}").as_bytes()).unwrap()
    }

    fn read(count: u64) -> Reader {
        let mut r = Reader::new(InodeNo(64), InodeNo(64));
        (0..count).for_each(|i| r.give(name(i)));
        r
    }

    #[test]
    fn going_back_a_little_finds_the_very_name() {
        let mut r = read(10_000);
        assert_eq!(r.seek(9_990), 0);
        assert_eq!((r.recent.back(), r.next()), (Some(&name(9_989)), 9_990));
    }

    #[test]
    fn going_back_far_starts_at_a_mark_and_passes_over_the_rest() {
        for at in [0, 1, 2, 255, 256, 257, 258, 511, 512, 513, 1000, 4_000] {
            let mut r = read(10_000);
            assert!(r.base > 4_000, "the test wants names that are not kept");
            let skip = r.seek(at);
            assert!(skip < MARK_EVERY);
            match r.recent.back() {
                Some(last) => assert_eq!(*last, name(r.next() - 1)),
                None => assert_eq!(r.next(), 0),
            }
            assert_eq!(r.next() + skip, at);
        }
    }
}
