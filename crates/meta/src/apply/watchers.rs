//! Watcher lists: who may cache a key, who may do so alone, who flushes below it.

use super::layout::{self, damaged};
use super::session::is_alive;
use super::{Applied, Context, Kv, Result, check_session};
use crate::store::{SessionRef, WatchChange, WatchKey, Watched};
use carafe_types::SessionNo;

const SOLE: u8 = 1;
const FLUSHING: u8 = 2;

#[derive(Clone, Copy, Debug)]
pub(super) struct Watcher {
    pub(super) sid: SessionNo,
    pub(super) sole: bool,
    pub(super) flushing: bool,
}

/// The living watchers of a key. Dead ones are left out, and so vanish when the list is next written.
#[derive(Debug)]
pub(super) struct Watchers(Vec<Watcher>);

impl Watchers {
    pub(super) fn read<K: Kv + ?Sized>(kv: &K, at: &Context, key: &WatchKey) -> Result<Self> {
        let mut list = Vec::new();
        let Some(bytes) = kv.get(&layout::watch(key))? else { return Ok(Watchers(list)) };
        for one in bytes.chunks(5) {
            let (number, mark) = one.split_last_chunk::<1>().ok_or_else(|| damaged("watcher list"))?;
            let number = number.try_into().map_err(|_| damaged("watcher list"))?;
            let sid = SessionNo(u32::from_be_bytes(number));
            if is_alive(kv, at, sid)? {
                list.push(Watcher { sid, sole: mark[0] & SOLE != 0, flushing: mark[0] & FLUSHING != 0 });
            }
        }
        Ok(Watchers(list))
    }

    pub(super) fn write<K: Kv + ?Sized>(&self, kv: &mut K, key: &WatchKey) -> Result<()> {
        if self.0.is_empty() {
            return kv.delete(&layout::watch(key));
        }
        let mut out = Vec::with_capacity(self.0.len() * 5);
        for w in &self.0 {
            out.extend_from_slice(&w.sid.0.to_be_bytes());
            out.push(if w.sole { SOLE } else { 0 } | if w.flushing { FLUSHING } else { 0 });
        }
        kv.put(&layout::watch(key), &out)
    }

    /// The other session that holds the key alone.
    pub(super) fn other_sole(&self, me: SessionNo) -> Option<SessionNo> {
        self.0.iter().find(|w| w.sole && w.sid != me).map(|w| w.sid)
    }

    pub(super) fn others(&self, me: SessionNo) -> impl Iterator<Item = &Watcher> {
        self.0.iter().filter(move |w| w.sid != me)
    }

    /// Enlists `me`; the caller has seen that nobody else holds the key alone.
    pub(super) fn enlist(&mut self, me: SessionNo) -> Watched {
        let sole = self.others(me).next().is_none();
        match self.0.iter_mut().find(|w| w.sid == me) {
            Some(mine) => mine.sole = sole,
            None => self.0.push(Watcher { sid: me, sole, flushing: false }),
        }
        if sole { Watched::Sole } else { Watched::Shared }
    }

    fn change(&mut self, me: SessionNo, change: WatchChange) {
        if change == WatchChange::Leave {
            self.0.retain(|w| w.sid != me);
        }
        let Some(mine) = self.0.iter_mut().find(|w| w.sid == me) else { return };
        match change {
            WatchChange::Share => mine.sole = false,
            WatchChange::SetFlushing => mine.flushing = true,
            WatchChange::ClearFlushing => mine.flushing = false,
            WatchChange::Leave => {}
        }
    }
}

/// Changes the marks of a session in watcher lists.
///
/// # Errors
/// `Fenced`, `Generation`, `NotFormatted`; those of the engine.
pub fn watch<K: Kv + ?Sized>(
    kv: &mut K,
    at: &Context,
    session: &SessionRef,
    changes: &[(WatchKey, WatchChange)],
) -> Result<Applied<()>> {
    check_session(kv, at, session)?;
    for (key, change) in changes {
        let mut list = Watchers::read(kv, at, key)?;
        list.change(session.no, *change);
        list.write(kv, key)?;
    }
    Ok(Applied::silent(()))
}
