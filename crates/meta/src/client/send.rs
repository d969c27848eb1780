//! Sending a commit and putting what happened into the cache, also if the caller goes away meanwhile.

use super::drive::Pace;
use super::{Client, Granted, How, PATIENCE, is_passing};
use crate::cache::{Cache, Sent, keys_of};
use crate::store::{Check, Commit, Done, Failed, Fresh, Outcome, StoreError, WatchKey, Write};
use crate::to_end::to_end;
use carafe_types::InodeNo;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OwnedMutexGuard;

type Answer = Result<(Outcome, Commit, Granted), StoreError>;

impl Client {
    /// Commits, to the end: half of it must not be left behind when a caller is dropped.
    pub(crate) async fn commit(
        &self,
        commit: Commit,
        removing: Vec<InodeNo>,
        used: Vec<WatchKey>,
        hold: Option<Arc<OwnedMutexGuard<()>>>,
    ) -> Answer {
        let me = self.strong();
        let work = to_end(self.handle.clone(), async move {
            let answer = me.commit_here(commit, used).await;
            me.removal_decided(&removing);
            drop(hold);
            answer
        });
        work.await.unwrap_or_else(|_| Err(StoreError::Engine("a commit was cut off by a panic".to_owned())))
    }

    async fn commit_here(&self, commit: Commit, used: Vec<WatchKey>) -> Answer {
        let keys = keys_of(&commit);
        let session = self.session();
        let deadline = Instant::now() + PATIENCE;
        let mut in_doubt = false;
        loop {
            let sent = self.cache.lock().send(keys.clone());
            let answer = self.store.commit(&session, &commit).await;
            match self.settle_commit(&commit, &sent, answer, in_doubt, &used) {
                // Whether it happened is still to be found out, before the operation looks at the world again.
                Ok((Outcome::Held(keys), _)) if in_doubt && Instant::now() < deadline => {
                    let mut pace = Pace::new();
                    let waited = self.wait_until_shared(keys, &mut pace, &How::default()).await;
                    waited.map_err(|e| StoreError::Engine(e.to_string()))?;
                }
                Ok((outcome, granted)) => return Ok((outcome, commit, granted)),
                Err(e) => {
                    if !is_passing(&e) || Instant::now() >= deadline || !can_repeat(&commit) {
                        return Err(e);
                    }
                    in_doubt |= matches!(e, StoreError::Unreachable { .. });
                    self.sleep(Duration::from_millis(200)).await;
                }
            }
        }
    }

    /// Puts the answer to a commit into the cache.
    fn settle_commit(
        &self,
        commit: &Commit,
        sent: &Sent,
        answer: Result<Outcome, StoreError>,
        in_doubt: bool,
        used: &[WatchKey],
    ) -> Result<(Outcome, Granted), StoreError> {
        let mut cache = self.cache.lock();
        let distrust = |cache: &mut Cache| sent.keys().iter().for_each(|k| cache.distrust(k));
        let settled = match answer {
            Ok(Outcome::Done(done)) => {
                cache.apply(commit, sent, &done);
                let keys = sent.keys().iter().chain(used).copied();
                let granted = Granted::new(&cache, self.session.clocks.ttl(), keys);
                Ok((Outcome::Done(done), granted))
            }
            Ok(Outcome::Conflict(failed)) if in_doubt && happened_before(commit, &failed) => {
                distrust(&mut cache);
                let done = Done { seq: u64::MAX, time: self.now() };
                Ok((Outcome::Done(done), Granted::default()))
            }
            Ok(outcome) => Ok((outcome, Granted::default())),
            Err(e) => {
                // It may have happened: what is kept of these keys may be old.
                distrust(&mut cache);
                Err(e)
            }
        };
        cache.settle(sent);
        drop(cache);
        if let Ok((Outcome::Done(done), _)) = &settled {
            self.happened(commit, done);
        }
        settled
    }

    fn happened(&self, commit: &Commit, done: &Done) {
        self.session.clocks.heard(done.time);
        self.inodes.begun(&commit.enlist);
        let reserves = commit.writes.iter().any(|w| matches!(w, Write::Reserve(..)));
        if !commit.takes.is_empty() || reserves || commit.take_inline != 0 {
            // An unknown place in the order counts until the next renewal.
            let seq = if done.seq == u64::MAX { 0 } else { done.seq };
            self.quotas.write().committed(commit, seq);
        }
    }
}

/// Whether a second application would be refused by the commit's own checks, so that it can be sent twice.
fn can_repeat(commit: &Commit) -> bool {
    commit.checks.iter().any(|check| match check {
        Check::Same(key, old) => commit.writes.iter().any(|w| match w {
            Write::Put(k, new) => k == key && Some(new) != old.as_ref(),
            Write::Delete(k) => k == key && old.is_some(),
            _ => false,
        }),
        Check::NoName(dir, name) => {
            commit.writes.iter().any(|w| matches!(w, Write::Link(d, parts) if d == dir && parts.0 == *name))
        }
        Check::HasName(dir, name, ..) => {
            commit.writes.iter().any(|w| matches!(w, Write::Unlink(d, parts) if d == dir && parts.0 == *name))
        }
        _ => false,
    })
}

/// Whether the store looks as if the first sending, whose answer was lost, had been applied.
fn happened_before(commit: &Commit, failed: &[Failed]) -> bool {
    let mut seen = false;
    for (check, failed) in commit.checks.iter().zip(failed) {
        let same = match (check, &failed.fresh) {
            (Check::Same(key, _), Fresh::Record(now)) => commit.writes.iter().find_map(|w| match w {
                Write::Put(k, new) if k == key => Some(Some(new) == now.as_ref()),
                Write::Delete(k) if k == key => Some(now.is_none()),
                _ => None,
            }),
            (Check::NoName(dir, name) | Check::HasName(dir, name, ..), Fresh::Name(now)) => {
                // The last change of a name is what stays.
                commit.writes.iter().rev().find_map(|w| match w {
                    Write::Link(d, (n, kind, ino)) if d == dir && n == name => {
                        Some(*now == Some((*kind, *ino)))
                    }
                    Write::Unlink(d, (n, ..)) if d == dir && n == name => Some(now.is_none()),
                    _ => None,
                })
            }
            _ => None,
        };
        match same {
            Some(true) => seen = true,
            Some(false) => return false,
            None => {}
        }
    }
    seen
}
