//! The bound, and who leaves to keep it.

#![allow(
    clippy::unwrap_used,
    clippy::single_range_in_vec_init,
    reason = "helpers of tests are tests; lists of one range are meant"
)]

mod common;

use carafe_cache::{Cache, CacheError, FRAME_BYTES, FillOutcome};
use common::*;

const SLICE: usize = MIB;

/// How many of the slices are here completely.
fn here(cache: &Cache, slices: std::ops::Range<u64>) -> usize {
    slices.filter(|&n| scan(cache, n, SLICE)).count()
}

fn fill_all(cache: &Cache, slices: std::ops::Range<u64>) {
    for n in slices {
        filled(cache, n, SLICE);
    }
}

fn both(size: usize, test: impl Fn(&Cache)) {
    let dir = tempfile::tempdir().unwrap();
    test(&open(dir.path(), size));
    test(&Cache::memory(size as u64));
}

#[test]
fn the_bound_is_held_on_disk_whatever_is_filled() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 16 * MIB);
    for n in 0..60 {
        assert_eq!(filled(&cache, n, SLICE + n as usize * 1000), FillOutcome::Stored);
        assert!(cache.stats().used_bytes <= 16 * MIB as u64);
        assert!(disk_bytes(dir.path()) <= 16 * MIB as u64);
    }
    assert!(cache.stats().used_bytes > 12 * MIB as u64, "not more is evicted than needed");
    assert!(cache.stats().evictions > 0);
}

#[test]
fn a_slice_larger_than_the_cache_is_kept_in_part() {
    both(16 * MIB, |cache| {
        let slice = cache.get_or_insert(key(1), None).unwrap();
        let frame = pattern(1, FRAME);
        for i in 0..1000 {
            assert_eq!(slice.fill(i * FRAME_BYTES, &frame).unwrap(), FillOutcome::Stored);
        }
        let missing: u64 = slice.missing(0..1000 * FRAME_BYTES).iter().map(|r| r.end - r.start).sum();
        let have = 1000 * FRAME_BYTES - missing;
        assert!(have <= 16 * MIB as u64 && have > 8 * MIB as u64, "{have}");
        assert!(read(&slice, 999 * FRAME, FRAME).unwrap() == frame);
    });
}

#[test]
fn a_scan_of_ten_times_the_cache_does_not_flush_what_is_hot() {
    both(64 * MIB, |cache| {
        fill_all(cache, 0..16);
        for _twice in 0..2 {
            assert_eq!(here(cache, 0..16), 16);
        }
        for n in 1000..1640 {
            filled(cache, n, SLICE);
            assert!(scan(cache, n, SLICE));
        }
        assert_eq!(here(cache, 0..16), 16, "of a hot set that was not touched during the scan");
        assert!(here(cache, 1000..1640) < 60);
    });
}

#[test]
fn what_is_used_during_a_scan_stays_although_it_came_late() {
    both(64 * MIB, |cache| {
        let mut refetched = 0;
        for n in 1000..1400 {
            filled(cache, n, SLICE);
            assert!(scan(cache, n, SLICE));
            let hot = n % 8;
            if !scan(cache, hot, SLICE) {
                refetched += 1;
                filled(cache, hot, SLICE);
                scan(cache, hot, SLICE);
            }
        }
        assert!(refetched <= 16, "{refetched} fetches of 8 hot slices in 400 uses");
    });
}

#[test]
fn a_new_hot_set_replaces_an_old_one() {
    both(32 * MIB, |cache| {
        for set in 0..4 {
            for _rounds in 0..6 {
                for n in set * 100..set * 100 + 16 {
                    if !scan(cache, n, SLICE) {
                        filled(cache, n, SLICE);
                    }
                }
            }
            assert!(here(cache, set * 100..set * 100 + 16) >= 14, "set {set}");
        }
    });
}

#[test]
fn eviction_never_touches_dirty_or_pinned_slices() {
    both(32 * MIB, |cache| {
        let dirty = cache.create(key(1)).unwrap();
        dirty.write_at(0, &pattern(1, 4 * MIB)).unwrap();
        let sealed = cache.create(key(2)).unwrap();
        sealed.write_at(0, &pattern(2, 3 * MIB)).unwrap();
        sealed.seal(3 * MIB as u64).unwrap();
        filled(cache, 3, 6 * MIB);
        let pin = cache.get(key(3)).unwrap().unwrap().pin().unwrap();
        fill_all(cache, 10..100);
        cache.drop_clean();
        assert!(scan(cache, 1, 4 * MIB) && scan(cache, 2, 3 * MIB) && scan(cache, 3, 6 * MIB));
        assert_eq!(cache.stats().used_bytes, 13 * MIB as u64);
        drop(pin);
        fill_all(cache, 10..100);
        assert!(!scan(cache, 3, 6 * MIB), "unpinned, it leaves like any other");
        assert_eq!(cache.stats().pinned_bytes, 0);
        assert!(scan(cache, 1, 4 * MIB) && scan(cache, 2, 3 * MIB));
    });
}

#[test]
fn pins_are_refused_when_they_would_leave_no_room_for_writes() {
    both(20 * MIB, |cache| {
        let pins: Vec<_> = (0..10)
            .filter_map(|n| {
                filled(cache, n, SLICE);
                cache.get(key(n)).unwrap().unwrap().pin()
            })
            .collect();
        assert_eq!(pins.len(), 8);
        for n in 100..110 {
            let slice = cache.create(key(n)).unwrap();
            slice.write_at(0, &pattern(n, SLICE)).unwrap();
        }
        assert_eq!(cache.stats().dirty_bytes, cache.stats().dirty_limit_bytes);
    });
}

#[test]
fn a_cache_full_of_dirty_bytes_refuses_fills_and_says_full_to_writes() {
    both(8 * MIB, |cache| {
        let slice = cache.create(key(1)).unwrap();
        slice.write_at(0, &pattern(1, 8 * MIB)).unwrap();
        assert_eq!(filled(cache, 2, SLICE), FillOutcome::NoRoom);
        assert!(matches!(slice.write_at(8 * MIB as u64, &[1]), Err(CacheError::DiskFull { .. })));
        slice.write_at(5, &[1; 100]).unwrap();
        slice.seal(8 * MIB as u64).unwrap();
        slice.mark_clean().unwrap();
        assert_eq!(filled(cache, 2, SLICE), FillOutcome::Stored);
    });
}

#[test]
fn dropping_the_clean_part_gives_its_bytes_back_and_open_handles_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path(), 32 * MIB);
    (0..8).for_each(|n| written(&cache, n, SLICE));
    let open = cache.get(key(0)).unwrap().unwrap();
    assert_eq!(cache.drop_clean(), 8 * SLICE as u64);
    assert_eq!((cache.stats().used_bytes, cache.stats().entries), (0, 1));
    assert_eq!(disk_bytes(dir.path()), 0);
    assert_eq!(open.missing(0..SLICE as u64), [0..SLICE as u64]);
    open.fill(0, &pattern(0, SLICE)).unwrap();
    assert!(scan(&cache, 0, SLICE));
}

#[test]
fn threads_that_fill_read_and_evict_see_right_bytes_or_none() {
    both(12 * MIB, |cache| {
        std::thread::scope(|s| {
            for t in 0..4u64 {
                s.spawn(move || {
                    for i in 0..200u64 {
                        let n = (i * 7 + t * 3) % 24;
                        let slice = cache.get_or_insert(key(n), Some(SLICE as u64)).unwrap();
                        let at = (i as usize * 5 % 16) * FRAME;
                        let want = &pattern(n, SLICE)[at..at + FRAME];
                        match read(&slice, at, FRAME) {
                            Some(got) => assert!(got == want),
                            None => assert!(slice.fill(at as u64, want).is_ok()),
                        }
                        if i % 50 == 0 {
                            cache.drop_clean();
                        }
                    }
                });
            }
        });
        assert!(cache.stats().used_bytes <= 12 * MIB as u64);
        cache.drop_clean();
        assert_eq!((cache.stats().used_bytes, cache.stats().entries), (0, 0));
    });
}
