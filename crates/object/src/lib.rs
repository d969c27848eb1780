//! The bucket layer: everything that Carafe puts into an object store, and the way it gets it there and back.
//!
//! Two halves that know nothing of each other:
//!
//! 1. **Requests.** [`Bucket`] opens a URL and sends requests. Below it lies the small trait [`ObjectClient`]; retry,
//!    limits, counting and fault injection are decorators over that trait ([`decorate`]), so each is tested alone and
//!    works the same over S3, Google Cloud Storage, Azure, a directory and memory.
//! 2. **Formats.** [`frames`] makes every range of an object checkable alone, [`pack`] puts many small files into one
//!    object that can be read back without the metadata store, [`keys`] names objects, [`marker`] says whose bucket it
//!    is. Decoders take untrusted bytes: they never panic and allocate no more than they were given.
//!    `docs/format-objects.md` has them byte by byte.
//!
//! [`payload`] joins the halves: read a range of a payload, verified, with a second read before it is called corrupt.
//!
//! What is absent: no metadata store, no cache, no knowledge of files beyond the fields that salvage needs.

pub mod bucket;
pub mod check;
pub mod client;
pub mod decorate;
pub mod error;
pub mod frames;
pub mod keys;
pub mod marker;
pub mod open;
pub mod pack;
pub mod payload;
pub mod store;
mod wire;

pub use bucket::Bucket;
pub use client::{ByteRange, ListStream, Listed, ObjectClient, Verb};
pub use error::{ObjectError, Result};
pub use frames::{
    BlockTrailer, FRAME_DATA, decode_chunks, decode_range, decode_trailer, encode_block, encode_block_with,
    object_range_for,
};
pub use keys::{ObjectId, Part, parse_key};
pub use marker::FsMarker;
pub use open::{BucketOptions, Secret};
pub use pack::{MemberInfo, PackBuilder, PackFooter, PackMember, read_footer};
