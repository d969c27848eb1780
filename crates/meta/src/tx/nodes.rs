//! Records as what they mean: files, directories, attributes.

use super::{Op, Stop, Tx, Want};
use crate::cache::decimal;
use crate::store::Key;
use carafe_types::record::{DecodeError, DirTimes, Guard, Inode, Xattrs};
use carafe_types::{Attr, FileKind, FsError, InodeNo, Timestamp};

/// What `st_size` of a directory says.
const DIRECTORY_SIZE: u64 = 4096;

/// What an inode number stands for.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// A file, symlink or special file.
    File(Inode),
    /// A directory.
    Dir(Guard),
}

impl Node {
    /// Reads a record; guards and inodes tell themselves apart.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        match Guard::decode(bytes) {
            Ok(guard) => Ok(Node::Dir(guard)),
            Err(_) => Inode::decode(bytes).map(Node::File),
        }
    }

    pub(crate) fn kind(&self) -> FileKind {
        match self {
            Node::File(inode) => inode.kind,
            Node::Dir(_) => FileKind::Directory,
        }
    }

    pub(crate) fn uid(&self) -> u32 {
        match self {
            Node::File(inode) => inode.uid,
            Node::Dir(guard) => guard.uid,
        }
    }
}

/// The error for a record that does not parse.
pub(crate) fn damaged(what: &str, ino: InodeNo, e: &DecodeError) -> Stop {
    Stop::Fail(FsError::Io(format!("the {what} of inode {ino} is damaged ({e}); run `carafe fsck`")))
}

impl Tx<'_> {
    /// The inode or guard, `None` when there is none.
    pub(crate) fn node(&mut self, ino: InodeNo) -> Op<Option<Node>> {
        let Some(bytes) = self.record(&Key::Inode(ino))? else { return Ok(None) };
        Node::decode(&bytes).map(Some).map_err(|e| damaged("record", ino, &e))
    }

    /// A directory in which something is looked up or changed.
    pub(crate) fn guard(&mut self, dir: InodeNo) -> Op<Guard> {
        match self.node(dir)? {
            Some(Node::Dir(guard)) => Ok(guard),
            Some(Node::File(_)) => Err(FsError::NotDirectory.into()),
            None => Err(FsError::NotFound.into()),
        }
    }

    /// An inode that is no directory.
    pub(crate) fn inode(&mut self, ino: InodeNo) -> Op<Inode> {
        match self.node(ino)? {
            Some(Node::File(inode)) => Ok(inode),
            Some(Node::Dir(_)) => Err(FsError::IsDirectory.into()),
            None => Err(FsError::NotFound.into()),
        }
    }

    /// A regular file.
    pub(crate) fn file(&mut self, ino: InodeNo) -> Op<Inode> {
        let inode = self.inode(ino)?;
        if inode.kind == FileKind::Regular {
            Ok(inode)
        } else {
            Err(FsError::Invalid("no regular file").into())
        }
    }

    pub(crate) fn put_inode(&mut self, ino: InodeNo, inode: &Inode) {
        self.put(Key::Inode(ino), inode.encode());
    }

    pub(crate) fn put_guard(&mut self, ino: InodeNo, guard: &Guard) {
        self.put(Key::Inode(ino), guard.encode());
    }

    /// Asks for everything that the attributes of an inode consist of.
    pub(crate) fn want_attr(&mut self, ino: InodeNo) {
        self.want(Want::Record(Key::Inode(ino)));
        if ino.slot() == 0 {
            self.want(Want::Record(Key::DirTimes(ino)));
            self.want(Want::Record(Key::DirAtime(ino)));
            self.want(Want::Record(Key::DirSubdirs(ino)));
        }
    }

    /// The attributes of an inode.
    pub(crate) fn attr(&mut self, ino: InodeNo) -> Op<Attr> {
        match self.node(ino)? {
            Some(Node::File(inode)) => Ok(inode.attr(ino)),
            Some(Node::Dir(guard)) => self.dir_attr(ino, &guard),
            None => Err(FsError::NotFound.into()),
        }
    }

    /// The attributes of a directory, from guard and tally.
    pub(crate) fn dir_attr(&mut self, ino: InodeNo, guard: &Guard) -> Op<Attr> {
        let tally = [Key::DirTimes(ino), Key::DirAtime(ino), Key::DirSubdirs(ino)];
        tally.iter().for_each(|key| self.want_record(key.clone()));
        let times = self.dir_times(ino)?;
        let atime = self.record(&tally[1])?;
        let subdirs = decimal(self.record(&tally[2])?.as_ref());
        let (mtime, ctime) = times.map_or((guard.btime, guard.btime), |t| (t.mtime(), t.ctime()));
        Ok(Attr {
            ino,
            kind: FileKind::Directory,
            mode: guard.mode,
            uid: guard.uid,
            gid: guard.gid,
            nlink: u32::try_from(subdirs.max(0)).unwrap_or(u32::MAX).saturating_add(2),
            size: DIRECTORY_SIZE,
            rdev: 0,
            atime: atime.map_or(guard.btime, |text| Timestamp(decimal(Some(&text)))),
            mtime,
            ctime: ctime.max(guard.ctime),
            quota: guard.quota,
            dataver: mtime.0 as u64,
        })
    }

    /// The tally's times, `None` when nothing has changed inside since the directory was made.
    pub(crate) fn dir_times(&mut self, ino: InodeNo) -> Op<Option<DirTimes>> {
        let Some(bytes) = self.record(&Key::DirTimes(ino))? else { return Ok(None) };
        DirTimes::decode(&bytes).map(Some).map_err(|e| damaged("directory times", ino, &e))
    }

    /// Extended attributes; `flagged` says whether the record exists.
    pub(crate) fn xattrs(&mut self, ino: InodeNo, flagged: bool) -> Op<Xattrs> {
        if !flagged {
            return Ok(Xattrs::default());
        }
        let Some(bytes) = self.record(&Key::Xattr(ino))? else { return Ok(Xattrs::default()) };
        Xattrs::decode(&bytes).map_err(|e| damaged("attributes record", ino, &e))
    }
}
