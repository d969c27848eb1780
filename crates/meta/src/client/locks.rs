//! flock and POSIX locks across sessions.
//!
//! A lock is one commit: the record is guessed from the last time it was seen (mostly absent), and a wrong guess brings the
//! right one. Locks of dead sessions do not count, nor do, in a resumed session, those of the daemon before. Who waits is
//! named in the record and told when something is released; a lost message costs at most a second.

use super::{Client, Ctx, How, to_fs};
use crate::ops::lock::{self, Change, Locked};
use crate::store::Key;
use crate::tx::View;
use bytes::Bytes;
use carafe_types::record::{Held, LockKind, LockOwner, LockType};
use carafe_types::{FsError, FsResult, InodeNo, SessionNo};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Guesses that are kept.
const HINTS: usize = 10_000;
/// A waiter tries again by itself after this.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// How old the list of living sessions may be.
const SESSIONS_AGE: Duration = Duration::from_secs(1);

/// A lock that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct LockRequest {
    /// Of which file.
    pub ino: InodeNo,
    /// Family.
    pub kind: LockKind,
    /// The kernel's owner value.
    pub owner: u64,
    /// First byte; 0 for flock.
    pub start: u64,
    /// Last byte, inclusive; `u64::MAX` for flock and "to the end".
    pub end: u64,
    /// `None` unlocks.
    pub typ: Option<LockType>,
}

#[derive(Debug, Default)]
struct Inner {
    hints: HashMap<InodeNo, Option<Bytes>>,
    /// Owners that may hold something: the others need no release.
    mine: HashSet<(InodeNo, LockKind, u64)>,
    waiting: HashMap<InodeNo, Arc<Notify>>,
    /// Which owner of this session waits for which other one (POSIX only).
    blocked: HashMap<u64, u64>,
    dead: HashSet<SessionNo>,
    asked: Option<Instant>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LockState(Mutex<Inner>);

impl LockState {
    pub(crate) fn wake(&self, ino: InodeNo) {
        if let Some(n) = self.0.lock().waiting.get(&ino) {
            n.notify_waiters();
        }
    }

    /// The session is another one: it holds no locks.
    pub(crate) fn clear(&self) {
        let mut inner = self.0.lock();
        inner.hints.clear();
        inner.mine.clear();
    }

    fn hint(&self, ino: InodeNo) -> Option<Bytes> {
        self.0.lock().hints.get(&ino).cloned().flatten()
    }

    fn saw(&self, ino: InodeNo, record: Option<Bytes>) {
        let mut inner = self.0.lock();
        if inner.hints.len() >= HINTS {
            inner.hints.clear();
        }
        inner.hints.insert(ino, record);
    }

    fn bell(&self, ino: InodeNo) -> Arc<Notify> {
        self.0.lock().waiting.entry(ino).or_default().clone()
    }

    fn bell_done(&self, ino: InodeNo, bell: Arc<Notify>) {
        let mut inner = self.0.lock();
        drop(bell);
        if inner.waiting.get(&ino).is_some_and(|b| Arc::strong_count(b) == 1) {
            inner.waiting.remove(&ino);
        }
    }

    /// Notes that `owner` waits for `other`. `false`: that would close a circle.
    fn block(&self, owner: u64, other: u64) -> bool {
        let mut inner = self.0.lock();
        let mut at = other;
        for _ in 0..1000 {
            if at == owner {
                return false;
            }
            match inner.blocked.get(&at) {
                Some(next) => at = *next,
                None => break,
            }
        }
        inner.blocked.insert(owner, other);
        true
    }
}

/// Ends "waits for" also if the caller goes away.
struct Blocked<'a>(&'a LockState, u64);

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        self.0.0.lock().blocked.remove(&self.1);
    }
}

impl Client {
    /// Takes, converts or drops a lock, without waiting.
    ///
    /// # Errors
    /// [`FsError::WouldBlock`]; ENOLCK for thousands of locks on one file; store errors.
    pub async fn lock(&self, ctx: &Ctx, request: &LockRequest) -> FsResult<()> {
        match self.try_lock(ctx, request, false).await? {
            None => Ok(()),
            Some(_) => Err(FsError::WouldBlock),
        }
    }

    /// As [`Client::lock`], waiting until it is free. Drop the future to give up.
    ///
    /// # Errors
    /// EDEADLK when owners of this session wait for each other in a circle (circles across sessions are not seen);
    /// those of [`Client::lock`].
    pub async fn lock_wait(&self, ctx: &Ctx, request: &LockRequest) -> FsResult<()> {
        let bell = self.lock_state.bell(request.ino);
        let result = loop {
            let rung = bell.notified();
            tokio::pin!(rung);
            rung.as_mut().enable();
            let other = match self.try_lock(ctx, request, true).await {
                Ok(Some(other)) => other,
                Ok(None) => break Ok(()),
                Err(e) => break Err(e),
            };
            let here = other.by.session == self.session().no && request.kind == LockKind::Posix;
            if here && !self.lock_state.block(request.owner, other.by.owner) {
                break Err(FsError::Deadlock);
            }
            let _blocked = Blocked(&self.lock_state, request.owner);
            let _waits = self.counters.wait_for_lock();
            let _ = self.within(TRY_AGAIN, rung).await;
        };
        self.lock_state.bell_done(request.ino, bell);
        result
    }

    /// The lock that is in the way of one, if any (F_GETLK).
    ///
    /// # Errors
    /// Store errors.
    pub async fn lock_test(&self, request: &LockRequest) -> FsResult<Option<Held>> {
        let Some(typ) = request.typ else { return Ok(None) };
        let change = self.change(&Ctx::ROOT, request);
        self.learn_who_lives().await?;
        let mut record = self.run(|tx| lock::read(tx, request.ino)).await?;
        let dead = self.lock_state.0.lock().dead.clone();
        record.held.retain(|h| !dead.contains(&h.by.session) && !self.is_left_over(request.ino, h));
        Ok(lock::conflict(&record, &change, typ))
    }

    /// Drops what an owner holds of a file: at close (POSIX) or at the last close (flock). Costs nothing if that is
    /// nothing.
    ///
    /// # Errors
    /// Store errors.
    pub async fn release_owner(&self, ino: InodeNo, kind: LockKind, owner: u64) -> FsResult<()> {
        if !self.lock_state.0.lock().mine.contains(&(ino, kind, owner)) {
            return Ok(());
        }
        let by = LockOwner { session: self.session().no, owner };
        let mine = move |h: &Held| h.by == by && h.kind == kind;
        self.run_guessing(ino, |tx| lock::release(tx, ino, &mine).map(drop)).await?;
        self.lock_state.0.lock().mine.remove(&(ino, kind, owner));
        Ok(())
    }

    /// Drops what all owners of this session hold of a file: when its last descriptor is closed here. The kernel tells of the end
    /// of an open file description's locks in no other way.
    ///
    /// # Errors
    /// Store errors.
    pub async fn release_all(&self, ino: InodeNo, kind: LockKind) -> FsResult<()> {
        let mine: Vec<u64> = {
            let state = self.lock_state.0.lock();
            state.mine.iter().filter(|(i, k, _)| (*i, *k) == (ino, kind)).map(|(.., owner)| *owner).collect()
        };
        for owner in mine {
            self.release_owner(ino, kind, owner).await?;
        }
        Ok(())
    }

    async fn try_lock(&self, ctx: &Ctx, request: &LockRequest, wait: bool) -> FsResult<Option<Held>> {
        if request.start > request.end {
            return Err(FsError::Invalid("a lock that ends before it starts"));
        }
        let (ino, change) = (request.ino, self.change(ctx, request));
        let mine = (ino, request.kind, request.owner);
        if request.typ.is_some() {
            self.lock_state.0.lock().mine.insert(mine);
        }
        for asked in [false, true] {
            let dead = self.lock_state.0.lock().dead.clone();
            let is_dead = |s: SessionNo| dead.contains(&s);
            let left_over = |h: &Held| self.is_left_over(ino, h);
            match self.run_guessing(ino, |tx| lock::set(tx, ino, &change, &is_dead, &left_over, wait)).await?
            {
                Locked::Done => return Ok(None),
                Locked::Blocked(other) if asked || other.by.session == self.session().no => {
                    return Ok(Some(other));
                }
                Locked::Blocked(_) => self.learn_who_lives().await?,
            }
        }
        Err(FsError::Io("a lock was neither taken nor refused".to_owned()))
    }

    /// Whether a lock is of the daemon whose session this one resumed: its descriptors died with its mount. Owners of this
    /// daemon stand in `mine` before their locks are committed, so this is to be asked when the record has been read, not
    /// before.
    fn is_left_over(&self, ino: InodeNo, h: &Held) -> bool {
        let session = self.session();
        session.resumed
            && h.by.session == session.no
            && !self.lock_state.0.lock().mine.contains(&(ino, h.kind, h.by.owner))
    }

    fn change(&self, ctx: &Ctx, r: &LockRequest) -> Change {
        let by = LockOwner { session: self.session().no, owner: r.owner };
        Change { kind: r.kind, by, start: r.start, end: r.end, typ: r.typ, pid: ctx.pid }
    }

    /// Runs a change of an inode's locks on what was last seen of them.
    async fn run_guessing<T>(
        &self,
        ino: InodeNo,
        mut op: impl FnMut(&mut crate::tx::Tx<'_>) -> crate::tx::Op<T>,
    ) -> FsResult<T> {
        let key = Key::Locks(ino);
        let mut view = View::default();
        view.fresh_records.insert(key.clone(), self.lock_state.hint(ino));
        // A lock of a dead session must not be taken for one of the new.
        let how = How { data: true, ..How::queued(ino) };
        let op = |tx: &mut crate::tx::Tx<'_>| {
            let value = op(tx)?;
            Ok((value, tx.record(&key)?))
        };
        let ((value, record), _) = self.run_from(view, how, op).await?;
        self.lock_state.saw(ino, record);
        Ok(value)
    }

    async fn learn_who_lives(&self) -> FsResult<()> {
        {
            let mut inner = self.lock_state.0.lock();
            if inner.asked.is_some_and(|t| t.elapsed() < SESSIONS_AGE) {
                return Ok(());
            }
            inner.asked = Some(Instant::now());
        }
        let all = self.store.sessions().await.map_err(to_fs)?;
        let mut inner = self.lock_state.0.lock();
        inner.dead.extend(all.iter().filter(|s| !s.alive).map(|s| s.no));
        Ok(())
    }
}
