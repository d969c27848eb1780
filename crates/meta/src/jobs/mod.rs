//! What is done in the background or by an administrator: freeing, collecting, checking.
//!
//! Each job is a plain async function over a [`Client`]. What holds for all:
//!
//! 1. **They can be cut off anywhere.** A job is a row of commits that each leave a sound tree; what is still to be done is
//!    in a queue in the store, so running it again goes on where it ended. The tests end each job at each of its commits.
//! 2. **They are in nobody's way.** What a job only reads it scans, without standing in watcher lists; what it changes it
//!    changes as an operation of its client does, so it never touches what another session holds alone.
//! 3. **Memory is bounded** by what is noted, not by what is read: a bit or a few words for each thing of the file system.
//!
//! - [`purge_inodes`], [`purge_trash`]: unlinked inodes and removed trees give back what they hold;
//! - [`delete_objects`]: what nothing refers to leaves the bucket, through an [`ObjectDeleter`] that knows the names there;
//! - [`gc`]: finds objects that no record knows; [`fsck`]: compares everything with everything;
//! - [`run_janitor`]: does the first two regularly, in one mount of all.

pub mod fsck;
pub mod gc;
mod janitor;
mod objects;
mod owners;
mod purge;
mod scan;
mod sets;
mod trash;

pub use janitor::{JanitorOptions, janitor, run_janitor};
pub use objects::{DeadSlice, ObjectDeleter, delete_objects};
pub use purge::{PurgeReport, purge_inode, purge_inodes};
pub(crate) use trash::trash_name;
pub use trash::{purge_trash, purge_tree};

pub(crate) use scan::Scanner;

use crate::client::Client;

/// Told how far a job is: what it is at, and how many of these are done.
pub type Progress<'a> = &'a (dyn Fn(&'static str, u64) + Send + Sync);

/// A [`Progress`] that tells nobody.
pub fn silently(_what: &'static str, _done: u64) {}
