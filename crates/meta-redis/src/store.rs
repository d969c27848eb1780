//! The trait, call by call.

use crate::barrier::Barrier;
use crate::commit::{self, Answer, begin};
use crate::link::{Limits, Link};
use crate::messages::{self, Listener};
use crate::names::Names;
use crate::script::{ALLOCATE, FORMAT, KeyIndex, REAP, RENEW, Request, SEND, SLOT, UNREGISTER, WATCH};
use crate::session::{GRACE_US, LEASE_US, Local};
use crate::slots::Slot;
use crate::target::{Options, Target};
use crate::{info, load, reply, scan, session};
use async_trait::async_trait;
use bytes::Bytes;
use carafe_meta::store::{
    Allocation, Commit, Key, LoadRequest, Loaded, Message, MetaStore, NewSession, Outcome, QuotaState,
    Renewal, ScanPage, ScanRequest, SessionInfo, SessionRef, StoreError, StoreInfo, WatchChange, WatchKey,
};
use carafe_meta::to_end::to_end;
use carafe_types::record::Superblock;
use carafe_types::{QuotaId, SessionNo};
use parking_lot::Mutex;
use redis::cmd;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedReceiver;

type Result<T> = std::result::Result<T, StoreError>;

/// A renewal that is not answered within this is sent again on a new connection, while the lease still runs.
const RENEWAL: Duration = Duration::from_secs(3);
const INODE_RANGE: u64 = 1 << 20;

/// A metadata store on a Redis server.
pub struct RedisStore {
    shared: Arc<Shared>,
    barrier: Barrier,
}

struct Shared {
    link: Arc<Link>,
    names: Names,
    locals: Mutex<HashMap<SessionNo, Arc<Local>>>,
    /// The highest place in the order that this process has seen.
    seq: AtomicU64,
}

impl RedisStore {
    /// A handle; the first call connects.
    ///
    /// # Errors
    /// [`StoreError::BadUrl`].
    pub fn new(url: &str, options: &Options) -> Result<Self> {
        let target = Target::new(url, options)?;
        let names = Names::new(&target.tag);
        let link = Arc::new(Link::new(target, options.patience));
        let shared = Shared { link, names, locals: Mutex::default(), seq: AtomicU64::new(0) };
        Ok(RedisStore { shared: Arc::new(shared), barrier: Barrier::default() })
    }

    /// Lets the lease of a session end long ago: the next `reap` of it succeeds. For tests of fencing.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn expire_lease(&self, sid: SessionNo) -> Result<()> {
        let mut add = cmd("ZADD");
        add.arg(self.shared.names.leases()).arg(1).arg(sid.0);
        self.shared.link.command(&add, self.shared.link.usual()).await.map(drop)
    }
}

impl Shared {
    fn local(&self, session: &SessionRef) -> Result<Arc<Local>> {
        let local = self.locals.lock().get(&session.no).cloned();
        let same =
            |l: &Arc<Local>| l.session.uuid == session.uuid && l.session.generation == session.generation;
        local.filter(same).ok_or(StoreError::Fenced)
    }

    /// A script of this session.
    fn request(
        &self,
        script: &'static crate::script::Text,
        local: &Local,
        more: impl IntoIterator<Item = String>,
    ) -> Request {
        let fixed = [self.names.root(), self.names.sessions()];
        let mut request = Request::new(script, fixed.into_iter().chain(more));
        begin(&mut request, &local.session, &local.who);
        request
    }

    /// Carries out a transaction: exactly once, whatever happens to answers.
    async fn commit(&self, local: &Local, mut encoded: commit::Encoded) -> Result<Outcome> {
        let mut taken = local.slots.take().await;
        let slot = &mut taken.slot;
        loop {
            if slot.doubtful {
                self.close(local, slot).await?;
            }
            let op = slot.next_op();
            encoded.place(slot.no, slot.last, op);
            let sent = self.link.send(&encoded.request, self.link.usual(), |r| Some(encoded.again(r))).await;
            let answer = match sent.value.and_then(|v| encoded.decode(v)) {
                Ok(answer) => answer,
                Err(error) => {
                    slot.doubtful = sent.again;
                    return Err(error);
                }
            };
            match answer {
                Answer::Ended(outcome) => {
                    if let Outcome::Done(done) = &outcome {
                        self.seq.fetch_max(done.seq, Ordering::Relaxed);
                    }
                    if sent.again || matches!(outcome, Outcome::Done(_)) {
                        slot.last = Some(op);
                    }
                    return Ok(outcome);
                }
                // A copy of it was refused before this one came; why, only a new try tells.
                Answer::Closed => slot.last = Some(op),
            }
        }
    }

    async fn close(&self, local: &Local, slot: &mut Slot) -> Result<()> {
        let op = slot.next_op();
        let mut request = self.request(&SLOT, local, [self.names.session(local.session.no)]);
        request.num(slot.no).num(op);
        reply::answer(self.link.run(&request).await?)?;
        (slot.last, slot.doubtful) = (Some(op), false);
        Ok(())
    }

    /// A renewal's limits: it must be known soon whether the lease was lengthened.
    fn renewal_limits(&self) -> Limits {
        self.link.brief(RENEWAL)
    }
}

#[async_trait]
impl MetaStore for RedisStore {
    async fn info(&self) -> Result<StoreInfo> {
        info::info(&self.shared.link, &self.shared.names).await
    }

    async fn format(
        &self,
        superblock: Bytes,
        records: Vec<(Key, Bytes)>,
        root_quota: QuotaState,
    ) -> Result<()> {
        let parsed = Superblock::decode(&superblock)
            .map_err(|source| StoreError::Damaged { key: "superblock".to_owned(), source })?;
        let names = &self.shared.names;
        let mut seen = KeyIndex::default();
        seen.declare(&names.root(), 1);
        let mut request = Request::new(&FORMAT, [names.root()]);
        let generation = (uuid::Uuid::new_v4().as_u64_pair().0 >> 1).max(1);
        request.arg(&superblock).num(generation).num(parsed.inline_budget).num(INODE_RANGE);
        let mut put = |(key, field): (String, String), value: &[u8]| {
            request.key(&mut seen, key).arg(field).arg(value);
        };
        records.iter().for_each(|(key, value)| put(names.record(key), value));
        let quota = |suffix: &str| (names.quotas(), format!("{}{suffix}", QuotaId::ROOT.0));
        put(quota(""), &root_quota.record);
        put(quota("b"), root_quota.left_bytes.to_string().as_bytes());
        put(quota("i"), root_quota.left_inodes.to_string().as_bytes());
        put(quota("r"), root_quota.reserved.to_string().as_bytes());
        let sent = self.shared.link.send(&request, self.shared.link.usual(), |_| None).await;
        let (letter, mut items) = reply::answer(sent.value?)?;
        if letter == b'A' {
            return Ok(());
        }
        let old = reply::bytes(reply::next(&mut items)?)?;
        // The answer of our own first try was lost. The superblock holds a random uuid.
        if sent.again && old == superblock {
            return Ok(());
        }
        let name = Superblock::decode(&old).map(|s| s.name).unwrap_or_default();
        Err(StoreError::AlreadyFormatted { name })
    }

    async fn destroy(&self) -> Result<()> {
        let (link, names) = (&self.shared.link, &self.shared.names);
        // Without the root nobody can change anything while the rest goes.
        let mut root = cmd("DEL");
        root.arg(names.root());
        link.command(&root, link.usual()).await?;
        let mut cursor: u64 = 0;
        loop {
            let mut page = cmd("SCAN");
            page.arg(cursor).arg("MATCH").arg(names.pattern("")).arg("COUNT").arg(1000);
            let mut page = reply::array(link.command(&page, link.usual()).await?)?.into_iter();
            cursor = reply::number(&reply::next(&mut page)?)?;
            let keys = reply::array(reply::next(&mut page)?)?;
            if !keys.is_empty() {
                let mut unlink = cmd("UNLINK");
                for key in keys {
                    unlink.arg(reply::bytes(key)?.as_ref());
                }
                link.command(&unlink, link.usual()).await?;
            }
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    async fn register(&self, new: NewSession) -> Result<SessionRef> {
        let local = session::register(&self.shared.link, &self.shared.names, &new).await?;
        let made = local.session;
        self.shared.locals.lock().insert(made.no, Arc::new(local));
        Ok(made)
    }

    async fn messages(&self, session: &SessionRef) -> Result<UnboundedReceiver<Message>> {
        let local = self.shared.local(session)?;
        let names = self.shared.names.clone();
        let listener = Listener {
            link: Arc::clone(&self.shared.link),
            channel: names.channel(&local.who),
            names,
            sid: session.no,
            line: Arc::clone(&local.line),
        };
        listener.start().await
    }

    async fn renew(&self, session: &SessionRef) -> Result<Renewal> {
        let s = &*self.shared;
        let local = s.local(session)?;
        let mut request = s.request(&RENEW, &local, [s.names.leases(), s.names.quotas()]);
        request.num(LEASE_US).num(GRACE_US);
        let limits = s.renewal_limits();
        // Taken before it is asked: a commit that happens after the renewal may be answered to its task before this one.
        let seen = s.seq.load(Ordering::Relaxed);
        let (sent, fullness) =
            futures::join!(s.link.send(&request, limits, |_| None), info::fullness(&s.link, limits));
        let (_, mut items) = reply::answer(sent.value?)?;
        let mut next = || reply::next(&mut items);
        let seq = reply::number(&next()?)?;
        s.seq.fetch_max(seq, Ordering::Relaxed);
        let (secs, micros) = (next()?, next()?);
        let renewal = Renewal {
            time: reply::time(&secs, &micros)?,
            seq,
            inline_left: reply::number(&next()?)?,
            quotas: scan::quotas(next()?)?,
            expired: reply::array(next()?)?
                .iter()
                .map(|v| reply::number(v).map(SessionNo))
                .collect::<Result<_>>()?,
            fullness,
        };
        local.line.renewed(reply::number(&next()?)?);
        if seq < seen {
            let lost = format!("its last change is number {seq}, this mount has seen number {seen}");
            return Err(StoreError::Lost(lost));
        }
        Ok(renewal)
    }

    async fn reap(&self, session: &SessionRef, victim: SessionNo) -> Result<bool> {
        let s = &*self.shared;
        let local = s.local(session)?;
        let keys = [s.names.leases(), s.names.quotas(), s.names.session(victim)];
        let mut request = s.request(&REAP, &local, keys);
        request.num(victim.0).num(GRACE_US);
        let (_, mut items) = reply::answer(s.link.run(&request).await?)?;
        Ok(reply::number::<i64>(&reply::next(&mut items)?)? == 1)
    }

    async fn unregister(&self, session: &SessionRef) -> Result<()> {
        let s = &*self.shared;
        let local = s.local(session)?;
        let keys = [s.names.leases(), s.names.quotas(), s.names.session(session.no)];
        let request = s.request(&UNREGISTER, &local, keys);
        let sent = s.link.send(&request, s.link.usual(), |_| None).await;
        let result = match reply::answer(sent.value?) {
            // The answer of the first try was lost.
            Err(StoreError::Fenced) if sent.again => Ok(()),
            other => other.map(drop),
        };
        s.locals.lock().remove(&session.no);
        result
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>> {
        session::list(&self.shared.link, &self.shared.names).await
    }

    async fn load(&self, session: &SessionRef, request: &LoadRequest) -> Result<Loaded> {
        let s = &*self.shared;
        let local = s.local(session)?;
        let encoded = load::encode(&s.names, session, &local.who, request);
        let value = s.link.run(&encoded.request).await?;
        encoded.decode(request, value)
    }

    async fn scan(&self, request: &ScanRequest) -> Result<ScanPage> {
        scan::scan(&self.shared.link, &self.shared.names, request).await
    }

    async fn commit(&self, session: &SessionRef, commit: &Commit) -> Result<Outcome> {
        let local = self.shared.local(session)?;
        let encoded = commit::encode(&self.shared.names, session, &local.who, commit);
        let shared = Arc::clone(&self.shared);
        // A caller that goes away must not leave a slot with an unknown end.
        let work = to_end(Handle::current(), async move { shared.commit(&local, encoded).await });
        work.await.map_err(|_| StoreError::Engine("a commit ended in a panic".to_owned()))?
    }

    async fn watch(&self, session: &SessionRef, changes: &[(WatchKey, WatchChange)]) -> Result<()> {
        let s = &*self.shared;
        let local = s.local(session)?;
        let mut seen = KeyIndex::default();
        let mut request = s.request(&WATCH, &local, []);
        request.num(changes.len());
        for (key, change) in changes {
            let (place, field) = s.names.watch(key);
            let letter = match change {
                WatchChange::Share => "s",
                WatchChange::Leave => "l",
                WatchChange::SetFlushing => "f",
                WatchChange::ClearFlushing => "c",
            };
            request.key(&mut seen, place).arg(field).arg(letter);
        }
        reply::answer(s.link.run(&request).await?).map(drop)
    }

    async fn send(&self, session: &SessionRef, to: SessionNo, message: Message) -> Result<()> {
        let s = &*self.shared;
        let local = s.local(session)?;
        let mut request = s.request(&SEND, &local, []);
        request.num(to.0).arg(messages::encode(&message));
        reply::answer(s.link.run(&request).await?).map(drop)
    }

    async fn allocate(&self, session: &SessionRef, what: Allocation) -> Result<u64> {
        let s = &*self.shared;
        let local = s.local(session)?;
        let (counter, by) = match what {
            Allocation::Inodes => ("ino", INODE_RANGE),
            Allocation::Quota => ("quota", 1),
        };
        let mut request = s.request(&ALLOCATE, &local, []);
        request.arg(counter).num(by);
        let (_, mut items) = reply::answer(s.link.run(&request).await?)?;
        let end: u64 = reply::number(&reply::next(&mut items)?)?;
        // The counter of inodes holds the first free one; that of quotas the last given.
        Ok(if what == Allocation::Inodes { end - by } else { end })
    }

    async fn barrier(&self) -> Result<()> {
        let s = &*self.shared;
        match s.link.target.wait {
            Some(replicas) => self.barrier.pass(&s.link, &s.names, replicas).await,
            None => Ok(()),
        }
    }

    fn single_process(&self) -> bool {
        false
    }
}
