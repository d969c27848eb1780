//! Everything that a mount does, without a kernel: handles, the write pipeline, the read pipeline, locks, coherence.
//!
//! The problem: applications expect a local file system, and the bytes are in a bucket 20 ms away. So
//!
//! - **writes are accepted here** and go up later, together: `dirty` holds what is not committed, `write` accepts
//!   it, `flush` makes packs, blocks and one commit of it, `journal` and `recover` survive the daemon's death;
//! - **reads come from here** as far as possible: `read` lays what is dirty over what is committed, and fetches the rest
//!   once, ahead of whoever goes forward;
//! - **a name is seen only when what is below it is durable** (`flush::publish`), and other mounts are answered only
//!   when they see what was closed here (`coherence`);
//! - **names and attributes are the client's** (`carafe-meta`), with dirty sizes and times laid over them.
//!
//! The shared state of an open or dirty inode is a `node::Node`; its rules and the order of locks stand there.
//!
//! What is absent: FUSE, errno, processes, mounting. Nothing here knows how a record or an object is encoded.

mod attrs;
mod begin;
mod coherence;
mod content;
mod dirs;
mod dirty;
mod flush;
mod handles;
mod journal;
mod keep;
mod local;
mod locks;
mod names;
mod node;
mod open;
mod options;
mod pieces;
mod places;
mod quotas;
mod read;
mod recover;
mod remote;
mod rooms;
mod space;
mod stats;
mod vfs;
mod write;

pub use carafe_meta::{Ctx, Falloc, NewNode, RenameMode, SetAttr, StatFs, XattrMode, brief};
pub use coherence::Invalidate;
pub use dirs::{DirItem, DirPage};
pub use locks::LockRequest;
pub use options::VfsOptions;
pub use read::SeekWhence;
pub use recover::resumable_session;
pub use stats::VfsStats;
pub use vfs::{Entry, Lookup, Opened, Vfs, VfsError};

/// For fuzzing: reads bytes as a record of the journal.
#[doc(hidden)]
pub fn check_any_record(bytes: &[u8]) {
    // Refusing is as good as reading; neither may panic.
    let _ = journal::decode(bytes);
}
