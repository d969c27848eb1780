//! A writer that does what databases do, and keeps a [`Ledger`] of what it was promised.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fsync, ftruncate, linkat, mkdir, open, rename, unlinkat};
use rustix::io::{Errno, pwrite, write};

use super::ops::pattern;
use super::promise::{Bytes, Ledger, Loss, Node, Want};
use super::sys;

/// More files than this and it removes some.
const FILES: usize = 40;

/// One writer, in a directory of its own.
pub(crate) struct Writer {
    root: PathBuf,
    ledger: Ledger,
    /// The two names of a file while it gets the second one and loses the first.
    linking: Option<[PathBuf; 2]>,
    random: u64,
    next: u64,
}

/// What writers share with the test that lets something die.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// From now on calls may fail.
    pub(crate) dying: AtomicBool,
    pub(crate) stop: AtomicBool,
    /// Calls acknowledged so far, of all writers.
    pub(crate) acknowledged: AtomicU64,
}

impl Writer {
    /// A writer in `root`, which is made.
    pub(crate) fn new(root: PathBuf, seed: u64) -> Self {
        std::fs::create_dir_all(&root).expect("make the writer's directory");
        Self { root, ledger: Ledger::default(), linking: None, random: seed.wrapping_mul(2) + 1, next: 0 }
    }

    /// Works until it is told to stop, or a call fails while something is dying.
    ///
    /// # Errors
    /// If a call fails for no reason.
    pub(crate) fn work(&mut self, signals: &Signals) -> Result<(), String> {
        while !signals.stop.load(Ordering::Relaxed) {
            match self.act() {
                Ok(()) => signals.acknowledged.fetch_add(1, Ordering::Relaxed),
                Err(_) if signals.dying.load(Ordering::SeqCst) => return Ok(()),
                Err(error) => return Err(format!("a call failed with {error} though nothing had died")),
            };
        }
        Ok(())
    }

    /// Whether all promises were kept.
    pub(crate) fn verify(&mut self, loss: Loss) -> Result<(), String> {
        self.ledger.verify(&self.root, loss).map_err(|what| format!("{}: {what}", self.root.display()))?;
        // The ledger thinks of each name as a file of its own.
        if let Some([old, new]) = self.linking.take()
            && self.ledger.get(&old).is_some()
            && self.ledger.get(&new).is_some()
        {
            self.unlink(&old).map_err(|error| format!("unlink {}: {error}", old.display()))?;
        }
        Ok(())
    }

    fn roll(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % below
    }

    fn fresh(&mut self, kind: &str) -> PathBuf {
        self.next += 1;
        PathBuf::from(format!("{kind}-{}", self.next))
    }

    fn content(&mut self) -> Vec<u8> {
        let size = match self.roll(10) {
            0 => 0,
            1..5 => self.roll(4_097),
            5..8 => self.roll(60_000),
            8 => self.roll(400_000),
            _ => 4_000_000 + self.roll(1_000_000),
        };
        let size = if size > 400_000 && self.roll(4) > 0 { size / 20 } else { size };
        pattern(self.roll(u64::from(u32::MAX)), size as usize)
    }

    fn some_file(&mut self) -> Option<(PathBuf, Bytes, bool)> {
        let mut files = self.ledger.files();
        let n = files.len() as u64;
        (n > 0).then(|| files.swap_remove(self.roll(n) as usize))
    }

    fn act(&mut self) -> Result<(), Errno> {
        if self.ledger.files().len() > FILES {
            return self.remove_something();
        }
        let sync = self.roll(3) == 0;
        match self.roll(12) {
            0..3 => {
                let path = self.fresh("file");
                self.create(path, sync)
            }
            3 | 4 => self.append(sync),
            5 => self.overwrite(sync),
            6 => self.replace(),
            7 | 8 => self.publish(),
            9 => self.truncate(),
            10 => self.link_and_unlink(),
            _ => self.remove_something(),
        }
    }

    fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        open(self.root.join(path), OFlags::WRONLY | OFlags::CLOEXEC | flags, Mode::from_raw_mode(0o644))
    }

    /// Creates a file, in several writes.
    fn create(&mut self, path: PathBuf, sync: bool) -> Result<(), Errno> {
        let bytes = Arc::new(self.content());
        let growing = |at_least| vec![(path.clone(), Want::Growing { at_least, of: Arc::clone(&bytes) })];
        self.ledger.attempt(vec![vec![(path.clone(), Want::Absent)], growing(0)]);
        let fd = self.open(&path, OFlags::CREATE | OFlags::EXCL)?;
        // The name is there now, whatever happens.
        self.ledger.attempt(vec![growing(0)]);
        let piece = (bytes.len() / (1 + self.roll(3) as usize)).max(1);
        let mut done = 0;
        for chunk in bytes.chunks(piece) {
            write_all(&fd, chunk)?;
            done += chunk.len();
            if sync && self.roll(2) == 0 {
                fsync(&fd)?;
                self.ledger.attempt(vec![growing(done)]);
            }
        }
        self.finish(path, fd, bytes, sync)
    }

    /// fsync if wanted, close, and settle what the file is now.
    fn finish(&mut self, path: PathBuf, fd: OwnedFd, bytes: Bytes, sync: bool) -> Result<(), Errno> {
        if sync {
            fsync(&fd)?;
            self.ledger.attempt(vec![vec![(path.clone(), Want::Exact(Arc::clone(&bytes)))]]);
            let durable = Node::File { bytes: Arc::clone(&bytes), durable: true };
            // The close that follows can fail, but no more changes anything.
            self.ledger.settle(vec![(path, Some(durable))]);
            return sys::close(fd);
        }
        sys::close(fd)?;
        self.ledger.settle(vec![(path, Some(Node::File { bytes, durable: false }))]);
        Ok(())
    }

    fn append(&mut self, sync: bool) -> Result<(), Errno> {
        let Some((path, old, durable)) = self.some_file() else { return Ok(()) };
        let more = self.content();
        let bytes: Bytes = Arc::new(old.iter().chain(&more).copied().collect());
        let fd = self.open(&path, OFlags::APPEND)?;
        let growing = Want::Growing { at_least: old.len(), of: Arc::clone(&bytes) };
        self.ledger.attempt(vec![vec![(path.clone(), growing.promised_by(durable))]]);
        write_all(&fd, &more)?;
        self.finish(path, fd, bytes, sync)
    }

    fn overwrite(&mut self, sync: bool) -> Result<(), Errno> {
        let Some((path, old, durable)) = self.some_file() else { return Ok(()) };
        let mut bytes = old.to_vec();
        let at = self.roll(bytes.len() as u64 + 1) as usize;
        let len = (self.roll(50_000) as usize).min(bytes.len() - at);
        let new = pattern(self.roll(1 << 30), len);
        bytes[at..at + len].copy_from_slice(&new);
        let bytes = Arc::new(bytes);
        let fd = self.open(&path, OFlags::empty())?;
        let mixed = Want::Mixed(old, Arc::clone(&bytes)).promised_by(durable);
        self.ledger.attempt(vec![vec![(path.clone(), mixed)]]);
        if len > 0 {
            assert_eq!(pwrite(&fd, &new, at as u64)?, len, "a write of this size is not cut short");
        }
        self.finish(path, fd, bytes, sync)
    }

    /// Writes beside a file and renames over it: the name has the old bytes or all of the new ones.
    fn replace(&mut self) -> Result<(), Errno> {
        let Some((target, ..)) = self.some_file() else { return Ok(()) };
        let temporary = self.fresh("replacement");
        self.create(temporary.clone(), false)?;
        self.rename(&temporary, &target)
    }

    /// Writes a directory of files and renames it, as ClickHouse does with a part: no fsync anywhere.
    fn publish(&mut self) -> Result<(), Errno> {
        let (temporary, part) = (self.fresh("tmp"), self.fresh("part"));
        self.make_dir(&temporary)?;
        for n in 0..=self.roll(12) {
            self.create(temporary.join(format!("{n}.bin")), false)?;
        }
        self.rename(&temporary, &part)
    }

    fn make_dir(&mut self, path: &Path) -> Result<(), Errno> {
        let outcome = |want| vec![(path.to_path_buf(), want)];
        self.ledger.attempt(vec![outcome(Want::Absent), outcome(Want::Dir)]);
        mkdir(self.root.join(path), Mode::from_raw_mode(0o755))?;
        self.ledger.settle(vec![(path.to_path_buf(), Some(Node::Dir))]);
        Ok(())
    }

    /// Renames a file or a directory with all that is in it. Everything that moves is promised from then on.
    fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        let moving = self.tree(from);
        let target = self.tree(to);
        let moved: Vec<(PathBuf, Node)> = moving
            .iter()
            .map(|(path, node)| {
                let below = path.strip_prefix(from).expect("what moves lies below the source");
                let path = if below.as_os_str().is_empty() { to.to_path_buf() } else { to.join(below) };
                (path, durable(node))
            })
            .collect();
        let absent =
            |nodes: &[(PathBuf, Node)]| nodes.iter().map(|(p, _)| (p.clone(), Want::Absent)).collect();
        let mut before: Vec<(PathBuf, Want)> =
            if target.is_empty() { absent(&moved) } else { wants(&target) };
        before.extend(wants(&moving));
        let mut after: Vec<(PathBuf, Want)> = absent(&moving);
        after.extend(wants(&moved));
        self.ledger.attempt(vec![before, after]);
        rename(self.root.join(from), self.root.join(to))?;
        let gone = moving.into_iter().map(|(path, _)| (path, None));
        self.ledger.settle(gone.chain(moved.into_iter().map(|(path, node)| (path, Some(node)))).collect());
        Ok(())
    }

    /// A name and all below it.
    fn tree(&self, path: &Path) -> Vec<(PathBuf, Node)> {
        let top = self.ledger.get(path).map(|node| (path.to_path_buf(), node));
        top.into_iter().chain(self.ledger.below(path)).collect()
    }

    fn truncate(&mut self) -> Result<(), Errno> {
        let Some((path, old, durable)) = self.some_file() else { return Ok(()) };
        let size = self.roll(old.len() as u64 + 1);
        let bytes: Bytes = Arc::new(old[..size as usize].to_vec());
        let fd = self.open(&path, OFlags::empty())?;
        let outcome =
            |bytes: &Bytes| vec![(path.clone(), Want::Exact(Arc::clone(bytes)).promised_by(durable))];
        self.ledger.attempt(vec![outcome(&old), outcome(&bytes)]);
        ftruncate(&fd, size)?;
        self.ledger.settle(vec![(path, Some(Node::File { bytes, durable }))]);
        sys::close(fd)
    }

    /// Gives a file a second name, then takes the first away.
    fn link_and_unlink(&mut self) -> Result<(), Errno> {
        let Some((path, bytes, _)) = self.some_file() else { return Ok(()) };
        let new = self.fresh("link");
        let want = Want::Exact(Arc::clone(&bytes));
        self.linking = Some([path.clone(), new.clone()]);
        self.ledger.attempt(vec![vec![(new.clone(), Want::Absent)], vec![(new.clone(), want)]]);
        linkat(CWD, self.root.join(&path), CWD, self.root.join(&new), AtFlags::empty())?;
        let durable = Some(Node::File { bytes, durable: true });
        self.ledger.settle(vec![(new, durable.clone()), (path.clone(), durable)]);
        self.unlink(&path)?;
        self.linking = None;
        Ok(())
    }

    fn unlink(&mut self, path: &Path) -> Result<(), Errno> {
        let absent = vec![(path.to_path_buf(), Want::Absent)];
        self.ledger.attempt(vec![wants(&self.tree(path)), absent]);
        unlinkat(CWD, self.root.join(path), AtFlags::empty())?;
        self.ledger.settle(vec![(path.to_path_buf(), None)]);
        Ok(())
    }

    /// A whole part, as ClickHouse does it: renamed, then file by file. Or a single file.
    fn remove_something(&mut self) -> Result<(), Errno> {
        let dirs = self.ledger.dirs();
        if dirs.is_empty() {
            let Some((path, ..)) = self.some_file() else { return Ok(()) };
            return self.unlink(&path);
        }
        let victim = dirs[self.roll(dirs.len() as u64) as usize].clone();
        let doomed = self.fresh("delete_tmp");
        self.rename(&victim, &doomed)?;
        for (path, _) in self.ledger.below(&doomed) {
            self.unlink(&path)?;
        }
        let outcome = |want| vec![(doomed.clone(), want)];
        self.ledger.attempt(vec![outcome(Want::Dir), outcome(Want::Absent)]);
        unlinkat(CWD, self.root.join(&doomed), AtFlags::REMOVEDIR)?;
        self.ledger.settle(vec![(doomed, None)]);
        Ok(())
    }
}

fn durable(node: &Node) -> Node {
    match node {
        Node::Dir => Node::Dir,
        Node::File { bytes, .. } => Node::File { bytes: Arc::clone(bytes), durable: true },
    }
}

fn wants(nodes: &[(PathBuf, Node)]) -> Vec<(PathBuf, Want)> {
    nodes.iter().map(|(path, node)| (path.clone(), Want::of(node))).collect()
}

fn write_all(fd: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let count = write(fd, bytes)?;
        bytes = &bytes[count..];
    }
    Ok(())
}
