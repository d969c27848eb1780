//! The path of a volume, and the way along it.

use super::VolumeError;
use crate::store::{Check, Key};
use crate::tx::{Op, Tx};
use carafe_types::{EntryName, FileKind, FsError, InodeNo};

/// Directories above each other that a volume may have: each is compared in the commit.
const MAX_DEPTH: usize = 100;

/// A path from the root: plain names, at least one.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) above: Vec<EntryName>,
    pub(super) name: EntryName,
}

impl Path {
    pub(super) fn parse(text: &str) -> Result<Self, VolumeError> {
        let bad = |reason: String| VolumeError::Invalid(format!("the path {text:?} {reason}"));
        let names = text.split('/').map(|part| EntryName::new(part.as_bytes()));
        let mut names: Vec<EntryName> =
            names.collect::<Result<_, _>>().map_err(|e| bad(format!("is none: {e}")))?;
        if names.len() > MAX_DEPTH {
            return Err(bad(format!("has {} names, at most {MAX_DEPTH} are possible", names.len())));
        }
        let name = names.pop().ok_or_else(|| bad("is empty".to_owned()))?;
        Ok(Path { above: names, name })
    }
}

/// How far a path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// To the directory that holds, or shall hold, its last name.
    Parent(InodeNo),
    /// To here: the directory above that is missing has this place in the path.
    Missing(InodeNo, usize),
    /// To something that is no directory, or to another volume.
    Blocked(usize),
}

/// Follows the directories above a volume. With `compare` the commit compares all of them.
pub(super) fn follow(tx: &mut Tx<'_>, path: &Path, compare: bool) -> Op<Reached> {
    let mut at = InodeNo::ROOT;
    for (place, name) in path.above.iter().enumerate() {
        if enter(tx, at, compare)? {
            return Ok(Reached::Blocked(place));
        }
        match tx.name(at, name)? {
            None => return Ok(Reached::Missing(at, place)),
            Some((FileKind::Directory, next)) => {
                if compare {
                    tx.check(Check::HasName(at, name.clone(), FileKind::Directory, next));
                }
                at = next;
            }
            Some(_) => return Ok(Reached::Blocked(place + 1)),
        }
    }
    if enter(tx, at, compare)? { Ok(Reached::Blocked(path.above.len())) } else { Ok(Reached::Parent(at)) }
}

/// Whether a volume begins at this directory.
fn enter(tx: &mut Tx<'_>, dir: InodeNo, compare: bool) -> Op<bool> {
    let guard = tx.guard(dir)?;
    if compare {
        tx.same(&Key::Inode(dir))?;
    }
    Ok(guard.quota_root && dir != InodeNo::ROOT)
}

/// Whether one of the two paths is the other or lies in it.
pub(super) fn overlap(a: &str, b: &str) -> bool {
    let inside =
        |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    inside(a, b) || inside(b, a)
}

/// Where the directory `ino` is called what the path says.
pub(super) fn find(tx: &mut Tx<'_>, path: &Path, ino: InodeNo) -> Op<Option<InodeNo>> {
    let mut at = InodeNo::ROOT;
    for name in &path.above {
        match tx.name(at, name)? {
            Some((FileKind::Directory, next)) => at = next,
            _ => return Ok(None),
        }
    }
    let there = tx.name(at, &path.name)? == Some((FileKind::Directory, ino));
    Ok(there.then_some(at))
}

/// The directory above `ino`, `None` when `ino` is gone.
pub(super) fn parent(tx: &mut Tx<'_>, ino: InodeNo) -> Op<Option<InodeNo>> {
    match tx.guard(ino) {
        Ok(guard) => Ok(Some(guard.parent)),
        Err(crate::tx::Stop::Fail(FsError::NotFound | FsError::NotDirectory)) => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_plain_names() {
        let path = Path::parse("volumes/cv1-a").unwrap();
        assert_eq!((path.above.len(), path.name.as_bytes()), (1, &b"cv1-a"[..]));
        let deep = vec!["d"; 101].join("/");
        for bad in ["", "/a", "a/", "a//b", "a/../b", ".", &deep] {
            assert!(matches!(Path::parse(bad), Err(VolumeError::Invalid(_))), "{bad}");
        }
    }

    #[test]
    fn paths_overlap_when_one_lies_in_the_other() {
        assert!(overlap("a/b", "a/b") && overlap("a", "a/b") && overlap("a/b", "a"));
        assert!(!overlap("a/bc", "a/b") && !overlap("a/b", "a/c"));
    }
}
