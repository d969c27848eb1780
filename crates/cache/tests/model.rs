//! Random operations against a model in memory: every byte that the cache returns is the right one, dirty bytes are never lost, the bound
//! is held, and a kill at any point loses nothing that was accepted.

#![allow(
    clippy::unwrap_used,
    clippy::single_range_in_vec_init,
    reason = "helpers of tests are tests; lists of one range are meant"
)]

mod common;

use std::collections::HashMap;

use carafe_cache::{Cache, FRAME_BYTES, FillOutcome, ReadOutcome, SliceState};
use common::*;
use proptest::prelude::*;

const SIZE: usize = 6 * MIB;
const SLICE: usize = 1_200_000;
const SLICES: u64 = 12;

#[derive(Clone, Debug)]
enum Op {
    Write { n: u64, at: usize, len: usize, seed: u64 },
    Seal { n: u64, cut: usize },
    Clean { n: u64 },
    Discard { n: u64 },
    Fill { n: u64, frame: usize, frames: usize },
    Read { n: u64, at: usize, len: usize },
    Punch { n: u64, at: usize, len: usize },
    Pin { n: u64 },
    Unpin,
    Evict,
    Damage { n: u64, at: usize },
    Reopen { kill: bool },
}

fn ops() -> impl Strategy<Value = Op> {
    let n = 0..SLICES;
    let at = 0..SLICE;
    prop_oneof![
        6 => (n.clone(), at.clone(), 1usize..200_000, any::<u64>())
            .prop_map(|(n, at, len, seed)| Op::Write { n, at, len: len.min(SLICE - at), seed: seed % 1000 }),
        2 => (n.clone(), 0usize..100_000).prop_map(|(n, cut)| Op::Seal { n, cut }),
        2 => n.clone().prop_map(|n| Op::Clean { n }),
        1 => n.clone().prop_map(|n| Op::Discard { n }),
        5 => (n.clone(), 0usize..18, 1usize..19).prop_map(|(n, frame, frames)| Op::Fill { n, frame, frames }),
        8 => (n.clone(), at.clone(), 1usize..400_000).prop_map(|(n, at, len)| Op::Read { n, at, len: len.min(SLICE - at) }),
        1 => (n.clone(), at.clone(), 1usize..200_000).prop_map(|(n, at, len)| Op::Punch { n, at, len: len.min(SLICE - at) }),
        1 => n.clone().prop_map(|n| Op::Pin { n }),
        1 => Just(Op::Unpin),
        1 => Just(Op::Evict),
        1 => (n, at).prop_map(|(n, at)| Op::Damage { n, at }),
        1 => any::<bool>().prop_map(|kill| Op::Reopen { kill }),
    ]
}

/// What a slice holds, and for one being written which bytes.
struct Slice {
    state: SliceState,
    bytes: Vec<u8>,
    written: Vec<bool>,
}

struct World {
    dir: tempfile::TempDir,
    disk: bool,
    cache: Option<Cache>,
    slices: HashMap<u64, Slice>,
    pins: Vec<carafe_cache::SlicePin>,
}

impl World {
    fn new(disk: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cache = if disk { open(dir.path(), SIZE) } else { Cache::memory(SIZE as u64) };
        World { dir, disk, cache: Some(cache), slices: HashMap::new(), pins: Vec::new() }
    }

    fn cache(&self) -> &Cache {
        self.cache.as_ref().unwrap()
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Write { n, at, len, seed } => self.write(n, at, len, seed),
            Op::Seal { n, cut } => self.seal(n, cut),
            Op::Clean { n } => {
                if let Some(slice) = self.slices.get_mut(&n).filter(|s| s.state == SliceState::Sealed) {
                    slice.state = SliceState::Clean;
                    self.cache().get(key(n)).unwrap().unwrap().mark_clean().unwrap();
                }
            }
            Op::Discard { n } => {
                self.slices.remove(&n);
                if let Some(slice) = self.cache().get(key(n)).unwrap() {
                    slice.discard();
                }
            }
            Op::Fill { n, frame, frames } => self.fill(n, frame, frames),
            Op::Read { n, at, len } => self.read(n, at, len),
            Op::Punch { n, at, len } => self.punch(n, at, len),
            Op::Pin { n } => {
                let pin = self.cache().get(key(n)).unwrap().and_then(|slice| slice.pin());
                self.pins.extend(pin);
            }
            Op::Unpin => drop(self.pins.pop()),
            Op::Evict => drop(self.cache().drop_clean().to_string()),
            Op::Damage { n, at } => self.damage(n, at),
            Op::Reopen { kill } => self.reopen(kill),
        }
        let used = self.cache().stats().used_bytes;
        assert!(used <= SIZE as u64, "{used}");
    }

    fn write(&mut self, n: u64, at: usize, len: usize, seed: u64) {
        let cache = self.cache.as_ref().unwrap();
        let slice = match self.slices.get_mut(&n) {
            None => {
                if cache.get(key(n)).unwrap().is_some() || cache.create(key(n)).is_err() {
                    return;
                }
                let new =
                    Slice { state: SliceState::Writing, bytes: vec![0; SLICE], written: vec![false; SLICE] };
                self.slices.entry(n).or_insert(new)
            }
            Some(slice) => slice,
        };
        if slice.state != SliceState::Writing {
            return;
        }
        let Ok(permit) = cache.reserve_dirty(len as u64) else { return };
        let data = pattern(seed, len);
        match cache.get(key(n)).unwrap().unwrap().write_at(at as u64, &data) {
            Ok(()) => {
                slice.bytes[at..at + len].copy_from_slice(&data);
                slice.written[at..at + len].fill(true);
            }
            // Frames are larger than bytes: many small dirty pieces may fill the cache before the permits do.
            Err(carafe_cache::CacheError::DiskFull { .. }) => {}
            Err(e) => panic!("{e}"),
        }
        drop(permit);
    }

    fn seal(&mut self, n: u64, cut: usize) {
        let cache = self.cache.as_ref().unwrap();
        let Some(slice) = self.slices.get_mut(&n).filter(|s| s.state == SliceState::Writing) else { return };
        let end = slice.written.iter().rposition(|&w| w).map_or(0, |i| i + 1).saturating_sub(cut);
        slice.bytes.truncate(end);
        slice.written.truncate(end);
        slice.state = SliceState::Sealed;
        cache.get(key(n)).unwrap().unwrap().seal(end as u64).unwrap();
    }

    /// A slice that the model does not know yet gets the bytes that "the bucket" has for it.
    fn fill(&mut self, n: u64, frame: usize, frames: usize) {
        let cache = self.cache.as_ref().unwrap();
        let slice = self.slices.entry(n).or_insert_with(|| Slice {
            state: SliceState::Clean,
            bytes: pattern(n + 5000, SLICE),
            written: Vec::new(),
        });
        if slice.state != SliceState::Clean {
            return;
        }
        let (from, to) = (frame * FRAME, ((frame + frames) * FRAME).min(slice.bytes.len()));
        if from >= to {
            return;
        }
        let open = cache.get_or_insert(key(n), None).unwrap();
        if open.fill(from as u64, &slice.bytes[from..to]).unwrap() == FillOutcome::Stored {
            // Not at once here if a frame that was here already is damaged.
            let got = read(&open, from, to - from);
            assert!(got.is_none_or(|got| got == slice.bytes[from..to]));
        }
    }

    fn read(&self, n: u64, at: usize, len: usize) {
        let Some(slice) = self.slices.get(&n) else {
            assert!(self.cache().get(key(n)).unwrap().is_none());
            return;
        };
        let Some(open) = self.cache().get(key(n)).unwrap() else {
            assert_eq!(slice.state, SliceState::Clean, "only clean slices may go");
            return;
        };
        assert_eq!(open.state(), slice.state);
        let len = len.min(slice.bytes.len().saturating_sub(at));
        if len == 0 {
            return;
        }
        let mut buf = vec![0x5A; len];
        let want = &slice.bytes[at..at + len];
        match (open.read_at(at as u64, &mut buf).unwrap(), slice.state) {
            (ReadOutcome::Bytes, SliceState::Writing) => {
                assert!(slice.written[at..at + len].iter().all(|&w| w));
                assert!(buf == want);
            }
            (ReadOutcome::Bytes, _) => assert!(buf == want),
            (ReadOutcome::Missing(ranges), SliceState::Writing) => {
                let mut holes = vec![false; len];
                ranges.iter().for_each(|r| holes[r.start as usize - at..r.end as usize - at].fill(true));
                assert!((0..len).all(|i| holes[i] != slice.written[at + i]));
            }
            (ReadOutcome::Missing(ranges) | ReadOutcome::Corrupt(ranges), SliceState::Clean) => {
                assert!(ranges.iter().all(|r| r.start.is_multiple_of(FRAME_BYTES)));
            }
            (outcome, state) => panic!("{outcome:?} of a {state:?} slice"),
        }
    }

    fn punch(&mut self, n: u64, at: usize, len: usize) {
        let cache = self.cache.as_ref().unwrap();
        let Some(slice) = self.slices.get_mut(&n) else { return };
        let Some(open) = cache.get(key(n)).unwrap() else { return };
        let len = len.min(slice.bytes.len().saturating_sub(at));
        if len == 0 {
            return;
        }
        match slice.state {
            SliceState::Writing => {
                slice.bytes[at..at + len].fill(0);
                slice.written[at..at + len].fill(false);
            }
            SliceState::Clean => {}
            _ => return,
        }
        open.punch(at as u64..(at + len) as u64).unwrap();
    }

    /// Only of clean slices: damage of dirty ones is loss, which has its own test.
    fn damage(&mut self, n: u64, at: usize) {
        let clean = self.slices.get(&n).is_some_and(|s| s.state == SliceState::Clean && at < s.bytes.len());
        if self.disk && clean && self.cache().get(key(n)).unwrap().is_some() {
            let path = slice_path(self.dir.path(), n);
            if std::fs::metadata(&path).unwrap().len() > at as u64 {
                flip(&path, at);
            }
        }
    }

    fn reopen(&mut self, kill: bool) {
        if !self.disk {
            return;
        }
        if kill {
            let copied = tempfile::tempdir().unwrap();
            copy(self.dir.path(), copied.path());
            self.dir = copied;
        }
        self.pins.clear();
        self.cache = None;
        self.cache = Some(open(self.dir.path(), SIZE));
        for (&n, slice) in &mut self.slices {
            let ranges = match slice.state {
                SliceState::Clean => continue,
                _ => runs(&slice.written),
            };
            if ranges.iter().all(|r| r.is_empty()) {
                continue;
            }
            let open = self.cache.as_ref().unwrap().adopt_dirty(key(n), &ranges).unwrap();
            if slice.state == SliceState::Sealed {
                open.seal(slice.bytes.len() as u64).unwrap();
            }
        }
        // A slice of which nothing was written has no bytes to come back, and a discarded one must not come back.
        let cache = self.cache.as_ref().unwrap();
        self.slices.retain(|&n, s| s.state == SliceState::Clean || cache.get(key(n)).unwrap().is_some());
        cache.discard_orphans();
    }
}

fn runs(written: &[bool]) -> Vec<std::ops::Range<u64>> {
    let mut runs: Vec<std::ops::Range<u64>> = Vec::new();
    for (i, _) in written.iter().enumerate().filter(|&(_, &w)| w) {
        match runs.last_mut() {
            Some(run) if run.end == i as u64 => run.end += 1,
            _ => runs.push(i as u64..i as u64 + 1),
        }
    }
    runs
}

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("MODEL_CASES").map_or(48, |n| n.parse().unwrap()), failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_cache_agrees_with_its_model(disk in any::<bool>(), ops in proptest::collection::vec(ops(), 1..80)) {
        let mut world = World::new(disk);
        for op in ops {
            world.apply(op);
        }
        world.pins.clear();
        for n in 0..SLICES {
            world.read(n, 0, SLICE);
            world.apply(Op::Discard { n });
        }
        let stats = world.cache().stats();
        prop_assert_eq!((stats.used_bytes, stats.dirty_bytes, stats.pinned_bytes, stats.entries), (0, 0, 0, 0));
        if disk {
            prop_assert_eq!(disk_bytes(world.dir.path()), 0);
        }
    }
}
