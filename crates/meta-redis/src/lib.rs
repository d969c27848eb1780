//! The metadata store on Redis and its relatives (Redis 6.2 or newer, Valkey).
//!
//! A server has no transactions that read, decide and write, but scripts do: each call of the trait is one script, one
//! round trip. What is subtle, and where it is solved:
//!
//! 1. An answer may be lost after the server has acted. Commits are carried out exactly once nevertheless ([`slots`]); all
//!    other calls may be repeated.
//! 2. A script is not taken back when it fails in the middle. So every read, and every refusal, comes before its first
//!    write (`lua/commit.lua`).
//! 3. A full server refuses whatever may take memory, unlink too, unless the script's first write frees some; scripts that
//!    must pass begin with one that finds nothing to remove.
//! 4. Pub/Sub loses messages without a word. They are counted ([`messages`]).
//! 5. A connection breaks, a server restarts, a replica takes over: calls wait and try again within bounds ([`link`],
//!    [`fault`]).
//!
//! Keys and values are described in `docs/format-store.md`.

mod barrier;
mod commit;
mod driver;
mod fault;
mod info;
mod lane;
mod link;
mod load;
mod messages;
mod names;
mod reply;
mod scan;
mod script;
mod session;
mod slots;
mod store;
mod target;

pub use store::RedisStore;
pub use target::{Options, Patience};

use carafe_meta::store::{MetaStore, StoreError};
use std::sync::Arc;

/// Opens the store that `url` names; the first call connects.
///
/// `redis://[user:password@]host[:port][/database]`, `rediss://` for TLS, `redis+unix:///path?db=0`; options `fs=<tag>` for
/// more than one file system in a database (default `carafe`), `wait=<n>` to wait for replicas in
/// [`MetaStore::barrier`].
///
/// # Errors
/// [`StoreError::BadUrl`].
pub fn open(url: &str, options: &Options) -> Result<Arc<dyn MetaStore>, StoreError> {
    Ok(Arc::new(RedisStore::new(url, options)?))
}
