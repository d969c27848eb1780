//! What goes up although nobody asks for it.
//!
//! Closed dirty files go up a second after their last close, open ones 30 s after their first dirty byte, and anything
//! earlier when the write buffer fills. The numbers weigh two costs: an early flush of a part that is still being written
//! costs a PUT that the publishing rename would have saved, a late one leaves more to lose with the node.

use crate::node::Node;
use crate::vfs::Vfs;
use carafe_types::InodeNo;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How often files are looked at.
const TICK: Duration = Duration::from_millis(250);

/// The cache looks at its disk once in so many ticks.
const UPKEEP_TICKS: u32 = 20;

/// From this share of the write buffer on, everything goes up at once.
const PRESSED: f64 = 0.7;

/// The most files that one sweep sends off together.
const SWEEP_FILES: usize = 1000;

/// State of the background flusher.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    under_way: Mutex<HashSet<InodeNo>>,
    wake: Notify,
    tick: AtomicU32,
}

impl Sweep {
    /// The write buffer is full: do not wait for the next tick.
    pub(crate) fn press(&self) {
        self.wake.notify_one();
    }
}

/// Runs as long as the mount.
pub(crate) async fn run(vfs: Weak<Vfs>) {
    loop {
        let Some(strong) = vfs.upgrade() else { return };
        if strong.is_stopping() {
            return;
        }
        strong.sweep_once();
        let wake = async {
            // The mount must not be kept alive by this task while it waits.
            let sweep = strong.sweep.clone();
            drop(strong);
            sweep.wake.notified().await;
        };
        let _tick = tokio::time::timeout(TICK, wake).await;
    }
}

impl Vfs {
    fn sweep_once(self: &Arc<Self>) {
        let tick = self.sweep.tick.fetch_add(1, Relaxed);
        if tick % UPKEEP_TICKS == UPKEEP_TICKS - 1 {
            self.local.maintain();
            self.remote.maintain();
            self.answers.maintain();
        }
        if self.dirty.len() == 0 {
            return self.log.idle();
        }
        let pressed = self.local.fullness() > PRESSED || self.small_bytes.get() > self.o.small_bytes_max / 2;
        let mut due = self.due(pressed);
        due.sort_by_key(|n| n.ino);
        due.truncate(SWEEP_FILES);
        if due.is_empty() {
            return;
        }
        self.sweep.under_way.lock().extend(due.iter().map(|n| n.ino));
        let vfs = self.clone();
        tokio::spawn(async move {
            if let Err(e) = vfs.flush_nodes(due.clone()).await {
                tracing::debug!(error = %e, "a background flush failed and will be tried again");
            }
            let mut under_way = vfs.sweep.under_way.lock();
            under_way.retain(|ino| due.iter().all(|n| n.ino != *ino));
        });
    }

    fn due(&self, pressed: bool) -> Vec<Arc<Node>> {
        let now = Instant::now();
        let under_way = self.sweep.under_way.lock();
        let nodes = self.dirty.all().into_iter().filter(|i| !under_way.contains(i));
        nodes.filter_map(|i| self.nodes.get(i)).filter(|n| self.is_due(n, now, pressed)).collect()
    }

    fn is_due(&self, node: &Node, now: Instant, pressed: bool) -> bool {
        let state = node.state();
        let older = |since: Option<Instant>, than| since.is_some_and(|s| now.duration_since(s) >= than);
        // An unlinked file that is still open goes up only if it stands in the way.
        match (state.open, state.unlinked) {
            _ if !state.is_dirty() => false,
            (0, true) => true,
            (_, true) => pressed,
            (0, false) => pressed || older(state.closed_at, self.o.flush_delay),
            (_, false) => pressed || older(state.dirty_since(), self.o.open_flush_delay),
        }
    }
}
