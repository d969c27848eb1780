//! A real mount over the memory twins of store and bucket: what only the kernel can show. Needs root and `/dev/fuse`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test ends where it fails, and says why")]

mod files;
mod locks;
mod names;
mod ours;
mod world;
