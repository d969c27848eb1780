//! Snapshots with enlistment.

use super::watchers::Watchers;
use super::{Applied, Context, Kv, Result, check_session, layout};
use crate::store::{
    DirEntry, Key, ListRequest, LoadRequest, Loaded, Message, QuotaState, SessionRef, WatchKey, Watched,
};
use bytes::Bytes;
use carafe_types::{BucketNo, EntryName, FileKind, InodeNo, QuotaId};
use std::collections::BTreeSet;

/// Reads what is asked for and enlists the session.
///
/// # Errors
/// `Fenced`, `Generation`, `NotFormatted`; those of the engine.
pub fn load<K: Kv + ?Sized>(
    kv: &mut K,
    at: &Context,
    session: &SessionRef,
    request: &LoadRequest,
) -> Result<Applied<Loaded>> {
    check_session(kv, at, session)?;
    let mut answer = read(kv, at, request)?;
    let mut messages = Vec::new();
    for key in read_keys(request) {
        if let Some(holder) = Watchers::read(kv, at, &key)?.other_sole(session.no) {
            messages.push((holder, Message::Share(key)));
            answer.held.push(key);
        }
    }
    for key in &request.watch {
        let mut list = Watchers::read(kv, at, key)?;
        if list.other_sole(session.no).is_some() {
            answer.watched.push(Watched::Shared);
            continue;
        }
        answer.watched.push(list.enlist(session.no));
        list.write(kv, key)?;
    }
    Ok(Applied { answer, messages })
}

fn read<K: Kv + ?Sized>(kv: &K, at: &Context, request: &LoadRequest) -> Result<Loaded> {
    Ok(Loaded {
        seq: layout::counter(kv, "seq")?.unwrap_or(0),
        time: at.now,
        records: request.records.iter().map(|k| kv.get(&layout::record(k))).collect::<Result<_>>()?,
        buckets: request.buckets.iter().map(|b| bucket(kv, *b)).collect::<Result<_>>()?,
        names: request.names.iter().map(|(dir, name)| find(kv, *dir, name)).collect::<Result<_>>()?,
        lists: request.lists.iter().map(|l| list(kv, l)).collect::<Result<_>>()?,
        quotas: request.quotas.iter().map(|q| quota(kv, *q)).collect::<Result<_>>()?,
        watched: Vec::with_capacity(request.watch.len()),
        held: Vec::new(),
    })
}

/// Every key that the request reads from or watches, once.
fn read_keys(request: &LoadRequest) -> BTreeSet<WatchKey> {
    let mut keys: BTreeSet<WatchKey> = request.watch.iter().copied().collect();
    keys.extend(request.records.iter().filter_map(Key::watch_key));
    keys.extend(request.buckets.iter().map(|b| WatchKey::Bucket(*b)));
    keys.extend(request.names.iter().map(|(dir, _)| WatchKey::Names(*dir)));
    keys.extend(request.lists.iter().map(|l| WatchKey::Names(l.dir)));
    keys
}

pub(super) fn bucket<K: Kv + ?Sized>(kv: &K, b: BucketNo) -> Result<Vec<(Key, Bytes)>> {
    let (from, to) = layout::bucket(b);
    let pairs = kv.range(&from, &to, usize::MAX)?;
    pairs.into_iter().map(|(k, v)| Ok((layout::parse_bucket_key(&k)?, v))).collect()
}

pub(super) fn find<K: Kv + ?Sized>(
    kv: &K,
    dir: InodeNo,
    name: &EntryName,
) -> Result<Option<(FileKind, InodeNo)>> {
    kv.get(&layout::entry(dir, name))?.map(|v| layout::parse_entry(&v)).transpose()
}

pub(super) fn list<K: Kv + ?Sized>(kv: &K, request: &ListRequest) -> Result<Vec<DirEntry>> {
    let (from, to) = layout::entries(request.dir, request.after.as_ref());
    let pairs = kv.range(&from, &to, request.limit)?;
    pairs
        .into_iter()
        .map(|(k, v)| {
            let name = EntryName::new(&k[layout::ENTRY_NAME_AT..]).map_err(|_| layout::damaged("name"))?;
            let (kind, ino) = layout::parse_entry(&v)?;
            Ok(DirEntry { name, kind, ino })
        })
        .collect()
}

/// The three counters of a quota: bytes left, inodes left, bytes reserved.
pub(super) fn counters<K: Kv + ?Sized>(kv: &K, q: QuotaId) -> Result<Option<[i64; 3]>> {
    let Some(value) = kv.get(&layout::counters(q))? else { return Ok(None) };
    let mut out = [0i64; 3];
    for (n, bytes) in out.iter_mut().zip(value.chunks(8)) {
        *n = i64::from_be_bytes(bytes.try_into().map_err(|_| layout::damaged("quota"))?);
    }
    Ok(Some(out))
}

pub(super) fn quota<K: Kv + ?Sized>(kv: &K, q: QuotaId) -> Result<Option<QuotaState>> {
    let Some([left_bytes, left_inodes, reserved]) = counters(kv, q)? else { return Ok(None) };
    let record = kv.get(&layout::record(&Key::Quota(q)))?.unwrap_or_default();
    Ok(Some(QuotaState { record, left_bytes, left_inodes, reserved }))
}
