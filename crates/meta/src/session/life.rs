//! Renewal, reaping, housekeeping, and the next life after being fenced.

use super::{new_session, random_uuid};
use crate::client::{Client, is_passing, to_fs};
use crate::store::{LEASE, Renewal, StoreError};
use carafe_types::{FsResult, InodeNo, SessionNo};
use futures::future::BoxFuture;
use std::sync::Weak;
use std::time::{Duration, Instant};

/// How often the lease is renewed.
const RENEWAL: Duration = Duration::from_secs(2);
/// And after a failure.
const RETRY: Duration = Duration::from_millis(500);
/// A renewal without an answer counts as failed.
const ANSWER: Duration = Duration::from_secs(4);
/// How long the layers above may take to drop what they had.
const FENCED_HOOK: Duration = Duration::from_secs(30);
/// Steps of housekeeping (2 s each) after which an unused shared key is left, so that others may hold it alone.
const IDLE_STEPS: u64 = 8;
/// Steps between two looks at open files in shared buckets.
const OPEN_STEPS: u64 = 30;

impl Client {
    /// Starts what a session consists of: its messages, its renewal, its housekeeping.
    pub(crate) async fn start_session(&self) -> Result<(), StoreError> {
        let session = self.session();
        let messages = self.store.messages(&session).await?;
        self.renew_once().await?;
        self.session.add_task(self.handle.spawn(super::messages::pump(self.weak(), session, messages)));
        self.session.add_task(self.handle.spawn(renew_for_ever(self.weak())));
        self.session.add_task(self.handle.spawn(keep_house(self.weak())));
        Ok(())
    }

    pub(crate) async fn renew_once(&self) -> Result<(), StoreError> {
        let sent = Instant::now();
        let session = self.session();
        let answer = self.within(ANSWER, self.store.renew(&session)).await;
        match answer.unwrap_or_else(|| Err(late_answer())) {
            Ok(renewal) => {
                self.session.clocks.renewed(sent, renewal.time);
                self.quotas.write().renewed(renewal.seq, &renewal.quotas, renewal.inline_left);
                self.reap_if_sure(&renewal);
                Ok(())
            }
            Err(e) => {
                *self.session.unbroken_since.lock() = None;
                Err(e)
            }
        }
    }

    /// Only who has itself been connected for a whole lease may take others for dead: an outage kills nobody.
    fn reap_if_sure(&self, renewal: &Renewal) {
        let since = *self.session.unbroken_since.lock().get_or_insert_with(Instant::now);
        let me = self.session().no;
        let victims: Vec<SessionNo> = renewal.expired.iter().copied().filter(|v| *v != me).collect();
        if victims.is_empty() || (since.elapsed() < LEASE && !self.store.single_process()) {
            return;
        }
        let client = self.strong();
        self.handle.spawn(async move {
            for victim in victims {
                match client.store.reap(&client.session(), victim).await {
                    Ok(true) => tracing::warn!(session = victim.0, "reaped a session whose lease was over"),
                    Ok(false) => {}
                    Err(e) => tracing::debug!(session = victim.0, error = %e, "not reaped"),
                }
            }
        });
    }

    /// This session may have been taken for dead. If it was: a new one, after everything of the old one was dropped.
    pub(crate) async fn renew_identity(&self) -> FsResult<()> {
        let _one = self.session.replacing.lock().await;
        match self.store.renew(&self.session()).await {
            Err(StoreError::Fenced) if !self.session.is_stopped() => {}
            // Another caller was quicker, or the store is away: then the next call finds out.
            Ok(_) => return Ok(()),
            Err(e) if is_passing(&e) => return Ok(()),
            Err(e) => return Err(to_fs(e)),
        }
        let old = self.session();
        tracing::error!(session = old.no.0, "this session was fenced: data that was not flushed is lost");
        self.session.clocks.end_lease();
        {
            let mut cache = self.cache.lock();
            cache.distrust_all();
            cache.opens.values_mut().for_each(|o| o.held = false);
        }
        self.pools.clear();
        self.quotas.write().forget_own_reserves();
        self.session.flush.clear();
        self.lock_state.clear();
        if let Some(hooks) = self.hooks()
            && self.within(FENCED_HOOK, hooks.fenced()).await.is_none()
        {
            tracing::error!("dropping unflushed data takes long; going on");
        }
        self.begin_next_life().await.map_err(to_fs)
    }

    async fn begin_next_life(&self) -> Result<(), StoreError> {
        let now = self.now();
        let new = self.store.register(new_session(random_uuid(), &self.session.role, now)).await?;
        let messages = self.store.messages(&new).await?;
        self.session.replace(new, now);
        self.session.add_task(self.handle.spawn(super::messages::pump(self.weak(), new, messages)));
        self.renew_once().await?;
        let client = self.strong();
        // Not awaited: it makes calls, which may end up here again.
        self.handle.spawn(client.stand_again());
        Ok(())
    }

    /// Takes the places in watcher lists that pins and open files rely on.
    pub(crate) fn stand_again(self: std::sync::Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.stand_again_now().await })
    }

    async fn stand_again_now(&self) {
        let pinned = self.cache.lock().pinned();
        for some in pinned.chunks(200) {
            if let Err(e) = self.enlist(some).await {
                tracing::warn!(error = %e, "watches of open files not renewed");
            }
        }
        self.check_open_files().await;
    }

    async fn housekeeping(&self, step: u64) {
        self.leave_unused(IDLE_STEPS).await;
        self.return_idle_reserves().await;
        if step.is_multiple_of(OPEN_STEPS) {
            self.check_open_files().await;
        }
        let forgotten: Vec<InodeNo> = {
            let cache = self.cache.lock();
            cache.opens.iter().filter(|(_, o)| o.count == 0 && o.held).map(|(i, _)| *i).collect()
        };
        for ino in forgotten {
            self.let_go(ino).await;
        }
    }

    /// A directory was removed.
    pub(crate) fn forget_directory(&self, dir: InodeNo) {
        self.inodes.forget(dir);
        self.cache.lock().forget_directory(dir);
    }
}

fn late_answer() -> StoreError {
    StoreError::Unreachable {
        address: "the metadata store".to_owned(),
        reason: format!("no answer to a renewal within {} s", ANSWER.as_secs()),
    }
}

async fn renew_for_ever(client: Weak<Client>) {
    let mut wait = RENEWAL;
    loop {
        tokio::time::sleep(wait).await;
        let Some(client) = client.upgrade() else { return };
        wait = match client.renew_once().await {
            Ok(()) => RENEWAL,
            Err(StoreError::Fenced) => {
                if let Err(e) = client.renew_identity().await {
                    tracing::error!(error = %e, "no new session yet");
                }
                RETRY
            }
            Err(e) => {
                tracing::warn!(error = %e, left_ms = client.lease_left().as_millis() as u64, "lease not renewed");
                RETRY
            }
        };
    }
}

async fn keep_house(client: Weak<Client>) {
    let mut step = 0;
    loop {
        tokio::time::sleep(RENEWAL).await;
        let Some(client) = client.upgrade() else { return };
        step += 1;
        client.housekeeping(step).await;
    }
}
