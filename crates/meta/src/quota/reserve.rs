//! Bytes reserved before they are accepted: write() learns that a quota is used up, close() never does.
//!
//! A session takes min(64 MiB, a sixteenth of what is left) into its reserve and gives parts of it to writers without a
//! round trip. Near the limit it takes exactly what is asked for, and what other sessions have reserved and do not use is
//! called back, so that the quota holds to the byte. What is reserved belongs to the session in the store, and goes back
//! when the session ends or is reaped.

use crate::client::{Client, How};
use crate::store::{LoadRequest, Message};
use crate::tx::Tx;
use carafe_types::{FsError, FsResult, QuotaId};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The most that is reserved ahead.
const AHEAD: u64 = 64 << 20;
/// A reserve that was not used for so long goes back.
const IDLE: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Pool {
    free: u64,
    used: Instant,
}

/// What is reserved in the store and not given to a writer.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    free: Mutex<HashMap<QuotaId, Pool>>,
    filling: tokio::sync::Mutex<()>,
}

impl Pools {
    fn take(&self, quota: QuotaId, bytes: u64) -> bool {
        let mut free = self.free.lock();
        match free.get_mut(&quota) {
            Some(pool) if pool.free >= bytes => {
                pool.free -= bytes;
                pool.used = Instant::now();
                true
            }
            _ => bytes == 0,
        }
    }

    fn put(&self, quota: QuotaId, bytes: u64) {
        let now = Instant::now();
        let mut free = self.free.lock();
        let pool = free.entry(quota).or_insert(Pool { free: 0, used: now });
        pool.free += bytes;
        pool.used = now;
    }

    fn free(&self, quota: QuotaId) -> u64 {
        self.free.lock().get(&quota).map_or(0, |p| p.free)
    }

    /// Empties the pools that were not used for `idle`.
    fn drain(&self, idle: Duration) -> Vec<(QuotaId, u64)> {
        let mut free = self.free.lock();
        let due: Vec<QuotaId> =
            free.iter().filter(|(_, p)| p.used.elapsed() >= idle).map(|(q, _)| *q).collect();
        due.into_iter().filter_map(|q| free.remove(&q).map(|p| (q, p.free))).filter(|(_, n)| *n > 0).collect()
    }

    pub(crate) fn clear(&self) {
        self.free.lock().clear();
    }
}

impl Client {
    /// Reserves `bytes` of a quota for a writer, who names them as `charged` when they are committed, or gives them back
    /// with [`Client::unreserve`].
    ///
    /// # Errors
    /// [`FsError::NoSpace`] or, in a quota inside a volume, [`FsError::QuotaExceeded`]; store errors.
    pub async fn reserve(&self, quota: QuotaId, bytes: u64) -> FsResult<()> {
        self.writable()?;
        if self.pools.take(quota, bytes) {
            return Ok(());
        }
        let _one = self.pools.filling.lock().await;
        let since = Instant::now();
        let mut called_back = false;
        while !self.pools.take(quota, bytes) {
            let want = bytes.saturating_sub(self.pools.free(quota));
            let left = u64::try_from(self.quotas.read().left_bytes(quota)).unwrap_or(0);
            let ahead = want.max(AHEAD.min(left / 16));
            if ahead > want {
                match self.fill(quota, ahead).await {
                    Ok(()) => continue,
                    Err(e) if refused(&e) => {}
                    Err(e) => return Err(e),
                }
            }
            match self.fill(quota, want).await {
                Ok(()) => {}
                Err(e) if !refused(&e) || since.elapsed() > Duration::from_secs(1) => return Err(e),
                Err(e) if !called_back && !self.call_back_reserves(quota).await => return Err(e),
                Err(_) => {
                    called_back = true;
                    self.sleep(Duration::from_millis(20)).await;
                }
            }
        }
        Ok(())
    }

    /// Gives back what a writer reserved and does not use.
    pub fn unreserve(&self, quota: QuotaId, bytes: u64) {
        if bytes > 0 {
            self.pools.put(quota, bytes);
        }
    }

    async fn fill(&self, quota: QuotaId, bytes: u64) -> FsResult<()> {
        let how = How { no_call_back: true, data: true, once: true, ..How::default() };
        self.run_granted(how, |tx| reserve(tx, quota, bytes as i64)).await?;
        self.pools.put(quota, bytes);
        Ok(())
    }

    pub(crate) async fn return_idle_reserves(&self) {
        self.return_reserves(IDLE).await;
    }

    pub(crate) async fn return_all_reserves(&self) {
        self.return_reserves(Duration::ZERO).await;
    }

    async fn return_reserves(&self, idle: Duration) {
        for (quota, bytes) in self.pools.drain(idle) {
            let how = How { data: true, once: true, ..How::default() };
            match self.run_granted(how, |tx| reserve(tx, quota, -(bytes as i64))).await {
                Ok(_) => {}
                // A new session has no reserve to give back. After an unknown outcome it stays reserved until the
                // session ends: given back twice it would be too much.
                Err(FsError::Fenced(_) | FsError::Unavailable(_)) => {}
                Err(e) => {
                    tracing::debug!(quota = quota.0, error = %e, "reserve not given back yet");
                    self.pools.put(quota, bytes);
                }
            }
        }
    }

    /// A quota is used up: gives back own unused reserves and asks others for theirs. `false`: nobody has any.
    pub(crate) fn call_back_reserves(&self, quota: QuotaId) -> BoxFuture<'_, bool> {
        // Boxed: giving back is itself an operation that may be short of space.
        Box::pin(self.call_back(quota))
    }

    async fn call_back(&self, quota: QuotaId) -> bool {
        let own = self.pools.drain(Duration::ZERO);
        let gave = !own.is_empty();
        own.into_iter().for_each(|(q, n)| self.pools.put(q, n));
        self.return_all_reserves().await;
        let request = LoadRequest { quotas: vec![quota], ..LoadRequest::default() };
        let Ok(loaded) = self.store.load(&self.session(), &request).await else { return gave };
        let reserved = loaded.quotas.first().and_then(Option::as_ref).map_or(0, |q| q.reserved);
        if reserved <= self.quotas.read().own_reserve(quota) {
            return gave;
        }
        for to in self.other_sessions().await {
            // A session that does not hear it gives back idle reserves by itself.
            let _ = self.store.send(&self.session(), to, Message::ReturnReserve(quota)).await;
        }
        true
    }
}

fn refused(e: &FsError) -> bool {
    matches!(e, FsError::NoSpace(_) | FsError::QuotaExceeded)
}

fn reserve(tx: &mut Tx<'_>, quota: QuotaId, bytes: i64) -> crate::tx::Op<()> {
    tx.take(quota, bytes, 0)?;
    tx.use_reserve(quota, -bytes)
}
