//! Reading for jobs: page after page, in requests of a bounded size, patient while the store is away.

use super::Client;
use crate::store::{DeadInode, DeadObject, DirEntry, Key, ListRequest, ScanPage, ScanRequest, Scanned};
use bytes::Bytes;
use carafe_types::{BucketNo, EntryName, FsResult, InodeNo, SessionNo, Timestamp};

/// Records asked for in one request.
const RECORDS: usize = 500;
/// Entries of a queue asked for in one request.
const QUEUED: usize = 5000;

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct Scanner<'a>(pub(crate) &'a Client);

impl Scanner<'_> {
    /// One page.
    pub(crate) async fn page(&self, request: &ScanRequest) -> FsResult<ScanPage> {
        let store = self.0.store();
        self.0.patiently(|_| store.scan(request)).await
    }

    /// Single records, in the order of the keys.
    pub(crate) async fn records(&self, keys: &[Key]) -> FsResult<Vec<Option<Bytes>>> {
        let mut out = Vec::with_capacity(keys.len());
        for some in keys.chunks(RECORDS) {
            let page = self.page(&ScanRequest::Records(some.to_vec())).await?;
            out.extend(page.found.into_iter().filter_map(|found| match found {
                Scanned::Record(value) => Some(value),
                _ => None,
            }));
        }
        Ok(out)
    }

    /// One record.
    pub(crate) async fn record(&self, key: Key) -> FsResult<Option<Bytes>> {
        Ok(self.records(&[key]).await?.pop().flatten())
    }

    /// At most `limit` names behind `after`.
    pub(crate) async fn names(
        &self,
        dir: InodeNo,
        after: Option<&EntryName>,
        limit: usize,
    ) -> FsResult<Vec<DirEntry>> {
        let request = ListRequest { dir, after: after.cloned(), limit };
        let page = self.page(&ScanRequest::Names(request)).await?;
        Ok(page
            .found
            .into_iter()
            .filter_map(|f| if let Scanned::Name(e) = f { Some(e) } else { None })
            .collect())
    }

    /// The next buckets from `cursor` on, and where to go on.
    pub(crate) async fn buckets(&self, cursor: u64, limit: usize) -> FsResult<(Vec<Bucket>, Option<u64>)> {
        let page = self.page(&ScanRequest::Buckets { cursor, limit }).await?;
        let bucket = |found| if let Scanned::Bucket(b, records) = found { Some((b, records)) } else { None };
        Ok((page.found.into_iter().filter_map(bucket).collect(), page.next))
    }

    /// All dead inodes, also those whose time has not come; one that is put off meanwhile may be told twice.
    pub(crate) async fn dead_inodes(&self, visit: &mut (dyn FnMut(DeadInode) + Send)) -> FsResult<()> {
        let request = |limit, from| ScanRequest::DeadInodes { limit, from: Some(from) };
        self.queue(&request, &mut |found| match found {
            Scanned::DeadInode(dead) => {
                visit(dead);
                Some(dead.due)
            }
            _ => None,
        })
        .await
    }

    /// All dead objects, in the same way.
    pub(crate) async fn dead_objects(&self, visit: &mut (dyn FnMut(DeadObject) + Send)) -> FsResult<()> {
        let request = |limit, from| ScanRequest::DeadObjects { limit, from: Some(from) };
        self.queue(&request, &mut |found| match found {
            Scanned::DeadObject(dead, due) => {
                visit(dead);
                Some(due)
            }
            _ => None,
        })
        .await
    }

    /// Follows a queue by due times. Each page begins at the time of the last entry of the one before, since others may
    /// have the same time; where more have it than fit on a page, the page grows.
    async fn queue(
        &self,
        request: &(dyn Fn(usize, Timestamp) -> ScanRequest + Sync),
        visit: &mut (dyn FnMut(Scanned) -> Option<Timestamp> + Send),
    ) -> FsResult<()> {
        let (mut from, mut limit) = (Timestamp(0), QUEUED);
        loop {
            let found = self.page(&request(limit, from)).await?.found;
            let ended = found.len() < limit;
            let last = found.into_iter().filter_map(&mut *visit).last();
            match last {
                Some(last) if !ended && last > from => (from, limit) = (last, QUEUED),
                Some(_) if !ended => limit *= 2,
                _ => return Ok(()),
            }
        }
    }

    /// The sessions that are alive.
    pub(crate) async fn alive(&self) -> FsResult<Vec<SessionNo>> {
        let store = self.0.store();
        let all = self.0.patiently(|_| store.sessions()).await?;
        Ok(all.into_iter().filter(|s| s.alive).map(|s| s.no).collect())
    }
}

/// A bucket and the records in it.
pub(crate) type Bucket = (BucketNo, Vec<(Key, Bytes)>);
