//! How likely each operation is, as proptest strategies. Sizes favour the places where the layout changes: 0, the inline
//! limit (4 KiB), a page, a frame (64 KiB), a block (4 MiB).

use proptest::prelude::*;
use proptest::sample::select;

use super::ops::{Access, Alloc, Data, How, Move, Op, Path, Put, SLOTS, Step, When, Whence};

/// Names that mostly are directories, and names that mostly are not: with one set for both nearly every call would fail.
const DIRS: &[Path] = &["a", "b", "L", "a/a", "a/b", "b/a"];
const FILES: &[Path] =
    &["f", "g", "a/f", "a/g", "b/f", "b/g", "a/a/f", "a/b/f", "b/a/f", "b/a/L", "L/f", "L/L"];
/// Names that nothing begins with: for calls that want a new name.
const FRESH: &[Path] = &["h", "i", "a/h", "b/h", "a/a/h", "b/a/h", "L/h"];
const ODD: &[Path] = &[".", "X", "a/X", "a/", "b/.", "a/b/a/b"];
/// Names below the own directory only, so that no path leaves its root.
const TARGETS: &[Path] = &["a", "b", "f", "g", "a/f", "./b", "nowhere", "L", "L/L/L/L/L/L/L/L", "b/a/f"];
/// Few files, so that what is set is also read.
const LABELLED: &[Path] = &["a", "f"];
const XATTRS: &[Path] = &["user.a", "user.a", "user.a", "user.b", "trusted.c", "user.", "bad"];

fn path() -> impl Strategy<Value = Path> {
    prop_oneof![30 => select(FILES), 14 => select(DIRS), 6 => select(FRESH), 1 => select(ODD)]
}

fn dir() -> impl Strategy<Value = Path> {
    prop_oneof![12 => select(DIRS), 1 => select(FILES), 1 => select(ODD)]
}

fn file() -> impl Strategy<Value = Path> {
    prop_oneof![40 => select(FILES), 8 => select(FRESH), 2 => select(DIRS), 1 => select(ODD)]
}

fn fresh() -> impl Strategy<Value = Path> {
    prop_oneof![8 => select(FRESH), 3 => select(FILES), 1 => select(DIRS)]
}

fn labelled() -> impl Strategy<Value = Path> {
    prop_oneof![6 => select(LABELLED), 1 => path()]
}

fn slot() -> std::ops::Range<usize> {
    0..SLOTS
}

fn mode() -> impl Strategy<Value = u32> {
    select(&[0o644_u32, 0o600, 0o755, 0o777, 0o4755, 0o2755, 0o6777, 0o1777, 0o2070, 0o000, 0o444][..])
}

fn length() -> impl Strategy<Value = u32> {
    prop_oneof![
        2 => 0..2_u32,
        8 => 1..600_u32,
        4 => 4_080..4_112_u32,
        4 => 600..20_000_u32,
        2 => 65_500..65_600_u32,
        1 => 20_000..400_000_u32,
        // Rarely more than a block.
        1 => prop_oneof![20 => Just(8_192_u32), 1 => 4_194_200..5_000_000_u32],
    ]
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => Just(0_u64),
        8 => 0..6_000_u64,
        3 => 4_090..4_100_u64,
        4 => 0..300_000_u64,
        2 => 65_530..65_540_u64,
        2 => 4_194_290..4_194_310_u64,
        1 => select(&[1_u64 << 32, (1 << 40) + 5, 268_435_450][..]),
    ]
}

fn data() -> impl Strategy<Value = Data> {
    (0..=255_u8, length()).prop_map(|(seed, len)| Data { seed: if seed < 8 { 0 } else { seed }, len })
}

fn chance(percent: u32) -> impl Strategy<Value = bool> {
    (0..100_u32).prop_map(move |n| n >= 100 - percent)
}

fn how() -> impl Strategy<Value = How> {
    let access = prop_oneof![2 => Just(Access::Read), 1 => Just(Access::Write), 5 => Just(Access::Both)];
    let flags = (chance(75), chance(8), chance(12), chance(15), chance(5), chance(3), chance(8));
    (access, flags).prop_map(|(access, (create, excl, trunc, append, nofollow, directory, direct))| How {
        access,
        create,
        excl,
        trunc,
        append,
        nofollow,
        directory,
        direct,
    })
}

fn when() -> impl Strategy<Value = When> {
    let far = (5_000_000_000_i64..9_000_000_000, 0..1_000_000_000_u32);
    let past = (-2_000_000_i64..1_500_000_000, 0..1_000_000_000_u32);
    prop_oneof![
        2 => Just(When::Now),
        2 => Just(When::Omit),
        4 => past.prop_map(|(s, ns)| When::At(s, ns)),
        1 => far.prop_map(|(s, ns)| When::At(s, ns)),
    ]
}

fn handle_op() -> impl Strategy<Value = Op> {
    let whence = select(&[Whence::Start, Whence::Current, Whence::End][..]);
    let alloc = select(&[Alloc::Extend, Alloc::Keep, Alloc::Punch, Alloc::Zero, Alloc::ZeroKeep][..]);
    prop_oneof![
        2 => slot().prop_map(|slot| Op::Close { slot }),
        5 => (slot(), length()).prop_map(|(slot, len)| Op::Read { slot, len }),
        8 => (slot(), data()).prop_map(|(slot, data)| Op::Write { slot, data }),
        8 => (slot(), offset(), length()).prop_map(|(slot, at, len)| Op::Pread { slot, at, len }),
        8 => (slot(), offset(), data()).prop_map(|(slot, at, data)| Op::Pwrite { slot, at, data }),
        3 => (slot(), whence, -5_000..100_000_i64).prop_map(|(slot, whence, by)| Op::Seek { slot, whence, by }),
        3 => (slot(), offset()).prop_map(|(slot, size)| Op::Ftruncate { slot, size }),
        4 => (slot(), alloc, offset(), length())
            .prop_map(|(slot, how, at, len)| Op::Allocate { slot, how, at, len: u64::from(len) }),
        2 => (slot(), offset()).prop_map(|(slot, at)| Op::DataHole { slot, at }),
        3 => (slot(), offset(), slot(), offset(), length())
            .prop_map(|(from, from_at, to, to_at, len)| Op::Copy { from, from_at, to, to_at, len }),
        3 => (slot(), offset(), length()).prop_map(|(slot, at, len)| Op::MapRead { slot, at, len }),
        3 => (slot(), offset(), data(), any::<bool>())
            .prop_map(|(slot, at, data, sync)| Op::MapWrite { slot, at, data, sync }),
        2 => (slot(), any::<bool>()).prop_map(|(slot, data_only)| Op::Fsync { slot, data_only }),
        3 => slot().prop_map(|slot| Op::Fstat { slot }),
    ]
}

fn name_op() -> impl Strategy<Value = Op> {
    let rename = select(&[Move::Replace, Move::Replace, Move::Replace, Move::NoReplace, Move::Exchange][..]);
    prop_oneof![
        12 => (slot(), file(), how(), mode()).prop_map(|(slot, path, how, mode)| Op::Open { slot, path, how, mode }),
        5 => (file(), data()).prop_map(|(path, data)| Op::WriteFile { path, data }),
        4 => file().prop_map(|path| Op::ReadFile { path }),
        1 => (file(), offset()).prop_map(|(path, size)| Op::Truncate { path, size }),
        8 => (dir(), mode()).prop_map(|(path, mode)| Op::Mkdir { path, mode }),
        1 => dir().prop_map(|path| Op::Rmdir { path }),
        2 => file().prop_map(|path| Op::Unlink { path }),
        2 => (fresh(), select(TARGETS)).prop_map(|(path, target)| Op::Symlink { path, target }),
        1 => fresh().prop_map(|path| Op::Readlink { path }),
        3 => (file(), fresh()).prop_map(|(from, to)| Op::Link { from, to }),
        3 => (file(), prop_oneof![fresh(), file()], rename.clone()).prop_map(|(from, to, how)| Op::Rename { from, to, how }),
        2 => (path(), path(), rename).prop_map(|(from, to, how)| Op::Rename { from, to, how }),
        1 => (fresh(), any::<bool>(), mode()).prop_map(|(path, socket, mode)| Op::Mknod { path, socket, mode }),
    ]
}

fn attr_op() -> impl Strategy<Value = Op> {
    // Never neither: whether that moves a time is left open.
    let none = None::<u32>;
    let owners = [
        (Some(0_u32), none),
        (Some(1_001), none),
        (none, Some(1_001)),
        (none, Some(0)),
        (Some(65_534), Some(65_534)),
        (Some(0), Some(0)),
    ];
    let owner = select(owners.to_vec());
    let put = select(&[Put::Any, Put::Any, Put::Create, Put::Replace][..]);
    let value = (1..=255_u8, 0..200_u32).prop_map(|(seed, len)| Data { seed, len });
    prop_oneof![
        2 => (path(), mode()).prop_map(|(path, mode)| Op::Chmod { path, mode }),
        2 => (path(), owner, any::<bool>())
            .prop_map(|(path, (uid, gid), follow)| Op::Chown { path, uid, gid, follow }),
        2 => (path(), when(), when(), any::<bool>())
            .prop_map(|(path, atime, mtime, follow)| Op::Utimens { path, atime, mtime, follow }),
        3 => (labelled(), select(XATTRS), value, put)
            .prop_map(|(path, name, value, how)| Op::SetXattr { path, name, value, how }),
        2 => (labelled(), select(XATTRS), select(&[0_usize, 50, 400][..]))
            .prop_map(|(path, name, buffer)| Op::GetXattr { path, name, buffer }),
        1 => labelled().prop_map(|path| Op::ListXattr { path }),
        1 => (labelled(), select(XATTRS)).prop_map(|(path, name)| Op::RemoveXattr { path, name }),
        3 => dir().prop_map(|path| Op::List { path }),
        1 => dir().prop_map(|path| Op::ListWhileChanging { path }),
        4 => (path(), any::<bool>()).prop_map(|(path, follow)| Op::Stat { path, follow }),
        1 => Just(Op::Statfs),
        1 => dir().prop_map(|path| Op::SyncDir { path }),
    ]
}

/// One step of an actor.
pub(crate) fn step() -> impl Strategy<Value = Step> {
    let op = prop_oneof![11 => handle_op(), 9 => name_op(), 6 => attr_op()];
    (op, 0..2_usize, chance(15), chance(30)).prop_map(|(op, via, shared, probe)| Step {
        op,
        via,
        shared,
        probe,
    })
}

/// What an actor begins with, so that most calls find something: the directories, and some files. One actor does so in the
/// shared directory too.
pub(crate) fn start(shared_too: bool) -> Vec<BoxedStrategy<Step>> {
    let places = if shared_too { &[false, true][..] } else { &[false][..] };
    let mut steps = Vec::new();
    for shared in places.iter().copied() {
        let via = 0..2_usize;
        let step = move |(op, via)| Step { op, via, shared, probe: false };
        for path in DIRS {
            steps.push((Just(Op::Mkdir { path, mode: 0o755 }), via.clone()).prop_map(step).boxed());
        }
        for path in FILES.iter().step_by(2) {
            let op = data().prop_map(move |data| Op::WriteFile { path, data });
            steps.push((op, via.clone()).prop_map(step).boxed());
        }
    }
    steps
}
