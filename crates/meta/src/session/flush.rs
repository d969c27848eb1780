//! Publishing a directory in which other sessions have dirty data.
//!
//! Who renames a directory needs that everything below it is durable, also what other sessions have written and closed
//! but not yet flushed. They are found since whoever has dirty data below watches the names of every directory above.
//! They flush, mark themselves *in the store* as flushing (then their closes wait), and answer; the rename's own check
//! sees the mark, so no clock is involved. After 5 s the mark is taken back in the store, and only then may closes be
//! asynchronous again. A flush never waits for another session's flush, so there are no cycles.

use crate::cache::Recent;
use crate::client::Client;
use crate::store::{Message, WatchChange, WatchKey};
use carafe_types::{FsResult, InodeNo, SessionNo};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How long a session stays marked as flushing.
const MARKED: Duration = Duration::from_secs(5);
/// After which an unanswered request is sent again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Directories whose last flush or move is remembered.
const TURNS: usize = 16_384;

#[derive(Debug, Default)]
struct Flushing {
    askers: HashSet<SessionNo>,
    /// The mark is in the store.
    marked: bool,
}

#[derive(Debug, Default)]
struct Asked {
    missing: HashSet<SessionNo>,
    done: Arc<Notify>,
}

#[derive(Debug)]
struct Inner {
    flushing: HashMap<InodeNo, Flushing>,
    /// When directories were last flushed or moved: who watched them before must watch again.
    turns: Recent<InodeNo>,
    turn: u64,
    asked: HashMap<InodeNo, Asked>,
    /// Directories whose marks of an earlier daemon of this session were taken back.
    cleared: HashSet<InodeNo>,
}

impl Inner {
    fn turn(&mut self, dir: InodeNo) {
        self.turn += 1;
        self.turns.note(dir, self.turn);
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct FlushState(Mutex<Inner>);

impl Default for FlushState {
    fn default() -> Self {
        FlushState(Mutex::new(Inner {
            flushing: HashMap::new(),
            turns: Recent::new(TURNS),
            turn: 0,
            asked: HashMap::new(),
            cleared: HashSet::new(),
        }))
    }
}

impl FlushState {
    /// The moment, for [`FlushState::any_turned`].
    pub(crate) fn now(&self) -> u64 {
        self.0.lock().turn
    }

    /// Whether any of `dirs` was flushed or moved after `since`.
    pub(crate) fn any_turned(&self, dirs: &[InodeNo], since: u64) -> bool {
        let inner = self.0.lock();
        dirs.iter().any(|d| inner.turns.last(d) > since)
    }

    /// Whether closes below any of `dirs` must wait for their data.
    pub(crate) fn any_flushing(&self, dirs: &[InodeNo]) -> bool {
        let inner = self.0.lock();
        dirs.iter().any(|d| inner.flushing.contains_key(d))
    }

    /// The directory has moved: what is above the files below it is something else now.
    pub(crate) fn moved(&self, dir: InodeNo) {
        self.0.lock().turn(dir);
    }

    pub(super) fn answered(&self, dir: InodeNo, by: SessionNo) {
        if let Some(asked) = self.0.lock().asked.get_mut(&dir) {
            asked.missing.remove(&by);
            if asked.missing.is_empty() {
                asked.done.notify_waiters();
            }
        }
    }

    /// Those of `dirs` on which an earlier daemon of this session may have left a mark.
    pub(crate) fn not_yet_cleared(&self, dirs: &[InodeNo]) -> Vec<InodeNo> {
        let inner = self.0.lock();
        let may = |d: &InodeNo| !inner.cleared.contains(d) && !inner.flushing.contains_key(d);
        dirs.iter().copied().filter(may).collect()
    }

    pub(crate) fn cleared(&self, dirs: &[InodeNo]) {
        self.0.lock().cleared.extend(dirs);
    }

    pub(super) fn clear(&self) {
        let mut inner = self.0.lock();
        let dirs: Vec<InodeNo> = inner.flushing.drain().map(|(d, _)| d).collect();
        dirs.into_iter().for_each(|d| inner.turn(d));
    }
}

impl Client {
    pub(super) fn asked_to_flush(&self, dir: InodeNo, from: SessionNo) {
        let marked = {
            let mut inner = self.session.flush.0.lock();
            let new = !inner.flushing.contains_key(&dir);
            let flushing = inner.flushing.entry(dir).or_default();
            flushing.askers.insert(from);
            if new { None } else { Some(flushing.marked) }
        };
        let client = self.strong();
        match marked {
            None => drop(self.handle.spawn(async move { client.flush_and_mark(dir).await })),
            Some(true) => drop(self.handle.spawn(async move { client.answer_flushed(dir).await })),
            // The answer follows when the flush under way is done.
            Some(false) => {}
        }
    }

    async fn flush_and_mark(&self, dir: InodeNo) {
        if let Some(hooks) = self.hooks() {
            hooks.flush_below(dir).await;
        }
        let key = WatchKey::Names(dir);
        self.mark(&[(key, WatchChange::SetFlushing)]).await;
        if let Some(flushing) = self.session.flush.0.lock().flushing.get_mut(&dir) {
            flushing.marked = true;
        }
        self.answer_flushed(dir).await;
        self.sleep(MARKED).await;
        self.mark(&[(key, WatchChange::ClearFlushing)]).await;
        let mut inner = self.session.flush.0.lock();
        inner.flushing.remove(&dir);
        inner.turn(dir);
    }

    async fn answer_flushed(&self, dir: InodeNo) {
        let askers = match self.session.flush.0.lock().flushing.get_mut(&dir) {
            Some(flushing) => std::mem::take(&mut flushing.askers),
            None => return,
        };
        let by = self.session().no;
        for to in askers {
            // A lost answer is asked for again.
            let _ = self.store.send(&self.session(), to, Message::Flushed { dir, by }).await;
        }
    }

    /// Asks `who` to flush below `dir` and waits for their answers, at most a second: then the caller commits again,
    /// and finds out who is still in the way.
    pub(crate) async fn ask_to_flush(&self, dir: InodeNo, who: &[SessionNo]) -> FsResult<()> {
        let done = {
            let mut inner = self.session.flush.0.lock();
            let asked = inner.asked.entry(dir).or_default();
            asked.missing.extend(who);
            asked.done.clone()
        };
        let answered = done.notified();
        tokio::pin!(answered);
        answered.as_mut().enable();
        let from = self.session().no;
        for to in who {
            let me = self.session();
            self.patiently(|_| async move { self.store.send(&me, *to, Message::Flush { dir, from }).await })
                .await?;
        }
        // Without an answer the caller finds out who is in the way, and asks again.
        let _ = self.within(ASK_AGAIN, answered).await;
        let mut inner = self.session.flush.0.lock();
        if let Some(asked) = inner.asked.get_mut(&dir) {
            asked.missing.retain(|m| !who.contains(m));
            if asked.missing.is_empty() {
                inner.asked.remove(&dir);
            }
        }
        Ok(())
    }
}
