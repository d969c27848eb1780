//! Names and attributes: the store that keeps them and every operation on them.
//!
//! Two halves with one narrow waist:
//!
//! - [`store`]: the trait [`store::MetaStore`], a tiny transactional record store with watches and sessions. Engines
//!   (Redis, embedded, the memory twin) implement it and know nothing of files.
//! - the client over it: each file-system operation is written once, as a function over the records that it read,
//!   which ends in one commit; a cache that is valid only where the store says so; the session that carries both.
//!
//! The exact model is `docs/metadata.md`; the encodings are in `carafe-types`.

pub mod apply;
pub mod brief;
mod cache;
mod client;
#[cfg(feature = "conformance")]
pub mod conformance;
mod content;
pub mod counting;
pub mod decorate;
pub mod failing;
mod figures;
pub mod format;
mod inodes;
pub mod jobs;
pub mod measured;
pub mod memory;
mod ops;
mod quota;
mod session;
pub mod store;
pub mod to_end;
mod tx;
pub mod volumes;

pub use client::{
    Client, ClientOptions, Ctx, DirPage, DirtyWatch, Found, Hooks, LockRequest, Lookup, StatFs, XattrMode,
};
pub use figures::{ClientStats, MESSAGES, QuotaStats};
pub use ops::create::NewNode;
pub use ops::fallocate::Falloc;
pub use ops::read::FileContent;
pub use ops::remove::Unlinked;
pub use ops::rename::{RenameMode, Renamed};
pub use ops::setattr::SetAttr;
pub use ops::write::{FileWrite, WriteData};
