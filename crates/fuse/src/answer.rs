//! Results in the words of `fuser`'s replies.
//!
//! **Lifetimes.** The vfs says how long the kernel may keep an answer. Two kinds of answers give less, because an
//! invalidation cannot reach them while they are under way (`docs/metadata.md`, section 5): attributes of an inode that
//! the kernel may not know yet have nothing that could be voided, and a READDIRPLUS reply is applied without looking at
//! the epoch in which it was asked for. The next GETATTR or LOOKUP gives them their lifetime.

use crate::attr::{Nodes, absent};
use crate::errno::report;
use crate::stats::Call;
use crate::vfs::{Entry, Lookup, Opened};
use carafe_types::{FsError, FsResult};
use fuser::{
    Errno, FileHandle, FopenFlags, Generation, ReplyAttr, ReplyCreate, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, ReplyXattr,
};
use std::time::Duration;

/// Inode numbers are never given twice, so a number has one generation.
pub(crate) const GENERATION: Generation = Generation(0);

/// A reply that may be an error.
pub(crate) trait Refuse {
    /// Sends the error.
    fn refuse(self, errno: Errno);
}

macro_rules! refuse {
    ($($reply:ident),*) => {
        $(impl Refuse for fuser::$reply {
            fn refuse(self, errno: Errno) {
                self.error(errno);
            }
        })*
    };
}
refuse!(
    ReplyAttr,
    ReplyCreate,
    ReplyData,
    ReplyDirectory,
    ReplyDirectoryPlus,
    ReplyEmpty,
    ReplyEntry,
    ReplyLock,
    ReplyLseek,
    ReplyOpen,
    ReplyStatfs,
    ReplyWrite,
    ReplyXattr
);

/// Hands the value to `send`, or sends the error.
pub(crate) fn answer<R: Refuse, T>(call: Call, reply: R, result: FsResult<T>, send: impl FnOnce(R, T)) {
    match result {
        Ok(value) => {
            call.done();
            send(reply, value);
        }
        Err(error) => refuse(call, reply, &error),
    }
}

/// Sends the error of a failed call.
pub(crate) fn refuse(call: Call, reply: impl Refuse, error: &FsError) {
    let errno = report(call.op().name(), error);
    call.failed(errno);
    reply.refuse(errno);
}

pub(crate) fn empty(call: Call, reply: ReplyEmpty, result: FsResult<()>) {
    answer(call, reply, result, |reply, ()| reply.ok());
}

/// A name that was made or found.
pub(crate) fn entry(call: Call, nodes: Nodes, reply: ReplyEntry, result: FsResult<Entry>) {
    answer(call, reply, result, |reply, e| {
        reply.entry_with_ttls(&e.fresh_attr_ttl(), &e.ttl, &nodes.attr(&e.attr), GENERATION);
    });
}

/// A name that was looked for. An absent one with a lifetime is a negative entry: node id 0.
pub(crate) fn lookup(call: Call, nodes: Nodes, reply: ReplyEntry, result: FsResult<Lookup>) {
    match result {
        Ok(Lookup::Found(e)) => entry(call, nodes, reply, Ok(e)),
        Ok(Lookup::Absent { ttl }) => {
            call.failed(Errno::ENOENT);
            if ttl > Duration::ZERO {
                reply.entry(&ttl, &absent(), GENERATION);
            } else {
                reply.error(Errno::ENOENT);
            }
        }
        Err(error) => refuse(call, reply, &error),
    }
}

pub(crate) fn attr(call: Call, nodes: Nodes, reply: ReplyAttr, result: FsResult<Entry>) {
    answer(call, reply, result, |reply, e| reply.attr(&e.ttl, &nodes.attr(&e.attr)));
}

pub(crate) fn created(call: Call, nodes: Nodes, reply: ReplyCreate, result: FsResult<(Entry, Opened)>) {
    // One lifetime for name and attributes is all that `fuser` sends here, and the inode is new to the kernel.
    answer(call, reply, result, |reply, (e, o)| {
        reply.created(
            &e.fresh_attr_ttl(),
            &nodes.attr(&e.attr),
            GENERATION,
            FileHandle(o.fh),
            open_flags(&o),
        );
    });
}

pub(crate) fn opened(call: Call, reply: ReplyOpen, result: FsResult<Opened>) {
    answer(call, reply, result, |reply, o| reply.opened(FileHandle(o.fh), open_flags(&o)));
}

fn open_flags(o: &Opened) -> FopenFlags {
    let mut flags = FopenFlags::empty();
    flags.set(FopenFlags::FOPEN_KEEP_CACHE, o.keep_cache);
    flags.set(FopenFlags::FOPEN_DIRECT_IO, o.direct_io);
    flags.set(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES, o.direct_io);
    flags
}

pub(crate) fn written(call: Call, reply: ReplyWrite, result: FsResult<u32>) {
    answer(call, reply, result, |reply, n| reply.written(n));
}

/// The value of an attribute, or its size if the caller gave no room (`size` 0).
pub(crate) fn xattr(call: Call, size: u32, reply: ReplyXattr, result: FsResult<impl AsRef<[u8]>>) {
    let fits = |value: &[u8]| size == 0 || value.len() <= size as usize;
    let result = result.and_then(|value| if fits(value.as_ref()) { Ok(value) } else { Err(FsError::Range) });
    answer(call, reply, result, |reply, value| match value.as_ref() {
        value if size == 0 => reply.size(value.len() as u32),
        value => reply.data(value),
    });
}
