//! Giving up a key: because another session wants it, or because it is not used any more.
//!
//! Four steps, in this order and no other (each wrong order was found to break a promise, `prototypes/watch-model`):
//! (a) from now on no lifetime is given and closes flush; (b) closed dirty files of the key are flushed; (c) the kernel
//! drops what it keeps, and replies that it has yet to apply; (d) this session thinks the key shared and keeps nothing of
//! it, and only then is its mark in the store changed. (b) and (c) are the hook's.

use crate::client::{Client, is_passing};
use crate::store::{WatchChange, WatchKey};
use futures::stream::{self, StreamExt};
use std::time::Duration;

/// Keys left with one call.
const LEFT_AT_ONCE: usize = 200;
/// Hooks that run at once while leaving.
const HOOKS_AT_ONCE: usize = 32;

impl Client {
    /// All four steps, always: also if this session does not think that it holds the key alone.
    pub(super) fn asked_to_share(&self, key: WatchKey) {
        if !self.cache.lock().begin_giving_up(key) {
            return;
        }
        let client = self.strong();
        self.handle.spawn(async move {
            client.void(key).await;
            client.mark(&[(key, WatchChange::Share)]).await;
            client.cache.lock().end_giving_up(key, false);
        });
    }

    async fn void(&self, key: WatchKey) {
        if let Some(hooks) = self.hooks() {
            hooks.share(key).await;
        }
        self.cache.lock().think_shared(key);
    }

    /// Changes marks in the store; tried until the store answers, since somebody waits for it.
    pub(super) async fn mark(&self, changes: &[(WatchKey, WatchChange)]) {
        let session = self.session();
        while !self.session.is_stopped() && self.session() == session {
            match self.store.watch(&session, changes).await {
                Ok(()) => return,
                Err(e) if is_passing(&e) => self.sleep(Duration::from_millis(200)).await,
                Err(e) => {
                    tracing::warn!(error = %e, "marks in watcher lists not changed");
                    return;
                }
            }
        }
    }

    /// Leaves keys that are not used, so that memory stays bounded and others may hold them alone.
    pub(super) async fn leave_unused(&self, idle_steps: u64) {
        let room = self.options.cache_records;
        let due = {
            let mut cache = self.cache.lock();
            let mut due = cache.due_to_leave(room, idle_steps);
            due.retain(|key| cache.begin_giving_up(*key));
            due
        };
        for some in due.chunks(LEFT_AT_ONCE) {
            self.leave(some.to_vec()).await;
        }
    }

    /// Leaves keys whose giving up has begun.
    pub(crate) async fn leave(&self, keys: Vec<WatchKey>) {
        stream::iter(&keys).for_each_concurrent(HOOKS_AT_ONCE, |key| self.void(*key)).await;
        let changes: Vec<_> = keys.iter().map(|k| (*k, WatchChange::Leave)).collect();
        self.mark(&changes).await;
        let mut cache = self.cache.lock();
        keys.iter().for_each(|k| cache.end_giving_up(*k, true));
    }
}
