//! The session: who this client is, as long as its lease runs.
//!
//! - The lease is renewed every 2 s and counted from the *send* of the last good renewal ([`clock`]). When it is over,
//!   nothing cached is believed until a renewal succeeds: the store never changes what this session holds alone unless
//!   it was reaped, and then the next call says `Fenced`.
//! - Messages from other sessions: [`messages`]. Sharing and leaving keys: [`share`]. Flushing below directories:
//!   [`flush`].
//! - Fenced: nothing of the old session is believed or committed; the layers above drop what they had; a new session
//!   begins ([`life`]).

mod clock;
pub(crate) mod flush;
mod life;
mod messages;
mod share;

pub(crate) use clock::Clocks;

use crate::client::ClientOptions;
use crate::store::{MetaStore, NewSession, SessionRef, StoreError, WatchKey};
use carafe_types::record::{FORMAT_VERSION, SessionRecord};
use carafe_types::{SessionUuid, SliceId, Timestamp};
use flush::FlushState;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use tokio::task::JoinHandle;

/// Unix time of 2025-01-01 in seconds.
const EPOCH_2025: i64 = 1_735_689_600;

/// See the module.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) clocks: Clocks,
    pub(crate) flush: FlushState,
    current: RwLock<SessionRef>,
    role: String,
    slices: AtomicU64,
    stopped: AtomicBool,
    /// Held while a fenced session is replaced.
    replacing: tokio::sync::Mutex<()>,
    unbroken_since: Mutex<Option<Instant>>,
    paused: Mutex<HashMap<WatchKey, Instant>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Session {
    pub(crate) async fn register(
        store: &dyn MetaStore,
        options: &ClientOptions,
        store_now: Timestamp,
    ) -> Result<Self, StoreError> {
        let uuid = options.uuid.unwrap_or_else(random_uuid);
        let current = store.register(new_session(uuid, &options.role, store_now)).await?;
        Ok(Session {
            clocks: Clocks::new(store_now),
            flush: FlushState::default(),
            current: RwLock::new(current),
            role: options.role.clone(),
            slices: AtomicU64::new(first_slice(&current, store_now)),
            stopped: AtomicBool::new(false),
            replacing: tokio::sync::Mutex::new(()),
            unbroken_since: Mutex::new(None),
            paused: Mutex::default(),
            tasks: Mutex::default(),
        })
    }

    pub(crate) fn current(&self) -> SessionRef {
        *self.current.read()
    }

    /// Whether what is held alone may be believed.
    pub(crate) fn may_trust(&self) -> bool {
        !self.clocks.lease_left().is_zero() && !self.is_stopped()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Ends all tasks; no renewal and no answer from now on.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.tasks.lock().drain(..).for_each(|t| t.abort());
    }

    pub(crate) fn next_slice(&self) -> SliceId {
        let n = self.slices.fetch_add(1, Ordering::Relaxed);
        SliceId { session: self.current().no, n }
    }

    fn add_task(&self, task: JoinHandle<()>) {
        let mut tasks = self.tasks.lock();
        tasks.retain(|t| !t.is_finished());
        tasks.push(task);
    }

    fn replace(&self, new: SessionRef, store_now: Timestamp) {
        *self.current.write() = new;
        self.slices.store(first_slice(&new, store_now), Ordering::Relaxed);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop();
    }
}

fn random_uuid() -> SessionUuid {
    SessionUuid(rand::random())
}

/// A resumed session does not know how many slices it had written, and no object may be written twice. It goes on at a
/// number that grows by one a microsecond: no session reaches it by counting, and a daemon that is killed and resumed
/// several times a second never meets the number that it began with before.
fn first_slice(session: &SessionRef, store_now: Timestamp) -> u64 {
    let (seconds, nanos) = store_now.parts();
    let micros = (seconds - EPOCH_2025).max(1) as u64 * 1_000_000 + u64::from(nanos / 1_000);
    if session.resumed { micros } else { 1 }
}

fn new_session(uuid: SessionUuid, role: &str, now: Timestamp) -> NewSession {
    let record = SessionRecord {
        version: FORMAT_VERSION,
        uuid,
        host: host_name(),
        pid: std::process::id(),
        role: role.to_owned(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        started: now,
    };
    NewSession { uuid, record: record.encode().into() }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
