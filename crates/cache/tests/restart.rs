//! What survives a restart, a kill, a reboot, and a second process.

#![allow(
    clippy::unwrap_used,
    clippy::single_range_in_vec_init,
    reason = "helpers of tests are tests; lists of one range are meant"
)]

mod common;

use std::time::Instant;

use carafe_cache::{Cache, CacheError, FRAME_BYTES, OrphansDropped, ReadOutcome, SliceState};
use common::*;

#[test]
fn a_second_user_of_the_directory_is_refused_until_the_first_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), MIB);
    let slice = cache.create(key(1)).unwrap();
    let refused = Cache::open(config(dir.path(), MIB)).err().unwrap();
    assert!(matches!(&refused, CacheError::Busy { .. }), "{refused}");
    assert!(refused.to_string().contains("in use by another carafe process"));
    let mut other = config(dir.path(), MIB);
    other.fs_uuid = [1; 16];
    Cache::open(other).unwrap();
    drop(cache);
    assert!(Cache::open(config(dir.path(), MIB)).is_err(), "a handle still writes there");
    drop(slice);
    open(dir.path(), MIB);
}

#[test]
fn clean_slices_survive_with_their_presence_maps() {
    let dir = tempfile::tempdir().unwrap();
    let used = {
        let cache = open(dir.path(), 64 * MIB);
        written(&cache, 1, 5 * MIB + 17);
        let slice = cache.get_or_insert(key(2), None).unwrap();
        slice.fill(70 * FRAME_BYTES, &pattern(2, 3 * FRAME)).unwrap();
        slice.fill(0, &pattern(2, FRAME)).unwrap();
        slice.punch(71 * FRAME_BYTES..72 * FRAME_BYTES).unwrap();
        written(&cache, 3, 100);
        cache.remove(key(3));
        cache.stats().used_bytes
    };
    let cache = open(dir.path(), 64 * MIB);
    assert_eq!((cache.stats().used_bytes, cache.stats().entries), (used, 2));
    assert!(scan(&cache, 1, 5 * MIB + 17));
    assert!(cache.get(key(1)).unwrap().unwrap().is_complete());
    let slice = cache.get(key(2)).unwrap().unwrap();
    assert_eq!(slice.len(), None);
    let missing = [FRAME_BYTES..70 * FRAME_BYTES, 71 * FRAME_BYTES..72 * FRAME_BYTES];
    assert_eq!(slice.missing(0..73 * FRAME_BYTES), missing);
    assert!(read(&slice, 72 * FRAME, FRAME).unwrap() == pattern(2, 3 * FRAME)[2 * FRAME..]);
    assert!(cache.orphans().is_empty());
}

#[test]
fn damage_that_happened_while_nobody_looked_is_found() {
    let dir = tempfile::tempdir().unwrap();
    written(&open(dir.path(), 64 * MIB), 1, 3 * FRAME);
    flip(&slice_path(dir.path(), 1), FRAME + 1);
    // Also by a cache that checks rarely: nothing is taken as checked after a start.
    let mut config = config(dir.path(), 64 * MIB);
    config.verify_every = std::time::Duration::from_secs(3600);
    let cache = Cache::open(config).unwrap();
    let slice = cache.get(key(1)).unwrap().unwrap();
    let got = slice.read_at(0, &mut vec![0; 3 * FRAME]).unwrap();
    assert_eq!(got, ReadOutcome::Corrupt(vec![FRAME_BYTES..2 * FRAME_BYTES]));
}

#[test]
fn a_killed_writer_leaves_orphans_that_recovery_adopts_or_discards() {
    let dir = tempfile::tempdir().unwrap();
    let copied = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 64 * MIB);
    written(&cache, 1, MIB);
    let dirty = cache.create(key(2)).unwrap();
    dirty.write_at(0, &pattern(2, 300_000)).unwrap();
    dirty.write_at(400_000, &[7; 50]).unwrap();
    let sealed = cache.create(key(3)).unwrap();
    sealed.write_at(0, &pattern(3, 5000)).unwrap();
    sealed.seal(5000).unwrap();
    copy(dir.path(), copied.path());

    let next = open(copied.path(), 64 * MIB);
    assert!(scan(&next, 1, MIB));
    assert_eq!(next.orphans(), [key(2), key(3)]);
    assert!(next.get(key(2)).unwrap().is_none());
    assert!(matches!(next.create(key(2)), Err(CacheError::Exists { .. })));
    assert!(matches!(next.get_or_insert(key(2), None), Err(CacheError::Exists { .. })));
    next.drop_clean();
    let slice = next.adopt_dirty(key(2), &[0..300_000, 400_000..400_050]).unwrap();
    assert_eq!((slice.state(), slice.dirty_bytes()), (SliceState::Writing, 300_050));
    assert_eq!(slice.missing(0..400_050), [300_000..400_000]);
    slice.write_at(300_000, &[1; 10]).unwrap();
    slice.seal(400_050).unwrap();
    assert!(read(&slice, 0, 300_000).unwrap() == pattern(2, 300_000));
    slice.mark_clean().unwrap();
    let dropped = next.discard_orphans();
    assert_eq!(dropped.slices, 1);
    assert_eq!(next.stats().dirty_bytes, 0);
    assert_eq!(next.stats().entries, 1);
    assert_eq!(
        disk_bytes(copied.path()),
        std::fs::metadata(slice_path(copied.path(), 2))
            .map(|m| {
                use std::os::unix::fs::MetadataExt;
                m.blocks() * 512
            })
            .unwrap()
    );
}

#[test]
fn unsaved_bytes_that_the_disk_does_not_have_are_reported_lost() {
    let dir = tempfile::tempdir().unwrap();
    let copied = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 64 * MIB);
    cache.create(key(2)).unwrap().write_at(0, &[1; 1000]).unwrap();
    copy(dir.path(), copied.path());
    let next = open(copied.path(), 64 * MIB);
    assert!(matches!(next.adopt_dirty(key(2), &[0..1001, 3..4]), Err(CacheError::LostDirty { .. })));
    assert!(matches!(next.adopt_dirty(key(9), &[0..1, 3..4]), Err(CacheError::LostDirty { .. })));
    next.adopt_dirty(key(2), &[0..1000, 3..4]).unwrap();
    std::fs::remove_file(slice_path(copied.path(), 2)).unwrap();
    assert!(matches!(next.get(key(2)), Err(CacheError::LostDirty { .. })));
}

#[test]
fn a_clean_file_that_somebody_removed_is_fetched_again() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 64 * MIB);
    written(&cache, 1, MIB);
    std::fs::remove_file(slice_path(dir.path(), 1)).unwrap();
    assert!(cache.get(key(1)).unwrap().is_none());
    assert_eq!(cache.stats().used_bytes, 0);
    filled(&cache, 1, MIB);
    assert!(scan(&cache, 1, MIB));
}

#[test]
fn after_a_reboot_unsaved_slices_are_dropped_and_clean_ones_stay() {
    let dir = tempfile::tempdir().unwrap();
    {
        let cache = open(dir.path(), 64 * MIB);
        written(&cache, 1, MIB);
        cache.create(key(2)).unwrap().write_at(0, &[1; 100_000]).unwrap();
    }
    let mut config = config(dir.path(), 64 * MIB);
    config.boot_id = [9; 16];
    let cache = Cache::open(config).unwrap();
    assert!(cache.orphans().is_empty());
    assert_eq!(cache.stats().used_bytes, MIB as u64);
    assert!(scan(&cache, 1, MIB));
}

#[test]
fn a_smaller_cache_evicts_when_it_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    {
        let cache = open(dir.path(), 32 * MIB);
        (0..32).for_each(|n| written(&cache, n, MIB));
    }
    let cache = open(dir.path(), 8 * MIB);
    assert!(cache.stats().used_bytes <= 8 * MIB as u64 && cache.stats().entries == 8);
    assert!(disk_bytes(dir.path()) <= 8 * MIB as u64);
}

#[test]
fn a_directory_of_another_format_is_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), MIB));
    let format = dir.path().join("f5".repeat(16)).join("format");
    for (text, reason) in [
        ("carafe-cache 2\n", "this version reads"),
        ("carafe-cache 1\n1234\n", "file system"),
        ("\u{0}", "format"),
    ] {
        std::fs::write(&format, text).unwrap();
        let refused = Cache::open(config(dir.path(), MIB)).err().unwrap().to_string();
        assert!(refused.contains(reason), "{refused}");
    }
    std::fs::write(&format, [0xFF; 300]).unwrap();
    assert!(Cache::open(config(dir.path(), MIB)).is_err());
}

#[test]
fn a_damaged_index_costs_slices_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    {
        let cache = open(dir.path(), 64 * MIB);
        (0..200).for_each(|n| written(&cache, n, 5000));
    }
    let slices = dir.path().join("f5".repeat(16)).join("slices");
    for shard in std::fs::read_dir(slices).unwrap() {
        let index = shard.unwrap().path().join("index");
        let len = std::fs::metadata(&index).unwrap().len() as usize;
        flip(&index, len / 2);
    }
    let cache = open(dir.path(), 64 * MIB);
    for n in 0..200 {
        if cache.get(key(n)).unwrap().is_some() {
            assert!(scan(&cache, n, 5000));
        }
    }
    let OrphansDropped { slices, .. } = cache.discard_orphans();
    assert_eq!(slices + cache.stats().entries, 200);
    assert!(slices > 0);
    (0..200).for_each(|n| {
        assert!(filled(&cache, n, 5000) == carafe_cache::FillOutcome::Stored && scan(&cache, n, 5000))
    });
}

#[test]
fn the_index_does_not_grow_without_end() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 64 * MIB);
    written(&cache, 7, 2 * MIB);
    let index = slice_path(dir.path(), 7).parent().unwrap().join("index");
    let neighbours: Vec<u64> = (8..200_000).filter(|&n| shard(n) == shard(7)).take(3).collect();
    for i in 0..12_000 {
        let n = neighbours[i % 3];
        filled(&cache, n, 100);
        cache.remove(key(n));
    }
    let len = std::fs::metadata(&index).unwrap().len();
    assert!(len < 400 << 10, "{len}");
    drop(cache);
    assert!(scan(&open(dir.path(), 64 * MIB), 7, 2 * MIB));
}

/// The shard as documented: crc32c of uuid and number, modulo 256.
fn shard(n: u64) -> u32 {
    let mut bytes = key(n).session_uuid.to_be_bytes().to_vec();
    bytes.extend_from_slice(&n.to_be_bytes());
    crc32c::crc32c(&bytes) % 256
}

#[test]
fn twenty_thousand_slices_are_loaded_quickly() {
    let dir = tempfile::tempdir().unwrap();
    let n = 20_000;
    {
        let cache = open(dir.path(), 1 << 30);
        (0..n).for_each(|n| written(&cache, n, 8));
    }
    let start = Instant::now();
    let cache = open(dir.path(), 1 << 30);
    let took = start.elapsed();
    assert_eq!(cache.stats().entries, n);
    assert!(took.as_secs() < 2, "{took:?}");
    eprintln!("{n} slices loaded in {took:?}");
}

#[test]
fn regression_a_sealed_slice_of_nothing_but_a_hole_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let copied = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 64 * MIB);
    let slice = cache.create(key(1)).unwrap();
    slice.write_at(900_000, &[1; 10]).unwrap();
    slice.seal(800_000).unwrap();
    copy(dir.path(), copied.path());
    let next = open(copied.path(), 64 * MIB);
    let slice = next.adopt_dirty(key(1), &[0..400_000, 400_000..800_000]).unwrap();
    slice.seal(800_000).unwrap();
    assert!(read(&slice, 0, 800_000).unwrap().iter().all(|&b| b == 0));
}

#[test]
fn regression_adopting_a_slice_with_holes_keeps_the_bound() {
    let dir = tempfile::tempdir().unwrap();
    let copied = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 16 * MIB);
    let slice = cache.create(key(1)).unwrap();
    // A byte in each frame: little on disk, but whole frames once they are counted.
    let ranges: Vec<_> = (0..64).map(|i| i * FRAME_BYTES..i * FRAME_BYTES + 1).collect();
    ranges.iter().for_each(|range| slice.write_at(range.start, &[1]).unwrap());
    copy(dir.path(), copied.path());
    let next = open(copied.path(), 16 * MIB);
    for n in 10..40 {
        filled(&next, n, MIB);
    }
    next.adopt_dirty(key(1), &ranges).unwrap();
    let stats = next.stats();
    assert!(stats.used_bytes <= 16 * MIB as u64 && stats.dirty_bytes == 64, "{stats:?}");
}
