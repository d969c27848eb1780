//! A reference model of POSIX, and random operations that are compared with it step by step.

#![allow(unreachable_pub, reason = "shared by the tests of several crates")]

use crate::common::tree::Tree;
use crate::common::*;
use carafe_meta::decorate::Call;
use carafe_meta::failing::Failing;
use carafe_meta::store::MetaStore;
use carafe_meta::{Client, ClientOptions, Lookup, RenameMode, SetAttr};
use carafe_types::{Attr, FileKind, FsError, InodeNo};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the model knows of an inode.
#[derive(Clone, Debug)]
struct Node {
    kind: FileKind,
    mode: u16,
    size: u64,
    links: u32,
    names: BTreeMap<String, u64>,
    parent: u64,
}

/// A file system of which nothing is asked but to be right.
#[derive(Default)]
struct Model {
    nodes: BTreeMap<u64, Node>,
}

impl Model {
    fn new() -> Self {
        let mut m = Model::default();
        let root = Node {
            kind: FileKind::Directory,
            mode: 0o777,
            size: 0,
            links: 2,
            names: BTreeMap::new(),
            parent: ROOT.0,
        };
        m.nodes.insert(ROOT.0, root);
        m
    }

    fn dir(&self, d: u64) -> Result<&Node, FsError> {
        let node = self.nodes.get(&d).ok_or(FsError::NotFound)?;
        if node.kind == FileKind::Directory { Ok(node) } else { Err(FsError::NotDirectory) }
    }

    fn find(&self, d: u64, n: &str) -> Result<Option<u64>, FsError> {
        Ok(self.dir(d)?.names.get(n).copied())
    }

    fn is_dir(&self, i: u64) -> bool {
        self.nodes[&i].kind == FileKind::Directory
    }

    fn unname(&mut self, d: u64, n: &str) -> u64 {
        let i = self.nodes.get_mut(&d).unwrap().names.remove(n).unwrap();
        if self.is_dir(i) {
            self.nodes.get_mut(&d).unwrap().links -= 1;
        }
        i
    }

    fn name(&mut self, d: u64, n: &str, i: u64) {
        if self.is_dir(i) {
            self.nodes.get_mut(&d).unwrap().links += 1;
            self.nodes.get_mut(&i).unwrap().parent = d;
        }
        self.nodes.get_mut(&d).unwrap().names.insert(n.to_owned(), i);
    }

    fn drop_link(&mut self, i: u64) {
        let node = self.nodes.get_mut(&i).unwrap();
        node.links -= 1;
        if node.links == 0 || node.kind == FileKind::Directory {
            self.nodes.remove(&i);
        }
    }

    fn may_create(&self, d: u64, n: &str) -> Result<(), FsError> {
        if self.find(d, n)?.is_some() { Err(FsError::Exists) } else { Ok(()) }
    }

    fn unlink(&mut self, d: u64, n: &str) -> Result<(), FsError> {
        let i = self.find(d, n)?.ok_or(FsError::NotFound)?;
        if self.is_dir(i) {
            return Err(FsError::IsDirectory);
        }
        self.unname(d, n);
        self.drop_link(i);
        Ok(())
    }

    fn rmdir(&mut self, d: u64, n: &str) -> Result<(), FsError> {
        let i = self.find(d, n)?.ok_or(FsError::NotFound)?;
        if !self.is_dir(i) {
            return Err(FsError::NotDirectory);
        }
        if !self.nodes[&i].names.is_empty() {
            return Err(FsError::NotEmpty);
        }
        self.unname(d, n);
        self.drop_link(i);
        Ok(())
    }

    fn link(&mut self, i: u64, d: u64, n: &str) -> Result<(), FsError> {
        let node = self.nodes.get(&i).ok_or(FsError::NotFound)?;
        if node.kind == FileKind::Directory {
            return Err(FsError::NotPermitted);
        }
        self.may_create(d, n)?;
        self.name(d, n, i);
        self.nodes.get_mut(&i).unwrap().links += 1;
        Ok(())
    }

    fn lies_below(&self, mut d: u64, i: u64) -> bool {
        loop {
            if d == i {
                return true;
            }
            if d == ROOT.0 {
                return false;
            }
            d = self.nodes[&d].parent;
        }
    }

    fn rename(&mut self, a: (u64, &str), b: (u64, &str), mode: RenameMode) -> Result<(), FsError> {
        self.dir(a.0)?;
        self.dir(b.0)?;
        let i = self.find(a.0, a.1)?.ok_or(FsError::NotFound)?;
        let t = self.find(b.0, b.1)?;
        match (mode, t) {
            (RenameMode::NoReplace, Some(_)) => return Err(FsError::Exists),
            (RenameMode::Exchange, None) => return Err(FsError::NotFound),
            _ => {}
        }
        if t == Some(i) {
            return Ok(());
        }
        let circle = FsError::Invalid("a directory cannot move below itself");
        if mode == RenameMode::Exchange {
            let t = t.unwrap();
            let moves = |x: u64, to: u64, from: u64| self.is_dir(x) && from != to && self.lies_below(to, x);
            if moves(i, b.0, a.0) || moves(t, a.0, b.0) {
                return Err(circle);
            }
            self.unname(a.0, a.1);
            self.unname(b.0, b.1);
            self.name(a.0, a.1, t);
            self.name(b.0, b.1, i);
            return Ok(());
        }
        match t.map(|t| (self.is_dir(i), self.is_dir(t))) {
            Some((true, false)) => return Err(FsError::NotDirectory),
            Some((false, true)) => return Err(FsError::IsDirectory),
            _ => {}
        }
        if self.is_dir(i) && a.0 != b.0 && self.lies_below(b.0, i) {
            return Err(circle);
        }
        if t.is_some_and(|t| self.is_dir(t) && !self.nodes[&t].names.is_empty()) {
            return Err(FsError::NotEmpty);
        }
        self.unname(a.0, a.1);
        if let Some(t) = t {
            self.unname(b.0, b.1);
            self.drop_link(t);
        }
        self.name(b.0, b.1, i);
        Ok(())
    }
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

struct Run {
    rng: StdRng,
    /// Now and then a commit happens and its answer is lost.
    faults: Option<Arc<Failing>>,
    model: Model,
    sessions: Vec<Arc<Client>>,
}

impl Run {
    fn any_inode(&mut self) -> u64 {
        let all: Vec<u64> = self.model.nodes.keys().copied().collect();
        all[self.rng.random_range(0..all.len())]
    }

    fn any_dir(&mut self) -> u64 {
        // Now and then something that is no directory.
        if self.rng.random_range(0..20) == 0 {
            return self.any_inode();
        }
        let dirs: Vec<u64> =
            self.model.nodes.iter().filter(|(_, n)| n.kind == FileKind::Directory).map(|(i, _)| *i).collect();
        dirs[self.rng.random_range(0..dirs.len())]
    }

    fn any_name(&mut self) -> &'static str {
        NAMES[self.rng.random_range(0..NAMES.len())]
    }

    async fn step(&mut self) {
        if let Some(failing) = self.faults.clone()
            && self.rng.random_range(0..8) == 0
        {
            failing.faults().lose_answers(Call::Commit, 1);
        }
        let c = self.sessions[self.rng.random_range(0..self.sessions.len())].clone();
        let (d, n) = (self.any_dir(), self.any_name());
        match self.rng.random_range(0..100) {
            0..=24 => self.create(&c, d, n, FileKind::Regular).await,
            25..=39 => self.create(&c, d, n, FileKind::Directory).await,
            40..=49 => {
                let got = c.unlink(&ME, InodeNo(d), &name(n)).await.map(drop);
                assert_eq!(got, self.model.unlink(d, n), "unlink {d}/{n}");
            }
            50..=56 => {
                let got = c.rmdir(&ME, InodeNo(d), &name(n)).await;
                assert_eq!(got, self.model.rmdir(d, n), "rmdir {d}/{n}");
            }
            57..=74 => self.rename(&c, d, n).await,
            75..=81 => {
                let i = self.any_inode();
                let got = c.link(&ME, InodeNo(i), InodeNo(d), &name(n)).await.map(drop);
                assert_eq!(got, self.model.link(i, d, n), "link {i} {d}/{n}");
            }
            82..=89 => self.setattr(&c).await,
            _ => self.list(&c, d).await,
        }
        self.look(d, n).await;
    }

    async fn create(&mut self, c: &Client, d: u64, n: &str, kind: FileKind) {
        let got = make(c, InodeNo(d), n, kind).await;
        match self.model.may_create(d, n) {
            Err(e) => assert_eq!(got.map(drop), Err(e), "create {d}/{n}"),
            Ok(()) => {
                let links = if kind == FileKind::Directory { 2 } else { 1 };
                let node = Node { kind, mode: 0o755, size: 0, links, names: BTreeMap::new(), parent: d };
                let ino = got.unwrap().attr.ino.0;
                assert!(self.model.nodes.insert(ino, node).is_none(), "inode {ino} was given twice");
                self.model.name(d, n, ino);
            }
        }
    }

    async fn rename(&mut self, c: &Client, d: u64, n: &str) {
        let (d2, n2) = (self.any_dir(), self.any_name());
        let modes = [RenameMode::Replace, RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange];
        let mode = modes[self.rng.random_range(0..4)];
        let got = c.rename(&ME, (InodeNo(d), &name(n)), (InodeNo(d2), &name(n2)), mode, &[]).await.map(drop);
        let want = self.model.rename((d, n), (d2, n2), mode);
        assert_eq!(got, want, "rename {d}/{n} -> {d2}/{n2} {mode:?}");
        self.look(d2, n2).await;
    }

    async fn setattr(&mut self, c: &Client) {
        let i = self.any_inode();
        let node = self.model.nodes.get_mut(&i).unwrap();
        let mut set = SetAttr { mode: Some(self.rng.random_range(0..0o1000)), ..SetAttr::default() };
        node.mode = set.mode.unwrap();
        if node.kind == FileKind::Regular {
            node.size = self.rng.random_range(0..1 << 40);
            set.size = Some(node.size);
        }
        c.setattr(&ME, InodeNo(i), &set).await.unwrap();
    }

    async fn list(&mut self, c: &Client, d: u64) {
        let want = self.model.dir(d).map(|n| n.names.clone());
        let limit = self.rng.random_range(1..8);
        let mut after = None;
        let mut got = BTreeMap::new();
        loop {
            match c.list(InodeNo(d), after.as_ref(), limit, true).await {
                Ok(page) => {
                    after = page.entries.last().map(|(e, _)| e.name.clone()).or(after);
                    for (e, attr) in page.entries {
                        self.same_attr(&attr.unwrap());
                        got.insert(e.name.to_string(), e.ino.0);
                    }
                    if page.end {
                        break;
                    }
                }
                Err(e) => return assert_eq!(Err(e), want.map(drop)),
            }
        }
        assert_eq!(Ok(got), want, "names in {d}");
    }

    /// Every session sees the same.
    async fn look(&mut self, d: u64, n: &str) {
        for c in &self.sessions {
            let want = self.model.find(d, n);
            match c.lookup(InodeNo(d), &name(n)).await {
                Ok(Lookup::Found(f)) => {
                    assert_eq!(want, Ok(Some(f.attr.ino.0)), "lookup {d}/{n}");
                    self.same_attr(&f.attr);
                }
                Ok(Lookup::Absent { .. }) => assert_eq!(want, Ok(None), "lookup {d}/{n}"),
                Err(e) => assert_eq!(want, Err(e), "lookup {d}/{n}"),
            }
        }
    }

    fn same_attr(&self, attr: &Attr) {
        let node = &self.model.nodes[&attr.ino.0];
        let size = if node.kind == FileKind::Directory { 4096 } else { node.size };
        assert_eq!(
            (attr.kind, attr.mode, attr.nlink, attr.size),
            (node.kind, node.mode, node.links, size),
            "attributes of {}",
            attr.ino
        );
    }
}

/// Random steps by `sessions` sessions that take turns; every session sees the same after each. With `lossy`, commits happen
/// now and then whose answers are lost.
pub async fn take_turns(store: Arc<dyn MetaStore>, sessions: usize, seed: u64, steps: u64, lossy: bool) {
    let failing = Arc::new(Failing::new(store.clone()));
    let mut clients = Vec::new();
    for _ in 0..sessions {
        clients.push(Client::open(failing.clone(), ClientOptions::default()).await.unwrap());
    }
    let faults = lossy.then(|| failing.clone());
    let rng = StdRng::seed_from_u64(seed);
    let mut run = Run { rng, faults, model: Model::new(), sessions: clients };
    for _ in 0..steps {
        run.step().await;
    }
    failing.faults().heal();
    for c in &run.sessions {
        c.close().await;
    }
    Tree::check(&*store).await;
}

/// Six tasks on two sessions change the same few names at the same time. No single history is expected; whatever it was,
/// the tree must be sound.
pub async fn all_at_once(store: Arc<dyn MetaStore>, seed: u64, steps: u64) {
    let mut sessions = Vec::new();
    for _ in 0..2 {
        sessions.push(Client::open(store.clone(), ClientOptions::default()).await.unwrap());
    }
    let mut tasks = Vec::new();
    for t in 0..6u64 {
        let c = sessions[(t % 2) as usize].clone();
        tasks.push(tokio::spawn(async move { storm(c, seed * 100 + t, steps).await }));
    }
    for t in tasks {
        t.await.unwrap();
    }
    for c in &sessions {
        c.close().await;
    }
    Tree::check(&*store).await;
}

async fn storm(c: Arc<Client>, seed: u64, steps: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut dirs = vec![ROOT];
    for _ in 0..steps {
        let d = dirs[rng.random_range(0..dirs.len())];
        let d2 = dirs[rng.random_range(0..dirs.len())];
        let (n, n2) = (NAMES[rng.random_range(0..6)], NAMES[rng.random_range(0..6)]);
        let result = match rng.random_range(0..9) {
            0 | 1 => make(&c, d, n, FileKind::Regular).await.map(drop),
            2 | 3 => make(&c, d, n, FileKind::Directory).await.map(|f| dirs.push(f.attr.ino)),
            4 => c.unlink(&ME, d, &name(n)).await.map(drop),
            5 => c.rmdir(&ME, d, &name(n)).await,
            6 => match c.lookup(d, &name(n)).await {
                Ok(Lookup::Found(f)) => c.link(&ME, f.attr.ino, d2, &name(n2)).await.map(drop),
                other => other.map(drop),
            },
            _ => mv(&c, (d, n), (d2, n2)).await.map(drop),
        };
        if let Err(e) = result {
            let expected = matches!(
                e,
                FsError::NotFound
                    | FsError::Exists
                    | FsError::NotEmpty
                    | FsError::NotDirectory
                    | FsError::IsDirectory
                    | FsError::NotPermitted
                    | FsError::Invalid(_)
            );
            assert!(expected, "{e}");
        }
    }
}
