//! One slice at a time: write, seal, clean, fill, read, damage. Everything that needs no disk runs in memory, too.

#![allow(
    clippy::unwrap_used,
    clippy::single_range_in_vec_init,
    reason = "helpers of tests are tests; lists of one range are meant"
)]

mod common;

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use carafe_cache::{Cache, CacheError, FRAME_BYTES, FillOutcome, ReadOutcome, SliceFile, SliceState};
use common::*;

/// Runs a test on disk and in memory.
fn both(test: impl Fn(&Cache)) {
    let dir = tempfile::tempdir().unwrap();
    test(&open(dir.path(), 64 * MIB));
    test(&Cache::memory(64 * MIB as u64));
}

fn outcome(slice: &SliceFile, offset: usize, len: usize) -> ReadOutcome {
    slice.read_at(offset as u64, &mut vec![0; len]).unwrap()
}

#[test]
fn written_bytes_are_read_back_in_every_state() {
    both(|cache| {
        let slice = cache.create(key(1)).unwrap();
        let data = pattern(1, 5 * MIB + 12_345);
        for (i, part) in data.chunks(100_001).enumerate() {
            slice.write_at(i as u64 * 100_001, part).unwrap();
        }
        assert!(read(&slice, 0, data.len()).unwrap() == data);
        slice.seal(data.len() as u64).unwrap();
        assert!(read(&slice, 0, data.len()).unwrap() == data);
        assert_eq!(slice.dirty_bytes(), data.len() as u64);
        slice.mark_clean().unwrap();
        assert!(slice.is_complete());
        assert!(read(&slice, 70_000, 4 * MIB).unwrap() == data[70_000..70_000 + 4 * MIB]);
        assert_eq!(cache.stats().dirty_bytes, 0);
        slice.discard();
        assert_eq!((cache.stats().entries, cache.stats().used_bytes), (0, 0));
    });
}

#[test]
fn a_read_of_bytes_never_written_says_exactly_which() {
    both(|cache| {
        let slice = cache.create(key(1)).unwrap();
        slice.write_at(10, b"0123456789").unwrap();
        slice.write_at(30, b"0123456789").unwrap();
        assert_eq!(outcome(&slice, 0, 50), ReadOutcome::Missing(vec![0..10, 20..30, 40..50]));
        assert_eq!(slice.missing(12..35), [20..30]);
        assert_eq!(read(&slice, 12, 3).unwrap(), b"234");
    });
}

#[test]
fn holes_of_a_sealed_slice_are_zeros() {
    both(|cache| {
        let slice = cache.create(key(1)).unwrap();
        slice.write_at(300_000, &[9; 1000]).unwrap();
        slice.seal(301_500).unwrap();
        let got = read(&slice, 0, 301_500).unwrap();
        assert!(got[..300_000].iter().chain(&got[301_000..]).all(|&b| b == 0));
        assert!(got[300_000..301_000].iter().all(|&b| b == 9));
        assert!(matches!(slice.read_at(301_000, &mut [0; 501]), Err(CacheError::OutOfRange { .. })));
    });
}

#[test]
fn seal_cuts_what_was_written_behind_the_end() {
    both(|cache| {
        let slice = cache.create(key(1)).unwrap();
        let data = pattern(1, 9 * MIB);
        slice.write_at(0, &data).unwrap();
        slice.seal(100_000).unwrap();
        assert_eq!(slice.dirty_bytes(), 100_000);
        assert!(read(&slice, 0, 100_000).unwrap() == data[..100_000]);
        assert_eq!(slice.frame_crc(1), Some(crc32c::crc32c(&data[FRAME..100_000])));
        assert_eq!(cache.stats().used_bytes, (FRAME + (100_000 - FRAME).next_multiple_of(4096)) as u64);
    });
}

#[test]
fn checksums_are_right_however_a_frame_was_written() {
    both(|cache| {
        let slice = cache.create(key(1)).unwrap();
        let mut model = vec![0; 6 * FRAME];
        // Appended in small pieces; whole; rewritten inside; backwards; with a hole; over two frames.
        let writes = [
            (0, FRAME / 2),
            (FRAME / 2, FRAME / 2),
            (FRAME, FRAME),
            (FRAME + 100, 5),
            (2 * FRAME + 500, FRAME - 500),
            (2 * FRAME, 500),
            (3 * FRAME, 100),
            (3 * FRAME + 200, 100),
            (4 * FRAME - 50, 100),
            (4 * FRAME + 50, 1000),
            (4 * FRAME + 1050, 10),
            (4 * FRAME + 20, 10),
        ];
        for (i, (at, len)) in writes.into_iter().enumerate() {
            let data = pattern(i as u64 * 13 + 1, len);
            slice.write_at(at as u64, &data).unwrap();
            model[at..at + len].copy_from_slice(&data);
        }
        slice.seal(model.len() as u64).unwrap();
        for frame in 0..5 {
            let want = crc32c::crc32c(&model[frame * FRAME..(frame + 1) * FRAME]);
            assert_eq!(slice.frame_crc(frame as u64), Some(want), "frame {frame}");
        }
        assert_eq!(slice.frame_crc(5), None, "a frame of nothing but a hole");
        let mut got = vec![1; model.len()];
        assert_eq!(slice.read_verified(0, &mut got).unwrap(), ReadOutcome::Bytes);
        assert!(got == model);
    });
}

#[test]
fn a_punched_part_of_a_slice_being_written_counts_as_never_written() {
    both(|cache| {
        let slice = cache.create(key(1)).unwrap();
        slice.write_at(0, &pattern(1, 4 * FRAME)).unwrap();
        slice.punch(1000..3 * FRAME_BYTES).unwrap();
        assert_eq!(slice.missing(0..4 * FRAME_BYTES), [1000..3 * FRAME_BYTES]);
        assert_eq!(slice.dirty_bytes(), 1000 + FRAME_BYTES);
        assert_eq!(cache.stats().used_bytes, 2 * FRAME_BYTES);
        slice.seal(4 * FRAME_BYTES).unwrap();
        assert!(read(&slice, 1000, 3 * FRAME - 1000).unwrap().iter().all(|&b| b == 0));
    });
}

#[test]
fn a_slice_is_filled_piece_by_piece() {
    both(|cache| {
        let len = 10 * FRAME + 100;
        let slice = cache.get_or_insert(key(2), None).unwrap();
        let data = pattern(2, len);
        assert_eq!(outcome(&slice, 5, 10), ReadOutcome::Missing(vec![0..FRAME_BYTES]));
        assert_eq!(slice.fill(0, &data[..2 * FRAME]).unwrap(), FillOutcome::Stored);
        assert_eq!(
            outcome(&slice, FRAME, 2 * FRAME),
            ReadOutcome::Missing(vec![2 * FRAME_BYTES..3 * FRAME_BYTES])
        );
        assert!(!slice.is_complete());
        slice.fill(5 * FRAME_BYTES, &data[5 * FRAME..]).unwrap();
        assert_eq!(slice.len(), Some(len as u64));
        assert_eq!(slice.missing(0..u64::MAX), [2 * FRAME_BYTES..5 * FRAME_BYTES]);
        slice.fill(0, &data).unwrap();
        assert!(slice.is_complete());
        assert!(read(&slice, 0, len).unwrap() == data);
        assert_eq!(cache.stats().used_bytes, 10 * FRAME_BYTES + 4096);
    });
}

#[test]
fn a_fill_of_parts_of_frames_is_refused() {
    both(|cache| {
        let slice = cache.get_or_insert(key(2), Some(3 * FRAME_BYTES)).unwrap();
        assert!(matches!(slice.fill(1, &[0; FRAME]), Err(CacheError::BadFill { .. })));
        assert!(matches!(slice.fill(0, &[0; 100]), Err(CacheError::BadFill { .. })));
        assert!(matches!(slice.fill(3 * FRAME_BYTES, &[0; 1]), Err(CacheError::OutOfRange { .. })));
        assert_eq!(cache.stats().used_bytes, 0);
    });
}

#[test]
fn each_state_refuses_what_does_not_belong_to_it() {
    both(|cache| {
        let slice = cache.create(key(1)).unwrap();
        assert!(matches!(cache.create(key(1)), Err(CacheError::Exists { .. })));
        assert!(matches!(slice.fill(0, &[0; FRAME]), Err(CacheError::WrongState { .. })));
        assert!(matches!(slice.mark_clean(), Err(CacheError::WrongState { .. })));
        assert!(slice.pin().is_none());
        slice.write_at(0, &[1; 10]).unwrap();
        slice.seal(10).unwrap();
        slice.seal(10).unwrap();
        assert!(matches!(slice.seal(11), Err(CacheError::WrongState { .. })));
        assert!(matches!(slice.write_at(0, &[1]), Err(CacheError::WrongState { .. })));
        assert!(matches!(slice.write_at(1 << 60, &[1]), Err(CacheError::OutOfRange { .. })));
        assert!(!cache.remove(key(1)), "dirty");
        slice.mark_clean().unwrap();
        assert!(cache.remove(key(1)));
        assert_eq!(slice.state(), SliceState::Gone);
        assert_eq!(outcome(&slice, 0, 10), ReadOutcome::Missing(vec![0..10]));
    });
}

#[test]
fn all_who_open_a_slice_share_one_handle() {
    both(|cache| {
        let slice = cache.create(key(1)).unwrap();
        assert!(Arc::ptr_eq(&slice, &cache.get(key(1)).unwrap().unwrap()));
        drop(slice);
        assert_eq!(cache.get(key(1)).unwrap().unwrap().state(), SliceState::Writing);
        assert!(cache.get(key(2)).unwrap().is_none());
    });
}

#[test]
fn a_slice_that_was_opened_and_never_filled_leaves_nothing() {
    both(|cache| {
        drop(cache.get_or_insert(key(3), None).unwrap());
        assert_eq!(cache.stats().entries, 0);
        assert!(cache.get(key(3)).unwrap().is_none());
    });
}

#[test]
fn a_flipped_bit_in_a_clean_slice_is_found_and_fetched_again() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 64 * MIB);
    let len = 5 * FRAME + 10;
    written(&cache, 1, len);
    let slice = cache.get(key(1)).unwrap().unwrap();
    let want = pattern(1, len);
    for at in [0, 2 * FRAME + 77, 5 * FRAME + 9] {
        flip(&slice_path(dir.path(), 1), at);
        let frame = at / FRAME * FRAME;
        let range = frame as u64..((frame + FRAME).min(len)) as u64;
        // Seen by a read of one byte elsewhere in the frame, too.
        assert_eq!(outcome(&slice, frame, 1), ReadOutcome::Corrupt(vec![range.clone()]));
        assert_eq!(outcome(&slice, 0, len), ReadOutcome::Missing(vec![range.clone()]));
        assert!(!slice.is_complete());
        slice.fill(range.start, &want[range.start as usize..range.end as usize]).unwrap();
        assert!(read(&slice, 0, len).unwrap() == want);
    }
    assert_eq!(cache.stats().corrupt_frames, 3);
}

#[test]
fn a_cache_file_cut_short_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 64 * MIB);
    written(&cache, 1, 4 * FRAME);
    let slice = cache.get(key(1)).unwrap().unwrap();
    slice.file().unwrap().set_len(2 * FRAME_BYTES + 10).unwrap();
    assert_eq!(
        outcome(&slice, FRAME, 3 * FRAME),
        ReadOutcome::Corrupt(vec![2 * FRAME_BYTES..4 * FRAME_BYTES])
    );
    assert!(read(&slice, 0, 2 * FRAME).is_some());
}

#[test]
fn a_flipped_bit_in_a_dirty_slice_is_an_error_and_is_never_uploaded() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path(), 64 * MIB);
    config.verify_every = std::time::Duration::from_secs(3600);
    let cache = Cache::open(config).unwrap();
    let slice = cache.create(key(1)).unwrap();
    slice.write_at(0, &pattern(1, 3 * FRAME)).unwrap();
    slice.seal(3 * FRAME_BYTES).unwrap();
    flip(&slice_path(dir.path(), 1), FRAME + 5);
    let got = slice.read_verified(0, &mut vec![0; 3 * FRAME]);
    assert!(matches!(got, Err(CacheError::DirtyCorrupt { offset: FRAME_BYTES, .. })), "{got:?}");
    slice.file().unwrap().set_len(10).unwrap();
    assert!(matches!(slice.read_at(0, &mut [0; 20]), Err(CacheError::DirtyCorrupt { offset: 10, .. })));
}

#[test]
fn a_detached_file_belongs_to_its_owner_and_counts_until_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 64 * MIB);
    written(&cache, 1, 2 * FRAME);
    let slice = cache.get(key(1)).unwrap().unwrap();
    let mut detached = slice.detach().unwrap();
    assert!(cache.get(key(1)).unwrap().is_none());
    assert_eq!(filled(&cache, 1, 2 * FRAME), FillOutcome::Stored);
    detached.file().write_all_at(&[0xEE; 3 * FRAME], 0).unwrap();
    detached.recount().unwrap();
    assert_eq!(cache.stats().used_bytes, 5 * FRAME_BYTES);
    assert!(scan(&cache, 1, 2 * FRAME), "the slice fetched again is another file");
    drop(detached);
    assert_eq!(cache.stats().used_bytes, 2 * FRAME_BYTES);
    let memory = Cache::memory(MIB as u64);
    written(&memory, 1, 10);
    assert!(matches!(memory.get(key(1)).unwrap().unwrap().detach(), Err(CacheError::NoFile { .. })));
}

#[test]
fn many_threads_read_write_and_fill_at_once() {
    both(|cache| {
        let shared = cache.get_or_insert(key(100), Some(8 * MIB as u64)).unwrap();
        let data = pattern(100, 8 * MIB);
        std::thread::scope(|s| {
            for t in 0..4 {
                let (shared, data) = (&shared, &data);
                s.spawn(move || {
                    for i in 0..128 {
                        let at = (i * 37 + t * 11) % 128 * FRAME;
                        if read(shared, at, FRAME).is_none() {
                            shared.fill(at as u64, &data[at..at + FRAME]).unwrap();
                        }
                        assert!(read(shared, at, FRAME).unwrap() == data[at..at + FRAME]);
                    }
                    written(cache, t as u64, 3 * MIB);
                    assert!(scan(cache, t as u64, 3 * MIB));
                });
            }
        });
        assert_eq!(cache.stats().used_bytes, 20 * MIB as u64);
    });
}
