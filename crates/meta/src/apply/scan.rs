//! Pages for jobs: nothing is enlisted, nobody is asked.

use super::layout::At;
use super::load::{bucket, list, quota};
use super::{Context, Kv, Result, layout};
use crate::store::{DeadInode, ScanPage, ScanRequest, Scanned};
use bytes::Bytes;
use carafe_types::{BucketNo, InodeNo, QuotaId, Timestamp};

/// Reads a page.
///
/// # Errors
/// Those of the engine.
pub fn scan<K: Kv + ?Sized>(kv: &K, at: &Context, request: &ScanRequest) -> Result<ScanPage> {
    let mut page = ScanPage { time: at.now, ..ScanPage::default() };
    match request {
        ScanRequest::Records(keys) => {
            for key in keys {
                page.found.push(Scanned::Record(kv.get(&layout::record(key))?));
            }
        }
        ScanRequest::Names(request) => {
            page.found.extend(list(kv, request)?.into_iter().map(Scanned::Name));
        }
        ScanRequest::Buckets { cursor, limit } => page.next = buckets(kv, *cursor, *limit, &mut page.found)?,
        ScanRequest::DeadInodes { limit, from } => page.found = dead_inodes(kv, at.now, *limit, *from)?,
        ScanRequest::DeadObjects { limit, from } => page.found = dead_objects(kv, at.now, *limit, *from)?,
        ScanRequest::Volumes { after, limit } => {
            let volume = |(id, record)| Scanned::Volume(id, record);
            page.found.extend(registry(kv, b'v', after.as_deref(), *limit)?.into_iter().map(volume));
        }
        ScanRequest::Snapshots { after, limit } => {
            let snapshot = |(id, record)| Scanned::Snapshot(id, record);
            page.found.extend(registry(kv, b'n', after.as_deref(), *limit)?.into_iter().map(snapshot));
        }
        ScanRequest::Quotas => {
            page.found = quotas(kv)?.into_iter().map(|(id, state)| Scanned::Quota(id, state)).collect();
        }
    }
    Ok(page)
}

/// Buckets in order of their number; the cursor is the number to go on from.
fn buckets<K: Kv + ?Sized>(
    kv: &K,
    cursor: u64,
    limit: usize,
    found: &mut Vec<Scanned>,
) -> Result<Option<u64>> {
    let mut from = cursor;
    let end = At::new(b'j').done();
    for _ in 0..limit.max(1) {
        let first = kv.range(&At::new(b'i').u64(from << 6).done(), &end, 1)?;
        let Some((key, _)) = first.first() else { return Ok(None) };
        let number = key.get(1..9).ok_or_else(|| layout::damaged("bucket key"))?;
        let b = InodeNo(layout::parse_u64(number)?).bucket();
        found.push(Scanned::Bucket(b, bucket(kv, b)?));
        from = BucketNo(b.0 + 1).0;
    }
    Ok(Some(from))
}

/// What is asked of a queue: what is due at `now`, or all from a time on.
fn in_queue<K: Kv + ?Sized>(
    kv: &K,
    prefix: u8,
    now: Timestamp,
    limit: usize,
    from: Option<Timestamp>,
) -> Result<Vec<(Vec<u8>, Bytes)>> {
    let start = At::new(prefix).u64(from.unwrap_or_default().0 as u64).done();
    let end = match from {
        Some(_) => At::new(prefix + 1).done(),
        None => At::new(prefix).u64((now.0 as u64).saturating_add(1)).done(),
    };
    kv.range(&start, &end, limit)
}

fn dead_inodes<K: Kv + ?Sized>(
    kv: &K,
    now: Timestamp,
    limit: usize,
    from: Option<Timestamp>,
) -> Result<Vec<Scanned>> {
    in_queue(kv, b'k', now, limit, from)?
        .iter()
        .map(|(key, _)| {
            let due = Timestamp(layout::parse_u64(key.get(1..9).unwrap_or_default())? as i64);
            let ino = InodeNo(layout::parse_u64(key.get(9..).unwrap_or_default())?);
            Ok(Scanned::DeadInode(DeadInode { ino, due }))
        })
        .collect()
}

fn dead_objects<K: Kv + ?Sized>(
    kv: &K,
    now: Timestamp,
    limit: usize,
    from: Option<Timestamp>,
) -> Result<Vec<Scanned>> {
    in_queue(kv, b'g', now, limit, from)?
        .iter()
        .map(|(key, _)| {
            let (due, object) = layout::parse_dead_object(key)?;
            Ok(Scanned::DeadObject(object, due))
        })
        .collect()
}

/// Records that are kept by an id, in the order of ids.
fn registry<K: Kv + ?Sized>(
    kv: &K,
    prefix: u8,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<(String, Bytes)>> {
    let from = match after {
        Some(id) => At::new(prefix).bytes(id.as_bytes()).bytes(&[0]),
        None => At::new(prefix),
    };
    let pairs = kv.range(&from.done(), &At::new(prefix + 1).done(), limit)?;
    let id =
        |key: &[u8]| String::from_utf8(key[1..].to_vec()).map_err(|_| layout::damaged("id in the registry"));
    pairs.into_iter().map(|(key, record)| Ok((id(&key)?, record))).collect()
}

/// All quotas, in order of their number.
pub(super) fn quotas<K: Kv + ?Sized>(kv: &K) -> Result<Vec<(QuotaId, crate::store::QuotaState)>> {
    let mut out = Vec::new();
    for (key, _) in kv.range(&At::new(b'Q').done(), &At::new(b'R').done(), usize::MAX)? {
        let number = key.get(1..5).and_then(|n| n.try_into().ok()).ok_or_else(|| layout::damaged("quota"))?;
        let id = QuotaId(u32::from_be_bytes(number));
        if let Some(state) = quota(kv, id)? {
            out.push((id, state));
        }
    }
    Ok(out)
}
