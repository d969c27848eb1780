//! A slice that the cache knows: its state, its segments, and the gate through which all who touch its bytes go.
//!
//! The gate is what makes eviction simple. Reads and fills hold its shared side, writes, seal, eviction and removal its exclusive side:
//! a hole is never punched under a reader. It is per slice; there is no lock for all on the way of the data.
//!
//! Order of locks: gate, then `handle`, `pins`, the map of the shard, the policy, the index log. None of the latter is held while a gate
//! is waited for.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};

use crate::error::CacheError;
use crate::frames::{MAX_SLICE_BYTES, SEGMENT_BYTES, cost, frames_in, push_frames, spans};
use crate::key::SliceKey;
use crate::memory::MemoryBytes;
use crate::ranges::RangeSet;
use crate::segment::Segment;
use crate::slice::SliceFile;

/// Where a slice stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceState {
    /// Takes writes; dirty.
    Writing,
    /// Takes no writes any more; dirty until it was uploaded and committed.
    Sealed,
    /// A copy of what is in the bucket; may be evicted.
    Clean,
    /// Discarded or taken out: not in the cache any more.
    Gone,
}

/// An entry of the map.
pub(crate) struct Entry {
    pub(crate) key: SliceKey,
    pub(crate) gate: RwLock<Body>,
    /// Set once, with `handle` locked, when it leaves the map.
    pub(crate) gone: AtomicBool,
    /// The open file, shared by all who use the slice now. Empty otherwise: 100,000 slices are not 100,000 descriptors.
    pub(crate) handle: Mutex<Weak<SliceFile>>,
    pub(crate) pins: Mutex<Pins>,
    /// The bytes, in a cache without disk.
    pub(crate) memory: Option<MemoryBytes>,
    /// Length, or `UNKNOWN`: who reads a part of a slice need not know where it ends.
    len: AtomicU64,
}

/// How many hold the slice against eviction, and the bytes counted for it.
#[derive(Default)]
pub(crate) struct Pins {
    pub(crate) count: u32,
    pub(crate) bytes: u64,
}

/// What the gate protects.
pub(crate) struct Body {
    pub(crate) state: SliceState,
    pub(crate) segments: BTreeMap<u32, Segment>,
    /// Writing: exactly the bytes written.
    pub(crate) written: RangeSet,
    /// Writing: the frame that the last write left incomplete, with the checksum so far.
    pub(crate) tail: Option<Tail>,
    /// Writing and Sealed: bytes counted as dirty for this slice.
    pub(crate) dirty_bytes: u64,
}

/// The checksum of the first `upto` bytes of a frame that is being appended to.
pub(crate) struct Tail {
    pub(crate) start: u64,
    pub(crate) upto: u64,
    pub(crate) crc: u32,
}

const UNKNOWN: u64 = u64::MAX;

impl Entry {
    /// A slice without any byte yet.
    pub(crate) fn new(key: SliceKey, state: SliceState, len: Option<u64>, memory: bool) -> Arc<Self> {
        Arc::new(Entry {
            key,
            gate: RwLock::new(Body {
                state,
                segments: BTreeMap::new(),
                written: RangeSet::default(),
                tail: None,
                dirty_bytes: 0,
            }),
            gone: AtomicBool::new(false),
            handle: Mutex::new(Weak::new()),
            pins: Mutex::default(),
            memory: memory.then(MemoryBytes::default),
            len: AtomicU64::new(len.unwrap_or(UNKNOWN)),
        })
    }

    /// The length, if known.
    pub(crate) fn len(&self) -> Option<u64> {
        Some(self.len.load(Acquire)).filter(|&len| len != UNKNOWN)
    }

    /// Notes the length; false if another length is known.
    pub(crate) fn learn_len(&self, len: u64) -> bool {
        match self.len.compare_exchange(UNKNOWN, len, AcqRel, Acquire) {
            Ok(_) => true,
            Err(known) => known == len,
        }
    }

    /// `offset..offset + bytes`, if any slice, and this one, can have it.
    pub(crate) fn range(&self, offset: u64, bytes: usize) -> Result<Range<u64>, CacheError> {
        let end = offset.saturating_add(bytes as u64);
        let len = self.len().unwrap_or(MAX_SLICE_BYTES);
        if end > len {
            return Err(CacheError::OutOfRange { key: self.key, range: offset..end, len });
        }
        Ok(offset..end)
    }

    /// The refusal of `op` in the state found.
    pub(crate) fn wrong_state(&self, op: &'static str, state: SliceState) -> CacheError {
        CacheError::WrongState { key: self.key, op, state }
    }
}

impl Body {
    /// The parts of `range` whose bytes are not here.
    pub(crate) fn missing(&self, range: &Range<u64>, len: Option<u64>) -> Vec<Range<u64>> {
        match self.state {
            SliceState::Writing => self.written.gaps(range),
            // What was never written is zero from now on, and the sparse file says so.
            SliceState::Sealed => Vec::new(),
            SliceState::Gone => vec![range.clone()],
            SliceState::Clean => {
                let mut missing = Vec::new();
                for span in spans(range) {
                    let have = self.segments.get(&span.segment).map_or(0, Segment::present);
                    push_frames(&mut missing, span.segment, span.mask & !have, len);
                }
                missing
            }
        }
    }

    /// What storing the frames of `range` that are not here will occupy.
    pub(crate) fn cost_of_absent(&self, range: &Range<u64>, len: Option<u64>) -> u64 {
        spans(range)
            .map(|span| {
                let have = self.segments.get(&span.segment).map_or(0, Segment::present);
                cost(span.segment, span.mask & !have, len)
            })
            .sum()
    }

    /// What all frames here occupy.
    pub(crate) fn cost(&self, len: Option<u64>) -> u64 {
        self.segments.iter().map(|(&number, segment)| cost(number, segment.present(), len)).sum()
    }

    /// The segment, made if it is not there.
    pub(crate) fn segment_mut(&mut self, key: SliceKey, number: u32, len: Option<u64>) -> &mut Segment {
        self.segments.entry(number).or_insert_with(|| Segment::new(key, number, frames_in(number, len)))
    }

    /// Whether every frame of a slice of this length is here.
    pub(crate) fn is_complete(&self, len: u64) -> bool {
        let needed = len.div_ceil(SEGMENT_BYTES);
        self.segments.len() as u64 >= needed && self.missing(&(0..len), Some(len)).is_empty()
    }
}
