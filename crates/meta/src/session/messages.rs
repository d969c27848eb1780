//! What other sessions say, and what is done about it. Nothing here waits: a slow flush must not hold up a share.

use crate::client::{Client, YIELD};
use crate::store::{Commit, Message, SessionRef, WatchKey};
use std::sync::Weak;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use tokio::sync::mpsc::UnboundedReceiver;

/// Handles the messages of one session until it ends.
pub(super) async fn pump(client: Weak<Client>, session: SessionRef, mut from: UnboundedReceiver<Message>) {
    while let Some(message) = from.recv().await {
        let Some(client) = client.upgrade() else { return };
        if client.session().no != session.no {
            return;
        }
        client.heard(message);
    }
}

/// Its place in [`crate::MESSAGES`].
fn kind(message: &Message) -> usize {
    match message {
        Message::Share(_) => 0,
        Message::Flush { .. } => 1,
        Message::Flushed { .. } => 2,
        Message::Unlocked(_) => 3,
        Message::Yield(_) => 4,
        Message::ReturnReserve(_) => 5,
        Message::Changed(_) => 6,
        Message::Gap => 7,
    }
}

impl Client {
    fn heard(&self, message: Message) {
        tracing::trace!(?message, "heard");
        self.counters.messages[kind(&message)].fetch_add(1, Relaxed);
        match message {
            Message::Share(key) => self.asked_to_share(key),
            Message::Flush { dir, from } => self.asked_to_flush(dir, from),
            Message::Flushed { dir, by } => self.session.flush.answered(dir, by),
            Message::Unlocked(ino) => {
                self.lock_state.wake(ino);
                if let Some(hooks) = self.hooks() {
                    hooks.unlocked(ino);
                }
            }
            Message::Yield(key) => {
                self.session.paused.lock().insert(key, Instant::now() + YIELD);
            }
            Message::ReturnReserve(quota) => {
                if let Some(hooks) = self.hooks() {
                    hooks.return_reserve(quota);
                }
                let client = self.strong();
                self.handle.spawn(async move { client.return_all_reserves().await });
            }
            Message::Changed(ino) => {
                let open = self.cache.lock().opens.get(&ino).is_some_and(|o| o.count > 0);
                if open {
                    let client = self.strong();
                    self.handle.spawn(async move { client.check_open_file(ino).await });
                }
            }
            Message::Gap => {
                tracing::warn!("messages may have been lost: nothing cached is believed");
                self.cache.lock().distrust_all();
                let client = self.strong();
                self.handle.spawn(client.stand_again());
            }
        }
    }

    /// Waits if another session has asked to be let through on a key that `commit` changes.
    pub(crate) async fn pause_if_asked(&self, commit: &Commit) {
        let until = {
            let mut paused = self.session.paused.lock();
            if paused.is_empty() {
                return;
            }
            let now = Instant::now();
            paused.retain(|_, until| *until > now);
            crate::cache::keys_of(commit).iter().filter_map(|k| paused.get(k).copied()).max()
        };
        if let Some(until) = until {
            self.sleep(until.saturating_duration_since(Instant::now())).await;
        }
    }

    /// This session keeps losing races for what `commit` changes: the others pause.
    pub(crate) async fn ask_to_yield(&self, commit: &Commit) {
        let keys: Vec<WatchKey> = crate::cache::keys_of(commit);
        let others = self.other_sessions().await;
        for to in others {
            for key in &keys {
                // A lost one costs another lost race.
                let _ = self.store.send(&self.session(), to, Message::Yield(*key)).await;
            }
        }
    }
}
