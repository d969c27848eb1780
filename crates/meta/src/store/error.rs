//! Why a store call failed as a whole. A commit that merely lost a race is an `Outcome`, not an error.

use carafe_types::record::DecodeError;

/// A failed store call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No answer within the bounded wait; nothing is known to have happened, and it is not known that nothing has.
    #[error("metadata store {address} cannot be reached: {reason}")]
    Unreachable {
        /// Host, port or path, without secrets.
        address: String,
        /// What the system says.
        reason: String,
    },
    /// Wrong password, unknown user, missing right.
    #[error("metadata store {address} refuses us: {reason}")]
    Denied {
        /// Host, port or path, without secrets.
        address: String,
        /// What the server says.
        reason: String,
    },
    /// The URL is none that an engine understands.
    #[error("metadata URL {url:?}: {reason}")]
    BadUrl {
        /// The URL, with secrets removed.
        url: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// The server has no memory or disk left for a change that does not free any (`maxmemory`).
    #[error("metadata store is full: {0}")]
    Full(String),
    /// The server refuses changes for now: read-only replica, loading, too few replicas, failed persistence.
    #[error("metadata store refuses changes: {0}")]
    Refusing(String),
    /// There is a file system already.
    #[error(
        "this store already holds the file system {name:?}; destroy it first, or choose another database"
    )]
    AlreadyFormatted {
        /// Its name, if the superblock could be read.
        name: String,
    },
    /// There is no file system.
    #[error("no file system in this store; make one with `carafe format`")]
    NotFormatted,
    /// This session was taken for dead. None of its changes lands any more.
    #[error("this session was fenced: it was silent for longer than its lease")]
    Fenced,
    /// The store was restored from a backup: another life, everything cached is void.
    #[error("the metadata store was restored from a backup since this session began")]
    Generation,
    /// The store came back older than what it had acknowledged.
    #[error("the metadata store has lost acknowledged changes: {0}")]
    Lost(String),
    /// A stored record cannot be understood.
    #[error("damaged record {key}: {source}")]
    Damaged {
        /// Which record.
        key: String,
        /// How.
        source: DecodeError,
    },
    /// The engine itself failed (a disk error, an unexpected answer).
    #[error("metadata store failed: {0}")]
    Engine(String),
}
