//! Everything in a store compared with everything: names, links, parents, counters, owners of slices.

use super::ROOT;
use carafe_meta::format::{TRASH, UNLIMITED};
use carafe_meta::store::{Key, ListRequest, MetaStore, ScanRequest, Scanned};
use carafe_meta::volumes::SNAPSHOTS;
use carafe_types::record::{Content, DirTimes, Extent, ExtentKind, Guard, Inode, Segment};
use carafe_types::{EntryName, FileKind, InodeNo, QuotaId, SliceId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Segments that the tests use at most.
const SEGMENTS: u64 = 64;

#[derive(Default)]
pub struct Tree {
    pub files: BTreeMap<InodeNo, Inode>,
    pub dirs: BTreeMap<InodeNo, Guard>,
    pub subdirs: BTreeMap<InodeNo, i64>,
    pub names: BTreeMap<(InodeNo, EntryName), (FileKind, InodeNo)>,
}

impl Tree {
    pub async fn read(store: &dyn MetaStore) -> Self {
        let mut tree = Tree::default();
        let mut cursor = 0;
        loop {
            let page = store.scan(&ScanRequest::Buckets { cursor, limit: 100 }).await.unwrap();
            for found in page.found {
                let Scanned::Bucket(_, records) = found else { panic!("a bucket") };
                records.into_iter().for_each(|(key, value)| tree.add(key, &value));
            }
            match page.next {
                Some(next) => cursor = next,
                None => break,
            }
        }
        for dir in tree.dirs.keys() {
            let mut after = None;
            loop {
                let list = ListRequest { dir: *dir, after: after.clone(), limit: 100 };
                let page = store.scan(&ScanRequest::Names(list)).await.unwrap();
                let Some(Scanned::Name(last)) = page.found.last() else { break };
                after = Some(last.name.clone());
                for found in page.found {
                    let Scanned::Name(e) = found else { panic!("a name") };
                    tree.names.insert((*dir, e.name), (e.kind, e.ino));
                }
            }
        }
        tree
    }

    fn add(&mut self, key: Key, value: &[u8]) {
        match key {
            Key::Inode(ino) => match Guard::decode(value) {
                Ok(guard) => drop(self.dirs.insert(ino, guard)),
                Err(_) => drop(self.files.insert(ino, Inode::decode(value).unwrap())),
            },
            Key::DirSubdirs(ino) => {
                let n = std::str::from_utf8(value).unwrap().parse().unwrap();
                self.subdirs.insert(ino, n);
            }
            Key::DirTimes(_) => drop(DirTimes::decode(value).unwrap()),
            _ => {}
        }
    }

    /// Panics with what does not fit together.
    pub async fn check(store: &dyn MetaStore) {
        let tree = Self::read(store).await;
        tree.check_names();
        tree.check_quotas(store).await;
        tree.check_slices(store).await;
    }

    fn check_names(&self) {
        let mut links: BTreeMap<InodeNo, u32> = BTreeMap::new();
        let mut subdirs: BTreeMap<InodeNo, i64> = BTreeMap::new();
        for ((dir, name), (kind, ino)) in &self.names {
            if *kind == FileKind::Directory {
                let guard = self.dirs.get(ino).unwrap_or_else(|| panic!("{name} leads to no directory"));
                assert_eq!(guard.parent, *dir, "parent of {ino}");
                *subdirs.entry(*dir).or_default() += 1;
            } else {
                let inode = self.files.get(ino).unwrap_or_else(|| panic!("{name} leads to no inode {ino}"));
                assert_eq!(inode.kind, *kind);
            }
            *links.entry(*ino).or_default() += 1;
        }
        for (ino, inode) in &self.files {
            assert_eq!(inode.nlink, links.get(ino).copied().unwrap_or(0), "links of {ino}");
        }
        for (ino, guard) in &self.dirs {
            let expected = u32::from(*ino != ROOT && *ino != TRASH && *ino != SNAPSHOTS);
            assert_eq!(links.get(ino).copied().unwrap_or(0), expected, "names of directory {ino}");
            let has = self.subdirs.get(ino).copied().unwrap_or(0);
            assert_eq!(has, subdirs.get(ino).copied().unwrap_or(0), "subdirectories of {ino}");
            self.climb(guard.parent);
        }
    }

    fn climb(&self, mut at: InodeNo) {
        for _ in 0..1000 {
            let parent = self.dirs[&at].parent;
            if parent == at {
                return;
            }
            at = parent;
        }
        panic!("the directories above {at} form a circle");
    }

    /// (bytes, inodes) used of each quota, from the inodes.
    pub fn usage(&self, parents: &BTreeMap<QuotaId, Option<QuotaId>>) -> BTreeMap<QuotaId, (i64, i64)> {
        let mut used: BTreeMap<QuotaId, (i64, i64)> = BTreeMap::new();
        let files = self.files.values().filter(|i| i.nlink > 0).map(|i| (i.quota, i.size as i64));
        let special = [ROOT, TRASH, SNAPSHOTS];
        let dirs = self.dirs.iter().filter(|(i, _)| !special.contains(i)).map(|(_, g)| (g.quota, 0));
        for (quota, bytes) in files.chain(dirs) {
            let mut at = Some(quota);
            while let Some(q) = at {
                let sum = used.entry(q).or_default();
                *sum = (sum.0 + bytes, sum.1 + 1);
                at = parents.get(&q).copied().flatten();
            }
        }
        used
    }

    async fn check_quotas(&self, store: &dyn MetaStore) {
        let page = store.scan(&ScanRequest::Quotas).await.unwrap();
        let mut states = BTreeMap::new();
        let mut parents = BTreeMap::new();
        for found in page.found {
            let Scanned::Quota(id, state) = found else { panic!("a quota") };
            let record = carafe_types::record::QuotaRecord::decode(&state.record).unwrap();
            parents.insert(id, record.parent);
            states.insert(id, (record, state));
        }
        let used = self.usage(&parents);
        for (id, (record, state)) in states {
            let limit = |l: Option<u64>| l.map_or(UNLIMITED, |n| n as i64);
            let (bytes, inodes) = used.get(&id).copied().unwrap_or_default();
            let counted = limit(record.limits.bytes) - state.left_bytes - state.reserved;
            assert_eq!(counted, bytes, "bytes of quota {}", id.0);
            assert_eq!(limit(record.limits.inodes) - state.left_inodes, inodes, "inodes of quota {}", id.0);
        }
    }

    async fn check_slices(&self, store: &dyn MetaStore) {
        let mut owners: BTreeMap<SliceId, i64> = BTreeMap::new();
        let mut live: BTreeMap<SliceId, i64> = BTreeMap::new();
        let mut count = |list: &[Extent]| {
            let mut seen = BTreeSet::new();
            for e in list {
                match e.kind {
                    ExtentKind::Blocks if seen.insert(e.slice) => *owners.entry(e.slice).or_default() += 1,
                    ExtentKind::Blocks => {}
                    ExtentKind::Pack => *live.entry(e.slice).or_default() += e.len as i64,
                }
            }
        };
        for (ino, inode) in &self.files {
            match inode.content {
                Content::One(e) => count(&[e]),
                Content::Many { g } => {
                    let keys = (0..SEGMENTS).map(|segment| Key::Extents { ino: *ino, g, segment });
                    let page = store.scan(&ScanRequest::Records(keys.collect())).await.unwrap();
                    for (segment, found) in (0..).zip(page.found) {
                        let Scanned::Record(Some(bytes)) = found else { continue };
                        let list = Segment::decode(segment, &bytes).unwrap().extents;
                        assert!(!list.is_empty(), "an empty segment is kept");
                        count(&list);
                    }
                }
                _ => {}
            }
        }
        let dead =
            store.scan(&ScanRequest::DeadObjects { limit: 100_000, from: Some(Timestamp(0)) }).await.unwrap();
        let dead: BTreeSet<SliceId> = dead
            .found
            .iter()
            .map(|f| if let Scanned::DeadObject(o, _) = f { o.slice } else { panic!("an object") })
            .collect();
        for (slice, n) in &owners {
            assert!(!dead.contains(slice), "{slice} is in use and queued for deletion");
            assert_eq!(number(store, Key::SliceOwners(*slice)).await, n - 1, "owners of {slice}");
        }
        for (slice, bytes) in &live {
            assert!(!dead.contains(slice), "{slice} is in use and queued for deletion");
            assert_eq!(number(store, Key::PackLive(*slice)).await, *bytes, "live bytes of {slice}");
        }
    }
}

async fn number(store: &dyn MetaStore, key: Key) -> i64 {
    let page = store.scan(&ScanRequest::Records(vec![key])).await.unwrap();
    match &page.found[0] {
        Scanned::Record(Some(text)) => std::str::from_utf8(text).unwrap().parse().unwrap(),
        _ => 0,
    }
}

/// Slices queued for deletion.
pub async fn dead_slices(store: &dyn MetaStore) -> BTreeSet<SliceId> {
    let page =
        store.scan(&ScanRequest::DeadObjects { limit: 100_000, from: Some(Timestamp(0)) }).await.unwrap();
    let slice = |f: &Scanned| if let Scanned::DeadObject(o, _) = f { o.slice } else { panic!("an object") };
    page.found.iter().map(slice).collect()
}
