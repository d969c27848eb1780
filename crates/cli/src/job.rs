//! What `gc` and `fsck` share: a file system opened for a job, and the listing of its bucket by slices.

use crate::args::Connect;
use crate::failure::Outcome;
use crate::{bucket, store};
use carafe_meta::{Client, ClientOptions};
use carafe_object::{Bucket, ObjectId, Part, parse_key};
use carafe_types::SessionUuid;
use carafe_types::record::Superblock;
use futures::TryStreamExt;
use std::sync::Arc;

/// An open file system without a mount.
pub(crate) struct Job {
    pub(crate) superblock: Superblock,
    pub(crate) client: Arc<Client>,
    pub(crate) bucket: Bucket,
}

impl Job {
    pub(crate) async fn open(connect: &Connect, role: &str) -> Outcome<Self> {
        let secrets = connect.secrets.read()?;
        let url = store::MetaUrl::parse(&connect.meta_url)?;
        let store = store::connect(&url, &secrets, false).await?;
        let (info, superblock) = store::inspect(store.as_ref()).await?;
        // A job loses nothing that was not lost before.
        store::check_fit(&info, true)?;
        let bucket = bucket::open(&superblock, &secrets).await?;
        let options =
            ClientOptions { role: role.to_owned(), allow_volatile: true, ..ClientOptions::default() };
        let client = Client::open(store, options).await?;
        Ok(Job { superblock, client, bucket })
    }
}

/// The objects of one slice that a listing has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedSlice {
    pub(crate) session: SessionUuid,
    pub(crate) n: u64,
    /// Identity and size of each.
    pub(crate) objects: Vec<(ObjectId, u64)>,
}

impl ListedSlice {
    pub(crate) fn bytes(&self) -> u64 {
        self.objects.iter().map(|(_, size)| size).sum()
    }
}

/// What lies in the bucket besides slices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Strangers {
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
}

/// Lists the bucket and hands over its slices, some thousands at a time. Memory does not grow with the bucket: the objects
/// of a slice follow each other in a listing.
pub(crate) async fn each_slice(
    bucket: &Bucket,
    mut take: impl AsyncFnMut(Vec<ListedSlice>) -> Outcome,
) -> Outcome<Strangers> {
    const AT_ONCE: usize = 2000;
    let mut listing = bucket.list("d");
    let mut strangers = Strangers::default();
    let mut slices: Vec<ListedSlice> = Vec::new();
    while let Some(object) = listing.try_next().await? {
        let Some(id) = parse_key(&object.key) else {
            strangers.objects += 1;
            strangers.bytes += object.size;
            continue;
        };
        match slices.last_mut() {
            Some(last) if (last.session, last.n) == (id.session, id.n) => {
                last.objects.push((id, object.size))
            }
            _ => {
                if slices.len() >= AT_ONCE {
                    take(std::mem::take(&mut slices)).await?;
                }
                slices.push(ListedSlice { session: id.session, n: id.n, objects: vec![(id, object.size)] });
            }
        }
    }
    take(slices).await?;
    Ok(strangers)
}

/// The objects that a slice must have, with the payload bytes of each.
pub(crate) fn objects_of(
    session: SessionUuid,
    n: u64,
    pack: bool,
    len: u64,
    block_size: u32,
) -> Vec<(ObjectId, u64)> {
    if pack {
        return vec![(ObjectId { session, n, part: Part::Pack }, len)];
    }
    let block = u64::from(block_size);
    (0..len.div_ceil(block))
        .map(|i| (ObjectId::block(session, n, i as u32), block.min(len - i * block)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_block_of_a_slice_is_what_is_left() {
        let session = SessionUuid([1; 16]);
        let blocks = objects_of(session, 1, false, (8 << 20) + 5, 4 << 20);
        assert_eq!(blocks.iter().map(|(_, len)| *len).collect::<Vec<_>>(), [4 << 20, 4 << 20, 5]);
        assert_eq!(objects_of(session, 1, true, 77, 4 << 20).len(), 1);
    }

    #[tokio::test]
    async fn a_listing_comes_by_slices() {
        let bucket = Bucket::memory();
        let session = SessionUuid([9; 16]);
        for id in [ObjectId::block(session, 1, 0), ObjectId::block(session, 1, 1), ObjectId::pack(session, 2)]
        {
            bucket.put(&id.key(), "abc".into()).await.unwrap();
        }
        bucket.put("d/what-is-this", "x".into()).await.unwrap();
        let mut seen = Vec::new();
        let strangers = each_slice(&bucket, async |slices| {
            seen.extend(slices.into_iter().map(|s| (s.n, s.objects.len(), s.bytes())));
            Ok(())
        })
        .await
        .unwrap();
        seen.sort_unstable();
        assert_eq!(seen, [(1, 2, 6), (2, 1, 3)]);
        assert_eq!(strangers, Strangers { objects: 1, bytes: 1 });
    }
}
