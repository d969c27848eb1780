//! One file a verb.

pub(crate) mod bench;
pub(crate) mod cache;
pub(crate) mod csi;
pub(crate) mod destroy;
pub(crate) mod docs;
pub(crate) mod format;
pub(crate) mod fsck;
pub(crate) mod gc;
pub(crate) mod info;
pub(crate) mod mount;
pub(crate) mod status;
pub(crate) mod umount;
pub(crate) mod uninstall_check;
