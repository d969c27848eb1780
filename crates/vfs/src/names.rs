//! Names: looking up, making, removing, renaming, linking.

use crate::flush::RenameCall;
use crate::vfs::{Entry, Lookup, Vfs};
use bytes::Bytes;
use carafe_meta::{Ctx, NewNode, RenameMode, Unlinked};
use carafe_types::{EntryName, FsResult, InodeNo};

impl Vfs {
    /// What a name points to.
    ///
    /// # Errors
    /// `NotDirectory`; `NotFound` when the directory itself is gone; store errors.
    pub async fn lookup(&self, dir: InodeNo, name: &EntryName) -> FsResult<Lookup> {
        Ok(match self.meta.lookup(dir, name).await? {
            carafe_meta::Lookup::Found(found) => {
                if let Some(old) = self.places.learn((found.attr.ino, found.attr.kind), dir, name) {
                    self.void_old_place(old).await;
                }
                Lookup::Found(self.made(found))
            }
            carafe_meta::Lookup::Absent { ttl } => Lookup::Absent { ttl },
        })
    }

    /// Makes a directory, file, symlink or special file.
    ///
    /// # Errors
    /// `Exists`, `NoSpace` and `QuotaExceeded` for the inode; store errors.
    pub async fn make(&self, ctx: &Ctx, dir: InodeNo, name: &EntryName, node: NewNode) -> FsResult<Entry> {
        let made = self.meta.create(ctx, dir, name, node).await?;
        self.places.learn((made.attr.ino, made.attr.kind), dir, name);
        Ok(self.made(made))
    }

    /// Where a symlink points to.
    ///
    /// # Errors
    /// `Invalid` if it is none; store errors.
    pub async fn readlink(&self, ino: InodeNo) -> FsResult<Bytes> {
        self.meta.readlink(ino).await
    }

    /// Removes the name of anything but a directory. What is dirty of a file that loses its last name, and is not open,
    /// is never uploaded.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `NotPermitted` (sticky); store errors.
    pub async fn unlink(&self, ctx: &Ctx, dir: InodeNo, name: &EntryName) -> FsResult<()> {
        let gone = self.meta.unlink(ctx, dir, name).await?;
        self.unlinked(gone).await;
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `NotEmpty`, `NotPermitted`; store errors.
    pub async fn rmdir(&self, ctx: &Ctx, dir: InodeNo, name: &EntryName) -> FsResult<()> {
        self.meta.rmdir(ctx, dir, name).await
    }

    /// Renames. When it returns, everything below the new name is durable and visible to all.
    ///
    /// # Errors
    /// Those of `rename(2)`; `Unavailable` when the bucket does not take the data in time, and then nothing is renamed.
    pub async fn rename(
        &self,
        ctx: &Ctx,
        from: (InodeNo, &EntryName),
        to: (InodeNo, &EntryName),
        mode: RenameMode,
    ) -> FsResult<()> {
        let call = RenameCall { ctx: *ctx, from: (from.0, from.1.clone()), to: (to.0, to.1.clone()), mode };
        let renamed = self.strong().rename_published(call).await?;
        self.moved(renamed.moved, to);
        if renamed.directory {
            self.places.moved(renamed.moved, to.0, to.1);
        }
        if let Some(other) = renamed.exchanged {
            // Also for a file: what is no directory is never asked for.
            self.places.moved(other, from.0, from.1);
            self.moved(other, from);
        }
        if let Some(gone) = renamed.replaced {
            self.unlinked(gone).await;
        }
        Ok(())
    }

    /// Gives a file one more name. Its data is durable before that is seen.
    ///
    /// # Errors
    /// `Exists`, `NotPermitted` for directories, `TooManyLinks`, `CrossQuota`; `Unavailable` as for [`Vfs::rename`].
    pub async fn link(&self, ctx: &Ctx, ino: InodeNo, dir: InodeNo, name: &EntryName) -> FsResult<Entry> {
        let dirty = self.nodes.get(ino).filter(|n| n.state().is_dirty());
        if let Some(node) = dirty {
            self.strong().flush_nodes(vec![node]).await?;
        }
        let found = self.meta.link(ctx, ino, dir, name).await?;
        Ok(self.made(found))
    }

    /// Notes where an inode lies now.
    fn moved(&self, ino: InodeNo, (dir, name): (InodeNo, &EntryName)) {
        let Some(node) = self.nodes.get(ino) else { return };
        let mut state = node.state();
        state.parent = Some(dir);
        state.name = Some(name.clone());
    }

    /// An inode may have lost its last name.
    async fn unlinked(&self, gone: Unlinked) {
        if !gone.last {
            return;
        }
        self.kept.forget(gone.ino);
        let Some(node) = self.nodes.get(gone.ino) else { return };
        let closed = {
            let mut state = node.state();
            state.unlinked = true;
            state.open == 0
        };
        if closed {
            self.drop_dirty(&node).await;
        }
    }
}
