//! What this process knows of its sessions, and the calls that begin and end them.

use crate::link::Link;
use crate::messages::Line;
use crate::names::Names;
use crate::reply;
use crate::script::{REGISTER, Request};
use crate::slots::Slots;
use bytes::Bytes;
use carafe_meta::store::{LEASE, NewSession, SessionInfo, SessionRef, StoreError};
use carafe_types::{Generation, SessionNo, SessionUuid, Timestamp};
use redis::{Pipeline, cmd};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

type Result<T> = std::result::Result<T, StoreError>;

/// Microseconds of a lease.
pub(crate) const LEASE_US: u64 = LEASE.as_micros() as u64;
/// Microseconds that a silent session lives longer: clocks differ.
pub(crate) const GRACE_US: u64 = 2_000_000;

/// A session that was registered through this handle.
pub(crate) struct Local {
    pub(crate) session: SessionRef,
    /// Its identity in scripts: uuid and incarnation. A resumed session has a new one, so that nothing that an earlier
    /// process sent can land any more.
    pub(crate) who: String,
    pub(crate) slots: Slots,
    pub(crate) line: Arc<Line>,
}

/// Registers or resumes.
pub(crate) async fn register(link: &Link, names: &Names, new: &NewSession) -> Result<Local> {
    let incarnation = uuid::Uuid::new_v4().simple().to_string();
    let mut request = Request::new(&REGISTER, [names.root(), names.sessions(), names.leases()]);
    request.arg(new.uuid.to_string()).arg(&new.record).arg(&incarnation[..16]).num(LEASE_US);
    let (_, mut items) = reply::answer(link.run(&request).await?)?;
    let mut next = || reply::next(&mut items);
    let generation = Generation(reply::number(&next()?)?);
    let no = SessionNo(reply::number(&next()?)?);
    let who = reply::text(next()?)?;
    let told = reply::number(&next()?)?;
    let resumed = who.ends_with('r');
    let kept = if resumed { kept(link, names, no).await? } else { Vec::new() };
    Ok(Local {
        session: SessionRef { generation, no, uuid: new.uuid, resumed },
        who,
        slots: Slots::new(&kept),
        line: Arc::new(Line::new(told)),
    })
}

/// The last operation of each slot.
async fn kept(link: &Link, names: &Names, no: SessionNo) -> Result<Vec<(usize, u64)>> {
    let mut all = cmd("HGETALL");
    all.arg(names.session(no));
    let mut kept = Vec::new();
    for (field, value) in reply::pairs(link.command(&all, link.usual()).await?)? {
        // Other fields are reserves.
        let Some(slot) = std::str::from_utf8(&field).ok().and_then(|f| f.parse().ok()) else { continue };
        let op = std::str::from_utf8(&value).ok().and_then(|v| v.split(' ').next()?.parse().ok());
        let damaged = || StoreError::Engine(format!("slot {slot} of session {} is damaged", no.0));
        kept.push((slot, op.ok_or_else(damaged)?));
    }
    Ok(kept)
}

/// All sessions, in order of their number.
pub(crate) async fn list(link: &Link, names: &Names) -> Result<Vec<SessionInfo>> {
    let mut pipe = Pipeline::new();
    pipe.cmd("HGETALL").arg(names.sessions());
    pipe.cmd("ZRANGE").arg(names.leases()).arg(0).arg(-1).arg("WITHSCORES");
    let mut values = link.pipeline(&pipe, 2).await?.into_iter();
    let fields: HashMap<Bytes, Bytes> = reply::pairs(reply::next(&mut values)?)?.into_iter().collect();
    let leases = leases(reply::next(&mut values)?)?;
    let mut out = BTreeMap::new();
    for (field, value) in &fields {
        let Some(no) = std::str::from_utf8(field).ok().and_then(|f| f.parse().ok()) else { continue };
        let damaged = || StoreError::Engine(format!("the record of session {no} is damaged"));
        let uuid = value.get(..32).and_then(parse_uuid).ok_or_else(damaged)?;
        let alive = fields.contains_key(format!("{no}a").as_bytes());
        let lease_end = leases.get(&no).copied().unwrap_or_default();
        let info = SessionInfo { no: SessionNo(no), uuid, record: value.slice(32..), alive, lease_end };
        out.insert(no, info);
    }
    Ok(out.into_values().collect())
}

fn leases(value: redis::Value) -> Result<HashMap<u32, Timestamp>> {
    let mut flat = reply::array(value)?.into_iter();
    let mut out = HashMap::new();
    while let (Some(member), Some(score)) = (flat.next(), flat.next()) {
        out.insert(reply::number(&member)?, reply::score(&score)?);
    }
    Ok(out)
}

fn parse_uuid(hex: &[u8]) -> Option<SessionUuid> {
    uuid::Uuid::try_parse_ascii(hex).ok().map(|u| SessionUuid(u.into_bytes()))
}
