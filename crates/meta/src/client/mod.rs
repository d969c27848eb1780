//! The client: every file-system operation over a metadata store.
//!
//! One client is one session of one process. Its parts, each in a place of its own:
//!
//! - [`crate::cache`]: what is known and when it may be believed;
//! - [`crate::tx`] and [`crate::ops`]: operations as plain functions over a view;
//! - `drive`: runs an operation until it is decided: view, load, commit, again;
//! - [`crate::session`]: lease, messages, sharing, flushing, fencing;
//! - `names`, `attrs`, `data`, `locks`, `open`, `space`: the calls, grouped as the callers need them.
//!
//! Calls may be made from any thread; what waits does so on the runtime that [`Client::open`] was called in.

mod attrs;
mod data;
mod drive;
mod errors;
mod gate;
mod load;
mod locks;
mod names;
mod open;
mod options;
mod send;
mod space;

pub use crate::ops::list::DirPage;
pub use crate::quota::StatFs;
pub use attrs::XattrMode;
pub use locks::LockRequest;
pub use names::Lookup;
pub use open::DirtyWatch;
pub use options::{ClientOptions, Ctx, Found, Hooks};

pub(crate) use drive::{Granted, How, YIELD};
pub(crate) use errors::{is_passing, to_fs};
pub(crate) use gate::{Gate, later};

use crate::cache::Cache;
use crate::figures::Counters;
use crate::inodes::{Inodes, Next, Number};
use crate::quota::{Pools, QuotaTable};
use crate::session::Session;
use crate::store::{MetaStore, SessionRef, StoreError};
use carafe_types::record::Superblock;
use carafe_types::{FsError, FsResult, InodeNo, SessionNo, SessionUuid, SliceId, Timestamp};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// How long a call waits for a store that is away.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// See the module.
pub struct Client {
    me: Weak<Client>,
    pub(crate) store: Arc<dyn MetaStore>,
    pub(crate) superblock: Superblock,
    pub(crate) options: ClientOptions,
    pub(crate) handle: Handle,
    pub(crate) cache: Mutex<Cache>,
    pub(crate) quotas: RwLock<QuotaTable>,
    pub(crate) pools: Pools,
    pub(crate) inodes: Inodes,
    pub(crate) session: Session,
    /// Woken whenever an inode leaves `Cache::removing`.
    pub(crate) removed: Notify,
    pub(crate) lock_state: locks::LockState,
    pub(crate) counters: Counters,
    hooks: RwLock<Option<Arc<dyn Hooks>>>,
    uuids: Mutex<HashMap<SessionNo, SessionUuid>>,
    queues: Vec<tokio::sync::Mutex<()>>,
}

/// Operations that change one inode queue here, so that a mount does not conflict with itself.
const QUEUES: usize = 256;

impl Client {
    /// Opens the file system in `store`, registers a session and keeps it alive.
    ///
    /// # Errors
    /// [`StoreError::NotFormatted`]; [`StoreError::Engine`] naming what is unfit about the server's settings;
    /// [`StoreError::Damaged`] for a superblock of a newer program; whatever the store cannot do.
    pub async fn open(store: Arc<dyn MetaStore>, options: ClientOptions) -> Result<Arc<Client>, StoreError> {
        let info = store.info().await?;
        let unfit = info.unfit_unless(options.allow_volatile);
        if !unfit.is_empty() {
            return Err(StoreError::Engine(format!("unfit for a file system: {}", unfit.join("; "))));
        }
        let superblock = info.superblock.ok_or(StoreError::NotFormatted)?;
        let superblock = Superblock::decode(&superblock)
            .map_err(|source| StoreError::Damaged { key: "superblock".to_owned(), source })?;
        let session = Session::register(&*store, &options, info.time).await?;
        let client = Arc::new_cyclic(|me| Client {
            me: me.clone(),
            store,
            superblock,
            options,
            handle: Handle::current(),
            cache: Mutex::new(Cache::new()),
            quotas: RwLock::default(),
            pools: Pools::default(),
            inodes: Inodes::default(),
            session,
            removed: Notify::new(),
            lock_state: locks::LockState::default(),
            counters: Counters::default(),
            hooks: RwLock::new(None),
            uuids: Mutex::default(),
            queues: (0..QUEUES).map(|_| tokio::sync::Mutex::new(())).collect(),
        });
        client.start_session().await?;
        Ok(client)
    }

    /// What `format` decided.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The session as it is now; another one after fencing.
    pub fn session(&self) -> SessionRef {
        self.session.current()
    }

    /// The store below.
    pub fn store(&self) -> &Arc<dyn MetaStore> {
        &self.store
    }

    /// Tells whom to call for coherence. Until then nothing above keeps anything.
    pub fn set_hooks(&self, hooks: Arc<dyn Hooks>) {
        *self.hooks.write() = Some(hooks);
    }

    pub(crate) fn hooks(&self) -> Option<Arc<dyn Hooks>> {
        self.hooks.read().clone()
    }

    /// The store's clock, estimated; never goes back.
    pub fn now(&self) -> Timestamp {
        self.session.clocks.now()
    }

    /// A slice number of this session that was never given before.
    pub fn next_slice(&self) -> SliceId {
        self.session.next_slice()
    }

    /// Who wrote a slice: its uuid names the objects.
    ///
    /// # Errors
    /// [`FsError::Io`] when the store knows no such session; store errors.
    pub async fn session_uuid(&self, no: SessionNo) -> FsResult<SessionUuid> {
        if let Some(uuid) = self.uuids.lock().get(&no) {
            return Ok(*uuid);
        }
        let all = self.store.sessions().await.map_err(to_fs)?;
        let mut uuids = self.uuids.lock();
        uuids.extend(all.iter().map(|s| (s.no, s.uuid)));
        uuids
            .get(&no)
            .copied()
            .ok_or_else(|| FsError::Io(format!("session {} is not known to the store", no.0)))
    }

    /// Records and keys kept in memory, for metrics.
    pub fn cache_sizes(&self) -> (usize, usize) {
        self.cache.lock().sizes()
    }

    /// How much of the lease is left by this session's clock.
    pub fn lease_left(&self) -> Duration {
        self.session.clocks.lease_left()
    }

    /// Ends the session in good order. Flush first: nothing can be committed afterwards.
    pub async fn close(&self) {
        self.return_all_reserves().await;
        self.session.stop();
        if let Err(e) = self.store.unregister(&self.session()).await {
            tracing::warn!(error = %e, "session not ended in order; it will be reaped");
        }
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.session.is_stopped()
    }

    /// Stops as a crash would: no renewal, no answer, no farewell. For tests.
    #[doc(hidden)]
    pub fn crash(&self) {
        self.session.stop();
    }

    pub(crate) fn strong(&self) -> Arc<Client> {
        self.me.upgrade().expect("a method of a client runs only while somebody holds it")
    }

    pub(crate) fn weak(&self) -> Weak<Client> {
        self.me.clone()
    }

    /// Waits on the runtime's timer, from whatever thread polls.
    pub(crate) async fn sleep(&self, time: Duration) {
        let sleep = {
            let _entered = self.handle.enter();
            tokio::time::sleep(time)
        };
        sleep.await;
    }

    /// `None` if `call` takes longer than `time`.
    pub(crate) async fn within<T>(&self, time: Duration, call: impl Future<Output = T>) -> Option<T> {
        let call = std::pin::pin!(call);
        let sleep = std::pin::pin!(self.sleep(time));
        match futures::future::select(call, sleep).await {
            futures::future::Either::Left((value, _)) => Some(value),
            futures::future::Either::Right(_) => None,
        }
    }

    pub(crate) fn writable(&self) -> FsResult<()> {
        if self.options.read_only { Err(FsError::ReadOnly) } else { Ok(()) }
    }

    /// The places in the queues of some inodes, always taken in the same order.
    pub(crate) async fn take_turn(&self, inos: &[InodeNo]) -> Vec<tokio::sync::MutexGuard<'_, ()>> {
        let mut places: Vec<usize> = inos.iter().map(|ino| queue_of(*ino)).collect();
        places.sort_unstable();
        places.dedup();
        let mut held = Vec::with_capacity(places.len());
        for place in places {
            held.push(self.queues[place].lock().await);
        }
        held
    }

    /// A number for a new inode in `dir`.
    pub(crate) async fn new_inode(&self, dir: InodeNo, is_dir: bool) -> FsResult<Number> {
        loop {
            match if is_dir { self.inodes.directory() } else { self.inodes.child(dir) } {
                Next::Ready(number) => return Ok(number),
                Next::Wait(other) => drop(other.lock().await),
                Next::Range => {
                    let first =
                        self.patiently(|s| async move { self.store.allocate_inodes(&s).await }).await?;
                    self.inodes.add_range(first);
                }
            }
        }
    }
}

fn queue_of(ino: InodeNo) -> usize {
    (ino.0 ^ (ino.0 >> 8)) as usize % QUEUES
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("session", &self.session()).finish_non_exhaustive()
    }
}
