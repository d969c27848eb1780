//! Finding objects that no record knows.
//!
//! A session that dies between an upload and its commit leaves objects that nothing refers to. They are found by
//! comparing the bucket's listing with all references, and nothing may be found that is not garbage:
//!
//! 1. **References move while they are read** (a range is cloned into a file that was read already, and removed where it
//!    was not yet). So all are read twice, a grace apart, and an object goes only if neither reading has seen it.
//! 2. **A living session has objects that are not committed yet**, however slow it is. So objects of living sessions are
//!    never garbage, nor are those of a session that died less than a grace ago.
//! 3. **What counts owners or waits in the queue of dead objects is known**, whoever refers to it.
//! 4. **What cannot be read may refer to anything.** One damaged file, and nothing is garbage.
//!
//! The readings go by buckets of inodes, not by names, since a rename hides no bucket. The caller lists the bucket and asks
//! for each slice that it finds there:
//!
//! ```no_run
//! # async fn example(client: &carafe_meta::Client, listing: Vec<(carafe_types::SessionUuid, u64)>) -> carafe_types::FsResult<()> {
//! use carafe_meta::jobs::{gc::{Collector, Verdict}, silently};
//! use std::time::Duration;
//!
//! let mut collector = Collector::begin(client, Duration::from_secs(3600), &silently).await?;
//! collector.confirm(client, &silently).await?;
//! for (slice, verdict) in listing.iter().zip(collector.judge(client, &listing).await?) {
//!     if verdict == Verdict::Garbage { /* delete its objects */ }
//! }
//! # Ok(())
//! # }
//! ```

mod judge;
mod mark;

use super::sets::SliceSet;
use super::{Progress, Scanner};
use crate::client::Client;
use carafe_types::{FsError, FsResult, SessionNo, SessionUuid};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What a slice in the bucket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// A file refers to it, or a record counts on it.
    InUse,
    /// Its session lives, or died less than a grace ago.
    Young,
    /// It waits in the queue of dead objects.
    Queued,
    /// Nothing known refers to it; it takes a second reading to be sure.
    Suspect,
    /// It can be deleted.
    Garbage,
}

/// One collection: two readings of all references.
#[derive(Debug)]
pub struct Collector {
    grace: Duration,
    begun: Instant,
    /// Sessions that were dead before the first reading began.
    dead: HashMap<SessionUuid, SessionNo>,
    first: SliceSet,
    second: Option<SliceSet>,
    queued: SliceSet,
}

impl Collector {
    /// Reads all references for the first time.
    ///
    /// # Errors
    /// [`FsError::Io`] when something cannot be read; store errors.
    pub async fn begin(client: &Client, grace: Duration, progress: Progress<'_>) -> FsResult<Self> {
        let dead = sessions(client, false).await?;
        let begun = Instant::now();
        let first = read_all(client, progress).await?;
        Ok(Collector { grace, begun, dead, first, second: None, queued: queued(client).await? })
    }

    /// Waits until the grace is over, and reads them again.
    ///
    /// # Errors
    /// As [`Collector::begin`].
    pub async fn confirm(&mut self, client: &Client, progress: Progress<'_>) -> FsResult<()> {
        client.sleep((self.begun + self.grace).saturating_duration_since(Instant::now())).await;
        // A session that is resumed by its uuid lives again.
        let alive = sessions(client, true).await?;
        self.dead.retain(|uuid, _| !alive.contains_key(uuid));
        self.second = Some(read_all(client, progress).await?);
        self.queued = queued(client).await?;
        Ok(())
    }

    /// How many slices files refer to, by the last reading.
    pub fn referenced(&self) -> u64 {
        self.second.as_ref().unwrap_or(&self.first).len()
    }
}

/// All references. Each must be to a session with a name: objects of sessions without one are taken for garbage.
async fn read_all(client: &Client, progress: Progress<'_>) -> FsResult<SliceSet> {
    let set = mark::mark(Scanner(client), progress).await?;
    for session in set.sessions() {
        if client.session_uuid(session).await.is_err() {
            return Err(unreadable(&format!("session {}, whose slices are in use, has no name", session.0)));
        }
    }
    Ok(set)
}

/// The sessions that are alive, or those that are not.
async fn sessions(client: &Client, alive: bool) -> FsResult<HashMap<SessionUuid, SessionNo>> {
    let store = client.store();
    let all = client.patiently(|_| store.sessions()).await?;
    Ok(all.into_iter().filter(|s| s.alive == alive).map(|s| (s.uuid, s.no)).collect())
}

async fn queued(client: &Client) -> FsResult<SliceSet> {
    let mut set = SliceSet::default();
    Scanner(client)
        .dead_objects(&mut |object| {
            set.insert(object.slice);
        })
        .await?;
    Ok(set)
}

/// The error for references that cannot be read.
fn unreadable(what: &str) -> FsError {
    FsError::Io(format!("{what}: it may refer to anything, so nothing is garbage; run `carafe fsck`"))
}
