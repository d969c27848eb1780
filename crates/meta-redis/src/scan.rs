//! Pages for jobs, by plain commands: nothing is enlisted, nobody is asked.

use crate::link::Link;
use crate::load::{bucket, list, list_command};
use crate::names::{Names, parse_object};
use crate::reply;
use crate::script::{DUE, Request, SWEEP};
use bytes::Bytes;
use carafe_meta::store::{DeadInode, Key, QuotaState, ScanPage, ScanRequest, Scanned, StoreError};
use carafe_types::{InodeNo, QuotaId, Timestamp};
use redis::{Pipeline, Value, cmd};
use std::collections::BTreeMap;

type Result<T> = std::result::Result<T, StoreError>;

/// Reads a page.
pub(crate) async fn scan(link: &Link, names: &Names, request: &ScanRequest) -> Result<ScanPage> {
    match request {
        ScanRequest::Records(keys) => records(link, names, keys).await,
        ScanRequest::Names(request) => {
            let mut pipe = Pipeline::new();
            pipe.add_command(list_command(names, request));
            let (time, mut values) = timed(link, pipe, 1).await?;
            let found = list(values.remove(0))?.into_iter().map(Scanned::Name).collect();
            Ok(ScanPage { found, next: None, time })
        }
        ScanRequest::Buckets { cursor, limit } => buckets(link, names, *cursor, *limit).await,
        ScanRequest::DeadInodes { limit, from } => dead_inodes(link, names, *limit, *from).await,
        ScanRequest::DeadObjects { limit, from } => dead_objects(link, names, *limit, *from).await,
        ScanRequest::Volumes { after, limit } => {
            registry(link, names.volumes(), Scanned::Volume, after.as_deref(), *limit).await
        }
        ScanRequest::Snapshots { after, limit } => {
            registry(link, names.snapshots(), Scanned::Snapshot, after.as_deref(), *limit).await
        }
        ScanRequest::Quotas => {
            let mut pipe = Pipeline::new();
            pipe.cmd("HGETALL").arg(names.quotas());
            let (time, mut values) = timed(link, pipe, 1).await?;
            let found = quotas(values.remove(0))?.into_iter().map(|(id, q)| Scanned::Quota(id, q)).collect();
            Ok(ScanPage { found, next: None, time })
        }
    }
}

/// Runs `count` commands and asks for the time.
async fn timed(link: &Link, mut pipe: Pipeline, count: usize) -> Result<(Timestamp, Vec<Value>)> {
    pipe.cmd("TIME");
    let mut values = link.pipeline(&pipe, count + 1).await?;
    let time = reply::array(values.pop().unwrap_or_default())?;
    let [secs, micros] = time.as_slice() else { return Err(reply::odd("the time", &Value::Array(time))) };
    Ok((reply::time(secs, micros)?, values))
}

async fn records(link: &Link, names: &Names, keys: &[Key]) -> Result<ScanPage> {
    let mut pipe = Pipeline::new();
    for key in keys {
        let (key, field) = names.record(key);
        pipe.cmd("HGET").arg(key).arg(field);
    }
    let (time, values) = timed(link, pipe, keys.len()).await?;
    let found =
        values.into_iter().map(|v| Ok(Scanned::Record(reply::optional(v)?))).collect::<Result<_>>()?;
    Ok(ScanPage { found, next: None, time })
}

async fn buckets(link: &Link, names: &Names, cursor: u64, limit: usize) -> Result<ScanPage> {
    let mut scan = cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(names.pattern("i")).arg("COUNT").arg(limit.clamp(10, 10_000));
    let mut page = reply::array(link.command(&scan, link.usual()).await?)?.into_iter();
    let next: u64 = reply::number(&reply::next(&mut page)?)?;
    let mut pipe = Pipeline::new();
    let mut numbers = Vec::new();
    for key in reply::array(reply::next(&mut page)?)? {
        let key = reply::bytes(key)?;
        if let Some(b) = names.bucket_of_key(&key) {
            pipe.cmd("HGETALL").arg(key.as_ref());
            numbers.push(b);
        }
    }
    let (time, values) = timed(link, pipe, numbers.len()).await?;
    let mut found = Vec::new();
    let mut empty = Vec::new();
    for (b, value) in numbers.into_iter().zip(values) {
        let records = bucket(b, value)?;
        if records.is_empty() {
            empty.push(names.bucket(b));
        } else {
            found.push(Scanned::Bucket(b, records));
        }
    }
    if !empty.is_empty() {
        let fixed = [names.root(), names.sessions()];
        link.run(&Request::new(&SWEEP, fixed.into_iter().chain(empty))).await?;
    }
    Ok(ScanPage { found, next: (next != 0).then_some(next), time })
}

/// Members of a queue with their due times.
async fn due(
    link: &Link,
    queue: String,
    limit: usize,
    from: Option<Timestamp>,
) -> Result<(Timestamp, Vec<(Bytes, Timestamp)>)> {
    let mut request = Request::new(&DUE, [queue]);
    let micros = from.map(|from| (from.0.max(0) / 1000).to_string());
    request.num(limit.min(1 << 30)).arg(micros.unwrap_or_default());
    let mut items = reply::array(link.run(&request).await?)?.into_iter();
    let (secs, micros) = (reply::next(&mut items)?, reply::next(&mut items)?);
    let time = reply::time(&secs, &micros)?;
    let mut flat = reply::array(reply::next(&mut items)?)?.into_iter();
    let mut out = Vec::new();
    while let (Some(member), Some(score)) = (flat.next(), flat.next()) {
        out.push((reply::bytes(member)?, reply::score(&score)?));
    }
    Ok((time, out))
}

async fn dead_inodes(link: &Link, names: &Names, limit: usize, from: Option<Timestamp>) -> Result<ScanPage> {
    let (time, queue) = due(link, names.dead_inodes(), limit, from).await?;
    let inode = |(member, due): (Bytes, Timestamp)| {
        let ino = InodeNo(reply::number(&Value::BulkString(member.to_vec()))?);
        Ok(Scanned::DeadInode(DeadInode { ino, due }))
    };
    Ok(ScanPage { found: queue.into_iter().map(inode).collect::<Result<_>>()?, next: None, time })
}

async fn dead_objects(link: &Link, names: &Names, limit: usize, from: Option<Timestamp>) -> Result<ScanPage> {
    let (time, queue) = due(link, names.dead_objects(), limit, from).await?;
    let object = |(member, due): (Bytes, Timestamp)| Ok(Scanned::DeadObject(parse_object(&member)?, due));
    Ok(ScanPage { found: queue.into_iter().map(object).collect::<Result<_>>()?, next: None, time })
}

/// A hash has no order: the ids are sorted here. A store has thousands of volumes at most.
async fn registry(
    link: &Link,
    hash: String,
    scanned: fn(String, Bytes) -> Scanned,
    after: Option<&str>,
    limit: usize,
) -> Result<ScanPage> {
    let mut pipe = Pipeline::new();
    pipe.cmd("HKEYS").arg(&hash);
    let (time, mut values) = timed(link, pipe, 1).await?;
    let mut ids = Vec::new();
    for id in reply::array(values.remove(0))? {
        ids.push(reply::text(id)?);
    }
    ids.retain(|id| after.is_none_or(|after| id.as_str() > after));
    ids.sort_unstable();
    let mut page = ScanPage { time, ..ScanPage::default() };
    let mut rest = ids.as_slice();
    // Records that were deleted since are passed over: a short page would mean the end.
    while page.found.len() < limit && !rest.is_empty() {
        let (now, later) = rest.split_at((limit - page.found.len()).min(rest.len()));
        rest = later;
        let mut get = cmd("HMGET");
        get.arg(&hash).arg(now);
        for (id, value) in now.iter().zip(reply::array(link.command(&get, link.usual()).await?)?) {
            if let Some(record) = reply::optional(value)? {
                page.found.push(scanned(id.clone(), record));
            }
        }
    }
    Ok(page)
}

/// All quotas from the fields `<q>`, `<q>b`, `<q>i`, `<q>r`, in order of their number.
pub(crate) fn quotas(value: Value) -> Result<Vec<(QuotaId, QuotaState)>> {
    let mut found: BTreeMap<QuotaId, (QuotaState, bool)> = BTreeMap::new();
    for (field, value) in reply::pairs(value)? {
        let bad =
            || StoreError::Engine(format!("the quotas have the unknown field {}", field.escape_ascii()));
        let digits = field.iter().take_while(|c| c.is_ascii_digit()).count();
        let number =
            std::str::from_utf8(&field[..digits]).ok().and_then(|n| n.parse().ok()).ok_or_else(bad)?;
        let nothing = QuotaState { record: Bytes::new(), left_bytes: 0, left_inodes: 0, reserved: 0 };
        let (state, exists) = found.entry(QuotaId(number)).or_insert((nothing, false));
        let counter = || reply::number(&Value::BulkString(value.to_vec()));
        match &field[digits..] {
            b"" => state.record = value,
            b"b" => (state.left_bytes, *exists) = (counter()?, true),
            b"i" => state.left_inodes = counter()?,
            b"r" => state.reserved = counter()?,
            _ => return Err(bad()),
        }
    }
    Ok(found.into_iter().filter(|(_, (_, exists))| *exists).map(|(id, (state, _))| (id, state)).collect())
}
