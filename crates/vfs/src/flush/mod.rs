//! From dirty to committed.
//!
//! 1. *Claim*: what is dirty of each inode is frozen ([`crate::node::Claim`]).
//! 2. *Shape* ([`shape`]): at most 16 KiB of small files in all go inline, other small ones into packs, large ones as
//!    slices of blocks.
//! 3. *Upload* ([`pack`], [`blocks`]): everything in parallel; a failure is tried again until patience ends, and the data
//!    stays in the cache whatever happens.
//! 4. *Commit* ([`commit`]): one transaction names it all, with the rename that publishes it if there is one.
//!
//! Flushes that come while others are under way gather and go together (group commit): the first one goes at once, so
//! nobody waits who is alone. A flush never waits for another session's flush.

mod background;
mod blocks;
mod commit;
mod over;
mod pack;
mod publish;
mod shape;

pub(crate) use background::{Sweep, run as run_background};
pub(crate) use publish::RenameCall;
pub(crate) use shape::{Job, Shape};

use crate::node::Node;
use crate::vfs::Vfs;
use carafe_types::{FsError, FsResult, InodeNo};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Notify;

/// Batches under way at once. More would make gathering rare and packs small; fewer would let one large file delay all.
const BATCHES: usize = 4;

/// Where flushes gather.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    next: Option<Arc<Batch>>,
    running: usize,
}

/// Inodes that are flushed together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    nodes: Mutex<Vec<Arc<Node>>>,
    outcomes: Mutex<HashMap<InodeNo, FsResult<()>>>,
    told: Notify,
}

impl Batch {
    /// Says how it went for one inode.
    pub(crate) fn tell(&self, ino: InodeNo, outcome: FsResult<()>) {
        self.outcomes.lock().insert(ino, outcome);
        self.told.notify_waiters();
    }

    async fn outcome_of(&self, nodes: &[Arc<Node>]) -> FsResult<()> {
        loop {
            let told = self.told.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            {
                let outcomes = self.outcomes.lock();
                if nodes.iter().all(|n| outcomes.contains_key(&n.ino)) {
                    let failed = nodes.iter().find_map(|n| outcomes[&n.ino].clone().err());
                    return failed.map_or(Ok(()), Err);
                }
            }
            told.await;
        }
    }
}

impl Vfs {
    /// Makes what is dirty of these inodes now durable in bucket and store.
    ///
    /// # Errors
    /// The first inode's error; what could not be flushed stays dirty, unless it is lost.
    pub(crate) async fn flush_nodes(self: &Arc<Self>, nodes: Vec<Arc<Node>>) -> FsResult<()> {
        if nodes.is_empty() {
            return Ok(());
        }
        let batch = self.join_batch(&nodes);
        match tokio::time::timeout(self.o.patience * 2, batch.outcome_of(&nodes)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                Err(FsError::Unavailable("the flush takes longer than the patience of this mount".into()))
            }
        }
    }

    fn join_batch(self: &Arc<Self>, nodes: &[Arc<Node>]) -> Arc<Batch> {
        let mut queue = self.gathering.queue.lock();
        let batch = queue.next.get_or_insert_with(Arc::default).clone();
        batch.nodes.lock().extend_from_slice(nodes);
        if queue.running < BATCHES {
            queue.running += 1;
            queue.next = None;
            // On a task of its own: half a flush must not be left behind when a caller is dropped.
            tokio::spawn(self.clone().run_batches(batch.clone()));
        }
        batch
    }

    async fn run_batches(self: Arc<Self>, first: Arc<Batch>) {
        let running = Running(&self.gathering);
        let mut next = Some(first);
        while let Some(batch) = next {
            let mut nodes = std::mem::take(&mut *batch.nodes.lock());
            nodes.sort_by_key(|n| n.ino);
            nodes.dedup_by_key(|n| n.ino);
            let unanswered = Unanswered(&batch, &nodes);
            self.run_batch(&batch, &nodes).await;
            drop(unanswered);
            next = self.gathering.queue.lock().next.take();
        }
        drop(running);
    }

    async fn run_batch(self: &Arc<Self>, batch: &Batch, nodes: &[Arc<Node>]) {
        let deadline = Instant::now() + self.o.patience;
        let jobs = self.claim_jobs(nodes).await;
        let idle = nodes.iter().filter(|n| jobs.iter().all(|j| j.claim.node.ino != n.ino));
        idle.for_each(|n| batch.tell(n.ino, n.state().lost.clone().map_or(Ok(()), Err)));
        // A large file is no reason to wait for the small ones.
        let (large, small): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|j| j.shape == Shape::Blocks);
        let groups = large.into_iter().map(|j| vec![j]).chain((!small.is_empty()).then_some(small));
        futures::future::join_all(groups.map(|jobs| self.flush_jobs(jobs, batch, deadline))).await;
    }

    async fn flush_jobs(self: &Arc<Self>, jobs: Vec<Job>, batch: &Batch, deadline: Instant) {
        let inos: Vec<InodeNo> = jobs.iter().map(|j| j.claim.node.ino).collect();
        let mut failed = HashMap::new();
        let ready = self.upload(jobs, deadline, &mut failed).await;
        self.commit(ready, deadline, &mut failed).await;
        for ino in inos {
            batch.tell(ino, failed.remove(&ino).map_or(Ok(()), Err));
        }
    }

    /// Freezes what is dirty. Nodes come in order of their numbers, see [`Node`].
    pub(crate) async fn claim_jobs(self: &Arc<Self>, nodes: &[Arc<Node>]) -> Vec<Job> {
        let mut jobs = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Some(claim) = node.claim().await else { continue };
            let forgotten = {
                let state = node.state();
                state.unlinked && state.open == 0
            };
            if forgotten || !claim.layer.touched {
                self.drop_layer(claim);
            } else if self.was_committed(&claim).await {
                self.finish(claim, None, None);
            } else {
                jobs.push(Job::new(claim));
            }
        }
        jobs
    }
}

/// Counts a batch out.
struct Running<'a>(&'a Gathering);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.queue.lock().running -= 1;
    }
}

/// Answers those who wait even if the flush panics.
struct Unanswered<'a>(&'a Batch, &'a [Arc<Node>]);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let failed =
                || Err(FsError::Io("the flush failed on an internal error; please report this".into()));
            self.1.iter().for_each(|n| self.0.tell(n.ino, failed()));
        }
    }
}
