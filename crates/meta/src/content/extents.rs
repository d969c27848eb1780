//! Sorted lists of extents that never overlap.

use carafe_types::record::{Extent, SEGMENT_BYTES};

/// Removes `from..to` from the list; extents that reach in are cut.
pub(crate) fn remove(list: &mut Vec<Extent>, from: u64, to: u64) {
    splice(list, from, to, None);
}

/// Puts `new` over whatever is there.
pub(crate) fn overlay(list: &mut Vec<Extent>, new: Extent) {
    splice(list, new.offset, new.end(), Some(new));
}

fn splice(list: &mut Vec<Extent>, from: u64, to: u64, new: Option<Extent>) {
    if from >= to {
        return;
    }
    let first = list.partition_point(|e| e.end() <= from);
    let last = list.partition_point(|e| e.offset < to);
    let mut middle: Vec<Extent> = Vec::with_capacity(3);
    if first < last {
        middle.extend(list[first].cut(0, from));
    }
    middle.extend(new);
    if first < last {
        middle.extend(list[last - 1].cut(to, u64::MAX));
    }
    list.splice(first..last, middle);
    join_around(list, first);
}

/// Joins neighbours near `at` that lie one behind the other in file and slice.
fn join_around(list: &mut Vec<Extent>, at: usize) {
    let mut i = at.saturating_sub(1);
    let mut steps = 0;
    while i + 1 < list.len() && steps < 4 {
        if follows(&list[i], &list[i + 1]) {
            list[i].len += list[i + 1].len;
            list.remove(i + 1);
        } else {
            i += 1;
        }
        steps += 1;
    }
}

/// Whether `b` goes on where `a` ends, in the file and in the slice.
fn follows(a: &Extent, b: &Extent) -> bool {
    a.slice == b.slice
        && a.kind == b.kind
        && a.slice_len == b.slice_len
        && a.end() == b.offset
        && a.slice_off + a.len == b.slice_off
}

/// The segment's extents appended to a list, joined where they continue the last one.
pub(crate) fn append(list: &mut Vec<Extent>, more: &[Extent]) {
    for e in more {
        match list.last_mut() {
            Some(last) if follows(last, e) => last.len += e.len,
            _ => list.push(*e),
        }
    }
}

/// Cuts an extent at the ends of segments: number of the segment and the part in it.
pub(crate) fn by_segment(e: Extent) -> impl Iterator<Item = (u64, Extent)> {
    let first = e.offset / SEGMENT_BYTES;
    let last = (e.end() - 1) / SEGMENT_BYTES;
    (first..=last).filter_map(move |segment| {
        let start = segment * SEGMENT_BYTES;
        e.cut(start, start.saturating_add(SEGMENT_BYTES)).map(|part| (segment, part))
    })
}

/// The part of a list inside `from..to`, cut to it.
pub(crate) fn window(list: &[Extent], from: u64, to: u64) -> Vec<Extent> {
    let first = list.partition_point(|e| e.end() <= from);
    list[first..].iter().take_while(|e| e.offset < to).filter_map(|e| e.cut(from, to)).collect()
}

/// Whether the list covers every byte of `from..to`.
pub(crate) fn covers(list: &[Extent], from: u64, to: u64) -> bool {
    let mut at = from;
    for e in list {
        if at >= to {
            break;
        }
        if e.offset > at {
            return false;
        }
        at = at.max(e.end());
    }
    at >= to
}
