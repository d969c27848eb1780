//! Sessions, leases, and what there is one of in a store.

use super::layout::{self, At, damaged};
use super::scan::quotas;
use super::write::{add_counters, encode_counters};
use super::{Applied, Context, Kv, Result};
use crate::store::{
    Allocation, Key, LEASE, Message, NewSession, QuotaState, Renewal, SessionInfo, SessionRef, StoreError,
    StoreInfo,
};
use bytes::Bytes;
use carafe_types::record::Superblock;
use carafe_types::{Generation, QuotaId, SessionNo, SessionUuid, Timestamp};

/// How much longer than its lease a silent session lives, in nanoseconds: clocks differ.
const GRACE: i64 = 2_000_000_000;
const INODE_RANGE: u64 = 1 << 20;

struct Row {
    uuid: SessionUuid,
    process: u64,
    alive: bool,
    record: Bytes,
}

impl Row {
    fn read<K: Kv + ?Sized>(kv: &K, sid: SessionNo) -> Result<Option<Self>> {
        kv.get(&layout::session(sid))?.map(|bytes| Self::decode(&bytes)).transpose()
    }

    fn decode(bytes: &Bytes) -> Result<Self> {
        let bad = || damaged("session");
        let (uuid, rest) = bytes.split_first_chunk().ok_or_else(bad)?;
        let (process, rest) = rest.split_first_chunk().ok_or_else(bad)?;
        let (alive, record) = rest.split_first().ok_or_else(bad)?;
        Ok(Row {
            uuid: SessionUuid(*uuid),
            process: u64::from_be_bytes(*process),
            alive: *alive != 0,
            record: bytes.slice_ref(record),
        })
    }

    fn write<K: Kv + ?Sized>(&self, kv: &mut K, sid: SessionNo) -> Result<()> {
        let mut out = self.uuid.0.to_vec();
        out.extend_from_slice(&self.process.to_be_bytes());
        out.push(u8::from(self.alive));
        out.extend_from_slice(&self.record);
        kv.put(&layout::session(sid), &out)
    }
}

fn sid_in(key: &[u8]) -> Result<SessionNo> {
    let number = key.get(1..5).and_then(|n| n.try_into().ok()).ok_or_else(|| damaged("session key"))?;
    Ok(SessionNo(u32::from_be_bytes(number)))
}

/// Whether the session counts: registered in this process and not ended.
pub(super) fn is_alive<K: Kv + ?Sized>(kv: &K, at: &Context, sid: SessionNo) -> Result<bool> {
    Ok(Row::read(kv, sid)?.is_some_and(|row| row.alive && row.process == at.process))
}

fn generation<K: Kv + ?Sized>(kv: &K) -> Result<Generation> {
    layout::counter(kv, "generation")?.map(Generation).ok_or(StoreError::NotFormatted)
}

/// Fails unless the session is of this life of the store and alive.
///
/// # Errors
/// `NotFormatted`, `Generation`, `Fenced`; those of the engine.
pub fn check_session<K: Kv + ?Sized>(kv: &K, at: &Context, session: &SessionRef) -> Result<()> {
    if generation(kv)? != session.generation {
        return Err(StoreError::Generation);
    }
    match Row::read(kv, session.no)? {
        Some(row) if row.alive && row.process == at.process && row.uuid == session.uuid => Ok(()),
        _ => Err(StoreError::Fenced),
    }
}

/// What is known without a session. `durability` and `server` are the engine's to tell.
///
/// # Errors
/// Those of the engine.
pub fn info<K: Kv + ?Sized>(kv: &K, at: &Context) -> Result<StoreInfo> {
    Ok(StoreInfo {
        superblock: kv.get(&layout::single("superblock"))?,
        generation: Generation(layout::counter(kv, "generation")?.unwrap_or(0)),
        seq: layout::counter(kv, "seq")?.unwrap_or(0),
        time: at.now,
        durability: "volatile".to_owned(),
        server: String::new(),
        unfit: Vec::new(),
        warnings: Vec::new(),
    })
}

/// Makes a file system. `random` becomes its generation.
///
/// # Errors
/// `AlreadyFormatted`; `Damaged` for a superblock that does not parse; those of the engine.
pub fn format<K: Kv + ?Sized>(
    kv: &mut K,
    random: u64,
    superblock: &Bytes,
    records: &[(Key, Bytes)],
    root_quota: &QuotaState,
) -> Result<()> {
    if let Some(old) = kv.get(&layout::single("superblock"))? {
        let name = Superblock::decode(&old).map(|s| s.name).unwrap_or_default();
        return Err(StoreError::AlreadyFormatted { name });
    }
    let parsed = Superblock::decode(superblock)
        .map_err(|source| StoreError::Damaged { key: "superblock".to_owned(), source })?;
    kv.put(&layout::single("superblock"), superblock)?;
    layout::set_counter(kv, "generation", random.max(1))?;
    layout::set_counter(kv, "seq", 0)?;
    layout::set_counter(kv, "inline-left", parsed.inline_budget)?;
    for (key, value) in records {
        kv.put(&layout::record(key), value)?;
    }
    kv.put(&layout::record(&Key::Quota(QuotaId::ROOT)), &root_quota.record)?;
    let counters = [root_quota.left_bytes, root_quota.left_inodes, root_quota.reserved];
    kv.put(&layout::counters(QuotaId::ROOT), &encode_counters(counters))
}

/// Removes everything.
///
/// # Errors
/// Those of the engine.
pub fn destroy<K: Kv + ?Sized>(kv: &mut K) -> Result<()> {
    loop {
        let some = kv.range(&[], &[0xff], 10_000)?;
        if some.is_empty() {
            return Ok(());
        }
        for (key, _) in some {
            kv.delete(&key)?;
        }
    }
}

/// To be called when a process opens an embedded store: the sessions of earlier ones have one lease left to be resumed.
///
/// # Errors
/// Those of the engine.
pub fn begin_process<K: Kv + ?Sized>(kv: &mut K, at: &Context) -> Result<()> {
    for (key, value) in kv.range(&At::new(b's').done(), &At::new(b't').done(), usize::MAX)? {
        if Row::decode(&value)?.alive {
            lengthen(kv, at, sid_in(&key)?)?;
        }
    }
    Ok(())
}

fn lengthen<K: Kv + ?Sized>(kv: &mut K, at: &Context, sid: SessionNo) -> Result<()> {
    let end = at.now.0 + LEASE.as_nanos() as i64;
    kv.put(&layout::lease(sid), &end.to_be_bytes())
}

/// Registers a session, or resumes the living one with the same uuid.
///
/// # Errors
/// `NotFormatted`; those of the engine.
pub fn register<K: Kv + ?Sized>(kv: &mut K, at: &Context, new: &NewSession) -> Result<SessionRef> {
    let generation = generation(kv)?;
    let known = kv.get(&layout::uuid(&new.uuid))?.map(|v| layout::parse_u64(&v)).transpose()?;
    let no = match known {
        Some(no) => SessionNo(no as u32),
        None => {
            let no = layout::counter(kv, "next-session")?.unwrap_or(1);
            layout::set_counter(kv, "next-session", no + 1)?;
            kv.put(&layout::uuid(&new.uuid), &no.to_be_bytes())?;
            SessionNo(no as u32)
        }
    };
    Row { uuid: new.uuid, process: at.process, alive: true, record: new.record.clone() }.write(kv, no)?;
    lengthen(kv, at, no)?;
    Ok(SessionRef { generation, no, uuid: new.uuid, resumed: known.is_some() })
}

/// Lengthens a lease.
///
/// # Errors
/// `Fenced`, `Generation`, `NotFormatted`; those of the engine.
pub fn renew<K: Kv + ?Sized>(kv: &mut K, at: &Context, session: &SessionRef) -> Result<Renewal> {
    check_session(kv, at, session)?;
    lengthen(kv, at, session.no)?;
    let mut expired = Vec::new();
    for (key, end) in leases(kv)? {
        if has_expired(at, end) {
            expired.push(key);
        }
    }
    Ok(Renewal {
        time: at.now,
        seq: layout::counter(kv, "seq")?.unwrap_or(0),
        quotas: quotas(kv)?,
        expired,
        inline_left: layout::counter(kv, "inline-left")?.unwrap_or(0) as i64,
        fullness: None,
    })
}

fn leases<K: Kv + ?Sized>(kv: &K) -> Result<Vec<(SessionNo, Timestamp)>> {
    let from = At::new(layout::LEASE_PREFIX).done();
    let to = At::new(layout::LEASE_PREFIX + 1).done();
    let pairs = kv.range(&from, &to, usize::MAX)?;
    pairs.into_iter().map(|(k, v)| Ok((sid_in(&k)?, Timestamp(layout::parse_u64(&v)? as i64)))).collect()
}

fn has_expired(at: &Context, lease_end: Timestamp) -> bool {
    lease_end.0.saturating_add(GRACE) < at.now.0
}

/// Ends another session whose lease is over. `false` while it runs.
///
/// # Errors
/// `Fenced`, `Generation`, `NotFormatted` for the caller; those of the engine.
pub fn reap<K: Kv + ?Sized>(
    kv: &mut K,
    at: &Context,
    session: &SessionRef,
    victim: SessionNo,
) -> Result<bool> {
    check_session(kv, at, session)?;
    if let Some(end) = kv.get(&layout::lease(victim))? {
        if !has_expired(at, Timestamp(layout::parse_u64(&end)? as i64)) {
            return Ok(false);
        }
        end_session(kv, victim)?;
    }
    Ok(true)
}

/// Ends the caller's session.
///
/// # Errors
/// `Fenced`, `Generation`, `NotFormatted`; those of the engine.
pub fn unregister<K: Kv + ?Sized>(kv: &mut K, at: &Context, session: &SessionRef) -> Result<()> {
    check_session(kv, at, session)?;
    end_session(kv, session.no)
}

fn end_session<K: Kv + ?Sized>(kv: &mut K, sid: SessionNo) -> Result<()> {
    if let Some(row) = Row::read(kv, sid)? {
        kv.delete(&layout::uuid(&row.uuid))?;
        Row { alive: false, ..row }.write(kv, sid)?;
    }
    kv.delete(&layout::lease(sid))?;
    let from = At::new(b'R').u32(sid.0).done();
    let to = At::new(b'R').u32(sid.0.saturating_add(1)).done();
    for (key, value) in kv.range(&from, &to, usize::MAX)? {
        let number = key.get(5..9).and_then(|n| n.try_into().ok()).ok_or_else(|| damaged("reserve"))?;
        let bytes = layout::parse_u64(&value)? as i64;
        add_counters(kv, QuotaId(u32::from_be_bytes(number)), [bytes, 0, bytes.saturating_neg()])?;
        kv.delete(&key)?;
    }
    Ok(())
}

/// All sessions, in order of their number.
///
/// # Errors
/// Those of the engine.
pub fn sessions<K: Kv + ?Sized>(kv: &K, at: &Context) -> Result<Vec<SessionInfo>> {
    let mut out = Vec::new();
    for (key, value) in kv.range(&At::new(b's').done(), &At::new(b't').done(), usize::MAX)? {
        let (no, row) = (sid_in(&key)?, Row::decode(&value)?);
        let lease = kv.get(&layout::lease(no))?.map(|v| layout::parse_u64(&v)).transpose()?;
        out.push(SessionInfo {
            no,
            uuid: row.uuid,
            record: row.record,
            alive: row.alive && row.process == at.process,
            lease_end: Timestamp(lease.unwrap_or(0) as i64),
        });
    }
    Ok(out)
}

/// A message from one session to another.
///
/// # Errors
/// `Fenced`, `Generation`, `NotFormatted`; those of the engine.
pub fn send<K: Kv + ?Sized>(
    kv: &K,
    at: &Context,
    session: &SessionRef,
    to: SessionNo,
    message: Message,
) -> Result<Applied<()>> {
    check_session(kv, at, session)?;
    Ok(Applied { answer: (), messages: vec![(to, message)] })
}

/// Hands out numbers.
///
/// # Errors
/// `Fenced`, `Generation`, `NotFormatted`; those of the engine.
pub fn allocate<K: Kv + ?Sized>(
    kv: &mut K,
    at: &Context,
    session: &SessionRef,
    what: Allocation,
) -> Result<u64> {
    check_session(kv, at, session)?;
    let (name, first, step) = match what {
        Allocation::Inodes => ("next-inode", INODE_RANGE, INODE_RANGE),
        Allocation::Quota => ("next-quota", 1, 1),
    };
    let number = layout::counter(kv, name)?.unwrap_or(first);
    layout::set_counter(kv, name, number + step)?;
    Ok(number)
}

/// Lets a lease end long ago, for tests of fencing.
///
/// # Errors
/// Those of the engine.
pub fn expire_lease<K: Kv + ?Sized>(kv: &mut K, sid: SessionNo) -> Result<()> {
    kv.put(&layout::lease(sid), &0u64.to_be_bytes())
}
