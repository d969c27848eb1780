//! What `fuser` 0.18 keeps to itself: bits of a request that its methods do not pass on.
//!
//! Three of them decide results that an application sees, so they are read from the request itself:
//! 1. a lock request does not say whether it comes from `flock` or from `fcntl` (both can cover the whole file);
//! 2. `setattr` and `open` do not say whether the caller's truncation kills the set-id bits (`CAP_FSETID`);
//! 3. times before 1970 arrive wrong (the nanoseconds are counted in the wrong direction).
//!
//! `fuser` hands out [`Request`] as a view of the header at the start of the bytes that it read from the kernel. The
//! rest of the request follows in the same buffer until the method returns. The length and the opcode in the header are
//! checked before anything beyond it is touched; what does not match the kernel's layout is not read at all.

use fuser::Request;

/// Header of every request: length, opcode, unique, node, uid, gid, pid, padding.
const HEADER: usize = 40;

/// Requests whose fixed part is read here, with their opcode and the size of that part, from `linux/fuse.h`.
#[derive(Clone, Copy)]
enum Body {
    Setattr,
    Open,
    Setlk,
    Setlkw,
}

impl Body {
    const fn opcode(self) -> u32 {
        match self {
            Body::Setattr => 4,
            Body::Open => 14,
            Body::Setlk => 32,
            Body::Setlkw => 33,
        }
    }

    const fn len(self) -> usize {
        match self {
            Body::Setattr => 88,
            Body::Open => 8,
            Body::Setlk | Body::Setlkw => 48,
        }
    }
}

/// Whether this `setlk` comes from `flock(2)` (`FUSE_LK_FLOCK`).
pub(crate) fn is_flock(request: &Request) -> bool {
    const FUSE_LK_FLOCK: u32 = 1;
    let body = body(request, Body::Setlk).or_else(|| body(request, Body::Setlkw));
    body.is_some_and(|b| word(&b, 40) & FUSE_LK_FLOCK != 0)
}

/// Whether this `open` with `O_TRUNC` kills set-id bits (`FUSE_OPEN_KILL_SUIDGID`).
pub(crate) fn open_kills_set_id(request: &Request) -> bool {
    const FUSE_OPEN_KILL_SUIDGID: u32 = 1;
    body(request, Body::Open).is_some_and(|b| word(&b, 4) & FUSE_OPEN_KILL_SUIDGID != 0)
}

/// What `fuser` does not pass on of a `setattr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SetattrExtra {
    /// The change of size kills set-id bits (`FATTR_KILL_SUIDGID`).
    pub(crate) kills_set_id: bool,
    /// Access time as given: seconds, nanoseconds.
    pub(crate) atime: Option<(i64, u32)>,
    /// Modification time as given.
    pub(crate) mtime: Option<(i64, u32)>,
}

/// Reads the fixed part of a `setattr`.
pub(crate) fn setattr_extra(request: &Request) -> SetattrExtra {
    body(request, Body::Setattr).map(|b| parse_setattr(&b)).unwrap_or_default()
}

fn parse_setattr(b: &[u8]) -> SetattrExtra {
    const FATTR_ATIME: u32 = 1 << 4;
    const FATTR_MTIME: u32 = 1 << 5;
    const FATTR_ATIME_NOW: u32 = 1 << 7;
    const FATTR_MTIME_NOW: u32 = 1 << 8;
    const FATTR_KILL_SUIDGID: u32 = 1 << 11;
    let valid = word(b, 0);
    let time = |set: u32, now: u32, secs: usize, nanos: usize| {
        let given = valid & set != 0 && valid & now == 0;
        given.then(|| (i64::from_ne_bytes(bytes(b, secs)), word(b, nanos)))
    };
    SetattrExtra {
        kills_set_id: valid & FATTR_KILL_SUIDGID != 0,
        atime: time(FATTR_ATIME, FATTR_ATIME_NOW, 32, 56),
        mtime: time(FATTR_MTIME, FATTR_MTIME_NOW, 40, 60),
    }
}

fn word(body: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes(body, at))
}

fn bytes<const N: usize>(body: &[u8], at: usize) -> [u8; N] {
    body[at..at + N].try_into().expect("every offset lies inside the fixed part of its request")
}

/// The fixed part of `request` if it is of this kind and as long as the kernel makes it.
fn body(request: &Request, kind: Body) -> Option<Vec<u8>> {
    const { assert!(size_of::<Request>() == HEADER) };
    let header = std::ptr::from_ref(request).cast::<u8>();
    let mut head = [0u8; 8];
    // SAFETY: `Request` is `repr(transparent)` over the 40 bytes of `fuse_in_header`, all of them initialised.
    unsafe { std::ptr::copy_nonoverlapping(header, head.as_mut_ptr(), head.len()) };
    let (len, opcode) = (word(&head, 0) as usize, word(&head, 4));
    if opcode != kind.opcode() || len != HEADER + kind.len() {
        return None;
    }
    let mut out = vec![0u8; kind.len()];
    // SAFETY: fuser 0.18 makes `Request` from the first 40 bytes of its read buffer (`AnyRequest::try_from`), after it
    // has checked that the kernel's `read` filled at least `len` bytes of it. The buffer is neither moved nor written to
    // until the method that got `request` returns, and we are inside that method. The address goes through exposed
    // provenance, because the reference itself reaches over the header only; fuser exposes the buffer's provenance when
    // it aligns it (`FuseReadBuf::as_mut`).
    unsafe {
        let rest = std::ptr::with_exposed_provenance::<u8>(header.expose_provenance() + HEADER);
        std::ptr::copy_nonoverlapping(rest, out.as_mut_ptr(), out.len());
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setattr(valid: u32) -> Vec<u8> {
        let mut b = vec![0u8; Body::Setattr.len()];
        b[0..4].copy_from_slice(&valid.to_ne_bytes());
        b[32..40].copy_from_slice(&(-2i64).to_ne_bytes());
        b[40..48].copy_from_slice(&7i64.to_ne_bytes());
        b[56..60].copy_from_slice(&800_000_000u32.to_ne_bytes());
        b[60..64].copy_from_slice(&9u32.to_ne_bytes());
        b
    }

    #[test]
    fn times_are_taken_as_given_and_only_if_given() {
        let both = parse_setattr(&setattr(1 << 4 | 1 << 5));
        assert_eq!((both.atime, both.mtime), (Some((-2, 800_000_000)), Some((7, 9))));
        let now = parse_setattr(&setattr(1 << 4 | 1 << 7 | 1 << 11));
        assert_eq!(now, SetattrExtra { kills_set_id: true, atime: None, mtime: None });
    }
}
