//! The writes and merges of a transaction that was found good.

use super::load::counters;
use super::{Context, Kv, Result, layout};
use crate::store::{DeadObject, Key, Write};
use carafe_types::record::DirTimes;
use carafe_types::{InodeNo, QuotaId, SessionNo, Timestamp};

pub(super) fn apply<K: Kv + ?Sized>(kv: &mut K, at: &Context, me: SessionNo, write: &Write) -> Result<()> {
    match write {
        Write::Put(key, value) => kv.put(&layout::record(key), value),
        Write::Delete(key) => kv.delete(&layout::record(key)),
        Write::Link(dir, (name, kind, ino)) => {
            kv.put(&layout::entry(*dir, name), &layout::entry_value(*kind, *ino))
        }
        Write::Unlink(dir, (name, ..)) => kv.delete(&layout::entry(*dir, name)),
        Write::Touch(dir) => {
            kv.put(&layout::record(&Key::DirTimes(*dir)), &DirTimes::Touched(at.now).encode())
        }
        Write::AddSubdirs(dir, by) => add_decimal(kv, &Key::DirSubdirs(*dir), *by).map(drop),
        Write::Retain(slice) => add_decimal(kv, &Key::SliceOwners(*slice), 1).map(drop),
        Write::Release { object, after_ms } => release(kv, object, later(at.now, *after_ms)),
        Write::PackLive { object, by, after_ms } => pack_live(kv, object, *by, later(at.now, *after_ms)),
        Write::QueueDead(ino, after_ms) => queue_inode(kv, *ino, Some(later(at.now, *after_ms))),
        Write::UnqueueDead(ino) => queue_inode(kv, *ino, None),
        Write::QueueObject(object, after_ms) => queue_object(kv, object, Some(later(at.now, *after_ms))),
        Write::UnqueueObject(object) => queue_object(kv, object, None),
        Write::HoldOpen(ino) => hold_open(kv, me, *ino, true),
        Write::DropOpen(ino) => hold_open(kv, me, *ino, false),
        Write::Reserve(quota, by) => reserve(kv, me, *quota, *by),
        Write::InitQuota(quota, Some((bytes, inodes))) => {
            kv.put(&layout::counters(*quota), &encode_counters([*bytes, *inodes, 0]))
        }
        Write::InitQuota(quota, None) => kv.delete(&layout::counters(*quota)),
    }
}

fn later(now: Timestamp, after_ms: u64) -> Timestamp {
    let nanos = i64::try_from(after_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000);
    Timestamp(now.0.saturating_add(nanos))
}

/// Adds to a number kept as decimal text, and removes it at 0.
fn add_decimal<K: Kv + ?Sized>(kv: &mut K, key: &Key, by: i64) -> Result<i64> {
    let place = layout::record(key);
    let sum = layout::decimal(kv.get(&place)?)?.saturating_add(by);
    if sum == 0 {
        kv.delete(&place)?;
    } else {
        kv.put(&place, sum.to_string().as_bytes())?;
    }
    Ok(sum)
}

fn release<K: Kv + ?Sized>(kv: &mut K, object: &DeadObject, due: Timestamp) -> Result<()> {
    let owners = Key::SliceOwners(object.slice);
    if add_decimal(kv, &owners, -1)? >= 0 {
        return Ok(());
    }
    kv.delete(&layout::record(&owners))?;
    queue_object(kv, object, Some(due))
}

fn pack_live<K: Kv + ?Sized>(kv: &mut K, object: &DeadObject, by: i64, due: Timestamp) -> Result<()> {
    let key = Key::PackLive(object.slice);
    let sum = add_decimal(kv, &key, by)?;
    if sum <= 0 {
        kv.delete(&layout::record(&key))?;
        return queue_object(kv, object, Some(due));
    }
    if sum == by {
        // It began at 0, or was found dead a moment ago and lives again.
        queue_object(kv, object, None)?;
    }
    Ok(())
}

fn queue_inode<K: Kv + ?Sized>(kv: &mut K, ino: InodeNo, due: Option<Timestamp>) -> Result<()> {
    let place = layout::dead_inode(ino);
    if let Some(old) = kv.get(&place)? {
        let old = Timestamp(layout::parse_u64(&old)? as i64);
        kv.delete(&layout::dead_inode_at(old, ino))?;
    }
    let Some(due) = due else { return kv.delete(&place) };
    kv.put(&place, &due.0.to_be_bytes())?;
    kv.put(&layout::dead_inode_at(due, ino), &[])
}

fn queue_object<K: Kv + ?Sized>(kv: &mut K, object: &DeadObject, due: Option<Timestamp>) -> Result<()> {
    let place = layout::dead_object(object);
    if let Some(old) = kv.get(&place)? {
        let old = Timestamp(layout::parse_u64(&old)? as i64);
        kv.delete(&layout::dead_object_at(old, object))?;
    }
    let Some(due) = due else { return kv.delete(&place) };
    kv.put(&place, &due.0.to_be_bytes())?;
    kv.put(&layout::dead_object_at(due, object), &[])
}

fn hold_open<K: Kv + ?Sized>(kv: &mut K, me: SessionNo, ino: InodeNo, hold: bool) -> Result<()> {
    let place = layout::record(&Key::OpenHolders(ino));
    let old = kv.get(&place)?.unwrap_or_default();
    let text = std::str::from_utf8(&old).map_err(|_| layout::damaged("list of holders"))?;
    let mine = me.0.to_string();
    let others = text.split(';').filter(|sid| !sid.is_empty() && *sid != mine);
    let mut new: String = others.map(|sid| format!(";{sid}")).collect();
    if hold {
        new.push_str(&format!(";{mine}"));
    }
    if new.is_empty() { kv.delete(&place) } else { kv.put(&place, new.as_bytes()) }
}

fn reserve<K: Kv + ?Sized>(kv: &mut K, me: SessionNo, quota: QuotaId, by: i64) -> Result<()> {
    add_counters(kv, quota, [0, 0, by])?;
    let place = layout::reserve(me, quota);
    let old = kv.get(&place)?.map(|v| layout::parse_u64(&v)).transpose()?.unwrap_or(0) as i64;
    let sum = old.saturating_add(by);
    if sum == 0 { kv.delete(&place) } else { kv.put(&place, &sum.to_be_bytes()) }
}

/// Adds to the counters of a quota that exists.
pub(super) fn add_counters<K: Kv + ?Sized>(kv: &mut K, quota: QuotaId, by: [i64; 3]) -> Result<()> {
    let Some(mut now) = counters(kv, quota)? else { return Ok(()) };
    for (n, by) in now.iter_mut().zip(by) {
        *n = n.saturating_add(by);
    }
    kv.put(&layout::counters(quota), &encode_counters(now))
}

pub(super) fn encode_counters(counters: [i64; 3]) -> Vec<u8> {
    counters.iter().flat_map(|n| n.to_be_bytes()).collect()
}
