//! What sessions tell each other.

use super::WatchKey;
use carafe_types::{InodeNo, QuotaId, SessionNo};

/// A message to a session. All are hints that may come twice; what must not be lost is asked again after a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Another session wants to read or write a key that you hold alone: flush, void the kernel's copies, share.
    Share(WatchKey),
    /// `from` wants to rename or link this directory: flush everything below, mark yourself as flushing, answer
    /// [`Message::Flushed`].
    Flush {
        /// The directory.
        dir: InodeNo,
        /// Who asks.
        from: SessionNo,
    },
    /// `by` has flushed below the directory and has marked itself.
    Flushed {
        /// The directory.
        dir: InodeNo,
        /// Who answers.
        by: SessionNo,
    },
    /// A lock on this inode that you wait for was released or narrowed.
    Unlocked(InodeNo),
    /// Pause 50 ms before you change this key again: another session keeps losing against you.
    Yield(WatchKey),
    /// Give back what you reserved of this quota and do not use.
    ReturnReserve(QuotaId),
    /// This inode was unlinked or its content changed by another session; drop what you keep of it.
    Changed(InodeNo),
    /// Messages may have been lost (reconnect, counter gap): trust no cached key.
    Gap,
}
