//! Every operation, as a plain function over the records that it reads (`metadata.md`, section 6).
//!
//! What holds for all:
//! - Every change inside a directory compares its guard, so a directory that is removed or changes hands stops it.
//! - The kernel has checked permissions (`default_permissions`); only the sticky rule is repeated, on records that the
//!   commit compares.
//! - Errors come in the order in which Linux gives them.

pub(crate) mod copy;
pub(crate) mod create;
pub(crate) mod fallocate;
pub(crate) mod link;
pub(crate) mod list;
pub(crate) mod lock;
pub(crate) mod lookup;
pub(crate) mod purge;
pub(crate) mod read;
pub(crate) mod remove;
pub(crate) mod rename;
pub(crate) mod setattr;
pub(crate) mod truncate;
pub(crate) mod write;
pub(crate) mod xattr;

use crate::client::Ctx;
use crate::tx::Op;
use carafe_types::record::Guard;
use carafe_types::{EntryName, FileKind, FsError, InodeNo};

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    pub(crate) dir: InodeNo,
    pub(crate) name: &'a EntryName,
}

/// The longest file: 2^62 bytes, so that sums of sizes stay within 64 bits.
pub(crate) const MAX_FILE_SIZE: u64 = 1 << 62;
/// Names of one file, as on ext4.
pub(crate) const MAX_LINKS: u32 = 65_000;

const STICKY: u16 = 0o1000;
const SET_GID: u16 = 0o2000;
const SET_UID: u16 = 0o4000;
const GROUP_EXECUTE: u16 = 0o010;

/// In a sticky directory only the owner of the entry, of the directory, or root removes or renames it.
fn sticky_allows(ctx: &Ctx, dir: &Guard, owner: u32) -> Op<()> {
    let free = dir.mode & STICKY == 0 || ctx.uid == 0 || ctx.uid == owner || ctx.uid == dir.uid;
    if free { Ok(()) } else { Err(FsError::NotPermitted.into()) }
}

/// What a write, truncation or change of owner leaves of the mode: no set-user-id, no set-group-id that is effective.
fn without_set_ids(mode: u16) -> u16 {
    let group = if mode & GROUP_EXECUTE != 0 { SET_GID } else { 0 };
    mode & !(SET_UID | group)
}

/// The error for finding `kind` where something else must be.
fn wrong_kind(kind: FileKind) -> FsError {
    if kind == FileKind::Directory { FsError::IsDirectory } else { FsError::NotDirectory }
}
