//! What a store does, written once over any ordered key-value map.
//!
//! The memory twin and the embedded engine differ in where bytes lie, not in what a commit means. Both hand a [`Kv`] to
//! the functions here, inside whatever makes a step atomic for them (a mutex; a write transaction), and deliver the
//! messages that come back. The Redis engine says the same in Lua; the conformance suite keeps the two equal.
//!
//! 1. Every refusal comes before the first write, so a refused step leaves nothing to roll back.
//! 2. Messages are returned, not sent: they may leave only when the step is sure ([`Applied::messages`], [`Hub`]).
//! 3. A session of an earlier process of an embedded store counts as dead (it cannot hear a message) until it is resumed
//!    by its uuid, yet what it reserved goes back only when its lease has ended ([`Context::process`]).

mod commit;
mod hub;
mod kv;
mod layout;
mod load;
mod scan;
mod session;
mod watchers;
mod write;

pub use commit::commit;
pub use hub::Hub;
pub use kv::{Kv, MapKv};
pub use layout::{LEASE_PREFIX, WATCH_PREFIX};
pub use load::load;
pub use scan::scan;
pub use session::{
    allocate, begin_process, check_session, destroy, expire_lease, format, info, reap, register, renew, send,
    sessions, unregister,
};
pub use watchers::watch;

use crate::store::{Message, StoreError};
use carafe_types::{SessionNo, Timestamp};

/// What a step needs to know from outside.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The store's clock, whole microseconds (what `DirTimes::Touched` can hold).
    pub now: Timestamp,
    /// Names the process that has the store open. A session registered or resumed under another one counts as dead.
    pub process: u64,
}

impl Context {
    /// The system's clock, cut to microseconds.
    pub fn at_system_time(process: u64) -> Self {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let micros = i64::try_from(since.as_micros()).unwrap_or(0);
        Context { now: Timestamp(micros.saturating_mul(1000)), process }
    }
}

/// A step that was applied.
#[derive(Debug)]
pub struct Applied<T> {
    /// What the caller is told.
    pub answer: T,
    /// What other sessions are told, in order.
    pub messages: Vec<(SessionNo, Message)>,
}

impl<T> Applied<T> {
    fn silent(answer: T) -> Self {
        Applied { answer, messages: Vec::new() }
    }
}

/// The answer of a step, or why it failed.
pub type Result<T> = std::result::Result<T, StoreError>;
