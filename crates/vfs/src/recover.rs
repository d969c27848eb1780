//! Taking up what a dead daemon left.
//!
//! The journal says what was accepted. It is worth something only to the same session in the same boot: another boot has
//! lost the cache's unsynced bytes, and a fenced session may not commit any more. Then it is discarded, loudly.
//! Otherwise every layer becomes a layer again, under a number of the new journal, and is flushed as if it had just been
//! closed. A commit whose answer the dead daemon did not live to hear is not done twice: the extents tell.

use crate::dirty::{Buffer, Layer, SliceBuf};
use crate::journal::{Entry, Log, Rebuilt, RebuiltLayer, replay};
use crate::local::key_of;
use crate::options::VfsOptions;
use crate::pieces::Piece;
use crate::vfs::{Vfs, VfsError};
use carafe_cache::{
    CacheError, Journal, JournalHeader, Recovered, Recovery, SEGMENT_BYTES_DEFAULT, SliceState,
};
use carafe_meta::Client;
use carafe_types::{FsError, FsResult, InodeNo, SessionNo, SessionUuid, SliceId};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// What was found, and the journal that goes on.
pub(crate) struct Left {
    pub(crate) log: Log,
    pub(crate) found: Option<Found>,
}

/// The dead daemon's records.
pub(crate) struct Found {
    rebuilt: Rebuilt,
    records: Recovered,
    /// Nothing of it may be committed any more, and why.
    void: Option<&'static str>,
}

/// The session that a cache directory's journal belongs to, if it can be resumed: to be given to the client.
///
/// # Errors
/// As the journal says.
pub fn resumable_session(o: &VfsOptions) -> Result<Option<SessionUuid>, CacheError> {
    let Some(dir) = o.cache.journal_dir() else { return Ok(None) };
    Ok(match recover(&dir, o.boot_id)? {
        Recovery::Live(found) => found.header().map(|h| SessionUuid(h.session_uuid)),
        Recovery::Nothing | Recovery::Stale(_) => None,
    })
}

fn recover(dir: &Path, boot_id: [u8; 16]) -> Result<Recovery, CacheError> {
    if dir.exists() { Journal::recover(dir, boot_id) } else { Ok(Recovery::Nothing) }
}

/// Reads what is left, and begins a new journal.
pub(crate) fn look(meta: &Client, o: &VfsOptions) -> Result<Left, VfsError> {
    let Some(dir) = o.cache.journal_dir() else { return Ok(Left { log: Log::new(None, 1), found: None }) };
    let session = meta.session();
    let found = match recover(&dir, o.boot_id)? {
        Recovery::Nothing => None,
        Recovery::Live(records) => {
            let same = records.header().is_some_and(|h| h.session_uuid == session.uuid.0);
            let void = (!same || !session.resumed).then_some("its session is over");
            Some(Found { rebuilt: rebuild(&records), records, void })
        }
        Recovery::Stale(records) => {
            let void = Some("the node was restarted since");
            Some(Found { rebuilt: rebuild(&records), records, void })
        }
    };
    let header = JournalHeader {
        boot_id: o.boot_id,
        fs_uuid: *meta.superblock().uuid.as_bytes(),
        session_uuid: session.uuid.0,
        session: u64::from(session.no.0),
        generation: session.generation.0,
    };
    let last = found.as_ref().map_or(0, |f| f.rebuilt.last_layer);
    let log = match Journal::create(&dir, header, SEGMENT_BYTES_DEFAULT) {
        Ok(journal) => Log::new(Some(journal), last + 1),
        Err(e) if e.is_disk() => {
            tracing::error!(error = %e, "no journal; unflushed data will not survive a crash of this daemon");
            Log::new(None, last + 1)
        }
        Err(e) => return Err(e.into()),
    };
    Ok(Left { log, found })
}

fn rebuild(records: &Recovered) -> Rebuilt {
    for damage in &records.damage {
        let (path, offset, reason) = (damage.path.display(), damage.offset, &damage.reason);
        tracing::error!(%path, offset, reason, "damage in the journal; what it described is lost");
    }
    let rebuilt = replay(records.iter().map(|r| r.map(|(_, bytes)| bytes).map_err(|e| e.to_string())));
    if let Some((records, reason)) = &rebuilt.bad {
        tracing::error!(records, reason, "journal records cannot be read; what they described is lost");
    }
    rebuilt
}

impl Vfs {
    /// Makes layers of what was found, and flushes them.
    pub(crate) async fn take_up(&self, found: Option<Found>) -> Result<(), VfsError> {
        let Some(Found { rebuilt, records, void }) = found else {
            self.local.disk().discard_orphans();
            return Ok(());
        };
        if let Some(why) = void {
            for (ino, bytes) in rebuilt.summary() {
                tracing::error!(%ino, bytes, why, "unsaved bytes of an earlier mount are discarded");
            }
        } else {
            for (_, layer) in rebuilt.layers {
                let (ino, bytes) = (layer.ino, layer.map.bytes());
                match self.adopt(layer).await {
                    Ok(()) => tracing::info!(ino, bytes, "unsaved bytes of the daemon before are taken up"),
                    Err(FsError::NotFound) => tracing::info!(ino, bytes, "an unsaved file was removed since"),
                    Err(e) => {
                        tracing::error!(ino, bytes, error = %e, "unsaved bytes of the daemon before are lost")
                    }
                }
            }
        }
        self.local.disk().discard_orphans();
        records.discard()?;
        Ok(())
    }

    async fn adopt(&self, old: RebuiltLayer) -> FsResult<()> {
        let ino = InodeNo(old.ino);
        let session = self.meta.session();
        let sent: Vec<SliceId> = old.sent.iter().map(|&n| SliceId { session: session.no, n }).collect();
        if self.has_any(&old, &sent).await? {
            return Ok(());
        }
        let (buf, memory) = match old.slice {
            None => {
                let n = old.bytes.len() as u64;
                (Buffer::Memory(old.bytes.clone()), n)
            }
            Some(n) => (Buffer::Slice(self.adopt_slice(&old, n, session.uuid, session.no)?), 0),
        };
        let watch = self.meta.watch_above(ino).await?;
        // The first of two layers of this file goes up before the second one is laid over it.
        self.strong().flush_nodes(self.dirty_nodes(vec![ino])).await?;
        let attr = self.meta.getattr(ino).await?.attr;
        let base = attr.size;
        let size = old.size.max(base);
        self.reserve(attr.quota, size - base).await?;
        self.small_bytes.add(memory);
        let mut layer = Layer::new(self.log.new_layer(), session.no, base, old.mtime);
        layer.map = old.map.clone();
        layer.buf = buf;
        layer.size = size;
        layer.charged = (size - base) as i64;
        layer.touched = true;
        layer.sent.lock().extend(sent);
        self.journal_again(layer.id, &old, base);
        self.nodes.get_or_insert(&attr, |state| {
            state.watch = Some(watch);
            state.parent = Some(InodeNo(old.parent)).filter(|p| p.0 != 0);
            state.closed_at = Some(Instant::now());
            // What the dead daemon had sealed takes no more bytes, so nothing is written over it.
            state.frozen = Some(Arc::new(layer));
            self.dirty.add(ino);
        });
        Ok(())
    }

    /// Whether a commit of this layer has happened.
    async fn has_any(&self, old: &RebuiltLayer, sent: &[SliceId]) -> FsResult<bool> {
        let Some(&(offset, len)) = old.map.runs().first().filter(|_| !sent.is_empty()) else {
            return Ok(false);
        };
        let content = self.meta.content(InodeNo(old.ino), offset..offset + len).await?;
        Ok(content.extents.iter().any(|e| sent.contains(&e.slice)))
    }

    fn adopt_slice(
        &self,
        old: &RebuiltLayer,
        n: u64,
        session: SessionUuid,
        no: SessionNo,
    ) -> FsResult<Arc<SliceBuf>> {
        let written: Vec<_> = old.map.iter().map(|p: Piece| p.at..p.at + p.len).collect();
        let file = self
            .local
            .disk()
            .adopt_dirty(key_of(session, n), &written)
            .map_err(|e| crate::local::to_fs_error(&e))?;
        // Sealed by the dead daemon: it takes no more bytes, but goes up as it is.
        let end = written.iter().map(|r| r.end).max().unwrap_or(0);
        let tail = match file.state() {
            SliceState::Sealed | SliceState::Clean => file.len().unwrap_or(end),
            SliceState::Writing | SliceState::Gone => end,
        };
        Ok(SliceBuf::new((SliceId { session: no, n }, session), file, self.remote.block_size(), tail))
    }

    /// Tells the new journal what the old one knew.
    fn journal_again(&self, layer: u64, old: &RebuiltLayer, base: u64) {
        let (ino, parent, mtime) = (InodeNo(old.ino), InodeNo(old.parent), old.mtime);
        let mut entries = vec![Entry::Begin { layer, ino, parent, size: base }];
        match old.slice {
            None => {
                for p in old.map.iter() {
                    let data = &old.bytes[p.at as usize..][..p.len as usize];
                    entries.push(Entry::Bytes { layer, offset: p.offset, mtime, data });
                }
            }
            Some(n) => {
                entries.push(Entry::Slice { layer, n });
                let placed =
                    |p: Piece| Entry::Placed { layer, offset: p.offset, len: p.len, at: p.at, mtime };
                entries.extend(old.map.iter().map(placed));
            }
        }
        entries.push(Entry::Size { layer, size: old.size.max(base), mtime });
        entries.extend(old.sent.iter().map(|&n| Entry::Sent { layer, n }));
        // In pieces, each within what a record may hold.
        for some in entries.chunks(64) {
            self.log.append(layer, some);
        }
    }
}
