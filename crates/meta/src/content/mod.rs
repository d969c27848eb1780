//! Where the bytes of a file are, and what changes when some of them do. Pure functions, then one type over a [`Tx`].
//!
//! - [`extents`]: sorted lists of extents: overlay, removal, joining.
//! - [`Ledger`]: who owned which slice before and after a change, as the writes that the store must count.
//! - [`Index`]: which 256 MiB segments of a file exist, so that a sparse file of 2^62 bytes can be truncated.
//! - [`Edit`]: the content of one file inside a transaction: read what is touched, change it, write it back.
//!
//! [`Tx`]: crate::tx::Tx

mod edit;
pub(crate) mod extents;
mod index;
mod ledger;

pub(crate) use edit::{Edit, read_index, read_segment};
pub(crate) use index::Index;
pub(crate) use ledger::Ledger;
