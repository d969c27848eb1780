//! The journal: what comes back, what does not, and when its files go.

#![allow(
    clippy::unwrap_used,
    clippy::single_range_in_vec_init,
    reason = "helpers of tests are tests; lists of one range are meant"
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use carafe_cache::{CacheError, Journal, JournalHeader, Lsn, MAX_RECORD_BYTES, Recovered, Recovery};
use common::{BOOT, FS, copy, flip};
use proptest::prelude::*;

fn header() -> JournalHeader {
    JournalHeader { boot_id: BOOT, fs_uuid: FS, session_uuid: [5; 16], session: 77, generation: 3 }
}

fn create(dir: &Path) -> Journal {
    Journal::create(dir, header(), 4096).unwrap()
}

fn recover(dir: &Path) -> Recovered {
    match Journal::recover(dir, BOOT).unwrap() {
        Recovery::Live(found) => found,
        other => panic!("{other:?}"),
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn contents(found: &Recovered) -> Vec<(u8, Vec<u8>)> {
    found.iter().map(|record| record.map(|(record, payload)| (record.kind, payload)).unwrap()).collect()
}

#[test]
fn records_come_back_in_order_over_many_segments() {
    let dir = tempfile::tempdir().unwrap();
    let journal = create(dir.path());
    let tokens: Vec<_> = (0..100u8).map(|i| journal.append(i, &[&[i; 100], &[i], &[]]).unwrap()).collect();
    assert_eq!(tokens[99].lsn(), Lsn(100));
    assert!(journal.stats().segments > 2);
    let found = recover(dir.path());
    assert_eq!((found.header(), found.torn_tail, found.damage.len()), (Some(&header()), false, 0));
    assert_eq!(contents(&found), (0..100u8).map(|i| (i, vec![i; 101])).collect::<Vec<_>>());
    assert_eq!(found.records.iter().map(|r| r.lsn.0).collect::<Vec<_>>(), (1..=100).collect::<Vec<_>>());
}

#[test]
fn a_segment_goes_when_it_and_all_older_ones_are_released() {
    let dir = tempfile::tempdir().unwrap();
    let journal = create(dir.path());
    let mut tokens: Vec<_> = (0..8).map(|_| journal.append(1, &[&[0; 2500]]).unwrap()).collect();
    assert_eq!(journal.stats().segments, 8);
    let last = tokens.pop().unwrap();
    let first = tokens.remove(0);
    let again = first.clone();
    drop(tokens);
    drop(first);
    assert_eq!(
        (journal.stats().segments, journal.stats().oldest_live),
        (8, 1),
        "a later record may depend on the oldest"
    );
    drop(again);
    assert_eq!((journal.stats().segments, files(dir.path()).len()), (1, 1));
    drop(last);
    journal.checkpoint().unwrap();
    assert!(matches!(Journal::recover(&dir.path().join("none"), BOOT).unwrap(), Recovery::Nothing));
    assert_eq!(journal.stats().bytes, fs::metadata(&files(dir.path())[0]).unwrap().len());
    drop(journal);
    assert!(files(dir.path()).is_empty(), "nothing is left to recover");
}

#[test]
fn tokens_may_outlive_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let journal = create(dir.path());
    let token = journal.append(1, &[b"unsaved"]).unwrap();
    drop(journal);
    drop(token);
    assert_eq!(recover(dir.path()).records.len(), 1);
}

#[test]
fn a_torn_tail_ends_the_log_silently_at_every_offset() {
    let dir = tempfile::tempdir().unwrap();
    let journal = create(dir.path());
    let _tokens: Vec<_> = (0..4u8).map(|i| journal.append(i, &[&[i; 60]]).unwrap()).collect();
    let path = files(dir.path()).remove(0);
    let whole = fs::read(&path).unwrap();
    let record = 17 + 60;
    for cut in 1..record {
        let copied = tempfile::tempdir().unwrap();
        fs::write(copied.path().join(path.file_name().unwrap()), &whole[..whole.len() - cut]).unwrap();
        let found = recover(copied.path());
        assert_eq!((found.records.len(), found.torn_tail, found.damage.len()), (3, true, 0), "cut {cut}");
        // The next daemon writes behind it, and dies as well.
        let next = create(copied.path());
        let token = next.append(9, &[b"next life"]).unwrap();
        std::mem::forget(token);
        std::mem::forget(next);
        let both = recover(copied.path());
        assert_eq!((both.records.len(), both.lives.len(), both.damage.len()), (4, 2, 0), "cut {cut}");
        assert_eq!((both.records[3].lsn, both.records[3].life), (Lsn(1), 1));
    }
}

#[test]
fn a_torn_head_of_a_new_segment_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let journal = create(dir.path());
    let _token = journal.append(1, &[b"one"]).unwrap();
    let head = fs::read(&files(dir.path())[0]).unwrap();
    for cut in [0, 1, 50] {
        fs::write(dir.path().join("00000000000000ff.journal"), &head[..cut]).unwrap();
        let found = recover(dir.path());
        assert_eq!((found.records.len(), found.damage.len(), found.torn_tail), (1, 0, true));
    }
}

#[test]
fn damage_in_the_middle_is_reported_and_reading_goes_on_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let journal = create(dir.path());
    let _tokens: Vec<_> = (0..200u8).map(|i| journal.append(i, &[&[i; 60]]).unwrap()).collect();
    // In a length, in a payload, and in the last record of a segment that is not the last.
    let path = files(dir.path()).remove(1);
    let size = fs::metadata(&path).unwrap().len() as usize;
    let head = size % 77 + 77;
    for (offset, first) in [(head + 3 * 77 + 6, true), (head + 10 * 77 + 40, true), (size - 5, false)] {
        let copied = tempfile::tempdir().unwrap();
        copy(dir.path(), copied.path());
        flip(&copied.path().join(path.file_name().unwrap()), offset);
        let found = recover(copied.path());
        assert_eq!((found.records.len(), found.torn_tail), (199, false));
        // A record that is bad at the end of its segment shows at both places.
        assert_eq!(found.damage.len(), if first { 1 } else { 2 }, "{:?}", found.damage);
    }
}

#[test]
fn a_missing_segment_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let journal = create(dir.path());
    let _tokens: Vec<_> = (0..200u8).map(|i| journal.append(i, &[&[i; 60]]).unwrap()).collect();
    fs::remove_file(&files(dir.path())[1]).unwrap();
    assert_eq!(recover(dir.path()).damage.len(), 1);
    // The oldest ones missing is the usual way of things.
    fs::remove_file(&files(dir.path())[0]).unwrap();
    assert_eq!(recover(dir.path()).damage.len(), 0);
}

#[test]
fn records_of_another_boot_are_stale_and_readable() {
    let dir = tempfile::tempdir().unwrap();
    let journal = create(dir.path());
    let _token = journal.append(1, &[b"lost"]).unwrap();
    let Recovery::Stale(found) = Journal::recover(dir.path(), [1; 16]).unwrap() else { panic!() };
    assert_eq!(contents(&found), [(1, b"lost".to_vec())]);
    // A daemon of this boot that started without discarding them does not bring them back.
    let next = Journal::create(dir.path(), JournalHeader { boot_id: [1; 16], ..header() }, 4096).unwrap();
    let _token = next.append(2, &[b"new"]).unwrap();
    let Recovery::Live(found) = Journal::recover(dir.path(), [1; 16]).unwrap() else { panic!() };
    assert_eq!((contents(&found), found.stale_records), (vec![(2, b"new".to_vec())], 1));
}

#[test]
fn old_segments_stay_until_they_are_discarded_and_new_ones_survive_that() {
    let dir = tempfile::tempdir().unwrap();
    let journal = create(dir.path());
    std::mem::forget(journal.append(1, &[b"old"]).unwrap());
    std::mem::forget(journal);
    let found = recover(dir.path());
    let next = create(dir.path());
    let _token = next.append(2, &[b"new"]).unwrap();
    assert_eq!(files(dir.path()).len(), 2);
    found.discard().unwrap();
    assert_eq!(contents(&recover(dir.path())), [(2, b"new".to_vec())]);
}

#[test]
fn a_record_that_looks_like_a_record_inside_is_never_taken_for_one() {
    let dir = tempfile::tempdir().unwrap();
    let journal = create(dir.path());
    let _a = journal.append(1, &[b"x"]).unwrap();
    // What an application would write to have its own record found behind damage: everything but the unknown uuids.
    let mut forged = vec![0; 4];
    forged.extend_from_slice(&4u32.to_le_bytes());
    forged.extend_from_slice(&3u64.to_le_bytes());
    forged.extend_from_slice(b"\x09evil");
    let crc = crc32c::crc32c(&forged[4..]);
    forged[..4].copy_from_slice(&crc.to_le_bytes());
    let _b = journal.append(1, &[&forged]).unwrap();
    let _c = journal.append(1, &[b"y"]).unwrap();
    let path = files(dir.path()).remove(0);
    let size = fs::metadata(&path).unwrap().len() as usize;
    flip(&path, size - 18 - forged.len() - 5);
    let found = recover(dir.path());
    assert!(contents(&found).iter().all(|(kind, _)| *kind == 1));
    assert_eq!((found.records.len(), found.damage.len()), (2, 1));
}

#[test]
fn a_record_above_the_limit_is_refused_and_one_of_many_parts_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let journal = create(dir.path());
    let big = vec![1; MAX_RECORD_BYTES];
    assert!(matches!(journal.append(1, &[&big, &[1]]), Err(CacheError::RecordTooLarge { .. })));
    let _a = journal.append(1, &[&big]).unwrap();
    let parts: Vec<&[u8]> = (0..3000).map(|i| &big[i..i + 3]).collect();
    let _b = journal.append(2, &parts).unwrap();
    let found = recover(dir.path());
    assert_eq!(contents(&found), [(1, big), (2, vec![1; 9000])]);
}

#[test]
fn appends_of_many_threads_are_all_there_once() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::create(dir.path(), header(), 64 << 10).unwrap();
    let tokens = std::thread::scope(|s| {
        let threads: Vec<_> = (0..4u8)
            .map(|t| {
                let journal = &journal;
                s.spawn(move || {
                    (0..500u32).map(|i| journal.append(t, &[&i.to_le_bytes()]).unwrap()).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let found = contents(&recover(dir.path()));
    for t in 0..4 {
        let mine: Vec<u32> = found
            .iter()
            .filter(|(kind, _)| *kind == t)
            .map(|(_, payload)| u32::from_le_bytes(payload[..].try_into().unwrap()))
            .collect();
        assert_eq!(mine, (0..500).collect::<Vec<_>>());
    }
    drop(tokens);
    journal.checkpoint().unwrap();
    assert_eq!(journal.stats().segments, 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    /// Whatever happens to the bytes: no panic, and what is returned was appended, in that order.
    #[test]
    fn recover_of_damaged_segments_invents_nothing(
        lens in proptest::collection::vec(0usize..300, 1..60),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 1..6),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let journal = create(dir.path());
        let tokens: Vec<_> = lens.iter().enumerate().map(|(i, len)| journal.append(i as u8, &[&vec![i as u8; *len]]).unwrap()).collect();
        for (file, at, byte, what) in edits {
            let files = files(dir.path());
            let path = &files[file.index(files.len())];
            let mut bytes = fs::read(path).unwrap();
            if bytes.is_empty() { continue }
            let at = at.index(bytes.len());
            match what {
                0 => bytes[at] = byte,
                1 => bytes.truncate(at),
                _ => bytes.insert(at, byte),
            }
            fs::write(path, bytes).unwrap();
        }
        if let Recovery::Live(found) | Recovery::Stale(found) = Journal::recover(dir.path(), BOOT).unwrap() {
            let mut last = None;
            for record in found.iter() {
                let (record, payload) = record.unwrap();
                let i = record.kind as usize;
                prop_assert!(last < Some(i));
                prop_assert_eq!(payload, vec![i as u8; lens[i]]);
                last = Some(i);
            }
        }
        drop(tokens);
    }
}
