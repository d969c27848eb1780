//! Copies of a volume's tree: snapshots, and volumes made from a snapshot or from another volume.
//!
//! A copy is a tree of its own inodes whose extents name the same slices as the original's (each slice counts one owner
//! more), so it costs metadata and no bytes; what is written to either side afterwards goes to new slices. The subtleties:
//!
//! 1. **One point in time.** A volume that is in use is copied behind its closed gate (`client/gate.rs`): all mounts flush,
//!    then no commit lands until the copy is whole. A snapshot stands still by itself.
//! 2. **Nothing half-made is ever seen.** The tree grows in [`SNAPSHOTS`], a directory that no name leads to, under a record
//!    that says "copying"; one commit at the end makes the record ready, and gives a volume its name.
//! 3. **It may be cut off anywhere.** Each piece of the copy is one commit that also renews the record, compares it with what
//!    this copier wrote last, and compares that the source still stands still. So of two copiers only one can go on. A copy
//!    whose copier has died is begun anew by the next call; what was there goes into the trash.
//! 4. **Counters stay exact.** A copy has a quota of its own, charged in full by the same commits, so `fsck` and `gc` need to
//!    know nothing of copies: a slice is in use while any inode names it.
//!
//! - `plan`: what a directory of the source holds, read without standing in anybody's watcher list;
//! - `piece`: a list of things to make, as one commit;
//! - `walk`: the tree, directory by directory;
//! - `begin` and `job`: the record's life: begin or take over, finish, give up.

mod begin;
mod job;
mod piece;
mod plan;
mod snapshot;
mod target;
mod walk;

pub use snapshot::NewSnapshot;

use carafe_types::InodeNo;

/// The directory in which copies are made and snapshots stay. Made when it is first needed; like the trash it has no name
/// and is its own parent.
pub const SNAPSHOTS: InodeNo = InodeNo(192);
