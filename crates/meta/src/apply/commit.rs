//! Checks and takes: everything that can refuse a transaction.

use super::load::{counters, find, list};
use super::watchers::Watchers;
use super::{Applied, Context, Kv, Result, check_session, layout, write};
use crate::store::{
    Check, Commit, Done, Failed, Fresh, ListRequest, Outcome, SessionRef, StoreError, Take, WatchKey, Write,
};
use carafe_types::{EntryName, InodeNo, QuotaId, SessionNo};
use std::collections::{BTreeMap, BTreeSet};

/// Applies a transaction: all or nothing.
///
/// # Errors
/// `Fenced`, `Generation`, `NotFormatted`; those of the engine. [`StoreError::Engine`] for a transaction that adds a name
/// which is there, or removes one which is not: its author forgot a check.
pub fn commit<K: Kv + ?Sized>(
    kv: &mut K,
    at: &Context,
    session: &SessionRef,
    commit: &Commit,
) -> Result<Applied<Outcome>> {
    check_session(kv, at, session)?;
    if let Some(refusal) = refuse(kv, at, session.no, commit)? {
        return Ok(Applied::silent(refusal));
    }
    refuse_blind_names(kv, commit)?;
    let seq = layout::counter(kv, "seq")?.unwrap_or(0) + 1;
    layout::set_counter(kv, "seq", seq)?;
    take(kv, commit)?;
    for one in &commit.writes {
        write::apply(kv, at, session.no, one)?;
    }
    for key in &commit.enlist {
        let mut list = Watchers::read(kv, at, key)?;
        list.enlist(session.no);
        list.write(kv, key)?;
    }
    let answer = Outcome::Done(Done { seq, time: at.now });
    Ok(Applied { answer, messages: commit.notify.clone() })
}

fn refuse<K: Kv + ?Sized>(kv: &K, at: &Context, me: SessionNo, commit: &Commit) -> Result<Option<Outcome>> {
    let held = held(kv, at, me, commit)?;
    if !held.is_empty() {
        return Ok(Some(Outcome::Held(held)));
    }
    let checked: Vec<Failed> = commit.checks.iter().map(|c| check(kv, at, me, c)).collect::<Result<_>>()?;
    if checked.iter().any(|c| c.failed) {
        return Ok(Some(Outcome::Conflict(checked)));
    }
    for (quota, (bytes, inodes)) in sum_takes(&commit.takes) {
        let [left_bytes, left_inodes, _] = counters(kv, quota)?.unwrap_or_default();
        let short = |left: i64, take: i64| take > 0 && left.saturating_sub(take) < 0;
        if short(left_bytes, bytes) || short(left_inodes, inodes) {
            return Ok(Some(Outcome::NoSpace(quota)));
        }
    }
    if commit.take_inline > 0 && inline_left(kv)?.saturating_sub(commit.take_inline) < 0 {
        return Ok(Some(Outcome::NoInlineSpace));
    }
    Ok(None)
}

/// Keys that another session holds alone and this transaction would change, or that it would begin though others stand there.
fn held<K: Kv + ?Sized>(kv: &K, at: &Context, me: SessionNo, commit: &Commit) -> Result<Vec<WatchKey>> {
    let written: BTreeSet<WatchKey> = commit.writes.iter().filter_map(Write::watch_key).collect();
    let mut held = Vec::new();
    for key in &written {
        if Watchers::read(kv, at, key)?.other_sole(me).is_some() {
            held.push(*key);
        }
    }
    for key in &commit.enlist {
        if !held.contains(key) && Watchers::read(kv, at, key)?.others(me).next().is_some() {
            held.push(*key);
        }
    }
    Ok(held)
}

fn check<K: Kv + ?Sized>(kv: &K, at: &Context, me: SessionNo, check: &Check) -> Result<Failed> {
    Ok(match check {
        Check::Same(key, want) => {
            let found = kv.get(&layout::record(key))?;
            Failed { failed: found != *want, fresh: Fresh::Record(found) }
        }
        Check::HasName(dir, name, kind, ino) => {
            let found = find(kv, *dir, name)?;
            Failed { failed: found != Some((*kind, *ino)), fresh: Fresh::Name(found) }
        }
        Check::NoName(dir, name) => {
            let found = find(kv, *dir, name)?;
            Failed { failed: found.is_some(), fresh: Fresh::Name(found) }
        }
        Check::Empty(dir) => {
            let first = list(kv, &ListRequest { dir: *dir, after: None, limit: 1 })?;
            Failed { failed: !first.is_empty(), fresh: Fresh::Empty(first.is_empty()) }
        }
        Check::Alone(key) => watchers(kv, at, me, key, false)?,
        Check::AloneOrFlushing(key) => watchers(kv, at, me, key, true)?,
    })
}

fn watchers<K: Kv + ?Sized>(
    kv: &K,
    at: &Context,
    me: SessionNo,
    key: &WatchKey,
    flushing_is_fine: bool,
) -> Result<Failed> {
    let list = Watchers::read(kv, at, key)?;
    let in_the_way: Vec<SessionNo> =
        list.others(me).filter(|w| !(flushing_is_fine && w.flushing)).map(|w| w.sid).collect();
    Ok(Failed { failed: !in_the_way.is_empty(), fresh: Fresh::Watchers(in_the_way) })
}

fn sum_takes(takes: &[Take]) -> BTreeMap<QuotaId, (i64, i64)> {
    let mut sums: BTreeMap<QuotaId, (i64, i64)> = BTreeMap::new();
    for t in takes {
        let sum = sums.entry(t.quota).or_default();
        *sum = (sum.0.saturating_add(t.bytes), sum.1.saturating_add(t.inodes));
    }
    sums
}

fn inline_left<K: Kv + ?Sized>(kv: &K) -> Result<i64> {
    Ok(layout::counter(kv, "inline-left")?.unwrap_or(0) as i64)
}

fn take<K: Kv + ?Sized>(kv: &mut K, commit: &Commit) -> Result<()> {
    for (quota, (bytes, inodes)) in sum_takes(&commit.takes) {
        // What is given back to a quota that is gone (its volume was deleted) has nowhere to go.
        write::add_counters(kv, quota, [bytes.saturating_neg(), inodes.saturating_neg(), 0])?;
    }
    if commit.take_inline != 0 {
        let left = inline_left(kv)?.saturating_sub(commit.take_inline);
        layout::set_counter(kv, "inline-left", left as u64)?;
    }
    Ok(())
}

/// A name that is added twice would be two entries on some engines and one on others.
fn refuse_blind_names<K: Kv + ?Sized>(kv: &K, commit: &Commit) -> Result<()> {
    let mut now: BTreeMap<(InodeNo, &EntryName), bool> = BTreeMap::new();
    for one in &commit.writes {
        let (dir, name, add, parts) = match one {
            Write::Link(dir, parts) => (*dir, &parts.0, true, parts),
            Write::Unlink(dir, parts) => (*dir, &parts.0, false, parts),
            _ => continue,
        };
        let present = match now.get(&(dir, name)) {
            Some(present) => *present,
            None => match find(kv, dir, name)? {
                Some(found) if !add && found != (parts.1, parts.2) => false,
                found => found.is_some(),
            },
        };
        if present == add {
            let what = if add { "adds a name that is there" } else { "removes a name that is not there" };
            return Err(StoreError::Engine(format!("a transaction {what}: {name:?} in directory {dir}")));
        }
        now.insert((dir, name), add);
    }
    Ok(())
}
