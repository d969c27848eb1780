//! The thread that applies steps in order and syncs once for all that have queued up.

use crate::disk::{DiskKv, Rows, TABLE};
use crate::{Sync, failed};
use carafe_meta::apply::{self, Context, Kv, MapKv, Result};
use carafe_meta::store::{ScanPage, ScanRequest, StoreError};
use carafe_types::Timestamp;
use redb::{Database, DatabaseError, Durability, ReadableDatabase, TableError};
use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How many steps share a transaction at most: bounds the time until the first of them is answered.
const BATCH: usize = 256;
const EVERY: Duration = Duration::from_secs(1);
/// Enough for the upper levels of a file of several GB; the operating system caches the rest.
const CACHE_BYTES: usize = 64 << 20;

/// What a step needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It changes nothing on disk.
    Read,
    /// It may change anything.
    Write,
    /// It changes nothing and waits until all before it is on disk.
    Sync,
}

/// Called when the batch has ended, with how that went.
type Reply = Box<dyn FnOnce(std::result::Result<(), StoreError>) + Send>;
type Step = Box<dyn FnOnce(&mut dyn Kv, &Context) -> Reply + Send>;

struct Job {
    kind: Kind,
    step: Step,
}

/// A number that nobody else has.
pub(crate) fn random() -> u64 {
    // Each state is seeded by the operating system.
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// The open file.
pub(crate) struct Engine {
    database: Arc<Database>,
    queue: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    process: u64,
}

impl Engine {
    pub(crate) fn start(path: &Path, sync: Sync) -> Result<Self> {
        let opened = Database::builder().set_cache_size(CACHE_BYTES).create(path);
        let database = Arc::new(opened.map_err(|e| explain(path, &e))?);
        let process = random();
        let mut worker = Worker {
            database: Arc::clone(&database),
            volatile: MapKv::default(),
            sync,
            process,
            last: Timestamp(0),
            unsynced_since: None,
        };
        worker.begin()?;
        let (queue, jobs) = channel();
        let thread =
            std::thread::Builder::new().name("carafe-meta".to_owned()).spawn(move || worker.work(&jobs));
        let thread = thread.map_err(|e| failed("start a thread", e))?;
        Ok(Engine { database, queue: Some(queue), thread: Some(thread), process })
    }

    /// Queues a step; `deliver` runs when the step is sure, in the order of steps.
    pub(crate) async fn run<T: Send + 'static, R: Send + 'static>(
        &self,
        kind: Kind,
        step: impl FnOnce(&mut dyn Kv, &Context) -> Result<T> + Send + 'static,
        deliver: impl FnOnce(T) -> R + Send + 'static,
    ) -> Result<R> {
        let (answer, wait) = oneshot::channel();
        let step: Step = Box::new(move |kv, at| {
            let result = step(kv, at);
            Box::new(move |ended| {
                // Nobody may be waiting any more; the step happened nevertheless.
                let _ = answer.send(ended.and(result).map(deliver));
            })
        });
        let ended =
            || StoreError::Engine("the metadata engine has stopped after a failure, see the log".to_owned());
        let queue = self.queue.as_ref().ok_or_else(ended)?;
        queue.send(Job { kind, step }).map_err(|_| ended())?;
        wait.await.map_err(|_| ended())?
    }

    /// Reads a page from a snapshot, past the queue.
    pub(crate) async fn scan(&self, request: ScanRequest) -> Result<ScanPage> {
        let (database, process) = (Arc::clone(&self.database), self.process);
        let read = move || {
            let mut nothing = MapKv::default();
            let kv = DiskKv::new(snapshot(&database)?, &mut nothing);
            apply::scan(&kv, &Context::at_system_time(process), &request)
        };
        tokio::task::spawn_blocking(read).await.map_err(|e| failed("a scan", e))?
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The thread ends when the queue does, and gives back the lock on the file.
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn explain(path: &Path, error: &DatabaseError) -> StoreError {
    let reason = match error {
        DatabaseError::DatabaseAlreadyOpen => {
            "another process has this file open; an embedded store serves one process at a time".to_owned()
        }
        other => other.to_string(),
    };
    StoreError::Unreachable { address: path.display().to_string(), reason }
}

fn snapshot(database: &Database) -> Result<Rows<'static>> {
    let txn = database.begin_read().map_err(|e| failed("begin to read", e))?;
    match txn.open_table(TABLE) {
        Ok(table) => Ok(Rows::Read(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(Rows::Empty),
        Err(e) => Err(failed("open the table", e)),
    }
}

struct Worker {
    database: Arc<Database>,
    volatile: MapKv,
    sync: Sync,
    process: u64,
    /// The clock never goes back while the file is open.
    last: Timestamp,
    /// When the first change that is not yet on disk was made.
    unsynced_since: Option<Instant>,
}

impl Worker {
    fn begin(&mut self) -> Result<()> {
        let at = self.now();
        let rows = snapshot(&self.database)?;
        apply::begin_process(&mut DiskKv::new(rows, &mut self.volatile), &at)
    }

    fn now(&mut self) -> Context {
        let at = Context::at_system_time(self.process);
        self.last = self.last.max(at.now);
        Context { now: self.last, ..at }
    }

    fn work(mut self, jobs: &Receiver<Job>) {
        loop {
            let wait =
                self.unsynced_since.map_or(Duration::MAX, |since| EVERY.saturating_sub(since.elapsed()));
            match jobs.recv_timeout(wait) {
                Ok(first) => {
                    let batch = std::iter::once(first).chain(jobs.try_iter().take(BATCH - 1)).collect();
                    self.batch(batch);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.unsynced_since.is_some_and(|since| since.elapsed() >= EVERY) {
                self.sync_now();
            }
        }
        if self.unsynced_since.is_some() {
            self.sync_now();
        }
    }

    fn sync_now(&mut self) {
        if let Err(e) = self.write(Vec::new(), Durability::Immediate).0 {
            tracing::error!("changes of the last second could not be synced: {e}");
        }
    }

    fn batch(&mut self, batch: Vec<Job>) {
        let kinds: Vec<Kind> = batch.iter().map(|job| job.kind).collect();
        let steps = batch.into_iter().map(|job| job.step).collect();
        let (ended, replies) = if kinds.iter().all(|kind| *kind == Kind::Read) {
            self.read(steps)
        } else if self.sync == Sync::Always || kinds.contains(&Kind::Sync) {
            self.write(steps, Durability::Immediate)
        } else {
            self.write(steps, Durability::None)
        };
        for reply in replies {
            reply(ended.clone());
        }
    }

    fn read(&mut self, steps: Vec<Step>) -> (Result<()>, Vec<Reply>) {
        let at = self.now();
        match snapshot(&self.database) {
            Ok(rows) => {
                let mut kv = DiskKv::new(rows, &mut self.volatile);
                (Ok(()), steps.into_iter().map(|step| step(&mut kv, &at)).collect())
            }
            Err(e) => (Err(e), refuse(steps)),
        }
    }

    fn write(&mut self, steps: Vec<Step>, durability: Durability) -> (Result<()>, Vec<Reply>) {
        let mut replies = Vec::new();
        let mut waiting = Some(steps);
        let ended = self.transaction(durability, |kv, at| {
            let steps = waiting.take().unwrap_or_default();
            replies.extend(steps.into_iter().map(|step| step(kv, at)));
        });
        if ended.is_ok() {
            let synced = matches!(durability, Durability::Immediate);
            self.unsynced_since =
                if synced { None } else { self.unsynced_since.or_else(|| Some(Instant::now())) };
        }
        replies.extend(waiting.map(refuse).unwrap_or_default());
        (ended, replies)
    }

    /// All or nothing: when the disk fails in the middle, nobody's step has happened.
    fn transaction(
        &mut self,
        durability: Durability,
        steps: impl FnOnce(&mut dyn Kv, &Context),
    ) -> Result<()> {
        let at = self.now();
        let mut txn = self.database.begin_write().map_err(|e| failed("begin a transaction", e))?;
        txn.set_durability(durability).map_err(|e| failed("set the durability", e))?;
        {
            let table = txn.open_table(TABLE).map_err(|e| failed("open the table", e))?;
            let mut kv = DiskKv::new(Rows::Write(table), &mut self.volatile);
            steps(&mut kv, &at);
            if kv.broken.get() {
                // Dropping the transaction takes everything back.
                return Err(StoreError::Engine(
                    "the metadata file cannot be written, see the log".to_owned(),
                ));
            }
        }
        txn.commit().map_err(|e| failed("commit to the metadata file", e))
    }
}

/// Replies of steps that were never begun.
fn refuse(steps: Vec<Step>) -> Vec<Reply> {
    let mut nothing = MapKv::default();
    let at = Context { now: Timestamp(0), process: 0 };
    // The answer of a step over an empty map is replaced by the error of the batch.
    steps.into_iter().map(|step| step(&mut nothing, &at)).collect()
}
