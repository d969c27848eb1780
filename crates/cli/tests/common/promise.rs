//! What has been promised about files while a daemon or a server may die at any moment.
//!
//! One call is under way at a time. Before it the ledger notes every outcome that would be right if the answer never came
//! ([`Ledger::attempt`]); when the call is acknowledged the ledger is settled. After the crash the tree must be exactly
//! what is settled, with one of the outcomes of the call that was under way, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The bytes of a file.
pub(crate) type Bytes = Arc<Vec<u8>>;

/// What was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The daemon; its cache directory is still there, so what close() accepted is promised.
    Daemon,
    /// The machine with its cache: only what fsync, rename and link promised.
    Machine,
}

/// A settled name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Dir,
    File {
        bytes: Bytes,
        /// Promised by fsync, rename or link, not by close alone.
        durable: bool,
    },
}

/// What may be found under a name.
#[derive(Debug, Clone)]
pub(crate) enum Want {
    Absent,
    Dir,
    Exact(Bytes),
    /// At least the first bytes; each one after them as written, or still zero.
    Growing {
        at_least: usize,
        of: Bytes,
    },
    /// Each byte is the old or the new one.
    Mixed(Bytes, Bytes),
    /// A file of any content: nothing was promised but its name.
    Any,
    /// Promised by close alone: as inside, or any content if the machine was lost.
    Closed(Box<Want>),
}

impl Want {
    /// What a settled name must be.
    pub(crate) fn of(node: &Node) -> Self {
        match node {
            Node::Dir => Self::Dir,
            Node::File { bytes, durable } => Self::Exact(Arc::clone(bytes)).promised_by(*durable),
        }
    }

    /// `self` if the promise outlives the machine.
    pub(crate) fn promised_by(self, durable: bool) -> Self {
        if durable { self } else { Self::Closed(Box::new(self)) }
    }
}

/// One consistent outcome of a call.
pub(crate) type Outcome = Vec<(PathBuf, Want)>;

/// What one writer may rely on.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    settled: BTreeMap<PathBuf, Node>,
    under_way: Vec<Outcome>,
    /// What happened to which name, for the message of a broken promise.
    history: Vec<(PathBuf, String)>,
}

impl Ledger {
    /// What a name is, if it is settled.
    pub(crate) fn get(&self, path: &Path) -> Option<Node> {
        self.settled.get(path).cloned()
    }

    /// Names that are files, their bytes, and whether these outlive the machine.
    pub(crate) fn files(&self) -> Vec<(PathBuf, Bytes, bool)> {
        let file = |(path, node): (&PathBuf, &Node)| match node {
            Node::File { bytes, durable } => Some((path.clone(), Arc::clone(bytes), *durable)),
            Node::Dir => None,
        };
        self.settled.iter().filter_map(file).collect()
    }

    /// Names that are directories.
    pub(crate) fn dirs(&self) -> Vec<PathBuf> {
        let dirs = self.settled.iter().filter(|(_, node)| **node == Node::Dir);
        dirs.map(|(path, _)| path.clone()).collect()
    }

    /// Everything below a directory.
    pub(crate) fn below(&self, dir: &Path) -> Vec<(PathBuf, Node)> {
        let inside = self.settled.iter().filter(|(path, _)| path.starts_with(dir) && *path != dir);
        inside.map(|(path, node)| (path.clone(), node.clone())).collect()
    }

    /// A call begins, or promises more than before; these are the outcomes that would be right from now on.
    pub(crate) fn attempt(&mut self, outcomes: Vec<Outcome>) {
        for (path, want) in outcomes.iter().flatten() {
            self.history.push((path.clone(), format!("maybe {}", name_of(want))));
        }
        self.under_way = outcomes;
    }

    /// The call was acknowledged.
    pub(crate) fn settle(&mut self, changes: Vec<(PathBuf, Option<Node>)>) {
        self.under_way.clear();
        for (path, node) in changes {
            let now = node.as_ref().map_or_else(|| "gone".to_owned(), |node| name_of(&Want::of(node)));
            self.history.push((path.clone(), format!("is {now}")));
            match node {
                Some(node) => self.settled.insert(path, node),
                None => self.settled.remove(&path),
            };
        }
    }

    /// Compares with what is below `root` now, and takes what is found as settled.
    pub(crate) fn verify(&mut self, root: &Path, loss: Loss) -> Result<(), String> {
        let result = self.compare(root, loss);
        self.history.push((PathBuf::new(), format!("verified after the loss of a {loss:?}")));
        result.map_err(|(path, what)| {
            let about = self.history.iter().filter(|(p, _)| *p == path || p.as_os_str().is_empty());
            let about: Vec<String> = about.map(|(_, event)| event.clone()).collect();
            format!("{}: {what}\n  what happened to it: {}", path.display(), about.join(", "))
        })
    }

    fn compare(&mut self, root: &Path, loss: Loss) -> Result<(), (PathBuf, String)> {
        let touched: BTreeSet<PathBuf> =
            self.under_way.iter().flatten().map(|(path, _)| path.clone()).collect();
        for (path, node) in self.settled.iter().filter(|(path, _)| !touched.contains(*path)) {
            check(root, path, &Want::of(node), loss).map_err(|what| (path.clone(), what))?;
        }
        let outcomes = std::mem::take(&mut self.under_way);
        let misfit = |outcome: &Outcome| {
            let wrong =
                |(path, want): &(PathBuf, Want)| Some((path.clone(), check(root, path, want, loss).err()?));
            outcome.iter().find_map(wrong)
        };
        let failures: Vec<(PathBuf, String)> = outcomes.iter().filter_map(misfit).collect();
        if !outcomes.is_empty() && failures.len() == outcomes.len() {
            let path = failures[0].0.clone();
            return Err((path, format!("no outcome of the call under way fits: {failures:?}")));
        }
        self.adopt(root, &touched, loss);
        match walk(root).into_iter().find(|path| !self.settled.contains_key(path)) {
            None => Ok(()),
            Some(extra) => Err((extra, "it should not exist".to_owned())),
        }
    }

    fn adopt(&mut self, root: &Path, touched: &BTreeSet<PathBuf>, loss: Loss) {
        for path in touched {
            match read(root, path) {
                Found::Absent => self.settled.remove(path),
                Found::Dir => self.settled.insert(path.clone(), Node::Dir),
                Found::File(bytes) => {
                    self.settled.insert(path.clone(), Node::File { bytes: Arc::new(bytes), durable: false })
                }
            };
        }
        // After the loss of a machine what is there has been read from store and bucket.
        if loss == Loss::Machine {
            for (path, node) in &mut self.settled {
                if let (Node::File { bytes, durable }, Found::File(found)) = (node, read(root, path)) {
                    (*bytes, *durable) = (Arc::new(found), true);
                }
            }
        }
    }
}

enum Found {
    Absent,
    Dir,
    File(Vec<u8>),
}

fn read(root: &Path, path: &Path) -> Found {
    let full = root.join(path);
    match fs::symlink_metadata(&full) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Found::Absent,
        Err(error) => panic!("stat of {}: {error}", full.display()),
        Ok(meta) if meta.is_dir() => Found::Dir,
        Ok(_) => {
            Found::File(fs::read(&full).unwrap_or_else(|error| panic!("read {}: {error}", full.display())))
        }
    }
}

fn check(root: &Path, path: &Path, want: &Want, loss: Loss) -> Result<(), String> {
    let want = match (want, loss) {
        (Want::Closed(want), Loss::Daemon) => want,
        (Want::Closed(_), Loss::Machine) => &Want::Any,
        (want, _) => want,
    };
    let wrong = |what: String| Err(what);
    match (want, read(root, path)) {
        (Want::Absent, Found::Absent) | (Want::Dir, Found::Dir) | (Want::Any, Found::File(_)) => Ok(()),
        (Want::Exact(bytes), Found::File(found)) => match first_difference(bytes, &found) {
            None => Ok(()),
            Some(at) => wrong(format!("{} bytes instead of {}, differ at {at}", found.len(), bytes.len())),
        },
        (Want::Growing { at_least, of }, Found::File(found)) => {
            if found.len() < *at_least || found.len() > of.len() {
                return wrong(format!("{} bytes, promised {at_least} of {}", found.len(), of.len()));
            }
            let late = |n: usize| n >= *at_least && found[n] == 0;
            match (0..found.len()).find(|n| found[*n] != of[*n] && !late(*n)) {
                None => Ok(()),
                Some(at) => wrong(format!("byte {at} is neither written nor zero; promised {at_least}")),
            }
        }
        (Want::Mixed(old, new), Found::File(found)) => {
            let known = |n: usize| found.get(n) == old.get(n) || found.get(n) == new.get(n);
            let same_length = found.len() == old.len() || found.len() == new.len();
            match (0..found.len()).find(|n| !known(*n)) {
                None if same_length => Ok(()),
                None => wrong(format!("{} bytes, was {}, became {}", found.len(), old.len(), new.len())),
                Some(at) => wrong(format!("byte {at} is neither the old nor the new one")),
            }
        }
        (want, found) => {
            let found = match found {
                Found::Absent => "nothing".to_owned(),
                Found::Dir => "a directory".to_owned(),
                Found::File(bytes) => format!("a file of {} bytes", bytes.len()),
            };
            wrong(format!("{found} instead of {}", name_of(want)))
        }
    }
}

fn name_of(want: &Want) -> String {
    match want {
        Want::Absent => "nothing".to_owned(),
        Want::Dir => "a directory".to_owned(),
        Want::Exact(bytes) => format!("a durable file of {} bytes", bytes.len()),
        Want::Growing { at_least, of } => format!("a file of {at_least} to {} bytes", of.len()),
        Want::Mixed(old, new) => format!("a file of {} or {} bytes", old.len(), new.len()),
        Want::Any => "a file".to_owned(),
        Want::Closed(want) => format!("closed, {}", name_of(want).replace("durable ", "")),
    }
}

fn first_difference(want: &[u8], found: &[u8]) -> Option<usize> {
    let differ = want.iter().zip(found).position(|(a, b)| a != b);
    differ.or_else(|| (want.len() != found.len()).then(|| want.len().min(found.len())))
}

fn walk(root: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(dir) = pending.pop() {
        let full = root.join(&dir);
        for entry in fs::read_dir(&full).unwrap_or_else(|error| panic!("list {}: {error}", full.display())) {
            let entry = entry.unwrap();
            let path = dir.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                pending.push(path.clone());
            }
            all.push(path);
        }
    }
    all
}
