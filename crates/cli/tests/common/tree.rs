//! Compares two whole trees: names, attributes, links, content, extended attributes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, SeekFrom, fstat, open, readlinkat, seek, statat,
};
use rustix::io::{Errno, pread};

use super::attr::{Attr, Clock};
use super::exec::list_xattrs;

/// Whole files up to this size are compared byte by byte, of larger ones the ranges with data.
const WHOLE: u64 = 32 << 20;

/// Compares; an error names the first difference.
pub(crate) struct Comparison<'a> {
    pub(crate) clock: Clock,
    /// Inodes of the reference whose times are free.
    pub(crate) unsettled: &'a HashSet<u64>,
    /// Inode numbers of both sides, to see that the same names are linked.
    pub(crate) inodes: BTreeMap<u64, u64>,
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(clock: Clock, unsettled: &'a HashSet<u64>) -> Self {
        Self { clock, unsettled, inodes: BTreeMap::new() }
    }

    /// Compares `want` and everything below it with `got`.
    pub(crate) fn compare(&mut self, want: &Path, got: &Path) -> Result<(), String> {
        let mut pending = vec![PathBuf::new()];
        while let Some(below) = pending.pop() {
            let (want, got) = (want.join(&below), got.join(&below));
            let kind =
                self.compare_one(&want, &got).map_err(|what| format!("{}: {what}", below.display()))?;
            if kind == FileType::Directory {
                let wanted = names(&want).map_err(|error| format!("{}: {error}", want.display()))?;
                let seen = names(&got).map_err(|error| format!("{}: {error}", got.display()))?;
                if wanted != seen {
                    let missing: Vec<_> = wanted.difference(&seen).collect();
                    let extra: Vec<_> = seen.difference(&wanted).collect();
                    return Err(format!("{}: names missing {missing:?}, extra {extra:?}", below.display()));
                }
                pending.extend(wanted.iter().map(|name| below.join(name)));
            }
        }
        Ok(())
    }

    fn compare_one(&mut self, want: &Path, got: &Path) -> Result<FileType, String> {
        let stat = |path: &Path| statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW);
        let (want_stat, got_stat) = (stat(want).map_err(text)?, stat(got).map_err(text)?);
        let (want_attr, got_attr) = (Attr::of(&want_stat, self.clock), Attr::of(&got_stat, self.clock));
        if !want_attr.matches(&got_attr, self.unsettled.contains(&want_stat.st_ino)) {
            return Err(format!("stat gives {want_attr:?}, on the mount {got_attr:?}"));
        }
        let known = *self.inodes.entry(want_stat.st_ino).or_insert(got_stat.st_ino);
        if known != got_stat.st_ino {
            return Err(format!(
                "names of one inode are inodes {known} and {} on the mount",
                got_stat.st_ino
            ));
        }
        match want_attr.kind {
            FileType::RegularFile => compare_content(want, got)?,
            FileType::Symlink => {
                let target = |path: &Path| readlinkat(CWD, path, Vec::new()).map_err(text);
                same("target", &target(want)?, &target(got)?)?;
            }
            _ => {}
        }
        same("xattrs", &xattrs(want).map_err(text)?, &xattrs(got).map_err(text)?)?;
        Ok(want_attr.kind)
    }
}

fn text(error: Errno) -> String {
    error.to_string()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, want: &T, got: &T) -> Result<(), String> {
    if want == got { Ok(()) } else { Err(format!("{what} {want:?}, on the mount {got:?}")) }
}

fn xattrs(path: &Path) -> Result<Vec<(String, Vec<u8>)>, Errno> {
    let path = path.display().to_string();
    list_xattrs(&path)?
        .into_iter()
        .map(|name| {
            let mut value = vec![0; 4_096];
            let len = rustix::fs::lgetxattr(&*path, &*name, &mut value)?;
            value.truncate(len);
            Ok((name, value))
        })
        .collect()
}

fn names(dir: &Path) -> Result<BTreeSet<PathBuf>, Errno> {
    let fd = open(dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut names = BTreeSet::new();
    for entry in Dir::new(fd)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.insert(PathBuf::from(name));
        }
    }
    Ok(names)
}

fn compare_content(want: &Path, got: &Path) -> Result<(), String> {
    let file = |path: &Path| open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(text);
    let (want, got) = (file(want)?, file(got)?);
    let size = fstat(&want).map_err(text)?.st_size as u64;
    let mut ranges = vec![(0, size.min(WHOLE))];
    if size > WHOLE {
        ranges.extend(data_ranges(&want, WHOLE, size)?);
        ranges.extend(data_ranges(&got, WHOLE, size)?);
    }
    for (from, to) in ranges {
        compare_range(want.as_fd(), got.as_fd(), from, to)?;
    }
    Ok(())
}

fn data_ranges(fd: &OwnedFd, from: u64, size: u64) -> Result<Vec<(u64, u64)>, String> {
    let mut ranges = Vec::new();
    let mut at = from;
    while at < size {
        let Ok(data) = seek(fd, SeekFrom::Data(at)) else { break };
        let hole = seek(fd, SeekFrom::Hole(data)).map_err(text)?;
        // A file that is being written back may change its mind in between.
        let hole = if hole > data { hole } else { size };
        // A file system without holes calls all of a huge file data.
        ranges.push((data, hole.min(data + WHOLE)));
        at = hole;
    }
    Ok(ranges)
}

fn compare_range(want: BorrowedFd<'_>, got: BorrowedFd<'_>, from: u64, to: u64) -> Result<(), String> {
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let mut at = from;
    while at < to {
        let len = (to - at).min(1 << 20) as usize;
        let (want, got) = (full(want, &mut left[..len], at)?, full(got, &mut right[..len], at)?);
        if want != got || left[..want] != right[..got] {
            let first = left.iter().zip(&right).position(|(a, b)| a != b).unwrap_or(want.min(got));
            return Err(format!("bytes differ from offset {} on", at + first as u64));
        }
        if want == 0 {
            break;
        }
        at += want as u64;
    }
    Ok(())
}

fn full(fd: BorrowedFd<'_>, buffer: &mut [u8], at: u64) -> Result<usize, String> {
    let mut filled = 0;
    while filled < buffer.len() {
        match pread(fd, &mut buffer[filled..], at + filled as u64).map_err(text)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}
