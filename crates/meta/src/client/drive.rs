//! Runs an operation until it is decided.
//!
//! View from the cache, run; what it needs comes with one load, run again; what it wants to change goes out as one
//! commit. A lost race brings the fresh values with it, so the next try needs no load. A refusal that rests on
//! memory alone (ENOENT, EEXIST, ...) is given only if it is true *now*: derived from records that nobody else can
//! change, or from one snapshot ([`Client::answer_stands`]).

use super::{Client, PATIENCE, to_fs};
use crate::cache::Cache;
use crate::store::{Check, Commit, Failed, Fresh, Key, Outcome, StoreError, WatchKey};
use crate::tx::{Op, Ran, Stop, Tx, View, World};
use carafe_types::{FsError, FsResult, InodeNo, QuotaId, SessionNo};
use rand::Rng;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::sync::OwnedMutexGuard;

/// Tries after which an answer from mixed sources is taken as it is: more own commits than reads can win.
const TRIES_FOR_ONE_SNAPSHOT: u32 = 6;
/// Loads of one operation; a rename into a deep tree needs one a level.
const LOADS_MAX: u32 = 20_000;
/// Lost races after which the others are asked to pause.
const TRIES_BEFORE_YIELD: u32 = 4;
/// How long a session that keeps winning pauses when asked to.
pub(crate) const YIELD: Duration = Duration::from_millis(50);

/// How an operation wants its failures handled.
#[derive(Clone, Debug, Default)]
pub(crate) struct How {
    /// It carries data that is lost with the session: [`FsError::Fenced`] instead of another try by the new session.
    pub(crate) data: bool,
    /// [`Outcome::NoSpace`] is told at once; reserves of others are not called back.
    pub(crate) no_call_back: bool,
    /// It is not to be repeated when it is not known whether it happened.
    pub(crate) once: bool,
    /// Inodes whose changes queue in this mount. Places are kept for one try, never while waiting for another session: a
    /// flush that this other one waits for may need the same place.
    pub(crate) queue: Vec<InodeNo>,
    /// Held until the store has decided (also if the caller goes away meanwhile).
    pub(crate) hold: Option<Arc<OwnedMutexGuard<()>>>,
}

impl How {
    /// A change of one inode.
    pub(crate) fn queued(ino: InodeNo) -> Self {
        How { queue: vec![ino], ..How::default() }
    }
}

/// Which keys an answer rests on that are held alone, and how long the kernel may keep it.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    ttl: Duration,
    keys: Vec<WatchKey>,
}

impl Granted {
    pub(crate) fn new(cache: &Cache, ttl: Duration, keys: impl Iterator<Item = WatchKey>) -> Self {
        Granted { ttl, keys: keys.filter(|k| cache.grants(k)).collect() }
    }

    pub(crate) fn sole(&self, key: &WatchKey) -> bool {
        self.keys.contains(key)
    }

    pub(crate) fn ttl(&self, key: &WatchKey) -> Duration {
        if self.sole(key) { self.ttl } else { Duration::ZERO }
    }
}

enum Step<T> {
    Load,
    /// Load everything that was read in one snapshot and decide from that.
    Recheck,
    Answer(FsResult<T>, Granted),
    Commit(T, Ran),
}

/// How often something was tried, and until when it may be.
pub(crate) struct Pace {
    deadline: Instant,
    pub(crate) conflicts: u32,
    pub(crate) rechecks: u32,
    loads: u32,
    waits: u32,
    short_since: Option<Instant>,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Pace {
            deadline: Instant::now() + PATIENCE,
            conflicts: 0,
            rechecks: 0,
            loads: 0,
            waits: 0,
            short_since: None,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// The next wait: 1 ms, doubling to `max`.
    pub(crate) fn next_wait(&mut self, max: Duration) -> Duration {
        let wait = Duration::from_millis(1 << self.waits.min(12)).min(max);
        self.waits += 1;
        wait
    }
}

impl Client {
    /// Runs a read or change to its end.
    pub(crate) async fn run<T>(&self, op: impl FnMut(&mut Tx<'_>) -> Op<T>) -> FsResult<T> {
        self.run_granted(How::default(), op).await.map(|(value, _)| value)
    }

    /// As [`Client::run`], for a change of one inode.
    pub(crate) async fn run_queued<T>(
        &self,
        ino: InodeNo,
        op: impl FnMut(&mut Tx<'_>) -> Op<T>,
    ) -> FsResult<T> {
        self.run_granted(How::queued(ino), op).await.map(|(value, _)| value)
    }

    /// As [`Client::run`], with what may be kept of the answer.
    pub(crate) async fn run_granted<T>(
        &self,
        how: How,
        op: impl FnMut(&mut Tx<'_>) -> Op<T>,
    ) -> FsResult<(T, Granted)> {
        self.run_from(View::default(), how, op).await
    }

    /// As [`Client::run_granted`], with guesses in the view: what is refused by them is checked.
    pub(crate) async fn run_from<T>(
        &self,
        mut view: View,
        how: How,
        mut op: impl FnMut(&mut Tx<'_>) -> Op<T>,
    ) -> FsResult<(T, Granted)> {
        let mut pace = Pace::new();
        loop {
            let turn = self.take_turn(&how.queue).await;
            match self.step(&mut view, &pace, &mut op) {
                Step::Answer(result, granted) => return result.map(|value| (value, granted)),
                Step::Load => {
                    drop(turn);
                    pace.loads += 1;
                    if pace.loads > LOADS_MAX {
                        return Err(FsError::Io("an operation goes on asking for more records".to_owned()));
                    }
                    self.load_into(&mut view, &mut pace, &how).await?;
                }
                Step::Recheck => {
                    drop(turn);
                    pace.rechecks += 1;
                    view.alone = true;
                    self.load_into(&mut view, &mut pace, &how).await?;
                }
                Step::Commit(value, ran) => {
                    self.pause_if_asked(&ran.commit).await;
                    let keys = ran.from_cache;
                    let outcome = self.commit(ran.commit, ran.removing, keys, how.hold.clone()).await;
                    drop(turn);
                    match self.decide(outcome, &mut view, &mut pace, &how).await? {
                        Some(granted) => return Ok((value, granted)),
                        None if pace.is_over() => {
                            return Err(FsError::Unavailable(
                                "gave up after 10 minutes of lost races".to_owned(),
                            ));
                        }
                        None => {}
                    }
                }
            }
        }
    }

    /// One run, under the lock of the cache.
    fn step<T>(&self, view: &mut View, pace: &Pace, op: &mut impl FnMut(&mut Tx<'_>) -> Op<T>) -> Step<T> {
        let mut cache = self.cache.lock();
        let quotas = self.quotas.read();
        let world = World {
            now: self.now(),
            session: self.session().no,
            trust: self.session.may_trust(),
            quotas: &quotas,
            delete_after_ms: self.options.delete_after.as_millis() as u64,
            inline_max: u64::from(self.superblock.inline_max),
        };
        let mut tx = Tx::new(world, &cache, view);
        let result = op(&mut tx);
        let ran = tx.finish();
        cache.touch(&ran.from_cache);
        match result {
            Err(Stop::Need) => {
                view.wants.extend(ran.asked);
                Step::Load
            }
            Ok(_) if ran.changes() && !Self::belongs_together(&cache, &ran, view) => {
                view.wants.extend(ran.asked);
                Step::Recheck
            }
            Ok(value) if ran.changes() => {
                ran.removing.iter().for_each(|ino| *cache.removing.entry(*ino).or_default() += 1);
                Step::Commit(value, ran)
            }
            result => {
                if !Self::answer_stands(&cache, &ran, view) && pace.rechecks < TRIES_FOR_ONE_SNAPSHOT {
                    view.wants.extend(ran.asked);
                    return Step::Recheck;
                }
                let granted = Granted::new(&cache, self.session.clocks.ttl(), ran.from_cache.into_iter());
                let result = result.map_err(|stop| match stop {
                    Stop::Fail(e) => e,
                    Stop::Need => FsError::Io("an operation asked for nothing and went on asking".to_owned()),
                });
                Step::Answer(result, granted)
            }
        }
    }

    /// Whether what was read was all true at one moment not before the question.
    fn answer_stands(cache: &Cache, ran: &Ran, view: &View) -> bool {
        if ran.from_conflict {
            return false;
        }
        let Some(snapshot) = view.snapshot.as_ref().filter(|_| ran.from_snapshot) else { return true };
        ran.from_cache.iter().all(|key| cache.own_change_of(key) <= snapshot.seq)
    }

    /// Whether what a commit rests on without checking it is of the same moment as what it checks. An inode that a lost race
    /// has told and a list of extents that was loaded before are not: the check of the inode would pass, and the older list
    /// would be written over the newer one.
    fn belongs_together(cache: &Cache, ran: &Ran, view: &View) -> bool {
        !ran.is_unchecked() || Self::answer_stands(cache, ran, view)
    }

    /// What follows from an outcome: `Some` when the operation is done.
    async fn decide(
        &self,
        outcome: Result<(Outcome, Commit, Granted), StoreError>,
        view: &mut View,
        pace: &mut Pace,
        how: &How,
    ) -> FsResult<Option<Granted>> {
        let (outcome, commit, granted) = match outcome {
            Ok(answer) => answer,
            Err(e) if how.once && super::is_passing(&e) => return Err(to_fs(e)),
            Err(e) => {
                self.survive(e, pace, how).await?;
                view.reset();
                return Ok(None);
            }
        };
        match outcome {
            Outcome::Done(_) => return Ok(Some(granted)),
            Outcome::Conflict(failed) => self.lost_race(&commit, &failed, view, pace).await?,
            Outcome::Held(keys) => {
                let begun_elsewhere = commit.enlist.iter().any(|k| keys.contains(k));
                self.wait_until_shared(keys, pace, how).await?;
                view.reset();
                view.no_enlist = begun_elsewhere;
            }
            Outcome::NoSpace(quota) => self.short_of_space(quota, &commit, pace, how).await?,
            Outcome::NoInlineSpace => return Err(FsError::NotSupported),
        }
        Ok(None)
    }

    /// Somebody was quicker. The fresh values are merged, flushes are asked for, then a wait that grows.
    async fn lost_race(
        &self,
        commit: &Commit,
        failed: &[Failed],
        view: &mut View,
        pace: &mut Pace,
    ) -> FsResult<()> {
        view.merge_conflict(&commit.checks, failed);
        let (mut lost, mut flushes, mut gates) = (false, Vec::new(), Vec::new());
        for (check, failed) in commit.checks.iter().zip(failed).filter(|(_, f)| f.failed) {
            match (check, &failed.fresh) {
                (Check::AloneOrFlushing(WatchKey::Names(dir)), Fresh::Watchers(who)) => {
                    flushes.push((*dir, who.clone()));
                }
                (Check::Alone(_), _) => {}
                (Check::Same(Key::Gate(quota), None), Fresh::Record(Some(gate))) => {
                    gates.push((*quota, gate.clone()));
                }
                (Check::Same(key, _), _) => lost |= self.doubt(key.watch_key(), pace),
                (Check::HasName(dir, ..) | Check::NoName(dir, _) | Check::Empty(dir), _) => {
                    lost |= self.doubt(Some(WatchKey::Names(*dir)), pace);
                }
                (Check::AloneOrFlushing(_), _) => {}
            }
        }
        for (dir, who) in flushes {
            self.ask_to_flush(dir, &who).await?;
        }
        for (quota, gate) in gates {
            self.wait_at_gate(quota, &gate).await;
        }
        if lost {
            pace.conflicts += 1;
            if pace.conflicts > 2 {
                let jitter = rand::rng().random_range(1..=1u64 << pace.conflicts.min(5));
                self.sleep(Duration::from_millis(jitter)).await;
            }
            if pace.conflicts == TRIES_BEFORE_YIELD {
                self.ask_to_yield(commit).await;
            }
        }
        Ok(())
    }

    /// What is held alone and yet is not what the store has, twice, is loaded anew: memory must not stay wrong.
    fn doubt(&self, key: Option<WatchKey>, pace: &Pace) -> bool {
        if let Some(key) = key.filter(|_| pace.conflicts >= 2) {
            self.cache.lock().distrust(&key);
        }
        true
    }

    /// A quota is used up: what others have reserved and not used is called back for at most a second.
    async fn short_of_space(
        &self,
        quota: QuotaId,
        commit: &Commit,
        pace: &mut Pace,
        how: &How,
    ) -> FsResult<()> {
        let refusal = self.no_space(quota);
        let bytes = commit.takes.iter().any(|t| t.quota == quota && t.bytes > 0);
        if how.no_call_back || !bytes {
            return Err(refusal);
        }
        let first = pace.short_since.is_none();
        let since = *pace.short_since.get_or_insert_with(Instant::now);
        if since.elapsed() > Duration::from_secs(1) || (first && !self.call_back_reserves(quota).await) {
            return Err(refusal);
        }
        self.sleep(Duration::from_millis(20)).await;
        Ok(())
    }

    pub(crate) fn no_space(&self, quota: QuotaId) -> FsError {
        if self.quotas.read().is_nested(quota) {
            return FsError::QuotaExceeded;
        }
        FsError::NoSpace(format!("quota {} is used up; delete something or expand the volume", quota.0))
    }

    /// After a failed call: returns if it may be made again, once the store or a new session is there.
    pub(crate) async fn survive(&self, e: StoreError, pace: &mut Pace, how: &How) -> FsResult<()> {
        match e {
            StoreError::Fenced => {
                self.renew_identity().await?;
                if how.data { Err(to_fs(StoreError::Fenced)) } else { Ok(()) }
            }
            e if super::is_passing(&e) && !pace.is_over() => {
                self.counters.retries.fetch_add(1, Relaxed);
                let wait = pace.next_wait(Duration::from_secs(1));
                self.sleep(wait).await;
                Ok(())
            }
            e => Err(to_fs(e)),
        }
    }

    /// Other living sessions, for the rare broadcasts.
    pub(crate) async fn other_sessions(&self) -> Vec<SessionNo> {
        let me = self.session().no;
        match self.store.sessions().await {
            Ok(all) => all.into_iter().filter(|s| s.alive && s.no != me).map(|s| s.no).collect(),
            Err(_) => Vec::new(),
        }
    }

    /// Inodes whose removal is decided may be opened again (or be found gone).
    pub(crate) fn removal_decided(&self, inos: &[InodeNo]) {
        if !inos.is_empty() {
            let mut cache = self.cache.lock();
            inos.iter().for_each(|ino| cache.removal_decided(*ino));
            drop(cache);
            self.removed.notify_waiters();
        }
    }
}
