//! Journals as a dead daemon, a full disk or a bad one leave them: whatever is read back was written.
#![no_main]
use carafe_cache::{Journal, JournalHeader, Recovered, Recovery};
use libfuzzer_sys::fuzz_target;
use std::path::{Path, PathBuf};

const BOOT: [u8; 16] = [1; 16];
/// Records of a journal, by number - 1: kind and payload.
type Written = Vec<(u8, Vec<u8>)>;

fuzz_target!(|data: &[u8]| {
    carafe_vfs::check_any_record(data);
    let Some((which, data)) = data.split_first() else { return };
    let dir = tempfile::Builder::new().tempdir_in("/dev/shm").expect("a directory in memory");
    if which % 4 == 0 {
        std::fs::write(dir.path().join(format!("{:016x}.journal", 1)), data).expect("a file");
        check(dir.path(), &[]);
        return;
    }
    let middle = data.len() * usize::from(*which) / 256;
    let (records, changes) = data.split_at(middle);
    let written = write(dir.path(), records);
    change(dir.path(), changes);
    check(dir.path(), &written);
});

/// A journal in small segments, with a record of each piece.
fn write(dir: &Path, data: &[u8]) -> Written {
    let header =
        JournalHeader { boot_id: BOOT, fs_uuid: [2; 16], session_uuid: [3; 16], session: 4, generation: 5 };
    let journal = Journal::create(dir, header, 256).expect("a journal");
    let mut written = Written::new();
    let mut tokens = Vec::new();
    let mut rest = data;
    while let [kind, len, tail @ ..] = rest {
        let (payload, tail) = tail.split_at(usize::from(*len).min(tail.len()));
        tokens.push(journal.append(*kind, &[payload]).expect("an appended record"));
        written.push((*kind, payload.to_vec()));
        rest = tail;
    }
    // The daemon dies: nothing it held is dropped in order.
    std::mem::forget(tokens);
    written
}

/// Overwrites, cuts and removes: five bytes a change.
fn change(dir: &Path, changes: &[u8]) {
    for change in changes.chunks_exact(5) {
        let segments = segments(dir);
        if segments.is_empty() {
            return;
        }
        let path = &segments[usize::from(change[1]) % segments.len()];
        let mut bytes = std::fs::read(path).expect("a segment");
        let at = usize::from(u16::from_le_bytes([change[2], change[3]])) % (bytes.len() + 1);
        match change[0] % 4 {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] ^= change[4],
            2 => bytes.insert(at, change[4]),
            _ => {
                std::fs::remove_file(path).expect("a removed segment");
                continue;
            }
        }
        std::fs::write(path, bytes).expect("a changed segment");
    }
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
    all.sort();
    all
}

fn check(dir: &Path, written: &[(u8, Vec<u8>)]) {
    match Journal::recover(dir, BOOT).expect("damage is no error") {
        Recovery::Nothing => {}
        Recovery::Live(found) | Recovery::Stale(found) => check_found(&found, written),
    }
}

fn check_found(found: &Recovered, written: &[(u8, Vec<u8>)]) {
    let mut last = 0;
    for record in found.iter() {
        let (record, payload) = record.expect("what was found can be read");
        carafe_vfs::check_any_record(&payload);
        assert!(record.lsn.0 > last, "records come in order");
        last = record.lsn.0;
        if !written.is_empty() {
            let expected = &written[record.lsn.0 as usize - 1];
            assert_eq!((&record.kind, &payload), (&expected.0, &expected.1), "record {}", record.lsn.0);
        }
    }
}
