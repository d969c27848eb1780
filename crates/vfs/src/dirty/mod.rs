//! Bytes that were accepted and are not yet in the bucket.

mod layer;
mod set;
mod slice;

pub(crate) use layer::{Buffer, Layer, Placed};
pub(crate) use set::DirtySet;
pub(crate) use slice::{SliceBuf, Turn};
