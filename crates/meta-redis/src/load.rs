//! A snapshot as arguments of the load script, and its answer.

use crate::commit::begin;
use crate::names::{Names, after, exactly, parse_bucket_field, parse_member, watch_text};
use crate::reply;
use crate::script::{KeyIndex, LOAD, Request};
use bytes::Bytes;
use carafe_meta::store::{
    DirEntry, Key, LoadRequest, Loaded, QuotaState, SessionRef, StoreError, WatchKey, Watched,
};
use carafe_types::{BucketNo, FileKind, InodeNo};
use redis::Value;
use std::collections::BTreeMap;

/// Redis wants a signed 32-bit count in some places; no directory page is that long.
const LONGEST: usize = 1 << 30;

/// A load, and what is needed to read its answer.
pub(crate) struct Encoded {
    pub(crate) request: Request,
    /// All keys that are read or watched, and whether they are watched.
    keys: BTreeMap<WatchKey, bool>,
}

/// Writes the arguments down.
pub(crate) fn encode(names: &Names, session: &SessionRef, who: &str, load: &LoadRequest) -> Encoded {
    let keys = [names.root(), names.sessions(), names.session(session.no), names.quotas()];
    let mut seen = KeyIndex::default();
    keys.iter().enumerate().for_each(|(i, k)| seen.declare(k, i + 1));
    let mut r = Request::new(&LOAD, keys);
    begin(&mut r, session, who);
    r.num(load.records.len());
    for key in &load.records {
        let (key, field) = names.record(key);
        r.key(&mut seen, key).arg(field);
    }
    r.num(load.buckets.len());
    for b in &load.buckets {
        r.key(&mut seen, names.bucket(*b));
    }
    r.num(load.names.len());
    for (dir, name) in &load.names {
        let (from, to) = exactly(name);
        r.key(&mut seen, names.entries(*dir)).arg(from).arg(to);
    }
    r.num(load.lists.len());
    for list in &load.lists {
        let from = after(list.after.as_ref());
        r.key(&mut seen, names.entries(list.dir)).arg(from).num(list.limit.min(LONGEST));
    }
    r.num(load.quotas.len());
    for q in &load.quotas {
        r.num(q.0);
    }
    let keys = read_keys(load);
    r.num(keys.len());
    for (key, watch) in &keys {
        let (place, field) = names.watch(key);
        r.key(&mut seen, place).arg(field).arg(watch_text(key)).arg(if *watch { "1" } else { "0" });
    }
    Encoded { request: r, keys }
}

fn read_keys(load: &LoadRequest) -> BTreeMap<WatchKey, bool> {
    let mut keys = BTreeMap::new();
    keys.extend(load.records.iter().filter_map(Key::watch_key).map(|k| (k, false)));
    keys.extend(load.buckets.iter().map(|b| (WatchKey::Bucket(*b), false)));
    keys.extend(load.names.iter().map(|(dir, _)| (WatchKey::Names(*dir), false)));
    keys.extend(load.lists.iter().map(|l| (WatchKey::Names(l.dir), false)));
    keys.extend(load.watch.iter().map(|k| (*k, true)));
    keys
}

impl Encoded {
    /// Reads the answer to `load`, which this was made from.
    pub(crate) fn decode(&self, load: &LoadRequest, value: Value) -> Result<Loaded, StoreError> {
        let (_, mut items) = reply::answer(value)?;
        let mut next = || reply::next(&mut items);
        let seq = reply::number(&next()?)?;
        let (secs, micros) = (next()?, next()?);
        let mut out = Loaded { seq, time: reply::time(&secs, &micros)?, ..Loaded::default() };
        out.records = reply::array(next()?)?.into_iter().map(reply::optional).collect::<Result<_, _>>()?;
        let buckets = reply::array(next()?)?.into_iter().zip(&load.buckets);
        out.buckets = buckets.map(|(v, b)| bucket(*b, v)).collect::<Result<_, _>>()?;
        out.names = reply::array(next()?)?.into_iter().map(name).collect::<Result<_, _>>()?;
        out.lists = reply::array(next()?)?.into_iter().map(list).collect::<Result<_, _>>()?;
        out.quotas = reply::array(next()?)?.into_iter().map(quota).collect::<Result<_, _>>()?;
        let standing = reply::bytes(next()?)?;
        self.stand(load, &standing, &mut out)?;
        Ok(out)
    }

    fn stand(&self, load: &LoadRequest, standing: &[u8], out: &mut Loaded) -> Result<(), StoreError> {
        if standing.len() != self.keys.len() {
            return Err(reply::odd("how the session stands", &Value::BulkString(standing.to_vec())));
        }
        let by_key: BTreeMap<&WatchKey, u8> = self.keys.keys().zip(standing.iter().copied()).collect();
        out.held = by_key.iter().filter(|(_, s)| **s == b'-').map(|(k, _)| **k).collect();
        let sole = |key| if by_key.get(key) == Some(&b'!') { Watched::Sole } else { Watched::Shared };
        out.watched = load.watch.iter().map(sole).collect();
        Ok(())
    }
}

/// The records of a bucket.
pub(crate) fn bucket(b: BucketNo, value: Value) -> Result<Vec<(Key, Bytes)>, StoreError> {
    let mut out = Vec::new();
    for (field, value) in reply::pairs(value)? {
        if let Some(key) = parse_bucket_field(b, &field)? {
            out.push((key, value));
        }
    }
    Ok(out)
}

/// What a name leads to.
pub(crate) fn name(value: Value) -> Result<Option<(FileKind, InodeNo)>, StoreError> {
    let member = reply::optional(value)?;
    member.map(|m| parse_member(&m).map(|e| (e.kind, e.ino))).transpose()
}

/// A page of names.
pub(crate) fn list(value: Value) -> Result<Vec<DirEntry>, StoreError> {
    reply::array(value)?.into_iter().map(|v| parse_member(&reply::bytes(v)?)).collect()
}

/// The arguments of a page of names, for a plain command.
pub(crate) fn list_command(names: &Names, request: &carafe_meta::store::ListRequest) -> redis::Cmd {
    let mut cmd = redis::cmd("ZRANGEBYLEX");
    cmd.arg(names.entries(request.dir)).arg(after(request.after.as_ref())).arg("+");
    cmd.arg("LIMIT").arg(0).arg(request.limit.min(LONGEST));
    cmd
}

/// Record, bytes left, inodes left, reserved. It exists if it has counters.
fn quota(value: Value) -> Result<Option<QuotaState>, StoreError> {
    let mut items = reply::array(value)?.into_iter();
    let record = reply::optional(reply::next(&mut items)?)?.unwrap_or_default();
    let left_bytes = reply::next(&mut items)?;
    if left_bytes == Value::Nil {
        return Ok(None);
    }
    let mut counter = || reply::number(&reply::next(&mut items)?);
    let (left_inodes, reserved) = (counter()?, counter()?);
    Ok(Some(QuotaState { record, left_bytes: reply::number(&left_bytes)?, left_inodes, reserved }))
}
