//! A real mount over the memory twins of store and bucket: what only the kernel can show. Needs root and `/dev/fuse`.

mod files;
mod locks;
mod names;
mod ours;
mod world;
