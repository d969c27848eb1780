//! One actor of the random model: sends each step to the reference and to a mount, and compares what came back.
//!
//! With two mounts of one file system, what is promised is close-to-open for content and exactness for the rest. So:
//! 1. a handle stays on the mount that opened it;
//! 2. what was written through a handle that is still open is fsynced before the other mount is asked anything;
//! 3. a handle whose file was changed through the other mount is not read until it is opened again. Writing through it is
//!    allowed: it must change the bytes that it names and no others;
//! 4. a rename that meets a directory which the other mount has moved may say ESTALE, once: the kernel cannot bring the place of
//!    a directory up to date while it holds the lock of a rename. A look at both names cures it.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path as FsPath;
use std::sync::{Mutex, MutexGuard};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, fsync, open, statat};
use rustix::io::Errno;

use super::attr::{Clock, Moved, Probe};
use super::exec::{Outcome, Seen, Side};
use super::ops::{Op, SLOTS, Step, expand, parent};

/// The two directories of one side that an actor works in.
pub(crate) struct Roots {
    own: OwnedFd,
    shared: OwnedFd,
}

impl Roots {
    /// `case/own` and `case/shared`, which exist.
    pub(crate) fn open(case: &FsPath, own: &str) -> Result<Self, Errno> {
        let dir = |name: &str| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            open(case.join(name), flags, Mode::empty())
        };
        Ok(Self { own: dir(own)?, shared: dir("shared")? })
    }

    fn get(&self, shared: bool) -> BorrowedFd<'_> {
        if shared { self.shared.as_fd() } else { self.own.as_fd() }
    }
}

/// An open file on both sides.
struct Slot {
    reference: OwnedFd,
    mount: OwnedFd,
    via: usize,
    shared: bool,
    /// On the reference.
    ino: u64,
    is_file: bool,
    dirty: bool,
    stale: bool,
}

/// How often an operation succeeded and failed, by its name.
pub(crate) type Tally = BTreeMap<String, [u64; 2]>;

/// What is the same for all actors.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) clock: Clock,
    /// Whether the reference gives each change a time of its own.
    pub(crate) fine_times: bool,
    /// Whether the mount takes unaligned O_DIRECT; a local disk does not.
    pub(crate) direct: bool,
    pub(crate) shared: &'a Mutex<()>,
}

/// An actor.
pub(crate) struct World<'a> {
    reference: Roots,
    mounts: Vec<Roots>,
    slots: [Option<Slot>; SLOTS],
    rules: Rules<'a>,
    /// Inodes of the reference that were written by a mapping without msync: the kernel chooses when their times move.
    pub(crate) unsettled: HashSet<u64>,
    pub(crate) tally: Tally,
}

impl<'a> World<'a> {
    pub(crate) fn new(reference: Roots, mounts: Vec<Roots>, rules: Rules<'a>) -> Self {
        let slots = std::array::from_fn(|_| None);
        Self { reference, mounts, slots, rules, unsettled: HashSet::new(), tally: Tally::new() }
    }

    /// Runs one step; an error is a difference between the sides.
    pub(crate) fn step(&mut self, step: &Step) -> Result<(), String> {
        let Some((via, shared)) = self.route(step) else { return Ok(()) };
        let _guard: Option<MutexGuard<'_, ()>> =
            shared.then(|| self.rules.shared.lock().unwrap_or_else(|poison| poison.into_inner()));
        self.settle_other_mounts(via)?;
        let before = step.probe.then(|| self.probe(&step.op, via, shared));
        self.run(&step.op, via, shared)?;
        self.note_changes(&step.op, via, shared)?;
        if let Some([reference, mount]) = before {
            let [reference_after, mount_after] = self.probe(&step.op, via, shared);
            for (n, path) in self.watched(&step.op).iter().enumerate() {
                let (reference, mount) = ((&reference[n], &reference_after[n]), (&mount[n], &mount_after[n]));
                self.compare_probes(&step.op, reference, mount).map_err(|what| format!("{path}: {what}"))?;
            }
        }
        Ok(())
    }

    /// Mount and directory of a step; `None` if it has nothing to do or would ask what is not promised.
    fn route(&self, step: &Step) -> Option<(usize, bool)> {
        let slots = step.op.slots();
        let Some(first) = slots.first() else { return Some((step.via % self.mounts.len(), step.shared)) };
        let first = self.slots[*first].as_ref()?;
        let mut shared = first.shared;
        for slot in &slots[1..] {
            let slot = self.slots[*slot].as_ref()?;
            if slot.via != first.via {
                return None;
            }
            shared |= slot.shared;
        }
        let position = matches!(step.op, Op::Seek { .. });
        if first.stale && (step.op.reads_content() || position) {
            return None;
        }
        Some((first.via, shared))
    }

    fn settle_other_mounts(&mut self, via: usize) -> Result<(), String> {
        for slot in self.slots.iter_mut().flatten().filter(|slot| slot.dirty && slot.via != via) {
            fsync(&slot.mount).map_err(|error| format!("fsync before another mount looks: {error}"))?;
            slot.dirty = false;
        }
        Ok(())
    }

    fn sides(&self, via: usize, shared: bool) -> [Side<'_>; 2] {
        let slots = |of: fn(&Slot) -> &OwnedFd| {
            std::array::from_fn(|n| self.slots[n].as_ref().map(|slot| of(slot).as_fd()))
        };
        let clock = self.rules.clock;
        let reference = Side {
            root: self.reference.get(shared),
            slots: slots(|slot| &slot.reference),
            reference: true,
            direct: false,
            clock,
        };
        let mount = Side {
            root: self.mounts[via].get(shared),
            slots: slots(|slot| &slot.mount),
            reference: false,
            direct: self.rules.direct,
            clock,
        };
        [reference, mount]
    }

    fn run(&mut self, op: &Op, via: usize, shared: bool) -> Result<(), String> {
        let ok = match op {
            Op::Open { slot, path, how, mode } => {
                let [reference, mount] = self.sides(via, shared).map(|side| side.open(path, *how, *mode));
                match (reference, mount) {
                    (Ok(reference), Ok(mount)) => {
                        let stat = fstat(&reference).map_err(|error| error.to_string())?;
                        let kind = FileType::from_raw_mode(stat.st_mode);
                        let is_file = kind == FileType::RegularFile;
                        let (ino, dirty, stale) = (stat.st_ino, false, false);
                        let new = Slot { reference, mount, via, shared, ino, is_file, dirty, stale };
                        // The two ends of a fifo meet in one kernel only; two mounts stand for two machines.
                        let keep = kind != FileType::Fifo || self.mounts.len() == 1;
                        self.slots[*slot] = keep.then_some(new);
                        true
                    }
                    (Err(reference), Err(mount)) if reference == mount => false,
                    (reference, mount) => {
                        let seen = |fd: Result<OwnedFd, Errno>| fd.map(|_| Seen::Done);
                        return Err(describe(&seen(reference), &seen(mount)));
                    }
                }
            }
            Op::Close { slot } => {
                self.slots[*slot] = None;
                true
            }
            _ => {
                let [on_reference, on_mount] = self.sides(via, shared);
                let reference = on_reference.run(op);
                let mut mount = on_mount.run(op);
                if self.mounts.len() > 1 && matches!((op, &mount), (Op::Rename { .. }, Err(Errno::STALE))) {
                    let look =
                        |path| statat(on_mount.root, &*expand(path), AtFlags::SYMLINK_NOFOLLOW).is_ok();
                    let found = op.paths().into_iter().filter(|path| look(path)).count();
                    self.tally.entry(format!("ESTALE, {found} names found")).or_default()[1] += 1;
                    mount = self.sides(via, shared)[1].run(op);
                }
                if !self.same(&reference, &mount) {
                    return Err(describe(&reference, &mount));
                }
                reference.is_ok()
            }
        };
        let name = format!("{op:?}").split([' ', '{']).next().unwrap_or_default().to_owned();
        self.tally.entry(name).or_default()[usize::from(!ok)] += 1;
        Ok(())
    }

    fn same(&self, reference: &Outcome, mount: &Outcome) -> bool {
        match (reference, mount) {
            (Ok(Seen::Attr(reference, ino)), Ok(Seen::Attr(mount, _))) => {
                reference.matches(mount, self.unsettled.contains(ino))
            }
            (_, Ok(Seen::Broken(_))) => false,
            _ => reference == mount,
        }
    }

    /// Which handles are dirty now, and which have been overtaken by another mount.
    fn note_changes(&mut self, op: &Op, via: usize, shared: bool) -> Result<(), String> {
        let mut changed = None;
        if let Some(slot) = op.writes_slot().and_then(|slot| self.slots[slot].as_mut()) {
            slot.dirty = slot.is_file;
            changed = Some(slot.ino);
            if matches!(op, Op::MapWrite { sync: false, .. }) {
                if (self.mounts.len() > 1 || slot.shared) && slot.is_file {
                    let synced = fsync(&slot.reference).and(fsync(&slot.mount));
                    synced.map_err(|error| format!("fsync after a mapped write: {error}"))?;
                }
                self.unsettled.insert(slot.ino);
            }
        }
        if let Op::Fsync { slot, .. } = op
            && let Some(slot) = self.slots[*slot].as_mut()
        {
            slot.dirty = false;
        }
        if let Some(path) = op.writes_path() {
            let stat = statat(self.reference.get(shared), &*expand(path), AtFlags::empty());
            changed = stat.ok().map(|stat| stat.st_ino);
        }
        for slot in self.slots.iter_mut().flatten().filter(|slot| Some(slot.ino) == changed) {
            slot.stale |= slot.via != via;
        }
        Ok(())
    }

    /// What a probe looks at: each path, its target and its directory.
    fn watched(&self, op: &Op) -> Vec<String> {
        let around = |path| [expand(path).into_owned(), format!("{}/.", expand(parent(path)))];
        let mut watched: Vec<String> = op.paths().into_iter().flat_map(around).collect();
        watched.extend(op.slots().iter().map(|slot| format!("handle {slot}")));
        watched
    }

    fn probe(&self, op: &Op, via: usize, shared: bool) -> [Vec<Result<Probe, Errno>>; 2] {
        self.sides(via, shared).map(|side| {
            let look =
                |name: &String| match name.strip_prefix("handle ").and_then(|n| n.parse::<usize>().ok()) {
                    Some(slot) => {
                        side.slots[slot].map_or(Err(Errno::BADF), |fd| Probe::of_handle(fd, side.clock))
                    }
                    None => Probe::of_path(side.root, name, side.clock),
                };
            self.watched(op).iter().map(look).collect()
        })
    }

    fn compare_probes(
        &self,
        op: &Op,
        (reference, reference_after): (&Result<Probe, Errno>, &Result<Probe, Errno>),
        (mount, mount_after): (&Result<Probe, Errno>, &Result<Probe, Errno>),
    ) -> Result<(), String> {
        let (after, seen) = match (reference_after, mount_after) {
            (Ok(after), Ok(seen)) => (after, seen),
            (Err(after), Err(seen)) if after == seen => return Ok(()),
            (after, seen) => return Err(format!("stat gives {after:?}, on the mount {seen:?}")),
        };
        let free = self.unsettled.contains(&after.ino) || after.attr.kind == FileType::Fifo;
        if !after.attr.matches(&seen.attr, free) {
            return Err(format!("stat gives {:?}, on the mount {:?}", after.attr, seen.attr));
        }
        let (Ok(before), Ok(seen_before)) = (reference, mount) else { return Ok(()) };
        let (Some(moved), Some(seen_moved)) =
            (Moved::between(before, after)?, Moved::between(seen_before, seen)?)
        else {
            return Ok(());
        };
        let opened = matches!(op, Op::Open { .. }) && after.attr.kind == FileType::RegularFile;
        let missed = (moved.mtime && !seen_moved.mtime) || (moved.ctime && !seen_moved.ctime);
        let wrong = if self.rules.fine_times { moved != seen_moved } else { missed };
        if wrong && !free && !op.times_are_free() && !opened {
            return Err(format!("times moved {moved:?}, on the mount {seen_moved:?}"));
        }
        Ok(())
    }
}

/// Both outcomes in few words; of bytes the first that differs.
fn describe(reference: &Outcome, mount: &Outcome) -> String {
    let (Ok(Seen::Bytes(want)), Ok(Seen::Bytes(got))) = (reference, mount) else {
        return format!("expected {}, the mount gave {}", short(reference), short(mount));
    };
    let differ = want.iter().zip(got).filter(|(want, got)| want != got).count();
    let first = want.iter().zip(got).position(|(want, got)| want != got);
    let around = first.map(|at| {
        let show = |bytes: &[u8]| format!("{:02x?}", &bytes[at..bytes.len().min(at + 16)]);
        format!("{} instead of {}", show(got), show(want))
    });
    format!(
        "{} bytes instead of {}; {differ} differ, the first at {first:?}: {around:?}",
        got.len(),
        want.len()
    )
}

fn short(outcome: &Outcome) -> String {
    match outcome {
        Ok(Seen::Bytes(bytes)) => format!("{} bytes", bytes.len()),
        other => format!("{other:?}"),
    }
}
