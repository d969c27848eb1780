//! What the client's tests share: a formatted store in memory, sessions on it, short names for long calls.

#![allow(clippy::unwrap_used, dead_code, unreachable_pub, reason = "each test file uses a part of it")]

pub mod furnish;
pub mod tree;

use carafe_meta::counting::Counting;
use carafe_meta::format::{FormatOptions, format};
use carafe_meta::memory::MemoryStore;
use carafe_meta::store::MetaStore;
use carafe_meta::{
    Client, ClientOptions, Ctx, FileWrite, Found, Lookup, NewNode, RenameMode, Renamed, WriteData,
};
use carafe_types::record::{Extent, ExtentKind, Limits};
use carafe_types::{Attr, EntryName, FileKind, FsResult, InodeNo, SliceId};
use std::sync::Arc;

pub const ROOT: InodeNo = InodeNo::ROOT;
pub const ME: Ctx = Ctx { uid: 1000, gid: 1000, pid: 7 };

/// A file system that counts the calls to its store.
pub struct World {
    pub memory: Arc<MemoryStore>,
    pub store: Arc<Counting>,
}

impl World {
    pub async fn new() -> Self {
        Self::with_limits(Limits::default()).await
    }

    pub async fn with_limits(limits: Limits) -> Self {
        let memory = Arc::new(MemoryStore::new());
        let options = FormatOptions { limits, ..FormatOptions::new("test", "file:///none") };
        format(&*memory, options).await.unwrap();
        let store = Arc::new(Counting::new(memory.clone() as Arc<dyn MetaStore>));
        World { memory, store }
    }

    pub async fn client(&self) -> Arc<Client> {
        Client::open(self.store.clone(), ClientOptions::default()).await.unwrap()
    }
}

pub fn name(text: &str) -> EntryName {
    EntryName::new(text.as_bytes()).unwrap()
}

pub fn node(kind: FileKind, mode: u16) -> NewNode {
    NewNode { kind, mode, uid: ME.uid, gid: ME.gid, rdev: 0, target: None }
}

pub async fn make(c: &Client, dir: InodeNo, n: &str, kind: FileKind) -> FsResult<Found> {
    c.create(&ME, dir, &name(n), node(kind, 0o755)).await
}

pub async fn file(c: &Client, dir: InodeNo, n: &str) -> InodeNo {
    make(c, dir, n, FileKind::Regular).await.unwrap().attr.ino
}

pub async fn mkdir(c: &Client, dir: InodeNo, n: &str) -> InodeNo {
    make(c, dir, n, FileKind::Directory).await.unwrap().attr.ino
}

pub async fn find(c: &Client, dir: InodeNo, n: &str) -> Option<Attr> {
    match c.lookup(dir, &name(n)).await.unwrap() {
        Lookup::Found(f) => Some(f.attr),
        Lookup::Absent { .. } => None,
    }
}

pub async fn mv(c: &Client, a: (InodeNo, &str), b: (InodeNo, &str)) -> FsResult<Renamed> {
    c.rename(&ME, (a.0, &name(a.1)), (b.0, &name(b.1)), RenameMode::Replace, &[]).await
}

pub async fn names(c: &Client, dir: InodeNo) -> Vec<String> {
    let page = c.list(dir, None, 10_000, false).await.unwrap();
    page.entries.iter().map(|(e, _)| e.name.to_string()).collect()
}

pub fn blocks(slice: SliceId, offset: u64, len: u64) -> Extent {
    Extent { offset, len, kind: ExtentKind::Blocks, slice, slice_off: 0, slice_len: len }
}

pub fn write(c: &Client, ino: InodeNo, offset: u64, len: u64) -> FileWrite {
    let data = WriteData::Extents(vec![blocks(c.next_slice(), offset, len)]);
    FileWrite {
        ino,
        data,
        size: offset + len,
        exact: false,
        mtime: c.now(),
        charged: 0,
        append: false,
        kill_setid: false,
        base: None,
    }
}
