//! The words of the vfs that this crate uses, in one place.

pub(crate) use carafe_vfs::{
    Ctx, DirItem, DirPage, Entry, Falloc, Invalidate, LockRequest, Lookup, NewNode, Opened, RenameMode,
    SeekWhence, SetAttr, StatFs, Vfs, XattrMode, brief,
};
