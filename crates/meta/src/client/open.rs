//! Open files, unlinked ones among them, and dirty files.
//!
//! An open file keeps this session in the watcher list of its bucket, so that whoever removes its last name sees that it
//! may be open, and says so. Dirty data keeps it in the lists of all directories above, so that whoever publishes one of
//! them finds out.

use super::{Client, Found};
use crate::ops::purge;
use crate::ops::remove::Unlinked;
use crate::store::{WatchChange, WatchKey};
use crate::tx::{Node, Op, Tx};
use carafe_types::{FsError, FsResult, InodeNo};
use std::sync::Arc;
use std::time::Duration;

/// Directories above each other; deeper is a circle in damaged records.
const MAX_DEPTH: usize = 10_000;

impl Client {
    /// A handle of `ino` is open from now on; as many [`Client::closed`] must follow. The attributes are those at open.
    ///
    /// # Errors
    /// ENOENT when it is gone: no [`Client::closed`] then; store errors.
    pub async fn opened(&self, ino: InodeNo) -> FsResult<Found> {
        self.count_open(ino).await;
        let opened = self.open_counted(ino).await;
        if opened.is_err() {
            self.uncount_open(ino);
        }
        opened
    }

    async fn open_counted(&self, ino: InodeNo) -> FsResult<Found> {
        self.enlist(&[WatchKey::Bucket(ino.bucket())]).await?;
        let found = self.getattr(ino).await?;
        if found.attr.nlink == 0 {
            self.check_open_file(ino).await;
        }
        Ok(found)
    }

    async fn count_open(&self, ino: InodeNo) {
        loop {
            let decided = self.removed.notified();
            tokio::pin!(decided);
            decided.as_mut().enable();
            {
                let mut cache = self.cache.lock();
                if !cache.removing.contains_key(&ino) {
                    let open = cache.opens.entry(ino).or_default();
                    open.count += 1;
                    if open.count == 1 {
                        cache.pin(WatchKey::Bucket(ino.bucket()));
                    }
                    return;
                }
            }
            decided.await;
        }
    }

    /// `true`: it was the last one, and the store knows that this session holds the inode.
    fn uncount_open(&self, ino: InodeNo) -> bool {
        let mut cache = self.cache.lock();
        let Some(open) = cache.opens.get_mut(&ino).filter(|o| o.count > 0) else { return false };
        open.count -= 1;
        if open.count > 0 {
            return false;
        }
        let held = open.held;
        if !held {
            cache.opens.remove(&ino);
        }
        cache.unpin(&WatchKey::Bucket(ino.bucket()));
        held
    }

    /// A handle was closed. The last one of an unlinked file lets it go, in the background.
    pub fn closed(&self, ino: InodeNo) {
        if self.uncount_open(ino) {
            let client = self.strong();
            self.handle.spawn(async move { client.let_go(ino).await });
        }
    }

    /// Tells the store that this session no longer holds an unlinked inode, and frees it if nobody else does.
    pub(crate) async fn let_go(&self, ino: InodeNo) {
        {
            let mut cache = self.cache.lock();
            match cache.opens.get(&ino) {
                Some(open) if open.count == 0 => drop(cache.opens.remove(&ino)),
                _ => return,
            }
        }
        match self.run(|tx| purge::let_go(tx, ino)).await {
            Ok(()) => self.purge_soon(ino),
            Err(e) => {
                tracing::warn!(%ino, error = %e, "an unlinked file was not let go; it is freed when the session ends")
            }
        }
    }

    /// Frees an unlinked inode in the background.
    pub(crate) fn purge_soon(&self, ino: InodeNo) {
        let client = self.strong();
        self.handle.spawn(async move {
            if let Err(e) = crate::jobs::purge_inode(&client, ino).await {
                tracing::debug!(%ino, error = %e, "not purged yet; the purge job will");
            }
        });
    }

    /// The last name of something went: if its records stayed and it is not open here, it may be freed now.
    pub(crate) fn after_unlink(&self, gone: &Unlinked) {
        if gone.last {
            let known = self.cache.lock().record(&crate::store::Key::Inode(gone.ino));
            let open = self.cache.lock().opens.contains_key(&gone.ino);
            if !open && matches!(known, Some(Some(_))) {
                self.purge_soon(gone.ino);
            }
        }
    }

    /// An open inode may have lost its last name elsewhere: then the store must know that it is held.
    pub(crate) async fn check_open_file(&self, ino: InodeNo) {
        match self.run(|tx| purge::hold(tx, ino)).await {
            Ok(_) => {}
            Err(e) => tracing::warn!(%ino, error = %e, "could not say that an unlinked file is open"),
        }
    }

    /// Looks at all open files that others may have unlinked. A message tells; this finds what a lost one did not.
    pub(crate) async fn check_open_files(&self) {
        let shared: Vec<InodeNo> = {
            let cache = self.cache.lock();
            let unsure = |ino: &InodeNo| !cache.is_sole(&WatchKey::Bucket(ino.bucket()));
            let open = cache.opens.iter().filter(|(_, o)| o.count > 0 && !o.held).map(|(ino, _)| *ino);
            open.filter(unsure).collect()
        };
        for ino in shared {
            self.check_open_file(ino).await;
        }
    }

    /// Stands in the lists of everything above `ino`, so that dirty data below is found by whoever publishes. To be taken
    /// before the first dirty byte, and dropped when all is flushed. What is above a file with several names is not known:
    /// its closes are never asynchronous.
    ///
    /// # Errors
    /// ENOENT when the file is gone; store errors.
    pub async fn watch_above(&self, ino: InodeNo) -> FsResult<DirtyWatch> {
        loop {
            let (dirs, sure) = self.run(|tx| above(tx, ino)).await?;
            let watch = DirtyWatch::new(self.strong(), ino, dirs, sure);
            let names: Vec<WatchKey> = watch.dirs.iter().map(|d| WatchKey::Names(*d)).collect();
            self.enlist(&names).await?;
            self.enlist(&[WatchKey::Bucket(ino.bucket())]).await?;
            self.take_back_marks(&watch.dirs).await?;
            // Nothing may have moved before this session stood in all lists.
            if self.run(|tx| above(tx, ino)).await?.0 == watch.dirs {
                return Ok(watch);
            }
        }
    }

    /// A daemon that died may have left marks: no close is asynchronous under them.
    async fn take_back_marks(&self, dirs: &[InodeNo]) -> FsResult<()> {
        if !self.session().resumed {
            return Ok(());
        }
        let new = self.session.flush.not_yet_cleared(dirs);
        if !new.is_empty() {
            let changes: Vec<_> =
                new.iter().map(|d| (WatchKey::Names(*d), WatchChange::ClearFlushing)).collect();
            self.patiently(|s| {
                let changes = &changes;
                async move { self.store.watch(&s, changes).await }
            })
            .await?;
            self.session.flush.cleared(&new);
        }
        Ok(())
    }
}

/// Every directory above, nearest first, and whether these are all: a file with several names, or whose hint went with
/// one of them, may have others.
fn above(tx: &mut Tx<'_>, ino: InodeNo) -> Op<(Vec<InodeNo>, bool)> {
    let (mut at, mut sure) = match tx.node(ino)? {
        Some(Node::File(inode)) => (inode.parent_of(ino), inode.nlink == 1),
        Some(Node::Dir(_)) => (ino, true),
        None => return Err(FsError::NotFound.into()),
    };
    let mut dirs = Vec::new();
    loop {
        let guard = match tx.node(at)? {
            Some(Node::Dir(guard)) => guard,
            _ => {
                sure = false;
                return Ok((dirs, sure));
            }
        };
        dirs.push(at);
        if guard.parent == at {
            return Ok((dirs, sure));
        }
        if dirs.len() > MAX_DEPTH {
            return Err(
                FsError::Io(format!("the directories above {ino} form a circle; run `carafe fsck`")).into()
            );
        }
        at = guard.parent;
    }
}

/// While it lives, this session stands in the watcher lists of everything above a file.
#[derive(Debug)]
pub struct DirtyWatch {
    client: Arc<Client>,
    ino: InodeNo,
    dirs: Vec<InodeNo>,
    /// `dirs` are all that is above.
    sure: bool,
    since: u64,
}

impl DirtyWatch {
    fn new(client: Arc<Client>, ino: InodeNo, dirs: Vec<InodeNo>, sure: bool) -> Self {
        let since = client.session.flush.now();
        {
            let mut cache = client.cache.lock();
            dirs.iter().for_each(|d| cache.pin(WatchKey::Names(*d)));
            cache.pin(WatchKey::Bucket(ino.bucket()));
        }
        DirtyWatch { client, ino, dirs, sure, since }
    }

    /// Whether close() may return before the data is visible to others: the file is held alone, and no directory above is
    /// being flushed or has moved since. Otherwise flush, and take a new watch for what is written later.
    pub fn close_may_be_async(&self) -> bool {
        let flush = &self.client.session.flush;
        let alone = self.client.cache.lock().grants(&WatchKey::Bucket(self.ino.bucket()));
        self.sure
            && alone
            && self.client.lease_left() > Duration::from_secs(2)
            && !flush.any_flushing(&self.dirs)
            && !flush.any_turned(&self.dirs, self.since)
    }

    /// Whether `dir` is one of the directories above.
    pub fn is_below(&self, dir: InodeNo) -> bool {
        self.dirs.contains(&dir)
    }
}

impl Drop for DirtyWatch {
    fn drop(&mut self) {
        let mut cache = self.client.cache.lock();
        self.dirs.iter().for_each(|d| cache.unpin(&WatchKey::Names(*d)));
        cache.unpin(&WatchKey::Bucket(self.ino.bucket()));
    }
}

impl Client {
    /// Whether close() of a file may be asynchronous, as far as its bucket says; see [`DirtyWatch::close_may_be_async`].
    pub fn holds_alone(&self, ino: InodeNo) -> bool {
        self.session.may_trust() && self.cache.lock().grants(&WatchKey::Bucket(ino.bucket()))
    }
}
