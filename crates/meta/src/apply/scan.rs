//! Pages for jobs: nothing is enlisted, nobody is asked.

use super::layout::At;
use super::load::{bucket, list, quota};
use super::{Context, Kv, Result, layout};
use crate::store::{DeadInode, ScanPage, ScanRequest, Scanned};
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
        ScanRequest::DeadInodes { limit, all } => page.found = dead_inodes(kv, at.now, *limit, *all)?,
        ScanRequest::DeadObjects { limit, all } => page.found = dead_objects(kv, at.now, *limit, *all)?,
        ScanRequest::Volumes { after, limit } => page.found = volumes(kv, after.as_deref(), *limit)?,
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

/// The end of what is due at `now` in a queue.
fn due_end(prefix: u8, now: Timestamp) -> Vec<u8> {
    At::new(prefix).u64((now.0 as u64).saturating_add(1)).done()
}

fn dead_inodes<K: Kv + ?Sized>(kv: &K, now: Timestamp, limit: usize, all: bool) -> Result<Vec<Scanned>> {
    let end = if all { At::new(b'l').done() } else { due_end(b'k', now) };
    let pairs = kv.range(&At::new(b'k').done(), &end, limit)?;
    pairs
        .iter()
        .map(|(key, _)| {
            let due = Timestamp(layout::parse_u64(key.get(1..9).unwrap_or_default())? as i64);
            let ino = InodeNo(layout::parse_u64(key.get(9..).unwrap_or_default())?);
            Ok(Scanned::DeadInode(DeadInode { ino, due }))
        })
        .collect()
}

fn dead_objects<K: Kv + ?Sized>(kv: &K, now: Timestamp, limit: usize, all: bool) -> Result<Vec<Scanned>> {
    let end = if all { At::new(b'h').done() } else { due_end(b'g', now) };
    let pairs = kv.range(&At::new(b'g').done(), &end, limit)?;
    pairs
        .iter()
        .map(|(key, _)| {
            let (due, object) = layout::parse_dead_object(key)?;
            Ok(Scanned::DeadObject(object, due))
        })
        .collect()
}

fn volumes<K: Kv + ?Sized>(kv: &K, after: Option<&str>, limit: usize) -> Result<Vec<Scanned>> {
    let from = match after {
        Some(id) => At::new(b'v').bytes(id.as_bytes()).bytes(&[0]),
        None => At::new(b'v'),
    };
    let pairs = kv.range(&from.done(), &At::new(b'w').done(), limit)?;
    pairs
        .into_iter()
        .map(|(key, record)| {
            let id = String::from_utf8(key[1..].to_vec()).map_err(|_| layout::damaged("volume id"))?;
            Ok(Scanned::Volume(id, record))
        })
        .collect()
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
