//! The operations of the random model, as plain data: what is printed for a failure can be pasted into a regression test.
//!
//! Paths come from a small fixed set, so that operations meet each other: a name that is created is soon renamed over,
//! linked, opened and removed. Handles live in numbered slots for the same reason. Bytes are a seed and a length.

use std::borrow::Cow;

/// How many handles one actor may have open.
pub(crate) const SLOTS: usize = 4;

/// A path below an actor's root. The component `L` stands for a name of 255 bytes, `X` for one of 256, which is too long.
pub(crate) type Path = &'static str;

/// The path as the kernel is given it.
pub(crate) fn expand(path: Path) -> Cow<'static, str> {
    let special = |part: &str| part == "L" || part == "X";
    if !path.split('/').any(special) {
        return Cow::Borrowed(path);
    }
    let parts = path.split('/').map(|part| match part {
        "L" => "n".repeat(255),
        "X" => "n".repeat(256),
        other => other.to_owned(),
    });
    Cow::Owned(parts.collect::<Vec<_>>().join("/"))
}

/// The directory that holds a path; `.` for the root.
pub(crate) fn parent(path: Path) -> Path {
    path.rsplit_once('/').map_or(".", |(parent, _)| parent)
}

/// Bytes that are made from a seed; seed 0 gives zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Data {
    pub(crate) seed: u8,
    pub(crate) len: u32,
}

impl Data {
    /// The bytes.
    pub(crate) fn bytes(self) -> Vec<u8> {
        if self.seed == 0 { vec![0; self.len as usize] } else { pattern(self.seed.into(), self.len as usize) }
    }
}

/// Bytes from a seed. No run of them repeats, so that a shifted block is noticed.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ len as u64;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(len);
    out
}

/// Access mode of an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    Both,
}

/// Flags of an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct How {
    pub(crate) access: Access,
    pub(crate) create: bool,
    pub(crate) excl: bool,
    pub(crate) trunc: bool,
    pub(crate) append: bool,
    pub(crate) nofollow: bool,
    pub(crate) directory: bool,
    /// O_DIRECT, on the mount only: Carafe takes unaligned direct I/O, a local disk does not.
    pub(crate) direct: bool,
}

/// Where a seek counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whence {
    Start,
    Current,
    End,
}

/// The modes of fallocate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alloc {
    Extend,
    Keep,
    Punch,
    Zero,
    ZeroKeep,
}

/// The modes of rename.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Move {
    Replace,
    NoReplace,
    Exchange,
}

/// A time for utimensat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Now,
    Omit,
    /// Seconds and nanoseconds, well away from the present.
    At(i64, u32),
}

/// Flags of setxattr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    Any,
    Create,
    Replace,
}

/// One system call, or a few that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    Open {
        slot: usize,
        path: Path,
        how: How,
        mode: u32,
    },
    Close {
        slot: usize,
    },
    Read {
        slot: usize,
        len: u32,
    },
    Write {
        slot: usize,
        data: Data,
    },
    Pread {
        slot: usize,
        at: u64,
        len: u32,
    },
    Pwrite {
        slot: usize,
        at: u64,
        data: Data,
    },
    Seek {
        slot: usize,
        whence: Whence,
        by: i64,
    },
    Ftruncate {
        slot: usize,
        size: u64,
    },
    Allocate {
        slot: usize,
        how: Alloc,
        at: u64,
        len: u64,
    },
    /// SEEK_DATA and SEEK_HOLE: checked by what POSIX promises, not compared.
    DataHole {
        slot: usize,
        at: u64,
    },
    Copy {
        from: usize,
        from_at: u64,
        to: usize,
        to_at: u64,
        len: u32,
    },
    MapRead {
        slot: usize,
        at: u64,
        len: u32,
    },
    MapWrite {
        slot: usize,
        at: u64,
        data: Data,
        sync: bool,
    },
    Fsync {
        slot: usize,
        data_only: bool,
    },
    Fstat {
        slot: usize,
    },
    WriteFile {
        path: Path,
        data: Data,
    },
    ReadFile {
        path: Path,
    },
    Truncate {
        path: Path,
        size: u64,
    },
    Mkdir {
        path: Path,
        mode: u32,
    },
    Rmdir {
        path: Path,
    },
    Unlink {
        path: Path,
    },
    Symlink {
        path: Path,
        target: Path,
    },
    Readlink {
        path: Path,
    },
    Link {
        from: Path,
        to: Path,
    },
    Rename {
        from: Path,
        to: Path,
        how: Move,
    },
    Mknod {
        path: Path,
        socket: bool,
        mode: u32,
    },
    Chmod {
        path: Path,
        mode: u32,
    },
    Chown {
        path: Path,
        uid: Option<u32>,
        gid: Option<u32>,
        follow: bool,
    },
    Utimens {
        path: Path,
        atime: When,
        mtime: When,
        follow: bool,
    },
    SetXattr {
        path: Path,
        name: Path,
        value: Data,
        how: Put,
    },
    GetXattr {
        path: Path,
        name: Path,
        buffer: usize,
    },
    ListXattr {
        path: Path,
    },
    RemoveXattr {
        path: Path,
        name: Path,
    },
    List {
        path: Path,
    },
    /// Reads a directory in small pieces while names in it come and go: what stays is seen exactly once.
    ListWhileChanging {
        path: Path,
    },
    Stat {
        path: Path,
        follow: bool,
    },
    Statfs,
    SyncDir {
        path: Path,
    },
}

impl Op {
    /// The slots that it uses.
    pub(crate) fn slots(&self) -> Vec<usize> {
        match self {
            Self::Close { slot }
            | Self::Read { slot, .. }
            | Self::Write { slot, .. }
            | Self::Pread { slot, .. }
            | Self::Pwrite { slot, .. }
            | Self::Seek { slot, .. }
            | Self::Ftruncate { slot, .. }
            | Self::Allocate { slot, .. }
            | Self::DataHole { slot, .. }
            | Self::MapRead { slot, .. }
            | Self::MapWrite { slot, .. }
            | Self::Fsync { slot, .. }
            | Self::Fstat { slot } => vec![*slot],
            Self::Copy { from, to, .. } => vec![*from, *to],
            _ => Vec::new(),
        }
    }

    /// The paths that it names.
    pub(crate) fn paths(&self) -> Vec<Path> {
        match self {
            Self::Open { path, .. }
            | Self::WriteFile { path, .. }
            | Self::ReadFile { path }
            | Self::Truncate { path, .. }
            | Self::Mkdir { path, .. }
            | Self::Rmdir { path }
            | Self::Unlink { path }
            | Self::Symlink { path, .. }
            | Self::Readlink { path }
            | Self::Mknod { path, .. }
            | Self::Chmod { path, .. }
            | Self::Chown { path, .. }
            | Self::Utimens { path, .. }
            | Self::SetXattr { path, .. }
            | Self::GetXattr { path, .. }
            | Self::ListXattr { path }
            | Self::RemoveXattr { path, .. }
            | Self::List { path }
            | Self::ListWhileChanging { path }
            | Self::Stat { path, .. }
            | Self::SyncDir { path } => vec![path],
            Self::Link { from, to } | Self::Rename { from, to, .. } => vec![from, to],
            _ => Vec::new(),
        }
    }

    /// Whether it looks at the content of its (first) slot.
    pub(crate) fn reads_content(&self) -> bool {
        matches!(
            self,
            Self::Read { .. }
                | Self::Pread { .. }
                | Self::MapRead { .. }
                | Self::MapWrite { .. }
                | Self::DataHole { .. }
                | Self::Copy { .. }
        )
    }

    /// The slot whose content it changes through a handle.
    pub(crate) fn writes_slot(&self) -> Option<usize> {
        match self {
            Self::Write { slot, .. }
            | Self::Pwrite { slot, .. }
            | Self::Ftruncate { slot, .. }
            | Self::Allocate { slot, .. }
            | Self::MapWrite { slot, .. } => Some(*slot),
            Self::Copy { to, .. } => Some(*to),
            _ => None,
        }
    }

    /// The path whose content it changes.
    pub(crate) fn writes_path(&self) -> Option<Path> {
        match self {
            Self::WriteFile { path, .. } | Self::Truncate { path, .. } => Some(path),
            Self::Open { path, how, .. } if how.trunc => Some(path),
            _ => None,
        }
    }

    /// Whether POSIX or Linux leaves open which times it moves.
    pub(crate) fn times_are_free(&self) -> bool {
        matches!(
            self,
            Self::Allocate { .. } | Self::MapWrite { .. } | Self::Copy { .. } | Self::MapRead { .. }
        )
    }
}

/// An operation and how it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) op: Op,
    /// Which mount, modulo their number.
    pub(crate) via: usize,
    /// In the directory that all actors share.
    pub(crate) shared: bool,
    /// Whether attributes of everything it touches are compared before and after it.
    pub(crate) probe: bool,
}
