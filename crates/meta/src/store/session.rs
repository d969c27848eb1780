//! Sessions: who speaks to the store, and what they hear regularly.

use bytes::Bytes;
use carafe_types::{Generation, QuotaId, SessionNo, SessionUuid, Timestamp};
use std::time::Duration;

/// How long a session lives without renewal, by its own clock from the *send* of the last good renewal.
pub const LEASE: Duration = Duration::from_secs(10);

/// What is known of a store before there is a session.
#[derive(Clone, Debug)]
pub struct StoreInfo {
    /// The superblock's bytes, if there is a file system.
    pub superblock: Option<Bytes>,
    /// The life of the content.
    pub generation: Generation,
    /// The last commit's place.
    pub seq: u64,
    /// The store's clock.
    pub time: Timestamp,
    /// `always`, `everysec`, `wait:n` or `volatile`.
    pub durability: String,
    /// Product and version of the server, for people.
    pub server: String,
    /// What is wrong with the server's settings in words for people, for example an eviction policy that loses data.
    /// A mount refuses to start with any of them.
    pub unfit: Vec<String>,
    /// What a person should know, without being a reason to refuse.
    pub warnings: Vec<String>,
}

impl StoreInfo {
    /// What a mount refuses. A store that keeps nothing over a restart (its line begins with `volatile:`) may be allowed.
    pub fn unfit_unless(&self, allow_volatile: bool) -> Vec<&str> {
        let counts = |line: &&str| !(allow_volatile && line.starts_with("volatile:"));
        self.unfit.iter().map(String::as_str).filter(counts).collect()
    }
}

/// A session to be.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Chosen at random by the client, or kept in its journal to resume.
    pub uuid: SessionUuid,
    /// A `carafe_types::record::SessionRecord`.
    pub record: Bytes,
}

/// A registered session, named in every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionRef {
    /// The store's life when it registered.
    pub generation: Generation,
    /// Its number.
    pub no: SessionNo,
    /// Its identity.
    pub uuid: SessionUuid,
    /// Whether `register` found it alive from before.
    pub resumed: bool,
}

/// What a renewal tells.
#[derive(Clone, Debug, Default)]
pub struct Renewal {
    /// The store's clock.
    pub time: Timestamp,
    /// The last commit's place.
    pub seq: u64,
    /// All quotas with their counters (a file system has few; `statfs` answers from these).
    pub quotas: Vec<(QuotaId, QuotaState)>,
    /// Sessions whose lease ended more than 2 s ago by the store's clock.
    pub expired: Vec<SessionNo>,
    /// Bytes left of the budget for inline data.
    pub inline_left: i64,
    /// `used_memory / maxmemory` of the store, if it has a bound.
    pub fullness: Option<f64>,
}

/// A quota and its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaState {
    /// A `carafe_types::record::QuotaRecord`.
    pub record: Bytes,
    /// Bytes left; negative when the limit was set below the use.
    pub left_bytes: i64,
    /// Inodes left.
    pub left_inodes: i64,
    /// Bytes that sessions have taken and not yet used.
    pub reserved: i64,
}

/// A session as `carafe status` shows it.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    /// Its number.
    pub no: SessionNo,
    /// Its identity.
    pub uuid: SessionUuid,
    /// A `carafe_types::record::SessionRecord`.
    pub record: Bytes,
    /// False once reaped or ended.
    pub alive: bool,
    /// End of its lease by the store's clock.
    pub lease_end: Timestamp,
}

/// A change of one's own mark in a watcher list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchChange {
    /// No longer alone: the last of the four steps of sharing.
    Share,
    /// Gone from the list; nothing of the key is cached any more.
    Leave,
    /// Closes below this directory wait for their data.
    SetFlushing,
    /// They no longer do. After this the next close may be asynchronous.
    ClearFlushing,
}

/// Numbers that a store hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// A run of 2^20 inode numbers.
    Inodes,
    /// One quota id.
    Quota,
}
